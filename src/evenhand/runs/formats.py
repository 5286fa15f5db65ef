"""The entry: from a run and a file's name to the format that is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenhand._validate import check_int
from evenhand._write import advice, reason, replacing
from evenhand.engine.store import as_path
from evenhand.errors import RunError, Use

if TYPE_CHECKING:
    from evenhand.runs.run import Run

FORMATS = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "junit": ".xml", "sarif": ".sarif", "markdown": ".md"}
"""Every format and the ending by which it is known."""
MAX_FINDINGS = 1_000
Writer = Callable[[IO[bytes]], None]


def export(
    run: Run,
    path: str | Path,
    format: str | None = None,
    *,
    max_findings: int = MAX_FINDINGS,
    raw: bool = False,
    artifact: str | None = None,
) -> Path:
    """Write a run, or its findings, for other programs to read.

    Parameters
    ----------
    run
        What ``audit`` returned, or ``Run.load`` read.
    path
        The file to write; its ending says in which format.
    format
        ``"json"``, ``"csv"``, ``"parquet"``, ``"junit"``, ``"sarif"`` or ``"markdown"``, whatever the ending.
    max_findings
        How many findings JUnit and SARIF list, at most; each file says how many there are. The other formats have all findings,
        Markdown a few.
    raw
        Of CSV: write cells as they are, also those that a spreadsheet would take for a formula, and characters that
        are not seen.
    artifact
        Of SARIF: the file, as the repository names it, at which the results are shown.

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
    from evenhand.runs.run import Run

    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")
    path = as_path(path, "path")
    check_int("max_findings", max_findings, RunError, 1)
    check_format(format)
    write(path, _writer(format or format_of(path), run, max_findings, raw, artifact))
    return path


def format_of(path: Path) -> str:
    """Tell the format by a file's ending.

    >>> format_of(Path("out/audit.sarif"))
    'sarif'
    """
    for name, ending in FORMATS.items():
        if path.name.lower().endswith(ending):
            return name
    named = Use(f"format={' or '.join(map(repr, FORMATS))}", "export.format")
    allowed = ", ".join(FORMATS.values())
    raise RunError(f"{path.name}: its ending names no format", remedy=(f"allowed: {allowed}; or name it: ", named))


def _writer(format: str, run: Run, most: int, raw: bool, artifact: str | None) -> Writer:
    if format == "csv":
        from evenhand.runs.csv import write_csv

        return lambda file: write_csv(run, file, raw)
    if format == "parquet":
        from evenhand.runs.parquet import write_parquet

        return lambda file: write_parquet(run, file)
    text = _text(format, run, most, artifact)
    return lambda file: _write_text(file, text)


def _text(format: str, run: Run, most: int, artifact: str | None) -> Any:
    if format == "json":
        from evenhand.runs.json import to_json

        return to_json(run)
    if format == "junit":
        from evenhand.runs.junit import to_junit

        return to_junit(run, most)
    if format == "sarif":
        from evenhand.runs.sarif import to_sarif

        return to_sarif(run, most, artifact)
    assert format == "markdown"
    from evenhand.runs.markdown import to_markdown

    return to_markdown(run)


def check_format(format: str | None) -> None:
    """Raise unless this is a format, or none.

    >>> check_format("sarif")
    """
    if format is not None and format not in FORMATS:
        raise RunError(f"there is no format {format!r}; allowed: {', '.join(FORMATS)}")


def _write_text(file: IO[bytes], text: str) -> None:
    file.write(text.encode("utf-8"))


def write(path: Path, fill: Writer) -> None:
    """Write a file about people so that a crash or a full disk leaves the old one or the new one."""
    try:
        with replacing(path) as file:
            fill(file)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}; {advice(error)}, or choose another place") from error
