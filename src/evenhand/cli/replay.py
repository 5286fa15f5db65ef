"""The command ``evenhand replay``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.faults import FOUND, say, tell

if TYPE_CHECKING:
    from evenhand.config.file import Config
    from evenhand.config.schema import CallTable
    from evenhand.models.base import Model
    from evenhand.runs.bundle import BundleCheck
    from evenhand.runs.replay import Replay


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
    from evenhand.cli import summary
    from evenhand.words import pairs_at

    examples = [] if done is None else pairs_at(done.run, done.positions[:3])
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

    from evenhand.runs.csv import write_frame
    from evenhand.runs.formats import write

    frame = done.run.findings.copy(deep=False)
    name = "holds"
    while name in frame.columns:
        name += "_"
    frame[name] = np.where(done.held, "yes", "no")
    text = io.StringIO()
    write_frame(frame, text)
    content = text.getvalue().encode("utf-8", "backslashreplace")
    write(path, lambda file: _put(file, content))


def _put(file: Any, content: bytes) -> None:
    file.write(content)
