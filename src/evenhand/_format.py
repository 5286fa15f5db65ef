"""Numbers and texts for readers, in one style for reports, terminals and exports.

Numbers have three significant digits and are rounded to the nearest. The ends of an interval are rounded outward, so
that the interval shown contains the measured one. Only 0 is shown as 0, so the interval shown excludes 0 if the
measured one does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from importlib import import_module
from typing import Any

DIGITS = 3
EXACT = 10**9
"""Larger counts are rounded to two digits."""
LEAST, MOST = 1e-9, 1e15
"""Numbers beyond these are written as powers of ten."""


class Viewed:
    """A result that notebooks show in the look of reports."""

    def _repr_html_(self) -> str:
        # Imported by name, because reports are the layer above all results.
        return str(import_module("evenhand.reports").view(self))


@dataclass(frozen=True)
class Figure:
    """A number, and the name of the function of this module that formats it."""

    value: float
    how: str

    def __str__(self) -> str:
        return written(self.value, self.how)


@dataclass(frozen=True)
class Sentence:
    """A sentence whose numbers are not formatted yet, so that a report can link each to its source.

    >>> print(Sentence("{} gets {} more", ("sex M", Figure(-412.3, "size"))))
    sex M gets 412 more
    """

    text: str
    parts: tuple[str | Figure, ...] = ()
    """Strings are names and values of the user's data."""

    def __str__(self) -> str:
        return self.text.format(*self.parts)

    def __add__(self, other: Sentence) -> Sentence:
        return Sentence(self.text + other.text, self.parts + other.parts)


def percent(share: float) -> str:
    """Format a share as a percentage, never as a power of ten; only 1 is "100%".

    >>> percent(0.04023), percent(0.00002995), percent(0.5), percent(0), percent(0.99996)
    ('4.02%', '0.003%', '50%', '0%', '99.996%')
    """
    return _percent(share, ROUND_HALF_EVEN)


def low(share: float) -> str:
    """Format the lower end of an interval of shares.

    >>> low(0.04999), low(-0.04999)
    ('4.99%', '-5%')
    """
    return _percent(share, ROUND_FLOOR)


def high(share: float) -> str:
    """Format the upper end of an interval of shares, or a bound.

    >>> high(0.05811), high(0.99996), high(1.0)
    ('5.82%', '99.996%', '100%')
    """
    return _percent(share, ROUND_CEILING)


def interval(lower: float, upper: float) -> str:
    """Format an interval of shares.

    >>> interval(0.04999, 0.05811)
    '4.99% to 5.82%'
    """
    return f"{low(lower)} to {high(upper)}"


def reverse(share: float) -> str:
    """Format a difference of shares the other way round, for what names the second of two first.

    >>> reverse(-0.0486)
    '4.86%'
    """
    return percent(-share)


def people(share: float, of: int = 0) -> str:
    """Format a share as whole people of a round number of people, with all digits of the percentage.

    >>> people(0.03464), people(0.00035), people(0.5), people(0.5, 10_000)
    ('346 in 10,000', '35 in 100,000', '500 in 1,000', '5,000 in 10,000')
    """
    of = of or round_number(percent(share))
    return f"{_whole(share, of, ROUND_HALF_EVEN)} in {of:,}"


def people_low(share: float, of: int) -> str:
    """Format the lower end of an interval of so many people.

    >>> people_low(0.03199, 10_000)
    '319'
    """
    return _whole(share, of, ROUND_FLOOR)


def people_high(share: float, of: int = 0) -> str:
    """Format the upper end of such an interval; without a number of people, a bound.

    >>> people_high(0.03801, 10_000), people_high(0.00184375)
    ('381', '185 in 100,000')
    """
    text = _whole(share, of or round_number(high(share)), ROUND_CEILING)
    return text if of else f"{text} in {round_number(high(share)):,}"


def round_number(*percentages: str) -> int:
    """Return a number of people of which all these percentages are whole people.

    >>> round_number("3.46%", "0.5%"), round_number("50%")
    (10000, 1000)
    """
    return int(10 ** max(3, *(2 + len(one.rstrip("%").partition(".")[2]) for one in percentages)))


def written(value: float, how: str) -> str:
    """Format a number with the named function, whose second argument may follow behind a colon.

    >>> written(0.0346, "percent"), written(0.0346, "people:100000")
    ('3.46%', '3,460 in 100,000')
    """
    name, _, of = how.partition(":")
    return str(globals()[name](value, int(of)) if of else globals()[name](value))


