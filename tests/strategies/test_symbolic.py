"""Symbolic generation against the paper's algorithm with plain loops, on spaces small enough to enumerate."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.search import MOST, Problem, Query, in_turn, kmeans, watched
from evenhand.spaces import solve as enumeration
from evenhand.spaces.solve import Boxes, Solved, solve_any
from evenhand.strategies import symbolic
from evenhand.strategies.symbolic import DOWN, IS, IS_NOT, UP, Neighbourhood, Queue, paths
from tests.helpers import optional, slow
from tests.worlds import World, random_world, worlds

Row = tuple[int, ...]
Predicate = tuple[int, int, int, float]
OPPOSITE = {UP: DOWN, DOWN: UP, IS: IS_NOT, IS_NOT: IS}


@dataclass(frozen=True)
class Watched:
    """A search whose pops are written down."""

    inner: eh.Symbolic
    pops: list[Row] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def search(self, problem: Problem) -> Any:
        return watched(self.inner.search(problem), self.look)

    def look(self, query: Query) -> None:
        if query.individuals is not None and query.kind == "test":
            self.pops.extend(map(tuple, query.individuals.rows.tolist()))
        if query.individuals is not None and query.kind == "label":
            self.asked.append(len(query.individuals))


def meets(row: Row, constraint: list[Predicate]) -> bool:
    """Whether an individual meets all predicates."""
    truth = {UP: int.__gt__, DOWN: int.__le__, IS: int.__eq__, IS_NOT: int.__ne__}
    return all(truth[kind](row[j], code) for j, kind, code, _ in constraint)


@dataclass
class Reference:
    """The paper's Algorithm 2, one individual at a time; random draws are the run's own."""

    world: World
    settings: eh.Symbolic
    seed: int
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.space, self.stream = self.world.space, Stream(self.seed)
        self.protected = self.space.protected_columns
        every = self.space.coding.rows(np.arange(self.space.coding.total))
        self.valid: list[Row] = sorted(map(tuple, every[self.space.valid(every)].tolist()))
        self.visited: set[Any] = set()
        self.queue: list[tuple[float, int, int, Row]] = []
        self.explained = self.pushed = self.tests = 0

    def push(self, rank: int, confidence: float, row: Row) -> None:
        # Single precision, so that what differs by a rounding only is equal.
        self.queue.append((-float(np.float32(rank + confidence / 2)), self.pushed, rank, row))
        self.pushed += 1

    def pops(self, seeds: list[Row], limit: int) -> list[Row]:
        """Everyone judged, in order; a block of one rank is popped before its first one is judged."""
        local, seed, further = (2, 1, 0) if self.settings.first == "seeds" else (2, 0, 1)
        for row in seeds:
            self.push(seed, 0.0, row)
        out: list[Row] = []
        judged: set[Row] = set()
        while self.queue and self.tests < limit:
            block: list[Row] = []
            blocks_rank = None
            while self.queue and len(block) < self.settings.block:
                best = min(self.queue)
                _, _, rank, row = best
                if block and rank != blocks_rank:
                    break
                self.queue.remove(best)
                test = tuple(row[j] for j in self.space.free_columns)
                if test not in judged:
                    judged.add(test)
                    block.append(row)
                    blocks_rank = rank
            out += block
            for row in block:
                self.expand(row, local, further)
        return out

    def expand(self, row: Row, local: int, further: int) -> None:
        members = self.world._members(np.array(row, dtype=np.int32))
        if len(members) < 2:
            return
        self.tests += 1
        unfair = len({self.decision(tuple(m.tolist())) for m in members}) > 1
        phase = self.settings.phase
        if phase == "seeds" or (phase == "local" and not unfair):
            return
        path = self.path(row)
        if unfair and phase != "global":
            for k, c in enumerate(path):
                if c[0] not in self.protected:
                    self.solve([*path[:k], self.negated(c), *path[k + 1 :]], row, local)
        if phase != "local":
            prefix: list[Predicate] = []
            for c in path:
                if c[0] in self.protected:
                    continue
                if c[3] < self.settings.threshold:
                    break
                self.solve([*prefix, self.negated(c)], None, further)
                prefix.append(c)

    def negated(self, c: Predicate) -> Predicate:
        return (c[0], OPPOSITE[c[1]], c[2], c[3])

    def solve(self, constraint: list[Predicate], row: Row | None, rank: int) -> None:
        """Solve a path constraint that was not seen before: near a row, or anywhere."""
        sizes = self.space.coding.sizes
        allowed = tuple(
            tuple(v for v in range(size) if meets((v,) * len(sizes), [c for c in constraint if c[0] == j]))
            for j, size in enumerate(sizes)
        )
        if not all(allowed):
            self.counts["unsatisfiable"] += 1
            return
        if allowed in self.visited:
            return
        number = len(self.visited)
        self.visited.add(allowed)
        members = [other for other in self.valid if meets(other, constraint)]
        if not members:
            self.counts["unsatisfiable"] += 1
            return
        solution = self.drawn(constraint, number) if row is None else min(members, key=partial(self.distance, row))
        assert solution in members
        self.push(rank, float(np.mean([c[3] for c in constraint])), solution)

    def distance(self, row: Row, other: Row) -> tuple[int, int]:
        """How many attributes change, and by how much; the members come by ascending codes."""
        gaps = [abs(a - b) for a, b in zip(row, other, strict=True)]
        return sum(g > 0 for g in gaps), sum(g if o else g > 0 for g, o in zip(gaps, self.space.ordered, strict=True))

    def drawn(self, constraint: list[Predicate], number: int) -> Row:
        columns, kinds, codes, _ = zip(*constraint, strict=True)
        box = Boxes.all(self.space, 1).restrict([0] * len(columns), columns, codes, np.isin(kinds, [DOWN, IS]))
        return tuple(solve_any(box, self.stream, [number], 0).rows[0].tolist())

    def path(self, row: Row) -> list[Predicate]:
        """The individual's way through the tree that is fitted to its neighbourhood."""
        near, own = Neighbourhood(self.space, self.settings.neighbours), np.array([row], dtype=np.int32)
        around, weights = near.sample(own, self.stream, np.array([self.explained]))
        self.explained += 1
        said = [self.decision(tuple(r)) for r in around[0].tolist()]
        labels = np.array([[list(dict.fromkeys(said)).index(d) for d in said]])
        found = paths(self.space, own, around, labels, weights, self.settings.depth)[0]
        return [(int(j), int(kind), int(code), float(c)) for j, kind, code, c in found if j >= 0]

    def decision(self, row: Row) -> int:
        return int(self.world.table[self.space.coding.ids(np.array([row]))[0]])


