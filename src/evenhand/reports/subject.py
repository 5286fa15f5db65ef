"""What a report may ask: the model and the data of a run, where they can be had, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._format import visible
from evenhand.engine.confirm import holds
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DataError, EvenhandError, ModelError
from evenhand.estimates.favour import normal
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.reports.arguments import check_favourable, check_texts, check_truth, decides
from evenhand.runs.provenance import Changed, Source, model_of, unchanged
from evenhand.runs.replay import probe_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of, read_frame
from evenhand.spaces.text.readers import read_texts, strings_of

SAMPLES, FEWEST = 20_000, 200
"""Individuals whom the estimates ask, and how few where the model is slow."""
SECONDS = 20.0
"""How long all questions of a report should take, judged by how long the run's own took."""
PATIENCE = 5
"""How many times as long the fewest samples may take."""
STARTING = 0.2
"""Seconds of a run that go by whatever the model."""
REGIONS, SOUGHT, FEW = 3, 20_000, 1_000
"""Individuals whom finding regions may ask, as a multiple of the samples, and in any case; with fewer samples than the
last it is not tried."""
TEXT_SHARE = 2
"""Of texts one estimate is all; at worst it asks everything twice."""
CHECKED = 64
"""Findings of texts by which a model is told from others."""
LEFT_OUT = ("texts_without_a_term", "texts_without_a_counterpart", "dropped")
"""Counts of texts that a run does not keep."""
OTHER_KIND = "This part is for runs of people or of texts, and this is one of {}s, so it was left out."
NOT_ASKED = "The model was not asked: this report was made with ask=False."


@dataclass(frozen=True)
class ReportInputs:
    """A run, and what is at hand to say more about it."""

    run: Run
    probe: ModelProbe | None
    no_model: str
    """Why there is no model."""
    data: Any
    """Rows with the space's columns, or texts; or None."""
    no_data: str
    decides: bool
    """Whether the model makes decisions, and not numbers alone."""
    numbered: bool
    """Whether places in the data are those that the user knows."""
    favourable: Any
    """What people want: a decision, several or an order; where nobody named one, one of two."""
    named: bool
    """Whether the user named it."""
    y: Any
    samples: int
    confidence: float
    seed: int
    data_name: str = ""
    """What the file of the data is called, where that is known."""
    given: bool = True
    """Whether the data are as the user gave them, and not as the run's space holds them."""
    slow: bool = False
    """Whether fewer are asked than of a fast model, though nobody said how many."""
    lost: tuple[str, ...] = ()
    """What could not be had though it was looked for, and what to do about it."""

    @property
    def regression(self) -> bool:
        """Whether the model's numbers are no scores of decisions."""
        return self.probe is not None and self.probe.model.regression

    @property
    def size(self) -> int:
        """How many rows or texts there are."""
        if self.data is None:
            return 0
        return len(self.data if self.texts else next(iter(columns_of(self.data).values())))

    @property
    def without(self) -> int:
        """How many texts the run was given and did not keep, because nothing in them can be swapped."""
        return sum(self.run.counts.get(name, 0) for name in LEFT_OUT) if self.texts and not self.given else 0

    @property
    def offered(self) -> int:
        """How many texts the run was given."""
        return self.size + self.without

    @property
    def texts(self) -> bool:
        """Whether the run is one of texts."""
        return bool(self.run.space.supports("texts"))

    @property
    def people(self) -> bool:
        """Whether the run is one of attributes."""
        return bool(self.run.space.supports("attributes"))


