"""Asks about families of drawn individuals and judges them; of a model that wavers, by its most frequent answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
from evenhand.check import ALONE, PROBES, Steadiness, in_turn, rounding_alone, scattered
from evenhand.criterion import Outputs
from evenhand.errors import FlakyModel
from evenhand.findings import Decisions
from evenhand.measuring.intervals import at_most
from evenhand.run import CHUNK
from evenhand.space.counterparts import Families
from evenhand.space.ground import Kin
from evenhand.space.individuals import Individuals

MEASURED = 4_096
"""Rows by which the noise of a model that wavers is measured."""
TURNS = 8
"""How often they are asked, to tell noise from replicas that answer in turn."""
SEVERAL = 3
"""More than the rarest noise, which many more repeats did not show, does by chance."""
AGAIN = 1_000
"""Findings that are asked again in the end."""
RESIDUE = 0.001
"""The share of individuals who may be misjudged where the model's noise is the same everywhere."""
MOST_HALF = 51
"""The most times that each half of the repeats asks a row."""
HOPELESS = 0.25

Mask = npt.NDArray[np.bool_]
Barred = Callable[[Individuals], Mask]
"""Who must not be asked."""


@dataclass(frozen=True)
class Block:
    """Judged individuals and what the model said of their families."""

    families: Families
    outputs: Outputs
    unfair: Mask
    unsure: Mask | None = None
    """Of a model that wavers: in whose family some answer differs between the two halves of the repeats."""

    def __len__(self) -> int:
        return len(self.families)

    @property
    def legal(self) -> Mask | None:
        """Which places of the families are legal (None: all)."""
        return self.families.legal


