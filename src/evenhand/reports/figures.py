"""Figures of a report: numbers that know which object they come from, and small plots as inline SVG.

A report is rendered from ``sourced(content)``: everything read from it, down to single numbers, carries the path by
which it was reached. Numbers that are calculated later carry no path, so a test of the report detects them. Plots use
CSS classes instead of colours, so they follow the colours of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from evenhand import _format
from evenhand._format import Figure, Sentence, outcome, plain, visible
from evenhand.criteria import Criterion
from evenhand.explanations.examples import Example, Examples
from evenhand.runs.pair_sentences import Pair, Piece
from evenhand.spaces.frames import columns_of, native, same

if TYPE_CHECKING:
    from markupsafe import Markup


T = TypeVar("T")

MOST, END = 90, 25
"""Characters of a value that are shown, and how many of them are its last."""
_LONG = re.compile(rf"\S{{{MOST + 1},}}")


class Whole(int):
    """A whole number with its source."""

    source = ""


class Number(float):
    """A number with its source."""

    source = ""


class Sourced:
    """An object, a list or a mapping whose parts know the path by which they were reached."""

    __slots__ = ("_source", "_value")

    def __init__(self, value: Any, source: str) -> None:
        self._value, self._source = value, source

    def __getattr__(self, name: str) -> Any:
        return sourced(getattr(self._value, name), self._path(name))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        return sourced(self._value[key], self._path(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a value of a mapping, or the default, which has no source."""
        return self[key] if key in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value) if isinstance(self._value, Mapping) else (self[i] for i in range(len(self)))

    def __contains__(self, key: object) -> bool:
        return key in self._value

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def _path(self, part: Any) -> str:
        return f"{self._source}.{part}" if self._source else str(part)


def sourced(value: T, source: str = "") -> T:
    """Return a value that carries its source.

    >>> from evenhand.explanations.regions import Rate
    >>> rate = sourced(Rate(31, 100, 0.22, 0.41), "regions.everybody")
    >>> rate.low, rate.low.source, hasattr(2 * rate.low, "source")
    (0.22, 'regions.everybody.low', False)
    """
    out: Any = value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        out = Whole(value)
        out.source = source
    elif isinstance(value, float | np.floating):
        out = Number(value)
        out.source = source
    elif isinstance(value, Criterion):
        pass  # A criterion is compared as a whole.
    elif isinstance(value, list | tuple | Mapping) or (is_dataclass(value) and not isinstance(value, type)):
        out = Sourced(value, source)
    return cast(T, out)


def written(value: float, how: str) -> Markup:
    """Format a number with the named function, with its source if it has one."""
    from markupsafe import Markup, escape

    text, source = _format.written(value, how), getattr(value, "source", "")
    if not source:
        return escape(text)
    exact = repr(int(value) if isinstance(value, int) else float(value))
    return Markup('<data value="{}" data-source="{}" data-as="{}">{}</data>').format(exact, source, how, text)


percent, count, number, level, high = (
    partial(written, how=how) for how in ("percent", "count", "number", "level", "high")
)


def interval(low: float, upper: float) -> Markup:
    """Write an interval of shares."""
    return say("{} to {}", written(low, "low"), high(upper))


def number_interval(low: float, upper: float) -> Markup:
    """Write an interval of numbers."""
    return say("{} to {}", written(low, "number_low"), written(upper, "number_high"))


def given(text: str) -> Markup:
    """Write the user's own names, values or rules; numbers in them are not figures of the report."""
    return say('<span data-source="input">{}</span>', text)


def linked(sentence: Sentence) -> Markup:
    """Write a sentence, its numbers with their sources.

    >>> print(linked(Sentence("in {}", (Figure(sourced(1200, "run.tests"), "count"),))))
    in <data value="1200" data-source="run.tests" data-as="count">1,200</data>
    """
    return say(
        sentence.text,
        *(written(part.value, part.how) if isinstance(part, Figure) else given(words(part)) for part in sentence.parts),
    )


def say(text: str, *parts: Any) -> Markup:
    """Put parts into a sentence; everything that is not HTML yet is escaped and made visible."""
    from markupsafe import Markup

    return Markup(text).format(
        *(visible(part) if isinstance(part, str) and not isinstance(part, Markup) else part for part in parts)
    )


def cut(text: str) -> str:
    """Leave out the middle of a long text."""
    return text if len(text) <= MOST else f"{text[: MOST - END - 1]}…{text[-END:]}"


def short(value: Any) -> str:
    """Write a value for a reader, cut if it is long."""
    return cut(plain(value))


