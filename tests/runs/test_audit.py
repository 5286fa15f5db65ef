from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand as eh
from evenhand.errors import DataError, FlakyModel, ModelError, ModelTimeout, RunError, SpaceError, StrategyError
from tests.helpers import source_environment
from tests.worlds import random_world


@pytest.fixture
def space() -> eh.Space:
    return eh.Space([eh.Integer("age", 1, 50), eh.Nominal("sex", ["F", "M"])], protected="sex")


def rule(frame: pd.DataFrame) -> Any:
    return np.where((frame["age"] < 20) & (frame["sex"] == "F"), "no", "yes")


def applicants(n: int = 400) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(3000, 900, n).round(2),
            "years": rng.integers(0, 30, n),
            "city": rng.choice(["Ankara", "Bern", "Cuzco"], n),
            "sex": rng.choice(["female", "male"], n),
            "owner": rng.choice([True, False], n),
        }
    )
    wanted = frame["income"] + 800 * (frame["sex"] == "male") + rng.normal(0, 300, n)
    frame.loc[rng.random(n) < 0.1, "city"] = None
    frame.loc[rng.random(n) < 0.1, "years"] = None
    return frame, pd.Series(np.where(wanted > 3400, "paid", "refused"), name="outcome")


def test_a_users_own_pipeline_in_five_lines() -> None:
    frame, outcome = applicants()
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city", "sex"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["income", "years", "owner"]),
    )
    model = make_pipeline(columns, LogisticRegression()).fit(frame, outcome)

    space = eh.Space.infer(frame.assign(outcome=outcome), protected=["sex"], target="outcome")
    run = eh.audit(model, space, strategy="kosei", budget=eh.Budget(tests=20_000), seed=0)

    findings = run.findings
    assert run.found > 100
    assert findings[frame.columns].dtypes.to_dict() == frame.dtypes.to_dict()
    assert (findings["sex"] != findings["counterpart_sex"]).all()
    other = findings[frame.columns].assign(sex=findings["counterpart_sex"])
    assert (model.predict(findings[frame.columns]) == findings["decision"]).all()
    assert (model.predict(other) == findings["counterpart_decision"]).all()
    assert findings["city"].isna().any()


def test_categories_reach_the_model_as_categories() -> None:
    frame, outcome = applicants()
    frame = frame.astype({"city": "category", "sex": "category"})
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype").fit(frame, outcome)
    space = eh.Space.infer(frame, protected="sex")
    run = eh.audit(model, space, strategy="themis", budget=eh.Budget(tests=5000))
    assert run.findings["city"].dtype == frame["city"].dtype
    assert (model.predict(run.findings[frame.columns]) == run.findings["decision"]).all()


def test_regression_needs_a_gamma() -> None:
    frame, _ = applicants()
    model = RandomForestRegressor(5, random_state=0).fit(frame[["income", "owner"]].astype(float), frame["income"] / 10)
    space = eh.Space.infer(frame[["income", "owner"]], protected="owner")
    with pytest.raises(ModelError, match="eh.Gap"):
        eh.audit(model, space)
    run = eh.audit(model, space, "themis", criterion=eh.Gap(1.0), budget=eh.Budget(tests=3000))
    found = run.findings
    assert (np.abs(found["decision"] - found["counterpart_decision"]) > 1.0).all()
    assert np.allclose(np.abs(found["decision"] - found["counterpart_decision"]), found["gap"])


def test_scores_and_a_threshold(space: eh.Space) -> None:
    def score(frame: pd.DataFrame) -> Any:
        return frame["age"] / 100 + 0.25 * (frame["sex"] == "M")

    by_gap = eh.audit(score, space, "themis", criterion=eh.Gap(0.2))
    assert (by_gap.found, by_gap.tests) == (50, 50)
    assert np.allclose(by_gap.findings["gap"], 0.25)
    assert eh.audit(score, space, "themis", criterion=eh.Gap(0.3)).found == 0
    cut = eh.wrap(score, threshold=0.3)
    flips = eh.audit(cut, space, "themis").findings
    assert sorted(flips["age"]) == list(range(5, 30))
    both = eh.audit(cut, space, "themis", criterion=eh.Flip() & eh.Gap(0.3))
    assert both.found == 0


