"""AEQUITAS and KOSEI by the questions of their papers.

Of AEQUITAS's, on Census by sex with its six classifiers: what an equal number of tests finds (table 3), how long
10,000 findings take (table 4), how findings grow with tests (figure 5), and what its estimate converges to (figure 2).
Of KOSEI's, on three data sets with three classifiers: what both find with 2,000 random individuals and 2,000 local
tests for each seed (table I).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.adf import patient, spread
from benchmarks.machine import cpu, short
from benchmarks.subjects import DATA, fit, load
from benchmarks.tasks import Task

CLASSIFIERS = ("fair SVM", "SVM", "MLP", "forest", "tree", "ensemble")
SLOW = ("SVM",)
"""Classifiers that answer slowly, which get fewer tests."""
VARIANTS = ("random", "semi", "full")
WALKS = {"": eh.Aequitas.PRINTED, ", program": eh.Aequitas.PROGRAM, ", default": 0.0}
"""Walks as the algorithm is printed, as the published program makes them, and evenhand's default."""
SEARCHES = ("themis", *(f"aequitas {variant}" for variant in VARIANTS), "aequitas full, program",
            "aequitas full, default", "kosei")  # fmt: skip
TIMED = SEARCHES[:4]
LIMITED = ("tree", "forest", "MLP")
QUESTIONS = ("equal", "until", "growth", "estimate", "limits")
FULL: dict[str, Any] = {
    "seeds": 10,
    "tests": 50_000,
    "slow_tests": 4_000,
    "samples": 5_000,
    "slow_samples": 2_000,
    "findings": 10_000,
    "findings_samples": 20_000,
    "patience": 30.0,
    "points": 5,
    "growth_seeds": 2,
    "experiments": [25, 50, 100, 200, 400],
    "size": 1_000,
    "limit": 2_000,
    "limited_seeds": 10,
}
"""Samples: random individuals of the global phase. To 10,000 findings it is wider, because walks that advance together
are cheap; a search is not waited for longer than for so many CPU seconds of patience."""
USES = {"limits": ("limit", "limited_seeds"), "growth": ("points", "growth_seeds"),
        "estimate": ("experiments", "size"), "until": ("findings", "findings_samples", "patience")}  # fmt: skip
"""Settings of one question only."""
QUICK: dict[str, Any] = FULL | {
    "seeds": 1,
    "tests": 600,
    "samples": 200,
    "findings": 20,
    "findings_samples": 200,
    "patience": 0.5,
    "points": 3,
    "growth_seeds": 1,
    "experiments": [2, 4],
    "size": 100,
    "limit": 100,
    "limited_seeds": 1,
}


@dataclass(frozen=True)
class Subject:
    """A fitted classifier and its space."""

    model: Any
    space: eh.Space

    def audit(self, search: Any, seed: int, budget: eh.Budget, **more: Any) -> tuple[eh.Run, float]:
        """Run a search; return also its CPU seconds."""
        return cpu(lambda: eh.audit(self.model, self.space, search, budget, seed=seed, **more))


@lru_cache(maxsize=2)
def subject(data: str, name: str) -> Subject:
    """Fit a classifier of a data set."""
    space, table = load(data)
    if name == "fair SVM":
        from benchmarks.estimates import fair_svm

        return Subject(fair_svm(table, space.protected_columns[0]), space)
    return Subject(fit(name, table), space)


def strategy(search: str, samples: int) -> Any:
    """Make a search that only the budget ends (or, for a local one, the lack of anything to start from)."""
    if search == "themis":
        return eh.Themis()
    if search == "kosei":
        return eh.Kosei(samples=samples, rounds=1)
    variant, comma, walk = search.removeprefix("aequitas ").partition(",")
    return eh.Aequitas(variant, samples=samples, steps=10**9, rounds=1, stray=WALKS[comma + walk])  # type: ignore[arg-type]


