"""The report of a run: its arguments, the model and the data that it may ask, and the file that is written."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._format import plain, visible
from evenhand._interrupts import watched
from evenhand._validate import check_bool, check_confidence, check_int, check_seed
from evenhand._write import reason, replacing
from evenhand.engine.confirm import holds
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DATA, DataError, EvenhandError, ModelError, RunError
from evenhand.estimates.coverage import Coverage
from evenhand.estimates.pair_counts import Favour, look_for, normal
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.reports.content import Content, gather, individuals
from evenhand.reports.render import failed, render
from evenhand.reports.wording import named
from evenhand.runs.provenance import Changed, Source, model_of, unchanged
from evenhand.runs.replay import check_model, check_run, probe_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of, read_frame
from evenhand.spaces.text.readers import read_texts, strings_of

LEAST = 100
"""The fewest samples."""
SAMPLES, FEWEST = 20_000, 200
"""Samples of each estimate, and how few where the model is slow."""
SECONDS = 12.0
"""The seconds that all queries of a report should take at most, judged by the run's own time."""
PATIENCE = 5
"""How many times as long the fewest samples may take."""
STARTING = 0.2
"""Seconds of a run that go by whatever the model."""
TEXT_SHARE = 2
"""Of texts one estimate is all; at worst it asks everything twice."""
CHECKED = 64
"""Findings of texts by which a model is told from others."""
LEFT_OUT = ("texts_without_a_term", "texts_without_a_counterpart", "dropped")
"""Counts of texts that a run does not keep."""
OTHER_KIND = "This part is for runs of people or of texts, and this is one of {}s, so it was left out."
MISSING = {
    "attributes": (
        "How common it is among real people was not measured: there is no data{}. Use evenhand report RUN "
        "--data FILE, or eh.report(run, data=frame).",
        "there is no data: {}; use --data FILE",
    ),
    "texts": (
        "How common it is among texts was not measured: there are no texts{}. Use evenhand report RUN "
        "--texts FILE, or eh.report(run, data=texts).",
        "there are no texts: {}; use --texts FILE",
    ),
}
"""What the report and the command print without data."""
NOT_ASKED = "The model was not queried: this report was made with ask=False."


@dataclass(frozen=True)
class ReportOptions:
    """What else a report shows: its words, how many examples, and what it is compared with.

    Parameters
    ----------
    title
        Its heading; by default the model's name.
    note
        A paragraph about the model, under the heading.
    examples
        How many examples to show, at most.
    confidence
        Of all intervals.
    seed
        Same seed and same run, same bytes.
    others
        Further runs of the same model and space, drawn beside the discovery curve.
    coverage
        A coverage of this run that was measured before.
    ask
        Whether to ask the model; without, the report has what the run itself holds.

    Examples
    --------
    >>> ReportOptions(examples=0)
    Traceback (most recent call last):
    evenhand.errors.RunError: examples must be an integer of at least 1, got 0
    """

    title: str | None = None
    note: str = ""
    examples: int = 4
    confidence: float = 0.95
    seed: int = 0
    others: Sequence[Run] = ()
    coverage: Coverage | None = None
    ask: bool = True

    def __post_init__(self) -> None:
        for name, value in (("title", self.title), ("note", self.note)):
            if not isinstance(value, str) and (value is not None or name == "note"):
                raise RunError("must be text", parameter=name, value=value)
        check_int("examples", self.examples, RunError, 1)
        check_confidence(self.confidence, RunError)
        check_seed(self.seed, RunError)
        check_bool("ask", self.ask, RunError)
        if self.coverage is not None and not isinstance(self.coverage, Coverage):
            raise RunError("must be what eh.coverage(run) returns", parameter="coverage", value=self.coverage)
        if isinstance(self.others, Run) or not isinstance(self.others, Sequence):
            raise RunError(f"others must be a list of runs, got {type(self.others).__name__}; write others=[run]")
        for one in self.others:
            if not isinstance(one, Run):
                raise RunError(f"others must be a list of runs, got one with {one!r}; eh.Run.load(directory) reads one")


@dataclass(frozen=True)
class ReportInputs:
    """A run, its model and its data, where they are available."""

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
    """The favourable decision, several or an order; where none was set, one of two."""
    named: bool
    """Whether the user named it."""
    y: Any
    samples: int
    options: ReportOptions
    data_name: str = ""
    """What the file of the data is called, where that is known."""
    given: bool = True
    """Whether the data are as the user gave them, and not as the run's space holds them."""
    slow: bool = False
    """Whether fewer samples are taken than of a fast model, because their number was not set."""
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
    def part(self) -> int:
        """How many rows of the data the group figures use: of a slow model no more than an estimate asks."""
        return min(self.size, self.samples) if self.slow else self.size

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


