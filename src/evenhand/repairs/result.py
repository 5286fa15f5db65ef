"""The result of a repair: a model, the evidence before and after, their differences, in words and as a figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand._format import Viewed, estimated, percent, points, points_interval, to_plain, visible
from evenhand.errors import EvenhandError
from evenhand.estimates.plots import empty_figure
from evenhand.estimates.result import Estimate
from evenhand.repairs.context import Round, seed_of
from evenhand.repairs.data import Used, UsedTexts
from evenhand.repairs.evidence import Interval, auc_difference, calibration_difference, share_difference
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evenhand.repairs.evidence import Evidence

KEPT = "of the same findings"
"""The share of the check's findings in the original model that a model treats differently."""


@dataclass(frozen=True)
class Shift:
    """The change in the share of individuals for which one other attribute makes a difference."""

    attribute: str
    before: float
    after: float
    difference: Interval
    """The interval holds for all watched attributes simultaneously."""

    @property
    def rose(self) -> bool:
        """Whether the interval of the difference is above 0."""
        return self.difference.low > 0


@dataclass
class Repair(Viewed):
    """A model with evidence of what changed. Returned by ``eh.repair``."""

    model: Any
    """The repaired model, or the original."""
    original: Any
    """The same estimator, trained on the same rows without any repair."""
    before: Evidence
    after: Evidence
    """Evidence about the model that is returned."""
    changed: bool
    """False if the original is returned."""
    method: Any
    rows_added: int
    rounds: list[Round]
    notes: list[str]
    seconds: float
    confidence: float
    seed: int
    settings: dict[str, Any]
    """Search, check, numbers of training and held-out rows and of used tests, attributes watched or not."""
    used: Used | UsedTexts = field(repr=False)
    """The tests that the repair trained with: none of them is in an estimate or in the audit."""
    control: Evidence | None = field(default=None, repr=False)
    """Evidence about the same training with nothing added; None if the method trains nothing."""
    rejected: Evidence | None = field(default=None, repr=False)
    """Evidence about a repaired model that is not returned: it is worse, or too few individuals are left."""
    reason: str = ""
    """Why the original is returned, if it is."""
    comparison: Comparison | None = field(default=None, repr=False)
    """All methods that were tried, and the choice between them."""
    cost: str = ""
    """What each prediction of the repaired model costs more, if it does."""

    @cached_property
    def differences(self) -> dict[str, Interval | None]:
        """How much each figure rose, on the same individuals and rows, each with an interval."""
        return differences(self.before, self.after, self.confidence, self.seed)

    @cached_property
    def control_differences(self) -> dict[str, Interval | None]:
        """How much the rates are above those of the control, on the same individuals; empty without a control."""
        if self.control is None or not self.changed:
            return {}
        return {name: rate_difference(self.control, self.after, name, self.confidence) for name in ("uniform", "data")}

    @cached_property
    def shifts(self) -> tuple[Shift, ...]:
        """How the other attributes that were watched changed."""
        return shifts(self.before, self.after, self.confidence)

    @property
    def moved(self) -> tuple[str, ...]:
        """Attributes that make a difference for more people than before, with all comparisons taken together."""
        return tuple(shift.attribute for shift in self.shifts if shift.rose)

    @property
    def removed(self) -> float | None:
        """For texts: the share of the original's findings, made from held-out texts, that are no longer findings."""
        return None if self.after.kept is None else 1 - self.after.kept

    @property
    def verdict(self) -> str:
        """What changed, in one sentence."""
        return verdict(self)

    @property
    def frame(self) -> pd.DataFrame:
        """Every figure before, after, and its difference, with intervals."""
        rows = []
        for name, apart in self.differences.items():
            row: dict[str, Any] = {"figure": name}
            for when, one in (("before", figures(self.before)[name]), ("after", figures(self.after)[name])):
                ends = (np.nan, np.nan, np.nan) if one is None else (one.value, one.low, one.high)
                row |= dict(zip((when, f"{when}_low", f"{when}_high"), ends, strict=True))
            ends = (np.nan, np.nan, np.nan) if apart is None else (apart.value, apart.low, apart.high)
            rows.append(row | dict(zip(("difference", "low", "high"), ends, strict=True)))
        return pd.DataFrame(rows).set_index("figure")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, except the models."""
        return {
            "method": {"method": type(self.method).__name__.lower(), **to_plain(vars(self.method))},
            "changed": self.changed,
            "reason": self.reason,
            "verdict": self.verdict,
            "rows_added": self.rows_added,
            "rounds": [asdict(one) for one in self.rounds],
            "notes": self.notes,
            "cost": self.cost,
            "seconds": self.seconds,
            "confidence": self.confidence,
            "seed": self.seed,
            "settings": to_plain(self.settings),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "control": None if self.control is None else self.control.to_dict(),
            "rejected": None if self.rejected is None else self.rejected.to_dict(),
            "differences": {
                name: None if one is None else to_plain(asdict(one)) for name, one in self.differences.items()
            },
            "shifts": [{**asdict(shift), "rose": shift.rose} for shift in self.shifts],
            "moved": list(self.moved),
        }

    def plot(self) -> Figure:
        """Draw accuracy against the share treated differently, before and after."""
        return tradeoff({type(self.method).__name__.lower(): self})

    def __repr__(self) -> str:
        lines = [f"Repair: {self.verdict}.", str(self.compared), *(f"Note: {note}." for note in self.notes)]
        return "\n".join([fill(lines[0]), *lines[1:2], *map(fill, lines[2:])])

    @property
    def compared(self) -> Comparison:
        """The repair beside the original and the control."""
        name = type(self.method).__name__.lower()
        return self.comparison or Comparison({name: self}, {}, name, "it is the only method")


def figures(evidence: Evidence) -> dict[str, Interval | None]:
    """Return a model's figures by name."""
    calibrated, run = evidence.calibration, evidence.audit
    share = None if evidence.kept is None else Interval(evidence.kept, math.nan, math.nan)
    return {
        **({KEPT: share} if evidence.texts else {"uniform": _interval(evidence.uniform)}),
        "data": _interval(evidence.data),
        "found by the check": None if run is None else Interval(run.success_rate, math.nan, math.nan),
        "accuracy": evidence.accuracy,
        "auc": evidence.auc,
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def _interval(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.rate, estimate.low, estimate.high)


def differences(before: Evidence, after: Evidence, confidence: float, seed: int) -> dict[str, Interval | None]:
    """Compare two models on the same individuals and rows."""
    calibrated = calibration_difference(before.answered, after.answered, confidence, seed_of(seed, "boots"))
    shares = [0.0 if one.audit is None else one.audit.success_rate for one in (before, after)]
    uniform = rate_difference(before, after, "uniform", confidence)
    # Findings of one walk are similar, so their share has no interval.
    kept = None if before.kept is None or after.kept is None else Interval(after.kept - 1, math.nan, math.nan)
    return {
        **({KEPT: kept} if before.texts else {"uniform": uniform}),
        "data": rate_difference(before, after, "data", confidence),
        # A search stays near its findings, so its share is not an estimate and has no interval.
        "found by the check": Interval(shares[1] - shares[0], math.nan, math.nan),
        "accuracy": share_difference(before.answered.correct, after.answered.correct, confidence),
        "auc": auc_difference(before.answered, after.answered, confidence),
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def rate_difference(before: Evidence, after: Evidence, name: str, confidence: float) -> Interval | None:
    """How much a share rose; the interval has no width if all individuals were judged."""
    first, second = before.estimate(name), after.estimate(name)
    if first is None or second is None:
        return None
    if first.exact and second.exact:
        return Interval(*[second.rate - first.rate] * 3)
    verdicts = before.verdicts[name], after.verdicts[name]
    misjudged = (first.misjudged + second.misjudged) * len(verdicts[0])
    return share_difference(*verdicts, confidence, misjudged)


def shifts(before: Evidence, after: Evidence, confidence: float) -> tuple[Shift, ...]:
    """Compare two models on other attributes, with intervals that hold for all of them at once (Bonferroni)."""
    names = [name for name in before.others if name in after.others]
    at_once = 1 - (1 - confidence) / max(1, len(names))
    out = []
    for name in names:
        apart = rate_difference(before, after, name, at_once)
        assert apart is not None
        out.append(Shift(name, before.others[name].rate, after.others[name].rate, apart))
    return tuple(out)


OF = {
    "uniform": "of valid individuals",
    "data": "of people like the held-out rows",
    "texts": "of texts like the held-out ones",
}
SLIGHT = 0.01
"""Maximum share of a population that the repair may use without mentioning it."""


def verdict(r: Repair) -> str:
    """Describe what a repair changed, or why it changed nothing."""
    if not r.changed:
        return visible(f"{r.reason}; the original model is returned")
    first = "data" if r.after.texts else "uniform"
    parts = [
        change("discrimination", first, r.before, r.after, r.differences[first]),
        _removed(r) if first == "data" else change("it", "data", r.before, r.after, r.differences["data"]),
        *_against_control(r, first),
        _accuracy(r),
        _check(r),
    ]
    if len(set(r.after.answered.decisions.tolist())) == 1 < len(set(r.before.answered.decisions.tolist())):
        parts.append(f"the repaired model decides {r.after.answered.decisions[0]!s} for all held-out rows")
    if r.moved:
        rose = {shift.attribute: shift for shift in r.shifts}
        named = [f"{n} ({difference(rose[n].difference)})" for n in r.moved]
        parts.append(f"more people than before depend on {', '.join(named)}")
    return visible("; ".join(parts))


def improved(r: Repair, control: bool = True) -> bool:
    """Return whether a rate fell significantly, and below that of the control as well.

    The same rate must fall on both counts.
    """

    def fell(by: Interval | None) -> bool:
        return by is not None and by.high < 0

    against = r.control_differences if control else {}
    return any(fell(r.differences.get(name)) and (name not in against or fell(against[name])) for name in OF)


def _against_control(r: Repair, name: str) -> list[str]:
    """Describe what training with nothing added changes, and whether the repair is better."""
    found = None if r.control is None else r.control.estimate(name)
    lines = [] if found is None else [f"with nothing added, the same training leaves {rate(found)}"]
    if improved(r):
        return lines
    if improved(r, control=False):
        return [*lines, "no improvement is shown over training with nothing added"]
    return [*lines, "no improvement is shown"]


def change(what: str, name: str, before: Evidence, after: Evidence, by: Interval | None) -> str:
    """Describe a share and its change; the verb follows from the interval of the difference.

    The share before is left out: other repairs of the same model measure it on other individuals.
    """
    first, second = before.estimate(name), after.estimate(name)
    if first is None or second is None or by is None:
        return f"no individual is left to estimate it {OF[_population(name, after)]}: the repair used the tests of all"
    how = "fell" if by.high < 0 else "rose" if by.low > 0 else "stayed" if not by.value else "may have changed"
    if how == "stayed":
        return f"{what} stayed at {rate(second)} {population_phrase(name, after)}"
    return f"{what} {how}, to {rate(second)} {population_phrase(name, after)} ({difference(by)})"


def population_phrase(name: str, evidence: Evidence) -> str:
    """Describe the population of a share; if the repair used many of its individuals, the others."""
    found, of = evidence.estimate(name), _population(name, evidence)
    used, judged = 0 if found is None else found.counts.get("left_out", 0), len(evidence.verdicts.get(name, ()))
    if used <= SLIGHT * (used + judged):
        return OF[of]
    left = f"{judged:,} of {used + judged:,}"
    whose = "that no training used" if of == "texts" else "whose tests the repair did not use"
    return f"{OF[of]} {whose} ({left})"


def not_shown(evidence: Evidence, name: str = "uniform") -> str:
    """Write that too few are left to show what changed."""
    found = evidence.estimate(name)
    if found is None:
        return "not measured: the repair used all tests, so no individual is left to measure the change"
    left = len(evidence.verdicts[name])
    every = left + found.counts["left_out"]
    return f"not measured: the repair used all but {left:,} of {every:,} tests, too few to measure the change"


def _population(name: str, evidence: Evidence) -> str:
    return "texts" if evidence.texts else name


def rate(e: Estimate) -> str:
    """Write a share with its interval.

    >>> from types import SimpleNamespace
    >>> rate(SimpleNamespace(rate=0.041, low=0.039, high=0.043, exact=False))
    '4.1% (3.9% to 4.3%)'
    """
    return estimated(e.rate, e.low, e.high)


def difference(by: Interval) -> str:
    """Write a difference of shares, with its interval.

    >>> difference(Interval(-0.0031, -0.005, 0.001)), difference(Interval(0.1, 0.1, 0.1))
    ('difference -0.31 points, -0.5 to +0.1 points', 'difference +10 points')
    """
    ends = f", {points_interval(by.low, by.high)}" if by.low < by.high else ""
    return f"difference {points(by.value)} points{ends}"


def _accuracy(r: Repair) -> str:
    by = r.differences["accuracy"]
    assert by is not None
    return f"accuracy {percent(r.before.accuracy.value)} to {percent(r.after.accuracy.value)} ({difference(by)})"


def _removed(r: Repair) -> str:
    if r.removed is None:
        return "the original model had no findings from held-out texts"
    return f"{percent(r.removed)} of the original model's findings from held-out texts are gone"


def _check(r: Repair) -> str:
    first, second = r.before.audit, r.after.audit
    assert first is not None
    assert second is not None
    name = second.identity.search
    other = "from the held-out texts" if second.space.supports("texts") else "which the repair did not use"
    return (
        f"{name}, {other}, finds {second.found:,} in {second.tests:,} tests, and found "
        f"{first.found:,} in {first.tests:,} before"
    )


GREY, COLOURS = "#64748b", ("#c2410c", "#0f766e", "#1d4ed8", "#a21caf", "#a16207")
POPULATIONS = {"uniform": "of valid individuals", "data": "of people like the held-out rows"}


def tradeoff(repairs: Mapping[str, Repair]) -> Figure:
    """Draw accuracy against the share treated differently, before and after each repair, with intervals.

    The best place is the upper left corner. Accuracy is that of the held-out rows.
    """
    figure = empty_figure(9.6, 3.8)
    for number, (population, words) in enumerate(POPULATIONS.items()):
        axes = figure.add_subplot(1, 2, number + 1)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for place, (name, repair) in enumerate(repairs.items()):
            if place == 0:
                _point(axes, repair.before, population, GREY, "original", "s")
            _point(axes, repair.after, population, COLOURS[place % len(COLOURS)], name, "o")
        axes.set_xlabel(f"treated differently, % {words}")
        axes.set_ylabel("accuracy, %")
        axes.set_xlim(left=0)
        axes.legend(frameon=False, fontsize="small")
    return figure


def _point(axes: Axes, evidence: Any, population: str, colour: str, name: str, marker: str) -> None:
    rate, right = getattr(evidence, population), evidence.accuracy
    if rate is None:
        return
    axes.errorbar(
        [100 * rate.rate],
        [100 * right.value],
        xerr=[[100 * (rate.rate - rate.low)], [100 * (rate.high - rate.rate)]],
        yerr=[[100 * (right.value - right.low)], [100 * (right.high - right.value)]],
        fmt=marker,
        color=colour,
        capsize=2,
        elinewidth=0.8,
        label=name,
    )


ORIGINAL = "original"
WIDTH = 80
HEAD = {
    False: ("", "individuals", "held-out rows", "accuracy", "added", "time"),
    True: ("", "same findings", "held-out texts", "accuracy", "added", "time"),
}
UNITS = {
    False: ("", "% (CI)", "% (CI)", "%", "rows", "s"),
    True: ("", "%", "% (CI)", "%", "texts", "s"),
}


@dataclass(frozen=True)
class Comparison(Viewed):
    """Repairs by several methods, with the same original model and evidence from the same individuals.

    ``print`` shows a table that fits 80 columns: the rates of the original, of the controls and of each method, with
    their costs.
    """

    done: Mapping[str, Repair]
    """The repairs of the methods that succeeded."""
    failed: Mapping[str, EvenhandError]
    """The errors of the methods that failed."""
    chosen: str
    """The name of the best method, or "original"."""
    why: str

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table: the original, the controls, then each method."""
        return rows(self.done, self.failed, 2)

    @property
    def table(self) -> str:
        """The table as text, in at most 80 columns."""
        return table(self.done, self.failed)

    def __str__(self) -> str:
        parts = [self.table, *(fill(sentence) for sentence in sentences(self))]
        return "\n".join(part for part in parts if part)

    @property
    def head(self) -> list[str]:
        """The headings of the table, with their units."""
        return [f"{title} {unit}".strip() for title, unit in _head(self.done)]

    @property
    def sentences(self) -> list[str]:
        """The best method, and what it changes and costs."""
        return sentences(self)


def choose(done: Mapping[str, Repair], tolerate: float, only: bool = False) -> tuple[str, str]:
    """Choose the repair with the largest significant reduction among those that lose no more accuracy than tolerated.

    The reduction is that of the rate among random individuals, of that among the held-out rows, or the sum of both, if
    it is significant against the original and the control. Ties go to the repair that loses less accuracy, then to the
    one that moves discrimination to fewer attributes. If no repair qualifies, the original is kept.
    """
    if only:
        return next(iter(done)), "it is the only method"
    within = f"at most {tolerate:g} point{'s' * (tolerate != 1)} of accuracy"
    good = []
    for name, one in done.items():
        falls = 0.0
        for key in ("uniform", "data"):
            by, beside = one.differences.get(key), one.control_differences.get(key)
            if by is not None and by.high < 0 and (beside is None or beside.high < 0):
                falls += by.value
        gain = one.differences["accuracy"]
        loss = 0.0 if gain is None else round(-100 * gain.value, 9)
        if falls < 0 and loss <= tolerate:
            good.append((falls, loss, len(one.moved), name))
    if not good:
        return ORIGINAL, f"no method significantly reduces the rate, also compared with the control, and loses {within}"
    return min(good)[-1], f"largest significant reduction among the methods that lose {within}"


def table(done: Mapping[str, Repair], failed: Mapping[str, Any]) -> str:
    """Write the table in at most 80 columns: with two decimals, or one; if that is too wide, without intervals."""
    for decimals, intervals in ((2, True), (1, True), (1, False)):
        head = list(zip(*_head(done), strict=True))
        lines = [*head, *rows(done, failed, decimals, intervals)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in
                      enumerate(zip(line, widths, strict=True))).rstrip()
            for line in lines
        ]  # fmt: skip
        if max(map(len, text)) <= WIDTH:
            break
    return "\n".join(line[:WIDTH] for line in text)


def _head(done: Mapping[str, Repair]) -> list[tuple[str, str]]:
    texts = any(one.before.texts for one in done.values())
    return [(title, unit) for title, unit in zip(HEAD[texts], UNITS[texts], strict=True)]


def rows(
    done: Mapping[str, Repair], failed: Mapping[str, Any], decimals: int = 2, intervals: bool = True
) -> list[tuple[str, ...]]:
    """Return the cells of the table."""
    first = next(iter(done.values()), None)
    out: list[tuple[str, ...]] = (
        [] if first is None else [(ORIGINAL, *_figures(first.before, decimals, intervals), "", "")]
    )
    controls: dict[int, tuple[str, str, Evidence]] = {}
    for name, one in done.items():
        if one.control is not None:
            controls.setdefault(id(one.control), (one.settings.get("start") or "", name, one.control))
    starts = [start for start, _, _ in controls.values()]
    for start, method, control in controls.values():
        # Controls trained for different numbers of steps get the names of their methods.
        what = start if starts.count(start) == 1 else method
        shown = f"{what} control" if len(controls) > 1 else "control"
        out.append((shown, *_figures(control, decimals, intervals), "0", ""))
    for name, one in done.items():
        figures, added = one.after if one.changed else one.before, one.rows_added
        shown = name if one.changed else f"{name[:14]}: no"
        out.append((shown, *_figures(figures, decimals, intervals), f"{added:,}", f"{one.seconds:.0f}"))
    return out + [(f"{name[:10]}: failed", *("-",) * 5) for name in failed]


def _figures(evidence: Evidence, decimals: int, intervals: bool = True) -> tuple[str, str, str]:
    def rate(found: Any) -> str:
        if found is None:
            return "-"
        share, low, high = (f"{100 * value:.{decimals}f}" for value in (found.rate, found.low, found.high))
        return f"{share} ({low}-{high})" if intervals and low != high else share

    kept = "-" if evidence.kept is None else f"{100 * evidence.kept:.{decimals}f}"
    first = kept if evidence.texts else rate(evidence.uniform)
    return first, rate(evidence.data), f"{100 * evidence.accuracy.value:.{decimals}f}"


def sentences(comparison: Comparison) -> list[str]:
    """Say what the original and the control are; name the best method, its effect and its cost."""
    done, chosen = comparison.done, comparison.chosen
    out = [f"{name} failed: {' '.join(error.render().split())}" for name, error in comparison.failed.items()]
    out += _legend(list(done.values()))
    if chosen not in done:
        return [*out, f"Best: the original model ({comparison.why}).", *_too_dear(done)]
    best = done[chosen]
    if len(done) > 1:
        does = getattr(best.method, "does", "")
        out.append(f"Best: {chosen}{f', {does}' if does else ''} ({comparison.why}).")
    if not best.changed:
        return out
    costs = [_accuracy_cost(best.differences["accuracy"])]
    if best.rows_added:
        costs.append(f"training used {best.rows_added:,} more {'texts' if best.after.texts else 'rows'}")
    took = f"the repair and its evidence took {best.seconds:.0f} s"
    return [*out, f"Cost of {chosen}: {'; '.join([', '.join(costs), *[best.cost] * bool(best.cost), took])}."]


def _too_dear(done: Mapping[str, Repair]) -> list[str]:
    """Name the method that would be chosen if it did not lose so much accuracy."""
    name, _ = choose(done, math.inf)
    if name not in done or (gain := done[name].differences["accuracy"]) is None:
        return []
    return [
        f"{name} significantly reduces the rate, but loses {-100 * gain.value:.2f} points of accuracy: it would be "
        "returned with a larger tolerate."
    ]


def _legend(done: list[Repair]) -> list[str]:
    """Say what the original and the controls are."""
    if not done:
        return []
    noun = "texts" if done[0].before.texts else "rows"
    first = f"Original: the same estimator, trained again on {done[0].settings['training_rows']:,} {noun}."
    controls = len({id(one.control) for one in done if one.control is not None})
    if not controls:
        return [first]
    return [f"{first} Control{'s' * (controls > 1)}: trained like the repaired models, with nothing added."]


def _accuracy_cost(gain: Interval | None) -> str:
    change = 0.0 if gain is None else round(100 * gain.value, 2)
    return f"accuracy fell by {-change:g} points" if change < 0 else f"no accuracy ({change:+g} points)"


def fill(sentence: str) -> str:
    """Wrap a sentence to 80 columns."""
    return textwrap.fill(visible(sentence), WIDTH, subsequent_indent="  ", break_on_hyphens=False)
