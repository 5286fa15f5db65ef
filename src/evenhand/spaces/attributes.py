"""The kinds of attribute: a finite, indexed domain of the user's own values.

Every attribute maps its values to codes ``0 .. size - 1``; searches work on codes, users see values. A missing value,
where it is valid, is the last code.
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

from evenhand._format import native
from evenhand.errors import DataError, SpaceError, Words

Mask: TypeAlias = npt.NDArray[np.bool_]
Missing: TypeAlias = bool | Literal["drop"]
"""True: a missing value is valid. "drop": rows without a value are left out. False: such rows of a protected attribute
raise."""
LARGEST = 2**31 - 1
"""The most values of an attribute."""
EXACT = 2**53
"""Whole numbers up to this are exact as floats, which is how they are encoded."""


@dataclass(frozen=True)
class Attribute(ABC):
    """What every kind has: a name, codes, and how codes become values and back."""

    name: str
    dtype: str | None = field(default=None, kw_only=True)
    """The pandas dtype of the column that a model receives; None for the natural one of the values."""

    kind: ClassVar[str] = ""
    ordered: ClassVar[bool] = True

    @property
    @abstractmethod
    def present(self) -> int:
        """How many values there are, without the missing one."""

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is valid."""
        return getattr(self, "missing", False) is True

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.present + self.has_missing

    @abstractmethod
    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into the user's values."""

    def column(self, codes: npt.NDArray[Any]) -> Any:
        """Turn codes into a frame's column: the values, in the dtype that the user's frame had."""
        import pandas as pd

        values = self.decode(codes)
        return values if self.dtype is None else pd.Series(values, dtype=self.dtype).array

    @abstractmethod
    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Turn values into codes: the codes (-1: no such value), and which were clipped into the bounds."""

    def code(self, value: object) -> int:
        """Return the code of one value.

        >>> Integer("age", 18, 90).code(20)
        2
        """
        column = np.empty(1, dtype=object)
        column[0] = value
        codes, clipped = self.encode(column)
        if codes[0] < 0 or clipped[0]:
            remedy = f"allowed: {self.allowed()}"
            raise SpaceError(f"{value!r} is not a value of {self.name!r}", value=value, remedy=remedy)
        return int(codes[0])

    @abstractmethod
    def allowed(self) -> str:
        """Describe the valid values in a few words."""

    def changed(self, **fields: Any) -> Self:
        """Return this attribute with some fields changed.

        >>> Boolean("member").changed(missing=True).size
        3
        """
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
            raise SpaceError(
                f"of {self.name!r} must be at most high, which is {self.high:g}", parameter="low", value=self.low
            )
        if self.present > LARGEST:
            raise SpaceError(
                f"{self.name!r} has {self.present:,} values, more than {LARGEST:,}", remedy="use a larger step"
            )

    def numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Read values as numbers, inside the bounds or not; NaN for anything else.

        >>> Integer("age", 18, 90).numbers(np.array([95, "x"], dtype=object))
        array([95., nan])
        """
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
            raise SpaceError(f"of {self.name!r} must be at least 1", parameter="step", value=self.step)
        self._check()

    @property
    def present(self) -> int:
        """How many values there are, without the missing one."""
        return (self.high - self.low) // self.step + 1

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into whole numbers (floats with NaN where a missing value is valid)."""
        values = codes.astype(np.int64) * self.step + self.low
        return np.where(codes == self.present, np.nan, values) if self.has_missing else values

    def allowed(self) -> str:
        """Describe the valid values in a few words."""
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
            raise SpaceError(
                f"of {self.name!r} must be a positive number that fits the range", parameter="step", value=self.step
            )
        self._set(low=low, high=high, step=step)
        self._check()

    @property
    def present(self) -> int:
        """How many values there are, without the missing one."""
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @cached_property
    def _decimals(self) -> int | None:
        """Decimals that write low and step exactly, so that 3 steps of 0.1 read 0.3 and not 0.30000000000000004."""
        exact = (d for d in range(16) if all(round(x or 0, d) == x for x in (self.low, self.step)))
        return next(exact, None)

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into numbers, NaN for the missing one."""
        values = self.low + codes * self.step
        if self._decimals is not None:
            values = np.round(values, self._decimals)
        return np.where(codes == self.present, np.nan, values) if self.has_missing else values

    def allowed(self) -> str:
        """Describe the valid values in a few words."""
        return f"numbers {self.low:g} to {self.high:g} by {self.step:g}"


