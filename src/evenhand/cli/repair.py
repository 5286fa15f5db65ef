"""The command ``evenhand repair``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenhand._write import SHARED, reason, replacing
from evenhand.cli.app import message, tell
from evenhand.errors import MissingExtra, ModelError, RunError
from evenhand.models.base import some

if TYPE_CHECKING:
    from evenhand.cli.plan import Workbench
    from evenhand.config.file import Config
    from evenhand.config.schema import RepairTable
    from evenhand.errors import EvenhandError
    from evenhand.repairs.evidence import Evidence
    from evenhand.repairs.result import Repair
    from evenhand.repairs.scoring import Interval
    from evenhand.spaces.tabular import Space


def repair(config: Config) -> None:
    """Repair by each method, and report what each changes and costs."""
    from evenhand.cli.plan import set_up

    call = config.call
    config.refuse_texts("repair")
    bench = set_up(config)
    with config.named("repair.favourable", "favourable"), config.named("repair.order", "favourable"):
        done, failed = _compare(bench, shown=not (call.quiet or call.json))
    _report(done, failed, config.repair, bench, call.json, call.quiet)


def _compare(bench: Workbench, shown: bool) -> tuple[dict[str, Repair], dict[str, str]]:
    """Try each method; of one that fails keep why, and go on. Where none works the first reason is the error."""
    from evenhand.cli.output import steps
    from evenhand.errors import EvenhandError

    done: dict[str, Repair] = {}
    failed: dict[str, EvenhandError] = {}
    with steps(shown) as say:
        for name in bench.methods:
            try:
                done[name] = bench.repair(name, say)
            except EvenhandError as error:
                failed[name] = error
    if not done:
        raise next(iter(failed.values()))
    # The original model has the same figures, whichever method hands it back.
    before = next(iter(done.values())).before
    done = {name: one if one.changed else replace(one, before=before, after=before) for name, one in done.items()}
    return done, {name: message(error).removeprefix("evenhand: ") for name, error in failed.items()}


def _report(
    done: dict[str, Repair], failed: dict[str, str], table: RepairTable, bench: Workbench, as_json: bool, quiet: bool
) -> None:
    """Say what each method did and choose one; then, so that nothing is lost if it fails, write what was asked for."""
    from evenhand.cli import audit as summary
    from evenhand.cli import repair as repaired

    name, why = repaired.choose(done, table.tolerate, named=len(bench.methods) == 1)
    unseen = repaired.unseen(done, bench.space)
    model = next(iter(done.values())).original if name == repaired.ORIGINAL else done[name].model
    if not (as_json or quiet):
        repaired.show(done, failed, unseen, name, why)
    written, faults = _write(model, done, table)
    if as_json:
        summary.emit(
            {
                "methods": {key: found.to_dict() for key, found in done.items()},
                "failed": failed,
                "chosen": name,
                "why": why,
                "tolerate": table.tolerate,
                "not_looked_at": unseen,
                "saved": None,
                "plot": None,
                **written,
            }
        )
        for key, reason in () if quiet else failed.items():
            tell(f"evenhand: {key} failed: {' '.join(reason.split())}")
    elif "saved" in written and not quiet:
        trust = f"; loading it needs --trust for {', '.join(written['trust'])}" if written["trust"] else ""
        repaired.say(("saved", f"{written['saved']}{trust}"))
    if faults:
        raise faults[0]


def _write(model: Any, done: dict[str, Repair], table: RepairTable) -> tuple[dict[str, Any], list[EvenhandError]]:
    """Write the files that were asked for; say which there are, and what went wrong with others."""
    from evenhand.cli import repair as saving
    from evenhand.errors import EvenhandError

    written: dict[str, Any] = {}
    faults: list[EvenhandError] = []
    try:
        if table.save is not None:
            written |= {"trust": saving.save(model, Path(table.save)), "saved": table.save}
    except EvenhandError as error:
        faults.append(error)
    try:
        if table.plot is not None:
            saving.draw(done, Path(table.plot))
            written["plot"] = table.plot
    except EvenhandError as error:
        faults.append(error)
    return written, faults


ORIGINAL = "original"
HEAD = ("", "uniform", "data", "accuracy", "AUC", "rows added", "seconds", "moved to")


def choose(done: Mapping[str, Repair], tolerate: float, named: bool = False) -> tuple[str, str]:
    """Choose the repair whose rate falls most among those that surely lower it and lose no more than is tolerated.

    Of equal ones, that which loses less, then that which moves discrimination to fewer attributes. Where there is none
    the original is kept.
    """
    if named:
        return next(iter(done)), "it is the one that was asked for"
    within = f"{tolerate:g} point{'s' * (tolerate != 1)} of accuracy"
    good = []
    for name, one in done.items():
        fall, loss = _fall(one), _loss(one)
        if fall is not None and fall.high < 0 and loss <= tolerate:
            good.append((fall.value, loss, len(one.moved), name))
    if not good:
        return ORIGINAL, f"no method surely lowers the rate and loses at most {within}; it is kept"
    best = min(good)[-1]
    return best, f"the largest fall of the rate, and a sure one, among those that lose at most {within}"


def _fall(one: Repair) -> Interval | None:
    known = one.differences["uniform"]
    return one.differences["data"] if known is None else known


def _loss(one: Repair) -> float:
    gain = one.differences["accuracy"]
    return 0.0 if gain is None else round(-100 * gain.value, 9)


def unseen(done: Mapping[str, Repair], space: Space) -> list[str]:
    """Name the attributes to which discrimination may have moved unseen: nobody looked at them."""
    seen = {shift.attribute for one in done.values() for shift in one.shifts}
    # A single protected attribute is what all rates are about.
    seen |= set(space.protected) if len(space.protected) == 1 else set()
    return [a.name for a in space.attributes if a.size > 1 and a.name not in seen]


def rows(done: Mapping[str, Repair], failed: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Lay repairs out: the original first, then a line for each method."""
    out: list[tuple[str, ...]] = []
    for name, found in done.items():
        if not out:
            out.append((ORIGINAL, *_figures(found.before), "", "", ""))
        moved = ", ".join(found.moved) or ("-" if found.shifts else "not looked at")
        shown = name if found.changed else f"{name} (unchanged)"
        out.append((shown, *_figures(found.after), f"{found.rows_added:,}", f"{found.seconds:.1f}", moved))
    out += [(f"{name} (failed)", *("-",) * (len(HEAD) - 1)) for name in failed]
    return out


