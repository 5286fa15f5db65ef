"""Exports: a run's findings as tables, and the run for other programs and for a pull request."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from evenhand._format import outcome, plain, to_plain, visible, visible_json
from evenhand._validate import check_int
from evenhand._write import advice, reason, replacing
from evenhand.engine.store import as_path
from evenhand.errors import MissingExtra, RunError, Use
from evenhand.runs.ci_formats import to_junit, to_sarif
from evenhand.runs.pairs import Pair, select_pairs
from evenhand.runs.replay import check_run

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.runs.run import Run

FORMATS = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "junit": ".xml", "sarif": ".sarif", "markdown": ".md"}
"""Formats and their file extensions."""
MOST = 1_000
"""Maximum number of findings in JUnit and SARIF."""
VERSION = 1
"""Version of the JSON schema; it grows when a key is removed or changes its meaning, not when one is added."""
PAIRS_IN_JSON, PAIRS_IN_MARKDOWN = 10, 3
BLOCK = 100_000
"""Findings that are written to CSV at once."""
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""Text that begins with one of these gets an apostrophe in front, because spreadsheets may take it for a formula (also
with the wide forms of the four signs); with one for an apostrophe, text can be restored."""
_WITHIN = re.compile(r"""([;,\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20'])""")
"""Where a cell may begin for a reader that splits at another character than the comma."""
LINES = "\t\r\n"
"""Invisible characters that stay as they are, because cells are quoted."""
Writer = Callable[[IO[bytes]], object]


def export(
    run: Run,
    path: str | Path,
    format: str | None = None,
    *,
    max_findings: int = MOST,
    raw: bool = False,
    artifact: str | None = None,
) -> Path:
    """Write a run, or its findings, for other programs to read.

    Parameters
    ----------
    run
        What ``audit`` returned, or ``Run.load`` read.
    path
        The file to write; its extension determines the format.
    format
        ``"json"``, ``"csv"``, ``"parquet"``, ``"junit"``, ``"sarif"`` or ``"markdown"``, whatever the extension.
    max_findings
        Maximum number of findings in JUnit and SARIF, which also give the number of all. Other formats have all
        findings, Markdown a few.
    raw
        For CSV: do not escape formulas and invisible characters.
    artifact
        For SARIF: the file in the repository at which results are shown.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 2) & (f["sex"] == "F"), space, strategy="themis")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(eh.export(run, f"{folder}/findings.csv").read_text())
    "age","sex","counterpart_sex","decision","counterpart_decision","gap","confirmed"
    1,"F","M",True,False,1.0,True
    <BLANKLINE>
    """
    check_run(run)
    path = as_path(path, "path")
    check_int("max_findings", max_findings, RunError, 1)
    check_format(format)
    kind = format or format_of(path)
    tables: dict[str, Writer] = {
        "csv": lambda file: write_csv(run, file, raw),
        "parquet": lambda f: write_parquet(run, f),
    }
    texts: dict[str, Callable[[], str]] = {
        "json": lambda: to_json(run),
        "junit": lambda: to_junit(run, max_findings),
        "sarif": lambda: to_sarif(run, max_findings, artifact),
        "markdown": lambda: to_markdown(run),
    }
    if kind in texts:
        text = texts[kind]().encode("utf-8")
        write(path, lambda file: file.write(text))
    else:
        write(path, tables[kind])
    return path


def format_of(path: Path) -> str:
    """Return the format of a file by its extension.

    >>> format_of(Path("out/audit.sarif"))
    'sarif'
    """
    for name, ending in FORMATS.items():
        if path.name.lower().endswith(ending):
            return name
    named = Use(f"format={' or '.join(map(repr, FORMATS))}", "export.format")
    allowed = ", ".join(FORMATS.values())
    raise RunError(f"{path.name}: unknown file extension", remedy=(f"use one of {allowed}, or ", named))


def check_format(format: str | None) -> None:
    """Raise unless this is a known format or None.

    >>> check_format("sarif")
    """
    if format is not None and format not in FORMATS:
        raise RunError(f"must be one of {', '.join(FORMATS)}", parameter="format", value=format)


def write(path: Path, fill: Writer) -> None:
    """Write a file about people so that a crash or a full disk leaves the old one or the new one."""
    try:
        with replacing(path) as file:
            fill(file)
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {reason(error)}", remedy=f"{advice(error)}, or choose another place"
        ) from error


def write_csv(run: Run, file: IO[bytes], raw: bool = False) -> None:
    """Write every finding as a line, a block at a time; ``raw`` leaves cells as they are."""
    # Lone surrogates, which UTF-8 cannot encode, are escaped.
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
    # As objects: pandas' string type cannot hold lone surrogates.
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
    """Raise if the package that writes Parquet is missing."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet")


def _text(value: Any) -> Any:
    return None if plain(value) == "missing" and not isinstance(value, str) else _encodable(str(value))


def _encodable(value: Any) -> Any:
    """Escape lone surrogates, which UTF-8 cannot encode."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def to_json(run: Run) -> str:
    """Return a run and all its findings as JSON in ASCII; other characters are escaped.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> json.loads(to_json(eh.audit(lambda f: f["member"], space, strategy="themis")))["findings"]["rows"][0]
    [6, False, True, False, True, 1.0, True]
    """
    return json.dumps(document(run), allow_nan=False) + "\n"


