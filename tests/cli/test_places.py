"""Wrong values name the flag, or the file and key; the settings of a file are used."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evenhand.config.file import read
from tests.cli.conftest import MODELS, Command


@pytest.fixture
def config(people: Path, tmp_path: Path) -> Any:
    """Write a file for the people that says something more."""

    def write(more: str = "") -> Path:
        path = tmp_path / "evenhand.toml"
        tables = {"model": {"path": f"{MODELS}:refuse"}, "data": {"path": people.name, "target": "paid"}}
        tables["space"] = {"protected": ["sex"]}
        added = tomllib.loads(more)
        for name, table in added.items():
            tables[name] = tables.get(name, {}) | table
        lines = [
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
            for name, table in tables.items()
        ]
        path.write_text("\n".join(lines))
        return path

    return write


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("audit", "[audit]\nsede = 1", ["unknown key 'audit.sede'", "did you mean 'seed'"]),
        ("audit", "[audit]\nqqq = 1", ["unknown key 'audit.qqq'", "'strategy', 'settings'", "'findings'"]),
        ("audit", "[exprot]\nmost = 1", ["unknown table [exprot]", "'export'"]),
        ("audit", "[zzz]\nmost = 1", ["unknown table [zzz]", "'model', 'data'"]),
        ("audit", "[audit]\nseed = 'x'", ["audit.seed", "'x'"]),
        ("audit", "[audit]\nseed = -1", ["audit.seed", "-1"]),
        ("audit", "[audit]\nchunk = 1", ["audit.chunk", "at least 2"]),
        ("audit", "[audit]\ncriterion = -1.0", ["audit.criterion", "at least 0", "-1.0"]),
        ("audit", "[audit]\nstrategy = 'magic'", ["audit.strategy", "magic", "kosei"]),
        ("audit", "[audit]\nfail_above = -1", ["audit.fail_above", "-1", "fail_on_finding"]),
        ("audit", "[audit]\nfail_above = '5'", ["audit.fail_above", "5", "fail_on_finding"]),
        ("audit", "[report]\nfavourable = 'x'", ["unknown key 'report.favourable'", "favourable is in [estimate]"]),
        ("audit", "[compare]\nseed = 1", ["unknown key 'compare.seed'", "seed is in [audit]"]),
        ("audit", "[replay]\nmodel = 'm'", ["unknown key 'replay.model'", "model is path in [model]"]),
        ("audit", "[audit]\ntarget = 'y'", ["unknown key 'audit.target'", "target is in [data]"]),
        ("audit", "[report]\nexamples = 0", ["report.examples", "1, got 0"]),
        ("audit", "[report]\nsamples = 99", ["report.samples", "100, got 99"]),
        ("audit", "[audit]\nfindings = 3", ["audit.findings", "3"]),
        ("audit", "[budget]\ntests = 0", ["budget.tests", "at least 1"]),
        ("audit", "[model]\ntimeout = 0.0", ["model.timeout"]),
        ("audit", "[model]\ntrust_pickle = true", ["unknown key 'model.trust_pickle'"]),
        ("estimate", "[estimate]\nconfidence = 2.0", ["estimate.confidence", "below 1"]),
        ("estimate", "[estimate]\nhalf_width = 2.0", ["estimate.half_width", "below 0.5"]),
        ("estimate", "[estimate]\nfail_above = '5'", ["estimate.fail_above", "percentage"]),
        ("estimate", "[estimate]\nfail_above = 5", ["estimate.fail_above", "5"]),
        ("estimate", "[estimate]\npopulation = 'all'", ["estimate.population", "'near'"]),
        ("repair", "[repair]\nmethods = ['magic']", ["repair.methods", "magic"]),
        ("repair", "[repair]\ncheck = 'magic'", ["repair.check", "magic"]),
        ("repair", "[repair]\nsamples = 0", ["repair.samples"]),
        ("audit", "[data]\npath = 'nope.csv'", ["data.path", "nope.csv", "no such file"]),
        ("audit", "[model]\npath = 'nope.skops'", ["model.path", "nope.skops"]),
        ("audit", "[model]\npath = 'nope:nothing'", ["model.path", "nope"]),
        ("audit", "[space]\nprotected = ['sexx']", ["space.protected", "no column 'sexx'", "did you mean 'sex'"]),
        ("audit", "[space]\nexclude = ['wrk']", ["space.exclude", "no column 'wrk'", "did you mean 'work'"]),
        ("audit", "[space]\npath = 'nope.toml'", ["space.path", "nope.toml", "no such file"]),
        ("audit", "[data]\ntarget = 'nope'", ["data.target", "no column 'nope'"]),
        ("audit", "[audit]\nreport = 'nowhere/x.html'", ["audit.report", "a folder that exists"]),
        ("audit", "[audit]\nfindings = 'nowhere/x.csv'", ["audit.findings", "a folder that exists"]),
        (
            "audit",
            "[audit]\nfindings = 'x.doc'",
            ["audit.findings", "x.doc", "unknown file extension", "use one of .json"],
        ),
        (
            "estimate",
            "[estimate]\nfavourable = 'gut'",
            ["estimate.favourable must be", "'gut'", "'granted'"],
        ),
        ("estimate", "[estimate]\nplots = 'people.csv'", ["estimate.plots", "must be a folder"]),
        ("repair", "[data]\npath = 'nope.csv'", ["data.path", "nope.csv"]),
        ("repair", "[repair]\nsave = 'x.doc'", ["repair.save", "x.doc", ".skops"]),
        ("repair", "[repair]\nplot = 'nowhere/x.svg'", ["repair.plot", "a folder that exists"]),
    ],
)
def test_wrong_values_are_refused_by_file_and_key(
    evenhand: Command, refused: Command, config: Any, command: str, text: str, words: list[str]
) -> None:
    told = refused(evenhand(command, config(text)), "evenhand.toml", *words)
    assert "--" not in told


def test_errors_about_flags_do_not_name_the_file(evenhand: Command, refused: Command, config: Any) -> None:
    path = config("[budget]\nrows = 9\n[audit]\nseed = 3")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--seed", 0, "--budget-tests", 0), "tests")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--seed", -2), "seed", "-2")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--fail-above", "-1"), "percentage")
    assert read(config("[audit]\nseed = 3"), {"audit": {"seed": 0}}).audit.seed == 0
    assert "evenhand.toml" in refused(evenhand("audit", config("[audit]\nseed = -1"), "--chunk", 9), "seed", "-1")


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        ("audit", ["--data", "nope.csv"], ["--data: nope.csv", "no such file"]),
        ("audit", ["--model", "nope.skops"], ["--model: nope.skops"]),
        ("audit", ["--protected", "sexx"], ["--protected: no column 'sexx'"]),
        ("audit", ["--target", "nope"], ["--target: no column 'nope'"]),
        ("audit", ["--report", "nowhere/x.html"], ["--report: nowhere/x.html"]),
        ("audit", ["--findings", "x.doc"], ["--findings: x.doc"]),
        ("audit", ["--occurrences", "some", "--texts", "t.txt"], ["--occurrences must be 'each' or 'together'"]),
        ("estimate", ["--favourable", "gut"], ["evenhand: --favourable must be a decision of refuse, got 'gut'"]),
        ("repair", ["--save", "x.doc"], ["--save: x.doc"]),
    ],
)
def test_wrong_flags_are_refused_by_their_names(
    evenhand: Command, refused: Command, config: Any, command: str, flags: list[str], words: list[str]
) -> None:
    path = config()
    if "--texts" in flags:
        path.write_text("")
    assert "the flags" not in refused(evenhand(command, path, *flags), *words)


def test_a_place_that_cannot_be_written_is_found_before_the_search(
    evenhand: Command, refused: Command, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    monkeypatch.setattr("evenhand.runs.audit.audit", None)
    refused(evenhand("audit", config("[audit]\nfindings = 'f.csv'")), "audit.findings", "Permission denied")
    refused(evenhand("audit", config(), "--report", "x.html"), "--report: x.html", "Permission denied")


def test_files_of_an_audit_and_an_estimate(evenhand: Command, config: Any, tmp_path: Path) -> None:
    path = config("[audit]\nfindings = 'f.csv'\nreport = 'p.html'\nfail_on_finding = true\ndirectory = 'run'")
    assert evenhand("audit", path, "--quiet").exit_code == 1
    assert pd.read_csv(tmp_path / "f.csv").shape[0] == 930
    assert (tmp_path / "p.html").exists()
    path = config(
        "[estimate]\nfavourable = 'granted'\ngroups = true\nplots = 'plots'\nfail_above = '1%'\npopulation='data'"
    )
    path.write_text(path.read_text().replace('target = "paid"', "").replace("[space]", '[space]\nexclude = ["paid"]'))
    done = evenhand("estimate", path, "--json")
    assert done.exit_code in (1, 3), done.output
    assert json.loads(done.stdout)["groups"] is not None
    assert list((tmp_path / "plots").iterdir())


def test_kept_runs_by_a_file(evenhand: Command, refused: Command, config: Any, tmp_path: Path) -> None:
    more = """
