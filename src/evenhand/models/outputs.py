"""Checks of what models return: one comparable label, or one row of finite scores, per row; what networks return."""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np

from evenhand._format import number
from evenhand.errors import COMPARE, FLIP, KOSEI, REGRESSION, TEXT_RANDOM, WITHOUT_GRADIENTS, ModelError, Words
from evenhand.models.base import Array, Codes, Floats, some

# Integers, booleans and text of a fixed width have no missing value and nothing else to check.
PLAIN = frozenset("iubUS")
NUMERIC = (numbers.Real, np.bool)
WHOLE = (numbers.Integral, np.bool)
LABELS_ONLY = ("use ", FLIP, " and ", KOSEI, ", or for texts ", TEXT_RANDOM)


def to_array(answer: Any, name: str) -> Array:
    """Turn what a model returned (list, array, Series, tensor) into a NumPy array of one or more dimensions.

    >>> to_array([1, "1"], "f")  # NumPy alone would make both of them text, and equal
    array([1, '1'], dtype=object)
    """
    if isinstance(answer, np.ma.MaskedArray) and np.ma.is_masked(answer):
        raise ModelError(f"{name} returned masked entries", remedy="return one answer for every row")
    array = np.asarray(answer) if isinstance(answer, np.ndarray) else _convert(answer, name)
    if array.ndim == 0:
        got = "None" if answer is None else f"one {type(answer).__name__}"
        raise ModelError(
            f"{name} returned {got} for the whole batch",
            remedy="return one answer per row, as an array, a list or a Series",
        )
    return array


def _convert(answer: Any, name: str) -> Array:
    if isinstance(answer, (list, tuple)):
        types = set(map(type, answer))
        # np.asarray would turn 1 and None beside text into text, and hide that they differ or are missing.
        if len(types) > 1 and not all(issubclass(kind, NUMERIC) for kind in types):
            return np.fromiter(answer, dtype=object, count=len(answer))
    if hasattr(answer, "detach") and hasattr(answer, "cpu"):
        answer = answer.detach().cpu()
    try:
        return np.asarray(answer)
    except (ValueError, TypeError) as error:
        why = next(iter(str(error).splitlines()), "")
        raise ModelError(
            f"{name} returned a {type(answer).__name__} that cannot become an array ({why})",
            remedy="return one answer per row, all of the same shape",
        ) from error


