"""Every number in a report has a source and equals it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import __version__, _format
from evenhand.cli.audit import facts
from evenhand.errors import FlakyModel
from evenhand.estimates.result import Limit
from evenhand.reports.content import Content
from evenhand.reports.render import render
from evenhand.reports.report import gathered
from evenhand.reports.wording import Counted, headline
from tests.helpers import optional
from tests.reports.page import VOID, Page

NO_FIGURES = ("title", "style", "pre", "code", "details")
"""Where numbers are no figures: the user's title, calls to copy, digests and versions."""
SPECIAL = ("input", "scale")
"""Sources that are no objects: names, values and rules of the user's own; the scale of a picture."""
ADULT = ["age", "education", "marital_status", "sex", "race", "hours_per_week", "capital_gain"]


def adult(search: str | None = "kosei") -> Content:
    """More rows than are asked, some of them beyond the space, and the true decisions."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = eh.datasets.load("adult")
    rows = data.train.head(4_000).reset_index(drop=True)
    X, y = rows[ADULT], rows[data.target]
    texts = list(X.select_dtypes(exclude="number").columns)
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), texts), remainder=StandardScaler())
    model = make_pipeline(encode, LogisticRegression(max_iter=300)).fit(X, y)
    space = eh.Space.infer(X[X["hours_per_week"].between(20, 50)], protected=["sex", "race"])
    run = eh.audit(model, space, search, eh.Budget(tests=1_500), data=X)
    return gathered(run, data=rows, favourable=">50K", y=data.target, samples=1_500)


def german() -> Content:
    from sklearn.tree import DecisionTreeClassifier

    data = eh.datasets.load("german")
    rows = data.train
    columns = ["duration", "credit_amount", "age", "installment_rate"]
    X = rows[columns].assign(sex=(rows["sex"] == "male").astype(int))
    tree = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, rows[data.target])
    space = eh.Space.infer(X, protected="sex")
    baseline = eh.audit(tree, space, "themis", eh.Budget(tests=1_000))
    run = eh.audit(tree, space, budget=eh.Budget(tests=1_000), data=X)
    return gathered(run, data=X, samples=1_000, options=eh.ReportOptions(others=[baseline]))


def text(search: str | None = "text-random") -> Content:
    said = [
        f"The {who} at the {where} was {how}."
        for who in ("Sikh", "Jew", "Christian")
        for where in ("school", "station", "old mill")
        for how in ("kind", "late")
    ]
    words = {"kind": [1.0, 0.0], "nice": [0.9, 0.1], "late": [0.0, 1.0], "slow": [0.1, 0.9]}
    run = eh.audit(
        lambda texts: ["rude" if "Sikh" in t and ("nice" in t or "late" in t) else "fine" for t in texts],
        eh.TextSpace("religion", similar=(list(words), list(words.values()))),
        search,
        eh.Budget(tests=200),
        data=[*said, "Somebody."],
    )
    return gathered(run)


def scored_text() -> Content:
    """Texts with a number each, which no decision comes of."""
    said = [f"A {who} came{' late' * n}." for who in ("Muslim", "Sikh") for n in range(20)]
    run = eh.audit(
        lambda texts: np.array([0.1 + 0.31 * ("Muslim" in t) + 0.01 * len(t) for t in texts]),
        eh.TextSpace("religion"),
        "text-random",
        eh.Budget(tests=60),
        criterion=eh.Gap(0.25),
        data=[*said, "Somebody."],
    )
    return gathered(run)


def regression(search: str | None = "themis") -> Content:
    from sklearn.tree import DecisionTreeRegressor

    random = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "age": random.integers(18, 90, 300),
            "hours": random.uniform(0, 70, 300),
            "sex": random.integers(0, 2, 300),
        }
    )
    pay = 1000.0 + 10 * data["hours"] + 30.0 * (data["sex"] * (data["age"] > 40))
    tree = DecisionTreeRegressor(max_depth=8, random_state=0).fit(data, pay)
    space = eh.Space(
        [eh.Integer("age", 18, 80), eh.Real("hours", 0.0, 60.0, step=0.5), eh.Nominal("sex", [0, 1])], protected="sex"
    )
    run = eh.audit(tree, space, search, eh.Budget(tests=1_000), criterion=eh.Gap(20.5), data=data)
    return gathered(run, data=data, favourable="higher", samples=1_000)


def nothing(search: str | None = "themis") -> Content:
    space = eh.Space(
        [eh.Integer("age", 18, 80), eh.Integer("pay", 0, 10**6), eh.Nominal("sex", ["F", "M"])], protected="sex"
    )
    data = pd.DataFrame({"age": [30, 40, 95] * 20, "pay": [10, 20, 30] * 20, "sex": ["F", "M"] * 30})
    run = eh.audit(lambda f: f["age"] > 30, space, search, eh.Budget(tests=500), data=data)
    return gathered(run, data=data, samples=1_000)


def salary() -> Content:
    """Numbers without a favourable outcome: three groups, of which two differ clearly and one hardly."""
    random = np.random.default_rng(1)
    data = pd.DataFrame({"age": random.integers(18, 66, 400), "race": random.choice(["A", "B", "C"], 400)})
    space = eh.Space([eh.Integer("age", 18, 65), eh.Nominal("race", ["A", "B", "C"])], protected="race")

    def pay(frame: pd.DataFrame) -> Any:
        extra = 5_450.5 * (frame["race"] == "B") + 900 * (frame["race"] == "C") * (-1) ** frame["age"]
        return 1_002_000.0 + 40 * frame["age"] + extra

    run = eh.audit(eh.wrap(pay, regression=True), space, "themis", eh.Budget(tests=30), criterion=eh.Gap(200))
    return gathered(run, data=data, samples=6_000)


def ordered() -> Content:
    """Three outcomes in their order, which have numbers in their names."""
    data = pd.DataFrame({"hours": np.arange(300) % 61, "sex": ["F", "M"] * 150})
    space = eh.Space([eh.Integer("hours", 0, 60), eh.Nominal("sex", ["F", "M"])], protected="sex")

    def decide(frame: pd.DataFrame) -> Any:
        points = frame["hours"] + 15 * (frame["sex"] == "M")
        return np.select([points > 40, points > 20], ["grade 1", "grade 2"], "grade 3")

    run = eh.audit(decide, space, "themis", eh.Budget(tests=40))
    return gathered(run, data=data, samples=6_000, favourable=eh.Order(["grade 3", "grade 2", "grade 1"]))


def unread() -> Content:
    """A model that does not get what is protected."""
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(2)
    data = pd.DataFrame({"age": random.integers(18, 66, 300), "sex": random.integers(0, 2, 300)})
    space = eh.Space([eh.Integer("age", 18, 65), eh.Nominal("sex", [0, 1])], protected="sex")
    model = LogisticRegression().fit(data[["age"]], data["age"] > 40)
    run = eh.audit(model, space, "themis", eh.Budget(tests=40), data=data)
    return gathered(run, data=data, samples=1_000)


def unscored() -> Content:
    """A model that gets what is protected, and no score of which it changes."""
    space = eh.Space(
        [eh.Integer("age", 18, 65), eh.Integer("pay", 0, 10**6), eh.Nominal("sex", [0, 1])], protected="sex"
    )
    data = pd.DataFrame({"age": [30, 40, 50] * 20, "pay": [10, 20, 30] * 20, "sex": [0, 1] * 30})
    model = eh.wrap(lambda f: f["age"] / 100, threshold=0.35)
    run = eh.audit(model, space, "themis", eh.Budget(tests=1_200), data=data)
    return gathered(run, data=data, samples=1_000)


def taken_back() -> Content:
    """A model that takes some of its findings back: nothing is known of it but how the search went."""
    space = eh.Space([eh.Integer("age", 18, 65), eh.Integer("pay", 0, 99), eh.Nominal("sex", [0, 1])], protected="sex")
    asked = 0

    def model(last: float, frame: Any) -> Any:
        nonlocal asked
        asked += len(frame)
        return (frame["sex"] == 1) & (frame["age"] < 40) & ((asked <= last) | (frame["pay"] < 50))

    eh.audit(partial(model, math.inf), space, "themis", eh.Budget(tests=400), confirm=0)
    last, asked = asked, 0
    data = pd.DataFrame({"age": [30, 40, 50] * 20, "pay": [10, 20, 30] * 20, "sex": [0, 1] * 30})
    with pytest.raises(FlakyModel) as caught:
        eh.audit(partial(model, last), space, "themis", eh.Budget(tests=400), data=data)
    return gathered(caught.value.partial, data=data, samples=1_000)


def not_all_confirmed() -> Content:
    """Findings that were not asked again."""
    space = eh.Space([eh.Integer("age", 18, 65), eh.Integer("pay", 0, 99), eh.Nominal("sex", [0, 1])], protected="sex")
    run = eh.audit(lambda f: (f["sex"] == 1) & (f["age"] < 40), space, "themis", eh.Budget(tests=400), confirm=7)
    return gathered(run, samples=1_000)


REPORTS = {
    one.__name__: one
    for one in (
        adult, german, text, scored_text, regression, nothing, salary, ordered, unread, unscored, taken_back,
        not_all_confirmed,
    )
}  # fmt: skip
REPORTS |= {f"{one.__name__}_auto": partial(one, None) for one in (adult, text, regression, nothing)}


@pytest.fixture(scope="module", params=list(REPORTS))
def content(request: pytest.FixtureRequest) -> Content:
    optional("fairlearn")
    return REPORTS[request.param]()


@dataclass
class Walk(HTMLParser):
    """Everything that a reader sees of a report: figures, and texts with numbers that are none."""

    figures: list[tuple[str, str, str]] = field(default_factory=list)
    """Source, formatter and text of each."""
    loose: list[str] = field(default_factory=list)
    """Texts with a number and no source."""
    special: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))
        for name, value in attrs:
            if name in ("alt", "aria-label", "title") and re.search(r"\d", value or ""):
                self.loose.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing is in an empty tag."""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if not self._open:
            return
        _, attrs = self._open[-1]
        if "data-as" in attrs:
            self.figures.append((attrs["data-source"] or "", attrs["data-as"] or "", data))
            return
        if not re.search(r"\d", data) or any(t in NO_FIGURES or a.get("class") == "missing" for t, a in self._open):
            return
        source = next((a["data-source"] for _, a in reversed(self._open) if "data-source" in a), None)
        if source in SPECIAL:
            self.special[source] = self.special.get(source, 0) + 1
        else:
            self.loose.append(data.strip())


