from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import evenhand as eh
from tests.cli.conftest import MODELS, Command


def test_init_then_audit(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "conf" / "loans.toml"
    output.parent.mkdir()
    done = evenhand("init", people, "--protected", "sex", "--target", "paid", "--exclude", "hours", "--output", output)
    assert done.exit_code == 0
    assert "whole numbers 20 to 45  (integer column)" in done.stdout
    space = eh.Space.load(tmp_path / "conf" / "loans.space.toml")
    assert (space.names, space.protected) == (("age", "work", "sex"), ("sex",))
    # The file is seen from where it lies, not from where the command runs.
    assert tomllib.loads(output.read_text())["data"] == {"path": "../people.csv", "target": "paid"}
    values = json.loads(evenhand("audit", output, "--model", f"{MODELS}:refuse", "--json").stdout)
    assert values["findings"] == 30
    assert values["identity"]["strategy"]["strategy"] == "auto"
    assert values["estimate"]["data"]["samples"] > 0


def test_two_protected_attributes_and_no_target(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    assert evenhand("init", people, "--protected", "sex", "--protected", "work", "--output", output).exit_code == 0
    assert eh.Space.load(tmp_path / "e.space.toml").protected == ("sex", "work")
    assert "target" not in tomllib.loads(output.read_text())["data"]


@pytest.mark.parametrize("name", ['a "quoted".csv', "a\\b.csv", "\x7fü.csv"])
def test_odd_file_names_survive(evenhand: Command, people: Path, tmp_path: Path, name: str) -> None:
    people.rename(tmp_path / name)
    output = tmp_path / "e.toml"
    assert evenhand("init", tmp_path / name, "--protected", "sex", "--output", output).exit_code == 0
    assert tomllib.loads(output.read_text())["data"]["path"] == name


def test_every_commented_line_is_valid(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    evenhand("init", people, "--protected", "sex", "--target", "paid", "--output", output)
    lines = [line.removeprefix("# ") if " = " in line else line for line in output.read_text().splitlines()]
    # Processes and a cluster cannot be combined.
    output.write_text("\n".join(line for line in lines if not line.startswith(("workers =", "dask ="))))
    done = evenhand("audit", output, "--model", f"{MODELS}:score", "--threshold", "0.3", "--json")
    assert done.exit_code == 1, done.output
    limits = {"tests": 100000, "rows": 1000000, "findings": 1000, "seconds": 60.0, "requests": 10000}
    assert json.loads(done.stdout)["budget"] == limits
    assert (tmp_path / "run" / "identity.json").exists()
    # What people want is no decision of this model: the report is written without it.
    assert "the report is written without it" in done.stderr
    assert (tmp_path / "report.html").exists()


def test_missing_protected_values_need_a_setting(evenhand: Command, refused: Command, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("age,sex\n20,F\n30,M\n40,\n")
    given = [tmp_path / "p.csv", "--protected", "sex", "--output", tmp_path / "e.toml"]
    done = evenhand("init", *given)
    refused(done, "'sex' is protected, and 1 of 3 rows have no value of it", "--missing drop", "--missing group")
    assert not (tmp_path / "e.toml").exists()
    for how, line in (("drop", 'missing = "drop"'), ("group", "missing = true")):
        assert evenhand("init", *given, "--missing", how, "--force").exit_code == 0
        assert line in (tmp_path / "e.space.toml").read_text()
