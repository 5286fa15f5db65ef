"""Models from files, and from ``module:attribute`` as the command line writes it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand._files import check_limit, size_of
from evenhand.errors import TRUST_PICKLE, EvenhandError, ModelError, trust_types
from evenhand.model.protocol import Model, some
from evenhand.model.skops_files import check_skops, import_skops
from evenhand.model.skops_types import HARMLESS, OWN, TREES, check_trees
from evenhand.model.text_transformers import is_folder, load_folder
from evenhand.plugins import is_spec, look_here_first, named, reason

_PICKLES = (".joblib", ".pkl", ".pickle")


def load_model(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Model:
    """Load a model and wrap it.

    Parameters
    ----------
    spec
        A file (.onnx, .skops, .joblib, .pkl, .pickle), the folder of a Hugging Face model with its tokenizer, or
        "module:attribute" for an object in a Python module. Modules are looked for in the current directory
        first, which stays on ``sys.path`` so that the model can import its neighbours.
    trust_pickle
        Unpickling runs code from the file. Say True only for files that you made yourself.
    trust
        Names of types in a .skops file that it may create beyond those known to be harmless (`HARMLESS`, trees).

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If there is no such model, or it may not be trusted.

    Examples
    --------
    >>> load_model("operator:not_").name
    'not_'
    >>> load_model("model.pkl")
    Traceback (most recent call last):
    evenhand.errors.ModelError: model.pkl: there is no such file; check the path
    """
    model = _load(spec, trust_pickle, trust)
    if Path(spec).is_file():
        with Path(spec).open("rb") as file:
            model = copy.copy(model)
            model.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return model


def _load(spec: str | Path, trust_pickle: bool, trust: Sequence[str]) -> Model:
    # wrap() takes paths too, so the two modules need each other.
    from evenhand.model.wrapping import wrap

    if Path(spec).suffix.lower() == ".onnx":
        from evenhand.model.onnx import OnnxModel

        return OnnxModel(Path(spec))
    if is_folder(Path(spec)):
        return load_folder(Path(spec))
    return wrap(load_object(spec, trust_pickle, trust))


def load_object(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Any:
    """Load what a file or a module holds, as it is: an estimator that may have to be fitted, a training function.

    >>> load_object("operator:not_")
    <built-in function not_>
    """
    path, ending = Path(spec), Path(spec).suffix.lower()
    if ending == ".onnx":
        raise ModelError(f"{spec}: an ONNX file holds a model that cannot be trained. Give the estimator it came from.")
    if ending == ".skops":
        return _load_skops(check_file(path), trust)
    if ending in _PICKLES:
        return _load_pickle(check_file(path), trust_pickle)
    if isinstance(spec, Path) or not is_spec(spec):
        raise ModelError(
            f"{spec}: no model can be loaded from this. Allowed: an .onnx, .skops, .joblib, .pkl or .pickle\n"
            "file, the folder of a Hugging Face model, or module:attribute for an object in a Python module."
        )
    return named(spec, ModelError)


def check_file(path: Path) -> Path:
    """Return the path of a file that is there, not empty, and not absurdly large.

    >>> check_file(Path("nowhere.onnx"))
    Traceback (most recent call last):
    evenhand.errors.ModelError: nowhere.onnx: there is no such file; check the path
    """
    size = size_of(path, ModelError, "it is a directory or a device. Name a model file.")
    if size == 0:
        raise ModelError(f"{path}: the file is empty. Save the model again.")
    check_limit("model_bytes", size, path, "load the model yourself and wrap it")
    return path


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    check_skops(path)
    skops_io = import_skops(f"reading {path.name}")
    try:
        unknown = set(skops_io.get_untrusted_types(file=path))
        if untrusted := sorted(unknown - {*trust, *OWN, *HARMLESS, *TREES}):
            raise ModelError(
                f"{path}: it would create {some(untrusted)}, not known to be harmless",
                remedy=("if you trust them: ", trust_types(untrusted)),
            )
        if trust:
            look_here_first()
        loaded = skops_io.load(path, trusted=sorted(unknown))
        if trees := sorted(unknown.intersection(TREES) - {*trust}):
            _check_trees(path, loaded, trees)
        return loaded
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(f"{path}: it cannot be read as skops ({reason(error)}). Save the model again.") from error


def _check_trees(path: Path, loaded: Any, trees: list[str]) -> None:
    try:
        check_trees(loaded)
    except ModelError as error:
        raise ModelError(
            f"{path}: {error}; asking such a model could crash Python",
            remedy=("if you trust the file's author: ", trust_types(trees)),
        ) from None


def _load_pickle(path: Path, trusted: bool) -> Any:
    if not trusted:
        raise ModelError(
            f"{path}: unpickling runs code from the file, so it is refused",
            remedy=("if you made the file yourself: ", TRUST_PICKLE, "; better: save the model with skops"),
        )
    import joblib

    look_here_first()
    try:
        return joblib.load(path)
    except Exception as error:
        raise ModelError(f"{path}: it cannot be unpickled ({reason(error)}).") from error
