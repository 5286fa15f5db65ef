from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import RunError
from evenhand.runs.exports import FORMATS
from tests.helpers import needs_dev_full

SPACE = eh.Space([eh.Integer("age", 1, 50), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] < 10) & (frame["sex"] == "F")


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(refuse, SPACE, "themis")


@pytest.mark.parametrize(("name", "ending"), FORMATS.items())
def test_the_ending_says_the_format(run: eh.Run, tmp_path: Path, name: str, ending: str) -> None:
    by_ending = eh.export(run, tmp_path / f"out{ending.upper()}")
    by_name = eh.export(run, tmp_path / "out.bin", format=name)
    if name != "junit":  # which has the time in it
        assert by_ending.read_bytes() == by_name.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {f"out{ending.upper()}", "out.bin"}


def test_wrong_arguments(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="names no format"):
        eh.export(run, tmp_path / "out.docx")
    with pytest.raises(RunError, match="no format 'docx'"):
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
def test_a_name_that_no_file_can_have_is_said(run: eh.Run, tmp_path: Path, name: str) -> None:
    kept = eh.audit(refuse, SPACE, "themis", directory=tmp_path / "run")
    for write in (lambda: eh.export(run, f"{name}.csv"), lambda: eh.bundle(kept, f"{name}.zip")):
        with pytest.raises(RunError, match=r"cannot write(?s:.*)check the path"):
            write()


@needs_dev_full
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_is_said(run: eh.Run, format: str) -> None:
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