def equal(name: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Search with an equal number of tests (table 3)."""
    slow = "slow_" if name in SLOW else ""
    tests, samples = s[f"{slow}tests"], s[f"{slow}samples"]
    return repeated(subject("census", name), strategy(search, samples), eh.Budget(tests=tests), s["seeds"])


def repeated(on: Subject, search: Any, budget: eh.Budget, seeds: int) -> dict[str, Any]:
    """Run one search with several seeds; means and standard deviations."""
    runs, seconds = zip(*(on.audit(search, seed, budget) for seed in range(seeds)), strict=True)
    repeats = sum(run.counts["repeats"] for run in runs)
    return {
        "tests": spread([run.tests for run in runs]),
        "findings": spread([run.found for run in runs]),
        "success": spread([run.success_rate for run in runs]),
        "repeats": short(repeats / max(1, repeats + sum(run.tests for run in runs))),
        "seconds": spread(seconds),
    }


def until(name: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Search until so much is found, or for as long as anyone would wait (table 4)."""
    samples = s["slow_samples" if name in SLOW else "findings_samples"]
    on = subject("census", name)
    run, seconds = patient(on, strategy(search, samples), 0, s["findings"], s["patience"])
    return {"findings": run.found, "tests": run.tests, "seconds": short(seconds), "reached": run.found >= s["findings"]}


def growth(search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Say how findings of the fair SVM grow with tests (figure 5)."""
    most, on = s["tests"], subject("census", "fair SVM")
    tests = [most * number // s["points"] for number in range(1, s["points"] + 1)]
    found = [[on.audit(strategy(search, s["samples"]), seed, eh.Budget(tests=n))[0].found for n in tests]
             for seed in range(s["growth_seeds"])]  # fmt: skip
    return {"tests": tests, "findings": [short(statistics.fmean(column)) for column in zip(*found, strict=True)]}


def estimate(name: str, s: dict[str, Any]) -> dict[str, Any]:
    """Say how the mean of experiments converges, and how soon random tests find something (figure 2)."""
    on, size, most = subject("census", name), s["size"], s["experiments"][-1]

    def found(tests: int, seed: int) -> int:
        return on.audit(eh.Themis(samples=tests), seed, eh.Budget(tests=tests))[0].found

    rates = [found(size, seed) / size for seed in range(most)]
    iterations = [max(1, size // part) for part in (50, 20, 10, 5, 2)]
    early = [[found(n, seed) > 0 for seed in range(most, most + most // 4)] for n in iterations]
    return {
        "means": [short(statistics.fmean(rates[:n])) for n in s["experiments"]],
        "iterations": iterations,
        "found_by": [short(float(np.mean(column))) for column in early],
    }


def limits(data: str, name: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Search with the limits of KOSEI's experiments (table I)."""
    limit = s["limit"]
    chosen: Any = eh.Kosei(samples=limit, per_seed=limit, rounds=1)
    if search != "kosei":
        chosen = eh.Aequitas("full", samples=limit, steps=limit, rounds=1, stray=eh.Aequitas.PRINTED)
    return repeated(subject(data, name), chosen, eh.Budget(tests=10**9), s["limited_seeds"])


def tasks(settings: dict[str, Any], quick: bool) -> Iterator[Task]:
    """List everything that is measured."""

    def task(question: str, key: str, call: Callable[[], dict[str, Any]], cost: float) -> Task:
        return Task("aequitas", question, key, call, cost)

    for name in ("tree",) if quick else CLASSIFIERS:
        for search in SEARCHES:
            cost = 80 if name in SLOW else 20
            yield task("equal", f"{name}/{search}", partial(equal, name, search, settings), cost)
        for search in TIMED:
            yield task("until", f"{name}/{search}", partial(until, name, search, settings), 30 if name in SLOW else 10)
    for search in TIMED:
        yield task("growth", search, partial(growth, search, settings), 60)
    yield task("estimate", "fair SVM", partial(estimate, "fair SVM", settings), 20)
    for data in ("credit",) if quick else DATA:
        for name in LIMITED[:1] if quick else LIMITED:
            for search in ("aequitas full", "kosei"):
                call = partial(limits, data, name, search, settings)
                yield task("limits", f"{data}/{name}/{search}", call, 100)
