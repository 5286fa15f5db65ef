"""Group figures beside the individual ones: selection rates, impact ratios and accuracy of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.asker import Asker
from evenhand.budget import number
from evenhand.check import same
from evenhand.criterion import Flip, Gap
from evenhand.errors import DataError, EstimateError, FlakyModel
from evenhand.measuring.banding import bandings
from evenhand.measuring.deciding import Truth, decided
from evenhand.measuring.favour import Favour
from evenhand.measuring.group_rates import Group, rates
from evenhand.measuring.judging import TWICE
from evenhand.measuring.populations import check_weights
from evenhand.measuring.result import plain
from evenhand.measuring.words import level, listed, percent
from evenhand.model import wrap
from evenhand.run import CHUNK, check_arguments
from evenhand.space.individuals import Individuals
from evenhand.space.tabular import Space
from evenhand.starting import check_space

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass
class Groups:
    """Group figures of a model on data. Not made by hand."""

    groups: tuple[Group, ...]
    favourable: Any
    confidence: float
    rows: int
    counts: dict[str, int]
    model: str
    smallest: float
    basis: str = field(default="selection rate")

    @property
    def frame(self) -> pd.DataFrame:
        """One row a group."""
        import pandas as pd

        return pd.DataFrame([{**asdict(group), "values": listed(group.values)} for group in self.groups])

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            name: plain(value) for name, value in (vars(self) | {"groups": [asdict(g) for g in self.groups]}).items()
        }

    def __repr__(self) -> str:
        of = f"{self.basis} of {plain(self.favourable)!r} among {self.rows:,} rows"
        head = f"Groups: {of}, with {level(self.confidence)} intervals"
        return "\n".join([head, *(f"  {_said(group, self.smallest)}" for group in self.groups)])

    def plot_intervals(self) -> Figure:
        """Draw impact ratios with their intervals."""
        from evenhand.measuring.plots import group_intervals

        return group_intervals(self)


def groups(
    model: Any,
    space: Space,
    data: Any,
    favourable: Any,
    *,
    y: Any = None,
    weights: Any = None,
    bands: Mapping[str, Sequence[float]] | None = None,
    confidence: float = 0.95,
    smallest: float = 0.02,
    chunk: int = CHUNK,
    timeout: float | None = None,
) -> Groups:
    """Give selection rates, impact ratios and accuracy of each group of the data and of their intersections.

    These compare different people, each as they are; ``estimate`` compares people with themselves. Rates come from
    fairlearn (the extra ``fairness``), intervals are exact.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes.
    space
        Says which attributes are protected.
    data
        Rows with the space's columns.
    favourable
        The decision that people want. Of numbers ``"higher"`` or ``"lower"``: selected is who is beyond the median.
    y
        The true decisions, or the name of their column, for accuracy; rows where it is missing are left out of that.
    weights
        What each row counts: numbers, or the name of a column.
    bands
        Where to cut attributes with many values: ``{"age": [25, 40, 65]}``; by default at quartiles of the data.
    confidence
        Of each interval by itself. Verdicts hold for all groups at once.
    smallest
        Groups with a smaller share of the data get no impact ratio and are nobody's yardstick.
    chunk
        The most rows of one model call.
    timeout
        Seconds after which one model call is given up.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected=["sex"])
    >>> rows = {"age": [1, 2, 3, 4, 5, 6] * 50, "sex": ["F", "M", "M"] * 100}
    >>> figures = eh.groups(lambda frame: frame["age"] > 2, space, rows, favourable=True)
    >>> [(group.values["sex"], group.rate, group.impact_ratio) for group in figures.groups]
    [('F', 0.5, 0.6666666666666666), ('M', 0.75, 1.0)]
    """
    check_space(space)
    check_arguments(0, chunk, None, None, timeout, None)
    numbers_given = number(confidence) and number(smallest)
    if not numbers_given or not 0.5 < confidence < 1 or not 0 <= smallest < 1:
        raise EstimateError(
            f"confidence must be above 0.5 and below 1, smallest from 0 to below 1; got {confidence!r} and {smallest!r}"
        )
    if favourable is None:
        raise EstimateError("group figures need favourable=, the decision that people want")
    wrapped = wrap(model)
    asker = Asker(wrapped, space, Gap(0.0) if wrapped.regression else Flip(), timeout)
    favour = Favour(wrapped, favourable)
    encoded = space.encode(data)
    people, total = encoded.individuals, len(encoded.individuals) + encoded.dropped
    if not len(people):
        raise DataError(f"none of the {total:,} rows of the data is in the space; give rows of the space, or widen it")
    positions, numbers = encoded.positions, None
    if weights is not None:
        numbers = check_weights(weights, data, positions, total)
        heavy = np.flatnonzero(numbers)
        people, positions, numbers = people[heavy], positions[heavy], numbers[heavy]
    truth = None if y is None else Truth(y, data, positions, total)
    _check_steady(asker, people)
    known = decided(asker, favour, people.rows, chunk, numbers, truth)
    made = rates(bandings(space, people.rows, bands or {}), known, confidence, smallest)
    counts = {"rows": total, "clipped": encoded.clipped, "dropped": encoded.dropped}
    if known.truth is not None:
        counts["unknown"] = int((~known.told).sum())
    basis = "scoring rate (beyond the median)" if wrapped.regression else "selection rate"
    return Groups(tuple(made), favourable, confidence, len(people), counts, wrapped.name, smallest, basis)


def _check_steady(asker: Asker, people: Individuals) -> None:
    rows = people.rows[:TWICE]
    first, again = (asker.scores(rows) if asker.model.regression else asker.labels(rows) for _ in range(2))
    waver = int((~same(first, again)).sum())
    if waver:
        raise FlakyModel(
            f"the model gave two answers to {waver:,} of {first.size:,} rows that were asked twice; switch off what is "
            "random in it (dropout, sampling, temperature), or average its answers",
            waver / first.size,
        )


def _said(group: Group, smallest: float) -> str:
    who = listed(group.values)
    if group.rate is None or group.low is None or group.high is None:
        return f"{who}: nobody in the data"
    text = f"{who}: {percent(group.rate)} of {group.rows:,} ({percent(group.low)} to {percent(group.high)})"
    if group.impact_ratio is None:
        few = group.share < smallest
        text += ", too few for an impact ratio" if few else ", no impact ratio because nobody is selected"
    else:
        ends = f"{group.impact_low:.2f} to {group.impact_high:.2f}"
        text += f", impact ratio {group.impact_ratio:.2f} ({ends}), {group.verdict}"
    if group.accuracy is not None and group.accuracy_low is not None and group.accuracy_high is not None:
        text += (
            f"; accuracy {percent(group.accuracy)} ({percent(group.accuracy_low)} to {percent(group.accuracy_high)})"
        )
    return text
