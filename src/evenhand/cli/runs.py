"""The command ``evenhand report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.app import FOUND, say, tell
from evenhand.config.file import spell

if TYPE_CHECKING:
    from evenhand.config.file import Config
    from evenhand.config.schema import CallTable
    from evenhand.estimates.compare import Compared
    from evenhand.models.base import Model
    from evenhand.runs.bundle import BundleCheck
    from evenhand.runs.replay import Replay
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
    from evenhand.reports.report import ReportOptions

    wanted = config.report
    with config.blamed("report"):
        options = ReportOptions(wanted.title, seed=config.audit.seed, **wanted.given("examples"))
    with config.blamed("estimate"):
        options = replace(options, **config.estimate.given("confidence"))
    source = config.data.path if config.text is None else config.text.path
    return {
        "favourable": wish(config.estimate),
        "show_examples": not wanted.hide_examples,
        "samples": wanted.samples,
        "options": options,
        "data_name": "" if source is None else Path(source).name,
    }


def reported(run: Run, path: Path, quiet: bool, **settings: Any) -> bool:
    """Write a report and tell what could not be had for it, and which parts failed; whether none did."""
    from evenhand.reports.render import failed, render
    from evenhand.reports.report import gathered, ready, write

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

    texts = run.space.supports("texts")
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


def export(config: Config) -> None:
    """Write a run into files."""
    from evenhand.runs.exports import check_format, format_of
    from evenhand.runs.exports import export as write
    from evenhand.runs.run import Run

    wanted, files = config.export, [Path(name) for name in config.call.out]
    with config.blamed("export"):
        check_format(wanted.format)
    for path in files:
        # Before anything is written: a list with one wrong name writes nothing.
        if wanted.format is None:
            format_of(path)
    settings = wanted.given()
    loaded = Run.load(Path(config.call.run))
    for path in files:
        write(loaded, path, **settings)
        if not config.call.quiet:
            say(f"Wrote {path}")


def bundle(config: Config) -> None:
    """Write a run as one archive, and print its digest."""
    from evenhand.cli import audit as summary
    from evenhand.runs.bundle import bundle as pack
    from evenhand.runs.bundle import check_bundle

    call, wanted, run = config.call, config.bundle, Path(config.call.run)
    path = Path(wanted.output or f"{run.resolve().name}.zip")
    digest = pack(run, path, wanted.model, wanted.data, include_data=not wanted.no_data)
    if call.quiet:
        return
    manifest = check_bundle(path).manifest
    if call.json:
        summary.emit({"bundle": str(path), "sha256": digest, "manifest": manifest})
        return
    for name, entry in sorted(manifest["members"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name}")
    for name, entry in sorted(manifest["left_out"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name} (left out)")
    if not any(name.startswith("model/") for name in manifest["members"]):
        say(f"The model ({manifest['model']}) is no file and is not in it.")
    say(f"Wrote {path}, SHA-256 {digest}")


SHOWN = 3


def compare(config: Config) -> None:
    """Compare two runs, and report what was fixed and what is new."""
    from evenhand.cli import audit as summary
    from evenhand.cli.plan import get_model
    from evenhand.estimates.compare import compare as judge
    from evenhand.estimates.plan import Plan
    from evenhand.runs.provenance import model_of
    from evenhand.runs.run import Run

    call, wanted = config.call, config.compare
    settings = wanted.given("samples", "confidence")
    with config.blamed("compare"):
        Plan(**settings)
    runs = [Run.load(Path(call.run_a)), Run.load(Path(call.run_b))]
    sides = (("model_a", wanted.model_a, wanted.threshold_a), ("model_b", wanted.model_b, wanted.threshold_b))
    models = []
    for run, (key, spec, threshold) in zip(runs, sides, strict=True):
        with config.named(f"compare.{key}"):
            model = None if spec is None else get_model(spec, call)
        models.append(model_of(run, model, threshold, trust=call.trust, name=spell(f"compare.{key}")))
    found = judge(*runs, *models, **settings, seed=config.audit.seed, timeout=config.model.timeout)
    if call.json:
        summary.emit({**_told(found), "fail_on_new": wanted.fail_on_new})
    elif not call.quiet:
        _show(found)
    if wanted.fail_on_new and len(found.new):
        raise typer.Exit(FOUND)


def _told(found: Compared) -> dict[str, Any]:
    from evenhand.runs.pairs import pairs_at

    sides = {"fixed": found.run_a, "still": found.run_a, "new": found.run_b}
    pairs = {name: pairs_at(run.pairs, getattr(found, name)[:SHOWN]) for name, run in sides.items()}
    return found.to_dict() | {f"{name}_pairs": [pair.to_dict() for pair in some] for name, some in pairs.items()}


def _show(found: Compared) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from evenhand._format import interval, percent
    from evenhand.cli import audit as summary
    from evenhand.runs.pairs import pairs_at

    out, rates = summary.console(), found.rates
    summary.fill(out, found.sentence)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("", "first model", "second model"):
        table.add_column(Text(name), justify="left" if not name else "right")
    old, new = len(found.fixed) + len(found.still), len(found.new) + len(found.known)
    rows = [
        ("findings of its run", f"{old:,}", f"{new:,}"),
        ("of these, only by this model", f"{len(found.fixed):,} (fixed)", f"{len(found.new):,} (new)"),
        ("by both", f"{len(found.still):,}", f"{len(found.known):,}"),
        ("treated differently", percent(rates.rate_a), percent(rates.rate_b)),
    ]
    if not rates.exact:
        first, second = interval(rates.low_a, rates.high_a), interval(rates.low_b, rates.high_b)
        rows.append(("interval", first, second))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
    if len(found.new):
        out.print("New:")
        summary.show_pairs(pairs_at(found.run_b.pairs, found.new[:SHOWN]), out)


def replay(config: Config) -> None:
    """Ask the model again about the findings of a run or a bundle."""
    from evenhand.cli.plan import get_model
    from evenhand.errors import ConfigError
    from evenhand.runs.provenance import model_of
    from evenhand.runs.replay import again
    from evenhand.runs.run import Run

    call, path = config.call, Path(config.call.run)
    if path.is_file():
        _bundle(path, config)
        return
    if "data" in config.by_flag or ("replay" in config.by_flag and "digest" in config.by_flag["replay"]):
        raise ConfigError("--data and --digest are for bundles; RUN is a directory here")
    kept, wanted = Run.load(path), config.model
    given_model = None if wanted.path is None else get_model(wanted.path, call)
    asked = model_of(kept, given_model, wanted.threshold, trust=call.trust, name="--model")
    done = again(kept, asked, timeout=wanted.timeout)
    _say(done, {"directory": str(path)}, config)
    if not done.holds:
        raise typer.Exit(FOUND)


def _bundle(path: Path, config: Config) -> None:
    from evenhand.cli.plan import get_model
    from evenhand.runs.bundle import compare_file, opened
    from evenhand.runs.replay import again
    from evenhand.runs.run import Run

    call, model, digest = config.call, config.model.path, config.replay.digest
    data = config.data.path if config.text is None else config.text.path
    with opened(path) as (checked, directory):
        if digest is not None and digest.lower() != checked.digest:
            checked.problems["archive"] = f"its SHA-256 is {checked.digest}, not the one that was written down"
        if data is not None:
            compare_file(checked, "data", Path(data))
        if model is not None and Path(model).is_file():
            compare_file(checked, "model", Path(model))
        if not (call.quiet or call.json):
            _say_parts(path, checked)
        done, usable = None, model is not None or not any(name.startswith("model/") for name in checked.problems)
        if checked.replayable and usable:
            asked = _own(checked, directory, call) if model is None else get_model(model, call)
            done = again(Run.load(directory), asked, config.model.threshold, config.model.timeout)
        elif not call.quiet:
            what = "the bundle's own model" if checked.replayable else "the run itself"
            other = "; name the right one: --model SPEC" if checked.replayable else ""
            tell(f"evenhand: {what} was tampered with, so its findings are not asked about{other}")
        _say(done, {"bundle": str(path), "sha256": checked.digest, "problems": checked.problems}, config)
    if not checked.whole or done is None or not done.holds:
        raise typer.Exit(FOUND)


def _own(checked: BundleCheck, directory: Path, call: CallTable) -> Model:
    """Load the bundle's own model."""
    from evenhand.cli.plan import get_model, warn
    from evenhand.runs.bundle import bundled_model, known_as

    name, path = bundled_model(checked, directory)
    warn(name, call)
    with known_as(name, path):
        return get_model(str(path), replace(call, quiet=True))


