from __future__ import annotations

import io
import sys
import types

import pytest

import evenhand as eh
from evenhand.budget import Budget
from evenhand.engine.oracle import Status
from evenhand.errors import BudgetError
from evenhand.runs import audit as module
from evenhand.runs.audit import done, line, show_progress


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
    with show_progress(wanted=True) as show:
        assert show is None


def test_a_terminal_sees_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(wanted=True) as show:
        assert show is not None
        show(status(tests=200))
        # What is over at once shows nothing.
        assert terminal.getvalue() == ""
    monkeypatch.setattr(module, "FIRST", 0.0)
    with show_progress(wanted=True) as show:
        assert show is not None
        show(status(tests=200))
    assert "100 tests, 25/s, 10 found (10% of tests), 4 s left" in terminal.getvalue()
    with show_progress(wanted=False) as show:
        assert show is None


def test_a_notebook_sees_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = type("ZMQInteractiveShell", (), {})()
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data["text/plain"])

    display = types.SimpleNamespace(display=lambda *_, **__: Handle())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "FIRST", 0.0)
    space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("sex", ["F", "M"])], "sex")
    eh.audit(lambda frame: frame["sex"] == "F", space, "themis", 40)
    assert "found (100% of tests)" in shown[0]
    assert shown[-1] == ""
    shown.clear()
    eh.audit(lambda frame: frame["sex"] == "F", space, "themis", 40, progress=False)
    assert shown == []


def test_a_number_is_a_budget_of_tests() -> None:
    space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("sex", ["F", "M"])], "sex")
    run = eh.audit(lambda frame: frame["sex"] == "F", space, "themis", budget=7)
    assert (run.tests, run.budget) == (7, eh.Budget(tests=7))
    for wrong in (0, True, 2.5, "7"):
        with pytest.raises(BudgetError):
            eh.audit(lambda frame: frame["sex"] == "F", space, budget=wrong)  # type: ignore[arg-type]
