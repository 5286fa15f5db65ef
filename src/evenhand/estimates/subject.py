"""Whom to ask: the population that a plan wants, made of the space and the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.criteria import Criterion
from evenhand.errors import DataError, EstimateError
from evenhand.estimates.bounds import Aim
from evenhand.estimates.plan import Plan, singly
from evenhand.estimates.populations import Drawn, Everyone, Near, Population, Rows, Uniform, check_weights
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space


@dataclass
class SurveyTarget:
    """Whom to ask, and what is known of the data."""

    population: Population
    aim: Aim
    counts: dict[str, int]


def subject_of(
    plan: Plan, space: Space, criterion: Criterion, data: Any, weights: Any, seed: int, chunk: int
) -> SurveyTarget:
    """Make the population."""
    # A stream of its own: the sample must not be that of a search with the same seed.
    stream = Stream(int(Stream(seed).bits("estimate", 0, 0)[0] >> np.uint64(1)))
    if plan.population == "uniform":
        if plan.enumerates(space, criterion, chunk):
            return SurveyTarget(Everyone(space, stream, singly(space, criterion)), Aim(), {})
        return SurveyTarget(Uniform(space, stream), Aim(), {})
    return _of_data(plan, space, data, weights, stream, seed, chunk)


def _of_data(plan: Plan, space: Space, data: Any, weights: Any, stream: Stream, seed: int, chunk: int) -> SurveyTarget:
    encoded = space.encode(data)
    rows = len(encoded.individuals) + encoded.dropped
    able = _testable(space, encoded.individuals, seed, chunk)
    people, positions = encoded.individuals[able], encoded.positions[able]
    counts = {
        "rows": rows,
        "clipped": encoded.clipped,
        "dropped": encoded.dropped,
        "untestable": len(encoded.individuals) - len(able),
    }
    if not len(people):
        raise DataError(
            f"none of the {rows:,} rows of the data can be judged: {encoded.dropped:,} are outside the space, "
            f"{counts['untestable']:,} have no valid counterpart; give rows of the space, or widen it"
        )
    numbers = None
    if weights is not None:
        numbers = check_weights(weights, data, positions, rows)
        heavy = np.flatnonzero(numbers)
        people, numbers = people[heavy], numbers[heavy]
    if plan.population == "near":
        return SurveyTarget(Near(Drawn(people, stream, numbers), plan.steps), Aim(), counts)
    if numbers is None:
        return SurveyTarget(Rows(people, stream), Aim(None, plan.about == "rows"), counts)
    if not plan.open and (plan.samples is None or plan.samples >= len(people)) and plan.interval != "anytime":
        if plan.interval == "clopper-pearson":
            raise EstimateError(
                "'clopper-pearson' is for rows that count alike; leave interval out to get Fay and Feuer's, which is "
                'for weights, or choose "anytime" to draw rows by weight'
            )
        every = Rows(people, stream)
        order = every.positions(0, len(people))
        return SurveyTarget(every, Aim(numbers[order], plan.about == "rows"), counts)
    if plan.about == "population":
        raise DataError(
            'must be "rows" where weighted rows are sampled',
            parameter="about",
            value="population",
            remedy="or leave out samples, half_width, seconds and interval to ask every row",
        )
    return SurveyTarget(Drawn(people, stream, numbers), Aim(None, True), counts)


def _testable(space: Space, people: Individuals, seed: int, chunk: int) -> npt.NDArray[np.int64]:
    """Find the rows that have a counterpart."""
    if not space.constraints:
        return np.arange(len(people))
    size = max(1, chunk // space.width)
    parts = [space.families(people[i : i + size], seed).places for i in range(0, len(people), size)]
    return np.flatnonzero(np.concatenate([np.zeros(0), *parts]) >= 2)
