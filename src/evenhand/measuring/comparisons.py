"""Who is favoured over whom, as paired testing reports it, and whether the evidence suffices to say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.measuring.intervals import Ends, Numbers, Sums, clopper_pearson, fay_feuer, fay_feuer_test
from evenhand.measuring.sequences import anytime, anytime_test, spent
from evenhand.measuring.tables import Table

Verdict = Literal["favours first", "favours second", "both ways", "different", "none found", "insufficient evidence"]
BOTH_WAYS = 0.75
"""Where neither side is favoured in more than this share of the unequal pairs, they differ both ways."""
FAVOUR = 0.8
"""How much of a net difference's risk goes to who is favoured, and not to how often pairs are unequal."""
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Comparison:
    """One pair of protected values: the same individuals once with the first and once with the second."""

    first: dict[str, Any]
    second: dict[str, Any]
    pairs: float
    """Individuals for whom both are legal; with weights, so many of equal weight as say as much."""
    different: float
    rate: float
    low: float
    high: float
    first_favoured: float | None
    second_favoured: float | None
    gross: float | None
    """Share of pairs in which one of the two is favoured."""
    net: float | None
    """Share in which the first is favoured less that in which the second is."""
    net_low: float | None
    net_high: float | None
    p_value: float | None
    """McNemar's exact test of "both equally often"; None where everyone was asked: nothing is left to chance."""
    p_adjusted: float | None
    """The same, for all comparisons at once (Holm)."""
    gaps: dict[str, float] | None
    """Distances of the pair's scores: mean, quantiles, and the mean advantage of the first."""
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Give it in plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Sureness:
    """How sure the comparisons are to be, and by which intervals."""

    confidence: float
    tolerance: float
    watched: bool = False
    """Whether the sample may have been stopped by what it showed."""
    exact: bool = False
    """Whether everyone was asked."""
    misjudged: float = 0.0
    """How many individuals the model's noise may have misjudged, at most."""
    looks: int = 1
    """How often one could have looked; weighted intervals have to share the risk between the looks."""

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

    def most(self, of: Numbers, sums: Sums | None = None) -> Numbers:
        """One-sided bound on a share of which nobody was found."""
        none = np.zeros_like(of)
        if self.exact:
            return none
        if self.watched and sums is None:
            return np.asarray(anytime(none, of, self.confidence)[1])
        return np.asarray(self.share(none, of, 1 - 2 * (1 - self.confidence), sums)[1])

    def noise(self, of: Any) -> Numbers:
        """The share of so many that noise may have misjudged."""
        return np.minimum(1.0, self.misjudged / np.maximum(np.asarray(of, dtype=np.float64), 1e-9))

    def widened(self, low: Any, high: Any, of: Any) -> Ends:
        """Put the ends of a share further out by what noise may have misjudged."""
        return np.maximum(0.0, low - self.noise(of)), np.minimum(1.0, high + self.noise(of))

    def net(self, first: Any, second: Any, of: Any, weighted: Pairs | None = None) -> Ends:
        """Interval of the net difference: the share of unequal pairs, times who is favoured among them.

        They share the risk, so that both hold, and with them the product. Who is favoured gets most of it, so that the
        interval's side of 0 seldom disagrees with McNemar's test.
        """
        risk = 1 - self.confidence
        unequal = np.asarray(first) + np.asarray(second)
        gross_sums, favour_sums = (None, None) if weighted is None else (weighted.gross, weighted.favour)
        gross = self.share(unequal, of, 1 - (1 - FAVOUR) * risk, gross_sums)
        favour = self.share(first, unequal, 1 - FAVOUR * risk, favour_sums)
        if self.exact:
            net = (np.asarray(first) - np.asarray(second)) / np.where(np.asarray(of) > 0, of, 1)
            return net, net
        ends = [2 * end - 1 for end in favour]
        low = np.where(ends[0] < 0, gross[1], gross[0]) * ends[0]
        high = np.where(ends[1] < 0, gross[0], gross[1]) * ends[1]
        # A misjudged pair may have turned from one side to the other.
        out = 2 * self.noise(of)
        return np.maximum(-1.0, low - out), np.minimum(1.0, high + out)

    def mcnemar(self, first: Numbers, second: Numbers, weighted: Pairs | None = None) -> Numbers:
        """p-values against "both are favoured equally often", even if all that noise misjudged speaks for it.

        With weights, the weaker of two: by weight, and by rows.
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
    """Weighted pairs, as ``Table.counts`` has them, with the squares of the weights, the heaviest and the rows."""

    counts: Numbers
    squares: Numbers
    heaviest: Numbers
    rows: Numbers

    @classmethod
    def of(cls, tables: Sequence[Table]) -> Pairs | None:
        """Take them from tables; None where nobody weighs."""
        found = [table.weighted for table in tables if table.weighted is not None]
        if not found:
            return None
        parts = ([w.squares for w in found], [w.heaviest for w in found], [w.rows for w in found])
        counts = np.concatenate([table.counts for table in tables], axis=1)
        return cls(counts, *(np.concatenate(part, axis=1) for part in parts))

    @property
    def differ(self) -> Sums:
        """Pairs that differ, of all."""
        return Sums(self.counts[1], self.counts[0], self.squares[1], self.squares[0], self.heaviest[0])

    @property
    def none(self) -> Sums:
        """Nobody, of all."""
        nobody = np.zeros_like(self.counts[0])
        return Sums(nobody, self.counts[0], nobody, self.squares[0], self.heaviest[0])

    @property
    def gross(self) -> Sums:
        """Pairs in which one is favoured, of all."""
        unequal, squares = self.counts[2] + self.counts[3], self.squares[2] + self.squares[3]
        return Sums(unequal, self.counts[0], squares, self.squares[0], self.heaviest[0])

    @property
    def favour(self) -> Sums:
        """Pairs in which the first is favoured, of those in which one is."""
        heaviest = np.maximum(self.heaviest[2], self.heaviest[3])
        squares = self.squares[2] + self.squares[3]
        return Sums(self.counts[2], self.counts[2] + self.counts[3], self.squares[2], squares, heaviest)


def mcnemar(first: Any, second: Any) -> Numbers:
    """McNemar's exact test: two-sided binomial test of the pairs in which one side is favoured.

    >>> f"{float(mcnemar(9, 1)):.4f} {float(mcnemar(0, 0)):.0f}"
    '0.0215 1'
    """
    from scipy.special import betainc

    k, other = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    fewer, more = np.minimum(k, other), np.maximum(k, other)
    # The binomial distribution as a beta function: less what noise may have misjudged, numbers are not whole.
    tail = np.where(more > 0, betainc(np.maximum(more, 1e-9), fewer + 1, 0.5), 1.0)
    return np.asarray(np.minimum(1.0, 2 * tail), dtype=np.float64)


def holm(p_values: npt.ArrayLike) -> Numbers:
    """Adjust p-values so that the chance of any false alarm among all of them keeps the level.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty_like(p)
    out[order] = np.minimum(stepped, 1.0)
    return out


