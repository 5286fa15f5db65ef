"""Boundary: bisects between people with different decisions, and judges where the decision changes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand._validate import check_settings
from evenhand.search import Problem, Query, Search, judge, label
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.realism import Distance
from evenhand.strategies.archive import has_data, random_starts

Numbers = npt.NDArray[np.int64]
Labels = npt.NDArray[Any]
MOST = 16_384
"""The maximum number of people that paths connect."""
ROUNDS = 4
"""Number of paths that start at each person before more people are queried."""
DONORS = 2048
"""The maximum number of people to find the nearest in."""
FIRST = 16
"""Paths of the first block."""
NEW = 4
"""At least one in this many individuals at the boundary must be new; otherwise random individuals are judged next."""


@dataclass(frozen=True)
class Boundary:
    """Bisect between a person and a similar one with the other decision, and judge both sides of the boundary.

    If a protected attribute has little effect, all individuals whose decision depends on it are close to the decision
    boundary. A path from a person to one of the nearest with the other decision changes the free attributes one by one,
    in random order. It is bisected with labels, and then the values of the last step, until two neighbours with
    different decisions are left. The people are those in the data, or random individuals without data.

    >>> Boundary(people=200).donors
    8
    """

    people: int = 512
    """Number of people to query first; doubled each time their paths are used up."""
    donors: int = 8
    """A path ends at one of this many nearest people with the other decision."""
    block: int = 256
    """Maximum number of paths that are bisected together; fewer at first."""

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Bisect and judge, block by block; add people, and random individuals, when nothing new is found."""
        crowd, proposed = Crowd(problem, self.donors), Memo()
        while True:
            if crowd.used_up:
                yield from crowd.grow(self.people)
            ends = yield from self._bisect(problem, crowd)
            new = proposed.fresh(ends.keys)
            proposed.add(ends.keys[new], np.zeros(len(new), dtype=bool))
            yield from judge(ends[new])
            if NEW * len(new) <= len(ends):
                starts = random_starts(problem, max(FIRST, len(ends)))
                if problem.exhausted and not len(starts):
                    # Every individual of the space has been drawn.
                    return
                yield from judge(starts)

    def _bisect(self, problem: Problem, crowd: Crowd) -> Generator[Query, Any, Individuals]:
        """Return the two sides of the boundary on each of some paths."""
        space = problem.space
        walkers, start, end, decision = crowd.paths(min(self.block, max(FIRST, crowd.given)))
        # With the protected values of the start, the end may have the same decision.
        other = yield from label(Individuals(space, rows=end))
        apart = np.flatnonzero(other != decision)
        start, end, decision, walkers = start[apart], end[apart], decision[apart], walkers[apart]
        start, end = yield from self._attribute(problem, start, end, decision, walkers)
        start, end = yield from self._value(problem, start, end, decision)
        both = np.concatenate([start, end])
        return Individuals(space, rows=both[space.valid(both)] if space.constraints else both)

    def _attribute(
        self, problem: Problem, start: Rows, end: Rows, decision: Labels, walkers: Numbers
    ) -> Generator[Query, Any, tuple[Rows, Rows]]:
        """Find the attribute whose change flips the decision, in an order drawn for each path."""
        free = np.array(problem.space.free_columns)
        draws = np.stack([problem.stream.unit("order", walkers, int(j)) for j in free], axis=1)
        # Attributes that are equal come last.
        turn = np.argsort(np.argsort(draws + (start == end)[:, free], axis=1), axis=1)
        low = np.zeros(len(start), dtype=np.int64)
        high = (start != end)[:, free].sum(axis=1)

        def at(steps: Numbers) -> Rows:
            out = start.copy()
            out[:, free] = np.where(turn < steps[:, None], end[:, free], start[:, free])
            return out

        while len(open_ := np.flatnonzero(high - low > 1)):
            middle = (low + high) // 2
            found = yield from label(Individuals(problem.space, rows=at(middle)[open_]))
            same = found == decision[open_]
            low[open_[same]], high[open_[~same]] = middle[open_[same]], middle[open_[~same]]
        return at(low), at(high)

    def _value(
        self, problem: Problem, start: Rows, end: Rows, decision: Labels
    ) -> Generator[Query, Any, tuple[Rows, Rows]]:
        """Move the two ends together along the attribute in which they differ, if it is ordered."""
        space, here = problem.space, np.arange(len(start))
        column = (start != end).argmax(axis=1)
        start, end = start.copy(), end.copy()
        while True:
            low, high, present = start[here, column], end[here, column], space.present[column]
            inside = space.ordered[column] & (low < present) & (high < present)
            open_ = np.flatnonzero(inside & (np.abs(low - high) > 1))
            if not len(open_):
                return start, end
            middle = start[open_].copy()
            middle[np.arange(len(open_)), column[open_]] = (low[open_] + high[open_]) // 2
            found = yield from label(Individuals(space, rows=middle))
            same = found == decision[open_]
            start[open_[same]], end[open_[~same]] = middle[same], middle[~same]


