"""Rules: conjunctions of conditions on free attributes; drawing individuals that meet one; learning rules.

*Learning* is a beam search over rules; each step adds the best condition on one attribute. The score of a rule is the
mutual information of meeting it and being treated differently, times the number of individuals (the likelihood ratio of
Kulldorff's scan statistic, Communications in Statistics 1997), minus a price for each condition. It is convex in the
counts, so the best interval or set of codes maximises a sum of ``unfair - rate * all`` for some rate: over consecutive
codes, or over all codes where it is positive.

*Starting from two attributes*: in "either married or from the north, but not both", each half alone has no information,
so a search that adds one condition at a time would never start. The most informative pair is found from its table: how
much information the cells add to the total.

*Refining* finds where along each attribute the rate changes, by querying the model. With all other conditions met, a
code (or block of codes) belongs to the rule if its verdicts are more likely at the rate inside than at that outside;
the log-likelihood ratio is its score. An interval is chosen by the sum of its scores, a set by the sign of each. An end
within the range must gain its price, so that no condition is due to chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import plain
from evenhand._rng import Stream
from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.spaces.attributes import Attribute
from evenhand.spaces.frames import json_value
from evenhand.spaces.individuals import Digit, Individuals, Rows
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.spaces.individuals import Rows
    from evenhand.spaces.tabular import Space

Choice = range | npt.NDArray[np.int64]
"""Some combinations of a digit; a range is never written out as a list."""
TRIES = 20
"""Maximum draws per wanted individual if constraints or earlier regions reject many."""
Codes = tuple[int, ...]
"""The first and the last code of an ordered attribute, or all codes of a nominal one."""


@dataclass(frozen=True)
class Rule:
    """A conjunction of conditions. A missing value is the last code, so thresholds treat it as the largest.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("hours", 0, 60), Nominal("work", ["clerk", "nurse", "cook"]), Boolean("sex")]
    >>> space = Space(attributes, protected="sex")
    >>> rule = Rule(space).where(0, (45, 60)).where(1, (0, 1))
    >>> rule.words
    'hours >= 45 and work is not cook'
    >>> rule.inside(np.array([[50, 0, 1], [50, 2, 1]])).tolist()
    [True, False]
    """

    space: Space = field(repr=False, compare=False)
    conditions: tuple[tuple[int, Codes], ...] = ()
    """Column and codes, in the space's order; other columns may have any code."""

    def of(self, column: int) -> Codes | None:
        """Return the codes that a column may have; None if it may have any."""
        return dict(self.conditions).get(column)

    def where(self, column: int, codes: Codes | None) -> Rule:
        """Replace or remove the condition on a column; a condition that every individual meets is removed."""
        size = int(self.space.sizes[column])
        if codes is not None and (codes == (0, size - 1) if self.space.ordered[column] else len(codes) == size):
            codes = None
        kept = {j: c for j, c in self.conditions if j != column}
        if codes is not None:
            kept[column] = codes
        return Rule(self.space, tuple(sorted(kept.items())))

    def both(self, other: Rule) -> Rule:
        """Return the conjunction of this rule and another."""
        out = self
        for column, codes in other.conditions:
            mine = self.of(column)
            if mine is None:
                out = out.where(column, codes)
            elif self.space.ordered[column]:
                out = out.where(column, (max(mine[0], codes[0]), min(mine[1], codes[1])))
            else:
                out = out.where(column, tuple(code for code in mine if code in codes))
        return out

    def meets(self, column: int, codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which codes of a column meet its condition."""
        wanted = self.of(column)
        if wanted is None:
            return np.ones(len(codes), dtype=bool)
        if self.space.ordered[column]:
            return np.asarray((codes >= wanted[0]) & (codes <= wanted[1]))
        return np.isin(codes, wanted)

    def inside(self, rows: Rows | npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which rows meet all conditions."""
        out = np.ones(len(rows), dtype=bool)
        for column, _ in self.conditions:
            out &= self.meets(column, rows[:, column])
        return out

    @property
    def words(self) -> str:
        """The conditions, in the user's names and values."""
        return " and ".join(self.phrases) or "everybody"

    @property
    def phrases(self) -> list[str]:
        """Each condition in words."""
        return [
            (_interval if attribute.ordered else _set)(attribute, codes)
            for j, codes in self.conditions
            for attribute in [self.space.attributes[j]]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return each condition as plain values: the least and the greatest value, or all values; missing is None."""
        out = {}
        for j, codes in self.conditions:
            attribute = self.space.attributes[j]
            if attribute.ordered:
                low, high = codes
                top = min(high, attribute.present - 1)
                out[attribute.name] = {
                    "least": _json(attribute, low) if low <= top else None,
                    "greatest": _json(attribute, top) if low <= top else None,
                    "missing": attribute.has_missing and high == attribute.present,
                }
            else:
                out[attribute.name] = {"values": [_json(attribute, code) for code in codes]}
        return out


class Source:
    """Independent samples: each has its own draws, which nothing has looked at before.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("hours", 0, 60), Boolean("sex")], protected="sex", constraints=["hours != 50"])
    >>> source, rule = Source(space, 0), Rule(space).where(0, (49, 51))
    >>> sorted(set(source.inside(rule, 100).rows[:, 0].tolist())), source.share(rule)
    ([49, 51], 0.03333333333333333)
    """

    def __init__(self, space: Space, seed: int, purpose: str = "regions") -> None:
        self.space = space
        # A separate stream, because rules are learnt from the draws of a random search with the same seed.
        self._base = Stream(int(Stream(seed).bits(purpose, 0, 0)[0] >> np.uint64(1)))
        self._number = 0

    def stream(self) -> Stream:
        """Return a stream that has not been drawn from."""
        self._number += 1
        return Stream(int(self._base.bits("sample", self._number, 0)[0] >> np.uint64(1)))

    def everybody(self, n: int) -> Individuals:
        """Draw uniform valid individuals."""
        return self.space.sampler.draw(self.stream(), 0, n, repeats=True)[0]

    def outside(self, rules: list[Rule], n: int) -> Individuals:
        """Draw uniform valid individuals that meet none of the rules; fewer if they are too rare."""
        stream, start, parts, found = self.stream(), 0, [], 0
        while found < n and start < TRIES * n:
            people, start = self.space.sampler.draw(stream, start, n, repeats=True)
            parts.append(people[np.flatnonzero(~within(rules, people))][: n - found])
            found += len(parts[-1])
        return Individuals.join(parts)

    def inside(self, rule: Rule, n: int, without: list[Rule] | None = None) -> Individuals:
        """Draw uniform valid individuals that meet a rule, and none of some others; fewer if they are too rare."""
        stream, start, parts, found = self.stream(), 0, [], 0
        choices = [_allowed(rule, digit) for digit in self.space.sampler.digits]
        possible = all(choice is None or len(choice) for choice in choices)
        while found < n and start < TRIES * n and possible:
            rows = self._draw(choices, stream, np.arange(start, start + n))
            start += n
            if self.space.sampler.rejects:
                rows = rows[self.space.valid(rows)]
            people = self.space.individuals(rows)
            parts.append(people[np.flatnonzero(~within(without or [], people))][: n - found])
            found += len(parts[-1])
        return Individuals.join(parts) if parts else self.everybody(0)

    def share(self, rule: Rule) -> float:
        """Return the share of the sampler's individuals that meet the rule."""
        counts = [(_allowed(rule, digit), digit.count) for digit in self.space.sampler.digits]
        return math.prod(1.0 if choice is None else len(choice) / count for choice, count in counts)

    def _draw(
        self, choices: list[Choice | None], stream: Stream, numbers: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int32]:
        out = np.empty((len(numbers), len(self.space.names)), dtype=np.int32)
        for i, (digit, choice) in enumerate(zip(self.space.sampler.digits, choices, strict=True)):
            at = stream.below(digit.count if choice is None else len(choice), "rule", numbers, i)
            at = at if choice is None else choice.start + at if isinstance(choice, range) else choice[at]
            out[:, list(digit.columns)] = at[:, None] if digit.table is None else digit.table[at]
        return out


