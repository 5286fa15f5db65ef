"""Infers attributes from a frame: the kind, bounds and values of each column, with reasons."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice
from evenhand.errors import MISSING_DROP, MISSING_GROUP, OVERRIDES, DataError, SpaceError, Words, exclude, override
from evenhand.spaces.attributes import (
    EXACT,
    LARGEST,
    Attribute,
    Boolean,
    Integer,
    Mask,
    Missing,
    Nominal,
    Ordinal,
    Real,
    missing_mask,
    no_value,
    suggest,
)
from evenhand.spaces.frames import as_pandas, columns_of, pd

SHOWN = 4
"""Columns that an error describes."""
MAX_NOMINAL = 1_000
MAX_STEPS = 10_000
SURE, NEARLY = 100, 0.95
"""A text column with a different value in nearly each of this many rows is an identifier, too."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
"""A date, or a date and a time, as ISO 8601 writes them: texts in the order of time."""
_DATES = ("datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period")

Make: TypeAlias = Callable[..., Attribute]
"""Makes the attribute; takes ``dtype``."""


@dataclass(frozen=True)
class Note:
    """The kind of a column, and the reason for it."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class _Column:
    name: str
    series: pd.Series[Any]
    present: npt.NDArray[Any]
    missing: Missing
    max_nominal: int

    def error(self, got: str, remedy: Words = "") -> DataError:
        remedy = remedy or ("leave it out: ", exclude(self.name))
        return DataError(f"column {self.name!r} {got}", value=self.name, remedy=remedy)


def infer(
    frame: Any,
    protected: str | Sequence[str],
    target: str | None = None,
    *,
    overrides: Mapping[str, Attribute] | None = None,
    exclude: str | Sequence[str] = (),
    missing: Literal["group", "drop"] | None = None,
    max_nominal: int = MAX_NOMINAL,
) -> tuple[list[Attribute], list[Note]]:
    """Infer the attributes of a frame's columns, with a note on each; ``Space.infer`` has the parameters.

    A text column with more than ``max_nominal`` values, most of them unique, or with a different value in nearly every
    row, is treated as an identifier and rejected. Dates in texts are ordered.

    >>> attributes, notes = infer({"age": [20, 34], "ratio": [0.5, 0.25], "sex": ["F", "M"]}, "sex")
    >>> for attribute, note in zip(attributes, notes):
    ...     print(note.name, note.kind, "|", attribute.allowed(), "|", note.reason)
    age integer | whole numbers 20 to 34 | integer column
    ratio real | numbers 0.25 to 0.5 by 0.01 | float column, in steps of 0.01
    sex nominal | 'F', 'M' | 2 different texts
    """
    table = as_pandas(frame)
    if table.empty:
        problem = f"a space cannot be inferred from {len(table):,} rows and {len(table.columns)} columns"
        raise DataError(problem, value=table.shape, remedy="give at least one row and one column")
    guarded = [protected] if isinstance(protected, str) else list(protected)
    left_out = ([exclude] if isinstance(exclude, str) else list(exclude)) + ([] if target is None else [target])
    given = dict(overrides or {})
    _check_names(table, guarded, left_out, given)
    check_choice("missing", missing, (None, "group", "drop"), SpaceError)
    table, lost = _with_values(table, [name for name in guarded if name not in given], missing)
    kept = [name for name in table.columns if name not in left_out]
    columns = columns_of(table[[name for name in kept if name not in given]])
    attributes, notes = [], []
    made: dict[str, tuple[Attribute, str]] = {}
    problems: dict[str, DataError] = {}
    for name, values in columns.items():
        try:
            made[name] = _attribute(table[name], values, max_nominal, lost.get(name, 0))
        except DataError as error:
            problems[name] = error
    _raise(problems)
    for name in kept:
        if name in given:
            attribute, reason = given[name], "given"
        else:
            attribute, reason = made[name]
            if name in guarded and missing == "drop":
                # This also applies to later data.
                attribute = attribute.changed(missing="drop")
        attributes.append(attribute)
        notes.append(Note(name, attribute.kind, reason))
        if name in guarded:
            attribute.check_comparable(("give data with both groups, or name the values: ", OVERRIDES))
    return attributes, notes


def _raise(problems: Mapping[str, DataError]) -> None:
    """Raise the problem of a column or, of several, one error that leaves all these columns out."""
    if len(problems) == 1:
        raise next(iter(problems.values()))
    if problems:
        some = [error.reason for error in list(problems.values())[:SHOWN]]
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise DataError(
            f"{len(problems)} columns cannot be attributes: {'; '.join(some)}{more}",
            value=list(problems),
            remedy=("leave them out together: ", exclude(*problems)),
        )


def _with_values(
    table: pd.DataFrame, guarded: list[str], missing: Literal["group", "drop"] | None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Drop rows without a protected value if requested; return how many lack a value, by column."""
    absent = {name: rows for name in guarded if (rows := _without_value(table[name])).any()}
    counts = {name: int(rows.sum()) for name, rows in absent.items()}
    if counts and missing is None:
        group = (", or make a missing value a group of its own: ", MISSING_GROUP)
        raise no_value(counts, len(table), ("leave such rows out: ", MISSING_DROP, *group))
    if not counts or missing != "drop":
        return table, {}
    table = table[~np.any(list(absent.values()), axis=0)]
    if table.empty:
        problem = f"every row lacks a protected value ({', '.join(map(repr, absent))})"
        raise DataError(problem, value=list(absent), remedy="give rows that have them")
    # Categories may include the empty text.
    return table.assign(**{
        name: table[name].cat.remove_categories([v for v in table[name].cat.categories if _blank(v)])
        for name in absent if hasattr(table[name], "cat")
    }), counts  # fmt: skip


