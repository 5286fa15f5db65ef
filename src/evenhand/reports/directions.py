"""Who got which decision among the findings of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.reports.cutting import listed, short
from evenhand.spaces.text.diff import swaps
from evenhand.words import native

if TYPE_CHECKING:
    from evenhand.runs.run import Run

SHOWN = 8
"""Directions that are listed."""
TEXTS = 5_000
"""Findings of texts that are looked at."""
TERMS = 20
DECISIONS = 6
"""With more different decisions, as a regression has, they are not told apart."""


@dataclass(frozen=True)
class Direction:
    """Findings that have the same protected values on each side, and the same decisions."""

    first: str
    first_said: str
    second: str
    second_said: str
    count: int


@dataclass(frozen=True)
class Term:
    """A term that was swapped, and how often the findings have each decision with it."""

    name: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Terms:
    """The terms of a text run's findings."""

    decisions: tuple[str, ...]
    """None where there are too many to tell apart: then findings are counted whatever was decided."""
    terms: list[Term]
    """Those with the most findings first."""
    looked_at: int
    more: int
    """Terms that are not listed."""


def directions(run: Run, most: int = SHOWN) -> tuple[list[Direction], int]:
    """Count findings by who got what; give the commonest, and how many other directions there are.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> directions(run)
    ([Direction(first='sex F', first_said='True', second='sex M', second_said='False', count=3)], 0)
    """
    space, joined = run.space, run.pairs.joined()
    if not run.found or joined["decision"].dtype.kind == "f":
        return [], 0
    columns = space.protected_columns
    one, other = (run.pairs.individuals(side).rows[:, columns] for side in ("individual", "counterpart"))
    said, other_said = (joined[name].astype(np.int64) for name in ("decision", "counterpart_decision"))
    # A pair is the same seen from either side.
    place = np.argmax(one != other, axis=1)
    here = np.arange(len(one))
    turned = (one[here, place] > other[here, place])[:, None]
    first, second = np.where(turned, other, one), np.where(turned, one, other)
    decided = np.column_stack([said, other_said])
    decided = np.where(turned, decided[:, ::-1], decided)
    kinds, counts = np.unique(np.column_stack([first, second, decided]), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:most]
    width, values = len(columns), run.pairs.coding.values
    rows = np.tile(run.pairs.individuals("individual", slice(1)).rows, (2 * len(order), 1))
    rows[: len(order), columns], rows[len(order) :, columns] = kinds[order, :width], kinds[order, width : 2 * width]
    people = space.values(rows, list(space.protected))
    out = []
    for i, kind in enumerate(order.tolist()):
        sides = [{n: native(people[n][j]) for n in space.protected} for j in (i, len(order) + i)]
        differing = [n for j, n in enumerate(space.protected) if kinds[kind, j] != kinds[kind, width + j]]
        who = [listed({n: side[n] for n in differing}) for side in sides]
        told = [short(values[code]) for code in kinds[kind, 2 * width :]]
        out.append(Direction(who[0], told[0], who[1], told[1], int(counts[kind])))
    return out, len(kinds) - len(out)


def terms(run: Run, most: int = TERMS) -> Terms:
    """Count which terms the findings of texts hang on.

    >>> import evenhand as eh
    >>> run = eh.audit(lambda texts: ["Sikh" in t for t in texts], eh.TextSpace("religion"), "text-random",
    ...                data=["A Sikh."])
    >>> [term for term in terms(run).terms if term.name == "Sikh"]
    [Term(name='Sikh', counts=(0, 1))]
    """
    at = slice(min(run.found, TEXTS))
    texts, others = run.pairs.rows("individual", at), run.pairs.rows("counterpart", at)
    said = (
        [run.pairs.decisions(name, at).tolist() for name in ("decision", "counterpart_decision")]
        if run.found
        else [[]] * 2
    )
    decisions = sorted({short(value) for side in said for value in side})
    if len(decisions) > DECISIONS:
        decisions = []
    number = {name: i for i, name in enumerate(decisions)}
    counts: dict[str, list[int]] = {}
    for pair, *told in zip(swaps(texts, others, run.space.lexicons), *said, strict=True):
        for name, value in zip(pair, told, strict=True):
            counts.setdefault(name, [0] * max(1, len(decisions)))[number.get(short(value), 0)] += 1
    ranked = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
    listed_terms = [Term(short(name), tuple(found)) for name, found in ranked[:most]]
    return Terms(tuple(decisions), listed_terms, len(texts), max(0, len(ranked) - most))
