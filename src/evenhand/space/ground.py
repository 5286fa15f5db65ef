"""What oracle, search and run need of a space, whether its individuals are rows of a table or texts.

A ``Space`` is ground itself. A ``TextSpace`` becomes ground with the texts that a run starts from (``text.ground``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from evenhand.errors import StrategyError
from evenhand.space.individuals import Ids, Keys
from evenhand.space.tabular import Space


class Block(Protocol):
    """A block of individuals."""

    def __len__(self) -> int: ...
    def __getitem__(self, which: Any) -> Self:
        """Return some of them, by mask, positions or slice."""
        ...

    @property
    def keys(self) -> Keys:
        """What identifies each one's test."""
        ...

    @property
    def ids(self) -> Ids:
        """One integer each; only on ground that is numbered."""
        ...

    @property
    def rows(self) -> Any:
        """What an ``Asker`` takes: rows of codes, or a list of texts."""
        ...

    @property
    def stored(self) -> npt.NDArray[Any]:
        """What tells each one from all others, as it is digested for the log."""
        ...


class Kin(Protocol):
    """A block of families: individuals with their counterparts, in places."""

    def __len__(self) -> int: ...
    def __getitem__(self, which: npt.NDArray[Any]) -> Self:
        """Return some of the families."""
        ...

    @property
    def individuals(self) -> Any:
        """The individuals themselves."""
        ...

    @property
    def own(self) -> npt.NDArray[np.int64]:
        """Each individual's place in its family."""
        ...

    @property
    def legal(self) -> npt.NDArray[np.bool_] | None:
        """Which places are asked (None: all)."""
        ...

    @property
    def testable(self) -> npt.NDArray[np.bool_] | None:
        """Which families have somebody to compare (None: all)."""
        ...

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """How many rows each family asks."""
        ...

    @property
    def asked(self) -> Any:
        """What an ``Asker`` takes, family after family."""
        ...

    def spread(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that was not asked repeats the individual's own answer."""
        ...

    def rivals(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Name one member of each family so that ``Ground.rivals`` can take it back."""
        ...


class Ground(Protocol):
    """Individuals and their counterparts."""

    @property
    def constraints(self) -> Sequence[Any]:
        """What may leave an individual without counterparts."""
        ...

    @property
    def countable(self) -> bool:
        """Whether ``tests`` is the number of tests that can be judged."""
        ...

    @property
    def tests(self) -> int:
        """How many tests there are, where they are countable."""
        ...

    @property
    def numbered(self) -> bool:
        """Whether individuals have ids."""
        ...

    @property
    def width(self) -> int:
        """The most rows of a family: an individual and its counterparts."""
        ...

    def families(self, individuals: Any, seed: int) -> Kin:
        """Build everyone who differs from the individuals in what is protected only."""
        ...

    def fitting(self, individuals: Any, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Say how many of the individuals at some positions fit one call of so many rows with their families."""
        ...

    def rivals(self, individuals: Any, stored: npt.NDArray[Any]) -> Any:
        """Take counterparts of individuals back from what ``Kin.rivals`` named."""
        ...

    def describe(self) -> dict[str, Any]:
        """Give everything that makes this space, in plain values."""
        ...


def table(ground: Ground) -> Space:
    """Return ground as the space of a table; raise where it is of texts.

    >>> from evenhand.space import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> table(space) is space
    True
    """
    if not isinstance(ground, Space):
        raise StrategyError(
            "this is for spaces of attributes, and the space is one of texts; use strategy='text-random'"
        )
    return ground
