"""Long values, cut so that a page keeps its shape; what is seen of one is its beginning and its end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evenhand.words import plain

MOST, END = 90, 25
"""Characters of a value that are shown, and how many of them are its last."""
_LONG = re.compile(rf"\S{{{MOST + 1},}}")


def cut(text: str) -> str:
    """Leave out the middle of a long text.

    >>> len(cut("a" * 3000 + "b")), cut("a" * 3000 + "b")[-3:], cut("as it is")
    (90, 'aab', 'as it is')
    """
    return text if len(text) <= MOST else f"{text[: MOST - END - 1]}…{text[-END:]}"


def short(value: Any) -> str:
    """Write a value for a reader, cut where it is long.

    >>> short(0.30000000000000004)
    '0.3'
    """
    return cut(plain(value))


def words(text: str) -> str:
    """Cut what is long and has no space.

    >>> words("job in {clerk, " + "x" * 3000 + "}")[:30], len(words("x" * 3000))
    ('job in {clerk, xxxxxxxxxxxxxxx', 90)
    """
    return _LONG.sub(lambda found: cut(found[0]), text)


def listed(values: Mapping[str, object]) -> str:
    """Write protected values as a reader says them.

    >>> listed({"sex": "F", "race": "black"})
    'sex F, race black'
    """
    return ", ".join(f"{short(name)} {short(value)}" for name, value in values.items())
