"""How the page lays out tables, sections and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table, words to the left and numbers to the right."""
    words = ("", "model", "search", "subject", "lexicon", "identity")
    lines = [head, ["---" if name in words else "---:" for name in head], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(title: str, module: str, result: dict[str, Any], *parts: str) -> str:
    """Put a section together: the command, the machine, then the parts."""
    machine = result["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    before, after = machine["load"][0], result.get("load_after", machine["load"])[0]
    where = (
        f"Measured on {machine['cores']} cores ({machine['processor']}), load average {before} at the start and "
        f"{after} at the end; Python {machine['python']}, {libraries}."
    )
    return "\n\n".join([f"## {title}", f"    python -m benchmarks.{module}", *parts, where])


def whole(value: float) -> str:
    """Write a number without decimals, small ones with what matters.

    >>> whole(1234.5), whole(0.6)
    ('1,234', '0.6')
    """
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def percent(value: float) -> str:
    """Write a share in per cent.

    >>> percent(0.00643), percent(0.693)
    ('0.64', '69.3')
    """
    return f"{100 * value:.1f}" if value >= 0.1 else f"{100 * value:.2f}"


def verdict(met: Sequence[bool], what: str, missed: Sequence[str]) -> str:
    """Say how many of a target's rows meet it, and which do not."""
    if all(met):
        return f"All {len(met)} {what} meet the target."
    return f"{sum(met)} of {len(met)} {what} meet the target; missed by {', '.join(missed)}."
