"""``eh.report``: its arguments, the model and data that it can use, and the written file."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evenhand._files import reason, replacing
from evenhand._format import plain, visible
from evenhand._interrupts import watched
from evenhand._validate import check_bool, check_choice, check_confidence, check_int, check_seed
from evenhand.engine.determinism import holds
from evenhand.engine.judge import ModelProbe
from evenhand.errors import DATA, DataError, EvenhandError, ModelError, RunError
from evenhand.estimates.coverage import Coverage
from evenhand.estimates.groups import truth_of
from evenhand.estimates.pair_counts import Favour, look_for, normal
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.reports.content import Content, gather, individuals
from evenhand.reports.render import TITLES, failed, render, render_result
from evenhand.reports.wording import named
from evenhand.runs.pair_sentences import EXAMPLES, SYNTHETIC
from evenhand.runs.replay import Changed, Source, check_model, check_run, model_of, probe_of, unchanged
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of, read_frame
from evenhand.spaces.text.readers import read_texts, strings_of

if TYPE_CHECKING:
    from evenhand.estimates.compare import Compared
    from evenhand.estimates.result import Estimate
    from evenhand.repairs.result import Comparison as RepairComparison
    from evenhand.repairs.result import Repair

LEAST = 100
"""Minimum number of samples."""
SAMPLES, FEWEST = 20_000, 200
"""Default samples of each estimate, and the minimum for slow models."""
SECONDS = 12.0
"""Maximum seconds that all queries of a report should take, estimated from the run's time."""
PATIENCE = 5
"""Factor by which the minimum number of samples may exceed that time."""
STARTING = 0.2
"""Seconds that every run takes, whatever the model."""
TEXT_SHARE = 2
"""Reports on texts have one estimate, which queries everything twice at most."""
CHECKED = 64
"""Number of findings of texts that are queried to recognise a model."""
LEFT_OUT = ("texts_without_a_term", "texts_without_a_counterpart", "dropped")
"""Counts of texts that a run does not keep."""
OTHER_KIND = "This part is for runs on people or texts. It was left out, because this run is on {}s."
MISSING = {
    "attributes": (
        "{} among real people was not measured: there is no data{}. Use evenhand report RUN "
        "--data FILE, or eh.report(run, data=frame).",
        "there is no data: {}; use --data FILE",
    ),
    "texts": (
        "{} among texts was not measured: there are no texts{}. Use evenhand report RUN "
        "--texts FILE, or eh.report(run, data=texts).",
        "there are no texts: {}; use --texts FILE",
    ),
}
"""What the report and the command print without data."""
NOT_ASKED = "The model was not queried: this report was made with ask=False."


@dataclass(frozen=True)
class ReportOptions:
    """Settings of a report: texts, number of examples, and runs to compare with.

    Parameters
    ----------
    title
        The heading; by default the model's name.
    note
        A paragraph about the model, under the heading.
    examples
        Maximum number of examples.
    confidence
        Confidence level of all intervals.
    seed
        Same seed and same run, same bytes.
    others
        Other runs of the same model and space, drawn in the discovery curve.
    coverage
        A coverage of this run that was measured before.
    ask
        Whether to query the model; otherwise the report has only what the run itself contains.

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
            raise RunError("must be the result of eh.coverage(run)", parameter="coverage", value=self.coverage)
        if isinstance(self.others, Run) or not isinstance(self.others, Sequence):
            raise RunError(
                f"must be a list of runs, got {type(self.others).__name__}",
                parameter="others",
                remedy="write others=[run]",
            )
        for one in self.others:
            if not isinstance(one, Run):
                raise RunError(
                    "must be a list of runs", parameter="others", value=one, remedy="eh.Run.load(directory) reads one"
                )


@dataclass(frozen=True)
class ReportInputs:
    """A run, with its model and data if they are available."""

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
    """Whether positions in the data are those that the user knows."""
    favourable: Any
    """The favourable decision, several, or an order; if none was set, one of two decisions."""
    named: bool
    """Whether the user named the favourable decision."""
    y: Any
    samples: int
    options: ReportOptions
    data_name: str = ""
    """The name of the data file, if known."""
    given: bool = True
    """Whether the data is as the user gave it, not as represented in the space."""
    slow: bool = False
    """Whether the number of samples was reduced because the model is slow."""
    lost: tuple[str, ...] = ()
    """What was looked for but not found, and what to do about it."""

    @property
    def regression(self) -> bool:
        """Whether the model's numbers are not scores of decisions."""
        return self.probe is not None and self.probe.model.regression

    @property
    def own_data(self) -> bool:
        """Whether the data are those of the run."""
        if self.data is None or self.run.identity.data is None:
            return False
        binding = self.run.space.bind(self.data, None)
        return bool(binding.bound.digest_of(binding.people) == self.run.identity.data)

    @property
    def draws(self) -> int:
        """Maximum number of the run's independent draws that are asked again."""
        return max(self.samples, int(SECONDS / _each(self.run) / (TEXT_SHARE * 2 * _width(self.run))))

    @property
    def size(self) -> int:
        """Number of rows or texts."""
        if self.data is None:
            return 0
        return len(self.data if self.texts else next(iter(columns_of(self.data).values())))

    @property
    def part(self) -> int:
        """Number of data rows for the group figures: for a slow model, no more than for an estimate."""
        return min(self.size, self.samples) if self.slow else self.size

    @property
    def without(self) -> int:
        """Number of texts that the run was given but did not keep, because nothing in them can be swapped."""
        return sum(self.run.counts.get(name, 0) for name in LEFT_OUT) if self.texts and not self.given else 0

    @property
    def offered(self) -> int:
        """Number of texts that the run was given."""
        return self.size + self.without

    @property
    def texts(self) -> bool:
        """Whether the run is on texts."""
        return bool(self.run.space.supports("texts"))

    @property
    def people(self) -> bool:
        """Whether the run is on attributes."""
        return bool(self.run.space.supports("attributes"))


