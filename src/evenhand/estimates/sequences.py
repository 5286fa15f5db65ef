"""Intervals that may be watched: they hold at every moment at once, so that one may stop whenever one likes.

A confidence sequence of Robbins's kind. Bet on what the next verdicts will be, by a mixture of all shares; the bet's
likelihood over that of the true share is a martingale that starts at 1, so it ever exceeds ``1 / alpha`` with a chance
of at most ``alpha`` (Ville). All shares that it has not refuted are the interval. With a beta distribution as the
mixture the bet is beta-binomial.

Robbins, "Statistical methods related to the law of the iterated logarithm", 1970. For rows asked without repetition:
Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand.estimates.intervals import Counts, Ends, Numbers, edge

LOW_RATES = (0.2, 1.0)
"""The beta distribution of the mixture. Most of its mass is near 0: discrimination is rare in most models, and a
reader wants to know early that it is. Where nothing is found the interval is then about 1.5 times as wide as the exact
one for a fixed sample; at all rates, about twice."""
EITHER_WAY = (0.5, 0.5)
HALVINGS = 64


def anytime(found: Counts, samples: Counts, confidence: float = 0.95) -> Ends:
    """Interval of a share that holds at every moment of a growing sample.

    >>> low, high = anytime(3, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.0023 0.1161'
    """
    from scipy.special import xlog1py, xlogy

    k, n = np.broadcast_arrays(np.asarray(found, dtype=np.float64), np.asarray(samples, dtype=np.float64))
    least = _bet(k, n, LOW_RATES) + math.log(1 - confidence)

    def refuted(share: Numbers) -> Numbers:
        return np.asarray(xlogy(k, share) + xlog1py(n - k, -share) < least)

    rate = k / np.maximum(n, 1)
    low = _crossing(refuted, rate, np.zeros_like(rate))
    high = _crossing(refuted, rate, np.ones_like(rate))
    # Nobody found does not refute a share of 0, nor does nobody else refute one of 1.
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


def anytime_of_rows(found: Counts, samples: Counts, size: Counts, confidence: float = 0.95) -> Ends:
    """Interval of the share among ``size`` rows that holds at every moment, while they are asked each at most once.

    >>> low, high = anytime_of_rows(3, 100, 200)
    >>> f"{low:.3f} {high:.3f}"
    '0.015 0.090'
    """
    from scipy.special import gammaln

    k, n = np.broadcast_arrays(np.asarray(found, dtype=np.float64), np.asarray(samples, dtype=np.float64))
    total = np.broadcast_to(np.asarray(size, dtype=np.float64), k.shape)
    least = _bet(k, n, LOW_RATES) + math.log(1 - confidence)

    def falling(top: Numbers, count: Numbers) -> Numbers:
        return np.asarray(gammaln(top + 1) - gammaln(np.maximum(top - count, 0) + 1))

    def stands(unfair: Numbers) -> Numbers:
        # The chance of the verdicts in their order: so many of the unfair rows, so many of the others.
        chance = falling(unfair, k) + falling(total - unfair, n - k) - falling(total, n)
        # What is refuted by a rounding error alone is not.
        return np.asarray(chance > least - 1e-9)

    likely = np.clip(np.floor(k * (total + 1) / np.maximum(n, 1)), k, total - n + k)
    return edge(stands, likely, k) / total, edge(stands, likely, total - n + k) / total


def anytime_test(first: Counts, second: Counts) -> Numbers:
    """p-value against "both sides equally often" that holds at every moment of a growing sample.

    >>> f"{anytime_test(9, 1):.3f} {anytime_test(90, 10):.1e}"
    '0.105 1.3e-15'
    """
    k, other = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    evidence = _bet(k, k + other, EITHER_WAY) - (k + other) * math.log(0.5)
    return np.asarray(np.exp(-np.clip(evidence, 0.0, 700.0)), dtype=np.float64)


def spent(risk: float, look: int) -> float:
    """The part of a risk that one look may take, so that all looks together, however many, take no more than it.

    For intervals that hold at a fixed moment only: the sum of ``1 / look**2`` is ``pi**2 / 6``.

    >>> f"{spent(0.05, 1):.4f} {sum(spent(0.05, look) for look in range(1, 10_000)):.4f}"
    '0.0304 0.0500'
    """
    return risk * 6 / (math.pi * max(look, 1)) ** 2


def _bet(k: Numbers, n: Numbers, mixture: tuple[float, float]) -> Numbers:
    """Logarithm of the chance that the mixture gave to these very verdicts, in their order."""
    from scipy.special import betaln

    a, b = mixture
    return np.asarray(betaln(a + k, b + n - k) - betaln(a, b))


def _crossing(refuted: Callable[[Numbers], Any], inside: Numbers, outside: Numbers) -> Numbers:
    """Halve the way between a share that stands and one that may be refuted."""
    near, far = np.array(inside), np.array(outside)
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        gone = refuted(middle)
        near, far = np.where(gone, near, middle), np.where(gone, middle, far)
    return far