def _without_value(column: pd.Series[Any]) -> Mask:
    """Return which rows have no value, or a blank text."""
    absent = np.asarray(column.isna(), dtype=bool)
    values = column[~absent].unique()
    blank = [value for value in values if _blank(value)]
    return absent | np.asarray(column.isin(blank), dtype=bool) if blank else absent


def _blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _check_names(table: pd.DataFrame, protected: list[str], left_out: list[str], given: dict[str, Attribute]) -> None:
    names = list(table.columns)
    for name in [*protected, *left_out, *given]:
        if name not in names:
            raise SpaceError(f"the data has no column {name!r}", value=name, remedy=suggest(name, names))
    for name in protected:
        if name in left_out:
            problem = f"{name!r} is protected and also left out (target or exclude)"
            raise SpaceError(problem, value=name, remedy="name it in one of them")
    for name, attribute in given.items():
        if not isinstance(attribute, Attribute) or attribute.name != name:
            raise SpaceError(
                f"must map {name!r} to an attribute of that name",
                parameter="overrides",
                value=attribute,
                remedy=f"use for example: overrides={{{name!r}: Integer({name!r}, 0, 9)}}",
            )
    if set(names) <= set(left_out):
        raise DataError("no column is left", value=left_out, remedy="name fewer columns in target and exclude")


def _attribute(
    series: pd.Series[Any], values: npt.NDArray[Any], max_nominal: int, lost: int = 0
) -> tuple[Attribute, str]:
    """Make the attribute of a column, of which ``lost`` rows were left out because they have no value."""
    absent = missing_mask(values)
    column = _Column(str(series.name), series, values[~absent], "drop" if lost else bool(absent.any()), max_nominal)
    if not len(column.present):
        raise column.error("has no values, only missing ones")
    make, reason = _kind(column)
    attribute = _with_dtype(make, series)
    if attribute.size == 1:
        reason += ", constant"
    if absent.any():
        reason += f", {int(absent.sum()):,} missing"
    if lost:
        reason += f", {lost:,} row{'s' * (lost != 1)} without a value left out"
    return attribute, reason


def _kind(column: _Column) -> tuple[Make, str]:
    if isinstance(column.series.dtype, pd.CategoricalDtype):
        return _category(column, column.series.dtype)
    kind = column.present.dtype.kind
    if kind == "b":
        return partial(Boolean, column.name, column.missing), "boolean column"
    if kind in "iu":
        return _integers(column)
    if kind == "f":
        return _floats(column)
    if kind != "O":
        raise column.error(f"holds {column.present.dtype} values, which cannot be searched")
    return _objects(column, pd.api.types.infer_dtype(column.present))


def _category(column: _Column, dtype: pd.CategoricalDtype) -> tuple[Make, str]:
    values = dtype.categories.tolist()
    if pd.api.types.infer_dtype(values) in _DATES:
        raise _date_error(column)
    unused = len(values) - len(pd.unique(column.present))
    reason = ("ordered category column" if dtype.ordered else "category column") + (
        f", {unused} of its values not in the data" if unused else ""
    )
    return partial(Ordinal if dtype.ordered else Nominal, column.name, values, column.missing), reason


def _integers(column: _Column) -> tuple[Make, str]:
    low, high = int(column.present.min()), int(column.present.max())
    if not _fits(low, high):
        raise column.error(
            f"holds whole numbers from {low} to {high}, too many for one attribute",
            ("leave it out if it is an identifier, ", exclude(column.name), ", or give it a step: ",
             override(column.name, f"Integer({column.name!r}, low, high, step=...)")),
        )  # fmt: skip
    return partial(Integer, column.name, low, high, missing=column.missing), "integer column"


