"""Populations: which individuals an estimate is about. They are drawn by number, independently of the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from evenhand._format import count
from evenhand._intervals import Numbers
from evenhand._rng import Stream
from evenhand._validate import check_bool, check_choice, check_int
from evenhand.criteria import Criterion, Pairwise
from evenhand.errors import BudgetError, DataError, EstimateError, Use
from evenhand.search import EachRow, Numbered, UniformDraws, independent
from evenhand.spaces.base import AnySpace, BoundSpace, table
from evenhand.spaces.frames import columns_of
from evenhand.spaces.individuals import Individuals, step
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.estimates.estimate import Plan
    from evenhand.runs.run import Run, RunEstimate


About = Literal["population", "rows"]
SMALL = 1_000_000
"""Maximum number of tests of a space that is tested completely by default."""
SMALL_ROWS = 2 * SMALL
"""Maximum number of their rows, unless exact=True."""
LISTED = 20
"""Columns that an error lists."""


@dataclass(frozen=True)
class Uniform:
    """Valid individuals, all equally likely.

    Parameters
    ----------
    exact
        Whether to test all individuals of the space; by default if it has at most a million tests, two million rows and
        no more tests than ``samples``.
    """

    exact: bool | None = None
    name: ClassVar[str] = "uniform"
    frame: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.exact is not None:
            check_bool("exact", self.exact, EstimateError, remedy="or leave it out")


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of data as they are, or its texts that have a protected term.

    Parameters
    ----------
    frame
        The rows or texts; by default the ``data`` of the call.
    weights
        The weight of each row: numbers, or the name of a column.
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
    """Individuals near the data: rows after a few steps, each on a random free attribute.

    Parameters
    ----------
    frame
        The rows; by default the ``data`` of the call.
    steps
        Number of steps.
    weights
        The weight of each row: numbers, or the name of a column.
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
    """Make a population by its name; ``steps`` is used for "near" only."""
    check_choice("population", name, ("uniform", "data", "near"), EstimateError, remedy="or give one of eh.populations")
    near = Near(frame, Near.steps if steps is None else steps, weights)
    if about is not None and name != "data":
        raise EstimateError(f'is for population="data"; leave it out for {name!r}', parameter="about", value=about)
    if exact and name != "uniform":
        raise EstimateError(
            f'is for population="uniform", not {name!r}',
            parameter="exact",
            value=exact,
            remedy="leave it out; all rows of the data are judged anyway",
        )
    if name == "data":
        return Data(frame, weights, about)
    if name == "near":
        return near
    if weights is not None:
        other = Use('population="data"', "estimate.population", "data")
        raise DataError("weights belong to data rows", remedy=("choose ", other, ', or "near", or leave them out'))
    return Uniform(exact)


