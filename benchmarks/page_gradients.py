"""The sections on the speed of walks, and on models without gradients."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import percent, section, table, verdict, whole
from benchmarks.page_adf import ROWS


def walking(result: dict[str, Any]) -> str:
    """Write the section about the speed of walks."""
    rows = result["rows"]
    names = [f"{ROWS[r['row']]} with `stray={r['stray']:g}`" for r in rows]
    met = [r["efficiency"] >= result["wanted"] for r in rows]
    missed = [f"{name} ({r['efficiency']:.2f})" for name, r, ok in zip(names, rows, met, strict=True) if not ok]
    quick = [r["findings_per_second"] >= result["wanted_findings"] for r in rows]
    slow = [
        f"{name} ({whole(r['findings_per_second'])})" for name, r, ok in zip(names, rows, quick, strict=True) if not ok
    ]
    return section(
        "Speed of ADF's walks compared with the bare net",
        "walking",
        result,
        "The local phase on the six-layer nets, from all findings of the global phase among 1,000 seeds, "
        f"{rows[0]['trials'] // rows[0]['walkers']:,} trials each. The bare net makes, for every step of all walkers, "
        "one call with all their counterparts and one that differentiates two rows of each. Run and bare net "
        f"alternate; the figure is the median of {len(rows[0]['ratios'])} pairs.",
        table(
            [
                "subject",
                "net",
                "stray",
                "walkers",
                "trials/s",
                "trials/s of the bare net",
                "efficiency",
                "unique findings",
                "findings per CPU s",
            ],
            [
                [
                    ROWS[r["row"]],
                    str(r["net"]),
                    f"{r['stray']:g}",
                    whole(r["walkers"]),
                    whole(r["trials_per_second"]),
                    whole(r["bare_trials_per_second"]),
                    f"**{r['efficiency']:.2f}**",
                    whole(r["findings"]),
                    whole(r["findings_per_second"]),
                ]
                for r in rows
            ],
        ),
        f"Target: an efficiency of at least {result['wanted']}: {verdict(met, 'rows', missed)}",
        f"Target: over {result['wanted_findings']:,} unique findings per CPU second: {verdict(quick, 'rows', slow)} "
        "(ADF's own program: 9.5 on a net of this shape; the best later one: 5,338.)",
    )


def scores_only(result: dict[str, Any]) -> str:
    """Write the section about models without gradients."""
    pairs = result["pairs"]
    met = [pair["adf"]["success"] > pair["random"]["success"] for pair in pairs]
    per_row = [
        {search: pair[search]["findings"] / pair[search]["rows"] for search in ("adf", "random")} for pair in pairs
    ]
    ahead = sum(rates["adf"] > rates["random"] for rates in per_row)
    rows = [
        [
            f"{pair['model']}, by {pair['protected']}",
            f"`{search}`",
            f"{percent(pair[search]['success'])} ± {percent(pair[search]['spread'])}",
            whole(pair[search]["tests"]),
            whole(pair[search]["findings"]),
            whole(pair[search]["rows"]),
            f"{pair[search]['cpu_seconds']:.2g}",
        ]
        for pair in pairs
        for search in ("adf", "random")
    ]
    return section(
        "ADF by differences of scores",
        "scores_only",
        result,
        f"Models without gradients, at most {result['rows']:,} model rows each, {result['seeds']} seeds: a forest and "
        "a boosted ensemble on the papers' coding of Census, and a logistic regression behind a one-hot encoder on "
        "Adult's own values. One gradient costs two rows for each ordered attribute and one for each nominal one, so "
        "ADF makes far fewer tests.",
        table(["subject", "search", "success %", "tests", "findings", "rows", "CPU s"], rows),
        f"ADF has the higher success rate in {sum(met)} of {len(met)} (target: {result['wanted']}), and more findings "
        f"per model row in {ahead}.",
    )