def _fits(low: float, high: float) -> bool:
    """Whether whole numbers between the bounds can be indexed, and are exact as floats."""
    return high - low < LARGEST and max(abs(low), abs(high)) <= EXACT


def _floats(column: _Column) -> tuple[Make, str]:
    values = column.present
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise column.error(
            f"holds {count:,} infinite values",
            ("replace them by numbers or missing values, or leave it out: ", exclude(column.name)),
        )
    low, high = float(values.min()), float(values.max())
    if (values == np.rint(values)).all() and _fits(low, high):
        make = partial(Integer, column.name, int(low), int(high), missing=column.missing)
        integers = pd.api.types.is_integer_dtype(column.series.dtype)
        return make, "integer column" if integers else "float column of whole numbers"
    decimals = _decimals(values, low, high)
    if decimals is not None:
        step = float(f"1e-{decimals}")
        bounds = round(low, decimals), round(high, decimals)
        reason = f"float column, in steps of {step:g}"
        return partial(Real, column.name, *bounds, step, missing=column.missing), reason
    if not np.isfinite(high - low):
        raise column.error(f"holds numbers from {low:g} to {high:g}, too far apart for a grid")
    return partial(Real, column.name, low, high, missing=column.missing), "float column, 100 steps"


def _decimals(values: npt.NDArray[Any], low: float, high: float) -> int | None:
    """Return the number of decimals that represents all values exactly; None if the grid would be too large."""
    # A single-precision 0.1 differs from 0.1, but is equal after rounding to single precision.
    wide = values.astype(np.float64)
    for decimals in range(1, 16):
        if (high - low) * 10.0**decimals > MAX_STEPS + 0.5:
            return None
        rounded = np.round(wide, decimals)
        near = np.abs(rounded - wide) < 10.0**-decimals / 100
        if ((rounded.astype(values.dtype) == values) & near).all():
            return decimals
    return None


def _objects(column: _Column, content: str) -> tuple[Make, str]:
    if content in _DATES:
        raise _date_error(column)
    if content == "boolean":
        return partial(Boolean, column.name, column.missing), "boolean column"
    try:
        values = list(dict.fromkeys(pd.unique(column.present).tolist()))
    except TypeError:
        kinds = sorted({type(value).__name__ for value in column.present})
        raise column.error(f"holds values that cannot be compared ({', '.join(kinds)})") from None
    dates = content == "string" and all(_DAY.fullmatch(value) for value in values)
    if dates and len(values) <= column.max_nominal:
        values.sort()
        reason = f"{_count(len(values), 'date')}, in order"
        return partial(Ordinal, column.name, values, column.missing), reason
    many = len(column.present)
    identifier = (
        content == "string" and column.max_nominal <= MAX_NOMINAL and len(values) > NEARLY * many >= NEARLY * SURE
    )
    if dates:
        raise _date_error(column)
    if identifier or len(values) > max(column.max_nominal, many / 2):
        raise column.error(
            f"looks like an identifier: {len(values):,} different values in {len(column.present):,} rows",
            ("leave it out, ", exclude(column.name), ", or list its values: ",
             override(column.name, f"Nominal({column.name!r}, [...])")),
        )  # fmt: skip
    if content == "string":
        values.sort()
        numeric = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").notna().all()
        reason = _count(len(values), "text") + (" that read as numbers; kept as texts" if numeric else "")
    else:
        values.sort(key=lambda value: (type(value).__name__, str(value)))
        kinds = sorted({type(value).__name__ for value in values})
        reason = f"{_count(len(values), 'value')} of mixed types ({', '.join(kinds)})"
    return partial(Nominal, column.name, values, column.missing), reason


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} different {noun}s"


def _date_error(column: _Column) -> DataError:
    return column.error(
        "holds dates or times",
        ("turn it into numbers (a year, an age in days), or leave it out: ", exclude(column.name)),
    )


def _with_dtype(make: Make, series: pd.Series[Any]) -> Attribute:
    """Make the attribute, with the frame's dtype if the natural one differs."""
    natural = make()
    if _dtype(natural) == series.dtype:
        return natural
    kept = make(dtype=str(series.dtype))
    try:
        _dtype(kept)
    except (TypeError, ValueError, ImportError):
        # Sparse and other rare dtypes cannot be made from their names; only the values matter.
        return natural
    return kept


def _dtype(attribute: Attribute) -> Any:
    # The missing value is the last code, and it may change the dtype.
    return pd.Series(attribute.column(np.array([0, attribute.size - 1]))).dtype
