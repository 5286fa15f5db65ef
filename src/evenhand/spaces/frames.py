"""Data frames: reads columns of any frame as NumPy arrays, and files as frames; pandas, imported when it is used."""

from __future__ import annotations

import codecs
import importlib
import importlib.util
import io
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
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
from evenhand._format import missing
from evenhand._sandbox import attempt
from evenhand.errors import DataError, LimitExceeded, MissingExtra, Words

if TYPE_CHECKING:
    import pandas

    pd = pandas
else:

    class _Pandas:
        """The package, imported by its first use: starting ``evenhand`` and reading its settings do without it."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module("pandas"), name)
            setattr(self, name, value)
            return value

    pd = _Pandas()

_SNIFFED = 2**16
_COMPARED = 20
"""Lines that show what separates columns."""
PIECE = 2**20
"""Bytes of a file to read at a time."""
_FREE_CELLS = 10_000_000
"""Number of cells that a table may have, however small its file is."""
_CELLS_PER_BYTE = 20
_BYTES_PER_VALUE = 4
"""Minimum bytes of JSON per value; a file with more values has mostly empty lists and objects."""
_CODE = r"0\d+"
"""A code with a leading zero, which a number would lose."""
_LINE = re.compile(rb"[\r\n]")
_QUOTED = re.compile(rb'"[^"]*"')
_SAMPLE = "give a sample of the rows"


def file_error(path: Path, problem: str, remedy: Words = "") -> DataError:
    """Return the error for an unusable file."""
    return DataError(f"{path}: {problem}", value=str(path), remedy=remedy)


def split_name(path: Path, *plain: str) -> tuple[str, str]:
    """Split the endings of a file name into its format (of a table, or one of ``plain``) and its packing."""
    endings = [ending.lower() for ending in path.suffixes]
    packed = endings.pop() if endings and endings[-1] in PACKINGS else ""
    ending, packable = endings[-1] if endings else "", (".csv", ".tsv", *plain)
    if ending not in (*READERS, *plain) or (packed and ending not in packable):
        formats = f"{', '.join(packable)} (also {', '.join(PACKINGS)}), .parquet, .json, .jsonl"
        raise file_error(path, "a file of this kind cannot be read", f"allowed: {formats}")
    return ending, packed


def check_file(path: Path, needs: str = "column names and rows") -> None:
    """Raise unless the file exists, is not empty and is not too large."""
    size = size_of(path, DataError, "it is a directory or a device, not a file; name a file")
    if size == 0:
        raise file_error(path, "the file is empty", f"it needs {needs}")
    check_limit("data_bytes", size, path, _SAMPLE)


def open_packed(path: Path, packed: str) -> io.BufferedReader:
    """Open a data file that is unpacked while it is read."""
    return unpacked(path, packed, "data_bytes", DataError)


_BINARY = "it contains binary data, not UTF-8 or other text", "save it as text, a table as CSV, in UTF-8"
_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")
"""A letter in UTF-8 that is not ASCII."""
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def encoding_of(path: Path, packed: str) -> str:
    r"""Return the encoding of a text file: UTF-8, UTF-16, or Latin-1 as Windows extends it, if it is neither of them.

    Spreadsheets write all of these. A file with control characters, or with some letters in UTF-8 and some not, is
    damaged: it counts as UTF-8, so that reading it fails.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> for encoding in ("utf-8", "utf-16", "latin-1"):
    ...     _ = path.write_text("city;age\nKöln;34\n", encoding)
    ...     print(encoding_of(path, ""))
    utf-8-sig
    utf-16
    cp1252
    """
    decoder, valid, others, marks = codecs.getincrementaldecoder("utf-8")(), True, False, False
    with open_packed(path, packed) as stream:
        while piece := stream.read(PIECE):
            if is_all_zeros(piece):
                raise file_error(path, *_BINARY)
            if not others and not marks and valid and (wide := _utf_16(piece[:_SNIFFED])):
                return wide
            others = others or _CONTROLS.search(piece) is not None
            if piece.isascii() and not decoder.getstate()[0]:
                continue
            marks = marks or _SEQUENCE.search(piece) is not None
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                valid = False
                decoder.reset()
    valid = valid and not decoder.getstate()[0]
    return "utf-8-sig" if valid or others or marks else "cp1252"


def _utf_16(beginning: bytes) -> str:
    """Return which UTF-16 a file is in, by its mark or by the zeros between Latin letters; empty if in none."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, letters = beginning[start::2], beginning[1 - start :: 2]
        if len(letters) > 1 and zeros.count(0) > 0.9 * len(zeros) and not letters.count(0):
            return name
    return ""


