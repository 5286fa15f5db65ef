"""Proofs: how wide the certified bounds are, what they cost, and what checking their certificates costs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short

DATA = {"Census": "adult", "credit": "german", "bank": "bank"}
MODELS = {
    "tree, fully grown": lambda: DecisionTreeClassifier(random_state=0),
    "logistic regression": lambda: LogisticRegression(max_iter=3000),
    "100 boosted stumps": lambda: GradientBoostingClassifier(max_depth=1, random_state=0),
}
ENSEMBLES = {
    "forest, 20 trees of depth 6": (lambda: RandomForestClassifier(20, max_depth=6, random_state=0), 60.0),
    "100 boosted trees of depth 3": (lambda: GradientBoostingClassifier(random_state=0), 120.0),
}
"""Models of Census whose bounds close slowly, and the seconds by the clock that they get."""
PROTECTED = {"adult": "sex", "german": "sex", "bank": "age"}
WANTED = {
    "tree, fully grown": (1.0, 0.0),
    "logistic regression": (2.0, 1e-5),
    "forest, 20 trees of depth 6": (60.0, 3e-3),
    "100 boosted trees of depth 3": (120.0, 1.5e-2),
}
"""CPU seconds, and the undecided share, at most."""


def measured(data: str, model: str, samples: int) -> dict[str, Any]:
    """Prove one model, ask about random individuals, and check the certificate."""
    subject = eh.datasets.load(data)
    frame, space = subject.paper_frame(), subject.paper_space(PROTECTED[data])
    make, limit = ENSEMBLES.get(model) or (MODELS[model], None)
    fitted = make().fit(frame.iloc[:, :-1], frame.iloc[:, -1])
    proof, seconds = cpu(lambda: eh.prove(fitted, space, seconds=limit))
    row: dict[str, Any] = {
        "data": data,
        "model": model,
        "individuals": float(proof.counts.total),
        "status": proof.status.value,
        "unfair": proof.unfair,
        "undecided": proof.undecided,
        "seconds": short(seconds),
        "nodes": int(fitted.tree_.node_count) if hasattr(fitted, "tree_") else None,
    }
    row["sampled"] = proof.check(samples)
    if not hasattr(fitted, "estimators_"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "proof.json.gz"
            proof.save(path)
            row["bytes"] = path.stat().st_size
            row["check_seconds"] = short(cpu(lambda: eh.check_proof(path, fitted))[1])
    return row


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "proofs.json")
    options.add_argument("--samples", type=int, default=1_000_000, help="individuals asked about, for each proof")
    options.add_argument("--only", nargs="+", default=list(DATA), help="data sets")
    given = options.parse_args(arguments)
    result: dict[str, Any] = {"machine": facts(), "rows": []}
    for name in given.only:
        for model in (*MODELS, *(ENSEMBLES if name == "Census" else ())):
            result["rows"].append(measured(DATA[name], model, given.samples) | {"data": name})
            print(result["rows"][-1], flush=True)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
