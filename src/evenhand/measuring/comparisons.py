"""Who is favoured over whom, as paired testing reports it, and whether the evidence suffices to say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.measuring.intervals import Ends, Numbers, at_most, clopper_pearson
from evenhand.measuring.sequences import anytime, anytime_test
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

    def share(self, found: Any, of: Any, confidence: float | None = None) -> Ends:
        """Interval of a share."""
        if self.exact:
            rate = np.asarray(found, dtype=np.float64) / np.maximum(of, 1)
            return rate, rate
        bounds: Callable[..., Ends] = anytime if self.watched else clopper_pearson
        return bounds(found, of, self.confidence if confidence is None else confidence)

    def most(self, of: Numbers) -> Numbers:
        """One-sided bound on a share of which nobody was found."""
        none = np.zeros_like(of)
        if self.exact:
            return none
        return anytime(none, of, self.confidence)[1] if self.watched else at_most(none, of, self.confidence)

    def net(self, first: Any, second: Any, of: Any) -> Ends:
        """Interval of the net difference: the share of unequal pairs, times who is favoured among them.

        They share the risk, so that both hold, and with them the product. Who is favoured gets most of it, so that the
        interval's side of 0 seldom disagrees with McNemar's test.
        """
        risk = 1 - self.confidence
        unequal = np.asarray(first) + np.asarray(second)
        gross = self.share(unequal, of, 1 - (1 - FAVOUR) * risk)
        favour = self.share(first, unequal, 1 - FAVOUR * risk)
        if self.exact:
            net = (np.asarray(first) - np.asarray(second)) / np.maximum(of, 1)
            return net, net
        ends = [2 * end - 1 for end in favour]
        low = np.where(ends[0] < 0, gross[1], gross[0]) * ends[0]
        high = np.where(ends[1] < 0, gross[0], gross[1]) * ends[1]
        return low, high

    def mcnemar(self, first: Numbers, second: Numbers) -> Numbers:
        """p-values against "both are favoured equally often"."""
        return anytime_test(first, second) if self.watched else mcnemar(first, second)


def mcnemar(first: Any, second: Any) -> Numbers:
    """McNemar's exact test: two-sided binomial test of the pairs in which one side is favoured.

    >>> f"{float(mcnemar(9, 1)):.4f} {float(mcnemar(0, 0)):.0f}"
    '0.0215 1'
    """
    from scipy.special import betainc

    k, other = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    fewer, more = np.minimum(k, other), np.maximum(k, other)
    # The binomial distribution as a beta function: numbers of weighted individuals are not whole.
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
    pairs = np.maximum(of, 1)
    low, high = sure.share(different, of)
    net_low, net_high = sure.net(first, second, of)
    p = sure.mcnemar(first, second)
    adjusted = holm(p)
    shares = {"rate": different / pairs, "low": low, "high": high}
    who = {"gross": (first + second) / pairs, "net": (first - second) / pairs, "net_low": net_low, "net_high": net_high}
    tests = {"p_value": p, "p_adjusted": adjusted}
    verdicts = _verdicts(sure, directed, counts, adjusted)
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


def _verdicts(sure: Sureness, directed: bool, counts: Numbers, p_adjusted: Numbers) -> list[Verdict]:
    """Say what the counts show, and that they do not suffice where they do not."""
    of, different, first, second = counts
    favour = sure.share(first, first + second)
    balanced = sure.exact | ((favour[0] >= 1 - BOTH_WAYS) & (favour[1] <= BOTH_WAYS))
    shown = (first != second) if sure.exact else (p_adjusted < 1 - sure.confidence)
    some = different > 0
    cases: list[tuple[Any, Verdict]] = [
        ((of == 0) | (~some & (sure.most(of) > sure.tolerance)), "insufficient evidence"),
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
    gaps = table.gaps[:, pair]
    gaps = gaps[~np.isnan(gaps)].astype(np.float64)
    if not len(gaps):
        return None
    out = summary(np.abs(gaps))
    return {**out, "advantage": float(gaps.mean())} if directed else out


def summary(gaps: Numbers) -> dict[str, float]:
    """Describe a distribution of gaps.

    >>> summary(np.array([0.0, 0.1, 0.2]))["median"]
    0.1
    """
    median, high, highest, most = np.quantile(gaps, QUANTILES).tolist()
    return {"mean": float(gaps.mean()), "median": median, "p90": high, "p99": highest, "largest": most}
