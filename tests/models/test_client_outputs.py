from __future__ import annotations

import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.client import as_gradients, as_labels, as_scores
from tests.helpers import optional

FIVE = [0, 1, 1, 0, 1]


class Tensor:
    """Behaves as a torch tensor that still carries gradients and sits on a device."""

    def __init__(self, values, ready=False):
        self.values, self.ready = values, ready

    def detach(self):
        return Tensor(self.values)

    def cpu(self):
        return Tensor(self.values, ready=True)

    def __array__(self, dtype=None, copy=None):
        if not self.ready:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self.values, dtype=dtype)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda v: np.array(v, dtype=np.int8),
        lambda v: np.array(v, dtype=bool),
        lambda v: np.array(v, dtype=float),
        lambda v: np.array(v, dtype=object),
        lambda v: np.ma.array(v),
        pd.Series,
        pd.Index,
        pd.Categorical,
        lambda v: pd.Series(v, dtype="Int64"),
        lambda v: pd.Series(v, dtype="category"),
        lambda v: pd.DataFrame({"label": v}),
        lambda v: np.array(v)[:, np.newaxis],
        lambda v: [[value] for value in v],
        Tensor,
    ],
)
def test_every_common_container_is_read(make):
    labels = as_labels(make(FIVE), 5, "f")
    assert labels.shape == (5,)
    assert labels.tolist() == FIVE


def test_polars_series_are_read():
    polars = optional("polars")
    assert as_labels(polars.Series(FIVE), 5, "f").tolist() == FIVE
    assert as_labels(polars.Series(["a", "b"]), 2, "f").tolist() == ["a", "b"]
    assert as_labels(polars.Series(["a", "b"], dtype=polars.Categorical), 2, "f").tolist() == ["a", "b"]
    for missing in ([1, None], ["a", None]):
        with pytest.raises(ModelError):
            as_labels(polars.Series(missing), 2, "f")


@pytest.mark.parametrize("dtype", ["str", object, "category", "string"])
def test_text_labels_of_pandas_are_read(dtype):
    assert as_labels(pd.Series(["no", "yes"], dtype=dtype), 2, "f").tolist() == ["no", "yes"]
    with pytest.raises(ModelError, match="no label for 1 of 2 rows"):
        as_labels(pd.Series(["no", None], dtype=dtype), 2, "f")


@pytest.mark.parametrize(
    "labels",
    [
        [1, None],
        [None, None],
        ["a", float("nan")],
        ["a", None],
        [1.0, float("nan")],
        [1.0, float("inf")],
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.ma.array([1, 0], mask=[False, True]),
    ],
)
def test_missing_labels_raise(labels):
    with pytest.raises(ModelError):
        as_labels(labels, 2, "f")


@pytest.mark.parametrize(
    "labels",
    [
        [{"a": 1}, {"a": 2}],
        [{1}, {2}],
        [[1], [1, 2]],
        [[1, 2], "a"],
        np.array([1 + 2j, 3]),
        np.zeros(2, dtype=[("a", int)]),
        np.zeros((2, 2, 2)),
        np.zeros((2, 3)),
        None,
        "yes",
        {"a": 1, "b": 2},
        {1, 2},
        (value for value in FIVE),
        7,
    ],
)
def test_labels_that_cannot_be_compared_raise(labels):
    with pytest.raises(ModelError):
        as_labels(labels, 2, "f")


def test_mixed_labels_stay_apart():
    labels = as_labels([1, "1", True, Decimal("0.5"), (1, 2)], 5, "f")
    assert labels.dtype == object
    assert labels[0] != labels[1]


def test_large_numbers_keep_their_digits():
    labels = as_labels(np.array([2**60, 2**60 + 1], dtype=object), 2, "f")
    assert labels[0] != labels[1]
    labels = as_labels([2**70, 2**70 + 1], 2, "f")
    assert labels[0] != labels[1]


@pytest.mark.parametrize("answer", [[0.2, 0.8], np.array([1.0, 0.5]), np.array([0.2, 1], dtype=object)])
def test_fractions_look_like_scores(answer):
    with pytest.raises(ModelError, match=r"look like scores(.|\n)*eh\.Gap\(0\.1\)(.|\n)*threshold=0\.5"):
        as_labels(answer, 2, "f")


@pytest.mark.parametrize("check", [as_labels, as_scores])
def test_the_number_of_answers_is_checked(check):
    with pytest.raises(ModelError, match="got 3 answers for 5 rows"):
        check([1, 0, 1], 5, "f")


@given(st.lists(st.one_of(st.integers(), st.booleans(), st.text(), st.none(), st.floats()), min_size=1))
def test_labels_come_back_equal_or_raise(values):
    try:
        labels = as_labels(values, len(values), "f")
    except ModelError:
        usable = all(v is not None and v == v for v in values)
        numbers = [v for v in values if isinstance(v, float)]
        assert not usable or any(v != np.rint(v) or np.isinf(v) for v in numbers)
    else:
        numeric = all(isinstance(v, int | float) for v in values)
        big = numeric and any(abs(v) > 2**53 for v in values)
        assert big or labels.tolist() == values


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        Tensor,
        lambda v: np.array(v, dtype=np.float32),
        lambda v: np.array(v, dtype=object),
        lambda v: pd.Series(v, dtype="Float64"),
        lambda v: pd.DataFrame({"score": v}),
    ],
)
def test_scores_become_rows_of_float64(make):
    scores = as_scores(make([0.25, 0.5]), 2, "f")
    assert scores.dtype == np.float64
    assert scores.tolist() == [[0.25], [0.5]]


def test_score_rows_keep_their_columns():
    assert as_scores([[0.1, 0.9], [0.2, 0.8]], 2, "f").shape == (2, 2)
    assert as_scores(np.array([True, False]), 2, "f").tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.1, float("nan")], r"1 of 2 rows \(first: row 1\)"),
        ([[0.1, float("inf")], [0.1, 0.1]], r"1 of 2 rows \(first: row 0\)"),
        ([None, 0.1], "object"),
        (["0.5", "0.1"], "asked for scores"),
        (np.array(["0.5", "0.1"], dtype=object), "asked for scores"),
        (np.zeros((2, 0)), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.array([1j, 2]), "complex"),
        (0.5, "one float"),
        (None, "returned None"),
    ],
)
def test_invalid_scores_raise(scores, message):
    with pytest.raises(ModelError, match=message):
        as_scores(scores, 2, "f")


@pytest.mark.parametrize("labels", [np.arange(32768) % 2, np.arange(32768) % 2 == 0, np.full(32768, "yes")])
def test_checks_of_plain_labels_are_cheap(labels):
    best = min(_seconds(lambda: as_labels(labels, 32768, "f")) for _ in range(20))
    assert best < 50e-6


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([["a", "b"]], "of type"),
        (np.array([[1j, 2]]), "of type"),
        ([[1.0]], r"\(1, 2\), the shape"),
        ([[np.nan, 1.0]], "NaN"),
    ],
)
def test_wrong_gradients_are_refused(answer, words):
    with pytest.raises(ModelError, match=words):
        as_gradients(answer, (1, 2), "f")
