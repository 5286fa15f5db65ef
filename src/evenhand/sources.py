"""Where a run's model and data came from: what the command wrote down, and files told apart by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenhand.directory import SOURCE, read_json, write_json
from evenhand.errors import ModelError, RunError
from evenhand.model import Model, wrap
from evenhand.model.files import load_model
from evenhand.run import Run

SAFE = (".onnx", ".skops")
"""Endings of model files that can be read without running code from them."""


class Changed(RunError):
    """A file that is there, but no longer what the run was made with.

    >>> issubclass(Changed, RunError)
    True
    """


@dataclass(frozen=True)
class Source:
    """What an audit by the command was called with; None where that is not known."""

    model: str | None = None
    """A file, or module:attribute."""
    model_sha256: str | None = None
    threshold: float | None = None
    data: str | None = None
    data_sha256: str | None = None

    @classmethod
    def of(cls, model: str, threshold: float | None = None, data: str | None = None) -> Source:
        """Look at the files now."""
        return cls(model, _sha256(model), threshold, data, None if data is None else _sha256(data))

    @classmethod
    def read(cls, run: Run) -> Source:
        """Read what is kept with a run."""
        if run.directory is None or not (run.directory / SOURCE).exists():
            return cls()
        stored = read_json(run.directory / SOURCE)
        texts = all(isinstance(v, str | None) for k, v in stored.items() if k != "threshold")
        if set(stored) != set(cls.__dataclass_fields__) or not texts:
            raise RunError(f"{run.directory / SOURCE} cannot be read; delete it, and name model and data yourself")
        return cls(**stored)

    def keep(self, run: Run) -> None:
        """Write it beside a run; what made the answers that are stored already is not written over."""
        assert run.directory is not None
        went_on = run.origin is not None and run.origin.trail is not None
        if went_on or not (run.directory / SOURCE).exists():
            write_json(run.directory / SOURCE, asdict(self))


def digest_of_file(path: Path) -> str:
    """Give the SHA-256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}; check the path") from None


def unchanged(path: str, known: str | None, what: str) -> Path:
    """Return a file that is still what the run was made with."""
    if known is None or not Path(path).is_file():
        raise RunError(f"the run's {what} was {path}, which is not there as a file now; name the {what} yourself")
    if digest_of_file(Path(path)) != known:
        raise Changed(f"{path} has changed since the run was made; give the {what} as it was then")
    return Path(path)


def model_of(
    run: Run, model: Any = None, threshold: float | None = None, *, trust: Sequence[str] = (), name: str = "model"
) -> Model:
    """Return the model that is given; or a run's own, where it is at hand or in a file that runs no code.

    What a directory says is not trusted to import modules or to unpickle: somebody else may have written it.
    """
    source = Source.read(run)
    threshold = source.threshold if threshold is None else threshold
    if model is not None:
        return wrap(model, threshold=threshold)
    if run.origin is not None:
        return run.origin.asker.model
    if source.model is None:
        raise ModelError(
            f"the run in {run.directory} does not have its model ({run.identity['model']}) with it; give it: {name}=..."
        )
    if not source.model.lower().endswith(SAFE):
        raise ModelError(
            f"the run in {run.directory} was made with {source.model}, which runs code when it is loaded; if you trust "
            f"it, name it: {name}={source.model!r}"
        )
    loaded = load_model(unchanged(source.model, source.model_sha256, "model"), trust=trust)
    return wrap(loaded, threshold=threshold)


def _sha256(spec: str) -> str | None:
    return digest_of_file(Path(spec)) if Path(spec).is_file() else None