def within(rules: list[Rule], people: Individuals) -> npt.NDArray[np.bool_]:
    """Return which individuals meet at least one of some rules."""
    out = np.zeros(len(people), dtype=bool)
    for rule in rules:
        out |= rule.inside(people.rows)
    return out


def _allowed(rule: Rule, digit: Digit) -> Choice | None:
    """The combinations of a digit that meet the rule; None if all do."""
    if all(rule.of(j) is None for j in digit.columns):
        return None
    if digit.table is None:
        (column,) = digit.columns
        codes = rule.of(column)
        assert codes is not None
        return range(codes[0], codes[1] + 1) if rule.space.ordered[column] else np.array(codes, dtype=np.int64)
    met = np.ones(digit.count, dtype=bool)
    for i, column in enumerate(digit.columns):
        met &= rule.meets(column, digit.table[:, i])
    return np.flatnonzero(met)


def _interval(attribute: Attribute, codes: Codes) -> str:
    (low, high), name, last = codes, plain(attribute.name), attribute.present - 1
    if low > last:
        return f"{name} missing"
    absent = " or missing" if high > last else ""
    top = min(high, last)
    if low == 0 and top == last:
        return f"{name} not missing"
    if attribute.kind == "boolean":
        return (name if low else f"not {name}") + absent
    if low == top:
        return f"{name} = {_value(attribute, low)}{absent}"
    if low == 0:
        return f"{name} <= {_value(attribute, top)}{absent}"
    if top == last:
        return f"{name} >= {_value(attribute, low)}{absent}"
    return f"{name} {_value(attribute, low)} to {_value(attribute, top)}{absent}"


