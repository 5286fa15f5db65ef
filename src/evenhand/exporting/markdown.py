"""A run as a short Markdown text, for a pull request.

Whatever comes from the user stands in blocks of HTML, escaped: within them Markdown means nothing, so no pipe,
backtick or bracket does anything, and in ``<code>`` no service makes links or mentions of a text.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from evenhand.text.space import TextSpace
from evenhand.text_words import TextPair
from evenhand.words import Pair, plain, telling

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.run import Run

SHOWN = 3


def to_markdown(run: Run) -> str:
    """Give a run's verdict, counts and most telling pairs.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> print(to_markdown(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")).splitlines()[0])
    ### evenhand: nobody was found to be treated differently
    """
    kinds = ("text", "texts", "no text") if isinstance(run.space, TextSpace) else ("person", "people", "nobody")
    found = f"1 {kinds[0]} is" if run.found == 1 else f"{run.found:,} {kinds[1]} are"
    head = f"{found} treated differently" if run.found else f"{kinds[2]} was found to be treated differently"
    identity = run.identity
    facts = {
        "model": identity["model"],
        "protected": ", ".join(run.space.protected),
        "search": f"{identity['strategy']['strategy']}, seed {identity['seed']}, {identity['criterion']}",
        "tests": f"{run.tests:,}",
        "findings": f"{run.found:,}",
        "ended": f"because {run.stop.words}",
    }
    parts = [f"### evenhand: {head}", _table([[name, value] for name, value in facts.items()])]
    parts += [_pair(pair) for pair in telling(run, SHOWN)]
    if run.found and not isinstance(run.space, TextSpace):
        parts.append(
            "Findings per test say how well a search aims, not how common this is: `evenhand estimate` measures that."
        )
    return "\n\n".join(parts) + "\n"


def _pair(pair: Pair | TextPair) -> str:
    if isinstance(pair, TextPair):
        sides = ["text", pair.written(), pair.written("counterpart")]
        said = ["decision", plain(pair.decision), plain(pair.counterpart_decision)]
        # Written already so that everything is seen.
        return _table([["", "this text", "the same text"], sides, said], {"decision"}, escape)
    rows: list[list[Any]] = [["", "this person", "the same person"]]
    rows += [[name, value, pair.changes.get(name, value)] for name, value in pair.individual.items()]
    rows.append(["decision", pair.decision, pair.counterpart_decision])
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
