"""Findings of texts in words: the few pairs that say most, with what was swapped and changed marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._format import number, visible
from evenhand.spaces.text.diff import Edit, Piece, marked, shortened, swaps
from evenhand.spaces.text.findings import TextFindings
from evenhand.spaces.text.lexicon import Lexicon
from evenhand.words import CANDIDATES, UNSURE, WIDEST, first_by, gaps_of, native, outcome, plain, plain_json

if TYPE_CHECKING:
    from evenhand.runs.run import Run

LOOKED_AT = 200
"""Of the candidates, those among which different swaps are looked for."""


@dataclass(frozen=True)
class TextPair:
    """A text, its counterpart, and what the model said of each.

    In the sentence what was swapped stands in square brackets, a changed word behind what it replaced in braces.

    >>> pair = TextPair("A kind Sikh.", "A kind Jew.", "fine", "toxic", 1.0, 0, [(1, "nice", "kind")])
    >>> pair.sentence
    '"A {nice -> kind} [Sikh].": fine. The same text with [Jew]: toxic.'
    """

    text: str
    counterpart_text: str
    decision: Any
    counterpart_decision: Any
    gap: float
    seed: int
    """The row of the data that the text was made from."""
    changed: Sequence[Edit] = ()
    measured: bool = False
    """Whether the gap is a difference of scores, and not just the mark of a changed decision."""
    confirmed: bool = True
    """Whether the model was asked about the pair again and answered as before."""

    @cached_property
    def _marked(self) -> tuple[list[Piece], list[Piece]]:
        return marked(self.text, self.counterpart_text, self.changed)

    def pieces(self, side: Literal["individual", "counterpart"] = "individual") -> list[Piece]:
        """Cut one side into pieces to show: long texts around their marks, and nothing that a reader cannot see."""
        chosen = shortened(self._marked[side != "individual"])
        return [Piece(visible(piece.text), piece.kind, visible(piece.was)) for piece in chosen]

    def written(self, side: Literal["individual", "counterpart"] = "individual") -> str:
        """Write one side with its marks."""
        return "".join(map(_written, self.pieces(side)))

    @property
    def who(self) -> str:
        """Say which text it is."""
        return f'"{self.written()}"'

    @property
    def swapped(self) -> str:
        """Say what must not matter."""
        sides = (self.pieces("individual"), self.pieces("counterpart"))
        return " or ".join(" and ".join(piece.text for piece in side if piece.kind == "swapped") for side in sides)

    @property
    def shared(self) -> list[str]:
        """What both texts have: the words around what was swapped."""
        return [piece.text for piece in self._marked[0] if piece.kind != "swapped"]

    @property
    def sentence(self) -> str:
        """Say the pair in two sentences."""
        others = [_written(piece) for piece in self.pieces("counterpart") if piece.kind == "swapped"]
        by = f" (scores {number(self.gap, 6)} apart)" if self.measured else ""
        said, other_said = outcome(self.decision), outcome(self.counterpart_decision)
        other = " and ".join(dict.fromkeys(others))
        unsure = "" if self.confirmed else UNSURE
        return f"{self.who}: {said}. The same text with {other}: {other_said}{by}.{unsure}"

    def to_dict(self) -> dict[str, Any]:
        """Give the pair in values that JSON has."""
        return {
            "text": self.text,
            "counterpart_text": self.counterpart_text,
            "decision": plain_json(self.decision),
            "counterpart_decision": plain_json(self.counterpart_decision),
            "gap": self.gap,
            "confirmed": self.confirmed,
            "seed": self.seed,
            "changed": [list(edit) for edit in self.changed],
            "sentence": self.sentence,
        }


def telling_texts(run: Run, count: int = 3) -> list[TextPair]:
    """Choose the pairs that tell most: large gaps, few words changed, different swaps of different texts.

    >>> import evenhand as eh
    >>> run = eh.audit(lambda texts: ["Sikh" in t for t in texts], eh.TextSpace("religion"), "text-random",
    ...                data=["No Jew and no Muslim."])
    >>> [pair.sentence for pair in telling_texts(run, 1)]
    ['"No [Jew] and no Muslim.": False. The same text with [Sikh]: True.']
    """
    found = min(run.found, CANDIDATES)
    if found == 0 or count < 1:
        return []
    order = np.arange(found)
    gaps = gaps_of(run, found)
    if np.ptp(gaps):
        order = np.sort(first_by(-gaps, WIDEST, count))
    edits = np.array([len(record[3]) for record in _records(run, order)])
    chosen = np.sort(order[np.argsort(edits, kind="stable")][:LOOKED_AT])
    return _unlike(text_pairs_at(run, chosen), count)


def text_pairs_at(run: Run, positions: npt.NDArray[np.int64]) -> list[TextPair]:
    """Give the findings at some sorted positions as pairs.

    >>> import evenhand as eh
    >>> run = eh.audit(lambda texts: ["Sikh" in t for t in texts], eh.TextSpace("religion"), "text-random",
    ...                data=["A Sikh."])
    >>> text_pairs_at(run, np.array([0]))[0].text
    'A Sikh.'
    """
    assert isinstance(run.pairs, TextFindings)
    return text_pairs_in(run.pairs, positions)


def text_pairs_in(pairs: TextFindings, positions: npt.NDArray[np.int64]) -> list[TextPair]:
    """Give some of any findings, as ``text_pairs_at`` does those of a run."""
    if not len(positions):
        return []
    said, other_said = pairs.decisions("decision", positions), pairs.decisions("counterpart_decision", positions)
    measured = "gap" in pairs.joined()
    gaps = pairs.select("gap", positions) if measured else np.ones(len(positions))
    confirmed = pairs.confirmed_at(positions).tolist()
    return [
        TextPair(text, other, native(said[i]), native(other_said[i]), float(gaps[i]), seed, changed, measured, held)
        for i, (held, (text, other, seed, changed)) in enumerate(zip(confirmed, pairs.records(positions), strict=True))
    ]


def lexicons_of(pairs: Sequence[TextPair], lexicons: Sequence[Lexicon]) -> list[str]:
    """Name for each pair the lexicon of what was swapped; where none is sure, all of them.

    >>> from evenhand.spaces.text.lexicon import load
    >>> lexicons_of([TextPair("A Sikh.", "A Jew.", 0, 1, 1.0, 0)], [load("religion"), load("race")])
    ['religion']
    """
    named = swaps([pair.text for pair in pairs], [pair.counterpart_text for pair in pairs], lexicons)
    every = "+".join(lexicon.name for lexicon in lexicons)
    return [next((lx.name for lx in lexicons if {*both} <= {*lx.identities}), every) for both in named]


def _records(run: Run, positions: npt.NDArray[np.int64]) -> list[Any]:
    assert isinstance(run.pairs, TextFindings)
    return run.pairs.records(positions)


def _unlike(pairs: list[TextPair], count: int) -> list[TextPair]:
    """Pick pairs one by one: little changed, of a swap and a direction not seen yet, then of a text not seen yet."""
    left = sorted(pairs, key=lambda pair: len(pair.changed))
    chosen: list[TextPair] = []
    swaps: set[Any] = set()
    seeds: set[int] = set()
    while left and len(chosen) < count:
        best = min(left, key=lambda pair: (_swap(pair) in swaps) + 2 * (pair.seed in seeds))
        left.remove(best)
        chosen.append(best)
        swaps.add(_swap(best))
        seeds.add(best.seed)
    return chosen


def _swap(pair: TextPair) -> tuple[Any, ...]:
    sides = (pair.pieces("individual"), pair.pieces("counterpart"))
    swapped = [tuple(piece.text.lower() for piece in side if piece.kind == "swapped") for side in sides]
    return (*swapped, plain(pair.decision))


def _written(piece: Piece) -> str:
    if piece.kind == "swapped":
        return f"[{piece.text}]"
    return f"{{{piece.was} -> {piece.text}}}" if piece.kind == "changed" else piece.text
