"""The commands for kept runs: report, export, bundle, compare and replay."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.app import FOUND
from evenhand.cli.output import (
    check_report,
    console,
    echo,
    echo_error,
    emit,
    fill,
    show_pairs,
    show_table,
    show_verdict,
    write_result,
)
from evenhand.cli.plan import get_model, get_rows, warn_pickle
from evenhand.config.file import Config, favourable_of
from evenhand.config.schema import CallTable
from evenhand.errors import ConfigError, EvenhandError
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.runs.replay import Changed, model_of
from evenhand.runs.run import Run

if TYPE_CHECKING:
    from evenhand.estimates.compare import Compared
    from evenhand.runs.bundle import BundleCheck
    from evenhand.runs.replay import Replay

SHOWN = 3
"""Pairs shown for a comparison or a replay."""


def report(config: Config) -> None:
    """Write the report of a run."""
    run = Run.load(Path(config.call.run))
    settings = report_settings(config)
    with config.named("model.path"):
        settings["model"] = _model(run, config)
    with config.named("data.path", "text.path"):
        settings["data"] = _data(run, config)
    path = Path(config.report.output or "report.html")
    shown = "json" if config.call.json else "" if config.call.quiet else "text"
    if not write_report(run, path, shown, y=config.data.target, **settings):
        raise typer.Exit(FOUND)


def report_settings(config: Config) -> dict[str, Any]:
    """Return the settings of a report, whichever command writes it."""
    from evenhand.reports.report import ReportOptions

    wanted, source = config.report, config.data.path if config.text is None else config.text.path
    return {
        "favourable": favourable_of(config.estimate),
        "show_examples": wanted.show_examples,
        "samples": wanted.samples,
        "options": ReportOptions(
            wanted.title, seed=config.audit.seed, **wanted.given("examples"), **config.estimate.given("confidence")
        ),
        "data_name": "" if source is None else Path(source).name,
    }


def write_report(run: Run, path: Path, shown: str, **settings: Any) -> bool:
    """Write a report, and print which parts are missing and why; return whether no part failed."""
    from evenhand.reports.render import failed, render
    from evenhand.reports.report import gathered, ready, write

    ready(path)
    content = gathered(run, **settings)
    write(path, render(content))
    if shown == "json":
        emit({"written": str(path), "lacks": list(content.subject.lost), "failed": content.failed})
    elif shown:
        echo(f"Wrote {path}")
        for lost in content.subject.lost:
            echo_error(f"evenhand: {path} is incomplete: {lost}")
    if content.failed:
        echo_error(f"evenhand: {path}: {failed(content)}")
    return not content.failed


def _data(run: Run, config: Config) -> Any:
    """Read the rows or the texts that are named."""
    from evenhand.spaces.text.readers import read_texts

    texts = run.space.supports("texts")
    if config.text is not None and not texts:
        raise ConfigError("the run is on rows, but --texts names texts", remedy="give --data FILE")
    if config.data.path is not None and texts:
        raise ConfigError("the run is on texts, but --data names rows", remedy="give --texts FILE")
    if config.text is not None and config.text.path is not None:
        return read_texts(config.text.path, config.text.column, config.text.encoding)
    return get_rows(config)


def _model(run: Run, config: Config) -> Model | None:
    """Load the model that is named, or the run's own if that runs no code; None if it is not available."""
    spec, threshold = config.model.path, config.model.threshold
    if spec is not None:
        return model_of(run, get_model(spec, config.call, config.endpoint), threshold)
    try:
        return model_of(run, None, threshold, trust=config.call.trust)
    except Changed:
        raise
    except EvenhandError:
        return None


def export(config: Config) -> None:
    """Write a run into files."""
    from evenhand.runs.exports import export as write
    from evenhand.runs.exports import format_of

    files = [Path(name) for name in config.call.out]
    if config.export.format is None:
        # Checked first, so that nothing is written if one name is wrong.
        for path in files:
            format_of(path)
    run = Run.load(Path(config.call.run))
    for path in files:
        write(run, path, **config.export.given(), show_examples=config.report.show_examples)
        if not (config.call.quiet or config.call.json):
            echo(f"Wrote {path}")
    if config.call.json:
        emit({"written": list(map(str, files))})


