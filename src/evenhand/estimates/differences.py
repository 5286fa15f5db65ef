"""How much more one side of a pair gets than the other, on average, in the model's own unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Mask
from evenhand.estimates.intervals import Ends, Numbers, Sums

ROUNDING = 1e-9
"""Two numbers are the same where they differ by less than this part of them."""
FEWEST = 10
"""With fewer values nothing is said of how far off their mean may be."""


class Differences:
    """Sums over pairs of how much more the first gets: one column for each pair of protected values.

    Pairs that get the same number are counted apart from the others. A mean of many zeros and a few large numbers is
    far from any bell curve, and so has no interval of its own that holds; the share of pairs that differ has one, and
    so has the mean of those.
    """

    def __init__(self, pairs: int) -> None:
        self._all, self._apart = np.zeros((2, pairs)), np.zeros((2, pairs))
        """Weights and their squares."""
        self._heaviest, self._rows = np.zeros(pairs), np.zeros(pairs)
        self._sums = np.zeros((4, pairs))
        """Of pairs apart, about an origin: weighted differences; by squared weights, ones, differences and squares."""
        self._origin: Numbers | None = None

    def add(self, first: Numbers, second: Numbers, both: Mask, weight: npt.NDArray[Any] | None) -> None:
        """Add a block of (individuals, pairs); of those that ``both`` leaves out nothing is known."""
        weights = np.ones(len(both)) if weight is None else np.asarray(weight, dtype=np.float64)
        more = first - second
        apart = both & (np.abs(more) > ROUNDING * np.maximum(np.abs(first), np.abs(second)))
        if self._origin is None and apart.any():
            # Squares are summed about a typical value, so that large numbers of little spread keep their digits.
            self._origin = np.where(apart, more, 0.0).sum(axis=0) / np.maximum(apart.sum(axis=0), 1)
        off = np.where(apart, more - (0.0 if self._origin is None else self._origin), 0.0)
        squares = np.square(weights)
        self._all += np.stack([weights @ both, squares @ both])
        self._apart += np.stack([weights @ apart, squares @ apart])
        self._sums += np.stack([weights @ off, squares @ apart, squares @ off, squares @ np.square(off)])
        self._rows += apart.sum(axis=0)
        self._heaviest = np.maximum(self._heaviest, (weights[:, None] * both).max(axis=0, initial=0.0))

    @property
    def compared(self) -> Numbers:
        """The weight of all pairs."""
        return np.asarray(self._all[0])

    @property
    def apart(self) -> Numbers:
        """The weight of pairs that get two numbers."""
        return np.asarray(self._apart[0])

    @property
    def sums(self) -> Sums:
        """Pairs that get two numbers, of all."""
        return Sums(self._apart[0], self._all[0], self._apart[1], self._all[1], self._heaviest)

    @property
    def mean(self) -> Numbers:
        """How much more the first gets on average, of all pairs."""
        return np.asarray(self.mean_apart * self.apart / np.maximum(self.compared, 1e-300))

    @property
    def mean_apart(self) -> Numbers:
        """How much more the first gets on average, of pairs that get two numbers."""
        origin = np.zeros_like(self._heaviest) if self._origin is None else self._origin
        return np.asarray(np.where(self.apart > 0, origin + self._off, 0.0))

    def ends_apart(self, confidence: float) -> Ends:
        """Interval of ``mean_apart``; from minus to plus infinity where there are too few to say."""
        _, ones, offs, squares = self._sums
        spread = squares - 2 * self._off * offs + np.square(self._off) * ones
        return student(self.mean_apart, spread, self.apart, ones, self._rows, confidence)

    @property
    def _off(self) -> Numbers:
        return np.asarray(self._sums[0] / np.where(self.apart > 0, self.apart, 1.0))


@dataclass(frozen=True)
class Mean:
    """A mean of weighted values, and what there is to know of how sure it is."""

    value: float
    variance: float
    freedom: float
    rows: int

    @classmethod
    def of(cls, values: Numbers, weights: Numbers) -> Mean:
        """Take the mean of values."""
        # As shares, so that weights of any size can be squared.
        shares = weights / weights.sum()
        mean = float(shares @ values)
        count = 1 / float(np.square(shares).sum())
        spread = float(np.square(shares) @ np.square(values - mean))
        return cls(mean, spread * count / max(count - 1, 1e-9), count - 1, len(values))

    def ends(self, confidence: float) -> tuple[float, float | None, float | None]:
        """The mean with its interval; None where there are too few values."""
        return _between(self.value, self.variance, self.freedom, self.rows >= FEWEST, confidence)

    def minus(self, other: Mean, confidence: float) -> tuple[float, float | None, float | None]:
        """How much larger than another mean, of other people, with Welch's interval."""
        both = self.variance + other.variance
        parts = sum(mean.variance**2 / max(mean.freedom, 1e-9) for mean in (self, other))
        enough = min(self.rows, other.rows) >= FEWEST
        freedom = both**2 / parts if parts else min(self.freedom, other.freedom)
        return _between(self.value - other.value, both, freedom, enough, confidence)


def _between(
    mean: float, variance: float, freedom: float, enough: bool, confidence: float
) -> tuple[float, float | None, float | None]:
    from scipy.special import stdtrit

    if not enough:
        return mean, None, None
    reach = float(stdtrit(max(freedom, 1.0), (1 + confidence) / 2)) * math.sqrt(variance)
    return mean, mean - reach, mean + reach


def student(mean: Any, spread: Any, weight: Any, squares: Any, rows: Any, confidence: float) -> Ends:
    """Student's interval of means of weighted values, by sums: squared distances by squared weights, and weights.

    >>> values = np.arange(10.0)
    >>> ends = student(4.5, np.square(values - 4.5).sum(), 10, 10, 10, 0.95)
    >>> [round(float(end), 2) for end in ends]
    [2.33, 6.67]
    """
    from scipy.special import stdtrit

    mean, spread, weight = (np.asarray(v, dtype=np.float64) for v in (mean, spread, weight))
    enough = np.asarray(rows) >= FEWEST
    safe = np.where(enough, weight, 1.0)
    # So many of equal weight say as much (Kish).
    count = np.maximum(np.square(safe) / np.where(enough, squares, 1.0), 2.0)
    error = np.sqrt(np.maximum(spread, 0.0) * count / (count - 1)) / safe
    reach = np.where(enough, stdtrit(count - 1, (1 + confidence) / 2) * error, np.inf)
    return mean - reach, mean + reach
