"""Model files of frameworks load as the saved objects, and run no code."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli.app import app
from evenhand.errors import EvenhandError, LimitExceeded, ModelError
from evenhand.models.files import SAFE, load_model
from evenhand.models.wrap import wrap
from tests.helpers import optional, slow
from tests.models.people import answers, approved, categories, numbers, people

os.environ.setdefault("KERAS_BACKEND", "torch")
# Keras on torch asks for copies as NumPy 1 did.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
FRAME = people(400)
CODED = pd.DataFrame(numbers(FRAME), columns=list(FRAME.columns)).fillna(0.5)
YES = approved(FRAME).astype(int)
QUIET = {"verbose": -1, "n_jobs": 1}


def xgboost_model() -> Any:
    model = optional("xgboost").XGBClassifier(n_estimators=6, n_jobs=1, enable_categorical=True)
    return model.fit(categories(FRAME), YES)


def early(path: Path) -> Any:
    """Stop training early: the file has more trees than the classifier uses."""
    model = optional("xgboost").XGBClassifier(n_estimators=40, n_jobs=1, early_stopping_rounds=1, learning_rate=1.0)
    noise = np.random.default_rng(0).permutation(YES)
    model.fit(CODED, YES, eval_set=[(CODED, noise)], verbose=False).save_model(path)
    assert model.get_booster().num_boosted_rounds() > model.best_iteration + 1
    return model


def xgboost_file(path: Path) -> Any:
    model = xgboost_model()
    model.save_model(path)
    return model


def xgboost_native(path: Path) -> Any:
    model = xgboost_model().get_booster()
    model.set_attr(scikit_learn=None)
    model.save_model(path)
    return model


def three_classes(path: Path) -> Any:
    model = optional("xgboost").XGBClassifier(n_estimators=3, n_jobs=1)
    model.fit(CODED, np.where(CODED["age"] > 6, 2, YES)).save_model(path)
    return model


def linear(path: Path) -> Any:
    model = optional("xgboost").XGBRegressor(booster="gblinear", n_estimators=3, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(CODED, CODED["age"] + CODED["sex"]).save_model(path)
    return model


def lightgbm_file(path: Path) -> Any:
    model = optional("lightgbm").LGBMClassifier(n_estimators=6, **QUIET).fit(categories(FRAME), answers(FRAME)).booster_
    model.save_model(path)
    return model


def catboost_file(path: Path) -> Any:
    catboost = optional("catboost")
    options = {"iterations": 6, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(cat_features=["work", "sex"], **options).fit(FRAME, answers(FRAME))
    model.save_model(str(path), format="cbm")
    return model


@cache
def network() -> Any:
    torch = optional("torch")
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.LeakyReLU(), torch.nn.Dropout(0.5),
        torch.nn.LayerNorm(8), torch.nn.Linear(8, 3), torch.nn.Softmax(dim=1),
    ).eval()  # fmt: skip


def exported(path: Path) -> Any:
    torch = optional("torch")
    rows = {0: torch.export.Dim("rows")}
    torch.export.save(torch.export.export(network(), (torch.zeros(3, 4),), dynamic_shapes=(rows,)), path)
    return network()


def script(path: Path) -> Any:
    torch = optional("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(network()), path)
    return network()


def traced(path: Path) -> Any:
    torch = optional("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(network(), torch.zeros(3, 4)), path)
    return network()


def keras_file(path: Path) -> Any:
    keras = optional("keras")
    keras.utils.set_random_seed(1)
    rows = keras.Input((4,))
    inner = keras.layers.Dense(8, activation="relu")(keras.layers.Normalization(mean=4.0, variance=4.0)(rows))
    both = keras.layers.Concatenate()([keras.layers.BatchNormalization()(inner), rows])
    model = keras.Model(rows, keras.layers.Dense(2, activation="softmax")(both))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(np.arange(16.0).reshape(4, 4), np.array([0, 1, 1, 0]), verbose=0)
    model.save(path)
    return model


WRITTEN: list[tuple[str, Callable[[Path], Any], pd.DataFrame]] = [
    ("m.json", xgboost_file, FRAME),
    ("m.ubj", xgboost_native, FRAME),
    ("early.ubj", early, CODED),
    ("three.json", three_classes, CODED),
    ("linear.json", linear, CODED),
    ("m.txt", lightgbm_file, FRAME),
    ("m.cbm", catboost_file, FRAME),
    ("m.pt2", exported, CODED),
    ("m.pt", script, CODED),
    ("traced.pt", traced, CODED),
    ("m.keras", keras_file, CODED),
]
SCORED = ("linear.json", "m.pt2", "m.pt", "traced.pt", "m.keras")
"""Files of regressions and of networks that were not trained, whose scores are compared."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "write", "data"), WRITTEN, ids=[name for name, *_ in WRITTEN])
def test_a_file_is_audited_as_the_object_that_wrote_it(
    tmp_path: Path, name: str, write: Callable[[Path], Any], data: pd.DataFrame
) -> None:
    model = write(tmp_path / name)
    data.to_csv(tmp_path / "people.csv", index=False)
    space = eh.Space.infer(pd.read_csv(tmp_path / "people.csv"), protected="sex")
    wrapped = wrap(model)
    criterion, setting = (eh.Gap(0.02), "0.02") if name in SCORED else (eh.Flip(), "'flip'")
    here = eh.audit(wrapped, space, budget=eh.Budget(tests=400), criterion=criterion, strategy="themis")
    (tmp_path / "evenhand.toml").write_text(
        f"[model]\npath = '{name}'\n[data]\npath = 'people.csv'\n[space]\nprotected = ['sex']\n"
        f"[audit]\nstrategy = 'themis'\ndirectory = 'run'\ncriterion = {setting}\n[budget]\ntests = 400\n"
    )
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "evenhand.toml")])
    assert done.exit_code == 0, done.output
    there = eh.Run.load(tmp_path / "run")
    assert here.found > 0
    assert there.findings.equals(here.findings)
    loaded = load_model(tmp_path / name)
    assert loaded.sha256
    if wrapped.classes is not None:
        assert loaded.classes is not None
        assert loaded.classes.tolist() == wrapped.classes.tolist()
    # A run finds its model again: loading it runs no code.
    assert eh.replay(tmp_path / "run").held.all()


