"""Puts the package outside evenhand, ``tests/plugins``, on the path as if it were installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent / "plugins"
SOURCE = Path(__file__).parent.parent / "src"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the package installed for one test."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "pixelbox"]:
        del sys.modules[name]


def evenhand(folder: Path, *arguments: str, plugins: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with the package installed or not."""
    path = [str(SOURCE), *([str(PLUGINS)] if plugins else [])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path), "COLUMNS": "100"}
    command = [sys.executable, "-m", "evenhand", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
