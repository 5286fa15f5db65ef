"""Trees of all libraries in one form: nodes in arrays, and the tests as tables over the codes of attributes.

A table says which codes of an attribute go left. It is computed from the values that the estimator gets, compared as
its library compares them: scikit-learn and XGBoost in 32-bit floats, LightGBM and HistGradientBoosting in 64 bits, each
with its own rule for missing values. After that, no number is compared any more, only codes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.models.base import Model, package_of
from evenhand.models.boosters import BoosterModel
from evenhand.proofs.domain import Ints
from evenhand.proofs.features import Features, read_features, unpack, unreadable
from evenhand.spaces.tabular import Space

Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees, and how they decide.

    With ``labels``, there is one tree, and ``value`` is the position of a leaf's decision among the model's. Otherwise
    the score is the sum of ``base`` and one ``value`` of each tree, and decides for the second class above ``cut``;
    ``error`` bounds the rounding errors of the model's score.
    """

    attribute: Ints
    """The column of the space that each test reads; -1 where it reads a constant."""
    tables: list[Mask]
    """Which codes of that column go left, by test."""
    test: Ints
    """The test of each node; -1 for leaves."""
    left: Ints
    right: Ints
    value: Floats
    """By node; 0 for inner nodes."""
    roots: Ints
    labels: bool = False
    base: float = 0.0
    cut: float = 0.0
    error: float = 0.0
    unit: str = "log-odds"
    """What a score is, times ``scale``."""
    scale: float = 1.0

    @property
    def depth(self) -> int:
        """The largest number of tests on a path."""
        level, nodes = 0, self.roots
        while len(nodes := nodes[self.test[nodes] >= 0]):
            nodes, level = np.concatenate([self.left[nodes], self.right[nodes]]), level + 1
        return level


