"""Texts from what users have: a list, a series, or a column of a frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.errors import TEXTS, DataError
from evenhand.space.names import suggest
from evenhand.text.texts import Positions

_MISSING = ("NAType", "NaTType")


def strings_of(data: Any, column: str = "text") -> tuple[list[str], Positions, int]:
    """Return the texts that are there, where each stands in the data, and how many are missing.

    >>> strings, rows, missing = strings_of(["one", None, "two"])
    >>> strings, rows.tolist(), missing
    (['one', 'two'], [0, 2], 1)
    """
    values = _values(data, column)
    rows = [row for row, value in enumerate(values) if isinstance(value, str) or not missing(value)]
    for row in rows:
        if not isinstance(values[row], str):
            got = f"text {row} must be a string, got {values[row]!r:.60} ({type(values[row]).__name__})"
            raise DataError(f"{got}; give texts, such as data=['one', 'two']")
    return [str(values[row]) for row in rows], np.array(rows, dtype=np.int64), len(values) - len(rows)


def _values(data: Any, column: str) -> list[Any]:
    if data is None or isinstance(data, str | bytes):
        got = "none" if data is None else f"one, {data!r:.60}"
        raise DataError(
            f"a space of texts needs texts to start from, got {got}", remedy=("give a list of them: ", TEXTS)
        )
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        from evenhand.space.frames import columns_of

        columns = columns_of(data)
        if column not in columns:
            known = suggest(column, columns)
            raise DataError(f"the data have no column {column!r}; {known}; name it: eh.TextSpace(..., column=...)")
        return list(columns[column].tolist())
    try:
        return list(data)
    except TypeError:
        raise DataError(
            f"data must be a list of texts, a series, or a frame with a column {column!r}, got {type(data).__name__}"
        ) from None


def missing(value: Any) -> bool:
    """Tell what stands for no text.

    >>> missing(None), missing(float("nan")), missing("")
    (True, True, False)
    """
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _MISSING
