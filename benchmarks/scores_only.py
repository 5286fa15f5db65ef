"""ADF by differences of scores against random search, with an equal number of model rows: models without a gradient.

A forest and a boosted ensemble on the papers' coding of Census, and a pipeline with one-hot encoding on Adult's own
values, each by two protected attributes. Ten seeds; the success rate is findings over tests, and what the two find per
model row stands beside it, because differences cost rows.
"""

from __future__ import annotations

import statistics
from typing import Any

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from benchmarks.subjects import fit

ROWS = 400_000
SEEDS = 10
WANTED = 4
PAIRS = tuple((model, protected) for model in ("forest of 50", "boosting", "one-hot") for protected in ("sex", "race"))


def subject(name: str, protected: str) -> tuple[Any, eh.Space, Any]:
    """Return a fitted model, its space and its data."""
    dataset = eh.datasets.load("adult")
    if name == "one-hot":
        rows, columns = dataset.train, list(dataset.features)
        encode = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            (StandardScaler(), make_column_selector(dtype_include="number")),
        )
        model = make_pipeline(encode, LogisticRegression(max_iter=1000))
        model.fit(rows[columns], rows[dataset.target])
        return model, dataset.space(protected=[protected]), rows[columns]
    frame = dataset.paper_frame()
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
    return fit(name, (X.to_numpy(float), y.to_numpy())), dataset.paper_space(protected=[protected]), X


def repeated(model: Any, space: eh.Space, strategy: Any, data: Any, seeds: int, rows: int) -> dict[str, Any]:
    """Run one search with several seeds."""
    budget = eh.Budget(rows=rows)
    runs, seconds = zip(
        *(cpu(lambda s=seed: eh.audit(model, space, strategy, budget, seed=s, data=data)) for seed in range(seeds)),  # type: ignore[misc]
        strict=True,
    )
    rates = [run.success_rate for run in runs]
    return {
        "success": short(statistics.fmean(rates)),
        "spread": short(statistics.stdev(rates)) if seeds > 1 else 0.0,
        "tests": short(statistics.fmean(run.tests for run in runs)),
        "findings": short(statistics.fmean(run.found for run in runs)),
        "rows": short(statistics.fmean(run.rows for run in runs)),
        "cpu_seconds": short(statistics.fmean(seconds)),
        "gradient": runs[0].gradient,
        "stops": sorted({run.stop.value for run in runs}),
    }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "scores_only.json")
    options.add_argument("--seeds", type=int, default=SEEDS)
    options.add_argument("--budget", type=int, default=ROWS, help="model rows of each run")
    given = options.parse_args(arguments)
    result: dict[str, Any] = {"machine": facts(), "rows": given.budget, "seeds": given.seeds, "wanted": WANTED}
    result["pairs"] = []
    for name, protected in PAIRS:
        model, space, data = subject(name, protected)
        pair: dict[str, Any] = {"model": name, "protected": protected}
        for search, strategy in {"adf": eh.Adf(gradient="scores"), "random": eh.Themis()}.items():
            pair[search] = repeated(model, space, strategy, data, given.seeds, given.budget)
        result["pairs"].append(pair)
        print(pair, flush=True)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
