"""Settings for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure, so there are no deadlines. Continuous integration tries the same examples every time;
# on a developer's machine every run tries new ones.
settings.register_profile("evenhand", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("evenhand")

collect_ignore = ["plugins"]
"""A package of its own, which tests put on the path where they want it."""

HEAVY = {"test_keras.py", "test_transformers.py"}
"""Files whose tests are all slow, and that import large packages."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import large packages where their tests do not run."""
    return True if config.getoption("markexpr") == "not slow" and collection_path.name in HEAVY else None


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as Python handles it, whatever the tests were started under."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