def bundle(config: Config) -> None:
    """Write a run as one archive, and print its digest."""
    from evenhand.runs.bundle import bundle as pack
    from evenhand.runs.bundle import check_bundle

    call, wanted, run = config.call, config.bundle, Path(config.call.run)
    path = Path(wanted.output or f"{run.resolve().name}.zip")
    digest = pack(run, path, wanted.model, wanted.data, include_data=not wanted.no_data)
    if call.quiet:
        return
    manifest = check_bundle(path).manifest
    if call.json:
        emit({"bundle": str(path), "sha256": digest, "manifest": manifest})
        return
    for part, note in (("members", ""), ("left_out", " (left out)")):
        for name, entry in sorted(manifest[part].items()):
            echo(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name}{note}")
    if not any(name.startswith("model/") for name in manifest["members"]):
        echo(f"The bundle has no model: {manifest['model']} is not a file.")
    echo(f"Wrote {path}\nSHA-256 {digest}")


def compare(config: Config) -> None:
    """Compare two runs, and report what was fixed and what is new."""
    from evenhand.estimates.compare import compare as judge
    from evenhand.runs.pair_sentences import shown_pairs

    call, wanted, shown = config.call, config.compare, config.report.show_examples
    check_report(wanted.report)
    runs = [Run.load(Path(call.run_a)), Run.load(Path(call.run_b))]
    sides = (("model_a", wanted.model_a, wanted.threshold_a), ("model_b", wanted.model_b, wanted.threshold_b))
    models = []
    for run, (key, spec, threshold) in zip(runs, sides, strict=True):
        with config.named(f"compare.{key}"):
            model = None if spec is None else get_model(spec, call, config.endpoint)
        found_model = model_of(run, model, threshold, trust=call.trust, name=key)
        models.append(found_model.with_options(timeout=config.model.timeout))
    settings = wanted.given("samples", "confidence")
    found = judge(*runs, *models, **settings, seed=config.audit.seed)
    if call.json:
        of_run = {"fixed": found.run_a, "still": found.run_a, "new": found.run_b}
        pairs = {
            f"{name}_pairs": [pair.to_dict() for pair in shown_pairs(run, getattr(found, name)[:SHOWN], shown)]
            for name, run in of_run.items()
        }
        emit({**found.to_dict(), **pairs, "fail_on_new": wanted.fail_on_new})
    elif not call.quiet:
        _show_comparison(found, shown)
    write_result(found, wanted.report)
    if wanted.fail_on_new and len(found.new):
        raise typer.Exit(FOUND)


def _show_comparison(found: Compared, shown: str) -> None:
    from evenhand._format import interval, percent
    from evenhand.runs.pair_sentences import shown_pairs

    out, rates = console(), found.rates
    show_verdict(f"{found.verdict}.", found.rates.difference > 0 or len(found.new) > 0, out)
    fill(found.sentence, out)
    old, new = len(found.fixed) + len(found.still), len(found.new) + len(found.known)
    rows = [
        ("findings of its run", f"{old:,}", f"{new:,}"),
        ("of these, only by this model", f"{len(found.fixed):,} (fixed)", f"{len(found.new):,} (new)"),
        ("by both models", f"{len(found.still):,}", f"{len(found.known):,}"),
        ("treated differently", percent(rates.rate_a), percent(rates.rate_b)),
    ]
    if not rates.exact:
        rows.append(("interval", interval(rates.low_a, rates.high_a), interval(rates.low_b, rates.high_b)))
    show_table(("", "first model", "second model"), rows, out, right=(1, 2))
    if len(found.new):
        out.print("New:")
        show_pairs(shown_pairs(found.run_b, found.new[:SHOWN], shown), out)


def read(config: Config) -> None:
    """Write a reading sheet of a run's findings, or take the answers of one."""
    from evenhand.runs.reading import read_labels, sheet

    run, wanted = Run.load(Path(config.call.run)), config.read
    if wanted.labels is not None:
        found = read_labels(run, Path(wanted.labels))
        if config.call.json:
            emit({"sound": found.sound, "read": found.read, "precision": found.precision, "interval": found.interval})
        else:
            echo(f"{found.sentence}.")
        return
    path = Path(wanted.output or "reading.html")
    path.write_bytes(sheet(run, wanted.count, run.identity.seed))
    shown = min(wanted.count, run.found)
    if config.call.json:
        emit({"written": str(path), "findings": shown, "found": run.found})
    else:
        echo(f"{shown:,} of {run.found:,} findings, drawn at random.\nWrote {path}")