class _Recoded(io.RawIOBase):
    """A stream of text in some encoding, as UTF-8."""

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        self._stream, self._left = stream, b""
        # Bytes without a letter in the table of Windows are control characters, which nothing shows.
        errors = "replace" if encoding == "cp1252" else "strict"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = self._stream.read(PIECE)
            self._left = self._decoder.decode(piece, final=not piece).encode()
            if not piece:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_text(path: Path, packed: str, encoding: str) -> io.BufferedReader:
    """Open a data file as UTF-8, whatever its encoding."""
    stream = open_packed(path, packed)
    if encoding == "utf-8-sig":
        mark = stream.peek(len(codecs.BOM_UTF8))[: len(codecs.BOM_UTF8)]
        stream.read(len(mark) if mark == codecs.BOM_UTF8 else 0)
        return stream
    return io.BufferedReader(_Recoded(stream, encoding), PIECE)


def is_all_zeros(piece: bytes) -> bool:
    """Whether a piece is all zeros, as in a sparse file, which is small on disk but large in memory."""
    return len(piece) == PIECE and not any(piece)


def line_ends(text: bytes | str) -> int:
    r"""Count the ends of lines as pandas does: "\n", "\r" or both."""
    if isinstance(text, str):
        return text.count("\n") + text.count("\r") - text.count("\r\n")
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def check_cells(path: Path, rows: int, columns: int, cells: int | None = None) -> None:
    """Raise if a table is too large, in relation to its file or absolutely."""
    check_limit("table_rows", rows, path, _SAMPLE)
    check_limit("table_columns", columns, path, "leave columns out")
    size = path.stat().st_size
    most = max(size, min(limit("table_cells"), max(_FREE_CELLS, _CELLS_PER_BYTE * size)))
    check_limit("table_cells", rows * columns if cells is None else cells, path, _SAMPLE, most)


def check_table(path: Path, packed: str, separator: str, encoding: str = "utf-8-sig") -> None:
    """Raise if a CSV contains binary data or has too many columns, rows or cells; the file is not parsed."""
    mark, rows, cells, columns, beginning = separator.encode(), 0, 0, 0, True
    with open_text(path, packed, encoding) as stream:
        while piece := stream.read(PIECE):
            if is_all_zeros(piece) or (beginning and b"\0" in piece[:_SNIFFED]):
                raise file_error(path, *_BINARY)
            if beginning:
                # Quoted column names may have line ends; the limit of cells then applies.
                header = _LINE.split(piece, 1)[0]
                columns += header.count(mark)
                beginning = len(header) == len(piece)
            rows, cells = rows + line_ends(piece), cells + piece.count(mark)
            # Rows shorter than the header are padded.
            check_cells(path, rows, columns, rows + max(cells, rows * columns))


def separator_of(path: Path, packed: str, encoding: str = "utf-8-sig") -> str:
    r"""Return what separates the columns of a CSV file: what each of its first lines has equally often.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text('age;"a, b"\n20;nurse\n')
    >>> separator_of(path, "")
    ';'
    """
    lines = _first_lines(path, packed, encoding)
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in (",", ";", "\t", "|")}
    even = [mark for mark, found in counts.items() if found and min(found) == max(found) > 0]
    if even:
        return max(even, key=lambda mark: counts[mark][0])
    header = {mark: found[0] if found else 0 for mark, found in counts.items()}
    return "," if header[","] else max(header, key=lambda mark: header[mark])


def decimal_of(path: Path, packed: str, separator: str, encoding: str) -> str:
    """Return the decimal mark of a CSV file: a comma where numbers have one, and none has a point."""
    if separator == ",":
        return "."
    mark = re.escape(separator).encode()
    lines = _first_lines(path, packed, encoding)[1:]
    found = {}
    for point in ",.":
        cell = re.compile(rb"(?:^|%b)-?\d+%b\d+(?=%b|$)" % (mark, re.escape(point).encode(), mark))
        found[point] = any(cell.search(line) for line in lines)
    return "," if found[","] and not found["."] else "."


def _first_lines(path: Path, packed: str, encoding: str) -> list[bytes]:
    """Return the first lines that are whole, or the only one, without what is quoted."""
    with open_text(path, packed, encoding) as stream:
        beginning = stream.read(PIECE)
        whole = len(beginning) < PIECE
    lines = [line for line in _LINE.split(_QUOTED.sub(b"", beginning)) if line.strip()]
    return (lines if whole or len(lines) == 1 else lines[:-1])[:_COMPARED]


