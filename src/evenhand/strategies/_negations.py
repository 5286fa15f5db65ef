"""Negated paths: constraints that are made of a path's predicates, one of them turned into its opposite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.individuals import Rows
from evenhand.spaces.solve import solve_any, solve_nearest
from evenhand.spaces.tabular import Space
from evenhand.spaces.ties import Boxes, Mask
from evenhand.strategies._paths import DOWN, IS

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Negations:
    """Constraints, and whose path each was made of."""

    boxes: Boxes
    owner: Numbers
    """The place of the individual in its block."""
    local: Mask
    """Whether the local search made it, which wants the nearest solution; the global one wants any."""
    confidence: Floats
    """The mean confidence of its predicates."""

    @classmethod
    def of(cls, space: Space, paths: Floats, owner: Numbers, level: Numbers, kept: Mask, local: Mask) -> Negations:
        """Make constraints of paths.

        Parameters
        ----------
        space
            The space that the paths speak of.
        paths
            What ``_paths.paths`` returns.
        owner, level
            Of each constraint: the path, and the place of the predicate that is negated.
        kept
            Of each constraint: which predicates of the path it has, the negated one among them.
        local
            Of each constraint: whether the local search made it.
        """
        which, at = np.nonzero(kept)
        attribute, kind, code, _ = paths[owner[which], at].T
        truth = np.isin(kind, [DOWN, IS]) ^ (at == level[which])
        boxes = Boxes.all(space, len(owner)).restrict(which, attribute, code, truth)
        confidence = (paths[owner, :, 3] * kept).sum(axis=1) / kept.sum(axis=1)
        return cls(boxes, owner, local, confidence)

    def __getitem__(self, which: npt.NDArray[Any]) -> Negations:
        """Return some of them, by mask or positions."""
        return Negations(self.boxes[which], self.owner[which], self.local[which], self.confidence[which])

    def solve(self, rows: Rows, stream: Stream, number: int) -> npt.NDArray[Any]:
        """Solve for the member nearest to the owner's row, or for any; in the narrowest integers, see ``Solved``.

        What is drawn for a constraint depends on its place, counted from ``number``.
        """
        out = np.empty((len(self.owner), rows.shape[1]), dtype=np.min_scalar_type(-int(self.boxes.space.sizes.max())))
        near, anywhere = np.flatnonzero(self.local), np.flatnonzero(~self.local)
        out[near] = solve_nearest(self.boxes[near], rows[self.owner[near]]).rows
        out[anywhere] = solve_any(self.boxes[anywhere], stream, number + anywhere, 0).rows
        return out
