from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from tests.cli.conftest import MODELS, Command


def test_replay(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("refuse", "--directory", tmp_path / "run", "--strategy", "themis")
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:refuse")
    assert (done.exit_code, done.stdout) == (0, "930 of 930 findings confirmed, 0 not\n")
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:fair")
    assert done.exit_code == 1
    assert "No longer confirmed:\n1. sex " in done.stdout
    done = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:fair", "--json")
    values = json.loads(done.stdout)
    assert (done.exit_code, values["confirmed"], values["refuted"]) == (1, 0, 930)
    assert evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:refuse", "--quiet").output == ""


def test_replay_with_a_threshold(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("score", "--directory", tmp_path / "run", "--threshold", 0.3)
    model = ["--model", f"{MODELS}:score"]
    assert evenhand("replay", tmp_path / "run", *model, "--threshold", 0.3).exit_code == 0
    assert evenhand("replay", tmp_path / "run", *model, "--threshold", 0.9).exit_code == 1
    # Without one it is the one that the audit noted.
    assert evenhand("replay", tmp_path / "run", *model).exit_code == 0


def test_commands_in_the_report_work(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("score", "--directory", tmp_path / "run", "--threshold", 0.3, "--strategy", "themis")
    model = f"{MODELS}:score"
    assert evenhand("report", tmp_path / "run", "--model", model, "--output", tmp_path / "r.html").exit_code == 0
    recipes = re.findall(r"<pre>(.*?)</pre>", (tmp_path / "r.html").read_text("utf-8"), re.DOTALL)
    (command,) = (recipe for recipe in recipes if recipe.startswith("evenhand replay"))
    assert command.endswith("--model MODEL --threshold 0.3")
    assert any(recipe.startswith("eh.audit(eh.wrap(model, threshold=0.3), space, ") for recipe in recipes)
    (tmp_path / "run" / "source.json").unlink()
    done = evenhand(*shlex.split(command.replace("MODEL", model))[1:])
    assert (done.exit_code, done.stdout.endswith("confirmed, 0 not\n")) == (0, True)


def test_another_model_is_detected(audit: Command, evenhand: Command, tmp_path: Path) -> None:
    audit("score", "--directory", tmp_path / "run", "--threshold", 0.3, "--strategy", "themis")
    words = "This is not the run's model, or its threshold is different"
    same, other = ["--model", f"{MODELS}:score"], ["--model", f"{MODELS}:score", "--threshold", 0.9]
    assert words not in evenhand("replay", tmp_path / "run", *same).output
    assert words in evenhand("replay", tmp_path / "run", *other).stdout
    for model, known in ((same, True), (other, False)):
        assert json.loads(evenhand("replay", tmp_path / "run", *model, "--json").stdout)["same_model"] is known


def test_wrong_input(audit: Command, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    model = ["--model", f"{MODELS}:refuse"]
    refused(evenhand("replay", tmp_path, *model), "not the directory of a run")
    refused(evenhand("replay", tmp_path / "gone", *model), "not the directory of a run")
    audit("refuse", "--directory", tmp_path / "run")
    refused(evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:raises"), "ZeroDivisionError")
    identity = tmp_path / "run" / "identity.json"
    identity.write_text(identity.read_text().replace('"Flip"', '"__import__(os).abort()"'))
    refused(evenhand("replay", tmp_path / "run", *model), "cannot be read back")
    identity.write_text("[]")
    refused(evenhand("replay", tmp_path / "run", *model), "identity.json")


def test_a_run_without_its_model_says_which_option_gives_it(
    evenhand: Command, audit: Command, refused: Command, tmp_path: Path
) -> None:
    assert audit("refuse", "--strategy", "themis", "--directory", tmp_path / "run", "--quiet").exit_code == 0
    run, spec = tmp_path / "run", f"{MODELS}:refuse"
    refused(evenhand("replay", run), f"if you trust it, pass it: --model {spec}\n")
    refused(evenhand("compare", run, run), f"if you trust it, pass it: --model-a {spec}\n")
    refused(evenhand("compare", run, run, "--model-a", spec), f"if you trust it, pass it: --model-b {spec}\n")
