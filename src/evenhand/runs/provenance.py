"""The sources of a run: files of its model and data, with their hashes, as the command line stored them."""

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
"""Extensions of model files that run no code when they are loaded."""
NOTED = ("model", "model_sha256", "threshold", "data", "data_sha256")
"""Required keys of source.json."""


class Changed(RunError):
    """A file that has changed since the run was made.

    >>> issubclass(Changed, RunError)
    True
    """


@dataclass(frozen=True)
class Source:
    """The model, threshold and data of an audit by the command line; None if unknown."""

    model: str | None = None
    """A file, or module:attribute, as the user gave it."""
    model_sha256: str | None = None
    threshold: float | None = None
    data: str | None = None
    data_sha256: str | None = None
    model_from_run: str | None = None
    """The path relative to the run's directory, so that files that move with the run are found."""
    model_absolute: str | None = None
    data_from_run: str | None = None
    data_absolute: str | None = None

    @classmethod
    def of(cls, model: str, threshold: float | None = None, data: str | None = None) -> Source:
        """Create a source with the hashes of the files as they are now."""
        return cls(model, _sha256(model), threshold, data, None if data is None else _sha256(data))

    @classmethod
    def stored(cls, run: Run) -> Source:
        """Read the stored source of a run."""
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
            raise Changed(f"{path} cannot be read", remedy="delete it, and give model and data yourself")
        return cls(**stored)

    @classmethod
    def read(cls, run: Run) -> Source:
        """Read the stored source of a run, with the current paths of its files."""
        source = cls.stored(run)
        if run.directory is None:
            return source
        model = _found(run.directory, source.model, source.model_sha256, source.model_from_run, source.model_absolute)
        data = _found(run.directory, source.data, source.data_sha256, source.data_from_run, source.data_absolute)
        return replace(source, model=model, data=data)

    def keep(self, run: Run) -> None:
        """Store it with a run, unless the stored answers come from an earlier source."""
        assert run.directory is not None
        went_on = run.origin is not None and run.origin.trail is not None
        if went_on or not (run.directory / SOURCE).exists():
            write_json(run.directory / SOURCE, asdict(self.placed(run.directory)))

    def placed(self, directory: Path) -> Source:
        """Add absolute and relative paths, so that files are found from any working directory."""
        places: dict[str, Any] = {}
        for what, name, known in (("model", self.model, self.model_sha256), ("data", self.data, self.data_sha256)):
            if name is not None and known is not None:
                # Links in the folder are resolved; the file itself may be a link, such as to the latest model.
                file = Path(name).parent.resolve() / Path(name).name
                places[f"{what}_absolute"] = str(file)
                if file.anchor == directory.resolve().anchor:
                    places[f"{what}_from_run"] = Path(os.path.relpath(file, directory.resolve())).as_posix()
        return replace(self, **places)

    def portable(self) -> Source:
        """Remove paths of this machine."""
        return replace(self, model_from_run=None, model_absolute=None, data_from_run=None, data_absolute=None)


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}", remedy="check the path") from None


def unchanged(path: str, known: str | None, what: str) -> Path:
    """Return the path of a file that has not changed since the run."""
    if known is None or not _is_file(Path(path)):
        raise RunError(
            f"the run's {what} was {path}, which is no longer a file there", remedy=f"give the {what} yourself"
        )
    if digest_of_file(Path(path)) != known:
        raise Changed(f"{path} has changed since the run was made", remedy=f"give the original {what}")
    return Path(path)


def model_of(
    run: Run, model: Any = None, threshold: float | None = None, *, trust: Sequence[str] = (), name: str = "model"
) -> Model:
    """Return the given model, or the run's own if it is in memory or in a file that runs no code.

    A directory may come from another person, so it is not trusted to import modules or to unpickle.
    """
    if model is not None:
        return deciding(run, model, threshold)
    source = Source.read(run)
    if run.origin is not None:
        return run.origin.probe.model
    setting = "model.path" if name == "model" else f"compare.{name}"
    if source.model is None:
        raise ModelError(
            f"the run in {run.directory} does not include its model ({run.identity.model})",
            remedy=("pass it: ", Use(f"{name}=...", setting)),
        )
    if not source.model.lower().endswith(SAFE):
        raise ModelError(
            f"the run in {run.directory} was made with {source.model}, which runs code when it is loaded",
            remedy=("if you trust it, pass it: ", Use(f"{name}={source.model!r}", setting, source.model)),
        )
    loaded = load_model(unchanged(source.model, source.model_sha256, "model"), trust=trust)
    return deciding(run, loaded, threshold)


def deciding(run: Run, model: Any, threshold: float | None = None) -> Model:
    """Wrap a model with the given threshold, its own, or the one stored with the run, in this order."""
    wrapped = wrap(model, threshold=threshold)
    if wrapped.threshold is not None or not wrapped.has_scores:
        return wrapped
    return wrapped.with_options(threshold=threshold_of(run))


def threshold_of(run: Run) -> float | None:
    """Return the decision threshold of a run's model, if known.

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
    """Find a file by its relative, absolute or original path, preferring one with the known hash."""
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
        # The name is too long, or the folder cannot be read.
        return False
