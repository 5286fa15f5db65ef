from __future__ import annotations

import io
import sys

import pytest

from evenhand.budget import Budget
from evenhand.cli.output import done, line, progress
from evenhand.engine.accounting import Status


def status(**limits: float) -> Status:
    return Status(tests=100, findings=10, rows=200, seconds=4.0, budget=Budget(**limits))  # type: ignore[arg-type]


def test_the_nearest_limit_counts() -> None:
    assert done(status(tests=1000, rows=400, seconds=40.0)) == 0.5
    assert done(status(findings=1000), tests=200) == 0.5
    assert done(status()) == 0
    assert line(status(rows=400)).endswith("10 found (10% of tests), 4 s left")
    assert "left" not in line(status())
    assert line(status(tests=10_000)).endswith("7 min left")
    assert line(status(tests=10_000_000)).endswith("111 h left")


def test_nothing_is_shown_without_a_terminal() -> None:
    with progress(wanted=True) as show:
        assert show is None


def test_a_terminal_sees_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with progress(wanted=True) as show:
        assert show is not None
        show(status(tests=200))
    assert "100 tests, 25/s, 10 found (10% of tests), 4 s left" in terminal.getvalue()
    with progress(wanted=False) as show:
        assert show is None
