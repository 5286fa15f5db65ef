"""The arguments of a report are checked before the model is queried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import DataError, EvenhandError, ModelError, RunError
from evenhand.reports.report import gathered
from evenhand.runs.replay import Source
from tests.helpers import optional
from tests.reports.conftest import SPACE, decide
from tests.reports.page import Page


class Counted:
    """The model, and how often it was asked."""

    calls = 0

    def __call__(self, frame: pd.DataFrame) -> Any:
        self.calls += 1
        return decide(frame)


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 3}, {"examples": 0}, {"examples": None}, {"seed": -1}, {"confidence": 2}, {"others": [3]},
        {"others": None}, {"others": 3}, {"show_examples": "no"}, {"ask": "no"}, {"ask": 1}, {"coverage": "x"},
        {"title": 5}, {"note": None}, {"y": "nope"}, {"y": [1, 2]}, {"y": "paid"},
    ],
)  # fmt: skip
def test_wrong_arguments(data: pd.DataFrame, tmp_path: Path, wrong: dict[str, Any]) -> None:
    model = Counted()
    run = eh.audit(model, SPACE, "themis", eh.Budget(tests=50), data=data)
    asked = model.calls

    def reported() -> None:
        direct = {name: value for name, value in wrong.items() if name in ("samples", "show_examples", "y")}
        others = {name: value for name, value in wrong.items() if name not in direct}
        eh.report(run, tmp_path / "x.html", options=eh.ReportOptions(**others), **direct)

    with pytest.raises(EvenhandError, match=next(iter(wrong))):
        reported()
    assert model.calls == asked
    assert not (tmp_path / "x.html").exists()


def test_a_run_alone_is_no_list_of_others(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"write others=\[run\]"):
        eh.report(run, tmp_path / "x.html", options=eh.ReportOptions(others=run))  # type: ignore[arg-type]
    with pytest.raises(RunError, match="must be an eh.Run"):
        eh.report(3, tmp_path / "x.html")  # type: ignore[arg-type]


def test_a_decision_that_no_individual_gets(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must be a decision of decide") as caught:
        eh.report(run, tmp_path / "x.html", favourable="yes")
    assert (caught.value.parameter, caught.value.value) == ("favourable", "yes")
    assert all(f"'{decision}'" in str(caught.value.remedy) for decision in ("refused", "granted"))

    def three(frame: pd.DataFrame) -> Any:
        return np.where(frame["age"] == 50, "later", decide(frame))

    # One that no finding has is looked for.
    third = eh.audit(three, SPACE, "themis", eh.Budget(tests=200))
    assert gathered(third, favourable="later", samples=200).subject.named
    scored = eh.audit(lambda f: f["age"] / 100 + (f["sex"] == "F"), SPACE, "themis", eh.Budget(tests=50),
                      criterion=eh.Gap(0.1))  # fmt: skip
    with pytest.raises(ModelError, match='must be "higher" or "lower".*got \'yes\''):
        gathered(scored, favourable="yes")


def test_the_place_is_looked_at_first(data: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("as it was")
    model = Counted()
    run = eh.audit(model, SPACE, "themis", eh.Budget(tests=50), data=data)
    asked = model.calls
    for place in (tmp_path, tmp_path / "file" / "x.html", 5, "a\0b"):
        with pytest.raises(RunError, match="cannot write|must be the name"):
            eh.report(run, place)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="samples"):
        eh.report(run, tmp_path / "file", samples=3)
    assert model.calls == asked
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "as it was")]


def test_no_path_returns_the_bytes_of_the_page(run: eh.Run, tmp_path: Path) -> None:
    page = eh.report(run, None, samples=200)
    assert page == eh.report(run, tmp_path / "page.html", samples=200).read_bytes()
    assert page.startswith(b"<!doctype html>")


def test_others_are_of_the_same_model_and_space(run: eh.Run, tmp_path: Path) -> None:
    kept = eh.audit(decide, SPACE, "themis", eh.Budget(tests=100), criterion=eh.Flip(), directory=tmp_path / "run")
    assert len(gathered(run, samples=200, options=eh.ReportOptions(others=[kept])).others) == 1
    small = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("m")], protected="m")
    with pytest.raises(RunError, match="another space"):
        gathered(run, options=eh.ReportOptions(others=[eh.audit(lambda f: f["age"] > 3, small, "themis")]))
    stranger = eh.audit(lambda f: f["age"] > 50, SPACE, "themis", eh.Budget(tests=100))
    for one in (run, eh.Run.load(tmp_path / "run")):
        with pytest.raises(RunError, match="another model"):
            gathered(one, options=eh.ReportOptions(others=[stranger]))


def test_changed_and_missing_files_are_named(data: pd.DataFrame, tmp_path: Path) -> None:
    model, rows = tmp_path / "model.onnx", tmp_path / "rows.csv"
    model.write_text("1")
    data.to_csv(rows, index=False)
    run = eh.audit(decide, SPACE, "themis", eh.Budget(tests=50), directory=tmp_path / "run")
    Source.of(str(model), None, str(rows)).keep(run)
    kept = eh.Run.load(tmp_path / "run")
    model.unlink()
    content = gathered(kept)
    assert f"not available: the run's model was {model}, which is no longer a file" in content.missing["common"]
    assert content.subject.data is not None
    model.write_text("2")
    with pytest.raises(RunError, match=r"model.onnx has changed"):
        gathered(kept)
    assert gathered(kept, model=decide, samples=200).subject.data is not None
    rows.write_text("age\n3\n")
    with pytest.raises(RunError, match=r"rows.csv has changed"):
        gathered(kept, model=decide)
    rows.unlink()
    content = gathered(kept, model=decide, samples=200)
    assert f"there is no data: the run's data was {rows}, which is no longer a file" in content.missing["common data"]


def test_texts_have_no_favourable_decision(text_run: eh.Run) -> None:
    with pytest.raises(RunError, match="favourable is for runs of rows"):
        gathered(text_run, favourable="fine")
    with pytest.raises(DataError, match="give them: data="):
        gathered(eh.audit(decide, SPACE, "themis", eh.Budget(tests=50)), y="paid")


def test_an_unsteady_run_has_no_rate_in_its_report(tmp_path):
    """A model that a position in the batch sways, rarely: its findings are refuted, and no share is shown."""

    def swayed(X):
        said = X[:, 0] * 2 + X[:, 1] > 120
        said[np.arange(len(X)) % 1999 == 1998] ^= True
        return said

    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Integer("sex", 0, 1)], protected="sex")
    model = eh.wrap(swayed, input="array", name="swayed")
    with pytest.raises(eh.errors.FlakyModel):
        eh.audit(model, space, "themis", eh.Budget(tests=9000), directory=tmp_path / "r")
    run = eh.Run.load(tmp_path / "r")
    assert (run.confirmed, run.note) == (0, None)
    page = eh.report(run, tmp_path / "r.html", model=model).read_text("utf-8")
    assert "Unknown: the model is not deterministic" in page
    assert "was not measured: the model is not deterministic" in page
    assert page.count("left out: the model is not deterministic") == (3 if run.found else 2)
    assert "The same person" not in page
    assert f"{run.refuted}</data> of its findings" in page


def test_confirmation_is_unknown_if_the_model_failed_first(tmp_path: Path) -> None:
    model = eh.wrap(lambda X: X[:, 0] > X[:, 0].mean(), input="array", name="relative")
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("sex", 0, 1)], protected="sex")
    with pytest.raises(eh.errors.FlakyModel):
        eh.audit(model, space, "themis", directory=tmp_path / "r")
    run = eh.Run.load(tmp_path / "r")
    assert run.refuted == 0
    page = eh.report(run, tmp_path / "r.html", model=model).read_text("utf-8")
    assert "Unknown: the model is not deterministic" in page
    assert "of its findings" not in page
    assert "estimate.rate" not in page


def test_findings_that_are_not_confirmed_are_labelled_beside_their_number() -> None:
    for confirm, words in ((0, "; none is confirmed"), (4, " are not confirmed"), (None, "")):
        run = eh.audit(decide, SPACE, "themis", eh.Budget(tests=300), confirm=confirm)
        number = Page(eh.report(run, None).decode()).text.split("Pairs that the search found")[1].split("Who gains")[0]
        assert words in number
        assert ("confirmed" in number) == bool(words)


def test_a_part_that_is_left_out_says_nothing_else() -> None:
    calls = 0

    def noisy_later(frame: pd.DataFrame) -> Any:
        nonlocal calls
        calls += 1
        return (decide(frame) == "granted") ^ (np.random.default_rng(calls).random(len(frame)) < 0.2 * (calls > 4))

    with pytest.raises(eh.errors.FlakyModel) as caught:
        eh.audit(noisy_later, SPACE, "themis", eh.Budget(tests=3_000))
    assert caught.value.partial.found
    page = Page(eh.report(caught.value.partial, None).decode()).text
    assert "left out: the model is not deterministic" in page
    assert "Each card shows" not in page


def test_a_report_with_group_figures_refers_to_them(data: pd.DataFrame) -> None:
    optional("fairlearn")
    run = eh.audit(lambda frame: frame["hours"] > 30, SPACE, "themis", eh.Budget(tests=300), data=data)
    for given, words in (({}, "--favourable DECISION"), ({"favourable": True}, "the group figures below")):
        steps = Page(eh.report(run, None, **given).decode()).text.split("What to do next")[1]
        assert words in " ".join(steps.split())[:200]
