"""The kinds of attribute: a finite, indexed domain of the user's own values.

Every attribute maps its values to codes ``0 .. size - 1``. All searching happens on codes; users see values. A valid
missing value, where there is one, is the last code.
"""

from __future__ import annotations

import difflib
import itertools
import math
import reprlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError, SpaceError, Words

_LONG, _MANY = 100, 5_000
"""Characters of a name, and names, that are compared to find what someone may have meant."""


def check_names(names: Iterable[Any], where: str = "") -> None:
    """Raise unless the columns have names that are texts and differ.

    >>> check_names(["age", "work"])
    """
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            got = f"{where}column names must be texts, got {name!r} ({type(name).__name__})"
            raise DataError(f"{got}; rename the columns: frame.columns = [...]")
        if name in seen:
            raise DataError(f"{where}two columns are called {name!r}; names must differ: rename or drop one")
        seen.add(name)


def repeated(values: Iterable[Any]) -> list[str]:
    """Return what comes more than once, in order.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(str(value) for value, times in Counter(values).items() if times > 1)


def close(name: str, names: Iterable[str]) -> list[str]:
    """Find the names that someone who wrote ``name`` may have meant, best first; case does not matter.

    >>> close("Agee", ["age", "work"])
    ['age']
    """
    # Comparing takes time with the square of the length, for each name.
    by_lower = {known.lower(): known for known in itertools.islice(names, _MANY) if len(known) <= _LONG}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower()[:_LONG], by_lower, n=3)]


def suggest(name: str, names: Iterable[str]) -> str:
    """Say which names someone may have meant, or which there are.

    >>> suggest("agee", ["age", "work"])
    "did you mean 'age'?"
    >>> suggest("x", ["age", "work"])
    "there are 'age', 'work'"
    """
    names = list(names)
    near = close(str(name), names)
    if near:
        return f"did you mean {', '.join(f'{name!r:.{_LONG}}' for name in near)}?"
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(f'{name!r:.{_LONG}}' for name in names[:8])}{rest}"


Codes = npt.NDArray[np.int32]
Missing: TypeAlias = bool | Literal["drop"]
"""True: "no value" is a valid value. "drop": rows without a value are left out. False: nobody has said; of a protected
attribute such rows raise."""
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
        """How many values there are, the missing one not counted."""

    @property
    def has_missing(self) -> bool:
        """Whether "no value" is a valid value."""
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
    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Turn values into codes: the codes (-1: no such value), and which were clipped into the bounds."""

    def code(self, value: object) -> int:
        """Return the code of one value, or raise if it is none of this attribute's.

        >>> Integer("age", 18, 90).code(20)
        2
        """
        column = np.empty(1, dtype=object)
        column[0] = value
        codes, clipped = self.encode(column)
        if codes[0] < 0 or clipped[0]:
            raise SpaceError(f"{value!r} is not a value of {self.name!r}; allowed: {self.allowed()}")
        return int(codes[0])

    @abstractmethod
    def allowed(self) -> str:
        """Say in a few words which values are valid."""

    def changed(self, **fields: Any) -> Self:
        """Return this attribute with some fields changed.

        >>> Boolean("member").changed(missing=True).size
        3
        """
        return type(self)(**{key: value for key, value in self.describe().items() if key != "kind"} | fields)

    def describe(self) -> dict[str, Any]:
        """Give the fields that rebuild this attribute, for TOML and identity."""
        return {"name": self.name, "kind": self.kind} | {
            key: value
            for key, value in self.__dict__.items()
            if key in type(self).__dataclass_fields__ and key != "name" and value is not False and value is not None
        }


def missing_mask(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which entries are missing: None, NaN, NaT, pandas' NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values), dtype=bool)
    if values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=bool)
    import pandas as pd

    return np.asarray(pd.isna(values), dtype=bool)


def no_value(counts: Mapping[str, int], rows: int, remedy: Words) -> DataError:
    """Ask what to do about rows without a protected value.

    >>> print(no_value({"sex": 12}, 300, "leave such rows out"))
    'sex' is protected, and 12 of 300 rows have no value of it; leave such rows out
    """
    many = ", and ".join(
        f"{name!r} is protected, and {n:,} of {rows:,} rows have no value of it" for name, n in counts.items()
    )
    return DataError(many, remedy=remedy)