def walk(html: str, content: Content) -> Walk:
    """Walk a report; the version, and what the run counts as different, are named in sentences."""
    out = Walk()
    out.feed(html)
    out.close()
    known = [f"evenhand {__version__}", *re.findall(r"more than [\d.]+", Counted.of(content.run).heading)]
    for words in known:
        out.loose = [text.replace(words, "").replace(words.capitalize(), "") for text in out.loose]
    out.loose = [text for text in out.loose if re.search(r"\d", text)]
    return out


def resolved(content: Content, source: str) -> Any:
    """Follow a path from the content to a number."""
    value: Any = content
    for part in source.split("."):
        if isinstance(value, Mapping):
            value = value[part]
        else:
            value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


def wrong(found: Walk, content: Content) -> list[tuple[str, str, str]]:
    """Give the figures that are not what their sources say."""
    return [one for one in found.figures if _format.written(resolved(content, one[0]), one[1]) != one[2]]


def test_every_figure_is_that_of_its_source(content: Content) -> None:
    found = walk(render(content), content)
    assert wrong(found, content) == []
    assert found.loose == []
    shown = {source for source, _, _ in found.figures}
    for name, rate in content.rates.items():
        parts = ("rate", "samples", "found") + (("low", "high") if not rate.exact else ())
        assert {f"rates.{name}.{part}" for part in parts} <= shown
    assert {"run.found", "run.tests", "run.rows", "run.seconds"} <= shown
    for name in ("groups", "regions", "coverage", "examples", "terms"):
        assert not getattr(content, name) or any(source.startswith(name) for source in shown), name


