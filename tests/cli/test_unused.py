"""Models that pass because they do not use a protected attribute."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import MODELS, Command
from tests.helpers import optional

BLIND = "the model does not receive 'sex'"


@pytest.fixture
def blind(tmp_path: Path, people: Path) -> list[object]:
    """What an audit of a model that was fitted without ``sex`` is called with."""
    skops = optional("skops.io")
    from sklearn.ensemble import RandomForestClassifier

    rows = pd.read_csv(people)
    skops.dump(
        RandomForestClassifier(3, random_state=0).fit(rows[["age", "hours"]], rows["paid"]), tmp_path / "m.skops"
    )
    return ["--model", tmp_path / "m.skops", "--data", people, "--target", "paid", "--protected", "sex"]


@pytest.mark.parametrize("command", ["audit", "estimate"])
def test_a_blind_model_is_mentioned_once(command: str, blind: list[object], evenhand: Command) -> None:
    limit = ["--fail-on-finding"] if command == "audit" else ["--fail-above", "1%"]
    done = evenhand(command, *blind, *limit)
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert text.lower().count(BLIND) == 1
    assert "see eh.groups" in text
    assert BLIND in json.loads(evenhand(command, *blind, *limit, "--json").stdout)["note"]


@pytest.mark.parametrize("command", ["audit", "estimate"])
def test_a_blind_model_never_passes_silently(command: str, blind: list[object], evenhand: Command) -> None:
    limit = ["--fail-on-finding"] if command == "audit" else ["--fail-above", "1%"]
    done = evenhand(command, *blind, *limit, "--quiet")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(f"evenhand: warning: {BLIND}")
    assert evenhand(command, *blind, "--quiet").output == ""


def test_a_model_that_never_changes_its_decision(audit: Command) -> None:
    text = " ".join(audit("fair").stdout.split())
    assert "No decision changed in" in text
    assert "no decision depends on 'sex'; it may still disadvantage a group" in text
    assert "may not use" not in audit("refuse").stdout


def test_a_target_left_in_the_space(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    done = evenhand("init", people, "--protected", "sex", "--output", output, "--model", f"{MODELS}:refuse")
    assert "--target NAME" in " ".join(done.stdout.split())
    named = evenhand("init", people, "--protected", "sex", "--target", "paid", "--output", tmp_path / "f.toml")
    assert "--target" not in named.stdout
    done = evenhand("audit", output, "--target", "paid", "--quiet")
    assert (done.exit_code, "the space has 'paid', which is what the model predicts" in done.stderr) == (0, True)
    assert evenhand("audit", output, "--target", "paid", "--exclude", "paid", "--quiet").output == ""
