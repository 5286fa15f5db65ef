"""Encoded texts with everything that may stand in their place when a protected term is swapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError
from evenhand.spaces.text.lexicon import load_all
from evenhand.spaces.text.swaps import Swaps
from evenhand.spaces.text.tokens import Positions, Texts, ranges

Ids = npt.NDArray[np.int64]
Encode = Callable[[Sequence[str]], Any]
_BLOCK = 1_000_000
"""About how many words of counterparts are encoded at once."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Sets of encoded texts, each as one text and the words in which the others differ from it.

    A box has the counterparts of one text by one term that are encoded in the same length, with the text itself where
    it has that length too. So a term of one word that can become one of two words makes two boxes.
    """

    ids: Ids
    """One member of each box, in full; it is the text itself where that is a member."""
    text: Positions
    """Which text each box belongs to."""
    members: Positions
    """Where the members of each box begin, and the end."""
    edits: Positions
    """Where the words begin in which each member differs, and the end."""
    position: Positions
    word: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Boxes:
        """Return some of the boxes, by mask, numbers or slice."""
        rows = np.arange(len(self))[which]
        counts = np.diff(self.members)[rows]
        chosen = ranges(self.members[rows], counts)
        words = np.diff(self.edits)[chosen]
        flat = ranges(self.edits[chosen], words)
        return Boxes(
            self.ids[rows], self.text[rows], _starts(counts), _starts(words), self.position[flat], self.word[flat]
        )

    @property
    def box(self) -> Positions:
        """Which box each member is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.members))

    @property
    def member(self) -> Positions:
        """Which member each edit is of."""
        return np.repeat(np.arange(len(self.edits) - 1), np.diff(self.edits))

    def enumerated(self) -> Ids:
        """Write every member of every box out in full."""
        out = self.ids[self.box]
        out[self.member, self.position] = self.word
        return out


def substitutions(
    texts: Sequence[str], protected: Any, encode: Encode, *, together: bool = False, ambiguous: str = "context",
    pad: int = 0,
) -> Boxes:  # fmt: skip
    """Find the terms of texts and box all that may stand in their place; a text without a term has no box.

    Parameters
    ----------
    texts
        The texts.
    protected
        Lexicons, as for an audit: a name, several, or a dict of your own.
    encode
        Turns a list of texts into rows of numbers, filled up with ``pad`` at the end.
    together
        Whether all occurrences of an identity are swapped at once, and not one at a time.
    ambiguous
        Where a term that may be none is one: ``"context"``, ``"always"``, ``"never"``.

    Examples
    --------
    >>> numbers = {"a": 1, "red": 2, "blue": 3, "dark": 4}
    >>> def encode(texts):
    ...     rows = [[numbers[word] for word in text.split()] for text in texts]
    ...     width = max(map(len, rows))
    ...     return [row + [0] * (width - len(row)) for row in rows]
    >>> boxes = substitutions(["a red", "a"], {"colour": ["red", "blue", "dark blue"]}, encode)
    >>> boxes.text.tolist(), boxes.enumerated().tolist()
    ([0, 0], [[1, 2, 0], [1, 3, 0], [1, 4, 3]])
    """
    every = Texts.of(texts)
    swaps = Swaps(load_all(protected), every.vocabulary, ambiguous)
    found = swaps.find(every)
    blocks = []
    ends = np.cumsum(every.lengths[found.text] * len(swaps.identities)) // _BLOCK
    # Occurrences that are swapped together stay together.
    block = ends[np.searchsorted(found.text, found.text)] if together else ends
    for number in np.unique(block):
        made = swaps.counterparts(every, found[block == number], together=together)
        units, first = np.unique(np.stack([made.source, made.unit], axis=1), axis=0, return_index=True)
        source = np.concatenate([units[:, 0], made.source])
        unit = np.concatenate([units[:, 1], made.unit])
        if len(source):
            strings = [texts[row] for row in made.source[first].tolist()] + made.texts.strings()
            blocks.append(_boxed(encoded(encode, strings, pad), source, unit, pad))
    return _joined(blocks, pad)


def encoded(encode: Encode, strings: Sequence[str], pad: int = 0) -> Ids:
    """Encode texts, and check that there is one row of whole numbers for each, with nothing but padding at its end.

    Rows of different lengths are filled up.

    >>> encoded(lambda texts: [list(map(len, text.split())) for text in texts], ["to be", "or"]).tolist()
    [[2, 2], [2, 0]]
    """
    made = encode(strings)
    try:
        ids = np.asarray(made.cpu() if hasattr(made, "cpu") else made)
    except (TypeError, ValueError):  # rows of different lengths, or no rows at all
        ids = _filled_up(made, pad)
    if ids.ndim != 2 or len(ids) != len(strings) or ids.dtype.kind not in "iu":
        raise DataError(
            f"encode must return a row of whole numbers for each of {len(strings)} texts, got {ids.dtype} {ids.shape}"
        )
    real = ids != pad
    if (real[:, 1:] & ~real[:, :-1]).any():
        raise DataError(f"encode must fill rows up with {pad} at the end only; got it before other numbers")
    return ids.astype(np.int64)


def _filled_up(rows: Any, pad: int) -> npt.NDArray[Any]:
    try:
        parts = [np.asarray(row.cpu() if hasattr(row, "cpu") else row) for row in rows]
    except (TypeError, ValueError):
        return np.empty(0)
    if any(part.ndim != 1 or (part.size and part.dtype.kind not in "iu") for part in parts):
        return np.empty(0)
    ids = np.full((len(parts), max(map(len, parts), default=0)), pad, dtype=np.int64)
    for row, part in enumerate(parts):
        ids[row, : len(part)] = part
    return ids


def _boxed(ids: Ids, source: Positions, unit: Positions, pad: int) -> Boxes:
    """Group members by text, term and length; the first of each group stands for it."""
    keys = np.stack([source, unit, (ids != pad).sum(axis=1)], axis=1)
    _, first, box, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(box.ravel(), kind="stable")
    member, position = np.nonzero(ids[order] != ids[first[box.ravel()[order]]])
    words = np.bincount(member, minlength=len(order))
    return Boxes(ids[first], source[first], _starts(counts), _starts(words), position, ids[order][member, position])


def _joined(blocks: Sequence[Boxes], pad: int) -> Boxes:
    width = max((block.ids.shape[1] for block in blocks), default=1)
    none = np.empty(0, dtype=np.int64)

    def joined(parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate([none, *parts])

    wide = [np.pad(b.ids, ((0, 0), (0, width - b.ids.shape[1])), constant_values=pad) for b in blocks]
    return Boxes(
        np.concatenate([np.empty((0, width), dtype=np.int64), *wide]),
        joined(block.text for block in blocks),
        _starts(joined(np.diff(block.members) for block in blocks)),
        _starts(joined(np.diff(block.edits) for block in blocks)),
        joined(block.position for block in blocks),
        joined(block.word for block in blocks),
    )


def _starts(counts: npt.NDArray[Any]) -> Positions:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
