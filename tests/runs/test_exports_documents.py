"""JSON, JUnit, SARIF and Markdown follow their schemas, and names stay text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from lxml import etree
from markdown_it import MarkdownIt

import evenhand as eh
from evenhand._format import plain
from evenhand.engine.determinism import confirm
from evenhand.errors import FlakyModel
from evenhand.runs.exports import schema, to_json, to_junit, to_markdown, to_sarif
from evenhand.runs.pair_sentences import pairs_at, select_pairs
from tests.runs.hostile import runs
from tests.worlds import Stretch

HERE = Path(__file__).parent
RUN = jsonschema.Draft202012Validator(schema())
SARIF = jsonschema.Draft202012Validator(json.loads((HERE / "sarif.schema.json").read_text()))
JUNIT = etree.XMLSchema(etree.parse(HERE / "junit.xsd"))
SPACE = eh.Space([eh.Integer("age", 1, 3000), eh.Nominal("sex", ["F", "M"])], protected="sex")


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(lambda f: f["sex"] == "F", SPACE, "themis")


@pytest.fixture(scope="module")
def fair() -> eh.Run:
    return eh.audit(lambda f: f["age"] > 9, SPACE, "themis")


def test_schemas_refuse_wrong_values(run: eh.Run) -> None:
    for validator in (RUN, SARIF):
        validator.check_schema(validator.schema)
        assert not validator.is_valid({})
    broken = json.loads(to_json(run)) | {"version": 2}
    assert not RUN.is_valid(broken)
    assert not JUNIT.validate(etree.fromstring(b"<testsuites><testsuite/></testsuites>"))


@settings(max_examples=25)
@given(runs())
def test_json(run: eh.Run) -> None:
    text = to_json(run)
    assert text.isascii()
    told = json.loads(text)
    RUN.validate(told)
    assert told["findings"]["columns"] == list(run.findings.columns)
    assert told["findings"]["rows"] == run.findings.astype(object).to_numpy().tolist()


def test_json_of_regressions_and_missing_values() -> None:
    space = eh.Space([eh.Real("x", 0, 1, step=0.1, missing=True), eh.Boolean("b", missing=True)], protected="b")
    run = eh.audit(lambda f: f["b"].isna() * 0.5 + f["x"].fillna(0), space, "themis", criterion=eh.Gap(0.1))
    told = json.loads(to_json(run))
    RUN.validate(told)
    assert any(None in row for row in told["findings"]["rows"])


@settings(max_examples=25)
@given(runs())
def test_junit(run: eh.Run) -> None:
    text = to_junit(run, 2)
    tree = etree.fromstring(text.encode())
    JUNIT.assertValid(tree)
    failures = tree.findall(".//failure")
    assert [f.text for f in failures] == [pair.sentence for pair in pairs_at(run.pairs, _first(run, 2))]
    assert {e.tag for e in tree.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "system-out", "system-err"
    }  # fmt: skip


@settings(max_examples=25)
@given(runs())
def test_sarif(run: eh.Run) -> None:
    text = to_sarif(run, 2, "models/it's <mine>.onnx")
    assert text.isascii()
    told = json.loads(text)
    SARIF.validate(told)
    (only,) = told["runs"]
    assert [r["message"]["text"] for r in only["results"]] == [p.sentence for p in pairs_at(run.pairs, _first(run, 2))]
    counts = {"findings": run.found, "confirmed": run.found, "refuted": 0, "listed": min(2, run.found)}
    assert only["properties"] == {**counts, "tests": run.tests}
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in only["results"])


class Tags(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.texts: list[str] = []
        self._open = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self._open = tag == "code"
        if self._open:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[-1] += data


@settings(max_examples=25)
@given(runs())
def test_markdown(run: eh.Run) -> None:
    shown = Tags(MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(run)))
    assert shown.tags <= {"h3", "p", "table", "tr", "th", "td", "code", "b"}
    assert shown.attributes == []
    for pair in select_pairs(run, 3):
        wanted = {plain(v) for side in (pair.individual, pair.changes) for v in [*side, *side.values()]}
        assert wanted | {plain(pair.decision)} <= set(shown.texts)


def test_markdown_does_not_say_that_findings_are_people(run: eh.Run) -> None:
    head, _, caveat, *_ = to_markdown(run).splitlines()
    assert head == f"### evenhand: 3,000 findings (individuals that the search generated) in {run.tests:,} tests"
    assert "how common" in caveat


def test_capped_lists_say_so(run: eh.Run) -> None:
    assert "1,000 of 3,000 findings are listed here" in to_junit(run, 1000)
    assert "1,000 of 3,000 findings are listed here" in to_sarif(run, 1000)
    assert to_junit(run, 1000).count("<testcase") == 1000
    assert len(json.loads(to_json(run))["findings"]["rows"]) == 3000


def test_nothing_found(fair: eh.Run) -> None:
    tree = etree.fromstring(to_junit(fair, 5).encode())
    JUNIT.assertValid(tree)
    assert (tree[0].get("tests"), tree[0].get("failures")) == ("1", "0")
    told = json.loads(to_sarif(fair, 5))
    SARIF.validate(told)
    assert told["runs"][0]["results"] == []
    RUN.validate(json.loads(to_json(fair)))
    assert "no individual was found" in to_markdown(fair)


@pytest.mark.parametrize("left", [0, 2_000])
def test_non_reproducible_models_never_pass(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = False

    def model(frame: Any) -> Any:
        # All or some of the findings are taken back when they are confirmed.
        return (frame["sex"] == "F") & (frame["age"] < (left if searched else 3_001))

    def start_to_confirm(*args: Any) -> Any:
        nonlocal searched
        searched = True
        return confirm(*args)

    monkeypatch.setattr("evenhand.runs.audit.confirm", start_to_confirm)
    with pytest.raises(FlakyModel) as caught:
        eh.audit(model, SPACE, "themis")
    run = caught.value.partial
    assert run.refuted > 0
    assert "interrupted" not in repr(run)
    tree = etree.fromstring(to_junit(run, 5).encode())
    JUNIT.assertValid(tree)
    assert (tree[0].get("tests"), tree[0].get("errors")) == (str(1 + min(5, run.found)), "1")
    assert len(tree.findall(".//error[@type='FlakyModel']")) == 1
    log = json.loads(to_sarif(run, 5))
    SARIF.validate(log)
    assert not log["runs"][0]["invocations"][0]["executionSuccessful"]
    RUN.validate(json.loads(to_json(run)))
    head = to_markdown(run).splitlines()[0]
    assert "not reproducible" in head
    assert "interrupted" not in to_markdown(run)


def test_an_interrupted_run_without_findings_does_not_pass() -> None:
    def model(frame: Any) -> Any:
        if (frame["age"] > 1_000).all():
            raise KeyboardInterrupt
        return frame["age"] > 9

    run = eh.audit(model, SPACE, Stretch(0.0, 1.0))
    assert (run.stop, run.found) == (eh.StopReason.INTERRUPTED, 0)
    tree = etree.fromstring(to_junit(run, 5).encode())
    JUNIT.assertValid(tree)
    assert len(tree.findall(".//testcase/skipped")) == 1


def test_fingerprints_stay_when_other_findings_come(run: eh.Run) -> None:
    def marks(run: eh.Run) -> dict[str, str]:
        results = json.loads(to_sarif(run, 3000))["runs"][0]["results"]
        return {r["message"]["text"].split(":")[0]: r["partialFingerprints"]["individual/v1"] for r in results}

    fewer = marks(eh.audit(lambda f: (f["sex"] == "F") & (f["age"] < 100), SPACE, "themis"))
    assert len(set(fewer.values())) == len(fewer) == 99
    assert fewer.items() <= marks(run).items()


def _first(run: eh.Run, count: int) -> Any:
    import numpy as np

    return np.arange(min(run.found, count))


def test_numbers_are_written_for_people() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda f: 1_234_567.0 + 5450 * (f["sex"] == "M"), space, "themis", criterion=eh.Gap(200))
    for text in (to_markdown(run), to_json(run), to_sarif(run, 5), to_junit(run, 5)):
        assert "1,234,567" in text
        assert "1,240,017" in text
        assert "e+0" not in text
