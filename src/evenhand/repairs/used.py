"""Whom a repair used: they are no evidence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Exclude
from evenhand.spaces.individuals import Individuals, Keys, Rows
from evenhand.spaces.tabular import Space

Mask = npt.NDArray[np.bool_]


class Used:
    """Tests that a repair trained with; called with individuals, of this space or of one with the same columns.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> used = Used(space)
    >>> used.add(space.individuals([[3, 0]]))
    >>> used(space.individuals([[3, 1], [4, 1]])).tolist(), len(used)
    ([True, False], 1)
    >>> used.added(space.individuals([[3, 1], [3, 0]])).tolist()
    [False, True]
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.rows: Rows = np.zeros((0, len(space.names)), dtype=np.int32)
        """The individuals themselves, each once."""
        self.keys: Keys = space.individuals(self.rows).keys

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, people: Individuals) -> None:
        """Note that these were used."""
        self.keys = np.unique(np.concatenate([self.keys, people.keys]))
        self.rows = np.unique(np.concatenate([self.rows, people.rows]), axis=0)

    def __call__(self, people: Individuals) -> Mask:
        """Tell whose tests were used."""
        if not len(self.keys):
            return np.zeros(len(people), dtype=bool)
        # Another attribute may be protected now, and whoever shares the test then is used all the same.
        own = people if people.space is self.space else Individuals(self.space, rows=people.rows)
        at = np.minimum(np.searchsorted(self.keys, own.keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == own.keys, dtype=bool)

    def added(self, people: Individuals) -> Mask:
        """Tell who is, value for value, one of those whom the repair added."""
        every = np.concatenate([self.rows, people.rows])
        numbers = np.unique(every, axis=0, return_inverse=True)[1].reshape(-1)
        return np.isin(numbers[len(self.rows) :], numbers[: len(self.rows)])

    def barring(self, seed: int) -> Exclude:
        """Bar those of whose families anybody's test was used; ``seed`` chooses counterparts as the judge's does."""

        def exclude(people: Individuals) -> Mask:
            if people.space is self.space or not len(self):
                return self(people)
            families = people.space.families(people, seed)
            places = families.rows.reshape(-1, len(self.space.names))
            used = self(Individuals(self.space, rows=places)).reshape(len(people), families.width)
            return np.asarray((used if families.valid is None else used & families.valid).any(axis=1))

        return exclude
