"""How well a model decides about rows that it was not trained on: accuracy, AUC and calibration, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._stats import clopper_pearson, tango
from evenhand.errors import DataError, ModelError
from evenhand.estimates.pair_counts import alike
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.repairs.data import Labelled, LabelledTexts

CHUNK = 16_384
BINS = 10
RESAMPLES = 500
SHOWN = 4
Numbers = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Interval:
    """A figure and the interval it lies in.

    >>> Interval(0.5, 0.4, 0.6).low
    0.4
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """How far scores are from the truth: Brier's mean square, and the expected error of what they promise."""

    brier: Interval
    error: Interval
    """Expected calibration error, over ten bins of equal width; in small samples it comes out too high."""


@dataclass(frozen=True)
class Answers:
    """What a model says of labelled rows, row by row, so that two models can be compared on the same ones."""

    said: npt.NDArray[Any]
    correct: Mask
    positive: Mask | None = None
    """Which rows have a label, a column each; of two labels the second alone."""
    level: Numbers | None = None
    """The scores of the same labels."""
    squares: Numbers | None = None
    """Brier's square of each row, where scores are probabilities."""
    promise: Numbers | None = None
    """The probability of the second of two labels, or of the likeliest of several."""
    came_true: Mask | None = None
    scored: bool = False
    """Whether the model gives scores, and not labels alone."""


def answers(model: Model, rows: Labelled | LabelledTexts) -> Answers:
    """Ask a model about labelled rows or texts, as they are."""
    X, client, n = rows.asked(model), ModelClient(model), len(rows)
    parts = [X[i : i + CHUNK] for i in range(0, n, CHUNK)]
    # In one call each: a user's frame keeps its index, by which a model may look rows up.
    with client.calls.at_once():
        said = np.concatenate([client.labels(part, len(part)) for part in parts])
    labels = sorted(set(rows.truth.tolist()), key=str)
    truth, decided = as_texts(rows.truth, labels), as_texts(said, labels)
    if not set(truth.tolist()) & set(decided.tolist()):
        values, decisions = (", ".join(sorted(set(texts.tolist()))[:SHOWN]) for texts in (truth, decided))
        raise DataError(f"y has the values {values}, but the model decides {decisions}; code both alike")
    with client.calls.at_once():
        scores = _scores(client, parts)
    if scores is None:
        return Answers(said, decided == truth)
    classes = as_texts(np.asarray(labels) if model.classes is None else model.classes, labels).tolist()
    return Answers(said, decided == truth, scored=True, **_scored(scores, truth, classes))


def as_texts(values: npt.NDArray[Any], labels: list[Any]) -> npt.NDArray[Any]:
    """Write decisions as the labels that they are, whatever their types: 1 is True where labels are true or false.

    >>> as_texts(np.array([1, 0, 2]), [False, True]).tolist()
    ['True', 'False', '2']
    """
    import pandas as pd

    codes, seen = pd.factorize(values)
    texts = [next((str(label) for label in labels if alike(value, label)), str(value)) for value in seen.tolist()]
    return np.array(texts)[codes]


def _scores(client: ModelClient, parts: list[Any]) -> Numbers | None:
    """Ask for scores; None where there are none, or where they are nothing but labels."""
    if not client.model.has_scores:
        return None
    try:
        scores = np.concatenate([client.scores(part, len(part)) for part in parts])
    except ModelError:
        return None
    # A whole number that no threshold cuts is a label; so are zeros and ones, threshold or not.
    names = (scores == np.rint(scores)).all() if client.model.threshold is None else np.isin(scores, (0, 1)).all()
    return None if scores.shape[1] == 1 and names else scores


def _scored(scores: Numbers, truth: npt.NDArray[Any], classes: list[str]) -> dict[str, Any]:
    probable = bool((scores >= 0).all() and (scores <= 1).all())
    if scores.shape[1] == 1 and len(classes) == 2:
        scores = np.column_stack([1 - scores[:, 0] if probable else -scores[:, 0], scores[:, 0]])
    if scores.shape[1] != len(classes):
        return {}
    right = truth[:, None] == np.array(classes)
    # In one order for all models, so that two can be compared.
    ranked = [1] if len(classes) == 2 else np.argsort(classes).tolist()
    out: dict[str, Any] = {"positive": right[:, ranked], "level": scores[:, ranked]}
    if not probable or not np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return out
    likeliest = scores.argmax(axis=1) if len(classes) > 2 else np.ones(len(scores), dtype=np.int64)
    here = np.arange(len(scores))
    squares = np.square(scores - right).sum(axis=1) / (2 if len(classes) == 2 else 1)
    return {**out, "squares": squares, "promise": scores[here, likeliest], "came_true": right[here, likeliest]}


def accuracy(one: Answers, confidence: float) -> Interval:
    """Share of correct decisions, with Clopper and Pearson's interval."""
    low, high = clopper_pearson(int(one.correct.sum()), len(one.correct), confidence)
    return Interval(float(one.correct.mean()), float(low), float(high))


