"""The kinds of attributes: finite, indexed domains of the user's own values.

Every attribute maps its values to codes ``0 .. size - 1``; searches work on codes, users see values. A missing value,
if it is valid, is the last code.
"""

from __future__ import annotations

import difflib
import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError, SpaceError, Words
from evenhand.spaces.frames import native, pd

Mask: TypeAlias = npt.NDArray[np.bool_]
Missing: TypeAlias = bool | Literal["drop"]
"""True: a missing value is valid. "drop": rows without a value are left out. False: rows without a value of a protected
attribute raise an error."""
LARGEST = 2**31 - 1
"""Maximum number of values of an attribute."""
EXACT = 2**53
"""Whole numbers up to this are exact as floats, in which they are encoded."""


@dataclass(frozen=True)
class Attribute(ABC):
    """Base of all kinds: a name, and the translation of codes to values and back."""

    name: str
    dtype: str | None = field(default=None, kw_only=True)
    """The pandas dtype of the column that a model receives; None for the natural dtype of the values."""

    kind: ClassVar[str] = ""
    ordered: ClassVar[bool] = True

    @property
    @abstractmethod
    def present(self) -> int:
        """Number of values, without the missing one."""

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is valid."""
        return getattr(self, "missing", False) is True

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.present + self.has_missing

    @abstractmethod
    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert codes to the user's values."""

    def column(self, codes: npt.NDArray[Any]) -> Any:
        """Convert codes to a column of a frame: the values, in the dtype of the user's frame."""
        values = self.decode(codes)
        return values if self.dtype is None else pd.Series(values, dtype=self.dtype).array

    @abstractmethod
    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Convert values to codes (-1: invalid); return also which were clipped to the bounds."""

    def code(self, value: object) -> int:
        """Return the code of one value."""
        column = np.empty(1, dtype=object)
        column[0] = value
        codes, clipped = self.encode(column)
        if codes[0] < 0 or clipped[0]:
            remedy = f"allowed: {self.allowed()}"
            raise SpaceError(f"{value!r} is not a value of {self.name!r}", value=value, remedy=remedy)
        return int(codes[0])

    @abstractmethod
    def allowed(self) -> str:
        """Describe the valid values."""

    def check_comparable(self, remedy: Words) -> None:
        """Raise if a protected attribute has a single value."""
        if self.size < 2:
            problem = f"{self.name!r} is protected and has a single value ({self.allowed()})"
            raise SpaceError(problem, value=self.name, remedy=remedy)

    def changed(self, **fields: Any) -> Self:
        """Return this attribute with some fields changed."""
        return type(self)(**{key: value for key, value in self.describe().items() if key != "kind"} | fields)

    def describe(self) -> dict[str, Any]:
        """Return the fields that rebuild this attribute."""
        return {"name": self.name, "kind": self.kind} | {
            key: value
            for key, value in self.__dict__.items()
            if key in type(self).__dataclass_fields__ and key != "name" and value is not False and value is not None
        }

    def _set(self, **fields: Any) -> None:
        for key, value in fields.items():
            object.__setattr__(self, key, value)


@dataclass(frozen=True)
class _Grid(Attribute):
    """Numbers from ``low`` to ``high`` in equal steps."""

    low: float
    high: float
    step: float | None = None
    missing: Missing = False

    def _check(self) -> None:
        self._set(missing=_missing(self.name, self.missing))
        if self.high < self.low:
            problem = f"of {self.name!r} must be at most high, which is {self.high:g}"
            raise SpaceError(problem, parameter="low", value=self.low, remedy="swap the bounds")
        if self.present > LARGEST:
            problem = f"{self.name!r} has {self.present:,} values, more than {LARGEST:,}"
            raise SpaceError(problem, value=self.present, remedy="use a larger step")

    def numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Read values as numbers; NaN for anything else."""
        if values.dtype.kind in "iufb":
            return values.astype(np.float64)
        numbers = np.full(len(values), np.nan)
        for i in np.flatnonzero(~missing_mask(values)):
            try:
                numbers[i] = float(values[i])
            except (TypeError, ValueError):
                continue
        return numbers

    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Snap numbers to the nearest step; values outside the bounds are clipped and marked."""
        assert self.step is not None
        with np.errstate(invalid="ignore"):
            steps = np.rint((self.numbers(values) - self.low) / self.step)
        bad = np.isnan(steps)
        inside = np.clip(np.where(bad, 0, steps), 0, self.present - 1)
        codes = np.where(bad, -1, inside).astype(np.int64)
        codes[missing_mask(values)] = self.present if self.has_missing else -1
        return codes, ~bad & (steps != inside)


@dataclass(frozen=True)
class Integer(_Grid):
    """Whole numbers from ``low`` to ``high``, in steps of ``step``.

    >>> Integer("age", 18, 90).size
    73
    """

    low: int
    high: int
    step: int = 1

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        self._set(**{key: _whole(self.name, key, getattr(self, key)) for key in ("low", "high", "step")})
        if self.step < 1:
            remedy = "leave it out for steps of 1"
            raise SpaceError(f"of {self.name!r} must be at least 1", parameter="step", value=self.step, remedy=remedy)
        self._check()

    @property
    def present(self) -> int:
        """Number of values, without the missing one."""
        return (self.high - self.low) // self.step + 1

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert codes to whole numbers (floats with NaN if a missing value is valid)."""
        values = codes.astype(np.int64) * self.step + self.low
        return np.where(codes == self.present, np.nan, values) if self.has_missing else values

    def allowed(self) -> str:
        """Describe the valid values."""
        return f"whole numbers {self.low} to {self.high}" + (f" by {self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class Real(_Grid):
    """Numbers from ``low`` to ``high`` on a grid of ``step``; by default a hundredth of the range.

    >>> Real("ratio", 0, 1, step=0.25).decode(np.arange(5)).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        low, high = (_number(self.name, key, getattr(self, key)) for key in ("low", "high"))
        step = (high - low) / 100 or 1.0 if self.step is None else _number(self.name, "step", self.step)
        if high >= low and (step <= 0 or not math.isfinite((high - low) / step)):
            problem = f"of {self.name!r} must be a positive number that fits the range"
            raise SpaceError(problem, parameter="step", value=self.step, remedy="leave it out for 100 steps")
        self._set(low=low, high=high, step=step)
        self._check()

    @property
    def present(self) -> int:
        """Number of values, without the missing one."""
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @cached_property
    def _decimals(self) -> int | None:
        """Decimals that represent low and step exactly, so that 3 steps of 0.1 are 0.3, not 0.30000000000000004."""
        exact = (d for d in range(16) if all(round(x or 0, d) == x for x in (self.low, self.step)))
        return next(exact, None)

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert codes to numbers, with NaN for the missing value."""
        values = self.low + codes * self.step
        if self._decimals is not None:
            values = np.round(values, self._decimals)
        return np.where(codes == self.present, np.nan, values) if self.has_missing else values

    def allowed(self) -> str:
        """Describe the valid values."""
        return f"numbers {self.low:g} to {self.high:g} by {self.step:g}"


@dataclass(frozen=True)
class _Listed(Attribute):
    """Listed values."""

    values: tuple[Any, ...] = ()
    missing: Missing = False

    def __init__(self, name: str, values: Iterable[Any], missing: Missing = False, *, dtype: str | None = None) -> None:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise _wrong_values(name, "must be a list", values, "write them in a list")
        self._set(name=name, dtype=dtype, values=tuple(map(native, values)), missing=_missing(name, missing))
        if not self.values:
            raise _wrong_values(name, "must have at least one value", [], "list the values of the column")
        for value in self.values:
            if not isinstance(value, Hashable):
                raise _wrong_values(name, "must be texts, numbers or booleans", value, "convert them")
            if value is None or value != value:
                raise _wrong_values(name, "must not be missing", value, "leave it out, and use missing=True")
            if dtype != "object":
                check_unicode(f"the value {value!r} of {name!r}", value, 'use dtype="object"')
        if len(self._index) != len(self.values):
            raise _wrong_values(name, "must differ", repeated(self.values), "list each value once")

    @property
    def present(self) -> int:
        """Number of values, without the missing one."""
        return len(self.values)

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _table(self) -> npt.NDArray[Any]:
        kinds = {type(v) for v in self.values}
        if not self.has_missing and kinds in ({int}, {bool}, {float}):
            return np.array(self.values)
        table = np.empty(self.size, dtype=object)
        table[: self.present] = self.values
        numeric = kinds <= {int, float}
        if self.has_missing:
            table[-1] = np.nan if numeric else None
        return table.astype(np.float64) if self.has_missing and numeric else table

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into values."""
        out: npt.NDArray[Any] = self._table[codes]
        return out

    @cached_property
    def _pandas_table(self) -> Any:
        if self.dtype == "category":
            codes = [*range(self.present)] + [-1] * self.has_missing
            return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(self.values), self.ordered))
        if self.dtype == "object":
            # pandas would convert a plain array of objects to an array of texts.
            return pd.Index(self._table, dtype=object)
        return pd.Series(self._table, dtype=self.dtype).array

    def column(self, codes: npt.NDArray[Any]) -> Any:
        """Convert codes to a column of a frame, by one lookup in a table of the values."""
        return self._pandas_table.take(codes)

    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Look up values; a value that is not listed becomes -1."""
        inverse, uniques = pd.factorize(values)
        table = np.array([self._index.get(native(v), -1) for v in uniques] + [-1], dtype=np.int64)
        codes = table[inverse]
        codes[missing_mask(values)] = self.present if self.has_missing else -1
        return codes, np.zeros(len(values), dtype=bool)

    def allowed(self) -> str:
        """Describe the valid values."""
        shown = ", ".join(repr(v) for v in self.values[:8])
        return shown + (f" and {self.present - 8} more" if self.present > 8 else "")

    def describe(self) -> dict[str, Any]:
        """Return the fields that rebuild this attribute."""
        options = {key: getattr(self, key) for key in ("missing", "dtype") if getattr(self, key)}
        return {"name": self.name, "kind": self.kind, "values": list(self.values)} | options


@dataclass(frozen=True, init=False)
class Ordinal(_Listed):
    """Values with an order, lowest first; a move goes to the next or the previous one.

    >>> Ordinal("grade", ["low", "middle", "high"]).code("high")
    2
    """

    kind: ClassVar[str] = "ordinal"


@dataclass(frozen=True, init=False)
class Nominal(_Listed):
    """Values without an order; a move goes to any other one.

    >>> Nominal("work", ["clerk", "nurse"]).decode(np.array([1, 0])).tolist()
    ['nurse', 'clerk']
    """

    kind: ClassVar[str] = "nominal"
    ordered: ClassVar[bool] = False


@dataclass(frozen=True, init=False)
class Boolean(_Listed):
    """False or true.

    >>> Boolean("member").size
    2
    """

    kind: ClassVar[str] = "boolean"

    def __init__(self, name: str, missing: Missing = False, *, dtype: str | None = None) -> None:
        super().__init__(name, (False, True), missing, dtype=dtype)

    def describe(self) -> dict[str, Any]:
        """Return the fields that rebuild this attribute."""
        return {key: value for key, value in super().describe().items() if key != "values"}


KINDS: dict[str, type[Attribute]] = {kind.kind: kind for kind in (Integer, Ordinal, Nominal, Boolean, Real)}


def missing_mask(values: npt.NDArray[Any]) -> Mask:
    """Return which entries are missing: None, NaN, NaT, pandas' NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), dtype=bool)
    if values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=bool)
    return np.asarray(pd.isna(values), dtype=bool)


def no_value(counts: Mapping[str, int], rows: int, remedy: Words) -> DataError:
    """Return the error for rows without a protected value."""
    each = (f"{name!r} is protected, and {n:,} of {rows:,} rows have no value of it" for name, n in counts.items())
    return DataError(", and ".join(each), value=list(counts), remedy=remedy)


def check_unicode(what: str, text: Any, remedy: str) -> None:
    """Raise if a text has a lone surrogate, which texts in pandas cannot contain."""
    try:
        if isinstance(text, str):
            text.encode()
    except UnicodeEncodeError:
        lost = "has a lone surrogate (half of a character), which pandas cannot store in a text"
        raise SpaceError(f"{what} {lost}", value=text, remedy=f"write the complete character, or {remedy}") from None


def repeated(values: Iterable[Any]) -> list[str]:
    """Return the values that occur more than once, sorted, as texts."""
    return sorted(str(value) for value, times in Counter(values).items() if times > 1)


_LONG, _MANY = 100, 5_000
"""Maximum characters of a name, and names, to compare for suggestions."""


def close(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to ``name``, ignoring case, best first."""
    # The time to compare grows with the square of the length, for each name.
    by_lower = {known.lower(): known for known in itertools.islice(names, _MANY) if len(known) <= _LONG}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower()[:_LONG], by_lower, n=3)]


