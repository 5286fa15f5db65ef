"""The files that a comparison of repairs writes: a model that can be loaded again, and a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import MissingExtra, RunError

if TYPE_CHECKING:
    from evenhand.repairing import Repair


def save(model: Any, path: Path) -> list[str]:
    """Write a model; give the types that loading it from skops has to be told to trust.

    It takes the place of what was there only after it has been loaded back.
    """
    place = path.resolve()
    draft = place.with_name(f".{place.stem}-{os.getpid()}{place.suffix}")
    try:
        trust = _skops(model, draft) if path.suffix.lower() == ".skops" else _joblib(model, draft)
        draft.replace(place)
    except MissingExtra:
        raise
    except Exception as error:
        gist = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise RunError(f"cannot save the {type(model).__name__} to {path} ({gist});\n{_advice(path, error)}") from error
    finally:
        draft.unlink(missing_ok=True)
    return trust


def check_writable(path: Path) -> None:
    """Find out before the work, not after it, that a model's format needs a package that is not there."""
    if path.suffix.lower() == ".skops" and find_spec("skops") is None:
        raise MissingExtra("skops", "skops", f"writing a {path.suffix} file")


def _joblib(model: Any, draft: Path) -> list[str]:
    import joblib

    joblib.dump(model, draft)
    joblib.load(draft)
    return []


def _skops(model: Any, draft: Path) -> list[str]:
    check_writable(draft)
    import skops.io

    from evenhand.model.files import OWN

    skops.io.dump(model, draft)
    named = skops.io.get_untrusted_types(file=draft)
    skops.io.load(draft, trusted=named)
    return sorted(set(named) - set(OWN))


def _advice(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return "name a file in a place that can be written to: --save"
    own = "repair in Python and save the model as its library does"
    if path.suffix.lower() == ".skops":
        return f"name a .joblib file, or {own}"
    return f"a function that training makes cannot be stored, one at the top of a module can; or {own}"


def draw(done: Mapping[str, Repair], path: Path) -> None:
    """Write the trade-off of accuracy and rate as a picture."""
    from evenhand.repairing.plots import tradeoff

    try:
        tradeoff(done).savefig(path)
    except OSError as error:
        raise RunError(f"cannot write the picture to {path}: {error.strerror}; name another file: --plot") from error
