"""Exports of runs: findings as tables, and files for other programs, pull requests (Markdown) and CI (JUnit, SARIF)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np

from evenhand import __version__
from evenhand._files import advice, reason, replacing
from evenhand._format import outcome, plain, to_plain, visible, visible_json
from evenhand._validate import check_choice, check_int, check_path
from evenhand.budget import StopReason
from evenhand.engine.store import RESULT
from evenhand.errors import MissingExtra, RunError, Use
from evenhand.runs.pair_sentences import EXAMPLES, REAL, SYNTHETIC, Pair, pairs_at, select_pairs, shown_pairs
from evenhand.runs.replay import check_run
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from evenhand.runs.run import Run

FORMATS = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "junit": ".xml", "sarif": ".sarif", "markdown": ".md"}
"""Formats and their file extensions."""
MOST = 1_000
"""Maximum number of findings in JUnit and SARIF."""
VERSION = 1
"""Version of the JSON schema; it grows when a key is removed or changes its meaning, not when one is added."""
PAIRS_IN_JSON, PAIRS_IN_MARKDOWN = 10, 3
NOTICE = (
    "This file has all values of the individuals that were found: replaying the run needs them. Some may be rows "
    "of the data: keep the file as you keep the data."
)
"""What findings files and bundles say of themselves, where their format has a place for it."""
BLOCK = 100_000
"""Number of findings that are written to CSV at a time."""
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""A text that starts with one of these (also with the wide forms of the four signs) gets a leading apostrophe, because
spreadsheets may treat it as a formula. A text that starts with an apostrophe also gets one, so that the original can be
restored."""
_WITHIN = re.compile(r"""([;,\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20'])""")
"""Where a cell may begin for a program that splits at a character other than the comma."""
LINES = "\t\r\n"
"""Invisible characters that stay unchanged, because cells are quoted."""
Writer = Callable[[IO[bytes]], object]


def export(
    run: Run,
    path: str | Path,
    format: str | None = None,
    *,
    max_findings: int = MOST,
    raw: bool = False,
    artifact: str | None = None,
    show_examples: str = SYNTHETIC,
) -> Path:
    """Write a run, or its findings, for other programs to read.

    Parameters
    ----------
    run
        A run, as returned by ``audit`` or ``Run.load``.
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
    show_examples
        For JUnit, SARIF and Markdown: ``"synthetic"``, of rows of the data only what is protected; ``"real"``, all
        values of them too; or ``"none"``. The other formats have all values, because replaying a run needs them.

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
    path = check_path("path", path, RunError)
    check_int("max_findings", max_findings, RunError, 1)
    check_choice("show_examples", show_examples, EXAMPLES, RunError)
    check_format(format)
    kind = format or format_of(path)
    tables: dict[str, Writer] = {
        "csv": lambda file: write_csv(run, file, raw),
        "parquet": lambda f: write_parquet(run, f),
    }
    texts: dict[str, Callable[[], str]] = {
        "json": lambda: to_json(run),
        "junit": lambda: to_junit(run, max_findings, show_examples),
        "sarif": lambda: to_sarif(run, max_findings, artifact, show_examples),
        "markdown": lambda: to_markdown(run, show_examples),
    }
    if kind in texts:
        text = texts[kind]().encode("utf-8")
        write(path, lambda file: file.write(text))
    else:
        write(path, tables[kind])
    return path


def format_of(path: Path) -> str:
    """Return the format of a file by its extension."""
    for name, ending in FORMATS.items():
        if path.name.lower().endswith(ending):
            return name
    named = Use(f"format={' or '.join(map(repr, FORMATS))}", "export.format")
    allowed = ", ".join(FORMATS.values())
    raise RunError(f"{path.name}: unknown file extension", remedy=(f"use one of {allowed}, or ", named))


def check_format(format: str | None) -> None:
    """Raise unless this is a known format or None."""
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
    # Line ends of RFC 4180. Every text is quoted, so that it stays one cell even if semicolons or tabs separate cells.
    safe.to_csv(file, index=False, header=header, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Write lists, such as the words that were replaced in a text, as JSON: a cell holds one value."""
    lists = [name for name, column in frame.items() if len(column) and isinstance(column.iloc[0], list)]
    texts = {str(name): [_json(value) for value in frame[name]] for name in lists}
    # As objects, because the string type of pandas cannot hold lone surrogates.
    return frame.assign(**{name: pd.Series(column, frame.index, dtype=object) for name, column in texts.items()})


