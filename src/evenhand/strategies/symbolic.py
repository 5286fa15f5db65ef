"""Symbolic generation: explain a decision by a path, negate its predicates, and solve for individuals beyond them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand._rng import Stream
from evenhand.errors import KOSEI, THRESHOLD, StrategyError
from evenhand.search import Problem, Query, Search, judge, label, work
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.solve import Solved, check_solvable, solve_any, solve_nearest
from evenhand.spaces.ties import Boxes
from evenhand.strategies._local_trees import DOWN, IS, Floats, Mask, Neighbourhood, Numbers, paths
from evenhand.strategies._seeds import MOST, cluster_seeds, count_rounds, random_seeds
from evenhand.strategies._settings import check_settings

LABELLED = 2**20
"""The most neighbours that are labelled at a time."""
DEEPEST = 1000
"""The longest paths that may be wanted."""
REFILL = 1000
"""Random individuals that fill an empty queue."""
CLASSES = 256
"""The most labels that a tree distinguishes."""


@dataclass(frozen=True)
class Symbolic:
    """Negate the predicates of local decision trees one by one, and judge individuals that meet the result.

    Aggarwal, Lohia, Nagar, Dey and Saha, "Black box fairness testing of machine learning models", ESEC/FSE 2019. A tree
    fitted to the model's decisions around an individual stands in for the path of symbolic execution. Each predicate of
    the path of a discriminatory individual is negated and the nearest solution taken (local search); each prefix of any
    path is negated at its end and a random solution taken (global search). ``block=1`` is the paper's schedule; with
    more, a block is judged, labelled and explained together before its solutions enter the queue.

    The paper ends with an empty queue (``rounds=1``). Here random individuals fill it again until the budget ends.

    >>> Symbolic(neighbours=500).clusters
    4
    """

    clusters: int = 4
    """K-means clusters of the data from which the seeds are taken."""
    threshold: float = 0.3
    """The global search goes no further down a path than where a predicate's confidence is below this."""
    neighbours: int = 1000
    """Individuals around each one whose decisions its tree is fitted to."""
    depth: int = 10
    """The most predicates of a path."""
    block: int = 32
    """How many individuals are taken from the queue at a time."""
    phase: Literal["both", "local", "global", "seeds"] = "both"
    """Which negations are made; ``seeds``: none."""
    seeds: Literal["data", "random"] = "data"
    """Where the search starts; without data, always from random individuals."""
    order: Literal["turns", "iterative"] = "turns"
    """Whether the clusters take turns, or come one after the other."""
    first: Literal["seeds", "global"] = "seeds"
    """What is taken first, seeds or results of the global search; those of the local search come before both."""
    rounds: int | None = None
    """How often to fill the queue; None: until the budget or the space ends, and once for a single phase."""

    def __post_init__(self) -> None:
        check_settings(self, neighbours=(2, LABELLED), depth=(1, DEEPEST), threshold=(0, 1))

    def search(self, problem: Problem) -> Search:
        """Pop, judge, explain, negate, solve, push."""
        if self.phase != "seeds":
            check_solvable(problem.space)
        # Half a mean confidence, at most 1/2, is added to these ranks.
        local, seed, further = (2.0, 1.0, 0.0) if self.first == "seeds" else (2.0, 0.0, 1.0)
        queue, near = Queue(problem), Neighbourhood(problem.space, self.neighbours)
        solved_before, explained = Memo(), 0
        block = min(self.block, LABELLED // self.neighbours)
        for number in count_rounds(self.rounds if self.phase == "both" else self.rounds or 1):
            seeds = random_seeds(problem, REFILL) if number else (yield from self._seeds(problem))
            if not len(seeds):
                # Every individual of the space has been drawn.
                return
            queue.push(np.full(len(seeds), seed), seeds)
            while len(popped := queue.pop(block)):
                verdicts = yield from judge(popped)
                which = verdicts.found if self.phase == "local" else verdicts.positions
                if self.phase == "seeds" or not len(which):
                    continue
                rows, unfair = popped.rows[which], np.isin(which, verdicts.found)
                path = yield from self._explain(problem, near, rows, explained)
                explained += len(rows)
                negations = self._negate(problem, path, unfair)
                negations = negations[solved_before.fresh(negations.boxes.keys)]
                solve = partial(negations.solve, rows, problem.stream, len(solved_before))
                solved = Solved((yield from work(solve)))
                problem.count("unsatisfiable_constraints", solved.unsatisfiable)
                problem.count("solver_timeouts", solved.timeouts)
                solved_before.add(negations.boxes.keys, solved.found)
                priority = np.where(negations.local, local, further) + negations.confidence / 2
                solutions = Individuals(problem.space, rows=solved.rows[solved.found].astype(np.int32))
                queue.push(priority[solved.found], solutions)

    def _seeds(self, problem: Problem) -> Generator[Query, Any, Individuals]:
        if self.seeds == "random" or problem.data is None:
            return problem.sample(MOST)
        return (yield from cluster_seeds(problem, self.clusters, turns=self.order == "turns"))

    def _explain(self, problem: Problem, near: Neighbourhood, rows: Rows, number: int) -> Generator[Query, Any, Floats]:
        """Label the neighbourhood of every individual, fit its tree, and return the individual's path through it."""
        import pandas as pd

        around, weights = near.sample(rows, problem.stream, number + np.arange(len(rows)))
        answers = yield from label(Individuals(problem.space, rows=around.reshape(-1, rows.shape[1])))
        codes, known = pd.factorize(answers)
        if len(known) > CLASSES:
            raise StrategyError(
                f"the model gave {len(known):,} different labels to neighbours; symbolic explains up to {CLASSES}",
                remedy=("make them fewer with ", THRESHOLD, " or your own function, or use ", KOSEI),
            )

        def grow() -> Floats:
            path = paths(problem.space, rows, around, codes.reshape(weights.shape), weights, self.depth)
            return path[:, : int((path[:, :, 0] >= 0).any(axis=0).sum())]

        return (yield from work(grow))

    def _negate(self, problem: Problem, path: Floats, unfair: Mask) -> Negations:
        """Make the constraints of both searches, in the paper's order, without those that contradict themselves."""
        there, confidence = path[:, :, 0] >= 0, path[:, :, 3]
        free = there & ~np.isin(path[:, :, 0], problem.space.protected_columns)
        local = free & unfair[:, None] & (self.phase != "global")
        # From the top down to the first free predicate of low confidence.
        doubtful = np.logical_or.accumulate(free & (confidence < self.threshold), axis=1)
        further = free & ~doubtful & (self.phase != "local")
        owner, kind, level = np.nonzero(np.stack([local, further], axis=1))
        # The local search keeps all other predicates, the global one the free predicates above.
        above = free[owner] & (np.arange(path.shape[1]) <= level[:, None])
        kept = np.where(kind[:, None] == 0, there[owner], above)
        which, at = np.nonzero(kept)
        attribute, predicate, code, _ = path[owner[which], at].T
        truth = np.isin(predicate, [DOWN, IS]) ^ (at == level[which])
        boxes = Boxes.all(problem.space, len(owner)).restrict(which, attribute, code, truth)
        negations = Negations(boxes, owner, kind == 0, (confidence[owner] * kept).sum(axis=1) / kept.sum(axis=1))
        problem.count("unsatisfiable_constraints", boxes.empty.sum())
        return negations[~boxes.empty]


@dataclass(frozen=True)
class Negations:
    """Constraints made of paths."""

    boxes: Boxes
    owner: Numbers
    """Whose path each was made of: the individual's place in its block."""
    local: Mask
    """Whether the local search made it, which wants the nearest solution; the global one wants any."""
    confidence: Floats
    """The mean confidence of its predicates."""

    def __getitem__(self, which: npt.NDArray[Any]) -> Negations:
        """Return some of them, by mask or positions."""
        return Negations(self.boxes[which], self.owner[which], self.local[which], self.confidence[which])

    def solve(self, rows: Rows, stream: Stream, number: int) -> npt.NDArray[Any]:
        """Solve for the member nearest to the owner's row, or for any; in the narrowest integers, see ``Solved``.

        What is drawn for a constraint depends on its place, counted from ``number``.
        """
        out = np.empty((len(self.owner), rows.shape[1]), dtype=np.min_scalar_type(-int(self.boxes.space.sizes.max())))
        near, anywhere = np.flatnonzero(self.local), np.flatnonzero(~self.local)
        out[near] = solve_nearest(self.boxes[near], rows[self.owner[near]]).rows
        out[anywhere] = solve_any(self.boxes[anywhere], stream, number + anywhere, 0).rows
        return out


Run = tuple[npt.NDArray[np.float32], Individuals]


class Queue:
    """Individuals by priority, the highest first; of equals, first in, first out. No test comes out twice.

    They are kept in a few sorted runs, the oldest first, each at least twice as long as the next when that was added:
    twelve bytes an individual where ids fit, and a push or a pop touches few of them.

    >>> from evenhand.spaces.attributes import Integer; from evenhand.spaces.tabular import Space
    >>> from evenhand._rng import Stream
    >>> space = Space([Integer("age", 0, 9), Integer("sex", 0, 1)], protected="sex")
    >>> queue = Queue(Problem(space, Stream(0)))
    >>> queue.push([0.5, 0.9], space.individuals([[1, 0], [2, 0]]))
    >>> queue.push([0.9, 0.8, 0.7], space.individuals([[3, 0], [2, 1], [4, 0]]))
    >>> queue.pop(3).rows[:, 0].tolist(), len(queue)
    ([2, 3, 4], 1)
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._space = problem, problem.space
        self._runs: list[Run] = []
        self._popped = Memo()

    def __len__(self) -> int:
        return sum(len(run) for _, run in self._runs)

    def push(self, priority: npt.ArrayLike, individuals: Individuals) -> None:
        """Add individuals; priorities that differ by less than a millionth may count as equal."""
        if len(individuals):
            kept = Individuals.from_stored(self._space, individuals.stored)
            run = _merged([(np.asarray(priority, dtype=np.float32), kept)])
            while self._runs and len(self._runs[-1][1]) < 2 * len(run[1]):
                run = _merged([self._runs.pop(), run])
            self._runs.append(run)

    def pop(self, most: int) -> Individuals:
        """Take out up to ``most`` individuals of the highest rank, which is the whole part of a priority.

        Repeats are skipped and counted. No individuals come out only when the queue is empty.
        """
        out = Individuals(self._space, rows=np.empty((0, len(self._space.names)), dtype=np.int32))
        rank = self._rank
        while self._runs and len(out) < most and (self._rank == rank or not len(out)):
            rank = self._rank
            popped = self._take(most - len(out), rank)
            fresh = popped[self._popped.fresh(popped.keys)]
            self._popped.add(fresh.keys, np.zeros(len(fresh), dtype=bool))
            self._problem.count("repeats", len(popped) - len(fresh))
            out = Individuals.join([out, fresh])
        return out

    @property
    def _rank(self) -> float:
        return max((float(np.floor(priority[0])) for priority, _ in self._runs), default=0.0)

    def _take(self, most: int, rank: float) -> Individuals:
        heads = [(priority[:most], run[:most]) for priority, run in self._runs]
        origin = np.repeat(np.arange(len(heads)), [len(run) for _, run in heads])
        priority = np.concatenate([priority for priority, _ in heads])
        first = np.argsort(-priority, kind="stable")[: min(most, int((priority >= rank).sum()))]
        taken = np.bincount(origin[first], minlength=len(heads)).tolist()
        rest = [(priority[n:], run[n:]) for (priority, run), n in zip(self._runs, taken, strict=True)]
        self._runs = [run for run in rest if len(run[1])]
        rows = Individuals.join([run for _, run in heads])[first].rows
        # Stored rows may be narrow, and arithmetic needs wide integers.
        return Individuals(self._space, rows=rows.astype(np.int32, copy=False))


def _merged(runs: list[Run]) -> Run:
    """Join runs, the older first; the sort is stable, so that equals stay in order."""
    priority = np.concatenate([priority for priority, _ in runs])
    order = np.argsort(-priority, kind="stable")
    return priority[order], Individuals.join([run for _, run in runs])[order]
