"""The result of a repair: a model, the evidence before and after, their differences, in words and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand._format import estimated, percent, points, points_interval, to_plain, visible
from evenhand.estimates.plots import empty_figure
from evenhand.estimates.result import Estimate
from evenhand.repairs.context import Round, seed_of
from evenhand.repairs.data import Used, UsedTexts
from evenhand.repairs.metrics import Interval, auc_difference, calibration_difference, share_difference

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evenhand.estimates.result import Estimate
    from evenhand.repairs.evidence import Evidence

KEPT = "of the same findings"
"""The share of what the check found in the original model that a model treats differently."""


@dataclass(frozen=True)
class Shift:
    """The change in the share of individuals for which one other attribute makes a difference."""

    attribute: str
    before: float
    after: float
    difference: Interval
    """Its interval holds for all attributes that were watched at once."""

    @property
    def rose(self) -> bool:
        """Whether the interval of the difference is above 0."""
        return self.difference.low > 0


@dataclass
class Repair:
    """A model with evidence of what changed. Not made by hand."""

    model: Any
    """What is handed back: the repaired model, or the original."""
    original: Any
    """The same estimator, trained on the same rows without any repair."""
    before: Evidence
    after: Evidence
    """Of the model that is handed back."""
    changed: bool
    """False where the original is handed back."""
    method: Any
    rows_added: int
    rounds: list[Round]
    notes: list[str]
    seconds: float
    confidence: float
    seed: int
    settings: dict[str, Any]
    """Search, check, rows for training and held out, tests that the repair used, attributes watched or not."""
    used: Used | UsedTexts = field(repr=False)
    """The tests that the repair trained with: none of them is in an estimate or in the audit."""
    rejected: Evidence | None = field(default=None, repr=False)
    """Of a repaired model that was not handed back: it is worse, or no individual is left to show that it is not."""
    reason: str = ""
    """Why the original is handed back, where it is."""

    @cached_property
    def differences(self) -> dict[str, Interval | None]:
        """How much each figure rose, on the same individuals and rows, each with an interval."""
        return differences(self.before, self.after, self.confidence, self.seed)

    @cached_property
    def shifts(self) -> tuple[Shift, ...]:
        """What became of the other attributes that were watched."""
        return shifts(self.before, self.after, self.confidence)

    @property
    def moved(self) -> tuple[str, ...]:
        """Attributes that make a difference to more people than before, all comparisons taken together."""
        return tuple(shift.attribute for shift in self.shifts if shift.rose)

    @property
    def removed(self) -> float | None:
        """Of texts: the share of the original model's findings, made of held-out texts, that are none any more."""
        return None if self.after.kept is None else 1 - self.after.kept

    @property
    def verdict(self) -> str:
        """Say what changed."""
        return verdict(self)

    @property
    def frame(self) -> pd.DataFrame:
        """Every figure before, after, and its difference, with intervals."""
        import pandas as pd

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
        """Give everything in plain values, the models not included."""
        return {
            "method": {"method": type(self.method).__name__.lower(), **to_plain(vars(self.method))},
            "changed": self.changed,
            "reason": self.reason,
            "verdict": self.verdict,
            "rows_added": self.rows_added,
            "rounds": [asdict(one) for one in self.rounds],
            "notes": self.notes,
            "seconds": self.seconds,
            "confidence": self.confidence,
            "seed": self.seed,
            "settings": to_plain(self.settings),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "rejected": None if self.rejected is None else self.rejected.to_dict(),
            "differences": {
                name: None if one is None else to_plain(asdict(one)) for name, one in self.differences.items()
            },
            "shifts": [{**asdict(shift), "rose": shift.rose} for shift in self.shifts],
            "moved": list(self.moved),
        }

    def plot(self) -> Figure:
        """Draw accuracy against the share treated differently, before and after."""
        from evenhand.repairs.result import tradeoff

        return tradeoff({type(self.method).__name__.lower(): self})

    def __repr__(self) -> str:
        return "\n".join([f"Repair: {self.verdict}", *(f"  {visible(note)}" for note in self.notes)])