def test_multi_class_and_any_label_type() -> None:
    space = eh.Space([eh.Integer("x", 0, 9), eh.Integer("age", 0, 2)], protected="age")
    for values in (["low", "mid", "high"], [0, 1, 2], [3.0, 1.0, 2.0], [True, False, True], [b"a", b"b", b"c"]):
        table = np.array(values, dtype=object) if isinstance(values[0], bytes) else np.array(values)
        run = eh.audit(lambda f, t=table: t[f["age"].to_numpy() * (f["x"].to_numpy() > 4)], space, "themis")
        assert run.found == 5
        assert sorted(run.findings["x"]) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (lambda f: 1 / 0, ModelError, "ZeroDivisionError"),
        (lambda f: f["missing"], ModelError, "missing"),
        (lambda f: [1], ModelError, "1 answers? for"),
        (lambda f: np.full(len(f), np.nan), ModelError, "NaN|missing"),
        (lambda f: [{}] * len(f), ModelError, "compare"),
        (lambda f: f["age"] / 100, ModelError, "Gap|threshold"),
        (42, ModelError, "got 42"),
        ("nowhere.onnx", ModelError, "nowhere.onnx"),
    ],
)
def test_models_that_are_none(model: Any, error: type[Exception], words: str, space: eh.Space) -> None:
    with pytest.raises(error, match=words):
        eh.audit(model, space)


def test_a_model_that_hangs_is_given_up(space: eh.Space) -> None:
    never = threading.Event()
    with pytest.raises(ModelTimeout, match="0.05"):
        eh.audit(eh.wrap(lambda f: never.wait() or rule(f), timeout=0.05), space)
    never.set()


def test_a_flaky_model_is_named_and_measured(space: eh.Space) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(FlakyModel) as caught:
        eh.audit(lambda f: rng.random(len(f)) < 0.5, space)
    assert 0.3 < caught.value.noise < 0.7


def test_batch_dependence_is_detected_at_the_end() -> None:
    world = random_world(2, 20_000)

    def by_batch(X: Any) -> Any:
        # Says something else of a row when it comes in a small batch, as a layer in training mode does.
        return 1 - world(X) if len(X) > 2000 else world(X)

    with pytest.raises(FlakyModel, match="other rows in the batch"):
        eh.audit(eh.wrap(by_batch, input="array", chunk=5000), world.space, "themis", eh.Budget(tests=1500))


def test_findings_survive_an_error(space: eh.Space) -> None:
    calls = 0

    def dies(frame: pd.DataFrame) -> Any:
        nonlocal calls
        # A single row that fails is queried again, with a copy.
        calls += len(frame) > 1
        if calls > 10:
            raise RuntimeError("out of memory")
        return rule(frame)

    with pytest.raises(ModelError, match="out of memory") as caught:
        eh.audit(eh.wrap(dies, chunk=20), space, eh.Themis(block=10))
    partial = caught.value.partial
    assert 0 < partial.tests < 50
    assert partial.stop is eh.StopReason.INTERRUPTED
    assert len(partial.findings) == partial.found


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"space": "space"}, SpaceError, "got 'str'"),
        ({"strategy": "genetic"}, StrategyError, "did you mean|themis"),
        ({"strategy": eh.Kosei}, StrategyError, "names: auto, themis"),
        ({"seed": -1}, StrategyError, "seed"),
        ({"seed": 1.5}, StrategyError, "seed"),
        ({"data": pd.DataFrame({"age": [1]})}, DataError, "lacks 'sex'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], words: str, space: eh.Space) -> None:
    with pytest.raises(error, match=words):
        eh.audit(**{"model": rule, "space": space, **arguments})


def test_a_column_that_the_space_lacks_is_named() -> None:
    frame, outcome = applicants()
    numbers = frame[["income", "owner"]].astype(float)
    model = LogisticRegression().fit(numbers.assign(extra=0.0), outcome)
    space = eh.Space.infer(frame[["income", "owner"]], protected="owner")
    with pytest.raises(DataError, match="'extra'"):
        eh.audit(model, space)


@pytest.mark.parametrize(
    "wrong", [{"tests": 0}, {"rows": -1}, {"findings": 1.5}, {"seconds": float("nan")}, {"tests": True}]
)
def test_wrong_budgets(wrong: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.BudgetError, match=next(iter(wrong))):
        eh.Budget(**wrong)


def test_seconds_end_a_run_and_add_up(tmp_path: Path) -> None:
    world = random_world(40, 100_000)
    ticks = iter(range(10_000))
    from evenhand.engine import oracle as clock

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock.time, "monotonic", lambda: next(ticks) / 10)
        run = eh.audit(
            eh.wrap(world.model, chunk=64), world.space, "themis", eh.Budget(seconds=5), directory=tmp_path / "r"
        )
    assert run.stop is eh.StopReason.SECONDS
    assert 0 < run.tests < world.space.tests
    again = eh.audit(
        eh.wrap(world.model, chunk=64), world.space, "themis", eh.Budget(seconds=5), directory=tmp_path / "r"
    )
    assert (again.tests, again.findings.to_csv()) == (run.tests, run.findings.to_csv())


