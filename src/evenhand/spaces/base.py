"""The two protocols that everything above the spaces needs, whatever the individuals are.

``AnySpace`` is what a user makes: the attributes of a table, or the terms of texts. ``bind`` makes it a ``BoundSpace``,
with the data and the model of a run. A ``Space`` of attributes is its own bound space; a ``TextSpace`` becomes a
``BoundTextSpace``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenhand.errors import SpaceError, StrategyError, search
from evenhand.spaces.individuals import Ids, Keys

if TYPE_CHECKING:
    from evenhand.spaces.findings import Findings
    from evenhand.spaces.tabular import Space


class Block(Protocol):
    """A block of individuals."""

    def __len__(self) -> int: ...
    def __getitem__(self, which: Any) -> Self:
        """Return some of them, by mask, positions or slice."""

    @property
    def keys(self) -> Keys:
        """What identifies each one's test."""

    @property
    def ids(self) -> Ids:
        """One integer each; only where the bound space has ids."""

    @property
    def rows(self) -> Any:
        """What a model is asked: an array with a row for each, or a list of texts."""

    @property
    def stored(self) -> npt.NDArray[Any]:
        """What identifies each one, as it is digested for the log."""


class Families(Protocol):
    """A block of families: individuals with their counterparts, in places."""

    def __len__(self) -> int: ...
    def __getitem__(self, which: npt.NDArray[Any]) -> Self:
        """Return some of the families."""

    @property
    def individuals(self) -> Any:
        """The individuals themselves."""

    @property
    def own(self) -> npt.NDArray[np.int64]:
        """Each individual's place in its family."""

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """Which places are asked (None: all)."""

    @property
    def testable(self) -> npt.NDArray[np.bool_] | None:
        """Which families have at least two members to compare (None: all)."""

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """How many rows each family asks."""

    @property
    def asked(self) -> Any:
        """What a model is asked, family after family."""

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that was not asked repeats the individual's own answer."""

    def most_different(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Name one member of each family so that ``BoundSpace.most_different`` can rebuild it."""


class BoundSpace(Protocol):
    """A space with the data and the model of a run: individuals and their counterparts."""

    @property
    def space(self) -> Any:
        """The space as the user named it."""

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work here."""

    def family_inputs(self, families: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build what a model takes of whole families."""

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return the fixed individuals whose answers identify a model."""

    def digest_of(self, people: Any) -> str:
        """Identify the individuals that a search starts from."""

    def findings(self) -> Findings:
        """Return an empty table of findings."""

    @property
    def constraints(self) -> Sequence[Any]:
        """What may leave an individual without counterparts."""

    @property
    def countable(self) -> bool:
        """Whether ``tests`` is the number of tests that can be judged."""

    @property
    def tests(self) -> int:
        """How many tests there are, where they are countable."""

    @property
    def has_ids(self) -> bool:
        """Whether individuals have ids."""

    @property
    def width(self) -> int:
        """The most rows of a family: an individual and its counterparts."""

    def families(self, individuals: Any, seed: int) -> Families:
        """Build the individuals with their counterparts, which differ in what is protected only."""

    def batch_size_for(self, individuals: Any, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Return how many of the individuals at some positions fit one call of so many rows with their families."""

    def most_different(self, individuals: Any, stored: npt.NDArray[Any]) -> Any:
        """Rebuild counterparts of individuals from what ``Families.most_different`` named."""

    def describe(self) -> dict[str, Any]:
        """Return everything that makes this space, in plain values."""


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
        """Whether individuals are compared with a sample of their counterparts, ``max_family_size`` of them."""

    @property
    def space(self) -> Any:
        """The space itself: findings that are kept can be asked again without data."""

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work: "attributes", "texts", or one of its own."""

    def bind(self, data: Any, model: Any) -> Bound:
        """Bind the space to the data and the model of a run."""

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build what a model takes: a frame, an array, or a list of texts."""

    def findings(self) -> Findings:
        """Return an empty table of findings."""

    def describe(self) -> dict[str, Any]:
        """Return everything that makes this space, in plain values; ``kind`` tells one kind of space from another."""


def space_digest(space: AnySpace) -> str:
    """Identify a space, vectors apart: equal digests, equal spaces."""
    return hashlib.sha256(json.dumps(space.describe(), sort_keys=True, default=repr).encode()).hexdigest()


def require(space: Any, feature: str, call: str = "this", instead: str = "use eh.audit") -> None:
    """Raise where a space does not support what a call needs.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> require(Space([Integer("age", 1, 9), Boolean("member")], protected="member"), "attributes", "eh.regions")
    """
    if not isinstance(space, AnySpace):
        remedy = "eh.Space.infer(frame, ...) makes one"
        raise SpaceError("must be an eh.Space", parameter="space", value=type(space).__name__, remedy=remedy)
    if not space.supports(feature):
        raise SpaceError(f"{call} is for {feature}, and this is a space of {space.noun}s", remedy=instead)


def table(ground: Any) -> Space:
    """Return a bound space as one of attributes; raise where it is of another kind.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> table(space) is space
    True
    """
    space: Space = ground
    if not ground.supports("attributes"):
        raise StrategyError(
            f"this needs a space of attributes, and the space is one of {ground.space.noun}s",
            remedy=("use another search, such as ", search(ground.space.default_strategy)),
        )
    return space
