"""Whom an estimate is about: each population deals individuals from a counter, independently of what is found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.errors import DataError
from evenhand.estimates.intervals import Numbers
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.neighbours import step
from evenhand.spaces.tabular import Space


class Population(Protocol):
    """Individuals, dealt by number: the same numbers, the same individuals."""

    @property
    def size(self) -> int | None:
        """How many there are to ask, where nobody comes twice; None where draws are independent."""
        ...

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Return up to ``n`` individuals and the counter after them; fewer when there are no more."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Valid individuals, each as likely as any other, drawn independently."""

    space: Space
    stream: Stream
    size: None = None

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Draw individuals."""
        return self.space.sampler.draw(self.stream, start, n, repeats=True)


@dataclass(frozen=True)
class Everyone:
    """Every test of a small space once, in a drawn order; or every individual, where families depend on whose they are.

    A test is dealt as the first of its individuals, valid or not: its family holds them all.
    """

    space: Space
    stream: Stream
    singly: bool = False

    @property
    def size(self) -> int:
        """How many tests, or individuals."""
        return self.space.coding.total if self.singly else self.space.tests

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Return the next ones."""
        end = min(start + n, self.size)
        numbers = self.stream.shuffled(np.arange(start, end), self.size, "everyone")
        ids = numbers if self.singly else numbers * self.space.combinations
        found = Individuals(self.space, ids=ids)
        return (found[self.space.valid(found.rows)] if self.singly else found), end


@dataclass(frozen=True)
class Rows:
    """The user's rows, each once, in a drawn order."""

    people: Individuals
    stream: Stream

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.people)

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Return the next rows."""
        end = min(start + n, self.size)
        return self.people[self.positions(start, end)], end

    def positions(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Say where the rows of these numbers stand among the people."""
        return self.stream.shuffled(np.arange(start, end), self.size, "rows")


@dataclass(frozen=True)
class Drawn:
    """The user's rows, drawn independently: all equally likely, or as likely as they weigh."""

    people: Individuals
    stream: Stream
    weights: Numbers | None = None
    size: None = None

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Draw rows."""
        numbers = np.arange(start, start + n)
        if self.weights is None:
            return self.people[self.stream.below(len(self.people), "drawn", numbers, 0)], start + n
        at = np.searchsorted(self._shares, self.stream.unit("drawn", numbers, 0), side="right")
        return self.people[np.minimum(at, len(self.people) - 1)], start + n

    @cached_property
    def _shares(self) -> Numbers:
        assert self.weights is not None
        total = np.cumsum(self.weights)
        return np.asarray(total / total[-1], dtype=np.float64)


@dataclass(frozen=True)
class Near:
    """Drawn rows that have moved a few steps, each on a drawn free attribute.

    A step goes to the next value down or up, of a nominal attribute to any other value. One that would leave the domain
    or break a constraint is not made.
    """

    rows: Drawn
    steps: int
    size: None = None

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Draw rows and move them."""
        people, end = self.rows.take(start, n)
        space, stream = people.space, self.rows.stream
        free, numbers, rows = np.array(space.free_columns), np.arange(start, end), people.rows
        for number in range(self.steps):
            columns = free[stream.below(len(free), "near-col", numbers, number)]
            down = stream.unit("near-dir", numbers, number) < 0.5
            moved = step(space, rows, columns, down, stream.bits("near-val", numbers, number))
            valid = space.valid(moved) if space.constraints else np.ones(len(rows), dtype=bool)
            rows = np.where(valid[:, None], moved, rows)
        return Individuals(space, rows=rows), end


def check_weights(weights: Any, data: Any, positions: npt.NDArray[np.int64], rows: int) -> Numbers:
    """Turn weights, or the name of a column of the data, into one number for each row that is left.

    >>> check_weights([1, 2, 3], None, np.array([0, 2]), 3).tolist()
    [0.3333333333333333, 1.0]
    """
    from evenhand.spaces.frames import columns_of

    if isinstance(weights, str):
        columns = columns_of(data)
        if weights not in columns:
            raise DataError(f"weights={weights!r}: the data has no such column; it has {', '.join(list(columns)[:20])}")
        weights = columns[weights]
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("weights must be numbers, one for each row of the data, or the name of a column") from None
    if numbers.shape != (rows,):
        raise DataError(f"weights must be one number for each of the {rows:,} rows of the data, got {numbers.shape}")
    kept = numbers[positions]
    if not np.isfinite(kept).all() or (kept < 0).any() or not kept.any():
        raise DataError("weights must be finite numbers of at least 0, not all of them 0; mend or leave out such rows")
    # Only their proportions count; so no sum or square of them is too large.
    return np.asarray(kept / kept.max(), dtype=np.float64)