class Trap:
    def __reduce__(self) -> Any:
        return (sys.exit, ("sprung",))


@pytest.mark.parametrize("ending", [*slow([one for one in SAFE if one not in (".json", ".txt")]), ".json", ".txt"])
def test_a_pickle_under_another_ending_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m{ending}"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelError, match=r"cannot be read as") as raised:
        load_model(path, trust_pickle=True)
    assert str(raised.value).count("cannot be read") == 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".pt", ".pt2", ".keras"])
def test_an_archive_with_a_pickle_is_refused(tmp_path: Path, ending: str) -> None:
    torch = optional("torch")
    path = tmp_path / f"m{ending}"
    torch.save(network(), path)
    with pytest.raises(ModelError, match="cannot be read as"):
        load_model(path)


def changed_archive(path: Path, edit: Callable[[str, bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        content = {name: edit(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("torch.ops.aten.softmax.int", "torch.hub.load", "calls torch.hub.load"),
        ("torch.ops.aten.softmax.int", "torch.ops.aten.from_file.default", "calls torch.ops.aten.from_file"),
        ("torch.ops.aten.softmax.int", "torch.ops.aten.softmax.__class__", "calls torch.ops.aten.softmax"),
        ('"use_pickle": false', '"use_pickle": true', "is a pickle"),
        ('"sizes": [{"as_int": 8}, {"as_int": 4}]', '"sizes": [{"as_int": 80000}, {"as_int": 40000}]', "claims more"),
    ],
)
def test_exported_programs_call_nothing_else(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "m.pt2"
    exported(path)
    seen = []

    def edit(name: str, content: bytes) -> bytes:
        if not name.endswith(".json"):
            return content
        text = json.dumps(json.loads(content))
        seen.append(old in text)
        return text.replace(old, new).encode()

    changed_archive(path, edit)
    assert any(seen)
    with pytest.raises(ModelError, match=re.escape(says)):
        load_model(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ['torch.save(input, "{}")', 'input.save("{}")', 'getattr(input, "save")("{}")', 'torch.from_file("{}", True, 1)',
     'ops.image.read_file("{}")', "(torch)"],
)  # fmt: skip
def test_scripts_call_nothing_else(tmp_path: Path, code: str) -> None:
    path = tmp_path / "m.pt"
    script(path)
    line = f"    a = {code.format(tmp_path / 'written')}\n    return "
    seen = []

    def edit(name: str, content: bytes) -> bytes:
        # A second script of a process has the file container/___torch_mangle_0.py instead of container.py.
        if "/container" not in name or not name.endswith(".py"):
            return content
        seen.append(b"    return " in content)
        return content.replace(b"    return ", line.encode())

    changed_archive(path, edit)
    assert any(seen)
    with pytest.raises(ModelError, match=r"may do more than compute|Script"):
        load_model(path)
    assert not (tmp_path / "written").exists()


@pytest.mark.slow
def test_keras_layers_only_compute(tmp_path: Path) -> None:
    keras = optional("keras")
    path = tmp_path / "m.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda rows: rows * 2), keras.layers.Dense(1)]).save(path)
    with pytest.raises(ModelError, match="would create keras.layers.Lambda"):
        load_model(path)
    keras_file(path)

    def edit(name: str, content: bytes) -> bytes:
        return content.replace(b'"keras.layers"', b'"os"', 1) if name == "config.json" else content

    changed_archive(path, edit)
    with pytest.raises(ModelError, match="would create os."):
        load_model(path)
    keras_file(path)
    changed_archive(path, lambda name, content: content.replace(b'"units": 8', b'"units": 800000000'))
    with pytest.raises(EvenhandError, match="trial_bytes|cannot be read"):
        load_model(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"left_children": 10**6}, "cannot be read|lead out"),
        ({"left_children": 0}, "lead out|cannot be read"),
        ({"split_indices": 77}, "columns that do not exist|cannot be read"),
    ],
)
def test_forged_trees_of_xgboost(tmp_path: Path, change: dict[str, int], says: str) -> None:
    path = tmp_path / "m.json"
    three_classes(path)
    content = json.loads(path.read_text())
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        for name, value in change.items():
            tree[name][1] = value
    path.write_text(json.dumps(content))
    with pytest.raises(EvenhandError, match=says):
        load_model(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (r"left_child=\S+", "left_child=99", "outside the tree"),
        (r"left_child=\S+", "left_child=0", "outside the tree"),
        (r"left_child=\S+", "left_child=-900", "outside the tree"),
        (r"split_feature=\S+", "split_feature=44", "columns that do not exist"),
        (r"num_leaves=\d+", "num_leaves=500000000", "number of leaves"),
        (r"cat_boundaries=0 1", "cat_boundaries=0 900", "categories that do not exist"),
        (r"num_tree_per_iteration=1", "num_tree_per_iteration=900", "other classes"),
        (r"max_feature_idx=3", "max_feature_idx=900000", "table_columns"),
        (r"objective=binary sigmoid:1", "objective=multiclass num_class:9000", "different number of classes"),
    ],
)
def test_forged_trees_of_lightgbm(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "m.txt"
    lightgbm_file(path)
    text, count = re.subn(old, new, path.read_text())
    assert count
    path.write_text(text)
    with pytest.raises(EvenhandError, match=says):
        load_model(path)


def test_a_file_without_its_last_trees_is_refused(tmp_path: Path) -> None:
    lightgbm_file(tmp_path / "m.txt")
    whole = (tmp_path / "m.txt").read_text()
    (tmp_path / "m.txt").write_text(whole[: whole.index("Tree=4")])
    with pytest.raises(ModelError, match="before its last tree"):
        load_model(tmp_path / "m.txt")


def test_sizes_of_trees_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    model = lightgbm_file(path)
    path.write_text(re.sub("tree_sizes=.*", "tree_sizes=999999999 1 1 1 1 1", path.read_text()))
    assert (load_model(path).scores(FRAME) == wrap(model).scores(FRAME)).all()


def test_columns_that_differ_are_listed(tmp_path: Path) -> None:
    xgboost_file(tmp_path / "m.json")
    FRAME.drop(columns="work").to_csv(tmp_path / "people.csv", index=False)
    arguments = ["audit", "--model", tmp_path / "m.json", "--data", tmp_path / "people.csv", "--protected", "sex"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 2, done.output
    said = " ".join(done.stderr.split())
    assert "the model's: age, work, sex, ratio; the space's: age, sex, ratio" in said


def test_limits_hold_for_each_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_LIMIT_MODEL_BYTES", "100")
    for ending in SAFE:
        path = tmp_path / f"m{ending}"
        path.write_bytes(b" " * 200)
        with pytest.raises(LimitExceeded, match="model_bytes"):
            load_model(path)


def test_such_files_cannot_be_trained(tmp_path: Path) -> None:
    from evenhand.models.files import load_object

    with pytest.raises(ModelError, match="XGBoost files cannot be trained"):
        load_object(tmp_path / "m.json")


def mlmodel(folder: Path, flavour: str, **settings: str) -> Path:
    folder.mkdir()
    lines = [f"    {key}: {value}" for key, value in settings.items()]
    (folder / "MLmodel").write_text("\n".join(["artifact_path: model", "flavors:", f"  {flavour}:", *lines, "run: 1"]))
    return folder


def test_folders_of_mlflow(tmp_path: Path) -> None:
    folder = mlmodel(tmp_path / "m", "lightgbm", code="null", data="model.lgb")
    model = lightgbm_file(folder / "model.lgb")
    assert (load_model(folder).scores(FRAME) == wrap(model).scores(FRAME)).all()
    pickled = mlmodel(tmp_path / "p", "sklearn", pickled_model="model.pkl")
    (pickled / "model.pkl").write_bytes(pickle.dumps(model))
    with pytest.raises(ModelError, match="runs code"):
        load_model(pickled)
    assert (load_model(pickled, trust_pickle=True).scores(FRAME) == wrap(model).scores(FRAME)).all()
    with pytest.raises(ModelError, match="outside the folder"):
        load_model(mlmodel(tmp_path / "o", "lightgbm", data="../m/model.lgb"))
    with pytest.raises(ModelError, match=r"none of its flavours is supported; it has python_function"):
        load_model(mlmodel(tmp_path / "f", "python_function", loader_module="x"))
