"""Runs on texts in every format: all characters of a text, even lone surrogates, stay text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt

import evenhand as eh
from evenhand._format import visible
from evenhand.runs.exports import FORMATS, RISKY, to_json, to_junit, to_markdown, to_sarif, write_csv
from evenhand.runs.pair_sentences import select_pairs, shown_pairs
from tests.helpers import optional
from tests.runs.hostile import NASTY, seen, unguarded
from tests.runs.test_exports_documents import JUNIT, RUN, SARIF, Tags

WORDS = ["kind", "nice", "loud", "noisy"]
VECTORS = np.array([[1.0, 0.1], [1.0, 0.0], [0.1, 1.0], [0.0, 1.0]])
HALVES = ["\ud83d", "\udc00", "a\ud800b"]


@st.composite
def text_runs(draw: Any) -> eh.Run:
    """A run of texts with such pieces around a term, which is always decided about otherwise."""
    around = st.sampled_from(NASTY + HALVES) | st.text(st.characters(), max_size=8)
    data = [f"{draw(around)} A kind Sikh {draw(around)}, said a loud Jew. {draw(around)}" for _ in range(2)]
    decisions = draw(st.lists(st.sampled_from(NASTY + HALVES), min_size=2, max_size=2, unique=True))
    similar = (WORDS, VECTORS) if draw(st.booleans()) else None
    space = eh.TextSpace(["religion", {draw(st.sampled_from(NASTY)): ["kind", "loud"]}], similar, k=1)

    def classify(texts: list[str]) -> Any:
        return np.array(decisions, dtype=object)[[int("Sikh" in text) for text in texts]]

    return eh.audit(eh.wrap(classify, name=draw(around)), space, "text-random", eh.Budget(tests=12), data=data)


def classify(texts: list[str]) -> list[str]:
    return ["toxic" if "Sikh" in text and "noisy" in text else "fine" for text in texts]


@pytest.fixture(scope="module")
def run() -> eh.Run:
    space = eh.TextSpace(["religion", "race"], (WORDS, VECTORS), k=1)
    return eh.audit(classify, space, "text-random", data=["A Jew, so loud \ud83d.", "A noisy Sikh."], seed=1)


@settings(max_examples=15)
@given(text_runs())
def test_documents(run: eh.Run) -> None:
    assert run.found
    told = json.loads(to_json(run))
    RUN.validate(told)
    assert told["findings"]["columns"] == list(run.findings.columns)
    assert [row[0] for row in told["findings"]["rows"]] == run.findings["text"].tolist()
    for show in ("synthetic", "real"):
        sentences = [visible(pair.sentence) for pair in shown_pairs(run, np.arange(run.found), show)]
        tree = etree.fromstring(to_junit(run, 1000, show).encode())
        JUNIT.assertValid(tree)
        assert [failure.text for failure in tree.findall(".//failure")] == sentences
        log = json.loads(to_sarif(run, 1000, show=show))
        SARIF.validate(log)
        assert [result["message"]["text"] for result in log["runs"][0]["results"]] == sentences


@settings(max_examples=15)
@given(text_runs())
def test_markdown(run: eh.Run) -> None:
    shown = Tags(MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(run)))
    assert shown.tags <= {"h3", "p", "table", "tr", "th", "td", "code", "b"}
    assert shown.attributes == []
    for pair in select_pairs(run, 3):
        assert {*pair.lines[0][1:]} <= set(shown.texts)


@settings(max_examples=15)
@given(text_runs())
def test_no_cell_is_a_formula_and_every_text_comes_back(run: eh.Run) -> None:
    file = io.BytesIO()
    write_csv(run, file)
    head, *rows = csv.reader(io.StringIO(file.getvalue().decode("utf-8"), newline=""))
    assert head == list(run.findings.columns)
    assert not any(value.startswith(RISKY[:-1]) for row in rows for value in row)
    assert [unguarded(row[0]) for row in rows] == [seen(text) for text in run.findings["text"]]
    changed = [[tuple(edit) for edit in json.loads(row[-1])] for row in rows]
    assert changed == run.findings["changed"].tolist()


@settings(max_examples=8)
@given(text_runs())
def test_parquet_has_every_text(run: eh.Run) -> None:
    optional("pyarrow")
    import pandas as pd

    from evenhand.runs.exports import write_parquet

    file = io.BytesIO()
    write_parquet(run, file)
    frame = pd.read_parquet(io.BytesIO(file.getvalue()))
    texts = [text.encode("utf-8", "backslashreplace").decode() for text in run.findings["text"]]
    assert frame["text"].tolist() == texts
    assert [json.loads(value) for value in frame["changed"]] == json.loads(json.dumps(run.findings["changed"].tolist()))


def test_sarif_rules_and_fingerprints_are_stable(run: eh.Run) -> None:
    log = json.loads(to_sarif(run, 1000))
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["unequal-treatment/religion"]
    results = log["runs"][0]["results"]
    marks = {result["partialFingerprints"]["individual/v1"] for result in results}
    assert len(marks) == len(results) == run.found > 1
    assert "Sikh" in etree.fromstring(to_junit(run, 1).encode()).find(".//testcase").get("name")
    assert "2 findings (texts that the search generated, or took from the data) in" in to_markdown(run)


def test_every_format_of_no_findings(tmp_path: Path) -> None:
    run = eh.audit(lambda texts: [0 for _ in texts], eh.TextSpace("religion"), "text-random", data=["A Sikh."])
    for ending in FORMATS.values():
        eh.export(run, tmp_path / f"out{ending}")
    RUN.validate(json.loads((tmp_path / "out.json").read_text()))
    JUNIT.assertValid(etree.parse(tmp_path / "out.xml"))
    SARIF.validate(json.loads((tmp_path / "out.sarif").read_text()))
    assert "no text was found to be treated differently" in (tmp_path / "out.md").read_text()
    assert (tmp_path / "out.csv").read_text().startswith('"text","counterpart_text","decision"')
