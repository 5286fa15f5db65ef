"""The command ``evenhand repair``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.faults import message, tell

if TYPE_CHECKING:
    from evenhand.cli.workbench import Workbench
    from evenhand.config.file import Config
    from evenhand.config.schema import RepairTable
    from evenhand.errors import EvenhandError
    from evenhand.repairs.result import Repair


def repair(config: Config) -> None:
    """Repair by each method, and report what each changes and costs."""
    from evenhand.cli.workbench import set_up

    call = config.call
    config.refuse_texts("repair")
    bench = set_up(config)
    with config.named("repair.favourable", "favourable"), config.named("repair.order", "favourable"):
        done, failed = _compare(bench, shown=not (call.quiet or call.json))
    _report(done, failed, config.repair, bench, call.json, call.quiet)


def _compare(bench: Workbench, shown: bool) -> tuple[dict[str, Repair], dict[str, str]]:
    """Try each method; of one that fails keep why, and go on. Where none works the first reason is the error."""
    from evenhand.cli.progress import steps
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
    from evenhand.cli import repaired, summary

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
    from evenhand.cli import saving
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
