"""Selection rates and accuracy of each group, worked out by fairlearn, with exact intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import MissingExtra
from evenhand.estimates.banding import Banding
from evenhand.estimates.deciding import Decided
from evenhand.estimates.differences import Mean
from evenhand.estimates.impact import impact_ratios
from evenhand.estimates.intervals import Numbers, weighted

if TYPE_CHECKING:
    import pandas as pd

MOST_GROUPS = 64
"""The most intersections of several attributes that are listed."""


@dataclass(frozen=True)
class Group:
    """One group of the data, and how the model decides about it."""

    values: dict[str, Any]
    rows: int
    share: float
    """Of all rows, by weight."""
    selected: int
    rate: float | None = None
    """Selection rate: the share that gets the favourable decision; None where the data has nobody of the group."""
    low: float | None = None
    high: float | None = None
    impact_ratio: float | None = None
    """Selection rate over that of the most selected group of the same attributes; None where the group is too small."""
    impact_low: float | None = None
    """The interval of the impact ratio holds for all groups at once, and the verdict follows from it."""
    impact_high: float | None = None
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    mean: float | None = None
    """Of a model that returns numbers: what the group gets on average."""
    mean_low: float | None = None
    mean_high: float | None = None
    less: float | None = None
    """How much less that is than what the group of the same attributes with the highest mean gets."""
    less_low: float | None = None
    less_high: float | None = None
    verdict: str = "insufficient evidence"
    """Whether the interval of the impact ratio is "below four fifths" or "at least four fifths", or neither."""


def rates(cut: Sequence[Banding], known: Decided, confidence: float, smallest: float, wished: bool) -> list[Group]:
    """Make the groups of each attribute, then those of several attributes that have few enough of them.

    Ratios are for what people want: unless they ``wished`` for something there are none.
    """
    sizes = [len(band.names) for band in cut]
    every = [
        chosen
        for count in range(1, len(cut) + 1)
        for chosen in itertools.combinations(range(len(cut)), count)
        if count == 1 or math.prod(sizes[i] for i in chosen) <= MOST_GROUPS
    ]
    verdicts = sum(math.prod(sizes[i] for i in chosen) for chosen in every)
    out: list[Group] = []
    for chosen in every:
        part = [cut[i] for i in chosen]
        number = _numbers(part)
        made = _groups(part, number, known, confidence)
        members = [np.flatnonzero(number == i) for i in range(len(made))]
        if known.numbers is not None:
            made = _means(made, members, known, known.numbers, confidence)
        out += impact_ratios(made, members, known, confidence, smallest, verdicts) if wished else made
    return out


def _means(
    groups: list[Group],
    members: list[npt.NDArray[np.int64]],
    known: Decided,
    numbers: Numbers,
    confidence: float,
) -> list[Group]:
    """Add what each group gets on average, and how much less than the group that gets most."""
    found = [Mean.of(numbers[at], known.weight(at)) if len(at) else None for at in members]
    most = max((mean for mean in found if mean is not None), key=lambda mean: mean.value)
    out = []
    for group, mean in zip(groups, found, strict=True):
        if mean is None:
            out.append(group)
            continue
        less = None if mean is most else most.minus(mean, confidence)
        figures: dict[str, Any] = dict(zip(("mean", "mean_low", "mean_high"), mean.ends(confidence), strict=True))
        if less is not None:
            figures |= dict(zip(("less", "less_low", "less_high"), less, strict=True))
        out.append(replace(group, **figures))
    return out


def _numbers(cut: Sequence[Banding]) -> npt.NDArray[np.int64]:
    """Number each row's group."""
    number = np.zeros_like(cut[0].member)
    for band in cut:
        number = number * len(band.names) + band.member
    return number


def _groups(cut: Sequence[Banding], number: npt.NDArray[np.int64], known: Decided, confidence: float) -> list[Group]:
    figures, correct = _metrics(number, known), known.correct
    total = float(known.weight(np.arange(len(number))).sum())
    out: list[Group] = []
    for index, places in enumerate(itertools.product(*(range(len(band.names)) for band in cut))):
        values = {band.attribute: band.names[place] for band, place in zip(cut, places, strict=True)}
        here = np.flatnonzero(number == index)
        weight = known.weight(here)
        if not len(here):
            out.append(Group(values, 0, 0.0, 0))
            continue
        low, high = weighted(known.selected[here], weight, confidence)
        found: dict[str, Any] = {"rate": float(figures["rate"][index]), "low": float(low), "high": float(high)}
        told = np.zeros(0, dtype=np.int64) if correct is None else here[known.told[here]]
        if correct is not None and len(told):
            low, high = weighted(correct[told], known.weight(told), confidence)
            found["accuracy"] = float(figures["accuracy"][index])
            found |= {"accuracy_low": float(low), "accuracy_high": float(high)}
        share, selected = float(weight.sum() / total), int(known.selected[here].sum())
        out.append(Group(values, len(here), share, selected, **found))
    return out


def _metrics(number: npt.NDArray[np.int64], known: Decided) -> dict[str, pd.Series[float]]:
    """Let fairlearn work out the rates of each group that has anybody."""
    try:
        from fairlearn.metrics import MetricFrame, selection_rate
    except ImportError:
        raise MissingExtra("fairlearn", "fairness", "the comparison of groups") from None
    from sklearn.metrics import accuracy_score

    def by_group(metric: Any, truth: Any, said: Any, at: npt.NDArray[np.int64]) -> pd.Series[float]:
        given: dict[str, Any] = {"sensitive_features": {"group": number[at]}}
        if known.weights is not None:
            given["sample_params"] = {"sample_weight": known.weights[at]}
        made: pd.Series[float] = MetricFrame(metrics=metric, y_true=truth[at], y_pred=said[at], **given).by_group
        return made

    selected = known.selected.astype(np.int64)
    out = {"rate": by_group(selection_rate, selected, selected, np.arange(len(number)))}
    if known.said is not None:
        out["accuracy"] = by_group(accuracy_score, known.truth, known.said, np.flatnonzero(known.told))
    return out