@dataclass
class Builder:
    """Collects the nodes of trees."""

    features: Features
    attribute: list[int] = field(default_factory=list)
    tables: list[Mask] = field(default_factory=list)
    parts: list[tuple[Ints, Ints, Ints, Floats]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    size: int = 0
    _known: dict[Any, int] = field(default_factory=dict)
    _same: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def test(self, column: int, key: Any, left: Callable[[npt.NDArray[Any]], Mask]) -> int:
        """Return the number of a test; ``left`` says which values of the column go left, ``key`` names it."""
        if (column, key) not in self._known:
            if not 0 <= column < len(self.features):
                raise unreadable(f"it reads column {column} of {len(self.features)}")
            table = np.asarray(left(self.features.values[column]), dtype=bool)
            same = self.features.attribute[column], table.tobytes()
            if same not in self._same:
                self._same[same] = len(self.tables)
                self.attribute.append(same[0])
                self.tables.append(table)
            self._known[column, key] = self._same[same]
        return self._known[column, key]

    def add(self, test: Any, left: Any, right: Any, value: Any) -> None:
        """Add a tree, whose root is its node 0."""
        test, value = np.asarray(test, dtype=np.int64), np.asarray(value, dtype=np.float64)
        if not np.isfinite(value).all():
            raise unreadable("a leaf has a value that is not a finite number")
        self.roots.append(self.size)
        moved = [np.where(test >= 0, np.asarray(side, dtype=np.int64) + self.size, -1) for side in (left, right)]
        self.parts.append((test, moved[0], moved[1], np.where(test >= 0, 0.0, value)))
        self.size += len(test)

    def trees(self, **how: Any) -> Trees:
        """Return all trees together."""
        if not self.parts:
            self.add([-1], [-1], [-1], [0.0])
        test, left, right, value = (np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        attribute = np.array(self.attribute, dtype=np.int64)
        return Trees(attribute, self.tables, test, left, right, value, np.array(self.roots), **how)


def read_trees(model: Model, space: Space) -> Trees | None:
    """Read a model made of trees; None if it is another kind of model.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 4), Boolean("member")], protected="member")
    >>> tree = DecisionTreeClassifier(random_state=0).fit([[1, 0], [2, 0], [3, 0], [4, 0]], [0, 0, 1, 1])
    >>> trees = read_trees(wrap(tree), space)
    >>> trees.attribute.tolist(), [table.tolist() for table in trees.tables], trees.value.tolist()
    ([0], [[True, True, False, False]], [0.0, 0.0, 1.0])
    """
    steps, final = unpack(model.source)
    package, name = package_of(final), type(final).__name__
    if isinstance(model, BoosterModel) or package in ("xgboost", "lightgbm"):
        read = {"xgboost": _read_xgboost, "lightgbm": _read_lightgbm}.get(package)
        return None if read is None else read(model, final, Builder(read_features(model, space, steps)))
    if package != "sklearn" or name not in _SKLEARN:
        return None
    if name.startswith("HistGradientBoosting") and getattr(final, "_preprocessor", None) is not None:
        raise unreadable("HistGradientBoosting with categorical_features encodes columns itself")
    return _SKLEARN[name](model, final, Builder(read_features(model, space, steps)))


def logit(threshold: float) -> tuple[float, float]:
    """Return the score at which a logistic function reaches a threshold, and how far rounding may move that.

    >>> logit(0.5)[0]
    0.0
    """
    if not 0 < threshold < 1:
        raise ModelError(
            "must be between 0 and 1 for a proof", parameter="threshold", value=threshold, remedy="leave it out"
        )
    return math.log(threshold / (1 - threshold)), 1e-15 / (threshold * (1 - threshold))


def rounding(trees: int, largest: float, dtype: Any = np.float64) -> float:
    """Bound the rounding error of a sum of so many values, whose absolute values add up to at most ``largest``."""
    return 4 * (trees + 4) * float(np.finfo(dtype).eps) * (largest + 1)


def largest_sum(trees: Trees) -> float:
    """Return the largest possible sum of the absolute values of one leaf of each tree."""
    edges = np.append(trees.roots, len(trees.value))
    return math.fsum(np.abs(np.maximum.reduceat(np.abs(trees.value), edges[:-1])).tolist()) + abs(trees.base)


def _two_classes(model: Model, final: Any) -> None:
    if model.classes is None or len(model.classes) != 2:
        count = "no" if model.classes is None else len(model.classes)
        raise unreadable(f"{type(final).__name__} has {count} classes, and only ensembles with two can be read")


def _sklearn_nodes(builder: Builder, tree: Any) -> list[int]:
    missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count, dtype=bool))
    tests = []
    for column, threshold, left, absent in zip(
        tree.feature.tolist(), tree.threshold.tolist(), tree.children_left.tolist(), np.asarray(missing).tolist(),
        strict=True,
    ):  # fmt: skip
        if left < 0:
            tests.append(-1)
            continue

        def goes_left(values: npt.NDArray[Any], at: float = threshold, to_left: Any = absent) -> Mask:
            narrow = values.astype(np.float32)
            return np.where(np.isnan(narrow), bool(to_left), narrow.astype(np.float64) <= at)

        tests.append(builder.test(column, (threshold, bool(absent)), goes_left))
    return tests


def _leaf_shares(final: Any, tree: Any) -> Floats:
    if final.n_outputs_ > 1:
        raise unreadable(f"{type(final).__name__} makes {final.n_outputs_} decisions at once")
    return np.asarray(tree.value[:, 0, :], dtype=np.float64)


def _read_tree(model: Model, final: Any, builder: Builder) -> Trees:
    tree = final.tree_
    shares = _leaf_shares(final, tree)
    if not np.isfinite(shares).all():
        raise unreadable("a leaf has a value that is not a finite number")
    value = shares.argmax(axis=1) if model.threshold is None else shares[:, -1] >= model.threshold
    builder.add(_sklearn_nodes(builder, tree), tree.children_left, tree.children_right, value)
    return builder.trees(labels=True)


