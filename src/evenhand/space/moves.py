"""Moves: small changes of free attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, Stream
from evenhand.space.individuals import Individuals, Rows

if TYPE_CHECKING:
    from evenhand.space.tabular import Space


class Moves:
    """All moves of a space, one a column: which attribute, and how its code changes.

    Attribute by attribute in the space's order; an ordered one goes a step down, then a step up; a nominal one goes to
    every other value. Steps out of the domain are left out; a missing value of an ordered attribute does not move.
    """

    def __init__(self, space: Space) -> None:
        moves = [
            (j, bool(space.ordered[j]), change)
            for j in space.free_columns
            for change in ((-1, 1) if space.ordered[j] else range(int(space.sizes[j]) - 1))
        ]
        self.columns = np.array([j for j, _, _ in moves], dtype=np.int64)
        self.ordered = np.array([ordered for _, ordered, _ in moves], dtype=bool)
        self.changes = np.array([change for _, _, change in moves], dtype=np.int64)
        self.present = space.present[self.columns]
        self.count = max(1, len(moves))
        self.radix = np.array([space.coding.radix[j] for j in self.columns]) if space.coding.fits else None

    def shifts(self, codes: Rows) -> npt.NDArray[np.int64]:
        """Changes of code, one row for each individual, or one for all where no attribute is nominal."""
        if self.ordered.all():
            return self.changes[None, :]
        # The change of a nominal attribute counts its other values: those from its own on are one further.
        others = self.changes + (self.changes >= codes)
        return np.where(self.ordered, self.changes, others - codes)

    def inside(self, codes: Rows) -> npt.NDArray[np.bool_]:
        """Which moves stay in the domain."""
        room = np.where(self.changes < 0, codes > 0, codes < self.present - 1)
        return ~self.ordered | (room & (codes < self.present))


def neighbours(space: Space, individuals: Individuals) -> Individuals:
    """Return all individuals one move away, parent by parent."""
    moves = space.move_table
    codes = individuals.rows[:, moves.columns]
    shifts, inside = moves.shifts(codes), moves.inside(codes)
    if moves.radix is not None:
        return Individuals(space, ids=(individuals.ids[:, None] + shifts * moves.radix)[inside])
    parent, move = np.nonzero(inside)
    out = individuals.rows[parent]
    out[np.arange(len(out)), moves.columns[move]] += np.broadcast_to(shifts, inside.shape)[inside].astype(np.int32)
    return Individuals(space, rows=out)


def step(space: Space, rows: Rows, columns: npt.NDArray[np.int64], down: npt.NDArray[np.bool_], bits: Bits) -> Rows:
    """Move one free attribute of each row: one step down or up and clipped; a nominal one to a drawn other value."""
    out = rows.copy()
    here = np.arange(len(rows))
    code = rows[here, columns]
    present = space.present[columns]
    walked = np.clip(code + np.where(down, -1, 1), 0, present - 1)
    walked = np.where(code < present, walked, code)
    jumped = other_value(code, space.sizes[columns], bits)
    out[here, columns] = np.where(space.ordered[columns], walked, jumped)
    return out


def other_value(code: npt.NDArray[Any], sizes: npt.NDArray[np.int64], bits: Bits) -> npt.NDArray[np.int64]:
    """Draw a value other than the own one, where there is another."""
    others = np.maximum(sizes - 1, 1).astype(np.uint64)
    return (code + 1 + (bits % others).astype(np.int64)) % sizes


def jumps(space: Space, rows: Rows, stream: Stream, walkers: npt.NDArray[np.int64], number: int) -> Rows | None:
    """Draw another value for every nominal free attribute of each row; None where the space has no such attribute."""
    nominal = [j for j in space.free_columns if not space.ordered[j]]
    if not nominal:
        return None
    out = rows.copy()
    for j in nominal:
        out[:, j] = other_value(rows[:, j], space.sizes[j : j + 1], stream.bits(f"jump{j}", walkers, number))
    return out
