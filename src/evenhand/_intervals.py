"""Intervals and tests of shares: of samples of a fixed size, and of samples that are watched while they grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Ends = tuple[Any, Any]
"""Lower and upper ends: numbers or arrays, as the counts are."""
Counts = npt.ArrayLike
LOW_RATES = (0.2, 1.0)
"""The beta distribution of the mixture. Most of its mass is near 0: discrimination is rare in most models, and a
reader wants to know early that it is. Where nothing is found the interval is then about 1.5 times as wide as the exact
one for a fixed sample; at all rates, about twice."""
EITHER_WAY = (0.5, 0.5)
HALVINGS = 64


def clopper_pearson(found: Counts, samples: Counts, confidence: float = 0.95) -> Ends:
    """Exact interval of a share, after ``found`` of ``samples`` independent individuals.

    Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934: all shares that neither tail of
    the binomial distribution rejects. It holds whatever the share is, at the price of being somewhat wide. None
    sampled: from 0 to 1.

    >>> low, high = clopper_pearson(3, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.0062 0.0852'
    """
    from scipy.special import betainccinv, betaincinv

    k, n = _counts(found, samples)
    tail = (1 - confidence) / 2
    with np.errstate(all="ignore"):
        low = np.where(k > 0, betaincinv(k, n - k + 1, tail), 0.0)
        high = np.where(k < n, betainccinv(k + 1, n - k, tail), 1.0)
    return low, high


def at_most(found: Counts, samples: Counts, confidence: float = 0.95) -> Numbers:
    """One-sided upper bound: the share is at most this, with the given confidence.

    After no finding this is what there is to say, and about three over the number of samples.

    >>> f"{at_most(0, 100_000):.6%}"
    '0.002996%'
    """
    return np.asarray(clopper_pearson(found, samples, 1 - 2 * (1 - confidence))[1])


def hypergeometric(found: Counts, samples: Counts, size: Counts, confidence: float = 0.95) -> Ends:
    """Exact interval of the share among ``size`` rows of which ``samples`` were asked, each at most once.

    What Clopper and Pearson do with the binomial distribution, with the hypergeometric one. Where all were asked, the
    share is known and both ends are equal.

    >>> low, high = hypergeometric(3, 100, 200)
    >>> f"{low:.3f} {high:.3f}", hypergeometric(7, 200, 200)[0] == 7 / 200
    ('0.015 0.065', np.True_)
    """
    from scipy.stats import hypergeom

    k, n = _counts(found, samples)
    total = np.broadcast_to(np.asarray(size, dtype=np.float64), k.shape)
    # A hair less: what only a rounding error rejects is not rejected.
    tail = (1 - confidence) / 2 * (1 - 1e-9)
    likely = np.clip(np.floor(k * (total + 1) / np.maximum(n, 1)), k, total - n + k)
    # With more unfair rows in all, as few as were found become less likely, and as many as were found likelier.
    fewest = edge(lambda unfair: hypergeom.sf(k - 1, total, unfair, n) > tail, likely, k)
    most = edge(lambda unfair: hypergeom.cdf(k, total, unfair, n) > tail, likely, total - n + k)
    return fewest / total, most / total


def tango(up: Counts, down: Counts, samples: Counts, confidence: float = 0.95) -> Ends:
    """Interval of how much a share rose among the same individuals, of which some turned ``up`` and some ``down``.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
    Statistics in Medicine 1998: all differences that the score test does not reject. It leaves out 0 where McNemar's
    test rejects it, and has width where none turned.

    >>> low, high = tango(10, 0, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.0552 0.1744'
    """
    from scipy.special import ndtri

    b, n = _counts(up, samples)
    c, n = np.broadcast_arrays(np.asarray(down, dtype=np.float64), n)
    critical = float(ndtri((1 + confidence) / 2)) ** 2

    def likely(apart: Numbers) -> Any:
        # The likeliest share of those who turn down, if the shares differ by this much.
        slope = (2 * n - b + c) * apart - b - c
        falls = (np.sqrt(np.maximum(slope**2 + 8 * n * c * apart * (1 - apart), 0.0)) - slope) / (4 * n)
        spread = n * np.maximum(2 * falls + apart * (1 - apart), 0.0)
        return (b - c - n * apart) ** 2 <= critical * spread

    seen = (b - c) / n
    return _border(likely, seen, np.full_like(seen, -1.0)), _border(likely, seen, np.full_like(seen, 1.0))


def _border(inside: Callable[[Numbers], Any], near: Numbers, far: Numbers) -> Numbers:
    """Go from ``near``, which is inside, towards ``far`` until it no longer is."""
    for _ in range(54):
        middle = (near + far) / 2
        holds = np.asarray(inside(middle), dtype=bool)
        near, far = np.where(holds, middle, near), np.where(holds, far, middle)
    return near


def lln(found: Counts, size: int, confidence: float = 0.95) -> Ends:
    """Interval of AEQUITAS: the mean share of ``K`` experiments of ``size`` individuals, and its normal interval.

    Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing", ASE 2018, section 4.3, with K = 400 and a
    size of 1000. ``found`` has one count for each experiment, in its last axis. At low rates it is too narrow: where
    no experiment found anything it has no width at all.

    >>> low, high = lln([3, 5, 4, 4], 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.0320 0.0480'
    """
    from scipy.special import ndtri

    shares = np.asarray(found, dtype=np.float64) / size
    mean = shares.mean(axis=-1)
    reach = ndtri((1 + confidence) / 2) * shares.std(axis=-1, ddof=1) / np.sqrt(shares.shape[-1])
    return np.maximum(mean - reach, 0.0), np.minimum(mean + reach, 1.0)


def weighted(unfair: npt.NDArray[np.bool_], weights: Numbers, confidence: float = 0.95) -> Ends:
    """Interval of a weighted share that also holds where heavy rows are treated differently more often.

    Fay and Feuer, "Confidence intervals for directly standardized rates", Statistics in Medicine 1997, with beta
    instead of gamma distributions: the upper end counts one more unfair row, as heavy as the heaviest. Equal weights
    give Clopper and Pearson's interval.

    >>> low, high = weighted(np.arange(100) < 3, np.ones(100))
    >>> f"{low:.4f} {high:.4f}"
    '0.0062 0.0852'
    """
    parts = (weights[unfair], weights)
    found, of = (np.asarray(values.sum()) for values in parts)
    found_squares, squares = (np.asarray(np.square(values).sum()) for values in parts)
    sums = Sums(found, of, found_squares, squares, np.asarray(weights.max(initial=0.0)))
    low, high = fay_feuer(sums, confidence)
    return np.float64(low), np.float64(high)


@dataclass(frozen=True)
class Sums:
    """What there is to know of weighted rows, some of which were found: sums of their weights and of the squares."""

    found: Numbers
    of: Numbers
    found_squares: Numbers
    squares: Numbers
    heaviest: Numbers


def fay_feuer(sums: Sums, confidence: float) -> Ends:
    """Interval of weighted shares, from sums alone: see ``weighted``. No rows: from 0 to 1."""
    from scipy.special import betainccinv, betaincinv

    tail, most = (1 - confidence) / 2, sums.found > sums.of / 2
    with np.errstate(all="ignore"):
        rate, squares, known, upper = _betas(sums, most)
        fewer = np.where(squares > 0, np.minimum(known, rate / squares), known)
        low = np.where(rate > 0, betaincinv(fewer * rate, fewer * (1 - rate) + 1, tail), 0.0)
        high = betainccinv(*upper, tail)
    some = sums.of > 0
    return (
        np.where(some, np.where(most, 1 - high, low), 0.0),
        np.where(some, np.where(most, 1 - low, high), 1.0),
    )


def fay_feuer_test(sums: Sums) -> Numbers:
    """p-value against "half of the weight", which the interval of the same confidence just reaches.

    Equal weights give the binomial test.

    >>> one, ten, nine = np.array(1.0), np.array(10.0), np.array(9.0)
    >>> f"{fay_feuer_test(Sums(nine, ten, nine, ten, one)):.4f}"
    '0.0215'
    """
    from scipy.special import betaincc

    with np.errstate(all="ignore"):
        *_, upper = _betas(sums, sums.found > sums.of / 2)
        tail = betaincc(*upper, 0.5)
    return np.asarray(np.where(sums.of > 0, np.minimum(1.0, 2 * tail), 1.0), dtype=np.float64)


def _betas(sums: Sums, most: Any) -> tuple[Numbers, Numbers, Numbers, tuple[Numbers, Numbers]]:
    """The rarer side's share, its squares, how many rows all say as much as, and the upper end's beta distribution."""
    rate = np.where(most, sums.of - sums.found, sums.found) / sums.of
    squares = np.where(most, sums.squares - sums.found_squares, sums.found_squares) / sums.of**2
    squares, every, heaviest = np.maximum(squares, 0.0), sums.squares / sums.of**2, sums.heaviest / sums.of
    apart = squares * (1 - rate) ** 2 + np.maximum(every - squares, 0.0) * rate**2
    # So many rows of equal weight say as much: by all weights, by those of the unfair, by what the share varies.
    known = np.where((apart > 0) & (rate > 0), np.minimum(1 / every, rate * (1 - rate) / apart), 1 / every)
    more = np.minimum(known, (rate + heaviest) / (squares + heaviest**2))
    top = np.minimum(1.0, rate + heaviest)
    return rate, squares, known, (more * top, more * (1 - top) + 1)


def edge(inside: Callable[[Numbers], Any], start: Numbers, end: Numbers) -> Numbers:
    """Go from ``start``, which is inside, towards ``end``: the last whole number that still is."""
    near, far = np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)
    done = np.asarray(inside(far), dtype=bool)
    near = np.where(done, far, near)
    while (np.abs(far - near) > 1).any():
        middle = np.trunc((near + far) / 2)
        holds = np.asarray(inside(middle), dtype=bool)
        near, far = np.where(holds, middle, near), np.where(holds, far, middle)
    return near


def _counts(found: Counts, samples: Counts) -> tuple[Numbers, Numbers]:
    k, n = np.broadcast_arrays(np.asarray(found, dtype=np.float64), np.asarray(samples, dtype=np.float64))
    return k, n


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
    # Finding none does not refute a share of 0, nor does finding all refute a share of 1.
    return np.where(k > 0, low, 0.0), np.where(k < n, high, 1.0)


NONE, ALL, CONCENTRATIONS = 0.68, 0.019, tuple(10.0 ** (0.5 + 1.25 * power) for power in range(5))
"""The mixture of ``steady``: the weights of bets on finding none and all, and how concentrated the others are."""
PLANNED = 0.14, 0.17, 0.2
"""The parts of the risk that ``planned`` takes, at the planned moment, of shares below its interval: of those below a
third, of those up to two thirds, and of the others. Of shares above it the mirror image; both together take 0.34."""


def steady(found: Counts, samples: Counts, confidence: float = 0.95) -> Ends:
    """Interval of a share that holds at every moment, at most about twice as wide as Clopper and Pearson's.

    Each share is tested by bets on shares around it, near and far, of which one suits every size of sample; a further
    bet, that nothing will be found, is refuted by the first finding.

    >>> low, high = steady(3, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.0004 0.1419'
    """
    from scipy.special import betaln, logsumexp, xlog1py, xlogy

    k, n = _counts(found, samples)
    with np.errstate(divide="ignore"):
        extreme = np.log(NONE * (k == 0) + ALL * (k == n))

    def refuted(share: Numbers) -> Numbers:
        share = np.clip(share, 1e-15, 1 - 1e-15)
        bets = [
            betaln(c * share + k, c * (1 - share) + n - k) - betaln(c * share, c * (1 - share)) for c in CONCENTRATIONS
        ]
        others = logsumexp(np.stack(bets), axis=0) + math.log((1 - NONE - ALL) / len(CONCENTRATIONS))
        evidence = np.logaddexp(extreme, others) - xlogy(k, share) - xlog1py(n - k, -share)
        return np.asarray(evidence > -math.log(1 - confidence))

    rate = k / np.maximum(n, 1)
    low = np.where(k > 0, _crossing(refuted, rate, np.zeros_like(rate)), 0.0)
    return low, np.where(k < n, _crossing(refuted, rate, np.ones_like(rate)), 1.0)


def planned(
    found: int, samples: int, plan: tuple[int, int] | None = None, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of a share that holds at every moment, and is narrower at one that was planned.

    ``plan`` is how many were found among how many, at that moment. Most of the risk is kept for all other moments, so
    that it is safe to stop at any. Where nothing is found the upper end is Clopper and Pearson's, or a little more.

    >>> watched, at_the_plan = planned(30, 1000), planned(30, 1000, (30, 1000))
    >>> [f"{low:.4f} {high:.4f}" for low, high in (watched, at_the_plan)]
    ['0.0130 0.0560', '0.0183 0.0451']
    """
    risk = 1 - confidence
    low, high = (float(end) for end in steady(found, samples, 1 - (1 - 2 * PLANNED[1]) * risk))
    if not found:
        return 0.0, max(high, float(clopper_pearson(0, samples, confidence)[1]))
    if plan is None:
        return low, high
    at_plan = _planned_low(*plan, risk), 1 - _planned_low(plan[1] - plan[0], plan[1], risk)
    narrower = max(low, at_plan[0]), min(high, at_plan[1])
    # What is seen later may contradict the plan's interval, which is then not worth more than the other.
    return narrower if narrower[0] <= narrower[1] else (low, high)


def _planned_low(found: int, samples: int, risk: float) -> float:
    """Return the lower end of the interval at the planned moment."""
    low, middle, high = (float(clopper_pearson(found, samples, 1 - 2 * part * risk)[0]) for part in PLANNED)
    return low if low < 1 / 3 else max(middle, 1 / 3) if middle < 2 / 3 else max(high, 2 / 3)


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