def people(space: eh.Space, n: int, seed: int) -> Any:
    return space.frame(space.sampler.draw(Stream(seed + 99), 0, n)[0].rows)


def seeds_of(space: eh.Space, data: Any, strategy: eh.Symbolic, seed: int) -> list[Row]:
    """The seeds with plain loops: random individuals, or data rows from the clusters."""
    if data is None or strategy.seeds == "random":
        return list(map(tuple, space.sampler.draw(Stream(seed), 0, MOST)[0].rows.tolist()))
    rows = space.encode(data).individuals.rows
    known: dict[Row, Row] = {}
    for i in Stream(seed).shuffled(np.arange(len(rows)), len(rows), "seeds"):
        known.setdefault(tuple(rows[i, space.free_columns].tolist()), tuple(rows[i].tolist()))
    unique = list(known.values())
    state = int(Stream(seed).bits("kmeans", 0, 0)[0] >> np.uint64(32))
    cluster = kmeans(space, np.array(unique, dtype=np.int32), strategy.clusters, state)
    if strategy.order == "turns":
        return [unique[i] for i in in_turn(cluster)]
    return [row for c in sorted(set(cluster.tolist())) for row, mine in zip(unique, cluster, strict=True) if mine == c]


strategies = st.builds(
    eh.Symbolic,
    clusters=st.integers(1, 4),
    threshold=st.sampled_from([0.3, 0.6, 0.9]),
    neighbours=st.integers(2, 40),
    depth=st.integers(1, 6),
    block=st.sampled_from([1, 1, 1, 2, 7, 64]),
    phase=st.sampled_from(["both", "both", "both", "local", "global", "seeds"]),
    seeds=st.sampled_from(["data", "data", "random"]),
    order=st.sampled_from(["turns", "iterative"]),
    first=st.sampled_from(["seeds", "global"]),
    rounds=st.just(1),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    world=worlds(constraints=True),
    strategy=strategies,
    seed=st.integers(0, 10**6),
    rows=st.none() | st.integers(1, 30),
)
def test_same_individuals_in_the_same_order_as_the_paper(
    world: World, strategy: eh.Symbolic, seed: int, rows: int | None
) -> None:
    data = None if rows is None else people(world.space, rows, seed)
    watched = Watched(strategy)
    reference = Reference(world, strategy, seed)
    expected = reference.pops(seeds_of(world.space, data, strategy, seed), 40)
    audit = partial(eh.audit, world.model, world.space, watched, eh.Budget(tests=40), seed=seed, data=data)
    if data is not None and not reference.tests:
        with pytest.raises(eh.errors.SpaceError, match="has two valid counterparts"):
            audit()
        return
    run = audit()
    assert watched.pops == expected[: len(watched.pops)]
    assert len(watched.pops) == len(expected) or run.stop in (eh.StopReason.TESTS, eh.StopReason.EXHAUSTED)
    if run.stop is eh.StopReason.FINISHED:
        assert run.counts.get("unsatisfiable_constraints", 0) == reference.counts["unsatisfiable"]
        assert run.counts.get("solver_timeouts", 0) == 0


