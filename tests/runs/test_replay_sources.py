"""The model and data of a run are found from anywhere, and only if they are unchanged."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.engine.store import SOURCE
from evenhand.errors import ModelError, RunError
from evenhand.runs.replay import Changed, Source, deciding, model_of, probe_of, threshold_of, unchanged

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def score(frame: Any) -> Any:
    return (frame["age"] / 100 + 0.1 * (frame["sex"] == "F")).to_numpy()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, data and a run, all named as one does who works there."""
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    monkeypatch.chdir(folder)
    Path("models/m.onnx").write_text("model")
    Path("rows.csv").write_text("age,sex\n3,F\n")
    run = eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.05), directory="runs/first")
    Source.of("models/m.onnx", None, "rows.csv").keep(run)
    return folder


def found(directory: Path) -> list[Path]:
    source = Source.read(eh.Run.load(directory))
    assert source.model is not None
    assert source.data is not None
    return [
        unchanged(source.model, source.model_sha256, "model").resolve(),
        unchanged(source.data, source.data_sha256, "data").resolve(),
    ]


def files(folder: Path) -> list[Path]:
    return [folder / "models" / "m.onnx", folder / "rows.csv"]


def test_files_are_found_from_another_working_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(Path("runs/first")) == files(project)
    monkeypatch.chdir(tmp_path)
    assert found(project / "runs" / "first") == found(Path("project/runs/first")) == files(project)
    assert Source.stored(eh.Run.load(project / "runs" / "first")).model == "models/m.onnx"


def test_moved_and_unmoved_sources_are_found(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(project, tmp_path / "copy")
    # Those beside the run go first; a run that went alone has what it was made with.
    assert found(tmp_path / "copy" / "runs" / "first") == files(tmp_path / "copy")
    shutil.move(project / "runs" / "first", tmp_path / "alone")
    assert found(tmp_path / "alone") == files(project)
    project.rename(tmp_path / "renamed")
    shutil.move(tmp_path / "alone", tmp_path / "renamed" / "runs" / "first")
    assert found(tmp_path / "renamed" / "runs" / "first") == files(tmp_path / "renamed")


def test_of_several_files_the_unchanged_one_is_taken(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(project, tmp_path / "copy")
    (tmp_path / "copy" / "rows.csv").write_text("age,sex\n4,F\n")
    assert found(tmp_path / "copy" / "runs" / "first") == [tmp_path / "copy" / "models" / "m.onnx", files(project)[1]]
    (project / "rows.csv").write_text("age,sex\n5,F\n")
    with pytest.raises(Changed, match=r"rows\.csv has changed"):
        found(tmp_path / "copy" / "runs" / "first")
    shutil.rmtree(tmp_path / "copy" / "models")
    (project / "models" / "m.onnx").unlink()
    with pytest.raises(RunError, match=r"the run's model was models/m\.onnx, which is no longer"):
        found(tmp_path / "copy" / "runs" / "first")


def test_a_run_that_is_reached_by_a_link(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(project / "runs" / "first")
    monkeypatch.chdir(tmp_path)
    assert found(tmp_path / "link") == files(project)


def test_notes_of_before_are_still_read(project: Path) -> None:
    path = project / "runs" / "first" / SOURCE
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({name: stored[name] for name in stored if name.count("_") == name.count("_sha")}))
    assert len(json.loads(path.read_text())) == 5
    assert found(project / "runs" / "first") == files(project)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"model": 3}', json.dumps(asdict(Source()) | {"threshold": "x"}),
             json.dumps(asdict(Source()) | {"threshold": True}), json.dumps(asdict(Source()) | {"more": None})],
)  # fmt: skip
def test_broken_notes_are_an_error_everywhere(project: Path, text: str) -> None:
    directory = project / "runs" / "first"
    (directory / SOURCE).write_text(text)
    run = eh.Run.load(directory)
    calls: list[Any] = [lambda: eh.report(run), lambda: eh.bundle(directory, "x.zip"), lambda: model_of(run),
                        lambda: eh.replay(directory, score)]  # fmt: skip
    for call in calls:
        with pytest.raises(RunError, match=r"source\.json cannot be read; delete it"):
            call()


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800"])
def test_odd_names_are_not_there(project: Path, name: str) -> None:
    directory = project / "runs" / "first"
    odd = {"model": name + ".onnx", "model_from_run": name, "model_absolute": name, "model_sha256": "0"}
    (directory / SOURCE).write_text(json.dumps(asdict(Source()) | odd))
    with pytest.raises(RunError, match="which is no longer a file there"):
        model_of(eh.Run.load(directory))


def test_thresholds(tmp_path: Path) -> None:
    run = eh.audit(eh.wrap(score, threshold=0.3), SPACE, "themis", directory=tmp_path)
    kept = eh.Run.load(tmp_path)
    assert (threshold_of(run), threshold_of(kept)) == (0.3, None)
    with pytest.raises(ModelError, match="not the run's model .* pass the run's own model, with its decision"):
        probe_of(kept, eh.wrap(score, threshold=0.4), "")
    Source("loans:score", None, 0.3).keep(kept)
    assert threshold_of(kept) == 0.3
    assert probe_of(kept, score, "").model.threshold == 0.3
    with pytest.raises(ModelError, match="is not the run's model .* with its decision threshold of 0.3"):
        probe_of(kept, eh.wrap(score, threshold=0.4), "")
    # What is given goes first, then the model's own; who gives labels alone has decided already.
    assert deciding(kept, eh.wrap(score, threshold=0.4)).threshold == 0.4
    assert deciding(kept, eh.wrap(score, threshold=0.4), 0.5).threshold == 0.5
