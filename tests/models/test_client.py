from __future__ import annotations

import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from evenhand.errors import FlakyModel, ModelError, ModelTimeout
from evenhand.models.client import ModelClient
from evenhand.models.wrap import wrap
from tests.models.people import answers, numbers, people

FRAME = pd.DataFrame({"age": [1, 2, 3], "sex": ["f", "m", "f"]})


def client(function, **options):
    return ModelClient(wrap(function, **options))


def fail(error):
    def model(X):
        raise error

    return client(model)


def test_labels_and_scores_are_checked():
    ask = client(lambda X: X["age"] > 1)
    assert ask.labels(FRAME, 3).tolist() == [False, True, True]
    assert client(lambda X: X["age"] / 2).scores(FRAME, 3).tolist() == (FRAME["age"].to_numpy()[:, None] / 2).tolist()
    with pytest.raises(ModelError, match="got 2 answers for 3 rows"):
        client(lambda X: [1, 2]).labels(FRAME, 3)
    with pytest.raises(ModelError, match="NaN or infinity as a score"):
        client(lambda X: X["age"] * np.nan).scores(FRAME, 3)


def test_an_exception_shows_the_input_of_the_model():
    cause = ValueError("bad value\nwith details")
    with pytest.raises(ModelError) as caught:
        fail(cause).labels(FRAME, 3)
    lines = str(caught.value).splitlines()
    assert lines[0] == "model raised ValueError: bad value"
    assert lines[1].startswith("It was given 3 rows: a frame with columns age, sex; wrap a function")
    assert len(lines) <= 3
    assert caught.value.__cause__ is cause


def test_an_exception_on_an_array_points_to_frames():
    def model(X):
        return X["age"]

    with pytest.raises(ModelError, match=r'array of 2 columns.*input="frame"'):
        client(model, input="array").labels(np.zeros((3, 2)), 3)


def test_an_exception_without_a_message_is_readable():
    with pytest.raises(ModelError, match=r"AssertionError: \(no message\)"):
        fail(AssertionError()).labels(FRAME, 3)


def test_system_exit_is_a_model_error():
    with pytest.raises(ModelError, match="SystemExit"):
        fail(SystemExit(3)).labels(FRAME, 3)


@pytest.mark.parametrize("timeout", [None, 5])
def test_interrupts_and_our_own_errors_pass_through(timeout):
    for error in (KeyboardInterrupt(), FlakyModel("flaky", 0.5)):
        ask = fail(error)
        ask.timeout = timeout
        with pytest.raises(type(error)) as caught:
            ask.labels(FRAME, 3)
        assert caught.value is error


def test_columns_that_scikit_learn_misses_are_named():
    tree = DecisionTreeClassifier().fit(FRAME[["age"]].assign(hours=1), [0, 1, 0])
    with pytest.raises(ModelError, match="hours"):
        ModelClient(wrap(tree)).labels(FRAME, 3)
    with pytest.raises(ModelError, match=r"unseen at fit time: - sex .* now missing: - hours"):
        client(lambda X: tree.predict(X)).labels(FRAME, 3)


def test_regressions_have_no_labels():
    model = wrap(LinearRegression().fit(FRAME[["age"]], [1.0, 2.0, 3.5]))
    with pytest.raises(ModelError, match=r"eh\.Gap"):
        ModelClient(model).labels(FRAME, 3)
    scores, decisions = ModelClient(model).both(FRAME, 3)
    assert (scores[:, 0] == decisions).all()


def test_a_threshold_makes_a_regression_decide():
    model = wrap(LinearRegression().fit(FRAME[["age"]], [1.0, 2.0, 3.0]), threshold=2.5)
    assert ModelClient(model).labels(FRAME, 3).tolist() == [0, 0, 1]


def test_scores_of_a_model_without_any_raise():
    class Rule:
        classes_ = ("no", "yes")

        def predict(self, X):
            return np.full(len(X), "no")

    with pytest.raises(ModelError, match=r"labels only, no scores.*eh\.Flip"):
        ModelClient(wrap(Rule())).scores(np.zeros((3, 2)), 3)


def test_both_asks_once_where_decisions_follow_from_scores():
    calls = []

    def model(X):
        calls.append(len(X))
        return np.column_stack([X["age"] < 2, X["age"] >= 2]).astype(float)

    scores, labels = client(model).both(FRAME, 3)
    assert calls == [3]
    assert scores.shape == (3, 2)
    assert labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize("estimator", [LogisticRegression(), SVC(), DecisionTreeClassifier(max_depth=3)])
def test_both_agrees_with_labels(estimator):
    X = np.nan_to_num(numbers(people()))
    ask = ModelClient(wrap(estimator.fit(X, answers(people()))))
    assert (ask.both(X, len(X))[1] == ask.labels(X, len(X))).all()


def test_a_slow_model_is_given_up():
    done = threading.Event()
    ask = client(lambda X: done.wait(30), timeout=0.05)
    start = time.perf_counter()
    with pytest.raises(ModelTimeout, match=r"3 rows within 0\.05 seconds.*timeout="):
        ask.labels(FRAME, 3)
    assert time.perf_counter() - start < 5
    done.set()


def test_a_model_in_time_answers_as_without_a_limit():
    ask = client(lambda X: X["age"] > 1, timeout=30)
    assert ask.labels(FRAME, 3).tolist() == [False, True, True]
    with pytest.raises(ModelError, match="KeyError"):
        client(lambda X: X["nothing"], timeout=30).labels(FRAME, 3)


def test_the_timeout_of_the_client_wins():
    assert ModelClient(wrap(len, timeout=3)).timeout == 3
    assert ModelClient(wrap(len, timeout=3), timeout=7).timeout == 7


def test_settings_of_the_caller_hold_in_the_thread():
    ask = client(lambda X: (1 / (X["age"].to_numpy() - 1)) > 0.75, timeout=30)
    with np.errstate(divide="ignore"):
        assert ask.labels(FRAME, 3).tolist() == [True, True, False]
