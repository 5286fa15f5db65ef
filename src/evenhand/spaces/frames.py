"""Frames in: columns of any frame as NumPy arrays, and files as frames."""

from __future__ import annotations

import codecs
import importlib.util
import io
import itertools
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import (
    PACKINGS,
    check_limit,
    count_values,
    exceeded,
    limit,
    parse_json,
    read_bytes,
    size_of,
    unpacked,
)
from evenhand._sandbox import attempt
from evenhand.errors import DataError, LimitExceeded, MissingExtra
from evenhand.spaces.attributes import check_names

if TYPE_CHECKING:
    import pandas as pd


_SNIFFED = 2**16
PIECE = 2**20
"""Bytes of a file that are looked at a time."""
_FREE_CELLS = 10_000_000
"""Cells that a table may have, however few bytes it is packed into."""
_CELLS_PER_BYTE = 20
_BYTES_PER_VALUE = 4
"""Bytes of JSON that a value takes, also where values are short: what has more values is empty lists and the like."""
_LINE = re.compile(rb"[\r\n]")
_SAMPLE = "give a sample of the rows"


def split_name(path: Path, *plain: str) -> tuple[str, str]:
    """Split a file's name into what it holds (a table, or one of ``plain``) and how it is packed."""
    endings = [ending.lower() for ending in path.suffixes]
    packed = endings.pop() if endings and endings[-1] in PACKINGS else ""
    ending, packable = endings[-1] if endings else "", (".csv", ".tsv", *plain)
    if ending not in (*READERS, *plain) or (packed and ending not in packable):
        formats = f"{', '.join(packable)} (also {', '.join(PACKINGS)}), .parquet, .json, .jsonl"
        raise DataError(f"{path}: a file of this kind cannot be read", remedy=f"allowed: {formats}")
    return ending, packed


def check_file(path: Path, needs: str = "column names and rows") -> None:
    """Raise unless there is a file with something in it, and not too much."""
    size = size_of(path, DataError, "it is a directory or a device, not a file; name a file")
    if size == 0:
        raise DataError(f"{path}: the file is empty", remedy=f"it needs {needs}")
    check_limit("data_bytes", size, path, _SAMPLE)


def open_packed(path: Path, packed: str) -> io.BufferedReader:
    """Open a file of data, unpacked as it is read."""
    return unpacked(path, packed, "data_bytes", DataError)


def hollow(piece: bytes) -> bool:
    """Whether a piece is all zeros: a sparse file, which is small on the disk and large in memory."""
    return len(piece) == PIECE and not any(piece)


def line_ends(text: bytes | str) -> int:
    r"""Count the ends of lines as pandas does: "\n", "\r" or both.

    >>> line_ends("a\nb\rc\r\n")
    3
    """
    if isinstance(text, str):
        return text.count("\n") + text.count("\r") - text.count("\r\n")
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def check_cells(path: Path, rows: int, columns: int, cells: int | None = None) -> None:
    """Raise where a table is too large, for its file or at all."""
    check_limit("table_rows", rows, path, _SAMPLE)
    check_limit("table_columns", columns, path, "leave columns out")
    size = path.stat().st_size
    most = max(size, min(limit("table_cells"), max(_FREE_CELLS, _CELLS_PER_BYTE * size)))
    check_limit("table_cells", rows * columns if cells is None else cells, path, _SAMPLE, most)


def check_table(path: Path, packed: str, separator: str) -> None:
    """Raise where a table of text holds binary data or has too many columns, rows or cells, by its bytes."""
    mark, rows, cells, columns, beginning = separator.encode(), 0, 0, 0, True
    with open_packed(path, packed) as stream:
        while piece := stream.read(PIECE):
            if hollow(piece) or (beginning and b"\0" in piece[:_SNIFFED]):
                raise DataError(
                    f"{path}: it holds binary data, not UTF-8 text", remedy="save the table as CSV in UTF-8"
                )
            if beginning:
                # Column names in quotes may have line ends; then the limit of cells holds.
                header = _LINE.split(piece, 1)[0]
                columns += header.count(mark)
                beginning = len(header) == len(piece)
            rows, cells = rows + line_ends(piece), cells + piece.count(mark)
            # Rows that are shorter than the header become as long.
            check_cells(path, rows, columns, rows + max(cells, rows * columns))


def _read_table(path: Path, packed: str, separator: str) -> pd.DataFrame:
    import pandas as pd

    check_table(path, packed, separator)
    with open_packed(path, packed) as stream:
        if not stream.read(_SNIFFED).strip():
            raise DataError(f"{path}: the file is empty", remedy="it needs column names and rows")
    with open_packed(path, packed) as stream:
        # pandas renames a second column "a" to "a.1"; the raw header shows what the file says.
        header = pd.read_csv(stream, sep=separator, header=None, nrows=1, dtype=str, na_filter=False)
    check_names([name for name in header.iloc[0] if name], f"{path}: ")
    with open_packed(path, packed) as stream:
        # index_col=False: rows that are longer than the header must not become an index in silence.
        return pd.read_csv(stream, sep=separator, index_col=False, low_memory=False)


def prepare() -> None:
    """Import what reads Parquet, before a trial's limits count."""
    import pandas as pd  # noqa: F401
    import pyarrow.parquet  # noqa: F401


def parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file whose metadata is within limits."""
    import pandas as pd
    import pyarrow.parquet

    facts = pyarrow.parquet.read_metadata(path)
    check_cells(path, facts.num_rows, facts.num_columns)
    return pd.read_parquet(path, engine="pyarrow")


def _read_parquet(path: Path, _: str) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet files")
    # A page of a few bytes can stand for gigabytes, and pyarrow has no limit.
    attempt("evenhand.spaces.frames:parquet", path, path.stat().st_size)
    return parquet(path)


def _read_json(path: Path, _: str) -> pd.DataFrame:
    import pandas as pd

    # pandas' own reader turns texts such as "007" and columns such as "date" into something else.
    text = read_bytes(path, "json_bytes", DataError, _SAMPLE)
    content = parse_json(text, path, _most_values(path, 2 * _BYTES_PER_VALUE))
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        # Rows with other names each make a column for every row.
        check_cells(path, len(content), len(set().union(*content)))
        return pd.DataFrame(content)
    if isinstance(content, dict) and content and all(isinstance(column, list | dict) for column in content.values()):
        named = set().union(*(column for column in content.values() if isinstance(column, dict)))
        check_cells(path, max(len(named), *map(len, content.values())), len(content))
        return pd.DataFrame(content).reset_index(drop=True)
    raise DataError(f"{path}: a JSON file must hold a list of rows [{{...}}, ...] or columns {{name: [...], ...}}")


def _read_jsonl(path: Path, _: str) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, object]] = []
    values, longest = 0, limit("json_bytes")
    most = _most_values(path, _BYTES_PER_VALUE)
    with open_packed(path, "") as stream:
        for number in itertools.count(1):
            line = stream.readline(longest + 1)
            if not line:
                break
            if len(line) > longest:
                check_limit("json_bytes", len(line), f"{path}: line {number}")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                check_limit("table_rows", number, path, _SAMPLE)
                continue
            values += _values(line, path, number)
            if values > most:
                raise exceeded("json_values", f"{values:,}", path, _SAMPLE, most)
            try:
                row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError:
                raise
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number} is not JSON ({error})", remedy="write one row a line") from None
            if not isinstance(row, dict):
                got = line.decode("utf-8", "replace").strip()[:60]
                raise DataError(f"{path}: line {number} must be a row {{name: value, ...}}, got {got}")
            rows.append(row)
    check_cells(path, len(rows), len(set().union(*rows)))
    return pd.DataFrame(rows)


def _most_values(path: Path, bytes_per_value: int) -> int:
    return max(limit("json_values"), path.stat().st_size // bytes_per_value)


def _values(line: bytes, path: Path, number: int) -> int:
    """Count the values of a line of JSON within limits; roughly where they are few: a look at each text takes time."""
    brackets = line.count(b"[") + line.count(b"{")
    values = 1 + brackets + line.count(b",")
    if brackets <= limit("nesting") and values <= len(line) // _BYTES_PER_VALUE:
        return values
    return count_values(line, f"{path}: line {number}", _most_values(path, _BYTES_PER_VALUE))


READERS: dict[str, Callable[[Path, str], pd.DataFrame]] = {
    ".csv": lambda path, packed: _read_table(path, packed, ","),
    ".tsv": lambda path, packed: _read_table(path, packed, "\t"),
    ".parquet": _read_parquet,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
}


_NUMBERS = {"integer": np.int64} | dict.fromkeys(("floating", "mixed-integer-float", "decimal"), np.float64)


def columns_of(frame: Any) -> dict[str, npt.NDArray[Any]]:
    """Split a frame (pandas, polars, pyarrow, or a mapping of names to lists) into NumPy arrays by column name.

    Numbers keep their dtype, or are float64 with NaN where values are missing; texts, categories, dates and mixed
    columns are objects with None for missing ones.

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

    A .csv or .tsv file in UTF-8 has a header line (also packed, .csv.gz or .csv.xz), and texts that pandas takes for
    missing values ("", "NA", "null", ...) are missing. A .parquet file needs pyarrow. A .json file is a list of rows,
    or columns by name; a .jsonl file has one row a line.

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
        raise DataError(f"{path}: it is not UTF-8 text", remedy="save it as UTF-8") from None
    # Parsers raise any exception on damaged files.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        problem = f"{path}: it cannot be read as {ending[1:]} ({reason})"
        raise DataError(problem, remedy="check or save it again") from error
    check_names(frame.columns, f"{path}: ")
    if frame.empty:
        raise DataError(f"{path}: it has no rows", remedy="give at least one row below the column names")
    return frame


def _from_mapping(columns: Mapping[Any, Any]) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.DataFrame(dict(columns))
    except ValueError as error:
        raise DataError(f"a mapping must have lists of one length by column name ({error})", value=columns) from None


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
    """Return objects, None for missing; columns of numbers or truth values alone become those."""
    import pandas as pd

    values = np.array(series, dtype=object)
    absent = np.asarray(pd.isna(values), dtype=bool)
    content = pd.api.types.infer_dtype(values, skipna=True)
    if content in _NUMBERS:
        values[absent] = np.nan
        try:
            return values.astype(np.float64 if absent.any() else _NUMBERS[content])
        except OverflowError:
            return values.astype(np.float64)
    if content == "boolean" and not absent.any():
        return values.astype(bool)
    values[absent] = None
    return values


def _other_columns(frame: Any) -> dict[str, npt.NDArray[Any]]:
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise DataError(
            "must be a frame (pandas, polars, pyarrow) or a mapping of names to lists",
            parameter="data",
            value=f"{type(frame).__module__}.{type(frame).__name__}",
            remedy="collect a lazy frame; give an array's columns names",
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
