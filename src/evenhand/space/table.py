"""How a space prints: one line an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand._format import count, visible

if TYPE_CHECKING:
    from evenhand.space.tabular import Space


def table(space: Space) -> str:
    """Lay a space out as text.

    >>> from evenhand.space import Boolean, Integer, Space
    >>> print(table(Space([Integer("age", 1, 9), Boolean("sex")], protected="sex")))
    Space: 2 attributes, 9 tests of 2 counterparts each
      age  integer            whole numbers 1 to 9
      sex  boolean  protected False, True
    """
    counterparts = f"{count(space.combinations)} counterparts each"
    if space.combinations > space.limit:
        counterparts = f"{space.limit:,} counterparts each, sampled from {count(space.combinations)}"
    tests = "tests" if space.countable else "combinations of free values"
    lines = [f"Space: {len(space.names)} attributes, {count(space.tests)} {tests} of {counterparts}"]
    name_width = max(len(visible(name)) for name in space.names)
    kind_width = max(len(a.kind) for a in space.attributes)
    why = {note.name: note.reason for note in space.notes}
    for attribute in space.attributes:
        role = "protected" if attribute.name in space.protected else ""
        missing = ", or missing" if attribute.has_missing else ""
        reason = f"  ({why[attribute.name]})" if attribute.name in why else ""
        lines.append(
            f"  {visible(attribute.name):<{name_width}}  {attribute.kind:<{kind_width}}  {role:<9} "
            f"{attribute.allowed()}{missing}{reason}"
        )
    lines += [f"  constraint: {constraint.text}" for constraint in space.constraints]
    for protected, dependents in space.links.items():
        lines += [f"  link: {dependent} follows {protected}" for dependent in dependents]
    return "\n".join(map(visible, lines))
