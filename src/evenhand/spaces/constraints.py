"""Constraints: conditions that every valid individual meets, written as text.

The language is that of Python's conditions, with a few more words::

    hours <= 60 or age >= 3                     numbers, + - * / // %, 18 <= age < 65
    education >= "Bachelors"                    an ordinal attribute, by the order of its values
    work in ["clerk", "nurse"]                  one of several values; also `not in`
    income is missing                           also `is not missing` and missing(income)
    if married then age >= 16                   also: married implies age >= 16
    `marital-status` != "Widowed"               other names stand in backticks

A comparison with a missing value is false, so ``not (x > 3)`` is true where x is missing. Arithmetic with a
missing value, or without a finite result (a division by zero), is missing. Numbers are 64-bit floats.

The text is parsed, checked against the attributes and kept as a small tree; no text is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Attribute, Mask
from evenhand.spaces.expressions import Columns, Condition, Source, Walker, shown, walk

LONGEST = 10_000


@dataclass(frozen=True)
class Constraint:
    """A condition on individuals.

    >>> from evenhand.spaces.attributes import Integer
    >>> work = parse("hours <= 60 or age >= 3", [Integer("age", 1, 9), Integer("hours", 1, 99)])
    >>> work.names
    ('age', 'hours')
    >>> work.holds({"age": np.array([1, 1, 5]), "hours": np.array([40, 80, 80])}).tolist()
    [True, False, True]
    """

    text: str
    """What the user wrote."""
    names: tuple[str, ...]
    """The attributes that it mentions, in the space's order."""
    tree: Condition
    """The condition as a tree of small frozen objects, checked."""
    attributes: tuple[Attribute, ...] = field(repr=False)

    def holds(self, columns: Mapping[str, npt.NDArray[Any]]) -> Mask:
        """Return for which rows the condition holds; ``columns`` are arrays of values by name.

        A value that a listed attribute does not have counts as missing.

        >>> from evenhand.spaces.attributes import Ordinal
        >>> grade = Ordinal("grade", ["low", "high"], missing=True)
        >>> parse("not grade < 'high'", [grade]).holds({"grade": np.array(["low", "high", None])}).tolist()
        [False, True, True]
        """
        return self._evaluate(columns, False)

    @cached_property
    def conditions(self) -> int:
        """How many nodes the tree has."""
        return sum(1 for _ in walk(self.tree))

    def holds_codes(
        self, codes: Mapping[str, npt.NDArray[Any]], cache: dict[str, npt.NDArray[Any]] | None = None
    ) -> Mask:
        """Return the same from arrays of codes; several times faster where attributes are listed.

        Several constraints on the same codes can share a ``cache``.

        >>> from evenhand.spaces.attributes import Nominal
        >>> rule = parse("work != 'nurse'", [Nominal("work", ["clerk", "nurse"])])
        >>> rule.holds_codes({"work": np.array([0, 1])}).tolist()
        [True, False]
        """
        return self._evaluate(codes, True, cache)

    def _evaluate(
        self, columns: Mapping[str, npt.NDArray[Any]], coded: bool, cache: dict[str, npt.NDArray[Any]] | None = None
    ) -> Mask:
        for name in self.names:
            if name not in columns:
                raise SpaceError(f"the constraint {shown(self.text)} needs the column {name!r}, got {list(columns)}")
        with np.errstate(all="ignore"):
            truth = Columns(self.attributes, columns, coded, cache).truth(self.tree)
        return np.asarray(truth, dtype=bool)


def parse_all(texts: Sequence[str], attributes: Sequence[Attribute]) -> tuple[Constraint, ...]:
    """Read the constraints of a space, as long as they are not too many.

    >>> from evenhand.spaces.attributes import Integer
    >>> len(parse_all(["age > 1", "age < 9"], [Integer("age", 1, 99)]))
    2
    """
    check_limit("constraints", len(texts), "the space", "join some by and")
    check_limit("constraint_characters", sum(len(text) for text in texts if isinstance(text, str)), "the constraints")
    return tuple(parse(text, attributes) for text in texts)


def parse(text: str, attributes: Sequence[Attribute]) -> Constraint:
    """Read a constraint and check it against the attributes; an error names the position.

    >>> from evenhand.spaces.attributes import Integer
    >>> parse("not 18 <= age", [Integer("age", 1, 99)]).tree
    Not(part=Compare(op='<=', left=Literal(value=18), right=Column(name='age')))
    """
    if not isinstance(text, str):
        raise SpaceError("must be texts such as 'age >= 18'", parameter="constraints", value=text)
    if len(text) > LONGEST:
        got = f"the constraint {shown(text)} has {len(text):,} characters, more than {LONGEST:,}"
        raise SpaceError(got, value=text, remedy="split it into several")
    walker = Walker(Source(text), attributes)
    try:
        tree = walker.condition(walker.source.parsed())
    except (RecursionError, MemoryError):
        raise walker.source.error(0, "it is nested too deeply", "split it into several constraints") from None
    names = tuple(a.name for a in attributes if a.name in walker.mentioned)
    if not names:
        raise walker.source.error(0, "it mentions no attribute", f"there are {', '.join(list(walker.attributes)[:8])}")
    return Constraint(text, names, tree, tuple(walker.attributes[name] for name in names))
