"""The judged tests: a set of keys with one verdict bit each, in a bounded amount of memory.

The lowest bit of a key is free. It stores the verdict. The newest keys are in a hash table, where one access to memory
finds most of them. When the table is full, its keys are moved to a file, and only a few bits per key stay in memory.
``Recall`` remembers counterparts of recent individuals, ``Visited`` the individuals of all tests.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import no_room, temporary
from evenhand._rng import mix
from evenhand.spaces.base import Block, BoundSpace, table
from evenhand.spaces.individuals import Individuals, Keys

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FIRST, MOST = 12, 25
"""log2 of the number of places of the table, initially and at most."""
EXPECTED = 2**20
"""The most places of the first table, even if more keys are expected."""
FULL, SPARSE = 0.6, 0.3
"""The share of the places that may be used; less in tables with fewer than ``WIDE`` places, because that is faster."""
WIDE = 2**22
BITS, MOST_BITS = 31, 33
"""log2 of the number of bits in memory for keys in the file, initially and at most."""
PER_KEY = 16
"""If there are fewer bits per key than this, the number of bits grows, up to its maximum."""
PART = 2**18
"""How many keys are moved at a time."""
RECENT = 20
"""log2 of the number of places used to find repeats within a block."""
SMALL = 2048
"""Up to this many keys, repeats within a block are found by sorting."""
WIDTH, FEW = 8, 256
"""How many places are read together, and for how many keys at most."""
RECALLED = 20
"""log2 of the number of individuals whose counterparts are remembered."""
_BEHIND = np.arange(1, WIDTH + 1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
EMPTY = -1
"""Marks a free place: keys are never negative."""


class Memo:
    """Judged keys and their verdicts.

    Up to 20 million keys are known exactly, with their verdicts. ``fresh`` and ``holds`` also know all earlier keys,
    but may take some new keys for known: none in a space with fewer tests than there are bits, otherwise 1 in a million
    at first and 1 in 40 when there are a billion keys.

    Parameters
    ----------
    largest
        The largest possible key; None if it is unknown.
    expected
        The largest possible number of keys, as far as it is known: a table that never grows is faster.

    Examples
    --------
    >>> memo = Memo()
    >>> memo.add(np.array([4, 8]), np.array([True, False]))
    >>> memo.fresh(np.array([8, 6, 6, 4])).tolist()
    [1]
    >>> memo.unfair(np.array([4, 6, 8])).tolist()
    [True, False, False]
    """

    def __init__(self, largest: int | None = None, expected: int = 0) -> None:
        self._table: npt.NDArray[Any] = np.zeros(0)
        self._expected = min(expected, int(SPARSE * EXPECTED))
        self._held = 0
        self._older: _Older | None = None
        self._largest = largest
        self._holder: npt.NDArray[np.int32] | None = None
        self._new: tuple[npt.NDArray[Any], Positions] | None = None
        """Keys that were found to be new, and their free places."""

    def __len__(self) -> int:
        return self._held + (0 if self._older is None else self._older.count)

    @property
    def segments(self) -> Sequence[npt.NDArray[Any]]:
        """All keys, with the verdict in the lowest bit; do not modify them."""
        held = _held(self._table)
        held.sort()
        return (held,) if self._older is None else (self._older.keys, held)

    def fresh(self, keys: Keys) -> Positions:
        """Return the positions of keys that were never judged: the first occurrence of each, in order."""
        there, places = self._find(keys)
        new = there == EMPTY
        if self._older is not None:
            new &= ~self._older.holds(keys)
        left = np.flatnonzero(new)
        if len(left) < len(keys) and len(left) > SMALL:
            # A block that repeats earlier keys tends to repeat its own, and scattering finds those faster.
            left = left[self._scattered_first(keys[left])]
        else:
            left = _first(keys[left], left)
        self._new = keys[left], places[left]
        return left

    def unfair(self, keys: Keys) -> Mask:
        """Return the stored verdicts; False for keys that were never judged or are in the file."""
        return _unfair(self._find(keys)[0], keys)

    def holds(self, keys: Keys) -> Mask:
        """Return which keys were judged.

        >>> memo = Memo()
        >>> memo.add(np.array([4, 8]), np.array([True, False]))
        >>> memo.holds(np.array([8, 6])).tolist()
        [True, False]
        """
        known: Mask = self._find(keys)[0] != EMPTY
        if self._older is not None:
            known |= self._older.holds(keys)
        return known

    def lookup(self, keys: Keys) -> tuple[Mask, Mask]:
        """Return exactly which keys were judged and which are unfair; this reads the whole file, if there is one."""
        there, _ = self._find(keys)
        known, unfair = there != EMPTY, _unfair(there, keys)
        if self._older is not None:
            left = np.flatnonzero(~known)
            known[left], unfair[left] = self._older.lookup(keys[left])
        return known, unfair

    def add(self, keys: Keys, unfair: Mask) -> None:
        """Remember new keys and their verdicts."""
        if len(keys):
            self._make_room(len(keys), keys.dtype)
            self._put(keys + unfair * _one(keys), self._ends(keys))

    def _ends(self, keys: Keys) -> Positions | None:
        """Return the free places of keys, if these are the next of the keys that were found to be new."""
        if self._new is None or not np.array_equal(self._new[0][: len(keys)], keys):
            return None
        places = self._new[1][: len(keys)]
        self._new = self._new[0][len(keys) :], self._new[1][len(keys) :]
        return places

    def _find(self, keys: Keys) -> tuple[npt.NDArray[Any], Positions]:
        """Look up keys in the table: what is there, the key with its verdict or ``EMPTY``, and in which places."""
        places = _scrambled(keys, max(1, len(self._table)))
        if not self._held:
            return np.full(len(keys), EMPTY), places
        # A key is always before the first free place from its own on.
        there = self._table.take(places)
        left = np.flatnonzero(_other(there, keys))
        while len(left):
            places[left], there[left] = self._next(keys[left], places[left])
            left = left[_other(there[left], keys[left])]
        return there, places

    def _next(self, keys: Keys, places: Positions) -> tuple[Positions, npt.NDArray[Any]]:
        """Return places behind those that hold other keys, and what is there.

        Several places are read at a time if that saves more steps than it wastes.
        """
        mask = len(self._table) - 1
        if len(keys) >= FEW:
            at = (places + 1) & mask
            return at, self._table.take(at)
        every = (places[:, None] + _BEHIND) & mask
        near = self._table.take(every)
        other = _other(near, keys[:, None])
        other[:, -1] = False
        step = np.arange(len(keys)), other.argmin(axis=1)
        return every[step], near[step]

    def _put(self, packed: npt.NDArray[Any], places: Positions | None = None) -> None:
        """Put new keys into the table, each into the first free place at or after ``places``."""
        table = self._table
        places = _scrambled(packed, len(table)) if places is None else places
        self._held += len(packed)
        while True:
            free = np.flatnonzero(table.take(places) == EMPTY)
            if len(free) == len(places):
                table[places] = packed
            else:
                table[places[free]] = packed[free]
            # If several keys want one place, the last one gets it.
            left = np.flatnonzero(table.take(places) != packed)
            if not len(left):
                return
            packed = packed[left]
            places, _ = self._next(packed, places[left])

    def _make_room(self, more: int, kind: Any) -> None:
        """Enlarge the table, or move its keys to the file."""
        size = max(len(self._table), 1 << FIRST)
        while max(self._held + more, self._expected) > _room(size) and size < 1 << MOST:
            size = min(4 * size, 1 << MOST)
        if size > len(self._table):
            self._new = None
            before = self._table
            self._table, self._held = np.full(size, EMPTY, dtype=kind), 0
            for start in range(0, len(before), PART):
                self._put(_held(before[start : start + PART]))
        elif self._held + more > _room(size):
            if self._older is None:
                self._older = _Older(self._table.dtype, self._largest)
            for start in range(0, size, PART):
                self._older.add(_held(self._table[start : start + PART]))
            self._table[:], self._held, self._new = EMPTY, 0, None

    def _scattered_first(self, keys: Keys) -> Positions:
        """Return the position of the first occurrence of each key; only keys that share a place are sorted."""
        if self._holder is None:
            self._holder = np.zeros(1 << RECENT, dtype=np.int32)
        places, position = _scrambled(keys, 1 << RECENT), np.arange(len(keys), dtype=np.int32)
        # Written backwards, so that the first occurrence stays.
        self._holder[places[::-1]] = position[::-1]
        holds = self._holder.take(places)
        first = holds == position
        rest = np.flatnonzero(keys.take(holds) != keys)
        first[_first(keys[rest], rest)] = True
        return np.flatnonzero(first)


class _Older:
    """Keys in a file, and bits by which most other keys are known to be new: a Bloom filter of 64-bit words.

    If there are as many bits as possible keys, each key has its own bit.
    """

    def __init__(self, kind: np.dtype[Any], largest: int | None) -> None:
        self._kind, self.count = kind, 0
        own = largest is not None and kind.kind == "i" and largest >> 1 < 1 << MOST_BITS
        self._largest = largest if own else None
        bits = max(64, (largest >> 1) + 1) if own and largest is not None else 1 << BITS
        self._words = np.zeros(-(-bits // 64), dtype=np.uint64)
        self._file = temporary(self)

    @property
    def keys(self) -> npt.NDArray[Any]:
        """All keys in the file, in its order."""
        self._file.flush()
        return np.memmap(self._file, self._kind, "r")

    def add(self, packed: npt.NDArray[Any]) -> None:
        """Write keys to the file."""
        try:
            self._file.write(packed.data)
        except OSError as error:
            raise no_room(f"the keys of {self.count + len(packed):,} tests", error) from error
        self.count += len(packed)
        if self._largest is None and len(self._words) * 64 < min(1 << MOST_BITS, PER_KEY * self.count):
            # The old bits are released first, so that both never take memory at once.
            self._words = np.zeros(0, dtype=np.uint64)
            self._words = np.zeros(1 << (MOST_BITS - 6), dtype=np.uint64)
            for part in self._parts():
                self._mark(part)
        else:
            self._mark(packed)

    def _mark(self, packed: npt.NDArray[Any]) -> None:
        """Set the bits of keys."""
        words, bits = self._bits(packed)
        while len(words):
            # If several keys have one word, the last one gets it.
            self._words[words] |= bits
            left = np.flatnonzero(self._words.take(words) & bits != bits)
            words, bits = words[left], bits[left]

    def _parts(self) -> Iterator[npt.NDArray[Any]]:
        """Read the file part by part; what is mapped would count as memory."""
        self._file.flush()
        size = PART * self._kind.itemsize
        for start in range(0, self.count * self._kind.itemsize, size):
            yield np.frombuffer(os.pread(self._file.fileno(), size, start), self._kind)

    def holds(self, keys: Keys) -> Mask:
        """Return which keys may be in the file."""
        words, bits = self._bits(keys)
        return np.asarray(self._words[words] & bits == bits)

    def lookup(self, keys: npt.NDArray[Any]) -> tuple[Mask, Mask]:
        """Return which keys are in the file, and which are unfair."""
        wanted: npt.NDArray[Any]
        wanted, back = np.unique(keys, return_inverse=True)
        known, unfair = np.zeros((2, len(wanted) + 1), dtype=bool)
        marks = np.zeros(1 << RECENT, dtype=bool)
        marks[_scrambled(wanted, len(marks))] = True
        for part in self._parts():
            part = part[marks[_scrambled(part, len(marks))]]
            at = np.searchsorted(wanted, part)
            # A fair test is stored as the key itself, an unfair one as the next number.
            fair = np.append(wanted, EMPTY)[at] == part
            behind = np.append(EMPTY, wanted)[at] + _one(part) == part
            known[at[fair]] = True
            known[at[behind] - 1] = unfair[at[behind] - 1] = True
        return known[back.reshape(-1)], unfair[back.reshape(-1)]

    def _bits(self, keys: npt.NDArray[Any]) -> tuple[Positions, npt.NDArray[np.uint64]]:
        """Return the word of each key, and its bits there, regardless of the verdict."""
        one, six = np.uint64(1), np.uint64(6)
        if self._largest is not None:
            number = (keys >> 1).view(np.uint64)
            return (number >> six).view(np.int64), one << (number & np.uint64(63))
        # In the order of the table, so that those that leave it together have words next to each other.
        words, hashes = _scrambled(keys, len(self._words)), _hashes(keys)
        bits = np.zeros(len(keys), dtype=np.uint64)
        for _ in range(4):
            bits |= one << (hashes & np.uint64(63))
            hashes >>= six
        return words, bits


def _held(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the keys of a table."""
    held: npt.NDArray[Any] = table.take(np.flatnonzero(table != EMPTY))
    return held


