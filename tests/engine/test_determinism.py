"""Answers must depend on the row alone, and findings must hold when they are queried again."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.engine import determinism
from evenhand.engine import oracle as clock
from evenhand.engine.determinism import in_turn
from evenhand.errors import BudgetError, FlakyModel, RunError
from evenhand.estimates import survey as watching
from evenhand.models import client
from evenhand.search import Problem, Search, judge
from tests.helpers import slow
from tests.text_worlds import TEAMS, team_space, team_texts

SEEDS = range(20)
some_seeds = pytest.mark.parametrize("seeds", [SEEDS[:2], *slow([SEEDS[2:]])], ids=["few", "many"])
SOME_TEXTS = eh.Budget(tests=400)
SPACE = eh.Space([eh.Integer("age", 0, 99), eh.Integer("hours", 0, 99), eh.Nominal("sex", [0, 1])], protected="sex")
SPACE_OF_MANY = eh.Space(
    [eh.Integer("age", 0, 999), eh.Integer("hours", 0, 999), eh.Nominal("sex", [0, 1])], protected="sex"
)
Labels = Callable[[Any], Any]


def fair(X: Any) -> Any:
    return X[:, 0] + X[:, 1] > 100


def unfair(X: Any) -> Any:
    return fair(X) & ~((X[:, 2] == 0) & (X[:, 0] < 30))


def shifted(X: Any) -> Any:
    """A second replica, trained with another seed: another answer to some of the rows."""
    return X[:, 0] + X[:, 1] > 106


def moved(X: Any, base: Labels, by: float) -> Any:
    return base(X + np.array([by, 0, 0]))


def rows_in_turn(base: Labels) -> Labels:
    return lambda X: np.where(np.arange(len(X)) % 2, shifted(X), base(X))


def calls_in_turn(base: Labels) -> Labels:
    calls = itertools.count()
    return lambda X: (shifted if next(calls) % 2 else base)(X)


def rows_in_turn_across_calls(base: Labels) -> Labels:
    seen = 0

    def model(X: Any) -> Any:
        nonlocal seen
        turn = (seen + np.arange(len(X))) % 2
        seen += len(X)
        return np.where(turn, shifted(X), base(X))

    return model


def inverted(base: Labels) -> Labels:
    return lambda X: base(X) ^ (np.arange(len(X)) % 2 == 1)


def by_mean(base: Labels) -> Labels:
    return lambda X: moved(X, base, 0.3 * (X[:, 1].mean() - 49.5))


def by_first_row(base: Labels) -> Labels:
    return lambda X: moved(X, base, 0.3 * (X[0, 1] - 49.5))


def by_length(base: Labels) -> Labels:
    return lambda X: moved(X, base, 8.0 if len(X) > 300 else 0.0)


def by_parity_of_length(base: Labels) -> Labels:
    return lambda X: moved(X, base, 8.0 if len(X) % 2 else 0.0)


MISBEHAVING = [
    rows_in_turn,
    calls_in_turn,
    rows_in_turn_across_calls,
    inverted,
    by_mean,
    by_first_row,
    by_length,
    by_parity_of_length,
]


@some_seeds
@pytest.mark.parametrize("base", [fair, unfair])
@pytest.mark.parametrize("spoil", MISBEHAVING)
def test_a_model_that_depends_on_the_batch_is_refused(
    spoil: Callable[[Labels], Labels], base: Labels, seeds: range
) -> None:
    for seed in seeds:
        for strategy in ("themis", "kosei"):
            with pytest.raises(FlakyModel):
                eh.audit(array(spoil(base)), SPACE, strategy, eh.Budget(tests=1_500), seed=seed)
        with pytest.raises(FlakyModel):
            eh.estimate(array(spoil(base)), SPACE, eh.populations.Uniform(exact=False), samples=1_500, seed=seed)
    with pytest.raises(FlakyModel):
        eh.estimate(array(spoil(base)), SPACE)


@some_seeds
@pytest.mark.parametrize("base", [fair, unfair])
@pytest.mark.parametrize("longest", [1, 3, 19, 99, 1_000])
def test_models_that_answer_short_or_long_batches_differently_are_refused(
    longest: int, base: Labels, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy this machine is.
    monkeypatch.setattr(determinism, "EXTRA", 1e9)
    model = array(lambda X: moved(X, base, 25.0 * (len(X) <= longest)))
    read = reading(lambda X: moved(X, base, 25.0 * (len(X) <= longest)))
    for seed in seeds:
        with pytest.raises(FlakyModel):
            eh.audit(model, SPACE, budget=eh.Budget(tests=1_500), seed=seed)
        with pytest.raises(FlakyModel):
            eh.estimate(model, SPACE, eh.populations.Uniform(exact=False), samples=500, seed=seed)
        with pytest.raises(FlakyModel):
            eh.estimate(read, team_space(), "data", data=team_texts(seed, 250), seed=seed)


@some_seeds
@pytest.mark.parametrize("tests", [10, 20, 40])
@pytest.mark.parametrize("longest", [1, 3, 16])
def test_few_tests_do_not_hide_rare_changes(
    longest: int, tests: int, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "EXTRA", 1e9)
    marked_unsteady = []
    for base, seed in itertools.product((fair, unfair), seeds):
        # One answer in twelve changes, and twenty rows may well have none of them.
        models = [
            lambda X, base=base: moved(X, base, 8.0 * (len(X) <= longest)),
            lambda X, base=base: moved(X, base, 8.0 * (len(X) > longest)),
        ]
        for model, strategy in itertools.product(models, ("auto", "kosei", "themis")):
            marked_unsteady.append(is_accused(model, strategy, tests, seed))
    assert np.mean(marked_unsteady) >= 0.99


def is_accused(model: Labels, strategy: str, tests: int, seed: int) -> bool:
    try:
        eh.audit(array(model), SPACE, strategy, eh.Budget(tests=tests), seed=seed)
    except FlakyModel:
        return True
    return False


def test_a_model_whose_calls_take_long_is_asked_in_few(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, 0, 0.1)
    with pytest.raises(FlakyModel, match="other rows in the batch"):
        eh.audit(array(by_mean_of(slow)), SPACE, "themis", eh.Budget(tests=2_000))
    steady = Slow(monkeypatch, 0, 0.1)
    eh.audit(array(steady), SPACE, "themis", eh.Budget(tests=2_000))
    assert steady.now < 3


@some_seeds
@pytest.mark.parametrize("base", [fair, unfair])
@pytest.mark.parametrize("spoil", MISBEHAVING)
def test_a_model_of_texts_that_depends_on_the_batch_is_refused(
    spoil: Callable[[Labels], Labels], base: Labels, seeds: range
) -> None:
    search = eh.TextRandom(phase="global", max_iter=2)
    for seed in seeds:
        texts = team_texts(seed, 250)
        with pytest.raises(FlakyModel):
            eh.audit(reading(spoil(base)), team_space(), search, SOME_TEXTS, data=texts, seed=seed)
        with pytest.raises(FlakyModel):
            eh.estimate(reading(spoil(base)), team_space(), "data", data=texts, seed=seed)


def array(model: Labels) -> Any:
    return eh.wrap(model, input="array")


def reading(model: Labels) -> Any:
    """The same model of texts: two numbers that do not depend on the team, and whether it is the first."""

    def classify(texts: list[str]) -> Any:
        rest = [[word for word in text.strip("!").split() if word.strip(",") not in TEAMS] for text in texts]
        sums = [zlib.crc32(" ".join(words).encode()) for words in rest]
        first = [TEAMS[0] not in text for text in texts]
        return model(np.column_stack([np.array(sums) % 100, np.array(sums) // 100 % 100, first]).astype(float))

    return eh.wrap(classify, input="text")


@pytest.fixture(scope="module")
def learned() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 100, (2_000, 2)), rng.integers(0, 2, 2_000)]).astype(float)
    return X, fair(X) ^ (rng.random(2_000) < 0.1)


def forest(X: Any, y: Any) -> Any:
    return RandomForestClassifier(20, random_state=0).fit(X, y)


def logistic(X: Any, y: Any) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def single_precision(X: Any, y: Any) -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)]
    module = torch.nn.Sequential(*layers)
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    inputs, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.int64)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), targets).backward()
        optimiser.step()
    return module


def single_precision_labels(X: Any, y: Any) -> Any:
    """Decisions alone, so that no score excuses rounding."""
    module = single_precision(X, y).eval()
    torch = pytest.importorskip("torch")
    return eh.wrap(lambda X: module(torch.tensor(X, dtype=torch.float32)).argmax(1).numpy(), input="array")


@some_seeds
@pytest.mark.parametrize("make", [forest, logistic, single_precision, single_precision_labels])
def test_a_steady_model_is_never_accused(
    make: Callable[[Any, Any], Any], learned: tuple[Any, Any], seeds: range
) -> None:
    model = make(*learned)
    for seed in seeds:
        run = eh.audit(model, SPACE, "kosei", eh.Budget(tests=3_000), seed=seed)
        assert run.unconfirmed == 0
        assert run.unsteady is None
        assert eh.estimate(model, SPACE, eh.populations.Uniform(exact=False), samples=2_000, seed=seed).noise == 0


def test_a_model_that_takes_no_single_row_is_asked_in_pairs() -> None:
    def picky(X: Any) -> Any:
        if len(X) == 1:
            raise ValueError("expected more than 1 value per channel")
        return unfair(X)

    run = eh.audit(array(picky), SPACE, "themis", eh.Budget(tests=500))
    assert run.confirmed == run.found > 0
    assert eh.estimate(array(picky), SPACE, eh.populations.Uniform(exact=False), samples=500).found > 0


@dataclass(frozen=True)
class Growing:
    """A search that starts with few tests at a time."""

    def search(self, problem: Problem) -> Search:
        for size in (8, 64, 512, 4_096):
            yield from judge(problem.sample(size))


def test_calls_that_start_small_do_not_hide_a_dependence_on_length() -> None:
    for seed in SEEDS:
        for longest in (20, 200, 2_000):
            model = array(lambda X, n=longest: moved(X, fair, 8.0 * (len(X) > n)))
            with pytest.raises(FlakyModel, match="other rows in the batch"):
                eh.audit(model, SPACE, Growing(), seed=seed)


@pytest.mark.parametrize(
    ("spoil", "words"), [(rows_in_turn, "position of a row"), (by_mean, "other rows in the batch")]
)
def test_the_error_names_the_dependence(spoil: Callable[[Labels], Labels], words: str) -> None:
    with pytest.raises(FlakyModel, match=words) as caught:
        eh.audit(array(spoil(fair)), SPACE, "themis", eh.Budget(tests=500))
    assert 0 < caught.value.noise < 1
    assert "evaluation mode" in str(caught.value)


def test_checks_are_a_small_share_of_a_run() -> None:
    run = eh.audit(array(fair), SPACE_OF_MANY, "themis", eh.Budget(tests=100_000))
    assert run.found == 0
    assert 0 < run.rows_checked < 0.02 * run.rows
    found = eh.estimate(array(fair), SPACE_OF_MANY)
    assert 0 < found.rows_checked < 0.02 * found.rows


def test_replicas_in_turn_are_distinguished_from_noise() -> None:
    rng = np.random.default_rng(0)
    replicas = rng.integers(0, 2, (3, 40))
    assert in_turn(replicas[np.arange(8) % 3])
    assert in_turn(replicas[rng.integers(0, 3, 8)])
    for seed in SEEDS:
        flips = np.random.default_rng(seed).random((8, 4_000)) < 0.01
        assert not in_turn(flips ^ (np.arange(4_000) % 2 == 0))


# Findings: confirmed, refuted, not asked again.

TESTS = eh.Budget(tests=1_000)


class Later:
    """Answers by one rule, and by another from some call on."""

    def __init__(self, then: Labels, calls: float, first: Labels = unfair) -> None:
        self.first, self.then, self.calls, self.asked = first, then, calls, 0

    def __call__(self, X: Any) -> Any:
        self.asked += 1
        return (self.first if self.asked <= self.calls else self.then)(X)


def stop(X: Any) -> Any:
    raise KeyboardInterrupt


def half(X: Any) -> Any:
    """Takes half of the findings back."""
    return np.where(X[:, 1] % 2 == 0, fair(X), unfair(X))


def calls_before_confirming() -> int:
    model = Later(unfair, np.inf)
    eh.audit(array(model), SPACE, "themis", TESTS, confirm=0)
    return model.asked


def findings_of(rule: Labels, run: eh.Run) -> npt.NDArray[np.bool_]:
    """Which findings a rule treats differently, by their columns alone."""
    found = run.findings
    one = found[["age", "hours", "sex"]].to_numpy(float)
    other = found[["age", "hours", "counterpart_sex"]].to_numpy(float)
    return np.asarray(rule(one) != rule(other))


def test_each_finding_is_asked_again() -> None:
    model = array(unfair)
    run = eh.audit(model, SPACE_OF_MANY, "kosei", eh.Budget(tests=30_000))
    assert run.confirmed == run.found > 10_000
    assert (run.refuted, run.unconfirmed, run.doubts) == (0, 0, [])
    assert run.findings["confirmed"].all()
    assert run.rows_checked > 2 * run.found


@pytest.mark.parametrize("keep", [False, True])
def test_refuted_findings_are_never_reported(tmp_path: Path, keep: bool) -> None:
    directory = tmp_path / "run" if keep else None
    with pytest.raises(FlakyModel) as caught:
        eh.audit(array(Later(half, calls_before_confirming())), SPACE, "themis", TESTS, directory=directory)
    runs = [caught.value.partial] + ([eh.Run.load(directory)] if directory else [])
    whole = eh.audit(array(unfair), SPACE, "themis", TESTS)
    held = findings_of(half, whole)
    assert 0 < held.sum() < whole.found
    for run in runs:
        left = whole.findings[held].assign(confirmed=False).reset_index(drop=True)
        pd.testing.assert_frame_equal(run.findings, left)
        assert (run.found, run.refuted, run.confirmed) == (held.sum(), (~held).sum(), 0)
        assert (run.tests, run.success_rate) == (1_000, held.sum() / 1_000)
        assert run.curve["findings"].tolist()[-1] == run.found
        assert findings_of(half, run).all()
        assert "not reproducible" in repr(run)
        assert f"{run.refuted:,} more were refuted" in repr(run)
        assert run.unsteady == str(caught.value)


def test_the_curve_counts_no_refuted_finding(tmp_path: Path) -> None:
    before = Later(unfair, np.inf)
    whole = eh.audit(array(before), SPACE, eh.Themis(block=50), TESTS, confirm=0)
    model = array(Later(half, before.asked))
    with pytest.raises(FlakyModel) as caught:
        eh.audit(model, SPACE, eh.Themis(block=50), TESTS, directory=tmp_path / "run")
    held = np.append(0, np.cumsum(findings_of(half, whole)))
    for run in (caught.value.partial, eh.Run.load(tmp_path / "run")):
        assert run.curve["findings"].tolist() == held[whole.curve["findings"]].tolist()


@pytest.mark.parametrize("confirm", [0, 1, 7])
def test_a_number_of_findings_to_confirm_is_stated(tmp_path: Path, confirm: int) -> None:
    run = eh.audit(array(unfair), SPACE, "themis", TESTS, confirm=confirm, directory=tmp_path / "run")
    whole = eh.audit(array(unfair), SPACE, "themis", TESTS)
    assert (run.confirmed, run.unconfirmed, run.refuted) == (confirm, whole.found - confirm, 0)
    assert run.findings.drop(columns="confirmed").equals(whole.findings.drop(columns="confirmed"))
    assert f"{run.unconfirmed:,} of {run.found:,} findings were not queried again" in repr(run)
    back = eh.Run.load(tmp_path / "run")
    pd.testing.assert_frame_equal(back.findings, run.findings)
    assert repr(back) == repr(run)
    other = eh.audit(array(unfair), SPACE, "themis", TESTS, confirm=confirm, seed=0)
    assert other.findings["confirmed"].equals(run.findings["confirmed"])
    # The same directory, and all of them.
    again = eh.audit(array(unfair), SPACE, "themis", TESTS, directory=tmp_path / "run")
    assert again.confirmed == again.found == eh.Run.load(tmp_path / "run").confirmed


@pytest.mark.parametrize("confirm", [-1, 1.5, True, "all"])
def test_confirm_is_a_number_of_findings(confirm: Any) -> None:
    with pytest.raises(BudgetError, match=r"confirm must .* at least 0.*None"):
        eh.audit(array(unfair), SPACE, confirm=confirm)


@pytest.mark.parametrize("early", [0, 10])
def test_an_interrupted_run_labels_its_findings_and_resuming_confirms_them(tmp_path: Path, early: int) -> None:
    strategy, directory = eh.Themis(block=50), tmp_path / "run"
    before = Later(unfair, np.inf)
    eh.audit(array(before), SPACE, strategy, TESTS, confirm=0)
    run = eh.audit(array(Later(stop, before.asked - early)), SPACE, strategy, TESTS, directory=directory)
    assert run.stop is eh.StopReason.INTERRUPTED
    for one in (run, eh.Run.load(directory)):
        assert one.unconfirmed == one.found > 0
        assert not one.findings["confirmed"].any()
        assert f"{one.found:,} of {one.found:,} findings were not queried again" in repr(one)
    # Killed: no result was written.
    (directory / "run.json").unlink()
    assert eh.Run.load(directory).unconfirmed == eh.Run.load(directory).found > 0
    done = eh.audit(array(Later(unfair, np.inf)), SPACE, strategy, TESTS, directory=directory)
    assert done.confirmed == done.found == eh.audit(array(unfair), SPACE, strategy, TESTS).found


def test_texts_are_confirmed_refuted_and_labelled(tmp_path: Path) -> None:
    texts, search = team_texts(0, 100), eh.TextRandom(phase="global", max_iter=2)
    before = Later(unfair, np.inf)
    whole = eh.audit(reading(before), team_space(), search, SOME_TEXTS, data=texts, confirm=0)
    calls = before.asked
    assert whole.unconfirmed == whole.found > 0
    directory = tmp_path / "run"
    with pytest.raises(FlakyModel) as caught:
        eh.audit(reading(Later(half, calls)), team_space(), search, SOME_TEXTS, data=texts, directory=directory)
    model = reading(half).source
    held = [model([a])[0] != model([b])[0] for a, b in whole.findings[["text", "counterpart_text"]].to_numpy()]
    assert 0 < sum(held) < whole.found
    for run in (caught.value.partial, eh.Run.load(directory)):
        expected = whole.findings[held].assign(confirmed=False).reset_index(drop=True)
        pd.testing.assert_frame_equal(run.findings, expected)
        assert run.refuted == whole.found - sum(held)
    one = eh.audit(reading(unfair), team_space(), search, SOME_TEXTS, data=texts, confirm=1)
    assert one.findings["confirmed"].sum() == one.confirmed == 1


def test_a_damaged_list_of_refuted_findings_is_refused(tmp_path: Path) -> None:
    model = array(Later(half, calls_before_confirming()))
    with pytest.raises(FlakyModel):
        eh.audit(model, SPACE, "themis", TESTS, directory=tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    result = json.loads(file.read_text())
    for refuted in (result["checked"]["refuted"][1:], [*result["checked"]["refuted"][:-1], 10**6]):
        file.write_text(json.dumps(result | {"checked": result["checked"] | {"refuted": refuted}}))
        with pytest.raises(RunError, match="damaged"):
            eh.Run.load(tmp_path / "run")


def test_rounding_at_the_edge_refutes_a_finding_without_reporting_noise() -> None:
    """Scores that move by a millionth with the size of the batch, as sums in single precision do."""

    def rounded(X: Any) -> Any:
        p = 0.5 + 1e-3 * (X[:, 0] - X[:, 1] + 50 * X[:, 2]) + 1e-7 * np.sin(len(X))
        return np.column_stack([1 - p, p])

    refuted = 0
    for seed in SEEDS:
        run = eh.audit(array(rounded), SPACE_OF_MANY, "themis", eh.Budget(tests=5_000), seed=seed)
        assert run.confirmed == run.found > 0
        assert run.unsteady is None
        assert eh.estimate(array(rounded), SPACE_OF_MANY, samples=5_000, seed=seed).noise == 0
        refuted += run.refuted
    assert refuted > 0


# Small runs: everything is looked at in the end, with the rows of all blocks.


def flipped_if(holds: Callable[[Any], Any]) -> Labels:
    """Flips every third age where something holds of the batch."""
    return lambda X: (X[:, 0] > 4) ^ (bool(holds(X)) & (X[:, 0] % 3 == 0))


OF_BATCHES: dict[str, Labels] = {
    "mean": lambda X: X[:, 0] > X[:, 0].mean(),
    "highest": lambda X: X[:, 0] >= X[:, 0].max() - 3,
    "majority": flipped_if(lambda X: X[:, -1].mean() > 0.5),
    "first row": flipped_if(lambda X: X[0, -1]),
    "last row": flipped_if(lambda X: X[-1, -1]),
    "odd length": flipped_if(lambda X: len(X) % 2),
    "position": lambda X: (X[:, 0] > 4) ^ (np.arange(len(X)) % 2 == 1),
}


@some_seeds
@pytest.mark.parametrize("model", OF_BATCHES.values(), ids=OF_BATCHES)
def test_a_small_run_is_checked_as_well(model: Labels, seeds: range) -> None:
    for seed in seeds:
        number = (10, 20, 40, 75, 150)[seed % 5]
        small = eh.Space([eh.Integer("age", 1, number), eh.Nominal("sex", [0, 1])], protected="sex")
        with pytest.raises(FlakyModel):
            eh.audit(array(model), small, seed=seed)
        with pytest.raises(FlakyModel):
            eh.audit(array(model), SPACE, budget=eh.Budget(tests=number), seed=seed)
        with pytest.raises(FlakyModel):
            eh.audit(reading(model), team_space(), "text-random", eh.Budget(tests=12), seed, data=team_texts(seed, 12))


@pytest.mark.parametrize("budget", [eh.Budget(rows=60), eh.Budget(findings=1), eh.Budget(tests=40)])
def test_whatever_ends_a_small_run_it_is_checked(budget: eh.Budget) -> None:
    with pytest.raises(FlakyModel):
        eh.audit(array(OF_BATCHES["odd length"]), SPACE, "themis", budget)


def test_a_small_run_is_checked_when_it_is_resumed_and_extended(tmp_path: Path) -> None:
    model = array(OF_BATCHES["mean"])
    strategy = eh.Themis(block=10)
    with pytest.raises(FlakyModel):
        eh.audit(model, SPACE, strategy, eh.Budget(tests=20), directory=tmp_path / "run")
    # As one that was killed before it was checked.
    (tmp_path / "run" / "run.json").unlink()
    for tests in (20, 30):
        with pytest.raises(FlakyModel):
            eh.audit(model, SPACE, strategy, eh.Budget(tests=tests), directory=tmp_path / "run")
        (tmp_path / "run" / "run.json").unlink()


@pytest.mark.slow
def test_a_steady_model_is_not_accused_by_a_small_run(learned: tuple[Any, Any]) -> None:
    models = [forest(*learned), single_precision(*learned), single_precision_labels(*learned)]
    for seed in SEEDS:
        budget = eh.Budget(tests=(10, 30, 60, 150)[seed % 4])
        for model in models[seed >= 4 :]:
            assert eh.audit(model, SPACE, "themis", budget, seed=seed).unsteady is None


def test_a_run_that_was_checked_in_a_block_is_not_checked_again() -> None:
    one = eh.audit(array(fair), SPACE_OF_MANY, "themis", eh.Budget(tests=1_000))
    two = eh.audit(array(fair), SPACE_OF_MANY, "themis", eh.Budget(tests=1_001))
    assert one.rows_checked == two.rows_checked


# Replicas in turn, in small spaces.


def test_replicas_that_differ_in_few_rows_are_not_noise() -> None:
    rng = np.random.default_rng(0)
    marked_unsteady = 0
    for wavering in (2, 3, 6, 20):
        replicas = np.zeros((2, 46), dtype=np.int64)
        replicas[1, :wavering] = 1
        assert in_turn(replicas[np.arange(64) % 2])
        assert in_turn(replicas[rng.integers(0, 2, 64)])
        for share in (0.02, 0.2, 0.5):
            noise = np.zeros((64, 46), dtype=np.int64)
            for _ in range(25):
                noise[:, :wavering] = rng.random((64, wavering)) < share
                marked_unsteady += in_turn(noise)
    assert marked_unsteady <= 1


def test_estimates_in_small_spaces_refuse_alternating_replicas() -> None:
    space = eh.Space([eh.Integer("age", 18, 40), eh.Nominal("sex", [0, 1])], protected="sex")
    for seed in SEEDS:
        calls = itertools.count()
        model = array(lambda X, calls=calls: (X[:, 0] > 30) ^ ((next(calls) % 2 == 1) & (X[:, 0] % 8 == 0)))
        with pytest.raises(FlakyModel):
            eh.estimate(model, space, seed=seed)


def test_estimates_in_small_spaces_measure_noise() -> None:
    space = eh.Space([eh.Integer("age", 18, 40), eh.Nominal("sex", [0, 1])], protected="sex")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = array(lambda X, rng=rng: (X[:, 0] > 30) ^ ((rng.random(len(X)) < 0.1) & (X[:, 0] % 8 == 0)))
        assert eh.estimate(model, space, seed=seed).noise > 0


# A model that answers by chance is not taken for one that has changed.


def chance(X: Any, rng: np.random.Generator) -> Any:
    """Answers by chance in a corner that 64 fixed rows miss."""
    corner = (X[:, 1] < 30) & (X[:, 0] == 20)
    return unfair(X) ^ (corner & (rng.random(len(X)) < 0.5))


def test_an_unsteady_run_stays_unsteady(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model, budget = array(lambda X: chance(X, rng)), eh.Budget(tests=20_000)
    for _ in range(3):
        with pytest.raises(FlakyModel) as caught:
            eh.audit(model, SPACE, "themis", budget, directory=tmp_path / "run")
        for run in (caught.value.partial, eh.Run.load(tmp_path / "run")):
            assert run.unsteady is not None
            assert run.confirmed == 0 < run.found
            assert not run.findings["confirmed"].any()
    assert caught.value.noise > 0
    assert "new directory" in str(caught.value)


@pytest.mark.parametrize("more", [0, 500])
@pytest.mark.parametrize("ended", [True, False])
def test_a_model_that_turned_unsteady_has_not_changed(tmp_path: Path, more: int, ended: bool) -> None:
    directory, rng = tmp_path / "run", np.random.default_rng(0)
    whole = eh.audit(array(unfair), SPACE, "themis", TESTS, directory=directory)
    if not ended:
        (directory / "run.json").unlink()
    # The 64 fixed rows get the answers that they got before.
    fixed = {tuple(row) for row in SPACE.array(SPACE.probes(None).rows)}

    def model(X: Any) -> Any:
        steady = np.array([tuple(row) in fixed for row in X])
        return unfair(X) ^ (~steady & (rng.random(len(X)) < 0.3))

    model.__name__ = "unfair"
    with pytest.raises(FlakyModel) as caught:
        eh.audit(array(model), SPACE, "themis", eh.Budget(tests=1_000 + more), directory=directory)
    back = eh.Run.load(directory)
    assert back.unsteady == str(caught.value)
    assert (back.found, back.confirmed) == (whole.found, 0)


# Slow models are asked fewer rows.


class Slow:
    """Takes its time for every row and for every call, by a clock that nothing else moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float, of_call: float = 0) -> None:
        self.now, self.seconds, self.of_call = 0.0, seconds, of_call
        for module in (client, clock, watching):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now

    def __call__(self, X: Any) -> Any:
        self.now += self.of_call + self.seconds * len(X)
        return fair(X)


