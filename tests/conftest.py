"""Settings for all tests."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.helpers import optional

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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = optional("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("EVENHAND_REQUIRE_ALL"):
            pytest.fail("EVENHAND_REQUIRE_ALL is set, but there is no Chromium")
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        # A container's root may not have a sandbox.
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


AXE = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""Where ``make test-slow`` puts it."""


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which npm installs; it looks for barriers to people who cannot see or point."""
    if not AXE.exists():
        if os.environ.get("EVENHAND_REQUIRE_ALL"):
            pytest.fail(f"EVENHAND_REQUIRE_ALL is set, but there is no {AXE}: make test-slow installs it")
        pytest.skip("axe-core is not installed: make test-slow does that")
    return AXE.read_text("utf-8")
