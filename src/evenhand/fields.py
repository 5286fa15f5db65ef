"""Tables of fields: what a stored value must look like, checked once when it is read.

A table is made of plain containers. A ``Leaf`` is one value; ``[kind]`` is a list of any length, ``(kind, kind)`` one
of that length, and a dict an object that has at least these names; a name that ends in ``?`` may be missing, and under
``str`` stands the kind of all other names. ``Maybe(kind)`` may be null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

LARGEST = 2**62
"""No count that is stored is larger."""


class Leaf(NamedTuple):
    """One value: what it must be, in words, and how to tell."""

    words: str
    holds: Callable[[Any], bool]


class Maybe(NamedTuple):
    """A value that may be null."""

    kind: Any


def one_of(values: Sequence[str]) -> Leaf:
    """Return what one of some texts must look like.

    >>> check("tests", one_of(["tests", "rows"]), "stop")
    """
    return Leaf(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


ANY = Leaf("anything", lambda _: True)
TEXT = Leaf("a text", lambda value: isinstance(value, str))
FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
WHOLE = Leaf(
    "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
)
COUNT = Leaf(
    "a whole number of 0 or more",
    lambda value: WHOLE.holds(value) and value >= 0,
)
AMOUNT = Leaf(
    "a number of 0 or more",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST,
)
PLAIN = Leaf("a text, a number, true or false", lambda value: isinstance(value, str | int | float))


def check(value: Any, kind: Any, name: str) -> None:
    """Raise a ``ValueError`` that names the first part of a value that is not as its table says.

    >>> check({"curve": [[1, 2], [3]]}, {"curve": [(COUNT, COUNT)], "note?": Maybe(TEXT)}, "")
    Traceback (most recent call last):
    ValueError: curve[1] must be a list of 2, got [3]
    """
    if isinstance(kind, Maybe):
        if value is not None:
            check(value, kind.kind, name)
    elif isinstance(kind, Leaf):
        _require(kind.holds(value), name, kind.words, value)
    elif isinstance(kind, dict):
        _require(isinstance(value, dict), name, "an object", value)
        for key, inner in _named(value, kind, name):
            check(value[key], inner, f"{name}.{key}" if name else key)
    else:
        fixed = isinstance(kind, tuple)
        _require(isinstance(value, list), name, "a list", value)
        _require(not fixed or len(value) == len(kind), name, f"a list of {len(kind)}", value)
        for i, (part, inner) in enumerate(zip(value, kind if fixed else kind * len(value), strict=True)):
            check(part, inner, f"{name}[{i}]")


def _named(value: dict[str, Any], kind: dict[Any, Any], name: str) -> list[tuple[str, Any]]:
    """Pair the names in an object with their kinds."""
    kinds = {key.removesuffix("?"): inner for key, inner in kind.items() if key is not str}
    for key in kind:
        if key is not str and not key.endswith("?") and key not in value:
            raise ValueError(f"{name + ': ' if name else ''}{key!r} is missing")
    return [(key, kinds.get(key, kind.get(str, ANY))) for key in value]


def _require(holds: bool, name: str, words: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{name or 'it'} must be {words}, got {value!r:.60}")
