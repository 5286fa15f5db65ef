"""Results in notebooks: each is a sentence, a few figures, tables and cards, in the look of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from evenhand._format import capital, plain
from evenhand.estimates.compare import Compared
from evenhand.estimates.groups import Groups
from evenhand.estimates.result import Estimate
from evenhand.explanations.examples import Examples
from evenhand.explanations.regions import Regions
from evenhand.repairs.result import Comparison as RepairComparison
from evenhand.repairs.result import Repair
from evenhand.reports import wording
from evenhand.reports.charts import KINDS, Point, Row, dots, gains, name_of, span, tradeoff
from evenhand.reports.figures import (
    Card,
    card_of,
    card_of_example,
    count,
    given,
    interval,
    level,
    listed,
    number,
    percent,
    say,
    short,
    sourced,
    was_of,
    written,
)
from evenhand.runs.pair_sentences import select_pairs
from evenhand.runs.run import Run
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from markupsafe import Markup

PAIRS, ROWS = 3, 12
"""Pairs of a run, and rows of a table, that are shown."""
HELD = {"data": "treated differently, of the held-out rows", "uniform": "treated differently, of random individuals"}
Cells = Sequence[Any]


@dataclass(frozen=True)
class Sheet:
    """A table: its headings, and its rows of cells."""

    head: Sequence[str]
    rows: Sequence[Cells]
    caption: Any = ""
    more: Any = ""


@dataclass(frozen=True)
class View:
    """What a notebook shows of a result."""

    verdict: Any
    figures: Sequence[tuple[str, Any, Any]] = ()
    """Names, values, and what to know about each."""
    tables: Sequence[Sheet] = ()
    cards: Sequence[Card] = ()
    notes: Sequence[Any] = ()
    run: Any = None
    points: Sequence[Any] = ()
    """What else the verdict says, one thing each."""
    charts: Sequence[tuple[str, Any]] = ()
    """Drawings with their captions."""


@singledispatch
def view_of(value: Any) -> View:
    """Return what a notebook shows of a value."""
    raise TypeError(f"there is no view of a {type(value).__name__}")


@view_of.register
def _(run: Run) -> View:
    shown: Any = sourced(run)
    ended = say("because {}. <code>eh.report(run)</code> measures how common this is, where, and for which groups.",
                wording.ended(shown))  # fmt: skip
    return View(
        wording.verdict(shown),
        [
            ("Findings", count(shown.found), say("by {}", given(name_of(run)))),
            ("Findings per test", percent(shown.success_rate), wording.aimed(shown)),
            ("Ended", "", ended),
        ],
        cards=sourced([card_of(pair) for pair in select_pairs(run, PAIRS)], "cards"),
        run=shown,
    )


@view_of.register
def _(space: Space) -> View:
    protected = given(", ".join(map(plain, space.protected)))
    rows = [
        [
            given(short(attribute.name)),
            attribute.kind,
            given(attribute.allowed() + (", or missing" if attribute.has_missing else "")),
            "yes" if attribute.name in space.protected else "",
        ]
        for attribute in space.attributes
    ]
    rules = [*(c.text for c in space.constraints), *(
        f"{free} follows {name}" for name, ends in space.links.items() for free in ends
    )]  # fmt: skip
    return View(
        say("{} attributes, protected: {}", count(sourced(len(space.names), "names")), protected),
        [
            (
                "Tests",
                count(sourced(space.tests, "tests")),
                "individuals that differ in something else than what is protected",
            ),
            ("Counterparts", count(sourced(space.combinations, "combinations")), "of each individual"),
        ],
        [
            Sheet(("Attribute", "Kind", "Values", "Protected"), rows),
            *([Sheet(("Constraints and links",), [[given(rule)] for rule in rules])] if rules else []),
        ],
    )


@view_of.register
def _(estimate: Estimate) -> View:
    shown: Any = sourced(estimate)
    e, directed = shown, [c for c in shown.comparisons if c.net is not None]
    ranked = sorted(shown.comparisons, key=lambda c: (len(c.first), -abs(c.rate if c.net is None else c.net)))
    reach = max((abs(end) for c in directed for end in (c.net_low, c.net_high)), default=1.0)
    rows = [
        [
            say("{} and {}", given(listed(c.first)), given(listed(c.second))),
            say("{} <small>{}</small>", percent(c.rate), interval(c.low, c.high)),
            *([_net(c, reach)] if directed else []),
            c.verdict,
        ]
        for c in ranked[:ROWS]
    ]
    head = ["The same individuals as", "Treated differently", *(["Net"] if directed else []), "Result"]
    bounds = "exact: all were tested" if e.exact else say("{}, {} confidence", interval(e.low, e.high),
                                                          level(e.confidence))  # fmt: skip
    more = len(ranked) - len(rows)
    rest = say("The other {} are in <code>by_pair</code> and <code>by_combination</code>.", more) if more else ""
    verdict, *clauses = _clauses(estimate.sentence)
    return View(
        verdict,
        [("Treated differently", percent(e.rate), bounds), ("Tested", count(e.samples), wording.asked(e))],
        [Sheet(head, rows, "Who is favoured, all else equal", rest)] if rows else [],
        notes=[given(estimate.note)] if estimate.note else [],
        points=clauses,
        charts=_gains(shown),
    )


def _gains(e: Estimate) -> list[tuple[str, Any]]:
    """Draw the pairs of values that differ most."""
    drawn = gains(e)
    words = f"{KINDS[drawn.kind]}, all else equal."
    return [(chart, words) for chart in (drawn.chart, *(one.chart for one in drawn.maps)) if chart]


def _net(c: Any, reach: float) -> Markup | str:
    if c.net is None:
        return ""
    bar = span(c.net_low, c.net, c.net_high, -reach, reach)
    return say("{} <small>{}</small>", percent(c.net), interval(c.net_low, c.net_high)) + say(bar)


@view_of.register
def _(groups: Groups) -> View:
    shown: Any = sourced(groups)
    means = any(group.mean is not None for group in groups.groups)
    head = ["Group", "People", *(["Mean"] if means else []), "Rate", "Impact ratio", "Four-fifths rule"]
    rows = []
    for group in shown.groups[:ROWS]:
        mean = [] if not means else ["" if group.mean is None else number(group.mean)]
        rate = "no rows" if group.rate is None else say("{} <small>{}</small>", percent(group.rate),
                                                        interval(group.low, group.high))  # fmt: skip
        ratio = "" if group.impact_ratio is None else number(group.impact_ratio)
        rows.append([given(listed(group.values)), count(group.rows), *mean, rate, ratio, group.verdict])
    more = len(groups.groups) - len(rows)
    return View(
        say("{}", given(capital(groups.sentence))),
        tables=[Sheet(head, rows, more=say("The other {} are in <code>frame</code>.", more) if more else "")],
    )


@view_of.register
def _(regions: Regions) -> View:
    shown: Any = sourced(regions)
    most = max((region.inside.high for region in regions.regions), default=1.0)
    rows = [
        [
            given(region.words),
            say("{} <small>{}</small>", percent(region.inside.rate), interval(region.inside.low, region.inside.high))
            + say(span(region.inside.low, region.inside.rate, region.inside.high, 0.0, most)),
            percent(region.outside.rate),
            percent(region.support),
            "" if region.data_support is None else percent(region.data_support),
        ]
        for region in shown.regions
    ]
    head = ("Rule", "Treated differently", "Elsewhere", "Share of valid individuals", "Share of the data")
    verdict = "No region stands out"
    if rows:
        regions_found = count(sourced(len(rows), "regions"))
        verdict = say("{} {} of discrimination", regions_found, "region" if len(rows) == 1 else "regions")
    return View(
        verdict,
        [
            ("Outside all regions", percent(shown.beyond.rate), interval(shown.beyond.low, shown.beyond.high)),
            ("Everywhere", percent(shown.everybody.rate), interval(shown.everybody.low, shown.everybody.high)),
        ],
        [Sheet(head, rows)] if rows else [],
    )


@view_of.register
def _(examples: Examples) -> View:
    shown: Any = sourced(examples)
    figures = [("Findings", count(shown.found), "of the run")]
    if examples.realistic is not None:
        figures.append(("Realistic", percent(shown.realistic), say("of {} findings", count(shown.realistic_of))))
    if examples.judged:
        asked = say("of {} people in the data, as they are", count(shown.judged))
        figures.append(("Treated differently", count(shown.affected), asked))
    cards = [card_of_example(one, was_of(one), examples.real, examples.found) for one in examples]
    return View(
        say(
            "{} distinct {}", count(sourced(len(examples), "examples")), "example" if len(examples) == 1 else "examples"
        ),
        figures,
        cards=sourced(cards, "cards"),
        run=shown,
    )


@view_of.register(Repair)
@view_of.register(RepairComparison)
def _(repaired: Any) -> View:
    compared = repaired if isinstance(repaired, RepairComparison) else repaired.compared
    first, *said = compared.sentences
    if compared is not repaired:
        first, said = f"{repaired.verdict}.", [*compared.sentences, *(f"{words}." for words in repaired.notes)]
    table = _models(sourced(compared, "" if compared is repaired else "compared"))
    head, *rest = _clauses(first)
    return View(head, charts=_tradeoff(compared), tables=[table], notes=[given(words) for words in said], points=rest)


def _clauses(sentence: str) -> list[Markup]:
    """Split a long sentence: the first thing that it says is the verdict."""
    return [given(f"{capital(clause.rstrip('.'))}.") for clause in sentence.split("; ")]


def _models(compared: Any) -> Sheet:
    """Compare the original, the controls and the repaired models."""
    rows, texts = [], False
    for i, name in enumerate(compared.done):
        one = compared.done[name]
        texts = bool(one.before.texts)
        if not i:
            rows.append(["original", *_evidence(one.before), "", ""])
        if one.control is not None:
            rows.append([f"{name}: control", *_evidence(one.control), "", ""])
        after = _evidence(one.after) if one.changed else ["not returned: no improvement", "", ""]
        rows.append([name, *after, count(one.rows_added), written(one.seconds, "seconds")])
    first = "Of the original's findings" if texts else "Random individuals treated differently"
    second = f"{'Texts' if texts else 'People'} like the held-out ones treated differently"
    return Sheet(("Model", first, second, "Accuracy", f"{'Texts' if texts else 'Rows'} added", "Seconds"), rows)


def _evidence(evidence: Any) -> list[Any]:
    first = evidence.uniform if not evidence.texts else evidence.kept
    parts: list[Any] = [percent(first)] if evidence.texts and first is not None else [_rate(first)]
    right = evidence.accuracy
    accuracy = say("{} <small>{}</small>", percent(right.value), interval(right.low, right.high))
    return [*parts, _rate(evidence.data), accuracy]


def _rate(e: Any) -> Markup:
    if e is None:
        return say("not measured")
    return percent(e.rate) if e.exact else say("{} <small>{}</small>", percent(e.rate), interval(e.low, e.high))


def _tradeoff(compared: RepairComparison) -> list[tuple[str, Any]]:
    """Draw the accuracy of each model against its rate, the control beside each repair."""
    models: list[tuple[str, Any, str]] = []
    for name, one in compared.done.items():
        models += [("original", one.before, "before")] if not models else []
        models.append((name, one.after, ""))
        models += [(f"{name}: control", one.control, "control")] if one.control is not None else []
    out = []
    for population, words in HELD.items():
        measured = [(name, getattr(evidence, population), evidence.accuracy, kind) for name, evidence, kind in models]
        points = [
            Point(name, (e.low, e.rate, e.high), (right.low, right.value, right.high), kind)
            for name, e, right, kind in measured
            if e is not None
        ]
        if points:
            caption = f"The best place is the upper left. A control is only trained again: {words}."
            out.append((tradeoff(points, words, "accuracy"), caption))
    return out


@view_of.register
def _(compared: Compared) -> View:
    shown: Any = sourced(compared)
    rates = shown.rates
    old, new = len(compared.fixed) + len(compared.still), len(compared.new) + len(compared.known)
    rows = [
        ["Treated differently", percent(rates.rate_a), percent(rates.rate_b)],
        ["Interval", interval(rates.low_a, rates.high_a), interval(rates.low_b, rates.high_b)],
        ["Findings of its run", count(sourced(old, "run_a.found")), count(sourced(new, "run_b.found"))],
        ["Of these, only by this model", *(count(sourced(len(part), name)) for part, name in
                                           ((compared.fixed, "fixed"), (compared.new, "new")))],
    ]  # fmt: skip
    sides = [
        Row("first model", rates.low_a, rates.rate_a, rates.high_a, rates.rate_a),
        Row("second model", rates.low_b, rates.rate_b, rates.high_b, rates.rate_b),
    ]
    words = "Treated differently by each model, of the same individuals."
    chart = dots(sides, words)
    return View(
        given(f"{compared.verdict}."),
        charts=[(chart, words)],
        tables=[Sheet(("Figure", "First model", "Second model"), rows)],
        notes=[given(compared.sentence)],
    )
