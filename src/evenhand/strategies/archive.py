"""Archive: keeps findings by region, and makes new individuals from all regions equally."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_settings
from evenhand.errors import SpaceError
from evenhand.search import Problem, Search, judge, random_seeds
from evenhand.spaces.individuals import Individuals, Rows, other_value

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.int64]
DEPTH = 12
"""Maximum number of cuts from the root to a leaf, so there are up to 4,096 regions."""
SAMPLE = 8192
"""Number of individuals of the data, and of uniform ones, used to place the cuts."""
LEAST = 0.25
"""Minimum share of the sample on the smaller side of a cut."""
FEW = 8
"""With findings in fewer regions, every other block consists of starts."""
NEW = 4
"""At least one in this many children must be new; otherwise the next block consists of starts."""
DONORS = 4096
"""Number of uniform individuals whose values are used if there is no data."""


class Partition:
    """Divides a space into up to 4,096 regions with about equal numbers of real and uniform individuals together.

    Each cut halves a region at the median of a free attribute, drawn at random among those that divide it evenly;
    nominal values are put in a random order first. Counterparts are always in the same region, unless linked attributes
    differ.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 999), Boolean("member")], protected="member")
    >>> regions = Partition(space).of(np.array([[3, 0], [3, 1], [900, 0]], dtype=np.int32))
    >>> bool(regions[0] == regions[1] != regions[2])
    True
    """

    def __init__(self, space: Space, data: Individuals | None = None, seed: int = 0, depth: int = DEPTH) -> None:
        stream = Stream(seed)
        self.depth, self.count = depth, 2**depth
        self._orders = {
            j: stream.shuffled(np.arange(space.sizes[j]), int(space.sizes[j]), f"order{j}")
            for j in space.free_columns
            if not space.ordered[j]
        }
        # Nodes are numbered as in a binary heap: the children of i are 2 i and 2 i + 1.
        self._column = np.full(self.count, space.free_columns[0])
        self._cut = np.full(self.count, np.iinfo(np.int64).max)
        self._grow(self._ranked(_sample(space, data, stream)), np.array(space.free_columns), stream)

    def of(self, rows: Rows) -> Numbers:
        """Return the number of each individual's region."""
        ranked, here = self._ranked(rows), np.arange(len(rows))
        node = np.ones(len(rows), dtype=np.int64)
        for _ in range(self.depth):
            node = 2 * node + (ranked[here, self._column[node]] >= self._cut[node])
        return np.asarray(node - self.count)

    def _ranked(self, rows: Rows) -> Rows:
        ranked = rows.copy()
        for j, order in self._orders.items():
            ranked[:, j] = order[rows[:, j]]
        return ranked

    def _grow(self, sample: Rows, free: Numbers, stream: Stream) -> None:
        """Place the cuts, level by level; a node that no attribute divides evenly is not cut."""
        here, node = np.arange(len(sample)), np.ones(len(sample), dtype=np.int64)
        for level in range(self.depth):
            first, nodes = 2**level, np.arange(2**level, 2 ** (level + 1))
            tries = np.argsort([stream.bits("cut", nodes, int(j)) for j in free], axis=0)
            whole = np.ones(len(nodes), dtype=bool)
            for one in tries:
                among = here[whole[node - first]]
                if not len(among):
                    break
                at = node[among] - first
                column = free[one]
                value = sample[among, column[at]].astype(np.int64)
                cut, share = _halve(at, value, len(nodes))
                done = whole & (np.minimum(share, 1 - share) >= LEAST)
                self._column[nodes[done]], self._cut[nodes[done]] = column[done], cut[done]
                whole &= ~done
            node = 2 * node + (sample[here, self._column[node]] >= self._cut[node])