def mixed_world(seed: int, *constraints: str) -> World:
    """Ordered and nominal attributes, and decisions that change along oblique lines."""
    sizes = {"a": 8, "b": 5, "c": 4, "d": 6, "p": 2}
    kinds = [eh.Nominal if name in "cp" else eh.Integer for name in sizes]
    attributes = [
        eh.Nominal(name, range(size)) if kind is eh.Nominal else eh.Integer(name, 0, size - 1)
        for kind, (name, size) in zip(kinds, sizes.items(), strict=True)
    ]
    space = eh.Space(attributes, "p", constraints)
    rows, rng = space.coding.rows(np.arange(space.coding.total)), np.random.default_rng(seed)
    return World(space, (np.sin(rows @ rng.normal(size=5)) > 0).astype(np.int64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "constraints"), [(1, ["a + b <= 10", "c != 1 or d > 2"]), (1, ["p != 0 or d > 1"]), (5, [])]
)
def test_the_same_on_a_larger_space(block: int, constraints: list[str]) -> None:
    world = mixed_world(2, *constraints)
    strategy = eh.Symbolic(neighbours=60, depth=6, block=block, rounds=1)
    data, watched = people(world.space, 15, 0), Watched(strategy)
    run = eh.audit(world.model, world.space, watched, eh.Budget(tests=40), data=data)
    expected = Reference(world, strategy, 0).pops(seeds_of(world.space, data, strategy, 0), 40)
    assert run.tests == 40
    assert watched.pops == expected
    # Who has no counterpart is no test, and is not explained.
    assert (run.counts["untestable"] > 0) == (len(constraints) == 1)


@dataclass
class Solving:
    """What was solved: boxes, from where (None: anywhere), and the solutions."""

    boxes: list[Boxes] = field(default_factory=list)
    origins: list[Any] = field(default_factory=list)
    solutions: list[Any] = field(default_factory=list)

    def nearest(self, boxes: Boxes, rows: Any, **settings: Any) -> Solved:
        return self._note(boxes, list(rows), _nearest(boxes, rows, **settings))

    def any(self, boxes: Boxes, *draws: Any, **settings: Any) -> Solved:
        return self._note(boxes, [None] * len(boxes), _any(boxes, *draws, **settings))

    def _note(self, boxes: Boxes, origins: list[Any], solved: Solved) -> Solved:
        self.boxes += [boxes[i : i + 1] for i in range(len(boxes))]
        self.origins += origins
        self.solutions += list(solved.rows)
        return solved

    def texts(self, local: bool) -> set[str]:
        """The constraints in words."""
        return {words(b) for b, origin in zip(self.boxes, self.origins, strict=True) if (origin is not None) == local}


_nearest, _any = symbolic.solve_nearest, symbolic.solve_any


