"""Group figures beside the individual ones: selection rates, impact ratios and accuracy of each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import estimated, level, number, number_interval, to_plain
from evenhand._format import plain as written
from evenhand._stats import Numbers, weighted
from evenhand._validate import is_number
from evenhand.criteria import Flip, Gap
from evenhand.engine.judge import CHUNK, Mask
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import Steadiness, noisy
from evenhand.errors import AMOUNTS, THRESHOLD, DataError, EstimateError, MissingExtra, ModelError
from evenhand.estimates.comparisons import Mean
from evenhand.estimates.pair_counts import ALL_VALUES, LOWER, Favour, Order, alike, look_for, wish, wish_json
from evenhand.estimates.populations import check_weights
from evenhand.estimates.result import listed
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.runs.audit import check_arguments
from evenhand.spaces.attributes import Attribute, Integer, Real
from evenhand.spaces.base import require
from evenhand.spaces.frames import columns_of
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST_GROUPS = 64
"""The most intersections of several attributes that are listed."""
FOUR_FIFTHS = 0.8
SHOWN = 4
"""Values that an error lists."""
UNKNOWN = -1
"""The number of a true decision that is not known."""
Codes = npt.NDArray[np.int64]
QUARTILES = (0.25, 0.5, 0.75)


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

    @property
    def sentence(self) -> str:
        """What the figures are, and which individuals they describe."""
        return f"{self.basis} among {self.note}; intervals of {level(self.confidence)}"

    @property
    def details(self) -> list[str]:
        """A line for each group."""
        return [_said(group, self.smallest, self.favourable is not None) for group in self.groups]

    def __repr__(self) -> str:
        return "\n  ".join([f"Groups: {self.sentence}", *self.details])

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
        best. Of numbers ``"higher"`` or ``"lower"``: selected is who is beyond the median; None: no individual is
        selected for anything, and there are no impact ratios.
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
        Groups with a smaller share of the data get no impact ratio and no other group is compared with them.
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
    probe = ModelProbe(wrapped, space, Gap(0.0) if wrapped.regression else Flip(), timeout)
    probe.client.instead = AMOUNTS
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
    differing, asked = Steadiness(probe, 0, chunk).check_rows(people.rows)
    if differing:
        raise noisy(differing, asked)
    own = own_numbers(space, data, positions, people.rows)
    try:
        known, moved = decided(probe, favour, people.rows, chunk, numbers, truth, own), 0
    except ModelError:
        if not own:
            raise
        # A model that does not take the rows as they are may take them as the space has them.
        known = decided(probe, favour, people.rows, chunk, numbers, truth)
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
        return f"{who}: no individuals in the data"
    text = f"{who}: {estimated(group.rate, group.low, group.high)} of {group.rows:,}"
    if group.mean is not None:
        text += f", {number(group.mean)} on average{_ends(group.mean_low, group.mean_high)}"
        if group.less is not None:
            text += f", {number(group.less)} less than who gets most{_ends(group.less_low, group.less_high)}"
    if group.impact_ratio is None and not wished:
        pass
    elif group.impact_ratio is None:
        few = group.share < smallest
        text += ", too few for an impact ratio" if few else ", no impact ratio because no individual is selected"
    else:
        assert group.impact_low is not None
        assert group.impact_high is not None
        ends = number_interval(group.impact_low, group.impact_high)
        text += f", impact ratio {number(group.impact_ratio)} ({ends}), {group.verdict}"
    if group.accuracy is not None and group.accuracy_low is not None and group.accuracy_high is not None:
        text += f"; accuracy {estimated(group.accuracy, group.accuracy_low, group.accuracy_high)}"
    return text


@dataclass(frozen=True)
class Group:
    """One group of the data, and how the model decides about it."""

    values: dict[str, Any]
    rows: int
    share: float
    """Of all rows, by weight."""
    selected: int
    rate: float | None = None
    """Selection rate: the share that gets the favourable decision; None where the data has none of the group."""
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


def ratio_ends(low: Numbers, high: Numbers, low_at_once: Numbers) -> tuple[Numbers, Numbers]:
    """Interval of each rate over the largest of all, from one-sided bounds of the rates.

    ``low`` and ``high`` hold for each group by itself, ``low_at_once`` for all groups together. The largest rate is at
    most the largest upper bound, because that of the truly largest group is no lower; it is at least the largest of
    the lower bounds that hold together. So it does not matter which group happens to come out on top.

    >>> ends = ratio_ends(np.array([0.2, 0.4]), np.array([0.3, 0.6]), np.array([0.19, 0.39]))
    >>> [end.round(2).tolist() for end in ends]
    [[0.33, 0.67], [0.77, 1.0]]
    """
    most, least = float(np.max(high)), float(np.max(low_at_once))
    return (
        low / most if most else np.zeros_like(low),
        np.minimum(1.0, high / least) if least else np.ones_like(high),
    )


def impact_ratios(
    groups: list[Group],
    members: list[npt.NDArray[np.int64]],
    known: Decided,
    confidence: float,
    smallest: float,
    verdicts: int,
) -> list[Group]:
    """Add impact ratios to the groups that are large enough; so many intervals and ``verdicts`` hold at once."""
    able = [i for i, group in enumerate(groups) if group.rate is not None and group.share >= smallest]
    best = max((groups[i].rate or 0.0 for i in able), default=0.0)
    if not best:
        return groups
    here = [members[i] for i in able]
    low, high = _ratio_bounds(here, known, 1 - (1 - confidence) / verdicts)
    out = list(groups)
    for k, i in enumerate(able):
        verdict = "insufficient evidence"
        if high[k] < FOUR_FIFTHS:
            verdict = "below four fifths"
        elif low[k] >= FOUR_FIFTHS:
            verdict = "at least four fifths"
        ratio = (groups[i].rate or 0.0) / best
        ends = float(low[k]), float(high[k])
        out[i] = replace(groups[i], impact_ratio=ratio, impact_low=ends[0], impact_high=ends[1], verdict=verdict)
    return out


def _ratio_bounds(members: list[npt.NDArray[np.int64]], known: Decided, confidence: float) -> tuple[Numbers, Numbers]:
    """Intervals of the ratios of some groups; each of four bounds on rates takes a quarter of the risk."""
    risk = (1 - confidence) / 4
    alone, at_once = (
        np.array([weighted(known.selected[at], known.weight(at), 1 - 2 * part) for at in members])
        for part in (risk, risk / len(members))
    )
    return ratio_ends(alone[:, 0], alone[:, 1], at_once[:, 0])


@dataclass(frozen=True)
class Truth:
    """The true decisions, or the name of their column; which rows are left, of how many."""

    y: Any
    data: Any
    positions: npt.NDArray[np.int64]
    rows: int


@dataclass(frozen=True)
class Decided:
    """Decisions about rows."""

    selected: Mask
    """Who gets the favourable decision."""
    said: Codes | None
    """The decisions numbered, where there is a truth to compare them with."""
    truth: Codes | None
    """The true decisions by the same numbers; ``UNKNOWN`` where there is none."""
    weights: Numbers | None
    numbers: Numbers | None = None
    """What a regression says."""

    @property
    def correct(self) -> Mask | None:
        """Rows where the model's decision equals the true one."""
        return None if self.said is None else np.asarray(self.said == self.truth, dtype=bool)

    @property
    def told(self) -> Mask:
        """Rows where the true decision is known."""
        assert self.truth is not None
        return np.asarray(self.truth != UNKNOWN, dtype=bool)

    def weight(self, at: npt.NDArray[np.int64]) -> Numbers:
        """What some rows count."""
        return np.ones(len(at)) if self.weights is None else self.weights[at]


