"""The command ``evenhand report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli import options
from evenhand.cli.faults import FOUND, say, tell

if TYPE_CHECKING:
    from evenhand.cli.config import Config
    from evenhand.cli.plan import Trust
    from evenhand.run import Run


def report(
    run: options.RunDirectory,
    model: options.ReportModel = None,
    data: options.ReportData = None,
    target: options.Target = None,
    texts: options.TextFile = None,
    column: options.Column = None,
    encoding: options.Encoding = None,
    favourable: options.Favourable = None,
    order: options.Order = None,
    threshold: options.Threshold = None,
    no_rows: options.NoPairs = False,
    title: options.Title = None,
    cases: options.ShownCases = None,
    samples: options.ReportSamples = None,
    confidence: options.Confidence = None,
    seed: options.Seed = None,
    trust_pickle: options.TrustPickle = False,
    trust: options.Trust = None,
    output: options.ReportFile = None,
    config: options.ConfigOption = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the report of a kept run: one HTML file for readers who never ran anything.

    Without the model and the data, the parts that need them are left out, and the report says so.

    Exit status: 0 done, 1 written, but parts of it failed, 2 wrong usage or input.
    """
    given = locals()
    from evenhand.cli.config import read
    from evenhand.cli.places import said
    from evenhand.cli.plan import Trust
    from evenhand.run import Run

    chosen = read(config, said("report", given))
    settings = settings_of(chosen)
    loaded = Run.load(run)
    with chosen.named("model.path"):
        trusted = Trust(trust_pickle, trust or ())
        settings["model"] = _model(loaded, chosen.model.path, chosen.model.threshold, trusted, quiet)
    with chosen.named("data.path"):
        settings["data"] = _data(loaded, chosen)
    path = Path(chosen.report.output or "report.html")
    with (
        chosen.named("estimate.favourable", "favourable"),
        chosen.named("estimate.order", "favourable"),
        chosen.named("data.target", "y"),
    ):
        whole = reported(loaded, path, quiet, y=chosen.data.target, **settings)
    if not whole:
        raise typer.Exit(FOUND)


def settings_of(chosen: Config) -> dict[str, Any]:
    """Read what a configuration says of reports, whichever command writes one; an error names the key."""
    from evenhand.reporting.arguments import check_confidence, check_numbers

    numbers = chosen.report.model_dump(exclude_none=True, include={"cases", "samples"})
    confidence = 0.95 if chosen.estimate.confidence is None else chosen.estimate.confidence
    with chosen.blamed("report"):
        check_numbers(**numbers)
    with chosen.blamed("estimate"):
        check_confidence(confidence)
    source = chosen.data.path if chosen.text is None else chosen.text.path
    return {
        "favourable": chosen.estimate.wish,
        "rows": not chosen.report.no_rows,
        "title": chosen.report.title,
        "confidence": confidence,
        "seed": chosen.audit.seed,
        "data_name": "" if source is None else Path(source).name,
        **numbers,
    }


def reported(run: Run, path: Path, quiet: bool, **settings: Any) -> bool:
    """Write a report and tell what could not be had for it, and which parts failed; whether none did."""
    from evenhand.reporting.making import gathered, ready, write
    from evenhand.reporting.rendering import failed, render

    ready(path)
    content = gathered(run, **settings)
    write(path, render(content))
    if not quiet:
        say(f"Wrote {path}")
        for lost in content.subject.lost:
            tell(f"evenhand: {path} lacks parts: {lost}")
    if content.failed:
        tell(f"evenhand: {path}: {failed(content)}")
    return not content.failed


def _data(run: Run, chosen: Config) -> Any:
    """Read the rows, or the texts, that are named."""
    from evenhand.errors import ConfigError
    from evenhand.space.frames import read_frame
    from evenhand.text.files import read_texts

    texts = run.space.noun == "text"
    if chosen.text is not None and not texts:
        raise ConfigError("--texts is for runs of texts, and this is one of rows; give --data FILE")
    if chosen.data.path is not None and texts:
        raise ConfigError("--data is for runs of rows, and this is one of texts; give --texts FILE")
    if chosen.text is not None and chosen.text.path is not None:
        return read_texts(chosen.text.path, chosen.text.column, chosen.text.encoding)
    return None if chosen.data.path is None else read_frame(Path(chosen.data.path))


def _model(run: Run, spec: str | None, threshold: float | None, trust: Trust, quiet: bool) -> Any:
    """Load the model that is named, or the run's own where that runs no code; None where it is not to be had."""
    from evenhand.cli.plan import get_model
    from evenhand.errors import EvenhandError
    from evenhand.sources import Changed, model_of

    if spec is not None:
        return model_of(run, get_model(spec, trust, quiet=quiet), threshold)
    try:
        return model_of(run, None, threshold, trust=trust.types)
    except Changed:
        raise
    except EvenhandError:
        return None