def replay(config: Config) -> None:
    """Query the model again about the findings of a run or a bundle."""
    from evenhand.runs.replay import again

    call, path, wanted = config.call, Path(config.call.run), config.model
    if path.is_file():
        _replay_bundle(path, config)
        return
    if "data" in config.by_flag or "digest" in config.by_flag.get("replay", {}):
        raise ConfigError("--data and --digest are for bundles, and RUN is a directory", remedy="leave them out")
    run = Run.load(path)
    named = None if wanted.path is None else get_model(wanted.path, call, config.endpoint)
    model = model_of(run, named, wanted.threshold, trust=call.trust)
    done = again(run, model.with_options(timeout=wanted.timeout))
    _show_replay(done, {"directory": str(path)}, config)
    if not done.holds:
        raise typer.Exit(FOUND)


def _replay_bundle(path: Path, config: Config) -> None:
    from evenhand.runs.bundle import compare_file, opened
    from evenhand.runs.replay import again

    call, model, digest = config.call, config.model.path, config.replay.digest
    data = config.data.path if config.text is None else config.text.path
    with opened(path) as (checked, directory):
        if digest is not None and digest.lower() != checked.digest:
            checked.problems["archive"] = f"its SHA-256 is {checked.digest}, not the one given by --digest"
        if data is not None:
            compare_file(checked, "data", Path(data))
        if model is not None and Path(model).is_file():
            compare_file(checked, "model", Path(model))
        if not (call.quiet or call.json):
            echo(f"{path}, SHA-256 {checked.digest}")
            if checked.whole:
                echo(f"All {len(checked.manifest['members'])} parts match the manifest.")
            for line in checked.lines:
                echo(f"MISMATCH: {line}")
        done, usable = None, model is not None or not any(name.startswith("model/") for name in checked.problems)
        if checked.replayable and usable:
            loaded = (
                _bundled_model(checked, directory, call) if model is None else get_model(model, call, config.endpoint)
            )
            done = again(Run.load(directory), wrap(loaded, timeout=config.model.timeout), config.model.threshold)
        elif not call.quiet:
            what = "the bundle's own model" if checked.replayable else "the run itself"
            other = "; name the right one: --model SPEC" if checked.replayable else ""
            echo_error(f"evenhand: {what} was tampered with, so its findings are not replayed{other}")
        _show_replay(done, {"bundle": str(path), "sha256": checked.digest, "problems": checked.problems}, config)
    if not checked.whole or done is None or not done.holds:
        raise typer.Exit(FOUND)


def _bundled_model(checked: BundleCheck, directory: Path, call: CallTable) -> Model:
    from evenhand.runs.bundle import bundled_model, known_as

    name, path = bundled_model(checked, directory)
    warn_pickle(name, call)
    with known_as(name, path):
        return get_model(str(path), replace(call, quiet=True))


def _show_replay(done: Replay | None, extra: dict[str, Any], config: Config) -> None:
    from evenhand.runs.pair_sentences import shown_pairs

    shown = config.report.show_examples
    refuted = [] if done is None else shown_pairs(done.run, done.positions[:SHOWN], shown)
    if done is not None and config.replay.list is not None:
        _write_list(done, Path(config.replay.list))
    if config.call.json:
        values: dict[str, Any] = dict.fromkeys(("findings", "confirmed", "refuted", "refuted_positions", "same_model"))
        if done is not None:
            values |= {"findings": done.run.found, "confirmed": done.confirmed, "refuted": done.refuted}
            values |= {"refuted_positions": done.positions.tolist(), "same_model": done.same_model}
        emit({**extra, **values, "refuted_pairs": [pair.to_dict() for pair in refuted]})
    elif not config.call.quiet and done is not None:
        echo(f"{done.confirmed:,} of {done.run.found:,} findings confirmed, {done.refuted:,} not")
        if done.same_model is False:
            echo("This is not the run's model, or its threshold is different:")
            echo("it answers the individuals that identify the model differently.")
        if refuted:
            echo("No longer confirmed:")
            show_pairs(refuted, console())


def _write_list(done: Replay, path: Path) -> None:
    """Write every finding with yes or no: whether it was confirmed."""
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
