"""What the command prints about an estimate, and the pictures that it writes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._write import reason, replacing
from evenhand.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from evenhand.estimates.groups import Groups
    from evenhand.estimates.result import Estimate

TERMS, DECISIONS = 40, 6
"""Terms and decisions that are shown."""


def facts(found: Estimate) -> list[tuple[str, str]]:
    """List what a reader should know of an estimate.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> dict(facts(eh.estimate(lambda f: f["age"] > 3, space)))["verdict"]
    'none found'
    """
    from evenhand._format import interval, level, number, percent, seconds
    from evenhand.estimates.result import NOT_RECEIVED, STOPS
    from evenhand.estimates.words import noun, treated

    sure = f"{interval(found.low, found.high)} with {level(found.confidence)} confidence ({found.interval})"
    if found.exact:
        sure = f"none needed: {'every one' if found.space.noun == 'text' else 'everyone'} was judged"
    elif found.interval == NOT_RECEIVED:
        sure = "none needed: the model does not receive what is protected"
    how, who = treated(found.space, found.criterion), noun(found.space)
    texts = who == "texts"
    rows = [
        ("treated differently", f"{percent(found.rate)} of {found.about}"),
        ("interval", sure),
        ("verdict", found.verdict),
        ("asked", f"{found.samples:,} {who}, of {'which' if texts else 'whom'} {found.found:,} are {how}"),
        ("model rows", f"{found.rows:,}, and {found.rows_checked:,} to check"),
        ("seconds", seconds(found.seconds)),
        ("ended", f"because {'all were asked' if texts and found.stop == 'exhausted' else STOPS[found.stop]}"),
    ]
    if found.severity is not None:
        gaps = found.severity["everyone"]
        text = f"{number(gaps['median'])} apart at the median, {number(gaps['p99'])} in one of a hundred"
        rows.append(("scores", f"{text}, {number(gaps['largest'])} at most"))
    if found.repeats > 1:
        text = f"two answers to {percent(found.noise)} of the rows; each was asked {found.repeats} times"
        rows.append(("noise", text))
    counts = found.counts
    if counts.get("untestable"):
        rows.append(("no term" if texts else "no counterpart", f"{counts['untestable']:,} {who}"))
    if counts.get("clipped") or counts.get("dropped"):
        text = f"{counts['clipped']:,} moved to the nearest bound of the space, {counts['dropped']:,} left out"
        rows.append(("data rows", text))
    if found.sampled:
        whose = "some texts" if texts else "each individual"
        rows.append(("counterparts", f"a sample of them for {whose}: the share may be higher"))
    return rows


def show(found: Estimate, figures: Groups | None) -> None:
    """Print an estimate: a sentence, a table, who is favoured, and the groups."""
    from rich import box
    from rich.table import Table

    from evenhand.cli.summary import cell, console

    out = console()
    first, *who = repr(found).removeprefix("Estimate: ").splitlines()
    _fill(out, first[0].upper() + first[1:] + ".", "")
    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    for name, value in facts(found):
        table.add_row(cell(name, "dim"), cell(value))
    out.print(table)
    for line in who:
        _fill(out, line.strip(), "  ")
    if found.terms:
        out.print(_by_term(found))
    if figures is not None:
        head, *lines = repr(figures).removeprefix("Groups: ").splitlines()
        out.print()
        _fill(out, head[0].upper() + head[1:] + ":", "")
        for line in lines:
            _fill(out, line.strip(), "  ")


def _by_term(found: Estimate) -> RichTable:
    """Show what is decided of the same texts with each term in place, and how they are scored."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from evenhand._format import number, number_interval, percent, visible

    terms, decided = found.terms[:TERMS], [value for value, _ in found.terms[0].shares[:DECISIONS]]
    scored = any(term.mean is not None for term in terms)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("with the term", "texts", *(f"decided {value}" for value in decided)):
        table.add_column(Text(visible(name)))
    if scored:
        table.add_column("average score")
        table.add_column("more than the other terms")
    for term in terms:
        cells = [percent(share) for _, share in term.shares[:DECISIONS]]
        if scored:
            low, high = term.difference_low, term.difference_high
            ends = f" ({number_interval(low, high)})" if low is not None and high is not None and low < high else ""
            cells.append("" if term.mean is None else number(term.mean))
            cells.append("not known" if term.difference is None else f"{number(term.difference)}{ends}")
        table.add_row(*map(Text, (visible(term.term), f"{term.texts:,}", *cells)))
    return table


def draw(found: Estimate, figures: Groups | None, folder: Path) -> None:
    """Write the pictures."""
    drawn = {"convergence": found.plot_convergence, "intervals": found.plot_intervals, "gaps": found.plot_gaps}
    if figures is not None:
        drawn["groups"] = figures.plot_intervals
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, plot in drawn.items():
            with replacing(folder / f"{name}.svg") as file:
                plot().savefig(file, format="svg")
    except OSError as error:
        raise RunError(f"cannot write pictures to {folder}: {reason(error)}; name another folder: --plots") from error


def _fill(out: Console, text: str, indent: str) -> None:
    width = max(40, min(out.width, 110))
    out.print(
        textwrap.fill(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  " if indent else "",
            break_on_hyphens=False,
            break_long_words=False,
        ),
        soft_wrap=True,
    )
