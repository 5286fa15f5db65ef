"""ADF: gradients lead individuals to the decision boundary, then along it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_settings
from evenhand.errors import StrategyError
from evenhand.search import (
    PRINTED,
    PROGRAM,
    Problem,
    Query,
    Search,
    Verdicts,
    cluster_seeds,
    contrast,
    count_rounds,
    gradient,
    random_seeds,
)
from evenhand.spaces.individuals import Individuals, Rows, jumps
from evenhand.spaces.tabular import Space

EPSILON = 1e-6
"""The value of a slope of zero, relative to the individual's largest."""
MOST_STEPS = 1_000_000
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Adf:
    """Move seeds along agreeing gradients until they are discriminatory, then walk around them.

    Zhang, Wang, Sun and others, "White-box fairness testing through adversarial sampling", ICSE 2020. In the global
    phase seeds from K-means clusters and their most different counterparts move together, on every free attribute where
    the signs of the two gradients agree; if none agree, or the move changes nothing or breaks a constraint, one
    uniformly drawn attribute moves one step. In the local phase attributes that matter little to both are moved most.
    All seeds advance together; the path of one does not depend on the others. A nominal attribute moves to another
    value drawn at random.

    A step of a walk to a place without discrimination is taken back. The paper's walks continue from there, leave the
    region that they should explore, and find far fewer. Its tables need ``stray=Adf.PROGRAM`` (0.368), which is how the
    authors' program walks, or ``stray=Adf.PRINTED`` (1), which is their Algorithm 3.

    The paper asks for new gradients at every trial of a walk (``refresh=1``). Here 20 trials share them, as in EIDIG
    (Zhang, Zhang and Zhang, "Efficient white-box fairness testing through gradient search", ISSTA 2021): they hardly
    change between neighbours and cost as much as a test. The paper ends with the last walk of its seeds
    (``rounds=1``). Here the next seeds follow until the budget ends: the other rows of the data, then random
    individuals.

    >>> Adf(seeds=1000, stray=Adf.PROGRAM, refresh=1, rounds=1).max_iter
    10
    """

    clusters: int = 4
    """Number of K-means clusters, which provide one seed in turn."""
    seeds: int = 1000
    """Number of individuals that the global phase of a round starts from."""
    max_iter: int = 10
    """Maximum judgements of each seed in the global phase."""
    trials: int = 1000
    """Steps of each walk of the local phase."""
    refresh: int = 20
    """Number of trials of the local phase that share gradients; 1: new gradients at every trial."""
    step: float = 1.0
    """Number of the space's steps in one move."""
    stray: float = 0.0
    """Probability that a walk continues from a place that is not discriminatory; otherwise it takes the step back."""
    phase: Literal["both", "global", "local"] = "both"
    """``local`` walks only from seeds that are discriminatory themselves."""
    gradient: Literal["auto", "model", "scores"] = "auto"
    """``model``: the model's gradients; ``scores``: differences of its scores; ``auto``: the former if available."""
    rounds: int | None = None
    """Number of rounds; None: until the budget or the space ends, and one for a single phase."""

    PRINTED: ClassVar[float] = PRINTED
    PROGRAM: ClassVar[float] = PROGRAM
    uses_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, step=(1, MOST_STEPS), stray=(0, 1))
        if self.step != int(self.step):
            remedy = "a move takes whole steps of the space, such as 1.0"
            raise StrategyError("must be a whole number", parameter="step", value=self.step, remedy=remedy)

    def search(self, problem: Problem) -> Search:
        """Move every seed towards discrimination, then walk around the findings; repeat with the next seeds."""
        people = yield from cluster_seeds(problem, self.clusters, self.seeds)
        led = 0
        for _ in count_rounds(self.rounds if self.phase == "both" else self.rounds or 1):
            seeds, people = people[: self.seeds], people[self.seeds :]
            if not len(seeds) and not len(seeds := random_seeds(problem, self.seeds)):
                # Every individual of the space has been drawn.
                return
            found = yield from self._global_phase(problem, seeds.rows, led + np.arange(len(seeds)))
            if self.phase != "global" and len(found.walkers):
                yield from self._local_phase(problem, found)
            led += len(seeds)

    def _global_phase(self, problem: Problem, rows: Rows, walkers: Numbers) -> Generator[Query, Any, Walk]:
        """Move seeds along the signs on which both gradients agree; return those that became discriminatory."""
        space, stream, found = problem.space, problem.stream, list[Walk]()
        iterations = 1 if self.phase == "local" else self.max_iter
        for iteration in range(iterations):
            walk, verdicts = yield from _judged(problem, walkers, rows)
            found.append(walk[verdicts.found])
            walk = walk[~verdicts.unfair]
            if iteration == iterations - 1 or not len(walk.walkers):
                break
            targets = jumps(space, walk.rows, stream, walk.walkers, iteration)
            own, other = yield from walk.slopes(problem, targets)
            direction = np.where(np.sign(own) == np.sign(other), np.sign(own), 0).astype(np.int32)
            rows, walkers = self._along(space, walk.rows, direction, targets), walk.walkers
            stuck = np.flatnonzero((rows == walk.rows).all(axis=1) | ~space.valid(rows))
            if len(stuck):
                free = np.array(space.free_columns)
                columns = free[stream.below(len(free), "any", walkers[stuck], iteration)]
                there = None if targets is None else targets[stuck]
                rows[stuck] = self._one_step(problem, walk[stuck], columns, there, iteration)
        return Walk.join(found)

    def _local_phase(self, problem: Problem, walk: Walk) -> Search:
        """Move one attribute at a time, chosen by the reciprocal of how much it matters to both.

        Slopes are refreshed now and then, and only those of walkers that moved since: one that was clipped at a border
        or taken back is not asked about again.
        """
        space, stream = problem.space, problem.stream
        free = np.array(space.free_columns)
        can_move = space.sizes[free, None] > 1
        # Attributes by walkers: NumPy is slow at many short sums.
        matter = np.zeros((len(free), len(walk.walkers)))
        everyone = np.arange(len(walk.walkers))
        stale = np.ones(len(everyone), dtype=bool)
        for trial in range(self.trials):
            targets = jumps(space, walk.rows, stream, walk.walkers, trial)
            if trial % self.refresh == 0:
                # Slopes towards drawn values are new at every trial.
                asked = np.flatnonzero(stale) if targets is None else everyone
                own, other = yield from walk[asked].slopes(problem, None if targets is None else targets[asked])
                matter[:, asked] = (np.abs(own) + np.abs(other)).T[free]
                stale[:] = False
            columns = free[_choose(can_move * _reciprocal(matter), stream.unit("choice", walk.walkers, trial))]
            rows = self._one_step(problem, walk, columns, targets, trial)
            moved = np.flatnonzero(rows[everyone, columns] != walk.rows[everyone, columns])
            there, verdicts = yield from _judged(problem, walk.walkers[moved], rows[moved])
            if self.stray < 1:
                stays = verdicts.unfair | (stream.unit("stray", there.walkers, trial) < self.stray)
                moved, there = moved[stays], there[stays]
            walk.put(moved, there)
            stale[moved] = True

    def _along(self, space: Space, rows: Rows, direction: Rows, targets: Rows | None) -> Rows:
        """Move every free attribute in its direction, clipped; a nominal one jumps where that raises the loss."""
        moved = np.clip(rows + int(self.step) * direction, 0, space.present - 1)
        moved = np.where(rows < space.present, moved, rows)
        if targets is not None:
            moved = np.where(space.ordered, moved, np.where(direction > 0, targets, rows))
        moved[:, space.protected_columns] = rows[:, space.protected_columns]
        return moved.astype(np.int32)

    def _one_step(self, problem: Problem, walk: Walk, columns: Numbers, targets: Rows | None, number: int) -> Rows:
        """Move one attribute of each walker up or down with equal chance; one that would break a constraint stays."""
        space, here = problem.space, np.arange(len(columns))
        down = problem.stream.bits("down", walk.walkers, number) >> np.uint64(63)
        code, present = walk.rows[here, columns], space.present[columns]
        size = int(self.step)
        there = np.minimum(np.maximum(code + np.where(down, -size, size), 0), present - 1)
        there = np.where(code < present, there, code)
        if targets is not None:
            there = np.where(space.ordered[columns], there, targets[here, columns])
        moved = walk.rows.copy()
        moved[here, columns] = there
        return np.where(space.valid(moved)[:, None], moved, walk.rows) if space.constraints else moved


