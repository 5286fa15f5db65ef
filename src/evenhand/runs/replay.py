"""Finds the model and data of a run; and ``eh.replay``, which queries the model again about every finding."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_path, is_number
from evenhand.criteria import Criterion
from evenhand.engine.determinism import confirm
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.engine.store import SOURCE, digest_of_answers, read_json, refuse_links, write_json
from evenhand.errors import DECIDE, ModelError, ReplayError, RunError, SpaceError, Use
from evenhand.models.base import Model
from evenhand.models.files import SAFE, is_url, load_model
from evenhand.models.wrap import wrap
from evenhand.runs.run import Run
from evenhand.spaces.base import require

NOTED = ("model", "model_sha256", "threshold", "data", "data_sha256")
"""Required keys of source.json."""


class Changed(RunError):
    """A file that has changed since the run was made."""


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
            raise Changed(f"{path} cannot be read", remedy="delete it, and pass the model and the data yourself")
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
        went_on = run.origin is not None and run.origin.visited is not None
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
        why = "which is not queried unless you name it" if is_url(source.model) else "which runs code when it is loaded"
        raise ModelError(
            f"the run in {run.directory} was made with {source.model}, {why}",
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
    """Return the decision threshold of a run's model, if known."""
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


@dataclass(frozen=True)
class Replay:
    """How many findings of a run the model confirms."""

    run: Run = field(repr=False)
    confirmed: int
    refuted: int
    positions: npt.NDArray[np.int64] = field(repr=False)
    """Positions of the refuted findings in the run."""
    held: npt.NDArray[np.bool_] = field(repr=False)
    """Whether each finding was confirmed."""
    same_model: bool | None = field(default=None, repr=False)
    """Whether the model is the run's own, judged by its answers to fixed individuals; None if unknown."""

    @property
    def holds(self) -> bool:
        """Whether every finding was confirmed."""
        return self.refuted == 0


def replay(directory: str | Path, model: Any = None, threshold: float | None = None) -> Replay:
    """Query a model again about every finding of a stored run, without repeating the search.

    Parameters
    ----------
    directory
        The run's directory, or a bundle, all of whose parts must match its manifest.
    model
        Anything that ``wrap`` takes; by default the file that the command line stored with the run, or the model in
        the bundle. A file that runs code when it is loaded (a pickle, a Python module) must be passed.
    threshold
        The decision threshold; by default the model's own, or the one that the command line stored with the run.

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     run = eh.audit(refuse, space, strategy="themis", directory=directory)
    ...     replay(directory, refuse)
    Replay(confirmed=3, refuted=0)
    """
    if check_path("directory", directory, RunError).is_file():
        from evenhand.runs.bundle import bundled_model, known_as, opened

        with opened(directory) as (checked, kept):
            if not checked.whole:
                raise ReplayError(
                    f"{directory} was changed after it was written: {'; '.join(checked.lines[:5])}",
                    remedy="get an undamaged copy",
                )
            if model is None:
                name, path = bundled_model(checked, kept)
                if not name.lower().endswith(SAFE):
                    raise ModelError(
                        f"the bundle's model, {name}, runs code when it is loaded",
                        remedy=("if you trust it, load it yourself and pass it: ", Use("model=...", "model.path")),
                    )
                with known_as(name, path):
                    model = load_model(path)
            return again(Run.load(kept), model, threshold)
    return again(Run.load(directory), model, threshold)


def again(run: Run, model: Any, threshold: float | None = None) -> Replay:
    """Query a model, by default the run's own, about every finding of a run."""
    probe = ModelProbe(model_of(run, model, threshold), run.space, run.identity.criterion)
    refuted = np.array(confirm(probe, run.pairs, 0, run.identity.chunk)[0].refuted, dtype=np.int64)
    held = ~np.isin(np.arange(run.found), refuted)
    return Replay(run, int(held.sum()), len(refuted), refuted, held, _recognised(run, probe))


def same_answers(run: Run, probe: ModelProbe) -> bool:
    """Whether a model answers the fixed individuals as the run's model did."""
    rows, known = run.space.probes(None).rows, run.identity.answers
    # The stored digest is of scores or of decisions, and the run does not say of which.
    with suppress(ModelError):
        if digest_of_answers(probe.scores(rows)) == known:
            return True
    return not probe.model.regression and digest_of_answers(probe.labels(rows, DECIDE)) == known


def _recognised(run: Run, probe: ModelProbe) -> bool | None:
    """Whether this is the run's own model; None if that cannot be known."""
    if not run.space.supports("attributes"):
        # The fixed texts come from data that the run does not store.
        return None
    try:
        return same_answers(run, probe)
    except SpaceError:
        return None
    except ModelError:
        return False


def judge_of(run: Run, probe: ModelProbe, limit: int | None = None) -> Judge:
    """Return a judge with the run's seed and block size, and so the same counterparts."""
    return Judge(probe, run.identity.seed, chunk=run.identity.chunk, limit=limit)


def probe_of(run: Run, model: Any, call: str, criterion: Criterion | None = None) -> ModelProbe:
    """Return a probe of the run's own model, or of a given model that gives the same answers."""
    check_run(run)
    instead = "run.findings has every pair, what was replaced, and the row of the data that each comes from"
    require(run.space, "attributes", call, instead)
    if model is not None:
        probe = ModelProbe(deciding(run, model), run.space, criterion or run.identity.criterion)
        check_model(run, probe)
        return probe
    if run.origin is None:
        raise ModelError(
            f"a run that was read from its directory does not include its model ({run.identity.model})",
            remedy=f"pass it: {call}(run, model)",
        )
    own = run.origin.probe
    # A new probe, because a search with gradients also asks for scores, which a run that was read back does not.
    return ModelProbe(own.model, run.space, criterion or own.criterion)


def check_run(run: Any) -> None:
    """Raise unless this is a run."""
    if not isinstance(run, Run):
        raise RunError("must be an eh.Run", parameter="run", value=run, remedy="read one with eh.Run.load(directory)")


def check_model(run: Run, probe: ModelProbe) -> None:
    """Raise unless a model gives the same answers as the run's."""
    if not same_answers(run, probe):
        noted = threshold_of(run)
        by = "its decision threshold" if noted is None else f"its decision threshold of {noted:g}"
        raise ModelError(
            f"{probe.model.name} is not the run's model ({run.identity.model}): it gives other answers for the same "
            "individuals",
            remedy=f"pass the run's own model, with {by}",
        )
