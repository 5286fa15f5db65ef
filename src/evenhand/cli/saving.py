"""The files that a comparison of repairs writes: a model that can be loaded again, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenhand._write import SHARED, reason, replacing
from evenhand.errors import MissingExtra, ModelError, RunError

if TYPE_CHECKING:
    from evenhand.repairs.result import Repair


def save(model: Any, path: Path) -> list[str]:
    """Write a model; give the types that loading it from skops has to be told to trust.

    It takes the place of what was there only after it has been loaded back.
    """
    try:
        with replacing(path, SHARED) as draft:
            return _skops(model, draft) if path.suffix.lower() == ".skops" else _joblib(model, draft)
    except MissingExtra:
        raise
    except Exception as error:
        gist = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise RunError(f"cannot save the {type(model).__name__} to {path} ({gist});\n{_advice(path, error)}") from error


def check_writable(path: Path) -> None:
    """Find out before the work, not after it, that a model's format needs a package that is not there."""
    if path.suffix.lower() == ".skops" and find_spec("skops") is None:
        raise MissingExtra("skops", "skops", "writing a .skops file")


def _joblib(model: Any, draft: IO[bytes]) -> list[str]:
    import joblib

    joblib.dump(model, draft)
    draft.seek(0)
    joblib.load(draft)
    return []


def _skops(model: Any, draft: IO[bytes]) -> list[str]:
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", "writing a .skops file")
    import skops.io

    from evenhand.models.files import HARMLESS, OWN, TREES, check_trees

    stored = skops.io.dumps(model)
    draft.write(stored)
    named = skops.io.get_untrusted_types(data=stored)
    known = {*OWN, *HARMLESS, *TREES}
    try:
        check_trees(skops.io.loads(stored, trusted=named))
    except ModelError:
        known -= set(TREES)
    return sorted(set(named) - known)


def _advice(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return "name a file in a place that can be written to: --save"
    own = "repair in Python and save the model as its library does"
    if path.suffix.lower() == ".skops":
        return f"name a .joblib file, or {own}"
    return f"a function that training makes cannot be stored, one at the top of a module can; or {own}"


def draw(done: Mapping[str, Repair], path: Path) -> None:
    """Write the trade-off of accuracy and rate as a picture."""
    from evenhand.repairs.plots import tradeoff

    try:
        with replacing(path) as file:
            tradeoff(done).savefig(file, format=path.suffix.removeprefix(".").lower())
    except OSError as error:
        raise RunError(f"cannot write the picture to {path}: {reason(error)}; name another file: --plot") from error
