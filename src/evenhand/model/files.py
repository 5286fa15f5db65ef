"""Models from files, and from ``module:attribute`` as the command line writes it."""

from __future__ import annotations

import importlib
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, MissingExtra, ModelError
from evenhand.model.protocol import Model, some
from evenhand.model.text_transformers import is_folder, load_folder

LARGEST = 4 * 2**30
OWN = ("evenhand.repairing.marginal.Marginal",)
"""Our own types in skops files: they hold a model, whose types are looked at, and texts and numbers."""
_PICKLES = (".joblib", ".pkl", ".pickle")
_SPEC = re.compile(r"([^\W\d][\w.]*):([^\W\d][\w.]*)")


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
        Names of types in a .skops file that it may create beyond those that skops knows to be harmless.

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
    evenhand.errors.ModelError: model.pkl: there is no such file. Check the path.
    """
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
    found = _SPEC.fullmatch(str(spec))
    if found is None or isinstance(spec, Path):
        raise ModelError(
            f"{spec}: no model can be loaded from this. Allowed: an .onnx, .skops, .joblib, .pkl or .pickle\n"
            "file, the folder of a Hugging Face model, or module:attribute for an object in a Python module."
        )
    return _load_attribute(*found.groups())


def check_file(path: Path) -> Path:
    """Return the path of a file that is there, not empty, and not absurdly large.

    >>> check_file(Path("nowhere.onnx"))
    Traceback (most recent call last):
    evenhand.errors.ModelError: nowhere.onnx: there is no such file. Check the path.
    """
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise ModelError(f"{path}: {reason}. Check the path.") from None
    if not path.is_file():
        raise ModelError(f"{path}: it is a directory or a device. Name a model file.")
    if size == 0:
        raise ModelError(f"{path}: the file is empty. Save the model again.")
    _check_size(path, size)
    return path


def _check_size(path: Path, size: int) -> None:
    if size > LARGEST:
        raise ModelError(
            f"{path}: it holds {size / 2**30:.1f} GiB; {LARGEST / 2**30:g} GiB is the most.\n"
            "Load the model yourself and wrap it."
        )


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("skops", "skops", f"reading {path.name}") from error
    try:
        with zipfile.ZipFile(path) as archive:
            # A small archive can unpack to any size.
            _check_size(path, sum(entry.file_size for entry in archive.infolist()))
        untrusted = sorted(set(skops.io.get_untrusted_types(file=path)) - {*trust, *OWN})
        if untrusted:
            raise ModelError(
                f"{path}: it would create {some(untrusted)}, not known to be harmless.\n"
                f"If you trust them: evenhand.model.load_model(path, trust={untrusted})."
            )
        if trust:
            _look_here_first()
        return skops.io.load(path, trusted=[*trust, *OWN])
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(f"{path}: it cannot be read as skops ({_reason(error)}). Save the model again.") from error


def _load_pickle(path: Path, trusted: bool) -> Any:
    if not trusted:
        raise ModelError(
            f"{path}: unpickling runs code from the file, so it is refused. If you made the file yourself,\n"
            "say evenhand.model.load_model(path, trust_pickle=True), or --trust-pickle on the command line.\n"
            "Better: save the model with skops."
        )
    import joblib

    _look_here_first()
    try:
        return joblib.load(path)
    except Exception as error:
        raise ModelError(f"{path}: it cannot be unpickled ({_reason(error)}).") from error


def _load_attribute(module: str, attribute: str) -> Any:
    _look_here_first()
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise ModelError(f"The module {module} of {module}:{attribute} fails to import: {_reason(error)}.") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in vars(sys.modules[module]) if not name.startswith("_")]
            raise ModelError(f"The module {module} has no {attribute}. It has {some(names) or 'nothing'}.")
        found = getattr(found, part)
    return found


def _look_here_first() -> None:
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)


def _reason(error: BaseException) -> str:
    first = next(iter(str(error).splitlines()), "")[:200]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
