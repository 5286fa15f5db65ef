"""The demo, as ``make demo`` runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from evenhand.cli.app import app
from evenhand.demo import DEMOS, demo
from tests.reports.page import Page

PAIR = re.compile(
    r"(\d)\. sex (\w+)[^:;]*: (\S+); sex (\w+)[^:;]*: (\S+) \(scores 0\.\d+ apart\) "
    r"(?:age|checking_status) [^:;]*?, and \d+ more"
)
"""What is printed of a pair: the difference, then some of the other values."""


@pytest.mark.slow
def test_the_command_shows_real_pairs_and_writes_reports(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--directory", str(tmp_path / "demo")], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    pairs = PAIR.findall(text)
    assert [number for number, *_ in pairs] == ["1", "2", "3"] * 2
    for _, sex, decision, other, opposite in pairs:
        assert {sex.lower(), other.lower()} == {"female", "male"}
        assert {decision, opposite} in ({"<=50K", ">50K"}, {"bad", "good"})
    found = re.findall(r"tests found ([\d,]+) people, random testing ([\d,]+)", text)
    assert len(found) == 2
    for directed, random in found:
        assert int(directed.replace(",", "")) > 2 * int(random.replace(",", "")) > 0
    order = [
        "How many: about",
        "people like those in the data would get",
        "Who loses: in",
        "Three people:",
        "What next:",
    ]
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    for name in ("adult", "german"):
        page = Page((tmp_path / "demo" / f"{name}.html").read_text("utf-8"))
        page.check()
        assert page.html.count('<article class="card"') == 4
        assert "changes this model's decision for about" in page.text
        assert "could not be made" not in page.text
        assert f"{name}.html" in done.stdout.replace("\n", "")


@pytest.mark.slow
def test_the_pairs_are_people_that_the_model_treats_differently() -> None:
    done = demo(DEMOS[0], seed=1, tests=5000)
    assert done.accuracy > 0.8
    for pair in done.pairs:
        people = pd.DataFrame([pair.individual, pair.individual | pair.changes])
        assert list(done.model.predict(people)) == [pair.decision, pair.counterpart_decision]
        assert people["capital_gain"].tolist() == [0, 0]
        for _, person in people.iterrows():
            assert (person["relationship"], person["sex"]) not in {("Wife", "Male"), ("Husband", "Female")}