@dataclass(frozen=True)
class Everyone:
    """Every test of a small space once, in random order; with ``singly``, every individual.

    A test is represented by its first individual, valid or not, because its family contains the others.
    """

    space: Space
    stream: Stream
    singly: bool = False

    @property
    def size(self) -> int:
        """Number of tests, or of individuals."""
        return self.space.coding.total if self.singly else self.space.tests

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Return the next ones."""
        end = min(start + n, self.size)
        numbers = self.stream.shuffled(np.arange(start, end), self.size, "everyone")
        ids = numbers if self.singly else numbers * self.space.combinations
        found = Individuals(self.space, ids=ids)
        return (found[self.space.valid(found.rows)] if self.singly else found), end


@dataclass(frozen=True)
class RowDraws:
    """The user's rows or texts, drawn independently, with equal or given weights."""

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
    """Random rows after a few steps.

    A step goes to the next value down or up; for a nominal attribute, to any other value. Steps that leave the domain
    or break a constraint are skipped.
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


def column_named(name: str, data: Any, parameter: str) -> Any:
    """Return a column of the data; raise if there is no such column."""
    columns = columns_of(data)
    if name not in columns:
        raise DataError(
            "must be numbers, or a column of the data" if parameter == "weights" else "must be a column of the data",
            parameter=parameter,
            value=name,
            remedy=f"the columns are {', '.join(map(str, list(columns)[:LISTED]))}",
        )
    return columns[name]


def numbers_of(weights: Any, data: Any, rows: int) -> Numbers:
    """Convert weights, or the name of a column of the data, into one number for each row."""
    if isinstance(weights, str):
        weights = column_named(weights, data, "weights")
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "must be numbers, one for each row of the data, or the name of a column", parameter="weights", value=weights
        ) from None
    if numbers.shape != (rows,):
        raise DataError(
            f"must be one number for each of the {rows:,} rows of the data, but has the shape {numbers.shape}",
            parameter="weights",
            value=weights,
        )
    return numbers


def check_weights(weights: Any, data: Any, positions: npt.NDArray[np.int64], rows: int) -> Numbers:
    """Convert weights, or the name of a column of the data, into one number for each remaining row."""
    kept = numbers_of(weights, data, rows)[positions]
    if not np.isfinite(kept).all() or (kept < 0).any() or not kept.any():
        raise DataError(
            "must be finite numbers of at least 0, not all of them 0",
            parameter="weights",
            remedy="correct or leave out such rows",
        )
    # Only proportions matter, so no sum or square becomes too large.
    return np.asarray(kept / kept.max(), dtype=np.float64)


@dataclass(frozen=True)
class Target:
    """The individuals to measure, and what the interval is for."""

    bound: BoundSpace
    population: Numbered
    counts: dict[str, int]
    """Rows of the data: all, clipped, dropped, untestable."""
    weights: Numbers | None = None
    """The weights of all rows in their order."""
    rows: bool = False
    """Whether the interval is for the rows themselves."""
    known: RunEstimate | None = None
    """The estimate of a run, if its draws are asked again; rate and interval are then those of the run."""


def singly(space: Space, criterion: Criterion) -> bool:
    """Whether verdicts differ within a family, so that every individual has to be judged by itself."""
    return bool(space.links) or not isinstance(criterion, Pairwise)


def target_of(plan: Plan, space: AnySpace, criterion: Criterion, seed: int, chunk: int) -> Target:
    """Make the population of a plan from the space and the data."""
    # A separate stream, because the sample must differ from that of a search with the same seed.
    stream = Stream(int(Stream(seed).bits("estimate", 0, 0)[0] >> np.uint64(1)))
    wanted = plan.population
    if isinstance(wanted, Uniform):
        attributes = table(space)
        if _asks_everyone(plan, wanted.exact, attributes, criterion, chunk):
            return Target(attributes, Everyone(attributes, stream, singly(attributes, criterion)), {})
        return Target(attributes, UniformDraws(attributes, stream), {})
    binding = space.bind(wanted.frame, None)
    bound, people, positions = binding.bound, binding.people, binding.positions
    rows = len(people) + binding.dropped + binding.untestable
    able = _testable(bound, people, seed, chunk)
    alone = binding.untestable + len(people) - len(able)
    counts = {"rows": rows, "clipped": binding.clipped, "dropped": binding.dropped, "untestable": alone}
    positions, people = able if positions is None else positions[able], people[able]
    if not len(people):
        raise DataError(
            f"must have rows that can be judged: of {rows:,}, {binding.dropped:,} are outside the space, and "
            f"{alone:,} have no valid counterpart",
            parameter="data",
            remedy="give rows of the space, or widen it",
        )
    weights = None
    if wanted.weights is not None:
        weights = check_weights(wanted.weights, wanted.frame, positions, rows)
        heavy = np.flatnonzero(weights)
        people, weights = people[heavy], weights[heavy]
    if isinstance(wanted, Near):
        return Target(bound, NearDraws(RowDraws(people, stream, weights), wanted.steps), counts)
    every, about_rows = EachRow(people, stream), wanted.about == "rows"
    if weights is None:
        return Target(bound, every, counts, rows=about_rows)
    method = plan.interval.method
    if not plan.open and (plan.samples is None or plan.samples >= len(people)) and method != "anytime":
        if method == "clopper-pearson":
            raise EstimateError(
                "must not be 'clopper-pearson' for rows with weights",
                parameter="interval",
                value=method,
                remedy='leave it out for the interval of Fay and Feuer, or choose "anytime" to draw rows by weight',
            )
        return Target(bound, every, counts, weights[every.positions(0, len(people))], about_rows)
    if wanted.about == "population":
        raise DataError(
            'must be "rows" where weighted rows are sampled',
            parameter="about",
            value="population",
            remedy="or leave out samples, half_width, seconds and interval to ask every row",
        )
    return Target(bound, RowDraws(people, stream, weights), counts, rows=True)


def target_of_run(run: Run, known: RunEstimate, data: Any) -> Target:
    """Return the individuals from which a run drew independently of its search, in the same order."""
    binding = run.space.bind(data, None)
    draws = independent(binding.bound, binding.people, Stream(run.identity.seed))[known.population]
    counts = dict[str, int]()
    if known.population == "data":
        rows = len(binding.people) + binding.dropped + binding.untestable
        counts = {"rows": rows, "clipped": binding.clipped, "dropped": binding.dropped}
        counts["untestable"] = binding.untestable
    return Target(binding.bound, draws, counts, known=known)


def _asks_everyone(plan: Plan, exact: bool | None, space: Space, criterion: Criterion, chunk: int) -> bool:
    """Whether to test all individuals: the space is small, and no larger than the sample would be."""
    tests = space.coding.total if singly(space, criterion) else space.tests
    if exact is False:
        return False
    if space.sampled or not space.coding.fits or tests > SMALL:
        if exact:
            why, remedy = f"is for spaces of up to {SMALL:,} tests, and this one has {count(tests)}", "leave it out"
            if space.sampled:
                why = (
                    f"compares all counterparts, but there are {count(space.combinations)}, more than max_family_size="
                    f"{space.max_family_size}"
                )
                remedy = "raise max_family_size of the space, or protect fewer attributes"
            raise EstimateError(why, parameter="exact", value=True, remedy=remedy)
        return False
    # A user who names an interval wants one.
    if exact or plan.interval.method is not None:
        return bool(exact)
    limits: list[float] = [SMALL if plan.samples is None else plan.samples]
    if plan.stop.half_width is not None:
        limits.append(SMALL if plan.stop.half_width < 1e-3 else plan.stop.half_width**-2)
    if plan.stop.seconds is not None:
        # The clock is first checked after one model call.
        limits.append(chunk // space.combinations)
    return tests <= min(limits) and tests * space.combinations <= SMALL_ROWS


def _testable(bound: BoundSpace, people: Any, seed: int, chunk: int) -> npt.NDArray[np.int64]:
    """Return the positions of the individuals that have a counterpart."""
    if not bound.constraints:
        return np.arange(len(people))
    size = max(1, chunk // bound.width)
    parts = [bound.families(people[i : i + size], seed).places for i in range(0, len(people), size)]
    return np.flatnonzero(np.concatenate([np.zeros(0), *parts]) >= 2)
