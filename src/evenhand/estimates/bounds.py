"""Which interval a survey gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.estimates.intervals import Numbers, at_most, clopper_pearson, hypergeometric, lln, weighted
from evenhand.estimates.plan import Plan
from evenhand.estimates.populations import Everyone
from evenhand.estimates.sequences import anytime, anytime_of_rows, spent
from evenhand.estimates.survey import Survey

UNFINISHED = "what is certain"
"""The interval of a count that did not come to its end: whoever was not asked may be treated either way."""


@dataclass(frozen=True)
class Bounds:
    """A survey's share and how sure it is."""

    rate: float
    low: float
    high: float
    name: str
    noise: float = 0.0
    """How many individuals the model's noise may have misjudged at most; both ends are that much further out."""


@dataclass(frozen=True)
class Aim:
    """What the share is of, beside the plan: the weights of all rows in their order, and whether rows are meant."""

    weights: Numbers | None = None
    rows: bool = False


def bounds(plan: Plan, aim: Aim, survey: Survey, watched: bool) -> Bounds:
    """Give the interval of a survey as far as it has come.

    Where the model wavers, half of the risk goes to the interval and half to the bound on how many were misjudged.
    """
    risk = 1 - plan.confidence
    noisy = survey.judge.half > 0
    confidence = 1 - risk / 2 if noisy else plan.confidence
    rate, low, high, name = _interval(plan, aim, survey, watched, confidence)
    if not noisy:
        return Bounds(rate, low, high, name)
    noise = _misjudged(aim, survey, watched, confidence)
    low, high = max(0.0, low - noise), min(1.0, high + noise)
    return Bounds(rate, low, high, name, noise)


def _misjudged(aim: Aim, survey: Survey, watched: bool, confidence: float) -> float:
    """Bound the share that noise may have misjudged."""
    if aim.weights is not None:
        unsure = np.concatenate(survey.doubts)
        risk = spent(1 - confidence, survey.looks) if watched else 1 - confidence
        return float(weighted(unsure, aim.weights[: len(unsure)], 1 - 2 * risk)[1])
    if watched:
        return float(anytime(survey.unsure, survey.samples, confidence)[1])
    return float(at_most(survey.unsure, survey.samples, confidence))


def _interval(
    plan: Plan, aim: Aim, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    found, samples, size = survey.found, survey.samples, survey.population.size
    rate = found / samples if samples else 0.0
    if isinstance(survey.population, Everyone):
        if survey.complete and survey.judge.left_out:
            # Of everyone some were not to be asked: the rest is a sample, and its tests are what is independent.
            low, high = clopper_pearson(rate * survey.families, survey.families, confidence)
            return rate, float(low), float(high), "Clopper-Pearson"
        if survey.complete:
            return rate, rate, rate, "exact"
        every = samples + survey.unasked
        return rate, found / every, (found + survey.unasked) / every, UNFINISHED
    if aim.weights is not None:
        return _of_weighted(aim, aim.weights, survey, watched, confidence)
    if aim.rows and size is not None:
        return of_counts(found, samples, size, watched, confidence)
    if plan.interval == "lln" and not watched:
        assert survey.verdicts is not None
        counts = np.concatenate(survey.verdicts).reshape(plan.experiments, -1)
        low, high = lln(counts.sum(axis=1), counts.shape[1], confidence)
        if low < high:
            return rate, min(rate, float(low)), max(rate, float(high)), "lln"
        # Experiments that all agree leave that interval without any width, and nothing would be certain by it.
    return of_counts(found, samples, None, watched, confidence)


def of_counts(
    found: int, samples: int, size: int | None, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    """Give share and interval of a count: for ``size`` rows of whom some were asked, or None: for a population.

    >>> of_counts(1, 4, 4, False, 0.95)
    (0.25, 0.25, 0.25, 'exact')
    """
    rate = found / samples if samples else 0.0
    if size is None:
        low, high = (anytime if watched else clopper_pearson)(found, samples, confidence)
        return rate, float(low), float(high), "anytime" if watched else "Clopper-Pearson"
    if samples == size:
        return rate, rate, rate, "exact"
    low, high = (anytime_of_rows if watched else hypergeometric)(found, samples, size, confidence)
    # Of few rows that are left the sample's own share may be none that all rows can have.
    rate = float(np.clip(rate, low, high))
    return rate, float(low), float(high), "anytime, rows asked once" if watched else "hypergeometric"


def _of_weighted(
    aim: Aim, every: Numbers, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    assert survey.verdicts is not None
    unfair = np.concatenate(survey.verdicts)
    weights, left = every[: len(unfair)], every[len(unfair) :]
    rate = float(weights[unfair].sum() / weights.sum()) if weights.any() else 0.0
    if aim.rows:
        if not len(left):
            return rate, rate, rate, "exact"
        sure, total = float(weights[unfair].sum()), float(every.sum())
        return rate, sure / total, min(1.0, (sure + float(left.sum())) / total), UNFINISHED
    if not watched:
        low, high = weighted(unfair, weights, confidence)
        return rate, float(low), float(high), "Fay-Feuer"
    low, high = weighted(unfair, weights, 1 - spent(1 - confidence, survey.looks))
    return rate, float(low), float(high), "Fay-Feuer at every look"
