"""The GitHub action: it installs this repository's evenhand, and returns every exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import optional

STUB = """#!/bin/bash
printf '%s|' "$@"
exit "$STUB_STATUS"
"""


@pytest.fixture
def steps() -> dict[str, Any]:
    yaml = optional("yaml")
    action = yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text())
    return {step.get("name", step.get("uses")): step for step in action["runs"]["steps"]}


def run(step: dict[str, Any], folder: Path, program: str, **variables: str) -> Any:
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    stub = folder / program
    stub.write_text(STUB)
    stub.chmod(0o755)
    known = dict.fromkeys(step["env"], "") | variables
    files = {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(script, env={**known, **files, "PATH": path}, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("given", "installed"),
    [({}, "/act"), ({"EXTRAS": "onnx"}, "/act[onnx]"), ({"VERSION": "evenhand==0.1.0"}, "evenhand==0.1.0")],
)
def test_the_evenhand_of_the_tag_is_installed(
    steps: dict[str, Any], tmp_path: Path, given: dict[str, str], installed: str
) -> None:
    assert steps["Install evenhand"]["env"]["HERE"] == "${{ github.action_path }}"
    done = run(steps["Install evenhand"], tmp_path, "python", HERE="/act", STUB_STATUS="0", **given)
    assert done.stdout == f"-m|pip|install|--quiet|{installed}|"


@pytest.mark.parametrize(
    ("command", "status", "ended", "said"),
    [
        ("audit", 1, 0, "audit|e.toml|--directory|d/run|--fail-above|5%|"),
        ("audit", 2, 2, "audit|"),
        ("estimate", 1, 0, "estimate|e.toml|--fail-above|5%|"),
        ("estimate", 3, 0, "estimate|"),
        ("estimate", 2, 2, "estimate|"),
        ("repair; rm -rf x", 2, 2, ""),
    ],
)
def test_every_verdict_comes_through(
    steps: dict[str, Any], tmp_path: Path, command: str, status: int, ended: int, said: str
) -> None:
    more = {"COMMAND": command, "CONFIG": "e.toml", "ARGUMENTS": "--fail-above 5%", "DIRECTORY": "d"}
    done = run(steps["Run evenhand"], tmp_path, "evenhand", STUB_STATUS=str(status), **more)
    assert done.returncode == ended, done.stderr
    assert done.stdout.startswith(said)
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    assert (tmp_path / "summary").exists() == (command == "estimate")
    last = run(
        steps["Report whether it is within the limit"], tmp_path, "evenhand", STATUS=str(status), STUB_STATUS="0"
    )
    assert last.returncode == status
