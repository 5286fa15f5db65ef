"""Wrong input exits with 2 and at most three helpful lines."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from evenhand import errors as remedies
from evenhand.cli.output import message
from evenhand.config.file import Config
from evenhand.errors import EvenhandError, Use
from tests.cli import models
from tests.cli.conftest import MODELS, PEOPLE, Command
from tests.helpers import needs_dev_full


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("needs_pay", [], ["KeyError", "pay"]),
        ("raises", [], ["raises raised ZeroDivisionError: no such"]),
        ("short", [], ["short"]),
        ("nan", [], ["nan"]),
        ("odd", [], ["odd", "dict"]),
        ("flaky", [], ["queried twice", "100"]),
        ("score", [], ["--gamma", "--threshold"]),
        ("refuse", ["--gamma", "0.1"], ["scores", "--gamma flip"]),
        ("refuse", ["--gamma", "-1"], ["gamma", "-1"]),
        ("refuse", ["--strategy", "magic"], ["magic", "'themis', 'aequitas', 'kosei'"]),
        ("refuse", ["--strategy", "kosei", "--set", "depth=3"], ["depth", "samples, per_seed"]),
        ("refuse", ["--strategy", "kosei", "--set", "samples=many"], ["samples", "an integer", "many"]),
        ("refuse", ["--strategy", "kosei", "--set", "samples=0"], ["samples", "at least 1"]),
        ("refuse", ["--set", "samples"], ["name=value"]),
        ("refuse", ["--budget-tests", "0"], ["tests", "at least 1"]),
        ("refuse", ["--seed", "-1"], ["seed", "-1"]),
        ("refuse", ["--seed", "x"], ["--seed"]),
        ("refuse", ["--chunk", "1"], ["chunk"]),
        ("refuse", ["--fail-above", "5"], ["percentage", "--fail-on-finding"]),
        ("refuse", ["--fail-above", "-1"], ["percentage"]),
        ("refuse", ["--protected", "gender"], ["gender"]),
        ("refuse", ["--protected", "paid"], ["paid"]),
        ("refuse", ["--exclude", "gender"], ["gender"]),
        ("refuse", ["--target", "income"], ["income"]),
        ("refuse", ["--resume"], ["--directory"]),
        ("missing", [], ["has no missing"]),
    ],
)
def test_models_and_options(
    audit: Command, refused: Command, model: str, arguments: list[str], words: list[str]
) -> None:
    refused(audit(model, *arguments), *words)


def test_a_model_call_has_a_time_limit(audit: Command, refused: Command) -> None:
    models.released.clear()
    try:
        refused(audit("hangs", "--timeout", "0.05"), "hangs", "0.05 seconds", "--timeout")
    finally:
        models.released.set()


DATA = {
    "constant protected": ("age,sex\n1,F\n2,F\n", "single value"),
    "every attribute protected": ("sex\nF\nM\n", "protected must not name every attribute"),
    "no rows": ("age,sex\n", "no rows"),
    "nothing": ("", "empty"),
    "blank": ("\n\n", "empty"),
    "two columns of one name": ("age,age,sex\n1,1,F\n", "age"),
    "ragged": ("age,sex\n1,F\n2,M,3,4\n", "cannot be read"),
    "binary": ("\0\1\2\3", "binary"),
}


@pytest.mark.parametrize("name", DATA)
def test_data(evenhand: Command, refused: Command, tmp_path: Path, name: str) -> None:
    text, words = DATA[name]
    path = tmp_path / "data.csv"
    path.write_text(text)
    for command in (["audit", "--model", f"{MODELS}:fair", "--data", path], ["init", path]):
        output = ["--output", tmp_path / "new.toml"] if command[0] == "init" else []
        refused(evenhand(*command, "--protected", "sex", *output), words)
    assert not (tmp_path / "new.toml").exists()


@pytest.mark.parametrize("name", ["gone.csv", "data.xls", "broken.csv.gz", "broken.parquet", "broken.json", "huge.csv"])
def test_data_files(evenhand: Command, refused: Command, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "broken.csv.gz":
        path.write_bytes(gzip.compress(PEOPLE.encode() * 1000)[:60])
    elif name == "huge.csv":
        with path.open("wb") as file:
            os.truncate(file.fileno(), 5 * 2**30)
    elif name != "gone.csv":
        path.write_bytes(b"{ not this")
    refused(evenhand("audit", "--model", f"{MODELS}:fair", "--data", path, "--protected", "sex"))


def test_missing_settings_are_named(evenhand: Command, refused: Command, people: Path) -> None:
    refused(evenhand("audit"), "--model")
    refused(evenhand("audit", "--model", f"{MODELS}:fair"), "--space", "--data")
    refused(evenhand("audit", "--model", f"{MODELS}:fair", "--data", people), "--protected", "age, hours")
    refused(evenhand("init", people), "--protected")
    refused(evenhand("replay", people.parent), "is not the directory of a run")


@pytest.mark.parametrize(
    ("name", "content"),
    [("m.onnx", b"garbage"), ("m.onnx", b""), ("m.skops", b"garbage"), ("m.joblib", b"garbage"), ("m.txt", b"x")],
)
def test_model_files(evenhand: Command, refused: Command, people: Path, name: str, content: bytes) -> None:
    path = people.parent / name
    path.write_bytes(content)
    given = ["--data", people, "--target", "paid", "--protected", "sex"]
    refused(evenhand("audit", "--model", path, *given, "--trust-pickle", "--quiet"), name)


def test_pickles_need_trust(evenhand: Command, refused: Command, people: Path) -> None:
    mark = people.parent / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(mark),)

    path = people.parent / "m.pkl"
    path.write_bytes(pickle.dumps(Bomb()))
    config = people.parent / "evenhand.toml"
    config.write_text('[model]\npath = "m.pkl"\n[data]\npath = "people.csv"\n[space]\nprotected = ["sex"]\n')
    refused(evenhand("audit", config), "--trust-pickle")
    # Nor can a file that somebody sent say that it may be.
    config.write_text('[model]\npath = "m.pkl"\ntrust_pickle = true\n')
    refused(evenhand("audit", config), "unknown key 'model.trust_pickle'")
    assert not mark.exists()


def test_a_column_that_the_space_lacks(evenhand: Command, refused: Command, people: Path) -> None:
    import joblib
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    frame = pd.read_csv(people)
    path = people.parent / "m.joblib"
    joblib.dump(LogisticRegression().fit(frame[["age", "hours"]], frame["paid"]), path)
    given = ["--data", people, "--target", "paid", "--protected", "sex", "--exclude", "hours", "--trust-pickle", "-q"]
    refused(evenhand("audit", "--model", path, *given), "'hours'", "space")


SPACES = {
    "contradictory constraints": (
        'protected = ["sex"]\nconstraints = ["age < 3", "age > 5"]\n{age}{sex}',
        "no valid individual",
    ),
    "a broken constraint": ('protected = ["sex"]\nconstraints = ["age <"]\n{age}{sex}', "age <"),
    "an unknown protected attribute": ('protected = ["gender"]\n{age}{sex}', "gender"),
    "every attribute protected": ('protected = ["age", "sex"]\n{age}{sex}', "protected must not name every attribute"),
    "no TOML": ("protected = [", "not valid TOML"),
    "an unknown key": ('protected = ["sex"]\ncolour = 3\n{age}{sex}', "colour"),
    "bounds the wrong way": (
        'protected = ["sex"]\n[[attribute]]\nname = "a"\nkind = "integer"\nlow = 3\nhigh = 1\n{sex}',
        "low",
    ),
}
AGE = '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 1\nhigh = 9\n'
SEX = '[[attribute]]\nname = "sex"\nkind = "nominal"\nvalues = ["F", "M"]\n'


@pytest.mark.parametrize("name", SPACES)
def test_spaces(evenhand: Command, refused: Command, tmp_path: Path, name: str) -> None:
    text, words = SPACES[name]
    path = tmp_path / "space.toml"
    path.write_text(text.format(age=AGE, sex=SEX))
    refused(evenhand("audit", "--model", f"{MODELS}:refuse", "--space", path), words)


CONFIGS = {
    "no TOML": ("[audit", "not valid TOML"),
    "an unknown key": ("[audit]\nsed = 3", "unknown key 'audit.sed'; did you mean 'seed'?"),
    "an unknown table": ("[audits]\nseed = 3", "unknown table [audits]; did you mean 'audit'"),
    "a text for a number": ('[audit]\nseed = "3"', "audit.seed must be an integer of at least 0, got '3'"),
    "truth for a number": ("[budget]\ntests = true", "budget.tests must be an integer of at least 1, got True"),
    "no table": ("audit = 3", "[audit] must be a table, got 3"),
    "an unknown criterion": ('[audit]\ncriterion = "parity"', 'audit.criterion must be "flip" or a number'),
    "an unknown setting": ("[audit.settings]\ndepth = 3", "auto has no setting 'depth'"),
    "a wrong setting": ('[audit.settings]\nshare = "3"', "share must be a number"),
    "one text for a list": ('[space]\nprotected = "sex"', "space.protected must be a list of strings"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(evenhand: Command, refused: Command, tmp_path: Path, name: str) -> None:
    text, words = CONFIGS[name]
    path = tmp_path / "evenhand.toml"
    path.write_text(text)
    refused(evenhand("audit", path), words)


def test_configuration_files(evenhand: Command, refused: Command, tmp_path: Path) -> None:
    refused(evenhand("audit", tmp_path / "gone.toml"), "no such file", "evenhand init")
    refused(evenhand("audit", tmp_path), "directory")
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    refused(evenhand("audit", tmp_path / "latin.toml"), "UTF-8")


def test_run_directories(audit: Command, refused: Command, tmp_path: Path) -> None:
    file, foreign, run = tmp_path / "file", tmp_path / "foreign", tmp_path / "run"
    file.write_text("mine")
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    refused(audit("refuse", "--directory", file), "file")
    refused(audit("refuse", "--directory", file / "run"), "cannot use")
    refused(audit("refuse", "--directory", foreign), "thesis.txt", "choose an empty directory")
    refused(audit("refuse", "--directory", foreign, "--resume"), "no run to resume")
    refused(audit("refuse", "--directory", run, "--resume"), "no run to resume")
    assert not run.exists()
    assert audit("refuse", "--directory", run).exit_code == 0
    refused(audit("refuse", "--directory", run, "--seed", 1), "another run", "seed")
    refused(audit("fair", "--directory", run), "another run")
    assert (file.read_text(), (foreign / "thesis.txt").read_text()) == ("mine", "mine")


def test_a_half_written_run_is_continued_and_a_damaged_one_refused(
    audit: Command, refused: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    # Small chunks, so that the log has many frames.
    arguments = ["--directory", run, "--chunk", 64]
    assert audit("refuse", *arguments, "--findings", tmp_path / "a.csv").exit_code == 0
    log, result = run / "answers.log", run / "run.json"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    result.unlink()
    assert audit("refuse", *arguments, "--findings", tmp_path / "b.csv", "--resume").exit_code == 0
    assert log.read_bytes() == whole
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    log.write_bytes(damaged)
    result.unlink()
    refused(audit("refuse", *arguments), "damaged")
    result.write_text("{")
    refused(audit("refuse", *arguments), "run.json")


def test_outputs_are_checked_before_the_search(audit: Command, refused: Command, tmp_path: Path) -> None:
    for option in ("--findings", "--report"):
        refused(audit("raises", option, tmp_path), "cannot be a file")
        refused(audit("raises", option, tmp_path / "none" / "file"), "cannot be a file")


@needs_dev_full
@pytest.mark.parametrize("option", ["--findings", "--report"])
def test_a_full_disk(audit: Command, refused: Command, option: str) -> None:
    refused(audit("refuse", option, "/dev/full", "--quiet"), "/dev/full", "No space left")


def test_init_overwrites_nothing(evenhand: Command, refused: Command, people: Path) -> None:
    output = people.parent / "evenhand.toml"
    arguments = ["init", people, "--protected", "sex", "--output", output]
    (people.parent / "evenhand.space.toml").write_text("mine")
    refused(evenhand(*arguments), "evenhand.space.toml already exists", "--force")
    assert not output.exists()
    assert evenhand(*arguments, "--force").exit_code == 0
    refused(evenhand(*arguments[:-1], people.parent / "none" / "e.toml"), "cannot write")


@pytest.mark.parametrize(
    ("use", "flag"),
    [
        (remedies.DATA, "--data FILE"),
        (remedies.GAP, "--gamma 0.1"),
        (remedies.THRESHOLD, "--threshold 0.5"),
        (remedies.KOSEI, "--strategy kosei"),
        (remedies.ORDER, "--order DECISION"),
        (remedies.SCORE_DIFFERENCES, "--set gradient=scores"),
        (remedies.MISSING_DROP, "--missing drop"),
        (remedies.TRUST_PICKLE, "--trust-pickle"),
        (remedies.exclude("id"), "--exclude id"),
        (remedies.trust_types(["a.B", "c.D"]), "--trust a.B --trust c.D"),
        (remedies.FRAME, '--model module:attribute, where the attribute is eh.wrap(model, input="frame")'),
    ],
    ids=str,
)
def test_remedies_are_flags_on_the_command_line(use: Use, flag: str) -> None:
    assert message(EvenhandError("it failed", remedy=("use ", use))) == f"evenhand: it failed; use {flag}"


def test_parameters_are_flags_on_the_command_line() -> None:
    error = EvenhandError("must be a share", parameter="half_width", value=2)
    assert message(Config(command="estimate").located(error)) == "evenhand: --half-width must be a share, got 2"
    assert str(error) == "half_width must be a share, got 2"
