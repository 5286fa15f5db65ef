"""The command ``evenhand report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.faults import FOUND, say, tell

if TYPE_CHECKING:
    from evenhand.config.file import Config
    from evenhand.runs.run import Run


def report(config: Config) -> None:
    """Write the report of a run."""
    from evenhand.runs.run import Run

    settings = settings_of(config)
    loaded = Run.load(Path(config.call.run))
    with config.named("model.path"):
        settings["model"] = _model(loaded, config)
    with config.named("data.path"):
        settings["data"] = _data(loaded, config)
    path = Path(config.report.output or "report.html")
    with (
        config.named("estimate.favourable", "favourable"),
        config.named("estimate.order", "favourable"),
        config.named("data.target", "y"),
    ):
        whole = reported(loaded, path, config.call.quiet, y=config.data.target, **settings)
    if not whole:
        raise typer.Exit(FOUND)


def settings_of(config: Config) -> dict[str, Any]:
    """Read what a configuration says of reports, whichever command writes one; an error names the key."""
    from evenhand.config.file import wish
    from evenhand.reports.arguments import check_confidence, check_numbers

    numbers = config.report.given("examples", "samples")
    confidence = 0.95 if config.estimate.confidence is None else config.estimate.confidence
    with config.blamed("report"):
        check_numbers(**numbers)
    with config.blamed("estimate"):
        check_confidence(confidence)
    source = config.data.path if config.text is None else config.text.path
    return {
        "favourable": wish(config.estimate),
        "rows": not config.report.no_rows,
        "title": config.report.title,
        "confidence": confidence,
        "seed": config.audit.seed,
        "data_name": "" if source is None else Path(source).name,
        **numbers,
    }


def reported(run: Run, path: Path, quiet: bool, **settings: Any) -> bool:
    """Write a report and tell what could not be had for it, and which parts failed; whether none did."""
    from evenhand.reports.making import gathered, ready, write
    from evenhand.reports.rendering import failed, render

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


def _data(run: Run, config: Config) -> Any:
    """Read the rows, or the texts, that are named."""
    from evenhand.errors import ConfigError
    from evenhand.spaces.frames import read_frame
    from evenhand.spaces.text.readers import read_texts

    texts = run.space.noun == "text"
    if config.text is not None and not texts:
        raise ConfigError("--texts is for runs of texts, and this is one of rows; give --data FILE")
    if config.data.path is not None and texts:
        raise ConfigError("--data is for runs of rows, and this is one of texts; give --texts FILE")
    if config.text is not None and config.text.path is not None:
        return read_texts(config.text.path, config.text.column, config.text.encoding)
    return None if config.data.path is None else read_frame(Path(config.data.path))


def _model(run: Run, config: Config) -> Any:
    """Load the model that is named, or the run's own where that runs no code; None where it is not to be had."""
    from evenhand.cli.plan import get_model
    from evenhand.errors import EvenhandError
    from evenhand.runs.provenance import Changed, model_of

    spec, threshold = config.model.path, config.model.threshold
    if spec is not None:
        return model_of(run, get_model(spec, config.call), threshold)
    try:
        return model_of(run, None, threshold, trust=config.call.trust)
    except Changed:
        raise
    except EvenhandError:
        return None
