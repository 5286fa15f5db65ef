"""The individuals that a run has tested, as far as known without repeating the search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from evenhand.engine.probe import ModelProbe
from evenhand.search import Strategy
from evenhand.spaces.base import Block, BoundSpace, table
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space

ROWS = 2**15
"""Family members of one block."""
MOST = 2**27
"""Maximum bytes that a run keeps in a space too large to number its individuals."""


class Trail:
    """The individuals of all tests, block by block.

    Taken from the memo's keys if those are enough; otherwise from added blocks: ids, or rows in spaces too large to
    number their individuals. Beyond ``most`` bytes, all are dropped.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> people = space.individuals([[3, 0], [7, 1]])
    >>> [block.rows.tolist() for block in Trail(space, [people.keys])]
    [[[3, 0], [7, 0]]]
    >>> trail = Trail(space)
    >>> trail.add(people)
    >>> [block.rows.tolist() for block in trail]
    [[[3, 0], [7, 1]]]
    """

    def __init__(
        self, space: BoundSpace, keys: Sequence[npt.NDArray[Any]] | None = None, most: float = math.inf
    ) -> None:
        self.space, self._keys, self._most = space, keys, most
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
        for block in self._blocks if self._keys is None else self._keys:
            for start in range(0, len(block), size):
                part = block[start : start + size]
                # The lowest bit of a memo's key is the verdict, the rest an id without the protected attributes.
                yield Individuals.from_stored(space, part if self._keys is None else (part >> 1) * space.combinations)


@dataclass(frozen=True, eq=False)
class Origin:
    """The model, strategy and data of a run, which are not stored and known only in the process that made it."""

    probe: ModelProbe
    strategy: Strategy
    data: Any
    """Individuals, or None."""
    trail: Trail | None
    """None for a run that was read from its directory."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A pickled run has no origin, as one read from its directory: models need not be picklable.
        return type(None), ()


def trail_of(space: BoundSpace) -> Trail | None:
    """Create the trail of a run; None if the memo's keys are enough.

    They are not if they are hashes, with links, or if a family is a sample that depends on the individual. Tested texts
    are not kept, because no result uses them.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> trail_of(Space([Integer("age", 1, 9), Boolean("member")], protected="member")) is None
    True
    """
    if not space.supports("attributes"):
        return Trail(space, most=-1)
    attributes = table(space)
    if not attributes.coding.fits:
        return Trail(space, most=MOST)
    return Trail(space) if attributes.links or attributes.sampled else None


def block_size(space: Space) -> int:
    """Return the number of families of a block of moderate size."""
    return max(1, ROWS // space.width)