class Judge:
    """Judges individuals; counts rows, and who could not be compared.

    ``half`` is how often each half of the repeats asks every row; 0 for a model that does not waver.
    """

    def __init__(
        self,
        asker: Asker,
        seed: int,
        half: int = 0,
        checked: int = 0,
        barred: Barred | None = None,
        chunk: int = CHUNK,
    ) -> None:
        self.asker, self.seed, self.half, self.barred, self.chunk = asker, seed, half, barred, chunk
        self.rows, self.untestable, self.left_out = 0, 0, 0
        self.steadiness = Steadiness(asker, seed, chunk)
        self.apart = checked
        self._decisions = Decisions()

    @property
    def checked(self) -> int:
        """Rows asked to check the model and what it says."""
        return self.apart + self.steadiness.rows

    @property
    def width(self) -> int:
        """How many counterparts a family has at most."""
        return min(self.asker.space.combinations, self.asker.space.limit)

    def families(self, people: Individuals) -> Families:
        """Build the families of those who have one and are not barred."""
        if self.barred is not None:
            out = self.barred(people)
            self.left_out += int(out.sum())
            people = people[np.flatnonzero(~out)]
        families = self.asker.space.families(people, self.seed)
        if families.testable is None or families.testable.all():
            return families
        assert families.legal is not None
        lonely = families.legal.sum(axis=1) == 1
        self.untestable += int(lonely.sum())
        return families[np.flatnonzero(families.testable)]

    def judge(self, families: Families) -> Block:
        """Ask about families and judge them."""
        outputs, unsure = self._ask(families)
        return Block(families, outputs, self.asker.criterion.judge(outputs).unfair, unsure)

    def _ask(self, families: Families) -> tuple[Outputs, Mask | None]:
        self.rows += int(families.places.sum()) * self.asker.cost * max(1, 2 * self.half)
        if not self.half:
            return self.asker.outputs(families), None
        # In another order each time: what a position in the batch changes is then voted out like other noise.
        said = [mixed_outputs(self.asker, families, self.seed + turn, self.chunk)[0] for turn in range(2 * self.half)]
        codes = np.stack([self._decisions.encode(_labels(one).ravel()) for one in said])
        halves = [self._usual(part) for part in (codes[: self.half], codes[self.half :])]
        usual, shape = self._decisions.decode(self._usual(codes)), _labels(said[0]).shape
        scored = [one.scores for one in said if one.scores is not None]
        scores = np.mean(scored, axis=0) if scored else None
        unsure = (halves[0] != halves[1]).reshape(shape).any(axis=1)
        return Outputs(usual.reshape(shape), scores, said[0].own), np.asarray(unsure, dtype=bool)

    def _usual(self, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
        """The most frequent answer to each row; of equally frequent ones that which the model gave first."""
        votes = np.stack([(codes == code).sum(axis=0) for code in range(len(self._decisions.values))])
        return np.asarray(votes.argmax(axis=0), dtype=np.int64)

    def judge_again(self, people: Individuals, mixed: bool = False) -> tuple[Families, Mask]:
        """Judge individuals once more, outside the count of rows.

        ``mixed``: in another order, the same each time, and in batches of other sizes.
        """
        before, apart, families = self.rows, (self.untestable, self.left_out), self.families(people)
        if mixed:
            outputs, asked = mixed_outputs(self.asker, families, self.seed, self.chunk)
            unfair = self.asker.criterion.judge(outputs).unfair
            self.apart += asked
            if rounding_alone(self.asker, outputs, np.flatnonzero(~unfair), len(unfair)):
                unfair = np.ones_like(unfair)
        else:
            unfair = self.judge(families).unfair
        self.rows, self.apart = before, self.apart + self.rows - before
        self.untestable, self.left_out = apart
        return families, unfair

    def wavers(self, families: Families, seen: int) -> tuple[int, int]:
        """Ask families of a noisy model several times; return how many rows got two answers, and how many there are.

        Raises ``FlakyModel`` where whole answers come again, as of replicas in turn: those have no majority. So they
        do where other batches gave ``seen`` rows another answer, and the same batch always gives the same.
        """
        rows, asker = families.asked, self.asker
        # The same rows in the same order: what differs now is the model's own noise.
        said = [asker.both(rows)[0] for _ in range(TURNS)]
        self.apart += len(said) * len(rows) * asker.cost
        codes = np.stack([self._decisions.encode(labels) for labels in said])
        waver = int((codes[0] != codes[1]).sum())
        noise = float((codes != codes[0]).any(axis=0).mean())
        if not noise and seen >= SEVERAL:
            raise FlakyModel(
                "the prediction depends on the other rows in the batch, or on the calls before: the same rows in the "
                f"same order always get the same answer, and in other batches another; {ALONE}",
                seen / PROBES,
            )
        if in_turn(codes):
            raise FlakyModel(
                f"the model gave two answers to {noise:.1%} of {len(rows):,} rows, and the same few to all rows of a "
                "call again and again, as replicas do that answer in turn; ask one replica only",
                noise,
            )
        return waver, len(rows)


def mixed_outputs(asker: Asker, families: Kin, seed: int, chunk: int) -> tuple[Outputs, int]:
    """Ask about families in another order, their members apart, in batches of other sizes; return also the rows asked.

    >>> from evenhand.criterion import Flip
    >>> from evenhand.model import wrap
    >>> from evenhand.space import Boolean, Integer, Space
    >>> space = Space([Integer("age", 0, 99), Boolean("member")], protected="member")
    >>> asker = Asker(wrap(lambda frame: frame["member"]), space, Flip())
    >>> mixed_outputs(asker, space.families(space.individuals([[3, 0], [4, 0]]), 0), 0, 100)[0].labels.tolist()
    [[False, True], [False, True]]
    """
    rows = families.asked
    order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
    labels, scores, asked = scattered(asker, rows, order, chunk)
    spread = None if scores is None else families.spread(scores)
    return Outputs(families.spread(labels), spread, families.own), asked


def repeats_for(noise: float, rows: int, width: int) -> int:
    """Choose how often each half of the repeats asks a row, so that most frequent answers are the usual ones.

    ``noise`` is the share of ``rows`` rows, asked twice, that got two answers; ``width`` the size of a family.

    >>> repeats_for(0.1, 256, 2)
    11
    """
    # Rather too often than not often enough: as if the noise were at the upper end of what was measured.
    likely = min(0.5, float(at_most(round(noise * rows), rows)))
    other = (1 - math.sqrt(1 - 2 * likely)) / 2
    for half in range(3, MOST_HALF + 1, 2):
        if 4 * width * _minority_wins(other, half) <= RESIDUE:
            return half
    if 4 * width * _minority_wins(other, MOST_HALF) > HOPELESS:
        raise FlakyModel(
            f"the model gave two answers to {noise:.1%} of {rows:,} rows that were asked twice, so that no verdict on "
            "it is possible; switch off what is random in it (dropout, sampling, temperature), or average its answers",
            noise,
        )
    return MOST_HALF


def _minority_wins(chance: float, repeats: int) -> float:
    """The chance that the rarer of two answers comes more often."""
    from scipy.special import bdtrc

    return float(bdtrc(repeats // 2, repeats, chance))


def _labels(outputs: Outputs) -> npt.NDArray[np.generic]:
    assert outputs.labels is not None
    return outputs.labels