def neutral(frame: pd.DataFrame) -> pd.DataFrame:
    """Change names and texts so that none is a formula for a spreadsheet and all is visible; numbers stay."""
    columns = [_safe(column) if _texts(column) else column.array for _, column in frame.items()]
    # Two names may now look the same; each keeps its column.
    return pd.DataFrame(dict(enumerate(columns)), copy=False).set_axis([cell(name) for name in frame.columns], axis=1)


def cell(value: Any) -> Any:
    r"""Make one text harmless: add an apostrophe before a formula, and write out invisible characters.

    Also before a formula after a semicolon, comma, tab or line break, where a spreadsheet may split the text.
    """
    if not isinstance(value, str):
        return value
    text = _WITHIN.sub(r"\1'", visible(value, keep=LINES))
    return f"'{text}" if text.startswith(RISKY) else text


def _json(value: Any) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False))


def _safe(column: Any) -> pd.Series[Any]:
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
    # pandas writes this into the metadata of the file.
    frame.attrs = {"notice": NOTICE}
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
    """Return a run and all its findings as JSON in ASCII; other characters are escaped."""
    return json.dumps(document(run), allow_nan=False) + "\n"


def document(run: Run) -> dict[str, Any]:
    """Return a run as values of JSON."""
    values = run.to_dict()
    del values["findings"]
    return {
        "notice": NOTICE,
        "format": "evenhand-run",
        "version": VERSION,
        **to_plain(values),
        "about": run.about.to_dict(),
        "found": run.found,
        "pairs": [pair.to_dict() for pair in select_pairs(run, PAIRS_IN_JSON, show=REAL)],
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


def to_markdown(run: Run, show: str = SYNTHETIC) -> str:
    """Return a run's verdict, counts and a few pairs as Markdown.

    User text is escaped within blocks of HTML, where Markdown has no effect, and within ``<code>``, where services do
    not create links or mentions.
    """
    facts = {
        "model": run.identity.model,
        "protected": ", ".join(run.space.protected),
        "search": f"{run.identity.search}, seed {run.identity.seed}, {run.identity.criterion}",
        "tests": f"{run.tests:,}",
        "findings": confirmation(run),
        "ended": f"because {run.ended}",
    }
    if run.note is not None:
        facts["note"] = run.note
    parts = [f"### evenhand: {_head(run)}"]
    if run.found:
        how = ": `evenhand estimate` measures that" if run.space.supports("attributes") else ""
        parts.append(f"Findings per test measure the search, not how common discrimination is{how}.")
    parts.append(_table([[name, plain(value)] for name, value in facts.items()]))
    parts += [_pair(pair) for pair in select_pairs(run, PAIRS_IN_MARKDOWN, show=show)]
    return "\n\n".join(parts) + "\n"


def _head(run: Run) -> str:
    """State what was found, and that findings are not real people."""
    noun = run.space.noun
    if run.unsteady is not None:
        return UNKNOWN
    if not run.found:
        return f"no {noun} was found to be treated differently"
    found = "1 finding" if run.found == 1 else f"{run.found:,} findings"
    one = f"a{'n' * (noun[0] in 'aeiou')} {noun}" if run.found == 1 else f"{noun}s"
    who = f"{one} that the search generated"
    if run.identity.data:
        # Searches that start from data also test some of its rows unchanged.
        who += ", or took from the data"
    return f"{found} ({who}) in {run.tests:,} {'test' if run.tests == 1 else 'tests'}"


def confirmation(run: Run) -> str:
    """State how many findings there are, and how many of them are confirmed."""
    if not run.doubts:
        return f"{run.found:,}, all confirmed by querying again" if run.found else "0"
    which = "all" if run.confirmed == run.found else f"of which {run.confirmed:,}"
    return "; ".join([f"{run.found:,}, {which} confirmed by querying again" if run.found else "0", *run.doubts])


def _pair(pair: Pair) -> str:
    decisions = ["decision", outcome(pair.decision), outcome(pair.counterpart_decision)]
    rows = [["", f"this {pair.noun}", f"the same {pair.noun}"], *map(list, pair.lines), decisions]
    return _table(rows, {*map(plain, pair.changes), "decision"} if pair.pieces is None else {"decision"})


def _table(rows: list[list[str]], strong: set[str] | None = None) -> str:
    # No empty lines, because they would end the block of HTML.
    lines = []
    for name, *values in rows:
        cells = [f"<code>{escape(value)}</code>" for value in values]
        if strong and name in strong:
            cells = [f"<b>{cell}</b>" for cell in cells]
        label = escape(name) if strong is None or not name else f"<code>{escape(name)}</code>"
        lines.append(f"<tr><th>{label}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return "\n".join(["<table>", *lines, "</table>"])


MEANING = (
    "The model's decision changes if only the protected attribute changes. Whether that is unlawful or justified is a "
    "human decision."
)


UNKNOWN = "the model's answers are not reproducible, so it is unknown whether it treats people differently"


def to_junit(run: Run, max_findings: int, show: str = SYNTHETIC) -> str:
    """Return a run as a test suite: one failed case for each of the first findings, or one passed case.

    A model whose answers are not reproducible is an error, and a run that was interrupted without findings is skipped.
    """
    name = plain(f"{run.identity.model} by {', '.join(run.space.protected)}")
    pairs = shown_pairs(run, np.arange(min(run.found, max_findings)), show)
    cases, errors = [_case(number, pair, name) for number, pair in enumerate(pairs, 1)], int(run.unsteady is not None)
    if errors:
        cases.append(_unsteady(run, name))
    elif not cases:
        cases.append(_passed(run, name))
    facts = {
        "strategy": run.identity.search,
        "seed": run.identity.seed,
        "criterion": run.identity.criterion,
        "tests judged": run.tests,
        "findings": run.found,
        "findings confirmed": run.confirmed,
        "findings refuted": run.refuted,
        "findings listed": len(pairs),
        "evenhand": run.versions.get("evenhand", ""),
    }
    if run.note is not None:
        facts["note"] = run.note
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<testsuites>",
        f'<testsuite name={quoteattr(name)} package="evenhand" id="0" timestamp="{_when(run)}" hostname="localhost" '
        f'tests="{len(cases)}" failures="{len(pairs)}" errors="{errors}" time="{run.seconds:.3f}">',
        "<properties>",
        *(f"<property name={quoteattr(key)} value={quoteattr(plain(value))}/>" for key, value in facts.items()),
        "</properties>",
        *cases,
        f"<system-out>{escape(plain(_summary(run, len(pairs))), quote=False)}</system-out>",
        "<system-err/>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(number: int, pair: Pair, suite: str) -> str:
    text = visible(pair.sentence)
    title = f"finding {number}: {pair.swapped} must not matter"
    return (
        f'<testcase name={quoteattr(title)} classname={quoteattr(suite)} time="0">'
        f'<failure type="unequal treatment" message={quoteattr(text)}>{escape(text, quote=False)}</failure></testcase>'
    )


def _unsteady(run: Run, suite: str) -> str:
    why = quoteattr(visible(run.unsteady or ""))
    return (
        f'<testcase name="answers are reproducible" classname={quoteattr(suite)} time="{run.seconds:.3f}">'
        f'<error type="FlakyModel" message={why}>{escape(UNKNOWN, quote=False)}</error></testcase>'
    )


def _passed(run: Run, suite: str) -> str:
    title = f"no difference found in {run.tests:,} tests"
    skipped = '<skipped message="interrupted"/>' if run.stop is StopReason.INTERRUPTED else ""
    return f'<testcase name="{title}" classname={quoteattr(suite)} time="{run.seconds:.3f}">{skipped}</testcase>'


def _summary(run: Run, listed: int) -> str:
    return f"{run!r}. {listed:,} of {run.found:,} findings are listed here."


def _when(run: Run) -> str:
    """When the run began; for runs of earlier versions, which do not say it, when they ended or now."""
    try:
        moment = datetime.fromisoformat(run.about.started or "")
    except ValueError:
        try:
            assert run.directory is not None
            moment = datetime.fromtimestamp((run.directory / RESULT).stat().st_mtime, UTC)
        except (AssertionError, OSError):
            moment = datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def to_sarif(run: Run, max_findings: int, artifact: str | None = None, show: str = SYNTHETIC) -> str:
    """Return a run as a SARIF log in ASCII, with its first findings and the number of all."""
    at = np.arange(min(run.found, max_findings))
    pairs = shown_pairs(run, at, show)
    broken = [f"unequal-treatment/{pair.broken}" for pair in pairs]
    rules = sorted(set(broken))
    place = None if artifact is None else {"artifactLocation": {"uri": _uri(artifact)}, "region": {"startLine": 1}}
    log = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "evenhand", "version": __version__, "rules": [_described(r) for r in rules]}
                },
                "invocations": [_invocation(run, len(pairs))],
                "results": [
                    _result(*it, rules, place)
                    for it in zip(pairs, map(_fingerprint, pairs_at(run.pairs, at)), broken, strict=True)
                ],
                "properties": {
                    "findings": run.found,
                    "confirmed": run.confirmed,
                    "refuted": run.refuted,
                    "listed": len(pairs),
                    "tests": run.tests,
                },
            }
        ],
    }
    return json.dumps(log, allow_nan=False) + "\n"