def decided(
    probe: ModelProbe,
    favour: Favour,
    rows: Rows,
    chunk: int,
    weights: Numbers | None,
    truth: Truth | None,
    own: Mapping[str, Numbers] | None = None,
) -> Decided:
    """Ask the model about rows; with ``own``, numbers of some columns as the data has them."""
    one = probe.client.scores if probe.model.regression else probe.client.labels
    parts = [slice(i, i + chunk) for i in range(0, len(rows), chunk)]
    said = np.concatenate([one(_inputs(probe, rows, part, own or {}), len(rows[part])) for part in parts])
    numbers = said[:, 0] if said.ndim == 2 else None
    if numbers is not None:
        selected = _beyond_median(numbers, weights, favour.favourable == LOWER)
    else:
        mask = favour.of(said[:, None])
        look_for(favour, probe)
        assert mask is not None
        selected = mask[:, 0]
    if truth is None:
        return Decided(selected, None, None, weights, numbers)
    return Decided(selected, *_beside_truth(said, truth), weights)


def own_numbers(space: Space, data: Any, positions: npt.NDArray[np.int64], rows: Rows) -> dict[str, Numbers]:
    """Give the columns of numbers that a space changes: beyond its bounds, or between two of its steps.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 90), Boolean("member")], protected="member")
    >>> data = {"age": [95, 30], "member": [True, False]}
    >>> own_numbers(space, data, np.arange(2), space.encode(data).individuals.rows)
    {'age': array([95., 30.])}
    """
    columns, out = columns_of(data), {}
    for j, attribute in enumerate(space.attributes):
        if isinstance(attribute, Integer | Real):
            given = attribute.numbers(columns[attribute.name][positions])
            if not np.allclose(given, attribute.decode(rows[:, j]), rtol=1e-9, atol=0.0, equal_nan=True):
                out[attribute.name] = given
    return out


def _inputs(probe: ModelProbe, rows: Rows, part: slice, own: Mapping[str, Numbers]) -> Any:
    """Build what the model takes, with the data's own numbers in the columns where the space has others."""
    inputs = probe.inputs(rows[part])
    for name, numbers in own.items():
        here = numbers[part]
        if probe.model.input == "array":
            inputs[:, probe.space.column(name)] = here
        elif name in inputs.columns:
            whole = inputs[name].dtype.kind in "iu" and bool((here == np.rint(here)).all())
            inputs[name] = here.astype(inputs[name].dtype) if whole else here
    return inputs


