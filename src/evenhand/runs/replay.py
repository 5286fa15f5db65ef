"""Replay: query a model again about every finding of a stored run or a bundle."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Criterion
from evenhand.engine.confirm import confirm
from evenhand.engine.judge import Judge
from evenhand.engine.probe import ModelProbe
from evenhand.engine.store import as_path
from evenhand.errors import DECIDE, ModelError, ReplayError, RunError, SpaceError, Use
from evenhand.models.files import load_model
from evenhand.runs.audit import digest_of_answers
from evenhand.runs.provenance import SAFE, deciding, model_of, threshold_of
from evenhand.runs.run import Run
from evenhand.spaces.base import require


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


def replay(
    directory: str | Path, model: Any = None, threshold: float | None = None, *, timeout: float | None = None
) -> Replay:
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
    timeout
        Maximum seconds of one model call.

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
    if as_path(directory, "directory").is_file():
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
            return again(Run.load(kept), model, threshold, timeout)
    return again(Run.load(directory), model, threshold, timeout)


def again(run: Run, model: Any, threshold: float | None = None, timeout: float | None = None) -> Replay:
    """Query a model, by default the run's own, about every finding of a run."""
    probe = ModelProbe(model_of(run, model, threshold), run.space, run.identity.criterion, timeout)
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
    """Return a judge with the run's seed and block size, and so the same counterparts.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & f["member"], space, strategy="themis")
    >>> judge = judge_of(run, probe_of(run, None, "eh.regions"))
    >>> judge.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), judge.rows
    ([True, False, True], 4)
    """
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
    return ModelProbe(own.model, run.space, criterion or own.criterion, own.timeout)


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
