from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import ModelError
from evenhand.models.base import Model


class Rule(Model):
    name = "rule"

    def labels(self, X):
        return (X["hours"] > 40).to_numpy()


class Scored(Rule):
    has_scores = True
    classes = np.array(["no", "yes"])

    def scores(self, X):
        chance = X["hours"].to_numpy() / 80
        return np.column_stack([1 - chance, chance])


def test_a_subclass_needs_labels_only():
    model = Rule()
    assert (model.input, model.columns, model.has_scores, model.regression) == ("frame", None, False, False)
    with pytest.raises(ModelError, match="no scores"):
        model.scores(None)


def test_the_highest_score_decides_and_ties_go_to_the_first():
    assert Scored().decide(np.array([[0.5, 0.5], [0.4, 0.6]])).tolist() == ["no", "yes"]


def test_a_decision_value_above_zero_means_the_second_class():
    assert Scored().decide(np.array([[0.0], [0.1], [-0.1]])).tolist() == ["no", "yes", "no"]


def test_a_single_number_without_classes_stays_a_number():
    assert Rule().decide(np.array([[0.25], [3.0]])).tolist() == [0.25, 3.0]


def test_scores_without_classes_decide_by_place():
    assert Rule().decide(np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1]])).tolist() == [2, 0]


def test_a_threshold_includes_its_own_value():
    model = Scored().with_options(threshold=0.25)
    assert model.decide(np.array([[0.75, 0.25], [0.8, 0.2]])).tolist() == ["yes", "no"]
    assert model.decides


def test_options_leave_the_model_as_it_was():
    model = Scored()
    changed = model.with_options(threshold=0.3, timeout=2, name="strict", input="array")
    assert (model.threshold, model.timeout, model.name, model.input) == (None, None, "rule", "frame")
    assert (changed.threshold, changed.timeout, changed.name, changed.input) == (0.3, 2, "strict", "array")
    assert model.with_options() is model


def test_a_threshold_of_zero_counts():
    assert Scored().with_options(threshold=0).threshold == 0.0


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5", True, [0.5]])
def test_a_threshold_must_be_a_number(threshold):
    with pytest.raises(ModelError, match=r"threshold must be a number.*such as 0\.5"):
        Scored().with_options(threshold=threshold)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_timeout_must_be_positive(timeout):
    with pytest.raises(ModelError, match="timeout must be a number above 0.*leave it out"):
        Scored().with_options(timeout=timeout)


def test_an_unknown_input_is_refused():
    with pytest.raises(ModelError, match="input must be one of 'frame', 'array', 'text'"):
        Scored().with_options(input="matrix")


def test_a_threshold_needs_scores():
    with pytest.raises(ModelError, match="labels only"):
        Rule().with_options(threshold=0.5)


def test_a_threshold_needs_two_classes():
    model = Scored()
    model.classes = np.array(["a", "b", "c"])
    with pytest.raises(ModelError, match="threshold needs two classes.* 3;"):
        model.with_options(threshold=0.5)
    model.classes = None
    with pytest.raises(ModelError, match="threshold needs one or two scores.* 3;"):
        model.with_options(threshold=0.5).decide(np.zeros((2, 3)))


def test_columns_are_picked_in_the_models_order():
    model = Rule()
    model.columns = ("b", "a")
    frame = pd.DataFrame({"a": [1], "extra": [2], "b": [3]})
    assert list(model.pick(frame).columns) == ["b", "a"]
    same = frame[["b", "a"]]
    assert model.pick(same) is same


def test_missing_columns_are_named():
    model = Rule()
    model.columns = ("hours", "age", "sex")
    with pytest.raises(ModelError, match="needs the columns age, sex, but is given hours; add"):
        model.pick(pd.DataFrame({"hours": [1]}))
