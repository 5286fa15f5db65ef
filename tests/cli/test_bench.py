"""``evenhand bench``: all figures are shown and consistent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import MODELS, Command


def test_speeds_of_a_model(evenhand: Command, people: Path) -> None:
    given = ["--model", f"{MODELS}:refuse", "--data", people, "--protected", "sex", "--target", "paid"]
    done = evenhand("bench", *given, "--seconds", "0.1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["model"] == "refuse"
    assert [(row["search"], row["where"]) for row in found["audits"]] == [
        ("themis", "this process"),
        ("kosei", "this process"),
    ]
    for row in found["audits"]:
        assert row["share"] == pytest.approx(row["rows_per_second"] / found["rows_per_second"])
        assert 0 < row["tests_per_second"] < row["rows_per_second"]
    shown = evenhand("bench", *given, "--seconds", "0.1").stdout
    # One table, whose head names the columns once.
    head, _, *lines = [line.split() for line in shown.splitlines() if line.strip()]
    assert head == ["per", "second", "rows", "tests", "of", "the", "model", "alone"]
    assert [line[0] for line in lines] == ["refuse,", "themis,", "kosei,"]


@pytest.mark.slow
def test_workers_are_compared_with_one_process(evenhand: Command, people: Path) -> None:
    given = ["--model", f"{MODELS}:refuse", "--data", people, "--protected", "sex", "--target", "paid"]
    found = json.loads(evenhand("bench", *given, "--seconds", "0.2", "--workers", 2, "--json").stdout)
    assert [row["where"] for row in found["audits"]] == ["this process", "2 processes"] * 2
    here, there = found["audits"][:2]
    assert there["speedup"] == pytest.approx(there["rows_per_second"] / here["rows_per_second"])


def test_wrong_seconds_are_refused(evenhand: Command, refused: Command, people: Path) -> None:
    given = ["--model", f"{MODELS}:refuse", "--data", people, "--protected", "sex"]
    refused(evenhand("bench", *given, "--seconds", "0"), "--seconds")
