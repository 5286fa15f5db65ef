"""The page about proofs."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import section, table, verdict, whole
from benchmarks.proofs import WANTED


def proofs(result: dict[str, Any]) -> str:
    """Write the section about proofs."""
    rows = result["rows"]
    wanted = [row for row in rows if row["model"] in WANTED and row["data"] in ("Census", "credit")]
    met = [row["seconds"] <= WANTED[row["model"]][0] and row["undecided"] <= WANTED[row["model"]][1] for row in wanted]
    missed = [f"{row['model']}, {row['data']}" for row, ok in zip(wanted, met, strict=True) if not ok]
    cells = [
        [f"{row['data']}, {row['model']}", f"{row['individuals']:.2g}", row["status"], f"{100 * row['unfair']:.5f}",
         f"{100 * row['undecided']:.2g}", f"{row['seconds']:.2f}", _checked(row), whole(row["sampled"])]
        for row in rows
    ]  # fmt: skip
    head = [
        "",
        "individuals",
        "status",
        "treated differently, %",
        "undecided, points",
        "CPU s",
        "check, CPU s",
        "asked",
    ]
    return section(
        "Exact rates",
        "proofs",
        result,
        "The papers' coding, by sex, bank by age. The rate is certified: of all valid individuals, all equally likely. "
        "*Check* is the CPU time of the independent checker. *Asked* is how many random individuals with a decided "
        "verdict the model was then asked about; none contradicted the proof.",
        table(head, cells),
        "Target, on Census and credit: trees exact in 1 CPU second, logistic regression to 0.001 points in 2, the "
        "forest to 0.3 points in 60, the boosted trees to 1.5 points in 120. The limit of ensembles is by the clock. "
        + verdict(met, "rows", missed),
    )


def _checked(row: dict[str, Any]) -> str:
    return f"{row['check_seconds']:.2f}" if "check_seconds" in row else ""
