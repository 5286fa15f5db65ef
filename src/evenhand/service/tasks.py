"""What runs in a child process: everything that reads files of users or calls their models.

``python -m evenhand.service.tasks NAME PIPE`` reads a task from its standard input, and writes lines of JSON
to the pipe: ``progress``, then ``result``, ``error`` or ``wait``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenhand.engine.store import InUse
from evenhand.errors import ConfigError, EvenhandError, ModelError

EVERY = 0.4
"""Seconds between reports of progress."""
POINTS = 60
"""Points of a discovery curve that are reported."""
REPORT, BUNDLE, RUN = "report.html", "bundle.zip", "run"


class Talk:
    """What a task says, and whether it has to stop."""

    def __init__(self, pipe: Any) -> None:
        self._pipe, self._next = pipe, 0.0
        self.stop = threading.Event()

    def say(self, **message: Any) -> None:
        """Send a message."""
        self._pipe.write(json.dumps(message, allow_nan=False, default=str) + "\n")
        self._pipe.flush()

    def progress(self, make: Callable[[], Mapping[str, Any]], now: bool = False) -> None:
        """Report progress, but not too often."""
        if now or time.monotonic() >= self._next:
            self.say(progress=make())
            self._next = time.monotonic() + EVERY


def inspect_data(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Read a data file; return its columns and its number of rows."""
    from evenhand.spaces.frames import read_frame

    frame = read_frame(task["path"])
    columns = [
        {"name": str(name), "type": str(frame[name].dtype), "different": int(frame[name].nunique())} for name in frame
    ]
    return {"rows": len(frame), "columns": columns}


