"""ADF: gradients lead individuals to the decision boundary, then along it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evenhand.search import Problem, Query, Search, Verdicts, contrast, gradient
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.neighbours import jumps
from evenhand.strategies._checks import at_least, chance, one_of, whole_steps
from evenhand.strategies._seeds import clustered, more, numbers

EPSILON = 1e-6
"""What a slope of zero counts as, beside the individual's largest."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Adf:
    """Seeds from K-means clusters walk along agreeing gradients until they are found; walks around them find more.

    Zhang, Wang, Sun and others, "White-box fairness testing through adversarial sampling", ICSE 2020. In the global
    phase a seed and its most different counterpart move together, on every free attribute where the signs of their
    gradients agree; where none does, or the move changes nothing or breaks a constraint, one attribute drawn uniformly
    moves a step. In the local phase attributes that matter little to both are moved most. All seeds advance together;
    what one does is independent of the others. A nominal attribute steps to a drawn other value. The paper's walks
    leave the region that they should explore; with ``stray=0`` they never do, and find several times as many.

    The paper ends with the last walk of its seeds (``rounds=1``). Here the next seeds follow until the budget ends:
    the other rows of the data, then random individuals.

    >>> Adf(seeds=100, phase="global").max_iter
    10
    """

    clusters: int = 4
    """K-means clusters from which the seeds are taken in turn."""
    seeds: int = 1000
    """Individuals that the global phase of a round starts from."""
    max_iter: int = 10
    """Judgements of each seed in the global phase."""
    trials: int = 1000
    """Steps of each walk of the local phase."""
    step: float = 1.0
    """How many of the space's steps a move takes."""
    stray: float = 1.0
    """The chance that a walk goes on from where it is not discriminatory; else that step is taken back."""
    phase: Literal["both", "global", "local"] = "both"
    """``local`` walks from those seeds that are discriminatory to begin with."""
    gradient: Literal["auto", "model", "scores"] = "auto"
    """The model's own gradients, or differences of its scores; ``auto``: the former where there are any."""
    rounds: int | None = None
    """How often to take seeds; None: until the budget or the space ends, and once for a single phase."""

    uses_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least(self, 1, "clusters", "seeds", "max_iter", "trials", "rounds")
        whole_steps(self, "step")
        chance(self, "stray")
        one_of(self, "phase", ("both", "global", "local"))
        one_of(self, "gradient", ("auto", "model", "scores"))

    def search(self, problem: Problem) -> Search:
        """Lead every seed to discrimination, then walk around those that came there; again with the next seeds."""
        people = yield from clustered(problem, self.clusters, self.seeds)
        led = 0
        for _ in numbers(self.rounds if self.phase == "both" else self.rounds or 1):
            seeds, people = people[: self.seeds], people[self.seeds :]
            if not len(seeds) and not len(seeds := more(problem, self.seeds)):
                # Everyone in the space has been drawn.
                return
            found = yield from self._lead(problem, seeds, led + np.arange(len(seeds)))
            if self.phase != "global" and len(found.walkers):
                yield from self._walk(problem, found)
            led += len(seeds)

    def _lead(
        self, problem: Problem, people: Individuals, walkers: npt.NDArray[np.int64]
    ) -> Generator[Query, Any, Walk]:
        """Global phase: move seeds along the signs on which both gradients agree."""
        rows = people.rows
        found: list[Walk] = []
        iterations = 1 if self.phase == "local" else self.max_iter
        for iteration in range(iterations):
            walk, verdicts = yield from _meet(problem, walkers, rows)
            found.append(walk[verdicts.found])
            walk = walk[~verdicts.unfair]
            if iteration == iterations - 1 or not len(walk.walkers):
                break
            targets = jumps(problem.space, walk.rows, problem.stream, walk.walkers, iteration)
            own, other = yield from walk.slopes(problem, targets)
            direction = np.where(np.sign(own) == np.sign(other), np.sign(own), 0)
            moved = _along(problem, walk.rows, direction.astype(np.int32), targets, int(self.step))
            walkers, rows = walk.walkers, _unstuck(problem, walk, moved, targets, iteration, int(self.step))
        return Walk.join(found)

    def _walk(self, problem: Problem, walk: Walk) -> Search:
        """Local phase: attributes are chosen by the reciprocal of what they matter to both.

        Who has not moved, clipped at a border or taken back, is not asked about again.
        """
        space = problem.space
        free = np.array(space.free_columns)
        movable = space.sizes[free, None] > 1
        # Attributes by walkers: NumPy is slow at many short sums.
        matter = np.zeros((len(free), len(walk.walkers)))
        moved = everyone = np.arange(len(walk.walkers))
        for trial in range(self.trials):
            targets = jumps(space, walk.rows, problem.stream, walk.walkers, trial)
            # Slopes towards drawn values are new at every trial.
            asked = moved if targets is None else everyone
            own, other = yield from walk[asked].slopes(problem, None if targets is None else targets[asked])
            matter[:, asked] = (np.abs(own) + np.abs(other)).T[free]
            chances = movable * _reciprocal(matter)
            columns = free[_choose(chances, problem.stream.unit("choice", walk.walkers, trial))]
            rows = _one_step(problem, walk, columns, targets, trial, int(self.step))
            here = np.arange(len(columns))
            moved = np.flatnonzero(rows[here, columns] != walk.rows[here, columns])
            there, verdicts = yield from _meet(problem, walk.walkers[moved], rows[moved])
            if self.stray < 1:
                stays = verdicts.unfair | (problem.stream.unit("stray", there.walkers, trial) < self.stray)
                moved, there = moved[stays], there[np.flatnonzero(stays)]
            walk.put(moved, there)


