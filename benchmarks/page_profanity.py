"""The section on a classifier from PyPI."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import percent, section, table, whole

FEWEST = 50
"""A share of fewer places says little."""
SHOWN = 8
_HEADINGS = ["", "lexicon", "identity", "places", "flagged, %", "only then", "no longer"]


def profanity(result: dict[str, Any]) -> str:
    """Write the section about the classifier from PyPI."""
    sources = {"generated": "generated", "written": "written by people"}
    rows = [
        [name, lexicon, whole(r["tests"]), whole(r["findings"]), percent(r["findings"] / max(r["tests"], 1)),
         whole(r["rows"]), f"{r['cpu_seconds']:.1f}"]
        for source, name in sources.items() for lexicon, r in result.get(source, {}).items()
    ]  # fmt: skip
    parts = [
        f"`alt-profanity-check` {result['package']}, a linear SVM trained by its authors on 200,000 labelled texts, is "
        "audited through its own function `predict`: flagged or not. Texts are tested as they are. A finding is a text "
        "that is flagged with one identity and not with another, everything else equal. The generated comments are "
        "those of `eh.datasets.load(\"comments\")`" + _written(result) + ".",
        table(["", "lexicon", "texts with a term", "flips", "flips, %", "rows asked", "CPU s"], rows),
        "Each identity is put into every place where a term of its lexicon and form occurs, one place at a time. The "
        "columns say how often the text is then flagged, in how many places only then, and in how many no longer. "
        f"The table has identities with at least {FEWEST} places, and for each source and lexicon the {SHOWN} flagged "
        "most and least. A comment that repeats a term a hundred times has a hundred places.",
        table(_HEADINGS, _identities(result, sources)),
        _most(result, sources),
        "Compare shares within a lexicon only if the numbers of places are similar; they differ if a term lacks a "
        "form. The shares describe the model's reaction to a term, not how common such texts are.",
    ]  # fmt: skip
    return section("A classifier from PyPI, by identity term", "profanity", result, *parts)


def _written(result: dict[str, Any]) -> str:
    return (
        f"; the others are {result['texts']:,} comments written by people, from the folder named by EVENHAND_TEXT_DATA"
        if "texts" in result
        else ""
    )


def _shares(row: dict[str, Any]) -> list[tuple[float, str, list[int]]]:
    """Sort the identities by how often they are flagged."""
    shares = [(n[1] / n[0], who, n) for who, n in row["identities"].items() if n[0] >= FEWEST]
    return sorted(shares, reverse=True)


def _identities(result: dict[str, Any], sources: dict[str, str]) -> list[list[str]]:
    rows = []
    for source, name in sources.items():
        for lexicon, r in result.get(source, {}).items():
            shares = _shares(r)
            few = shares if len(shares) <= SHOWN else shares[: SHOWN // 2] + shares[-SHOWN // 2 :]
            rows += [
                [name, lexicon, who, whole(n[0]), percent(share), whole(n[2]), whole(n[3])] for share, who, n in few
            ]
    return rows


def _most(result: dict[str, Any], sources: dict[str, str]) -> str:
    """Name the identities with the largest difference."""
    spread = [
        (shares[0][0] - shares[-1][0], sources[source], lexicon, shares[0], shares[-1])
        for source in sources for lexicon, r in result.get(source, {}).items() if (shares := _shares(r))
    ]  # fmt: skip
    if not spread:
        return ""
    _, source, lexicon, top, low = max(spread)
    return (
        f"The largest difference is between terms of {lexicon} in texts {source}: {percent(top[0])}% of the texts are "
        f"flagged with {top[1]}, {percent(low[0])}% with {low[1]}."
    )