@contextlib.contextmanager
def solving() -> Iterator[Solving]:
    noted = Solving()
    with (
        mock.patch.object(symbolic, "solve_nearest", noted.nearest),
        mock.patch.object(symbolic, "solve_any", noted.any),
    ):
        yield noted


def words(box: Boxes) -> str:
    space, out = box.space, []
    for j, name in enumerate(space.names):
        if box.counts[0, j] == space.sizes[j]:
            continue
        codes = np.flatnonzero(box.codes(j)[0]) if not space.ordered[j] else [box.low[0, j], box.high[0, j]]
        out.append(f"{name} {'-'.join(map(str, codes))}")
    return ", ".join(out)


KNOWN = eh.Space([eh.Integer(name, 0, 9) for name in "abc"] + [eh.Nominal("sex", ["f", "m"])], protected="sex")


def known_tree(frame: Any) -> Any:
    """a <= 4: b <= 4: red, else blue; a > 4: women: green; men: c <= 4: gold, else grey."""
    left = np.where(frame["b"] <= 4, "red", "blue")
    right = np.where(frame["sex"] == "f", "green", np.where(frame["c"] <= 4, "gold", "grey"))
    return np.where(frame["a"] <= 4, left, right)


@pytest.mark.parametrize(
    ("person", "path", "local", "further"),
    [
        (
            (5, 5, 3, "m"),
            ["a 5-9", "sex 1", "c 0-4"],
            {"a 0-4, c 0-4, sex 1": [4, 5, 3, 1], "a 5-9, c 5-9, sex 1": [5, 5, 5, 1]},
            {"a 0-4", "a 5-9, c 5-9"},
        ),
        (
            (5, 5, 7, "m"),
            ["a 5-9", "sex 1", "c 5-9"],
            {"a 0-4, c 5-9, sex 1": [4, 5, 7, 1], "a 5-9, c 0-4, sex 1": [5, 5, 4, 1]},
            {"a 0-4", "a 5-9, c 0-4"},
        ),
        ((5, 5, 3, "f"), ["a 5-9", "sex 0"], {"a 0-4, sex 0": [4, 5, 3, 0]}, {"a 0-4"}),
        ((4, 6, 3, "f"), ["a 0-4", "b 5-9"], {}, {"a 5-9", "a 0-4, b 0-4"}),
        ((4, 4, 5, "m"), ["a 0-4", "b 0-4"], {}, {"a 5-9", "a 0-4, b 5-9"}),
    ],
)
def test_a_known_tree(person: Any, path: list[str], local: dict[str, list[int]], further: set[str]) -> None:
    import pandas as pd

    data = pd.DataFrame([person], columns=list(KNOWN.names))
    seen: list[Any] = []

    def noted(*arguments: Any) -> Any:
        seen.append(paths(*arguments))
        return seen[-1]

    with mock.patch.object(symbolic, "paths", noted), solving() as solved:
        eh.audit(known_tree, KNOWN, eh.Symbolic(neighbours=4000), eh.Budget(rows=5000), data=data)
    predicates = [(j, code, kind in (DOWN, IS)) for j, kind, code, _ in seen[0][0] if j >= 0]
    assert [words(Boxes.all(KNOWN, 1).restrict([0], [j], [code], [truth])) for j, code, truth in predicates] == path
    assert solved.texts(local=True) == set(local)
    assert solved.texts(local=False) == further
    for box, origin, solution in zip(solved.boxes, solved.origins, solved.solutions, strict=True):
        assert box.inside(solution[None]).all()
        if origin is not None:
            assert solution.tolist() == local[words(box)]


