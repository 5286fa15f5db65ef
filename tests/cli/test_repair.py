from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.repairs.evidence import Interval
from evenhand.repairs.result import Comparison, choose, sentences
from tests.cli import models
from tests.cli.conftest import MODELS, Command
from tests.helpers import optional

pytestmark = pytest.mark.usefixtures("estimator")
QUICK = ("--samples", 2000, "--budget-tests", 2000)


@pytest.fixture
def repair(evenhand: Command, table: Path) -> Command:
    def call(model: str, *arguments: object) -> Any:
        given = ["--data", table, "--target", "paid", "--protected", "sex"]
        return evenhand("repair", "--model", model, *given, *arguments)

    return call


def values(done: Any) -> Any:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.slow
def test_an_unchanged_model_has_the_figures_of_the_original(repair: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(X: Any, y: Any) -> Any:
        """Decide by sex more often, the more rows there are to train with."""
        bar = 40 if len(X) <= 280 else 10
        return lambda frame: np.where((frame["sex"] == "F") & (frame["hours"] > bar), "low", "high")

    monkeypatch.setattr(sys.modules["stock"], "train", train, raising=False)
    told = values(repair("stock:train", *QUICK, "--method", "retrain", "--method", "augment", "--json"))["methods"]
    assert [one["changed"] for one in told.values()] == [False, False]
    assert told["retrain"]["settings"]["tests_used"] == told["augment"]["settings"]["tests_used"]
    for one in told.values():
        assert one["before"] == one["after"] == told["retrain"]["before"]


@pytest.mark.slow
def test_all_methods_in_one_table(repair: Command, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    done = repair("stock:tree", "--samples", 500, "--budget-tests", 500, "--plot", plot)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    text = " ".join(done.stdout.split())
    for word in ("original", "control", "augment", "counterfactual", "marginal", "Best: "):
        assert word in text
    assert plot.read_text().startswith("<?xml")


def test_a_saved_model_is_a_model(repair: Command, evenhand: Command, table: Path, tmp_path: Path) -> None:
    optional("skops")
    saved = tmp_path / "fair.skops"
    done = repair("stock:tree", *QUICK, "--save", saved, "--method", "marginal")
    text = " ".join(done.stdout.split())
    assert "--trust" not in text
    given = ["--model", saved, "--data", table, "--target", "paid", "--protected", "sex"]
    audited = values(evenhand("audit", *given, "--budget-tests", 5000, "--json"))
    assert audited["findings"] == 0
    assert audited["tests"] > 1000


def test_json_is_the_repairs(repair: Command) -> None:
    named = ["--method", "counterfactual", "--method", "marginal"]
    found = values(repair("stock:tree", *QUICK, *named, "--json", "--tolerate", 0.5))
    assert list(found["methods"]) == ["counterfactual", "marginal"]
    assert found["methods"]["marginal"]["after"]["uniform"]["rate"] == 0
    # Sex matters for pay here, so both lose much.
    assert (found["chosen"], found["saved"], found["failed"]) == ("original", None, {})
    assert found["why"] == (
        "no method significantly reduces the rate, also compared with the control, "
        "and loses at most 0.5 points of accuracy"
    )


@pytest.mark.slow
def test_a_training_function_and_a_file(repair: Command, tmp_path: Path) -> None:
    import joblib

    only = values(repair(f"{MODELS}:train", *QUICK, "--method", "marginal", "--json"))
    assert only["why"] == "it is the only method"
    before, after = (only["methods"]["marginal"][when] for when in ("before", "after"))
    assert before["uniform"]["rate"] > 0.05
    assert after["uniform"]["rate"] == 0
    path = tmp_path / "tree.joblib"
    joblib.dump(models.tree(), path)
    done = repair(path, *QUICK, "--method", "marginal", "--trust-pickle", "--save", tmp_path / "fair.joblib")
    assert "runs the code in it" in done.stderr
    fair = joblib.load(tmp_path / "fair.joblib")
    assert isinstance(fair, eh.MarginalModel)


@pytest.mark.slow
def test_a_configuration(evenhand: Command, table: Path) -> None:
    config = table.parent / "evenhand.toml"
    config.write_text(
        '[model]\npath = "stock:tree"\n[data]\npath = "staff.csv"\ntarget = "paid"\n[space]\nprotected = ["sex"]\n'
        '[audit]\nseed = 3\n[budget]\ntests = 1000\n[repair]\nmethods = ["marginal"]\nheld_out = 0.5\nsamples = 1000\n'
        'save = "fair.joblib"\nplot = "plot.png"\n'
    )
    found = values(evenhand("repair", config, "--json", "--samples", 1500))
    [one] = found["methods"].values()
    assert (one["seed"], one["settings"]["held_out_rows"], one["after"]["uniform"]["samples"]) == (3, 200, 1500)
    assert (table.parent / "fair.joblib").exists()
    assert (table.parent / "plot.png").exists()


@pytest.mark.slow
def test_a_method_that_fails_leaves_the_others(repair: Command) -> None:
    done = repair(f"{MODELS}:train", *QUICK, "--method", "consistency", "--method", "marginal")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    text = " ".join(done.stdout.split())
    assert "consistency: failed:" in text
    assert "marginal:" in text
    quiet = repair(f"{MODELS}:train", *QUICK, "--method", "marginal", "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")


def repaired(fall: float | None, gain: float, sure: float = 0.02, data: float | None = None, moved: int = 0,
             control: float | None = None) -> Any:  # fmt: skip
    def interval(value: float | None) -> Any:
        return None if value is None else Interval(value, value - sure, value + sure)

    differences = {"uniform": interval(fall), "data": interval(data), "accuracy": interval(gain)}
    against = {} if control is None else {"uniform": interval(control), "data": interval(control)}
    return SimpleNamespace(differences=differences, control_differences=against, moved=("age",) * moved)


def test_choosing_a_repair() -> None:
    done = {"a": repaired(-0.5, -0.05), "b": repaired(-0.4, -0.005), "c": repaired(-0.4, -0.003)}
    done["d"] = repaired(-0.2, 0.01)
    assert choose(done, 1.0)[0] == "c"
    assert choose(done, 6.0)[0] == "a"
    assert choose(done, 0.0)[0] == "d"
    assert choose(done, 1.0, only=True) == ("a", "it is the only method")
    kept = (
        "no method significantly reduces the rate, also compared with the control, "
        "and loses at most 1 point of accuracy"
    )
    # The same training with nothing added does as well.
    assert choose({"a": repaired(-0.4, 0.0, control=-0.01)}, 1.0) == ("original", kept)
    assert choose({"a": repaired(-0.4, 0.0, control=-0.3)}, 1.0)[0] == "a"
    assert choose({"a": done["a"]} | {"e": repaired(-0.01, 0.0), "f": repaired(None, 0.0)}, 1.0) == ("original", kept)
    assert choose({"a": repaired(-0.4, 0.0, moved=1), "b": repaired(-0.4, 0.0)}, 1.0)[0] == "b"
    # Where the repair used all valid individuals, people like the held-out rows decide.
    assert choose({"e": repaired(-0.01, 0.0), "f": repaired(None, 0.0, data=-0.3)}, 1.0)[0] == "f"


def test_a_method_that_loses_too_much_accuracy_is_named() -> None:
    rows = {"before": SimpleNamespace(texts=False), "settings": {"training_rows": 70}, "control": None}
    dear, useless = repaired(-0.5, -0.0525), repaired(-0.01, 0.0)
    for one in (dear, useless):
        vars(one).update(rows)
    original = "Original: the same estimator, trained again on 70 rows."
    assert sentences(Comparison({"a": dear, "b": useless}, {}, "original", "why")) == [
        original,
        "Best: the original model (why).",
        "a significantly reduces the rate, but loses 5.25 points of accuracy: it would be returned with a larger "
        "tolerate.",
    ]
    assert sentences(Comparison({"b": useless}, {}, "original", "why")) == [original, "Best: the original model (why)."]


def test_a_method_without_effect_is_not_chosen(repair: Command, tmp_path: Path) -> None:
    import joblib

    # Training ignores what is added.
    saved = tmp_path / "kept.joblib"
    given = ["--method", "counterfactual", "--method", "counterfactual", "--method", "augment"]
    done = repair(f"{MODELS}:stubborn", *QUICK, *given, "--save", saved, "--strategy", "themis")
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "Best: the original model (no method significantly reduces the rate" in text
    assert text.count("counterfactual:") == 1
    assert isinstance(joblib.load(saved), models.Stubborn)


def test_a_missing_package_is_named_before_the_work(
    repair: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.cli.repair.find_spec", lambda name: None)
    done = repair(f"{MODELS}:train", *QUICK, "--method", "marginal", "--save", tmp_path / "fair.skops")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "pip install 'evenhand[skops]'" in done.stderr


@pytest.mark.slow
def test_results_are_shown_if_saving_fails(repair: Command, tmp_path: Path) -> None:
    optional("skops")
    for name in ("fair.skops", "fair.joblib"):
        path = tmp_path / name
        path.write_text("precious")
        plot = tmp_path / "plot.svg"
        given = [f"{MODELS}:train", *QUICK, "--method", "marginal", "--save", path, "--plot", plot]
        done = repair(*given)
        assert done.exit_code == 2, done.output
        text = " ".join(done.stdout.split())
        assert "marginal:" in text
        assert "saved" not in text
        assert "cannot save the MarginalModel" in done.stderr
        assert len(done.stderr.splitlines()) <= 3
        assert ("name a .joblib file" in done.stderr) == (path.suffix == ".skops")
        assert path.read_text() == "precious"
        assert plot.exists()
        told = repair(*given, "--json")
        assert told.exit_code == 2
        found = json.loads(told.stdout)
        assert (found["chosen"], found["saved"], found["plot"]) == ("marginal", None, str(plot))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fair.joblib", "fair.skops", "plot.svg", "staff.csv"]


def test_a_saved_file_takes_the_place_of_another(repair: Command, tmp_path: Path) -> None:
    import joblib

    (tmp_path / "old.joblib").write_text("old")
    (tmp_path / "link.joblib").symlink_to(tmp_path / "old.joblib")
    done = repair("stock:tree", *QUICK, "--method", "marginal", "--save", tmp_path / "link.joblib")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "link.joblib").is_symlink()
    assert isinstance(joblib.load(tmp_path / "old.joblib"), eh.MarginalModel)


@pytest.mark.slow
def test_attributes_that_were_not_checked_are_listed(repair: Command, evenhand: Command, table: Path) -> None:
    done = repair("stock:tree", *QUICK, "--method", "marginal", "--watch", "work")
    text = " ".join(done.stdout.split())
    assert "not checked: whether discrimination moved to age, hours; --watch NAME checks it" in text
    both = ["--watch", "age", "--watch", "hours", "--watch", "work"]
    every = values(repair("stock:tree", *QUICK, "--method", "marginal", "--json", *both))
    assert every["not_looked_at"] == []
    assert {shift["attribute"] for shift in every["methods"]["marginal"]["shifts"]} == {"age", "hours", "work"}
    config = table.parent / "evenhand.toml"
    config.write_text(
        '[model]\npath = "stock:tree"\n[data]\npath = "staff.csv"\ntarget = "paid"\n[space]\nprotected = ["sex"]\n'
        '[budget]\ntests = 1000\n[repair]\nmethods = ["marginal"]\nsamples = 1000\nwatch = []\n'
    )
    done = evenhand("repair", config, width=200)
    text = " ".join(done.stdout.split())
    assert "not checked: whether discrimination moved to age, hours, work" in text, text
    assert "age, hours, work" in text


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("stock:tree", ["--method", "pray"], ["'pray'", "retrain"]),
        ("stock:tree", ["--save", "model.txt"], ["--save", ".skops"]),
        ("stock:tree", ["--save", "no/such/folder/m.skops"], ["--save"]),
        ("stock:tree", ["--plot", "plot.gif"], ["--plot", ".svg"]),
        ("stock:tree", ["--held-out", "1.5"], ["--held-out must"]),
        ("stock:tree", ["--target", "pay"], ["'pay'", "paid"]),
        ("stock:tree", ["--samples", "0"], ["samples"]),
        ("stock:tree", ["--tolerate", "-1"], ["tolerate"]),
        ("stock:tree", ["--favourable", "rich"], ["rich", "high"]),
        ("stock:tree", ["--check", "kosai"], ["kosei"]),
        ("stock:tree", ["--watch", "pay"], ["'pay'"]),
        ("stock:forest", [], ["no forest"]),
        (f"{MODELS}:no_training", [], ["out of luck"]),
        (f"{MODELS}:unclonable", [], ["cannot be cloned"]),
        ("model.onnx", [], ["cannot be trained"]),
        ("model.skops", [], ["no such file"]),
    ],
)
def test_wrong_usage(repair: Command, refused: Command, model: str, arguments: list[str], words: list[str]) -> None:
    refused(repair(model, *QUICK, *arguments), *words)


def test_missing_settings(evenhand: Command, refused: Command, table: Path) -> None:
    refused(evenhand("repair"), "no model to repair")
    refused(evenhand("repair", "--model", "stock:tree", "--data", table), "--target")
    config = table.parent / "evenhand.toml"
    config.write_text('[repair]\nmethod = "marginal"\n')
    refused(evenhand("repair", config), "repair.method", "methods")
    config.write_text('[model]\npath = "stock:tree"\nthreshold = 0.3\n[data]\npath = "staff.csv"\ntarget = "paid"\n')
    refused(evenhand("repair", config), "threshold")
