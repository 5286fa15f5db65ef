from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

from evenhand.errors import ModelError
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel, wrap
from tests.models.people import answers, numbers, people

X = np.nan_to_num(numbers(people()))
Y = answers(people())
FRAME = pd.DataFrame({"age": [1, 2, 3]})
finite = st.floats(-1e6, 1e6)
rows = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=finite)


def test_a_model_is_returned_as_it_is_or_with_options():
    model = wrap(len)
    assert wrap(model) is model
    renamed = wrap(model, name="n", timeout=4)
    assert (renamed.name, renamed.timeout, renamed.source) == ("n", 4, len)


def test_options_of_an_estimator_can_be_put_in_later():
    model = wrap(LogisticRegression().fit(X, Y))
    strict = wrap(model, threshold=0.9)
    assert (strict.labels(X) == "yes").sum() < (model.labels(X) == "yes").sum()


@pytest.mark.parametrize("thing", [None, 3, [1, 2], {"a": 1}, pd.DataFrame(), np.zeros(3), object()])
def test_objects_that_cannot_decide_are_refused(thing):
    with pytest.raises(ModelError, match=r"model must be a function on a batch.*wrap a function"):
        wrap(thing)


def test_a_class_is_refused():
    with pytest.raises(ModelError, match="model must be an object, not a class"):
        wrap(LogisticRegression)


def test_methods_of_estimators_get_the_fitted_kind_of_input():
    named = LogisticRegression().fit(people()[["age"]], Y)
    plain = LogisticRegression().fit(X, Y)
    assert isinstance(wrap(plain.predict), EstimatorModel)
    for estimator, rows in ((named, people()), (plain, X)):
        model = wrap(estimator.predict_proba, threshold=0.5)
        assert isinstance(model, CallableModel)
        assert model.labels(rows).tolist() == (estimator.predict(model.pick(rows)) == "yes").astype(int).tolist()
    value = wrap(RidgeClassifier().fit(X, Y).decision_function, threshold=0)
    assert set(value.labels(X)) == {0, 1}
    assert wrap(LinearRegression().fit(X, X[:, 0]).predict).regression


def test_other_methods_are_plain_functions():
    class Judge:
        def predict(self, X):
            raise AssertionError

        def decide(self, frame):
            return frame["age"] > 4

    model = wrap(Judge().decide)
    assert model.input == "frame"
    assert model.labels(people()).sum() > 0


def test_wrapping_imports_no_package_that_is_not_there_already():
    code = (
        "import sys, evenhand.models.wrap as m; m.wrap(len); m.wrap(type('Judge', (), {'predict': len})()); "
        "print({'sklearn', 'xgboost', 'lightgbm', 'catboost', 'onnxruntime', 'skops'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_own_model_is_taken():
    class Rule(Model):
        def labels(self, X):
            return X["age"].to_numpy() > 4

    rule = Rule()
    assert wrap(rule) is rule


def test_a_frame_is_what_a_function_gets():
    seen = []
    wrap(lambda X: seen.append(X) or X["age"]).labels(FRAME)
    assert isinstance(seen[0], pd.DataFrame)


def test_a_function_may_add_columns_to_its_frame():
    def model(X):
        X["double"] = X["age"] * 2
        return X["double"] > 3

    assert wrap(model).labels(FRAME).tolist() == [False, True, True]
    assert list(FRAME.columns) == ["age"]


@given(rows)
def test_the_highest_of_several_scores_decides(scores):
    model = CallableModel(lambda X: X, input="array")
    assert (model.labels(scores) == scores.argmax(axis=1)).all()
    assert (model.scores(scores) == scores).all()


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=finite), finite)
def test_a_threshold_on_a_single_score(scores, threshold):
    expected = (scores >= threshold).astype(int)
    for shape in (lambda s: s, lambda s: s[:, np.newaxis], lambda s: np.column_stack([-s, s])):
        model = wrap(shape, input="array", threshold=threshold)
        assert (ModelClient(model).labels(scores, len(scores)) == expected).all()
        assert (model.decide(model.scores(scores)) == expected).all()


def test_decisions_of_a_threshold_are_whole_numbers():
    assert wrap(lambda X: X["age"] / 4, threshold=0.5).labels(FRAME).dtype == np.int64


def test_a_threshold_on_three_scores_is_refused():
    with pytest.raises(ModelError, match="one or two scores per row"):
        wrap(lambda X: np.zeros((len(X), 3)), threshold=0.5).labels(FRAME)


def test_a_threshold_on_text_is_refused():
    with pytest.raises(ModelError, match="asked for scores"):
        wrap(lambda X: ["no"] * len(X), threshold=0.5).labels(FRAME)


def test_a_single_score_without_a_threshold_is_no_label():
    ask = ModelClient(wrap(lambda X: X["age"] / 4))
    with pytest.raises(ModelError, match="look like scores"):
        ask.labels(FRAME, 3)
    assert ask.both(FRAME, 3)[1].tolist() == [0.25, 0.5, 0.75]


def test_callables_have_readable_names():
    class Judge:
        def __call__(self, X):
            return X["age"] > 1

    def rule(X):
        return X

    assert CallableModel(rule).name == "rule"
    assert CallableModel(Judge()).name == "Judge"
    assert CallableModel(functools.partial(functools.partial(rule))).name == "rule"
    assert wrap(Judge()).labels(FRAME).tolist() == [False, True, True]
