"""Auto: one budget for an unbiased estimate, and for the searches that find most."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from evenhand._keyset import Memo
from evenhand._rng import Stream
from evenhand._validate import check_settings
from evenhand.errors import SpaceError, StrategyError
from evenhand.search import Contrasts, Problem, Query, Search, Verdicts, judge
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.realism import Realism
from evenhand.strategies.adf import Adf
from evenhand.strategies.aequitas import Aequitas
from evenhand.strategies.archive import Pool, children_of, donors_of, has_data, nearby
from evenhand.strategies.boundary import Boundary
from evenhand.strategies.kosei import Worklist
from evenhand.strategies.text import TextAdf, TextImportance, TextRandom
from evenhand.strategies.themis import Themis

BLOCK, LEAST_ROWS, MOST_ROWS = 0.08, 512, 32_768
"""Model rows of one turn: a share of those used so far, within limits."""
LEAST = 8
"""Minimum number of tests of a turn, and of independent draws made at once."""
FIRST = 128
"""Tests before which the first independent draws are made."""
EXPLORE = 12
"""One in this many turns goes to the search that waited longest."""
AHEAD = 0.1
"""Independent draws are made for up to this share of tests ahead."""
ENOUGH = 0.75
"""A turn ends after this share of its rows, because what is left would be a small call of the model."""
FORGET = 0.8
"""Factor by which earlier rewards and rows are discounted in each later turn of the same search."""
WAVE = 512
"""Findings whose neighbours the worklist proposes at a time."""
PATHS = 1024
"""Paths that are bisected together, once there are enough."""
CALL = 512
"""A block of tests counts as at least this many model rows, because a model is hardly faster for a few."""
REALISTIC, FOUND = 0.1, 0.001
"""The value of a realistic finding, and of any finding, relative to a new region."""
WASTE = 8
"""A turn ends after this many individuals per test that it may judge, however few of them were new."""
FIRST = 8
"""Maximum factor for the first turn until something is judged, because some searches ask for labels first."""
FED = 64
"""Maximum number of findings per turn that the worklist takes over from other searches."""
CANDIDATES = 3
"""Number of children of realistic findings to consider for each one that is judged."""
ARMS = (
    "boundary",
    "nearby",
    "archive-real",
    "archive",
    "worklist",
    "adf",
    "aequitas",
    "uniform",
    "text-random",
    "text-adf",
    "text-importance",
)
"""Every search that may get turns."""
COUNTS = ("turns", "rows", "found", "regions", "realistic", "realistic_regions")
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Auto:
    """Draw a share of the tests independently, and divide the rest among several searches by what they find.

    A ``share`` of the tests is drawn at random and never steered by results: half from the data's rows, each once, and
    half from all valid individuals. When all rows were drawn, the other half gets the rest. Repeats count with their
    stored verdict. ``run.estimate`` is based on these draws only. The other tests go to searches in turns: usually to
    the search that found most per model row in its latest turns, and sometimes to the one that waited longest. New
    regions of the space, new regions with realistic findings, and realistic findings count. The searches are
    ``boundary``, people in the data with a few attributes changed, ``archive`` among all findings and among the
    realistic ones, KOSEI's worklist around all findings, AEQUITAS, uniform individuals, and ADF if the model has
    scores; for texts, those that the model allows. ``run.arms`` has the share and the findings of each.

    >>> Auto().share
    0.2
    """

    share: float = 0.2
    """The share of the tests that is drawn independently."""
    arms: str | None = None
    """Names of the searches that may get turns, separated by commas; None: all that the space and the model support."""

    needs: ClassVar[str] = "any"
    uses_gradient: ClassVar[str] = "optional"

    def __post_init__(self) -> None:
        check_settings(self, share=(0, 1))
        if self.arms is not None and (not isinstance(self.arms, str) or not set(self.names) <= set(ARMS)):
            remedy = f"they are {', '.join(ARMS)}"
            raise StrategyError(
                "must name searches, separated by commas", parameter="arms", value=self.arms, remedy=remedy
            )

    @property
    def names(self) -> list[str]:
        """The names of the searches that may get turns."""
        return list(ARMS) if self.arms is None else [name.strip() for name in self.arms.split(",")]

    def search(self, problem: Problem) -> Search:
        """Let the best arm play, turn by turn; its tests are preceded by the draws that the share requires."""
        field: Tables | Texts = Tables(problem) if problem.bound.supports("attributes") else Texts(problem)
        every, sample = field.arms(), Sample(field, self.share)
        arms = [arm for arm in every if arm.name in self.names]
        if not arms:
            remedy = f"with this space, data and model they are {', '.join(arm.name for arm in every)}"
            raise StrategyError("must name a search that is possible", parameter="arms", value=self.arms, remedy=remedy)
        problem.arms |= {arm.name: arm.counts for arm in (sample.arm, *arms)}
        turn = 0
        # A small block first, so that a small budget of time or requests is not spent on one that it cuts off.
        yield from sample.cover(FIRST)
        while not field.over:
            arm = choose(arms, turn)
            # An arm that has done little gets a small turn, because its value is uncertain.
            most = MOST_ROWS if arm is None else max(LEAST_ROWS, arm.counts["rows"])
            rows = min(int(np.clip(BLOCK * problem.spent(), LEAST_ROWS, MOST_ROWS)), most)
            field.size = max(LEAST, rows // problem.bound.width)
            if arm is not None:
                arm.learn(field.credit(arm, (yield from arm.play(field, sample))))
                turn += 1
            elif self.share and not sample.over and (sample.ends or not all(one.over for one in arms)):
                # All arms wait for a finding, or all have ended before the data.
                yield from sample.draw(field.size)
            else:
                return


class Sample:
    """The independent draws, which are always at least a share of the tests."""

    def __init__(self, field: Field, share: float) -> None:
        self.arm = Arm("independent", lambda: iter(()))
        self._field, self._share, self._drawn = field, share, 0

    @property
    def over(self) -> bool:
        """Whether nothing is left to draw."""
        return self._field.problem.draws.over

    @property
    def ends(self) -> bool:
        """Whether only rows of the data are drawn, which end."""
        return all(one.size is not None for one in self._field.problem.draws.populations.values())

    def cover(self, tests: int) -> Search:
        """Draw before so many tests are judged, so that the share is right even if the budget ends among them."""
        field, share, times = self._field, self._share, 1
        while self._drawn < share * (field.tests + tests) and not self.over:
            # Some ahead, because few large calls of the model are faster than many small ones.
            ahead = max(tests, int(AHEAD * field.tests))
            due = share * (field.tests + ahead) - self._drawn
            # The draws are tests, too.
            n = math.ceil(due / (1 - share)) if share < 1 else ahead
            yield from self.draw(min(times * max(LEAST, n), MOST_ROWS))
            # If few individuals have counterparts, many are needed.
            times *= 2

    def draw(self, n: int) -> Search:
        """Judge independent draws."""
        problem = self._field.problem
        together = problem.draws.take(n)
        verdicts = yield from self.arm.charge(problem, problem.draws.judge(together))
        self._count(together, verdicts)
        if problem.bound.constraints:
            assert problem.memo is not None
            self._drawn -= int((~problem.memo.holds(together.keys)).sum())

    def before(self, arm: Arm, query: Query) -> Generator[Query, Any, Verdicts]:
        """Judge the tests of a search and, before them, the draws that the share requires; in one call of the model."""
        field, problem, memo, block = self._field, self._field.problem, self._field.problem.memo, query.individuals
        assert block is not None
        assert memo is not None
        tests = len(block) if query.limit is None else min(len(block), query.limit)
        if not field.splits or problem.bound.constraints or self._share == 1:
            # How many rows each test takes, and whether a draw counts, is known only afterwards.
            yield from self.cover(tests)
            return cast(Verdicts, (yield from arm.charge(problem, _ask(query))))
        due = self._share * (field.tests + tests) - self._drawn
        if due <= 0 or self.over:
            return cast(Verdicts, (yield from arm.charge(problem, _ask(query))))
        drawn = problem.draws.take(math.ceil(due / (1 - self._share)))
        new, known, rows = len(memo.fresh(drawn.keys)), len(memo), problem.spent()
        limit = None if query.limit is None else query.limit + new
        try:
            verdicts = yield from problem.draws.judge(Individuals.join([drawn, cast(Individuals, block)]), limit)
        finally:
            rows, known = problem.spent() - rows, len(memo) - known
            own = rows * min(new, known) // max(known, 1)
            self.arm.counts["rows"] += own
            arm.counts["rows"] += rows - own
        cut = int(np.searchsorted(verdicts.positions, len(drawn)))
        self._count(drawn, Verdicts(drawn, verdicts.positions[:cut], verdicts.judged[:cut], memo))
        return Verdicts(block, verdicts.positions[cut:] - len(drawn), verdicts.judged[cut:], memo)

    def _count(self, drawn: Any, verdicts: Verdicts) -> None:
        self.arm.counts["turns"] += 1
        self._field.tests += len(verdicts.positions)
        self._drawn += len(drawn)
        self._field.credit(self.arm, [drawn[verdicts.found]])


class Arm:
    """A search that runs for one turn at a time, and its value."""

    def __init__(
        self,
        name: str,
        start: Callable[[], Iterator[Any]],
        ready: Callable[[], bool] = lambda: True,
        *,
        again: bool = False,
        alone: bool = False,
    ) -> None:
        self.name, self._start, self._ready, self._again = name, start, ready, again
        self.counts = dict.fromkeys(COUNTS, 0)
        self.last, self._reward, self._effort = -1, 0.0, 0.0
        self.over = False
        self._search: Any = None
        self._query: Query | None = None
        self._answer: Any = None
        self._at, self._parts = 0, list[Any]()
        self._own = Memo() if alone else None
        """The tests it has seen, for a search that would otherwise find nothing new among tests judged by others."""

    @property
    def ready(self) -> bool:
        """Whether it can continue."""
        return not self.over and (self._search is not None or self._ready())

    @property
    def worth(self) -> float:
        """Reward per model row, mainly of the latest turns."""
        return self._reward / max(self._effort, 1.0)

    def charge(self, problem: Problem, step: Generator[Query, Any, Any]) -> Generator[Query, Any, Any]:
        """Count the model rows of a step, even if the budget ends it."""
        before = problem.spent()
        try:
            return (yield from step)
        finally:
            self.counts["rows"] += problem.spent() - before

    def learn(self, reward: float) -> None:
        """Add the reward of the latest turn."""
        self._reward += reward

    def play(self, field: Field, sample: Sample) -> Generator[Query, Any, list[Any]]:
        """Continue the search for about the rows of a number of tests; return new findings."""
        problem, tests, found = field.problem, field.size, list[Any]()
        rows, used, asked = tests * problem.bound.width, 0, 0
        patience = FIRST if not self.counts["turns"] else 1
        self.counts["turns"] += 1
        self._reward, self._effort = FORGET * self._reward, FORGET * self._effort
        while used < ENOUGH * rows * patience and asked < WASTE * tests and self.ready:
            if self._query is None:
                # Only now, so that it knows the findings of others since its last turn.
                self._advance()
                continue
            query = self._query
            judges = query.kind in ("test", "contrast")
            # The first individuals that a search judges get a complete turn, whatever it asked before.
            left = tests if judges and patience > 1 else max(1, (rows * patience - used) // problem.bound.width)
            part, limit = self._part(query, left, field.splits)
            size = 0 if part.individuals is None else len(part.individuals)
            before = self.counts["rows"]
            if query.kind == "test":
                answer = yield from sample.before(self, part)
            else:
                if judges:
                    yield from sample.cover(size)
                answer = yield from self.charge(problem, _ask(part))
            cost = self.counts["rows"] - before
            used += max(cost, CALL if cost and query.kind == "test" else 0)
            verdicts, end = getattr(answer, "verdicts", answer), self._at + size
            if isinstance(verdicts, Verdicts):
                assert part.individuals is not None
                patience = 1
                field.tests += len(verdicts.positions)
                found.append(part.individuals[verdicts.found])
                if limit is not None and len(verdicts.positions) == limit:
                    end = self._at + int(verdicts.positions[-1]) + 1
            # A search without proposals has nothing new at the moment.
            asked += (end - self._at) or (WASTE * tests if query.kind == "test" else 0)
            self._parts.append((self._at, answer))
            self._at = end
            if query.individuals is None or self._at >= len(query.individuals):
                self._query, self._answer, self._at = None, self._joined(query, problem), 0
        self._effort += used
        return found

    def _part(self, query: Query, tests: int, splits: bool) -> tuple[Query, int | None]:
        """Take the part of a query that fits the turn; return also the maximum number of tests to judge."""
        if query.individuals is None or not splits or query.kind not in PARTS:
            return query, None
        size = max(1, int(PARTS[query.kind] * tests))
        cut = slice(self._at, self._at + size)
        classes = None if query.classes is None else query.classes[cut]
        jumps = None if query.jumps is None else query.jumps[cut]
        limit = tests if query.kind == "test" else None
        part = dataclasses.replace(query, individuals=query.individuals[cut], limit=limit, classes=classes, jumps=jumps)
        return part, limit

    def _joined(self, query: Query, problem: Problem) -> Any:
        """Put the answers to the parts of a query together."""
        parts, self._parts = self._parts, []
        if query.kind not in ("test", "contrast"):
            answers = [answer for _, answer in parts]
            return answers[0] if len(answers) == 1 else np.concatenate(answers)
        individuals, memo = query.individuals, problem.memo
        assert individuals is not None
        assert memo is not None
        several = [(at, getattr(answer, "verdicts", answer)) for at, answer in parts]
        positions = np.concatenate([at + verdicts.positions for at, verdicts in several])
        judged = np.concatenate([verdicts.judged for _, verdicts in several])
        if self._own is not None:
            positions = self._own.fresh(individuals.keys)
            judged = memo.unfair(individuals.keys[positions])
            self._own.add(individuals.keys[positions], judged)
        verdicts = Verdicts(individuals, positions, judged, memo)
        if query.kind == "test":
            return verdicts
        seen = [answer for _, answer in parts]
        others = [one.most_different for one in seen]
        other = others[0] if len(others) == 1 else Individuals.join(others)
        return Contrasts(verdicts, other, np.concatenate([one.classes for one in seen]))

    def _advance(self) -> None:
        """Give the search its answer, and take its next query."""
        if self._search is None:
            self._search, self._answer = self._start(), None
        try:
            self._query = self._search.send(self._answer)
        except StopIteration:
            self._search, self.over = None, not self._again


def _ask(query: Query) -> Generator[Query, Any, Any]:
    return (yield query)


PARTS: dict[str, float] = {"test": 4, "contrast": 1, "label": 2, "score": 2, "gradient": 0.25}
"""Kinds of queries that are asked in parts, and the number of individuals of each per test that fits the turn."""


def choose(arms: list[Arm], turn: int) -> Arm | None:
    """Return the next arm: a new one, sometimes the one that waited longest, otherwise the best."""
    able = [arm for arm in arms if arm.ready]
    if not able:
        return None
    new = [arm for arm in able if arm.last < 0]
    if new:
        arm = new[0]
    elif turn % EXPLORE == EXPLORE - 1:
        arm = min(able, key=lambda one: one.last)
    else:
        # As long as none has found anything, they take turns.
        arm = max(able, key=lambda one: (one.worth, -one.last))
    arm.last = turn
    return arm


class Field:
    """The kind of space: the independent draws, the searches, and the value of findings."""

    splits = True
    """Whether queries are asked in parts."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.tests, self.size = problem, 0, 0

    @property
    def over(self) -> bool:
        """Whether every individual has been judged."""
        return False

    def own(self, name: str) -> Problem:
        """Return the problem with a stream of random numbers for one search."""
        seed = int(self.problem.stream.bits(f"arm-{name[:4]}", len(name), 0)[0] >> np.uint64(1))
        return dataclasses.replace(self.problem, stream=Stream(seed))

    def arms(self) -> list[Arm]:
        """Return the searches, in the order of their first turns."""
        raise NotImplementedError

    def credit(self, arm: Arm, found: list[Any]) -> float:
        """Return the value of new findings."""
        raise NotImplementedError