@dataclass(frozen=True)
class Walk:
    """Walkers side by side: who they are, where they stand, and what they met there."""

    walkers: npt.NDArray[np.int64]
    rows: Rows
    most_different: Rows
    """The counterpart that differs most from each."""
    classes: npt.NDArray[np.int64]
    """What the model decides for each."""

    def __getitem__(self, which: npt.NDArray[Any]) -> Walk:
        """Return some of the walkers."""
        return Walk(self.walkers[which], self.rows[which], self.most_different[which], self.classes[which])

    @staticmethod
    def join(parts: list[Walk]) -> Walk:
        """Put walkers one after the other."""
        return Walk(
            np.concatenate([part.walkers for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.most_different for part in parts]),
            np.concatenate([part.classes for part in parts]),
        )

    def put(self, which: npt.NDArray[np.int64], there: Walk) -> None:
        """Let some walkers stand elsewhere."""
        self.rows[which], self.most_different[which], self.classes[which] = (
            there.rows,
            there.most_different,
            there.classes,
        )

    def slopes(self, problem: Problem, targets: Rows | None) -> Generator[Query, Any, tuple[Floats, Floats]]:
        """Ask for the slopes of the loss of each one's decision, at itself and at its rival, in one call."""
        both = Individuals(problem.space, rows=np.concatenate([self.rows, self.most_different]))
        twice = None if targets is None else np.concatenate([targets, targets])
        answer = yield from gradient(both, np.concatenate([self.classes, self.classes]), twice)
        return answer[: len(self.rows)], answer[len(self.rows) :]


def _meet(problem: Problem, walkers: npt.NDArray[np.int64], rows: Rows) -> Generator[Query, Any, tuple[Walk, Verdicts]]:
    """Judge walkers where they stand, and find the rival of each."""
    seen = yield from contrast(Individuals(problem.space, rows=rows))
    return Walk(walkers, rows, seen.most_different.rows, seen.classes), seen.verdicts


def _along(problem: Problem, rows: Rows, direction: Rows, targets: Rows | None, size: int) -> Rows:
    """Move every free attribute in its direction, clipped; a nominal one jumps where that raises the loss."""
    space = problem.space
    moved = np.where(rows < space.present, np.clip(rows + size * direction, 0, space.present - 1), rows)
    if targets is not None:
        moved = np.where(space.ordered, moved, np.where(direction > 0, targets, rows))
    moved[:, space.protected_columns] = rows[:, space.protected_columns]
    return moved.astype(np.int32)


def _unstuck(problem: Problem, walk: Walk, moved: Rows, targets: Rows | None, iteration: int, size: int) -> Rows:
    """Let those move one attribute at random whose move changes nothing or breaks a constraint."""
    stuck = np.flatnonzero((moved == walk.rows).all(axis=1) | ~problem.space.valid(moved))
    if len(stuck):
        free = np.array(problem.space.free_columns)
        columns = free[problem.stream.below(len(free), "any", walk.walkers[stuck], iteration)]
        there = None if targets is None else targets[stuck]
        moved[stuck] = _one_step(problem, walk[stuck], columns, there, iteration, size)
    return moved


def _one_step(
    problem: Problem, walk: Walk, columns: npt.NDArray[np.int64], targets: Rows | None, number: int, size: int
) -> Rows:
    """Move one attribute of each walker up or down with equal chance; who would break a constraint stays."""
    space, here = problem.space, np.arange(len(columns))
    down = problem.stream.bits("down", walk.walkers, number) >> np.uint64(63)
    code, present = walk.rows[here, columns], space.present[columns]
    there = np.minimum(np.maximum(code + np.where(down, -size, size), 0), present - 1)
    there = np.where(code < present, there, code)
    if targets is not None:
        there = np.where(space.ordered[columns], there, targets[here, columns])
    moved = walk.rows.copy()
    moved[here, columns] = there
    return np.where(space.valid(moved)[:, None], moved, walk.rows) if space.constraints else moved


def _reciprocal(slopes: Floats) -> Floats:
    """Weigh attributes, one a row, by the reciprocal of their slopes; all alike where none has any."""
    largest = slopes.max(axis=0)
    # Beside the largest, because slopes of a model that is sure of itself are all very small.
    weights: Floats = 1 / (slopes / np.where(largest > 0, largest, 1) + EPSILON)
    return weights


def _choose(chances: Floats, unit: Floats) -> npt.NDArray[np.int64]:
    """Choose a row in each column with probability proportional to its chance."""
    ends = np.cumsum(chances, axis=0)
    below = ends <= unit * ends[-1]
    chosen: npt.NDArray[np.int64] = np.minimum(below.sum(axis=0), len(chances) - 1)
    return chosen
