"""What an estimate is asked for: its arguments, checked, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from evenhand._format import count
from evenhand._validate import is_int, is_number
from evenhand.criteria import Pairwise
from evenhand.errors import DATA, BudgetError, DataError, EstimateError, Use
from evenhand.spaces.tabular import Space

Whom = Literal["uniform", "data", "near"]
About = Literal["population", "rows"]
Method = Literal["clopper-pearson", "anytime", "lln"]
DEFAULT_SAMPLES = 100_000
SMALL = 1_000_000
"""Tests up to which a space is gone through completely."""
SMALL_ROWS = 2 * SMALL
"""Rows up to which it is, unless exact=True asks for it."""


@dataclass(frozen=True)
class Plan:
    """The arguments of an estimate that say whom to ask, when to stop and how sure to be."""

    population: Whom = "uniform"
    about: About | None = None
    interval: Method | None = None
    confidence: float = 0.95
    samples: int | None = None
    half_width: float | None = None
    seconds: float | None = None
    exact: bool | None = None
    experiments: int = 400
    steps: int = 3
    tolerance: float = 0.01
    repeats: int | None = None

    def __post_init__(self) -> None:
        for name, kinds in (("population", Whom), ("about", About), ("interval", Method)):
            value, allowed = getattr(self, name), get_args(kinds)
            named = isinstance(value, str) and value in allowed
            if not named and (value is not None or name == "population"):
                raise EstimateError(f"must be one of {', '.join(map(repr, allowed))}", parameter=name, value=value)
        self._check_numbers()
        if self.half_width is not None and self.interval not in (None, "anytime"):
            raise EstimateError(
                "must be 'anytime' where half_width stops by what the sample shows",
                parameter="interval",
                value=self.interval,
                remedy="leave it out, or fix the number of samples instead",
            )
        if self.about is not None and self.population != "data":
            raise EstimateError(
                f'is for population="data"; leave it out for {self.population!r}', parameter="about", value=self.about
            )
        if self.exact:
            self._check_exact()
        if self.interval == "lln":
            self._check_lln()

    def _check_numbers(self) -> None:
        for name, least in (("samples", 1), ("experiments", 2), ("steps", 1), ("repeats", 1)):
            value = getattr(self, name)
            if value is not None and (not is_int(value) or value < least):
                raise BudgetError(f"must be a whole number of at least {least}", parameter=name, value=value)
        if self.repeats is not None and self.repeats > 1 and self.repeats % 2:
            raise BudgetError("must be 1 or even, to be split in two halves", parameter="repeats", value=self.repeats)
        if self.exact is not None and not isinstance(self.exact, bool | np.bool_):
            raise EstimateError("must be True, False or None", parameter="exact", value=self.exact)
        if self.seconds is not None and not (is_number(self.seconds) and self.seconds > 0):
            raise BudgetError("must be a number above 0", parameter="seconds", value=self.seconds)
        if self.half_width is not None and not (is_number(self.half_width) and 0 < self.half_width < 0.5):
            raise BudgetError(
                "must be a share above 0 and below 0.5, such as 0.01", parameter="half_width", value=self.half_width
            )
        if not is_number(self.confidence) or not 0.5 < self.confidence < 1:
            raise EstimateError(
                "must be above 0.5 and below 1, such as 0.95", parameter="confidence", value=self.confidence
            )
        if not is_number(self.tolerance) or not 0 <= self.tolerance < 1:
            raise EstimateError(
                "must be a share from 0 to below 1, such as 0.01", parameter="tolerance", value=self.tolerance
            )

    def _check_exact(self) -> None:
        if self.population != "uniform":
            raise EstimateError(
                f'is for population="uniform", not {self.population!r}',
                parameter="exact",
                value=self.exact,
                remedy="leave it out; of data all rows are asked anyway",
            )
        for name in ("samples", "half_width", "seconds", "interval"):
            if getattr(self, name) is not None:
                raise EstimateError(
                    "ends nothing where exact=True asks everyone",
                    parameter=name,
                    value=getattr(self, name),
                    remedy="leave one of the two out",
                )

    def _check_lln(self) -> None:
        if self.seconds is not None or self.population == "data":
            raise EstimateError(
                "'lln' is for a fixed number of independent draws; leave out seconds, and take population 'uniform' "
                "or 'near'"
            )
        if self.wanted % self.experiments:
            nearest = max(1, round(self.wanted / self.experiments)) * self.experiments
            raise EstimateError(
                f"'lln' makes {self.experiments:,} experiments of one size, and {self.wanted:,} samples cannot be "
                f"shared out; give samples={nearest} or another number of experiments"
            )

    @property
    def wanted(self) -> int:
        """How many samples are taken where nothing else ends it; all rows, for data, is up to the population."""
        return DEFAULT_SAMPLES if self.samples is None else self.samples

    @property
    def open(self) -> bool:
        """Whether something else than a number of samples ends it."""
        return self.half_width is not None or self.seconds is not None

    @property
    def watched(self) -> bool:
        """Whether the interval must hold at every moment: the sample ends by what it shows, or by the clock."""
        return self.interval == "anytime" or (self.interval is None and self.open)

    def enumerates(self, space: Space, criterion: Any, chunk: int) -> bool:
        """Whether everyone in the space is asked: it is small, or no larger than the sample would be."""
        tests = space.coding.total if singly(space, criterion) else space.tests
        if self.population != "uniform" or self.exact is False:
            return False
        if space.combinations > space.max_family_size or not space.coding.fits or tests > SMALL:
            if self.exact:
                raise EstimateError(_too_large(space, tests))
            return False
        if self.exact:
            return True
        if self.interval is not None:
            # Who names an interval wants to see one.
            return False
        limits: list[float] = [SMALL if self.samples is None else self.samples]
        if self.half_width is not None:
            limits.append(SMALL if self.half_width < 1e-3 else self.half_width**-2)
        if self.seconds is not None:
            # The clock is first looked at after one model call.
            limits.append(chunk // space.combinations)
        return tests <= min(limits) and tests * space.combinations <= SMALL_ROWS


def singly(space: Space, criterion: Any) -> bool:
    """Whether a family depends on whose it is, so that every individual has to be judged by itself."""
    return bool(space.links) or not isinstance(criterion, Pairwise)


def check_data(plan: Plan, data: Any, weights: Any) -> None:
    """Raise where a population needs rows and has none, or has what it does not look at."""
    if plan.population == "uniform":
        if weights is not None:
            raise DataError(
                "weights belong to data rows",
                remedy=(
                    "choose ",
                    Use('population="data"', "estimate.population", "data"),
                    ', or "near", or leave them out',
                ),
            )
    elif data is None:
        raise DataError(
            f"needs rows with the space's columns for population={plan.population!r}",
            parameter="data",
            remedy=("give ", DATA),
        )


def _too_large(space: Space, tests: int) -> str:
    if space.combinations > space.max_family_size:
        return (
            f"exact=True compares everyone with all of their counterparts, but {count(space.combinations)} are more "
            f"than the space's limit of {space.max_family_size:,}; raise limit, or protect fewer attributes"
        )
    return f"exact=True is for spaces of up to {SMALL:,} tests, this one has {count(tests)}; leave it out to sample"