def _say_parts(path: Path, checked: BundleCheck) -> None:
    say(f"{path}, SHA-256 {checked.digest}")
    if checked.whole:
        say(f"All {len(checked.manifest['members'])} parts are what the manifest says.")
    for line in checked.lines:
        say(f"NOT WHOLE: {line}")


def _say(done: Replay | None, extra: dict[str, Any], config: Config) -> None:
    from evenhand.cli import audit as summary
    from evenhand.runs.pairs import pairs_at

    examples = [] if done is None else pairs_at(done.run.pairs, done.positions[:3])
    if (listed := config.replay.list) is not None and done is not None:
        _write_list(done, Path(listed))
    if config.call.json:
        counts = {
            "findings": None if done is None else done.run.found,
            "confirmed": None if done is None else done.confirmed,
            "refuted": None if done is None else done.refuted,
            "refuted_positions": None if done is None else done.positions.tolist(),
            "same_model": None if done is None else done.same_model,
        }
        summary.emit({**extra, **counts, "refuted_pairs": [pair.to_dict() for pair in examples]})
    elif not config.call.quiet and done is not None:
        say(f"{done.confirmed:,} of {done.run.found:,} findings confirmed, {done.refuted:,} not")
        if done.same_model is False:
            say("This is not the model that the run was made with, or it decides by another threshold:")
            say("it gives other answers to the individuals by which the run knows its model.")
        if examples:
            say("The model no longer says this:")
            summary.show_pairs(examples, summary.console())


def _write_list(done: Replay, path: Path) -> None:
    """Write every finding with yes or no: whether the model still says it."""
    import io

    import numpy as np

    from evenhand.runs.exports import write, write_frame

    frame = done.run.findings.copy(deep=False)
    name = "holds"
    while name in frame.columns:
        name += "_"
    frame[name] = np.where(done.held, "yes", "no")
    text = io.StringIO()
    write_frame(frame, text)
    content = text.getvalue().encode("utf-8", "backslashreplace")
    write(path, lambda file: file.write(content))