def inspect_texts(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Read a file of texts; return their number."""
    from evenhand.spaces.text.readers import read_texts

    return {"rows": len(read_texts(task["path"]))}


def inspect_model(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Load a model; return what is known about it."""
    model = load_model(task["model"])
    columns = None if model.columns is None else [str(name) for name in model.columns]
    classes = None if model.classes is None else [str(value) for value in model.classes]
    return {"columns": columns, "classes": classes, "scores": bool(model.has_scores)}


def infer_space(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Infer a space from data."""
    from evenhand.spaces.frames import read_frame
    from evenhand.spaces.tabular import Space

    frame = read_frame(task["path"])
    return facts_of(Space.infer(frame, task["protected"], task.get("target"), exclude=task.get("exclude") or []))


def read_space(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Read a space from TOML, and change it as a table of attributes says."""
    from evenhand.spaces.tabular import Space
    from evenhand.spaces.toml import loads

    space = loads(task["text"], "the space")
    edits = {edit["name"]: edit for edit in task.get("edits") or []}
    if not edits:
        return facts_of(space)
    kept = [_edited(a, edits.get(a.name, {})) for a in space.attributes if edits.get(a.name, {}).get("keep", True)]
    protected = [a.name for a in kept if edits.get(a.name, {}).get("protected", a.name in space.protected)]
    names = {a.name for a in kept}
    if not protected:
        raise ConfigError("no attribute is protected", remedy="choose at least one")
    constraints = task.get("constraints")
    links = {
        name: {free: by for free, by in dependents.items() if free in names and free not in protected}
        for name, dependents in space.links.items()
        if name in protected
    }
    texts = [c.text for c in space.constraints] if constraints is None else constraints
    return facts_of(Space(kept, protected, texts, links, space.max_family_size))


def _edited(attribute: Any, edit: Mapping[str, Any]) -> Any:
    """Return an attribute with other bounds or values."""
    changes: dict[str, Any] = {}
    whole = attribute.kind == "integer"
    for name in ("low", "high"):
        if str(edit.get(name) or "").strip() and hasattr(attribute, name):
            try:
                changes[name] = int(str(edit[name])) if whole else float(str(edit[name]))
            except ValueError:
                wanted = "a whole number" if whole else "a number"
                raise ConfigError(
                    f"the bound of {attribute.name!r} is not {wanted}: {edit[name]!r}", remedy=f"give {wanted}"
                ) from None
    if (left_out := set(edit.get("leave_out") or ())) and hasattr(attribute, "values"):
        changes["values"] = [value for value in attribute.values if str(value) not in left_out]
    changes = {name: value for name, value in changes.items() if value != getattr(attribute, name)}
    return attribute.changed(**changes) if changes else attribute


def facts_of(space: Any) -> dict[str, Any]:
    """Describe a space, for readers and for the editable table."""
    from evenhand._format import count
    from evenhand.spaces.toml import dumps

    reasons = {note.name: note.reason for note in space.notes}
    attributes = []
    for a in space.attributes:
        one = {"name": a.name, "kind": a.kind, "allowed": a.allowed(), "reason": reasons.get(a.name, "")}
        one |= {"protected": a.name in space.protected}
        if a.kind in ("integer", "real"):
            one |= {"low": a.low, "high": a.high}
        elif hasattr(a, "values"):
            one |= {"values": [str(value) for value in a.values[:200]], "many": len(a.values) > 200}
        attributes.append(one)
    return {
        "text": dumps(space),
        "attributes": attributes,
        "constraints": [c.text for c in space.constraints],
        "protected": list(space.protected),
        "tests": count(space.tests) if space.countable else "very many",
    }


def load_model(given: Mapping[str, Any]) -> Any:
    """Load a model from a file that runs no code, or make one that asks an endpoint, at allowed addresses only."""
    from evenhand.models.files import load_model as load
    from evenhand.models.wrap import wrap

    if given.get("path"):
        model = load(given["path"])
    else:
        from evenhand.models.endpoint import Endpoint
        from evenhand.models.transport import AddressGuard, guard_connections

        guard_connections(AddressGuard(given.get("allowed") or ()))
        headers = {}
        for number, (name, value) in enumerate((given.get("headers") or {}).items()):
            os.environ[f"EVENHAND_HEADER_{number}"] = value
            headers[name] = f"${{EVENHAND_HEADER_{number}}}"
        settings = {key: given[key] for key in ("batch_size", "in_flight", "rate") if given.get(key) is not None}
        model = Endpoint(given["url"], given.get("protocol") or None, headers=headers, **settings)
    return wrap(model, threshold=given.get("threshold"))


def run_audit(task: Mapping[str, Any], talk: Talk) -> dict[str, Any]:
    """Search; then write the report and the bundle."""
    from evenhand._format import percent
    from evenhand.budget import Budget, StopReason
    from evenhand.criteria import Flip, Gap
    from evenhand.runs.audit import DEFAULT_TESTS, Driver, check_kind, strategy_for
    from evenhand.strategies import make

    space, data = _space_and_data(task)
    strategy = strategy_for(space, None)
    if task.get("strategy"):
        strategy = make(task["strategy"], **task.get("settings") or {})
        check_kind(space, strategy)
    budget = Budget(**task.get("budget") or {"tests": DEFAULT_TESTS})
    gamma, folder = task.get("gamma"), Path(task["folder"])
    criterion = Flip() if gamma is None else Gap(gamma)
    model = load_model(task["model"]).on(task.get("dask") and _connect(task["dask"]))
    driver = Driver(model, space, strategy, task.get("seed") or 0, criterion, data)
    estimates: list[list[float]] = []

    def reached(status: Any) -> None:
        talk.progress(lambda: _so_far(driver, status, estimates))

    run = driver.run(budget, folder / RUN, reached, None, talk.stop)
    run.annotate(auditor=task.get("auditor"), purpose=task.get("purpose"))
    interrupted = run.stop is StopReason.INTERRUPTED
    result = {
        **{key: value for key, value in run.to_dict().items() if key not in ("identity", "versions")},
        "stopped": interrupted,
        "ended": run.ended,
        "words": [str(one) for one in run.estimate.values()],
        "rate": percent(run.success_rate),
        "doubts": list(run.doubts),
    }
    if not interrupted and task.get("report", True):
        talk.progress(lambda: {**_so_far(driver, None, estimates), "phase": "Writing the report"}, now=True)
        result["notes"] = _write_files(run, task, folder, data)
    return result


def _so_far(driver: Any, status: Any, estimates: list[list[float]]) -> dict[str, Any]:
    found = driver.so_far(3)
    step = max(1, len(found.curve) // POINTS)
    points = [*found.curve[:-1:step], found.curve[-1]]
    name = "data" if "data" in found.estimate else "uniform"
    if (one := found.estimate.get(name)) is not None and one.samples:
        estimates.append([found.curve[-1][0], one.low, one.rate, one.high])
        del estimates[: -2 * POINTS]
    return {
        "tests": found.curve[-1][0],
        "findings": found.curve[-1][2],
        "rows": found.curve[-1][1],
        "of": None if status is None else status.budget.tests,
        "seconds": None if status is None else status.seconds,
        "curve": [[tests, findings] for tests, _, findings in points],
        "estimate": [str(one) for one in found.estimate.values() if one.samples],
        "estimates": estimates[:: max(1, len(estimates) // POINTS)],
        "pairs": [pair.sentence for pair in found.pairs],
    }


def _write_files(run: Any, task: Mapping[str, Any], folder: Path, data: Any) -> list[str]:
    """Write the report and the bundle; return why one is missing. The run itself is complete."""
    from evenhand.reports.report import ReportOptions, report
    from evenhand.runs.bundle import bundle

    notes = []
    title = task.get("title") or None
    try:
        favourable = task.get("favourable") or None
        report(run, folder / REPORT, data=data, favourable=favourable, options=ReportOptions(title=title))
    except EvenhandError as error:
        notes.append(f"The report was not written: {said(error)}")
    try:
        bundle(run, folder / BUNDLE, task["model"].get("path"), task.get("data"))
    except EvenhandError as error:
        notes.append(f"The bundle was not written: {said(error)}")
    return notes


def _space_and_data(task: Mapping[str, Any]) -> tuple[Any, Any]:
    from evenhand.spaces.frames import read_frame
    from evenhand.spaces.text.readers import read_texts
    from evenhand.spaces.text.space import TextSpace
    from evenhand.spaces.toml import loads

    if task.get("texts"):
        return TextSpace(task["protected"]), read_texts(task["texts"])
    data = task.get("data")
    return loads(task["space"], "the space"), None if data is None else read_frame(data)


def _connect(address: str) -> Any:
    from evenhand.models.executors import connect

    return connect(address)


def run_estimate(task: Mapping[str, Any], talk: Talk) -> dict[str, Any]:
    """Estimate how common discrimination is."""
    from evenhand.estimates.estimate import StopRule, estimate
    from evenhand.reports.report import report

    space, data = _space_and_data(task)
    estimates: list[list[float]] = []

    def reached(reading: Any) -> bool:
        estimates.append([reading.samples, reading.low, reading.found / max(1, reading.samples), reading.high])
        step = max(1, len(estimates) // POINTS)
        counted = {"tests": reading.samples, "findings": reading.found, "rows": reading.rows}
        talk.progress(lambda: {**counted, "of": task.get("samples"), "estimates": estimates[::step]})
        return talk.stop.is_set()

    found = estimate(
        load_model(task["model"]), space, task.get("population") or None, data=data, samples=task.get("samples"),
        favourable=task.get("favourable") or None, seed=task.get("seed") or 0, stop=StopRule(when=reached),
    )  # fmt: skip
    if not talk.stop.is_set():
        report(found, Path(task["folder"]) / REPORT)
    kept = {key: value for key, value in found.to_dict().items() if key != "points"}
    return kept | {"words": str(found).splitlines(), "stopped": talk.stop.is_set()}


def run_repair(task: Mapping[str, Any], talk: Talk) -> dict[str, Any]:
    """Make a model fairer in several ways, and compare them."""
    from evenhand.models.files import load_object
    from evenhand.repairs.repair import RepairOptions, repair
    from evenhand.reports.report import report

    if not task["model"].get("path"):
        raise ModelError("a model behind a URL cannot be trained", remedy="choose a model from a .skops file")
    estimator = load_object(task["model"]["path"])
    space, data = _space_and_data(task)
    target = task.get("target")
    if data is None or target is None:
        raise ConfigError("a repair trains on labelled rows", remedy="choose data, and a space with a target column")
    done: list[str] = []

    def reached(words: str) -> None:
        done.append(words)
        talk.progress(lambda: {"phase": words, "steps": done[-20:]}, now=True)

    options = RepairOptions(samples=task.get("samples") or 5_000, favourable=task.get("favourable") or None)
    best = repair(
        estimator, data[list(space.names)], data[target].to_numpy(), space, task.get("methods") or None,
        seed=task.get("seed") or 0, options=options, progress=reached,
    )  # fmt: skip
    compared = best.comparison
    assert compared is not None
    report(compared, Path(task["folder"]) / REPORT)
    verdicts = {name: one.verdict for name, one in compared.done.items()}
    verdicts |= {name: f"failed: {said(error)}" for name, error in compared.failed.items()}
    return {"chosen": compared.chosen, "why": compared.why, "methods": verdicts, "words": list(compared.sentences)}


def run_compare(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Compare the runs of two models."""
    from evenhand.estimates.compare import compare
    from evenhand.reports.report import report
    from evenhand.runs.run import Run

    models = [load_model(given) for given in task["models"]]
    compared = compare(*map(Run.load, task["runs"]), *models, samples=task.get("samples"))
    report(compared, Path(task["folder"]) / REPORT)
    return {**compared.to_dict(), "words": [compared.verdict + ".", compared.sentence]}


def try_text(task: Mapping[str, Any], _: Talk) -> dict[str, Any]:
    """Ask a model of texts about a sentence, and about the same sentence with other protected terms."""
    from evenhand.budget import Budget
    from evenhand.runs.audit import audit
    from evenhand.runs.pair_sentences import select_pairs
    from evenhand.spaces.text.space import TextSpace

    model = load_model(task["model"])
    if model.columns is not None:
        raise ModelError("this model reads rows with columns, not texts", remedy="choose a model of texts")
    text = str(task["text"])
    decision = str(model.labels([text])[0])
    space = TextSpace(task["protected"])
    try:
        run = audit(model, space, "text-random", Budget(tests=50), data=[text], progress=False)
    except EvenhandError as error:
        return {"decision": decision, "pairs": [], "tests": 0, "note": said(error)}
    pairs = [
        {"text": one.individual.get("text"), "counterpart": one.changes.get("text")}
        | {"decision": str(one.decision), "counterpart_decision": str(one.counterpart_decision)}
        for one in select_pairs(run, 5, show="real")
    ]
    return {"decision": decision, "pairs": pairs, "tests": run.tests, "note": ""}


def said(error: EvenhandError) -> str:
    """Return an error in one sentence, with its remedy.

    >>> said(ConfigError("no column 'agee'", remedy="did you mean 'age'?"))
    "no column 'agee'; did you mean 'age'?"
    """
    return " ".join(str(error).split())


TASKS: dict[str, Callable[[Mapping[str, Any], Talk], dict[str, Any]]] = {
    "data": inspect_data,
    "texts": inspect_texts,
    "model": inspect_model,
    "infer": infer_space,
    "space": read_space,
    "try": try_text,
    "audit": run_audit,
    "estimate": run_estimate,
    "repair": run_repair,
    "compare": run_compare,
}


def perform(task: Mapping[str, Any], talk: Talk) -> None:
    """Do a task, and say how it ended."""
    try:
        talk.say(result=TASKS[task["do"]](task, talk))
    except InUse as error:
        talk.say(wait=said(error))
    except EvenhandError as error:
        talk.say(error=said(error))
    except KeyboardInterrupt:
        talk.say(error="it was interrupted")
    except MemoryError:
        talk.say(died="it ran out of memory")
    except Exception as error:
        # The traceback goes to the log of the job.
        sys.excepthook(type(error), error, error.__traceback__)
        talk.say(error=f"unexpected error: {type(error).__name__}: {' '.join(str(error).split())[:300]}")


def main(pipe: int) -> None:
    """Read a task and do it; end with the whole group as soon as the parent is gone."""
    line = sys.stdin.buffer.readline()
    with os.fdopen(pipe, "w") as out:
        talk = Talk(out)

        def listen() -> None:
            for _ in iter(sys.stdin.buffer.readline, b""):
                talk.stop.set()
            os.killpg(os.getpgrp(), signal.SIGKILL)

        if line:
            threading.Thread(target=listen, daemon=True).start()
            perform(json.loads(line)["task"], talk)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[2]))
