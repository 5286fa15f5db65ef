"""Replay: every finding of a stored run, or of a bundle, asked again."""

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
from evenhand.errors import DECIDE, ModelError, ReplayError, RunError, SpaceError
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
    """Where the refuted ones stand in the run's findings."""
    held: npt.NDArray[np.bool_] = field(repr=False)
    """Yes or no for each finding."""
    same_model: bool | None = field(default=None, repr=False)
    """Whether the model is the run's own, by its answers to the same individuals; None where that is not known."""

    @property
    def holds(self) -> bool:
        """Whether every finding was confirmed."""
        return self.refuted == 0


def replay(
    directory: str | Path, model: Any = None, threshold: float | None = None, *, timeout: float | None = None
) -> Replay:
    """Ask a model again about every finding of a stored run; the search itself is not needed.

    Parameters
    ----------
    directory
        Where the run is kept; or a bundle, whose parts must all be as its manifest says.
    model
        Anything that ``wrap`` takes; by default the file that the command noted with the run, or the model in the
        bundle. A file that runs code when it is loaded (a pickle, a Python module) must be named.
    threshold
        The decision threshold; by default the model's own, or the one that the command noted with the run.
    timeout
        Seconds after which one model call is given up.

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
    if as_path(directory, "a run's directory").is_file():
        from evenhand.runs.bundle import bundled_model, known_as, opened

        with opened(directory) as (checked, kept):
            if not checked.whole:
                raise ReplayError(f"{directory} is not what was bundled: {'; '.join(checked.lines[:5])}")
            if model is None:
                name, path = bundled_model(checked, kept)
                if not name.lower().endswith(SAFE):
                    raise ModelError(
                        f"the bundle's model, {name}, runs code when it is loaded; if you trust it, load it yourself "
                        "and name it: model=..."
                    )
                with known_as(name, path):
                    model = load_model(path)
            return again(Run.load(kept), model, threshold, timeout)
    return again(Run.load(directory), model, threshold, timeout)


def again(run: Run, model: Any, threshold: float | None = None, timeout: float | None = None) -> Replay:
    """Ask a model about every finding of a run; without one, the run's own."""
    probe = ModelProbe(model_of(run, model, threshold), run.space, run.identity.criterion, timeout)
    refuted = np.array(confirm(probe, run.pairs, 0, run.identity.chunk)[0].refuted, dtype=np.int64)
    held = ~np.isin(np.arange(run.found), refuted)
    return Replay(run, int(held.sum()), len(refuted), refuted, held, _recognised(run, probe))


def same_answers(run: Run, probe: ModelProbe) -> bool:
    """Tell whether a model gives the answers by which the run knows its own."""
    rows, known = run.space.probes(None).rows, run.identity.answers
    # A run keeps scores or decisions, by a criterion that is known by name alone; labels are not always scores as well.
    with suppress(ModelError):
        if digest_of_answers(probe.scores(rows)) == known:
            return True
    return not probe.model.regression and digest_of_answers(probe.labels(rows, DECIDE)) == known


def _recognised(run: Run, probe: ModelProbe) -> bool | None:
    """Say whether it is the run's own model that was asked, where that can be said."""
    if not run.space.supports("attributes"):
        # The individuals by which a run knows its model come from its data.
        return None
    try:
        return same_answers(run, probe)
    except SpaceError:
        return None
    except ModelError:
        return False


def judge_of(run: Run, probe: ModelProbe, limit: int | None = None) -> Judge:
    """Return a judge that judges as the run did: the same counterparts, in blocks of the same size.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & f["member"], space, strategy="themis")
    >>> judge = judge_of(run, probe_of(run, None, "eh.regions"))
    >>> judge.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), judge.rows
    ([True, False, True], 4)
    """
    return Judge(probe, run.identity.seed, chunk=run.identity.chunk, limit=limit)


def probe_of(run: Run, model: Any, call: str, criterion: Criterion | None = None) -> ModelProbe:
    """Return what asks the model of a run: its own, or one that is given and gives the same answers."""
    check_run(run)
    instead = "run.findings has every pair, what was replaced, and the row of the data that each comes from"
    require(run.space, "attributes", call, instead)
    if model is not None:
        probe = ModelProbe(deciding(run, model), run.space, criterion or run.identity.criterion)
        check_model(run, probe)
        return probe
    if run.origin is None:
        raise ModelError(
            f"a run that was read from its directory does not have its model ({run.identity.model}) with it; "
            f"give it: {call}(run, model)"
        )
    own = run.origin.probe
    # Without the scores that a search may have asked for its own sake: the same run, read back, does not ask them.
    return ModelProbe(own.model, run.space, criterion or own.criterion, own.timeout)


def check_run(run: Any) -> None:
    """Raise unless this is a run."""
    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")


def check_model(run: Run, probe: ModelProbe) -> None:
    """Raise where a model answers otherwise than the run's did."""
    if not same_answers(run, probe):
        noted = threshold_of(run)
        by = "the decision threshold that it had" if noted is None else f"its decision threshold of {noted:g}"
        raise ModelError(
            f"{probe.model.name} is not the model that the run was made with ({run.identity.model}): it gives other "
            f"answers to the same individuals; give the run's own, with {by}"
        )
