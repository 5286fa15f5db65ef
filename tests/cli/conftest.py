"""A small table of people, and the command without a new process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from evenhand.cli.app import app
from tests.cli import models

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
def kept(audit: Command, tmp_path: Path) -> Path:
    """A run of ``refuse``, by the command."""
    done = audit("refuse", "--strategy", "themis", "--directory", tmp_path / "run", "--quiet")
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


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


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """People whose pay depends on age, hours and sex."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 400),
            "hours": rng.integers(10, 60, 400),
            "work": rng.choice(["clerk", "nurse", "boss"], 400),
            "sex": rng.choice(["F", "M"], 400),
        }
    )
    level = frame["age"] + frame["hours"] / 2 + 15 * (frame["sex"] == "M") + rng.normal(0, 4, 400)
    path = tmp_path / "staff.csv"
    frame.assign(paid=np.where(level > 65, "high", "low")).to_csv(path, index=False)
    return path


@pytest.fixture
def estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimator that the command line can name: ``stock:tree``."""
    stock = ModuleType("stock")
    vars(stock)["tree"] = models.tree()
    monkeypatch.setitem(sys.modules, "stock", stock)
