"""What several test files share."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

import evenhand as eh


def slow(values: Iterable[Any]) -> list[Any]:
    """Parameters for the long form of a test: ``make test`` leaves them out, ``make check-all`` does not."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists() and not os.environ.get("EVENHAND_REQUIRE_ALL"), reason="there is no /dev/full here"
)
"""A disk that is always full, as Linux has it."""


def optional(name: str) -> ModuleType:
    """Import an optional package; without it skip the test, or fail it where EVENHAND_REQUIRE_ALL is set."""
    try:
        with warnings.catch_warnings():
            # What a package says while it is imported is not ours to mend.
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("EVENHAND_REQUIRE_ALL"):
            pytest.fail(f"EVENHAND_REQUIRE_ALL is set, but {name} cannot be imported: {error}")
        pytest.skip(f"{name} is not installed")


ROOT = Path(__file__).parent.parent


def source_environment(**extra: str) -> dict[str, str]:
    """The environment of another process that is to import this tree, wherever the package is installed from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **extra}


def plugin_environment() -> dict[str, str]:
    """What tells pytest in another process of our plugin, where the package was installed before it had one."""
    installed = any(entry.value == "evenhand.pytest_plugin" for entry in metadata.entry_points(group="pytest11"))
    return {} if installed else {"PYTEST_PLUGINS": "evenhand.pytest_plugin"}


def in_blocks(chunk: int, *given: Any, **settings: Any) -> eh.Estimate:
    """Estimate in blocks of so many rows."""
    with mock.patch.object(importlib.import_module("evenhand.estimates.estimate"), "CHUNK", chunk):
        return eh.estimate(*given, **settings)


def with_settings(model: Any, space: Any, population: Any = None, *, data: Any = None, **flat: Any) -> eh.Estimate:
    """Estimate with settings that are given one by one, as flags are."""

    def taken(*names: str) -> dict[str, Any]:
        return {name: flat.pop(name) for name in names if name in flat}

    settings = {"interval": taken("interval").get("interval"), **taken("experiments", "tolerance", "repeats")}
    interval = eh.Interval(settings.pop("interval"), **settings)
    stop = eh.StopRule(**taken("half_width", "seconds", "when", "cancel"))
    population = population or ("uniform" if space.supports("attributes") else "data")
    chosen = eh.populations.named(population, data, **taken("weights", "about", "steps", "exact"))
    return in_blocks(flat.pop("chunk", 16_384), model, space, chosen, interval=interval, stop=stop, **flat)
