"""Favourable outcomes among decisions and scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from evenhand.errors import ModelError
from evenhand.estimates.pair_counts import Favour

X = np.arange(8.0)[:, None]
NAMED = eh.wrap(LogisticRegression().fit(X, ["no"] * 4 + ["yes"] * 4))
NUMBERS = eh.wrap(LinearRegression().fit(X, X[:, 0]))
UNKNOWN = eh.wrap(lambda rows: rows, input="array")


@pytest.mark.parametrize("favourable", [1, "1", True, np.int64(1)])
def test_decisions_match_by_value_or_text(favourable) -> None:
    assert Favour(UNKNOWN, favourable).of(np.array([[0, 1], [1, 1]])).tolist() == [[False, True], [True, True]]


def test_a_decision_may_turn_up_later() -> None:
    favour = Favour(UNKNOWN, "yes")
    assert not favour.of(np.array([["no", "no"]])).any()
    favour.check()
    assert favour.of(np.array([["no", "yes"]])).tolist() == [[False, True]]
    favour.check()


def test_labels_that_are_not_decisions() -> None:
    with pytest.raises(ModelError, match="'maybe'.*'no', 'yes'"):
        Favour(NAMED, "maybe")
    favour = Favour(UNKNOWN, "maybe")
    favour.of(np.array([["no", "yes"]]))
    with pytest.raises(ModelError, match="'no', 'yes'") as caught:
        favour.check()
    assert (caught.value.parameter, caught.value.value) == ("favourable", "maybe")
    with pytest.raises(ModelError, match="higher"):
        Favour(NUMBERS, "yes")


def test_levels() -> None:
    scores = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    assert Favour(NAMED, "yes").level(scores).tolist() == [[0.8, 0.4]]
    assert Favour(NAMED, "no").level(scores).tolist() == [[0.2, 0.6]]
    assert Favour(NAMED, None).level(scores).tolist() == [[0.8, 0.4]]
    assert Favour(UNKNOWN, 0).level(scores).tolist() == [[0.2, 0.6]]
    one = scores[:, :, :1]
    assert Favour(NUMBERS, "higher").level(one).tolist() == [[0.2, 0.6]]
    assert Favour(NUMBERS, "lower").level(one).tolist() == [[-0.2, -0.6]]
    assert Favour(UNKNOWN, 0).level(one).tolist() == [[-0.2, -0.6]]
    assert Favour(NAMED, None).level(None) is None
    three = np.zeros((1, 2, 3))
    assert Favour(UNKNOWN, None).level(three) is None
    assert Favour(UNKNOWN, 2).level(three).tolist() == [[0, 0]]


def test_without_a_favourable_decision_no_group_is_favoured() -> None:
    assert Favour(NAMED, None).of(np.array([["no", "yes"]])) is None
    assert Favour(NUMBERS, "higher").of(np.array([[0.5, 1.5]])) is None