@dataclass(frozen=True)
class _Grid(Attribute):
    """Numbers from ``low`` to ``high`` in equal steps."""

    @abstractmethod
    def _grid(self) -> tuple[float, float]: ...

    def numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Read values as numbers, wherever they lie; NaN where there is none.

        >>> Integer("age", 18, 90).numbers(np.array([95, "x"], dtype=object))
        array([95., nan])
        """
        return self._numbers(values)[0]

    def _numbers(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        absent = missing_mask(values)
        if values.dtype.kind in "iufb":
            return values.astype(np.float64), absent
        numbers = np.full(len(values), np.nan)
        for i in np.flatnonzero(~absent):
            try:
                numbers[i] = float(values[i])
            except (TypeError, ValueError):
                continue
        return numbers, absent

    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Snap numbers to the nearest step; what lies outside the bounds is clipped and marked."""
        low, step = self._grid()
        numbers, absent = self._numbers(values)
        with np.errstate(invalid="ignore"):
            steps = np.rint((numbers - low) / step)
        bad = np.isnan(steps)
        inside = np.clip(np.where(bad, 0, steps), 0, self.present - 1)
        codes = inside.astype(np.int64)
        clipped = ~bad & (steps != inside)
        codes[bad] = -1
        codes[absent] = self.present if self.has_missing else -1
        return codes, clipped

    def _check_size(self) -> None:
        if self.present > LARGEST:
            raise SpaceError(f"{self.name!r} has {self.present:,} values; at most {LARGEST:,}: use a larger step")