def _room(places: int) -> float:
    """Return how many keys a table may hold."""
    return (SPARSE if places < WIDE else FULL) * places


def _other(there: npt.NDArray[Any], keys: npt.NDArray[Any]) -> Mask:
    """Return which places hold other keys than these; free places do not."""
    if keys.dtype.kind == "c":
        return np.asarray((there != keys) & (there != keys + 1j) & (there != EMPTY))
    # Only the verdict may differ; a free place, which is negative, gives a negative number.
    return np.asarray((there ^ keys) > 1)


def _unfair(there: npt.NDArray[Any], keys: Keys) -> Mask:
    """Return the verdicts that are stored with keys; False if there is none."""
    return np.asarray((there != keys) & (there != EMPTY))


def _one(keys: npt.NDArray[Any]) -> Any:
    return 1j if keys.dtype.kind == "c" else 1


def _hashes(keys: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Scramble keys, regardless of their lowest bit, where the verdict is."""
    return mix(keys.view(np.uint64) >> np.uint64(1) if keys.dtype.kind != "c" else keys.real.astype(np.uint64))


def _scrambled(keys: npt.NDArray[Any], places: int) -> Positions:
    """Distribute keys over the places of a table, regardless of their lowest bit."""
    words = keys.view(np.uint64) >> np.uint64(1) if keys.dtype.kind != "c" else keys.real.astype(np.uint64)
    words *= _SPREAD
    words >>= np.uint64(65 - places.bit_length())
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


class Recall:
    """Caches the most different counterparts of recent individuals, so that walks that return do not query them again.

    Each individual has one place in a table, which the next individual with the same place overwrites.

    >>> recall = Recall()
    >>> recall.add(np.array([7, 9]), np.array([6, 8]), np.array([1, 0]))
    >>> known, others, classes = recall.find(np.array([9, 5]))
    >>> known.tolist(), int(others[0]), int(classes[0])
    ([True, False], 8, 0)
    """

    def __init__(self) -> None:
        # One row each, so that a lookup is one access to memory: the id plus one (zeros are free places), the
        # counterpart, the class. Created on first use, because most searches never need it.
        self._table: npt.NDArray[np.int64] | None = None

    def find(self, ids: Positions) -> tuple[npt.NDArray[np.bool_], Positions, Positions]:
        """Return which individuals are cached, with counterparts and classes (meaningless for the others)."""
        if self._table is None:
            return np.zeros(len(ids), dtype=bool), ids, ids
        there = self._table[self._places(ids)]
        return there[:, 0] == ids + 1, there[:, 1], there[:, 2]

    def add(self, ids: Positions, others: Positions, classes: npt.NDArray[Any]) -> None:
        """Cache individuals."""
        if self._table is None:
            self._table = np.zeros((1 << RECALLED, 3), dtype=np.int64)
        self._table[self._places(ids)] = np.stack([ids + 1, others, classes], axis=1)

    def _places(self, ids: Positions) -> Positions:
        return (mix(ids.view(np.uint64)) >> np.uint64(64 - RECALLED)).view(np.int64)


ROWS = 2**15
"""Family members of one block."""
KEPT = 2**27
"""Maximum bytes that a run keeps in a space too large to number its individuals."""


class Visited:
    """The individuals of all tests, block by block.

    Taken from the memo's keys if those are enough; otherwise from added blocks: ids, or rows in spaces too large to
    number their individuals. Beyond ``most`` bytes, all are dropped.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> people, memo = space.individuals([[3, 0], [7, 1]]), Memo()
    >>> memo.add(people.keys, np.array([True, False]))
    >>> [block.rows.tolist() for block in Visited(space, memo)]
    [[[3, 0], [7, 0]]]
    >>> visited = Visited(space)
    >>> visited.add(people)
    >>> [block.rows.tolist() for block in visited]
    [[[3, 0], [7, 1]]]
    """

    def __init__(self, space: BoundSpace, memo: Memo | None = None, most: float = math.inf) -> None:
        self.space, self._memo, self._most = space, memo, most
        self._blocks: list[npt.NDArray[Any]] = []
        self._bytes = 0

    @property
    def known(self) -> bool:
        """Whether no tests were dropped."""
        return self._bytes <= self._most

    def add(self, people: Block) -> None:
        """Remember the individuals of a block of tests."""
        if self.known:
            self._blocks.append(people.stored)
            self._bytes += people.stored.nbytes
        if not self.known:
            self._blocks.clear()

    def __iter__(self) -> Iterator[Individuals]:
        space = table(self.space)
        size = block_size(space)
        for block in self._blocks if self._memo is None else self._memo.segments:
            for start in range(0, len(block), size):
                part = block[start : start + size]
                # The lowest bit of a memo's key is the verdict, the rest an id without the protected attributes.
                yield Individuals.from_stored(space, part if self._memo is None else (part >> 1) * space.combinations)


def visited_of(space: BoundSpace) -> Visited | None:
    """Create the record of the visited individuals of a run; None if the memo's keys are enough.

    They are not if they are hashes, with links, or if a family is a sample that depends on the individual. Tested texts
    are not kept, because no result uses them.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> visited_of(Space([Integer("age", 1, 9), Boolean("member")], protected="member")) is None
    True
    """
    if not space.supports("attributes"):
        return Visited(space, most=-1)
    attributes = table(space)
    if not attributes.coding.fits:
        return Visited(space, most=KEPT)
    return Visited(space) if attributes.links or attributes.sampled else None


def block_size(space: Space) -> int:
    """Return the number of families of a block of moderate size."""
    return max(1, ROWS // space.width)
