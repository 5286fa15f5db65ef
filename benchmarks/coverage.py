"""How often each interval holds, over simulated models whose rates are known, also when a sample is stopped at will.

A simulated model treats a known share of individuals differently: those whose hash is below the share. It is asked
through evenhand, and every interval is made of the same verdicts. "At the worst moment" counts a model as covered only
if the interval held after each single individual, so that no way of stopping can do worse. What is no share of
individuals (rows without repetition, weights, net differences, impact ratios, what is unseen) is simulated from its
distribution; a non-deterministic model is queried through evenhand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, betaln, xlog1py, xlogy

import evenhand as eh
from benchmarks.machine import facts, parser, save, short
from evenhand._intervals import (
    LOW_RATES,
    anytime,
    anytime_of_rows,
    at_most,
    clopper_pearson,
    hypergeometric,
    lln,
    spent,
    weighted,
)
from evenhand._rng import Stream, mix
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.estimates.favoured import Confidence
from evenhand.estimates.groups import ratio_ends
from evenhand.estimates.remaining import bounded
from evenhand.search import UniformDraws

RATES = (1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5)
LEVELS = (0.9, 0.95, 0.99)
MODELS, SAMPLES, EXPERIMENTS = 2_000, 40_000, 400
LOOKS = 200
Verdicts = npt.NDArray[np.bool_]
SPACE = eh.Space([eh.Integer(name, 0, 4095) for name in "abcd"] + [eh.Boolean("sex")], protected="sex")


class Simulated(eh.Model):
    """Decides by sex for a share of individuals, and for the others alike."""

    name, input = "simulated", "array"

    def __init__(self, share: float, number: int) -> None:
        self.limit, self.salt = np.uint64(round(share * 2**53)), np.uint64(number)

    def labels(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Decide."""
        key = (X[:, :4] @ 4096.0 ** np.arange(4)).astype(np.uint64)
        unfair = mix(key * np.uint64(2) ** np.uint64(12) + self.salt) >> np.uint64(11) < self.limit
        return np.asarray(unfair & (X[:, 4] > 0))


def verdicts(share: float, number: int, samples: int) -> Verdicts:
    """Judge independent individuals of one simulated model."""
    judge = Judge(ModelProbe(Simulated(share, number), SPACE, eh.Flip()), seed=number)
    people, _ = UniformDraws(SPACE, Stream(number)).take(0, samples)
    return judge.judge(judge.families(people)).unfair


def always_anytime(share: float, path: npt.NDArray[np.int64], confidence: float) -> bool:
    """Whether the anytime interval held after every single individual."""
    n, (a, b) = np.arange(1, len(path) + 1), LOW_RATES
    ahead = betaln(a + path, b + n - path) - betaln(a, b) - xlogy(path, share) - xlog1py(n - path, -share)
    return bool(ahead.max() < -math.log(1 - confidence))


def _check_formula(share: float, found: npt.NDArray[np.int64], samples: int) -> None:
    """Make sure that the ends which evenhand gives are where the formula above says."""
    (a, b), left = LOW_RATES, samples - found
    ahead = betaln(a + found, b + left) - betaln(a, b) - xlogy(found, share) - xlog1py(left, -share)
    for level in LEVELS:
        low, high = anytime(found, samples, level)
        assert (((low <= share) & (share <= high)) == (ahead < -math.log(1 - level))).all()


def always_clopper_pearson(share: float, path: npt.NDArray[np.int64], confidence: float) -> bool:
    """Whether Clopper and Pearson's interval would have held at each of some looks."""
    n = np.unique(np.geomspace(1, len(path), LOOKS).astype(np.int64))
    k, tail = path[n - 1], (1 - confidence) / 2
    return bool(((bdtr(k, n, share) > tail) & ((k == 0) | (bdtrc(np.maximum(k - 1, 0), n, share) > tail))).all())


def shares(models: int, samples: int, share: float) -> Iterator[dict[str, Any]]:
    """Coverage of the intervals of a share."""
    paths, held = [], {(name, level): 0 for name in ("anytime", "peeking") for level in LEVELS}
    experiments = []
    for number in range(models):
        unfair = verdicts(share, number, samples)
        path = np.cumsum(unfair)
        paths.append(int(path[-1]))
        experiments.append(unfair.reshape(EXPERIMENTS, -1).sum(axis=1))
        for level in LEVELS:
            held["anytime", level] += always_anytime(share, path, level)
            held["peeking", level] += always_clopper_pearson(share, path, level)
    found = np.array(paths)
    _check_formula(share, found, samples)
    for level in LEVELS:
        exact = clopper_pearson(found, samples, level)
        yield row("Clopper-Pearson", share, level, exact, exact, share)
        yield row("anytime", share, level, anytime(found, samples, level), exact, share)
        normal = lln(np.array(experiments), samples // EXPERIMENTS, level)
        yield row("lln", share, level, normal, exact, share)
        upper = at_most(found, samples, level)
        yield row("at most", share, level, (np.zeros_like(upper), upper), exact, share)
        for name, what in (
            ("anytime", "anytime, at the worst moment"),
            ("peeking", "Clopper-Pearson, at the worst"),
        ):
            yield {"interval": what, "rate": share, "level": level, "coverage": held[name, level] / models}


def row(name: str, rate: float, level: float, ends: Any, exact: Any, truth: Any) -> dict[str, Any]:
    """Sum up simulated intervals: how many hold, how wide they are on average, and beside Clopper and Pearson's."""
    low, high = ends
    width = float(np.mean(high - low))
    return {
        "interval": name,
        "rate": rate,
        "level": level,
        "coverage": float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12))),
        "width": short(width),
        "relative": None if exact is None else short(width / float(np.mean(exact[1] - exact[0]))),
    }


