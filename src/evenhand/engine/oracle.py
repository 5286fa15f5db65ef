"""The oracle answers the queries of a search within the budget, and keeps the accounts of a run.

A query is answered block by block. ``_plan`` drops repeats and cuts what fits the budget, ``judge.ask`` queries the
model and applies the criterion, and ``record`` and ``commit`` store the answer in the order of the search. Querying is
pure, so a block may be queried anywhere. ``Questions`` answers queries that are not tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand._keyset import Memo, Recall, Visited, visited_of
from evenhand._rng import Bits
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Outputs
from evenhand.engine.determinism import RowChecks, StoredTests, noisy
from evenhand.engine.gradients import Slopes, WordSlopes, most_different_of
from evenhand.engine.judge import Judge, Judged, ModelProbe, ask
from evenhand.engine.store import Frame, Log, digest_of
from evenhand.errors import DECIDE, KOSEI, THRESHOLD, ModelError, RunError, StrategyError
from evenhand.search import Contrasts, Query, Strategy, Verdicts
from evenhand.spaces.base import Block, BoundSpace, Families, table
from evenhand.spaces.findings import Decisions, Findings, array_of
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.text.individuals import TextPairs

QUESTIONS = ("test", "label", "score", "gradient")
CURVE = 4096
"""Maximum number of points of a discovery curve."""
FIRST = 16
"""Maximum rows of a run's first block; each later block may have as many as all before it, up to the chunk."""
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Status:
    """Progress of a run."""

    tests: int
    findings: int
    rows: int
    seconds: float
    budget: Budget