def _read_forest(model: Model, final: Any, builder: Builder) -> Trees:
    _two_classes(model, final)
    count = len(final.estimators_)
    for one in final.estimators_:
        shares = _leaf_shares(final, one.tree_)
        value = shares[:, 1] - shares[:, 0] if model.threshold is None else shares[:, 1]
        tree = one.tree_
        builder.add(_sklearn_nodes(builder, tree), tree.children_left, tree.children_right, value / count)
    scale = 0.5 if model.threshold is None else 1.0
    return builder.trees(cut=model.threshold or 0.0, error=rounding(count, 1.0), unit="probability", scale=scale)


def _logistic(model: Model, builder: Builder, base: float, dtype: Any = np.float64, scale: float = 1.0) -> Trees:
    """Decide by a sum of trees whose logistic function is a probability, or directly above zero."""
    cut, loose = (0.0, 1e-15) if model.threshold is None else logit(model.threshold)
    eps = float(np.finfo(dtype).eps) / float(np.finfo(np.float64).eps)
    trees = builder.trees(base=base, cut=cut / scale)
    error = rounding(len(trees.roots), largest_sum(trees) + abs(cut), dtype) + 16 * loose * eps / scale
    return builder.trees(base=base, cut=cut / scale, error=error, scale=scale)


def _read_gradient_boosting(model: Model, final: Any, builder: Builder) -> Trees:
    _two_classes(model, final)
    if type(final.init_).__name__ != "DummyClassifier" and final.init_ != "zero":
        raise unreadable(f"GradientBoosting starts from a {type(final.init_).__name__}")
    for one in final.estimators_[:, 0]:
        tree = one.tree_
        value = final.learning_rate * tree.value[:, 0, 0]
        builder.add(_sklearn_nodes(builder, tree), tree.children_left, tree.children_right, value)
    base = np.asarray(final._raw_predict_init(np.zeros((1, final.n_features_in_), dtype=np.float32)))
    if final.loss == "exponential":
        raise unreadable("GradientBoosting with loss='exponential' has other probabilities")
    return _logistic(model, builder, float(base.ravel()[0]))


def _read_hist(model: Model, final: Any, builder: Builder) -> Trees:
    _two_classes(model, final)
    for (one,) in final._predictors:
        nodes, tests = one.nodes, []
        if nodes["is_categorical"].any():
            raise unreadable("HistGradientBoosting has splits by categories")
        fields = ("is_leaf", "feature_idx", "num_threshold", "missing_go_to_left")
        for leaf, column, threshold, absent in zip(*(nodes[name].tolist() for name in fields), strict=True):
            if leaf:
                tests.append(-1)
                continue

            def goes_left(values: npt.NDArray[Any], at: float = threshold, to_left: Any = absent) -> Mask:
                return np.where(np.isnan(values), bool(to_left), values.astype(np.float64) <= at)

            tests.append(builder.test(column, (threshold, bool(absent)), goes_left))
        builder.add(tests, nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), nodes["value"])
    return _logistic(model, builder, float(np.ravel(final._baseline_prediction)[0]))


def _read_xgboost(model: Model, final: Any, builder: Builder) -> Trees:
    booster = final.get_booster() if hasattr(final, "get_booster") else final
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective, kind = learner["objective"]["name"], learner["gradient_booster"]["name"]
    if objective not in ("binary:logistic", "binary:logitraw") or kind != "gbtree":
        raise unreadable(f"XGBoost with objective {objective} and booster {kind} is not a sum of trees for two classes")
    _two_classes(model, final)
    trees = learner["gradient_booster"]["model"]["trees"]
    if hasattr(final, "get_booster"):  # its predict stops at the best iteration
        best = booster.attr("best_iteration")
        trees = trees if best is None else trees[: booster[: int(best) + 1].num_boosted_rounds() * _parallel(learner)]
    for one in trees:
        if any(one.get("split_type", [])):
            raise unreadable("XGBoost has splits by categories")
        tests = []
        fields = (one["left_children"], one["split_indices"], one["split_conditions"], one["default_left"])
        for left, column, threshold, absent in zip(*fields, strict=True):
            if left < 0:
                tests.append(-1)
                continue

            def goes_left(values: npt.NDArray[Any], at: float = threshold, to_left: Any = absent) -> Mask:
                narrow = values.astype(np.float32)
                return np.where(np.isnan(narrow), bool(to_left), narrow < np.float32(at))

            tests.append(builder.test(column, (threshold, bool(absent)), goes_left))
        value = np.asarray(one["split_conditions"], dtype=np.float32)
        builder.add(tests, one["left_children"], one["right_children"], value)
    start = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    base = start if objective == "binary:logitraw" else logit(start)[0]
    if objective == "binary:logitraw" and model.threshold is not None:
        out = builder.trees(base=base, cut=model.threshold)
        return builder.trees(
            base=base,
            cut=model.threshold,
            error=rounding(len(trees), largest_sum(out) + abs(model.threshold), np.float32),
        )
    return _logistic(model, builder, base, np.float32)


