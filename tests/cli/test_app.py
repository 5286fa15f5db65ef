from __future__ import annotations

import evenhand as eh
from evenhand import __version__
from evenhand.cli.app import described
from evenhand.strategies import STRATEGIES
from tests.cli.conftest import Command


def test_strategies(evenhand: Command) -> None:
    done = evenhand("strategies", width=200)
    assert done.exit_code == 0
    for name in STRATEGIES:
        assert name in done.stdout
    assert "samples=64" in done.stdout
    assert "SEKE 2022." in done.stdout


def test_every_strategy_names_its_paper() -> None:
    for kind in STRATEGIES.values():
        what, paper = described(kind)
        assert what
        assert paper.endswith(".") or kind in (eh.Auto, eh.Boundary)


def test_datasets(evenhand: Command) -> None:
    done = evenhand("datasets", width=200)
    assert "48,842 rows, 12 columns" in done.stdout
    assert "credit_risk (favourable: good)" in done.stdout
    assert "4,000 texts" in done.stdout


def test_version_and_help(evenhand: Command) -> None:
    assert evenhand("--version").stdout == f"evenhand {__version__}\n"
    done = evenhand("audit", "--help")
    assert done.exit_code == 0
    assert "--budget-findings" in done.stdout
