"""Asks a population block by block until a rule ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenhand.errors import EstimateError
from evenhand.measuring.bounds import Aim, bounds
from evenhand.measuring.plan import Plan
from evenhand.measuring.populations import Everyone
from evenhand.measuring.survey import Survey, nobody

FIRST = 1024
"""The first block of a sample that may end early; the next ones double."""


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
class Onlooker:
    """Shows where an estimate stands, and never ends it."""

    show: Callable[[Reading], object]

    def __call__(self, reading: Reading) -> None:
        """Show a reading."""
        self.show(reading)


class Watch:
    """Asks block by block until a rule ends it."""

    def __init__(self, plan: Plan, chunk: int, progress: Callable[[Reading], object] | None) -> None:
        self.plan, self.chunk, self.progress = plan, chunk, progress
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
        return self.progress is not None and not isinstance(self.progress, Onlooker)

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._start

    def run(self, survey: Survey) -> str:
        """Ask until a rule ends it; return which."""
        early = self.plan.open or self.progress is not None
        most = max(1, self.chunk // survey.judge.width)
        size = min(FIRST, most) if early else most
        try:
            stop = None
            while stop is None:
                left = self._left(survey)
                if left == 0:
                    stop = "exhausted" if self._unlimited(survey) else "samples"
                elif not survey.ask(size if left is None else min(size, left)):
                    stop = "exhausted"
                elif survey.samples:
                    stop = self._reached(survey)
                size = min(most, 2 * size)
            if not survey.samples:
                raise nobody(survey.space, survey.judge.untestable, survey.judge.left_out)
            survey.check_findings()
        except KeyboardInterrupt:
            if not survey.samples:
                raise
            return "interrupted"
        return stop

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
        if everyone:
            return None
        if plan.half_width is not None and max(high - rate, rate - low) <= plan.half_width:
            return "half_width"
        return "seconds" if plan.seconds is not None and self.seconds >= plan.seconds else None