class Stop(Exception):
    """Ends a search; caught by the driver."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Accounting:
    """Keeps a run within its budget, logs each answer once, and takes logged answers from the log."""

    def __init__(
        self,
        bound: BoundSpace,
        budget: Budget,
        chunk: int,
        log: Log,
        clock: Clock,
        progress: Callable[[Status], None] | None = None,
    ) -> None:
        self.bound, self.budget, self.chunk, self.log, self.clock = bound, budget, chunk, log, clock
        self.findings = bound.findings()
        self.tests = self.replayed_rows = 0
        self.asked = dict.fromkeys(QUESTIONS, 0)
        self.curve: list[tuple[int, int, int]] = []
        self.cancel: interrupts.Token | None = None
        self._progress = progress
        self._stride, self._frames = 1, 0

    @property
    def rows(self) -> int:
        """Model rows of all queries."""
        return sum(self.asked.values())

    @property
    def room(self) -> int:
        """Maximum rows of the next block: as many as all blocks before, so that a time limit never loses much.

        This depends on nothing else, so blocks are the same on every machine and in a resumed run.
        """
        return min(self.chunk, max(FIRST, self.rows))

    def check_clock(self) -> None:
        """Stop when the time is up; an unfinished block does not count."""
        if self.budget.seconds is not None and self.clock.seconds >= self.budget.seconds:
            raise Stop(StopReason.SECONDS)

    def check_budget(self) -> None:
        """Stop when a budget is spent, after Ctrl-C, or when the run is cancelled."""
        interrupts.check(self.cancel)
        if self.bound.countable and self.tests >= self.bound.tests:
            raise Stop(StopReason.EXHAUSTED)
        for reason, spent, limit in (
            (StopReason.FINDINGS, self.findings.count, self.budget.findings),
            (StopReason.TESTS, self.tests, self.budget.tests),
            (StopReason.ROWS, self.rows, self.budget.rows),
        ):
            if limit is not None and spent >= limit:
                raise Stop(reason)
        self.check_clock()

    def stored(
        self, kind: str, question: str, block: Block, rows: int, ask: Callable[[], Arrays], **header: Any
    ) -> Frame:
        """Return the stored answer to a query, or query the model and store it; stop when no rows are left."""
        self.check_budget()
        if self.budget.rows is not None and self.rows + rows > self.budget.rows:
            raise Stop(StopReason.ROWS)
        digest = self.digest(block)
        frame = self.stored_frame(kind, digest, len(block))
        if frame is None:
            arrays = ask()
            frame = Frame(kind, {"digest": digest, "rows": rows, **header}, arrays)
            self.store(frame)
        else:
            self.clock.replayed()
            rows = int(frame.header["rows"])
            self.replayed_rows += rows
        self.asked[question] += rows
        self.point()
        return frame

    def stored_frame(self, kind: str, digest: str, count: int) -> Frame | None:
        """Return the stored answer to a query about ``count`` individuals, or None if it is new."""
        frame = self.log.take(kind, digest)
        if frame is not None:
            check_answer(frame, self.findings, self.log.path, count)
        return frame

    def digest(self, block: Block) -> str:
        """Return the digest of a block."""
        # Needed only for the log of a run's directory.
        return "" if self.log.path is None else digest_of(block.stored)

    def store(self, frame: Frame) -> None:
        """Store an answer; first check that the model is the one of the stored answers."""
        self.check_same_model()
        self.log.append(frame, self.clock.seconds)

    def check_same_model(self) -> None:
        """Raise if the model gives other answers than the log."""

    def point(self) -> None:
        """Add a point to the discovery curve; drop every other point when it grows long."""
        self._frames += 1
        if self._frames % self._stride == 0:
            self.curve.append((self.tests, self.rows, self.findings.count))
            if len(self.curve) > CURVE:
                self.curve = self.curve[1::2]
                self._stride *= 2
        if self._progress is not None:
            status = Status(self.tests, self.findings.count, self.rows, self.clock.seconds, self.budget)
            self._progress(status)


class Clock:
    """Seconds spent on a run, including earlier sessions; answers from the log have their own time."""

    def __init__(self, stored: npt.NDArray[np.float64]) -> None:
        self._stored, self._frames, self._before = stored, 0, 0.0
        self._start = time.monotonic()
        self._end: float | None = None

    @property
    def seconds(self) -> float:
        """Time spent on this run so far."""
        end = time.monotonic() if self._end is None else self._end
        return self._before + (end - self._start)

    def stop(self) -> None:
        """End the search's time: later work does not count towards budgets."""
        self._end = time.monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of a block of code."""
        start = self._end = time.monotonic()
        try:
            yield
        finally:
            self._start += time.monotonic() - start
            self._end = None

    def replayed(self) -> None:
        """Set the clock to the time of the next stored answer."""
        if self._frames < len(self._stored):
            self._before = float(self._stored[self._frames])
        self._frames += 1
        self._start = time.monotonic()


class Stored(Log):
    """A read-only log, for repeating a search: its end stops the search."""

    def take(self, kind: str, digest: str) -> Frame | None:
        """Return the stored answer to this query, or stop the search."""
        frame = super().take(kind, digest)
        if frame is None:
            raise Stop(StopReason.INTERRUPTED)
        return frame


class Questions:
    """Answers queries that are not tests, block by block."""

    def __init__(self, probe: ModelProbe, accounting: Accounting) -> None:
        self.probe, self.accounting = probe, accounting
        self.labels = Decisions()

    def answer(self, query: Query) -> Any:
        """Answer one query."""
        if query.kind == "work":
            return self._work(query)
        if query.kind == "gradient":
            return self._gradient(query)
        if query.kind == "swap":
            return self._swap(query)
        return self._ask(query)

    def _ask(self, query: Query) -> npt.NDArray[Any]:
        """Answer a question about the individuals themselves, block by block."""
        individuals = query.individuals
        assert individuals is not None
        if query.kind == "label":
            self._refuse_numbers()
        one = self._label if query.kind == "label" else self._score
        parts, at = [], 0
        while at < len(individuals):
            block = individuals[at : at + self.accounting.room]
            parts.append(one(block))
            at += len(block)
        return np.concatenate(parts) if parts else np.zeros(0)

    def _label(self, block: Block) -> npt.NDArray[Any]:
        def ask() -> Arrays:
            return {"answer": self.labels.pack(self.probe.labels(block.rows, (*DECIDE, ", or use ", KOSEI)))}

        # The list grows while the model is queried; a stored answer has its own.
        frame = self.accounting.stored("label", "label", block, len(block), ask, decisions=self.labels.values)
        if frame.header["decisions"] != self.labels.values:
            self.labels = Decisions(frame.header["decisions"])
        return self.labels.unpack(frame.arrays["answer"], len(block))

    def _score(self, block: Block) -> npt.NDArray[Any]:
        frame = self.accounting.stored(
            "score", "score", block, len(block), lambda: {"answer": self.probe.scores(block.rows)}
        )
        return frame.arrays["answer"]

    def _refuse_numbers(self) -> None:
        if self.probe.model.regression:
            raise ModelError(
                f"{self.probe.model.name} returns numbers, but this search needs decisions",
                remedy=("convert them to decisions with ", THRESHOLD, ", or use ", KOSEI),
            )

    def _work(self, query: Query) -> Any:
        assert query.call is not None
        self.accounting.check_budget()
        frame = self.accounting.stored_frame("work", "", 0)
        if frame is None:
            frame = Frame("work", {"digest": ""}, {"answer": np.asarray(query.call())})
            self.accounting.store(frame)
        else:
            self.accounting.clock.replayed()
        return frame.arrays["answer"]

    def _gradient(self, query: Query) -> npt.NDArray[np.float64]:
        check_contrasts(self.probe)
        individuals, classes, slopes = cast(Individuals, query.individuals), query.classes, self.probe.slopes
        if slopes is None:
            raise StrategyError(
                f"gradients need a space of attributes, but this one has {self.accounting.bound.space.noun}s",
                remedy="ask with swap",
            )
        assert classes is not None
        jumps, parts, at = query.jumps, [], 0
        while at < len(individuals):
            part = slice(at, at + max(1, self.accounting.room // slopes.cost))
            there = None if jumps is None else jumps[part]
            block = individuals[part]
            at += len(block)
            # Frame by frame, so that budgets are checked and a kill loses one block at most.
            ask = partial(self._ask_slopes, slopes, block, classes[part], there)
            frame = self.accounting.stored("gradient", "gradient", block, len(block) * slopes.cost, ask)
            parts.append(frame.arrays["answer"])
        return np.concatenate(parts) if parts else np.zeros((0, len(slopes.space.names)))

    def _ask_slopes(
        self, slopes: Slopes, block: Individuals, classes: npt.NDArray[np.int64], jumps: Rows | None
    ) -> Arrays:
        return {"answer": slopes.ask(block.rows, classes, jumps)}

    def _swap(self, query: Query) -> npt.NDArray[np.int32]:
        check_contrasts(self.probe)
        pairs, slopes = query.pairs, self.probe.word_slopes
        if slopes is None or pairs is None:
            raise StrategyError(
                f"swaps need a space of texts, but this one has {self.accounting.bound.space.noun}s",
                remedy="ask with gradient",
            )
        parts = []
        for part, rows in slopes.parts(pairs, query.rule, query.limit, lambda: self.accounting.room):
            draws = None if query.draws is None else query.draws[part]
            # Only the choice is stored, because gradients of words are large.
            ask = partial(self._ask_swaps, slopes, pairs[part], query.rule, draws, query.limit)
            frame = self.accounting.stored("swap", slopes.question, pairs.individuals[part], rows, ask)
            parts.append(frame.arrays["answer"])
        return np.concatenate(parts) if parts else np.zeros((0, 2), dtype=np.int32)

    def _ask_swaps(
        self, slopes: WordSlopes, pairs: TextPairs, rule: str, draws: Bits | None, limit: int | None
    ) -> Arrays:
        return {"answer": slopes.ask(pairs, rule, draws, limit)}


def check_contrasts(probe: ModelProbe) -> None:
    """Raise if a search has not declared that it asks for contrasts or gradients."""
    if not probe.contrasts:
        raise StrategyError(
            "the search asks for contrasts or gradients without declaring it",
            remedy="give its class the attribute uses_gradient = True",
        )


STALL_BLOCKS, STALL_REPEATS = 50, 1_000_000
"""A run stalls after this many consecutive blocks, with this many individuals, without a fresh test."""


@dataclass(frozen=True)
class Request:
    """The next block of fresh tests: their positions in the query, and where the next block begins."""

    positions: npt.NDArray[np.int64]
    behind: int
    block: Block
    families: Families | None
    """None if the answer is stored, so that the model is not queried."""


@dataclass(frozen=True)
class Committed:
    """A block of fresh tests, their verdicts, and the stored answer."""

    positions: npt.NDArray[np.int64]
    unfair: npt.NDArray[np.bool_]
    answer: Arrays


class Oracle(Accounting):
    """Answers the queries of one search."""

    def __init__(
        self,
        probe: ModelProbe,
        budget: Budget,
        seed: int,
        chunk: int,
        log: Log,
        clock: Clock,
        progress: Callable[[Status], None] | None = None,
        exclude: Callable[[Any], npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        super().__init__(probe.bound, budget, chunk, log, clock, progress)
        self.probe, self.seed, self._exclude = probe, seed, exclude
        self.questions = Questions(probe, self)
        self.steadiness = RowChecks(probe, seed, chunk)
        self.recall = Recall()
        self.stored_tests = StoredTests()
        self.stored_findings = 0
        """Findings that came from the log."""
        self.cut = False
        """Whether the budget cut a stored block off, so that the log holds more than this run."""
        self.visited = visited_of(self.bound)
        """The individuals of the tests, if the memo's keys are not enough."""
        numbered = self.visited is None and self.bound.supports("attributes")
        self.memo = Memo(2 * table(self.bound).tests if numbered else None, self._expected)
        self.repeats = self.untestable = 0
        self.rows_apart = 0
        """Rows outside tests: to identify the model, and to confirm findings."""
        self._idle = (0, 0)

    @property
    def _expected(self) -> int:
        """The most tests that the budget allows, as far as that is known."""
        budget = self.budget
        by_rows = None if budget.rows is None else budget.rows // (2 * self.probe.cost)
        return min((tests for tests in (budget.tests, by_rows) if tests is not None), default=0)

    @property
    def checked(self) -> int:
        """Rows asked outside all budgets."""
        return self.rows_apart + self.steadiness.rows

    @property
    def judged(self) -> Visited:
        """The individuals of all tests."""
        return Visited(self.bound, self.memo) if self.visited is None else self.visited

    def answer(self, query: Query) -> Any:
        """Answer one query, or raise ``Stop`` when a budget ends."""
        if query.kind == "test":
            return self._judge(query)
        if query.kind == "contrast":
            return self._contrast(query)
        return self.questions.answer(query)

    def _judge(self, query: Query) -> Verdicts:
        assert query.individuals is not None
        judged = self._blocks(query.individuals, query.limit)
        return self._verdicts(query.individuals, judged)

    def _verdicts(self, individuals: Block, judged: list[Committed]) -> Verdicts:
        positions = np.concatenate([block.positions for block in judged]) if judged else np.zeros(0, dtype=np.int64)
        unfair = np.concatenate([block.unfair for block in judged]) if judged else np.zeros(0, dtype=bool)
        return Verdicts(individuals, positions, unfair, self.memo)

    def _blocks(self, individuals: Block, limit: int | None) -> list[Committed]:
        """Judge the fresh ones among individuals, block by block."""
        self.check_budget()
        fresh = self.memo.fresh(individuals.keys)
        if self._exclude is not None:
            fresh = fresh[~self._exclude(individuals[fresh])]
        self.repeats += len(individuals) - len(fresh)
        judged: list[Committed] = []
        at = tests = 0
        while at < len(fresh) and tests != limit:
            request = self._plan(individuals, fresh, at, None if limit is None else limit - tests)
            judged.append(self._answered(request))
            at, tests = request.behind, tests + len(request.positions)
        self._watch_stall(0 if tests else len(individuals))
        return judged

    def _contrast(self, query: Query) -> Contrasts:
        """Judge individuals; families of repeats are queried again, unless they are in ``recall``."""
        individuals = query.individuals
        assert individuals is not None
        check_contrasts(self.probe)
        judged = self._blocks(individuals, None)
        verdicts = self._verdicts(individuals, judged)
        others = (individuals.ids if self.bound.has_ids else individuals.stored).copy()
        classes = np.zeros(len(individuals), dtype=np.int64)
        for block in judged:
            self._remember(individuals, block.positions, block.answer, others, classes)
        again = np.flatnonzero(~verdicts.fresh)
        if len(again) and self.bound.has_ids:
            known, most_different, of_class = self.recall.find(individuals.ids[again])
            others[again[known]], classes[again[known]] = most_different[known], of_class[known]
            again = again[~known]
        for at in self._cut(individuals, again):
            self._remember(individuals, at, self._contrast_again(individuals[at]), others, classes)
        return Contrasts(verdicts, self.bound.most_different(individuals, others), classes)

    def _remember(
        self,
        individuals: Block,
        at: npt.NDArray[np.int64],
        answer: Arrays,
        others: npt.NDArray[Any],
        classes: npt.NDArray[np.int64],
    ) -> None:
        """Write counterparts and classes at their positions, and remember them."""
        if not len(at):
            return
        others[at], classes[at] = answer["rival"], answer["class"]
        if self.bound.has_ids:
            self.recall.add(individuals.ids[at], answer["rival"], answer["class"])

    def _cut(self, individuals: Block, positions: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """Cut positions into blocks."""
        while len(positions):
            size = self.bound.batch_size_for(individuals, positions, self.room)
            yield positions[:size]
            positions = positions[size:]

    def _contrast_again(self, block: Block) -> Arrays:
        families = self.bound.families(block, self.seed)
        rows = int(families.places.sum()) * self.probe.cost
        ask = partial(self._ask_rivals, families)
        return self.stored("contrast", "score", block, rows, ask).arrays

    def _ask_rivals(self, families: Families) -> Arrays:
        return self._rivals(families, self.probe.outputs(families))

    def _rivals(self, families: Families, outputs: Outputs) -> Arrays:
        classes, places = most_different_of(self.probe.model, outputs)
        return {"rival": families.most_different(places), "class": classes.astype(np.int16)}

    def _watch_stall(self, wasted: int) -> None:
        """Stop a search that has long asked only about repeats and untestable individuals."""
        blocks, total = self._idle
        self._idle = (blocks + 1, total + wasted) if wasted else (0, 0)
        if self._idle[0] >= STALL_BLOCKS and self._idle[1] >= STALL_REPEATS:
            raise Stop(StopReason.STALLED)

    def _plan(self, individuals: Block, fresh: npt.NDArray[np.int64], at: int, left: int | None) -> Request:
        """Choose the next block of fresh tests: as many as fit a block and the budget."""
        positions = fresh[at : at + self.bound.batch_size_for(individuals, fresh[at:], self.room)]
        behind = at + len(positions)
        block = individuals[positions]
        families = None
        if self.log.upcoming is None or self.bound.constraints:
            families = self.bound.families(block, self.seed)
        if families is not None and families.testable is not None:
            able = np.flatnonzero(families.testable)
            positions, block, families = positions[able], block[able], families[able]
        take = self._affordable(families, len(positions), left) if len(positions) else 0
        if take < len(positions):
            behind = int(np.searchsorted(fresh, positions[take - 1])) + 1
            positions, block = positions[:take], block[:take]
            families = None if families is None else families[np.arange(take)]
        self.untestable += behind - at - len(positions)
        return Request(positions, behind, block, families)

    def _answered(self, request: Request) -> Committed:
        """Take the answer to a block from the log, or query the model; then commit it."""
        if not len(request.positions):
            return Committed(request.positions, np.zeros(0, dtype=bool), {})
        digest = self.digest(request.block)
        frame = self.stored_frame("test", digest, len(request.block))
        if frame is None:
            assert request.families is not None
            return self.commit(request, self.record(ask(self.probe, request.families), digest), stored=False)
        self.clock.replayed()
        self.replayed_rows += int(frame.header["rows"])
        if self.steadiness.lacks_rows:
            self.steadiness.keep(request.families or self.bound.families(request.block, self.seed))
        self.findings.coding = type(self.findings.coding)(frame.header["decisions"])
        return self.commit(request, frame, stored=True)

    def _affordable(self, families: Families | None, most: int, left: int | None) -> int:
        """How many of the next tests may be judged; a stored block is taken as it was."""
        if self.log.upcoming is not None:
            return min(most, int(self.log.upcoming.header.get("tests", most)))
        take = most if left is None else min(most, left)
        if self.budget.tests is not None:
            take = min(take, self.budget.tests - self.tests)
        if self.budget.rows is not None:
            assert families is not None
            cost = np.cumsum(families.places * self.probe.cost)
            take = min(take, int(np.searchsorted(cost, self.budget.rows - self.rows, side="right")))
        if take == 0:
            raise Stop(StopReason.ROWS)
        return take

    def record(self, judged: Judged, digest: str) -> Frame:
        """Check that the model's answers are reproducible, and log its answer to a block."""
        families, outputs = judged.families, judged.outputs
        with self.clock.paused():
            self._refuse_noise(*self.steadiness.check(families, outputs))
        written = self.findings.written(judged, np.flatnonzero(judged.unfair))
        arrays = {"unfair": np.packbits(judged.unfair), **written}
        if self.probe.contrasts:
            arrays |= self._rivals(families, outputs)
        if families.valid is not None:
            arrays["places"] = families.places * self.probe.cost
        header = {
            "tests": len(families),
            "rows": int(families.places.sum()) * self.probe.cost,
            "digest": digest,
            "decisions": list(self.findings.coding.values),
        }
        frame = Frame("test", header, arrays)
        self.store(frame)
        return frame

    def check_rows(self) -> None:
        """Check the rows of small blocks together, at the end of the search."""
        self._refuse_noise(*self.steadiness.finish())

    def _refuse_noise(self, unlike: int, rows: int) -> None:
        if unlike:
            raise noisy(unlike, rows)

    def commit(self, request: Request, frame: Frame, stored: bool) -> Committed:
        """Commit a judged block in the order of the search: memo, findings, counts, budgets."""
        block, tests = request.block, int(frame.header["tests"])
        unfair = np.unpackbits(frame.arrays["unfair"], count=tests).astype(bool)
        if stored:
            self.stored_tests.add(block, unfair)
        cut, rows, reason = self._within(frame, tests)
        self.asked["test"] += rows
        wanted = self.budget.findings
        if wanted is not None and self.findings.count + int(unfair[:cut].sum()) >= wanted:
            # Judged tests behind the last wanted finding do not count; their rows do.
            cut = int(np.flatnonzero(unfair)[wanted - self.findings.count - 1]) + 1
            reason = StopReason.FINDINGS
        unfair = unfair[:cut]
        with interrupts.held:
            # Findings and tests must never differ from the log.
            self.memo.add(block.keys[:cut], unfair)
            if self.visited is not None:
                self.visited.add(block[:cut])
            self.findings.add(frame.arrays, int(unfair.sum()))
            self.findings.add_apart(frame.arrays, cut)
            self.stored_findings += int(unfair.sum()) * stored
            self.tests += cut
        self.point()
        self.cut = cut < tests
        self.check_budget()
        if self.cut:
            raise Stop(reason)
        return Committed(request.positions, unfair, frame.arrays)

    def check_same_model(self) -> None:
        """Raise if the model gives other answers than the log."""
        path, judge = self.log.path, Judge(self.probe, self.seed)
        try:
            self.stored_tests.check(judge, None if path is None else path.parent)
        finally:
            self.rows_apart += judge.rows

    def _within(self, frame: Frame, tests: int) -> tuple[int, int, StopReason]:
        """How many tests and rows of a block fit the budget, and what ends it if not all do.

        Fewer than all fit only in a block that was stored under a larger budget.
        """
        rows, budget = int(frame.header["rows"]), self.budget
        enough_tests = budget.tests is None or self.tests + tests <= budget.tests
        if enough_tests and (budget.rows is None or self.rows + rows <= budget.rows):
            return tests, rows, StopReason.TESTS
        places = frame.arrays.get("places")
        if places is None:
            places = np.full(tests, rows // tests)
        total, cut, reason = np.cumsum(places), tests, StopReason.TESTS
        if self.budget.tests is not None:
            cut = min(cut, self.budget.tests - self.tests)
        if self.budget.rows is not None:
            fitting = int(np.searchsorted(total, self.budget.rows - self.rows, side="right"))
            cut, reason = (fitting, StopReason.ROWS) if fitting < cut else (cut, reason)
        if cut == 0:
            raise Stop(StopReason.ROWS)
        return cut, int(total[cut - 1]), reason


# Stored answers, and the individuals of a run's tests.

ARRAYS: dict[str, dict[str, tuple[str, int | None]]] = {
    "label": {"answer": ("iuf", 1)},
    "score": {"answer": ("f", 2)},
    "contrast": {"rival": ("iu", None), "class": ("i", 1)},
    "gradient": {"answer": ("f", 2)},
    "swap": {"answer": ("i", 2)},
    "work": {"answer": ("biuf", None)},
}
"""Arrays of the answers to queries that are not tests: kinds of dtypes, and dimensions."""


def check_answer(frame: Frame, findings: Findings, path: Path | None, count: int | None = None) -> None:
    """Raise unless a stored answer fits its query, about ``count`` individuals if that is known.

    A checksum shows that bytes are unchanged, but another program may have written them.
    """
    try:
        if frame.kind == "test":
            _check_tests(frame, findings, count)
        elif frame.kind not in ARRAYS:
            raise ValueError(f"unknown kind of query {frame.kind!r:.40}")
        elif "rows" not in frame.header and frame.kind != "work":
            raise ValueError("'rows' is missing")
        elif count is not None:
            _check_arrays(frame, findings, count)
    except ValueError as error:
        problem = f"{path} is damaged: one of its answers cannot be read ({error})"
        raise RunError(problem, remedy="restore it from a copy") from None


def _check_tests(frame: Frame, findings: Findings, count: int | None) -> None:
    header, arrays = frame.header, frame.arrays
    for name in ("tests", "rows", "decisions"):
        if name not in header:
            raise ValueError(f"{name!r} is missing")
    tests, before = header["tests"], findings.coding.values
    if not tests or count not in (None, tests):
        raise ValueError(f"it has {tests:,} tests")
    if header["decisions"][: len(before)] != before:
        raise ValueError("its decisions differ from earlier ones")
    bits = array_of(arrays, "unfair", "u", -(-tests // 8))
    if bits.dtype != np.uint8:
        raise ValueError("unfair must be packed bits")
    findings.coding = Decisions(header["decisions"])
    findings.check(arrays, int(np.unpackbits(bits, count=tests).sum()))
    findings.check_apart(arrays, tests)
    if "places" in arrays and int(array_of(arrays, "places", "iu", tests).sum()) != header["rows"]:
        raise ValueError("places and rows differ")
    if "rival" in arrays or "class" in arrays:
        findings.check_members(arrays, "rival", tests)
        array_of(arrays, "class", "i", tests)


def _check_arrays(frame: Frame, findings: Findings, count: int) -> None:
    for name, (kinds, dimensions) in ARRAYS[frame.kind].items():
        if name == "rival":
            findings.check_members(frame.arrays, name, count)
        elif frame.kind == "label":
            Decisions(frame.header.get("decisions", ())).check(array_of(frame.arrays, name, kinds, None), count)
        else:
            array_of(frame.arrays, name, kinds, None if frame.kind == "work" else count, dimensions)


@dataclass(frozen=True, eq=False)
class Origin:
    """The model, strategy and data of a run, which are not stored and known only in the process that made it."""

    probe: ModelProbe
    strategy: Strategy
    data: Any
    """Individuals, or None."""
    visited: Visited | None
    """None for a run that was read from its directory."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A pickled run has no origin, as one read from its directory: models need not be picklable.
        return type(None), ()
