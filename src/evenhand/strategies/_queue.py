"""A priority queue of individuals, in blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand.search import Problem
from evenhand.spaces.individuals import Individuals

Sorted = tuple[npt.NDArray[np.float32], Individuals]


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
        self._runs: list[Sorted] = []
        self._popped = Memo()

    def __len__(self) -> int:
        return sum(len(run) for _, run in self._runs)

    def push(self, priority: npt.ArrayLike, individuals: Individuals) -> None:
        """Put individuals in line; priorities that differ by less than a millionth may count as equal."""
        if len(individuals):
            kept = Individuals.from_stored(self._space, individuals.stored)
            run = _sorted([(np.asarray(priority, dtype=np.float32), kept)])
            while self._runs and len(self._runs[-1][1]) < 2 * len(run[1]):
                run = _sorted([self._runs.pop(), run])
            self._runs.append(run)

    def pop(self, most: int) -> Individuals:
        """Take up to ``most`` individuals of the highest rank out; repeats are skipped and counted.

        A rank is the whole part of a priority. Nobody comes out only when the queue is empty.
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
        # Wide integers again: what they are taken for is arithmetic.
        rows = Individuals.join([run for _, run in heads])[first].rows
        return Individuals(self._space, rows=rows.astype(np.int32, copy=False))


def _sorted(runs: list[Sorted]) -> Sorted:
    """Join runs, the older first; the sort is stable, so that equals stay in line."""
    priority = np.concatenate([priority for priority, _ in runs])
    order = np.argsort(-priority, kind="stable")
    return priority[order], Individuals.join([run for _, run in runs])[order]
