"""How long a report takes for a data set of many columns, and how much of that is each part of it.

People with whole numbers, texts, decimal numbers and flags; a logistic regression or a random forest that was fitted on
them; kosei. Adult, with 14 columns, is there to compare with.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from benchmarks.realism import model_of

COLUMNS, ROWS, TESTS = (50, 200), 5_000, 60_000


def people(columns: int, rows: int) -> tuple[Any, Any]:
    """Draw rows with that many columns, the last of them the sex, and the true decisions."""
    import pandas as pd

    rng = np.random.default_rng(columns)
    made: dict[str, Any] = {}
    for j in range(columns - 1):
        values = [f"v{value}" for value in range(3 + j % 17)]
        kinds = (
            lambda: rng.integers(0, 100, rows),
            lambda values=values: rng.choice(values, rows),
            lambda: rng.normal(size=rows).round(2),
            lambda: rng.integers(0, 2, rows),
        )
        made[f"x{j}"] = kinds[j % len(kinds)]()
    frame = pd.DataFrame(made)
    frame["sex"] = rng.choice(["female", "male"], rows)
    score = frame["x0"] / 50 - 1 + frame["x2"] + 0.8 * (frame["sex"] == "male") * (frame["x4"] > 50)
    return frame, np.where(score + rng.normal(size=rows) / 2 > 0, "yes", "no")


def fitted(kind: str, frame: Any, decisions: Any) -> Any:
    """Fit a model on a frame of texts and numbers."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    texts = list(frame.select_dtypes(exclude="number").columns)
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), texts), remainder=StandardScaler())
    forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
    return make_pipeline(encode, LogisticRegression(max_iter=500) if kind == "linear" else forest).fit(frame, decisions)


def timed(model: Any, space: eh.Space, data: Any, favourable: Any, tests: int) -> dict[str, Any]:
    """Audit a model and take the CPU seconds of its report, and of what takes longest in it."""
    run = eh.audit(model, space, "kosei", eh.Budget(tests=tests), data=data)
    with tempfile.TemporaryDirectory() as folder:
        path, whole = cpu(lambda: eh.report(run, Path(folder) / "report.html", data=data, favourable=favourable))
        size = path.stat().st_size
    parts = {
        "regions": cpu(lambda: eh.regions(run, data=data, max_regions=3, samples=5_000, rows=120_000))[1],
        "pairs": cpu(lambda: eh.examples(run, data=data, n=4))[1],
    }
    return {
        "columns": len(space.names),
        "findings": run.found,
        "report": short(whole),
        "bytes": size,
        **{name: short(seconds) for name, seconds in parts.items()},
    }


def measure(columns: tuple[int, ...], rows: int, tests: int) -> dict[str, Any]:
    """Measure every width and kind of model, then Adult."""
    result: dict[str, Any] = {"machine": facts(), "settings": {"rows": rows, "tests": tests}, "reports": {}}
    for kind in ("linear", "forest"):
        for width in columns:
            frame, decisions = people(width, rows)
            space = eh.Space.infer(frame, protected="sex")
            name = f"{kind}, {width} columns"
            result["reports"][name] = timed(fitted(kind, frame, decisions), space, frame, "yes", tests)
            print(name, result["reports"][name], flush=True)
    adult = eh.datasets.load("adult")
    held = adult.test[list(adult.features)][:rows]
    result["reports"]["Adult"] = timed(model_of(adult), adult.space(), held, ">50K", tests)
    print("Adult", result["reports"]["Adult"], flush=True)
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "wide.json")
    options.add_argument("--columns", type=int, nargs="+", default=COLUMNS, help="columns of each data set")
    options.add_argument("--rows", type=int, default=ROWS, help="rows of each data set")
    options.add_argument("--tests", type=int, default=TESTS, help="tests of each audit")
    given = options.parse_args(arguments)
    save(given.out, measure(tuple(given.columns), given.rows, given.tests))


if __name__ == "__main__":
    main()
