"""Closed-form gradients of scikit-learn's linear classifiers and networks.

A linear classifier is a network without hidden layers, and affine steps before either (scalers, projections) are
folded into its first layer. So there is one form for all of them: layers, an activation between them, and a loss.

Nothing here imports scikit-learn: estimators are recognised by the names of their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.models.base import Codes, Floats, Rows, package_of
from evenhand.spaces.frames import pd

Kind = Literal["labels", "logits", "logs", "probabilities", "shares"]
"""The kinds of output of a network. Logs are logarithms of the probability of class 1; those of every class work like
logits. Shares are probabilities that sum to 1 in each row: those of a softmax do, those of sigmoids do not."""
Layer: TypeAlias = tuple[Floats, Floats]
Loss: TypeAlias = Callable[[Floats, Codes], Floats]
"""Computes, from the values of the last layer and a class for each row, the derivative of the loss by these values."""

_LINEAR = frozenset(
    {"LinearDiscriminantAnalysis", "LinearSVC", "LogisticRegression", "LogisticRegressionCV", "Perceptron"}
    | {"PassiveAggressiveClassifier", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier"}
)
_AFFINE = frozenset(
    {"IncrementalPCA", "MaxAbsScaler", "MinMaxScaler", "PCA", "RobustScaler", "SelectKBest", "SelectPercentile"}
    | {"StandardScaler", "TruncatedSVD", "VarianceThreshold"}
)
# Far from the origin, the effect of a step of one would be lost in rounding. For an affine map no step is too long, and
# dividing by a power of two is exact.
_STEP = 2.0**20
PIECE, FEWEST = 512 * 1024, 256
"""Bytes for the values of one layer, because large blocks of memory are slow to allocate; and minimum rows."""


def derive(estimator: Any) -> ClosedForm | None:
    """Return the closed form of a fitted estimator's gradients, or None if there is none.

    There is one for linear classifiers and for `MLPClassifier`, alone, behind affine steps of a pipeline, and as
    the best of a search.

    The loss is the cross-entropy, -log p, of the row's class. Where the classifier learns to give probabilities, p is
    that of ``predict_proba``: logistic and discriminant models, networks, and `SGDClassifier` with
    ``loss="log_loss"``, which for more than two classes divides a logistic function of each decision value by the sum
    of them. Elsewhere p is the softmax of the decision values or, for two classes, the logistic function of the one
    value: support vectors, ridges, and `SGDClassifier` with any other loss.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> form = derive(LogisticRegression().fit(X, y))
    >>> form(X, y).round(2).tolist()  # in either class, those near the boundary are the least certain
    [[0.18], [0.37], [-0.37], [-0.18]]
    >>> derive(DecisionTreeClassifier().fit(X, y)) is None
    True
    """
    *steps, final = _chain(estimator)
    if package_of(final) != "sklearn" or not all(map(_is_affine, steps)):
        return None
    if type(final).__name__ in _LINEAR:
        layers, activation, loss = _linear(final)
    elif type(final).__name__ == "MLPClassifier":
        layers, activation, loss = _network(final)
    else:
        return None
    if loss is None or len(final.classes_) < 2:
        return None
    return ClosedForm(tuple(steps), tuple(layers), activation, loss)


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Differentiates a loss by the columns of rows; made by `derive`."""

    steps: tuple[Any, ...]
    layers: tuple[Layer, ...]
    activation: str
    loss: Loss

    def __call__(self, X: Rows, classes: Codes) -> Floats:
        """Return the gradients of the losses of these rows, by their columns."""
        activations = [self.activation] * (len(self.layers) - 1)
        return differentiate(_floats(X), self._folded, activations, self.loss, classes)

    @cached_property
    def _folded(self) -> tuple[Layer, ...]:
        # Only on first use: it is slow with very many columns, and most audits never need it.
        if not self.steps:
            return self.layers
        (weights, bias), *others = self.layers
        matrix, shift = _affine(self.steps)
        return ((matrix @ weights, shift @ weights + bias), *others)