def test_the_global_search_stops_where_confidence_is_low() -> None:
    """Of two predicates the first one's node is half and half, the second one's three to one."""
    space = eh.Space([eh.Integer("a", 0, 9), eh.Integer("b", 0, 9), eh.Boolean("p")], protected="p")
    path = np.array([[[2, IS, 0, 0.1], [0, UP, 4, 0.5], [2, IS, 0, 0.1], [1, DOWN, 3, 0.75], [-1, -1, -1, -1]]])
    for threshold, expected in ((0.5, {"a 0-4", "a 5-9, b 4-9"}), (0.6, set()), (0.0, {"a 0-4", "a 5-9, b 4-9"})):
        problem = Problem(space, Stream(0))
        made = eh.Symbolic(threshold=threshold)._negate(problem, path, np.array([False]))
        assert {words(made.boxes[i : i + 1]) for i in range(len(made.owner))} == expected
    made = eh.Symbolic(threshold=1.0)._negate(problem, path, np.array([True]))
    # The local search does not look at confidences, and keeps the protected predicates.
    assert [words(made.boxes[i : i + 1]) for i in range(2)] == ["a 0-4, b 0-3, p 0-0", "a 5-9, b 4-9, p 0-0"]
    assert made.confidence == pytest.approx([(0.1 + 0.5 + 0.1 + 0.75) / 4] * 2)
    made = eh.Symbolic()._negate(problem, path, np.array([False]))
    assert made.confidence == pytest.approx([0.5, (0.5 + 0.75) / 2])


@pytest.mark.parametrize("seed", [1, *slow(range(2, 5))])
@pytest.mark.parametrize("constraints", [(), ("a + b <= 8", "c != 1 or d > 2"), ("p != 0 or c != 0", "a != 3")])
def test_solutions_are_valid_and_nearest_and_no_constraint_is_solved_twice(
    seed: int, constraints: tuple[str, ...]
) -> None:
    world = mixed_world(seed, *constraints)
    space = world.space
    with solving() as solved:
        eh.audit(world.model, space, eh.Symbolic(neighbours=100, block=16), eh.Budget(tests=300), seed=seed)
    assert len(solved.boxes) > 200
    assert len({box.keys[0] for box in solved.boxes}) == len(solved.boxes)
    rows = space.coding.rows(np.arange(space.coding.total))
    rows = rows[space.valid(rows)]
    rows = rows[np.lexsort(rows.T[::-1])]
    for i, box in enumerate(solved.boxes):
        members = rows[box[np.zeros(len(rows), dtype=int)].inside(rows).all(axis=1)]
        if not len(members):
            assert (solved.solutions[i] == -1).all()
            continue
        assert (members == solved.solutions[i]).all(axis=1).any()
        if solved.origins[i] is not None:
            gaps = np.abs(members - solved.origins[i])
            distance = np.where(space.ordered, gaps, gaps > 0).sum(axis=1)
            best = np.lexsort((distance, (gaps > 0).sum(axis=1)))[0]
            assert members[best].tolist() == solved.solutions[i].tolist()


def test_only_valid_individuals_are_asked_about() -> None:
    space = eh.Space([eh.Integer("a", 0, 9), eh.Integer("b", 0, 9), eh.Boolean("p")], "p", ["a + b <= 9"])
    seen = []

    def model(frame: Any) -> Any:
        seen.append(int((frame["a"] + frame["b"]).max()))
        return (frame["a"] > 4) & frame["p"]

    watched = Watched(eh.Symbolic(neighbours=50, block=4, rounds=1))
    run = eh.audit(model, space, watched, eh.Budget(tests=40))
    assert max(seen) <= 9
    assert run.asked["label"] == sum(watched.asked)
    assert all(n % 50 == 0 for n in watched.asked)


def test_tight_constraints_do_not_stop_the_search() -> None:
    attributes = [eh.Integer(name, 0, 40) for name in ("base", "bonus")]
    attributes += [eh.Integer("total", 0, 80), eh.Integer("age", 0, 9), eh.Boolean("p")]
    space = eh.Space(attributes, "p", ["total == base + bonus"])

    def model(frame: Any) -> Any:
        return frame["total"] + frame["age"] + 5 * frame["p"] > 40

    drawn = eh.audit(model, space, eh.Themis(), eh.Budget(tests=400))
    run = eh.audit(model, space, eh.Symbolic(neighbours=200), eh.Budget(tests=400))
    assert run.tests == 400
    assert run.found > 1.5 * drawn.found


