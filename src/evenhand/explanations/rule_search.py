"""Searches for rules that say where individuals are treated differently: learns them, and makes them exact by asking.

*Learning* is a beam of rules, each step the best condition on one attribute. How much a rule tells is the mutual
information of meeting it and being treated differently, times the number of individuals (the likelihood ratio of
Kulldorff's scan statistic, Communications in Statistics 1997), less a price for each condition. It is convex in the
counts, so the best interval or set of codes is the best for some rate to beat: a largest sum of ``unfair - rate * all``
over consecutive codes, or all codes where that is positive.

*Beginning with two attributes*: of "either married or from the north, but not both" each half alone says nothing, so a
search that adds one condition at a time never begins. The pair that tells most is found by its table: how much the
cells say beyond the whole.

*Refining* asks where, along each attribute, the rate changes. A code (or a block of codes) of one attribute, all other
conditions being met, belongs to the rule if its verdicts are likelier at the rate inside than at the rate outside: that
log-likelihood ratio is its score. An interval is chosen by the sum of its scores, a set by the sign of each; an end
within the range has to be worth its price, so that no condition is made of chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.explanations.rules import Codes, Rule, Source
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
PAIR_BLOCKS = 8
"""Blocks of codes of an attribute that are told apart in tables of two."""
PAIRS = 4
"""Pairs of attributes from which rules are begun."""
PAIR_CELLS = 2**20
"""Individuals times attributes that tables are counted from; of more individuals as many of either verdict."""
PAIRS_TOGETHER = 32
"""Attributes whose tables with all others are counted at once."""
ROUNDS = 3
BLOCKS = 12
"""Blocks into which what lies below, inside and above an interval is cut."""
NATS = 16.0
"""How clearly, on average, the sample of one block should speak."""
FEWEST, MOST = 24, 1_000
"""Individuals of one block."""
TOGETHER = 3_000
"""Individuals of all blocks that are asked together, at most."""
SAMPLE = 1_000
"""Individuals that the rate inside is estimated from."""
Asked = tuple[Rows, npt.NDArray[np.bool_]]
"""Rows of individuals and their verdicts."""


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
        # A value that no individual had is no reason to exclude it, if only few are excluded at all.
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


def beginnings(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> list[tuple[Rule, int]]:
    """Give rules of one condition, each with another column on which a second condition may tell much.

    >>> from evenhand.spaces.attributes import Boolean
    >>> space = Space([Boolean("a"), Boolean("b"), Boolean("c"), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(16))
    >>> [(rule.words, space.names[j]) for rule, j in beginnings(space, rows, rows[:, 0] != rows[:, 2])[:2]]
    [('not a', 'c'), ('a', 'c')]
    """
    columns, few = space.free_columns, _pair_sample(unfair, PAIR_CELLS // len(space.free_columns))
    rows, unfair = rows[few], unfair[few]
    blocks = [_pair_blocks(space, j) for j in columns]
    member = np.zeros((len(rows), len(columns), PAIR_BLOCKS), dtype=np.float32)
    for i, j in enumerate(columns):
        member[np.arange(len(rows)), i, np.searchsorted(blocks[i], rows[:, j], side="right") - 1] = 1
    told = np.full((len(columns), len(columns)), -np.inf)
    for start in range(0, len(columns), PAIRS_TOGETHER):
        found, every = (
            _tables(member[of, start : start + PAIRS_TOGETHER], member[of, start:]) for of in (unfair, slice(None))
        )
        told[start : start + PAIRS_TOGETHER, start:] = _beyond(found, every)
    told[np.tril_indices(len(columns))] = -np.inf
    # Of equals the first; one attribute makes no pair.
    order = np.argsort(-told, axis=None, kind="stable")[: min(PAIRS, len(columns) * (len(columns) - 1) // 2)]
    best = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, told.shape), strict=True)]
    return [
        (Rule(space).where(columns[i], c), columns[j])
        for i, j in best
        for c in _pair_codes(space, columns[i], blocks[i])
    ]


def _pair_sample(unfair: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.int64]:
    """Choose positions evenly, as many of either verdict where not all can be taken."""
    if len(unfair) <= most:
        return np.arange(len(unfair))
    kinds = [np.flatnonzero(unfair == kind) for kind in (False, True)]
    return np.concatenate(
        [at[np.linspace(0, len(at) - 1, min(len(at), max(1, most // 2))).astype(int)] for at in kinds]
    )


def _tables(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> Numbers:
    """Count who is in each block of an attribute and each of another: (attributes, attributes, blocks, blocks)."""
    together = np.tensordot(one, other, axes=(0, 0))
    return together.transpose(0, 2, 1, 3).astype(np.float64)


def _pair_blocks(space: Space, column: int) -> npt.NDArray[np.int64]:
    """Where the blocks of a column begin."""
    size = int(space.sizes[column])
    return np.unique(np.linspace(0, size, min(size, PAIR_BLOCKS) + 1)[:-1].round().astype(np.int64))


def _pair_codes(space: Space, column: int, starts: npt.NDArray[np.int64]) -> list[Codes]:
    ends = [*starts[1:].tolist(), int(space.sizes[column])]
    spans = [(int(start), end - 1) for start, end in zip(starts, ends, strict=True)]
    return list(spans) if space.ordered[column] else [tuple(range(low, high + 1)) for low, high in spans]


def _beyond(found: Numbers, every: Numbers) -> Numbers:
    """What the cells of tables tell, less what as many cells tell by chance."""
    from scipy.special import xlogy

    cells = (-2, -1)
    rates = found / np.maximum(every, 1)
    overall = found.sum(axis=cells, keepdims=True) / every.sum(axis=cells, keepdims=True)
    told = xlogy(found, rates / overall) + xlogy(every - found, (1 - rates) / (1 - overall))
    return np.asarray(told.sum(axis=cells) - (every > 0).sum(axis=cells) / 2)


@dataclass
class Refiner:
    """Asks about individuals of a rule and around it; those in earlier regions are left out."""

    judge: Judge
    source: Source
    earlier: list[Rule]
    outside: float
    """The rate outside all regions."""
    complete: bool = True
    """Whether there were rows enough."""

    def refine(self, rule: Rule) -> Rule | None:
        """Return the exact rule, as far as rates can be told apart; None where inside is no worse than outside.

        Where the rows are spent before, it is the rule as far as it came.
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
        """Ask for the share of a rule's individuals who are treated differently."""
        able, unfair = self.judge.judged(self.source.inside(rule, SAMPLE, self.earlier))
        return float(unfair.sum() / max(able.sum(), 1))

    def _narrowed(self, rule: Rule, scale: Scale) -> Rule:
        """Put conditions on columns that have none, where they are worth their price.

        The individuals of a rule are the same whichever of these columns is looked at, so all are judged by one sample,
        until a condition changes who is in the rule.
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
        # Who does not exist says nothing, and stays where it is.
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
        """Find the first code inside, or the first behind the inside, between ``start`` and ``end``."""
        size = int(self.source.space.sizes[column])
        while edge - start > 1 or end - edge > 1:
            cuts = _cuts(int(start), int(end), size, 2 * BLOCKS)
            scores, _ = self._scores(rule, column, cuts, scale)
            # What is won by an end at each cut: the scores of all blocks on its inner side.
            won = np.concatenate([[0.0], np.cumsum(scores)])
            won = won if upper else won[-1] - won
            at_limit = cuts == (size if upper else 0)
            best = int(np.argmax(won + PRICE * at_limit))
            start, edge, end = cuts[max(best - 1, 0)], cuts[best], cuts[min(best + 1, len(cuts) - 1)]
        return int(edge)

    def _asked(self, rule: Rule, wanted: int) -> Asked:
        """Ask about some individuals of a rule; give the rows of who can be compared, and their verdicts."""
        people = self.source.inside(rule, wanted, self.earlier)
        able, unfair = self.judge.judged(people)
        return people.rows[able], unfair[able]

    def _scores(
        self,
        rule: Rule,
        column: int,
        cuts: npt.NDArray[np.int64],
        scale: Scale,
        sample: Asked | None = None,
    ) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Score blocks of a column's codes, others' conditions being met; also how many of each were asked.

        ``sample`` are individuals of the rule who were asked already, where the blocks are all of the column.
        """
        blocks = len(cuts) - 1
        if self.source.space.ordered[column]:
            window: Codes = (int(cuts[0]), int(cuts[-1]) - 1)
        else:
            window = tuple(range(int(cuts[0]), int(cuts[-1])))
        wanted = min(scale.samples * blocks, TOGETHER)
        rows, unfair = self._asked(rule.where(column, window), wanted) if sample is None else sample
        # No more than are wanted: how clearly a block speaks must not depend on other columns.
        at = np.searchsorted(cuts, rows[:wanted, column], side="right") - 1
        said = np.where(unfair[:wanted], scale.hit, scale.miss)
        scores = np.bincount(at, said, minlength=blocks).astype(np.float64)
        return scores, np.bincount(at, minlength=blocks).astype(np.int64)


@dataclass(frozen=True)
class Scale:
    """What one verdict says for being inside, in nats, and how many verdicts say enough.

    >>> scale = Scale.of(0.5, 0.1)
    >>> round(scale.hit, 2), round(scale.miss, 2), scale.samples
    (1.61, -0.59, 44)
    """

    hit: float
    miss: float
    samples: int

    @classmethod
    def of(cls, inside: float, outside: float) -> Scale:
        """Make the scale for two rates."""
        least = 1 / (4 * SAMPLE)
        p, q = (min(max(rate, least), 1 - least) for rate in (inside, outside))
        hit, miss = math.log(p / q), math.log((1 - p) / (1 - q))
        clear = min(p * hit + (1 - p) * miss, -(q * hit + (1 - q) * miss))
        return cls(hit, miss, int(np.clip(math.ceil(NATS / max(clear, 1e-9)), FEWEST, MOST)))


def segment(scores: Numbers) -> tuple[int, int] | None:
    """Find the run of blocks with the largest sum, ends not at the border paid for; None where no run gains.

    A run goes through no stretch that would pay for two more ends: what lies behind it is another region.

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
    """Cut a range of codes into blocks; the missing value, behind all that are present, is one of its own."""
    cuts = np.unique(np.linspace(start, end, min(blocks, end - start) + 1).round().astype(np.int64))
    return np.union1d(cuts, [present]) if start < present < end else cuts
