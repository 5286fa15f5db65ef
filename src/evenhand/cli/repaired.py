"""What the command prints about repairs, and which one it chooses."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenhand.models.base import some

if TYPE_CHECKING:
    from evenhand.repairs.evidence import Evidence
    from evenhand.repairs.result import Repair
    from evenhand.repairs.scoring import Interval
    from evenhand.spaces.tabular import Space

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

    from evenhand.cli.summary import cell, console

    out = console()
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in HEAD:
        table.add_column(title, no_wrap=not title, overflow="fold")
    for line in rows(done, failed):
        table.add_row(*map(cell, line))
    out.print("Treated differently, of uniform legal individuals and of people like the held-out rows; accuracy there.")
    out.print(table)
    told = [(key, found.verdict) for key, found in done.items()]
    told += [(key, f"failed: {' '.join(reason.split())}") for key, reason in failed.items()]
    if unseen:
        told.append(("not looked at", f"whether it moved to {some(unseen)}; --watch NAME looks"))
    say(*told, ("chosen", f"{name}: {why}"))


def say(*told: tuple[str, str]) -> None:
    """Print sentences, each after what it is about."""
    from evenhand.cli.summary import console

    out = console()
    width = max(40, min(out.width, 110))
    for key, text in told:
        text = f"{key}: {text}."
        out.print(textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False), soft_wrap=True)
