"""AEQUITAS: random seeds, then walks whose probabilities learn where discrimination is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_settings
from evenhand.search import PRINTED, PROGRAM, Problem, Search, count_rounds, judge, round_size
from evenhand.spaces.individuals import Individuals, Rows, step
from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Aequitas:
    """Random individuals find seeds; from each seed a walk of small moves finds more.

    Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing", ASE 2018. The three variants differ in what
    a step teaches: nothing (``random``), the direction of each attribute (``semi``), direction and choice of attribute
    (``full``). Steps are clipped into the domain; one that changes nothing, or that would break a constraint, leaves
    the walker in place and still counts as a step. ``width`` walkers step together on probabilities read at the start
    of the step, and their updates are summed; ``width=1`` is the paper's schedule. A nominal attribute moves to a
    random other value.

    A step to a place without discrimination still updates the probabilities, and is then taken back. The paper's
    algorithm keeps every step (``stray=Aequitas.PRINTED``, 1), and its program about one in three of these
    (``stray=Aequitas.PROGRAM``, 0.368); both leave the discriminatory region and find fewer. The paper samples once,
    typically 1000 individuals, and ends with the last walk: ``Aequitas(samples=1000, stray=Aequitas.PROGRAM,
    rounds=1)``. Here both alternate until the budget ends: each round draws twice as many individuals as the one
    before and walks from the seeds among them.

    >>> Aequitas(variant="full").rounds is None
    True
    """

    variant: Literal["random", "semi", "full"] = "full"
    samples: int = 64
    """Random individuals of the first round; every later round draws twice as many."""
    steps: int = 1000
    """Steps of each walk."""
    width: int = 256
    """Number of walks that advance together."""
    direction_rate: float = 0.001
    """The change of a direction's probability by one step (the paper's delta_v)."""
    choice_rate: float = 0.001
    """The change of an attribute's probability by one step (the paper's delta_pr)."""
    stray: float = 0.0
    """Probability that a walk continues from a place that is not discriminatory; otherwise it takes the step back."""
    rounds: int | None = None
    """Number of rounds of sampling and walking; None: until the budget or the space ends."""

    PRINTED: ClassVar[float] = PRINTED
    PROGRAM: ClassVar[float] = PROGRAM
    uses_data: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self, stray=(0, 1))

    def search(self, problem: Problem) -> Search:
        """Search globally for seeds, then walk locally from every seed; repeat."""
        chances, walked = Chances(problem.space), 0
        for number in count_rounds(self.rounds):
            sample = problem.sample(round_size(self.samples, number))
            if not len(sample):
                # Every individual of the space has been drawn.
                return
            verdicts = yield from judge(sample)
            seeds = sample[verdicts.found].rows
            for start in range(0, len(seeds), self.width):
                rows = seeds[start : start + self.width]
                # Draws depend on the walker's number, so walkers of later rounds get numbers of their own.
                yield from self._local_search(problem, rows, walked + start + np.arange(len(rows)), chances)
            walked += len(seeds)

    def _local_search(self, problem: Problem, rows: Rows, walkers: Numbers, chances: Chances) -> Search:
        """Let walkers step together, and learn from each step."""
        space, stream = problem.space, problem.stream
        columns = np.array(space.free_columns)
        for number in range(self.steps):
            attribute, down = chances.draw(stream, walkers, number)
            moved = step(space, rows, columns[attribute], down, stream.bits("jump", walkers, number))
            there = np.where(space.valid(moved)[:, None], moved, rows) if space.constraints else moved
            verdicts = yield from judge(Individuals(space, rows=there))
            chances.learn(self, attribute, down, verdicts.unfair)
            if self.stray < 1:
                stays = verdicts.unfair | (stream.unit("stray", walkers, number) < self.stray)
                there = np.where(stays[:, None], there, rows)
            rows = there


class Chances:
    """The probabilities that all walks of a run share."""

    def __init__(self, space: Space) -> None:
        free = len(space.free_columns)
        self.choice = np.full(free, 1 / free)
        """How likely each free attribute is to be moved (the paper's sigma_pr)."""
        self.down = np.full(free, 0.5)
        """How likely a move of each goes down (the paper's sigma_v)."""

    def draw(self, stream: Stream, walkers: Numbers, number: int) -> tuple[Numbers, Mask]:
        """Choose an attribute and a direction for each walker."""
        ends = np.cumsum(self.choice)
        at = stream.unit("choice", walkers, number) * ends[-1]
        attribute = np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)
        return attribute, stream.unit("down", walkers, number) < self.down[attribute]

    def learn(self, settings: Aequitas, attribute: Numbers, down: Mask, found: Mask) -> None:
        """Make what worked more likely."""
        if settings.variant == "random":
            return
        change = np.where(down == found, settings.direction_rate, -settings.direction_rate)
        self.down = np.clip(self.down + np.bincount(attribute, change, len(self.down)), 0, 1)
        if settings.variant == "full" and found.any():
            self.choice = self.choice + settings.choice_rate * np.bincount(attribute[found], minlength=len(self.choice))
            self.choice /= self.choice.sum()