def test_rows_are_counted_and_only_needed_paths_are_asked_for() -> None:
    world = random_world(80, 5000)
    rows = {}
    for phase in ("both", "local", "global", "seeds"):
        strategy = eh.Symbolic(neighbours=40, block=10, phase=phase)  # type: ignore[arg-type]
        run = eh.audit(world.model, world.space, strategy, eh.Budget(tests=100), seed=1)
        rows[phase] = run.asked["label"]
        assert run.asked["test"] == 100 * world.space.combinations
    # The last block is not explained any more.
    assert rows["both"] == rows["global"] == 90 * 40
    assert 0 < rows["local"] < rows["both"]
    assert rows["seeds"] == 0


def test_a_resumed_run_fits_no_tree_and_solves_nothing_again(tmp_path: Path) -> None:
    world, strategy = random_world(81, 20_000), eh.Symbolic(neighbours=40, block=20)
    made: Counter[str] = Counter()

    def counted(name: str, call: Any) -> Any:
        def noted(*arguments: Any, **settings: Any) -> Any:
            made[name] += 1
            return call(*arguments, **settings)

        return noted

    class Dying(World):
        def __call__(self, X: Any) -> Any:
            if self.calls >= 60:
                raise KeyboardInterrupt
            return super().__call__(X)

    budget = eh.Budget(tests=400)
    with (
        mock.patch.object(symbolic, "paths", counted("paths", paths)),
        mock.patch.object(symbolic, "solve_nearest", counted("nearest", _nearest)),
        mock.patch.object(symbolic, "solve_any", counted("any", _any)),
    ):
        whole = eh.audit(world.model, world.space, strategy, budget)
        needed = Counter(made)
        made.clear()
        eh.audit(Dying(world.space, world.table).model, world.space, strategy, budget, directory=tmp_path)
        before = Counter(made)
        resumed = eh.audit(world.model, world.space, strategy, budget, directory=tmp_path)
    assert set(needed) == {"paths", "nearest", "any"}
    assert 0 < before["paths"] < needed["paths"]
    assert made == needed
    assert resumed.findings.equals(whole.findings)
    # What the search counted itself is counted again.
    names = ("unsatisfiable_constraints", "solver_timeouts", "repeats")
    assert [resumed.counts[name] for name in names] == [whole.counts[name] for name in names]
    assert eh.Run.load(tmp_path).counts == resumed.counts


def test_stored_answers_are_small(tmp_path: Path) -> None:
    world = random_world(82, 20_000)
    eh.audit(world.model, world.space, eh.Symbolic(neighbours=2000), eh.Budget(tests=256), directory=tmp_path)
    # Three blocks of 64 are explained. Labels are bits, solutions bytes; a path has ten predicates of four numbers.
    most = 192 * (2000 / 8 + 10 * 4 * 8 + 20 * len(world.space.names)) + 256 * 64
    assert (tmp_path / "answers.log").stat().st_size < most + 20_000


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 7, 40_000], ["a", 1, "c"]])
def test_labels_of_any_kind(labels: list[Any], tmp_path: Path) -> None:
    space = eh.Space([eh.Integer("a", 0, 30), eh.Integer("b", 0, 30), eh.Boolean("p")], protected="p")

    def model(frame: Any) -> list[Any]:
        place = (frame["a"] + 3 * frame["p"] > 12).astype(int) + (frame["b"] > 20) * (len(labels) > 2)
        return [labels[i] for i in place]

    def numbers(frame: Any) -> Any:
        return np.array([labels.index(label) for label in model(frame)])

    strategy, budget = eh.Symbolic(neighbours=60, block=8), eh.Budget(tests=120)
    plain = eh.audit(numbers, space, strategy, budget)
    for tests in (60, 120):
        kept = eh.audit(model, space, strategy, eh.Budget(tests=tests), directory=tmp_path)
    assert kept.findings[list(space.names)].equals(plain.findings[list(space.names)])
    assert kept.asked == plain.asked


def test_tests_concentrate_where_decisions_change() -> None:
    """No one in the data is discriminated against, and one in a hundred random individuals."""
    space = eh.Space([eh.Integer(f"a{j}", 0, 99) for j in range(5)] + [eh.Boolean("p")], protected="p")

    def model(frame: Any) -> Any:
        return frame["a0"] + 2 * frame["a1"] - frame["a2"] + 15 * frame["p"] > 250

    data, found = people(space, 200, 0), {}
    for phase in ("seeds", "local", "global", "both"):
        strategy = eh.Symbolic(neighbours=300, phase=phase)  # type: ignore[arg-type]
        found[phase] = eh.audit(model, space, strategy, eh.Budget(tests=1000), data=data).found
    random = eh.audit(model, space, "themis", eh.Budget(tests=1000)).found
    assert found["seeds"] == found["local"] == 0
    assert 2 * random < found["global"] < found["both"]


