"""Blocks are queried in calls of a suitable size, which affects only time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.engine import oracle as clock
from evenhand.errors import EstimateError, ModelError
from evenhand.estimates import survey as watching
from evenhand.models import client
from evenhand.models.client import FIRST, SHORT, Calls, ModelClient
from tests.helpers import slow

SPACE = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 999), eh.Integer("sex", 0, 1)], protected="sex")
TEXTS = [f"The {term} with the number {i} came." for i in range(400) for term in ("Jew", "Muslim")]


class Time:
    """A clock that only a model moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    for module in (client, clock, watching):
        monkeypatch.setattr(module, "time", fake)
    return fake


class Slow(eh.Model):
    """Takes its time for every row."""

    name, input = "slow", "array"

    def __init__(self, time: Time, seconds: float, at_first: float = 0.0) -> None:
        self.time, self.seconds, self.at_first, self.sizes = time, seconds, at_first, list[int]()

    def labels(self, X: Any) -> Any:
        self.sizes.append(len(X))
        self.time.now += self.seconds * len(X) + (self.at_first if len(self.sizes) == 1 else 0)
        return (X[:, 0] > 50) & (X[:, 2] == 1)


@given(st.lists(st.integers(0, 500), max_size=6), st.none() | st.integers(2, 300), st.integers(1, 5))
def test_parts_cover_all_rows_in_order(counts: list[int], fixed: int | None, workers: int) -> None:
    calls = Calls(fixed)
    for n in counts:
        rounds = list(calls.parts(n, workers))
        rows = [np.arange(n)[part] for parts in rounds for part in parts]
        assert all(len(parts) <= workers for parts in rounds)
        # Some models take no single row.
        assert workers == 1 or all(len(part) > 1 for part in rows[:-1])
        assert np.concatenate([np.zeros(0, dtype=int), *rows]).tolist() == list(range(n))
        assert all(0 < len(part) <= (fixed or n) for part in rows)


def test_calls_grow_while_they_are_short(time: Time) -> None:
    model = Slow(time, 0.002)
    ModelClient(model).labels(np.zeros((5000, 3)), 5000)
    assert model.sizes[:4] == [16, 64, 128, 128]
    assert max(size * model.seconds for size in model.sizes) <= 2 * SHORT


def test_call_sizes_continue_from_the_previous_question(time: Time) -> None:
    model = Slow(time, 1e-5)
    ModelClient(model).labels(np.zeros((5000, 3)), 5000)
    reached = model.call_size
    assert reached is not None
    assert reached >= 2048
    model.sizes.clear()
    ModelClient(model).labels(np.zeros((20_000, 3)), 20_000)
    assert model.sizes[0] == reached
    fixed = eh.wrap(model, batch_size=100)
    ModelClient(fixed).labels(np.zeros((500, 3)), 500)
    assert model.sizes[-1] == 100


def test_a_slow_first_call_does_not_keep_calls_small(time: Time) -> None:
    model = Slow(time, 1e-6, at_first=30.0)
    asks = ModelClient(model)
    for _ in range(12):
        asks.labels(np.zeros((40_000, 3)), 40_000)
    assert model.sizes[-1] == 40_000


@pytest.mark.parametrize("strategy", ["themis", "kosei", "aequitas", "symbolic"])
def test_a_budget_of_seconds_is_exceeded_by_one_call_at_most(time: Time, strategy: str) -> None:
    model = Slow(time, 0.002)
    run = eh.audit(model, SPACE, strategy, eh.Budget(seconds=8))
    assert run.stop is eh.StopReason.SECONDS
    assert run.tests
    searched = 0.002 * (sum(model.sizes) - run.rows_checked)
    assert searched <= 8 + 2 * SHORT
    # What was asked for a block that was cut off is the price of small blocks; it is never most of the time.
    assert run.rows >= 0.4 * searched / 0.002
    whole = eh.audit(Slow(time, 0), SPACE, strategy, eh.Budget(tests=run.tests))
    assert whole.findings.equals(run.findings)


def test_asking_again_takes_nothing_from_a_budget_of_seconds(time: Time) -> None:
    # The time is up while rows are asked again, in calls of a fixed size.
    run = eh.audit(eh.wrap(Slow(time, 0.002), batch_size=20), SPACE, "themis", eh.Budget(seconds=2))
    assert run.stop is eh.StopReason.SECONDS
    assert 2 <= run.seconds <= 2 + 2 * SHORT


def test_a_budget_of_seconds_of_texts(time: Time) -> None:
    def classify(texts: list[str]) -> list[bool]:
        time.now += 0.002 * len(texts)
        return ["Jew" in text for text in texts]

    run = eh.audit(classify, eh.TextSpace("religion"), "text-random", eh.Budget(seconds=4), data=TEXTS)
    assert run.stop is eh.StopReason.SECONDS
    assert run.tests
    assert run.rows * 0.002 <= 4 + 2 * SHORT


def test_an_estimate_ends_in_time(time: Time) -> None:
    model = Slow(time, 0.002)
    result = eh.estimate(model, SPACE, stop=eh.StopRule(seconds=4))
    assert result.stop == "seconds"
    assert result.low < 0.49 < result.high
    assert result.rows * 0.002 <= 4 + 2 * SHORT
    small = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 9), eh.Integer("sex", 0, 1)], protected="sex")
    everyone = eh.estimate(Slow(time, 0.002), small, stop=eh.StopRule(seconds=2))
    assert everyone.stop == "seconds"
    assert everyone.low <= 0.49 <= everyone.high


def test_too_little_time_for_an_estimate_is_an_error(time: Time) -> None:
    with pytest.raises(EstimateError, match=r"seconds .*0\.01.*batch_size"):
        eh.estimate(Slow(time, 1.0), SPACE, stop=eh.StopRule(seconds=0.01))


@pytest.mark.parametrize("strategy", ["themis", "kosei", "aequitas", *slow(["symbolic"]), "adf"])
def test_log_and_findings_do_not_depend_on_call_sizes(strategy: str, tmp_path: Path) -> None:
    def score(X: Any) -> Any:
        return np.floor(X[:, 0] + X[:, 2] * 3) / 100

    contents = set()
    for batch_size in (None, 1, 7, 1000):
        model = eh.wrap(score, input="array", threshold=0.5, batch_size=batch_size)
        directory = tmp_path / str(batch_size)
        run = eh.audit(model, SPACE, strategy, eh.Budget(tests=300), directory=directory)
        contents.add((run.findings.to_csv(), (directory / "answers.log").read_bytes()))
    assert len(contents) == 1


def test_batch_size_is_the_most_rows_of_a_call() -> None:
    sizes: list[int] = []

    def rule(frame: Any) -> Any:
        assert frame.index.tolist() == list(range(len(frame)))
        sizes.append(len(frame))
        return frame["sex"] == 1

    eh.audit(eh.wrap(rule, batch_size=50), SPACE, budget=eh.Budget(tests=500))
    assert max(sizes) == 50


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "8", True])
def test_a_wrong_batch_size_is_named(wrong: Any) -> None:
    with pytest.raises(ModelError, match="batch_size must be an integer of at least 1"):
        eh.wrap(len, batch_size=wrong)


def test_labels_of_several_calls_keep_their_kinds() -> None:
    answers = ModelClient(eh.wrap(lambda X: [1 if x < 20 else "1" for x in X[:, 0]], input="array"))
    labels = answers.labels(np.arange(FIRST * 4)[:, None], FIRST * 4)
    assert labels.tolist() == [1] * 20 + ["1"] * (FIRST * 4 - 20)