class Tables(Field):
    """A space of attributes."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._pool = Pool(problem)
        self._real, self._realism = Pool(problem, partition=self._pool.partition), None
        if has_data(problem) and len(problem.data) > 1:
            self._realism = Realism(problem.space, problem.data)
        self._donors = donors_of(problem)
        self._worklist = Worklist(problem, WAVE, None)
        self._uniform: Arm | None = None

    @property
    def over(self) -> bool:
        """Whether the uniform search has drawn all of a small space."""
        return self._uniform is not None and self._uniform.over

    def arms(self) -> list[Arm]:
        """Return the searches."""
        own, offers, pool, real, arms = self.own, self.problem.offers, self._pool, self._real, list[Arm]()
        if "label" in offers:
            arms.append(Arm("boundary", partial(Boundary(block=PATHS).search, own("boundary"))))
        if has_data(self.problem):
            arms.append(Arm("nearby", partial(self._nearby, own("nearby"))))
            arms.append(Arm("archive-real", partial(self._realistic, own("real")), lambda: real.regions > 0))
        arms.append(Arm("archive", partial(self._children, own("archive")), lambda: pool.regions > 0))
        work = self._worklist
        arms.append(Arm("worklist", partial(work.explore, None), lambda: len(work) > 0, again=True))
        if "gradient" in offers:
            arms.append(Arm("adf", partial(Adf(seeds=100, trials=100).search, own("adf")), alone=True))
        arms.append(Arm("aequitas", partial(Aequitas().search, own("aequitas")), alone=True))
        draws = self.problem.draws.populations
        try:
            draws["uniform"].take(0, 1)
        except SpaceError:
            # The constraints are too tight.
            del draws["uniform"]
            return arms
        self._uniform = Arm("uniform", partial(Themis(block=1024).search, own("uniform")))
        return [*arms, self._uniform]

    def credit(self, arm: Arm, found: list[Any]) -> float:
        """Keep findings, and count their regions and the realistic ones."""
        found = [block for block in found if len(block)]
        if not found:
            return 0.0
        block = Individuals.join(found)
        rows = block.rows
        regions = self._pool.partition.of(rows)
        new = self._pool.add(rows, regions)
        real = np.zeros(len(rows), dtype=bool)
        if self._realism is not None:
            # One of the searches has already selected realistic findings.
            real[:] = arm.name == "archive-real" or self._realism.realistic(rows, thorough=False)
        new_real = self._real.add(rows[real], regions[real])
        if arm.name != "worklist":
            self._worklist.append(block[:FED])
        counts = {"found": len(rows), "regions": new, "realistic": int(real.sum()), "realistic_regions": new_real}
        for name, count in counts.items():
            arm.counts[name] += count
        return new + new_real + REALISTIC * counts["realistic"] + FOUND * len(rows)

    def _nearby(self, problem: Problem) -> Search:
        """Judge people in the data with one, two or four attributes changed."""
        number = 0
        while True:
            number += self.size
            yield from judge(nearby(problem, number - self.size, self.size, (1, 2, 4)))

    def _children(self, problem: Problem) -> Search:
        """Judge children of findings from all regions equally."""
        for number in itertools.count():
            parents = self._pool.draw(problem.stream, CANDIDATES * self.size, number)
            children = self._new(children_of(problem, parents, number, self._donors))
            yield from judge(children[: self.size])

    def _realistic(self, problem: Problem) -> Search:
        """Judge realistic children of realistic findings that are not judged yet."""
        for number in itertools.count():
            parents = self._real.draw(problem.stream, CANDIDATES * self.size, number)
            children = children_of(problem, parents, number, self._donors)
            yield from judge(self._new_and_real(children, self.size))

    def _new(self, children: Individuals) -> Individuals:
        assert self.problem.memo is not None
        return children[self.problem.memo.fresh(children.keys)]

    def _new_and_real(self, children: Individuals, n: int) -> Individuals:
        assert self._realism is not None
        children = self._new(children)
        out, at = list[Individuals](), 0
        while at < len(children) and sum(map(len, out)) < n:
            part = children[at : at + n]
            at += n
            out.append(part[self._realism.realistic(part.rows, thorough=False)])
        return Individuals.join([*out, children[:0]])[:n]


class Texts(Field):
    """A space of texts, where seed texts replace regions."""

    splits = False

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._seen: Numbers = np.zeros(0, dtype=np.int64)

    def arms(self) -> list[Arm]:
        """Return the searches that the model allows."""
        settings: dict[str, Any] = {"seeds": 100, "trials": 100}
        searches: dict[str, Any] = {"text-random": TextRandom(**settings)}
        if "word-gradient" in self.problem.offers:
            searches["text-adf"] = TextAdf(**settings)
        elif "gradient" in self.problem.offers:
            searches["text-importance"] = TextImportance(**settings)
        return [Arm(name, partial(one.search, self.own(name)), alone=True) for name, one in searches.items()]

    def credit(self, arm: Arm, found: list[Any]) -> float:
        """Count findings, and the seed texts that had none before."""
        seeds = np.concatenate([np.zeros(0, dtype=np.int64), *(block.seeds for block in found)])
        new = np.setdiff1d(seeds, self._seen)
        self._seen = np.union1d(self._seen, seeds)
        arm.counts["found"] += len(seeds)
        arm.counts["regions"] += len(new)
        return float(len(new) + REALISTIC * len(seeds))
