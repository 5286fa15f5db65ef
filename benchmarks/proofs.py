"""Proofs: how wide the certified bounds are, what they cost, and what checking their certificates costs.

Also: proofs for the people near rows of data, the largest gap of scores, and samples of what is undecided.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short

DATA = {"Census": "adult", "credit": "german", "bank": "bank"}
MODELS = {
    "tree, fully grown": lambda: DecisionTreeClassifier(random_state=0),
    "logistic regression": lambda: LogisticRegression(max_iter=3000),
    "100 boosted stumps": lambda: GradientBoostingClassifier(max_depth=1, random_state=0),
}
ENSEMBLES = {
    "forest, 20 trees of depth 6": (lambda: RandomForestClassifier(20, max_depth=6, random_state=0), 1_600_000),
    "100 boosted trees of depth 3": (lambda: GradientBoostingClassifier(random_state=0), 2_000_000),
}
"""Models of Census whose bounds close slowly, and the number of boxes at which they stop."""
PROTECTED = {"adult": "sex", "german": "sex", "bank": "age"}
WANTED = {
    "tree, fully grown": (1.0, 0.0),
    "logistic regression": (2.0, 1e-5),
    "forest, 20 trees of depth 6": (60.0, 3e-3),
    "100 boosted trees of depth 3": (120.0, 1.5e-2),
}
"""CPU seconds, and the undecided share, at most."""
CERTIFIED = 30_000
"""Boxes of the certificates of these."""
SAMPLED = 10_000
"""Individuals that are asked about to compare the widths of intervals."""
CLOCK = 3_600.0
"""Seconds by the clock, so that the boxes are the limit on a busy machine too."""
PEOPLE = {
    "forest, 50 trees": lambda: RandomForestClassifier(50, max_depth=5, random_state=0),
    "300 boosted trees of depth 5": lambda: HistGradientBoostingClassifier(
        max_iter=300, max_depth=5, early_stopping=False
    ),
}
ROWS = 16_281
"""Rows of Census whose neighbours are proved; the models are fitted on the others."""
GAPS = {
    "XGBoost, 200 trees of depth 5": lambda: XGBClassifier(n_estimators=200, max_depth=5, n_jobs=1),
    "XGBoost, 500 trees of depth 6": lambda: XGBClassifier(n_estimators=500, max_depth=6, n_jobs=1),
    "LightGBM, 300 trees of depth 6": lambda: LGBMClassifier(n_estimators=300, max_depth=6, n_jobs=1, verbosity=-1),
    "HistGradientBoosting, 400 trees of depth 5": lambda: HistGradientBoostingClassifier(
        max_iter=400, max_depth=5, early_stopping=False
    ),
}
PARTS = ("exact", "ensembles", "people", "gaps")


def subject(data: str) -> tuple[Any, Any, eh.Space]:
    """Return the columns and the target of a data set in the papers' coding, and its space."""
    one = eh.datasets.load(data)
    frame = one.paper_frame()
    return frame.iloc[:, :-1], frame.iloc[:, -1], one.paper_space(PROTECTED[data])