def _described(rule: str) -> dict[str, Any]:
    names = rule.partition("/")[2]
    return {
        "id": rule,
        "name": "UnequalTreatment",
        "shortDescription": {"text": f"A change of {names} alone changes the decision"},
        "fullDescription": {"text": MEANING},
        "defaultConfiguration": {"level": "warning"},
    }


def _fingerprint(pair: Pair) -> str:
    return hashlib.sha256(json.dumps(pair.shared).encode()).hexdigest()[:32]


def _result(pair: Pair, fingerprint: str, rule: str, rules: list[str], place: dict[str, Any] | None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"name": "individual", "fullyQualifiedName": visible(pair.who), "kind": "object"}]
    }
    if place is not None:
        location["physicalLocation"] = place
    return {
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": "warning",
        "message": {"text": visible(pair.sentence)},
        "locations": [location],
        "partialFingerprints": {"individual/v1": fingerprint},
        "properties": {key: value for key, value in pair.to_dict().items() if key != "sentence"},
    }


def _invocation(run: Run, listed: int) -> dict[str, Any]:
    steady = run.unsteady is None
    note = {"level": "note" if steady else "error", "message": {"text": plain(_summary(run, listed))}}
    return {"executionSuccessful": steady, "toolExecutionNotifications": [note]}


def _uri(artifact: str) -> str:
    path = PurePath(artifact)
    if path.is_absolute() or ".." in path.parts or "\\" in artifact or not path.parts:
        raise RunError(
            "must be a path within the repository", parameter="artifact", value=artifact, remedy="use 'evenhand.toml'"
        )
    return quote(path.as_posix(), errors="surrogatepass")