def test_a_run_is_read_back_without_the_model(tmp_path: Path) -> None:
    frame, outcome = applicants()
    frame = frame.astype({"city": "category"})
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features=["city", "sex"]).fit(
        frame.astype({"sex": "category"}), outcome
    )
    space = eh.Space.infer(
        frame,
        protected=["sex"],
        constraints=["years is missing or income > 1000"],
        links={"sex": {"city": {"male": {"Bern": "Cuzco"}}}},
    )
    wrapped = eh.wrap(lambda f: model.predict(f.astype({"sex": "category"})))
    run = eh.audit(wrapped, space, "themis", eh.Budget(tests=2000), directory=tmp_path / "r", data=frame)
    loaded = eh.Run.load(tmp_path / "r")
    pd.testing.assert_frame_equal(loaded.findings, run.findings)
    assert loaded.space == space
    assert loaded.to_dict() == json.loads(json.dumps(run.to_dict()))
    assert repr(loaded) == repr(run)


def test_directories_that_are_no_place_for_the_run(tmp_path: Path, space: eh.Space) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match=r"letter\.txt"):
        eh.audit(rule, space, directory=foreign)
    assert [p.name for p in foreign.iterdir() if p.name != "lock"] == ["letter.txt"]
    with pytest.raises(RunError, match="cannot use"):
        eh.audit(rule, space, directory=foreign / "letter.txt" / "x")
    mine = tmp_path / "mine"
    eh.audit(rule, space, directory=mine)
    for other in ({"seed": 1}, {"strategy": "themis"}, {"criterion": eh.Flip() & eh.Flip()}):
        with pytest.raises(RunError, match="another run"):
            eh.audit(lambda f: (f["age"] < 20) & (f["sex"] == "F"), space, directory=mine, **other)  # type: ignore[arg-type]
    # Other individuals have other answers, which say nothing about the model.
    with pytest.raises(RunError, match="another run: space") as caught:
        eh.audit(rule, eh.Space(space.attributes[::-1], protected=space.protected), directory=mine)
    assert "answers" not in str(caught.value)
    with pytest.raises(RunError, match="another run: .*answers"):
        eh.audit(lambda f: np.where(f["age"] < 30, "no", "yes"), space, directory=mine)
    (mine / "identity.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        eh.audit(rule, space, directory=mine)
    with pytest.raises(RunError, match="not the directory of a run"):
        eh.Run.load(tmp_path)


def test_a_damaged_log_is_never_read_as_answers(tmp_path: Path) -> None:
    world = random_world(41, 20_000)
    eh.audit(eh.wrap(world.model, chunk=64), world.space, "themis", eh.Budget(tests=500), directory=tmp_path / "r")
    log = tmp_path / "r" / "answers.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 255
    log.write_bytes(bytes(data))
    with pytest.raises(RunError, match="damaged"):
        eh.audit(eh.wrap(world.model, chunk=64), world.space, "themis", eh.Budget(tests=600), directory=tmp_path / "r")
    with pytest.raises(RunError, match="damaged"):
        eh.Run.load(tmp_path / "r")


def test_two_processes_cannot_share_a_directory(tmp_path: Path, space: eh.Space) -> None:
    def nested(frame: pd.DataFrame) -> Any:
        with pytest.raises(RunError, match="in use"):
            eh.audit(rule, space, directory=tmp_path / "r")
        return rule(frame)

    calls = 0

    def model(frame: pd.DataFrame) -> Any:
        nonlocal calls
        calls += 1
        return nested(frame) if calls == 6 else rule(frame)

    assert eh.audit(model, space, directory=tmp_path / "r").found == 19


KILLED = """
import sys, numpy as np, evenhand as eh
from tests.worlds import random_world
world = random_world(33, 60_000)
print("ready", flush=True)
class Slow(type(world)):
    def __call__(self, X):
        with open(sys.argv[2], "ab") as file:
            file.write(world.space.coding.ids(X.astype(np.int32)).tobytes())
        return super().__call__(X)
slow = Slow(world.space, world.table)
strategy, budget = eh.Kosei(samples=50, wave=32), eh.Budget(tests=4000)
run = eh.audit(eh.wrap(slow.model, chunk=64), world.space, strategy, budget, directory=sys.argv[1])
run.findings.to_csv(sys.argv[3])
"""


@pytest.mark.slow
def test_kill_minus_nine_loses_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    environment = source_environment()
    world = random_world(33, 60_000)
    whole = eh.audit(eh.wrap(world.model, chunk=64), world.space, eh.Kosei(samples=50, wave=32), eh.Budget(tests=4000))
    expected = whole.findings.to_csv()
    rng = random.Random(0)
    for attempt in range(3):
        directory, side, out = tmp_path / f"r{attempt}", tmp_path / f"asked{attempt}", tmp_path / f"out{attempt}.csv"
        command = [sys.executable, "-c", KILLED, str(directory), str(side), str(out)]
        process = subprocess.Popen(command, env=environment, cwd=root, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        # Die once a random number of rows has been asked, wherever the program then is.
        target = rng.randrange(600, 30_000) * 8
        while process.poll() is None and (side.stat().st_size if side.exists() else 0) < target:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        before = np.fromfile(side, dtype=np.int64)
        side.unlink()
        subprocess.run(command, env=environment, cwd=root, check=True, stdout=subprocess.DEVNULL)
        assert out.read_text() == expected.replace("\r\n", "\n")
        after = np.fromfile(side, dtype=np.int64)
        run = eh.Run.load(directory)
        asked_now = run.rows - run.counts["rows_from_log"]
        assert len(after) == asked_now + run.rows_checked
        # Of what the killed process asked, only the rows that check the model and the last block are not stored.
        confirming = run.counts["rows_from_log"] == run.rows
        checks = whole.rows_checked - (0 if confirming else 2 * whole.found)
        assert len(before) - run.counts["rows_from_log"] <= checks + 64


def test_untestable_individuals_are_counted_once() -> None:
    # Only women may have children here, so parents have no counterpart.
    space = eh.Space(
        [eh.Integer("children", 0, 4), eh.Integer("x", 0, 9), eh.Nominal("sex", ["F", "M"])],
        protected="sex",
        constraints=["sex == 'F' or children == 0"],
    )
    run = eh.audit(eh.wrap(lambda f: f["sex"] == "F", chunk=4), space, "themis")
    assert (run.tests, run.found, run.counts["untestable"]) == (10, 10, 40)


@pytest.mark.slow
def test_a_large_space_without_counterparts_is_refused() -> None:
    wide = eh.Space(
        [*(eh.Integer(f"a{j}", 0, 99) for j in range(8)), eh.Nominal("sex", ["F", "M"])],
        protected="sex",
        constraints=["sex == 'F'"],
    )
    with pytest.raises(SpaceError, match="has two valid counterparts"):
        eh.audit(lambda f: f["sex"] == "F", wide, eh.Themis(block=40_000))


def test_a_sample_of_counterparts_is_mentioned() -> None:
    space = eh.Space([eh.Integer("k", 0, 3), eh.Real("income", 0, 1, step=1e-4)], protected="income")
    run = eh.audit(lambda f: f["income"] > 0.99995, space, "themis")
    assert run.sampled
    assert run.to_dict()["sampled"]
    assert "each against a sample of 1,000 counterparts" in repr(run)


def test_columns_of_the_user_are_never_overwritten() -> None:
    names = ("decision", "gap", "counterpart_sex")
    space = eh.Space([*(eh.Integer(name, 0, 3) for name in names), eh.Nominal("sex", ["F", "M"])], protected="sex")
    for rule_ in (lambda f: (f["gap"] > 1) & (f["sex"] == "F"), lambda f: f["gap"] > 1):
        found = eh.audit(rule_, space, "themis").findings
        assert list(found.columns) == [
            *space.names,
            "counterpart_sex_",
            "decision_",
            "counterpart_decision",
            "gap_",
            "confirmed",
        ]
        assert ((found["gap"] > 1) & (found["sex"] == "F") == found["decision_"]).all()


def test_findings_survive_a_failed_confirmation(tmp_path: Path) -> None:
    world = random_world(2, 20_000)

    def turns(X: Any) -> Any:
        return 1 - world(X) if world.calls > before else world(X)

    found = eh.audit(eh.wrap(world.model, chunk=100), world.space, "themis", eh.Budget(tests=200), confirm=0).found
    before, world.calls = world.calls, 0
    with pytest.raises(FlakyModel) as caught:
        eh.audit(eh.wrap(turns, input="array", chunk=100), world.space, "themis", eh.Budget(tests=200))
    partial = caught.value.partial
    assert (partial.tests, partial.found, partial.refuted) == (200, 0, found)

    def interrupted(X: Any) -> Any:
        if world.calls > calls:
            raise KeyboardInterrupt
        return world(X)

    world.calls, calls = 0, before
    run = eh.audit(eh.wrap(interrupted, input="array", chunk=100), world.space, "themis", eh.Budget(tests=200))
    assert run.stop is eh.StopReason.INTERRUPTED
    assert run.unconfirmed == run.found == found


def test_numbers_of_numpy_are_numbers(space: eh.Space) -> None:
    budget = eh.Budget(tests=np.int64(30), seconds=np.float32(60))  # type: ignore[arg-type]
    strategy = eh.Kosei(samples=np.int32(20))  # type: ignore[arg-type]
    run = eh.audit(eh.wrap(rule, chunk=np.int16(64)), space, strategy, budget, seed=np.int64(1))  # type: ignore[arg-type]
    assert run.budget == eh.Budget(tests=30, seconds=60)
    assert eh.Gap(np.float32(0.5)).gamma == 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"budget": "100"}, "eh.Budget"),
        ({"budget": {"tests": 3}}, "eh.Budget"),
        ({"criterion": "flip"}, "eh.Flip"),
        ({"criterion": eh.Flip}, "eh.Flip"),
        ({"progress": 5}, "progress"),
        ({"directory": 5}, "directory"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments: dict[str, Any], words: str, space: eh.Space) -> None:
    with pytest.raises(eh.errors.EvenhandError, match=words):
        eh.audit(rule, space, **arguments)


