"""What everything above the space packages needs of a space, whatever its individuals are.

``AnySpace`` is what a user names: a table's attributes, or the terms of texts. ``bind`` makes it a ``BoundSpace``, with
the data and the model of a run. A ``Space`` of attributes is bound as it is; a ``TextSpace`` a ``BoundTextSpace``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenhand.errors import SpaceError, StrategyError
from evenhand.spaces.individuals import Ids, Keys
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.spaces.findings import Findings


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
        """One integer each; only where the bound space has ids."""
        ...

    @property
    def rows(self) -> Any:
        """What an ``ModelProbe`` takes: an array with a row for each, or a list of texts."""
        ...

    @property
    def stored(self) -> npt.NDArray[Any]:
        """What tells each one from all others, as it is digested for the log."""
        ...


class Families(Protocol):
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
        """What an ``ModelProbe`` takes, family after family."""
        ...

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that was not asked repeats the individual's own answer."""
        ...

    def most_different(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Name one member of each family so that ``BoundSpace.most_different`` can take it back."""
        ...


class BoundSpace(Protocol):
    """A space with the data and the model of a run: individuals and their counterparts."""

    @property
    def space(self) -> Any:
        """The space as the user named it."""
        ...

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work here."""
        ...

    def family_inputs(self, families: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build what a model takes of whole families."""
        ...

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return the fixed individuals whose answers tell one model from another."""
        ...

    def digest_of(self, people: Any) -> str:
        """Identify the individuals that a search starts from."""
        ...

    def findings(self) -> Findings:
        """Return an empty table of findings."""
        ...

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
    def has_ids(self) -> bool:
        """Whether individuals have ids."""
        ...

    @property
    def width(self) -> int:
        """The most rows of a family: an individual and its counterparts."""
        ...

    def families(self, individuals: Any, seed: int) -> Families:
        """Build everyone who differs from the individuals in what is protected only."""
        ...

    def batch_size_for(self, individuals: Any, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Say how many of the individuals at some positions fit one call of so many rows with their families."""
        ...

    def most_different(self, individuals: Any, stored: npt.NDArray[Any]) -> Any:
        """Take counterparts of individuals back from what ``Families.most_different`` named."""
        ...

    def describe(self) -> dict[str, Any]:
        """Give everything that makes this space, in plain values."""
        ...


@dataclass(frozen=True)
class Bound:
    """A space bound to the data and the model of a run."""

    ground: BoundSpace
    people: Any = None
    """The data as individuals, or None."""
    clipped: int = 0
    """Rows with a value outside the bounds, moved to the nearest bound."""
    dropped: int = 0
    """Rows left out: outside the space, or without a text."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What else there is to say about the data, by name."""
    untestable: int = 0
    """Rows known to have no counterpart, which are left out too."""
    positions: npt.NDArray[np.int64] | None = None
    """Where each individual stands in the user's data; None: all are there, in order."""


@runtime_checkable
class AnySpace(Protocol):
    """The inputs that may be asked, and which part of them must not matter."""

    noun: str
    """What one input is called: "individual", "text"."""
    input: str
    """What models take: "text", or "rows" for frames and arrays."""
    default_strategy: str
    """The search that suits it, as ``eh.audit`` takes it."""
    protected: tuple[str, ...]
    """What must not matter, by names."""

    @property
    def sampled(self) -> bool:
        """Whether individuals are compared with a sample of their counterparts, ``limit`` of them."""
        ...

    @property
    def space(self) -> Any:
        """The space itself: findings that are kept can be asked again without data."""
        ...

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work: "attributes", "texts", or one of its own."""
        ...

    def bind(self, data: Any, model: Any) -> Bound:
        """Bind the space to the data and the model of a run."""
        ...

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build what a model takes: a frame, an array, or a list of texts."""
        ...

    def findings(self) -> Findings:
        """Return an empty table of findings."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return everything that makes this space, in plain values; ``kind`` tells one kind of space from another."""
        ...


def space_digest(space: AnySpace) -> str:
    """Identify a space, vectors apart: equal digests, equal spaces."""
    return hashlib.sha256(json.dumps(space.describe(), sort_keys=True, default=repr).encode()).hexdigest()


def require(space: Any, feature: str, call: str = "this", instead: str = "eh.audit takes it") -> None:
    """Raise where a space does not support what a call needs; the one place that refuses a kind of space.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> require(Space([Integer("age", 1, 9), Boolean("member")], protected="member"), "attributes", "eh.regions")
    """
    if not isinstance(space, AnySpace):
        raise SpaceError(f"space must be an eh.Space, got {type(space).__name__}; eh.Space.infer(frame, ...) makes one")
    if not space.supports(feature):
        raise SpaceError(f"{call} is for {feature}, and this is one of {space.noun}s; {instead}")


def table(ground: Any) -> Space:
    """Return ground as the space of a table; raise where it is of texts.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> table(space) is space
    True
    """
    if not isinstance(ground, Space):
        raise StrategyError(
            f"this is for spaces of attributes, and the space is one of {ground.space.noun}s; use a search of its own, "
            f"such as strategy={ground.space.default_strategy!r}"
        )
    return ground