def as_labels(answer: Any, n: int, name: str, instead: Words = COMPARE) -> Array:
    """Return the answer as n labels, or raise ModelError; ``instead`` is the remedy for scores.

    >>> as_labels([[1.0], [0.0]], 2, "f")
    array([1, 0])
    >>> as_labels([0.2, 0.8], 2, "f")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    evenhand.errors.ModelError: f returned fractions (0.2, 0.8), which look like scores, not labels; use ...
    """
    array = to_array(answer, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ModelError(
            f"{name} returned labels of shape {array.shape}; one label per row is needed",
            remedy="with several outputs, wrap one: eh.wrap(lambda X: model.predict(X)[:, 0])",
        )
    _check_length(array, n, name)
    kind = array.dtype.kind
    if kind in PLAIN:
        return array
    if kind in "OTMm":
        array = _check_objects(array, name)
        kind = array.dtype.kind
    if kind == "f":
        if not np.isfinite(array).all():
            problem = f"{name} returned NaN or infinity as a label{_where(array)}"
            raise ModelError(problem, remedy="return a label for every row")
        fractions = array[array != np.rint(array)]
        if len(fractions):
            shown = ", ".join(map(number, fractions[:3].tolist()))
            raise ModelError(f"{name} returned fractions ({shown}), which look like scores, not labels", remedy=instead)
        # 2 and 2.0 are one decision, even if a model returns integers in one call and floats in the next.
        array = array.astype(np.int64) if np.abs(array).max(initial=0) < 2**53 else array
    elif kind in "cV":
        raise ModelError(f"{name} returned labels of type {array.dtype}", remedy="return integers, booleans or text")
    return array


def _check_objects(array: Array, name: str) -> Array:
    import pandas as pd

    values = array.tolist()
    types = set(map(type, values))
    if types == {str}:
        return array
    absent = pd.isna(array)
    if absent.any():
        row = int(absent.argmax())
        raise ModelError(
            f"{name} returned no label for {int(absent.sum())} of {len(array)} rows (first: row {row}, {array[row]!r})",
            remedy="return a label for every row",
        )
    unhashable = sorted(kind.__name__ for kind in types if kind.__hash__ is None)
    if unhashable:
        problem = f"{name} returned labels of type {some(unhashable)}, which cannot be compared"
        raise ModelError(problem, remedy="return numbers or text")
    # Numbers in an object array (from a list, a nullable column) are checked as the numbers they are.
    return np.asarray(values) if types and all(issubclass(kind, NUMERIC) for kind in types) else array


def as_scores(answer: Any, n: int, name: str) -> Floats:
    """Return the answer as n rows of finite float64 scores, or raise ModelError.

    >>> as_scores([0.25, 0.75], 2, "f")
    array([[0.25],
           [0.75]])
    """
    array = to_array(answer, name)
    if array.dtype.kind == "O" and all(issubclass(kind, NUMERIC) for kind in set(map(type, array.ravel().tolist()))):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        example = array.flat[0] if array.size else None
        raise ModelError(
            f"{name} was asked for scores and returned {array.dtype} values such as {example!r}",
            remedy=("return numbers, or ", *LABELS_ONLY),
        )
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ModelError(f"{name} returned scores of shape {array.shape}; (rows,) or (rows, classes) is needed")
    _check_length(array, n, name)
    scores = np.asarray(array, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ModelError(f"{name} returned NaN or infinity as a score{_where(scores)}", remedy="return finite numbers")
    return scores


def refuse_labels(answer: Array, name: str) -> None:
    """Raise where a single answer per row is an integer or a boolean: such answers are labels, not scores.

    >>> refuse_labels(np.array([0, 2]), "f")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    evenhand.errors.ModelError: f was asked for scores and returned labels, whole numbers such as 0; ...
    >>> refuse_labels(np.array([0.0, 2.0]), "f")
    """
    if answer.ndim > 1 and answer.shape[1:] != (1,):
        return
    kind = answer.dtype.kind
    if kind == "O":
        # Numbers from a list or a nullable column; one fraction among them makes all of them amounts.
        types = set(map(type, answer.ravel().tolist()))
        kind = "i" if types and all(issubclass(one, WHOLE) for one in types) else "O"
    if kind in "biu" and answer.size:
        what = "True and False" if kind == "b" else f"whole numbers such as {answer.flat[0]}"
        raise ModelError(
            f"{name} was asked for scores and returned labels, {what}",
            remedy=(*LABELS_ONLY, "; if they are amounts: ", REGRESSION),
        )


def as_gradients(answer: Any, shape: tuple[int, ...], name: str, instead: Words = WITHOUT_GRADIENTS) -> Floats:
    """Return the answer as finite gradients of the given shape, or raise ModelError.

    >>> as_gradients([[0.5, -1.0]], (1, 2), "f")
    array([[ 0.5, -1. ]])
    """
    array = to_array(answer, name)
    if array.dtype.kind not in "biuf":
        raise ModelError(f"{name} returned gradients of type {array.dtype}, not real numbers", remedy=instead)
    gradients = np.asarray(array, dtype=np.float64)
    if gradients.shape != shape:
        raise ModelError(f"{name} returned gradients of shape {gradients.shape}; {shape} is needed, as the rows have")
    if not np.isfinite(gradients).all():
        raise ModelError(f"{name} returned NaN or infinity as a gradient{_where(gradients)}", remedy=instead)
    return gradients


def _check_length(array: Array, n: int, name: str) -> None:
    if len(array) != n:
        raise ModelError(f"{name}: got {len(array)} answers for {n} rows", remedy="return one per row, in their order")


def _where(array: Array) -> str:
    rows = np.atleast_1d(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    return f" for {int(rows.sum())} of {len(rows)} rows (first: row {int(rows.argmax())})"


Kind = Literal["labels", "logits", "logs", "probabilities", "shares"]
"""What a network returns. Logs are logarithms of the probability of class 1; those of every class work like
logits. Shares are probabilities that sum to 1 in each row, as those of a softmax do and those of sigmoids do not."""

HIDDEN = "hidden"
"""Stands for an unknown operation."""
LINEAR = ("addmm", "mm", "linear", "baddbmm", "bmm", "mv", "addmv", "dot", "convolution", "mkldnnlinear")
"""Operations whose output at the end of a network is logits."""


def kind_of(values: Floats, head: str | None, name: str, rounding: float = 1e-5) -> Kind:
    """Infer what floating output means, from the operation that made it and from its values.

    >>> kind_of(np.array([[0.25, 0.75]]), None, "net")
    'shares'
    """
    bounded = bool(((values >= 0) & (values <= 1)).all())
    if values.ndim == 1:
        if head in ("sigmoid", "softmax"):
            return "probabilities"
        if head in ("logsigmoid", "logsoftmax"):
            return "logs"
        if head is None and (values >= 0).all() and (values == np.rint(values)).all():
            # Integers that cannot be differentiated: an argmax or a comparison, cast to floats.
            return "labels"
        if head in LINEAR or not bounded:
            return "logits"
        raise ModelError(
            f"{name} returns one number from 0 to 1 per row, which may be a probability or a logit",
            remedy="wrap a network that returns the probabilities of both classes, 1 - p and p, in two columns",
        )
    if bounded and np.allclose(values.sum(axis=1), 1, rtol=0, atol=rounding):
        return "shares"
    if head == "softmax" and len(values) > 1 and np.allclose(values.sum(axis=0), 1, rtol=0, atol=rounding):
        raise ModelError(
            f"the softmax of {name} runs over the rows, so that a prediction depends on the other rows in the batch",
            remedy="set dim=1 in the softmax",
        )
    return "probabilities" if head in ("sigmoid", "softmax") else "logits"


def probabilities(values: Floats, kind: Kind) -> Floats:
    """Turn output into one probability per class.

    >>> probabilities(np.array([0.0, 100.0]), "logits").round(3)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    if values.ndim == 2 and kind != "logits":
        return values
    if values.ndim == 2 and values.shape[1] > 2:
        return _softmax(values)
    if kind == "logits":
        chance = _expit(_margin(values))
    else:
        chance = np.exp(values) if kind == "logs" else values
    scores = np.empty((len(values), 2))
    scores[:, 1] = chance
    np.subtract(1, chance, out=scores[:, 0])
    return scores


def _margin(logits: Floats) -> Floats:
    """Return the lead of class 1: of two logits only the difference counts."""
    if logits.ndim == 1:
        return logits
    with np.errstate(invalid="ignore"):  # NaN from infinite logits is reported by the caller
        return np.subtract(logits[:, 1], logits[:, 0])


def _softmax(logits: Floats) -> Floats:
    # Classes first: NumPy is slow on many short sums.
    shares = np.array(logits.T, order="C")
    with np.errstate(invalid="ignore"):
        shares -= shares.max(axis=0)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=0)
    return np.ascontiguousarray(shares.T)


def _expit(values: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(values))


_AWAY = np.array([-1.0, 1.0])


def slopes(values: Floats, classes: Codes, kind: Kind, least: float = 0.0) -> Floats:
    """Differentiate the loss by the output; a probability below ``least`` counts as constant.

    The formulas keep their precision where a class is nearly certain, as a difference from 1 would not.

    >>> slopes(np.array([0.0]), np.array([1]), "logits")
    array([-0.5])
    """
    if kind == "logits" and (values.ndim == 1 or values.shape[1] == 2):
        sign = np.where(classes, -1.0, 1.0)
        lead: Floats = sign * _expit(sign * _margin(values))
        return lead if values.ndim == 1 else lead[:, np.newaxis] * _AWAY
    if kind == "logs":
        other = -np.expm1(values)
        away = np.where(other < least, 0.0, np.exp(values) / np.maximum(other, least))
        return np.where(classes == 1, -1.0, away)
    rows = np.arange(len(values))
    chances = probabilities(values, kind)
    if kind == "logits":
        chances[rows, classes] = 0
        chances[rows, classes] = -chances.sum(axis=1)
        return chances
    own = chances[rows, classes]
    slope: Floats = np.where(own < least, 0.0, 1 / np.maximum(own, least))
    if values.ndim == 1:
        return np.where(classes, -slope, slope)
    # A share is also 1 less the sum of the others: the better formula for one that is nearly 1.
    sure = own > (0.5 if kind == "shares" else np.inf)
    answer = np.repeat(np.where(sure, slope, 0.0)[:, np.newaxis], values.shape[1], axis=1)
    answer[rows, classes] = np.where(sure, 0.0, -slope)
    return answer
