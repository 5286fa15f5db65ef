"""The oracle judges blocks of individuals.

It tells repeats from fresh tests, charges the budget, looks up stored answers, builds counterparts, calls the model
once, applies the criterion and logs the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
from evenhand.budget import Budget, StopReason
from evenhand.check import same
from evenhand.clock import Clock
from evenhand.errors import FlakyModel, StrategyError
from evenhand.findings import Findings
from evenhand.log import Frame, Log, digest_of
from evenhand.memo import Memo
from evenhand.search import Query, Verdicts
from evenhand.space.counterparts import Families
from evenhand.space.individuals import Individuals

STALL_BLOCKS, STALL_REPEATS = 50, 1_000_000
"""A run stalls after so many blocks in a row, holding so many individuals, without a fresh test."""
QUESTIONS = ("test", "label", "score", "gradient")
TWICE = 256
CURVE = 4096


class Stop(Exception):
    """Ends a search."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Status:
    """Where a run stands, for progress displays."""

    tests: int
    findings: int
    rows: int
    seconds: float
    budget: Budget


class Oracle:
    """Answers the queries of one search."""

    def __init__(
        self,
        asker: Asker,
        budget: Budget,
        seed: int,
        chunk: int,
        log: Log,
        clock: Clock,
        progress: Callable[[Status], None] | None = None,
    ) -> None:
        self.asker, self.space, self.budget = asker, asker.space, budget
        self.seed, self.chunk, self.log, self.clock = seed, chunk, log, clock
        self._progress = progress
        self.memo = Memo()
        self.findings = Findings(asker.space)
        self.tests = self.repeats = self.untestable = self.checked = self.replayed_rows = 0
        self.asked = dict.fromkeys(QUESTIONS, 0)
        self.curve: list[tuple[int, int, int]] = []
        self._stride, self._frames = 1, 0
        self._idle = (0, 0)

    @property
    def rows(self) -> int:
        """Rows handed to the model for any question."""
        return sum(self.asked.values())

    def answer(self, query: Query) -> Any:
        """Answer one query, or raise ``Stop`` where a budget ends."""
        if query.kind == "test":
            return self._judge(query)
        if query.kind == "work":
            return self._work(query)
        if query.kind == "gradient":
            raise StrategyError("this model gives no gradients; use strategy='kosei', which needs labels only")
        return self._ask(query)

    def _judge(self, query: Query) -> Verdicts:
        individuals = query.individuals
        assert individuals is not None
        self._check_budget()
        fresh = self.memo.fresh(individuals.keys)
        self.repeats += len(individuals) - len(fresh)
        judged: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]] = []
        left = query.limit
        at = 0
        while at < len(fresh) and left != 0:
            positions, unfair, at = self._chunk(individuals, fresh, at, left)
            judged.append((positions, unfair))
            if left is not None:
                left -= len(positions)
        positions = np.concatenate([p for p, _ in judged]) if judged else fresh[:0]
        verdicts = np.concatenate([u for _, u in judged]) if judged else np.zeros(0, dtype=bool)
        self._watch_stall(0 if len(positions) else len(individuals))
        return Verdicts(individuals, positions, verdicts, self.memo)

    def _watch_stall(self, wasted: int) -> None:
        """Stop a search that has asked about nothing but repeats and untestable individuals for long."""
        blocks, total = self._idle
        self._idle = (blocks + 1, total + wasted) if wasted else (0, 0)
        if self._idle[0] >= STALL_BLOCKS and self._idle[1] >= STALL_REPEATS:
            raise Stop(StopReason.STALLED)

    def _chunk(
        self, individuals: Individuals, fresh: npt.NDArray[np.int64], at: int, left: int | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int]:
        """Judge the next fresh tests with one model call; return them, their verdicts and where to go on."""
        width = min(self.space.combinations, self.space.limit)
        positions = fresh[at : at + max(1, self.chunk // width)]
        behind = at + len(positions)
        block = individuals[positions]
        families = None
        if self.log.upcoming is None or self.space.constraints:
            families = self.space.families(block, self.seed)
        if families is not None and families.testable is not None:
            able = np.flatnonzero(families.testable)
            positions, block, families = positions[able], block[able], families[able]
        take = self._affordable(families, len(positions), left) if len(positions) else 0
        if take < len(positions):
            behind = int(np.searchsorted(fresh, positions[take - 1])) + 1
            positions, block = positions[:take], block[:take]
            families = None if families is None else families[np.arange(take)]
        self.untestable += behind - at - len(positions)
        if not len(positions):
            return positions, np.zeros(0, dtype=bool), behind
        return positions, self._account(block, self._frame(block, families)), behind

    def _affordable(self, families: Families | None, most: int, left: int | None) -> int:
        """How many of the next tests may be judged; a stored block is taken as it was."""
        if self.log.upcoming is not None:
            return min(most, int(self.log.upcoming.header.get("tests", most)))
        take = most if left is None else min(most, left)
        if self.budget.tests is not None:
            take = min(take, self.budget.tests - self.tests)
        if self.budget.rows is not None:
            assert families is not None
            cost = np.cumsum(families.places * self.asker.cost)
            take = min(take, int(np.searchsorted(cost, self.budget.rows - self.rows, side="right")))
        if take == 0:
            raise Stop(StopReason.ROWS)
        return take

    def _frame(self, block: Individuals, families: Families | None) -> Frame:
        """Return the stored answer to a block, or ask the model and store it."""
        digest = self._digest(block)
        frame = self.log.take("test", digest)
        if frame is not None:
            self.clock.replayed()
            self.replayed_rows += int(frame.header["rows"])
            self.findings.decisions = type(self.findings.decisions)(frame.header["decisions"])
            return frame
        assert families is not None
        frame = self._ask_families(block, families, digest)
        self._store(frame)
        return frame

    def _ask_families(self, block: Individuals, families: Families, digest: str) -> Frame:
        outputs = self.asker.outputs(families)
        judgement = self.asker.criterion.judge(outputs)
        if self.tests == 0:
            self._ask_twice(families)
        found = np.flatnonzero(judgement.unfair)
        first, second = judgement.first[found], judgement.second[found]
        assert outputs.labels is not None
        decisions = self.findings.decisions
        arrays = {
            "unfair": np.packbits(judgement.unfair),
            "individual": families.members(found, first).stored,
            "counterpart": families.members(found, second).stored,
            "decision": decisions.encode(outputs.labels[found, first]),
            "counterpart_decision": decisions.encode(outputs.labels[found, second]),
        }
        if self.asker.criterion.needs_scores:
            arrays["gap"] = judgement.gap[found]
        if families.legal is not None:
            arrays["places"] = families.places * self.asker.cost
        header = {
            "tests": len(block),
            "rows": int(families.places.sum()) * self.asker.cost,
            "digest": digest,
            "decisions": list(decisions.values),
        }
        return Frame("test", header, arrays)

    def _ask_twice(self, families: Families) -> None:
        """Ask some rows of the first block again: a model that answers them differently cannot be judged."""
        rows = families[np.arange(min(len(families), TWICE))].asked[:TWICE]
        # The same rows in the same order: what differs now is the model's own noise.
        first, again = self.asker.both(rows)[0], self.asker.both(rows)[0]
        self.checked += 2 * len(rows) * self.asker.cost
        noise = float(np.mean(~same(first, again)))
        if noise:
            raise FlakyModel(
                f"the model gave two answers to {noise:.1%} of {len(rows)} rows that were asked twice; switch off what "
                "is random in it (dropout, sampling, temperature), or average its answers",
                noise,
            )

    def _account(self, block: Individuals, frame: Frame) -> npt.NDArray[np.bool_]:
        """Book a judged block: memo, findings, counts, budgets."""
        tests = int(frame.header["tests"])
        unfair = np.unpackbits(frame.arrays["unfair"], count=tests).astype(bool)
        pairs = {name: array for name, array in frame.arrays.items() if name not in ("unfair", "places")}
        cut, rows, reason = self._within(frame, tests)
        self.asked["test"] += rows
        wanted = self.budget.findings
        if wanted is not None and self.findings.count + int(unfair[:cut].sum()) >= wanted:
            # Judged tests behind the last wanted finding do not count; their rows do.
            cut = int(np.flatnonzero(unfair)[wanted - self.findings.count - 1]) + 1
            reason = StopReason.FINDINGS
        if cut < tests:
            unfair = unfair[:cut]
            pairs = {name: array[: int(unfair.sum())] for name, array in pairs.items()}
        self.memo.add(block.keys[:cut], unfair)
        self.findings.add(pairs)
        self.tests += cut
        self._point()
        self._check_budget()
        if cut < tests:
            raise Stop(reason)
        return unfair

    def _within(self, frame: Frame, tests: int) -> tuple[int, int, StopReason]:
        """How many tests and rows of a block fit the budget, and what ends it if not all do.

        Fewer than all fit only in a block that was stored under a larger budget.
        """
        places = frame.arrays.get("places")
        if places is None:
            places = np.full(tests, int(frame.header["rows"]) // tests)
        total, cut, reason = np.cumsum(places), tests, StopReason.TESTS
        if self.budget.tests is not None:
            cut = min(cut, self.budget.tests - self.tests)
        if self.budget.rows is not None:
            fitting = int(np.searchsorted(total, self.budget.rows - self.rows, side="right"))
            cut, reason = (fitting, StopReason.ROWS) if fitting < cut else (cut, reason)
        if cut == 0:
            raise Stop(StopReason.ROWS)
        return cut, int(total[cut - 1]), reason

    def _check_budget(self) -> None:
        if self.space.countable and self.tests >= self.space.tests:
            raise Stop(StopReason.EXHAUSTED)
        for reason, spent, limit in (
            (StopReason.FINDINGS, self.findings.count, self.budget.findings),
            (StopReason.TESTS, self.tests, self.budget.tests),
            (StopReason.ROWS, self.rows, self.budget.rows),
            (StopReason.SECONDS, self.clock.seconds, self.budget.seconds),
        ):
            if limit is not None and spent >= limit:
                raise Stop(reason)

    def _ask(self, query: Query) -> npt.NDArray[Any]:
        """Answer a question about the individuals themselves."""
        assert query.individuals is not None
        self._check_budget()
        rows = query.individuals.rows
        digest = self._digest(query.individuals)
        frame = self.log.take(query.kind, digest)
        if frame is None:
            if self.budget.rows is not None and self.rows + len(rows) > self.budget.rows:
                raise Stop(StopReason.ROWS)
            ask = self.asker.labels if query.kind == "label" else self.asker.scores
            parts = [ask(rows[i : i + self.chunk]) for i in range(0, len(rows), self.chunk)]
            answer = np.concatenate(parts) if parts else np.zeros(0)
            values: list[Any] = []
            if answer.dtype.kind not in "biuf":
                values, answer = _coded(answer)
            frame = Frame(query.kind, {"digest": digest, "rows": len(rows), "values": values}, {"answer": answer})
            self._store(frame)
        else:
            self.clock.replayed()
            self.replayed_rows += len(rows)
        self.asked[query.kind] += len(rows)
        self._point()
        answer = frame.arrays["answer"]
        return np.array(frame.header["values"], dtype=object)[answer] if frame.header["values"] else answer

    def _work(self, query: Query) -> Any:
        assert query.call is not None
        self._check_budget()
        frame = self.log.take("work", "")
        if frame is None:
            frame = Frame("work", {"digest": ""}, {"answer": np.asarray(query.call())})
            self._store(frame)
        else:
            self.clock.replayed()
        return frame.arrays["answer"]

    def _digest(self, block: Individuals) -> str:
        # Only a log that is kept is ever compared.
        return "" if self.log.path is None else digest_of(block.stored)

    def _store(self, frame: Frame) -> None:
        self.log.append(frame, self.clock.seconds)

    def _point(self) -> None:
        """Add a point to the discovery curve; thin it out when it grows long."""
        self._frames += 1
        if self._frames % self._stride == 0:
            self.curve.append((self.tests, self.rows, self.findings.count))
            if len(self.curve) > CURVE:
                self.curve = self.curve[1::2]
                self._stride *= 2
        if self._progress is not None:
            status = Status(self.tests, self.findings.count, self.rows, self.clock.seconds, self.budget)
            self._progress(status)


def _coded(labels: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.int32]]:
    import pandas as pd

    codes, uniques = pd.factorize(labels)
    return [v.item() if isinstance(v, np.generic) else v for v in uniques], codes.astype(np.int32)
