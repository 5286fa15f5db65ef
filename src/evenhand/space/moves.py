"""Moves: small changes of free attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.space.individuals import Individuals, Rows
from evenhand.stream import Bits

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
    sizes = space.sizes[columns]
    present = space.present[columns]
    ordered = space.ordered[columns]
    walked = np.clip(code + np.where(down, -1, 1), 0, present - 1)
    walked = np.where(code < present, walked, code)
    jumped = (code + 1 + (bits % np.maximum(sizes - 1, 1).astype(np.uint64)).astype(np.int64)) % sizes
    out[here, columns] = np.where(ordered, walked, np.where(sizes > 1, jumped, code))
    return out
