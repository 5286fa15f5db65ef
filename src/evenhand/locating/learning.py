"""Learns rules from judged individuals: a beam of rules, each step the best condition on one attribute.

How much a rule tells is the mutual information of meeting it and being treated differently, times the number of
individuals (the likelihood ratio of Kulldorff's scan statistic, Communications in Statistics 1997), less a price for
each condition. It is convex in the counts, so the best interval or set of codes is the best for some rate to beat: a
largest sum of ``unfair - rate * all`` over consecutive codes, or all codes where that is positive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenhand.locating.pairing import beginnings
from evenhand.locating.rules import Codes, Rule
from evenhand.space.individuals import Rows
from evenhand.space.tabular import Space

BEAM, STEPS, RATES = 6, 8, 12
PRICE = 8.0
"""What an end of an interval has to gain, in nats."""
PRICE_OF_VALUE = 4.0
"""What each value that a nominal condition names has to gain."""
Numbers = npt.NDArray[np.float64]


def propose(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> Rule | None:
    """Find the rule that tells most about who is treated differently; None where no rule tells enough.

    >>> from evenhand.space import Boolean, Integer, Nominal
    >>> space = Space([Integer("hours", 0, 60), Nominal("work", list("abc")), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(space.coding.total))
    >>> propose(space, rows, (rows[:, 0] >= 45) & (rows[:, 1] == 2)).words
    'hours >= 45 and work = c'
    """
    if not unfair.any() or unfair.all():
        return None
    beam: list[tuple[float, Rule]] = [(0.0, Rule(space))]
    for step in range(STEPS):
        found = {rule: gain for gain, rule in beam}
        for _, rule in beam:
            for j in space.free_columns:
                found.update(_extended(rule, j, rows, unfair))
        if not step and max(found.values()) <= 0:
            for rule, j in beginnings(space, rows, unfair):
                found.update(_extended(rule, j, rows, unfair))
        # Of equals the first by its codes, so that the order of a dictionary decides nothing.
        best = sorted(((gain, rule) for rule, gain in found.items()), key=lambda it: (-it[0], it[1].conditions))[:BEAM]
        if best[0][0] <= beam[0][0]:
            break
        beam = best
    return beam[0][1] if beam[0][0] > 0 else None


def _extended(rule: Rule, column: int, rows: Rows, unfair: npt.NDArray[np.bool_]) -> dict[Rule, float]:
    """Give the rule with the best condition on one column, whatever condition it had there."""
    free = rule.where(column, None)
    others = free.inside(rows)
    codes, at = np.unique(rows[others, column], return_inverse=True)
    every = np.bincount(at.reshape(-1), minlength=len(codes)).astype(np.float64)
    found = np.bincount(at.reshape(-1), unfair[others], minlength=len(codes))
    if not found.any():
        return {}
    total, number = float(unfair.sum()), float(len(rows))
    rates = np.geomspace(max(total / number, 1e-6), 1, RATES + 1)[:-1, None]
    chosen = (_intervals if free.space.ordered[column] else _sets)(found - rates * every)
    out: dict[Rule, float] = {}
    for mask in np.unique(chosen, axis=0):
        better = free.where(column, _codes(free.space, column, codes[mask], codes))
        n, k = float(every[mask].sum()), float(found[mask].sum())
        if n and k / n > total / number:
            out[better] = information(n, k, number, total) - price(better)
    return out


def _intervals(gains: Numbers) -> npt.NDArray[np.bool_]:
    """For each row of gains the run of columns with the largest sum."""
    sums = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), axis=1)
    lowest = np.minimum.accumulate(sums[:, :-1], axis=1)
    end = (sums[:, 1:] - lowest).argmax(axis=1)
    here = np.arange(gains.shape[1])
    start = np.where(here[None] <= end[:, None], sums[:, :-1], np.inf).argmin(axis=1)
    return np.asarray((here >= start[:, None]) & (here <= end[:, None]))


def _sets(gains: Numbers) -> npt.NDArray[np.bool_]:
    """For each row of gains all columns that gain, and always the best one."""
    mask = np.asarray(gains > 0)
    mask[np.arange(len(gains)), gains.argmax(axis=1)] = True
    return mask


def _codes(space: Space, column: int, chosen: npt.NDArray[np.int32], seen: npt.NDArray[np.int32]) -> Codes:
    if not space.ordered[column]:
        # A value that nobody had is no reason to exclude it, if only few are excluded at all.
        left_out = set(seen.tolist()) - set(chosen.tolist())
        if len(chosen) > len(left_out):
            return tuple(code for code in range(int(space.sizes[column])) if code not in left_out)
        return tuple(sorted(chosen.tolist()))
    low = 0 if chosen[0] == seen[0] else int(chosen[0])
    high = int(space.sizes[column]) - 1 if chosen[-1] == seen[-1] else int(chosen[-1])
    return (low, high)


def price(rule: Rule) -> float:
    """What the conditions of a rule cost together."""
    total = 0.0
    for column, codes in rule.conditions:
        size = int(rule.space.sizes[column])
        if rule.space.ordered[column]:
            total += PRICE * ((codes[0] > 0) + (codes[1] < size - 1))
        else:
            total += PRICE_OF_VALUE * (1 + min(len(codes), size - len(codes)))
    return total


def information(n: float, k: float, number: float, total: float) -> float:
    """Nats that are told about ``number`` verdicts, ``total`` of them unfair, by a rule that ``n`` meet, ``k`` unfair.

    >>> round(information(50, 50, 100, 50) / 100, 4)
    0.6931
    """
    return _likelihood(k, n) + _likelihood(total - k, number - n) - _likelihood(total, number)


def _likelihood(k: float, n: float) -> float:
    from scipy.special import xlogy

    return float(xlogy(k, k / n) + xlogy(n - k, (n - k) / n)) if n else 0.0