def test_a_wrong_figure_and_one_without_a_source_are_found(content: Content) -> None:
    html = render(content)
    first = re.search(r'data-source="run.found" data-as="count">([\d,]+)<', html)
    assert first is not None
    changed = html[: first.start(1)] + "123,456" + html[first.end(1) :]
    assert wrong(walk(changed, content), content) == [("run.found", "count", "123,456")]
    more = html.replace("</main>", "<p>413 of them.</p></main>")
    assert walk(more, content).loose == ["413 of them."]


def test_one_source_is_shown_as_one_text(content: Content) -> None:
    """A share, its interval and its bound read the same wherever they stand: no second precision, no second bound.

    But for the sign, which "more" and "less" say too, and the unit: "34.6 in 1,000" is "3.46%", digit by digit.
    """
    texts: dict[str, set[str]] = {}
    for source, how, said in walk(render(content), content).figures:
        unit = as_percentage(said, how) if how.startswith("people") else said
        texts.setdefault(source, set()).add(unit.removeprefix("-"))
    assert {source: said for source, said in texts.items() if len(said) > 1} == {}


def as_percentage(said: str, how: str = "people") -> str:
    """Write so many of a number of people as a percentage, with all its digits."""
    many, _, of = said.replace(",", "").partition(" in ")
    return f"{(100 * Decimal(many) / Decimal(of or how.partition(':')[2])).normalize():f}%"


