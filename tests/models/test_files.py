from __future__ import annotations

import pickle
import sys
import zipfile

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from evenhand.errors import LimitExceeded, MissingExtra, ModelError
from evenhand.models.files import load_model
from evenhand.models.wrap import wrap
from tests.helpers import optional
from tests.models.people import answers, numbers, people

X = np.nan_to_num(numbers(people()))
Y = answers(people())


def halve(X):
    return X / 2


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty directory, and take back what loading does to the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def fitted():
    return LogisticRegression().fit(X, Y)


def test_skops_files(tmp_path):
    optional("skops.io").dump(fitted(), tmp_path / "m.skops")
    for load in (load_model, wrap):
        assert (load(tmp_path / "m.skops").labels(X) == fitted().predict(X)).all()
    assert wrap("m.skops", threshold=0.9).threshold == 0.9


def test_untrusted_types_are_listed_and_can_be_allowed(tmp_path):
    pipeline = make_pipeline(FunctionTransformer(halve), LogisticRegression()).fit(X, Y)
    optional("skops.io").dump(pipeline, tmp_path / "m.skops")
    name = "tests.models.test_files.halve"
    with pytest.raises(ModelError, match=rf"would create {name}.*trust=\['{name}'\]") as caught:
        wrap(tmp_path / "m.skops")
    assert len(str(caught.value).splitlines()) <= 3
    model = load_model(tmp_path / "m.skops", trust=[name])
    assert (model.labels(X) == pipeline.predict(X)).all()


@pytest.mark.parametrize("content", [b"no zip", b"PK\x03\x04 cut off"])
def test_damaged_skops_files(tmp_path, content):
    optional("skops")
    (tmp_path / "m.skops").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as skops") as caught:
        wrap(tmp_path / "m.skops")
    assert len(str(caught.value).splitlines()) <= 2


def test_a_zip_file_of_something_else(tmp_path):
    optional("skops")
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ModelError, match="cannot be read as skops"):
        wrap(tmp_path / "m.skops")


def test_a_skops_file_that_unpacks_to_too_much(tmp_path, monkeypatch):
    optional("skops")
    with zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", " " * 10**6)
    monkeypatch.setenv("EVENHAND_LIMIT_MODEL_BYTES", "100000")
    assert (tmp_path / "m.skops").stat().st_size < 10**5
    with pytest.raises(LimitExceeded, match="model_bytes of 100,000 .*got 1,000,000"):
        wrap(tmp_path / "m.skops")


def test_a_forest_is_within_the_limits_of_its_file(tmp_path, monkeypatch):
    optional("skops.io").dump(RandomForestClassifier(20, random_state=0).fit(X, Y), tmp_path / "m.skops")
    monkeypatch.setenv("EVENHAND_LIMIT_MODEL_NODES", "3000")
    assert len(load_model(tmp_path / "m.skops").labels(X)) == len(X)
    monkeypatch.setenv("EVENHAND_LIMIT_MODEL_NODES", "500")
    with pytest.raises(LimitExceeded, match="model_nodes"):
        load_model(tmp_path / "m.skops")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "m.skops").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtra, match=r"evenhand\[skops\]"):
        wrap(tmp_path / "m.skops")


@pytest.mark.parametrize("ending", ["joblib", "pkl", "pickle", "PKL"])
def test_pickles_need_trust(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    joblib.dump(fitted(), path) if ending == "joblib" else path.write_bytes(pickle.dumps(fitted()))
    for load in (load_model, wrap):
        with pytest.raises(ModelError, match=r"runs code from the file.*trust_pickle=True"):
            load(path)
    assert (load_model(path, trust_pickle=True).labels(X) == fitted().predict(X)).all()


class Trap:
    def __reduce__(self):
        return (sys.exit, ("sprung",))


def test_a_refused_pickle_runs_nothing(tmp_path):
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelError, match="runs code"):
        load_model(tmp_path / "m.pkl")


def test_a_damaged_pickle(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="cannot be read as a pickle"):
        load_model(tmp_path / "m.pkl", trust_pickle=True)


@pytest.mark.parametrize("ending", ["onnx", "skops", "pkl"])
def test_files_that_cannot_be_models(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    with pytest.raises(ModelError, match="there is no such file"):
        wrap(path)
    path.touch()
    with pytest.raises(ModelError, match="empty"):
        wrap(path)
    with path.open("wb") as file:
        file.truncate(5 * 2**30)
    with pytest.raises(LimitExceeded, match=r"model_bytes of 4,294,967,296 .*got 5,368,709,120"):
        wrap(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ModelError, match="directory"):
        wrap(path)
    with pytest.raises(ModelError, match="check the path"):
        wrap(f"a\0.{ending}")


@pytest.mark.parametrize("spec", ["model.h5", "", "model", "a:b:c", "a b:c", "1a:b", ":b", "a:"])
def test_other_strings_are_refused(spec):
    with pytest.raises(ModelError, match=r"not a model; give .*module:attribute"):
        load_model(spec)


def test_attributes_of_modules_in_the_current_directory(tmp_path):
    (tmp_path / "my_loans.py").write_text(
        "class Box:\n    @staticmethod\n    def rule(X):\n"
        "        import my_neighbour\n        return my_neighbour.rule(X)\n"
    )
    (tmp_path / "my_neighbour.py").write_text("def rule(X):\n    return X['age'] > 4\n")
    model = load_model("my_loans:Box.rule")
    assert model.name == "rule"
    assert model.labels(people()).tolist() == (people()["age"] > 4).tolist()
    assert wrap("my_neighbour:rule", name="n").name == "n"


def test_modules_that_do_not_import(tmp_path):
    (tmp_path / "my_broken.py").write_text("1 / 0\n")
    (tmp_path / "my_leaving.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "my_small.py").write_text("rule = None\n_hidden = 1\n")
    for spec, message in {
        "my_broken:f": "ZeroDivisionError",
        "my_leaving:f": "SystemExit",
        "my_absent:f": "ModuleNotFoundError",
        "my_small:f": r"has no f; it has rule",
        "my_small:rule": "model must be a function",
    }.items():
        with pytest.raises(ModelError, match=message):
            load_model(spec)


def test_a_model_that_is_no_path() -> None:
    with pytest.raises(ModelError, match="spec must be a path, got 5; give a str"):
        load_model(5)
