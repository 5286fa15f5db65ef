"""The contents of a report match its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand._format import interval, percent
from evenhand.errors import DataError, ModelError
from evenhand.reports.content import Content
from evenhand.reports.render import render, sections
from evenhand.reports.report import gathered
from tests.reports.conftest import SPACE, decide
from tests.reports.page import Page

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
        "comparisons", "examples", "regions", "groups", "limits", "common", "curve", "coverage", "run",
    ]  # fmt: skip
    assert page.headings[0] == "Model decide, by sex, origin"
    assert [h for h in page.headings if h in sections(content).values()] == list(sections(content).values())
    assert set(sections(content)) <= set(page.ids)


def test_the_estimates_are_those_of_estimate(page: Page, content: Content, data: pd.DataFrame) -> None:
    uniform = eh.estimate(decide, SPACE, samples=SAMPLES, favourable="granted")
    real = eh.estimate(decide, SPACE, "data", data=data, samples=SAMPLES, favourable="granted")
    for e in (uniform, real):
        assert f"{percent(e.rate)} {interval(e.low, e.high)}" in page.text
        of = f" of {len(data):,} rows" if e is real else ""
        assert f"{e.samples:,}{of}, {e.found:,} of them treated differently" in page.text
    # Of so few people, a share is a percentage.
    assert f"changes this model's decision for about {percent(real.rate)} of people" in page.text
    assert "95% sure" not in page.text
    for c in [c for c in real.comparisons if len(c.first) == 1]:
        assert c.net is not None
        assert c.net_low is not None
        assert c.net_high is not None
        assert f"{percent(c.net)} {interval(c.net_low, c.net_high)}" in page.text
    # Pairs that differ in both are told apart from those that differ in one, the other given.
    several, within = (page.text.index(kind) for kind in ("Several attributes at once", "Within combinations"))
    both = page.text[several:within]
    assert "sex F, origin here and as sex M, origin there" in both
    assert "sex F, origin here and as sex M, origin here" not in both
    assert "sex F, origin here and as sex M, origin here" in page.text[within:]
    assert "sex M is favoured" in page.text


def test_examples_are_those_of_eh_examples(page: Page, content: Content, run: eh.Run, data: pd.DataFrame) -> None:
    examples = eh.examples(run, data=data, n=4, rows=SAMPLES * 4, real=False)
    assert content.examples is not None
    assert [example.to_dict() for example in content.examples] == [example.to_dict() for example in examples]
    for example, card in zip(examples, content.cards, strict=True):
        assert card.head.startswith("A synthetic person, ")
        assert card.head in page.text
        differing = [line.name for line in card.lines if line.kind]
        assert differing == list(example.pair.changes)
        assert set(differing) <= {"sex", "origin"}
        assert not any(line.was for line in card.lines)
    real = gathered(run, data=data, show_examples="real", samples=SAMPLES)
    examples = eh.examples(run, data=data, n=4, rows=SAMPLES * 4)
    assert real.examples is not None
    assert [example.to_dict() for example in real.examples] == [example.to_dict() for example in examples]
    for example, card in zip(examples, real.cards, strict=True):
        assert f"Row {example.row:,} of the data" in card.head
        person = data.iloc[example.row]  # type: ignore[index]
        for line in card.lines:
            if not line.kind:
                assert (line.was or line.values[0]) == str(person[line.name])


def test_the_regions_coverage_and_groups_are_the_same_too(page: Page, content: Content, run: eh.Run) -> None:
    assert content.regions is not None
    assert content.coverage is not None
    assert content.groups is not None
    first = content.regions[0]
    assert first.words in page.text
    assert f"{percent(first.inside.rate)} {interval(first.inside.low, first.inside.high)}" in page.text
    assert f"{content.coverage.reached:,} of {content.coverage.leaves:,}" in page.text
    for group in content.groups.groups:
        assert group.rate is not None
        assert percent(group.rate) in page.text
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


def test_without_a_favourable_decision_no_group_is_called_favoured(run: eh.Run, data: pd.DataFrame) -> None:
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
    # The data that the run was given are available too.
    assert "People like those in the data" in first.read_text("utf-8")


def test_report_of_a_stored_run_lists_missing_parts(tmp_path: Path, data: pd.DataFrame) -> None:
    eh.audit(decide, SPACE, "themis", eh.Budget(tests=2_000), data=data, directory=tmp_path / "run")
    kept = eh.Run.load(tmp_path / "run")
    page = Page(render(gathered(kept)))
    page.check()
    assert "evenhand report RUN --model MODEL" in page.text
    assert "An individual of the space" in page.text
    assert f"changes this model's decision for {kept.found:,} individuals found by the search" in page.text
    assert f"evenhand replay {tmp_path / 'run'} --model MODEL" in page.text
    whole = Page(render(gathered(kept, model=decide, data=data, samples=SAMPLES)))
    assert "evenhand report RUN" not in whole.text
    assert "A synthetic person" in whole.text
    with pytest.raises(ModelError, match="is not the run.s model"):
        eh.report(kept, tmp_path / "x.html", model=lambda frame: frame["age"] > 3)
    with pytest.raises(DataError):
        eh.report(kept, tmp_path / "x.html", data=pd.DataFrame({"a": [1]}))


def test_a_part_that_fails_does_not_lose_the_rest(run: eh.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ModelError("the sky <fell>")

    for name in ("regions", "estimate", "coverage", "examples_of", "groups"):
        monkeypatch.setattr(f"evenhand.reports.content.{name}", broken)
    page = Page(render(gathered(run, show_examples="real")))
    page.check()
    assert page.text.count("This part could not be made: the sky <fell>.") == 1
    assert page.text.count("This part could not be made either, for the same reason.") == 5
    assert "An individual of the space" in page.text
    assert "the sky" not in render(gathered(run))
    with pytest.warns(UserWarning, match=r"5 parts could not be made \(How common it is, .*\): the sky <fell>"):
        assert eh.report(run, tmp_path / "x.html").exists()


def test_a_fault_of_the_report_itself_is_not_hidden(run: eh.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("evenhand.reports.content.estimate", broken)
    with pytest.raises(ZeroDivisionError):
        gathered(run)


def test_a_model_that_is_gone_does_not_lose_the_report() -> None:
    gone = False

    def failing(frame: pd.DataFrame) -> Any:
        if gone:
            raise OSError("the server is gone")
        return decide(frame)

    run = eh.audit(failing, SPACE, "themis", eh.Budget(tests=200))
    gone = True
    page = Page(render(gathered(run, show_examples="real")))
    page.check()
    assert "the server is gone" in page.text
    assert "the server is gone" not in render(gathered(run))
    assert "One person, two decisions" in page.headings


def test_a_row_that_was_clipped_is_not_called_as_recorded(data: pd.DataFrame) -> None:
    outside = data.assign(hours=99)
    run = eh.audit(decide, SPACE, "kosei", eh.Budget(tests=2_000), data=outside)
    content = gathered(run, data=outside, show_examples="real", samples=SAMPLES)
    assert content.cards
    for card in content.cards:
        assert "exactly as recorded" not in card.head
        assert [line.was for line in card.lines if line.name == "hours"] == ["99"]


def test_a_report_without_findings() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")

    def fair(frame: pd.DataFrame) -> Any:
        return frame["age"] > 3

    content = gathered(eh.audit(fair, space, "themis"))
    page = Page(render(content))
    page.check()
    assert "all valid individuals were tested" in page.text
    assert "examples" not in sections(content)
    # One test says little, and the estimate, which asks everybody, says all.
    assert (
        "all valid individuals were tested"
        in Page(render(gathered(eh.audit(fair, space, "themis", eh.Budget(tests=1))))).text
    )


def test_numbers_instead_of_decisions() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda frame: frame["age"] * (1.0 + (frame["sex"] == "M")), space, "themis", criterion=eh.Gap(0.5))
    page = Page(render(gathered(run, favourable="higher")))
    page.check()
    assert "sex M is favoured" in page.text
    assert "Changing only sex changes this model's amount by more than 0.5 for" in page.text
    assert "apart" in page.text


@pytest.mark.parametrize("favourable", [None, "higher"])
def test_numbers_have_no_decisions_to_cover_and_are_averaged(favourable: Any) -> None:
    space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("sex", ["F", "M"])], protected="sex")
    rows = {"age": [5, 20, 80] * 5, "sex": ["F", "M", "F"] * 5}
    run = eh.audit(lambda f: f["age"] / 100 + 0.05 * (f["sex"] == "M"), space, "themis", criterion=eh.Gap(0.01))
    content = gathered(run, data=rows, favourable=favourable, samples=SAMPLES)
    assert content.missing == {}
    assert "coverage" not in sections(content)
    assert content.groups is not None
    assert {group.mean is None for group in content.groups.groups} == {False}
    assert (content.groups.favourable, content.groups.groups[0].impact_ratio is None) == (
        favourable,
        favourable is None,
    )
    assert "eh.wrap" not in render(content)


def test_the_absence_of_regions_is_reported() -> None:
    space = eh.Space(
        [eh.Integer("age", 1, 9), eh.Integer("hours", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex"
    )
    content = gathered(eh.audit(lambda f: f["sex"] == "F", space, "themis"))
    assert content.regions is not None
    assert len(content.regions) == 0
    assert "No region stands out: no rule describes" in Page(render(content)).text


def test_findings_in_the_space_but_not_in_the_data() -> None:
    space = eh.Space([eh.Integer("age", 0, 999), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda f: (f["age"] > 499) & (f["sex"] == "F"), space, "themis", eh.Budget(tests=50))
    content = gathered(run, data={"age": list(range(40)), "sex": ["F", "M"] * 20}, samples=500)
    text = Page(render(content)).text
    assert "changes this model's decision for none of 40 people in the data (" in text
    assert " synthetic people (95% CI " in text
    assert "It is measured on rows of the data as they are, and on uniform random individuals of the space" in text


def test_many_values_are_compared_at_five() -> None:
    space = eh.Space([eh.Boolean("member"), eh.Integer("age", 20, 90)], protected="age")
    run = eh.audit(lambda f: f["age"] > 30, space, "themis")
    assert (
        "age has 71 values: these comparisons use five of them (20, 38, 55, 72 and 90)."
        in Page(render(gathered(run))).text
    )


def test_a_part_that_needs_an_optional_package_is_left_out_without_a_warning(tmp_path, monkeypatch) -> None:
    from evenhand.errors import MissingExtra
    from evenhand.reports import content as content_module

    def missing(*_args: object, **_named: object) -> None:
        raise MissingExtra("fairlearn", "fairness", "the comparison of groups")

    monkeypatch.setattr(content_module, "groups", missing)
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    data = pd.DataFrame({"age": [1, 5, 9] * 40, "sex": ["F", "M", "F"] * 40})
    run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, "themis", data=data)
    text = eh.report(run, tmp_path / "report.html", data=data, favourable=True).read_text("utf-8")
    assert "This part is left out: the comparison of groups needs fairlearn" in text


def test_unchanged_people_come_first() -> None:
    def rare(frame: pd.DataFrame) -> Any:
        return np.where((frame["age"] == 33) & (frame["job"] == "cook") & (frame["sex"] == "F"), "refused", "granted")

    people = pd.concat([pd.DataFrame({**dict.fromkeys(SPACE.names), "age": 50, "hours": 40, "married": True,
                                      "job": "clerk", "sex": "M", "origin": "here"}, index=range(200)),
                        pd.DataFrame({"age": [33], "hours": [9], "married": [False], "job": ["cook"], "sex": ["M"],
                                      "origin": ["there"]})], ignore_index=True)  # fmt: skip
    run = eh.audit(rare, SPACE, "kosei", eh.Budget(tests=3_000))
    assert run.found
    for samples in (201, 2_000):
        content = gathered(run, data=people, show_examples="real", samples=samples)
        assert content.cards[0].head == "Row 200 of the data, exactly as recorded"
        assert content.examples is not None
        assert "1 of 201 people in the data is treated differently" in Page(render(content)).text


def test_examples_come_from_the_estimates_without_findings(data: pd.DataFrame) -> None:
    def seldom(frame: pd.DataFrame) -> Any:
        return np.where((frame["hours"] < 12) & (frame["sex"] == "F"), "refused", "granted")

    run = eh.audit(seldom, SPACE, "themis", eh.Budget(tests=1), seed=1)
    assert not run.found
    real = gathered(run, data=data, show_examples="real", samples=SAMPLES)
    assert real.estimates["data"].found
    assert "exactly as recorded" in real.cards[0].head
    anybody = gathered(run, samples=SAMPLES)
    assert anybody.cards
    for content in (real, anybody):
        page = Page(render(content))
        page.check()
        assert "One person, two decisions" in page.headings
    assert "The search found none; these come from the estimates" in page.text
    for card in anybody.cards:
        assert card.said[0] != card.said[1]


def test_rows_beyond_the_space_are_reported_as_moved(run: eh.Run, data: pd.DataFrame) -> None:
    rows = data.assign(hours=data["hours"].where(data.index > 9, 70))
    for given, moved in ((data, 0), (rows, 10)):
        content = gathered(run, data=given, samples=300)
        assert content.estimates["data"].counts["clipped"] == moved
        text = Page(render(content)).text
        said = "as they are except 10 of 400, which were moved to the nearest bound of the space"
        assert text.count(said) == bool(moved)
        assert text.count("rows of the data as they are") == 1


def test_numbers_of_a_function_have_group_figures_by_a_gap(data: pd.DataFrame) -> None:
    def pay(frame: pd.DataFrame) -> Any:
        return 1_000.5 + 50 * frame["age"] + 400.5 * (frame["sex"] == "M")

    for model in (pay, eh.wrap(pay, regression=True)):
        run = eh.audit(model, SPACE, "themis", eh.Budget(tests=50), criterion=eh.Gap(100))
        content = gathered(run, data=data, favourable="higher", y=data["age"], samples=300)
        assert content.groups is not None
        assert content.groups.groups[0].mean == pytest.approx(np.asarray(pay(data))[data["sex"] == "F"].mean())
        # Nothing that was given is left out without a word.
        assert "y was not used" in Page(render(content)).text
    with pytest.raises(ModelError, match=r"regression=True") as caught:
        eh.groups(pay, SPACE, data, "higher")
    assert "e+03" not in str(caught.value)


def test_group_figures_that_cannot_be_had_say_why(data: pd.DataFrame) -> None:
    run = eh.audit(lambda f: f["hours"] // 20, SPACE, "themis", eh.Budget(tests=50), data=data)
    content = gathered(run, data=data, samples=300)
    assert content.groups is None
    assert "favourable=" in content.missing["groups"]

    class Score(eh.Model):
        has_scores = True

        def scores(self, X: Any) -> Any:
            return X["age"].to_numpy() / 90 + 0.2 * (X["sex"] == "M").to_numpy()

        def labels(self, X: Any) -> Any:
            return self.scores(X) > 0.5

    run = eh.audit(Score(), SPACE, "themis", eh.Budget(tests=50), criterion=eh.Gap(0.1), data=data)
    content = gathered(run, data=data, samples=300)
    assert "threshold=" in content.missing["groups"]
