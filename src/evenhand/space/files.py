"""Files of data rows: telling their kind, checking them, reading each kind."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenhand.errors import DataError, MissingExtra
from evenhand.space.names import check_names

if TYPE_CHECKING:
    import pandas as pd

LARGEST_FILE = 4 * 2**30
_SNIFFED = 2**16
_PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_FORMATS = ".csv, .tsv (also .gz, .xz), .parquet, .json, .jsonl"


def split_name(path: Path) -> tuple[str, str]:
    """Split a file's name into what it holds and how it is packed."""
    endings = [ending.lower() for ending in path.suffixes]
    packed = endings.pop() if endings and endings[-1] in _PACKED else ""
    ending = endings[-1] if endings else ""
    if ending not in READERS or (packed and ending not in (".csv", ".tsv")):
        raise DataError(f"{path}: a file of this kind cannot be read; allowed: {_FORMATS}")
    return ending, packed


def check_file(path: Path, needs: str = "column names and rows") -> None:
    """Raise unless there is a file with something in it, and not too much."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise DataError(f"{path}: {reason}; check the path") from None
    if not path.is_file():
        raise DataError(f"{path}: it is a directory or a device, not a file; name a file ({_FORMATS})")
    if size == 0:
        raise DataError(f"{path}: the file is empty; it needs {needs}")
    if size > LARGEST_FILE:
        _too_large(path)


def _too_large(path: Path) -> None:
    raise DataError(f"{path}: more than {LARGEST_FILE / 2**30:g} GiB of data; give a sample of the rows")


class _Limited(io.RawIOBase):
    """A packed file that stops when it unpacks to more than is allowed."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.read_so_far = stream, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        self.read_so_far += len(data)
        if self.read_so_far > LARGEST_FILE:
            _too_large(self.path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.stream.close()
        super().close()


def open_packed(path: Path, packed: str) -> io.BufferedReader:
    """Open a file, unpacked as it is read."""
    stream: Any = _PACKED[packed](path, "rb") if packed else path.open("rb")
    return io.BufferedReader(_Limited(stream, path), _SNIFFED)


def _read_table(path: Path, packed: str, separator: str) -> pd.DataFrame:
    import pandas as pd

    with open_packed(path, packed) as stream:
        start = stream.read(_SNIFFED)
        if b"\0" in start:
            raise DataError(f"{path}: it holds binary data, no UTF-8 text; save the table as CSV in UTF-8")
        if not start.strip():
            raise DataError(f"{path}: the file is empty; it needs column names and rows")
    with open_packed(path, packed) as stream:
        # pandas renames a second column "a" to "a.1"; the raw header shows what the file says.
        header = pd.read_csv(stream, sep=separator, header=None, nrows=1, dtype=str, na_filter=False)
    check_names([name for name in header.iloc[0] if name], f"{path}: ")
    with open_packed(path, packed) as stream:
        # index_col=False: rows that are longer than the header must not become an index in silence.
        return pd.read_csv(stream, sep=separator, index_col=False, low_memory=False)


def _read_csv(path: Path, packed: str) -> pd.DataFrame:
    return _read_table(path, packed, ",")


def _read_tsv(path: Path, packed: str) -> pd.DataFrame:
    return _read_table(path, packed, "\t")


def _read_parquet(path: Path, _: str) -> pd.DataFrame:
    import pandas as pd

    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "reading Parquet files")
    return pd.read_parquet(path, engine="pyarrow")


def _read_json(path: Path, _: str) -> pd.DataFrame:
    import pandas as pd

    # pandas' own reader turns texts such as "007" and columns such as "date" into something else.
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        return pd.DataFrame(content)
    if isinstance(content, dict) and content and all(isinstance(column, list | dict) for column in content.values()):
        return pd.DataFrame(content).reset_index(drop=True)
    raise DataError(f"{path}: a JSON file must hold a list of rows [{{...}}, ...] or columns {{name: [...], ...}}")


def _read_jsonl(path: Path, _: str) -> pd.DataFrame:
    import pandas as pd

    rows = []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}: line {number} is no JSON ({error}); write one row a line") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}: line {number} must be a row {{name: value, ...}}, got {line.strip()[:60]}")
            rows.append(row)
    return pd.DataFrame(rows)


READERS: dict[str, Callable[[Path, str], pd.DataFrame]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
}