def test_a_queue_pops_the_highest_rank_first_and_equals_in_order() -> None:
    rng = np.random.default_rng(0)
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Boolean("p")], protected="p")
    problem = Problem(space, Stream(0))
    queue, plain, known = Queue(problem), [], set()
    number = repeats = rank = 0
    for _ in range(300):
        n = int(rng.integers(0, 30))
        rows, priority = rng.integers(0, [100, 100, 2], (n, 3)), rng.integers(0, 24, n) / 8
        queue.push(priority, space.individuals(rows))
        for p, row in zip(priority, rows.tolist(), strict=True):
            plain.append((-p, number, row))
            number += 1
        wanted = int(rng.integers(1, 20))
        expected: list[Any] = []
        while plain and len(expected) < wanted:
            best = min(plain)
            if expected and -best[0] // 1 != rank:
                break
            plain.remove(best)
            repeats += tuple(best[2][:2]) in known
            if tuple(best[2][:2]) not in known:
                known.add(tuple(best[2][:2]))
                expected.append(best[2])
                rank = -best[0] // 1
        assert queue.pop(wanted).rows.tolist() == expected
        assert len(queue) == len(plain)
    assert problem.counts["repeats"] == repeats > 0


def test_a_queue_of_a_space_too_large_for_ids() -> None:
    space = eh.Space([eh.Integer(f"a{j}", 0, 199) for j in range(10)] + [eh.Boolean("p")], protected="p")
    rows = np.random.default_rng(0).integers(0, space.sizes, (50, 11)).astype(np.int32)
    queue = Queue(Problem(space, Stream(0)))
    queue.push(np.arange(50) / 50, space.individuals(rows))
    out = queue.pop(100)
    assert out.rows.dtype == np.int32
    assert out.rows.tolist() == rows[::-1].tolist()
    assert len(queue.pop(3)) == 0


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ({"clusters": 0}, "at least 1"),
        ({"block": 0}, "at least 1"),
        ({"block": None}, "at least 1"),
        ({"neighbours": 1}, "from 2 to 1,048,576"),
        ({"neighbours": 10**9}, "from 2 to 1,048,576"),
        ({"neighbours": 50.0}, "from 2 to 1,048,576"),
        ({"depth": 0}, "from 1 to 1,000"),
        ({"depth": 1001}, "from 1 to 1,000"),
        ({"threshold": 1.5}, "from 0 to 1"),
        ({"threshold": float("nan")}, "from 0 to 1"),
        ({"phase": "neither"}, "'both', 'local', 'global', 'seeds'"),
        ({"seeds": 1000}, "'data', 'random'"),
        ({"order": "random"}, "'turns', 'iterative'"),
        ({"first": "local"}, "'seeds', 'global'"),
    ],
)
def test_wrong_settings_are_named(setting: dict[str, Any], allowed: str) -> None:
    with pytest.raises(eh.errors.StrategyError, match=allowed) as caught:
        eh.Symbolic(**setting)
    assert {caught.value.parameter: caught.value.value} == setting or np.isnan(caught.value.value)


def large(*constraints: str) -> eh.Space:
    """More tied combinations than can be listed."""
    return eh.Space([eh.Integer(f"a{j}", 0, 999) for j in range(3)] + [eh.Boolean("p")], "p", constraints)


def sums(frame: Any) -> Any:
    return frame["a0"] + frame["a1"] + 100 * frame["p"] > 900


def test_without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(eh.errors.MissingExtra, match=r"z3-solver.*evenhand\[symbolic\]"):
        eh.audit(sums, large("a0 + a1 <= 2 * a2"), "symbolic")
    # Nothing needs solving there, or little enough.
    assert eh.audit(sums, large("a0 + a1 <= 2 * a2"), eh.Symbolic(phase="seeds"), eh.Budget(tests=10)).tests == 10
    assert eh.audit(sums, large("a0 <= a1"), eh.Symbolic(neighbours=50), eh.Budget(tests=10)).tests == 10


