from __future__ import annotations

import json
from pathlib import Path

import pytest

import evenhand as eh
from tests.cli.conftest import MODELS, PEOPLE, Command
from tests.cli.models import refuse
from tests.reports.page import Page


def test_coverage_is_shown_with_the_findings(audit: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = audit("refuse", "--strategy", "themis", "--coverage", "--report", page)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert "coverage 3 of 3 leaves (100%) of a surrogate tree with 100% agreement" in text
    assert "has 3 leaves; the tests reached 3 of 3" in Page(page.read_text()).text


def test_coverage_is_off_by_default(audit: Command) -> None:
    assert "coverage" not in audit("refuse").stdout
    assert json.loads(audit("refuse", "--json").stdout)["coverage"] is None


def test_coverage_is_kept_with_the_run(audit: Command, tmp_path: Path) -> None:
    kept = ["--strategy", "themis", "--directory", tmp_path / "run", "--coverage", "--json"]
    values = json.loads(audit("refuse", "--budget-tests", 100, *kept).stdout)["coverage"]
    assert values["tests"] == 100
    assert json.loads((tmp_path / "run" / "coverage.json").read_text()) == values
    assert eh.coverage(eh.Run.load(tmp_path / "run"), refuse).to_dict() == values
    # The same command again reads the finished run; a larger budget extends it.
    assert json.loads(audit("refuse", "--budget-tests", 100, *kept).stdout)["coverage"] == values
    assert json.loads(audit("refuse", "--budget-tests", 200, *kept).stdout)["coverage"]["tests"] == 200


def test_a_file_can_turn_coverage_on(evenhand: Command, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    config = tmp_path / "evenhand.toml"
    config.write_text(
        f'[model]\npath = "{MODELS}:refuse"\n[data]\npath = "people.csv"\ntarget = "paid"\n'
        '[space]\nprotected = ["sex"]\n[audit]\ncoverage = true\n'
    )
    assert json.loads(evenhand("audit", config, "--json").stdout)["coverage"]["leaves"] == 3


def test_failed_coverage_loses_nothing(audit: Command, tmp_path: Path) -> None:
    done = audit("score", "--gamma", 0.05, "--coverage", "--json", "--fail-on-finding", "--directory", tmp_path / "run")
    assert done.exit_code == 1
    values = json.loads(done.stdout)
    assert (values["coverage"], values["success_rate"]) == (None, 1)
    assert "--threshold" in done.stderr
    assert "coverage was not measured" in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert not (tmp_path / "run" / "coverage.json").exists()


def test_an_interrupted_coverage_loses_nothing(audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: eh.Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.cli.audit.coverage", interrupted)
    done = audit("refuse", "--strategy", "themis", "--coverage", "--json")
    assert (done.exit_code, json.loads(done.stdout)["findings"]) == (0, 930)
    assert "interrupted; coverage was not measured" in done.stderr
