from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

from evenhand.errors import ModelError
from evenhand.models.base import Model
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel, wrap
from tests.models.people import answers, numbers, people

X = np.nan_to_num(numbers(people()))
Y = answers(people())


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
def test_what_cannot_decide_is_refused(thing):
    with pytest.raises(ModelError, match=r"model must be a function on a batch.*wrap a function"):
        wrap(thing)


def test_a_class_is_refused():
    with pytest.raises(ModelError, match="model must be an object, not a class"):
        wrap(LogisticRegression)


def test_methods_of_estimators_get_what_the_estimator_was_fitted_on():
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
