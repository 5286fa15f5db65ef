"""What a network's output stands for, its probabilities, and how the loss changes with it: plain NumPy."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.model.protocol import Floats

Kind = Literal["labels", "logits", "logs", "probabilities", "shares"]
"""What a network returns. Logs are logarithms of the probability of class 1; those of every class are as good as
logits. Shares are probabilities that add up to 1 in each row, as a softmax makes them and sigmoids do not."""

HIDDEN = "hidden"
"""Stands for an operation that cannot be told."""
LINEAR = ("addmm", "mm", "linear", "baddbmm", "bmm", "mv", "addmv", "dot", "convolution", "mkldnnlinear")
"""Operations that end a network without a squashing function: what they make are logits."""


def kind_of(values: Floats, head: str | None, name: str, rounding: float = 1e-5) -> Kind:
    """Tell what floating output stands for, from the operation that made it and from its values.

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
            # Whole numbers that cannot be differentiated: an argmax or a comparison, made floats.
            return "labels"
        if head in LINEAR or not bounded:
            return "logits"
        raise ModelError(
            f"{name} returns one number from 0 to 1 per row: is it a probability or a logit? It cannot be seen.\n"
            "Wrap a network that returns the probabilities of both classes, 1 - p and p, in two columns."
        )
    if bounded and np.allclose(values.sum(axis=1), 1, rtol=0, atol=rounding):
        return "shares"
    if head == "softmax" and len(values) > 1 and np.allclose(values.sum(axis=0), 1, rtol=0, atol=rounding):
        raise ModelError(
            f"The softmax of {name} runs over the rows: an answer depends on who else is asked about.\n"
            "Give the softmax dim=1."
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
    """Return by how much class 1 leads: of two logits only the difference counts."""
    if logits.ndim == 1:
        return logits
    with np.errstate(invalid="ignore"):  # NaN from infinite logits is found, and said, by those who ask
        return np.subtract(logits[:, 1], logits[:, 0])


def _softmax(logits: Floats) -> Floats:
    # Classes first: numpy is slow at many short sums.
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


def slopes(values: Floats, classes: npt.NDArray[np.int64], kind: Kind, least: float) -> Floats:
    """Differentiate the loss by the output; a probability below ``least`` counts as constant.

    The formulas keep their precision where a class is nearly certain: there a difference from 1 would be lost.

    >>> slopes(np.array([0.0]), np.array([1]), "logits", 0.0)
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
    # A share is also what the others leave, 1 less their sum: the better formula for one that is nearly 1.
    sure = own > (0.5 if kind == "shares" else np.inf)
    answer = np.repeat(np.where(sure, slope, 0.0)[:, np.newaxis], values.shape[1], axis=1)
    answer[rows, classes] = np.where(sure, 0.0, -slope)
    return answer
