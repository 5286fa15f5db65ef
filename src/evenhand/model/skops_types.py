"""What a skops file may create without being asked about: an explicit list, and trees whose nodes were checked.

skops trusts the public estimators of scikit-learn and asks about everything else, and fitted models hold some of that.
Allowed here is what only holds data or computes with it, each by its exact name: a prefix such as ``sklearn.`` or
``numpy.`` would let in functions that read files or run code.

Trees hold node numbers that scikit-learn follows without looking. A forged file could lead it out of its memory, so the
numbers are checked after loading, before anything is asked of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError

TREE = "sklearn.tree._tree.Tree"
HISTOGRAM_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TREES = (TREE, HISTOGRAM_TREE)
"""Allowed because `check_trees` looks at what is in them."""
OWN = ("evenhand.repairing.marginal.Marginal",)
"""Our own types: they hold a model, whose types are looked at, and texts and numbers."""
HARMLESS = (
    "numpy.dtype",
    "sklearn._loss.loss.HalfTweedieLoss",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.CompoundKernel",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._classification.balanced_accuracy_score",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)
"""Types and functions of scikit-learn and NumPy that hold or compute numbers and do nothing else.

Left out on purpose: neighbour trees, which hold places in memory as other trees do and are not checked; partial calls
and bound methods, which call whatever they are given.
"""


def check_trees(loaded: Any) -> None:
    """Raise where following the nodes of a tree in a loaded model could lead out of its memory, or never end.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> check_trees(DecisionTreeClassifier().fit([[0], [1]], [0, 1]))
    """
    for node, ensembles in _walk(loaded):
        kind = _name(node)
        if kind == TREE:
            # The estimator that holds a tree makes sure that rows are as wide as it says; a tree alone cannot.
            holder = ensembles[-1] if ensembles else None
            _require(getattr(holder, "tree_", None) is node, "a tree stands outside of an estimator")
            _check_tree(node, _width(ensembles))
        elif kind == HISTOGRAM_TREE:
            holder = ensembles[-1] if ensembles else None
            _require(getattr(holder, "_preprocessor", 0) is None, "a histogram tree stands behind other columns")
            nominal = np.any(vars(holder)["_bin_mapper"].is_categorical_)
            _require(not nominal, "histogram trees split by categories, which are not checked")
            _check_histogram_tree(node, _width(ensembles))


def _check_tree(tree: Any, width: int) -> None:
    # Before the nodes are looked at: more of them than there is memory for cannot be.
    _require(0 < tree.node_count <= tree.capacity, f"a tree says it has {tree.node_count} nodes")
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = np.flatnonzero(left != -1)
    _require(_follow(inner, left[inner], right[inner], tree.node_count), "the nodes of a tree lead out of it")
    _require(_within(feature[inner], width), "a tree reads columns that there are not")
    _require(_depth(left, right) <= tree.max_depth, "a tree is deeper than it says")


def _check_histogram_tree(tree: Any, width: int) -> None:
    nodes = tree.nodes
    names = {"left", "right", "feature_idx", "is_leaf", "is_categorical"}
    whole = isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) and names <= set(nodes.dtype.names or ())
    _require(bool(whole), "a histogram tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    left, right = (nodes[side][inner].astype(np.int64) for side in ("left", "right"))
    _require(_follow(inner, left, right, len(nodes)), "the nodes of a histogram tree lead out of it")
    _require(_within(nodes["feature_idx"][inner], width), "a histogram tree reads columns that there are not")
    _require(not nodes["is_categorical"].any(), "histogram trees split by categories, which are not checked")


def _follow(inner: npt.NDArray[Any], left: npt.NDArray[Any], right: npt.NDArray[Any], count: int) -> bool:
    """Tell whether all children are there, and behind their parents, so that following them comes to an end."""
    return all(bool(((inner < child) & (child < count)).all()) for child in (left, right))


def _within(features: npt.NDArray[Any], width: int) -> bool:
    return bool(((features >= 0) & (features < width)).all())


def _depth(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> int:
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while True:
        level = level[left[level] != -1]
        if not len(level):
            return depth
        level = np.unique(np.concatenate([left[level], right[level]]))
        depth += 1


def _width(holders: tuple[Any, ...]) -> int:
    """How many columns are sure to be there: forests and boosting hand their rows to their trees unchecked."""
    from sklearn.ensemble import IsolationForest

    _require(not any(isinstance(holder, IsolationForest) for holder in holders), "an isolation forest is not checked")
    widths = [getattr(holder, "n_features_in_", None) for holder in holders]
    _require(bool(widths) and all(type(width) is int for width in widths), "a tree does not say how wide its rows are")
    return min(int(width) for width in widths if width is not None)


def _walk(loaded: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Go through everything that a loaded object holds; with the estimators around it that do not check its rows."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.tree import BaseDecisionTree

    passing = (BaseForest, BaseGradientBoosting)
    seen: dict[tuple[int, ...], Any] = {}
    left: list[tuple[Any, tuple[Any, ...]]] = [(loaded, ())]
    while left:
        thing, around = left.pop()
        key = (id(thing), *map(id, around))
        if key in seen or isinstance(thing, str | bytes | int | float | type(None)):
            continue
        # Kept, so that no other object gets its number.
        seen[key] = thing
        yield thing, around
        inner = around
        if isinstance(thing, BaseDecisionTree):
            inner = (*(holder for holder in around if isinstance(holder, passing)), thing)
        elif isinstance(thing, (*passing, BaseHistGradientBoosting)):
            inner = (thing,)
        elif hasattr(thing, "predict"):
            inner = ()
        left += [(part, inner) for part in _parts(thing)]


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, np.ndarray):
        return list(thing.ravel()) if thing.dtype == object else []
    parts: list[Any] = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    if isinstance(thing, dict):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts += thing
    return parts


def _name(thing: Any) -> str:
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ModelError(fault)