def _read_table(path: Path, packed: str, separator: str | None = None) -> pd.DataFrame:
    with open_packed(path, packed) as stream:
        encoding = _utf_16(stream.read(_SNIFFED)) or "utf-8-sig"
    separator = separator or separator_of(path, packed, encoding)
    # Before the whole file is read for its encoding; separators and line ends are the same in UTF-8 and Latin-1.
    check_table(path, packed, separator, encoding)
    encoding = encoding_of(path, packed)
    with open_text(path, packed, encoding) as stream:
        if not stream.read(_SNIFFED).strip():
            raise file_error(path, "the file is empty", "it needs column names and rows")
    with open_text(path, packed, encoding) as stream:
        # pandas renames a second column "a" to "a.1"; the raw header has the original names.
        header = pd.read_csv(stream, sep=separator, header=None, nrows=1, dtype=str, na_filter=False)
    check_names([name for name in header.iloc[0] if name], f"{path}: ")
    decimal = decimal_of(path, packed, separator, encoding)
    with open_text(path, packed, encoding) as stream:
        # index_col=False: rows longer than the header must not silently become an index.
        frame = pd.read_csv(stream, sep=separator, decimal=decimal, index_col=False, low_memory=False)
    numbers = [at for at, kind in enumerate(frame.dtypes) if kind.kind in "iuf"]
    if numbers and _has_zeros(path, packed, separator, encoding):
        with open_text(path, packed, encoding) as stream:
            raw = pd.read_csv(stream, sep=separator, index_col=False, usecols=numbers, dtype=str)
        for at, name in zip(numbers, raw.columns, strict=True):
            if raw[name].str.fullmatch(_CODE).any():
                frame.isetitem(at, raw[name].to_numpy(dtype=object))
    return frame


def _has_zeros(path: Path, packed: str, separator: str, encoding: str) -> bool:
    """Whether a cell of a CSV file seems to begin with a zero before another digit, such as the code "007"."""
    begins, end = re.compile(rb"(?:^|[\r\n]|%b)[ \"]*0\d" % re.escape(separator).encode()), b""
    with open_text(path, packed, encoding) as stream:
        while piece := stream.read(PIECE):
            if begins.search(end + piece):
                return True
            end = piece[-3:]
    return False


def prepare() -> None:
    """Import the Parquet reader before a trial's limits apply."""
    import pandas as pd  # noqa: F401
    import pyarrow.parquet  # noqa: F401


def parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file whose metadata is within limits."""
    import pyarrow.parquet

    facts = pyarrow.parquet.read_metadata(path)
    check_cells(path, facts.num_rows, facts.num_columns)
    return pd.read_parquet(path, engine="pyarrow")


def _read_parquet(path: Path, _: str) -> pd.DataFrame:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet files")
    # A page of a few bytes can expand to gigabytes, and pyarrow has no limit.
    attempt("evenhand.spaces.frames:parquet", path, path.stat().st_size)
    return parquet(path)


def _read_json(path: Path, _: str) -> pd.DataFrame:
    # The reader of pandas converts texts such as "007" and columns such as "date".
    text = read_bytes(path, "json_bytes", DataError, _SAMPLE)
    content = parse_json(text, path, _most_values(path, 2 * _BYTES_PER_VALUE))
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        # Rows with different names would each add columns to all rows.
        check_cells(path, len(content), len(set().union(*content)))
        return pd.DataFrame(content)
    if isinstance(content, dict) and content and all(isinstance(column, list | dict) for column in content.values()):
        named = set().union(*(column for column in content.values() if isinstance(column, dict)))
        check_cells(path, max(len(named), *map(len, content.values())), len(content))
        return pd.DataFrame(content).reset_index(drop=True)
    raise file_error(path, "it must hold a list of rows [{...}, ...] or columns {name: [...], ...}", "convert it")


def _read_jsonl(path: Path, _: str) -> pd.DataFrame:
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
                raise file_error(path, f"line {number} is not JSON ({error})", "write one row per line") from None
            if not isinstance(row, dict):
                got = line.decode("utf-8", "replace").strip()[:60]
                problem = f"line {number} must be a row {{name: value, ...}}, got {got}"
                raise file_error(path, problem, "write one row per line")
            rows.append(row)
    check_cells(path, len(rows), len(set().union(*rows)))
    return pd.DataFrame(rows)


def _most_values(path: Path, bytes_per_value: int) -> int:
    return max(limit("json_values"), path.stat().st_size // bytes_per_value)


def _values(line: bytes, path: Path, number: int) -> int:
    """Count the values in a line of JSON by its commas and brackets, and exactly only if there are many."""
    brackets = line.count(b"[") + line.count(b"{")
    values = 1 + brackets + line.count(b",")
    if brackets <= limit("nesting") and values <= len(line) // _BYTES_PER_VALUE:
        return values
    return count_values(line, f"{path}: line {number}", _most_values(path, _BYTES_PER_VALUE))


READERS: dict[str, Callable[[Path, str], pd.DataFrame]] = {
    ".csv": _read_table,
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
    if isinstance(frame, Mapping):
        frame = _from_mapping(frame)
    if isinstance(frame, pd.DataFrame):
        check_names(frame.columns)
        return {name: _pandas_column(frame[name]) for name in frame.columns}
    return _other_columns(frame)


def as_pandas(frame: Any) -> pd.DataFrame:
    """Return a pandas frame unchanged, and any other frame converted to pandas."""
    if isinstance(frame, Mapping):
        frame = _from_mapping(frame)
    if isinstance(frame, pd.DataFrame):
        check_names(frame.columns)
        return frame
    return pd.DataFrame(columns_of(frame))


def read_frame(path: str | Path) -> pd.DataFrame:
    r"""Read a file of data rows.

    A .csv or .tsv file, which may be packed (.csv.gz, .csv.xz), has a header line. Its encoding (UTF-8, UTF-16 or
    Latin-1), what separates its columns and its decimal mark are detected. Texts that pandas treats as missing ("",
    "NA", "null", ...) are missing values. A column with a code such as "007" stays text. A .parquet file needs pyarrow.
    A .json file is a list of rows, or columns by name; a .jsonl file has one row per line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,work\n20,nurse\n")
    >>> read_frame(path)["age"].tolist()
    [20]
    """
    path = Path(path)
    ending, packed = split_name(path)
    check_file(path)
    try:
        with warnings.catch_warnings():
            # pandas only warns if it drops columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = READERS[ending](path, packed)
    except (DataError, LimitExceeded, MissingExtra):
        raise
    except UnicodeDecodeError:
        raise file_error(path, "it is not UTF-8, UTF-16 or Latin-1 text", "save it as UTF-8") from None
    # Parsers may raise any exception for damaged files.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise file_error(path, f"it cannot be read as {ending[1:]} ({reason})", "check or save it again") from error
    check_names(frame.columns, f"{path}: ")
    if frame.empty:
        raise file_error(path, "it has no rows", "give at least one row below the column names")
    return frame


def check_names(names: Iterable[Any], where: str = "") -> None:
    """Raise unless the columns have different names, all of them texts."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            problem = f"{where}column names must be texts, got {name!r} ({type(name).__name__})"
            raise DataError(problem, value=name, remedy="rename the columns: frame.columns = [...]")
        if name in seen:
            raise DataError(f"{where}two columns are called {name!r}", value=name, remedy="rename or drop one")
        seen.add(name)