def document(run: Run) -> dict[str, Any]:
    """Return a run as values of JSON."""
    values = run.to_dict()
    del values["findings"]
    return {
        "format": "evenhand-run",
        "version": VERSION,
        **to_plain(values),
        "found": run.found,
        "pairs": [pair.to_dict() for pair in select_pairs(run, PAIRS_IN_JSON)],
        "findings": table(run),
    }


def table(run: Run) -> dict[str, Any]:
    """Return all findings as names of columns and rows of values."""
    frame = run.findings
    columns = [_values(frame[name]) for name in frame.columns]
    return {"columns": [str(name) for name in frame.columns], "rows": [list(row) for row in zip(*columns, strict=True)]}


def schema() -> dict[str, Any]:
    """Read the JSON Schema that every document follows.

    >>> schema()["properties"]["version"]
    {'const': 1}
    """
    text = resources.files("evenhand.runs").joinpath("run.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _values(column: Any) -> list[Any]:
    values = column.to_numpy()
    if values.dtype.kind in "biu":
        return list(values.tolist())
    if values.dtype.kind == "f" and np.isfinite(values).all():
        return list(values.tolist())
    return [to_plain(value) for value in column.astype(object).where(column.notna(), None).tolist()]


def to_markdown(run: Run) -> str:
    """Return a run's verdict, counts and a few pairs as Markdown.

    User text is escaped within blocks of HTML, where Markdown has no effect, and within ``<code>``, where services do
    not create links or mentions.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> print(to_markdown(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")).splitlines()[0])
    ### evenhand: no individual was found to be treated differently
    """
    facts = {
        "model": run.identity.model,
        "protected": ", ".join(run.space.protected),
        "search": f"{run.identity.search}, seed {run.identity.seed}, {run.identity.criterion}",
        "tests": f"{run.tests:,}",
        "findings": confirmation(run),
        "ended": f"because {run.stop.words}",
    }
    if run.note is not None:
        facts["note"] = run.note
    parts = [f"### evenhand: {_head(run)}"]
    if run.found:
        how = ": `evenhand estimate` measures that" if run.space.supports("attributes") else ""
        parts.append(f"Findings per test say how well a search aims, not how common this is{how}.")
    parts.append(_table([[name, plain(value)] for name, value in facts.items()]))
    parts += [_pair(pair) for pair in select_pairs(run, PAIRS_IN_MARKDOWN)]
    return "\n\n".join(parts) + "\n"


def _head(run: Run) -> str:
    """State what was found, and that findings are not real people."""
    noun = run.space.noun
    if not run.found:
        return f"no {noun} was found to be treated differently"
    found = "1 finding" if run.found == 1 else f"{run.found:,} findings"
    one = f"a{'n' * (noun[0] in 'aeiou')} {noun}" if run.found == 1 else f"{noun}s"
    who = f"{one} that the search made up"
    if run.identity.data:
        # Searches that start from data also test some of its rows unchanged.
        who += ", or took from the data"
    return f"{found} ({who}) in {run.tests:,} {'test' if run.tests == 1 else 'tests'}"


def confirmation(run: Run) -> str:
    """State how many findings there are, and how many of them are confirmed.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> confirmation(eh.audit(lambda f: f["member"], space, strategy="themis"))
    '9, all confirmed by asking again'
    >>> confirmation(eh.audit(lambda f: f["member"], space, strategy="themis", confirm=2))
    '9, of which 2 confirmed by asking again; 7 of 9 findings were not queried again, so not confirmed'
    """
    if not run.doubts:
        return f"{run.found:,}, all confirmed by asking again" if run.found else "0"
    which = "all" if run.confirmed == run.found else f"of which {run.confirmed:,}"
    return "; ".join([f"{run.found:,}, {which} confirmed by asking again" if run.found else "0", *run.doubts])


def _pair(pair: Pair) -> str:
    decisions = ["decision", outcome(pair.decision), outcome(pair.counterpart_decision)]
    rows = [["", f"this {pair.noun}", f"the same {pair.noun}"], *map(list, pair.lines), decisions]
    return _table(rows, {*map(plain, pair.changes), "decision"} if pair.pieces is None else {"decision"})


def _table(rows: list[list[str]], strong: set[str] | None = None) -> str:
    # No empty line inside: it would end the block of HTML.
    lines = []
    for name, *values in rows:
        cells = [f"<code>{escape(value)}</code>" for value in values]
        if strong and name in strong:
            cells = [f"<b>{cell}</b>" for cell in cells]
        label = escape(name) if strong is None or not name else f"<code>{escape(name)}</code>"
        lines.append(f"<tr><th>{label}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return "\n".join(["<table>", *lines, "</table>"])
