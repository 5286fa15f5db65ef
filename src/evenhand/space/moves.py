"""Moves: small changes of free attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.space.individuals import Individuals, Rows
from evenhand.stream import Bits

if TYPE_CHECKING:
    from evenhand.space.tabular import Space


def neighbours(space: Space, individuals: Individuals) -> Individuals:
    """Return all individuals one move away, parent by parent.

    Attribute by attribute in the space's order; an ordered one goes a step down, then a step up; a nominal one goes to
    every other value. Steps out of the domain are left out; a missing value of an ordered attribute does not move.
    """
    rows = individuals.rows
    columns = [np.full(_moves(space, j), j) for j in space.free_columns]
    inside = np.concatenate([_inside(space, rows, j) for j in space.free_columns], axis=1)
    if space.coding.fits:
        parts = [individuals.ids[:, None] + _shifts(space, rows, j) * space.coding.radix[j] for j in space.free_columns]
        return Individuals(space, ids=np.concatenate(parts, axis=1)[inside])
    shifts = [np.broadcast_to(_shifts(space, rows, j), (len(rows), _moves(space, j))) for j in space.free_columns]
    parent, move = np.nonzero(inside)
    out = rows[parent]
    out[np.arange(len(out)), np.concatenate(columns)[move]] += np.concatenate(shifts, axis=1)[inside].astype(np.int32)
    return Individuals(space, rows=out)


def _moves(space: Space, j: int) -> int:
    return 2 if space.ordered[j] else int(space.sizes[j]) - 1


def _shifts(space: Space, rows: Rows, j: int) -> npt.NDArray[np.int64]:
    """Changes of code of one attribute, one column per move; one row for all where they do not depend on the code."""
    if space.ordered[j]:
        return np.array([[-1, 1]])
    others, code = np.arange(space.sizes[j] - 1), rows[:, j, None].astype(np.int64)
    return others + (others >= code) - code


def _inside(space: Space, rows: Rows, j: int) -> npt.NDArray[np.bool_]:
    """Which moves of one attribute stay in its domain."""
    code = rows[:, j]
    if not space.ordered[j]:
        return np.ones((len(rows), _moves(space, j)), dtype=bool)
    last = int(space.present[j]) - 1
    return np.stack([(code > 0) & (code <= last), code < last], axis=1)


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