def report(
    run: Run | Estimate | Compared | Repair | RepairComparison,
    path: str | Path | None = "report.html",
    *,
    model: Any = None,
    data: Any = None,
    favourable: Any = None,
    y: Any = None,
    show_examples: str = SYNTHETIC,
    samples: int | None = None,
    options: ReportOptions | None = None,
) -> Path | Any:
    """Write the report of a run: one offline HTML file for readers who did not run the audit.

    The model is queried again, outside all budgets, to measure how common discrimination is, where it happens, and
    which real people are nearest. Parts that need a missing model or missing data, and parts that fail, are replaced by
    the reason; for parts that fail, there is also a warning.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory. Or what ``eh.estimate``, ``eh.compare`` or ``eh.repair`` returned,
        whose report queries no model and needs no other argument.
    path
        The file to write; None returns its bytes instead.
    model
        The model, in any form that ``wrap`` takes. By default the run's own: from memory, or from the file recorded in
        the run, if loading it runs no code.
    data
        Real rows, or texts; by default those of the run.
    favourable
        The favourable decision; a list of such decisions; or ``eh.Order`` of all decisions, worst first. For numbers,
        ``"higher"`` or ``"lower"``. Without it, the report says who gets which decision, or who gets more, but not who
        is favoured. Not for texts.
    y
        The true decisions, or the name of their column in the data, for the accuracy of groups.
    show_examples
        ``"synthetic"``: examples differ from every row of the data in more than what is protected; ``"real"``: people
        of the data come first, as they are, and a banner says so; ``"none"``.
    samples
        Number of individuals for regions, coverage and, if the run has no estimate of its own, for the rates; by
        default 20,000, or fewer if the run shows that the model is slow.
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
    place = None if path is None else ready(path)
    if type(run).__name__ in TITLES:
        made = render_result(run, None if options is None else options.title)
        return made.encode() if place is None else write(place, made)
    content = gathered(cast(Run, run), model, data, favourable, y, show_examples, samples, options)
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
    show_examples: str = SYNTHETIC,
    samples: int | None = None,
    options: ReportOptions | None = None,
    data_name: str = "",
) -> Content:
    """Gather the content of a report; the arguments are those of ``report``, and the name of the data file."""
    check_run(run)
    if options is not None and not isinstance(options, ReportOptions):
        raise RunError("must be an eh.ReportOptions", parameter="options", value=options)
    chosen = options or ReportOptions()
    check_choice("show_examples", show_examples, EXAMPLES, RunError)
    if samples is not None:
        check_int("samples", samples, RunError, LEAST)
    subject = inputs_of(run, model, data, favourable, y, samples, chosen, data_name)
    check_others(run, chosen.others, subject.probe)
    heading = chosen.title or f"Model {named(run)}, by {', '.join(map(plain, run.space.protected))}"
    return gather(Content(subject, heading, show_examples, coverage=chosen.coverage))


def ready(path: Any) -> Path:
    """Return the path of the file; raise before the model is queried if it cannot be written."""
    if not isinstance(path, str | os.PathLike):
        raise RunError("must be the name of the file to write", parameter="path", value=path)
    place = Path(path)
    try:
        with suppress(FileNotFoundError):
            # A name with a zero byte raises a ValueError here.
            place.stat()
            with place.open("ab"):
                return place
        with tempfile.TemporaryFile(dir=next(folder for folder in place.absolute().parents if folder.exists())):
            return place
    except (OSError, ValueError) as error:
        raise _unwritable(place, error) from error


def write(path: Path, text: str) -> Path:
    """Write the file, and create its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(text.encode())
        return path
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot write {path}: {reason(error)}", remedy="choose another place for the report")