def test_huge_labels(space: eh.Space) -> None:
    run = eh.audit(lambda f: [10**30 if s == "F" else 1 for s in f["sex"]], space, "themis")
    assert set(run.findings["decision"]) == {10**30, 1}


def test_values_that_a_directory_cannot_keep(tmp_path: Path) -> None:
    space = eh.Space([eh.Nominal("v", [(1, 2), (2, 3)]), eh.Boolean("b")], protected="b")
    assert eh.audit(lambda f: f["b"], space, "themis").found == 2
    tuples = eh.audit(lambda f: f["b"], space, "themis", directory=tmp_path / "a")
    assert tuples.found == 2
    dates = eh.Space([eh.Nominal("v", [pd.Timestamp("2020-01-01")]), eh.Boolean("b")], protected="b")
    with pytest.raises(RunError, match="cannot be stored"):
        eh.audit(lambda f: f["b"], dates, "themis", directory=tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_another_format_is_refused(tmp_path: Path, space: eh.Space) -> None:
    eh.audit(rule, space, directory=tmp_path / "r")
    identity = tmp_path / "r" / "identity.json"
    identity.write_text(identity.read_text().replace('"format": 3', '"format": 99'))
    with pytest.raises(RunError, match="another version"):
        eh.Run.load(tmp_path / "r")


def test_data_stand_in_where_no_individual_can_be_drawn() -> None:
    most = 10**6
    space = eh.Space(
        [eh.Integer("base", 0, most), eh.Integer("bonus", 0, most), eh.Integer("total", 0, 2 * most), eh.Boolean("p")],
        protected="p",
        constraints=["total == base + bonus"],
    )
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"base": rng.integers(0, most, 500), "bonus": rng.integers(0, most, 500), "p": False})
    data["total"] = data["base"] + data["bonus"]

    def model(frame: pd.DataFrame) -> Any:
        return (frame["total"] > most) & frame["p"]

    runs = [eh.audit(model, space, eh.Symbolic(phase="seeds"), data=data) for _ in range(2)]
    assert runs[0].tests == 500
    assert runs[0].found == int((data["total"] > most).sum())
    assert runs[0].identity == runs[1].identity
    with pytest.raises(SpaceError, match="no valid individual"):
        eh.audit(model, space, eh.Symbolic(phase="seeds"))


