"""Model files of XGBoost, LightGBM, CatBoost and Keras, read without running code from them.

A file is checked before this process reads it: a child process with limits reads it first, follows every tree, and
queries the model about one row. The programs that torch saves are in `programs`.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand._files import check_limit, open_archive, open_file, parse_json, read_bytes
from evenhand._sandbox import TrialFailed, attempt, short_of_memory
from evenhand.errors import EvenhandError, MissingExtra, ModelError
from evenhand.plugins import reason


class Format(NamedTuple):
    """A kind of model file: its framework, and the functions that try it and read it."""

    framework: str
    package: str
    read: str
    trial: str
    imports: str
    """Modules that reading needs."""


FORMATS = {
    ".json": Format("XGBoost", "xgboost", "formats:read_xgboost", "formats:try_xgboost", "xgboost"),
    ".ubj": Format("XGBoost", "xgboost", "formats:read_xgboost", "formats:try_xgboost", "xgboost"),
    ".txt": Format("LightGBM", "lightgbm", "formats:read_lightgbm", "formats:try_lightgbm", "lightgbm"),
    ".cbm": Format("CatBoost", "catboost", "formats:read_catboost", "formats:try_catboost", "catboost"),
    ".keras": Format("Keras", "keras", "formats:read_keras", "formats:try_keras", "keras h5py"),
    ".pt2": Format("an exported torch program", "torch", "programs:read_exported", "programs:try_exported", ""),
    ".pt": Format("TorchScript", "torch", "programs:read_script", "programs:try_script", ""),
}
"""Endings of files, all of which are read without running code from them."""


def read_format(path: Path, kind: Format) -> Any:
    """Read a model file, after a child process has read it; ``path`` is an existing file within the size limit.

    >>> import tempfile, xgboost
    >>> data = xgboost.DMatrix(np.array([[0.0], [1.0]]), label=np.array([0, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.json")
    ...     xgboost.train({"objective": "binary:logistic"}, data, 2).save_model(path)
    ...     type(read_format(path, FORMATS[".json"])).__name__
    'Booster'
    """
    if importlib.util.find_spec(kind.package) is None:
        raise MissingExtra(kind.package, kind.package, f"reading {path.name}")
    if kind.package == "keras":
        choose_backend()
    module, _, function = kind.read.partition(":")
    read: Callable[[Path], Any] = getattr(importlib.import_module(f"evenhand.models.{module}"), function)
    try:
        attempt(f"evenhand.models.{kind.trial}", path, path.stat().st_size, kind.imports)
        return read(path)
    except EvenhandError:
        raise
    except Exception as error:
        if isinstance(error, TrialFailed) and error.remedy:
            raise ModelError(str(error), remedy=error.remedy) from None
        why = str(error) if isinstance(error, TrialFailed) else reason(error)
        raise unreadable(path, kind.framework, why.replace(str(path), path.name)) from error


def try_one(ask: Callable[[], object]) -> None:
    """Query a model about one row in a trial: it may reject the row, because only its memory use matters."""
    try:
        ask()
    except Exception as error:
        if short_of_memory(error):
            raise MemoryError from None


def read_xgboost(path: Path) -> Any:
    """Read a booster; if a scikit-learn estimator wrote it, as that estimator."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    wrote = re.search(r'"_estimator_type": *"(\w+)"', booster.attr("scikit_learn") or "")
    estimators = {"classifier": xgboost.XGBClassifier, "regressor": xgboost.XGBRegressor}
    if wrote is None or wrote[1] not in estimators:
        return booster
    estimator = estimators[wrote[1]]()
    estimator.load_model(path)
    return estimator


def try_xgboost(path: Path) -> None:
    """Read a booster, check its trees, and ask about one row."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    learner = json.loads(booster.save_raw("json"))["learner"]
    width = int(learner["learner_model_param"]["num_feature"])
    check_limit("table_columns", width, path.name)
    groups = max(1, *(int(learner["learner_model_param"][name]) for name in ("num_class", "num_target")))
    inner = learner["objective"].get("softmax_multiclass_param", {"num_class": groups})
    require(int(inner["num_class"]) == groups, "its objective has a different number of classes")
    model = learner["gradient_booster"].get("gbtree", learner["gradient_booster"])["model"]
    for tree in model.get("trees", []):
        left, right = (np.asarray(tree[f"{side}_children"]) for side in ("left", "right"))
        inside = np.flatnonzero(left != -1)
        features = np.asarray(tree["split_indices"])[inside]
        require(
            int(tree["tree_param"]["num_nodes"]) == len(left) == len(right),
            "a tree declares another number of nodes",
        )
        check_nodes("tree", inside, left[inside], right[inside], features, len(left), width)
        require(int(tree["tree_param"]["size_leaf_vector"]) <= groups, "the leaves of a tree have too many values")
    if "trees" in model:
        chosen, ends = np.asarray(model["tree_info"]), np.asarray(model.get("iteration_indptr", [0]))
        require(len(chosen) == len(model["trees"]), "its trees do not match its classes")
        require(bool(((chosen >= 0) & (chosen < groups)).all()), "a tree belongs to a class that does not exist")
        ordered = bool((np.diff(ends) >= 0).all()) and ends[0] >= 0 and ends[-1] <= len(chosen)
        require(ordered, "its iterations refer to trees that do not exist")
    else:
        require(len(model["weights"]) == (width + 1) * groups, "its weights do not match its columns")
    try_one(lambda: booster.inplace_predict(np.zeros((1, width))))


def read_lightgbm(path: Path) -> Any:
    """Read a booster."""
    import lightgbm

    return lightgbm.Booster(model_str=_lightgbm_text(path))


def _lightgbm_text(path: Path) -> str:
    """Return a model's text without the sizes of its trees, which LightGBM would follow unchecked."""
    try:
        text = read_bytes(path, "model_bytes", ModelError).decode("utf-8")
    except UnicodeDecodeError:
        raise unreadable(path, "LightGBM", "it is not UTF-8 text") from None
    if not text.startswith("tree\n"):
        raise unreadable(path, "LightGBM", "it does not begin with 'tree'")
    if "\nend of trees" not in text:
        # LightGBM would use the trees that are left.
        raise unreadable(path, "LightGBM", "it ends before its last tree")
    return re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE)


def try_lightgbm(path: Path) -> None:
    """Check the trees of a booster, read it, and ask about one row."""
    text = _lightgbm_text(path)
    header, *trees = re.split(r"^Tree=\d+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    about = dict(line.partition("=")[::2] for line in header.splitlines())
    width, groups = int(about["max_feature_idx"]) + 1, int(about["num_class"])
    check_limit("table_columns", width, path.name)
    require(int(about["num_tree_per_iteration"]) == groups and groups > 0, "it has trees for other classes")
    objective = re.search(r"num_class:(\d+)", about.get("objective", ""))
    require(objective is None or int(objective[1]) == groups, "its objective has a different number of classes")
    require(len(about["feature_names"].split()) == width, "it has more or fewer column names than columns")
    require(len(trees) % groups == 0, "its last iteration has too few trees")
    for tree in trees:
        _check_lightgbm_tree(tree, width)
    booster = read_lightgbm(path)
    try_one(lambda: booster.predict(np.zeros((1, width)), num_threads=1))


_TREE_LINES = 22
"""LightGBM reads so many lines of a tree at most."""


def _check_lightgbm_tree(text: str, width: int) -> None:
    lines = text.strip("\n").partition("\n\n")[0].splitlines()
    values = {name: value.split() for name, _, value in (line.partition("=") for line in lines)}
    require(len(values) == len(lines) <= _TREE_LINES, "a tree has lines that LightGBM does not write")
    require(values.get("is_linear", ["0"]) == ["0"], "its leaves are linear models, which are not checked")

    def whole(name: str) -> Any:
        return np.array(values.get(name, []), dtype=np.int64)

    leaves, categories = int(values["num_leaves"][0]), int(values["num_cat"][0])
    require(len(values["leaf_value"]) == leaves > 0, "a tree declares another number of leaves")
    if leaves == 1:
        return
    left, right, features = whole("left_child"), whole("right_child"), whole("split_feature")
    kinds, thresholds = whole("decision_type"), values["threshold"]
    counts = {len(part) for part in (left, right, features, kinds, thresholds)}
    require(counts == {leaves - 1}, "a tree declares another number of nodes")
    # Leaves have negative numbers; in the order of nodes they come after all inner nodes.
    nodes = np.arange(leaves - 1)
    left, right = (np.where(side < 0, leaves - 1 + ~side, side) for side in (left, right))
    check_nodes("tree", nodes, left, right, features, 2 * leaves - 1, width)
    ends, bits = whole("cat_boundaries"), values.get("cat_threshold", [])
    if categories:
        ordered = len(ends) == categories + 1 and ends[0] == 0 and ends[-1] == len(bits) and (np.diff(ends) >= 0).all()
        require(bool(ordered), "a tree refers to categories that do not exist")
    chosen = np.array([float(one) for one, kind in zip(thresholds, kinds, strict=True) if kind & 1])
    known = ((chosen >= 0) & (chosen < categories)).all()
    require(bool(known), "a tree splits by categories that do not exist")


def read_catboost(path: Path) -> Any:
    """Read a model."""
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(path), format="cbm")
    return model


def try_catboost(path: Path) -> None:
    """Read a model, and ask about one row."""
    model = read_catboost(path)
    row: list[Any] = [0.0] * len(model.feature_names_)
    for place in model.get_cat_feature_indices():
        row[place] = "0"
    for place in model.get_text_feature_indices():
        row[place] = "text"
    try_one(lambda: model.predict([row], thread_count=1))


def choose_backend() -> None:
    """Make Keras use torch, which provides gradients, if it is installed and no other backend was chosen."""
    if "keras" not in sys.modules and importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("KERAS_BACKEND", "torch")


def read_keras(path: Path) -> Any:
    """Read a model whose layers are known only to compute."""
    _check_keras(path)
    import keras

    return keras.saving.load_model(path, compile=False, safe_mode=True)


def try_keras(path: Path) -> None:
    """Read a model, after a look at its weights, and ask about one row."""
    _check_keras(path)
    _check_weights(path)
    model = read_keras(path)
    shape: Any = getattr(model, "input_shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:
        try_one(lambda: model(np.zeros((1, shape[1] or 1)), training=False))


_KERAS_MODULES = re.compile(r"keras(\.(src\.)?(layers|models|initializers|regularizers|constraints)(\..+)?)?")
_CLASSES = """
Activation Add AlphaDropout Average BatchNormalization CategoryEncoding Concatenate Constant DTypePolicy Dense
Discretization Dot Dropout ELU Embedding Flatten Functional GELU GaussianDropout GaussianNoise GlorotNormal
GlorotUniform GroupNormalization HeNormal HeUniform Identity InputLayer L1 L1L2 L2 LayerNormalization LeakyReLU
LecunNormal LecunUniform MaxNorm Maximum Minimum Model Multiply NonNeg Normalization Ones Orthogonal PReLU Permute
RandomNormal RandomUniform ReLU RepeatVector Rescaling Reshape Sequential Softmax Subtract TruncatedNormal UnitNorm
UnitNormalization VarianceScaling Zeros __keras_tensor__
"""
_KERAS_CLASSES = frozenset(_CLASSES.split())
"""Layers that only compute, and their configuration. Other layers run functions, read files, or contain pickles."""


def _check_keras(path: Path) -> None:
    """Raise if a configuration names anything that could do more than compute."""
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "Keras", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        entries = archive.namelist()
        expected = {"config.json", "metadata.json", "model.weights.h5"}
        if set(entries) != expected or len(entries) != len(expected):
            raise unreadable(path, "Keras", "it has entries other than a configuration and weights")
        check_limit("json_bytes", archive.getinfo("config.json").file_size, path)
        try:
            config = parse_json(archive.read("config.json"), path)
        except ValueError as error:
            raise unreadable(path, "Keras", str(error)) from None
    if isinstance(config, dict):
        # How it was trained, which Keras does not read with ``compile=False``; in parts of the model it does.
        config.pop("compile_config", None)
    for node in _objects(config):
        name, module = node["class_name"], node.get("module") or "keras"
        own = _KERAS_MODULES.fullmatch(str(module)) and node.get("registered_name") in (None, name)
        if name not in _KERAS_CLASSES or not own:
            raise ModelError(
                f"{path}: it would create {module}.{name}, which may do more than compute",
                remedy="if you trust it, load the model yourself: eh.wrap(keras.saving.load_model(path))",
            )


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all parts of a configuration that name a class."""
    if isinstance(value, dict):
        if "class_name" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _objects(part)


def _check_weights(path: Path) -> None:
    """Raise if weights are in other files, or claim to be larger than the file."""
    import h5py

    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    groups = [h5py.File(content, "r")]
    for group in groups:
        for name in group:
            require(isinstance(group.get(name, getlink=True), h5py.HardLink), "its weights are in another file")
            part = group[name]
            if isinstance(part, h5py.Group):
                groups.append(part)
                check_limit("archive_entries", len(groups), path.name)
                continue
            require(not part.external and not part.is_virtual, "its weights are in another file")
            require(part.dtype.kind in "iufb", f"its weights are of the type {part.dtype}")
            check_limit("unpack_ratio", part.nbytes // size, path.name)


def unreadable(path: object, kind: str, why: str) -> ModelError:
    """Return the error for a file that is damaged or of another kind."""
    return ModelError(f"{path}: it cannot be read as {kind} ({why[:300]})", remedy="save the model again")


def check_nodes(kind: str, nodes: Any, left: Any, right: Any, features: Any, count: int, width: int) -> None:
    """Raise unless all children exist and come after their parents, so that paths end, and all columns exist.

    >>> check_nodes("tree", np.array([0]), np.array([1]), np.array([2]), np.array([5]), count=3, width=3)
    Traceback (most recent call last):
    evenhand.errors.ModelError: a tree reads columns that do not exist
    """
    paths_end = all(bool(((nodes < child) & (child < count)).all()) for child in (left, right))
    require(paths_end, f"a node of a {kind} is outside the {kind}")
    require(bool(((features >= 0) & (features < width)).all()), f"a {kind} reads columns that do not exist")


def require(holds: bool, fault: str) -> None:
    """Raise unless something holds.

    >>> require(True, "a tree has no nodes")
    """
    if not holds:
        raise ModelError(fault)
