"""The time that a run has taken."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt


class Clock:
    """Seconds spent on a run, added up over resumes; answers from the log bring their own time."""

    def __init__(self, stored: npt.NDArray[np.float64]) -> None:
        self._stored = stored
        self._frames = 0
        self._start = time.monotonic()
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """Time spent on this run until now."""
        return self._before + (time.monotonic() - self._start)

    def replayed(self) -> None:
        """Set the clock to where it stood when the next stored answer was given."""
        if self._frames < len(self._stored):
            self._before = float(self._stored[self._frames])
        self._frames += 1
        self._start = time.monotonic()
