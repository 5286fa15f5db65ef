"""Symbolic generation: explain a decision by a path, negate its predicates, and solve for individuals beyond them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand._rng import Stream
from evenhand._validate import check_settings
from evenhand.errors import KOSEI, THRESHOLD, StrategyError
from evenhand.search import (
    MOST,
    Problem,
    Query,
    Search,
    cluster_seeds,
    count_rounds,
    judge,
    label,
    random_seeds,
    work,
)
from evenhand.spaces.frames import pd
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.solve import Boxes, Solved, check_solvable, solve_any, solve_nearest, ties
from evenhand.spaces.tabular import Space

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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
LABELLED = 2**20
"""Maximum number of neighbours that are labelled at a time."""
DEEPEST = 1000
"""Maximum value of ``depth``."""
REFILL = 1000
"""Number of random individuals that fill an empty queue."""
CLASSES = 256
"""Maximum number of labels that a tree distinguishes."""
UP, DOWN, IS, IS_NOT = range(4)
"""Kinds of predicates: above a code, at most a code, equal to one, different from one."""


@dataclass(frozen=True)
class Neighbourhood:
    """Draws individuals around others, attribute by attribute, and weights them by their distance."""

    space: Space
    size: int

    def sample(self, rows: Rows, stream: Stream, pops: Numbers) -> tuple[Rows, Floats]:
        """Return (rows, size, attributes) valid neighbours and their (rows, size) weights; the first is the individual.

        A neighbour that breaks a constraint gets a random valid combination of the attributes that it ties together;
        where there are too many to list, the individual's own.
        """
        around = self.draw(rows, stream, pops)
        flat = around.reshape(-1, around.shape[2])
        for tie in ties(self.space):
            columns = np.array(tie.columns)
            broken = np.flatnonzero(~tie.valid(flat[:, columns]))
            walker = pops[broken // self.size] * self.size + broken % self.size
            if tie.table is None:
                repaired = rows[broken // self.size][:, columns]
            else:
                repaired = tie.table[stream.below(len(tie.table), f"tied{int(columns[0])}", walker, 0)]
            flat[broken[:, None], columns] = repaired
        return around, self.weights(rows, around)

    def weights(self, rows: Rows, around: Rows) -> Floats:
        """Weight neighbours by an exponential kernel of their distance; a nominal change counts as one spread."""
        total = np.zeros(around.shape[:2])
        for j in range(len(self.space.names)):
            change = around[:, :, j] - rows[:, j, None]
            if self.space.ordered[j]:
                total += np.square(change / (SPREAD * max(1, int(self.space.present[j]) - 1)))
            else:
                total += change != 0
        weights: Floats = np.exp(-total / (KERNEL * np.sqrt(len(self.space.names))) ** 2)
        return weights

    def draw(self, rows: Rows, stream: Stream, pops: Numbers) -> Rows:
        """Return neighbours that may break constraints; draws depend on the number of the pop alone."""
        space = self.space
        out = np.repeat(rows[:, None, :], self.size, axis=1)
        walker = (pops[:, None] * self.size + np.arange(self.size)).ravel()
        bits = np.zeros(walker.size, dtype=np.uint64)
        for j in range(len(space.names)):
            if j % 4 == 0:
                # One draw of 64 bits serves four attributes.
                bits = stream.bits("near", walker, j // 4)
            part = ((bits >> np.uint64(16 * (j % 4))) & np.uint64(0xFFFF)).astype(np.int64).reshape(out.shape[:2])
            own = rows[:, j, None]
            if space.ordered[j]:
                present = int(space.present[j])
                moved = np.minimum(np.maximum(own + self._offsets[j][part], 0), present - 1)
                out[:, :, j] = np.where(own < present, moved, own)
            elif space.sizes[j] > 1:
                step = 1 + stream.below(int(space.sizes[j]) - 1, f"other{j}", walker, 0).reshape(part.shape)
                out[:, :, j] = np.where(part & 1, (own + step) % int(space.sizes[j]), own)
        out[:, 0] = rows
        return out

    @cached_property
    def _offsets(self) -> dict[int, Numbers]:
        """Rounded normal draws for each ordered attribute, as a table over 16 random bits."""
        from scipy.special import ndtri

        normal = SPREAD * ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
        return {
            j: np.rint(max(1, int(self.space.present[j]) - 1) * normal).astype(np.int64)
            for j in np.flatnonzero(self.space.ordered).tolist()
        }


def paths(space: Space, rows: Rows, around: Rows, labels: Numbers, weights: Floats, depth: int) -> Floats:
    """Grow a decision tree on each neighbourhood, along the individual's path alone; return its predicates, top first.

    The splits are those of CART with Gini impurity, so the path is the one of the whole tree, but nothing beside the
    path is grown, and all neighbourhoods grow together on histograms of their codes. Ordered attributes split at a
    code, nominal ones at one value against the others. Of equally good splits the first attribute's and lowest code's
    is taken.

    Returns
    -------
    array
        (rows, depth, 4): attribute (-1: the path has ended), kind, code, and confidence, the share of the
        neighbourhood's weight at the predicate's node that has the majority label there.
    """
    out = np.full((len(rows), depth, 4), -1.0)
    classes = int(labels.max()) + 1 if labels.size else 1
    columns = [_Column(space, j, around[:, :, j]) for j in range(len(space.names))]
    inside = np.ones(labels.shape, dtype=bool)
    growing = np.arange(len(rows))
    for level in range(depth):
        here, there = labels[growing], inside[growing]
        lowest = np.where(there, here, np.iinfo(np.int64).max).min(axis=1)
        growing = growing[lowest < np.where(there, here, -1).max(axis=1)]
        if not len(growing):
            break
        which, sample = np.nonzero(inside[growing])
        place = growing[which] * labels.shape[1] + sample
        label, weight = labels.ravel()[place], weights.ravel()[place]
        sums = np.bincount(which * classes + label, weight, len(growing) * classes)
        total: Floats = sums.reshape(-1, classes).astype(np.float64, copy=False)
        splits = [column.best_splits(which, place, label, weight, total) for column in columns]
        scores = np.stack([score for score, _ in splits], axis=1)
        best = _first_highest(scores)
        for i in np.flatnonzero(np.isfinite(scores).any(axis=1)).tolist():
            pop, j = int(growing[i]), int(best[i])
            kind, code, side = columns[j].predicate(pop, rows[pop, j], int(splits[j][1][i]), inside[pop])
            out[pop, level] = j, kind, code, total[i].max() / total[i].sum()
            inside[pop] &= side
        growing = growing[out[growing, level, 0] >= 0]
    return out


class _Column:
    """One attribute of all neighbourhoods, in bins: its codes, or of very many the ranks of those around each one."""

    def __init__(self, space: Space, j: int, codes: Rows) -> None:
        self.ordered, self.size = bool(space.ordered[j]), int(space.sizes[j])
        self.codes = np.ascontiguousarray(codes)
        self.bins: npt.NDArray[Any] = self.codes.ravel()
        self.values: Rows | None = None
        if self.size > MANY:
            ranks, self.values = _ranked(self.codes)
            self.size, self.bins = self.values.shape[1], ranks.ravel()

    def best_splits(
        self, which: Numbers, place: Numbers, label: Numbers, weight: Floats, total: Floats
    ) -> tuple[Floats, Numbers]:
        """Return the score and the bin of each neighbourhood's best split; minus infinity if there is none.

        ``which`` is the neighbourhood of each neighbour, ``place`` its position among all neighbours.
        """
        count, classes = total.shape
        # Classes first: sums over a short last axis are slow.
        cell = (label * count + which) * self.size + self.bins[place]
        left = np.bincount(cell, weight, classes * count * self.size).reshape(classes, count, self.size)
        if self.ordered:
            np.cumsum(left, axis=2, out=left)
        right = total.T[:, :, None] - left
        here, there = left.sum(axis=0), right.sum(axis=0)
        least = TINY * total.sum(axis=1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.square(left).sum(axis=0) / here + np.square(right).sum(axis=0) / there
        score[(here <= least) | (there <= least)] = -np.inf
        return score.max(axis=1), _first_highest(score)

    def predicate(self, pop: int, own: int, bin_: int, inside: Mask) -> tuple[int, int, Mask]:
        """Return the side of a split that the individual is on: kind, code, and the neighbours on that side."""
        codes, code = self.codes[pop], bin_ if self.values is None else int(self.values[pop, bin_])
        if not self.ordered:
            return (IS, code, codes == code) if own == code else (IS_NOT, code, codes != code)
        # Half-way to the next code that occurs, as trees do.
        code = (code + int(codes[inside & (codes > code)].min())) // 2
        return (DOWN, code, codes <= code) if own <= code else (UP, code, codes > code)


def _first_highest(scores: Floats) -> Numbers:
    """Return the position of the first score in each row that is the highest except for a rounding error."""
    highest = scores.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray((scores >= highest - TIE * np.abs(highest)).argmax(axis=1))


def _ranked(codes: Rows) -> tuple[Numbers, Rows]:
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


@dataclass(frozen=True)
class Symbolic:
    """Negate the predicates of local decision trees one by one, and judge individuals that meet the results.

    Aggarwal, Lohia, Nagar, Dey and Saha, "Black box fairness testing of machine learning models", ESEC/FSE 2019. A tree
    fitted to the model's decisions around an individual provides the path, as in symbolic execution. Each predicate of
    the path of a discriminatory individual is negated and the nearest solution taken (local search); each prefix of any
    path is negated at its end and a random solution taken (global search). ``block=1`` is the paper's schedule; with
    more, a block is judged, labelled and explained together before its solutions enter the queue.

    The paper ends with an empty queue (``rounds=1``). Here random individuals fill it again until the budget ends.

    >>> Symbolic(neighbours=500).clusters
    4
    """

    clusters: int = 4
    """Number of K-means clusters of the data, from which seeds are taken."""
    threshold: float = 0.3
    """The global search follows a path down to the first predicate with a lower confidence."""
    neighbours: int = 1000
    """Number of neighbours of each individual to fit its tree to."""
    depth: int = 10
    """Maximum number of predicates of a path."""
    block: int = 32
    """Number of individuals taken from the queue at a time."""
    phase: Literal["both", "local", "global", "seeds"] = "both"
    """Which negations are made; ``seeds``: none."""
    seeds: Literal["data", "random"] = "data"
    """Where the search starts; without data, always from random individuals."""
    order: Literal["turns", "iterative"] = "turns"
    """Whether the clusters take turns or are used one after another."""
    first: Literal["seeds", "global"] = "seeds"
    """Whether seeds or results of the global search come first; results of the local search come before both."""
    rounds: int | None = None
    """Number of times the queue is filled; None: until the budget or the space ends, and once for a single phase."""

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
        around, weights = near.sample(rows, problem.stream, number + np.arange(len(rows)))
        answers = yield from label(Individuals(problem.space, rows=around.reshape(-1, rows.shape[1])))
        codes, known = pd.factorize(answers)
        if len(known) > CLASSES:
            raise StrategyError(
                f"the model gave {len(known):,} different labels to neighbours; symbolic explains up to {CLASSES}",
                remedy=("reduce them with ", THRESHOLD, " or your own function, or use ", KOSEI),
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
    """The individual whose path each was made from, as its position in the block."""
    local: Mask
    """Whether the local search made it, which needs the nearest solution; the global search takes any."""
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
