"""Group figures: selection rates, impact ratios and accuracy of each group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import Viewed, estimated, level, number, number_interval, to_plain
from evenhand._format import plain as written
from evenhand._intervals import Numbers, weighted
from evenhand._validate import check_confidence, check_number
from evenhand.criteria import Flip, Gap
from evenhand.engine.determinism import RowChecks, noisy
from evenhand.engine.judge import CHUNK, Mask, ModelProbe
from evenhand.errors import AMOUNTS, THRESHOLD, DataError, EstimateError, MissingExtra, ModelError
from evenhand.estimates.favoured import Mean
from evenhand.estimates.pair_counts import (
    ALL_VALUES,
    LOWER,
    Favour,
    Order,
    alike,
    favourable_json,
    favourable_words,
    look_for,
)
from evenhand.estimates.populations import check_weights, column_named, numbers_of
from evenhand.estimates.result import listed
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.spaces.attributes import Attribute, Integer, Real
from evenhand.spaces.base import require
from evenhand.spaces.frames import columns_of, pd
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_GROUPS = 64
"""Maximum number of intersections of several attributes that are listed."""
FOUR_FIFTHS = 0.8
SHOWN = 4
"""Values that an error lists."""
UNKNOWN = -1
"""The code of an unknown true decision."""
CUTS = "write {'age': [25, 40]}"
Codes = npt.NDArray[np.int64]
QUARTILES = (0.25, 0.5, 0.75)


@dataclass
class Groups(Viewed):
    """Group figures of a model on data. Returned by ``eh.groups``."""

    groups: tuple[Group, ...]
    favourable: Any
    confidence: float
    rows: int
    counts: dict[str, int]
    """Numbers of rows: all, left out, moved to values of the space; with ``y``, those without a true decision.

    Rows of weight 0 do not count.
    """
    model: str
    smallest: float
    basis: str = field(default="selection rate")

    @property
    def frame(self) -> pd.DataFrame:
        """One row per group."""
        return pd.DataFrame([{**asdict(group), "values": listed(group.values)} for group in self.groups])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {name: to_plain(value) for name, value in vars(self).items() if name not in ("groups", "favourable")} | {
            "favourable": favourable_json(self.favourable),
            "groups": to_plain([asdict(g) for g in self.groups]),
        }

    @property
    def note(self) -> str:
        """Which rows the figures describe, and what that means for accuracy."""
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
        """One line per group."""
        return [_words(group, self.smallest, self.favourable is not None) for group in self.groups]

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
) -> Groups:
    """Compute selection rates, impact ratios and accuracy for each group of the data and for intersections of groups.

    These figures compare different people; ``estimate`` compares each person with their own counterparts. Rates come
    from fairlearn (the extra ``fairness``), and intervals are exact. The model is queried about the rows as given, even
    if a number is outside the bounds of the space or between two of its steps; such a row belongs to the nearest group.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes.
    space
        Says which attributes are protected.
    data
        Rows with the space's columns.
    favourable
        The favourable decision, a list of such decisions, or ``eh.Order`` of all decisions, of which the best counts.
        For numbers, ``"higher"`` or ``"lower"`` counts individuals above or below the median, and None gives no impact
        ratios.
    y
        The true decisions, or the name of their column, to compute accuracy; missing ones are ignored. Accuracy is
        overstated on rows that the model was trained on.
    weights
        The weight of each row: numbers, or the name of a column.
    bands
        Where to divide attributes with many values: ``{"age": [25, 40, 65]}``; by default at quartiles of the data.
    confidence
        Confidence level of the intervals. Those of impact ratios hold for all groups simultaneously, the others one by
        one.
    smallest
        Groups with a smaller share of the data have no impact ratio, and no other group is compared with them.

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
    check_confidence(confidence, EstimateError)
    check_number("smallest", smallest, EstimateError, 0, below=1)
    wrapped = wrap(model)
    if favourable is None and not wrapped.regression:
        raise EstimateError("must be the favourable decision", parameter="favourable", value=None)
    probe = ModelProbe(wrapped, space, Gap(0.0) if wrapped.regression else Flip())
    probe.client.instead = AMOUNTS
    favour = Favour(wrapped, favourable)
    encoded = space.encode(data)
    people, total = encoded.individuals, len(encoded.individuals) + encoded.dropped
    if not len(people):
        raise DataError(
            f"none of the {total:,} rows of the data is in the space",
            parameter="data",
            remedy="give rows of the space, or widen it",
        )
    positions, numbers, dropped = encoded.positions, None, encoded.dropped
    if weights is not None:
        numbers = check_weights(weights, data, positions, total)
        # Rows without weight do not count, wherever they are.
        outside = np.delete(numbers_of(weights, data, total), positions)
        dropped = int((outside > 0).sum())
        heavy = np.flatnonzero(numbers)
        people, positions, numbers = people[heavy], positions[heavy], numbers[heavy]
    truth = None if y is None else truth_of(y, data, total)[positions]
    differing, asked = RowChecks(probe, 0, CHUNK).check_rows(people.rows)
    if differing:
        raise noisy(differing, asked)
    own = own_numbers(space, data, positions, people.rows)
    try:
        known, moved = decided(probe, favour, people.rows, numbers, truth, own), 0
    except ModelError:
        if not own:
            raise
        # A model that fails on the rows as given may accept them as represented by the space.
        known = decided(probe, favour, people.rows, numbers, truth)
        moved = _moved(space, own, people.rows)
    made = rates(bandings(space, people.rows, bands or {}), known, confidence, smallest, favourable is not None)
    counts = {"rows": len(people) + dropped, "dropped": dropped, "moved": moved}
    if known.truth is not None:
        counts["unknown"] = int((~known.labelled).sum())
    return Groups(
        tuple(made), favour.favourable, confidence, len(people), counts, wrapped.name, smallest, _basis(wrapped, favour)
    )


