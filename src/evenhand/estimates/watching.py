"""Asks a population block by block until a rule ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenhand import _interrupts as interrupts
from evenhand.errors import EstimateError, EvenhandError
from evenhand.estimates.bounds import Aim, bounds
from evenhand.estimates.plan import Plan
from evenhand.estimates.populations import Everyone
from evenhand.estimates.survey import Survey, nobody

FIRST = 1024
"""The first block of a sample that may end early; the next ones double."""
FIRST_TIMED = 16
"""The first block of a sample that a clock ends, which may cut a block of a slow model off."""


class TimeUp(Exception):
    """The clock ends a block between two model calls; it is not counted."""


@dataclass(frozen=True)
class Reading:
    """Where an estimate stands, for those who watch it; the interval holds at every moment."""

    samples: int
    found: int
    rows: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class ProgressOnly:
    """Shows where an estimate stands, and never ends it."""

    show: Callable[[Reading], object]

    def __call__(self, reading: Reading) -> None:
        """Show a reading."""
        self.show(reading)


class Watch:
    """Asks block by block until a rule ends it."""

    def __init__(
        self,
        plan: Plan,
        chunk: int,
        progress: Callable[[Reading], object] | None,
        cancel: interrupts.Token | None = None,
    ) -> None:
        self.plan, self.chunk, self.progress, self.cancel = plan, chunk, progress, cancel
        if self.may_stop and plan.interval not in (None, "anytime"):
            raise EstimateError(
                f"progress may stop by what the sample shows, and {plan.interval!r} does not hold then; leave interval "
                "or progress out"
            )
        self.begin(Aim())

    def begin(self, aim: Aim) -> None:
        """Start the clock."""
        self.aim, self._start = aim, time.monotonic()

    @property
    def may_stop(self) -> bool:
        """Whether who watches may end it by what it shows."""
        return self.progress is not None and not isinstance(self.progress, ProgressOnly)

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._start

    def run(self, survey: Survey) -> str:
        """Ask until a rule ends it; return which."""
        early = self.plan.open or self.progress is not None
        most = max(1, self.chunk // survey.judge.width)
        size = min(FIRST if self.plan.seconds is None else FIRST_TIMED, most) if early else most
        calls = survey.judge.probe.client.calls
        calls.between, calls.cancel = self._check_clock, self.cancel
        try:
            stop = None
            while stop is None:
                stop = self._ask(survey, size)
                size = min(most, 2 * size)
            calls.between = None
            if not survey.samples:
                raise self._nothing(survey, stop)
            survey.check_rows()
            survey.check_findings()
        except KeyboardInterrupt as interrupt:
            if not survey.samples:
                raise too_early(interrupt) from None
            interrupts.settled()
            return "interrupted"
        finally:
            calls.between = calls.cancel = None
        return stop

    def _ask(self, survey: Survey, size: int) -> str | None:
        """Ask one block; return what ends the survey, if anything does."""
        left = self._left(survey)
        if left == 0:
            return "exhausted" if self._unlimited(survey) else "samples"
        try:
            more = survey.ask(size if left is None else min(size, left))
        except TimeUp:
            return "seconds"
        if not more:
            return "exhausted"
        return self._reached(survey) if survey.samples else None

    def _check_clock(self) -> None:
        if self.plan.seconds is not None and self.seconds >= self.plan.seconds:
            raise TimeUp

    def _nothing(self, survey: Survey, stop: str) -> EvenhandError:
        """Say why there is nothing to estimate from."""
        if stop == "seconds":
            return EstimateError(
                f"seconds={self.plan.seconds:g} was too short to judge anybody; allow more, or make the calls smaller "
                "with eh.wrap(model, batch_size=...)"
            )
        return nobody(survey.space, survey.judge.untestable, survey.judge.left_out)

    def _unlimited(self, survey: Survey) -> bool:
        size = survey.population.size
        return size is not None and (self.plan.samples is None or self.plan.samples >= size)

    def _left(self, survey: Survey) -> int | None:
        """How many are still to be asked; None: no number ends it."""
        if isinstance(survey.population, Everyone):
            return None
        size = survey.population.size
        limits = [] if size is None else [size]
        if self.plan.samples is not None or (not self.plan.open and size is None):
            limits.append(self.plan.wanted)
        return min(limits) - survey.samples if limits else None

    def _reached(self, survey: Survey) -> str | None:
        plan, everyone = self.plan, isinstance(survey.population, Everyone)
        rate, low, high = 0.5, 0.0, 1.0
        if plan.half_width is not None or self.progress is not None:
            now = bounds(replace(plan, interval=None), self.aim, survey, True)
            rate, low, high = now.rate, now.low, now.high
        if self.progress is not None:
            reading = Reading(survey.samples, survey.found, survey.judge.rows, self.seconds, low, high)
            answer = self.progress(reading)
            if isinstance(answer, bool | np.bool_) and answer and not survey.complete:
                return "stopped"
        if plan.seconds is not None and self.seconds >= plan.seconds and not survey.complete:
            return "seconds"
        if everyone:
            return None
        if plan.half_width is not None and max(high - rate, rate - low) <= plan.half_width:
            return "half_width"
        return None


def too_early(interrupt: KeyboardInterrupt) -> BaseException:
    """Return what to raise where an estimate was broken off before it had anything to say.

    >>> too_early(interrupts.Cancelled())
    EstimateError('cancelled before anybody was judged; let it run longer')
    """
    if isinstance(interrupt, interrupts.Cancelled):
        return EstimateError("cancelled before anybody was judged; let it run longer")
    return interrupt
