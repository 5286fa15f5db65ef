"""A block of individuals, as ids, as rows of codes, or both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

T = TypeVar("T")
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64] | npt.NDArray[np.complex128]


class Individuals:
    """Individuals of a space, thousands at a time.

    Where the space has fewer than 2**62 individuals, one is an integer ``id`` (mixed radix, the protected attributes
    lowest) and its test's key is what is left without them; so a move is an addition, and rows are built only for
    individuals that the model is asked about. Larger spaces keep the rows and hash the keys; with links the key is a
    hash of the whole family. The lowest bit of a key is free for the verdict.
    """

    __slots__ = ("_ids", "_keys", "_rows", "space")

    def __init__(
        self, space: Space, *, ids: Ids | None = None, rows: Rows | None = None, keys: Keys | None = None
    ) -> None:
        self.space, self._ids, self._rows, self._keys = space, ids, rows, keys

    def __len__(self) -> int:
        first = self._ids if self._ids is not None else self._rows
        assert first is not None
        return len(first)

    def __getitem__(self, which: Any) -> Individuals:
        """Return some of them, by mask, positions or slice."""
        return Individuals(
            self.space,
            ids=None if self._ids is None else self._ids[which],
            rows=None if self._rows is None else self._rows[which],
            # Keys of ids are quickly made again; only hashes are worth carrying along.
            keys=None if self._keys is None or self._keys.dtype.kind != "c" else self._keys[which],
        )

    @property
    def ids(self) -> Ids:
        """One integer each; only in spaces that fit."""
        if self._ids is None:
            assert self._rows is not None
            self._ids = self.space.coding.ids(self._rows)
        return self._ids

    @property
    def rows(self) -> Rows:
        """One row of codes each, in the space's column order."""
        if self._rows is None:
            assert self._ids is not None
            self._rows = self.space.coding.rows(self._ids)
        elif self._rows.dtype != np.int32:
            # The stored form is unsigned, which no arithmetic of moves survives.
            self._rows = self._rows.astype(np.int32)
        return self._rows

    @property
    def keys(self) -> Keys:
        """What identifies each one's test: the free attributes (with links: the whole family)."""
        if self._keys is None:
            self._keys = self.space.keys(self)
        return self._keys

    @property
    def stored(self) -> npt.NDArray[Any]:
        """The form that is kept in findings and on disk: ids where they fit, else rows of the narrowest integers."""
        return self.ids if self.space.coding.fits else self.rows.astype(self.space.coding.narrowest)

    @classmethod
    def from_stored(cls, space: Space, stored: npt.NDArray[Any]) -> Individuals:
        """Take individuals back from their stored form."""
        return cls(space, ids=stored) if space.coding.fits else cls(space, rows=stored)

    @staticmethod
    def join(parts: list[Individuals]) -> Individuals:
        """Put blocks of one space one after the other."""
        space = parts[0].space
        if space.coding.fits:
            return Individuals(space, ids=np.concatenate([p.ids for p in parts]))
        return Individuals(space, rows=np.concatenate([p.rows for p in parts]))


class Coding:
    """The mixed-radix numbering of a space's individuals."""

    def __init__(self, sizes: list[int], free: list[int], protected: list[int]) -> None:
        self.order = [*free, *protected]
        self.sizes = sizes
        self.combinations = 1
        for j in protected:
            self.combinations *= sizes[j]
        self.radix = [0] * len(sizes)
        self.total = 1
        for j in reversed(self.order):
            self.radix[j] = self.total
            self.total *= sizes[j]
        self.fits = self.total < 2**62
        self._radix = np.array(self.radix, dtype=np.int64 if self.fits else object)
        self.narrowest = np.min_scalar_type(max(sizes) - 1)
        # Columns, lowest digit first, in groups whose numbers fit 32 bits: those divide much faster.
        self._limbs = limbs([(j, sizes[j]) for j in reversed(self.order)], 2**32 - 1) if self.fits else []

    def ids(self, rows: Rows) -> Ids:
        """Number rows of codes."""
        out: Ids = rows @ self._radix
        return out

    def rows(self, ids: Ids) -> Rows:
        """Rebuild rows of codes from their numbers."""
        out = np.empty((len(ids), len(self.sizes)), dtype=np.int32)
        rest = ids.astype(np.uint64)
        for limb, (columns, size) in enumerate(self._limbs):
            if limb + 1 < len(self._limbs):
                above = rest // np.uint64(size)
                part = (rest - above * np.uint64(size)).astype(np.uint32)
                rest = above
            else:
                part = rest.astype(np.uint32)
            for j in columns[:-1]:
                quotient = part // np.uint32(self.sizes[j])
                out[:, j] = part - quotient * np.uint32(self.sizes[j])
                part = quotient
            out[:, columns[-1]] = part
        return out


def limbs(parts: Iterable[tuple[T, int]], most: int) -> list[tuple[list[T], int]]:
    """Group parts with their sizes, in order, so that the product of the sizes of a group is at most ``most``.

    >>> limbs([("a", 3), ("b", 4), ("c", 5)], 12)
    [(['a', 'b'], 12), (['c'], 5)]
    """
    groups: list[tuple[list[T], int]] = []
    current: list[T] = []
    product = 1
    for part, size in parts:
        if current and product * size > most:
            groups.append((current, product))
            current, product = [], 1
        current.append(part)
        product *= size
    return [*groups, (current, product)]


def hashed(rows: npt.NDArray[Any]) -> npt.NDArray[np.complex128]:
    """Hash rows of codes to 105-bit keys.

    A key is a complex number of two whole halves, because NumPy sorts and searches those lexicographically; the lowest
    bit stays free. With 10^8 keys, the chance that any two collide is below 10^-15.
    """
    left = np.full(len(rows), 0x243F6A8885A308D3, dtype=np.uint64)
    right = np.full(len(rows), 0x13198A2E03707344, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for j in range(rows.shape[1]):
            code = rows[:, j].astype(np.uint64) + np.uint64((j + 1) << 32)
            left = mix(left ^ mix(code))
            right = mix(right + mix(code ^ np.uint64(0xA4093822299F31D0)))
    return complex_keys(left, right)


def complex_keys(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.complex128]:
    """Pack two hash words into keys whose lowest bit is free."""
    out = np.empty(len(left), dtype=np.complex128)
    out.real = left >> np.uint64(11)
    out.imag = (right >> np.uint64(12)) << np.uint64(1)
    return out
