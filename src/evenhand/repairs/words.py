"""Repairs in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand._format import estimated, percent, points, points_interval, visible
from evenhand.repairs.scoring import Interval

if TYPE_CHECKING:
    from evenhand.estimates.result import Estimate
    from evenhand.repairs.evidence import Evidence
    from evenhand.repairs.result import Repair


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
        return f"nobody is left to say it {OF[_population(name, after)]}: the repair used the tests of all"
    how = "fell" if by.high < 0 else "rose" if by.low > 0 else "stayed" if not by.value else "may have changed"
    if how == "stayed":
        return f"{what} stayed at {rate(second)} {whom(name, after)}"
    return f"{what} {how}, to {rate(second)} {whom(name, after)} ({difference(by)})"


def whom(name: str, evidence: Evidence) -> str:
    """Say whom a share is of: where the repair used more than a few, of the others."""
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
        return "not shown: the repair used all tests, so nobody is left to show what changed"
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