def test_constraints_that_the_solver_cannot_express_are_refused() -> None:
    optional("z3")
    with pytest.raises(eh.errors.SpaceError, match="cannot be translated for the solver: .*arbitrarily near zero"):
        eh.audit(sums, large("a0 / (a1 * 0.1 - a2 * 0.1) < 3"), "symbolic")


def test_a_space_without_valid_individuals_is_refused() -> None:
    with pytest.raises(eh.errors.SpaceError, match="no valid individual"):
        eh.audit(sums, large("a0 < a1", "a1 < a2", "a2 < a0"), "symbolic")


def test_solver_timeouts_are_counted(tmp_path: Path) -> None:
    optional("z3")
    hurried = partial(_nearest, limit_ms=1)
    space = large("a0 * a0 + a1 * a1 != a2 * a2 + 1", "a0 * a1 % 7 != a2 % 5")
    with mock.patch.object(symbolic, "solve_nearest", hurried), mock.patch.object(enumeration, "RING", 0):
        run = eh.audit(sums, space, eh.Symbolic(neighbours=100, block=8), eh.Budget(tests=48), directory=tmp_path)
    assert run.counts["solver_timeouts"] > 0
    assert f"solver timeouts: {run.counts['solver_timeouts']:,}" in repr(run)
    assert repr(eh.Run.load(tmp_path)) == repr(run)


def test_models_that_return_numbers_are_refused() -> None:
    space = eh.Space([eh.Integer("a", 0, 999), eh.Boolean("p")], protected="p")
    model = eh.wrap(lambda frame: frame["a"] / 7 + frame["p"])
    model.regression = True
    with pytest.raises(eh.errors.ModelError, match=r"needs decisions; convert them to decisions with eh.wrap"):
        eh.audit(model, space, "symbolic", criterion=eh.Gap(0.1))


def test_too_many_labels_to_explain() -> None:
    space = eh.Space([eh.Integer("a", 0, 999), eh.Boolean("p")], protected="p")
    with pytest.raises(eh.errors.StrategyError, match="different labels to neighbours; symbolic explains up to 256"):
        eh.audit(lambda frame: frame["a"] + frame["p"], space, "symbolic")


def test_settings_on_the_command_line() -> None:
    from evenhand.config.file import of_strategy as parse

    texts = ["neighbours=500", "threshold=0.5", "phase=local", "seeds=random", "order=iterative", "first=global"]
    assert parse("symbolic", texts) == {
        "neighbours": 500,
        "threshold": 0.5,
        "phase": "local",
        "seeds": "random",
        "order": "iterative",
        "first": "global",
    }
    with pytest.raises(eh.errors.StrategyError, match="phase"):
        parse("symbolic", ["phase=neither"])


def test_data_without_rows() -> None:
    space = eh.Space([eh.Integer("a", 0, 9), eh.Boolean("p")], protected="p")
    with pytest.raises(eh.errors.DataError, match="data has no rows"):
        eh.audit(lambda frame: frame["a"] > 3, space, "symbolic", data=people(space, 0, 0))


def test_counts_of_zero_are_not_shown(tmp_path: Path) -> None:
    from evenhand.cli.audit import facts

    space = eh.Space([eh.Integer("a", 0, 9), eh.Integer("b", 0, 9), eh.Boolean("p")], "p", ["a + b != 9"])
    run = eh.audit(lambda f: (f["a"] + f["b"] > 8) & f["p"], space, eh.Symbolic(neighbours=100), directory=tmp_path)
    assert run.counts["unsatisfiable_constraints"] > 0
    assert run.counts["solver_timeouts"] == 0
    assert dict(facts(run))["unsatisfiable constraints"] == str(run.counts["unsatisfiable_constraints"])
    assert "solver timeouts" not in dict(facts(run))
    assert repr(run).endswith(f", unsatisfiable constraints: {run.counts['unsatisfiable_constraints']:,}")
    assert "unsatisfiable" not in repr(eh.audit(lambda f: f["a"] > 3, space, "themis"))
