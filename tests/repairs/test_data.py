from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DataError
from evenhand.repairs.data import Used, labelled, split

from .people import SPACE, people


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=8, max_size=60), st.floats(0.1, 0.9), st.integers(0, 2**31))
def test_a_split_takes_every_row_once_and_the_share_of_each_label(y: list[int], share: float, seed: int) -> None:
    X = people(len(y))[0].assign(age=np.arange(len(y)) % 20)
    rows = labelled(X, y, SPACE)
    try:
        train, held = split(rows, share, seed)
    except DataError:
        assert {round(share * y.count(label)) for label in y} == {0} or all(
            round(share * y.count(label)) == y.count(label) for label in y
        )
        return
    both = pd.concat([train.frame.assign(y=train.y), held.frame.assign(y=held.y)])
    order = list(both.columns)
    assert both.sort_values(order).to_numpy().tolist() == X.assign(y=y).sort_values(order).to_numpy().tolist()
    for label in set(y):
        assert (held.y == label).sum() == round(share * y.count(label))


def test_added_rows_keep_the_columns_order_and_dtypes() -> None:
    X, y = people(20)
    X = X[["work", "sex", "pay", "age"]].astype({"age": "float32", "pay": "int16", "work": "category"})
    rows = labelled(X, y.astype(bool), SPACE)
    more = rows.plus(rows.written(SPACE.individuals([[3, 4, 1, 2]]).rows), np.array([True]))
    assert more.frame.dtypes.tolist() == X.dtypes.tolist()
    assert more.frame.iloc[-1].tolist() == ["c", "M", 4, 3.0]
    assert more.y.dtype == bool
    assert len(rows) == 20


def test_arrays_stay_arrays() -> None:
    space = eh.Space([eh.Integer("a", 1, 9), eh.Real("b", 0, 1, step=0.25), eh.Boolean("s")], protected="s")
    X = np.array([[1, 0, 1], [2, 1, 0]])
    rows = labelled(X, ["no", "yes"], space)
    assert (rows.X == X).all()
    more = rows.plus(rows.written(space.individuals([[8, 1, 1]]).rows), np.array(["no"]))
    assert more.X.tolist() == [[1, 0, 1], [2, 1, 0], [9, 0.25, 1]]
    assert more.y.tolist() == ["no", "yes", "no"]


def test_training_may_change_the_rows() -> None:
    X, y = people(5)
    rows = labelled(X, y, SPACE)
    mine = rows.X
    mine["pay"] = 0
    assert (rows.X == X).all(axis=None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X.drop(columns="pay"), y), "has no 'pay'"),
        (lambda X, y: (X.assign(name="x"), y), "only columns of the space, and has 'name'"),
        (lambda X, y: (X, y[:-1]), "one label for each"),
        (lambda X, y: (X, y + 0.5), "y .*fractions"),
        (lambda X, y: (X, [None, *y[1:]]), r"y has no label for 1 of 5 rows \(first: row 0, None\)"),
        (lambda X, y: (X, [0, np.nan, 1, 1, np.inf]), r"y has no label for 2 of 5 rows \(first: row 1, nan\); leave"),
        (lambda X, y: ([[1, 2], [3]], y), "same number of values in each row"),
        (lambda X, y: (X.to_numpy(), y), "as an array must hold numbers"),
        (lambda X, y: (np.zeros((5, 3)), y), "the space's 4 columns"),
        (lambda X, y: (7, y), "data must be a frame"),
    ],
)
def test_rows_that_cannot_be_used(change: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        labelled(*change(*people(5)), SPACE)  # type: ignore[operator]


@pytest.mark.parametrize("share", [0, 1, 1.5, "half", None, 0.001])
def test_wrong_shares(share: object) -> None:
    with pytest.raises(DataError, match="held_out"):
        split(labelled(*people(20), SPACE), share, 0)


def test_used_keys_do_not_depend_on_the_protected_attribute() -> None:
    used = Used(SPACE)
    people_ = SPACE.individuals([[1, 2, 0, 1], [3, 3, 1, 2]])
    used.add(people_[:1])
    other = eh.Space(SPACE.attributes, protected="work")
    assert used(other.individuals(people_.rows)).tolist() == [True, False]


@pytest.mark.parametrize("limit", [2, 64])
def test_individuals_with_a_used_counterpart_are_excluded(limit: int) -> None:
    """Another attribute is protected: an individual is excluded by each counterpart that it would be compared with."""
    used = Used(SPACE)
    used.add(SPACE.individuals(SPACE.coding.rows(np.arange(0, SPACE.coding.total, 7))))
    other = eh.Space(SPACE.attributes, "age", max_family_size=limit)
    everyone = other.individuals(SPACE.coding.rows(np.arange(300)))
    families = other.families(everyone, 3).rows
    by_hand = [bool(used(SPACE.individuals(family)).any()) for family in families]
    assert used.excluder(3)(everyone).tolist() == by_hand
    assert limit == 64 or len(set(by_hand)) == 2
