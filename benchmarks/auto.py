"""What ``auto`` promises: rare discrimination is found, its estimate holds whenever a run stops, and it costs little.

``rare`` plants rules that hold for few individuals. ``estimate`` audits simulated models whose rates are known, and
stops at a random moment, at the first finding, and at the budget. ``speed`` compares runs with the bare model, and
the fast test of realism with comparing everything. ``resume`` kills a run of a million tests again and again.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from benchmarks.coverage import SPACE, Simulated
from benchmarks.machine import Results, cpu, parser, short
from benchmarks.subjects import fit, load
from benchmarks.throughput import bare
from evenhand._intervals import clopper_pearson, planned
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.spaces.realism import Realism

QUESTIONS = ("rare", "estimate", "width", "speed", "realism", "resume")
TESTS = 100_000
MODELS, PEOPLE, BUDGET = 2_000, (300, 40), 600
SHARES = (0.0, 0.001, 0.01, 0.1, 0.5)
STOPS = ("moment", "first finding", "budget")
"""When the audit of a simulated model ends."""
OF = {"uniform": "uniform", "data": "data", "rows": "data"}
"""Whose rate is compared with which estimate: valid individuals; the population of the rows; the rows themselves."""
SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
LONG = {"forest of 50": (TESTS, 4 * TESTS), "boosting": (TESTS, 4 * TESTS)}
"""Tests of a run beside the bare model."""
LARGE, KILLS, ROUNDS = 1_000_000, 4, 2


def planted(domains: list[int], values: tuple[int, ...]) -> tuple[Any, eh.Space]:
    """Return a model that decides by sex where the first attributes have some values."""
    space = eh.Space([eh.Integer(f"a{j}", 0, n - 1) for j, n in enumerate(domains)] + [eh.Boolean("sex")], "sex")

    def rule(X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return np.asarray((X[:, : len(values)] == values).all(axis=1) & (X[:, -1] > 0))

    return eh.wrap(rule, input="array"), space


WORLDS: dict[str, tuple[list[int], tuple[int, ...], float]] = {
    "3 million, rate 1/3,000": ([100, 30, 1000], (7, 3), 1 / 3_000),
    "10^12, rate 1/30,000": ([100, 300, 1000, 1000, 34], (7, 3), 1 / 30_000),
}
"""How many values each attribute has, the first ones' where sex decides, and how common those are."""


def rare(name: str, seeds: int) -> dict[str, Any]:
    """Count the seeds that find a planted rule."""
    domains, values, rate = WORLDS[name]
    model, space = planted(domains, values)
    first, draws = list[int](), list[int]()
    for seed in range(seeds):
        run = eh.audit(model, space, budget=eh.Budget(tests=TESTS, findings=1), seed=seed)
        if run.found:
            first.append(run.tests)
        else:
            draws.append(run.estimate["uniform"].samples)
    samples = int(0.2 * TESTS)
    return {
        "tests": TESTS,
        "individuals": space.tests,
        "seeds": seeds,
        "found": len(first),
        "first": [statistics.median(first), max(first)] if first else None,
        "draws": samples,
        "promised": short(1 - (1 - rate) ** samples),
        "draws_without": min(draws, default=None),
    }


class At:
    """A cancel token that ends a run after so many tests, or at its first finding."""

    def __init__(self, tests: float, findings: float = float("inf")) -> None:
        self._tests, self._findings, self._over = tests, findings, False

    def look(self, status: Any) -> None:
        """Take a run's progress."""
        self._over = status.tests >= self._tests or status.findings >= self._findings

    def is_set(self) -> bool:
        """Whether the run is to end."""
        return self._over