def figures(evidence: Evidence) -> dict[str, Interval | None]:
    """Lay a model's figures out by name."""
    calibrated, run = evidence.calibration, evidence.audit
    of_texts = run.space.supports("texts")
    share = None if evidence.kept is None else Interval(evidence.kept, math.nan, math.nan)
    return {
        **({KEPT: share} if of_texts else {"uniform": _interval(evidence.uniform)}),
        "data": _interval(evidence.data),
        "found by the check": Interval(run.success_rate, math.nan, math.nan),
        "accuracy": evidence.accuracy,
        "auc": evidence.auc,
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def _interval(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.rate, estimate.low, estimate.high)


def differences(before: Evidence, after: Evidence, confidence: float, seed: int) -> dict[str, Interval | None]:
    """Compare two models on the same individuals and rows."""
    calibrated = calibration_difference(before.said, after.said, confidence, seed_of(seed, "boots"))
    shares = (before.audit.success_rate, after.audit.success_rate)
    uniform = rate_difference(before, after, "uniform", confidence)
    # Findings of one walk are much alike, so their share has no interval.
    kept = None if before.kept is None or after.kept is None else Interval(after.kept - 1, math.nan, math.nan)
    return {
        **({KEPT: kept} if before.audit.space.supports("texts") else {"uniform": uniform}),
        "data": rate_difference(before, after, "data", confidence),
        # A search goes where it finds: its share is no estimate, and has no interval.
        "found by the check": Interval(shares[1] - shares[0], math.nan, math.nan),
        "accuracy": share_difference(before.said.correct, after.said.correct, confidence),
        "auc": auc_difference(before.said, after.said, confidence),
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def rate_difference(before: Evidence, after: Evidence, name: str, confidence: float) -> Interval | None:
    """How much a share rose; without any width where everyone was asked."""
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
"""The share of a population up to which it need not be said that the repair used it."""


def verdict(r: Repair) -> str:
    """Say what a repair changed, or why it changed nothing."""
    if not r.changed:
        return visible(f"{r.reason}; the original model is handed back")
    first = "data" if r.after.audit.space.supports("texts") else "uniform"
    parts = [
        change("discrimination", first, r.before, r.after, r.differences[first]),
        _removed(r) if first == "data" else change("it", "data", r.before, r.after, r.differences["data"]),
        *([] if improved(r) else ["no improvement is shown"]),
        _accuracy(r),
        _check(r),
    ]
    if len(set(r.after.said.said.tolist())) == 1 < len(set(r.before.said.said.tolist())):
        parts.append(f"the repaired model decides {r.after.said.said[0]!s} for everybody held out")
    if r.moved:
        rose = {shift.attribute: shift for shift in r.shifts}
        named = [f"{n} ({difference(rose[n].difference)})" for n in r.moved]
        parts.append(f"more people than before depend on {', '.join(named)}")
    return visible("; ".join(parts))


def improved(r: Repair) -> bool:
    """Tell whether a share surely fell."""
    return any(by is not None and by.high < 0 for by in map(r.differences.get, ("uniform", "data")))


def change(what: str, name: str, before: Evidence, after: Evidence, by: Interval | None) -> str:
    """Say what a share is now, and by how much it changed; the word follows from the interval of the difference.

    The share before is left out: other repairs of the same model measure it on other individuals.
    """
    first, second = before.estimate(name), after.estimate(name)
    if first is None or second is None or by is None:
        return f"none is left to estimate it {OF[_population(name, after)]}: the repair used the tests of all"
    how = "fell" if by.high < 0 else "rose" if by.low > 0 else "stayed" if not by.value else "may have changed"
    if how == "stayed":
        return f"{what} stayed at {rate(second)} {population_phrase(name, after)}"
    return f"{what} {how}, to {rate(second)} {population_phrase(name, after)} ({difference(by)})"


def population_phrase(name: str, evidence: Evidence) -> str:
    """Name the individuals that a share is of: where the repair used more than a few, of the others."""
    found, of = evidence.estimate(name), _population(name, evidence)
    used, judged = 0 if found is None else found.counts.get("left_out", 0), len(evidence.verdicts.get(name, ()))
    if used <= SLIGHT * (used + judged):
        return OF[of]
    left = f"{judged:,} of {used + judged:,}"
    whose = "that no training used" if of == "texts" else "whose tests the repair did not use"
    return f"{OF[of]} {whose} ({left})"


def not_shown(evidence: Evidence, name: str = "uniform") -> str:
    """Say that too few are left to show what changed."""
    found = evidence.estimate(name)
    if found is None:
        return "not shown: the repair used all tests, so none is left to show what changed"
    left = len(evidence.verdicts[name])
    every = left + found.counts["left_out"]
    return f"not shown: the repair used all but {left:,} of {every:,} tests, too few to show what changed"


def _population(name: str, evidence: Evidence) -> str:
    return "texts" if evidence.audit.space.supports("texts") else name


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
        return "nothing was found in the original model from held-out texts"
    return f"{percent(r.removed)} of what was found in the original model from held-out texts is gone"


def _check(r: Repair) -> str:
    first, second = r.before.audit, r.after.audit
    name = second.identity.search
    other = "from the held-out texts" if second.space.supports("texts") else "which the repair did not use"
    return (
        f"{name}, {other}, finds {second.found:,} in {second.tests:,} tests, and found "
        f"{first.found:,} in {first.tests:,} before"
    )


ORIGINAL, COLOURS = "#64748b", ("#c2410c", "#0f766e", "#1d4ed8", "#a21caf", "#a16207")
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
                _point(axes, repair.before, population, ORIGINAL, "original", "s")
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
