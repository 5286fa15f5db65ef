from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.wrap import CallableModel, readable_name, wrap

FRAME = pd.DataFrame({"age": [1, 2, 3]})
finite = st.floats(-1e6, 1e6)
rows = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=finite)


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
    with pytest.raises(ModelError, match="3 scores a row"):
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

    assert readable_name(rule) == "rule"
    assert readable_name(Judge()) == "Judge"
    assert readable_name(functools.partial(functools.partial(rule))) == "rule"
    assert wrap(Judge()).labels(FRAME).tolist() == [False, True, True]
