"""Which values are favoured, by paired comparisons: shares, differences of scores, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._intervals import (
    Ends,
    Numbers,
    Sums,
    anytime,
    anytime_test,
    clopper_pearson,
    fay_feuer,
    fay_feuer_test,
    spent,
)
from evenhand.engine.judge import Mask

if TYPE_CHECKING:
    from evenhand.estimates.pair_counts import Table

Verdict = Literal[
    "favours first", "favours second", "both ways", "different", "none found", "insufficient evidence", "not received"
]
BOTH_WAYS = 0.75
"""If no side is favoured in more than this share of the unequal pairs, the values differ in both directions."""
FAVOUR = 0.8
"""The part of a net difference's error probability for who is favoured; the rest is for how often pairs are unequal."""
QUANTILES = (0.5, 0.9, 0.99, 1.0)
ROUNDING = 1e-9
"""Numbers that differ by a smaller relative amount are equal."""
FEWEST = 10
"""With fewer values, their mean has no interval."""


@dataclass(frozen=True)
class Comparison:
    """One pair of protected values: the same individuals with the first and with the second value."""

    first: dict[str, Any]
    second: dict[str, Any]
    pairs: float
    """Individuals for which both values are valid; with weights, the effective number."""
    different: float
    rate: float
    low: float
    high: float
    first_favoured: float | None
    second_favoured: float | None
    gross: float | None
    """Share of pairs in which one of the two is favoured."""
    net: float | None
    """Share in which the first is favoured, minus the share in which the second is."""
    net_low: float | None
    net_high: float | None
    """The interval of the net difference, which holds for all comparisons of an estimate simultaneously."""
    p_value: float | None
    """McNemar's exact test of "both equally often", for this pair alone; None if all individuals were judged."""
    gaps: dict[str, float] | None
    """Distances of the pair's scores: mean, quantiles, and the mean advantage of the first."""
    verdict: Verdict
    """Follows from the intervals: one side is favoured if the interval of the net difference excludes 0."""
    difference: float | None = None
    """For a criterion that compares scores: how much more the first gets on average, in the model's unit."""
    difference_low: float | None = None
    difference_high: float | None = None
    """Its interval holds for all comparisons of an estimate simultaneously; None if too few pairs differ."""

    @property
    def first_share(self) -> float | None:
        """The share of pairs in which the first is favoured."""
        return None if self.first_favoured is None else self.first_favoured / max(self.pairs, 1)

    @property
    def second_share(self) -> float | None:
        """The share of pairs in which the second is favoured."""
        return None if self.second_favoured is None else self.second_favoured / max(self.pairs, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Confidence:
    """The confidence of the comparisons, and which intervals they use."""

    confidence: float
    tolerance: float
    watched: bool = False
    """Whether the results may have stopped the sample."""
    exact: bool = False
    """Whether all individuals were judged."""
    misjudged: float = 0.0
    """Maximum number of individuals that the model's noise may have misjudged."""
    looks: int = 1
    """Number of interim looks; weighted intervals divide the error probability among them."""
    known: tuple[float, float, float, float] | None = None
    """The estimate's own counts (found, judged) and the ends of its interval. A comparison with the same counts has the
    same interval."""
    even: bool = True
    """Whether all individuals have equal weights."""

    def share(self, found: Any, of: Any, confidence: float | None = None, sums: Sums | None = None) -> Ends:
        """Interval of a share; with weights, by their sums."""
        confidence = self.confidence if confidence is None else confidence
        if self.exact:
            rate = np.asarray(found, dtype=np.float64) / np.where(np.asarray(of) > 0, of, 1)
            return rate, rate
        if sums is not None:
            return fay_feuer(sums, 1 - spent(1 - confidence, self.looks) if self.watched else confidence)
        bounds: Callable[..., Ends] = anytime if self.watched else clopper_pearson
        return bounds(found, of, confidence)

    def rate(self, found: Any, of: Any, sums: Sums | None = None) -> Ends:
        """Interval of the share treated differently, widened by what noise may have misjudged."""
        low, high = self.widened(*self.share(found, of, sums=sums), of)
        if self.known is None or sums is not None:
            return low, high
        same = (np.asarray(found) == self.known[0]) & (np.asarray(of) == self.known[1])
        return np.where(same, self.known[2], low), np.where(same, self.known[3], high)

    def at_once(self, comparisons: int) -> Confidence:
        """Return the confidence that each comparison needs so that all hold simultaneously (Bonferroni)."""
        return replace(self, confidence=1 - (1 - self.confidence) / max(1, comparisons))

    def noise(self, of: Any) -> Numbers:
        """Maximum share that noise may have misjudged."""
        return np.minimum(1.0, self.misjudged / np.maximum(np.asarray(of, dtype=np.float64), 1e-9))

    def widened(self, low: Any, high: Any, of: Any) -> Ends:
        """Widen an interval by what noise may have misjudged."""
        return np.maximum(0.0, low - self.noise(of)), np.minimum(1.0, high + self.noise(of))

    def net(self, first: Any, second: Any, of: Any, weighted: Pairs | None = None) -> Ends:
        """Interval of the net difference: the share of unequal pairs, times who is favoured among them.

        The two factors share the error probability, so that both intervals hold, and so does their product. Who is
        favoured gets most of it, because that decides on which side of 0 the interval lies.
        """
        risk = 1 - self.confidence
        unequal = np.asarray(first) + np.asarray(second)
        gross_sums, favour_sums = (None, None) if weighted is None else (weighted.gross, weighted.favour)
        gross = self.share(unequal, of, 1 - (1 - FAVOUR) * risk, gross_sums)
        favour = self.share(first, unequal, 1 - FAVOUR * risk, favour_sums)
        if weighted is not None:
            # By weight and by rows, so that no single heavy row decides who is favoured.
            rows = self.share(weighted.rows[2], weighted.rows[2] + weighted.rows[3], 1 - FAVOUR * risk)
            favour = np.minimum(favour[0], rows[0]), np.maximum(favour[1], rows[1])
        if self.exact:
            net = (np.asarray(first) - np.asarray(second)) / np.where(np.asarray(of) > 0, of, 1)
            return net, net
        ends = [2 * end - 1 for end in favour]
        low = np.where(ends[0] < 0, gross[1], gross[0]) * ends[0]
        high = np.where(ends[1] < 0, gross[0], gross[1]) * ends[1]
        # A misjudged pair may have turned from one side to the other.
        out = 2 * self.noise(of)
        return np.maximum(-1.0, low - out), np.minimum(1.0, high + out)

    def difference(self, found: Differences) -> Ends:
        """Interval of a mean difference: the share of pairs with two different numbers, times their mean difference.

        The two factors share the error probability, so that both intervals hold, and so does their product. The mean
        gets most of it.
        """
        if self.exact:
            return found.mean, found.mean
        risk = 1 - self.confidence
        sums = None if self.even else found.sums
        share = self.share(found.apart, found.compared, 1 - (1 - FAVOUR) * risk, sums)
        mean = found.ends_apart(1 - FAVOUR * (spent(risk, self.looks) if self.watched else risk))
        low = mean[0] * np.where(mean[0] < 0, share[1], share[0])
        high = mean[1] * np.where(mean[1] < 0, share[0], share[1])
        return low, high

    def mcnemar(self, first: Numbers, second: Numbers, weighted: Pairs | None = None) -> Numbers:
        """p-values against "both are favoured equally often", if everything that noise misjudged supported it.

        With weights, the larger of two p-values: by weight, and by rows.
        """
        more, fewer = np.maximum(first, second) - self.misjudged, np.minimum(first, second) + self.misjudged
        if weighted is None:
            p = anytime_test(more, fewer) if self.watched else mcnemar(more, fewer)
            return np.asarray(np.where(more > fewer, p, 1.0))
        rows = weighted.rows
        alike = (more > fewer) & ((first > second) == (rows[2] > rows[3]))
        p = np.maximum(fay_feuer_test(weighted.favour), mcnemar(rows[2], rows[3]))
        if self.watched:
            p = np.minimum(1.0, p / spent(1.0, self.looks))
        return np.asarray(np.where(alike, p, 1.0))


@dataclass(frozen=True)
class Pairs:
    """Weighted pairs, as in ``Table.counts``, with squared weights, the largest weights and the numbers of rows."""

    counts: Numbers
    squares: Numbers
    heaviest: Numbers
    rows: Numbers

    @classmethod
    def of(cls, tables: Sequence[Table]) -> Pairs | None:
        """Read them from tables; None if no table is weighted."""
        found = [table.weighted for table in tables if table.weighted is not None]
        if not found:
            return None
        parts = ([w.squares for w in found], [w.heaviest for w in found], [w.rows for w in found])
        counts = np.concatenate([table.counts for table in tables], axis=1)
        return cls(counts, *(np.concatenate(part, axis=1) for part in parts))

    @property
    def differ(self) -> Sums:
        """The pairs that differ, among all."""
        return Sums(self.counts[1], self.counts[0], self.squares[1], self.squares[0], self.heaviest[0])

    @property
    def gross(self) -> Sums:
        """The pairs in which one side is favoured, among all."""
        unequal, squares = self.counts[2] + self.counts[3], self.squares[2] + self.squares[3]
        return Sums(unequal, self.counts[0], squares, self.squares[0], self.heaviest[0])

    @property
    def favour(self) -> Sums:
        """The pairs in which the first is favoured, among those in which one side is."""
        heaviest = np.maximum(self.heaviest[2], self.heaviest[3])
        squares = self.squares[2] + self.squares[3]
        return Sums(self.counts[2], self.counts[2] + self.counts[3], self.squares[2], squares, heaviest)


def mcnemar(first: Any, second: Any) -> Numbers:
    """McNemar's exact test: two-sided binomial test of the pairs in which one side is favoured."""
    from scipy.special import betainc

    k, other = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    fewer, more = np.minimum(k, other), np.maximum(k, other)
    # The binomial distribution as a beta function, because subtracting what noise misjudged leaves fractions.
    tail = np.where(more > 0, betainc(np.maximum(more, 1e-9), fewer + 1, 0.5), 1.0)
    return np.asarray(np.minimum(1.0, 2 * tail), dtype=np.float64)


def compare(
    tables: Sequence[Table], sure: Confidence, directed: bool, turned: bool = False, unreached: Collection[str] = ()
) -> list[Comparison]:
    """Make the comparisons of all tables. ``directed``: the favourable outcome is known; ``turned``: a lower number is.

    If two sides differ only in attributes that the model does not receive, the share is 0 and is not estimated.
    """
    if not tables:
        return []
    sides: list[tuple[Table, int]] = [(table, pair) for table in tables for pair in range(len(table.first))]
    values = [(table.values(int(table.first[at])), table.values(int(table.second[at]))) for table, at in sides]
    counts = np.concatenate([table.counts for table in tables], axis=1)
    of, different, first, second = counts
    alike = [all(one[name] == other[name] for name in one if name not in unreached) for one, other in values]
    # A model that answers randomly may give such a row two answers, and that must stay visible.
    same = np.array(alike, dtype=bool) & (different == 0)
    weighted = Pairs.of(tables)
    pairs = np.where(of > 0, of, 1.0)
    low, high = sure.rate(different, of, None if weighted is None else weighted.differ)
    all_sure = sure.at_once(int(((of > 0) & ~same).sum()))
    net_low, net_high = all_sure.net(first, second, of, weighted)
    low, high, net_low, net_high = (np.where(same, 0.0, ends) for ends in (low, high, net_low, net_high))
    shares = {"rate": different / pairs, "low": low, "high": high}
    who = {"gross": (first + second) / pairs, "net": (first - second) / pairs, "net_low": net_low, "net_high": net_high}
    tests = {"p_value": sure.mcnemar(first, second, weighted)}
    verdicts = _verdicts(all_sure, directed, counts, weighted, (low, high), (net_low, net_high))
    differences = [_differences(table, all_sure, turned) for table in tables]
    apart = {name: np.concatenate([one[name] for one in differences]) for name in differences[0]}
    if np.isfinite(apart["difference"]).any():
        apart = {name: np.where(same & (of > 0), 0.0, ends) for name, ends in apart.items()}
    out = []
    for at, (table, pair) in enumerate(sides):
        known = directed and bool(of[at] > 0)
        out.append(
            Comparison(
                first=values[at][0],
                second=values[at][1],
                pairs=count(of[at]),
                different=count(different[at]),
                first_favoured=count(first[at]) if known else None,
                second_favoured=count(second[at]) if known else None,
                gaps=_gaps(table, pair, directed),
                verdict="not received" if same[at] else verdicts[at],
                **_at(shares, at, True),
                **_at(who, at, known),
                **_at(tests, at, known and not sure.exact),
                **_finite(apart, at),
            )
        )
    return out


def _differences(table: Table, sure: Confidence, turned: bool) -> dict[str, Numbers]:
    """Return the mean differences of a table's pairs, with intervals; NaN if there are none."""
    found, names = table.differences, ("difference", "difference_low", "difference_high")
    if found is None:
        return dict.fromkeys(names, np.full(len(table.first), np.nan))
    some = found.compared > 0
    low, high = sure.difference(found)
    figures = (-found.mean, -high, -low) if turned else (found.mean, low, high)
    # Added to 0, so that -0 is never shown.
    return {name: np.where(some, values, np.nan) + 0.0 for name, values in zip(names, figures, strict=True)}


def _finite(figures: dict[str, Numbers], at: int) -> dict[str, Any]:
    return {name: float(values[at]) if np.isfinite(values[at]) else None for name, values in figures.items()}


def _at(figures: dict[str, Numbers], at: int, known: bool) -> dict[str, Any]:
    return {name: float(values[at]) if known else None for name, values in figures.items()}


def _verdicts(
    sure: Confidence, directed: bool, counts: Numbers, weighted: Pairs | None, rate: Ends, net: Ends
) -> list[Verdict]:
    """Return verdicts from the intervals; "insufficient evidence" if they do not decide."""
    of, different, first, second = counts
    favour = sure.share(first, first + second, sums=None if weighted is None else weighted.favour)
    favour = sure.widened(*favour, first + second)
    balanced = sure.exact | ((favour[0] >= 1 - BOTH_WAYS) & (favour[1] <= BOTH_WAYS))
    some = different > 0
    # A difference that noise alone may explain does not count.
    doubtful = some & (rate[0] <= 0)
    cases: list[tuple[Any, Verdict]] = [
        ((of == 0) | doubtful | (~some & (rate[1] > sure.tolerance)), "insufficient evidence"),
        (~some, "none found"),
        (np.full(len(of), not directed) | (first + second == 0), "different"),
        (net[0] > 0, "favours first"),
        (net[1] < 0, "favours second"),
        (balanced, "both ways"),
    ]
    return [next((name for mask, name in cases if mask[i]), "insufficient evidence") for i in range(len(of))]


def count(value: float) -> float:
    """Return counts as integers, unless there are weights."""
    return int(value) if value == int(value) else round(float(value) + 1e-9, 2)


def _gaps(table: Table, pair: int, directed: bool) -> dict[str, float] | None:
    if table.gaps is None:
        return None
    known = ~np.isnan(table.gaps[:, pair])
    gaps = table.gaps[known, pair].astype(np.float64)
    if not len(gaps):
        return None
    weights = None if table.weighted is None else np.concatenate(table.weighted.kept)[known]
    out = summary(np.abs(gaps), weights)
    return {**out, "advantage": float(np.average(gaps, weights=weights))} if directed else out


def summary(gaps: Numbers, weights: Numbers | None = None) -> dict[str, float]:
    """Describe a distribution of gaps."""
    method: Literal["linear", "inverted_cdf"] = "linear" if weights is None else "inverted_cdf"
    median, high, highest, most = np.quantile(gaps, QUANTILES, method=method, weights=weights).tolist()
    mean = float(np.average(gaps, weights=weights))
    return {"mean": mean, "median": median, "p90": high, "p99": highest, "largest": most}


class Differences:
    """Sums of how much more the first of each pair gets: one column for each pair of protected values.

    Pairs with equal numbers are counted separately. The mean of many zeros and a few large numbers is far from normal,
    so no simple interval for it holds. The share of pairs that differ has a valid interval, and so has the mean
    difference of these pairs.
    """

    def __init__(self, pairs: int) -> None:
        self._all, self._apart = np.zeros((2, pairs)), np.zeros((2, pairs))
        """Weights and their squares."""
        self._heaviest, self._rows = np.zeros(pairs), np.zeros(pairs)
        self._sums = np.zeros((4, pairs))
        """For pairs that differ, about an origin: weighted differences; and 1, difference, square by squared weight."""
        self._origin: Numbers | None = None

    def add(self, first: Numbers, second: Numbers, both: Mask, weight: npt.NDArray[Any] | None) -> None:
        """Add a block of (individuals, pairs); entries where ``both`` is False are unknown."""
        weights = np.ones(len(both)) if weight is None else np.asarray(weight, dtype=np.float64)
        more = first - second
        apart = both & (np.abs(more) > ROUNDING * np.maximum(np.abs(first), np.abs(second)))
        if self._origin is None and apart.any():
            # Squares are summed about a typical value, so that large numbers with little spread keep their precision.
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
        """The weight of pairs with two different numbers."""
        return np.asarray(self._apart[0])

    @property
    def sums(self) -> Sums:
        """The pairs with two different numbers, among all."""
        return Sums(self._apart[0], self._all[0], self._apart[1], self._all[1], self._heaviest)

    @property
    def mean(self) -> Numbers:
        """How much more the first gets, on average over all pairs."""
        return np.asarray(self.mean_apart * self.apart / np.maximum(self.compared, 1e-300))

    @property
    def mean_apart(self) -> Numbers:
        """How much more the first gets, on average over pairs with two different numbers."""
        origin = np.zeros_like(self._heaviest) if self._origin is None else self._origin
        return np.asarray(np.where(self.apart > 0, origin + self._off, 0.0))

    def ends_apart(self, confidence: float) -> Ends:
        """Interval of ``mean_apart``; from minus to plus infinity if there are too few pairs."""
        _, ones, offs, squares = self._sums
        spread = squares - 2 * self._off * offs + np.square(self._off) * ones
        return student(self.mean_apart, spread, self.apart, ones, self._rows, confidence)

    @property
    def _off(self) -> Numbers:
        return np.asarray(self._sums[0] / np.where(self.apart > 0, self.apart, 1.0))


@dataclass(frozen=True)
class Mean:
    """A mean of weighted values, and what its interval needs."""

    value: float
    variance: float
    freedom: float
    rows: int

    @classmethod
    def of(cls, values: Numbers, weights: Numbers) -> Mean:
        """Return the mean of values."""
        # As shares, so that squares of large weights do not overflow.
        shares = weights / weights.sum()
        mean = float(shares @ values)
        count = 1 / float(np.square(shares).sum())
        spread = float(np.square(shares) @ np.square(values - mean))
        return cls(mean, spread * count / max(count - 1, 1e-9), count - 1, len(values))

    def ends(self, confidence: float) -> tuple[float, float | None, float | None]:
        """The mean with its interval; None if there are too few values."""
        return _between(self.value, self.variance, self.freedom, self.rows >= FEWEST, confidence)

    def minus(self, other: Mean, confidence: float) -> tuple[float, float | None, float | None]:
        """The difference to the mean of other individuals, with Welch's interval."""
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
    """Student's interval of means of weighted values, from sums of squared distances and of weights.

    >>> values = np.arange(10.0)
    >>> ends = student(4.5, np.square(values - 4.5).sum(), 10, 10, 10, 0.95)
    >>> [round(float(end), 2) for end in ends]
    [2.33, 6.67]
    """
    from scipy.special import stdtrit

    mean, spread, weight = (np.asarray(v, dtype=np.float64) for v in (mean, spread, weight))
    enough = np.asarray(rows) >= FEWEST
    safe = np.where(enough, weight, 1.0)
    # The effective number of values (Kish).
    count = np.maximum(np.square(safe) / np.where(enough, squares, 1.0), 2.0)
    error = np.sqrt(np.maximum(spread, 0.0) * count / (count - 1)) / safe
    reach = np.where(enough, stdtrit(count - 1, (1 + confidence) / 2) * error, np.inf)
    return mean - reach, mean + reach
