"""Pairs as cards: two people or texts side by side, with the differences marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenhand._format import native, outcome, plain, same
from evenhand.explanations.examples import Example, Examples
from evenhand.reports.figures import cut, listed, short
from evenhand.runs.pairs import Pair
from evenhand.spaces.frames import columns_of
from evenhand.spaces.text.diff import Piece


@dataclass(frozen=True)
class Line:
    """One attribute of a pair: its value, or two where they differ."""

    name: str
    values: tuple[str, ...]
    kind: str = ""
    """``"protected"``, or ``"follows"`` for what was declared to follow a protected attribute."""
    was: str | None = None
    """The real person's value, where another was put in its place."""


@dataclass(frozen=True)
class Card:
    """One pair to show."""

    who: tuple[str, str]
    """The protected values of each side; empty for texts."""
    said: tuple[str, str]
    head: str
    """Where the pair comes from, and what was changed."""
    lines: list[Line] = field(default_factory=list)
    texts: tuple[list[Piece], list[Piece]] | None = None
    notes: list[str] = field(default_factory=list)
    stands_for: int = 1
    """Findings that no other card is closer to."""
    share: float = 0.0
    """Their share of all findings."""
    gap: float | None = None
    """How far apart the scores are, where scores were looked at."""


def cards_of_examples(examples: Examples, data: Any, numbered: bool, found: int) -> list[Card]:
    """Make cards of examples; ``numbered``: positions are those of the user's own data."""
    columns = columns_of(data)
    return [_of_example(example, _recorded(example, columns), numbered, found) for example in examples]


def card_of(pair: Pair, head: str = "", was: dict[str, str] | None = None, notes: Sequence[str] = ()) -> Card:
    """Make a card of a pair; ``was`` has the real person's values where others were put in their place.

    >>> card = card_of(Pair({"age": 34, "sex": "F"}, {"sex": "M"}, "refused", "granted", 1.0, protected=("sex",)))
    >>> card.who, card.said, card.lines[0]
    (('sex F', 'sex M'), ('refused', 'granted'), Line(name='sex', values=('F', 'M'), kind='protected', was=None))
    """
    card = Card(
        ("", ""),
        (cut(outcome(pair.decision)), cut(outcome(pair.counterpart_decision))),
        head or pair.origin,
        texts=pair.pieces,
        notes=list(notes),
        gap=pair.gap if pair.measured else None,
    )
    if pair.pieces is not None:
        return card
    known, other = was or {}, pair.individual | pair.changes
    differing = [name for name in (*pair.protected, *pair.individual) if name in pair.changes]
    lines = [
        Line(
            short(name),
            (short(pair.individual[name]), short(other[name])),
            "protected" if name in pair.protected else "follows",
            known.get(name),
        )
        for name in dict.fromkeys(differing)
    ]
    lines += [
        Line(short(name), (short(value),), was=known.get(name))
        for name, value in pair.individual.items()
        if name not in pair.changes
    ]
    sides = [{name: side[name] for name in pair.protected if name in pair.changes} for side in (pair.individual, other)]
    return replace(card, who=(listed(sides[0]), listed(sides[1])), lines=lines)


def _recorded(example: Example, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the person's own values wherever the individual has others, also for values that are not in the space."""
    out = {}
    for name, value in example.person.items():
        real = native(columns[name][example.row])
        now = example.changed[name][1] if name in example.changed else value
        if plain(real) != plain(now) and not same(real, now):
            out[name] = short(real)
    return out


def _of_example(example: Example, was: dict[str, str], numbered: bool, found: int) -> Card:
    notes = []
    if example.odd:
        together = "; ".join(f"{short(one)} and {short(other)}" for one, other in example.odd)
        notes.append(f"Values that never occur together in the data: {together}.")
    elif example.realistic is False:
        notes.append("No person in the data is similar.")
    who = f"Row {example.row:,} of the data" if numbered and example.row is not None else "A person in the data"
    count = len(was)
    head = (
        f"{who}, with {count} {'value' if count == 1 else 'values'} changed" if count else f"{who}, exactly as recorded"
    )
    share = example.stands_for / max(1, found)
    return replace(card_of(example.pair, head, was, notes), stands_for=example.stands_for, share=share)