def share_difference(before: Mask, after: Mask, confidence: float, misjudged: float = 0.0) -> Interval:
    """How much a share rose, on the same rows: those that turned one way less those that turned the other (Tango).

    >>> gain = share_difference(np.arange(100) < 50, np.arange(100) < 60, 0.95)
    >>> gain.value, gain.low > 0
    (0.1, True)
    """
    up, down = int((after & ~before).sum()), int((before & ~after).sum())
    low, high = tango(up, down, len(before), confidence)
    # One who was misjudged may have turned from one side to the other.
    reach = 2 * misjudged / len(before)
    return Interval((up - down) / len(before), max(-1.0, float(low) - reach), min(1.0, float(high) + reach))


def auc(one: Answers, confidence: float) -> Interval | None:
    """Area under the ROC curve, with DeLong's interval; of several labels the mean of each against the rest.

    None where there are no scores, or where all rows have the same label.
    """
    parts = _placements(one)
    if not parts:
        return None
    value = _area(parts)
    if value in (0.0, 1.0):
        # No spread to go by: of so many disjoint pairs all are in the same order.
        fewer = min(len(side) for part in parts for side in (part.above, part.below))
        low, high = clopper_pearson(int(value) * fewer, fewer, confidence)
        return Interval(value, float(low), float(high))
    return _clipped(_normal(value, _spread(parts), confidence), 0.0)


def auc_difference(before: Answers, after: Answers, confidence: float) -> Interval | None:
    """How much the area rose, on the same rows (DeLong)."""
    first, second = _placements(before), _placements(after)
    if not first or len(first) != len(second):
        return None
    apart = [Placements(a.positive, b.above - a.above, b.below - a.below) for a, b in zip(first, second, strict=True)]
    return _normal(_area(apart), _spread(apart), confidence)


@dataclass(frozen=True)
class Placements:
    """Of one label: for each row that has it the share of others below it, for each other that of such rows above."""

    positive: Mask
    above: Numbers
    below: Numbers


def _placements(one: Answers) -> list[Placements]:
    """Rank the rows by the score of each label.

    DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 1988.
    """
    from scipy.stats import rankdata

    out: list[Placements] = []
    if one.positive is None or one.level is None:
        return out
    for positive, level in zip(one.positive.T, one.level.T, strict=True):
        high, low = level[positive], level[~positive]
        if not len(high) or not len(low):
            continue
        ranks = rankdata(np.concatenate([high, low]))
        above = (ranks[: len(high)] - rankdata(high)) / len(low)
        below = 1 - (ranks[len(high) :] - rankdata(low)) / len(high)
        out.append(Placements(positive, above, below))
    return out


def _area(parts: list[Placements]) -> float:
    return float(np.mean([part.above.mean() for part in parts]))


def _spread(parts: list[Placements]) -> float:
    """The standard error of the mean area: a row pulls at the areas of all labels at once."""
    pull = np.zeros(len(parts[0].positive))
    for part in parts:
        pull[part.positive] += _pull(part.above)
        pull[~part.positive] += _pull(part.below)
    return float(np.sqrt(np.square(pull).sum()) / len(parts))


def _pull(shares: Numbers) -> Any:
    """How far each row pulls the mean of its side; for a single row it is unknown, and 0.5 is a large value."""
    n = len(shares)
    return 0.5 if n == 1 else (shares - shares.mean()) / np.sqrt(n * (n - 1))


def calibration(one: Answers, confidence: float, seed: int) -> Calibration | None:
    """Brier's score and the expected calibration error; None where scores are no probabilities."""
    if one.squares is None:
        return None
    brier = _normal(float(one.squares.mean()), _error(one.squares), confidence)
    drawn = np.array([_expected(one, rows) for rows in _resamples(len(one.said), seed)])
    return Calibration(_clipped(brier, 0.0, 2.0), _quantiles(_expected(one), drawn, confidence))


def calibration_difference(before: Answers, after: Answers, confidence: float, seed: int) -> Calibration | None:
    """How much both rose, on the same rows."""
    if before.squares is None or after.squares is None:
        return None
    apart = after.squares - before.squares
    rows = _resamples(len(apart), seed)
    drawn = np.array([_expected(after, row) - _expected(before, row) for row in rows])
    error = _quantiles(_expected(after) - _expected(before), drawn, confidence)
    return Calibration(_normal(float(apart.mean()), _error(apart), confidence), error)


def _expected(one: Answers, rows: Any = slice(None)) -> float:
    assert one.promise is not None
    assert one.came_true is not None
    promise, true = one.promise[rows], one.came_true[rows]
    bins = np.minimum((promise * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, promise, BINS) - np.bincount(bins, true, BINS)
    return float(np.abs(gaps).sum() / len(promise))


def _resamples(n: int, seed: int) -> list[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, n) for _ in range(RESAMPLES)]


def _quantiles(value: float, drawn: Numbers, confidence: float) -> Interval:
    low, high = np.quantile(drawn, ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(value, min(value, float(low)), max(value, float(high)))


def _error(values: Numbers) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 1.0


def _normal(value: float, error: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * error
    return Interval(value, value - reach, value + reach)


def _clipped(one: Interval, low: float, high: float = 1.0) -> Interval:
    return Interval(one.value, max(low, one.low), min(high, one.high))