@dataclass(frozen=True)
class Walk:
    """Walkers side by side: their numbers, where they are, and what the model says there."""

    walkers: Numbers
    rows: Rows
    most_different: Rows
    """The counterpart that differs most from each."""
    classes: Numbers
    """What the model decides for each."""

    def __getitem__(self, which: npt.NDArray[Any]) -> Walk:
        """Return some of the walkers."""
        return Walk(*(part[which] for part in vars(self).values()))

    @staticmethod
    def join(parts: list[Walk]) -> Walk:
        """Put walkers one after the other."""
        return Walk(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    def put(self, which: Numbers, there: Walk) -> None:
        """Move some walkers elsewhere."""
        for part, new in zip(vars(self).values(), vars(there).values(), strict=True):
            part[which] = new

    def slopes(self, problem: Problem, targets: Rows | None) -> Generator[Query, Any, tuple[Floats, Floats]]:
        """Ask in one call for the slopes of each decision's loss, at the individual and at its counterpart."""
        both = Individuals(problem.space, rows=np.concatenate([self.rows, self.most_different]))
        twice = None if targets is None else np.concatenate([targets, targets])
        answer = yield from gradient(both, np.concatenate([self.classes, self.classes]), twice)
        return answer[: len(self.rows)], answer[len(self.rows) :]


def _judged(problem: Problem, walkers: Numbers, rows: Rows) -> Generator[Query, Any, tuple[Walk, Verdicts]]:
    """Judge walkers where they are, and find the most different counterpart of each."""
    seen = yield from contrast(Individuals(problem.space, rows=rows))
    return Walk(walkers, rows, seen.most_different.rows, seen.classes), seen.verdicts


def _reciprocal(slopes: Floats) -> Floats:
    """Weight attributes, one a row, by the reciprocal of their slopes; equally where none has any."""
    largest = slopes.max(axis=0)
    # Relative to the largest, because slopes of a confident model are all very small.
    weights: Floats = 1 / (slopes / np.where(largest > 0, largest, 1) + EPSILON)
    return weights


def _choose(chances: Floats, unit: Floats) -> Numbers:
    """Choose a row in each column with probability proportional to its chance."""
    ends = np.cumsum(chances, axis=0)
    below = ends <= unit * ends[-1]
    chosen: Numbers = np.minimum(below.sum(axis=0), len(chances) - 1)
    return chosen
