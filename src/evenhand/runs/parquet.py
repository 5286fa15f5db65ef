"""Findings as Parquet."""

from __future__ import annotations

from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from evenhand.errors import (MissingExtra)
from evenhand.runs.csv import (flat)
from evenhand.words import (plain)

if TYPE_CHECKING:
    from evenhand.runs.run import (Run)


def write_parquet(run: Run, file: IO[bytes]) -> None:
    """Write all findings with the user's own columns and types."""
    check_pyarrow()
    frame = flat(run.findings)
    for name in frame.columns:
        kinds = {type(value) for value in frame[name].unique()} if frame[name].dtype == object else set()
        # A column of Parquet has one type; decisions of several become texts.
        if len(kinds - {type(None), float}) > 1 or not kinds <= {str, int, float, bool, type(None)}:
            frame[name] = frame[name].map(_text)
        elif str in kinds or str(frame[name].dtype) in ("str", "string"):
            frame[name] = frame[name].map(_encodable)
    frame.columns = [_encodable(name) for name in frame.columns]
    frame.to_parquet(file, engine="pyarrow", index=False)


def check_pyarrow() -> None:
    """Raise where the package is not there that writes Parquet."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")


def _text(value: Any) -> Any:
    return None if plain(value) == "missing" and not isinstance(value, str) else _encodable(str(value))


def _encodable(value: Any) -> Any:
    """Half a surrogate pair, which UTF-8 cannot have, becomes its escape."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
