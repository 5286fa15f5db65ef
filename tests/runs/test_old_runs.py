"""Runs that an earlier version has written can be read, replayed and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.digests import ANSWERS, KEPT, KEPT_FILES, KEPT_TESTS, MODELS, RUNS

import evenhand as eh

MORE = 450


@pytest.fixture(params=sorted(KEPT))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copy(name: str, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(RUNS / name, tmp_path / "old"))


def test_an_old_run_is_read(name: str, tmp_path: Path) -> None:
    old, now = eh.Run.load(RUNS / name), KEPT[name](tmp_path / "now", KEPT_TESTS[name])
    assert old.tests == KEPT_TESTS[name]
    assert old.stop is eh.StopReason.TESTS
    assert old.found > 50
    assert old.confirmed == old.found
    assert old.findings.equals(now.findings)
    assert (RUNS / name / ANSWERS).read_bytes() == (tmp_path / "now" / ANSWERS).read_bytes()


def test_an_old_run_is_resumed(name: str, copy: Path, tmp_path: Path) -> None:
    resumed, fresh = KEPT[name](copy, MORE), KEPT[name](tmp_path / "fresh", MORE)
    assert resumed.tests == fresh.tests == MORE
    assert resumed.counts["rows_from_log"] > 0
    assert resumed.findings.equals(fresh.findings)
    assert resumed.findings.head(eh.Run.load(RUNS / name).found).equals(eh.Run.load(RUNS / name).findings)
    assert (copy / ANSWERS).read_bytes() == (tmp_path / "fresh" / ANSWERS).read_bytes()


def test_an_old_run_is_replayed(name: str) -> None:
    again = eh.replay(RUNS / name, MODELS[name])
    assert again.holds
    # Which texts were asked first is known from the data alone.
    assert again.same_model is (None if name.startswith("text") else True)
    assert again.confirmed == eh.Run.load(RUNS / name).found


def test_kept_runs_are_small_and_name_no_machine() -> None:
    files = [file for file in RUNS.rglob("*") if file.is_file()]
    assert {file.name for file in files} <= set(KEPT_FILES)
    assert sum(file.stat().st_size for file in files) < 60_000
    for file in files:
        if file.suffix == ".json":
            assert not {"/home", "/work", "/tmp"} & set(json.dumps(json.loads(file.read_text())).split('"'))
