"""Symbolic generation: explain a decision by a path, negate parts of it, and solve for who lies beyond."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand.errors import KOSEI, THRESHOLD, StrategyError
from evenhand.search import Problem, Query, Search, judge, label, work
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.solve import Solved, check_solvable
from evenhand.spaces.ties import Mask
from evenhand.strategies._checks import at_least, between, chance, one_of
from evenhand.strategies._negations import Negations
from evenhand.strategies._paths import Neighbourhood, paths
from evenhand.strategies._queue import Queue
from evenhand.strategies._rounds import numbers
from evenhand.strategies._seeds import MOST, clustered, more

LABELLED = 2**20
"""The most neighbours that are labelled at a time."""
DEEPEST = 1000
"""The longest paths that may be wanted."""
REFILL = 1000
"""Random individuals that fill an empty queue."""
CLASSES = 256
"""The most labels that a tree tells apart."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Symbolic:
    """Negate the predicates of local decision trees one by one, and judge who meets what comes out.

    Aggarwal, Lohia, Nagar, Dey and Saha, "Black box fairness testing of machine learning models", ESEC/FSE 2019. A tree
    fitted to the model's decisions around an individual stands in for the path of symbolic execution. Each predicate of
    the path of a discriminatory individual is negated and the nearest solution taken (local search); each prefix of any
    path is negated at its end and a random solution taken (global search). ``block=1`` is the paper's schedule; more at
    a time are judged, labelled and explained together before what they lead to is put in line.

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
    """Who is taken first, seeds or what the global search found; what the local search found comes before both."""
    rounds: int | None = None
    """How often to fill the queue; None: until the budget or the space ends, and once for a single phase."""

    def __post_init__(self) -> None:
        at_least(self, 1, "clusters", "block", "rounds")
        between(self, 2, LABELLED, "neighbours")
        between(self, 1, DEEPEST, "depth")
        chance(self, "threshold")
        one_of(self, "phase", ("both", "local", "global", "seeds"))
        one_of(self, "seeds", ("data", "random"))
        one_of(self, "order", ("turns", "iterative"))
        one_of(self, "first", ("seeds", "global"))

    def search(self, problem: Problem) -> Search:
        """Pop, judge, explain, negate, solve, push."""
        space, local, seed, further = problem.space, *self._ranks
        if self.phase != "seeds":
            check_solvable(space)
        queue, near, visited, explained = Queue(problem), Neighbourhood(space, self.neighbours), Memo(), 0
        block = min(self.block, LABELLED // self.neighbours)
        for number in numbers(self.rounds if self.phase == "both" else self.rounds or 1):
            seeds = more(problem, REFILL) if number else (yield from self._seeds(problem))
            if not len(seeds):
                # Everyone in the space has been drawn.
                return
            queue.push(np.full(len(seeds), seed), seeds)
            while len(popped := queue.pop(block)):
                verdicts = yield from judge(popped)
                which = verdicts.found if self.phase == "local" else verdicts.positions
                if self.phase == "seeds" or not len(which):
                    continue
                rows, unfair = popped.rows[which], np.isin(which, verdicts.found)
                path = yield from self._paths(problem, near, rows, explained)
                negations = self._negate(problem, path, unfair)
                negations = negations[visited.fresh(negations.boxes.keys)]
                solved = Solved((yield from work(partial(negations.solve, rows, problem.stream, len(visited)))))
                problem.count("unsatisfiable_constraints", solved.unsatisfiable)
                problem.count("solver_timeouts", solved.timeouts)
                visited.add(negations.boxes.keys, solved.found)
                priority = np.where(negations.local, local, further) + negations.confidence / 2
                people = Individuals(space, rows=solved.rows[solved.found].astype(np.int32))
                queue.push(priority[solved.found], people)
                explained += len(rows)

    @property
    def _ranks(self) -> tuple[float, float, float]:
        """Who is taken first: ranks of local, seeds and global. Half a confidence, at most 1/2, is added to them."""
        return (2.0, 1.0, 0.0) if self.first == "seeds" else (2.0, 0.0, 1.0)

    def _seeds(self, problem: Problem) -> Generator[Query, Any, Individuals]:
        if self.seeds == "random" or problem.data is None:
            return problem.sample(MOST)
        return (yield from clustered(problem, self.clusters, turns=self.order == "turns"))

    def _paths(self, problem: Problem, near: Neighbourhood, rows: Rows, number: int) -> Generator[Query, Any, Floats]:
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
        labels = codes.reshape(weights.shape)

        def grown() -> Floats:
            path = paths(problem.space, rows, around, labels, weights, self.depth)
            return path[:, : int((path[:, :, 0] >= 0).any(axis=0).sum())]

        return (yield from work(grown))

    def _negate(self, problem: Problem, path: Floats, unfair: Mask) -> Negations:
        """Make the constraints of both searches, in the paper's order; what contradicts itself is left out."""
        there, confidence = path[:, :, 0] >= 0, path[:, :, 3]
        free = there & ~np.isin(path[:, :, 0], problem.space.protected_columns)
        local = free & unfair[:, None] & (self.phase != "global")
        # From the top down to the first free predicate that is not sure enough.
        doubtful = np.logical_or.accumulate(free & (confidence < self.threshold), axis=1)
        further = free & ~doubtful & (self.phase != "local")
        owner, kind, level = np.nonzero(np.stack([local, further], axis=1))
        above = free[owner] & (np.arange(path.shape[1]) <= level[:, None])
        kept = np.where(kind[:, None] == 0, there[owner], above)
        negations = Negations.of(problem.space, path, owner, level, kept, kind == 0)
        empty = negations.boxes.empty
        problem.count("unsatisfiable_constraints", empty.sum())
        return negations[~empty]