def report(
    run: Run,
    path: str | Path | None = "report.html",
    *,
    model: Any = None,
    data: Any = None,
    favourable: Any = None,
    y: Any = None,
    show_examples: bool = True,
    samples: int | None = None,
    options: ReportOptions | None = None,
) -> Path | Any:
    """Write the report of a run: one offline HTML file for people who never ran anything.

    It asks the model some more questions, outside all budgets: how common it is, where, and which real people are
    nearest. Without the model or the data, or where a part fails, the report says so and has the rest;
    it warns about parts that fail.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    path
        The file to write; None returns its bytes instead.
    model
        Anything that ``wrap`` takes. By default the run's own, from memory or from a file noted with the run
        that runs no code.
    data
        Real rows, or texts. By default those that the run was given.
    favourable
        The decision that people want; a list of such decisions; or ``eh.Order`` of all decisions, worst first. Of
        numbers ``"higher"`` or ``"lower"``. Without it the report says who gets which decision or who gets more, not
        who is favoured. Not for texts.
    y
        The true decisions, or the name of their column in the data, for the accuracy of groups.
    show_examples
        Whether to show examples; without them no person's values are in the file.
    samples
        How many individuals the estimates ask; by default 20,000, and fewer where the run shows that the model is slow.
    options
        An ``eh.ReportOptions``: title, note, number of examples, confidence, seed, other runs to compare with, a
        coverage measured before, and whether to ask the model at all.

    Returns
    -------
    Path or bytes

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = eh.report(run, f"{folder}/report.html").read_text("utf-8")
    >>> "Changing only sex changes" in text, "<script" in text
    (True, False)
    """
    check_run(run)
    place = None if path is None else ready(path)
    content = gathered(run, model, data, favourable, y, show_examples, samples, options)
    page = render(content)
    if place is not None:
        write(place, page)
    if content.failed:
        warnings.warn(f"{place or 'the report'}: {failed(content)}", stacklevel=2)
    return page.encode() if place is None else place


@watched()
def gathered(
    run: Run,
    model: Any = None,
    data: Any = None,
    favourable: Any = None,
    y: Any = None,
    show_examples: bool = True,
    samples: int | None = None,
    options: ReportOptions | None = None,
    data_name: str = "",
) -> Content:
    """Gather what a report says; the arguments are those of ``report``, and what the file of the data is called."""
    check_run(run)
    if options is not None and not isinstance(options, ReportOptions):
        raise RunError("must be an eh.ReportOptions", parameter="options", value=options)
    chosen = options or ReportOptions()
    check_bool("show_examples", show_examples, RunError)
    if samples is not None:
        check_int("samples", samples, RunError, LEAST)
    subject = inputs_of(run, model, data, favourable, y, samples, chosen, data_name)
    check_others(run, chosen.others, subject.probe)
    heading = chosen.title or f"{named(run)}, by {', '.join(map(plain, run.space.protected))}"
    return gather(Content(subject, heading, bool(show_examples), coverage=chosen.coverage))


def ready(path: Any) -> Path:
    """Return the place for the file; raise where it cannot be written, before anything is asked."""
    if not isinstance(path, str | os.PathLike):
        raise RunError(f"path must be the name of the file to write, got {path!r}")
    place = Path(path)
    try:
        with suppress(FileNotFoundError):
            # A name with a zero byte is a ValueError here.
            place.stat()
            with place.open("ab"):
                return place
        with tempfile.TemporaryFile(dir=next(folder for folder in place.absolute().parents if folder.exists())):
            return place
    except (OSError, ValueError) as error:
        raise _unwritable(place, error) from error