def subject_of(
    run: Run,
    model: Any,
    data: Any,
    favourable: Any,
    y: Any,
    samples: int | None,
    confidence: float,
    seed: int,
    ask: bool,
    data_name: str = "",
) -> ReportInputs:
    """Find the model and the data of a run; what is given must fit, what is not at hand is done without.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["age"] > 3, space, strategy="themis")
    >>> subject_of(run, None, None, None, None, None, 0.95, 0, ask=False).no_model
    'The model was not asked: this report was made with ask=False.'
    """
    check_texts(run, favourable, y)
    lost: list[str] = []
    noted = ""
    if run.space.supports("texts"):
        found, no_data, numbered = _texts(run, data, lost)
        probe, no_model = _probe_of_texts(run, model, found, ask, lost)
    elif run.space.supports("attributes"):
        probe, no_model = _probe(run, model, ask, lost)
        found, no_data, numbered, noted = _data(run, data, lost)
    else:
        probe, found, numbered = None, None, False
        no_model = no_data = OTHER_KIND.format(run.space.noun)
    deciding = probe is None or run.space.supports("texts") or decides(run, probe)
    favourable = normal(favourable)
    named = favourable is not None
    if not named:
        favourable = _one_of_two(run, probe) if deciding else None
    elif probe is not None:
        check_favourable(run, probe, favourable, deciding)
    if y is not None:
        check_truth(y, found)
    count = samples or affordable(run)
    if not count and probe is not None:
        lost.append(f"the model is slow, and was not asked; --samples {FEWEST} has it asked all the same")
        probe, no_model = (
            None,
            (
                f"This part asks the model, which is slow: a row took {run.seconds / run.rows:.2g} seconds in the run. "
                f"evenhand report --samples {FEWEST}, or eh.report(run, samples={FEWEST}), has it made all the same."
            ),
        )
    return ReportInputs(
        run,
        probe,
        no_model,
        found,
        no_data,
        deciding,
        numbered,
        favourable,
        named,
        y,
        count,
        float(confidence),
        int(seed),
        data_name or noted,
        data is not None or run.origin is None,
        samples is None and 0 < count < SAMPLES,
        tuple(lost),
    )


def affordable(run: Run) -> int:
    """Say how many individuals to ask: as many as a fast model takes, or fewer by what the run's own questions took.

    So many that all questions of the report take about ``SECONDS``; what else it does comes on top.
    It depends on what the run has written down alone, so that the same run gives the same report. 0: none, because
    even the fewest would take many times as long as a report should.
    """
    each = max(0.0, run.seconds - STARTING) / max(run.rows, 1)
    most = SECONDS / max(each, 1e-9)
    if most < _rows(run, FEWEST) / PATIENCE:
        return 0
    steps = [int(lead * 10**power) for power in range(5) for lead in (1, 2, 5)]
    fitting = [step for step in steps if FEWEST <= step <= SAMPLES and _rows(run, step) <= most]
    return max([FEWEST, *fitting])


def individuals(samples: int) -> int:
    """Say how many individuals finding regions may ask."""
    return max(REGIONS * samples, SOUGHT) if samples >= FEW else 0


def _rows(run: Run, samples: int) -> int:
    """Say how many rows a report of so many samples asks, at most: estimates, examples, regions and coverage."""
    if not run.space.supports("attributes"):
        return int(samples * TEXT_SHARE * run.rows / max(run.tests, 1))
    return int(run.space.width * (3 * samples + individuals(samples)) + samples)


def _probe(run: Run, model: Any, ask: bool, lost: list[str]) -> tuple[ModelProbe | None, str]:
    if not ask:
        return None, NOT_ASKED
    if model is not None:
        return probe_of(run, model, "eh.report"), ""
    if run.origin is not None:
        return probe_of(run, None, "eh.report"), ""
    own, no_model = _own(run, lost)
    return (None if own is None else probe_of(run, own, "eh.report")), no_model


def _own(run: Run, lost: list[str]) -> tuple[Model | None, str]:
    """Find the model of a run that was read from its directory, or say why it is not at hand."""
    try:
        return model_of(run), ""
    except Changed:
        raise
    except EvenhandError as error:
        command, call = _remedy(error)
        lost.append(f"the model was not at hand: {_reason(error)}; {command} has it asked")
        return None, (
            f"This part asks the model, which was not at hand: {_reason(error)}. To have it: "
            f"evenhand report RUN {command}, or eh.report(run, model={call})."
        )


