"""The reading sheet, and the precision that follows from it."""

from __future__ import annotations

import json
import re

import pytest

import evenhand as eh
from evenhand.errors import RunError
from evenhand.runs.reading import Reading, read_labels, reading_of, sheet


@pytest.fixture
def run(tmp_path):
    texts = [f"The Sikh <b>man</b> said {n}." for n in range(30)]
    space = eh.TextSpace("religion")
    return eh.audit(lambda asked: ["Sikh" in text for text in asked], space, "text-random", data=texts,
                    directory=tmp_path / "run")  # fmt: skip


def test_a_page_has_random_findings_without_decisions(run):
    page = sheet(run, 10).decode()
    assert page.count("<fieldset>") == 10
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "True" not in page
    assert sheet(run, 10) == page.encode()
    assert sheet(run, 99).decode().count("<fieldset>") == run.found == 30


def test_answers_give_the_precision(run, tmp_path):
    assert reading_of(run) is None
    numbers = re.findall(r'name="(\d+)" value="sound"', sheet(run, 10).decode())
    answers = {number: "sound" if n < 8 else "meaning" for n, number in enumerate(numbers)}
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"run": run.found, "answers": answers}))
    assert read_labels(run, path) == reading_of(eh.Run.load(run.directory)) == Reading(8, 10)
    assert "precision 80%" in Reading(8, 10).sentence
    assert "A reader found" in eh.report(run, None).decode()


@pytest.mark.parametrize(
    "content",
    [[], {}, {"run": 30, "answers": {}}, {"run": 3, "answers": {"0": "sound"}}, {"run": 30, "answers": {"99": "sound"}},
     {"run": 30, "answers": {"0": "yes"}}, {"run": 30, "answers": {"x": "sound"}}],
)  # fmt: skip
def test_other_answers_are_refused(run, tmp_path, content):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="answers"):
        read_labels(run, path)


def test_runs_without_texts_are_refused(run):
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    with pytest.raises(RunError, match="not of texts"):
        sheet(eh.audit(lambda frame: frame["member"], space, strategy="themis"))


def test_the_command_writes_the_page_and_takes_its_answers(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from typer.testing import CliRunner

    from evenhand.cli.app import app

    done = CliRunner().invoke(app, ["read", "run", "-n", "5"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "reading.html").read_bytes() == sheet(run, 5, run.identity.seed)
    (tmp_path / "labels.json").write_text(json.dumps({"run": 30, "answers": {"0": "sound"}}))
    done = CliRunner().invoke(app, ["read", "run", "--labels", "labels.json"])
    assert "1 of 1 findings sound" in done.output
