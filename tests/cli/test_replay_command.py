from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import MODELS, Command


def test_replay(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("refuse", "--directory", tmp_path / "run", "--strategy", "themis")
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:refuse")
    assert (done.exit_code, done.stdout) == (0, "930 of 930 findings confirmed, 0 not\n")
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:fair")
    assert done.exit_code == 1
    assert "The model no longer says this:\n1. age" in done.stdout
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:fair", "--json")
    values = json.loads(done.stdout)
    assert (done.exit_code, values["confirmed"], values["refuted"]) == (1, 0, 930)
    assert evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:refuse", "--quiet").output == ""


def test_replay_with_a_threshold(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("score", "--directory", tmp_path / "run", "--threshold", 0.3)
    model = ["--model", f"{MODELS}:score"]
    assert evenhand("replay", tmp_path / "run", *model, "--threshold", 0.3).exit_code == 0
    assert evenhand("replay", tmp_path / "run", *model, "--threshold", 0.9).exit_code == 1


def test_wrong_input(audit: Command, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    model = ["--model", f"{MODELS}:refuse"]
    refused(evenhand("replay", tmp_path, *model), "no run's directory")
    refused(evenhand("replay", tmp_path / "gone", *model), "no run's directory")
    audit("refuse", "--directory", tmp_path / "run")
    refused(evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:raises"), "ZeroDivisionError")
    identity = tmp_path / "run" / "identity.json"
    identity.write_text(identity.read_text().replace("Flip()", "__import__('os').abort()"))
    refused(evenhand("replay", tmp_path / "run", *model), "cannot be read back")
    identity.write_text("[]")
    refused(evenhand("replay", tmp_path / "run", *model), "identity.json")


def test_a_run_without_its_model_says_which_option_gives_it(
    evenhand: Command, audit: Command, refused: Command, tmp_path: Path
) -> None:
    assert audit("refuse", "--strategy", "themis", "--directory", tmp_path / "run", "--quiet").exit_code == 0
    refused(evenhand("replay", tmp_path / "run"), "--model")
