"""The page on the quality of the searches at equal model rows."""

from __future__ import annotations

from typing import Any

from benchmarks.chart import bars
from benchmarks.layout import measured_on, percent, table, whole
from benchmarks.quality import PAPERS, SINGLE

Result = dict[str, Any]
ROWS, MORE = "100000", "400000"
NO_DATA = " (no data)"
ABOUT = """\
What searches reach with {:,} model rows, on {} cases: three data sets, in the papers' integer coding and as a
user has them; trees, forests, boosting, networks and linear models; one and several protected attributes; strong, weak
and tiny effects. Means over up to ten seeds. *Regions* are leaves of a random tree that no search sees. *People* are
the share of held-out real people near a realistic finding."""
REACHED = """\
`auto` reaches between {:.2f} and {:.2f} times the realistic regions of the best other search in hindsight, at
least 0.9 times in {} of {} cases, although a fifth of its tests are independent draws for its estimate."""
ENUMERATED = """\
In `{}` everyone can be asked, and `auto` asks everyone: of {:,} individuals {:,} are discriminatory, and only {}% of
these could be real people, themselves or as another member of the family. They are in {:,} regions, and near {}% of
real people."""
LARGER = """\
With {:,} model rows and {} on {} cases, `auto` reaches between {:.2f} and {:.2f} times the realistic regions of
the best of {}."""


def cases(result: Result, data: bool = True) -> dict[str, dict[str, Any]]:
    """Return the cases that searches had data for, or had none for, with every search's means."""
    every = {name: searches for name, searches in result[ROWS].items() if "auto" in searches}
    return {
        name.removesuffix(NO_DATA): {search: one[ROWS] for search, one in searches.items()}
        for name, searches in every.items()
        if name.endswith(NO_DATA) != data
    }


def best(searches: dict[str, Any], names: list[str] | tuple[str, ...], what: str) -> tuple[str, float]:
    """Return the search with the most of something."""
    name = max((name for name in names if name in searches), key=lambda one: float(searches[one][what]))
    return name, float(searches[name][what])


def chart(result: Result) -> str:
    """Draw realistic regions of each case: by auto, by the best other search, and by the best of the papers."""
    groups = [
        (
            name,
            [
                searches["auto"]["realistic_regions"],
                best(searches, SINGLE, "realistic_regions")[1],
                best(searches, PAPERS, "realistic_regions")[1],
            ],
        )
        for name, searches in cases(result).items()
    ]
    series = ["auto", "best other search in hindsight", "best of the papers' searches"]
    return bars(f"Regions with a realistic finding, {int(ROWS):,} model rows", series, groups)


def enumerated(result: Result) -> list[str]:
    """Say what there is to find where everyone can be asked."""
    return [
        ENUMERATED.format(
            name,
            every["tests"],
            every["found"],
            percent(every["realistic"] / every["found"]),
            every["realistic_regions"],
            percent(every["people"]),
        )
        for name, every in result.get("enumerated", {}).items()
    ]


def larger(result: Result) -> list[str]:
    """Say how ``auto`` compares with larger budgets, where that was measured."""
    runs = {name: searches for name, searches in result.get(MORE, {}).items() if "auto" in searches}
    if not runs:
        return []
    searches = sorted({search for one in runs.values() for search in one} - {"auto"})
    ratios = [
        one["auto"][MORE]["realistic_regions"]
        / max(max(one[s][MORE]["realistic_regions"] for s in searches if s in one), 1)
        for one in runs.values()
    ]
    seeds = max(one["auto"]["seeds"] for one in runs.values())
    return [
        LARGER.format(int(MORE), "one seed" if seeds == 1 else f"{seeds} seeds", len(runs), min(ratios), max(ratios),
                      " and ".join(f"`{search}`" for search in searches))
    ]  # fmt: skip


