"""Findings as CSV, in which no cell is a formula and nothing is hidden."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import IO, TYPE_CHECKING, Any

from evenhand._format import (visible, visible_json)

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.runs.run import (Run)

BLOCK = 100_000
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""A text that begins so gets an apostrophe in front: spreadsheets may take it for a formula (the four signs also in
their wide forms), and an apostrophe of the user's own would be taken for ours."""
_WITHIN = re.compile(r"""([;,\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20'])""")
"""Where a cell begins for a reader that splits at another character than the comma, and so within a text of ours."""
LINES = "\t\r\n"
"""Characters that are not printed and stay nevertheless: cells are quoted, so that tables have them as they are."""


def write_csv(run: Run, file: IO[bytes], raw: bool = False) -> None:
    """Write every finding as a line, a block at a time; ``raw`` leaves cells as they are."""
    # Half a surrogate pair, which UTF-8 cannot have, is written as its escape.
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    for start in range(0, max(run.found, 1), BLOCK):
        block = run.pairs.frame(slice(start, start + BLOCK))
        write_frame(block, text, header=start == 0, raw=raw)
    text.flush()
    text.detach()


def write_frame(frame: pd.DataFrame, file: IO[str], header: bool = True, raw: bool = False) -> None:
    """Write one frame."""
    frame = flat(frame)
    safe = frame if raw else neutral(frame)
    # RFC 4180's line ends. Every text is quoted: also where semicolons and tabs separate, one stays one cell.
    safe.to_csv(file, index=False, header=header, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Write lists, such as the words that were replaced in a text, as JSON: a cell holds one value.

    >>> import pandas as pd
    >>> flat(pd.DataFrame({"changed": [[(1, "nice", "kind")]]})).iloc[0, 0]
    '[[1, "nice", "kind"]]'
    """
    import pandas as pd

    lists = [name for name, column in frame.items() if len(column) and isinstance(column.iloc[0], list)]
    texts = {str(name): [_json(value) for value in frame[name]] for name in lists}
    # As objects: pandas' own texts take no half of a surrogate pair.
    return frame.assign(**{name: pd.Series(column, frame.index, dtype=object) for name, column in texts.items()})


def neutral(frame: pd.DataFrame) -> pd.DataFrame:
    """Make names and texts such that a spreadsheet calculates none and everything in them is seen; numbers stay.

    >>> import pandas as pd
    >>> neutral(pd.DataFrame({"=a": ["=1+1", "b"], "n": [-1, 2]})).to_dict("list")
    {"'=a": ["'=1+1", 'b'], 'n': [-1, 2]}
    """
    import pandas as pd

    columns = [_safe(column) if _texts(column) else column.array for _, column in frame.items()]
    # Two names may now read alike; each keeps its column.
    return pd.DataFrame(dict(enumerate(columns)), copy=False).set_axis([cell(name) for name in frame.columns], axis=1)


def cell(value: Any) -> Any:
    r"""Make one text harmless: an apostrophe before a formula, and what is not seen written out.

    Also before one that begins after a semicolon, comma, tab or line: there a spreadsheet may split the text.

    >>> cell("@SUM(A1)"), cell("it's"), cell(-1), cell("a" + chr(0x202E)), cell("a;=1+1")
    ("'@SUM(A1)", "it's", -1, 'a\\u202e', "a;'=1+1")
    """
    if not isinstance(value, str):
        return value
    text = _WITHIN.sub(r"\1'", visible(value, keep=LINES))
    return f"'{text}" if text.startswith(RISKY) else text


def _json(value: Any) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False))


def _safe(column: Any) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series([cell(value) for value in column], dtype=object)


def _texts(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") not in "biufc"