def rows_once(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Rows that are asked at most once: 500 of 2,000, and all the way through."""
    size, n = 2_000, 500
    for unfair in (0, 1, 20, 200, 1_000):
        found = rng.hypergeometric(unfair, size - unfair, n, models)
        order = rng.permuted(np.tile(np.arange(size) < unfair, (models, 1)), axis=1)
        paths, looks = np.cumsum(order, axis=1)[:, 9::10], np.arange(10, size + 1, 10)
        for level in LEVELS:
            exact = clopper_pearson(found, n, level)
            truth = unfair / size
            yield row("hypergeometric", truth, level, hypergeometric(found, n, size, level), exact, truth)
            low, high = anytime_of_rows(paths, looks, size, level)
            held = ((low <= truth + 1e-12) & (truth <= high + 1e-12)).all(axis=1)
            at_n = anytime_of_rows(paths[:, n // 10 - 1], n, size, level)
            kept = row("anytime of rows", truth, level, at_n, exact, truth)
            yield {**kept, "interval": "anytime of rows, at the worst moment", "coverage": float(held.mean())}


def weights(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Weighted rows, where weights have nothing to do with who is treated differently, and where they have."""
    for related, what in ((0, "unrelated"), (1, "heavy rows"), (-1, "light rows")):
        for base in (0.001, 0.02, 0.3):
            everyone = rng.lognormal(0, 0.7, 2_000_000)
            chance = np.clip(base * everyone**related, 0, 1)
            truth = float((everyone * chance).sum() / everyone.sum())
            for level in LEVELS:
                ends, exact = [], []
                for _ in range(models):
                    at = rng.integers(len(everyone), size=1_000)
                    unfair = rng.random(1_000) < chance[at]
                    ends.append(weighted(unfair, everyone[at], level))
                    exact.append(clopper_pearson(unfair.sum(), 1_000, level))
                yield row(f"Fay-Feuer, {what}", short(truth), level, np.array(ends).T, np.array(exact).T, truth)


def weights_watched(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Weighted rows that are looked at ten times while they grow to 10,000."""
    looks, base = [1_000 * (i + 1) for i in range(10)], 0.02
    for related, what in ((0, "unrelated"), (1, "heavy rows")):
        everyone = rng.lognormal(0, 0.7, 2_000_000)
        chance = np.clip(base * everyone**related, 0, 1)
        truth = float((everyone * chance).sum() / everyone.sum())
        for level in LEVELS:
            ends, held, exact = [], 0, []
            for _ in range(models):
                at = rng.integers(len(everyone), size=looks[-1])
                heavy, unfair = everyone[at], rng.random(len(at)) < chance[at]
                every = [
                    weighted(unfair[:n], heavy[:n], 1 - spent(1 - level, look)) for look, n in enumerate(looks, start=1)
                ]
                held += all(low <= truth <= high for low, high in every)
                ends.append(every[-1])
                exact.append(clopper_pearson(unfair.sum(), len(at), level))
            made = row("", short(truth), level, np.array(ends).T, np.array(exact).T, truth)
            yield {**made, "interval": f"Fay-Feuer at every look, {what}, at the worst look", "coverage": held / models}


class NoisyModel(Simulated):
    """A simulated model that says the opposite now and then."""

    def __init__(self, share: float, number: int, noise: float) -> None:
        super().__init__(share, number)
        self.noise, self.rng = noise, np.random.default_rng(number)

    def labels(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Decide."""
        return super().labels(X) ^ (self.rng.random(len(X)) < self.noise)


def noise(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """A non-deterministic model, asked six times about each of 500 individuals."""
    del rng
    for share, slips in ((0.001, 0.02), (0.1, 0.02), (0.1, 0.1)):
        for level in LEVELS:
            made = [
                eh.estimate(
                    NoisyModel(share, i, slips),
                    SPACE,
                    samples=500,
                    confidence=level,
                    interval=eh.Interval(repeats=6),
                    seed=i,
                )
                for i in range(models)
            ]
            ends = np.array([(one.low, one.high) for one in made]).T
            exact = clopper_pearson(np.array([one.found for one in made]), 500, level)
            yield row(f"widened for noise, {100 * slips:g} % of answers wrong", share, level, ends, exact, share)


def net(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Net differences of pairs."""
    for p in ((1e-4, 0.0), (0.01, 0.002), (0.05, 0.05), (0.3, 0.1)):
        first, second, _ = rng.multinomial(10_000, [*p, 1 - sum(p)], models).T
        for level in LEVELS:
            ends = Confidence(level, 0.01).net(first, second, 10_000)
            yield row("net difference", p[0] - p[1], level, ends, None, p[0] - p[1])
    looks = [1_000 * 2**i for i in range(6)]
    for p in ((0.01, 0.002), (0.05, 0.05)):
        steps = [rng.multinomial(n, [*p, 1 - sum(p)], models) for n in np.diff([0, *looks])]
        for level in LEVELS:
            sure = Confidence(level, 0.01, watched=True)
            every = [
                sure.net(so_far[:, 0], so_far[:, 1], n)
                for so_far, n in zip(np.cumsum(steps, axis=0), looks, strict=True)
            ]
            held = np.all([(low <= p[0] - p[1] + 1e-12) & (p[0] - p[1] <= high + 1e-12) for low, high in every], axis=0)
            made = row("", p[0] - p[1], level, every[-1], None, p[0] - p[1])
            what = f"net difference, watched, {sum(p):g} unequal, at the worst look"
            yield {**made, "interval": what, "coverage": float(held.mean())}


def impact(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Impact ratios of the smallest of three groups."""
    sizes = np.array([200, 500, 1_000])
    for rates in ((0.5, 0.5, 0.5), (0.1, 0.3, 0.3), (0.02, 0.05, 0.04)):
        truth = rates[0] / max(rates)
        found = rng.binomial(sizes, rates, (models, 3))
        for level in LEVELS:
            risk = (1 - level) / 4
            alone, at_once = (clopper_pearson(found, sizes, 1 - 2 * r) for r in (risk, risk / 3))
            pairs = [ratio_ends(alone[0][i], alone[1][i], at_once[0][i]) for i in range(models)]
            ends = np.array([(low[0], high[0]) for low, high in pairs]).T
            yield row("impact ratio", short(truth), level, ends, None, truth)


def unseen(models: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The bound on the share of findings in regions not seen."""
    for spread in (0.1, 1.0, 10.0):
        for level in LEVELS:
            ends, truth = [], []
            for _ in range(models):
                regions = rng.dirichlet(np.full(100, spread))
                met = rng.choice(100, 200, p=regions)
                truth.append(regions[np.setdiff1d(np.arange(100), met)].sum())
                ends.append((0.0, bounded(met, level)))
            yield row("unseen share", spread, level, np.array(ends).T, None, np.array(truth))


OTHERS = (rows_once, weights, weights_watched, noise, net, impact, unseen)


def simulate(models: int, samples: int, part: float | int) -> list[dict[str, Any]]:
    """Simulate one part: a rate, or one of the others by its number."""
    if isinstance(part, float):
        return list(shares(models, samples, part))
    return list(OTHERS[part](models, np.random.default_rng(part)))


def measure(models: int, samples: int, rates: tuple[float, ...], workers: int = 1) -> dict[str, Any]:
    """Simulate everything."""
    parts: list[float | int] = [*rates, *range(len(OTHERS))]
    result: dict[str, Any] = {
        "machine": facts(),
        "settings": {"models": models, "samples": samples, "experiments": EXPERIMENTS, "looks": LOOKS},
        "shares": [],
        "others": [],
    }
    with ProcessPoolExecutor(workers) as pool:
        for part, made in zip(parts, pool.map(partial(simulate, models, samples), parts), strict=True):
            result["shares" if isinstance(part, float) else "others"] += made
            print(*made, sep="\n", flush=True)
    result["load_after"] = facts()["load"]
    return result | {part: by_interval(result[part]) for part in ("shares", "others")}


def by_interval(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Write the name of an interval once for all of its rows."""
    out: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        out.setdefault(row["interval"], []).append({key: row[key] for key in row if key != "interval"})
    return out


def rows_of(part: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Give each row its interval's name back."""
    return [{"interval": name, **row} for name, rows in part.items() for row in rows]


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "coverage.json")
    options.add_argument("--models", type=int, default=MODELS, help="simulated models for each rate")
    options.add_argument("--samples", type=int, default=SAMPLES, help="individuals asked of each, a multiple of 400")
    options.add_argument("--rates", type=float, nargs="+", default=RATES)
    options.add_argument("--workers", type=int, default=1, help="processes")
    given = options.parse_args(arguments)
    save(given.out, measure(given.models, given.samples, tuple(given.rates), given.workers))


if __name__ == "__main__":
    main()