def estimated(share: float, lower: float, upper: float) -> str:
    """Format a share with its interval, if it has one.

    >>> estimated(0.054, 0.0499, 0.0581), estimated(0.5, 0.5, 0.5)
    ('5.4% (4.99% to 5.81%)', '50%')
    """
    return f"{percent(share)} ({interval(lower, upper)})" if lower < upper else percent(share)


def level(confidence: float) -> str:
    """Format a confidence level, with all its digits.

    >>> level(0.95), level(0.999), level(0.9999999)
    ('95%', '99.9%', '99.99999%')
    """
    return f"{_exact(100 * confidence).normalize():f}%"


def number(value: float, digits: int = DIGITS, *, grouped: bool = True) -> str:
    """Format a score, a ratio or any other number that is not a share; digits before the point are kept.

    Only very large and very small numbers are written as powers of ten.

    >>> number(0.12345), number(5452.3), number(2), number(0.0000123), number(1234567.8), number(-0.5)
    ('0.123', '5,452', '2', '0.0000123', '1,234,568', '-0.5')
    >>> number(12345.678, 6), number(12345.678, 6, grouped=False), number(2e30), number(4e-12)
    ('12,345.7', '12345.7', '2e+30', '4e-12')
    """
    text = _number(value, ROUND_HALF_EVEN, digits)
    return text if grouped else text.replace(",", "")


def number_low(value: float) -> str:
    """Format the lower end of an interval of numbers.

    >>> number_low(0.7999)
    '0.799'
    """
    return _number(value, ROUND_FLOOR)


def number_high(value: float) -> str:
    """Format the upper end of an interval of numbers.

    >>> number_high(0.7991)
    '0.8'
    """
    return _number(value, ROUND_CEILING)


def number_interval(lower: float, upper: float) -> str:
    """Format an interval of numbers.

    >>> number_interval(0.7019, 1.0)
    '0.701 to 1'
    """
    return f"{number_low(lower)} to {number_high(upper)}"


def size(value: float) -> str:
    """Format a number without its sign, for sentences with "more" or "less".

    >>> size(-412.3), size(412.3)
    ('412', '412')
    """
    return number(value).removeprefix("-")


def size_low(value: float) -> str:
    """Format the lower end of an interval of numbers without its sign.

    >>> size_low(-444.2), size_low(379.6)
    ('445', '379')
    """
    return number_low(value).removeprefix("-")


def size_high(value: float) -> str:
    """Format the upper end of an interval of numbers without its sign.

    >>> size_high(-379.6), size_high(444.2)
    ('379', '445')
    """
    return number_high(value).removeprefix("-")


def points(difference: float) -> str:
    """Format a difference of shares in percentage points, with its sign.

    >>> points(-0.0031), points(0.12345), points(0)
    ('-0.31', '+12.3', '0')
    """
    return _signed(difference, ROUND_HALF_EVEN)


def points_interval(lower: float, upper: float) -> str:
    """Format an interval of such a difference.

    >>> points_interval(-0.0031111, 0.002)
    '-0.312 to +0.2 points'
    """
    return f"{_signed(lower, ROUND_FLOOR)} to {_signed(upper, ROUND_CEILING)} points"


def count(value: float) -> str:
    """Format a count: exactly if it is short, otherwise with two digits and a power of ten.

    Weighted counts may be fractions. The size of a space may have thousands of digits, more than a float can hold.

    >>> count(31025), count(2.5), count(1_500_000_000), count(13 * 10**5_000)
    ('31,025', '2.5', '1.5e+09', '1.3e+5001')
    """
    if abs(value) < EXACT:
        return f"{value:,}"
    digits, power = f"{Decimal(value):.1e}".split("e+")
    return f"{digits}e+{power:0>2}"


def seconds(value: float) -> str:
    """Format a time in seconds.

    >>> seconds(1234.56)
    '1,234.6'
    """
    return f"{value:,.1f}"


def plain(value: Any) -> str:
    r"""Write a value for a reader: short numbers, "missing" for no value, and no characters that control a terminal.

    >>> plain(0.30000000000000004), plain(float("nan")), plain("a" + chr(27) + "b")
    ('0.3', 'missing', 'a\\x1bb')
    """
    if missing(value):
        return "missing"
    text = number(value, 6, grouped=False) if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def outcome(value: Any) -> str:
    """Write what a model predicts: decisions unchanged, numbers shortened.

    >>> outcome("granted"), outcome(1), outcome(12345.678)
    ('granted', '1', '12,345.7')
    """
    return number(value, 6) if isinstance(value, float) and not missing(value) else plain(value)