class Crowd:
    """People with their decisions, and the paths between them."""

    def __init__(self, problem: Problem, donors: int) -> None:
        self._problem, self._donors, self._distance = problem, donors, Distance(problem.space)
        self._rows: Rows = np.empty((0, len(problem.space.names)), dtype=np.int32)
        self._labels: Labels = np.zeros(0)
        self.given = self._begin = self._drawn = 0

    @property
    def used_up(self) -> bool:
        """Whether more people are needed: each has started several paths, or there is no boundary between them."""
        return self.given - self._begin >= ROUNDS * len(self._rows) or len(np.unique(self._labels)) < 2

    def grow(self, first: int) -> Generator[Query, Any, None]:
        """Query as many people again; if there are no more, paths start at the same people again."""
        self._begin = self.given
        more = self._people(min(max(first, len(self._rows)), MOST - len(self._rows)))
        if len(more):
            answers = yield from label(more)
            self._labels = np.concatenate([self._labels, answers]) if len(self._rows) else answers
            self._rows = np.concatenate([self._rows, more.rows])

    def paths(self, n: int) -> tuple[Numbers, Rows, Rows, Labels]:
        """Return the numbers of the next paths, their starts and ends, and the decisions at the starts."""
        numbers = self.given + np.arange(n if len(np.unique(self._labels)) > 1 else 0)
        self.given += len(numbers)
        people = numbers % max(len(self._rows), 1)
        start, decision = self._rows[people], self._labels[people]
        end, free = start.copy(), self._problem.space.free_columns
        for one in np.unique(decision):
            some, others = np.flatnonzero(decision == one), np.flatnonzero(self._labels != one)[:DONORS]
            nearest = self._distance.nearest(
                self._unprotected(start[some]), self._unprotected(self._rows[others]), self._donors
            )
            pick = self._problem.stream.below(nearest.shape[1], "donor", numbers[some], 0)
            # The protected attributes stay.
            end[np.ix_(some, free)] = self._rows[np.ix_(others[nearest[np.arange(len(some)), pick]], free)]
        return numbers, start, end, decision

    def _unprotected(self, rows: Rows) -> Rows:
        """Make rows equal in the protected attributes, which must not count in distances."""
        out = rows.copy()
        out[:, self._problem.space.protected_columns] = 0
        return out

    def _people(self, n: int) -> Individuals:
        problem = self._problem
        if not has_data(problem):
            drawn, self._drawn = problem.space.sampler.draw(problem.stream, self._drawn, max(n, 0), repeats=True)
            return drawn
        count = len(problem.data)
        at = np.arange(self._drawn, min(self._drawn + max(n, 0), count))
        self._drawn += len(at)
        people: Individuals = problem.data[problem.stream.shuffled(at, count, "crowd")]
        return people
