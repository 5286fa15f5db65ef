"""Where a run's model and data came from: what the command wrote down, and files told apart by their hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evenhand._validate import is_number
from evenhand.engine.store import SOURCE, read_json, refuse_links, write_json
from evenhand.errors import ModelError, RunError, Use
from evenhand.models.base import Model
from evenhand.models.files import load_model
from evenhand.models.wrap import wrap
from evenhand.runs.run import Run

SAFE = (".onnx", ".skops")
"""Endings of model files that can be read without running code from them."""
NOTED = ("model", "model_sha256", "threshold", "data", "data_sha256")
"""What every source.json has."""


class Changed(RunError):
    """A file that is there, but no longer what the run was made with.

    >>> issubclass(Changed, RunError)
    True
    """


@dataclass(frozen=True)
class Source:
    """What an audit by the command was called with; None where that is not known."""

    model: str | None = None
    """A file, or module:attribute, as it was named."""
    model_sha256: str | None = None
    threshold: float | None = None
    data: str | None = None
    data_sha256: str | None = None
    model_from_run: str | None = None
    """The path of the file seen from the run's directory: what is moved with the run is found by it."""
    model_absolute: str | None = None
    data_from_run: str | None = None
    data_absolute: str | None = None

    @classmethod
    def of(cls, model: str, threshold: float | None = None, data: str | None = None) -> Source:
        """Look at the files now."""
        return cls(model, _sha256(model), threshold, data, None if data is None else _sha256(data))

    @classmethod
    def stored(cls, run: Run) -> Source:
        """Read what is kept with a run, as it was written."""
        if run.directory is None:
            return cls()
        refuse_links(run.directory)
        if not (run.directory / SOURCE).exists():
            return cls()
        path = run.directory / SOURCE
        try:
            stored = read_json(path)
        except RunError:
            stored = {}
        threshold = stored.get("threshold")
        texts = all(isinstance(v, str | None) for k, v in stored.items() if k != "threshold")
        known = set(NOTED) <= set(stored) <= set(cls.__dataclass_fields__)
        if not known or not texts or not (threshold is None or is_number(threshold)):
            raise Changed(f"{path} cannot be read", remedy="delete it, and name model and data yourself")
        return cls(**stored)

    @classmethod
    def read(cls, run: Run) -> Source:
        """Read what is kept with a run, with model and data named by where their files are now."""
        source = cls.stored(run)
        if run.directory is None:
            return source
        model = _found(run.directory, source.model, source.model_sha256, source.model_from_run, source.model_absolute)
        data = _found(run.directory, source.data, source.data_sha256, source.data_from_run, source.data_absolute)
        return replace(source, model=model, data=data)

    def keep(self, run: Run) -> None:
        """Write it beside a run; what made the answers that are stored already is not written over."""
        assert run.directory is not None
        went_on = run.origin is not None and run.origin.trail is not None
        if went_on or not (run.directory / SOURCE).exists():
            write_json(run.directory / SOURCE, asdict(self.placed(run.directory)))

    def placed(self, directory: Path) -> Source:
        """Note where the files are, so that they are found from any working directory."""
        places: dict[str, Any] = {}
        for what, name, known in (("model", self.model, self.model_sha256), ("data", self.data, self.data_sha256)):
            if name is not None and known is not None:
                # The folder's own path, without links; the file may be a link, such as to the latest of several.
                file = Path(name).parent.resolve() / Path(name).name
                places[f"{what}_absolute"] = str(file)
                if file.anchor == directory.resolve().anchor:
                    places[f"{what}_from_run"] = Path(os.path.relpath(file, directory.resolve())).as_posix()
        return replace(self, **places)

    def portable(self) -> Source:
        """Leave out what tells of this machine alone."""
        return replace(self, model_from_run=None, model_absolute=None, data_from_run=None, data_absolute=None)


def digest_of_file(path: Path) -> str:
    """Give the SHA-256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}; check the path") from None


def unchanged(path: str, known: str | None, what: str) -> Path:
    """Return a file that is still what the run was made with."""
    if known is None or not _is_file(Path(path)):
        raise RunError(
            f"the run's {what} was {path}, which is not there as a file now", remedy=f"name the {what} yourself"
        )
    if digest_of_file(Path(path)) != known:
        raise Changed(f"{path} has changed since the run was made", remedy=f"give the {what} as it was then")
    return Path(path)


def model_of(
    run: Run, model: Any = None, threshold: float | None = None, *, trust: Sequence[str] = (), name: str = "model"
) -> Model:
    """Return the model that is given; or a run's own, where it is at hand or in a file that runs no code.

    What a directory says is not trusted to import modules or to unpickle: somebody else may have written it.
    """
    if model is not None:
        return deciding(run, model, threshold)
    source = Source.read(run)
    if run.origin is not None:
        return run.origin.probe.model
    setting = "model.path" if name == "model" else f"compare.{name}"
    if source.model is None:
        raise ModelError(
            f"the run in {run.directory} does not have its model ({run.identity.model}) with it",
            remedy=("give it: ", Use(f"{name}=...", setting)),
        )
    if not source.model.lower().endswith(SAFE):
        raise ModelError(
            f"the run in {run.directory} was made with {source.model}, which runs code when it is loaded",
            remedy=("if you trust it, name it: ", Use(f"{name}={source.model!r}", setting, source.model)),
        )
    loaded = load_model(unchanged(source.model, source.model_sha256, "model"), trust=trust)
    return deciding(run, loaded, threshold)


def deciding(run: Run, model: Any, threshold: float | None = None) -> Model:
    """Wrap a model with the threshold that is given, or with its own, or with the one that the run has noted."""
    wrapped = wrap(model, threshold=threshold)
    if wrapped.threshold is not None or not wrapped.has_scores:
        return wrapped
    return wrapped.with_options(threshold=threshold_of(run))


def threshold_of(run: Run) -> float | None:
    """Say by which threshold a run's model decided, where it is at hand or that was noted.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> threshold_of(eh.audit(eh.wrap(lambda f: f["age"] / 10, threshold=0.3), space, strategy="themis"))
    0.3
    """
    return Source.stored(run).threshold if run.origin is None else run.origin.probe.model.threshold


def _sha256(spec: str) -> str | None:
    return digest_of_file(Path(spec)) if _is_file(Path(spec)) else None


def _found(
    directory: Path, named: str | None, known: str | None, from_run: str | None, absolute: str | None
) -> str | None:
    """Find a file: by its way from the run, where it was, or as it was named; of several one that has not changed."""
    if named is None or known is None:
        return named
    tried = [None if from_run is None else directory.resolve() / from_run, absolute, named]
    files = {path.resolve(): path for path in (Path(place) for place in tried if place) if _is_file(path)}
    if len(files) > 1:
        files = {end: path for end, path in files.items() if digest_of_file(path) == known} or files
    return str(next(iter(files.values()), named))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A name that is too long, or a folder that is closed to us.
        return False
