"""Linear models, and boosters of trees that read one attribute each, as sums of one term per attribute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.models.base import Model, package_of
from evenhand.proofs.additive import Additive, terms_of
from evenhand.proofs.features import Features, read_features, unpack, unreadable
from evenhand.proofs.networks import Network
from evenhand.proofs.trees import Trees, attributes_of, logit
from evenhand.spaces.tabular import Space

_LINEAR = frozenset(
    {"LinearDiscriminantAnalysis", "LinearSVC", "LogisticRegression", "LogisticRegressionCV", "Perceptron"}
    | {"PassiveAggressiveClassifier", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier"}
)
TERMS = 4_096
"""Maximum number of different terms of an attribute that become leaves."""
_LOGISTIC = frozenset({"LogisticRegression", "LogisticRegressionCV"})


def read_linear(model: Model, space: Space) -> Additive | None:
    """Read a linear classifier; None if the model is another kind.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 4), Boolean("member")], protected="member")
    >>> model = LogisticRegression().fit([[1, 0], [2, 0], [3, 0], [4, 0]], [0, 0, 1, 1])
    >>> [len(terms) for terms in read_linear(wrap(model), space).terms]
    [4, 2]
    """
    steps, final = unpack(model.source)
    name = type(final).__name__
    if package_of(final) != "sklearn" or name not in _LINEAR:
        return None
    features = read_features(model, space, steps)
    coef = final.coef_.toarray() if hasattr(final.coef_, "toarray") else np.asarray(final.coef_)
    weights = np.atleast_2d(coef)
    if len(weights) != 1 or model.classes is None or len(model.classes) != 2:
        raise unreadable(f"{name} has {len(final.classes_)} classes, and only linear models with two can be read")
    if weights.shape[1] != len(features):
        raise unreadable(f"{name} has {weights.shape[1]} weights for {len(features)} columns")
    intercept = float(np.ravel(final.intercept_)[0]) if np.size(final.intercept_) else 0.0
    if not (np.isfinite(weights).all() and math.isfinite(intercept)):
        raise unreadable(f"{name} has a weight that is not a finite number")
    if any(np.isnan(values).any() for values in features.values):
        raise unreadable("a value is missing before its final step, which takes no missing values")
    cut, loose = 0.0, 0.0
    if model.threshold is not None:
        if name not in _LOGISTIC and hasattr(final, "predict_proba"):
            raise unreadable(f"{name} has probabilities of its own, which a threshold compares")
        cut, loose = logit(model.threshold) if name in _LOGISTIC else (float(model.threshold), 0.0)
    kind = np.result_type(features.dtype, np.asarray(coef).dtype)
    return _additive(features, weights[0].astype(np.float64), intercept, space, cut, loose, float(np.finfo(kind).eps))


def read_one_layer(network: Network, space: Space) -> Additive:
    """Read a network of one layer, which is a linear model."""
    layer = network.layers[0]
    # With two outputs, the errors of both add up.
    unit = network.unit * float(np.max(layer.spread[0] / np.maximum(np.abs(layer.weights), 1e-300), initial=1.0))
    base = float(layer.bias[0])
    return _additive(network.features, layer.weights[:, 0], base, space, network.cut, network.loose, unit)


def _additive(
    features: Features, weights: Any, intercept: float, space: Space, cut: float, loose: float, unit: float
) -> Additive:
    columns = list(zip(features.attribute, (v.astype(np.float64) for v in features.values), weights, strict=True))
    constant = [float(weight * values[0]) for attribute, values, weight in columns if attribute < 0]
    base = math.fsum([intercept, *constant])
    terms, alike, largest = terms_of([(a, v, float(w)) for a, v, w in columns], space.coding.sizes)
    whole = largest + abs(intercept) + sum(map(abs, constant)) + abs(cut)
    # Sums in any order, with fused products or not, err by less than half of this; so does our own sum.
    error = 4 * (len(weights) + len(terms) + 8) * unit * whole + 16 * loose
    if not math.isfinite(error):
        raise unreadable("its score can become infinite")
    return Additive(terms, base, cut, error, alike)


def additive_trees(trees: Trees, space: Space) -> Additive | None:
    """Read an ensemble whose trees read one attribute each, such as a booster of stumps; None for others."""
    reads = list(attributes_of(trees))
    if any(len(one) > 1 for one in reads):
        return None
    sizes = space.coding.sizes
    terms = [np.zeros(size) for size in sizes]
    tables: list[list[Any]] = [[] for _ in sizes]
    base = [trees.base]
    for root, attributes in zip(trees.roots.tolist(), reads, strict=True):
        attribute = next(iter(attributes), None)
        values = _by_code(trees, root, 1 if attribute is None else sizes[attribute])
        if attribute is None:
            base.append(float(values[0]))
        else:
            terms[attribute] += values
            tables[attribute].append(values)
    alike = [
        np.unique(np.column_stack(one), axis=0, return_inverse=True)[1].reshape(-1)
        if one
        else np.zeros(size, dtype=np.int64)
        for one, size in zip(tables, sizes, strict=True)
    ]
    return Additive(terms, math.fsum(base), trees.cut, 2 * trees.error, alike)


def sum_trees(additive: Additive) -> Trees:
    """Return a sum of terms as trees, one for each attribute, with a leaf for each term."""
    if any(len(np.unique(one)) > TERMS for one in additive.terms):
        raise unreadable(f"an attribute has more than {TERMS:,} different terms")
    attributes: list[int] = []
    tables: list[Any] = []
    nodes: list[tuple[int, int, int, float]] = []
    roots = []
    for column, terms in enumerate(additive.terms):
        values = np.unique(terms)
        if len(values) == 1 and not values[0]:
            continue
        first = len(tables)
        attributes += [column] * (len(values) - 1)
        tables += [terms < value for value in values[1:]]
        roots.append(len(nodes))
        # Nodes of a balanced search among the sorted terms: test ``first + i`` divides them before number i + 1.
        todo = [(len(nodes), 0, len(values) - 1)]
        nodes.append((-1, -1, -1, 0.0))
        while todo:
            node, low, high = todo.pop()
            if low == high:
                nodes[node] = (-1, -1, -1, float(values[low]))
                continue
            middle, left = (low + high) // 2, len(nodes)
            nodes[node] = (first + middle, left, left + 1, 0.0)
            nodes += [(-1, -1, -1, 0.0)] * 2
            todo += [(left, low, middle), (left + 1, middle + 1, high)]
    if not roots:
        roots, nodes = [0], [(-1, -1, -1, 0.0)]
    test, left_, right, value = (np.array(part) for part in zip(*nodes, strict=True))
    return Trees(
        np.array(attributes, dtype=np.int64), tables, test, left_, right, value.astype(np.float64), np.array(roots),
        base=additive.base, cut=additive.cut, error=2 * additive.error, unit="decision function",
    )  # fmt: skip


def _by_code(trees: Trees, root: int, size: int) -> Any:
    """Return the value of the leaf that each code of a tree's attribute reaches."""
    out = np.zeros(size)
    todo = [(root, np.arange(size))]
    while todo:
        node, codes = todo.pop()
        test = trees.test[node]
        if test < 0:
            out[codes] = trees.value[node]
            continue
        table = trees.tables[test]
        left = table[codes] if trees.attribute[test] >= 0 else np.full(len(codes), bool(table[0]))
        todo += [(trees.left[node], codes[left]), (trees.right[node], codes[~left])]
    return out