def _set(attribute: Attribute, codes: Codes) -> str:
    others = [code for code in range(attribute.size) if code not in codes]
    if len(others) < len(codes):
        return f"{plain(attribute.name)} is not {' or '.join(_value(attribute, code) for code in others)}"
    if len(codes) == 1:
        return f"{plain(attribute.name)} = {_value(attribute, codes[0])}"
    return f"{plain(attribute.name)} is {' or '.join(_value(attribute, code) for code in codes)}"


def _value(attribute: Attribute, code: int) -> str:
    return plain(_json(attribute, code))


def _json(attribute: Attribute, code: int) -> Any:
    return json_value(attribute.decode(np.array([code]))[0])


BEAM, STEPS, RATES = 6, 8, 12
BINS = 128
"""Bins of an ordered attribute's codes for the screening of columns."""
CLOSELY = 2 * BEAM
"""Number of conditions to examine closely in each step, the most informative first."""
BLOCK = 2**20
"""Maximum individuals times columns to count at once."""
PRICE = 8.0
"""Minimum information, in nats, that an end of an interval must add."""
PRICE_OF_VALUE = 4.0
"""Minimum information that each value named by a nominal condition must add."""
Numbers = npt.NDArray[np.float64]
PAIR_BLOCKS = 8
"""Blocks of codes per attribute in tables of two attributes."""
PAIRS = 4
"""Number of pairs of attributes to start rules from."""
PAIR_CELLS = 2**20
"""Maximum individuals times attributes to count tables from; larger samples are cut, balanced by verdict."""
PAIRS_TOGETHER = 32
"""Number of attributes whose tables with all others are counted at once."""
ROUNDS = 3
BLOCKS = 12
"""Number of blocks below, inside and above an interval."""
NATS = 16.0
"""Evidence, in nats, that the sample of one block should give on average."""
FEWEST, MOST = 24, 1_000
"""Minimum and maximum individuals of one block."""
TOGETHER = 3_000
"""Maximum individuals of all blocks that are queried together."""
SAMPLE = 1_000
"""Number of individuals from which the rate inside is estimated."""
Asked = tuple[Rows, npt.NDArray[np.bool_]]
"""Rows of individuals and their verdicts."""