def _parallel(learner: Any) -> int:
    return int(learner["gradient_booster"]["model"]["gbtree_model_param"].get("num_parallel_tree", 1))


def _read_lightgbm(model: Model, final: Any, builder: Builder) -> Trees:
    booster = final.booster_ if hasattr(final, "booster_") else final
    dump = booster.dump_model()
    objective = str(dump.get("objective", "")).split()
    if not objective or objective[0] != "binary" or dump.get("average_output"):
        raise unreadable(f"LightGBM with objective {' '.join(objective)!r} is not a sum of trees for two classes")
    _two_classes(model, final)
    scale = next((float(word.partition(":")[2]) for word in objective if word.startswith("sigmoid:")), 1.0)
    for info in dump["tree_info"]:
        nodes: list[tuple[int, int, int, float]] = []
        _lightgbm_nodes(builder, info["tree_structure"], nodes)
        builder.add(*zip(*nodes, strict=True))
    return _logistic(model, builder, 0.0, scale=scale)


def _lightgbm_nodes(builder: Builder, node: Any, nodes: list[tuple[int, int, int, float]]) -> int:
    at = len(nodes)
    if "split_index" not in node:
        if "leaf_const" in node:
            raise unreadable("LightGBM has linear trees")
        nodes.append((-1, -1, -1, float(node["leaf_value"])))
        return at
    nodes.append((0, 0, 0, 0.0))
    kind, threshold, missing = node["decision_type"], node["threshold"], node["missing_type"]
    absent = bool(node["default_left"])
    if kind == "==":
        listed = [int(one) for one in str(threshold).split("||")]

        def goes_left(values: npt.NDArray[Any]) -> Mask:
            known = ~np.isnan(values) & (values >= 0)
            return np.asarray(known & np.isin(np.where(known, values, -1).astype(np.int64), listed), dtype=bool)
    else:

        def goes_left(values: npt.NDArray[Any]) -> Mask:
            unknown = np.isnan(values)
            plain = np.where(unknown, 0.0, values)
            default = {"None": np.zeros(len(values), dtype=bool), "NaN": unknown}.get(
                missing, unknown | (np.abs(plain) <= 1e-35)
            )
            return np.where(default, absent, plain <= float(threshold))

    test = builder.test(int(node["split_feature"]), (kind, str(threshold), missing, absent), goes_left)
    left = _lightgbm_nodes(builder, node["left_child"], nodes)
    nodes[at] = (test, left, _lightgbm_nodes(builder, node["right_child"], nodes), 0.0)
    return at


_SKLEARN: dict[str, Callable[[Model, Any, Builder], Trees]] = {
    "DecisionTreeClassifier": _read_tree,
    "ExtraTreeClassifier": _read_tree,
    "RandomForestClassifier": _read_forest,
    "ExtraTreesClassifier": _read_forest,
    "GradientBoostingClassifier": _read_gradient_boosting,
    "HistGradientBoostingClassifier": _read_hist,
}


def attributes_of(trees: Trees) -> Iterable[set[int]]:
    """Yield, for each tree, the columns of the space that it reads."""
    edges = np.append(trees.roots, len(trees.test))
    for start, end in itertools.pairwise(edges.tolist()):
        tests = trees.test[start:end]
        yield set(trees.attribute[tests[tests >= 0]].tolist()) - {-1}