def estimate(share: float, models: int, budget: int) -> dict[str, Any]:
    """Audit simulated models, each stopped in three ways, and count how often the known rates are in the intervals."""
    out = {
        f"{stop}, {name}": {"held": 0, "of": 0, "widths": list[float](), "bias": list[float]()}
        for stop in STOPS
        for name in OF
    }
    findings = 0
    for number in range(models):
        rng = np.random.default_rng([number, round(1 / (share + 1e-6))])
        # Half of the data sets are so small that all rows are drawn.
        size = PEOPLE[number % len(PEOPLE)]
        model, rows = Simulated(share, number), rng.integers(0, 4096, size=(size, 5)).astype(np.int32)
        rows[:, 4] %= 2
        people = SPACE.individuals(rows)
        judge = Judge(ModelProbe(model, SPACE, eh.Flip()), seed=number)
        of_rows = float(judge.judge(judge.families(people)).unfair.mean())
        rates = {"uniform": share, "data": share, "rows": of_rows}
        tokens = (At(int(rng.integers(1, budget))), At(float("inf"), 1), At(float("inf")))
        for stop, token in zip(STOPS, tokens, strict=True):
            run = eh.audit(
                model, SPACE, budget=eh.Budget(tests=budget), seed=number, data=SPACE.frame(rows), cancel=token,
                progress=token.look, confirm=0,
            )  # fmt: skip
            findings += run.found
            for name, rate in rates.items():
                if (one := run.estimate.get(OF[name])) is None or not one.samples:
                    continue
                row = out[f"{stop}, {name}"]
                low, high = (float(end) for end in clopper_pearson(one.found, one.samples))
                row["held"] += one.low <= rate + 1e-12 and rate - 1e-12 <= one.high
                row["of"] += 1
                row["widths"].append((one.high - one.low) / (high - low))
                row["bias"].append(one.rate - rate)
    for row in out.values():
        bias, row["widest"] = np.array(row.pop("bias")), short(max(row.pop("widths"), default=0.0))
        row["bias"] = short(float(bias.mean())) if len(bias) else 0.0
        row["bias_error"] = short(float(bias.std() / np.sqrt(max(len(bias), 1)))) if len(bias) else 0.0
    return {"models": models, "budget": budget, "findings": findings, "intervals": out}


def width(samples: int) -> dict[str, float]:
    """How many times as wide as that of Clopper and Pearson an interval is, at most, for any number of findings."""
    some = np.unique(np.r_[0:50, np.linspace(0, samples, 101).round().astype(int)])
    watched, then, none = 0.0, 0.0, 0.0
    for found in some[some <= samples].tolist():
        low, high = (float(end) for end in clopper_pearson(found, samples))
        for at_plan in (False, True):
            ends = planned(found, samples, (found, samples) if at_plan else None)
            ratio = (ends[1] - ends[0]) / (high - low)
            if not found:
                none = max(none, ratio)
            elif at_plan:
                then = max(then, ratio)
            else:
                watched = max(watched, ratio)
    return {"watched": short(watched), "planned": short(then), "nothing found": short(none)}


def speed(name: str, tests: int) -> dict[str, Any]:
    """Compare the CPU time of a run with that of the bare model on the same rows, in turns."""
    space, table = load("census")
    model, blocks = fit(name, table), list[npt.NDArray[np.float64]]()
    people = pd.DataFrame(table[0][:10_000], columns=list(space.names))
    predict, ratios = model.predict_proba, list[float]()

    def recorded(X: Any) -> Any:
        blocks.append(np.array(X))
        return predict(X)

    def audit() -> eh.Run:
        return eh.audit(model, space, budget=eh.Budget(tests=tests), data=people)

    alone = SimpleNamespace(predict=predict)
    model.predict_proba = recorded
    recorded_run, rows = audit(), np.concatenate(blocks)
    del model.predict_proba
    for _ in range(ROUNDS):
        run, seconds = cpu(audit)
        assert (run.tests, run.found, run.rows) == (recorded_run.tests, recorded_run.found, recorded_run.rows)
        ratios.append(cpu(lambda: bare(alone, rows))[1] / seconds)
    return {
        "tests": run.tests,
        "findings": run.found,
        "rows": len(rows),
        "calls": len(blocks),
        "cpu_seconds": short(seconds),
        "ratios": [short(ratio) for ratio in ratios],
        "efficiency": short(statistics.median(ratios)),
    }