def differentiate(
    rows: Floats, layers: Sequence[Layer], activations: Sequence[str], loss: Loss, classes: Codes
) -> Floats:
    """Propagate rows through layers (weights and bias), and the derivative of their loss back to their columns.

    ``activations`` stand between one layer and the next: identity, logistic, tanh or relu.
    """
    widest = max(weights.shape[1] for weights, _ in layers) * rows.itemsize
    size = max(FEWEST, PIECE // widest)
    parts = [
        _differentiate(rows[i : i + size], layers, activations, loss, classes[i : i + size])
        for i in range(0, len(rows), size)
    ]
    return np.concatenate(parts) if parts else np.zeros_like(rows)


def _differentiate(
    rows: Floats, layers: Sequence[Layer], activations: Sequence[str], loss: Loss, classes: Codes
) -> Floats:
    values, outputs = rows, []
    for (weights, bias), name in zip(layers[:-1], activations, strict=True):
        values = values @ weights
        values += bias
        values = _ACTIVATIONS[name][0](values)
        outputs.append(values)
    weights, bias = layers[-1]
    gradients: Floats = loss(values @ weights + bias, classes) @ weights.T
    for (weights, _), name, output in zip(layers[-2::-1], activations[::-1], outputs[::-1], strict=True):
        gradients *= _ACTIVATIONS[name][1](output)
        gradients = gradients @ weights.T
    return gradients


def _chain(estimator: Any) -> list[Any]:
    """List the steps that rows go through, with pipelines and searches unpacked."""
    if estimator is None or isinstance(estimator, str):  # None and "passthrough" are steps that do nothing
        return []
    if package_of(estimator) == "sklearn":
        if type(estimator).__name__ == "Pipeline":
            return [part for _, step in estimator.steps for part in _chain(step)]
        if hasattr(estimator, "best_estimator_"):
            return _chain(estimator.best_estimator_)
    return [estimator]


def _is_affine(step: Any) -> bool:
    known = package_of(step) == "sklearn" and type(step).__name__ in _AFFINE
    return known and not getattr(step, "clip", False)


def _affine(steps: Sequence[Any]) -> Layer:
    """Return the matrix and the shift that are equivalent to fitted affine steps."""
    width = steps[0].n_features_in_
    rows: Any = np.vstack([np.zeros(width), np.eye(width) * _STEP])
    names = getattr(steps[0], "feature_names_in_", None)
    if names is not None:
        rows = pd.DataFrame(rows, columns=names)
    for step in steps:
        rows = step.transform(rows)
    answers = _floats(rows)
    return (answers[1:] - answers[0]) / _STEP, answers[0]


def _linear(final: Any) -> tuple[list[Layer], str, Loss | None]:
    coef = final.coef_
    weights = np.atleast_2d(_floats(coef.toarray() if hasattr(coef, "toarray") else coef)).T
    bias = np.broadcast_to(_floats(final.intercept_), weights.shape[1])  # without an intercept, it may be a single zero
    return [(weights, bias)], "identity", _linear_loss(final, weights.shape[1])


def _linear_loss(final: Any, width: int) -> Loss | None:
    binarizer = getattr(final, "_label_binarizer", None)
    if binarizer is not None and binarizer.y_type_.startswith("multilabel"):
        return None
    one_vs_rest = getattr(final, "loss", None) == "log_loss"
    if type(final).__name__.startswith("LogisticRegression"):
        # Before version 1.8, this was a parameter. Newer versions ignore it in old files.
        multi_class = final.get_params(deep=False).get("multi_class")
        if multi_class == "multinomial" and width == 1:
            return _symmetric
        one_vs_rest = multi_class == "ovr" or (
            multi_class is not None and multi_class != "multinomial" and final.solver == "liblinear"
        )
    return _normalised if one_vs_rest and width > 1 else _cross_entropy


def _network(final: Any) -> tuple[list[Layer], str, Loss | None]:
    layers = [(_floats(weights), _floats(bias)) for weights, bias in zip(final.coefs_, final.intercepts_, strict=True)]
    # A logistic function at the end of several outputs is for several labels at once.
    known = (final.out_activation_, final.n_outputs_ == 1) in (("logistic", True), ("softmax", False))
    return layers, final.activation, _cross_entropy if known else None


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _cross_entropy(values: Floats, classes: Codes) -> Floats:
    """For the logistic function of a single value, else the softmax."""
    return (
        slopes(values[:, 0], classes, "logits")[:, np.newaxis]
        if values.shape[1] == 1
        else slopes(values, classes, "logits")
    )


def _symmetric(values: Floats, classes: Codes) -> Floats:
    """For the softmax of minus and plus a value."""
    return 2 * _cross_entropy(2 * values, classes)


def _normalised(values: Floats, classes: Codes) -> Floats:
    """For logistic functions divided by their sum: the softmax of their logarithms."""
    return slopes(-np.logaddexp(0.0, -values), classes, "logits") * np.exp(-np.logaddexp(0.0, values))


# The activations of hidden layers, and their derivatives in terms of the result.
_ACTIVATIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Any]]] = {
    "identity": (lambda values: values, np.ones_like),
    "logistic": (lambda values: 0.5 + 0.5 * np.tanh(0.5 * values), lambda outputs: outputs * (1 - outputs)),
    "tanh": (lambda values: np.tanh(values, out=values), lambda outputs: 1 - outputs * outputs),
    "relu": (lambda values: np.maximum(values, 0, out=values), lambda outputs: outputs > 0),
}


# The derivative of the loss by the output of a network; torch and Keras determine the kind of output.


def probabilities(values: Floats, kind: Kind) -> Floats:
    """Convert output to one probability per class."""
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
    """Return the margin of class 1: of two logits, only the difference counts."""
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

    The formulas stay precise if a class is nearly certain, unlike a difference from 1.
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
    # A share is also 1 minus the sum of the others, which is more precise if it is nearly 1.
    sure = own > (0.5 if kind == "shares" else np.inf)
    answer = np.repeat(np.where(sure, slope, 0.0)[:, np.newaxis], values.shape[1], axis=1)
    answer[rows, classes] = np.where(sure, 0.0, -slope)
    return answer
