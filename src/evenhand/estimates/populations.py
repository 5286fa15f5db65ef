"""Who is measured: populations of a space or of data, drawn by number, independently of what is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from evenhand._format import count
from evenhand._rng import Stream
from evenhand._stats import Numbers
from evenhand._validate import check_bool, check_choice, check_int
from evenhand.criteria import Criterion, Pairwise
from evenhand.errors import BudgetError, DataError, EstimateError, Use
from evenhand.spaces.base import AnySpace, BoundSpace, table
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.neighbours import step
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.estimates.estimate import Plan


About = Literal["population", "rows"]
SMALL = 1_000_000
"""Tests up to which a space is gone through completely."""
SMALL_ROWS = 2 * SMALL
"""Rows up to which it is, unless exact=True asks for it."""


@dataclass(frozen=True)
class Uniform:
    """Valid individuals, each as likely as any other.

    Parameters
    ----------
    exact
        Whether to ask everyone in the space; by default where it has at most a million tests, two million rows and no
        more tests than ``samples``.
    """

    exact: bool | None = None
    name: ClassVar[str] = "uniform"
    frame: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.exact is not None:
            check_bool("exact", self.exact, EstimateError, remedy="or leave it out")


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of data, or its texts that have a protected term, as they are.

    Parameters
    ----------
    frame
        The rows or texts; by default the ``data`` of the call.
    weights
        What each row counts: numbers, or the name of a column.
    about
        The interval is for the ``"population"`` that the rows are a random sample of (the default), or for the
        ``"rows"`` themselves.
    """

    frame: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)
    about: About | None = None
    name: ClassVar[str] = "data"

    def __post_init__(self) -> None:
        if self.about is not None:
            check_choice("about", self.about, get_args(About), EstimateError)


@dataclass(frozen=True, eq=False)
class Near:
    """Rows of data that have moved a few steps, each on a drawn free attribute.

    Parameters
    ----------
    frame
        The rows; by default the ``data`` of the call.
    steps
        How many steps they move.
    weights
        What each row counts: numbers, or the name of a column.
    """

    frame: Any = field(default=None, repr=False)
    steps: int = 3
    weights: Any = field(default=None, repr=False)
    name: ClassVar[str] = "near"

    def __post_init__(self) -> None:
        check_int("steps", self.steps, BudgetError, 1)


Population = Uniform | Data | Near


def named(
    name: Any, frame: Any = None, *, weights: Any = None, about: Any = None, steps: Any = None, exact: Any = None
) -> Population:
    """Make a population by its name; ``steps`` of others than "near" are not looked at.

    >>> named("near", [[1, 2]], steps=2)
    Near(steps=2)
    """
    check_choice("population", name, ("uniform", "data", "near"), EstimateError, remedy="or give one of eh.populations")
    near = Near(frame, Near.steps if steps is None else steps, weights)
    if about is not None and name != "data":
        raise EstimateError(f'is for population="data"; leave it out for {name!r}', parameter="about", value=about)
    if exact and name != "uniform":
        raise EstimateError(
            f'is for population="uniform", not {name!r}',
            parameter="exact",
            value=exact,
            remedy="leave it out; of data all rows are asked anyway",
        )
    if name == "data":
        return Data(frame, weights, about)
    if name == "near":
        return near
    if weights is not None:
        other = Use('population="data"', "estimate.population", "data")
        raise DataError("weights belong to data rows", remedy=("choose ", other, ', or "near", or leave them out'))
    return Uniform(exact)


class Draws(Protocol):
    """Individuals, dealt by number: the same numbers, the same individuals."""

    @property
    def size(self) -> int | None:
        """How many there are to ask, where no individual comes twice; None where draws are independent."""
        ...

    def take(self, start: int, n: int) -> tuple[Any, int]:
        """Return up to ``n`` individuals and the counter after them; fewer when there are no more."""
        ...


