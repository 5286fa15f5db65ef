"""Checks what a report is asked for, before the model is asked for much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand._validate import is_int, is_number
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DATA, DataError, ModelError, RunError
from evenhand.estimates.coverage import Coverage
from evenhand.estimates.favour import Favour, look_for
from evenhand.runs.replay import check_model
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of

LEAST = 100
"""The fewest samples."""


def check_run(run: Any) -> None:
    """Raise unless this is a run."""
    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")


def check_numbers(examples: Any = 1, samples: Any = None, seed: Any = 0) -> None:
    """Raise where a number is none, or too small.

    >>> check_numbers(examples=0)
    Traceback (most recent call last):
    evenhand.errors.RunError: examples must be a whole number of at least 1, got 0
    """
    for name, value, least in (("samples", samples, LEAST), ("examples", examples, 1), ("seed", seed, 0)):
        if (value is not None or name != "samples") and (not is_int(value) or value < least):
            raise RunError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_confidence(confidence: Any) -> None:
    """Raise unless it is a confidence."""
    if not is_number(confidence) or not 0.5 < confidence < 1:
        raise RunError(f"confidence must be above 0.5 and below 1, got {confidence!r}")


def check_kinds(rows: Any, ask: Any, title: Any, note: Any, coverage: Any) -> None:
    """Raise where something is not what its name says.

    >>> check_kinds("no", True, None, "", None)
    Traceback (most recent call last):
    evenhand.errors.RunError: rows must be True or False, got 'no'
    """
    for name, value in (("rows", rows), ("ask", ask)):
        if not isinstance(value, bool | np.bool):
            raise RunError(f"{name} must be True or False, got {value!r}")
    for name, value in (("title", title), ("note", note)):
        if not isinstance(value, str) and (value is not None or name == "note"):
            raise RunError(f"{name} must be text, got {value!r}")
    if coverage is not None and not isinstance(coverage, Coverage):
        raise RunError(f"coverage must be what eh.coverage(run) returns, got {coverage!r}")


def runs_of(others: Any) -> tuple[Run, ...]:
    """Return the other runs; raise where they are none."""
    if isinstance(others, Run) or not isinstance(others, Sequence):
        raise RunError(f"others must be a list of runs, got {type(others).__name__}; write others=[run]")
    for one in others:
        if not isinstance(one, Run):
            raise RunError(f"others must be a list of runs, got one with {one!r}; eh.Run.load(directory) reads a run")
    return tuple(others)


def check_others(run: Run, others: Sequence[Run], probe: ModelProbe | None) -> None:
    """Raise where a run is not one of the same model and the same space, and so no rival."""
    for other in others:
        if other.space.describe() != run.space.describe():
            raise RunError("others has a run of another space; give runs of the same model and the same space")
        if not _same_model(run, other, probe):
            raise RunError(
                f"others has a run of another model ({other.identity.model}, and this one is of "
                f"{run.identity.model}); give runs of the same model and the same space"
            )


def _same_model(run: Run, other: Run, probe: ModelProbe | None) -> bool:
    one, two = run.identity, other.identity
    if one.answers == two.answers:
        return True
    if probe is not None and run.space.supports("attributes"):
        try:
            check_model(other, probe)
        except ModelError:
            return False
        return True
    # Scores and decisions, or the answers to other texts, cannot be compared.
    alike_asked = (one.criterion, one.gradient) == (two.criterion, two.gradient)
    known = alike_asked and run.space.supports("attributes")
    return not known and bool(one.model == two.model)


def check_texts(run: Run, favourable: Any, y: Any) -> None:
    """Raise where a report of texts is given what only rows have."""
    if run.space.supports("attributes"):
        return
    for name, value in (("favourable", favourable), ("y", y)):
        if value is not None:
            raise RunError(
                f"{name}= is for runs of rows: a report of {run.space.noun}s has no part for it; leave it out"
            )


def decides(run: Run, probe: ModelProbe) -> bool:
    """Whether the model of a run makes decisions; by a gap, numbers may be all that it gives."""
    if probe.model.regression:
        return False
    if probe.criterion.needs_decisions or probe.model.classes is not None:
        return True
    if probe.model.threshold is not None:
        return True
    try:
        # One number that no threshold cuts is an amount, also where all of them happen to be whole.
        return bool(probe.scores(run.space.probes(None).rows).shape[1] > 1)
    except ModelError:
        return False


def check_favourable(run: Run, probe: ModelProbe, favourable: Any, deciding: bool) -> None:
    """Raise where the model has no such decision; one that the run has not met is looked for."""
    favour = Favour(probe.model, favourable)
    if probe.model.regression or probe.model.classes is not None:
        return
    if not deciding:
        # One number may be the score of the second of two decisions.
        favour.turned(1)
        return
    seen = np.empty(len(run.pairs.coding.values), dtype=object)
    seen[:] = run.pairs.coding.values
    favour.ranks(seen)
    look_for(favour, probe)


def check_truth(y: Any, data: Any) -> None:
    """Raise where there are no such true decisions."""
    if data is None:
        raise DataError("needs the rows that it belongs to", parameter="y", value=y, remedy=("give them: ", DATA))
    columns = columns_of(data)
    if isinstance(y, str):
        if y not in columns:
            raise DataError(
                f"must be a column of the data, which has {', '.join(map(str, list(columns)[:20]))}",
                parameter="y",
                value=y,
                remedy=("a run keeps only the columns of its space: give data with the column, ", DATA),
            )
        return
    rows = len(next(iter(columns.values())))
    if np.shape(y) != (rows,):
        raise DataError(f"y must be one true decision for each of the {rows:,} rows of the data, got {np.shape(y)}")


def _short(value: Any) -> str:
    return repr(value)[:60]
