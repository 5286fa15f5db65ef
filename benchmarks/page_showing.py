"""The sections on regions, examples and reports."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import percent, section, table, verdict, whole


def regions(result: dict[str, Any]) -> str:
    """Write the section about planted rules."""
    planted, s = result["planted"], result["settings"]
    met = [r["right"] == r["cases"] for r in planted.values()]
    missed = [
        f"{name} ({r['right']} of {r['examples']})"
        for (name, r), ok in zip(planted.items(), met, strict=True)
        if not ok
    ]
    free, even = result["fair"], result["even"]
    return section(
        "Planted regions",
        "regions",
        result,
        f"{s['cases']} random models of each kind on random spaces of five to nine free attributes (integer, real, "
        "ordinal and nominal). Each model decides by sex for some individuals that meet a random rule of one to "
        "three conditions, with a support of about 1, 5 or 20% (the fourth kind: 0.1%). Right: the first region is "
        "exactly that rule, with the same attributes, thresholds and values; for two rules, the first two regions "
        "are. More: additional regions reported. Half of the audits use `themis`, half `kosei`.",
        table(
            ["", "right", "more", "model rows", "CPU s"],
            [
                [name, f"**{r['right']}** of {r['cases']}", f"{r['more']}", whole(r["rows"]), f"{r['cpu_seconds']:.2f}"]
                for name, r in planted.items()
            ],
        ),
        verdict(met, "kinds", missed),
        f"Without a rule no region is reported: in {free['without']} of {free['cases']} fair models with complex "
        f"decisions, and in {even['without']} of {even['cases']} models that decide 2% of all individuals by sex, "
        "evenly across the space.",
    )  # fmt: skip


def realism(result: dict[str, Any]) -> str:
    """Write the section about realism."""
    s = result["settings"]
    return section(
        "How realistic findings are",
        "realism",
        result,
        f"Adult by sex with its links, a logistic regression on the data's own values, {s['tests']:,} tests of each "
        "search with its default settings. Realistic: at least as near to the data as 95 of 100 real people, and no "
        "pair of values that never occurs together in the data although it should. Then the ten best examples "
        "(`eh.examples`): in how many attributes they differ from a real person, and how many are realistic.",
        table(
            ["search", "tests", "findings", "realistic %", "examples", "attributes changed", "realistic examples",
             "rows", "CPU s"],
            [
                [
                    f"`{name}`",
                    whole(r["tests"]),
                    whole(r["findings"]),
                    "" if r["realistic"] is None else percent(r["realistic"]),
                    f"{r['examples']}",
                    "" if r["changed"] is None else f"{r['changed']:g}",
                    f"{r['realistic_examples']}",
                    whole(r["rows"]),
                    f"{r['cpu_seconds']:.1f}",
                ]
                for name, r in result["searches"].items()
            ],
        ),
        "On Adult, uniform individuals are hardly ever realistic, because most valid individuals have capital gains "
        "that few people have. Shrinking solves this: it starts from real people, not from findings.",
        f"Are the examples the nearest? {s['worlds']} random spaces of some thousand individuals are enumerated, with "
        "random people and random findings. Spaces of up to 20,000 individuals are normally enumerated and larger "
        "ones searched; here the search is used for these small ones too.",
        table(
            ["", "nearest", "of", "%"],
            [
                [name, whole(r["nearest"]), whole(r["of"]), f"{100 * r['nearest'] / max(r['of'], 1):.1f}"]
                for name, r in result["nearest"].items()
            ],
        ),
    )  # fmt: skip


def wide(result: dict[str, Any]) -> str:
    """Write the section about reports on many columns."""
    s = result["settings"]
    return section(
        "Reports on many columns",
        "wide",
        result,
        f"`eh.report` on {s['rows']:,} rows of integers, texts, decimals and booleans, with a logistic regression or "
        f"a random forest of 50 trees and findings of `kosei` in {s['tests']:,} tests. Adult has 12 columns. Regions "
        "and examples are also timed alone, as the report calls them.",
        table(
            ["", "columns", "findings", "report, CPU s", "regions", "examples", "page, kB"],
            [
                [
                    name,
                    f"{r['columns']}",
                    whole(r["findings"]),
                    f"**{r['report']:.1f}**",
                    f"{r['regions']:.1f}",
                    f"{r['pairs']:.1f}",
                    whole(r["bytes"] / 1_000),
                ]
                for name, r in result["reports"].items()
            ],
        ),
    )