def _figures(evidence: Evidence) -> tuple[str, ...]:
    from evenhand._format import estimated, number

    def share(found: Any) -> str:
        if found is None:
            return "-"
        return f"{estimated(found.rate, found.low, found.high)}{' exactly' if found.exact else ''}"

    sure = evidence.accuracy
    right = estimated(sure.value, sure.low, sure.high)
    area = "-" if evidence.auc is None else number(evidence.auc.value)
    return share(evidence.uniform), share(evidence.data), right, area


def show(done: Mapping[str, Repair], failed: Mapping[str, str], unseen: list[str], name: str, why: str) -> None:
    """Print the table, what became of each method in words, what nobody looked at, and which method was chosen."""
    from rich import box
    from rich.table import Table

    from evenhand.cli.audit import cell, console

    out = console()
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in HEAD:
        table.add_column(title, no_wrap=not title, overflow="fold")
    for line in rows(done, failed):
        table.add_row(*map(cell, line))
    out.print("Treated differently, of uniform valid individuals and of people like the held-out rows; accuracy there.")
    out.print(table)
    told = [(key, found.verdict) for key, found in done.items()]
    told += [(key, f"failed: {' '.join(reason.split())}") for key, reason in failed.items()]
    if unseen:
        told.append(("not looked at", f"whether it moved to {some(unseen)}; --watch NAME looks"))
    say(*told, ("chosen", f"{name}: {why}"))


def say(*told: tuple[str, str]) -> None:
    """Print sentences, each after what it is about."""
    from evenhand.cli.audit import console

    out = console()
    width = max(40, min(out.width, 110))
    for key, text in told:
        text = f"{key}: {text}."
        out.print(textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False), soft_wrap=True)


def save(model: Any, path: Path) -> list[str]:
    """Write a model; give the types that loading it from skops has to be told to trust.

    It takes the place of what was there only after it has been loaded back.
    """
    try:
        with replacing(path, SHARED) as draft:
            return _skops(model, draft) if path.suffix.lower() == ".skops" else _joblib(model, draft)
    except MissingExtra:
        raise
    except Exception as error:
        gist = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise RunError(f"cannot save the {type(model).__name__} to {path} ({gist});\n{_advice(path, error)}") from error


def check_writable(path: Path) -> None:
    """Find out before the work, not after it, that a model's format needs a package that is not there."""
    if path.suffix.lower() == ".skops" and find_spec("skops") is None:
        raise MissingExtra("skops", "skops", "writing a .skops file")


def _joblib(model: Any, draft: IO[bytes]) -> list[str]:
    import joblib

    joblib.dump(model, draft)
    draft.seek(0)
    joblib.load(draft)
    return []


def _skops(model: Any, draft: IO[bytes]) -> list[str]:
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", "writing a .skops file")
    import skops.io

    from evenhand.models.files import HARMLESS, OWN, TREES, check_trees

    stored = skops.io.dumps(model)
    draft.write(stored)
    named = skops.io.get_untrusted_types(data=stored)
    known = {*OWN, *HARMLESS, *TREES}
    try:
        check_trees(skops.io.loads(stored, trusted=named))
    except ModelError:
        known -= set(TREES)
    return sorted(set(named) - known)


def _advice(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return "name a file in a place that can be written to: --save"
    own = "repair in Python and save the model as its library does"
    if path.suffix.lower() == ".skops":
        return f"name a .joblib file, or {own}"
    return f"a function that training makes cannot be stored, one at the top of a module can; or {own}"


def draw(done: Mapping[str, Repair], path: Path) -> None:
    """Write the trade-off of accuracy and rate as a picture."""
    from evenhand.repairs.plots import tradeoff

    try:
        with replacing(path) as file:
            tradeoff(done).savefig(file, format=path.suffix.removeprefix(".").lower())
    except OSError as error:
        raise RunError(f"cannot write the picture to {path}: {reason(error)}; name another file: --plot") from error