@dataclass(frozen=True)
class _Listed(Attribute):
    """Values given one by one."""

    values: tuple[Any, ...] = ()
    missing: Missing = False

    def __init__(self, name: str, values: Iterable[Any], missing: Missing = False, *, dtype: str | None = None) -> None:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SpaceError(f"of {name!r} must be a list", parameter="values", value=values)
        self._set(name=name, dtype=dtype, values=tuple(map(native, values)), missing=_missing(name, missing))
        if not self.values:
            raise SpaceError(f"of {name!r} must have at least one value", parameter="values", value=[])
        for value in self.values:
            if not isinstance(value, Hashable):
                raise SpaceError(f"of {name!r} must be texts, numbers or truth values", parameter="values", value=value)
            if value is None or value != value:
                remedy = "leave it out, and use missing=True"
                raise SpaceError(f"of {name!r} must not be missing", parameter="values", value=value, remedy=remedy)
            if dtype != "object":
                check_unicode(f"the value {value!r} of {name!r}", value, 'use dtype="object"')
        if len(self._index) != len(self.values):
            twice = ", ".join(repeated(self.values))[:200]
            raise SpaceError(
                f"of {name!r} list {twice} more than once", parameter="values", remedy="list each value once"
            )

    @property
    def present(self) -> int:
        """How many values there are, without the missing one."""
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
        import pandas as pd

        if self.dtype == "category":
            codes = [*range(self.present)] + [-1] * self.has_missing
            return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(self.values), self.ordered))
        if self.dtype == "object":
            # pandas would look into a bare array of objects and make it an array of texts.
            return pd.Index(self._table, dtype=object)
        return pd.Series(self._table, dtype=self.dtype).array

    def column(self, codes: npt.NDArray[Any]) -> Any:
        """Turn codes into a frame's column by one gather from a table of the values."""
        return self._pandas_table.take(codes)

    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Look values up; a value that is not listed becomes -1."""
        import pandas as pd

        inverse, uniques = pd.factorize(values)
        table = np.array([self._index.get(native(v), -1) for v in uniques] + [-1], dtype=np.int64)
        codes = table[inverse]
        codes[missing_mask(values)] = self.present if self.has_missing else -1
        return codes, np.zeros(len(values), dtype=bool)

    def allowed(self) -> str:
        """Describe the valid values in a few words."""
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
    import pandas as pd

    return np.asarray(pd.isna(values), dtype=bool)


def no_value(counts: Mapping[str, int], rows: int, remedy: Words) -> DataError:
    """Make the error for rows without a protected value.

    >>> print(no_value({"sex": 12}, 300, "leave such rows out"))
    'sex' is protected, and 12 of 300 rows have no value of it; leave such rows out
    """
    each = (f"{name!r} is protected, and {n:,} of {rows:,} rows have no value of it" for name, n in counts.items())
    return DataError(", and ".join(each), remedy=remedy)


def check_names(names: Iterable[Any], where: str = "") -> None:
    """Raise unless the columns have names that are texts and differ.

    >>> check_names(["age", "work"])
    """
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            got = f"{where}column names must be texts, got {name!r} ({type(name).__name__})"
            raise DataError(got, remedy="rename the columns: frame.columns = [...]")
        if name in seen:
            raise DataError(f"{where}two columns are called {name!r}", remedy="rename or drop one")
        seen.add(name)


def check_unicode(what: str, text: Any, remedy: str) -> None:
    """Raise where a text has half of a character, which pandas' own texts cannot hold.

    >>> check_unicode("the name 'age'", "age", "rename it")
    """
    try:
        if isinstance(text, str):
            text.encode()
    except UnicodeEncodeError:
        lost = "has half of a character (a lone surrogate), which pandas' texts cannot hold"
        raise SpaceError(f"{what} {lost}", remedy=f"write the whole one, or {remedy}") from None


def repeated(values: Iterable[Any]) -> list[str]:
    """Return what comes more than once, in order.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(str(value) for value, times in Counter(values).items() if times > 1)


_LONG, _MANY = 100, 5_000
"""Characters of a name, and names, that are compared to find what someone may have meant."""


def close(name: str, names: Iterable[str]) -> list[str]:
    """Find the names that are most like ``name``, best first; case does not matter.

    >>> close("Agee", ["age", "work"])
    ['age']
    """
    # Comparing takes time with the square of the length, for each name.
    by_lower = {known.lower(): known for known in itertools.islice(names, _MANY) if len(known) <= _LONG}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower()[:_LONG], by_lower, n=3)]


def suggest(name: str, names: Iterable[str]) -> str:
    """Suggest the nearest names, or list them.

    >>> suggest("agee", ["age", "work"])
    "did you mean 'age'?"
    >>> suggest("x", ["age", "work"])
    "there are 'age', 'work'"
    """
    names = list(names)
    if near := close(str(name), names):
        return f"did you mean {', '.join(f'{name!r:.{_LONG}}' for name in near)}?"
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(f'{name!r:.{_LONG}}' for name in names[:8])}{rest}"


def _missing(name: str, value: Any) -> Missing:
    if isinstance(value, str) and value != "drop":
        raise SpaceError(f'of {name!r} must be True, False or "drop"', parameter="missing", value=value)
    return "drop" if isinstance(value, str) else bool(value)


def _number(name: str, key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise SpaceError(f"of {name!r} must be a finite number", parameter=key, value=value)
    return number


def _whole(name: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not (number := _number(name, key, value)).is_integer() or abs(number) > EXACT:
        raise SpaceError(f"of {name!r} must be a whole number from -2**53 to 2**53", parameter=key, value=value)
    return int(value)
