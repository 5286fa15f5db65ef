"""Group figures beside the individual ones: selection rates, impact ratios and accuracy of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand._format import estimated, level, number, number_interval, to_plain
from evenhand._validate import is_number
from evenhand.criteria import Flip, Gap
from evenhand.engine.judge import CHUNK
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import Steadiness, noisy
from evenhand.errors import AMOUNTS, DataError, EstimateError, ModelError
from evenhand.estimates.banding import bandings
from evenhand.estimates.deciding import Truth, decided, own_numbers
from evenhand.estimates.favour import LOWER, Favour, Order, wish, wish_json
from evenhand.estimates.group_rates import Group, rates
from evenhand.estimates.intervals import Numbers
from evenhand.estimates.populations import check_weights
from evenhand.estimates.words import listed
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.runs.run import check_arguments
from evenhand.spaces.base import require
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

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
    """Rows of the data; those of them left out; those that the model was asked about with other numbers; where the
    true decisions are given, those of which none is known."""
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
        return {name: to_plain(value) for name, value in vars(self).items() if name not in ("groups", "favourable")} | {
            "favourable": wish_json(self.favourable),
            "groups": to_plain([asdict(g) for g in self.groups]),
        }

    @property
    def note(self) -> str:
        """Say which rows the figures are of, and what that means for accuracy."""
        rows, moved, dropped = f"{self.rows:,} rows", self.counts["moved"], self.counts["dropped"]
        which = f"{rows}, as given"
        if moved:
            which = (
                f"{rows}, {moved:,} of them moved to the nearest values of the space: the model fails on them as given"
            )
        which += f"; {dropped:,} rows outside the space left out" if dropped else ""
        if any(group.accuracy is not None for group in self.groups):
            which += "; accuracy is on these rows, so if the model was trained on them, it is overstated"
        return which

    def __repr__(self) -> str:
        head = f"Groups: {self.basis} among {self.note}; intervals of {level(self.confidence)}"
        wished = self.favourable is not None
        return "\n".join([head, *(f"  {_said(group, self.smallest, wished)}" for group in self.groups)])

    def plot_intervals(self) -> Figure:
        """Draw impact ratios with their intervals."""
        from evenhand.estimates.plots import group_intervals

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
    fairlearn (the extra ``fairness``), intervals are exact. The model is asked about the rows as given, also where a
    number is beyond the bounds of the space or between two of its steps; such a row belongs to the nearest group.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes.
    space
        Says which attributes are protected.
    data
        Rows with the space's columns.
    favourable
        The decision that people want, a list of such decisions, or ``eh.Order`` of all: selected is then who gets the
        best. Of numbers ``"higher"`` or ``"lower"``: selected is who is beyond the median; None: nobody is selected for
        anything, and there are no impact ratios.
    y
        The true decisions, or the name of their column, for accuracy; rows where it is missing are left out of that.
        On rows that the model was trained on, accuracy is overstated.
    weights
        What each row counts: numbers, or the name of a column.
    bands
        Where to cut attributes with many values: ``{"age": [25, 40, 65]}``; by default at quartiles of the data.
    confidence
        Of the intervals: those of rates, means and accuracy hold by themselves, those of impact ratios for all groups
        at once.
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
    require(space, "attributes")
    check_arguments(0, chunk, None, None, timeout, None)
    numbers_given = is_number(confidence) and is_number(smallest)
    if not numbers_given or not 0.5 < confidence < 1 or not 0 <= smallest < 1:
        raise EstimateError(
            f"confidence must be above 0.5 and below 1, smallest from 0 to below 1; got {confidence!r} and {smallest!r}"
        )
    wrapped = wrap(model)
    if favourable is None and not wrapped.regression:
        raise EstimateError("must be the decision that people want: group figures need it", parameter="favourable")
    asker = ModelProbe(wrapped, space, Gap(0.0) if wrapped.regression else Flip(), timeout)
    asker.asking.instead = AMOUNTS
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
    waver, asked = Steadiness(asker, 0, chunk).check_rows(people.rows)
    if waver:
        raise noisy(waver, asked)
    own = own_numbers(space, data, positions, people.rows)
    try:
        known, moved = decided(asker, favour, people.rows, chunk, numbers, truth, own), 0
    except ModelError:
        if not own:
            raise
        # A model that does not take the rows as they are may take them as the space has them.
        known = decided(asker, favour, people.rows, chunk, numbers, truth)
        moved = _moved(space, own, people.rows)
    made = rates(bandings(space, people.rows, bands or {}), known, confidence, smallest, favourable is not None)
    counts = {"rows": total, "dropped": encoded.dropped, "moved": moved}
    if known.truth is not None:
        counts["unknown"] = int((~known.told).sum())
    return Groups(
        tuple(made), favour.favourable, confidence, len(people), counts, wrapped.name, smallest, _basis(wrapped, favour)
    )


def _basis(model: Model, favour: Favour) -> str:
    """Say what the rates are of."""
    wanted = favour.favourable
    if model.regression:
        return f"means, and shares {'below' if wanted == LOWER else 'above'} the median,"
    # Of an order, the best outcome is what people want most.
    return f"selection rate of {wish(wanted.outcomes[-1] if isinstance(wanted, Order) else wanted)}"


def _moved(space: Space, own: Mapping[str, Numbers], rows: Rows) -> int:
    """Count the rows of which the space has another number than the data."""
    apart = [~np.isclose(numbers, space.attributes[space.column(name)].decode(rows[:, space.column(name)]),
                         rtol=1e-9, atol=0.0, equal_nan=True) for name, numbers in own.items()]  # fmt: skip
    return int(np.any(apart, axis=0).sum())


def _ends(low: float | None, high: float | None) -> str:
    return f" ({number_interval(low, high)})" if low is not None and high is not None and low < high else ""


def _said(group: Group, smallest: float, wished: bool) -> str:
    who = listed(group.values)
    if group.rate is None or group.low is None or group.high is None:
        return f"{who}: nobody in the data"
    text = f"{who}: {estimated(group.rate, group.low, group.high)} of {group.rows:,}"
    if group.mean is not None:
        text += f", {number(group.mean)} on average{_ends(group.mean_low, group.mean_high)}"
        if group.less is not None:
            text += f", {number(group.less)} less than who gets most{_ends(group.less_low, group.less_high)}"
    if group.impact_ratio is None and not wished:
        pass
    elif group.impact_ratio is None:
        few = group.share < smallest
        text += ", too few for an impact ratio" if few else ", no impact ratio because nobody is selected"
    else:
        assert group.impact_low is not None
        assert group.impact_high is not None
        ends = number_interval(group.impact_low, group.impact_high)
        text += f", impact ratio {number(group.impact_ratio)} ({ends}), {group.verdict}"
    if group.accuracy is not None and group.accuracy_low is not None and group.accuracy_high is not None:
        text += f"; accuracy {estimated(group.accuracy, group.accuracy_low, group.accuracy_high)}"
    return text
