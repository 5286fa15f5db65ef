"""The page about proofs."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import section, table, verdict, whole
from benchmarks.proofs import CERTIFIED, SAMPLED, WANTED


def proofs(result: dict[str, Any]) -> str:
    """Write the section about proofs; parts that were not measured are left out."""
    parts = {"exact": _shares, "ensembles": _shares, "people": _people, "gaps": _gaps}
    return "\n\n".join(write(result[part], part) for part, write in parts.items() if part in result)


def _shares(result: dict[str, Any], part: str) -> str:
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
    targets = {
        "exact": "trees exact in 1 CPU second, logistic regression to 0.001 points in 2. ",
        "ensembles": "the forest to 0.3 points in 60 CPU seconds, the boosted trees to 1.5 points in 120. ",
    }
    return section(
        {"exact": "Exact rates", "ensembles": "Bounds of forests and boosters"}[part],
        f"proofs --parts {part}",
        result,
        "The papers' coding, by sex, bank by age. The rate is certified: of all valid individuals, all equally likely. "
        "*Check* is the CPU time of the independent checker. *Asked* is how many random individuals with a decided "
        "verdict the model was then asked about; none contradicted the proof." + _hybrid(rows, part),
        table(head, cells),
        "Target, on Census and credit: " + targets[part] + verdict(met, "rows", missed),
    )


def _hybrid(rows: list[dict[str, Any]], part: str) -> str:
    """Say what certificates and samples of ensembles were."""
    if part != "ensembles":
        return ""
    narrower = ", ".join(f"{row['plain_width'] / row['width']:.0f}" for row in rows)
    proved = ", ".join(f"{row['certified_seconds']:.2f}" for row in rows)
    return (
        f" The certificates are of proofs with {CERTIFIED:,} boxes, which took {proved} CPU seconds. With {SAMPLED:,} "
        f"model calls, `proof.estimate` gives an interval {narrower} times as narrow as `eh.estimate`."
    )


def _people(result: dict[str, Any], part: str) -> str:
    rows = result["rows"]
    cells = [
        [row["model"], whole(row["rows"]), whole(row["rows_unfair"]), whole(row["different"]), whole(row["fair"]),
         whole(row["undecided"]), f"{row['cpu_seconds']:.2f}"]
        for row in rows
    ]  # fmt: skip
    head = ["", "rows", "treated differently", "someone near is", "no one near is: proved", "undecided", "CPU s"]
    met = [row["decided"] >= 0.99 and row["cpu_seconds"] <= 60 for row in rows]
    return section(
        "People near the rows of the data",
        f"proofs --parts {part}",
        result,
        "Rows of Census that the model was not fitted on, in the papers' coding, by sex. *Near* are individuals whose "
        "numeric attributes differ by at most 5% of their ranges.",
        table(head, cells),
        "Target: 99% of the rows decided in 60 CPU seconds. "
        + verdict(met, "rows", [row["model"] for row, ok in zip(rows, met, strict=True) if not ok]),
    )


def _gaps(result: dict[str, Any], part: str) -> str:
    rows = result["rows"]
    cells = [
        [row["model"], f"{row['low']:.4f}", f"{row['high']:.4f}", f"{row['searched']:.4f}", f"{row['cpu_seconds']:.2f}"]
        for row in rows
    ]
    head = ["", "gap of the pair shown", "proved bound", "best of 100,000 random families", "CPU s"]
    met = [row["high"] >= row["searched"] and row["low"] >= row["searched"] for row in rows]
    return section(
        "The largest gap of scores",
        f"proofs --parts {part}",
        result,
        "Census in the papers' coding, by sex; scores in log-odds. The limit is 30 seconds by the clock. Where the "
        "pair's gap is below the bound, the limit was reached first.",
        table(head, cells),
        "Target: in 30 seconds, at least the best pair that a search finds. "
        + verdict(met, "rows", [row["model"] for row, ok in zip(rows, met, strict=True) if not ok]),
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
