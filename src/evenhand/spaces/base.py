"""The protocols of spaces, on which all higher packages depend.

Users create an ``AnySpace``: the attributes of a table, or the terms of texts. ``bind`` turns it into a ``BoundSpace``,
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
        """Select some of them, by mask, positions or slice."""

    @property
    def keys(self) -> Keys:
        """The key of each individual's test."""

    @property
    def ids(self) -> Ids:
        """One integer each; only if the bound space has ids."""

    @property
    def rows(self) -> Any:
        """The model's inputs: an array with a row for each, or a list of texts."""

    @property
    def stored(self) -> npt.NDArray[Any]:
        """Identifies each individual in the log and in findings."""


class Families(Protocol):
    """A block of families. A family has places for an individual and its counterparts.

    With an attribute ``groups`` (``criteria.Groups``), several places stand for the same counterpart.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, which: npt.NDArray[Any]) -> Self:
        """Select some of the families."""

    @property
    def individuals(self) -> Any:
        """The individuals themselves."""

    @property
    def own(self) -> npt.NDArray[np.int64]:
        """Each individual's place in its family."""

    @property
    def valid(self) -> npt.NDArray[np.bool_] | None:
        """Which places are queried (None: all)."""

    @property
    def testable(self) -> npt.NDArray[np.bool_] | None:
        """Which families have at least two members to compare (None: all)."""

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Number of rows that each family uses."""

    @property
    def asked(self) -> Any:
        """The model's inputs, family after family."""

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Arrange answers as (family, place, ...); a place that was not queried repeats the individual's own answer."""

    def most_different(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Name one member of each family so that ``BoundSpace.most_different`` can rebuild it."""


class BoundSpace(Protocol):
    """A space with the data and the model of a run: individuals and their counterparts."""

    @property
    def space(self) -> Any:
        """The space as the user made it."""

    @property
    def constraints(self) -> Sequence[Any]:
        """Constraints, which may leave an individual without counterparts."""

    @property
    def countable(self) -> bool:
        """Whether ``tests`` is the number of tests that can be judged."""

    @property
    def tests(self) -> int:
        """The number of tests, where they are countable."""

    @property
    def has_ids(self) -> bool:
        """Whether individuals have ids."""

    @property
    def width(self) -> int:
        """Maximum rows of a family: an individual and its counterparts."""

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work with this space."""

    def family_inputs(self, families: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build the model's inputs for whole families."""

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return the fixed individuals whose answers identify a model."""

    def digest_of(self, people: Any) -> str:
        """Identify the individuals that a search starts from."""

    def findings(self) -> Findings:
        """Return an empty table of findings."""

    def families(self, individuals: Any, seed: int) -> Families:
        """Build the individuals with their counterparts."""

    def batch_size_for(self, individuals: Any, positions: npt.NDArray[np.int64], rows: int) -> int:
        """Return how many of the individuals at ``positions`` fit a call of ``rows`` rows with their families."""

    def most_different(self, individuals: Any, stored: npt.NDArray[Any]) -> Any:
        """Rebuild counterparts of individuals from what ``Families.most_different`` returned."""

    def describe(self) -> dict[str, Any]:
        """Return everything that defines this space, as plain values."""


@dataclass(frozen=True)
class Binding:
    """A space bound to the data and the model of a run, and counts of the data."""

    bound: BoundSpace
    people: Any = None
    """The data as individuals, or None."""
    clipped: int = 0
    """Rows with a value outside the bounds, moved to the nearest bound."""
    dropped: int = 0
    """Rows left out: outside the space, or without a text."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Other counts of the data, by name."""
    untestable: int = 0
    """Rows known to have no counterpart, which are also left out."""
    positions: npt.NDArray[np.int64] | None = None
    """The row of each individual in the user's data (None: all rows, in order)."""


@runtime_checkable
class AnySpace(Protocol):
    """The valid inputs of a model, and the parts that must not matter."""

    noun: str
    """The noun for one input: "individual", "text"."""
    input: str
    """The kind of inputs: "text", or "rows" for frames and arrays."""
    default_strategy: str
    """The default search, as ``eh.audit`` takes it."""
    protected: tuple[str, ...]
    """The names of the protected attributes or lexicons."""

    @property
    def sampled(self) -> bool:
        """Whether individuals are compared with a sample of their counterparts, ``max_family_size`` of them."""

    @property
    def space(self) -> Any:
        """The space itself; stored findings can be queried again without data."""

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work: "attributes", "texts", or one of its own."""

    def bind(self, data: Any, model: Any) -> Binding:
        """Bind the space to the data and the model of a run."""

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> Any:
        """Build the model's inputs: a frame, an array, or a list of texts."""

    def findings(self) -> Findings:
        """Return an empty table of findings."""

    def describe(self) -> dict[str, Any]:
        """Return everything that defines this space, in plain values; ``kind`` names the kind of space."""


def space_digest(space: AnySpace) -> str:
    """Identify a space without its word vectors: equal spaces have equal digests."""
    return hashlib.sha256(json.dumps(space.describe(), sort_keys=True, default=repr).encode()).hexdigest()


def check_space(space: Any) -> None:
    """Raise unless an object is a space."""
    if not isinstance(space, AnySpace):
        remedy = "eh.Space.infer(frame, ...) makes one"
        raise SpaceError("must be an eh.Space", parameter="space", value=type(space).__name__, remedy=remedy)


def require(space: Any, feature: str, call: str = "this", instead: str = "use eh.audit") -> None:
    """Raise if a space does not support what a call needs."""
    check_space(space)
    if not space.supports(feature):
        problem = f"{call} is for {feature}, but this is a space of {space.noun}s"
        raise SpaceError(problem, value=space.noun, remedy=instead)


def table(bound: Any) -> Space:
    """Return a bound space as a space of attributes; raise if it is of another kind."""
    space: Space = bound
    if not bound.supports("attributes"):
        raise StrategyError(
            f"this needs a space of attributes, but this is a space of {bound.space.noun}s",
            remedy=("use another search, such as ", search(bound.space.default_strategy)),
        )
    return space
