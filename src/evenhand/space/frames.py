"""Frames in: columns of any frame as NumPy arrays, and files as frames."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError, LimitExceeded, MissingExtra
from evenhand.space.files import READERS, check_file, split_name
from evenhand.space.names import check_names

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = {
    "integer": np.int64,
    "floating": np.float64,
    "mixed-integer-float": np.float64,
    "decimal": np.float64,
}


def columns_of(frame: Any) -> dict[str, npt.NDArray[Any]]:
    """Take a frame apart into NumPy arrays by column name.

    Parameters
    ----------
    frame
        A frame of pandas, polars or pyarrow (whatever narwhals knows), or a mapping of names to lists.

    Returns
    -------
    dict
        Numbers in their own dtype, as float64 with NaN where values are missing; texts, categories, dates
        and mixed columns as objects with None for missing ones.

    Examples
    --------
    >>> columns_of({"age": [20, None], "work": ["nurse", None]})
    {'age': array([20., nan]), 'work': array(['nurse', None], dtype=object)}
    """
    import pandas as pd

    if isinstance(frame, Mapping):
        frame = _from_mapping(frame)
    if isinstance(frame, pd.DataFrame):
        check_names(frame.columns)
        return {name: _pandas_column(frame[name]) for name in frame.columns}
    return _other_columns(frame)


def as_pandas(frame: Any) -> pd.DataFrame:
    """Return a pandas frame as it is, and any other frame as one of pandas.

    >>> as_pandas({"age": [20, 30]}).shape
    (2, 1)
    """
    import pandas as pd

    if isinstance(frame, Mapping):
        frame = _from_mapping(frame)
    if isinstance(frame, pd.DataFrame):
        check_names(frame.columns)
        return frame
    return pd.DataFrame(columns_of(frame))


def read_frame(path: str | Path) -> pd.DataFrame:
    r"""Read a file of data rows.

    Parameters
    ----------
    path
        A .csv or .tsv file in UTF-8 with a header line (also packed, .csv.gz or .csv.xz), a .parquet file
        (needs pyarrow), a .json file (a list of rows, or columns by name) or a .jsonl file (one row a line).
        In .csv and .tsv, texts that pandas takes for missing values ("", "NA", "null", ...) are missing.

    Raises
    ------
    DataError
        If there is no such file or it cannot be read as a frame with rows.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,work\n20,nurse\n")
    >>> read_frame(path)["age"].tolist()
    [20]
    """
    import pandas as pd

    path = Path(path)
    ending, packed = split_name(path)
    check_file(path)
    try:
        with warnings.catch_warnings():
            # pandas only warns when it cuts columns off.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = READERS[ending](path, packed)
    except (DataError, LimitExceeded, MissingExtra):
        raise
    except UnicodeDecodeError:
        raise DataError(f"{path}: it is no UTF-8 text; save it as UTF-8") from None
    # Parsers raise whatever they like on damaged files, and each such file is the user's to mend.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path}: it cannot be read as {ending[1:]} ({reason}); check or save it again") from error
    check_names(frame.columns, f"{path}: ")
    if frame.empty:
        raise DataError(f"{path}: it has no rows; got {len(frame.columns)} columns and {len(frame)} rows")
    return frame


def _from_mapping(columns: Mapping[Any, Any]) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.DataFrame(dict(columns))
    except ValueError as error:
        raise DataError(f"a mapping must hold lists of one length by column name ({error})") from None


def _pandas_column(series: pd.Series[Any]) -> npt.NDArray[Any]:
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # astype(object) leaves NaN where a category is missing.
        return _objects(series.astype(object))
    if pd.api.types.is_bool_dtype(dtype) and not series.hasnans:
        return series.to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        return _numbers(series)
    return _objects(series.astype(object))


def _numbers(series: pd.Series[Any]) -> npt.NDArray[Any]:
    import pandas as pd

    if series.hasnans and series.dtype.kind != "c":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return np.asarray(series.array)
    return series.to_numpy(dtype=getattr(dtype, "numpy_dtype", None))


def _objects(series: pd.Series[Any]) -> npt.NDArray[Any]:
    """Give objects, None for missing; columns of nothing but numbers or truth values become those."""
    import pandas as pd

    values = np.array(series, dtype=object)
    absent = np.asarray(pd.isna(values), dtype=bool)
    content = pd.api.types.infer_dtype(values, skipna=True)
    if content in _NUMBERS:
        return _as_numbers(values, absent, _NUMBERS[content])
    if content == "boolean" and not absent.any():
        return values.astype(bool)
    values[absent] = None
    return values


def _as_numbers(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_], dtype: type) -> npt.NDArray[Any]:
    if absent.any():
        values = values.copy()
        values[absent] = np.nan
        dtype = np.float64
    try:
        return values.astype(dtype)
    except OverflowError:
        return values.astype(np.float64)


def _other_columns(frame: Any) -> dict[str, npt.NDArray[Any]]:
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except TypeError:
        got = f"{type(frame).__module__}.{type(frame).__name__}"
        raise DataError(
            f"data must be a frame (pandas, polars, pyarrow) or a mapping of names to lists, got {got};\n"
            "collect a lazy frame; give an array's columns names"
        ) from None
    except Exception as error:
        raise DataError(f"the frame cannot be read: {error}") from None
    check_names(wrapped.columns)
    return {name: _narwhals_column(wrapped[name]) for name in wrapped.columns}


def _narwhals_column(series: Any) -> npt.NDArray[Any]:
    import narwhals as nw
    import pandas as pd

    absent = bool(series.is_null().any())
    if isinstance(series.dtype, nw.Decimal):
        series = series.cast(nw.Float64)
    if series.dtype.is_numeric():
        # Not every library has NaN for missing numbers in its own to_numpy.
        series = series.cast(nw.Float64) if absent else series
        return np.array(series.fill_null(float("nan")) if absent else series.to_numpy())
    if series.dtype == nw.Boolean and not absent:
        return np.array(series.to_numpy())
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return _objects(pd.Series(values, dtype=object))
