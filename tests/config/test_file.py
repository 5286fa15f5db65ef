from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.config.file import checked, read, spell
from evenhand.config.schema import SETTINGS
from evenhand.errors import ConfigError

TEXT = """
[model]
path = "{model}"
[data]
path = "people.csv"
[audit]
strategy = "aequitas"
criterion = 1
directory = "run"
[audit.settings]
samples = 10
steps = 20
[budget]
tests = 5
"""


def write(folder: Path, model: str = "m.onnx") -> Path:
    path = folder / "evenhand.toml"
    path.write_text(TEXT.format(model=model))
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = read(write(tmp_path), {})
    assert config.model.path == str(tmp_path / "m.onnx")
    assert config.data.path == str(tmp_path / "people.csv")
    assert config.audit.directory == str(tmp_path / "run")
    assert read(write(tmp_path, "loans:decide"), {}).model.path == "loans:decide"
    assert read(write(tmp_path, "/abs/m.onnx"), {}).model.path == "/abs/m.onnx"


def test_flags_override_one_by_one(tmp_path: Path) -> None:
    flags = {"audit": {"seed": 4, "settings": {"samples": 11}}, "data": {"path": "other.csv"}, "budget": {"rows": 9}}
    config = read(write(tmp_path), flags)
    assert (config.audit.seed, config.audit.settings) == (4, {"samples": 11, "steps": 20})
    assert config.data.path == "other.csv"
    assert (config.budget.tests, config.budget.rows) == (5, 9)
    assert config.audit.criterion == 1


def test_another_strategy_does_not_inherit_settings(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert read(path, {"audit": {"strategy": "kosei"}}).audit.settings == {}
    assert read(path, {"audit": {"strategy": "aequitas"}}).audit.settings["steps"] == 20


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [
        ("audit.seed", "3", 3),
        ("model.threshold", "0.5", 0.5),
        ("audit.criterion", "1", 1.0),
        ("audit.fail_above", "1%", "1%"),
        ("audit.fail_on_finding", True, True),
        ("estimate.exact", False, False),
        ("estimate.favourable", ["1", "yes"], ["1", "yes"]),
        ("text.k", "2", 2),
        ("estimate.fail_above", "5%", "5%"),
    ],
)
def test_a_flag_is_read_as_the_type(place: str, text: object, value: object) -> None:
    assert checked(SETTINGS[place], text) == value
    assert type(checked(SETTINGS[place], text)) is type(value)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("audit.seed", "x", "--seed must be an integer of at least 0, got 'x'"),
        ("audit.seed", "1.5", "--seed must be an integer of at least 0, got '1.5'"),
        ("model.timeout", "soon", "--timeout must be a number above 0, got 'soon'"),
        ("repair.held_out", "1", "--held-out must be a number above 0 and below 1, got '1'"),
        ("space.missing", "all", "--missing must be 'group' or 'drop', got 'all'"),
        ("audit.criterion", "parity", "--gamma must be \"flip\" or a number (a difference of scores), got 'parity'"),
        ("audit.seed", "{data.path}", "--seed must be an integer of at least 0, got '{data.path}'"),
    ],
)
def test_a_wrong_flag_is_named(place: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(SETTINGS[place], value)
    assert str(error.value).endswith(words)


@pytest.mark.parametrize("value", [True, "3", 1.0, [1]])
def test_a_file_is_read_strictly(value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"audit.seed must be an integer of at least 0, got "):
        checked(SETTINGS["audit.seed"], value, "file")
    path = tmp_path / "e.toml"
    path.write_text("[audit]\nseed = true\n")
    with pytest.raises(ConfigError, match="e.toml: audit.seed must be"):
        read(path, {"audit": {"seed": "1"}})


@pytest.mark.parametrize(
    ("place", "value", "python", "flag", "file"),
    [
        ("model.threshold", 0.3, "eh.wrap(model, threshold=0.3)", "--threshold 0.3", "threshold = 0.3 in [model]"),
        ("audit.strategy", "adf", "strategy='adf'", "--strategy adf", 'strategy = "adf" in [audit]'),
        ("budget.rows", 5, "budget=eh.Budget(rows=5)", "--budget-rows 5", "rows = 5 in [budget]"),
        ("data.target", "y", "y='y'", "--target y", 'target = "y" in [data]'),
        ("export.raw", True, "raw=True", "--raw", "raw = true in [export]"),
        ("export.raw", False, "raw=False", "no --raw", "raw = false in [export]"),
        (
            "audit.settings",
            {"samples": 5},
            "settings={'samples': 5}",
            "--set samples=5",
            "settings = { samples = 5 } in [audit]",
        ),
        (
            "estimate.order",
            ["no", "yes"],
            "favourable=eh.Order(['no', 'yes'])",
            "--order no --order yes",
            'order = ["no", "yes"] in [estimate]',
        ),
    ],
)
def test_spelling(place: str, value: object, python: str, flag: str, file: str) -> None:
    assert (spell(place, value, "python"), spell(place, value), spell(place, value, "file")) == (python, flag, file)
