"""The ledger of a run: budgets, what was spent, stored answers, the discovery curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from evenhand import interrupts
from evenhand.budget import Budget, StopReason
from evenhand.clock import Clock
from evenhand.log import Frame, Log, digest_of
from evenhand.space.ground import Block, BoundSpace

QUESTIONS = ("test", "label", "score", "gradient")
CURVE = 4096
FIRST = 16
"""Rows of a run's first block; each block may hold as many as were asked before it, up to the chunk."""
Arrays = dict[str, npt.NDArray[Any]]


class Stop(Exception):
    """Ends a search."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Stored(Log):
    """A log that is only read: behind its last answer there are none."""

    def take(self, kind: str, digest: str) -> Frame | None:
        """Return the stored answer to this question, or stop the search."""
        frame = super().take(kind, digest)
        if frame is None:
            raise Stop(StopReason.INTERRUPTED)
        return frame


@dataclass(frozen=True)
class Status:
    """Where a run stands, for progress displays."""

    tests: int
    findings: int
    rows: int
    seconds: float
    budget: Budget


class Ledger:
    """Books what a run asks: within the budget, each answer stored once and taken from the store the next time."""

    def __init__(
        self,
        ground: BoundSpace,
        budget: Budget,
        chunk: int,
        log: Log,
        clock: Clock,
        progress: Callable[[Status], None] | None = None,
    ) -> None:
        self.ground, self.budget, self.chunk, self.log, self.clock = ground, budget, chunk, log, clock
        self.findings = ground.findings()
        self.tests = self.replayed_rows = 0
        self.asked = dict.fromkeys(QUESTIONS, 0)
        self.curve: list[tuple[int, int, int]] = []
        self.cancel: interrupts.Token | None = None
        self._progress = progress
        self._stride, self._frames = 1, 0

    @property
    def rows(self) -> int:
        """Rows handed to the model for any question."""
        return sum(self.asked.values())

    @property
    def room(self) -> int:
        """The most rows of the next block: as many as were asked before, so that a clock never loses much.

        It depends on nothing else, so that blocks are the same on every machine and in a resumed run.
        """
        return min(self.chunk, max(FIRST, self.rows))

    def check_clock(self) -> None:
        """Stop where the time is up; a block that is being asked is not booked."""
        if self.budget.seconds is not None and self.clock.seconds >= self.budget.seconds:
            raise Stop(StopReason.SECONDS)

    def check_budget(self) -> None:
        """Stop where a budget is spent, where somebody has pressed Ctrl-C, or where the run is cancelled."""
        interrupts.check(self.cancel)
        if self.ground.countable and self.tests >= self.ground.tests:
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
        """Return the stored answer to a question, or ask the model and store it; stop where there are no rows left."""
        self.check_budget()
        if self.budget.rows is not None and self.rows + rows > self.budget.rows:
            raise Stop(StopReason.ROWS)
        digest = self.digest(block)
        frame = self.log.take(kind, digest)
        if frame is None:
            arrays = ask()
            frame = Frame(kind, {"digest": digest, "rows": rows, **header}, arrays)
            self.store(frame)
        else:
            self.clock.replayed()
            self.replayed_rows += rows
        self.asked[question] += rows
        self.point()
        return frame

    def digest(self, block: Block) -> str:
        """Name a block by its contents."""
        # Only a log that is kept is ever compared.
        return "" if self.log.path is None else digest_of(block.stored)

    def store(self, frame: Frame) -> None:
        """Keep an answer; first make sure that the model is still the one that gave those stored before."""
        self.recognise()
        self.log.append(frame, self.clock.seconds)

    def recognise(self) -> None:
        """Raise where the model answers otherwise than the log says."""

    def point(self) -> None:
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