def compare(tables: Sequence[Table], sure: Sureness, directed: bool) -> list[Comparison]:
    """Make the comparisons of all tables; ``directed``: it is known what people want."""
    if not tables:
        return []
    counts = np.concatenate([table.counts for table in tables], axis=1)
    of, different, first, second = counts
    weighted = Pairs.of(tables)
    pairs = np.where(of > 0, of, 1.0)
    low, high = sure.widened(*sure.share(different, of, sums=None if weighted is None else weighted.differ), of)
    net_low, net_high = sure.net(first, second, of, weighted)
    p = sure.mcnemar(first, second, weighted)
    adjusted = holm(p)
    shares = {"rate": different / pairs, "low": low, "high": high}
    who = {"gross": (first + second) / pairs, "net": (first - second) / pairs, "net_low": net_low, "net_high": net_high}
    tests = {"p_value": p, "p_adjusted": adjusted}
    verdicts = _verdicts(sure, directed, counts, adjusted, weighted, low)
    sides: list[tuple[Table, int]] = [(table, pair) for table in tables for pair in range(len(table.first))]
    out = []
    for at, (table, pair) in enumerate(sides):
        known = directed and bool(of[at] > 0)
        out.append(
            Comparison(
                first=table.values(int(table.first[pair])),
                second=table.values(int(table.second[pair])),
                pairs=count(of[at]),
                different=count(different[at]),
                first_favoured=count(first[at]) if known else None,
                second_favoured=count(second[at]) if known else None,
                gaps=_gaps(table, pair, directed),
                verdict=verdicts[at],
                **_at(shares, at, True),
                **_at(who, at, known),
                **_at(tests, at, known and not sure.exact),
            )
        )
    return out


def _at(figures: dict[str, Numbers], at: int, known: bool) -> dict[str, Any]:
    return {name: float(values[at]) if known else None for name, values in figures.items()}


def _verdicts(
    sure: Sureness, directed: bool, counts: Numbers, p_adjusted: Numbers, weighted: Pairs | None, low: Numbers
) -> list[Verdict]:
    """Say what the counts show, and that they do not suffice where they do not."""
    of, different, first, second = counts
    favour_sums, none = (None, None) if weighted is None else (weighted.favour, weighted.none)
    favour = sure.widened(*sure.share(first, first + second, sums=favour_sums), first + second)
    balanced = sure.exact | ((favour[0] >= 1 - BOTH_WAYS) & (favour[1] <= BOTH_WAYS))
    # What noise alone may have made is no difference.
    doubtful = (different > 0) & (sure.misjudged > 0) & (low <= 0)
    most = sure.most(of, none) + sure.noise(of)
    shown = (first != second) if sure.exact else (p_adjusted < 1 - sure.confidence)
    some = different > 0
    cases: list[tuple[Any, Verdict]] = [
        ((of == 0) | doubtful | (~some & (most > sure.tolerance)), "insufficient evidence"),
        (~some, "none found"),
        (np.full(len(of), not directed) | (first + second == 0), "different"),
        (shown & (first > second), "favours first"),
        (shown & (first < second), "favours second"),
        (balanced, "both ways"),
    ]
    return [next((name for mask, name in cases if mask[i]), "insufficient evidence") for i in range(len(of))]


def count(value: float) -> float:
    """Write individuals as whole numbers, unless they weigh.

    >>> count(3.0), count(2.345)
    (3, 2.35)
    """
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
    """Describe a distribution of gaps.

    >>> summary(np.array([0.0, 0.1, 0.2]))["median"]
    0.1
    >>> summary(np.array([0.0, 0.1, 0.2]), np.array([1.0, 1.0, 8.0]))["median"]
    0.2
    """
    method: Literal["linear", "inverted_cdf"] = "linear" if weights is None else "inverted_cdf"
    median, high, highest, most = np.quantile(gaps, QUANTILES, method=method, weights=weights).tolist()
    mean = float(np.average(gaps, weights=weights))
    return {"mean": mean, "median": median, "p90": high, "p99": highest, "largest": most}