def capital(text: str) -> str:
    """Begin a text with a capital letter.

    >>> capital("no decision changed")
    'No decision changed'
    """
    return text[:1].upper() + text[1:]


def phrase(name: str, value: Any) -> str:
    """Write an attribute and its value.

    >>> phrase("age", 34), phrase("work", None)
    ('age 34', 'work missing')
    """
    return f"{plain(name)} {plain(value)}"


def missing(value: Any) -> bool:
    """Return whether a value is missing: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _percent(share: float, rounding: str) -> str:
    return f"{_plain(_hundredths(share, rounding))}%"


def _whole(share: float, of: int, rounding: str) -> str:
    return f"{int(_hundredths(share, rounding) * of / 100):,}"


def _hundredths(share: float, rounding: str) -> Decimal:
    value = _exact(100 * share)
    rounded = _rounded(value, rounding)
    for finer in range(1, 12):
        if abs(rounded) < 100 or abs(value) >= 100:
            break
        rounded = _rounded(value, rounding, finer=finer)
    return rounded


def _number(value: float, rounding: str, digits: int = DIGITS) -> str:
    if not value or not math.isfinite(value):
        return f"{value + 0.0:g}"
    exact = Decimal(repr(float(value))) if rounding == ROUND_HALF_EVEN else _exact(value)
    if LEAST <= abs(value) < MOST:
        return _plain(_rounded(exact, rounding, digits))
    few = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)
    return f"{float(few):.{digits}g}"


def _signed(difference: float, rounding: str) -> str:
    text = _number(100 * difference, rounding)
    return f"+{text}" if difference > 0 else text


def _exact(value: float) -> Decimal:
    """Keep twelve digits (more for longer numbers), so that errors of binary fractions do not affect rounding."""
    return Decimal(f"{value:.{12 if abs(value) < 1e12 else 15}g}")


def _rounded(value: Decimal, rounding: str, digits: int = DIGITS, finer: int = 0) -> Decimal:
    if not value:
        return Decimal(0)
    places = max(0, digits - 1 - value.adjusted()) + finer
    return value.quantize(Decimal(1).scaleb(-places), rounding)


def _plain(value: Decimal) -> str:
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_JOINERS = "\u200c\u200d"
"""Invisible characters that only change the shape of adjacent letters and emoji."""


def visible(text: str, keep: str = "") -> str:
    r"""Escape invisible characters, and characters that change how others are shown; letters of all scripts stay.

    ``keep`` lists other characters that stay, such as line ends.

    >>> visible("a\tb" + chr(0x202E) + chr(0x1F469) + chr(0x200D) + chr(0x1F4BB))
    'a\\tb\\u202e👩\u200d💻'
    """
    return text if text.isprintable() else "".join(c if _seen(c, keep) else repr(c)[1:-1] for c in text)


def visible_json(text: str) -> str:
    r"""Escape invisible characters of a JSON document as JSON does, so that it reads back the same.

    >>> visible_json('{"a": "' + chr(0x202E) + '"}')
    '{"a": "\\u202e"}'
    """
    return text if text.isprintable() else "".join(c if _seen(c, "\n") else _units(c) for c in text)


def visible_toml(text: str) -> str:
    r"""Format a text as a TOML string, with TOML's escapes for invisible characters.

    >>> visible_toml('a "b"' + chr(0x202E))
    '"a \\"b\\"\\u202e"'
    """
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if _seen(c, "") else _SHORT.get(c) or _escape(c) for c in plain) + '"'


_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _seen(character: str, keep: str) -> bool:
    return character.isprintable() or character in keep or character in _JOINERS


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def _units(character: str) -> str:
    """Escape in units of 16 bits, as JSON does; a lone surrogate stays one."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def to_plain(value: Any) -> Any:
    """Convert values to those that JSON supports; a missing value becomes None.

    >>> to_plain({"age": float("nan"), "sex": "F"})
    {'age': None, 'sex': 'F'}
    """
    if isinstance(value, dict):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if getattr(value, "ndim", None) == 0:  # a scalar of NumPy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else _object_text(value)


def _object_text(value: Any) -> str:
    """Write an object so that the text is the same in every process: without its address, with its settings."""
    text = str(value)
    if text != object.__repr__(value):
        return re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    settings = getattr(value, "get_params", None)
    if not callable(settings):
        return type(value).__name__
    shown = (f"{name}={to_plain(part)!r}" for name, part in settings(deep=False).items())
    return f"{type(value).__name__}({', '.join(shown)})"
