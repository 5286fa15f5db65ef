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


def nets(result: dict[str, Any]) -> str:
    """Write the section about networks."""
    rows = result["rows"]
    met = [100 * row["undecided"] < row["target"] for row in rows]
    narrower = [row for row in rows if row["other"] is not None and 100 * row["undecided"] < row["other"]]
    cells = [
        [f"{row['net']}, {row['layers']}, by {row['protected']}", f"{row['individuals']:.2g}",
         f"{100 * row['unfair']:.4f}", f"**{100 * row['undecided']:.2f}**", f"{row['target']:g}",
         "" if row["other"] is None else f"{row['other']:g}", f"{row['seconds']:.1f}",
         "{:.2f} ({:.2f} to {:.2f})".format(*(100 * one for one in row["estimate"])), whole(row["sampled"])]
        for row in rows
    ]  # fmt: skip
    head = ["", "individuals", "certainly treated differently, %", "undecided, points", "target", "FairQuant", "CPU s",
            "share with a sample of 1,000, %", "asked"]  # fmt: skip
    given = sum(row["other"] is not None for row in rows)
    return section(
        "Networks",
        "proof_nets NETS.npz",
        result,
        f"Networks published with Fairify (Biswas and Rajan, ICSE 2023), {result['limit']:g} CPU seconds each. "
        "*FairQuant* is what the program of Kim et al. (ICSE 2025) left undecided in 12 to 15 CPU seconds. "
        "*Asked* is how many random individuals with a decided verdict the model was then asked about; none "
        "contradicted the proof.",
        table(head, cells),
        "Target: at most that many points undecided in 60 CPU seconds. "
        + verdict(met, "networks", [row["net"] for row, ok in zip(rows, met, strict=True) if not ok])
        + f" {len(narrower)} of {given} are narrower than FairQuant's; "
        f"{sum(row['unfair'] > 0 for row in rows)} of {len(rows)} have a certain share above zero.",
    )


def _checked(row: dict[str, Any]) -> str:
    return f"{row['check_seconds']:.2f}" if "check_seconds" in row else ""