@dataclass(frozen=True)
class Integer(_Grid):
    """Whole numbers from ``low`` to ``high``, in steps of ``step``.

    >>> Integer("age", 18, 90).size
    73
    """

    low: int
    high: int
    step: int = 1
    missing: Missing = False

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        for key in ("low", "high", "step"):
            object.__setattr__(self, key, _whole(self.name, key, getattr(self, key)))
        object.__setattr__(self, "missing", _missing(self.name, self.missing))
        if self.high < self.low or self.step < 1:
            raise SpaceError(
                f"{self.name!r}: got {self.low} to {self.high} by {self.step}; need low <= high, step >= 1"
            )
        self._check_size()

    @property
    def present(self) -> int:
        """How many values there are, the missing one not counted."""
        return (self.high - self.low) // self.step + 1

    def _grid(self) -> tuple[float, float]:
        return self.low, self.step

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into whole numbers (floats with NaN where a missing value is valid)."""
        values = codes.astype(np.int64) * self.step + self.low
        if not self.has_missing:
            return values
        return np.where(codes == self.present, np.nan, values)

    def allowed(self) -> str:
        """Say in a few words which values are valid."""
        return f"whole numbers {self.low} to {self.high}" + (f" by {self.step}" if self.step > 1 else "")


@dataclass(frozen=True)
class Real(_Grid):
    """Numbers from ``low`` to ``high`` on a grid of ``step``; by default a hundredth of the range.

    >>> Real("ratio", 0, 1, step=0.25).decode(np.arange(5)).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    low: float
    high: float
    step: float | None = None
    missing: Missing = False

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        low, high = _number(self.name, "low", self.low), _number(self.name, "high", self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if high < low:
            raise SpaceError(f"{self.name!r}: got {low} to {high}; need low <= high")
        step = (high - low) / 100 or 1.0 if self.step is None else _number(self.name, "step", self.step)
        if step <= 0 or not math.isfinite((high - low) / step):
            raise SpaceError(f"{self.name!r}: step must be a positive number that fits the range, got {self.step!r}")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "missing", _missing(self.name, self.missing))
        self._check_size()

    @property
    def present(self) -> int:
        """How many values there are, the missing one not counted."""
        low, step = self._grid()
        return math.floor((self.high - low) / step + 1e-9) + 1

    def _grid(self) -> tuple[float, float]:
        assert self.step is not None
        return self.low, self.step

    @cached_property
    def _decimals(self) -> int | None:
        """Decimals that write low and step exactly, so that 3 steps of 0.1 read 0.3 and not 0.30000000000000004."""
        low, step = self._grid()
        for decimals in range(16):
            if round(low, decimals) == low and round(step, decimals) == step:
                return decimals
        return None

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes into numbers, NaN for the missing one."""
        low, step = self._grid()
        values = low + codes * step
        if self._decimals is not None:
            values = np.round(values, self._decimals)
        return np.where(codes == self.present, np.nan, values) if self.has_missing else values

    def allowed(self) -> str:
        """Say in a few words which values are valid."""
        return f"numbers {self.low:g} to {self.high:g} by {self.step:g}"


@dataclass(frozen=True)
class _Listed(Attribute):
    """Values given one by one."""

    values: tuple[Any, ...] = ()
    missing: Missing = False

    def __init__(self, name: str, values: Iterable[Any], missing: Missing = False, *, dtype: str | None = None) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", dtype)
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SpaceError(f"{name!r}: values must be a list, got {values!r}")
        object.__setattr__(self, "values", tuple(_plain(v) for v in values))
        object.__setattr__(self, "missing", _missing(name, missing))
        if not self.values:
            raise SpaceError(f"{name!r} has no values; give at least one")
        for value in self.values:
            if not isinstance(value, Hashable):
                raise SpaceError(f"{name!r}: {value!r} cannot be a value; use texts, numbers or truth values")
            if value is None or value != value:
                raise SpaceError(f"{name!r}: {value!r} is no value; leave it out and say missing=True")
            if dtype != "object":
                check_whole(f"{name!r}: {value!r}", value, 'say dtype="object"')
        if len(self._index) != len(self.values):
            raise SpaceError(
                f"{name!r} lists {', '.join(repeated(self.values))[:200]} more than once; list each value once"
            )

    @property
    def present(self) -> int:
        """How many values there are, the missing one not counted."""
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
        if self.has_missing:
            table[-1] = np.nan if kinds <= {int, float} else None
            if kinds <= {int, float}:
                return table.astype(np.float64)
        return table

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

    def encode(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Look values up; a value that is not listed becomes -1."""
        import pandas as pd

        absent = missing_mask(values)
        inverse, uniques = pd.factorize(values)
        table = np.array([self._index.get(_plain(v), -1) for v in uniques] + [-1], dtype=np.int64)
        codes = table[inverse]
        codes[absent] = self.present if self.has_missing else -1
        return codes, np.zeros(len(values), dtype=bool)

    def allowed(self) -> str:
        """Say in a few words which values are valid."""
        shown = ", ".join(repr(v) for v in self.values[:8])
        return shown + (f" and {self.present - 8} more" if self.present > 8 else "")

    def describe(self) -> dict[str, Any]:
        """Give the fields that rebuild this attribute."""
        out: dict[str, Any] = {"name": self.name, "kind": self.kind, "values": list(self.values)}
        return out | self._options()

    def _options(self) -> dict[str, Any]:
        return ({"missing": self.missing} if self.missing else {}) | ({"dtype": self.dtype} if self.dtype else {})


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
        """Give the fields that rebuild this attribute."""
        return {"name": self.name, "kind": self.kind} | self._options()


def check_whole(what: str, text: Any, remedy: str) -> None:
    """Raise where a text has half of a character, which pandas' own texts cannot hold.

    >>> check_whole("the name 'age'", "age", "rename it")
    """
    try:
        if isinstance(text, str):
            text.encode()
    except UnicodeEncodeError:
        lost = "has half of a character (a lone surrogate), which pandas' texts cannot hold"
        raise SpaceError(f"{what} {lost}; write the whole one, or {remedy}") from None


def _missing(name: str, value: Any) -> Missing:
    if isinstance(value, str) and value != "drop":
        raise SpaceError(f'{name!r}: missing must be True, False or "drop", got {reprlib.repr(value)}')
    return "drop" if isinstance(value, str) else bool(value)


def _number(name: str, key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise SpaceError(f"{name!r}: {key} must be a finite number, got {reprlib.repr(value)}")
    return number


def _whole(name: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not (number := _number(name, key, value)).is_integer() or abs(number) > EXACT:
        raise SpaceError(f"{name!r}: {key} must be a whole number, got {reprlib.repr(value)}; at most 2**53 either way")
    return int(value)


KINDS: dict[str, type[Attribute]] = {kind.kind: kind for kind in (Integer, Ordinal, Nominal, Boolean, Real)}


def _plain(value: Any) -> Any:
    """NumPy scalars to Python's own, so that values compare, print and save alike."""
    return value.item() if isinstance(value, np.generic) else value