def write(path: Path, text: str) -> Path:
    """Write the file, and the folder that it is in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(text.encode())
        return path
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot write {path}: {reason(error)}; choose another place for the report")


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


def inputs_of(
    run: Run,
    model: Any,
    data: Any,
    favourable: Any,
    y: Any,
    samples: int | None,
    options: ReportOptions,
    data_name: str = "",
) -> ReportInputs:
    """Find the model and the data of a run; given ones must fit, missing ones are left out.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["age"] > 3, space, strategy="themis")
    >>> inputs_of(run, None, None, None, None, None, ReportOptions(ask=False)).no_model
    'The model was not queried: this report was made with ask=False.'
    """
    check_texts(run, favourable, y)
    lost: list[str] = []
    if run.space.supports("texts") or run.space.supports("attributes"):
        found, no_data, numbered, noted = _data(run, data, lost)
        probe, no_model = _probe(run, model, found, options.ask, lost)
    else:
        probe, found, numbered, noted = None, None, False, ""
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
        lost.append(f"the model is slow and was not queried; use --samples {FEWEST} to query it anyway")
        probe, no_model = (
            None,
            (
                f"This part queries the model, which is slow: a row took {run.seconds / run.rows:.2g} seconds. "
                f"Use evenhand report --samples {FEWEST}, or eh.report(run, samples={FEWEST}), to make it anyway."
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
        options,
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


def _rows(run: Run, samples: int) -> int:
    """Return how many rows a report asks at most: estimates, examples, regions, coverage and group figures."""
    if not run.space.supports("attributes"):
        return int(samples * TEXT_SHARE * run.rows / max(run.tests, 1))
    return int(run.space.width * (3 * samples + individuals(samples)) + 2 * samples)


def _data(run: Run, data: Any, lost: list[str]) -> tuple[Any, str, bool, str]:
    """Find the rows or texts, or why there are none; whether places in them are the user's; and their file's name."""
    texts = run.space.supports("texts")
    if data is not None:
        # Whatever is wrong with it is said now, and not in the report; what can be read only once is read once.
        given = strings_of(data, run.space.column)[0] if texts else data
        if texts:
            run.space.begin(given)
        elif not len(run.space.encode(given).individuals):
            raise DataError("none of the rows of the data is in the space; give rows of the space, or no data")
        return given, "", True, ""
    if run.origin is not None and run.origin.data is not None:
        rows = run.origin.data.rows
        return rows if texts else run.space.frame(rows), "", not (texts or run.counts.get("dropped")), ""
    missing, gone = MISSING["texts" if texts else "attributes"]
    try:
        source = Source.read(run)
        if source.data is None:
            return None, missing.format(""), False, ""
        path = unchanged(source.data, source.data_sha256, "data")
        found = read_texts(path) if texts else read_frame(path)
        (run.space.begin if texts else run.space.encode)(found)
        return found, "", True, Path(source.data).name
    except Changed:
        raise
    except EvenhandError as error:
        lost.append(gone.format(_reason(error)))
        return None, missing.format(f": {_reason(error)}"), False, ""


def _probe(run: Run, model: Any, data: Any, ask: bool, lost: list[str]) -> tuple[ModelProbe | None, str]:
    """Find the model of a run, or say why it is not asked."""
    if not ask:
        return None, NOT_ASKED
    texts = run.space.supports("texts")
    if model is None and run.origin is not None:
        return run.origin.probe if texts else probe_of(run, None, "eh.report"), ""
    own, no_model = (model, "") if model is not None else _own(run, lost)
    if own is None or (texts and data is None):
        return None, no_model
    return _of_texts(run, wrap(own), data) if texts else probe_of(run, own, "eh.report"), ""


def _own(run: Run, lost: list[str]) -> tuple[Model | None, str]:
    """Find the model of a run that was read from its directory, or say why it is not available."""
    try:
        return model_of(run), ""
    except Changed:
        raise
    except EvenhandError as error:
        # Its types are to be trusted, or it is to be named.
        trust = next((use for use in error.uses if use.setting == "call.trust"), None)
        command, call = "--model MODEL", "model"
        if trust is not None:
            command, call = " ".join(f"--trust {name}" for name in trust.value), trust.python
        lost.append(f"the model was not available: {_reason(error)}; {command} has it asked")
        return None, (
            f"This part asks the model, which was not available: {_reason(error)}. To have it: "
            f"evenhand report RUN {command}, or eh.report(run, model={call})."
        )


def _of_texts(run: Run, model: Model, texts: Any) -> ModelProbe:
    """Return what asks a model about texts; raise unless it answers as the run's own did."""
    probe = ModelProbe(model, run.space.begin(texts), run.identity.criterion)
    known = np.arange(min(run.found, CHECKED))
    if not holds(probe, run.pairs, known, len(known) or 1).all():
        raise ModelError(
            f"{model.name} is not the model that the run was made with ({run.identity.model}): it gives other answers "
            "to texts that the run found; give the run's own"
        )
    return probe


def _reason(error: EvenhandError) -> str:
    """Say why something is not available; what to do about it the report says itself."""
    return visible(next(iter(error.reason.splitlines()), type(error).__name__).rstrip(".:"))


def _one_of_two(run: Run, probe: ModelProbe | None) -> Any:
    """Choose the decision to speak of, where there are two: the second, as 1 of 0 and 1."""
    if run.space.supports("texts") or (probe is not None and probe.model.regression):
        return None
    classes = None if probe is None or probe.model.classes is None else probe.model.classes.tolist()
    values = run.pairs.coding.values if classes is None else classes
    return sorted(values, key=str)[-1] if len(values) == 2 else None
