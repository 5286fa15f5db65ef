"""What was judged before: a set of keys with one verdict bit each, at eight bytes a test.

The lowest bit of a key is free; the memo keeps keys in a few sorted segments with the verdict in that bit. Two small
tables make most lookups unnecessary: one of marks, where an empty place proves a key new, and one of recent keys,
because most keys that a local search proposes were judged a moment ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.spaces.individuals import Keys

Positions = npt.NDArray[np.int64]

MARKS, MOST_MARKS = 21, 25
"""log2 of the places for marks, one byte each: at first and at most."""
RECENT = 20
"""log2 of the places for recent keys."""
SMALL = 2048
"""Up to this many keys the plain way is faster."""
LARGEST = 2**21
"""Segments with more keys are not merged any more."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Memo:
    """Judged keys and their verdicts.

    >>> memo = Memo()
    >>> memo.add(np.array([4, 8]), np.array([True, False]))
    >>> memo.fresh(np.array([8, 6, 6, 4])).tolist()
    [1]
    >>> memo.unfair(np.array([4, 6, 8])).tolist()
    [True, False, False]
    """

    def __init__(self) -> None:
        self._segments: list[npt.NDArray[Any]] = []
        self._bits = MARKS
        self._marks = np.zeros(1 << MARKS, dtype=bool)
        self._holder = np.zeros(1 << RECENT, dtype=np.int32)
        self._recent: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._segments))

    @property
    def segments(self) -> Sequence[npt.NDArray[Any]]:
        """All keys, sorted by parts, with the verdict in the lowest bit; do not change them."""
        return tuple(self._segments)

    def fresh(self, keys: Keys) -> Positions:
        """Return the positions of keys never judged, the first occurrence of each, in order."""
        if self._recent is None:
            return _first(keys, np.arange(len(keys)))
        places = _places(keys, RECENT)
        left = np.flatnonzero(self._recent[places] != keys)
        if len(left) < len(keys) and len(left) > SMALL:
            # A block that repeats earlier keys tends to repeat its own, and scattering finds those faster.
            left = left[self._scattered_first(keys[left], places[left])]
        else:
            left = _first(keys[left], left)
        doubtful = np.flatnonzero(self._marks[_places(keys[left], self._bits)])
        if len(doubtful):
            known = np.zeros(len(left), dtype=bool)
            known[doubtful] = self._holds(keys[left[doubtful]])
            left = left[~known]
        return left

    def unfair(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return the stored verdicts; False for keys never judged."""
        out = np.zeros(len(keys), dtype=bool)
        for segment in self._segments:
            out |= _hits(segment, keys)[1]
        return out

    def add(self, keys: Keys, unfair: npt.NDArray[np.bool_]) -> None:
        """Remember new keys and their verdicts."""
        if not len(keys):
            return
        if self._recent is None:
            self._recent = np.full(1 << RECENT, -1, dtype=keys.dtype)
        self._mark(keys)
        self._recent[_places(keys, RECENT)] = keys
        packed: npt.NDArray[Any] = keys + unfair * _one(keys)
        packed.sort()
        # Segments shrink towards the end by at least half, so there are few and each key is merged few times; the
        # largest are left alone, so that merging never takes much space. The stable sort is a merge sort that finds the
        # two sorted runs.
        while self._segments and len(self._segments[-1]) < min(2 * len(packed), LARGEST):
            packed = np.concatenate([self._segments.pop(), packed])
            packed.sort(kind="stable")
        self._segments.append(packed)

    def _mark(self, keys: Keys) -> None:
        """Mark new keys; when an eighth of the places is taken, first distribute all marks over a larger table."""
        if 8 * (len(self) + len(keys)) > len(self._marks) and self._bits < MOST_MARKS:
            self._bits += 2
            self._marks = np.zeros(1 << self._bits, dtype=bool)
            for segment in self._segments:
                self._marks[_places(segment, self._bits)] = True
        self._marks[_places(keys, self._bits)] = True

    def _scattered_first(self, keys: Keys, places: Positions) -> Positions:
        """Return the positions of the first occurrence of each key; only keys that share a place are sorted."""
        position = np.arange(len(keys), dtype=np.int32)
        # Written backwards, so that the first occurrence is what stays.
        self._holder[places[::-1]] = position[::-1]
        holds = self._holder[places]
        first = holds == position
        rest = np.flatnonzero(~first)
        rest = rest[keys[holds[rest]] != keys[rest]]
        first[_first(keys[rest], rest)] = True
        return np.flatnonzero(first)

    def _holds(self, keys: Keys) -> npt.NDArray[np.bool_]:
        known = np.zeros(len(keys), dtype=bool)
        if len(keys) <= SMALL:
            for segment in self._segments:
                known |= _hits(segment, keys)[0]
            return known
        order = np.argsort(keys)
        ordered = keys[order]
        for segment in self._segments:
            known |= _hits(segment, ordered)[0]
        out = np.empty(len(keys), dtype=bool)
        out[order] = known
        return out


def _one(keys: npt.NDArray[Any]) -> Any:
    return 1j if keys.dtype.kind == "c" else 1


def _places(keys: Keys, bits: int) -> Positions:
    """Distribute keys over a table of 2**bits places, regardless of their lowest bit, where the verdict is."""
    words = keys.view(np.uint64) >> np.uint64(1) if keys.dtype.kind != "c" else keys.real.astype(np.uint64)
    words *= _SPREAD
    words >>= np.uint64(64 - bits)
    return words.view(np.int64)


def _first(keys: Keys, positions: Positions) -> Positions:
    """Return the positions of the first occurrence of each key, in order."""
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return positions
    order = np.argsort(keys, kind="stable")
    new = np.ones(len(keys), dtype=bool)
    new[order[1:]] = keys[order[1:]] != keys[order[:-1]]
    return positions[new]


def _hits(segment: npt.NDArray[Any], keys: Keys) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    at = np.searchsorted(segment, keys)
    found = segment[np.minimum(at, len(segment) - 1)]
    unfair = found == keys + _one(keys)
    return unfair | (found == keys), unfair
