"""The entry: from a run to the file that is read."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand._interrupts import watched
from evenhand._write import reason, replacing
from evenhand.errors import RunError
from evenhand.reports.arguments import check_confidence, check_kinds, check_numbers, check_others, check_run, runs_of
from evenhand.reports.gathering import Content, gather
from evenhand.reports.rendering import failed, render
from evenhand.reports.subject import subject_of
from evenhand.reports.wording import named
from evenhand.words import plain

if TYPE_CHECKING:
    from evenhand.estimates.coverage import Coverage
    from evenhand.runs.run import Run

EXAMPLES = 4


def report(
    run: Run,
    path: str | Path | None = "report.html",
    *,
    model: Any = None,
    data: Any = None,
    favourable: Any = None,
    y: Any = None,
    rows: bool = True,
    title: str | None = None,
    note: str = "",
    examples: int = EXAMPLES,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    others: Sequence[Run] = (),
    coverage: Coverage | None = None,
    ask: bool = True,
) -> Path | Any:
    """Write the report of a run: one offline HTML file for people who never ran anything.

    It asks the model some more questions, outside all budgets: how common it is, where, and which real people are
    nearest. Where the model or the data are not at hand, or a part fails, the report says so and has the rest;
    of parts that fail it warns.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    path
        The file to write; None returns its bytes instead.
    model
        Anything that ``wrap`` takes. By default the run's own, where it is at hand or noted with the run as a file
        that runs no code.
    data
        Real rows, or texts. By default those that the run was given.
    favourable
        The decision that people want; a list of such decisions; or ``eh.Order`` of all decisions, worst first. Of
        numbers ``"higher"`` or ``"lower"``. Without it the report says who gets which decision or who gets more, not
        who is favoured. Not for texts.
    y
        The true decisions, or the name of their column in the data, for the accuracy of groups.
    rows
        Whether to show pairs; without them no person's values are in the file.
    title
        Its heading; by default the model's name.
    note
        A paragraph about the model, under the heading.
    examples
        How many pairs to show, at most.
    samples
        How many individuals the estimates ask; by default 20,000, and fewer where the run shows that the model is slow.
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
    >>> "of all individuals that the space allows" in text, "<script" in text
    (True, False)
    """
    check_run(run)
    place = None if path is None else ready(path)
    content = gathered(
        run,
        model=model,
        data=data,
        favourable=favourable,
        y=y,
        rows=rows,
        title=title,
        note=note,
        examples=examples,
        samples=samples,
        confidence=confidence,
        seed=seed,
        others=others,
        coverage=coverage,
        ask=ask,
    )
    page = render(content)
    if place is not None:
        write(place, page)
    if content.failed:
        warnings.warn(f"{place or 'the report'}: {failed(content)}", stacklevel=2)
    return page.encode() if place is None else place


@watched()
def gathered(
    run: Run,
    *,
    model: Any = None,
    data: Any = None,
    favourable: Any = None,
    y: Any = None,
    rows: bool = True,
    title: str | None = None,
    note: str = "",
    examples: int = EXAMPLES,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    others: Sequence[Run] = (),
    coverage: Coverage | None = None,
    ask: bool = True,
    data_name: str = "",
) -> Content:
    """Gather what a report says; the arguments are those of ``report``, and what the file of the data is called."""
    check_run(run)
    rivals = runs_of(others)
    check_confidence(confidence)
    check_numbers(examples, samples, seed)
    check_kinds(rows, ask, title, note, coverage)
    subject = subject_of(run, model, data, favourable, y, samples, confidence, seed, bool(ask), data_name)
    check_others(run, rivals, subject.probe)
    heading = title or f"{named(run)}, by {', '.join(map(plain, run.space.protected))}"
    return gather(subject, heading, note, bool(rows), rivals, examples, coverage)


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
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot write {path}: {reason(error)}; choose another place for the report")
