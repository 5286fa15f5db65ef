"""The command: a real server with its workers, and the lines of the documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, source_environment
from tests.service.conftest import Server

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "how-to" / "serve.md"


def lines_of_curl() -> str:
    """The page's second block of commands."""
    block = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    lines = block.strip().splitlines()
    assert sum(line != "END" for line in lines) <= 12
    return str(block)


def test_the_lines_of_the_page(serve: Callable[..., Server], credit: Path) -> None:
    server = serve()
    script = lines_of_curl().replace("http://127.0.0.1:8000", server.url)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=credit, capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert "event: end" in done.stdout
    assert '"sentence"' in done.stdout
    assert "<h1" in (credit / "report.html").read_text("utf-8")
    assert server.end() == "evenhand: interrupted\n"


def test_accounts_come_first(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenhand", "serve", "--directory", str(tmp_path / "service")]

    def call(*flags: str, given: str = "") -> Any:
        return subprocess.run(
            [*command, *flags], input=given, capture_output=True, text=True, check=False, env=source_environment()
        )

    refused = call("--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "--add-account" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert call("--add-account", "ada", given="short\n").returncode == 2
    added = call("--add-account", "ada", "--team", "credit", given="a long password\n")
    assert (added.returncode, added.stdout) == (0, "added ada: admin of team credit\n")
    assert "a long password" not in added.stdout + added.stderr
    server = Server(tmp_path / "service", "--host", "0.0.0.0", "--workers", "0")
    try:
        status = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/api/v1/projects"]
        assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == "401"
    finally:
        server.end()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'fastapi': raise ModuleNotFoundError(name)\n"
        "import importlib.util; found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'fastapi' else found(name, *a)\n"
    )
    environment = source_environment()
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "evenhand", "serve"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert "pip install 'evenhand[service]'" in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert shutil.which("curl")