def measured(data: str, model: str, samples: int, title: str) -> dict[str, Any]:
    """Prove one model, ask about random individuals, and check the certificate."""
    X, y, space = subject(data)
    make, boxes = ENSEMBLES.get(model) or (MODELS[model], None)
    fitted = make().fit(X, y)
    limits = {} if boxes is None else {"boxes": boxes, "seconds": CLOCK}
    proof, seconds = cpu(lambda: eh.prove(fitted, space, **limits))
    row: dict[str, Any] = {
        "data": title,
        "model": model,
        "individuals": float(proof.counts.total),
        "status": proof.status.value,
        "unfair": proof.unfair,
        "undecided": proof.undecided,
        "seconds": short(seconds),
        "nodes": int(fitted.tree_.node_count) if hasattr(fitted, "tree_") else None,
    }
    row["sampled"] = proof.check(samples)
    inside, outside = proof.estimate(SAMPLED), eh.estimate(fitted, space, samples=SAMPLED)
    row["width"], row["plain_width"] = inside.high - inside.low, float(outside.high - outside.low)
    if boxes is not None:
        proof, row["certified_seconds"] = cpu(lambda: eh.prove(fitted, space, boxes=CERTIFIED, seconds=CLOCK))
    if boxes is not None or not hasattr(fitted, "estimators_"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "proof.json.gz"
            proof.save(path)
            row["bytes"] = path.stat().st_size
            row["check_seconds"] = short(cpu(lambda: eh.check_proof(path, fitted))[1])
    return row


def near(model: str) -> dict[str, Any]:
    """Prove who is treated differently near the rows that a model was not fitted on."""
    X, y, space = subject("adult")
    fitted = PEOPLE[model]().fit(X.iloc[:-ROWS], y.iloc[:-ROWS])
    data = X.iloc[-ROWS:]
    alone = eh.prove(fitted, space, data=data, boxes=1, seconds=CLOCK)
    proof, seconds = cpu(lambda: eh.prove(fitted, space, data=data, within=0.05, boxes=1, seconds=CLOCK))
    assert proof.people is not None
    return {
        "model": model, **proof.people.to_dict(), "cpu_seconds": short(seconds),
        "decided": proof.people.decided, "rows_unfair": alone.data.unfair if alone.data else 0,
    }  # fmt: skip


def margins(fitted: Any, X: Any) -> Any:
    """Return the log-odds of a boosted model."""
    if isinstance(fitted, XGBClassifier):
        return fitted.predict(X, output_margin=True)
    return fitted.predict(X, raw_score=True) if isinstance(fitted, LGBMClassifier) else fitted.decision_function(X)


def gap(model: str, samples: int) -> dict[str, Any]:
    """Prove the largest gap of scores, and search for it among random individuals."""
    X, y, space = subject("adult")
    fitted = GAPS[model]().fit(X, y)
    proof = eh.prove(fitted, space, boxes=1)
    found, seconds = cpu(proof.largest_gap)
    codes = np.random.default_rng(0).integers(0, space.sizes, size=(samples, len(space.sizes))).astype(np.int32)
    column, scores = space.protected_columns[0], []
    for value in range(space.sizes[column]):
        codes[:, column] = value
        scores.append(margins(fitted, space.frame(codes)[list(X.columns)]))
    pair = space.frame(codes[:2])
    row = found.pair.iloc[0] if found.pair is not None else None
    assert row is not None
    for side, prefix in ((0, ""), (1, "counterpart_")):
        for name in X.columns:
            pair.loc[side, name] = row[prefix + name] if prefix + name in row else row[name]
    shown = margins(fitted, pair[list(X.columns)])
    return {
        "model": model, "low": found.low, "high": found.high, "exact": found.exact, "cpu_seconds": short(seconds),
        "searched": float(np.abs(scores[0] - scores[1]).max()), "shown": float(abs(shown[0] - shown[1])),
        "samples": samples,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "proofs.json")
    options.add_argument("--samples", type=int, default=1_000_000, help="individuals asked about, for each proof")
    options.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to measure")
    given = options.parse_args(arguments)
    result: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    jobs: dict[str, list[Any]] = {
        "exact": [partial(measured, DATA[name], model, given.samples, name) for name in DATA for model in MODELS],
        "ensembles": [partial(measured, "adult", model, given.samples, "Census") for model in ENSEMBLES],
        "people": [partial(near, model) for model in PEOPLE],
        "gaps": [partial(gap, model, 100_000) for model in GAPS],
    }
    for part in given.parts:
        result[part] = {"machine": facts(), "rows": []}
        for job in jobs[part]:
            result[part]["rows"].append(job())
            print(result[part]["rows"][-1], flush=True)
        result[part]["load_after"] = facts()["load"]
        save(given.out, result)


if __name__ == "__main__":
    main()
