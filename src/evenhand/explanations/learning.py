"""Learns rules from judged individuals: a beam of rules, each step the best condition on one attribute.

How much a rule tells is the mutual information of meeting it and being treated differently, times the number of
individuals (the likelihood ratio of Kulldorff's scan statistic, Communications in Statistics 1997), less a price for
each condition. It is convex in the counts, so the best interval or set of codes is the best for some rate to beat: a
largest sum of ``unfair - rate * all`` over consecutive codes, or all codes where that is positive.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from evenhand.explanations.pairing import beginnings
from evenhand.explanations.rules import Codes, Rule
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

BEAM, STEPS, RATES = 6, 8, 12
BINS = 128
"""Bins of an ordered attribute's codes by which columns are screened."""
CLOSELY = 2 * BEAM
"""Conditions that are looked at closely in each step, those that tell most."""
BLOCK = 2**20
"""Individuals times columns that are counted at once."""
PRICE = 8.0
"""What an end of an interval has to gain, in nats."""
PRICE_OF_VALUE = 4.0
"""What each value that a nominal condition names has to gain."""
Numbers = npt.NDArray[np.float64]


def propose(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> Rule | None:
    """Find the rule that tells most about who is treated differently; None where no rule tells enough.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal
    >>> space = Space([Integer("hours", 0, 60), Nominal("work", list("abc")), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(space.coding.total))
    >>> propose(space, rows, (rows[:, 0] >= 45) & (rows[:, 1] == 2)).words
    'hours >= 45 and work = c'
    """
    if not unfair.any() or unfair.all():
        return None
    screen = Screen(space, rows, unfair)
    extended = cache(lambda rule, column: _extended(rule, column, rows, unfair))
    beam: list[tuple[float, Rule]] = [(0.0, Rule(space))]
    for step in range(STEPS):
        found = {rule: gain for gain, rule in beam}
        for rule, j in screen.promising([rule for _, rule in beam]):
            found.update(extended(rule.where(j, None), j))
        if not step and max(found.values()) <= 0:
            for rule, j in beginnings(space, rows, unfair):
                found.update(extended(rule, j))
        # Of equals the first by its codes, so that the order of a dictionary decides nothing.
        best = sorted(((gain, rule) for rule, gain in found.items()), key=lambda it: (-it[0], it[1].conditions))[:BEAM]
        if best[0][0] <= beam[0][0]:
            break
        beam = best
    return beam[0][1] if beam[0][0] > 0 else None


class Screen:
    """Tells which conditions are worth a close look, from counts of all columns at once.

    The best interval or set of each column is found among up to ``BINS`` bins of codes with as many individuals in
    each. A column with no more codes than that has bins of one code, and what is found is what ``_extended`` finds.
    """

    def __init__(self, space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> None:
        self._rows, self._unfair = rows, unfair
        self._columns = np.array(space.free_columns)
        self._ordered = space.ordered[self._columns]
        self._bins = np.stack([_binned(rows[:, j], unfair, bool(space.ordered[j])) for j in space.free_columns])
        self._width = int(self._bins.max()) + 1
        # A rule stays in the beam for several steps.
        self._told = cache(self._gains)

    def promising(self, rules: list[Rule]) -> list[tuple[Rule, int]]:
        """Give the columns of each rule's own conditions, and of all other conditions those that tell most."""
        gains = np.stack([self._told(rule) for rule in rules])
        for i, rule in enumerate(rules):
            gains[i, np.isin(self._columns, [j for j, _ in rule.conditions])] = -np.inf
        best = np.argsort(-gains, axis=None, kind="stable")[:CLOSELY]
        others = zip(*np.unravel_index(best[gains.ravel()[best] > -np.inf], gains.shape), strict=True)
        own = [(rule, j) for rule in rules for j, _ in rule.conditions]
        return own + [(rules[i], int(self._columns[j])) for i, j in others]

    def _gains(self, rule: Rule) -> Numbers:
        """Return how much the best condition on each column tells beside a rule, less what both cost."""
        inside = np.flatnonzero(rule.inside(self._rows))
        every, found = self._counts(inside), self._counts(inside[self._unfair[inside]])
        out = np.full(len(self._columns), -np.inf)
        for kind, choose, cost in ((self._ordered, _intervals, _ends), (~self._ordered, _sets, _values)):
            of, hit = every[kind], found[kind]
            for rate in _rates(self._unfair) if kind.any() else ():
                chosen = choose(hit - rate * of)
                n, k = np.where(chosen, of, 0).sum(axis=1), np.where(chosen, hit, 0).sum(axis=1)
                told = informations(n, k, float(len(self._rows)), float(self._unfair.sum())) - cost(chosen, of > 0)
                worse = k * len(self._rows) > n * self._unfair.sum()
                out[kind] = np.maximum(out[kind], np.where(worse, told, -np.inf))
        return out - price(rule)

    def _counts(self, which: npt.NDArray[np.int64]) -> Numbers:
        """Count individuals by column and bin, some columns at a time to save memory."""
        out = np.empty((len(self._columns), self._width))
        step = max(1, BLOCK // max(len(which), 1))
        for start in range(0, len(out), step):
            cells = self._bins[start : start + step, which]
            cells = cells + self._width * np.arange(len(cells))[:, None]
            counts = np.bincount(cells.reshape(-1), minlength=len(cells) * self._width)
            out[start : start + step] = counts.reshape(-1, self._width)
        return out


def _binned(codes: npt.NDArray[np.int32], unfair: npt.NDArray[np.bool_], ordered: bool) -> npt.NDArray[np.int32]:
    """Number the bins of a column's codes; values of a nominal one are beside others of about the same rate."""
    _, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
    at = where.reshape(-1).astype(np.int32)
    if len(counts) > BINS:
        order = np.arange(len(counts)) if ordered else np.argsort(np.bincount(at, unfair) / counts, kind="stable")
        middle = np.empty(len(counts))
        middle[order] = np.cumsum(counts[order]) - counts[order] / 2
        at = (middle * BINS / len(codes)).astype(np.int32)[at]
    return at


def _ends(chosen: npt.NDArray[np.bool_], met: npt.NDArray[np.bool_]) -> Numbers:
    """What the ends of intervals cost that are no ends of what anybody has."""
    ways = ((chosen, met), (chosen[:, ::-1], met[:, ::-1]))
    return np.asarray(PRICE * np.sum([inner.argmax(axis=1) > outer.argmax(axis=1) for inner, outer in ways], axis=0))


def _values(chosen: npt.NDArray[np.bool_], met: npt.NDArray[np.bool_]) -> Numbers:
    """What the values of sets cost, or those that are left out where they are fewer."""
    named = np.minimum((chosen & met).sum(axis=1), (met & ~chosen).sum(axis=1))
    return np.asarray(PRICE_OF_VALUE * (1.0 + named))


def _rates(unfair: npt.NDArray[np.bool_]) -> Numbers:
    """Rates to beat, from that of all individuals on."""
    return np.geomspace(max(float(unfair.mean()), 1e-6), 1, RATES + 1)[:-1]


def _extended(free: Rule, column: int, rows: Rows, unfair: npt.NDArray[np.bool_]) -> dict[Rule, float]:
    """Give a rule with the best conditions on a column that it has none on."""
    others = free.inside(rows)
    codes, at = np.unique(rows[others, column], return_inverse=True)
    every = np.bincount(at.reshape(-1), minlength=len(codes)).astype(np.float64)
    found = np.bincount(at.reshape(-1), unfair[others], minlength=len(codes))
    if not found.any():
        return {}
    total, number = float(unfair.sum()), float(len(rows))
    chosen = (_intervals if free.space.ordered[column] else _sets)(found - _rates(unfair)[:, None] * every)
    out: dict[Rule, float] = {}
    for mask in {mask.tobytes(): mask for mask in chosen}.values():
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
    return float(informations(np.array(n), np.array(k), number, total))


def informations(n: Numbers, k: Numbers, number: float, total: float) -> Numbers:
    """Give what ``information`` gives of many rules."""
    return _likelihoods(k, n) + _likelihoods(total - k, number - n) - _likelihoods(np.array(total), np.array(number))


def _likelihoods(k: Numbers, n: Numbers) -> Numbers:
    from scipy.special import xlogy

    some = np.maximum(n, 1e-300)
    return np.asarray(xlogy(k, k / some) + xlogy(n - k, (n - k) / some))
