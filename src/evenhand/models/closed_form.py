"""Gradients of linear classifiers and networks of scikit-learn, in closed form.

A linear classifier is a network without hidden layers, and affine steps before either (scalers, projections) are
folded into its first layer. So there is one form for all of them: layers, an activation between them, and a loss.

Nothing here imports scikit-learn: estimators are recognised by the names of their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from evenhand.models.base import Codes, Floats, Rows, package_of
from evenhand.models.outputs import slopes

Layer: TypeAlias = tuple[Floats, Floats]
Loss: TypeAlias = Callable[[Floats, Codes], Floats]
"""From the values of the last layer, and a class for each row, to the derivative of the loss by these values."""

_LINEAR = frozenset(
    {"LinearDiscriminantAnalysis", "LinearSVC", "LogisticRegression", "LogisticRegressionCV", "Perceptron"}
    | {"PassiveAggressiveClassifier", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier"}
)
_AFFINE = frozenset(
    {"IncrementalPCA", "MaxAbsScaler", "MinMaxScaler", "PCA", "RobustScaler", "SelectKBest", "SelectPercentile"}
    | {"StandardScaler", "TruncatedSVD", "VarianceThreshold"}
)
# Far from the origin, the difference that a step of one makes would be lost in rounding. For an affine map no step is
# too long, and dividing by a power of two is exact.
_STEP = 2.0**20
PIECE, FEWEST = 112 * 1024, 256
"""Bytes for the values of one layer, since larger blocks of memory are slow to get, and the fewest rows at once."""


def derive(estimator: Any) -> ClosedForm | None:
    """Return the closed form of a fitted estimator's gradients, or None where there is none.

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
        # Not before the first use: with very many columns it takes a while, and most audits never need it.
        if not self.steps:
            return self.layers
        (weights, bias), *others = self.layers
        matrix, shift = _affine(self.steps)
        return ((matrix @ weights, shift @ weights + bias), *others)


def differentiate(
    rows: Floats, layers: Sequence[Layer], activations: Sequence[str], loss: Loss, classes: Codes
) -> Floats:
    """Push rows through layers (weights and bias), and the derivative of their loss back to their columns.

    ``activations`` stand between one layer and the next: identity, logistic, tanh or relu.

    >>> layers = [(np.array([[2.0]]), np.array([1.0])), (np.array([[3.0]]), np.array([0.0]))]
    >>> one = lambda values, classes: np.ones_like(values)
    >>> differentiate(np.array([[1.0], [-1.0]]), layers, ["relu"], one, np.array([0, 0])).tolist()
    [[6.0], [0.0]]
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
    """Return the matrix and the shift that fitted affine steps amount to."""
    width = steps[0].n_features_in_
    rows: Any = np.vstack([np.zeros(width), np.eye(width) * _STEP])
    names = getattr(steps[0], "feature_names_in_", None)
    if names is not None:
        import pandas as pd

        rows = pd.DataFrame(rows, columns=names)
    for step in steps:
        rows = step.transform(rows)
    answers = _floats(rows)
    return (answers[1:] - answers[0]) / _STEP, answers[0]


def _linear(final: Any) -> tuple[list[Layer], str, Loss | None]:
    coef = final.coef_
    weights = np.atleast_2d(_floats(coef.toarray() if hasattr(coef, "toarray") else coef)).T
    bias = np.broadcast_to(_floats(final.intercept_), weights.shape[1])  # without an intercept, it may be one zero
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


# What a hidden layer makes of its values, and the derivative of that in terms of the result.
_ACTIVATIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Any]]] = {
    "identity": (lambda values: values, np.ones_like),
    "logistic": (lambda values: 0.5 + 0.5 * np.tanh(0.5 * values), lambda outputs: outputs * (1 - outputs)),
    "tanh": (lambda values: np.tanh(values, out=values), lambda outputs: 1 - outputs * outputs),
    "relu": (lambda values: np.maximum(values, 0, out=values), lambda outputs: outputs > 0),
}