def _basis(model: Model, favour: Favour) -> str:
    """Describe what the rates measure."""
    wanted = favour.favourable
    if model.regression:
        return f"means, and shares {'below' if wanted == LOWER else 'above'} the median,"
    # With an order, the best outcome counts.
    return f"selection rate of {favourable_words(wanted.outcomes[-1] if isinstance(wanted, Order) else wanted)}"


def _moved(space: Space, own: Mapping[str, Numbers], rows: Rows) -> int:
    """Count the rows with a number that differs between the data and the space."""
    apart = [~np.isclose(numbers, space.attributes[space.column(name)].decode(rows[:, space.column(name)]),
                         rtol=1e-9, atol=0.0, equal_nan=True) for name, numbers in own.items()]  # fmt: skip
    return int(np.any(apart, axis=0).sum())


def _ends(low: float | None, high: float | None) -> str:
    return f" ({number_interval(low, high)})" if low is not None and high is not None and low < high else ""


def _words(group: Group, smallest: float, with_ratios: bool) -> str:
    who = listed(group.values)
    if group.rate is None or group.low is None or group.high is None:
        return f"{who}: no individuals in the data"
    text = f"{who}: {estimated(group.rate, group.low, group.high)} of {group.rows:,}"
    if group.mean is not None:
        text += f", {number(group.mean)} on average{_ends(group.mean_low, group.mean_high)}"
        if group.less is not None:
            text += f", {number(group.less)} less than the highest group{_ends(group.less_low, group.less_high)}"
    if group.impact_ratio is None and not with_ratios:
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
    """One group of the data and its figures."""

    values: dict[str, Any]
    rows: int
    share: float
    """Share of all rows, by weight."""
    selected: int
    rate: float | None = None
    """Selection rate: the share with the favourable decision; None if the group is empty."""
    low: float | None = None
    high: float | None = None
    impact_ratio: float | None = None
    """Selection rate divided by the highest of the same attributes; None if the group is too small."""
    impact_low: float | None = None
    """The interval of the impact ratio holds for all groups at once, and the verdict follows from it."""
    impact_high: float | None = None
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    mean: float | None = None
    """The mean of the group, for a model that returns numbers."""
    mean_low: float | None = None
    mean_high: float | None = None
    less: float | None = None
    """Difference to the highest mean of the same attributes."""
    less_low: float | None = None
    less_high: float | None = None
    verdict: str = "insufficient evidence"
    """"below four fifths" or "at least four fifths" if the interval of the impact ratio shows it."""


def rates(cut: Sequence[Banding], known: Decided, confidence: float, smallest: float, with_ratios: bool) -> list[Group]:
    """Make the groups of each attribute and of few intersections; impact ratios only if ``with_ratios``."""
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
        number = np.ravel_multi_index([band.member for band in part], [len(band.names) for band in part])
        made = _groups(part, number, known, confidence)
        members = [np.flatnonzero(number == i) for i in range(len(made))]
        if known.numbers is not None:
            made = _means(made, members, known, known.numbers, confidence)
        out += impact_ratios(made, members, known, confidence, smallest, verdicts) if with_ratios else made
    return out


def _means(
    groups: list[Group], members: list[npt.NDArray[np.int64]], known: Decided, numbers: Numbers, confidence: float
) -> list[Group]:
    """Add the mean of each group, and its difference to the highest."""
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
        true = np.zeros(0, dtype=np.int64) if correct is None else here[known.labelled[here]]
        if correct is not None and len(true):
            low, high = weighted(correct[true], known.weight(true), confidence)
            found["accuracy"] = float(figures["accuracy"][index])
            found |= {"accuracy_low": float(low), "accuracy_high": float(high)}
        share, selected = float(weight.sum() / total), int(known.selected[here].sum())
        out.append(Group(values, len(here), share, selected, **found))
    return out