def realism(name: str) -> dict[str, Any]:
    """Compare the fast test of realism with the distance to everyone, for 1,000 findings at a time."""
    data = eh.datasets.load(name)
    space = data.space()
    people = space.encode(data.train).individuals
    real = Realism(space, people)
    rng = np.random.default_rng(0)
    rows = people.rows[rng.integers(len(people), size=20_000)].copy()
    for _ in range(3):
        column = rng.integers(len(space.names), size=len(rows))
        rows[np.arange(len(rows)), column] = people.rows[rng.integers(len(people), size=len(rows)), column]
    quick, quick_seconds = cpu(lambda: real.realistic(rows, thorough=False))
    exact, exact_seconds = cpu(lambda: real.realistic(rows))
    slow, all_seconds = cpu(lambda: real.likeness(rows[:2_000]))
    assert (exact[:2_000] == slow.realistic).all()
    return {
        "realistic": short(float(exact.mean())),
        "overlooked": short(float((exact & ~quick).mean())),
        "quick": short(quick_seconds / 20),
        "exact": short(exact_seconds / 20),
        "everyone": short(all_seconds / 2),
    }


def child(directory: str, tests: int) -> None:
    """Audit a tree in this process."""
    space, (X, y) = load("census")
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    people = pd.DataFrame(X[:10_000], columns=list(space.names))
    eh.audit(tree, space, budget=eh.Budget(tests=tests), data=people, directory=directory, confirm=1_000)


def resume(tests: int, kills: int) -> dict[str, Any]:
    """Kill a run at random moments, resume it, and compare its files with those of a run that was left alone."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        child(f"{folder}/alone", tests)
        seconds, rng, killed = time.monotonic() - start, random.Random(0), 0
        command = [sys.executable, "-m", "benchmarks.auto", "--child", f"{folder}/killed", str(tests)]
        while True:
            process = subprocess.Popen(command)
            try:
                process.wait(rng.uniform(0.2, 0.9) * seconds if killed < kills else None)
                break
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
        logs = [hashlib.sha256(Path(folder, name, "answers.log").read_bytes()) for name in ("alone", "killed")]
        alone, again = (eh.Run.load(f"{folder}/{name}") for name in ("alone", "killed"))
        assert alone.pairs.frame().equals(again.pairs.frame())
        return {
            "tests": again.tests,
            "findings": again.found,
            "kills": killed,
            "same_estimate": alone.estimate == again.estimate and alone.arms == again.arms,
            "same_log": logs[0].digest() == logs[1].digest(),
        }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "auto.json")
    options.add_argument("--only", nargs="+", default=list(QUESTIONS), choices=QUESTIONS)
    options.add_argument("--scale", type=float, default=1.0, help="multiplies seeds, models and tests")
    options.add_argument("--fresh", action="store_true", help="forget the results that are there")
    options.add_argument("--child", nargs=2)
    given = options.parse_args(arguments)
    if given.child:
        child(given.child[0], int(given.child[1]))
        return
    scaled = {
        name: max(2, int(n * given.scale))
        for name, n in {"seeds": 100, "models": MODELS, "budget": BUDGET, "large": LARGE}.items()
    }
    results = Results(given.out, given.fresh, {"scale": given.scale, **scaled}, QUESTIONS)
    wanted: dict[str, dict[str, Any]] = {
        "rare": {name: (lambda name=name: rare(name, scaled["seeds"])) for name in WORLDS},
        "estimate": {
            str(share): (lambda share=share: estimate(share, scaled["models"] // len(SHARES), scaled["budget"]))
            for share in SHARES
        },
        "width": {str(n): (lambda n=n: width(n)) for n in SIZES},
        "speed": {
            f"{name}, {n:,} tests": (lambda name=name, n=n: speed(name, max(1000, int(n * given.scale))))
            for name, several in LONG.items()
            for n in several
        },
        "realism": {name: (lambda name=name: realism(name)) for name in ("adult", "german", "bank")},
        "resume": {"tree": lambda: resume(scaled["large"], KILLS)},
    }
    for question in given.only:
        for key, ask in wanted[question].items():
            if results.lacks(question, key):
                results.add(question, key, ask())


if __name__ == "__main__":
    main()
