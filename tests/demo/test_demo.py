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


@pytest.mark.slow
def test_the_command_shows_real_pairs_and_writes_reports(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--directory", str(tmp_path / "demo")], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert len(re.findall(r"\d\. (age|checking_status) .*?The same person with sex", text)) == 6
    found = [int(number.replace(",", "")) for number in re.findall(r"finds ([\d,]+)", text)]
    assert len(found) == 4
    for directed, random in (found[:2], found[2:]):
        assert directed > 5 * random > 0
    for name in ("adult", "german"):
        page = Page((tmp_path / "demo" / f"{name}.html").read_text("utf-8"))
        page.check()
        assert page.html.count('class="pair"') == 4
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
