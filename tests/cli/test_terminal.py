"""What a terminal shows at 80 and 120 columns: no line is too long, no word is broken, and the verdict comes first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.config.schema import COMMANDS
from tests.cli.conftest import MODELS, Command
from tests.helpers import slow
from tests.models.server import serving
from tests.proofs.test_prove import rows, small

WIDTHS = pytest.mark.parametrize("width", [80, 120])
Calls = dict[str, list[object]]


@pytest.fixture
def kept(audit: Command, tmp_path: Path) -> dict[str, Path]:
    places = {name: tmp_path / name for name in ("refuse", "fair")}
    for name, place in places.items():
        assert audit(name, "--strategy", "themis", "--directory", place, "--quiet").exit_code == 0
    return places


@pytest.fixture
def proven(tmp_path: Path, evenhand: Command) -> tuple[Any, ...]:
    space, (data, labels) = small(), rows(small())
    space.save(tmp_path / "small.toml")
    skops.io.dump(DecisionTreeClassifier(max_depth=4).fit(data * [1, 1, 0], labels), tmp_path / "fair.skops")
    model = "--model", tmp_path / "fair.skops"
    assert evenhand("prove", *model, "--space", tmp_path / "small.toml", "--save", tmp_path / "p.gz").exit_code == 0
    return model


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    data = ["A Sikh came in.", "The Hindu was late."]
    space, place = eh.TextSpace("religion"), tmp_path / "texts"
    eh.audit(lambda texts: ["Sikh" in text for text in texts], space, "text-random", data=data, directory=place)
    return place


@pytest.fixture
def calls(
    people: Path, table: Path, kept: dict[str, Path], texts: Path, tmp_path: Path, estimator: None,
    proven: tuple[Any, ...],
) -> Iterator[Calls]:  # fmt: skip
    model = ["--model", f"{MODELS}:refuse", "--data", people, "--target", "paid", "--protected", "sex"]
    sides = ["--model-a", f"{MODELS}:fair", "--model-b", f"{MODELS}:refuse"]
    trained = ["--model", "stock:tree", "--data", table, "--target", "paid", "--protected", "sex"]
    with serving() as server:
        yield {
            "audit": ["audit", *model, "--budget-tests", 300],
            "estimate": ["estimate", *model, "--samples", 300, "--favourable", "granted"],
            "compare": ["compare", kept["fair"], kept["refuse"], *sides],
            "replay": ["replay", kept["refuse"], "--model", f"{MODELS}:refuse"],
            "report": ["report", kept["refuse"], "--output", tmp_path / "x.html"],
            "export": ["export", kept["refuse"], tmp_path / "x.md"],
            "bundle": ["bundle", kept["refuse"], "--output", tmp_path / "x.zip"],
            "read": ["read", texts, "--output", tmp_path / "reading.html"],
            "init": ["init", table, "--protected", "sex", "--output", tmp_path / "e.toml", "--force"],
            "repair": ["repair", *trained, "--method", "marginal", "--samples", 500, "--budget-tests", 500],
            "bench": ["bench", *model, "--seconds", 0.1],
            "probe": ["probe", server.url, "--data", people, "--target", "paid", "--protected", "sex"],
            "demo": ["demo", "--directory", tmp_path / "demo"],
            "prove": ["prove", *proven, "--space", tmp_path / "small.toml"],
            "check-proof": ["check-proof", tmp_path / "p.gz", *proven],
            "strategies": ["strategies"],
            "datasets": ["datasets"],
        }


EVERY = [*sorted(set(COMMANDS) - {"demo", "serve"}), *slow(["demo"])]


@WIDTHS
@pytest.mark.parametrize("command", EVERY)
def test_no_line_is_too_long_and_no_word_is_broken(
    command: str, width: int, evenhand: Command, calls: Calls, tmp_path: Path
) -> None:
    arguments = calls[command]
    done, wide = evenhand(*arguments, width=width), evenhand(*arguments, width=400)
    assert done.exit_code == wide.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    # A path, or a server's answer without spaces, may be longer than a line, which it then has for itself.
    parts = [re.sub(r"^(# |\w+ = |Wrote )", "", line) for line in lines if len(line) > width]
    assert [part for part in parts if len(part.split()) > 1] == []
    said = set(re.findall(r"[\w.,%-]+", wide.stdout))
    broken = [word for word in re.findall(r"[\w.,%-]+", done.stdout) if word not in said]
    # Times differ from call to call.
    assert [word for word in broken if not re.fullmatch(r"[\d.,%]+", word)] == []


@WIDTHS
@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_fits(command: str, width: int, evenhand: Command) -> None:
    done = evenhand(command, "--help", width=width)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= width
    assert max(len(one.summary) for one in COMMANDS.values()) + 14 <= 80


def test_the_verdict_comes_before_any_count(evenhand: Command, calls: Calls) -> None:
    found = evenhand(*calls["audit"], width=80).stdout
    assert re.match(r"Changing only sex changes this model's decision for about [\d.]+% of people", found)
    assert re.search(r"1\. sex F: refused; sex M: granted\n   age \d+, hours \d+, work \w+\n", found)
    compared = evenhand(*calls["compare"], width=80).stdout
    assert compared.startswith("The second model treats more individuals differently than the first, by 38.5\npoints.")


def test_bad_news_is_red_unless_colours_are_not_wanted(
    evenhand: Command, audit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    red = "\x1b[1;31m"
    assert audit("refuse", "--budget-tests", 100).stdout.startswith(red)
    assert red not in audit("fair", "--budget-tests", 100).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    plain = audit("refuse", "--budget-tests", 100).stdout
    assert not re.search(r"\x1b\[[\d;]*3\d", plain)


@pytest.mark.parametrize("command", EVERY)
def test_every_command_answers_in_json(command: str, evenhand: Command, calls: Calls) -> None:
    done = evenhand(*calls[command], "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said
    if command == "probe":
        assert said["config"]["endpoint"]["protocol"] == "instances"
        assert said["config"]["space"] == {"protected": ["sex"]}
        assert said["about"]["decisions"] == "no, yes"
    if command == "demo":
        assert [audit["name"] for audit in said["audits"]] == ["adult", "german"]
        assert all(audit["findings"] > audit["random_testing"] for audit in said["audits"])
        assert all(Path(page).exists() for page in said["reports"])


@pytest.mark.parametrize("command", ["estimate", "compare"])
def test_a_result_is_written_as_a_report(command: str, evenhand: Command, calls: Calls, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = evenhand(*calls[command], "--report", page)
    assert done.exit_code == 0, done.output
    assert "<svg" in page.read_text("utf-8")
    wrong = evenhand(*calls[command], "--report", tmp_path / "no" / "page.html")
    assert wrong.exit_code == 2