[audit]
directory = "run"
strategy = "themis"
[export]
max_findings = 2
artifact = "model.py"
[bundle]
output = "evidence.zip"
no_data = true
[compare]
model_a = "tests.cli.models:refuse"
model_b = "tests.cli.models:refuse"
fail_on_new = true
[replay]
list = "list.csv"
"""
    path, run = config(more), tmp_path / "run"
    assert evenhand("audit", path, "--quiet").exit_code == 0
    assert evenhand("export", run, tmp_path / "a.sarif", "--config", path).exit_code == 0
    (told,) = json.loads((tmp_path / "a.sarif").read_text())["runs"]
    assert len(told["results"]) == 2
    assert evenhand("export", run, tmp_path / "a.sarif", "--config", path, "--max-findings", 3).exit_code == 0
    assert len(json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]) == 3
    done = evenhand("bundle", run, "--config", path)
    assert (done.exit_code, "(left out)" in done.stdout) == (0, True), done.output
    done = evenhand("replay", tmp_path / "evidence.zip", "--config", path)
    assert (done.exit_code, "findings confirmed, 0 not" in done.stdout) == (0, True), done.output
    assert set(pd.read_csv(tmp_path / "list.csv")["holds"]) == {"yes"}
    assert evenhand("replay", run, "--config", path).exit_code == 0
    done = evenhand("compare", run, run, "--config", path, "--json")
    assert (done.exit_code, json.loads(done.stdout)["fail_on_new"]) == (0, True), done.output
    wrong = config("[export]\nformat = 'docx'\n[compare]\nconfidence = 3.0\n[replay]\ndigets = 'x'")
    refused(evenhand("replay", run, "--config", wrong), "evenhand.toml", "replay.digets", "'digest'")
    wrong = config("[export]\nformat = 'docx'")
    refused(evenhand("export", run, tmp_path / "a.json", "--config", wrong), "evenhand.toml", "export.format", "'docx'")
    wrong = config("[compare]\nconfidence = 3.0")
    refused(evenhand("compare", run, run, "--config", wrong), "evenhand.toml", "compare.confidence", "3.0")
