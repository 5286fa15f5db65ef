"""A small table of people, and the command without a new process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.cli.app import app

PEOPLE = """\
age,hours,work,sex,paid
20,40,clerk,F,low
35,50,nurse,M,high
45,20,clerk,M,low
39,30,boss,F,high
"""
MODELS = "tests.cli.models"
Command = Callable[..., Any]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE)
    return path


@pytest.fixture
def evenhand() -> Command:
    def call(*arguments: object, width: int = 100) -> Any:
        return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": str(width)}, prog_name="evenhand")

    return call


@pytest.fixture
def audit(evenhand: Command, people: Path) -> Command:
    """Audit a model of ``models.py`` on the people, by sex."""

    def call(model: str, *arguments: object) -> Any:
        given = ["--data", people, "--target", "paid", "--protected", "sex"]
        return evenhand("audit", "--model", f"{MODELS}:{model}", *given, *arguments)

    return call


@pytest.fixture
def refused(evenhand: Command) -> Command:
    """Call the command and check that it refuses: exit 2, nothing printed, at most three lines of error."""

    def check(done: Any, *words: str) -> str:
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        assert 1 <= len(lines) <= 3, done.stderr
        for word in words:
            assert word in done.stderr, done.stderr
        return str(done.stderr)

    return check