def propose(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> Rule | None:
    """Find the most informative rule about who is treated differently; None if no rule is worth its price."""
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
        # Ties go to the smallest codes, so that the result does not depend on the order of a dictionary.
        best = sorted(((gain, rule) for rule, gain in found.items()), key=lambda it: (-it[0], it[1].conditions))[:BEAM]
        if best[0][0] <= beam[0][0]:
            break
        beam = best
    return beam[0][1] if beam[0][0] > 0 else None


class Screen:
    """Selects the conditions to examine closely, from counts of all columns at once.

    The best interval or set of each column is found among up to ``BINS`` bins of codes with as many individuals in
    each. A column with fewer codes has one bin for each, and the result is that of ``_extended``.
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
        """Return the columns of each rule's own conditions, and the most informative other conditions."""
        gains = np.stack([self._told(rule) for rule in rules])
        for i, rule in enumerate(rules):
            gains[i, np.isin(self._columns, [j for j, _ in rule.conditions])] = -np.inf
        best = np.argsort(-gains, axis=None, kind="stable")[:CLOSELY]
        others = zip(*np.unravel_index(best[gains.ravel()[best] > -np.inf], gains.shape), strict=True)
        own = [(rule, j) for rule in rules for j, _ in rule.conditions]
        return own + [(rules[i], int(self._columns[j])) for i, j in others]

    def _gains(self, rule: Rule) -> Numbers:
        """Return the information of the best condition on each column together with a rule, minus the price of both."""
        inside = np.flatnonzero(rule.inside(self._rows))
        every, found = self._counts(inside), self._counts(inside[self._unfair[inside]])
        out = np.full(len(self._columns), -np.inf)
        for kind, choose, cost in ((self._ordered, _intervals, _ends), (~self._ordered, _sets, _values)):
            of, hit = every[kind], found[kind]
            for rate in _rates(self._unfair) if kind.any() else ():
                chosen = choose(hit - rate * of)
                n, k = np.where(chosen, of, 0).sum(axis=1), np.where(chosen, hit, 0).sum(axis=1)
                information = informations(n, k, float(len(self._rows)), float(self._unfair.sum())) - cost(
                    chosen, of > 0
                )
                worse = k * len(self._rows) > n * self._unfair.sum()
                out[kind] = np.maximum(out[kind], np.where(worse, information, -np.inf))
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
    """Return the bin of each code of a column; nominal values with similar rates are in neighbouring bins."""
    _, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
    at = where.reshape(-1).astype(np.int32)
    if len(counts) > BINS:
        order = np.arange(len(counts)) if ordered else np.argsort(np.bincount(at, unfair) / counts, kind="stable")
        middle = np.empty(len(counts))
        middle[order] = np.cumsum(counts[order]) - counts[order] / 2
        at = (middle * BINS / len(codes)).astype(np.int32)[at]
    return at


def _ends(chosen: npt.NDArray[np.bool_], met: npt.NDArray[np.bool_]) -> Numbers:
    """The price of interval ends that lie within the range of the observed codes."""
    ways = ((chosen, met), (chosen[:, ::-1], met[:, ::-1]))
    return np.asarray(PRICE * np.sum([inner.argmax(axis=1) > outer.argmax(axis=1) for inner, outer in ways], axis=0))


def _values(chosen: npt.NDArray[np.bool_], met: npt.NDArray[np.bool_]) -> Numbers:
    """The price of the values of sets, or of the excluded values if these are fewer."""
    named = np.minimum((chosen & met).sum(axis=1), (met & ~chosen).sum(axis=1))
    return np.asarray(PRICE_OF_VALUE * (1.0 + named))


def _rates(unfair: npt.NDArray[np.bool_]) -> Numbers:
    """Rates to beat, starting with the rate of all individuals."""
    return np.geomspace(max(float(unfair.mean()), 1e-6), 1, RATES + 1)[:-1]


def _extended(free: Rule, column: int, rows: Rows, unfair: npt.NDArray[np.bool_]) -> dict[Rule, float]:
    """Extend a rule by the best conditions on a column without one; return the information of each extension."""
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
    """Return, for each row of gains, the run of columns with the largest sum."""
    sums = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), axis=1)
    lowest = np.minimum.accumulate(sums[:, :-1], axis=1)
    end = (sums[:, 1:] - lowest).argmax(axis=1)
    here = np.arange(gains.shape[1])
    start = np.where(here[None] <= end[:, None], sums[:, :-1], np.inf).argmin(axis=1)
    return np.asarray((here >= start[:, None]) & (here <= end[:, None]))


def _sets(gains: Numbers) -> npt.NDArray[np.bool_]:
    """Return, for each row of gains, all columns with a gain, and always the best one."""
    mask = np.asarray(gains > 0)
    mask[np.arange(len(gains)), gains.argmax(axis=1)] = True
    return mask


def _codes(space: Space, column: int, chosen: npt.NDArray[np.int32], seen: npt.NDArray[np.int32]) -> Codes:
    if not space.ordered[column]:
        # A value that no individual had is no reason to exclude it, if only few are excluded at all.
        left_out = set(seen.tolist()) - set(chosen.tolist())
        if len(chosen) > len(left_out):
            return tuple(code for code in range(int(space.sizes[column])) if code not in left_out)
        return tuple(sorted(chosen.tolist()))
    low = 0 if chosen[0] == seen[0] else int(chosen[0])
    high = int(space.sizes[column]) - 1 if chosen[-1] == seen[-1] else int(chosen[-1])
    return (low, high)