@dataclass(frozen=True)
class UniformDraws:
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
class EachRow:
    """The user's rows or texts, each once, in a drawn order."""

    people: Any
    stream: Stream

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.people)

    def take(self, start: int, n: int) -> tuple[Any, int]:
        """Return the next rows."""
        end = min(start + n, self.size)
        return self.people[self.positions(start, end)], end

    def positions(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Say where the rows of these numbers stand among the people."""
        return self.stream.shuffled(np.arange(start, end), self.size, "rows")


@dataclass(frozen=True)
class RowDraws:
    """The user's rows or texts, drawn independently: all equally likely, or as likely as they weigh."""

    people: Any
    stream: Stream
    weights: Numbers | None = None
    size: None = None

    def take(self, start: int, n: int) -> tuple[Any, int]:
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
class NearDraws:
    """Drawn rows that have moved a few steps.

    A step goes to the next value down or up, of a nominal attribute to any other value. One that would leave the domain
    or break a constraint is not made.
    """

    rows: RowDraws
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


@dataclass(frozen=True)
class Aim:
    """What the share is of: the weights of all rows in their order, and whether the rows themselves are meant."""

    weights: Numbers | None = None
    rows: bool = False


@dataclass(frozen=True)
class Target:
    """Who is measured, and what is known of the data."""

    ground: BoundSpace
    population: Draws
    aim: Aim
    counts: dict[str, int]


def singly(space: Space, criterion: Criterion) -> bool:
    """Whether a family depends on whose it is, so that every individual has to be judged by itself."""
    return bool(space.links) or not isinstance(criterion, Pairwise)


def target_of(plan: Plan, space: AnySpace, criterion: Criterion, seed: int, chunk: int) -> Target:
    """Make the population that a plan wants of the space and the data."""
    # A stream of its own: the sample must not be that of a search with the same seed.
    stream = Stream(int(Stream(seed).bits("estimate", 0, 0)[0] >> np.uint64(1)))
    wanted = plan.population
    if isinstance(wanted, Uniform):
        attributes = table(space)
        if _asks_everyone(plan, wanted.exact, attributes, criterion, chunk):
            return Target(attributes, Everyone(attributes, stream, singly(attributes, criterion)), Aim(), {})
        return Target(attributes, UniformDraws(attributes, stream), Aim(), {})
    bound = space.bind(wanted.frame, None)
    ground, people, positions = bound.ground, bound.people, bound.positions
    rows = len(people) + bound.dropped + bound.untestable
    able = _testable(ground, people, seed, chunk)
    alone = bound.untestable + len(people) - len(able)
    counts = {"rows": rows, "clipped": bound.clipped, "dropped": bound.dropped, "untestable": alone}
    positions, people = able if positions is None else positions[able], people[able]
    if not len(people):
        raise DataError(
            f"none of the {rows:,} rows of the data can be judged: {bound.dropped:,} are outside the space, "
            f"{alone:,} have no valid counterpart; give rows of the space, or widen it"
        )
    numbers = None
    if wanted.weights is not None:
        numbers = check_weights(wanted.weights, wanted.frame, positions, rows)
        heavy = np.flatnonzero(numbers)
        people, numbers = people[heavy], numbers[heavy]
    if isinstance(wanted, Near):
        return Target(ground, NearDraws(RowDraws(people, stream, numbers), wanted.steps), Aim(), counts)
    every, about_rows = EachRow(people, stream), wanted.about == "rows"
    if numbers is None:
        return Target(ground, every, Aim(None, about_rows), counts)
    method = plan.interval.method
    if not plan.open and (plan.samples is None or plan.samples >= len(people)) and method != "anytime":
        if method == "clopper-pearson":
            raise EstimateError(
                "'clopper-pearson' is for rows that count alike; leave interval out to get Fay and Feuer's, which is "
                'for weights, or choose "anytime" to draw rows by weight'
            )
        return Target(ground, every, Aim(numbers[every.positions(0, len(people))], about_rows), counts)
    if wanted.about == "population":
        raise DataError(
            'must be "rows" where weighted rows are sampled',
            parameter="about",
            value="population",
            remedy="or leave out samples, half_width, seconds and interval to ask every row",
        )
    return Target(ground, RowDraws(people, stream, numbers), Aim(None, True), counts)


def _asks_everyone(plan: Plan, exact: bool | None, space: Space, criterion: Criterion, chunk: int) -> bool:
    """Whether everyone in the space is asked: it is small, or no larger than the sample would be."""
    tests = space.coding.total if singly(space, criterion) else space.tests
    if exact is False:
        return False
    if space.sampled or not space.coding.fits or tests > SMALL:
        if exact and space.sampled:
            raise EstimateError(
                f"exact=True compares everyone with all of their counterparts, but {count(space.combinations)} are "
                f"more than the space's limit of {space.max_family_size:,}; raise limit, or protect fewer attributes"
            )
        if exact:
            raise EstimateError(
                f"exact=True is for spaces of up to {SMALL:,} tests, this one has {count(tests)}; leave it out to "
                "sample"
            )
        return False
    if exact:
        return True
    if plan.interval.method is not None:
        # Who names an interval wants to see one.
        return False
    limits: list[float] = [SMALL if plan.samples is None else plan.samples]
    if plan.stop.half_width is not None:
        limits.append(SMALL if plan.stop.half_width < 1e-3 else plan.stop.half_width**-2)
    if plan.stop.seconds is not None:
        # The clock is first looked at after one model call.
        limits.append(chunk // space.combinations)
    return tests <= min(limits) and tests * space.combinations <= SMALL_ROWS


def _testable(ground: BoundSpace, people: Any, seed: int, chunk: int) -> npt.NDArray[np.int64]:
    """Find the individuals that have a counterpart."""
    if not ground.constraints:
        return np.arange(len(people))
    size = max(1, chunk // ground.width)
    parts = [ground.families(people[i : i + size], seed).places for i in range(0, len(people), size)]
    return np.flatnonzero(np.concatenate([np.zeros(0), *parts]) >= 2)