def _from_mapping(columns: Mapping[Any, Any]) -> pd.DataFrame:
    try:
        return pd.DataFrame(dict(columns))
    except ValueError as error:
        problem = f"a mapping must have lists of equal length by column name ({error})"
        raise DataError(problem, value=list(columns), remedy="pad or shorten the lists") from None


def _pandas_column(series: pd.Series[Any]) -> npt.NDArray[Any]:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # astype(object) leaves NaN for missing categories.
        return _objects(series.astype(object))
    if pd.api.types.is_bool_dtype(dtype) and not series.hasnans:
        return series.to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        return _numbers(series)
    return _objects(series.astype(object))


def _numbers(series: pd.Series[Any]) -> npt.NDArray[Any]:
    if series.hasnans and series.dtype.kind != "c":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return np.asarray(series.array)
    return series.to_numpy(dtype=getattr(dtype, "numpy_dtype", None))


def _objects(series: pd.Series[Any]) -> npt.NDArray[Any]:
    """Return objects with None for missing values; columns of only numbers, or only booleans, are converted."""
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
            remedy="collect a lazy frame; name the columns of an array",
        ) from None
    except Exception as error:
        problem = f"the frame cannot be read: {error}"
        raise DataError(problem, value=type(frame).__name__, remedy="convert it to pandas") from None
    check_names(wrapped.columns)
    return {name: _narwhals_column(wrapped[name]) for name in wrapped.columns}


def _narwhals_column(series: Any) -> npt.NDArray[Any]:
    import narwhals as nw

    absent = bool(series.is_null().any())
    if isinstance(series.dtype, nw.Decimal):
        series = series.cast(nw.Float64)
    if series.dtype.is_numeric():
        # Not every library uses NaN for missing numbers in to_numpy.
        series = series.cast(nw.Float64) if absent else series
        return np.array(series.fill_null(float("nan")) if absent else series.to_numpy())
    if series.dtype == nw.Boolean and not absent:
        return np.array(series.to_numpy())
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return _objects(pd.Series(values, dtype=object))


def native(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value."""
    return value.item() if hasattr(value, "dtype") and not value.ndim else value


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; two missing values are."""
    return bool(left == right) or (missing(left) and missing(right))


def json_value(value: Any) -> Any:
    """Convert a value to one that JSON supports.

    >>> json_value(float("nan")), json_value(3)
    (None, 3)
    """
    value = native(value)
    if missing(value):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)