def _beyond_median(numbers: Numbers, weights: Numbers | None, lower: bool) -> Mask:
    order = np.argsort(numbers, kind="stable")
    total = np.cumsum(np.ones(len(numbers)) if weights is None else weights[order])
    median = numbers[order][np.searchsorted(total, total[-1] / 2)]
    return np.asarray(numbers < median if lower else numbers > median, dtype=bool)


def _beside_truth(said: npt.NDArray[Any], truth: Truth) -> tuple[Codes, Codes]:
    import pandas as pd

    y = truth.y
    if isinstance(y, str):
        columns = columns_of(truth.data)
        if y not in columns:
            raise DataError(f"y={y!r}: the data has no such column; it has {', '.join(list(columns)[:20])}")
        y = columns[y]
    right = np.asarray(y)
    if right.shape != (truth.rows,):
        raise DataError(
            f"y must be one true decision for each of the {truth.rows:,} rows of the data, got {right.shape}"
        )
    if said.ndim == 2:
        raise DataError("y: accuracy is of decisions", remedy=("make numbers decisions with ", THRESHOLD))
    decisions, names = pd.factorize(said)
    truths, others = pd.factorize(right[truth.positions])  # What is missing gets -1.
    known, right_ones = names.tolist(), others.tolist()
    if not right_ones:
        raise DataError("y has no true decision for any row; give some, or leave y out")
    # One that the model never makes gets a number of its own, so that no decision matches it.
    number = [next((i for i, name in enumerate(known) if alike(name, one)), len(known)) for one in right_ones]
    if min(number) == len(known):
        listed = (", ".join(sorted(map(str, values))[:SHOWN]) for values in (right_ones, known))
        raise DataError("y has the values {}, but the model decides {}; give both in one coding".format(*listed))
    numbers = np.array([*number, UNKNOWN], dtype=np.int64)
    return decisions.astype(np.int64), numbers[truths]


@dataclass(frozen=True)
class Banding:
    """How an attribute's values fall into groups, and to which each row belongs."""

    attribute: str
    names: list[Any]
    member: npt.NDArray[np.int64]


def bandings(space: Space, rows: Rows, bands: Mapping[str, Sequence[float]]) -> list[Banding]:
    """Group rows by each protected attribute."""
    if not isinstance(bands, Mapping):
        raise EstimateError(f"bands must say where to cut each attribute, as {{'age': [25, 40]}}; got {bands!r}")
    unknown = [name for name in bands if name not in space.protected]
    if unknown:
        raise EstimateError(f"bands: {unknown[0]!r} is not protected; protected are {', '.join(space.protected)}")
    return [banding(space.attributes[j], rows[:, j], bands.get(space.names[j])) for j in space.protected_columns]


def banding(attribute: Attribute, codes: npt.NDArray[Any], cuts: Sequence[float] | None) -> Banding:
    """Group rows by one attribute: at ``cuts``, by value, or at the quartiles of the rows where there are many values.

    >>> from evenhand.spaces.attributes import Integer
    >>> banding(Integer("age", 18, 90), np.array([0, 10, 72]), [25, 40]).names
    ['18 to 24', '25 to 39', '40 to 90']
    """
    if cuts is None and (attribute.size <= ALL_VALUES or not attribute.ordered):
        values = attribute.decode(np.arange(attribute.size)).tolist()
        return Banding(attribute.name, values, codes.astype(np.int64))
    starts = _starts(attribute, codes, cuts)
    values = attribute.decode(np.arange(attribute.present)).tolist()
    ends = [*starts[1:], attribute.present]
    names = [_name(values[a], values[b - 1]) for a, b in zip(starts, ends, strict=True)]
    member = np.searchsorted(np.array(starts), codes, side="right") - 1
    if attribute.has_missing:
        names.append(None)
        member = np.where(codes >= attribute.present, len(names) - 1, member)
    return Banding(attribute.name, names, member.astype(np.int64))


def _starts(attribute: Attribute, codes: npt.NDArray[Any], cuts: Sequence[float] | None) -> list[int]:
    """The first code of each band."""
    if cuts is None:
        there = codes[codes < attribute.present]
        quartiles = np.quantile(there, QUARTILES, method="lower") if len(there) else np.zeros(0)
        return sorted({0, *(int(q) for q in quartiles)})
    if not attribute.ordered:
        raise EstimateError(f"bands: {attribute.name!r} has no order, so it cannot be cut; leave it out of bands")
    try:
        values = attribute.decode(np.arange(attribute.present)).astype(np.float64)
        edges = np.asarray(cuts, dtype=np.float64)
    except (TypeError, ValueError):
        raise EstimateError(f"bands: {attribute.name!r} is cut at numbers, got {cuts!r}") from None
    if edges.ndim != 1 or np.isnan(edges).any():
        raise EstimateError(f"bands: {attribute.name!r} is cut at a list of numbers, got {cuts!r}")
    at = np.searchsorted(values, edges)
    return sorted({0, *(int(code) for code in at if 0 < code < attribute.present)})


def _name(first: Any, last: Any) -> Any:
    return first if first == last else f"{written(first)} to {written(last)}"