def _halve(group: Numbers, value: Numbers, groups: int) -> tuple[Numbers, npt.NDArray[np.float64]]:
    """Return for each group the cut that divides its values most evenly, and the share that lies below it."""
    count = np.bincount(group, minlength=groups)
    order = np.lexsort((value, group))
    start = np.cumsum(count) - count
    median = np.zeros(groups, dtype=np.int64)
    some = count > 0
    median[some] = value[order[(start + count // 2)[some]]]
    shares = [np.bincount(group, value < cut[group], groups) / np.maximum(count, 1) for cut in (median, median + 1)]
    below = np.abs(shares[0] - 0.5) <= np.abs(shares[1] - 0.5)
    return np.where(below, median, median + 1), np.where(below, *shares)


def _sample(space: Space, data: Individuals | None, stream: Stream) -> Rows:
    """Return uniform individuals, and as many of the data."""
    people = (
        [] if data is None or not len(data) else [data[stream.below(len(data), "people", np.arange(SAMPLE), 0)].rows]
    )
    try:
        return np.concatenate([space.sampler.draw(stream, 0, SAMPLE, repeats=True)[0].rows, *people])
    except SpaceError:
        if not people:
            raise
        # The constraints are so tight that only data rows meet them.
        return people[0]


@dataclass(frozen=True)
class Archive:
    """Keep some findings of every region of the space, and change one or two attributes of some of them.

    After Mouret and Clune, "Illuminating search spaces by mapping elites", arXiv 2015. Parents are drawn uniformly from
    the regions that have a finding, not from the findings, so that the search spreads instead of staying where it
    started. The regions are the leaves of a fixed random tree. A changed attribute alternately takes the value of a
    real person, or moves by a random distance, usually a short one. The search starts from people in the data with up
    to two attributes changed, and from random individuals. It returns to these when its children are hardly ever new.

    >>> Archive(per_region=4).block
    1024
    """

    block: int = 1024
    """Individuals judged at a time."""
    per_region: int = 16
    """Maximum number of findings kept per region."""

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Judge starts, then children of the findings."""
        pool, donors = Pool(problem, self.per_region), donors_of(problem)
        new = True
        for number in itertools.count():
            if new and (pool.regions >= FEW or (pool.regions and number % 2)):
                children = children_of(problem, pool.draw(problem.stream, self.block, number), number, donors)
                verdicts = yield from judge(children)
                pool.add(children[verdicts.found].rows)
                new = NEW * len(verdicts.positions) >= len(children)
                continue
            starts = random_starts(problem, self.block)
            if problem.exhausted and not len(starts):
                # Every individual of the space has been drawn.
                return
            if has_data(problem):
                starts = Individuals.join([nearby(problem, number * self.block, self.block, (0, 1, 2)), starts])
            verdicts = yield from judge(starts)
            pool.add(starts[verdicts.found].rows)
            new = True


class Pool:
    """Findings by region of the space, up to a number per region.

    Its regions depend on the run's seed, so that the search does not optimise the regions of ``Partition(space,
    data)``, which are used to measure it.
    """

    def __init__(self, problem: Problem, per_region: int = 16, partition: Partition | None = None) -> None:
        seed = int(problem.stream.bits("regions", 0, 0)[0] >> np.uint64(1))
        self.partition = partition or Partition(problem.space, problem.data, seed)
        self._rows = np.empty((0, len(problem.space.names)), dtype=np.int32)
        self._kept = 0
        self._at = np.zeros((self.partition.count, per_region), dtype=np.int64)
        """The positions of each region's findings."""
        self._counts = np.zeros(self.partition.count, dtype=np.int64)
        self._seen = np.zeros(0, dtype=np.int64)

    @property
    def regions(self) -> int:
        """Number of regions with a finding."""
        return len(self._seen)

    def add(self, rows: Rows, regions: Numbers | None = None) -> int:
        """Keep findings while there is room; return the number of regions in which these are the first."""
        regions = self.partition.of(rows) if regions is None else regions
        order = np.argsort(regions, kind="stable")
        ordered = regions[order]
        place = self._counts[ordered] + np.arange(len(order)) - np.searchsorted(ordered, ordered)
        kept = place < self._at.shape[1]
        order, ordered, place = order[kept], ordered[kept], place[kept]
        new = ordered[place == 0]
        self._at[ordered, place] = self._kept + np.arange(len(order))
        self._counts += np.bincount(ordered, minlength=len(self._counts))
        self._seen = np.concatenate([self._seen, new])
        if self._kept + len(order) > len(self._rows):
            more = np.empty((max(len(self._rows), 1024) + len(order), self._rows.shape[1]), dtype=np.int32)
            self._rows = np.concatenate([self._rows, more])
        self._rows[self._kept : self._kept + len(order)] = rows[order]
        self._kept += len(order)
        return len(new)

    def draw(self, stream: Stream, n: int, number: int) -> Rows:
        """Return findings: a random region of those that have one, then one of its findings."""
        walkers = np.arange(n)
        region = self._seen[stream.below(len(self._seen), "region", walkers, number)]
        place = (stream.unit("place", walkers, number) * self._counts[region]).astype(np.int64)
        return self._rows[self._at[region, place]]


def has_data(problem: Problem) -> bool:
    """Whether there are people to start from."""
    return problem.data is not None and len(problem.data) > 0


def random_starts(problem: Problem, n: int) -> Individuals:
    """Return random individuals; none if all were drawn, or if only data rows meet the constraints."""
    return random_seeds(problem, n) if has_data(problem) else problem.sample(n)


def donors_of(problem: Problem) -> Rows:
    """Return the individuals whose values are used: those of the data, or uniform ones."""
    if has_data(problem):
        rows: Rows = problem.data.rows
        return rows
    try:
        return problem.space.sampler.draw(problem.stream, 0, DONORS, repeats=True)[0].rows
    except SpaceError:
        return np.zeros((1, len(problem.space.names)), dtype=np.int32)


def children_of(problem: Problem, parents: Rows, number: int, donors: Rows) -> Individuals:
    """Change one or two attributes of each; the way alternates with the number."""
    counts = 1 + problem.stream.below(2, "changes", np.arange(len(parents)), number)
    rows = vary(problem, parents, counts, number, donors if number % 2 else None)
    return _valid(problem, rows)


def nearby(problem: Problem, start: int, n: int, changes: tuple[int, ...]) -> Individuals:
    """Return people in the data with some attributes changed to other people's values, from position ``start`` on.

    All come in random order with the first number of changes, then all with the second, and so on.
    """
    rows = problem.data.rows
    at = np.arange(start, start + n)
    which = problem.stream.shuffled(at % len(rows), len(rows), "nearby")
    counts = np.array(changes)[at // len(rows) % len(changes)]
    return _valid(problem, vary(problem, rows[which], counts, start, rows, "near"))


def vary(problem: Problem, rows: Rows, counts: Numbers, number: int, donors: Rows | None, phase: str = "vary") -> Rows:
    """Change a number of free attributes of each row: to a random donor's value or, without donors, by a random step.

    An attribute may be drawn twice. Steps of ordered attributes follow a Cauchy distribution, up to a quarter of the
    range; nominal ones take any other value.
    """
    space, stream, free = problem.space, problem.stream, np.array(problem.space.free_columns)
    out, walkers = rows.copy(), np.arange(len(rows))
    for change in range(int(counts.max(initial=0))):
        some = np.flatnonzero(counts > change)
        column = free[stream.below(len(free), f"{phase}-c{change}", walkers[some], number)]
        bits = stream.bits(f"{phase}-v{change}", walkers[some], number)
        if donors is not None:
            out[some, column] = donors[(bits % np.uint64(len(donors))).astype(np.int64), column]
            continue
        code, present = out[some, column], space.present[column]
        unit = stream.unit(f"{phase}-s{change}", walkers[some], number)
        size = np.clip(np.rint(np.abs(np.tan(np.pi * (unit - 0.5)))), 1, np.maximum(present // 4, 1)).astype(np.int64)
        moved = np.clip(code + np.where(unit < 0.5, -size, size), 0, present - 1)
        moved = np.where(code < present, moved, code)
        out[some, column] = np.where(space.ordered[column], moved, other_value(code, space.sizes[column], bits))
    return out


def _valid(problem: Problem, rows: Rows) -> Individuals:
    """Remove individuals that break the constraints."""
    return Individuals(problem.space, rows=rows[problem.space.valid(rows)] if problem.space.constraints else rows)
