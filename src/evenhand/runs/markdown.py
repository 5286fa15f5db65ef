"""A run as a short Markdown text, for a pull request.

Whatever comes from the user stands in blocks of HTML, escaped: within them Markdown means nothing, so no pipe,
backtick or bracket does anything, and in ``<code>`` no service makes links or mentions of a text.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from evenhand.text_words import (TextPair)
from evenhand.words import (Pair, confirmation, outcome, plain, telling)

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.runs.run import (Run)

SHOWN = 3


def to_markdown(run: Run) -> str:
    """Give a run's verdict, counts and most telling pairs.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> print(to_markdown(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")).splitlines()[0])
    ### evenhand: nobody was found to be treated differently
    """
    facts = {
        "model": run.identity.model,
        "protected": ", ".join(run.space.protected),
        "search": f"{run.identity.search}, seed {run.identity.seed}, {run.identity.criterion}",
        "tests": f"{run.tests:,}",
        "findings": confirmation(run),
        "ended": f"because {run.stop.words}",
    }
    if run.note is not None:
        facts["note"] = run.note
    parts = [f"### evenhand: {_head(run)}"]
    if run.found:
        how = "" if run.space.noun == "text" else ": `evenhand estimate` measures that"
        parts.append(f"Findings per test say how well a search aims, not how common this is{how}.")
    parts.append(_table([[name, value] for name, value in facts.items()]))
    parts += [_pair(pair) for pair in telling(run, SHOWN)]
    return "\n\n".join(parts) + "\n"


def _head(run: Run) -> str:
    """Say what was found, and that it is not people."""
    texts = run.space.noun == "text"
    if not run.found:
        return f"{'no text' if texts else 'nobody'} was found to be treated differently"
    found = "1 finding" if run.found == 1 else f"{run.found:,} findings"
    one = "a text" if texts else "an individual"
    who = f"{one} that the search made up" if run.found == 1 else f"{one.split()[1]}s that the search made up"
    if run.identity.data:
        # Searches that start from data come by some of its rows as they are.
        who += ", or took from the data"
    return f"{found} ({who}) in {run.tests:,} {'test' if run.tests == 1 else 'tests'}"


def _pair(pair: Pair | TextPair) -> str:
    if isinstance(pair, TextPair):
        sides = ["text", pair.written(), pair.written("counterpart")]
        said = ["decision", outcome(pair.decision), outcome(pair.counterpart_decision)]
        # Written already so that everything is seen.
        return _table([["", "this text", "the same text"], sides, said], {"decision"}, escape)
    rows: list[list[Any]] = [["", "this person", "the same person"]]
    rows += [[name, value, pair.changes.get(name, value)] for name, value in pair.individual.items()]
    rows.append(["decision", outcome(pair.decision), outcome(pair.counterpart_decision)])
    changed = {*pair.changes, "decision"}
    return _table(rows, changed)


def _safe(value: Any) -> str:
    return escape(plain(value))


def _table(rows: list[list[Any]], strong: set[str] | None = None, safe: Callable[[Any], str] = _safe) -> str:
    # No empty line inside: it would end the block of HTML.
    lines = []
    for name, *values in rows:
        cells = [f"<code>{safe(value)}</code>" for value in values]
        if strong and name in strong:
            cells = [f"<b>{cell}</b>" for cell in cells]
        label = _safe(name) if strong is None or not name else f"<code>{_safe(name)}</code>"
        lines.append(f"<tr><th>{label}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return "\n".join(["<table>", *lines, "</table>"])