def test_data_without_a_testable_individual_are_named() -> None:
    space = eh.Space([eh.Integer("a", 0, 99), eh.Boolean("p")], protected="p", constraints=["a > 9 or not p"])
    data = pd.DataFrame({"a": [1, 2, 3], "p": False})
    with pytest.raises(SpaceError, match="none of 3 individuals"):
        eh.audit(lambda frame: frame["a"] > 5, space, eh.Symbolic(phase="seeds"), data=data)


def test_scores_where_a_search_asks_for_labels(space: eh.Space) -> None:
    def score(frame: pd.DataFrame) -> Any:
        return np.linspace(0.1, 0.9, len(frame)) * 0 + 0.5

    with pytest.raises(ModelError, match="look like scores") as caught:
        eh.audit(score, space, "symbolic", criterion=eh.Gap(0.1))
    assert "Gap" not in str(caught.value)
    assert "strategy='kosei'" in str(caught.value)


class After:
    """A token that is set when it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 1, 7, 20])
def test_a_cancelled_run_can_continue(tmp_path: Path, looks: int) -> None:
    world = random_world(3, 20_000)
    budget = eh.Budget(tests=3000)
    whole = eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", budget)
    cancelled = eh.audit(
        eh.wrap(world.model, chunk=256), world.space, "kosei", budget, directory=tmp_path / "run", cancel=After(looks)
    )
    assert cancelled.stop is eh.StopReason.INTERRUPTED
    assert cancelled.tests < whole.tests
    assert cancelled.unconfirmed == cancelled.found
    resumed = eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", budget, directory=tmp_path / "run")
    assert resumed.findings.equals(whole.findings)


def test_a_run_in_a_thread_is_cancelled_from_another() -> None:
    world = random_world(3, 20_000)
    stop, asked, out = threading.Event(), threading.Event(), []

    def show(status: eh.results.Status) -> None:
        asked.set()
        stop.wait()

    def work() -> None:
        out.append(eh.audit(world.model, world.space, "kosei", progress=show, cancel=stop))

    thread = threading.Thread(target=work)
    thread.start()
    asked.wait()
    stop.set()
    thread.join()
    assert out[0].stop is eh.StopReason.INTERRUPTED
    assert out[0].tests > 0


def test_a_token_that_is_never_set_changes_nothing() -> None:
    world = random_world(3, 2_000)
    runs = [eh.audit(world.model, world.space, "kosei", cancel=token) for token in (None, threading.Event())]
    assert runs[0].findings.equals(runs[1].findings)
    with pytest.raises(eh.errors.RunError, match="cancel.*is_set"):
        eh.audit(world.model, world.space, "kosei", cancel=True)
