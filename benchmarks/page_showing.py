"""The sections of the page about regions and examples."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import percent, section, table, verdict, whole


def regions(result: dict[str, Any]) -> str:
    """Write the section about planted rules."""
    planted, s = result["planted"], result["settings"]
    met = [r["right"] == r["cases"] for r in planted.values()]
    missed = [
        f"{name} ({r['right']} of {r['cases']})" for (name, r), ok in zip(planted.items(), met, strict=True) if not ok
    ]
    free, even = result["fair"], result["even"]
    return section(
        "Regions that were planted",
        "regions",
        result,
        f"{s['cases']} random models of each kind on random spaces of five to nine free attributes, integer, real, "
        "ordinal and nominal. Each decides some individuals by sex who meet a random rule of one to three conditions, "
        "with a support of about 1, 5 or 20 per cent (the fourth kind: 0.1 per cent). Right: the first region is that "
        "rule, the same attributes, thresholds and values and nothing more; of two rules, the first two regions are "
        "those. More: regions reported beside the planted ones. Half of the audits are `themis`, half `kosei`.",
        table(
            ["", "right", "more", "model rows", "CPU s"],
            [
                [name, f"**{r['right']}** of {r['cases']}", f"{r['more']}", whole(r["rows"]), f"{r['cpu_seconds']:.2f}"]
                for name, r in planted.items()
            ],
        ),
        verdict(met, "kinds", missed),
        f"Without a rule no region is claimed: in {free['without']} of {free['cases']} fair models with complicated "
        f"decisions, and in {even['without']} of {even['cases']} that decide two per cent of all individuals by sex, "
        "alike everywhere.",
    )  # fmt: skip


def realism(result: dict[str, Any]) -> str:
    """Write the section about real people."""
    s = result["settings"]
    return section(
        "How real findings are",
        "realism",
        result,
        f"Adult by sex with its links, a logistic regression on the data's own values, {s['tests']:,} tests of each "
        "search with its default settings. Realistic: at least as near to the data as 95 of 100 real people, and no "
        "pair of values that never occurs together in the data though it should. Then the first ten examples: in "
        "how many attributes they differ from a real person, and how many of them are realistic.",
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
        "Searches that draw uniform individuals hardly meet anybody real on Adult, most of whose legal individuals "
        "have capital gains that few people have. Shrinking mends that: it starts from real people, not from findings.",
        f"Is the result the nearest? {s['worlds']} random worlds of some thousand individuals, all of them enumerated; "
        "random people, findings drawn at random. Spaces of up to 20,000 individuals are asked whole; larger ones are "
        "searched, and here the search was made to do the small ones as well.",
        table(
            ["", "nearest", "of", "%"],
            [
                [name, whole(r["nearest"]), whole(r["of"]), f"{100 * r['nearest'] / max(r['of'], 1):.1f}"]
                for name, r in result["nearest"].items()
            ],
        ),
    )  # fmt: skip


def wide(result: dict[str, Any]) -> str:
    """Write the section about reports of many columns."""
    s = result["settings"]
    return section(
        "Reports of many columns",
        "wide",
        result,
        f"`eh.report` on {s['rows']:,} rows of whole numbers, texts, decimal numbers and flags, a logistic regression "
        f"or a random forest of 50 trees, findings of `kosei` in {s['tests']:,} tests. Adult has 12 columns. Regions "
        "and pairs are also timed alone, as the report calls them.",
        table(
            ["", "columns", "findings", "report, CPU s", "regions", "pairs", "page, kB"],
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
