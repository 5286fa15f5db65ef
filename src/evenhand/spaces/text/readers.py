"""Files of texts: a column of a table, a key of JSON lines, or plain lines."""

from __future__ import annotations

import codecs
import io
import lzma
import math
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import check_limit
from evenhand.errors import TEXTS, DataError, Use
from evenhand.spaces.attributes import suggest
from evenhand.spaces.frames import (
    PIECE,
    READERS,
    check_cells,
    check_file,
    columns_of,
    encoding_of,
    file_error,
    is_all_zeros,
    line_ends,
    open_packed,
    pd,
    split_name,
)
from evenhand.spaces.text.tokens import Positions

_MISSING = ("NAType", "NaTType")


def strings_of(data: Any, column: str = "text") -> tuple[list[str], Positions, int]:
    """Return the texts of the data without missing ones, the row of each, and how many are missing."""
    values = _values(data, column)
    rows = [row for row, value in enumerate(values) if isinstance(value, str) or not missing(value)]
    for row in rows:
        if not isinstance(values[row], str):
            remedy = "give texts, such as data=['one', 'two']"
            raise DataError(f"text {row} must be a string, got {values[row]!r:.60}", value=values[row], remedy=remedy)
    return [str(values[row]) for row in rows], np.array(rows, dtype=np.int64), len(values) - len(rows)


def _values(data: Any, column: str) -> list[Any]:
    if data is None or isinstance(data, str | bytes):
        remedy = ("give a list of them: ", TEXTS)
        raise DataError("must be texts to start from", parameter="data", value=data, remedy=remedy)
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        columns = columns_of(data)
        if column not in columns:
            known = f"{suggest(column, columns)}; name it: eh.TextSpace(..., column=...)"
            raise DataError(f"the data has no column {column!r}", value=column, remedy=known)
        return list(columns[column].tolist())
    try:
        return list(data)
    except TypeError:
        problem = f"must be a list of texts, a series, or a frame with a column {column!r}"
        remedy = ("give a list of them: ", TEXTS)
        raise DataError(problem, parameter="data", value=data, remedy=remedy) from None


