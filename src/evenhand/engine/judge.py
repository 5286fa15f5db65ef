"""Judging families: an individual with its counterparts gets a verdict.

``ask`` is pure: it calls the model once and applies the criterion. ``Judge`` adds policies: excluded individuals, a row
limit, and repeats for a non-deterministic model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Judgement, Outputs
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import scattered
from evenhand.spaces.base import BoundSpace, Families
from evenhand.spaces.findings import Decisions
from evenhand.spaces.tabular import Space

CHUNK = 32_768
"""Default maximum of the rows of one block."""
Mask = npt.NDArray[np.bool_]
Exclude = Callable[[Any], Mask]
"""Returns a mask of individuals that must not be queried."""


class RowLimitReached(Exception):
    """The next query needs more rows than are left."""


@dataclass(frozen=True)
class Judged:
    """Families, the model's outputs, and the verdicts."""

    families: Families
    outputs: Outputs
    verdicts: Judgement
    unsure: Mask | None = None
    """With repeats: families with an answer that differs between the two halves of the repeats."""

    def __len__(self) -> int:
        return len(self.families)

    @property
    def unfair(self) -> Mask:
        """Which individuals are treated differently."""
        return self.verdicts.unfair

    @property
    def valid(self) -> Mask | None:
        """Which places of the families are valid (None: all)."""
        return self.families.valid


def ask(probe: ModelProbe, families: Families) -> Judged:
    """Ask the model about families and judge them; nothing is counted, stored or remembered.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> probe = ModelProbe(wrap(lambda frame: (frame["age"] < 4) & frame["member"]), space, Flip())
    >>> ask(probe, space.families(space.individuals([[3, 0], [4, 0]]), 0)).unfair.tolist()
    [True, False]
    """
    outputs = probe.outputs(families)
    return Judged(families, outputs, probe.criterion.judge(outputs))


def _ask_mixed(probe: ModelProbe, families: Families, seed: int, chunk: int) -> Outputs:
    """Ask about families in another order, their members apart, in batches of other sizes."""
    rows = families.asked
    order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
    labels, scores = scattered(probe, rows, order, chunk)
    return Outputs(families.to_grid(labels), None if scores is None else families.to_grid(scores), families.own)


def blocks(ground: BoundSpace, people: Any, rows: int = CHUNK) -> Iterator[Any]:
    """Cut individuals into blocks whose families have at most so many rows.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> [len(block) for block in blocks(space, space.individuals([[3, 0], [4, 0], [3, 1]]), 4)]
    [2, 1]
    """
    at = 0
    while at < len(people):
        size = ground.batch_size_for(people, np.arange(at, len(people)), rows)
        yield people[at : at + size]
        at += size


class Judge:
    """Judges individuals, and counts rows and untestable individuals.

    Parameters
    ----------
    probe, seed
        The probe of the model; the seed for sampling counterparts if there are too many.
    chunk
        Maximum rows of one block.
    half
        Repeats of every row in each half of the repeats; 0 queries once.
    limit
        Maximum rows; a query beyond it raises ``RowLimitReached`` before the model is called.
    exclude
        Individuals that must not be queried.

    Examples
    --------
    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> judge = Judge(ModelProbe(wrap(lambda frame: (frame["age"] < 4) & frame["member"]), space, Flip()), 0)
    >>> judge.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), judge.rows
    ([True, False, True], 4)
    """

    def __init__(
        self,
        probe: ModelProbe,
        seed: int,
        *,
        chunk: int = CHUNK,
        half: int = 0,
        limit: int | None = None,
        exclude: Exclude | None = None,
    ) -> None:
        self.probe, self.seed, self.chunk, self.half, self.limit = probe, seed, chunk, half, limit
        self.exclude = exclude
        self.rows = self.untestable = self.left_out = 0
        self._decisions = Decisions()

    @property
    def width(self) -> int:
        """Maximum rows of a family."""
        return self.probe.ground.width

    @property
    def cost(self) -> int:
        """Maximum rows of a test."""
        return self.width * self.probe.cost

    @property
    def space(self) -> Space:
        """The space, where it is one of attributes."""
        return self.probe.space

    def families(self, people: Any) -> Families:
        """Build the families of individuals with counterparts that are not excluded; count the others."""
        if self.exclude is not None:
            out = self.exclude(people)
            self.left_out += int(out.sum())
            people = people[np.flatnonzero(~out)]
        families = self.probe.ground.families(people, self.seed)
        if families.testable is None or families.testable.all():
            return families
        assert families.valid is not None
        alone = families.valid.sum(axis=1) == 1
        self.untestable += int(alone.sum())
        return families[np.flatnonzero(families.testable)]

    def judge(self, families: Families) -> Judged:
        """Ask about families and judge them; with repeats, by the most frequent answers."""
        cost = int(families.places.sum()) * self.probe.cost * max(1, 2 * self.half)
        if self.limit is not None and self.rows + cost > self.limit:
            raise RowLimitReached
        self.rows += cost
        return self._repeated(families) if self.half else ask(self.probe, families)

    def judged(self, people: Any) -> tuple[Mask, Mask]:
        """Return masks of testable individuals and of those treated differently; repeats are queried once."""
        testable, unfair = np.zeros((2, len(people)), dtype=bool)
        if not len(people):
            return testable, unfair
        _, first, back = np.unique(people.keys, return_index=True, return_inverse=True)
        start = 0
        for block in blocks(self.probe.ground, people[first], self.chunk):
            families = self.probe.ground.families(block, self.seed)
            able = np.arange(len(families)) if families.testable is None else np.flatnonzero(families.testable)
            if len(able):
                testable[start + able] = True
                unfair[start + able] = self.judge(families[able]).unfair
            start += len(block)
        return testable[back.reshape(-1)], unfair[back.reshape(-1)]

    def unfair(self, people: Any) -> Mask:
        """Return a mask of individuals that are treated differently; untestable ones are not."""
        return self.judged(people)[1]

    def _repeated(self, families: Families) -> Judged:
        # In another order each time, so that an effect of the position in the batch is outvoted like other noise.
        turns = range(2 * self.half)
        answers = [_ask_mixed(self.probe, families, self.seed + turn, self.chunk) for turn in turns]
        codes = np.stack([self._decisions.encode(_labels(one).ravel()) for one in answers])
        halves = [self._usual(part) for part in (codes[: self.half], codes[self.half :])]
        usual, shape = self._decisions.decode(self._usual(codes)), _labels(answers[0]).shape
        scored = [one.scores for one in answers if one.scores is not None]
        scores = np.mean(scored, axis=0) if scored else None
        unsure = (halves[0] != halves[1]).reshape(shape).any(axis=1)
        outputs = Outputs(usual.reshape(shape), scores, answers[0].own)
        return Judged(families, outputs, self.probe.criterion.judge(outputs), np.asarray(unsure, dtype=bool))

    def _usual(self, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
        """Return the most frequent answer to each row, and the first one of equally frequent ones."""
        votes = np.stack([(codes == code).sum(axis=0) for code in range(len(self._decisions.values))])
        return np.asarray(votes.argmax(axis=0), dtype=np.int64)


def _labels(outputs: Outputs) -> npt.NDArray[np.generic]:
    assert outputs.labels is not None
    return outputs.labels
