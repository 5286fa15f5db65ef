"""Legal combinations of tied attributes taken from the list of them all: the nearest, or any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from evenhand.space.boxes import Boxes, Mask
from evenhand.space.individuals import Rows
from evenhand.space.ties import CHUNK, FOUND, NONE, Mended, Tie


def scan(tie: Tie, boxes: Boxes, rows: Rows) -> Mended:
    """Look for the nearest legal combinations in the list of all."""
    assert tie.table is not None
    own = rows[:, list(tie.columns)]
    out = Mended.blank(tie, len(rows), NONE)
    # More than any distance, so that one number orders by changes first; the list is ascending, so ties by codes.
    change = 1 + int(tie.space.sizes[list(tie.columns)].sum())
    for part, inside in _members(tie, boxes):
        codes = own[part]
        score = np.zeros(inside.shape, dtype=np.int64)
        for i, j in enumerate(tie.columns):
            gaps = np.abs(tie.table[:, i] - codes[:, i : i + 1])
            score += np.where(gaps > 0, change + (gaps if tie.space.ordered[j] else 1), 0)
        score[~inside] = np.iinfo(np.int64).max
        best = score.argmin(axis=1)
        found = inside[np.arange(len(best)), best]
        at = np.arange(len(rows))[part][found]
        out.codes[at], out.state[at] = tie.table[best[found]], FOUND
    return out


def choose(tie: Tie, boxes: Boxes, bits: npt.NDArray[np.uint64]) -> Mended:
    """Take one of the legal combinations of each box, all alike, as the bits say."""
    assert tie.table is not None
    out = Mended.blank(tie, len(boxes), NONE)
    for part, inside in _members(tie, boxes):
        ranks = np.cumsum(inside, axis=1)
        count = ranks[:, -1]
        number = bits[part] % np.maximum(count, 1).astype(np.uint64)
        at = np.arange(len(boxes))[part][count > 0]
        out.codes[at] = tie.table[(ranks > number[:, None].astype(np.int64)).argmax(axis=1)][count > 0]
        out.state[at] = FOUND
    return out


def _members(tie: Tie, boxes: Boxes) -> Iterator[tuple[slice, Mask]]:
    """Tell which of the listed combinations lie in which boxes, some boxes at a time."""
    assert tie.table is not None
    size = max(1, CHUNK // len(tie.table))
    for first in range(0, len(boxes), size):
        part = slice(first, first + size)
        some = boxes[part]
        inside = np.ones((len(some), len(tie.table)), dtype=bool)
        for i, j in enumerate(tie.columns):
            code = tie.table[:, i]
            if tie.space.ordered[j]:
                inside &= (code >= some.low[:, j : j + 1]) & (code <= some.high[:, j : j + 1])
            else:
                inside &= some.codes(j)[:, code]
        yield part, inside