def _metrics(number: npt.NDArray[np.int64], known: Decided) -> dict[str, pd.Series[float]]:
    """Compute the rates of each non-empty group with fairlearn."""
    try:
        from fairlearn.metrics import MetricFrame, selection_rate
    except ImportError:
        raise MissingExtra("fairlearn", "fairness", "the comparison of groups") from None
    from sklearn.metrics import accuracy_score

    def by_group(metric: Any, truth: Any, predicted: Any, at: npt.NDArray[np.int64]) -> pd.Series[float]:
        given: dict[str, Any] = {"sensitive_features": {"group": number[at]}}
        if known.weights is not None:
            given["sample_params"] = {"sample_weight": known.weights[at]}
        made: pd.Series[float] = MetricFrame(metrics=metric, y_true=truth[at], y_pred=predicted[at], **given).by_group
        return made

    selected = known.selected.astype(np.int64)
    out = {"rate": by_group(selection_rate, selected, selected, np.arange(len(number)))}
    if known.decisions is not None:
        out["accuracy"] = by_group(accuracy_score, known.truth, known.decisions, np.flatnonzero(known.labelled))
    return out


def ratio_ends(low: Numbers, high: Numbers, low_at_once: Numbers) -> tuple[Numbers, Numbers]:
    """Interval of each rate over the largest of all, from one-sided bounds of the rates.

    ``low`` and ``high`` hold for each group by itself, ``low_at_once`` for all groups together. The largest of the
    other rates is at most the largest of their upper bounds. The largest of all is at least the largest of the
    simultaneous lower bounds, whichever group has it.

    >>> ratio_ends(np.array([0.2, 0.6]), np.array([0.3, 0.8]), np.array([0.15, 0.5]))
    (array([0.25, 1.  ]), array([0.6, 1. ]))
    """
    others = np.array([np.delete(high, i).max(initial=0.0) for i in range(len(high))])
    least = float(np.max(low_at_once))
    lowest = np.where(low < others, low / np.where(others, others, 1.0), float(high.max() > 0))
    return lowest, np.minimum(1.0, high / least) if least else np.ones_like(high)


def impact_ratios(
    groups: list[Group],
    members: list[npt.NDArray[np.int64]],
    known: Decided,
    confidence: float,
    smallest: float,
    verdicts: int,
) -> list[Group]:
    """Add impact ratios to the groups that are large enough; ``verdicts`` intervals hold at once."""
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
    """Intervals of the ratios of some groups; each of four bounds on rates gets a quarter of the error probability."""
    risk = (1 - confidence) / 4
    alone, at_once = (
        np.array([weighted(known.selected[at], known.weight(at), 1 - 2 * part) for at in members])
        for part in (risk, risk / len(members))
    )
    return ratio_ends(alone[:, 0], alone[:, 1], at_once[:, 0])


@dataclass(frozen=True)
class Decided:
    """Decisions of a model about rows."""

    selected: Mask
    """Rows with the favourable decision."""
    weights: Numbers | None
    numbers: Numbers | None = None
    """The predictions of a regression."""
    decisions: Codes | None = None
    """The decisions as codes, if true ones are given."""
    truth: Codes | None = None
    """The true decisions by the same codes, or ``UNKNOWN``."""

    @property
    def correct(self) -> Mask | None:
        """Rows where the model's decision equals the true one."""
        return None if self.decisions is None else np.asarray(self.decisions == self.truth, dtype=bool)

    @property
    def labelled(self) -> Mask:
        """Rows whose true decision is known."""
        assert self.truth is not None
        return np.asarray(self.truth != UNKNOWN, dtype=bool)

    def weight(self, at: npt.NDArray[np.int64]) -> Numbers:
        """The weights of some rows."""
        return np.ones(len(at)) if self.weights is None else self.weights[at]


