"""How much of a model's own speed is left when evenhand asks it, and how far that is from asking one by one.

Efficiency is the CPU time of the bare model's ``predict`` on the very rows that a run asked (captured in an identical
run, 16,384 at a time, same dtype) over the CPU time of the whole run. The two are measured in turns; the least of each
counts, because other programs on the machine only ever add to it.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from benchmarks.sequential import Sequential
from benchmarks.subjects import fit, load
from evenhand._rng import Stream

BATCH = 16_384
ROUNDS, SECONDS = 25, 6.0
"""How often run and bare model take turns, at most, and in how many seconds, but three times at least."""
SEARCHES = ("themis", "kosei")
WANTED = {
    "forest of 50": 0.9,
    "boosting": 0.9,
    "MLP": 0.75,
    "tree": 0.3,
    "logistic regression": 0.3,
}
FEW = 100_000
TESTS = {"forest of 50": FEW, "boosting": FEW, "MLP": 10 * FEW, "tree": 10 * FEW, "logistic regression": 10 * FEW}
"""Every model answers few tests; fast ones also more, which shows what a test costs without the cost of a run."""
WANTED_GAIN = {"tree": 200, "MLP": 200, "forest of 50": 800}
SAMPLES = 2_000
"""Random individuals that the one-by-one search starts from, as in the paper."""
SEQUENTIAL_SECONDS = 10.0


class Recorder:
    """Keeps the rows that a model is asked."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.blocks: list[npt.NDArray[np.float64]] = []

    def __call__(self, X: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Answer as the model does."""
        self.blocks.append(X.copy())
        answer: npt.NDArray[Any] = self.model.predict(X)
        return answer

    def rows(self) -> npt.NDArray[np.float64]:
        """All rows in the order in which they were asked."""
        return np.concatenate(self.blocks)


def bare(model: Any, rows: npt.NDArray[np.float64]) -> None:
    """Let the model itself predict the rows, batch by batch."""
    for start in range(0, len(rows), BATCH):
        model.predict(rows[start : start + BATCH])


def efficiency(model: Any, space: eh.Space, search: str, tests: int) -> dict[str, Any]:
    """Measure one model under one search."""

    def audit(asked: Any) -> eh.Run:
        return eh.audit(asked, space, search, eh.Budget(tests=tests), seed=0)

    recorder = Recorder(model)
    recorded = audit(eh.wrap(recorder, input="array"))
    rows = recorder.rows()
    pairs, start = [], time.monotonic()
    while len(pairs) < 3 or (len(pairs) < ROUNDS and time.monotonic() - start < SECONDS):
        run, seconds = cpu(lambda: audit(model))
        assert (run.tests, run.found, run.rows) == (recorded.tests, recorded.found, recorded.rows)
        pairs.append((seconds, cpu(lambda: bare(model, rows))[1]))
    run_seconds, bare_seconds = (min(times) for times in zip(*pairs, strict=True))
    return {
        "tests": recorded.tests,
        "rows": len(rows),
        "findings": recorded.found,
        "pairs": len(pairs),
        "cpu_seconds": short(run_seconds),
        "rows_per_second": short(len(rows) / run_seconds),
        "bare_rows_per_second": short(len(rows) / bare_seconds),
        "findings_per_second": short(recorded.found / run_seconds),
        "ns_beside": short(1e9 * (run_seconds - bare_seconds) / recorded.tests),
        "efficiency": short(bare_seconds / run_seconds),
    }


def one_by_one(model: Any, space: eh.Space, seconds: float, samples: int) -> dict[str, Any]:
    """Measure the sequential reference on the same sample; its rate is that of the local search alone."""
    domains = [(attribute.low, attribute.high) for attribute in space.attributes]  # type: ignore[attr-defined]
    reference = Sequential(model, domains, space.protected_columns)
    sample, _ = space.sampler.draw(Stream(0), 0, samples)
    lows = np.array([low for low, _ in domains])
    seeds = reference.global_search(tuple(row) for row in (sample.rows + lows).tolist())
    before, start = len(reference.judged), time.process_time()
    # Looking at the clock costs little beside a model call.
    found = sum(
        1 for _ in itertools.takewhile(lambda _: time.process_time() - start < seconds, reference.local_search(seeds))
    )
    spent = time.process_time() - start
    return {
        "seeds": len(seeds),
        "tests": len(reference.judged) - before,
        "findings": found,
        "cpu_seconds": short(spent),
        "findings_per_second": short(found / spent),
    }


def measure(models: list[str], scale: float, seconds: float) -> dict[str, Any]:
    """Run everything; ``scale`` shrinks the budgets."""
    space, table = load("census")
    result: dict[str, Any] = {"machine": facts(), "batch": BATCH, "efficiency": [], "gain": []}
    for name in models:
        model = fit(name, table)
        for search, tests in itertools.product(SEARCHES, sorted({FEW, TESTS[name]})):
            measured = efficiency(model, space, search, max(1_000, int(tests * scale)))
            row = {"model": name, "search": search, "wanted": WANTED[name], **measured}
            result["efficiency"].append(row)
            print(
                f"{name:20} {search:7} {row['rows']:>9,} rows  {row['cpu_seconds']:6.2f} s  "
                f"{row['rows_per_second']:>12,.0f} of {row['bare_rows_per_second']:>12,.0f} rows/s  "
                f"{row['efficiency']:.2f} (wanted {row['wanted']})  {row['ns_beside']:.0f} ns beside",
                flush=True,
            )
        if name in WANTED_GAIN:
            slow = one_by_one(model, space, seconds, SAMPLES)
            fast = result["efficiency"][-1]["findings_per_second"]
            gain = {"model": name, "wanted": WANTED_GAIN[name], "findings_per_second": fast, "sequential": slow}
            gain["gain"] = short(fast / slow["findings_per_second"]) if slow["findings"] else None
            result["gain"].append(gain)
            print(f"{name:20} {fast:,.0f} findings/s, one by one {slow['findings_per_second']:,.0f}: {gain['gain']}")
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "throughput.json")
    options.add_argument("--models", nargs="+", default=list(WANTED), choices=list(WANTED))
    options.add_argument("--scale", type=float, default=1.0, help="multiplies the number of tests")
    options.add_argument(
        "--seconds", type=float, default=SEQUENTIAL_SECONDS, help="CPU seconds of the one-by-one search"
    )
    given = options.parse_args(arguments)
    save(given.out, measure(given.models, given.scale, given.seconds))


if __name__ == "__main__":
    main()
