"""What a report says is what the objects say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import DataError, ModelError, RunError
from evenhand.measuring.words import percent
from evenhand.reporting.gathering import Content
from evenhand.reporting.making import gathered
from evenhand.reporting.rendering import render, sections
from tests.reporting.conftest import SPACE, decide
from tests.reporting.page import Page

SAMPLES = 2_000


@pytest.fixture(scope="module")
def content(run: eh.Run, data: pd.DataFrame) -> Content:
    return gathered(run, data=data, favourable="granted", y="paid", samples=SAMPLES)


@pytest.fixture(scope="module")
def page(content: Content) -> Page:
    made = Page(render(content))
    made.check()
    return made


def test_the_parts_stand_in_their_order(page: Page, content: Content) -> None:
    assert content.missing == {}
    assert list(sections(content)) == [
        "common", "whom", "cases", "regions", "curve", "coverage", "run", "groups", "limits",
    ]  # fmt: skip
    assert page.headings[0] == "decide, by sex, origin"
    assert [h for h in page.headings if h in sections(content).values()] == list(sections(content).values())
    assert set(sections(content)) <= set(page.ids)


def test_the_estimates_are_those_of_estimate(page: Page, content: Content, data: pd.DataFrame) -> None:
    uniform = eh.estimate(decide, SPACE, samples=SAMPLES, favourable="granted")
    real = eh.estimate(decide, SPACE, "data", data=data, samples=SAMPLES, favourable="granted")
    for e in (uniform, real):
        assert f"{percent(e.rate)} {percent(e.low)} to {percent(e.high)}" in page.text
        assert f"{e.samples:,}, of whom {e.found:,} are" in page.text
    assert f"Yes: an estimated {percent(real.rate, 2)} ({percent(real.low, 2)} to {percent(real.high, 2)})" in page.text
    for c in [c for c in real.comparisons if len(c.first) == 1]:
        assert c.net is not None
        assert c.net_low is not None
        assert c.net_high is not None
        shown = f"{percent(c.net, 2)} {percent(c.net_low, 2)} to {percent(c.net_high, 2)}"
        assert shown in page.text
    assert "Several attributes at once" in page.text
    assert "sex M is favoured" in page.text


def test_the_cases_are_those_of_telling(page: Page, content: Content, run: eh.Run, data: pd.DataFrame) -> None:
    cases = eh.telling(run, data=data, n=4, rows=SAMPLES * 4)
    assert content.cases is not None
    assert [case.to_dict() for case in content.cases] == [case.to_dict() for case in cases]
    for case, card in zip(cases, content.cards, strict=True):
        assert f"Row {case.row:,} of the data" in card.head
        assert card.head in page.text
        differing = [line.name for line in card.lines if line.kind]
        assert differing == list(case.pair.changes)
        assert set(differing) <= {"sex", "origin"}
        person = data.iloc[case.row]  # type: ignore[index]
        for line in card.lines:
            if not line.kind:
                assert (line.was or line.values[0]) == str(person[line.name])


def test_the_regions_coverage_and_groups_are_the_same_too(page: Page, content: Content, run: eh.Run) -> None:
    assert content.regions is not None
    assert content.coverage is not None
    assert content.groups is not None
    first = content.regions[0]
    assert first.words in page.text
    assert (
        f"{percent(first.inside.rate, 2)} {percent(first.inside.low, 2)} to {percent(first.inside.high, 2)}"
        in page.text
    )
    assert f"{content.coverage.reached:,} of {content.coverage.leaves:,}" in page.text
    for group in content.groups.groups:
        assert group.rate is not None
        assert percent(group.rate, 2) in page.text
        assert group.accuracy is not None
    assert f"{run.found:,} findings in {run.tests:,} tests" in page.text


def test_directions_count_every_finding(content: Content, run: eh.Run) -> None:
    found = run.findings
    assert content.more_directions == 0
    assert sum(d.count for d in content.directions) == len(found)
    for d in content.directions:
        if not d.first.startswith("sex") or "origin" in d.first:
            continue
        one, other = d.first.removeprefix("sex "), d.second.removeprefix("sex ")
        same = found["origin"] == found["counterpart_origin"]
        count = 0
        for a, b in (("", "counterpart_"), ("counterpart_", "")):
            who = (found[f"{a}sex"] == one) & (found[f"{b}sex"] == other)
            said = (found[f"{a}decision"] == d.first_said) & (found[f"{b}decision"] == d.second_said)
            count += int((same & who & said).sum())
        assert d.count == count


def test_without_a_favourable_decision_nobody_is_said_to_be_favoured(run: eh.Run, data: pd.DataFrame) -> None:
    text = Page(render(gathered(run, data=data, samples=SAMPLES))).text
    assert "favoured" not in text
    assert "disadvantage of" not in text
    assert "gets “refused” more often" in text


def test_the_plain_call_and_the_same_bytes(run: eh.Run, tmp_path: Path) -> None:
    first = eh.report(run, tmp_path / "new" / "one.html")
    assert first == tmp_path / "new" / "one.html"
    again = eh.report(run, tmp_path / "two.html")
    assert first.read_bytes() == again.read_bytes()
    assert len(first.read_bytes()) < 200_000
    # The data that the run was given are at hand too.
    assert "People like those in the data" in first.read_text("utf-8")


def test_a_kept_run_without_its_model_says_what_is_missing(tmp_path: Path, data: pd.DataFrame) -> None:
    eh.audit(decide, SPACE, "themis", eh.Budget(tests=2_000), data=data, directory=tmp_path / "run")
    kept = eh.Run.load(tmp_path / "run")
    page = Page(render(gathered(kept)))
    page.check()
    assert "evenhand report RUN --model MODEL" in page.text
    assert "An individual of the space" in page.text
    assert f"Yes: the search found {kept.found:,} individuals" in page.text
    assert f"evenhand replay {tmp_path / 'run'} --model MODEL" in page.text
    whole = Page(render(gathered(kept, model=decide, data=data, samples=SAMPLES)))
    assert "evenhand report RUN" not in whole.text
    assert "Row " in whole.text
    with pytest.raises(ModelError, match="is not the model"):
        eh.report(kept, tmp_path / "x.html", model=lambda frame: frame["age"] > 3)
    with pytest.raises(DataError):
        eh.report(kept, tmp_path / "x.html", data=pd.DataFrame({"a": [1]}))


def test_a_part_that_fails_does_not_lose_the_rest(run: eh.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("the sky <fell>")

    for name in ("regions", "estimate", "coverage", "shrunk", "groups"):
        monkeypatch.setattr(f"evenhand.reporting.gathering.{name}", broken)
    page = Page(render(gathered(run)))
    page.check()
    assert page.text.count("This part could not be made: ZeroDivisionError: the sky <fell>.") == 6
    assert "An individual of the space" in page.text


def test_a_model_that_is_gone_does_not_lose_the_report() -> None:
    gone = False

    def failing(frame: pd.DataFrame) -> Any:
        if gone:
            raise OSError("the server is gone")
        return decide(frame)

    run = eh.audit(failing, SPACE, "themis", eh.Budget(tests=200))
    gone = True
    page = Page(render(gathered(run)))
    page.check()
    assert "the server is gone" in page.text
    assert "The most telling pairs" in page.headings


def test_a_row_that_was_clipped_is_not_called_as_recorded(data: pd.DataFrame) -> None:
    outside = data.assign(hours=99)
    run = eh.audit(decide, SPACE, "kosei", eh.Budget(tests=2_000), data=outside)
    content = gathered(run, data=outside, samples=SAMPLES)
    assert content.cards
    for card in content.cards:
        assert "exactly as recorded" not in card.head
        assert [line.was for line in card.lines if line.name == "hours"] == ["99"]


def test_nobody_found() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")

    def fair(frame: pd.DataFrame) -> Any:
        return frame["age"] > 3

    content = gathered(eh.audit(fair, space, "themis"))
    page = Page(render(content))
    page.check()
    assert "No: every legal individual was tested" in page.text
    assert "cases" not in sections(content)
    # One test says little, and the estimate, which asks everybody, says all.
    assert "No: every legal" in Page(render(gathered(eh.audit(fair, space, "themis", eh.Budget(tests=1))))).text


def test_numbers_instead_of_decisions() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda frame: frame["age"] * (1.0 + (frame["sex"] == "M")), space, "themis", criterion=eh.Gap(0.5))
    page = Page(render(gathered(run, favourable="higher")))
    page.check()
    assert "sex M is favoured" in page.text
    assert "would be scored differently if only their sex were different" in page.text
    assert "apart" in page.text


@pytest.mark.parametrize("wrong", [{"samples": 3}, {"cases": 0}, {"seed": -1}, {"confidence": 2}, {"others": [3]}])
def test_wrong_arguments(run: eh.Run, tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(RunError):
        eh.report(run, tmp_path / "x.html", **wrong)
    assert not (tmp_path / "x.html").exists()


def test_wrong_places_and_decisions(run: eh.Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        eh.report(run, tmp_path / "file" / "x.html", ask=False)
    with pytest.raises(RunError, match="must be an eh.Run"):
        eh.report(3, tmp_path / "x.html")  # type: ignore[arg-type]
