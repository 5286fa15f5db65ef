from __future__ import annotations

from pathlib import Path

from evenhand.config.file import read

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


def test_paths_are_seen_from_the_file(tmp_path: Path) -> None:
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
