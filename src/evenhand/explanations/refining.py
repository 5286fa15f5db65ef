"""Makes a rule exact by asking where, along each attribute, the rate changes.

A code (or a block of codes) of one attribute, all other conditions being met, belongs to the rule if its verdicts are
likelier at the rate inside than at the rate outside: that log-likelihood ratio is its score. An interval is chosen by
the sum of its scores, a set by the sign of each; an end that is no end of the range has to be worth its price, so that
no condition is made of chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.explanations.drawing import Source
from evenhand.explanations.learning import PRICE, price
from evenhand.explanations.rules import Codes, Rule
from evenhand.spaces.individuals import Rows

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
"""Individuals by whom the rate inside is told."""
Numbers = npt.NDArray[np.float64]
Asked = tuple[Rows, npt.NDArray[np.bool_]]
"""Rows of individuals and their verdicts."""


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