@given(st.floats(0.0001, 0.999))
@example(0.99995)
def test_both_units_of_a_share_have_the_same_digits(share: float) -> None:
    for one, other in (("people", "percent"), ("people_high", "high")):
        assert as_percentage(getattr(_format, one)(share)) == getattr(_format, other)(share)
    ends = _format.low(share), _format.percent(share), _format.high(share)
    of = _format.round_number(*ends)
    for one, shown in zip(("people_low", "people", "people_high"), ends, strict=True):
        how = f"{one}:{of}"
        assert as_percentage(_format.written(share, how), how) == shown
    assert as_percentage("346 in 10,000") == "3.46%"


def test_real_people_are_counted_over_one_set(content: Content) -> None:
    if content.examples is None:
        return
    e = content.estimates["data"]
    assert (content.examples.affected, content.examples.judged) == (e.found, e.samples)


def test_sentences_follow_from_the_intervals(content: Content) -> None:
    rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", render(content), re.DOTALL)
    judged = [row for row in rows if 'data-is="Net"' in row]
    for row in judged:
        ends = [float(value) for value in re.findall(r'value="([^"]*)" data-source="[^"]*\.net_(?:low|high)"', row)]
        ends = ends or [float(value) for value in re.findall(r'value="([^"]*)" data-source="[^"]*\.net"', row)]
        favoured = re.search(r"is favoured|is ahead|more often", row.rpartition("<td>")[2]) is not None
        assert favoured == (ends[0] > 0 or ends[-1] < 0)
    assert judged or content.subject.texts or content.subject.favourable is None or not content.estimates


def test_who_gets_more_follows_from_the_interval(content: Content) -> None:
    """Differences and their ends are figures in the table and in its sentences, and the words are theirs."""
    html = render(content)
    found = walk(html, content)
    numbers = [row for row in re.findall(r"<tr><th scope=\"row\".*?</tr>", html, re.DOTALL) if "Average" in row]
    for row in numbers:
        source = re.search(r'data-source="([\w.]+)\.difference"', row)
        assert source is not None
        c, said = resolved(content, source[1]), row.rpartition("<td>")[2]
        ends = c.difference_low, c.difference_high
        clear = ends[0] > 0 or ends[1] < 0
        assert ("it is not clear whether" in said) == (not clear and ends != (0, 0))
        parts = [] if ends[0] == ends[1] else [("difference_low", "size_low"), ("difference_high", "size_high")]
        parts += [("difference", "size")] if clear else []
        for part, how in parts:
            shown = getattr(_format, how)(getattr(c, part))
            assert f'data-source="{source[1]}.{part}" data-as="{how}">{shown}<' in said
    apart = any(c.difference is not None for e in content.estimates.values() for c in e.comparisons)
    assert bool(numbers) == apart
    verdict = html.split('class="verdict">')[1].split("</p>")[0]
    ends = [(c.difference_low, c.difference_high) for e in content.estimates.values() for c in e.comparisons]
    assert ("on average" in verdict) == any(low > 0 or high < 0 for low, high in ends if low is not None)
    assert {how for source, how, _ in found.figures if ".difference" in source} <= {
        "number", "number_low", "number_high", "size", "size_low", "size_high"
    }  # fmt: skip


