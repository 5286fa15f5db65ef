"""Export formats; findings as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import evenhand as eh
from evenhand.errors import RunError
from evenhand.runs.exports import FORMATS, RISKY, cell, write_csv, write_parquet
from tests.helpers import needs_dev_full, optional
from tests.runs.hostile import runs, seen, texts, unguarded

SPACE = eh.Space([eh.Integer("age", 1, 50), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] < 10) & (frame["sex"] == "F")


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(refuse, SPACE, "themis")


@pytest.mark.parametrize(("name", "ending"), FORMATS.items())
def test_the_ending_selects_the_format(run: eh.Run, tmp_path: Path, name: str, ending: str) -> None:
    by_ending = eh.export(run, tmp_path / f"out{ending.upper()}")
    by_name = eh.export(run, tmp_path / "out.bin", format=name)
    if name != "junit":  # which has the time in it
        assert by_ending.read_bytes() == by_name.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {f"out{ending.upper()}", "out.bin"}


def test_wrong_arguments(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="unknown file extension"):
        eh.export(run, tmp_path / "out.docx")
    with pytest.raises(RunError, match="got 'docx'"):
        eh.export(run, tmp_path / "out.csv", "docx")
    with pytest.raises(RunError, match="max_findings must be"):
        eh.export(run, tmp_path / "out.xml", max_findings=0)
    for wrong in (None, "run", [run]):
        with pytest.raises(RunError, match=r"run must be an eh\.Run, got"):
            eh.export(wrong, tmp_path / "out.csv")  # type: ignore[arg-type]
    for place in ("/etc/passwd", "../x", "", "a\\b"):
        with pytest.raises(RunError, match="artifact"):
            eh.export(run, tmp_path / "out.sarif", artifact=place)
    with pytest.raises(RunError, match="cannot write"):
        eh.export(run, tmp_path / "gone" / "out.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a\0", "a\ud800"])
def test_an_invalid_file_name_is_reported(run: eh.Run, tmp_path: Path, name: str) -> None:
    kept = eh.audit(refuse, SPACE, "themis", directory=tmp_path / "run")
    for write in (lambda: eh.export(run, f"{name}.csv"), lambda: eh.bundle(kept, f"{name}.zip")):
        with pytest.raises(RunError, match=r"cannot write(?s:.*)check the path"):
            write()


@needs_dev_full
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_is_reported(run: eh.Run, format: str) -> None:
    with pytest.raises(RunError, match="No space left"):
        eh.export(run, "/dev/full", format)


def test_a_file_that_cannot_be_finished_leaves_the_old_one(run: eh.Run, tmp_path: Path) -> None:
    from evenhand.runs.exports import write

    (tmp_path / "old.csv").write_text("old")

    def fill(file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError):
        write(tmp_path / "old.csv", fill)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path: Path) -> None:
    space = eh.Space([eh.Nominal("a", ["\ud800", "b"], dtype="object"), eh.Boolean("c")], protected="c")
    run = eh.audit(lambda f: np.where(f["c"], "\ud83d", "no").astype(object), space, "themis")
    for name, ending in FORMATS.items():
        path = eh.export(run, tmp_path / f"x{ending}")
        if name != "parquet":
            assert "\\ud800" in path.read_text("utf-8")
            assert "\\ud83d" in path.read_text("utf-8")


def rows_of(run: eh.Run, raw: bool = False) -> list[list[str]]:
    file = io.BytesIO()
    write_csv(run, file, raw)
    return list(csv.reader(io.StringIO(file.getvalue().decode("utf-8"), newline="")))


def cells(run: eh.Run) -> list[list[str]]:
    frame = run.findings
    return [list(frame.columns), *([str(v) for v in row] for row in frame.astype(object).to_numpy())]


@settings(max_examples=25)
@given(runs())
def test_cells_are_never_formulas_and_values_stay_visible(run: eh.Run) -> None:
    got, wanted = rows_of(run), cells(run)
    assert len(got) == len(wanted) == run.found + 1
    assert not any(value.startswith(RISKY[:-1]) for row in got for value in row)
    assert [[unguarded(value) for value in row] for row in got] == [[seen(v) for v in row] for row in wanted]
    assert rows_of(run, raw=True) == wanted


@given(texts)
def test_safe_cells_keep_their_visible_text(text: str) -> None:
    assert not cell(text).startswith(RISKY[:-1])
    assert unguarded(cell(text)) == seen(text)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@settings(max_examples=15)
@given(run=runs())
def test_no_cell_is_a_formula_whatever_separates(separator: str, run: eh.Run) -> None:
    file = io.BytesIO()
    write_csv(run, file)
    read = csv.reader(io.StringIO(file.getvalue().decode("utf-8"), newline=""), delimiter=separator)
    signs = tuple(sign for sign in RISKY[:-1] if sign.strip())
    assert not any(value.startswith(signs) for row in read for value in row)


def test_a_text_is_one_cell_also_where_semicolons_separate() -> None:
    space = eh.Space([eh.Nominal("job;title", ["a;b", "c\td"]), eh.Nominal("sex", ["F", "M"])], protected="sex")
    file = io.BytesIO()
    write_csv(eh.audit(lambda f: f["sex"] == "F", space, "themis"), file)
    lines = file.getvalue().decode().split("\r\n")
    assert lines[0].startswith('"job;title","sex"')
    assert all(line.startswith(('"a;b","', '"c\td","')) for line in lines[1:-1])


def test_no_column_is_lost_where_two_names_look_alike() -> None:
    names = ["a\u200b", "a\\u200b", "\ufeff"]
    space = eh.Space([eh.Nominal(name, ["x", f"y{chr(0)}"]) for name in names], protected="\ufeff")
    got = rows_of(eh.audit(lambda f: f["\ufeff"] == "x", space, "themis"))
    assert got[0][:4] == ["a\\u200b", "a\\u200b", "\\ufeff", "counterpart_\\ufeff"]
    assert len(got[0]) == 8
    assert {value for row in got[1:] for value in row[:3]} == {"x", "y\\x00"}


def test_numbers_and_missing_values_are_unchanged() -> None:
    space = eh.Space([eh.Integer("n", -2, 2, missing=True), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda f: f["sex"] == "F", space, "themis")
    got = {row[0] for row in rows_of(run)[1:]}
    assert {float(v) for v in got if v} == {-2, -1, 0, 1, 2}
    assert "" in got


@settings(max_examples=25)
@given(runs())
def test_parquet_has_every_value(run: eh.Run) -> None:
    optional("pyarrow")
    file = io.BytesIO()
    write_parquet(run, file)
    file.seek(0)
    back = pd.read_parquet(file)
    assert list(back.columns) == list(run.findings.columns)
    assert back.astype(object).to_numpy().tolist() == run.findings.astype(object).to_numpy().tolist()


def test_parquet_of_mixed_decisions_and_of_nothing(tmp_path: Path) -> None:
    optional("pyarrow")
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")

    def mixed(frame: Any) -> Any:
        return np.array([1, "one"], dtype=object)[np.asarray(frame["member"]).astype(int)]

    eh.export(eh.audit(mixed, space, "themis"), tmp_path / "x.parquet")
    assert set(pd.read_parquet(tmp_path / "x.parquet")["decision"]) <= {"1", "one"}
    eh.export(eh.audit(lambda f: f["age"] > 3, space, "themis"), tmp_path / "x.parquet")
    assert len(pd.read_parquet(tmp_path / "x.parquet")) == 0


def test_parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    run = eh.audit(lambda f: f["member"], space, "themis")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(eh.errors.MissingExtra, match=r"evenhand\[parquet\]"):
        eh.export(run, tmp_path / "x.parquet")