def _probe_of_texts(run: Run, model: Any, texts: Any, ask: bool, lost: list[str]) -> tuple[ModelProbe | None, str]:
    if not ask:
        return None, NOT_ASKED
    if model is None and run.origin is not None:
        return run.origin.probe, ""
    own, no_model = (wrap(model), "") if model is not None else _own(run, lost)
    if own is None or texts is None:
        return None, no_model
    probe = ModelProbe(own, run.space.begin(texts), run.identity.criterion)
    known = np.arange(min(run.found, CHECKED))
    if not holds(probe, run.pairs, known, len(known) or 1).all():
        raise ModelError(
            f"{own.name} is not the model that the run was made with ({run.identity.model}): it gives other answers "
            "to texts that the run found; give the run's own"
        )
    return probe, ""


def _remedy(error: EvenhandError) -> tuple[str, str]:
    """Say how to give the model: its types are to be trusted, or it is to be named."""
    trust = next((use for use in error.uses if use.setting == "call.trust"), None)
    if trust is None:
        return "--model MODEL", "model"
    return " ".join(f"--trust {name}" for name in trust.value), trust.python


def _data(run: Run, data: Any, lost: list[str]) -> tuple[Any, str, bool, str]:
    if data is not None:
        # Whatever is wrong with it is said now, and not in the report.
        if not len(run.space.encode(data).individuals):
            raise DataError("none of the rows of the data is in the space; give rows of the space, or no data")
        return data, "", True, ""
    if run.origin is not None and run.origin.data is not None:
        return run.space.frame(run.origin.data.rows), "", not run.counts.get("dropped"), ""
    missing = (
        "How common it is among real people is not known, because no real rows were at hand{}. To have it: "
        "evenhand report RUN --data FILE, or eh.report(run, data=frame)."
    )
    try:
        source = Source.read(run)
        if source.data is None:
            return None, missing.format(""), False, ""
        frame = read_frame(unchanged(source.data, source.data_sha256, "data"))
        run.space.encode(frame)
        return frame, "", True, Path(source.data).name
    except Changed:
        raise
    except EvenhandError as error:
        lost.append(f"the data was not at hand: {_reason(error)}; --data FILE names it")
        return None, missing.format(f": {_reason(error)}"), False, ""


def _texts(run: Run, data: Any, lost: list[str]) -> tuple[Any, str, bool]:
    if data is not None:
        # Whatever is wrong with it is said now, and not in the report; what can be read only once is read once.
        strings = strings_of(data, run.space.column)[0]
        run.space.begin(strings)
        return strings, "", True
    if run.origin is not None and run.origin.data is not None:
        return run.origin.data.rows, "", False
    missing = (
        "How common it is among texts is not known, because the texts were not at hand{}. To have it: "
        "evenhand report RUN --texts FILE, or eh.report(run, data=texts)."
    )
    try:
        source = Source.read(run)
        if source.data is None:
            return None, missing.format(""), False
        texts = read_texts(unchanged(source.data, source.data_sha256, "data"))
        run.space.begin(texts)
        return texts, "", True
    except Changed:
        raise
    except EvenhandError as error:
        lost.append(f"the texts were not at hand: {_reason(error)}; --texts FILE names them")
        return None, missing.format(f": {_reason(error)}"), False


def _reason(error: EvenhandError) -> str:
    """Say why something is not at hand; what to do about it the report says itself."""
    return visible(next(iter(error.reason.splitlines()), type(error).__name__).rstrip(".:"))


def _one_of_two(run: Run, probe: ModelProbe | None) -> Any:
    """Choose the decision to speak of, where there are two: the second, as 1 of 0 and 1."""
    if run.space.supports("texts") or (probe is not None and probe.model.regression):
        return None
    classes = None if probe is None or probe.model.classes is None else probe.model.classes.tolist()
    values = run.pairs.coding.values if classes is None else classes
    return sorted(values, key=str)[-1] if len(values) == 2 else None
