"""The section of the page about a classifier from PyPI."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import percent, section, table, whole

FEWEST = 50
"""Places below which a share says little."""
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
        f"`alt-profanity-check` {result['package']}, a linear SVM that others trained on 200,000 labelled texts, "
        "audited through its own function `predict`: flagged or not. Texts are tested as they are; a finding is a text "
        "that is flagged with one identity and not with another, all else equal. The generated comments are "
        "those of `eh.datasets.load(\"comments\")`" + _written(result) + ".",
        table(["", "lexicon", "texts with a term", "flips", "flips, %", "rows asked", "CPU s"], rows),
        "By identity, put into every place where a term of its lexicon and form stands, one place at a time: how often "
        "the text is flagged then, in how many places it is flagged only then, and in how many it no longer is. "
        f"Identities with at least {FEWEST} places; of each source and lexicon those {SHOWN} that are flagged most and "
        "least. Comments that repeat a term a hundred times have a hundred places.",
        table(_HEADINGS, _identities(result, sources)),
        _most(result, sources),
        "Shares of one lexicon can be compared where the numbers of places are alike; they differ where a form of a "
        "term is missing. They say what the model makes of a term, not how common such texts are.",
    ]  # fmt: skip
    return section("A classifier from PyPI, by identity term", "profanity", result, *parts)


def _written(result: dict[str, Any]) -> str:
    return (
        f", the others are {result['texts']:,} comments that people wrote, in the folder that EVENHAND_TEXT_DATA names"
        if "texts" in result
        else ""
    )


def _shares(row: dict[str, Any]) -> list[tuple[float, str, list[int]]]:
    """Sort the identities by how often they are flagged."""
    told = [(n[1] / n[0], who, n) for who, n in row["identities"].items() if n[0] >= FEWEST]
    return sorted(told, reverse=True)


def _identities(result: dict[str, Any], sources: dict[str, str]) -> list[list[str]]:
    rows = []
    for source, name in sources.items():
        for lexicon, r in result.get(source, {}).items():
            told = _shares(r)
            few = told if len(told) <= SHOWN else told[: SHOWN // 2] + told[-SHOWN // 2 :]
            rows += [
                [name, lexicon, who, whole(n[0]), percent(share), whole(n[2]), whole(n[3])] for share, who, n in few
            ]
    return rows


def _most(result: dict[str, Any], sources: dict[str, str]) -> str:
    """Say where identities are furthest apart."""
    spread = [
        (told[0][0] - told[-1][0], sources[source], lexicon, told[0], told[-1])
        for source in sources for lexicon, r in result.get(source, {}).items() if (told := _shares(r))
    ]  # fmt: skip
    if not spread:
        return ""
    _, source, lexicon, top, low = max(spread)
    return (
        f"Furthest apart are terms of {lexicon} in texts {source}: with {top[1]} {percent(top[0])} % of the texts are "
        f"flagged, with {low[1]} {percent(low[0])} %."
    )
