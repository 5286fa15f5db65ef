"""Accounting of a run: budget and costs, stored answers, the discovery curve."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand.budget import Budget, StopReason
from evenhand.engine.store import Frame, Log, digest_of
from evenhand.errors import RunError
from evenhand.spaces.base import Block, BoundSpace
from evenhand.spaces.findings import Decisions, Findings, array_of

QUESTIONS = ("test", "label", "score", "gradient")
CURVE = 4096
"""Maximum number of points of a discovery curve."""
FIRST = 16
"""Rows of a run's first block; each block may have as many as all before it, up to the chunk."""
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
        """Model rows of all queries."""
        return sum(self.asked.values())

    @property
    def room(self) -> int:
        """Maximum rows of the next block: as many as all blocks before, so that a time limit never loses much.

        It depends on nothing else, so blocks are the same on every machine and in a resumed run.
        """
        return min(self.chunk, max(FIRST, self.rows))

    def check_clock(self) -> None:
        """Stop when the time is up; an unfinished block does not count."""
        if self.budget.seconds is not None and self.clock.seconds >= self.budget.seconds:
            raise Stop(StopReason.SECONDS)

    def check_budget(self) -> None:
        """Stop when a budget is spent, after Ctrl-C, or when the run is cancelled."""
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
        start = time.monotonic()
        try:
            yield
        finally:
            self._start += time.monotonic() - start

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

    A checksum shows that bytes are as they were written, but another program may have written them.
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