def test_notes_of_attributes_that_are_not_used_have_sources() -> None:
    optional("fairlearn")
    for content, sources in (
        (nothing(), {"run.tests"}),
        (unscored(), {"run.tests", "run.scored.0"}),
        (unread(), set()),
    ):
        html = render(content)
        # It stands below the verdict, or in its place.
        verdict = html.split('class="verdict">')[1].split('<div class="next">')[0]
        note = str(content.run.note)
        assert note[1:] in Page(f"<p>{verdict}").text.replace(" ,", ",").replace(" ;", ";")
        told = verdict[verdict.lower().index(note[:12].lower()) :]
        assert set(re.findall(r'data-source="(run[\w.]+)"', told)) == sources


def test_the_same_quantity_has_the_same_interval_in_every_table(content: Content) -> None:
    for e in content.estimates.values():
        same = [s for s in e.shares if (s.found, s.compared) == (e.found, e.samples)]
        same += [c for c in e.comparisons if (c.different, c.pairs) == (e.found, e.samples)]
        assert all((one.rate, one.low, one.high) == (e.rate, e.low, e.high) for one in same)
        assert same or not e.shares
        assert _format.high(e.high) in repr(e) or e.exact or e.unaware


def test_an_audit_and_everything_made_of_it_have_one_rate(content: Content, tmp_path: Path) -> None:
    """One rate and one interval for each population, from the run: in the report, and in what is printed and stored."""
    run = content.run
    for name, own in run.estimate.items():
        shown = content.rates[name]
        assert (shown.rate, shown.low, shown.high) == (own.rate, own.low, own.high)
        assert (shown.found, shown.samples, shown.exact) == (own.found, own.samples, own.exact)
    if not run.estimate:
        return
    known = {_format.estimated(one.rate, one.low, one.high) for one in run.estimate.values()}
    known |= {str(one).split(": ")[1].split(", ")[0] for one in run.estimate.values()}
    said = [headline(run), *(Limit(share).words(run) for share in (0.0, 0.05, 0.99)), *dict(facts(run)).values()]
    said += [eh.export(run, tmp_path / f"out{end}").read_text("utf-8") for end in (".md", ".json", ".xml", ".sarif")]
    rates = [rate for text in said for rate in re.findall(r"[\d.]+% \([\d.]+% to [\d.]+%\)", str(text))]
    assert rates
    assert set(rates) <= known
    stored = json.loads((tmp_path / "out.json").read_text("utf-8"))["estimate"]
    assert stored == {name: one.to_dict() for name, one in run.estimate.items()}
    # The verdicts of the audit and of the report have the same numbers of people.
    verdict = Page(render(content)).text
    for numbers in re.findall(r"about ([\d,.]+(?:%| in [\d,]+)).*?CI (.*?)\)", headline(run)):
        assert all(number in verdict for number in numbers)


def test_sources_match_the_returned_objects() -> None:
    """The objects behind a report are those that a user gets from ``estimate`` and ``groups``."""
    optional("fairlearn")
    content = regression()
    run, subject = content.run, content.subject
    assert subject.probe is not None
    given = {"criterion": eh.Gap(20.5), "samples": 1_000, "favourable": "higher"}
    real = eh.estimate(subject.probe.model, run.space, "data", data=subject.data, **given)
    timeless = [{k: v for k, v in e.to_dict().items() if k != "seconds"} for e in (real, content.estimates["data"])]
    assert timeless[0] == timeless[1]
    assert content.groups is not None
    figures = eh.groups(subject.probe.model, run.space, subject.data, "higher")
    assert figures.to_dict() == content.groups.to_dict()