def promises(result: Result) -> str:
    """Write the sections on what ``auto`` promises."""
    found = [
        [
            name,
            f"{one['found']} of {one['seeds']}",
            f"{percent(one['promised'])}%",
            "-" if one["first"] is None else f"{whole(one['first'][0])} ({whole(one['first'][1])})",
        ]
        for name, one in result["rare"].items()
    ]
    rare = table(["subject", "seeds that find it", "its draws alone would", "tests to the first (most)"], found)
    rows = []
    stops = list(next(iter(result["estimate"].values()))["intervals"]) if result["estimate"] else []
    for stop in stops:
        every = [one["intervals"][stop] for one in result["estimate"].values()]
        held, of = sum(one["held"] for one in every), sum(one["of"] for one in every)
        rows.append([stop, f"{held:,} of {of:,}", percent(held / max(of, 1)), f"{max(x['widest'] for x in every):.2f}"])
    models = sum(one["models"] for one in result["estimate"].values())
    budget = next((one["budget"] for one in result["estimate"].values()), 0)
    shares = ", ".join(f"{percent(float(share))}%" for share in result["estimate"])
    estimate = (
        f"{models:,} simulated models, of which {shares} of individuals are treated differently, are audited with "
        f"{budget:,} tests: stopped at a random moment, at the first finding, and at the budget. Rates are known, "
        "those of the rows by asking all. The data are 300 rows or, in every other audit, 40, which the budget draws "
        "all. Their estimate is compared with the rate of the population and that of the rows. Widths are compared "
        "with Clopper and Pearson's intervals of the same draws."
    )
    fair = result["estimate"].get("0.0")
    none = "" if fair is None else f" Of the fair models {fair['findings']:,} had a finding."
    widths = table(
        ["draws", "watched", "at the planned budget", "none found"],
        [
            [whole(int(n)), f"{one['watched']:.2f}", f"{one['planned']:.2f}", f"{one['nothing found']:.3f}"]
            for n, one in result["width"].items()
        ],
    )
    speed = table(
        ["model", "tests", "rows asked", "calls", "CPU s", "efficiency"],
        [
            [
                name.partition(",")[0],
                *(whole(one[what]) for what in ("tests", "rows", "calls")),
                f"{one['cpu_seconds']:.1f}",
                f"**{one['efficiency']:.2f}**",
            ]
            for name, one in result["speed"].items()
        ],
    )
    realism = table(
        ["subject", "quick", "exact", "comparing everyone", "times as fast"],
        [
            [
                name,
                *(f"{1000 * one[what]:.2f} ms" for what in ("quick", "exact", "everyone")),
                whole(one["everyone"] / one["quick"]),
            ]
            for name, one in result["realism"].items()
        ],
    )
    resumed = [
        f"A run of {one['tests']:,} tests was killed {one['kills']} times and resumed: its log is the same, byte for "
        "byte, and so are its findings and estimates."
        for one in result["resume"].values()
        if one["same_log"] and one["same_estimate"]
    ]
    parts = {
        "rare": [
            "## Rare discrimination",
            "    python -m benchmarks.auto",
            "Rules for few individuals, without data.",
            rare,
        ],
        "estimate": ["## The estimate of a run", estimate + none, table(["subject", "held", "%", "widest"], rows)],
        "width": ["The most that an interval is wider than Clopper and Pearson's, for any number of findings:", widths],
        "speed": [
            "## Speed of `auto`",
            "CPU time of the bare model on the same rows, 16,384 at a time, over that of the whole run. Tests "
            "depend on earlier answers, so calls are smaller, and a forest takes longer for a row of a small call.",
            speed,
        ],
        "realism": ["Deciding who could be real, for 1,000 individuals:", realism],
        "resume": resumed,
    }
    return "\n\n".join([*(part for name in parts if result[name] for part in parts[name]), measured_on(result)])


def _seeds(result: Result) -> str:
    """Return with how many seeds ``auto`` ran with data."""
    counts = sorted({one["auto"]["seeds"] for name, one in result[ROWS].items() if not name.endswith(NO_DATA)})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def quality(result: Result, promised: Result) -> str:
    """Write the page."""
    given, without = cases(result), cases(result, data=False)
    rows, ratios = [], []
    for name, searches in given.items():
        auto, (other, most) = searches["auto"], best(searches, SINGLE, "realistic_regions")
        paper, papers = best(searches, PAPERS, "realistic")
        ratios.append(auto["realistic_regions"] / max(most, 1))
        rows.append(
            [
                name,
                whole(auto["found"]),
                percent(auto["realistic"] / max(auto["found"], 1)),
                whole(auto["regions"]),
                whole(auto["realistic_regions"]),
                f"{whole(most)} ({other})",
                f"{ratios[-1]:.2f}",
                percent(auto["people"]),
                whole(auto["first"] or 0),
                f"{whole(papers)} ({paper})" if papers else "0",
            ]
        )
    high = sum(ratio >= 0.9 for ratio in ratios)
    columns = ["found", "realistic %", "regions", "with a realistic one", "best other search", "ratio", "people %",
               "rows to the first", "realistic, papers"]  # fmt: skip
    plain = [
        [name, whole(s["auto"]["regions"]), whole(s["kosei"]["regions"]), whole(s["themis"]["regions"])]
        for name, s in without.items()
    ]
    return (
        "\n\n".join(
            [
                "# Quality at equal model rows",
                ABOUT.format(int(ROWS), len(given)) + f" `auto` ran with {_seeds(result)} seeds.",
                "    python -m benchmarks.quality --output DIR --jobs 16\n"
                "    python -m benchmarks.quality --output DIR --collect",
                "![Realistic regions](quality.svg)",
                REACHED.format(min(ratios), max(ratios), high, len(ratios)),
                "## With data",
                table(["subject", *columns], rows),
                *enumerated(result),
                *larger(result),
                "## Without data: regions with a finding",
                table(["subject", "auto", "kosei", "themis"], plain),
                promises(promised),
            ]
        )
        + "\n"
    )