def missing(value: Any) -> bool:
    """Whether a value stands for a missing text."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _MISSING


_PLAIN = ".txt"
_LINE = re.compile("[\r\n]")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_texts(path: str | Path, column: str | None = None, encoding: str | None = None) -> list[str | None]:
    r"""Read the texts of a file, one for each row or line: empty texts too, and None if a text is missing.

    Parameters
    ----------
    path
        A table (``.csv``, ``.tsv``, ``.jsonl``, ``.json``, ``.parquet``), or plain lines (``.txt``).
    column
        The column, or key, of the texts; by default ``text``, or the only one.
    encoding
        The encoding of a ``.csv``, ``.tsv`` or ``.txt``; by default detected: UTF-8, UTF-16 or Latin-1.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "said.csv"
    >>> _ = file.write_text('who,text\nA,"Hello, you!"\nB,\nC,None\n')
    >>> read_texts(file)
    ['Hello, you!', '', 'None']
    """
    path = Path(path)
    ending, packed = _kind(path)
    if ending != _PLAIN:
        texts = _texts(read_table(path, encoding, blank=True), column, path)
        if not texts:
            raise file_error(path, "it has column names and no texts", "give a file with rows")
        return texts
    if column is not None:
        raise file_error(path, f"plain lines have no column {column!r}", "leave it out, or name a table")
    with _reading(path, encoding or "utf-8"):
        encoding = encoding or encoding_of(path, packed)
        lines = _decoded(path, packed, encoding).split("\n")
    # The end of the last line does not begin another one.
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def read_table(path: str | Path, encoding: str | None = None, blank: bool = False) -> pd.DataFrame:
    """Read a table of texts; values of a CSV stay texts. With ``blank``, a blank line between others is a row."""
    path = Path(path)
    ending, packed = _kind(path)
    if ending == _PLAIN:
        raise file_error(path, "plain lines have no columns", "give a table")
    if ending not in _SEPARATORS:
        with _reading(path, encoding or "utf-8"):
            return READERS[ending](path, packed)
    with _reading(path, encoding or "utf-8"):
        encoding = encoding or encoding_of(path, packed)
        content = _decoded(path, packed, encoding).strip("\r\n")
        header, separator = _LINE.split(content, 1)[0], _SEPARATORS[ending]
        if ending == ".csv" and ";" in header and "," not in header:
            # Spreadsheets write this where numbers have a decimal comma.
            separator = ";"
        rows = line_ends(content)
        columns = header.count(separator)
        check_cells(path, rows, columns, rows + max(content.count(separator), rows * columns))
        with warnings.catch_warnings():
            # Rows that are longer than the header lose their end with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.StringIO(content), sep=separator, dtype=str, keep_default_na=False, index_col=False,
                skip_blank_lines=not blank,
            )  # fmt: skip


def texts_of(table: pd.DataFrame, column: str | None, path: Path) -> list[str]:
    """Return the texts of a column; raise where one is missing."""
    texts = _texts(table, column, path)
    if None in texts:
        row = texts.index(None)
        raise file_error(path, f"row {row} has no text, and each label needs one", "drop the row")
    return [str(text) for text in texts]


def _texts(table: pd.DataFrame, column: str | None, path: Path) -> list[str | None]:
    names = [str(name) for name in table.columns]
    if column is None:
        if "text" not in names and len(names) != 1:
            raise file_error(path, "the column of the texts is unknown", f"name one of {', '.join(names)}")
        column = "text" if "text" in names else names[0]
    texts = [text if isinstance(text, str) or not missing(text) else None for text in column_of(table, column, path)]
    for number, text in enumerate(texts):
        if not isinstance(text, str | None):
            problem = f"row {number} of {column!r} must be a text, got {text!r:.60}"
            raise file_error(path, problem, "drop or convert it")
    return texts


def column_of(table: pd.DataFrame, column: str, path: Path) -> pd.Series[Any]:
    """Return a column; raise with the known names where it is missing."""
    if column not in table.columns:
        raise file_error(path, f"there is no column {column!r}", suggest(column, map(str, table.columns)))
    found: pd.Series[Any] = table[column]
    return found


def _kind(path: Path) -> tuple[str, str]:
    """Check that the file is there; return what it holds and how it is packed."""
    ending, packed = split_name(path, _PLAIN)
    check_file(path, "texts, one in each line" if ending == _PLAIN else "column names and rows")
    return ending, packed


def _decoded(path: Path, packed: str, encoding: str) -> str:
    """Read a whole file as text; binary data and too many lines are found before it is all in memory."""
    pieces, lines = [], 0
    with open_packed(path, packed) as stream:
        while piece := stream.read(PIECE):
            lines += piece.count(b"\n")
            check_limit("table_rows", lines, path, "give a sample of the texts")
            if is_all_zeros(piece):
                raise file_error(path, "it holds binary data, not text", f"give texts in {encoding}")
            pieces.append(piece)
    # Some programs begin a file with a byte-order mark.
    utf_8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    return b"".join(pieces).decode("utf-8-sig" if utf_8 else encoding, "replace" if encoding == "cp1252" else "strict")


def _likely(path: Path) -> str:
    """Guess the encoding of a file that is not UTF-8: UTF-16 begins with a mark."""
    with open_packed(path, _kind(path)[1]) as stream:
        return "utf-16" if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"


@contextmanager
def _reading(path: Path, encoding: str) -> Iterator[None]:
    try:
        yield
    except LookupError:
        problem = f"{path}: there is no encoding {encoding!r}"
        raise DataError(problem, value=encoding, remedy='use "utf-8" or "latin-1"') from None
    except UnicodeError as error:
        remedy = ("name its encoding: ", Use(f"encoding={_likely(path)!r}", "text.encoding", _likely(path)))
        raise file_error(path, f"it is not written in {encoding} ({error})", remedy) from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise file_error(path, f"it cannot be read ({error})", "check or save it again") from None
    except (ValueError, Warning) as error:  # also the errors of pandas and of JSON
        problem = f"it cannot be read as a table ({' '.join(str(error).split())})"
        raise file_error(path, problem, "check or save it again") from None
