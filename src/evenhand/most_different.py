"""The counterpart of each individual whose output differs most from its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand.criteria import Outputs, Places
from evenhand.models.base import Model
from evenhand.spaces.individuals import Ids

PLACES = 20
"""log2 of how many individuals are remembered."""


def most_different_of(model: Model, outputs: Outputs) -> tuple[npt.NDArray[np.int64], Places]:
    """Return the class that each individual is given, and the place of the counterpart that contrasts most with it.

    The contrast is the change in the score of the individual's own class. A counterpart with another decision comes
    before all with the same one; of equals the first counts.

    >>> from evenhand.models.wrap import wrap
    >>> scores = np.array([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> classes, places = most_different_of(wrap(lambda X: X), Outputs(scores.argmax(axis=2), scores, np.array([0])))
    >>> classes.tolist(), places.tolist()
    ([0], [2])
    """
    assert outputs.scores is not None
    assert outputs.labels is not None
    here, own = np.arange(len(outputs.own)), outputs.own
    classes = model.choose(outputs.scores[here, own])
    if outputs.scores.shape[1] == 2:
        return classes, 1 - own
    column = classes if outputs.scores.shape[2] > 1 else np.zeros_like(classes)
    scores = outputs.scores[here, :, column]
    gap = np.abs(scores - scores[here, own][:, None])
    differs = np.asarray(outputs.labels != outputs.labels[here, own][:, None], dtype=bool)
    # No gap is larger than the largest, so that adding it puts another decision first.
    gap += differs * (gap.max(axis=1, keepdims=True) + 1)
    gap[here, own] = -1
    return classes, gap.argmax(axis=1)


class Recall:
    """The most different counterparts of individuals met lately: walks that come back do not ask again.

    Each individual has one place in a table, which the next one with the same place takes.

    >>> recall = Recall()
    >>> recall.add(np.array([7, 9]), np.array([6, 8]), np.array([1, 0]))
    >>> known, others, classes = recall.find(np.array([9, 5]))
    >>> known.tolist(), int(others[0]), int(classes[0])
    ([True, False], 8, 0)
    """

    def __init__(self) -> None:
        # One row each, so that a place is one access to memory: the id plus one (zeros, which cost nothing before they
        # are written to, are free places), the rival, the class.
        self._table = np.zeros((1 << PLACES, 3), dtype=np.int64)

    def find(self, ids: Ids) -> tuple[npt.NDArray[np.bool_], Ids, Places]:
        """Tell who is remembered, with counterparts and classes (without meaning for the others)."""
        there = self._table[self._places(ids)]
        return there[:, 0] == ids + 1, there[:, 1], there[:, 2]

    def add(self, ids: Ids, others: Ids, classes: npt.NDArray[Any]) -> None:
        """Remember individuals."""
        entries = np.empty((len(ids), 3), dtype=np.int64)
        entries[:, 0], entries[:, 1], entries[:, 2] = ids + 1, others, classes
        self._table[self._places(ids)] = entries

    def _places(self, ids: Ids) -> Places:
        return (mix(ids.view(np.uint64)) >> np.uint64(64 - PLACES)).view(np.int64)
