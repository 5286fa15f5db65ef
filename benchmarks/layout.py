"""How the page lays out tables, sections and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    """Lay out a table, words to the left and numbers to the right."""
    left = ("", "model", "search", "subject", "lexicon", "identity", "method", "added of a finding")
    lines = [head, ["---" if words or name in left else "---:" for name in head], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(title: str, module: str, result: dict[str, Any], *parts: str) -> str:
    """Put a section together: the command, then the parts, and the machine."""
    return "\n\n".join([f"## {title}", f"    python -m benchmarks.{module}", *parts, measured_on(result)])


def paper(title: str, about: str, only: str, result: dict[str, Any], *parts: str) -> str:
    """Put a paper's page together: what is compared, the command, then the parts, and the machine."""
    command = f"    python -m benchmarks.papers --only {only}"
    return "\n\n".join([f"# {title}", about, command, *parts, measured_on(result)]) + "\n"


def measured_on(result: dict[str, Any]) -> str:
    """Say where a result was measured."""
    machine = result["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    before, after = machine["load"][0], result.get("load_after", machine["load"])[0]
    elsewhere: dict[str, list[str]] = {}
    for question, machines in result.get("machines", {}).items():
        for one in machines:
            where = f"{one['cores']} cores ({one['processor']}, Python {one['python']})"
            elsewhere.setdefault(where, []).append(question)
    others = "".join(f" Of {where}: {', '.join(questions)}." for where, questions in elsewhere.items())
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}), load average {before} at the start and "
        f"{after} at the end; Python {machine['python']}, {libraries}.{others}"
    )


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


def spread(pair: Sequence[float] | None, scale: float = 1.0) -> str:
    """Write a mean and a standard deviation.

    >>> spread([1234.4, 20]), spread([0.123, 0.0101], 100)
    ('1,234 ± 20', '12.3 ± 1')
    """
    if pair is None:
        return "-"
    mean, off = (scale * value for value in pair)
    return f"{_brief(mean)} ± {_brief(off)}" if off else _brief(mean)


def _brief(value: float) -> str:
    return (
        f"{value:,.0f}"
        if abs(value) >= 100 or value == int(value)
        else f"{value:.3g}"
        if value >= 10
        else f"{value:.2g}"
    )