def words(text: str) -> str:
    """Shorten long words."""
    return _LONG.sub(lambda found: cut(found[0]), text)


def listed(values: Mapping[str, object]) -> str:
    """Write protected values for a reader."""
    return ", ".join(f"{short(name)} {short(value)}" for name, value in values.items())


BESIDE = 5
"""Attributes of a pair that a card shows besides those that differ; the others are folded."""


@dataclass(frozen=True)
class Line:
    """One attribute of a pair: its value, or two where they differ."""

    name: str
    values: tuple[str, ...]
    kind: str = ""
    """``"protected"``, or ``"follows"`` for what was declared to follow a protected attribute."""
    was: str | None = None
    """The real person's value, if it was replaced."""


@dataclass(frozen=True)
class Card:
    """One pair to show."""

    who: tuple[str, str]
    """The protected values of each side; empty for texts."""
    said: tuple[str, str]
    head: str
    """The origin of the pair, and what was changed."""
    lines: list[Line] = field(default_factory=list)
    texts: tuple[list[Piece], list[Piece]] | None = None
    notes: list[str] = field(default_factory=list)
    stands_for: int = 1
    """Number of findings to which no other card is closer."""
    share: float = 0.0
    """Their share of all findings."""
    scores: tuple[float, float] | None = None
    """The model's score of each side."""
    score_of: str = ""
    """What the score is for; empty if that is the model's own number."""
    gap: float | None = None
    """The difference of the scores, if scores were compared."""

    @property
    def shown(self) -> list[Line]:
        """The lines that are shown at once: what differs, and some others."""
        return self.lines[: self._shown]

    @property
    def folded(self) -> list[Line]:
        """The lines that a reader unfolds."""
        return self.lines[self._shown :]

    @property
    def _shown(self) -> int:
        shown = sum(bool(line.kind) for line in self.lines) + BESIDE
        # A single line takes no more room than the words that unfold it.
        return len(self.lines) if len(self.lines) <= shown + 1 else shown

    def ordered(self, influence: Sequence[str]) -> Card:
        """Return the card with the most influential attributes behind those that differ."""
        place = {short(name): i for i, name in enumerate(influence)}
        order = sorted(self.lines, key=lambda line: (not line.kind, place.get(line.name, len(place)) * (not line.kind)))
        return replace(self, lines=order)


def cards_of_examples(examples: Examples, data: Any, numbered: bool, found: int) -> list[Card]:
    """Make cards of examples; ``numbered``: positions are those in the user's data.

    Without the data they say nothing of the person that the example is near to.
    """
    if data is None:
        return [card_of_example(example, None, numbered, found) for example in examples]
    columns = columns_of(data)
    return [card_of_example(example, _recorded(example, columns), numbered, found) for example in examples]


def card_of(pair: Pair, head: str = "", was: dict[str, str] | None = None, notes: Sequence[str] = ()) -> Card:
    """Make a card of a pair; ``was`` has the real person's values that were replaced."""
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
    """Return the person's values where the individual has different ones, including values outside the space."""
    out = {}
    for name, value in example.person.items():
        real = native(columns[name][example.row])
        now = example.changed[name][1] if name in example.changed else value
        if plain(real) != plain(now) and not same(real, now):
            out[name] = short(real)
    return out


def was_of(example: Example) -> dict[str, str]:
    """Return the values of the person that the example does not have."""
    return {name: short(before) for name, (before, _) in example.changed.items()}


def card_of_example(example: Example, was: dict[str, str] | None, numbered: bool, found: int) -> Card:
    """Make the card of one example; ``was`` as in ``card_of``, None to say nothing of the person."""
    notes = []
    if example.odd:
        together = "; ".join(f"{short(one)} and {short(other)}" for one, other in example.odd)
        notes.append(f"Values that never occur together in the data: {together}.")
    elif example.realistic is False:
        notes.append("No person in the data is similar.")
    share = example.stands_for / max(1, found)
    if was is None:
        count = len(example.changed)
        away = f"{'one attribute' if count == 1 else f'{count} attributes'} away from a person in the data"
        card = card_of(example.pair, f"A synthetic person, {away}", None, notes)
        return replace(card, stands_for=example.stands_for, share=share)
    who = f"Row {example.row:,} of the data" if numbered and example.row is not None else "A person in the data"
    count = len(was)
    head = (
        f"{who}, with {count} {'value' if count == 1 else 'values'} changed" if count else f"{who}, exactly as recorded"
    )
    return replace(card_of(example.pair, head, was, notes), stands_for=example.stands_for, share=share)
