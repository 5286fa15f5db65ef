"""The time that a run has taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt


class Clock:
    """Seconds spent on a run, added up over resumes; answers from the log bring their own time."""

    def __init__(self, stored: npt.NDArray[np.float64]) -> None:
        self._stored = stored
        self._frames = 0
        self._start = time.monotonic()
        self._before = 0.0
        self._end: float | None = None

    @property
    def seconds(self) -> float:
        """Time spent on this run until now."""
        return self._before + ((time.monotonic() if self._end is None else self._end) - self._start)

    def stop(self) -> None:
        """End the time of the search: what comes after it is outside all budgets."""
        self._end = time.monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of what is outside all budgets."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._start += time.monotonic() - start

    def replayed(self) -> None:
        """Set the clock to where it stood when the next stored answer was given."""
        if self._frames < len(self._stored):
            self._before = float(self._stored[self._frames])
        self._frames += 1
        self._start = time.monotonic()
