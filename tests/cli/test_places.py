"""The file can say what the options can: every option has a key, every key is checked, and ``init`` shows them all."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from evenhand.cli.app import app
from evenhand.cli.config import Config, read
from evenhand.cli.estimate import TAKEN
from evenhand.cli.places import NO_FILE, OWN, PLACES, said
from evenhand.cli.tables import MODELS as MODEL_KEYS
from evenhand.cli.tables import PATHS, TABLES
from tests.cli.conftest import MODELS, Command

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
KEYS = {f"{name}.{key}" for name, table in TABLES.items() for key in table.model_fields}
ONLY_IN_FILES = {
    "space.constraints", "space.limit", "text.protected", "text.avoid_protected", "text.agree",
    "text.limit",
}  # fmt: skip


def test_every_command_reads_a_file_or_says_why_not() -> None:
    assert set(PLACES) | set(NO_FILE) == set(COMMANDS)
    assert not set(PLACES) & set(NO_FILE)


@pytest.mark.parametrize("command", PLACES)
def test_every_option_has_a_key_or_a_reason_to_have_none(command: str) -> None:
    options = {option.name for option in COMMANDS[command].params} - {"help"}
    assert "config" in options
    assert options == set(PLACES[command]) | (options & set(OWN))
    assert not set(PLACES[command]) & set(OWN)
    assert set(PLACES[command].values()) <= KEYS


def test_every_key_is_of_use() -> None:
    assert {place for places in PLACES.values() for place in places.values()} | ONLY_IN_FILES == KEYS
    assert {*PATHS, *MODEL_KEYS} <= KEYS
    assert set(Config.model_fields) == set(TABLES)
    assert not [key for key in KEYS if "trust" in key or "pickle" in key]


def test_what_is_not_said_says_nothing() -> None:
    values = dict.fromkeys(PLACES["estimate"])
    assert said("estimate", values) == {}
    given = values | {"seed": 0, "exact": False, "groups": False, "plots": Path("p"), "protected": []}
    assert said("estimate", given) == {"audit": {"seed": 0}, "estimate": {"exact": False, "plots": "p"}}


def shown(text: str) -> dict[str, Any]:
    """What a file says with everything that is commented out."""
    lines = [re.sub(r"^# (?=[a-z_]+ = )", "", line) for line in text.splitlines()]
    return tomllib.loads("\n".join(lines))


def keys_of(tables: dict[str, Any]) -> set[str]:
    return {f"{name}.{key}" for name, table in tables.items() for key in table}


def test_init_shows_every_key_and_runs_as_it_is(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    given = ["init", people, "--protected", "sex", "--target", "paid", "--model", f"{MODELS}:refuse"]
    assert "evenhand audit" in evenhand(*given, "--output", output).stdout
    tables = shown(output.read_text())
    assert keys_of(tables) == {key for key in KEYS if not key.startswith("text.")}
    Config.model_validate(tables)
    for command, runs in (("audit", True), ("estimate", True)):
        done = evenhand(command, output, "--json")
        assert (done.exit_code == 0) is runs, done.output


def test_init_of_texts_shows_every_key_and_runs_as_it_is(evenhand: Command, tmp_path: Path) -> None:
    output, rows = tmp_path / "conf" / "e.toml", ("data.", "space.", "estimate.", "repair.", "compare.")
    output.parent.mkdir()
    (tmp_path / "said.txt").write_text("The Muslim family is loud.\nA Jew.\n")
    given = ["init", tmp_path / "said.txt", "--text", "--protected", "religion", "--model", f"{MODELS}:classify"]
    assert evenhand(*given, "--output", output).exit_code == 0
    tables = shown(output.read_text())
    texts = {key for key in KEYS if not key.startswith(rows)} | {f"estimate.{key}" for key in TAKEN}
    assert keys_of(tables) == texts - {"audit.coverage"}
    Config.model_validate(tables)
    assert json.loads(evenhand("audit", output, "--json").stdout)["findings"] == 1


def test_a_models_path_is_seen_from_the_file(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "conf" / "e.toml"
    output.parent.mkdir()
    evenhand("init", people, "--protected", "sex", "--model", tmp_path / "m.onnx", "--output", output)
    assert tomllib.loads(output.read_text())["model"]["path"] == "../m.onnx"


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
        ("audit", "[audit]\nqqq = 1", ["unknown key 'audit.qqq'", "allowed: strategy, settings", "findings, page"]),
        ("audit", "[exprot]\nmost = 1", ["unknown table [exprot]", "'export'"]),
        ("audit", "[zzz]\nmost = 1", ["unknown table [zzz]", "model, data", "report, replay"]),
        ("audit", "[audit]\nseed = 'x'", ["audit.seed", "'x'"]),
        ("audit", "[audit]\nseed = -1", ["[audit]", "seed", "-1"]),
        ("audit", "[audit]\nchunk = 1", ["[audit]", "chunk", "at least 2"]),
        ("audit", "[audit]\ncriterion = -1.0", ["[audit]", "gamma"]),
        ("audit", "[audit]\nstrategy = 'magic'", ["[audit]", "magic", "kosei"]),
        ("audit", "[audit]\nfail_above = -1", ["audit.fail_above", "-1"]),
        ("audit", "[audit]\nfail_above = '5%'", ["audit.fail_above", "5%", "evenhand estimate", "in [estimate]"]),
        ("audit", "[report]\nfavourable = 'x'", ["unknown key 'report.favourable'", "favourable is in [estimate]"]),
        ("audit", "[compare]\nseed = 1", ["unknown key 'compare.seed'", "seed is in [audit]"]),
        ("audit", "[replay]\nmodel = 'm'", ["unknown key 'replay.model'", "model is path in [model]"]),
        ("audit", "[audit]\ntarget = 'y'", ["unknown key 'audit.target'", "target is in [data]"]),
        ("audit", "[report]\ncases = 0", ["report.cases", "1, got 0"]),
        ("audit", "[report]\nsamples = 99", ["report.samples", "100, got 99"]),
        ("audit", "[audit]\nfindings = 3", ["audit.findings", "3"]),
        ("audit", "[budget]\ntests = 0", ["[budget]", "tests", "above 0"]),
        ("audit", "[model]\ntimeout = 0.0", ["[model]", "timeout"]),
        ("audit", "[model]\ntrust_pickle = true", ["unknown key 'model.trust_pickle'"]),
        ("estimate", "[estimate]\nconfidence = 2.0", ["[estimate]", "confidence", "below 1"]),
        ("estimate", "[estimate]\nhalf_width = 2.0", ["[estimate]", "half_width", "below 0.5"]),
        ("estimate", "[estimate]\nfail_above = '5'", ["[estimate]", "fail_above", "per cent"]),
        ("estimate", "[estimate]\nfail_above = 5", ["estimate.fail_above", "5"]),
        ("estimate", "[estimate]\npopulation = 'all'", ["[estimate]", "population", "'near'"]),
        ("repair", "[repair]\nmethods = ['magic']", ["[repair]", "magic"]),
        ("repair", "[repair]\ncheck = 'magic'", ["[repair]", "magic"]),
        ("repair", "[repair]\nsamples = 0", ["[repair]", "samples"]),
        ("audit", "[data]\npath = 'nope.csv'", ["data.path", "nope.csv", "no such file"]),
        ("audit", "[model]\npath = 'nope.skops'", ["model.path", "nope.skops"]),
        ("audit", "[model]\npath = 'nope:nothing'", ["model.path", "nope"]),
        ("audit", "[space]\nprotected = ['sexx']", ["space.protected", "no column 'sexx'", "did you mean 'sex'"]),
        ("audit", "[space]\nexclude = ['wrk']", ["space.exclude", "no column 'wrk'", "did you mean 'work'"]),
        ("audit", "[space]\npath = 'nope.toml'", ["space.path", "nope.toml", "no such file"]),
        ("audit", "[data]\ntarget = 'nope'", ["data.target", "no column 'nope'"]),
        ("audit", "[audit]\npage = 'nowhere/x.html'", ["audit.page", "a folder that exists"]),
        ("audit", "[audit]\nfindings = 'nowhere/x.csv'", ["audit.findings", "a folder that exists"]),
        ("audit", "[audit]\nfindings = 'x.doc'", ["audit.findings", "x.doc", "names no format; allowed: .json"]),
        ("estimate", "[estimate]\nfavourable = 'gut'", ["estimate.favourable", "'gut' is no decision", "'granted'"]),
        ("estimate", "[estimate]\nplots = 'people.csv'", ["[estimate]", "plots", "people.csv is a file"]),
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


def test_what_a_flag_says_is_not_blamed_on_the_file(evenhand: Command, refused: Command, config: Any) -> None:
    path = config("[budget]\nrows = 9\n[audit]\nseed = -1")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--seed", 0, "--budget-tests", 0), "tests")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--seed", -2), "seed", "-2")
    assert "evenhand.toml" in refused(evenhand("audit", path, "--chunk", 9), "seed", "-1")
    assert "evenhand.toml" not in refused(evenhand("audit", path, "--fail-above", "-1"), "0 or more")
    assert read(config("[audit]\nseed = 3"), {"audit": {"seed": 0}}).audit.seed == 0


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        ("audit", ["--data", "nope.csv"], ["--data: nope.csv", "no such file"]),
        ("audit", ["--model", "nope.skops"], ["--model: nope.skops"]),
        ("audit", ["--protected", "sexx"], ["--protected: no column 'sexx'"]),
        ("audit", ["--target", "nope"], ["--target: no column 'nope'"]),
        ("audit", ["--page", "nowhere/x.html"], ["--page: nowhere/x.html"]),
        ("audit", ["--findings", "x.doc"], ["--findings: x.doc"]),
        ("audit", ["--occurrences", "some", "--texts", "t.txt"], ["--occurrences must be 'each' or 'together'"]),
        ("estimate", ["--favourable", "gut"], ["evenhand: --favourable 'gut' is no decision"]),
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
    monkeypatch.setattr("evenhand.run.audit", None)
    refused(evenhand("audit", config("[audit]\nfindings = 'f.csv'")), "audit.findings", "Permission denied")
    refused(evenhand("audit", config(), "--page", "x.html"), "--page: x.html", "Permission denied")


def test_files_of_an_audit_and_an_estimate(evenhand: Command, config: Any, tmp_path: Path) -> None:
    path = config("[audit]\nfindings = 'f.csv'\npage = 'p.html'\nfail_above = 0\ndirectory = 'run'")
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
most = 2
artifact = "model.py"
[bundle]
output = "evidence.zip"
no_rows = true
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
    assert evenhand("export", run, tmp_path / "a.sarif", "--config", path, "--most", 3).exit_code == 0
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
    wrong = config("[export]\nformat = 'docx'\n[compare]\nconfidence = 3.0")
    refused(evenhand("export", run, tmp_path / "a.json", "--config", wrong), "evenhand.toml", "[export]", "'docx'")
    refused(evenhand("compare", run, run, "--config", wrong), "evenhand.toml", "[compare]", "confidence")