def check_others(run: Run, others: Sequence[Run], probe: ModelProbe | None) -> None:
    """Raise if a run has another model or another space, so that it cannot be compared."""
    for other in others:
        if other.space.describe() != run.space.describe():
            raise RunError(
                "has a run of another space",
                parameter="others",
                remedy="give runs of the same model and the same space",
            )
        if not _same_model(run, other, probe):
            raise RunError(
                f"has a run of another model ({other.identity.model}, not {run.identity.model})",
                parameter="others",
                remedy="give runs of the same model and the same space",
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
    # Scores cannot be compared with decisions, nor answers to different texts.
    alike_asked = (one.criterion, one.gradient) == (two.criterion, two.gradient)
    known = alike_asked and run.space.supports("attributes")
    return not known and bool(one.model == two.model)


def check_texts(run: Run, favourable: Any, y: Any) -> None:
    """Raise if a report on texts is given arguments that apply to rows only."""
    if run.space.supports("attributes"):
        return
    for name, value in (("favourable", favourable), ("y", y)):
        if value is not None:
            raise RunError(
                f"is for runs of rows: a report on {run.space.noun}s has no such section",
                parameter=name,
                remedy="leave it out",
            )


def decides(run: Run, probe: ModelProbe) -> bool:
    """Whether the model of a run makes decisions; a run with a gap may have a model that returns numbers only."""
    if probe.model.regression:
        return False
    if probe.criterion.needs_decisions or probe.model.classes is not None:
        return True
    if probe.model.threshold is not None:
        return True
    try:
        # Single numbers without a threshold are amounts, even if all of them are whole.
        return bool(probe.scores(run.space.probes(None).rows).shape[1] > 1)
    except ModelError:
        return False


def check_favourable(run: Run, probe: ModelProbe, favourable: Any, deciding: bool) -> None:
    """Raise if the model does not make the favourable decision; if the run lacks it, random individuals are tried."""
    favour = Favour(probe.model, favourable)
    if probe.model.regression or probe.model.classes is not None:
        return
    if not deciding:
        # A single number may be the score of the second of two decisions.
        favour.turned(1)
        return
    seen = np.empty(len(run.pairs.coding.values), dtype=object)
    seen[:] = run.pairs.coding.values
    favour.ranks(seen)
    look_for(favour, probe)


def check_truth(y: Any, data: Any) -> None:
    """Raise if the true decisions are invalid."""
    if data is None:
        raise DataError("needs the rows that it belongs to", parameter="y", value=y, remedy=("give them: ", DATA))
    columns = columns_of(data)
    if isinstance(y, str) and y not in columns:
        raise DataError(
            f"must be a column of the data, which has {', '.join(map(str, list(columns)[:20]))}",
            parameter="y",
            value=y,
            remedy=("a run keeps only the columns of its space: give data with the column, ", DATA),
        )
    truth_of(y, data, len(next(iter(columns.values()))))


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
    """Find the model and the data of a run; given ones must fit, missing ones are left out."""
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
    """Return the number of individuals for estimates: that for fast models, or fewer if the run's queries were slow.

    With it, all queries of the report take about ``SECONDS``; other work is not included. It depends on recorded times
    of the run only, so that the same run gives the same report. 0: even the minimum would take far too long.
    """
    most = SECONDS / _each(run)
    if most < _rows(run, FEWEST) / PATIENCE:
        return 0
    steps = [int(lead * 10**power) for power in range(5) for lead in (1, 2, 5)]
    fitting = [step for step in steps if FEWEST <= step <= SAMPLES and _rows(run, step) <= most]
    return max([FEWEST, *fitting])


def _each(run: Run) -> float:
    """Return the seconds that a row of a run took."""
    return max(max(0.0, run.seconds - STARTING) / max(run.rows, 1), 1e-9)


def _width(run: Run) -> float:
    """Return how many rows a test of a run took."""
    return float(run.space.width if run.space.supports("attributes") else run.rows / max(run.tests, 1))


def _rows(run: Run, samples: int) -> int:
    """Return the maximum number of rows of a report: estimates, examples, regions, coverage and group figures."""
    if not run.space.supports("attributes"):
        return int(samples * TEXT_SHARE * _width(run))
    return int(run.space.width * (3 * samples + individuals(samples)) + 2 * samples)


def _data(run: Run, data: Any, lost: list[str]) -> tuple[Any, str, bool, str]:
    """Find the rows or texts, or why there are none; whether positions are those of the user; and the file's name."""
    texts = run.space.supports("texts")
    if data is not None:
        # Errors in the data are raised now, not in the report; data that can be read only once is read once.
        given = strings_of(data, run.space.column)[0] if texts else data
        if texts:
            run.space.begin(given)
        elif not len(run.space.encode(given).individuals):
            raise DataError("none of the rows of the data is in the space", remedy="give rows of the space, or no data")
        return given, "", True, ""
    if run.origin is not None and run.origin.data is not None:
        rows = run.origin.data.rows
        return rows if texts else run.space.frame(rows), "", not (texts or run.counts.get("dropped")), ""
    missing, gone = MISSING["texts" if texts else "attributes"]
    # The run's own rate is known without its data.
    what = "Who gains and who loses" if "data" in run.estimate else "The rate"
    try:
        source = Source.read(run)
        if source.data is None:
            return None, missing.format(what, ""), False, ""
        path = unchanged(source.data, source.data_sha256, "data")
        found = read_texts(path) if texts else read_frame(path)
        (run.space.begin if texts else run.space.encode)(found)
        return found, "", True, Path(source.data).name
    except Changed:
        raise
    except EvenhandError as error:
        lost.append(gone.format(_reason(error)))
        return None, missing.format(what, f": {_reason(error)}"), False, ""


def _probe(run: Run, model: Any, data: Any, ask: bool, lost: list[str]) -> tuple[ModelProbe | None, str]:
    """Find the model of a run, or why it is not queried."""
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
    """Find the model of a run that was loaded from its directory, or why it is not available."""
    try:
        return model_of(run), ""
    except Changed:
        raise
    except EvenhandError as error:
        # Either its types must be trusted, or it must be named.
        trust = next((use for use in error.uses if use.setting == "call.trust"), None)
        command, call = "--model MODEL", "model"
        if trust is not None:
            command, call = " ".join(f"--trust {name}" for name in trust.value), trust.python
        lost.append(f"the model was not available: {_reason(error)}; use {command}")
        return None, (
            f"This part queries the model, which was not available: {_reason(error)}. To include it: "
            f"evenhand report RUN {command}, or eh.report(run, model={call})."
        )


def _of_texts(run: Run, model: Model, texts: Any) -> ModelProbe:
    """Return a probe of a model on texts; raise unless it answers as the run's own model did."""
    probe = ModelProbe(model, run.space.begin(texts), run.identity.criterion)
    known = np.arange(min(run.found, CHECKED))
    if not holds(probe, run.pairs, known, len(known) or 1).all():
        raise ModelError(
            f"{model.name} is not the run's model ({run.identity.model}): it gives different predictions for the "
            "run's findings",
            remedy="give the run's own model",
        )
    return probe


def _reason(error: EvenhandError) -> str:
    """Describe why something is not available, without the remedy, which the report gives."""
    return visible(next(iter(error.reason.splitlines()), type(error).__name__).rstrip(".:"))


def _one_of_two(run: Run, probe: ModelProbe | None) -> Any:
    """Return the second of two decisions, such as 1 of 0 and 1, for the figures."""
    if run.space.supports("texts") or (probe is not None and probe.model.regression):
        return None
    classes = None if probe is None or probe.model.classes is None else probe.model.classes.tolist()
    values = run.pairs.coding.values if classes is None else classes
    return sorted(values, key=str)[-1] if len(values) == 2 else None