def decided(
    probe: ModelProbe,
    favour: Favour,
    rows: Rows,
    weights: Numbers | None,
    truth: npt.NDArray[Any] | None,
    own: Mapping[str, Numbers] | None = None,
) -> Decided:
    """Query the model about rows; ``own`` has columns of numbers as in the data."""
    one = probe.client.scores if probe.model.regression else probe.client.labels
    parts = [slice(i, i + CHUNK) for i in range(0, len(rows), CHUNK)]
    answers = np.concatenate([one(_inputs(probe, rows, part, own or {}), len(rows[part])) for part in parts])
    numbers = answers[:, 0] if answers.ndim == 2 else None
    if numbers is not None:
        selected = _beyond_median(numbers, weights, favour.favourable == LOWER)
    else:
        mask = favour.of(answers[:, None])
        look_for(favour, probe)
        assert mask is not None
        selected = mask[:, 0]
    if truth is None:
        return Decided(selected, weights, numbers)
    if numbers is not None:
        raise DataError(
            "is for decisions, but the model returns numbers",
            parameter="y",
            remedy=("convert them to decisions with ", THRESHOLD),
        )
    return Decided(selected, weights, None, *_same_codes(answers, truth))


def own_numbers(space: Space, data: Any, positions: npt.NDArray[np.int64], rows: Rows) -> dict[str, Numbers]:
    """Return the columns with numbers that the space changes: outside its bounds, or between two steps."""
    columns, out = columns_of(data), {}
    for j, attribute in enumerate(space.attributes):
        if isinstance(attribute, Integer | Real):
            given = attribute.numbers(columns[attribute.name][positions])
            if not np.allclose(given, attribute.decode(rows[:, j]), rtol=1e-9, atol=0.0, equal_nan=True):
                out[attribute.name] = given
    return out


def _inputs(probe: ModelProbe, rows: Rows, part: slice, own: Mapping[str, Numbers]) -> Any:
    """Build the inputs of the model, with the data's numbers in the ``own`` columns."""
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


def truth_of(y: Any, data: Any, rows: int) -> npt.NDArray[Any]:
    """Return the true decisions of all rows of the data."""
    truth = np.asarray(column_named(y, data, "y") if isinstance(y, str) else y)
    if truth.shape != (rows,):
        raise DataError(
            f"must be one true label for each of the {rows:,} rows of the data, but has the shape {truth.shape}",
            parameter="y",
            value=y,
        )
    return truth


def _same_codes(answers: npt.NDArray[Any], truth: npt.NDArray[Any]) -> tuple[Codes, Codes]:
    """Return decisions and true decisions as codes of the same values."""
    decisions, names = pd.factorize(answers)
    truths, others = pd.factorize(truth)  # Missing values get -1.
    made, true = names.tolist(), others.tolist()
    if not true:
        raise DataError("has no label for any row", parameter="y", remedy="give some, or leave y out")
    # True decisions that the model never makes share one code.
    code = [next((i for i, name in enumerate(made) if alike(name, one)), len(made)) for one in true]
    if min(code) == len(made):
        has, decides = (", ".join(sorted(map(str, values))[:SHOWN]) for values in (true, made))
        raise DataError(
            f"has the values {has}, but the model predicts {decides}",
            parameter="y",
            remedy="encode both the same way",
        )
    return decisions.astype(np.int64), np.array([*code, UNKNOWN], dtype=np.int64)[truths]


@dataclass(frozen=True)
class Banding:
    """The groups of an attribute, and the group of each row."""

    attribute: str
    names: list[Any]
    member: npt.NDArray[np.int64]


def bandings(space: Space, rows: Rows, bands: Mapping[str, Sequence[float]]) -> list[Banding]:
    """Group rows by each protected attribute."""
    if not isinstance(bands, Mapping):
        raise EstimateError("must say where to cut each attribute", parameter="bands", value=bands, remedy=CUTS)
    unknown = [name for name in bands if name not in space.protected]
    if unknown:
        remedy = f"protected are {', '.join(space.protected)}"
        raise EstimateError("must name protected attributes", parameter="bands", value=unknown[0], remedy=remedy)
    return [banding(space.attributes[j], rows[:, j], bands.get(space.names[j])) for j in space.protected_columns]


def banding(attribute: Attribute, codes: npt.NDArray[Any], cuts: Sequence[float] | None) -> Banding:
    """Group rows by one attribute: at ``cuts``, by value or, with many values, at quartiles."""
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
        raise EstimateError(
            f"cannot cut {attribute.name!r}, which has no order", parameter="bands", value=cuts, remedy="leave it out"
        )
    try:
        values = attribute.decode(np.arange(attribute.present)).astype(np.float64)
        edges = np.asarray(cuts, dtype=np.float64)
        if edges.ndim != 1 or np.isnan(edges).any():
            raise ValueError
    except (TypeError, ValueError):
        raise EstimateError(
            f"must be a list of numbers for {attribute.name!r}", parameter="bands", value=cuts, remedy=CUTS
        ) from None
    at = np.searchsorted(values, edges)
    return sorted({0, *(int(code) for code in at if 0 < code < attribute.present)})


def _name(first: Any, last: Any) -> Any:
    return first if first == last else f"{written(first)} to {written(last)}"