def suggest(name: str, names: Iterable[str]) -> str:
    """Write a remedy that suggests similar names, or lists the first names."""
    names = list(names)
    if near := close(str(name), names):
        return f"did you mean {', '.join(f'{name!r:.{_LONG}}' for name in near)}?"
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(f'{name!r:.{_LONG}}' for name in names[:8])}{rest}"


def _wrong_values(name: str, must: str, value: Any, remedy: str) -> SpaceError:
    return SpaceError(f"of {name!r} {must}", parameter="values", value=value, remedy=remedy)


def _missing(name: str, value: Any) -> Missing:
    if isinstance(value, str) and value != "drop":
        remedy = "leave it out where no value is missing"
        raise SpaceError(f'of {name!r} must be True, False or "drop"', parameter="missing", value=value, remedy=remedy)
    return "drop" if isinstance(value, str) else bool(value)


def _number(name: str, key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str) or not math.isfinite(number):
        remedy = "write it as a number"
        raise SpaceError(f"of {name!r} must be a finite number", parameter=key, value=value, remedy=remedy)
    return number


def _whole(name: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not (number := _number(name, key, value)).is_integer() or abs(number) > EXACT:
        problem = f"of {name!r} must be a whole number from -2**53 to 2**53"
        raise SpaceError(problem, parameter=key, value=value, remedy="round it, or use Real")
    return int(value)
