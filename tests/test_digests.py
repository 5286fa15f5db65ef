"""Results match recorded ones: a fast part of ``python -m benchmarks.digests``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import digests, entered, imports

import evenhand as eh

FAST = (
    "^(strategies|groups|resume|search/(themis|kosei) (people|linked|huge)|search/text-random|estimate/(data|exact)$)"
)


@pytest.mark.slow
def test_results_match_the_recorded_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert digests.main(["--only", FAST]) == 0, capsys.readouterr().out
    assert int(capsys.readouterr().out.split()[0]) > 50


def test_every_group_is_recorded() -> None:
    recorded = json.loads(digests.RECORDED.read_text())
    assert list(recorded) == sorted(recorded)
    missing = set(digests.GROUPS) - {digests.in_group(item) for item in recorded}
    assert not missing, f"record them: python -m benchmarks.digests --write --only, of {sorted(missing)}"


def test_differences_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(digests, "RECORDED", tmp_path / "digests.json")
    digests.main(["--write", "--only", "strategies"])
    recorded = json.loads((tmp_path / "digests.json").read_text())
    digests.write(recorded | {"strategies/kosei": "0" * 16, "strategies/old": "0" * 16}, tmp_path / "digests.json")
    capsys.readouterr()
    assert digests.main(["--only", "strategies"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["differs: strategies/kosei", "gone: strategies/old"]


def test_imports_are_measured(tmp_path: Path) -> None:
    imports.main(["--rounds", "1", "--only", "import evenhand", "--out", str(tmp_path / "imports.json")])
    (row,) = json.loads((tmp_path / "imports.json").read_text())["processes"].values()
    assert row["modules"] > 50
    assert 0 < row["cpu_seconds"] < 60


def test_files_are_entered_by_calls_of_their_functions() -> None:
    calls = entered.trace(lambda: eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member"))
    assert calls["spaces/tabular.py"] > 0
    assert "engine/oracle.py" not in calls
