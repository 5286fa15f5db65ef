"""Symbolic generation: explain a decision by a path, negate parts of it, and solve for who lies beyond."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand._rng import Stream
from evenhand.errors import KOSEI, THRESHOLD, StrategyError
from evenhand.search import Problem, Query, Search, judge, label, work
from evenhand.spaces.attributes import Mask
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.solve import Solved, check_solvable, solve_any, solve_nearest
from evenhand.spaces.tabular import Space
from evenhand.spaces.ties import Boxes, ties
from evenhand.strategies._checks import at_least, between, chance, one_of
from evenhand.strategies._seeds import MOST, clustered, more, numbers

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


SPREAD = 0.25
"""Standard deviation of the draws around an ordered value, as a share of the attribute's range."""
KERNEL = 0.75
"""Width of the distance kernel, times the square root of the number of attributes."""
MANY = 1024
"""Attributes with more values are binned by the ranks of those that occur."""
TINY = 1e-12
"""A side with a smaller share of the weight is empty."""
TIE = 1e-12
"""Scores that differ by a smaller share are equal."""
UP, DOWN, IS, IS_NOT = range(4)
"""Kinds of predicates: above a code, at most a code, equal to one, different from one."""


@dataclass(frozen=True)
class Neighbourhood:
    """Draws individuals around others, attribute by attribute, and weighs them by their distance."""

    space: Space
    size: int

    @cached_property
    def _offsets(self) -> dict[int, npt.NDArray[np.int64]]:
        """Rounded normal draws for each ordered attribute, as a table over 16 random bits."""
        from scipy.special import ndtri

        normal = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
        return {
            j: np.rint(SPREAD * max(1, int(self.space.present[j]) - 1) * normal).astype(np.int64)
            for j in range(len(self.space.names))
            if self.space.ordered[j]
        }

    def around(self, rows: Rows, stream: Stream, pops: npt.NDArray[np.int64]) -> Rows:
        """Return (rows, size, attributes) neighbours; the first of each is the individual itself."""
        space, size = self.space, self.size
        out = np.repeat(rows[:, None, :], size, axis=1)
        walker = pops[:, None] * size + np.arange(size)
        bits = np.zeros(walker.size, dtype=np.uint64)
        for j in range(len(space.names)):
            if j % 4 == 0:
                # One draw of 64 bits serves four attributes.
                bits = stream.bits("near", walker.ravel(), j // 4)
            part = ((bits >> np.uint64(16 * (j % 4))) & np.uint64(0xFFFF)).astype(np.int64).reshape(walker.shape)
            own = rows[:, j, None]
            if space.ordered[j]:
                present = int(space.present[j])
                moved = np.minimum(np.maximum(own + self._offsets[j][part], 0), present - 1)
                out[:, :, j] = np.where(own < present, moved, own)
            elif space.sizes[j] > 1:
                bound = stream.below(int(space.sizes[j]) - 1, f"other{j}", walker.ravel(), 0).reshape(walker.shape)
                other = (own + 1 + bound) % int(space.sizes[j])
                out[:, :, j] = np.where(part & 1, other, own)
        out[:, 0] = rows
        return out

    def sample(self, rows: Rows, stream: Stream, pops: npt.NDArray[np.int64]) -> tuple[Rows, npt.NDArray[np.float64]]:
        """Return valid neighbours and their weights.

        Who breaks a constraint is given a drawn valid combination of the attributes that it ties together; where there
        are too many to list, the individual's own.
        """
        around = self.around(rows, stream, pops)
        flat = around.reshape(-1, around.shape[2])
        for tie in ties(self.space):
            columns = np.array(tie.columns)
            broken = np.flatnonzero(~tie.valid(flat[:, columns]))
            walker, column = pops[broken // self.size] * self.size + broken % self.size, int(columns[0])
            if tie.table is None:
                mended = rows[broken // self.size][:, columns]
            else:
                mended = tie.table[stream.below(len(tie.table), f"tied{column}", walker, 0)]
            flat[broken[:, None], columns] = mended
        return around, self.weights(rows, around)

    def weights(self, rows: Rows, around: Rows) -> npt.NDArray[np.float64]:
        """Weigh neighbours by an exponential kernel of their distance; a nominal change counts as one spread."""
        space = self.space
        total = np.zeros(around.shape[:2])
        for j in range(len(space.names)):
            change = around[:, :, j] - rows[:, j, None]
            if space.ordered[j]:
                scale = SPREAD * max(1, int(space.present[j]) - 1)
                total += np.square(change / scale)
            else:
                total += change != 0
        width = KERNEL * np.sqrt(len(space.names))
        weights: npt.NDArray[np.float64] = np.exp(-total / width**2)
        return weights


def paths(
    space: Space, rows: Rows, around: Rows, labels: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], depth: int
) -> npt.NDArray[np.float64]:
    """Grow a decision tree on each neighbourhood, along the individual's path alone; return its predicates, top first.

    The splits are those of CART with Gini impurity, so the path is the one of the whole tree, but what lies beside the
    path is never grown, and all neighbourhoods grow together on histograms of their codes. Ordered attributes split at
    a code, nominal ones at one value against the others. Of equally good splits the first attribute's and lowest code's
    is taken.

    Returns
    -------
    array
        (rows, depth, 4): attribute (-1: there is no more), kind, code, and confidence, the share of the neighbourhood's
        weight at the predicate's node that has the majority label there.
    """
    out = np.full((len(rows), depth, 4), -1.0)
    classes = int(labels.max()) + 1 if labels.size else 1
    columns = [_Column(space, j, around[:, :, j]) for j in range(len(space.names))]
    inside = np.ones(labels.shape, dtype=bool)
    growing = np.arange(len(rows))
    for level in range(depth):
        growing = _impure(inside, labels, growing)
        if not len(growing):
            break
        which, sample = np.nonzero(inside[growing])
        place = growing[which] * labels.shape[1] + sample
        label, weight = labels.ravel()[place], weights.ravel()[place]
        total: npt.NDArray[np.float64] = np.asarray(
            np.bincount(which * classes + label, weight, len(growing) * classes), dtype=np.float64
        ).reshape(-1, classes)
        best = _Best(len(growing))
        for j, column in enumerate(columns):
            best.consider(j, *column.splits(which, place, label, weight, total))
        found = np.flatnonzero(best.attribute >= 0)
        growing, total = growing[found], total[found]
        for i, pop in enumerate(growing.tolist()):
            j, bin_ = int(best.attribute[found[i]]), int(best.bin[found[i]])
            kind, code, side = columns[j].predicate(pop, rows[pop, j], bin_, inside[pop])
            out[pop, level] = j, kind, code, total[i].max() / total[i].sum()
            inside[pop] &= side
    return out


def _impure(
    inside: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64], growing: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Keep those that still have two labels among what is inside."""
    low = np.where(inside[growing], labels[growing], np.iinfo(np.int64).max).min(axis=1)
    high = np.where(inside[growing], labels[growing], -1).max(axis=1)
    impure: npt.NDArray[np.int64] = growing[low < high]
    return impure


class _Best:
    """The best split so far of each neighbourhood."""

    def __init__(self, count: int) -> None:
        self.score = np.full(count, -np.inf)
        self.attribute = np.full(count, -1)
        self.bin = np.full(count, -1)

    def consider(self, attribute: int, score: npt.NDArray[np.float64], bin_: npt.NDArray[np.int64]) -> None:
        """Take a split where it is better; a rounding error is not better."""
        better = score > self.score + TIE * np.abs(np.where(np.isfinite(self.score), self.score, 0))
        self.score[better], self.attribute[better], self.bin[better] = score[better], attribute, bin_[better]


class _Column:
    """One attribute of all neighbourhoods, in bins: its codes, or of very many the ranks of those around each one."""

    def __init__(self, space: Space, j: int, codes: npt.NDArray[np.int32]) -> None:
        self.ordered, self.codes = bool(space.ordered[j]), np.ascontiguousarray(codes)
        self.size = int(space.sizes[j])
        self.bins: npt.NDArray[Any] = self.codes.ravel()
        self.values: npt.NDArray[Any] | None = None
        if self.size > MANY:
            ranks, self.values = _ranked(self.codes)
            self.size, self.bins = self.values.shape[1], ranks.ravel()

    def splits(
        self,
        which: npt.NDArray[np.int64],
        place: npt.NDArray[np.int64],
        label: npt.NDArray[np.int64],
        weight: npt.NDArray[np.float64],
        total: npt.NDArray[np.float64],
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return the score and the bin of each neighbourhood's best split; minus infinity where there is none.

        ``which`` and ``place`` say of each neighbour whose it is, and where it stands among all.
        """
        count, classes = total.shape
        size = self.size
        # Classes first: sums over a short last axis are slow.
        cell = (label * count + which) * size + self.bins[place]
        left = np.bincount(cell, weight, classes * count * size).reshape(classes, count, size)
        if self.ordered:
            np.cumsum(left, axis=2, out=left)
        right = total.T[:, :, None] - left
        here, there = left.sum(axis=0), right.sum(axis=0)
        whole = total.sum(axis=1)[:, None]
        empty = (here <= TINY * whole) | (there <= TINY * whole)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.square(left).sum(axis=0) / here + np.square(right).sum(axis=0) / there
        score[empty] = -np.inf
        # The first of those that only a rounding error tells apart.
        highest = score.max(axis=1)
        with np.errstate(invalid="ignore"):
            best = (score >= (highest - TIE * np.abs(highest))[:, None]).argmax(axis=1)
        return highest, best

    def predicate(
        self, pop: int, own: int, bin_: int, inside: npt.NDArray[np.bool_]
    ) -> tuple[int, int, npt.NDArray[np.bool_]]:
        """Say on which side of a split the individual is: kind, code, and who else is there."""
        code = bin_ if self.values is None else int(self.values[pop, bin_])
        if not self.ordered:
            same = self.codes[pop] == code
            return (IS, code, same) if own == code else (IS_NOT, code, ~same)
        # Half-way to the next code that occurs, as trees do.
        above = int(self.codes[pop][inside & (self.codes[pop] > code)].min())
        code = (code + above) // 2
        below = self.codes[pop] <= code
        return (DOWN, code, below) if own <= code else (UP, code, ~below)


def _ranked(codes: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the rank of each code among the different ones of its row, and the code of each rank.

    >>> ranks, values = _ranked(np.array([[7, 3, 7], [5, 4, 6]], dtype=np.int32))
    >>> ranks.tolist(), values.tolist()
    ([[1, 0, 1], [1, 0, 2]], [[3, 7, 0], [4, 5, 6]])
    """
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    rank = np.zeros(codes.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=rank[:, 1:])
    values = np.zeros((len(codes), int(rank.max(initial=0)) + 1), dtype=codes.dtype)
    np.put_along_axis(values, rank, ordered, axis=1)
    ranks = np.empty_like(rank)
    np.put_along_axis(ranks, order, rank, axis=1)
    return ranks, values


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Negations:
    """Constraints, and whose path each was made of."""

    boxes: Boxes
    owner: Numbers
    """The place of the individual in its block."""
    local: Mask
    """Whether the local search made it, which wants the nearest solution; the global one wants any."""
    confidence: Floats
    """The mean confidence of its predicates."""

    @classmethod
    def of(cls, space: Space, paths: Floats, owner: Numbers, level: Numbers, kept: Mask, local: Mask) -> Negations:
        """Make constraints of paths.

        Parameters
        ----------
        space
            The space that the paths speak of.
        paths
            What ``_paths.paths`` returns.
        owner, level
            Of each constraint: the path, and the place of the predicate that is negated.
        kept
            Of each constraint: which predicates of the path it has, the negated one among them.
        local
            Of each constraint: whether the local search made it.
        """
        which, at = np.nonzero(kept)
        attribute, kind, code, _ = paths[owner[which], at].T
        truth = np.isin(kind, [DOWN, IS]) ^ (at == level[which])
        boxes = Boxes.all(space, len(owner)).restrict(which, attribute, code, truth)
        confidence = (paths[owner, :, 3] * kept).sum(axis=1) / kept.sum(axis=1)
        return cls(boxes, owner, local, confidence)

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
