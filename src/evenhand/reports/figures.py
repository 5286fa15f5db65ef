"""Numbers of a report that know which object they come from, and are written with that source beside them.

A report is rendered from ``sourced(content)``: whatever is read of it, down to single numbers, carries the path by
which it was reached. Numbers that were calculated on the way carry none, so a test that walks a report finds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from evenhand import _format
from evenhand._format import Figure, Sentence, plain, visible
from evenhand.criteria import Criterion

if TYPE_CHECKING:
    from markupsafe import Markup

T = TypeVar("T")

MOST, END = 90, 25
"""Characters of a value that are shown, and how many of them are its last."""
_LONG = re.compile(rf"\S{{{MOST + 1},}}")


class Whole(int):
    """A whole number with its source."""

    source = ""


class Number(float):
    """A number with its source."""

    source = ""


class Sourced:
    """An object, a list or a mapping whose parts know by which path they were reached."""

    __slots__ = ("_source", "_value")

    def __init__(self, value: Any, source: str) -> None:
        self._value, self._source = value, source

    def __getattr__(self, name: str) -> Any:
        return sourced(getattr(self._value, name), self._path(name))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        return sourced(self._value[key], self._path(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a value of a mapping, or the default, which has no source."""
        return self[key] if key in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value) if isinstance(self._value, Mapping) else (self[i] for i in range(len(self)))

    def __contains__(self, key: object) -> bool:
        return key in self._value

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def _path(self, part: Any) -> str:
        return f"{self._source}.{part}" if self._source else str(part)


def sourced(value: T, source: str = "") -> T:
    """Have a value carry its source.

    >>> from evenhand.explanations.regions import Rate
    >>> rate = sourced(Rate(31, 100, 0.22, 0.41), "regions.everybody")
    >>> rate.low, rate.low.source, hasattr(2 * rate.low, "source")
    (0.22, 'regions.everybody.low', False)
    """
    out: Any = value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        out = Whole(value)
        out.source = source
    elif isinstance(value, float | np.floating):
        out = Number(value)
        out.source = source
    elif isinstance(value, Criterion):
        pass  # A criterion is compared as a whole.
    elif isinstance(value, list | tuple | Mapping) or (is_dataclass(value) and not isinstance(value, type)):
        out = Sourced(value, source)
    return cast(T, out)


def written(value: float, how: str) -> Markup:
    """Write a number by the formatter of a name, with its source where it has one.

    >>> print(written(sourced(0.0643, "estimates.data.rate"), "percent"))
    <data value="0.0643" data-source="estimates.data.rate" data-as="percent">6.43%</data>
    >>> print(written(0.0643, "percent"))
    6.43%
    """
    from markupsafe import Markup, escape

    text, source = getattr(_format, how)(value), getattr(value, "source", "")
    if not source:
        return escape(text)
    exact = repr(int(value) if isinstance(value, int) else float(value))
    return Markup('<data value="{}" data-source="{}" data-as="{}">{}</data>').format(exact, source, how, text)


percent, count, number, level, high = (
    partial(written, how=how) for how in ("percent", "count", "number", "level", "high")
)


def interval(low: float, upper: float) -> Markup:
    """Write an interval of shares."""
    return say("{} to {}", written(low, "low"), high(upper))


def number_interval(low: float, upper: float) -> Markup:
    """Write an interval of numbers."""
    return say("{} to {}", written(low, "number_low"), written(upper, "number_high"))


def given(text: str) -> Markup:
    """Write names, values or rules that are the user's own: numbers in them are not figures of the report.

    >>> print(given("age 38"))
    <span data-source="input">age 38</span>
    """
    return say('<span data-source="input">{}</span>', text)


def told(sentence: Sentence) -> Markup:
    """Write a sentence, its numbers with their sources.

    >>> print(told(Sentence("in {}", (Figure(sourced(1200, "run.tests"), "count"),))))
    in <data value="1200" data-source="run.tests" data-as="count">1,200</data>
    """
    return say(
        sentence.text,
        *(written(part.value, part.how) if isinstance(part, Figure) else given(words(part)) for part in sentence.parts),
    )


def say(text: str, *parts: Any) -> Markup:
    """Put parts into a sentence, whatever is no HTML already escaped and made visible.

    >>> print(say("{} of {}", "a < b", count(1200)))
    a &lt; b of 1,200
    """
    from markupsafe import Markup

    return Markup(text).format(
        *(visible(part) if isinstance(part, str) and not isinstance(part, Markup) else part for part in parts)
    )


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
