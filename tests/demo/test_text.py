"""The demo of texts, as ``make demo-text`` runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand._format import percent
from evenhand.cli.app import app
from evenhand.demo import text as module
from evenhand.demo.text import TextAudited, text_demo
from evenhand.reports.report import report


@pytest.fixture(scope="module")
def done() -> TextAudited:
    return text_demo(tests=500, texts=300, epochs=2)


@pytest.mark.slow
def test_the_planted_terms_are_the_ones_found(done: TextAudited) -> None:
    assert done.before.run.found > 30
    assert done.planted > 0.9
    most = [row for row in done.identities if row.toxic > row.other]
    assert {row.name for row in most if row.planted} == set(done.data.planted)
    assert sum(row.toxic for row in most if not row.planted) < 0.1 * done.before.run.found
    assert (
        sum(row.toxic for row in done.identities) == sum(row.other for row in done.identities) == done.before.run.found
    )


@pytest.mark.slow
def test_the_repair_removes_most_findings_and_costs_accuracy(done: TextAudited) -> None:
    assert done.before.accuracy > 0.85
    assert done.after.run.found < done.before.run.found / 3
    assert done.after.proven > done.before.proven + 0.5
    # Two epochs are few; always saying no is right on 59% of them.
    assert done.before.accuracy > done.after.accuracy > 0.65


@pytest.mark.slow
def test_the_command_prints_it_and_writes_reports(
    done: TextAudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "text_demo", lambda *_, **__: done)
    said = CliRunner().invoke(app, ["demo", "--text", "--directory", str(tmp_path / "demo")], env={"COLUMNS": "100"})
    assert said.exit_code == 0, said.output
    text = " ".join(said.stdout.split())
    assert (
        f"In {percent(done.planted)} of them exactly one of the two was planted (Mormon or Muslim or atheist)" in text
    )
    assert f"Accuracy goes from {percent(done.before.accuracy)} to {percent(done.after.accuracy)}" in text
    assert re.search(r"\{\w+ -> \w+\}", text)
    for pair in done.before.pairs:
        # Every replaced word is marked, as the heading says.
        assert pair.seed is not None
        assert all(f"{{{old} -> {new}}}" in pair.sentence for _, old, new in pair.changed)
    page = (tmp_path / "demo" / "text.html").read_text()
    assert page.count('class="swapped"') >= 6
    assert '<span class="changed">' not in page
    assert "were replaced by the search; they are not marked" in page
    shown = report(done.before.run, None, show_examples="real").decode()
    assert '<span class="changed">Underlined</span> words were replaced' in shown
    assert "The same net, repaired" in (tmp_path / "demo" / "text-repaired.html").read_text()
    assert CliRunner().invoke(app, ["demo", "--text", "--no-report"]).exit_code == 0


def test_a_missing_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("evenhand.demo.text")]:
        monkeypatch.delitem(sys.modules, name)
    said = CliRunner().invoke(app, ["demo", "--text"])
    assert said.exit_code == 2
    assert said.stderr.splitlines() == [
        "evenhand: the demo of texts needs torch, which is not installed; pip install 'evenhand[text]'"
    ]