def price(rule: Rule) -> float:
    """The total price of a rule's conditions."""
    total = 0.0
    for column, codes in rule.conditions:
        size = int(rule.space.sizes[column])
        if rule.space.ordered[column]:
            total += PRICE * ((codes[0] > 0) + (codes[1] < size - 1))
        else:
            total += PRICE_OF_VALUE * (1 + min(len(codes), size - len(codes)))
    return total


def information(n: float, k: float, number: float, total: float) -> float:
    """Information in nats of a rule that ``n`` of ``number`` meet, ``k`` of them and ``total`` of all being unfair."""
    return float(informations(np.array(n), np.array(k), number, total))


def informations(n: Numbers, k: Numbers, number: float, total: float) -> Numbers:
    """Return the ``information`` of many rules."""
    return _likelihoods(k, n) + _likelihoods(total - k, number - n) - _likelihoods(np.array(total), np.array(number))


def _likelihoods(k: Numbers, n: Numbers) -> Numbers:
    from scipy.special import xlogy

    some = np.maximum(n, 1e-300)
    return np.asarray(xlogy(k, k / some) + xlogy(n - k, (n - k) / some))


def beginnings(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> list[tuple[Rule, int]]:
    """Return rules of one condition, each with a column on which a second condition may be informative."""
    columns, few = space.free_columns, _pair_sample(unfair, PAIR_CELLS // len(space.free_columns))
    rows, unfair = rows[few], unfair[few]
    blocks = [_pair_blocks(space, j) for j in columns]
    member = np.zeros((len(rows), len(columns), PAIR_BLOCKS), dtype=np.float32)
    for i, j in enumerate(columns):
        member[np.arange(len(rows)), i, np.searchsorted(blocks[i], rows[:, j], side="right") - 1] = 1
    information = np.full((len(columns), len(columns)), -np.inf)
    for start in range(0, len(columns), PAIRS_TOGETHER):
        found, every = (
            _tables(member[of, start : start + PAIRS_TOGETHER], member[of, start:]) for of in (unfair, slice(None))
        )
        information[start : start + PAIRS_TOGETHER, start:] = _beyond(found, every)
    information[np.tril_indices(len(columns))] = -np.inf
    # Ties go to the first; a single attribute has no pairs.
    order = np.argsort(-information, axis=None, kind="stable")[: min(PAIRS, len(columns) * (len(columns) - 1) // 2)]
    best = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, information.shape), strict=True)]
    return [
        (Rule(space).where(columns[i], c), columns[j])
        for i, j in best
        for c in _pair_codes(space, columns[i], blocks[i])
    ]


def _pair_sample(unfair: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.int64]:
    """Choose positions evenly; if there are too many, equally many of each verdict."""
    if len(unfair) <= most:
        return np.arange(len(unfair))
    kinds = [np.flatnonzero(unfair == kind) for kind in (False, True)]
    return np.concatenate(
        [at[np.linspace(0, len(at) - 1, min(len(at), max(1, most // 2))).astype(int)] for at in kinds]
    )


def _tables(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> Numbers:
    """Count individuals by the blocks of two attributes: (attributes, attributes, blocks, blocks)."""
    together = np.tensordot(one, other, axes=(0, 0))
    return together.transpose(0, 2, 1, 3).astype(np.float64)


def _pair_blocks(space: Space, column: int) -> npt.NDArray[np.int64]:
    """The first code of each block of a column."""
    size = int(space.sizes[column])
    return np.unique(np.linspace(0, size, min(size, PAIR_BLOCKS) + 1)[:-1].round().astype(np.int64))


def _pair_codes(space: Space, column: int, starts: npt.NDArray[np.int64]) -> list[Codes]:
    ends = [*starts[1:].tolist(), int(space.sizes[column])]
    spans = [(int(start), end - 1) for start, end in zip(starts, ends, strict=True)]
    return list(spans) if space.ordered[column] else [tuple(range(low, high + 1)) for low, high in spans]


def _beyond(found: Numbers, every: Numbers) -> Numbers:
    """The information of tables, minus what is expected by chance from as many cells."""
    from scipy.special import xlogy

    cells = (-2, -1)
    rates = found / np.maximum(every, 1)
    overall = found.sum(axis=cells, keepdims=True) / every.sum(axis=cells, keepdims=True)
    information = xlogy(found, rates / overall) + xlogy(every - found, (1 - rates) / (1 - overall))
    return np.asarray(information.sum(axis=cells) - (every > 0).sum(axis=cells) / 2)


@dataclass
class Refiner:
    """Refines a rule by querying individuals inside and around it, outside earlier regions."""

    judge: Judge
    source: Source
    earlier: list[Rule]
    outside: float
    """The rate outside all regions."""
    complete: bool = True
    """Whether there were enough rows."""

    def refine(self, rule: Rule) -> Rule | None:
        """Return the rule with exact ends; None if the rate inside is not higher than outside.

        If the rows are used up before, return the rule as refined so far.
        """
        try:
            for _ in range(ROUNDS):
                before, rate = rule, self.rate(rule)
                if rate <= self.outside:
                    return None
                scale = Scale.of(rate, self.outside)
                for column, _ in rule.conditions:
                    rule = self._better(rule, column, scale)
                rule = self._narrowed(rule, scale)
                if rule == before:
                    break
        except RowLimitReached:
            self.complete = False
        return rule if rule.conditions else None

    def rate(self, rule: Rule) -> float:
        """Query the share of a rule's individuals that are treated differently."""
        able, unfair = self.judge.judged(self.source.inside(rule, SAMPLE, self.earlier))
        return float(unfair.sum() / max(able.sum(), 1))

    def _narrowed(self, rule: Rule, scale: Scale) -> Rule:
        """Add conditions on further columns if they are worth their price.

        A rule has the same individuals whichever of these columns is examined, so one sample serves all columns until a
        condition changes the rule.
        """
        space = self.source.space
        todo = [column for column in space.free_columns if rule.of(column) is None]
        while todo:
            blocks = max(BLOCKS + 1 if space.ordered[j] else int(space.sizes[j]) for j in todo)
            sample = self._asked(rule, min(scale.samples * blocks, TOGETHER))
            for i, column in enumerate(todo):
                better = self._better(rule, column, scale, sample)
                if better != rule:
                    rule, todo = better, todo[i + 1 :]
                    break
            else:
                break
        return rule

    def _better(self, rule: Rule, column: int, scale: Scale, sample: Asked | None = None) -> Rule:
        kind = self._interval if self.source.space.ordered[column] else self._set
        return rule.where(column, kind(rule, column, rule.of(column), scale, sample))

    def _set(
        self, rule: Rule, column: int, codes: Codes | None, scale: Scale, sample: Asked | None = None
    ) -> Codes | None:
        size = int(self.source.space.sizes[column])
        scores, asked = self._scores(rule, column, np.arange(size + 1), scale, sample)
        # Values without individuals give no evidence and stay as they are.
        now = np.isin(np.arange(size), range(size) if codes is None else codes)
        chosen = np.where(asked > 0, scores > 0, now)
        if not chosen.any():
            return codes
        better = tuple(np.flatnonzero(chosen).tolist())
        worth = -scores[~chosen].sum() > price(Rule(rule.space).where(column, better))
        return better if worth else None

    def _interval(
        self, rule: Rule, column: int, codes: Codes | None, scale: Scale, sample: Asked | None = None
    ) -> Codes | None:
        attribute = self.source.space.attributes[column]
        low, high = codes or (0, attribute.size - 1)
        zones = [(0, low), (low, high + 1), (high + 1, attribute.size)]
        edges, scores = [], []
        for start, end in zones:
            if start < end:
                cuts = _cuts(start, end, attribute.present)
                edges.append(cuts[:-1])
                scores.append(self._scores(rule, column, cuts, scale, sample)[0])
        starts, score = np.append(np.concatenate(edges), attribute.size), np.concatenate(scores)
        best = segment(score)
        if best is None:
            return codes
        first, last = best
        low = self._end(rule, column, starts[max(first - 1, 0)], starts[first], starts[first + 1], scale, False)
        ends = starts[last], starts[last + 1], starts[min(last + 2, len(score))]
        high = self._end(rule, column, *ends, scale, True) - 1
        return (low, high) if low <= high else codes

    def _end(self, rule: Rule, column: int, start: int, edge: int, end: int, scale: Scale, upper: bool) -> int:
        """Find the first code inside, or the first one above, between ``start`` and ``end``."""
        size = int(self.source.space.sizes[column])
        while edge - start > 1 or end - edge > 1:
            cuts = _cuts(int(start), int(end), size, 2 * BLOCKS)
            scores, _ = self._scores(rule, column, cuts, scale)
            # The gain of an end at each cut: the scores of all blocks on its inner side.
            won = np.concatenate([[0.0], np.cumsum(scores)])
            won = won if upper else won[-1] - won
            at_limit = cuts == (size if upper else 0)
            best = int(np.argmax(won + PRICE * at_limit))
            start, edge, end = cuts[max(best - 1, 0)], cuts[best], cuts[min(best + 1, len(cuts) - 1)]
        return int(edge)

    def _asked(self, rule: Rule, wanted: int) -> Asked:
        """Query individuals of a rule; return the rows of those that can be compared, and their verdicts."""
        people = self.source.inside(rule, wanted, self.earlier)
        able, unfair = self.judge.judged(people)
        return people.rows[able], unfair[able]

    def _scores(
        self, rule: Rule, column: int, cuts: npt.NDArray[np.int64], scale: Scale, sample: Asked | None = None
    ) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Score blocks of a column's codes among individuals that meet the other conditions; count those of each block.

        ``sample`` are individuals of the rule that were queried already, if the blocks are those of the whole column.
        """
        blocks = len(cuts) - 1
        if self.source.space.ordered[column]:
            window: Codes = (int(cuts[0]), int(cuts[-1]) - 1)
        else:
            window = tuple(range(int(cuts[0]), int(cuts[-1])))
        wanted = min(scale.samples * blocks, TOGETHER)
        rows, unfair = self._asked(rule.where(column, window), wanted) if sample is None else sample
        # Not more than wanted, so that the evidence of a block does not depend on other columns.
        at = np.searchsorted(cuts, rows[:wanted, column], side="right") - 1
        evidence = np.where(unfair[:wanted], scale.hit, scale.miss)
        scores = np.bincount(at, evidence, minlength=blocks).astype(np.float64)
        return scores, np.bincount(at, minlength=blocks).astype(np.int64)


@dataclass(frozen=True)
class Scale:
    """The evidence of one verdict for being inside, in nats, and the number of verdicts that is sufficient."""

    hit: float
    miss: float
    samples: int

    @classmethod
    def of(cls, inside: float, outside: float) -> Scale:
        """Compute the scale for two rates."""
        least = 1 / (4 * SAMPLE)
        p, q = (min(max(rate, least), 1 - least) for rate in (inside, outside))
        hit, miss = math.log(p / q), math.log((1 - p) / (1 - q))
        clear = min(p * hit + (1 - p) * miss, -(q * hit + (1 - q) * miss))
        return cls(hit, miss, int(np.clip(math.ceil(NATS / max(clear, 1e-9)), FEWEST, MOST)))


def segment(scores: Numbers) -> tuple[int, int] | None:
    """Find the run of blocks with the largest sum, minus the price of inner ends; None if no run has a gain.

    A run does not cross a stretch that would pay for two more ends: what follows is another region.

    >>> segment(np.array([-9.0, 30, 5, -9])), segment(np.array([20.0, -1, 20])), segment(np.array([30.0, -40, 20]))
    ((1, 2), (0, 2), (0, 0))
    """
    best, found = 0.0, None
    last = len(scores) - 1
    for start in range(len(scores)):
        total = peak = 0.0
        for end in range(start, len(scores)):
            total += float(scores[end])
            peak = max(peak, total)
            if total < peak - 2 * PRICE:
                break
            value = total - PRICE * ((start > 0) + (end < last))
            if value > best:
                best, found = value, (start, end)
    return found


def _cuts(start: int, end: int, present: int, blocks: int = BLOCKS) -> npt.NDArray[np.int64]:
    """Cut a range of codes into blocks; the missing value, which is the last code, is a separate block."""
    cuts = np.unique(np.linspace(start, end, min(blocks, end - start) + 1).round().astype(np.int64))
    return np.union1d(cuts, [present]) if start < present < end else cuts
