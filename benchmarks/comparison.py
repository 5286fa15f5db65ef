"""The searches side by side on the papers' data and models, with equal tests and ten seeds.

Three questions, each answered per data set, model and search: what an equal number of tests finds, how long 10,000
findings take, and what the papers' own limits give (2,000 random individuals, 2,000 local tests for each seed).
Results are kept after every configuration; a second call does only what is missing.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import evenhand as eh
from benchmarks.machine import Results, cpu, parser, short
from benchmarks.subjects import DATA, SMALL_FOREST, SVM_ROWS, fit, load

SEEDS = 10
TESTS = 50_000
SVM_TESTS = 4_000
GLOBAL = 5_000
"""Random individuals of the global phase, for every search that has one."""
SVM_GLOBAL = 2_000
FINDINGS = 10_000
FINDINGS_GLOBAL = 20_000
"""A wide global phase, because walks that advance together are cheap."""
PATIENCE = 30.0
"""CPU seconds after which a search is not waited for any longer."""
MODELS = ("tree", "forest", "MLP", "ensemble", "SVM")
VARIANTS = {"aequitas random": "random", "aequitas semi": "semi", "aequitas full": "full"}
SEARCHES = ("themis", *VARIANTS, "kosei")
LIMIT = 2_000
LIMITED = ("tree", "forest", "MLP")
LIMITED_SEEDS = 3


def strategy(search: str, samples: int) -> Any:
    """Make a search that only the budget ends (or, for a local one, the lack of anything to start from)."""
    if search == "themis":
        return eh.Themis()
    if search == "kosei":
        return eh.Kosei(samples=samples, rounds=1)
    return eh.Aequitas(VARIANTS[search], samples=samples, steps=10**9, rounds=1)  # type: ignore[arg-type]


def limited(search: str) -> Any:
    """Make a search with the limits of KOSEI's experiments."""
    if search == "kosei":
        return eh.Kosei(samples=LIMIT, per_seed=LIMIT, rounds=1)
    return eh.Aequitas("full", samples=LIMIT, steps=LIMIT, rounds=1)


def repeated(model: Any, space: eh.Space, search: Any, budget: eh.Budget, seeds: int) -> dict[str, Any]:
    """Run one search with several seeds; means, with the spread of the success rate."""
    runs, seconds = zip(
        *(cpu(lambda s=seed: eh.audit(model, space, search, budget, seed=s)) for seed in range(seeds)),  # type: ignore[misc]
        strict=True,
    )
    rates = [run.success_rate for run in runs]
    tests = sum(run.tests for run in runs)
    found = sum(run.found for run in runs)
    repeats = sum(run.counts["repeats"] for run in runs)
    return {
        "seeds": seeds,
        "tests": short(tests / seeds),
        "findings": short(found / seeds),
        "success": short(statistics.fmean(rates)),
        "spread": short(statistics.stdev(rates)) if seeds > 1 else 0.0,
        "repeats": short(repeats / (repeats + tests)),
        "rows": short(sum(run.rows for run in runs) / seeds),
        "per_row": short(found / sum(run.rows for run in runs)),
        "per_second": short(found / sum(seconds)),
        "cpu_seconds": short(sum(seconds) / seeds),
        "stops": sorted({run.stop.value for run in runs}),
    }


def until(model: Any, space: eh.Space, search: Any) -> dict[str, Any]:
    """Run one search until it has found enough, or for as long as anyone would wait."""
    start = time.process_time()

    def watch(_: eh.results.Status) -> None:
        if time.process_time() - start > PATIENCE:
            raise KeyboardInterrupt  # What was found until then is kept, as with Ctrl-C.

    budget = eh.Budget(findings=FINDINGS)
    run, seconds = cpu(lambda: eh.audit(model, space, search, budget, seed=0, progress=watch))
    return {"findings": run.found, "tests": run.tests, "cpu_seconds": short(seconds), "stop": run.stop.value}


def compare(results: Results, data: str, name: str) -> None:
    """Answer the three questions for one data set and model."""
    questions = [("equal", s) for s in SEARCHES] + [("until", s) for s in SEARCHES]
    if name in LIMITED:
        questions += [("limits", s) for s in ("aequitas full", "kosei")]
    missing = [(q, s, f"{data}/{name}/{s}") for q, s in questions if results.lacks(q, f"{data}/{name}/{s}")]
    if not missing:
        return
    space, table = load(data)
    model = fit(name, table)
    svm = name == "SVM"
    for question, search, key in missing:
        if question == "equal":
            chosen = strategy(search, SVM_GLOBAL if svm else GLOBAL)
            answer = repeated(model, space, chosen, eh.Budget(tests=SVM_TESTS if svm else TESTS), SEEDS)
        elif question == "until":
            answer = until(model, space, strategy(search, SVM_GLOBAL if svm else FINDINGS_GLOBAL))
        else:
            answer = repeated(model, space, limited(search), eh.Budget(tests=10**9), LIMITED_SEEDS)
        results.add(question, key, answer)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "comparison.json")
    options.add_argument("--fresh", action="store_true", help="forget what is stored")
    options.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    given = options.parse_args(arguments)
    settings = {
        "seeds": SEEDS,
        "tests": TESTS,
        "svm_tests": SVM_TESTS,
        "global": GLOBAL,
        "svm_global": SVM_GLOBAL,
        "findings_global": FINDINGS_GLOBAL,
        "findings": FINDINGS,
        "patience": PATIENCE,
        "limit": LIMIT,
        "limited_seeds": LIMITED_SEEDS,
        "trees": SMALL_FOREST,
        "svm_rows": SVM_ROWS,
    }
    results = Results(given.out, given.fresh, settings, ("equal", "until", "limits"))
    for name in given.models:
        for data in given.data:
            compare(results, data, name)


if __name__ == "__main__":
    main()