@pytest.mark.parametrize("batch_size", [None, 500])
@pytest.mark.parametrize("seconds", [0.01, 0.05])
def test_a_slow_model_is_checked_with_few_rows(
    monkeypatch: pytest.MonkeyPatch, seconds: float, batch_size: int | None
) -> None:
    model = Slow(monkeypatch, seconds)
    wrapped = eh.wrap(model, input="array", batch_size=batch_size)
    run = eh.audit(wrapped, SPACE, "themis", eh.Budget(seconds=2))
    # Beyond the 64 rows by which a model is known again.
    assert seconds * (run.rows_checked - 64) < 5
    assert run.tests > 0
    model.now = 0
    eh.estimate(wrapped, SPACE, stop=eh.StopRule(seconds=2))
    assert model.now < 8
    assert eh.audit(array(fair), SPACE, "themis", eh.Budget(tests=150)).rows_checked > 1_000


def test_a_slow_model_that_depends_on_the_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, 0.05)
    for seed in SEEDS:
        with pytest.raises(FlakyModel):
            eh.audit(array(by_mean_of(slow)), SPACE, "themis", eh.Budget(seconds=2), seed=seed)


def by_mean_of(slow: Slow) -> Labels:
    return lambda X: slow(X) ^ (X[:, 0] > X[:, 0].mean())
