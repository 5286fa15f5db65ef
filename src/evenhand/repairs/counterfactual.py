"""Counterfactual augmentation: the training rows once more, with other protected values and the same labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.repairs.context import Candidate, RepairContext, seed_of
from evenhand.spaces.individuals import Individuals
from evenhand.strategies._settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 4096


@dataclass(frozen=True)
class Counterfactual:
    """Add counterparts of the training rows, with the rows' own labels, and train once.

    Needs no search and no vote. A counterpart is a row with other protected values; attributes that are linked to them
    follow, and everything else stays as the user gave it.

    >>> Counterfactual().counterparts
    'one'
    """

    counterparts: Literal["one", "all"] = "one"
    """One drawn counterpart of each row, which doubles the rows; or every valid one."""

    def __post_init__(self) -> None:
        check_settings(self)

    def apply(self, context: RepairContext) -> Candidate:
        """Train on rows and counterparts."""
        encoded = context.rows.encoded
        row, people = self._counterparts(context, encoded.individuals)
        notes = []
        without = len(context.rows) - len(np.unique(row))
        if without:
            notes.append(f"{without:,} training rows are outside the space or have no counterpart: they stay alone")
        if not len(people):
            return Candidate(None, reason="nothing to repair with: no training row has a counterpart", notes=notes)
        context.used.add(people)
        at = encoded.positions[row]
        context.tell(f"training with {len(people):,} counterparts")
        model = context.train(_changed(context, at, people), context.rows.y[at])
        return Candidate(model, len(people), notes=notes)

    def _counterparts(self, context: RepairContext, people: Individuals) -> tuple[npt.NDArray[np.int64], Individuals]:
        """Return counterparts, and the number of the individual that each belongs to."""
        space, seed = context.space, seed_of(context.seed, "draw")
        rows: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        found: list[npt.NDArray[np.int32]] = [np.zeros((0, len(space.names)), dtype=np.int32)]
        for start in range(0, len(people), CHUNK):
            families = space.families(people[start : start + CHUNK], seed)
            n = len(families)
            other = np.ones((n, families.width), dtype=bool) if families.valid is None else families.valid.copy()
            other[np.arange(n), families.own] = False
            if self.counterparts == "one":
                numbers = (start + np.arange(n))[:, None] * families.width + np.arange(families.width)
                draws = Stream(seed).unit("which", numbers.ravel(), 0).reshape(other.shape)
                chosen = np.where(other, draws, -1.0).argmax(axis=1)
                other &= np.arange(families.width) == chosen[:, None]
            rows.append(start + np.nonzero(other)[0])
            found.append(families.rows[other])
        return np.concatenate(rows), Individuals(space, rows=np.concatenate(found))


def _changed(context: RepairContext, at: npt.NDArray[np.int64], people: Individuals) -> pd.DataFrame:
    """Write the user's own rows with the counterparts' protected and linked values."""
    frame: pd.DataFrame = context.rows.frame.iloc[at].reset_index(drop=True)
    space = context.space
    linked = {j for dependents in space.link_tables.values() for j in dependents}
    written: Any = context.rows.written(people.rows)
    changing = [name for j, name in enumerate(space.names) if j in linked or name in space.protected]
    return frame.assign(**{name: written[name] for name in changing})
