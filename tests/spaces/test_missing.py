"""Rows without a protected value are asked about: neither a group nor left out by default."""

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import DataError, SpaceError

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 99, 35],
        "sex": ["F", "M", "F", "M", None, "F"],
        "member": [True, False, None, True, None, True],
    }
)


def decide(frame):
    return (frame["age"] > 32).to_numpy()


@pytest.mark.parametrize("as_frame", [pd.DataFrame, lambda frame: pytest.importorskip("polars").from_pandas(frame)])
def test_infer_asks_by_column_and_count(as_frame):
    with pytest.raises(DataError) as caught:
        eh.Space.infer(as_frame(FRAME[["age", "sex"]]), protected="sex")
    text = str(caught.value)
    assert "'sex' is protected, and 1 of 6 rows have no value of it" in text
    assert 'missing="drop"' in text
    assert 'missing="group"' in text
    with pytest.raises(DataError, match=r"'sex' is protected, and 1 of 6.*'member' is protected, and 2 of 6"):
        eh.Space.infer(FRAME, protected=["sex", "member"])


def test_numbers_are_asked_about_too():
    frame = pd.DataFrame({"age": [20, np.nan, 40], "hours": [1, 2, 3]})
    with pytest.raises(DataError, match="'age' is protected, and 1 of 3"):
        eh.Space.infer(frame, protected="age")
    assert not eh.Space.infer(frame, protected="age", missing="drop").attributes[0].has_missing


def test_unprotected_columns_may_lack_values():
    assert eh.Space.infer(FRAME.drop(columns="member").dropna(), protected="sex").combinations == 2
    space = eh.Space.infer(FRAME.assign(sex="F", member=[True, False] * 3).assign(sex=list("FMFMFM")), "member")
    assert space.combinations == 2


def test_a_group_of_its_own():
    space = eh.Space.infer(FRAME[["age", "sex"]], protected="sex", missing="group")
    assert space.combinations == 3
    assert len(space.encode(FRAME[["age", "sex"]]).individuals) == 6
    assert len(eh.groups(decide, space, FRAME[["age", "sex"]], favourable=True).groups) == 3


def test_rows_left_out(tmp_path):
    rows = FRAME[["age", "sex"]]
    space = eh.Space.infer(rows, protected="sex", missing="drop")
    # Whoever is left out does not widen the bounds.
    assert (space.combinations, space.attributes[0].high) == (2, 50)
    assert "1 rows without a value left out" in repr(space)
    space.save(tmp_path / "space.toml")
    for known in (space, eh.Space.load(tmp_path / "space.toml")):
        found = eh.groups(decide, known, rows, favourable=True)
        assert (found.rows, found.counts["dropped"], len(found.groups)) == (5, 1, 2)
        measured = eh.estimate(decide, known, "data", data=rows)
        assert (measured.samples, measured.counts["dropped"]) == (5, 1)
    assert known == space


@pytest.mark.parametrize(
    "attribute", [eh.Nominal("sex", ["F", "M"]), eh.Integer("sex", 0, 1), eh.Real("sex", 0, 1), eh.Boolean("sex")]
)
def test_a_space_made_by_hand_is_asked_about_when_rows_come(attribute):
    present = attribute.decode(np.array([0, 1, 0, 1])).tolist()
    rows = pd.DataFrame({"age": [1, 2, 3, 4, 5], "sex": [*present, None]}, dtype=object)
    asked = eh.Space([eh.Integer("age", 1, 9), attribute], protected="sex")
    for call in (
        lambda space: eh.groups(decide, space, rows, favourable=True),
        lambda space: eh.estimate(decide, space, "data", data=rows),
        lambda space: eh.audit(decide, space, "kosei", data=rows),
    ):
        with pytest.raises(DataError, match="'sex' is protected, and 1 of 5 rows"):
            call(asked)
        call(eh.Space([eh.Integer("age", 1, 9), attribute.changed(missing="drop")], protected="sex"))
        call(eh.Space([eh.Integer("age", 1, 9), attribute.changed(missing=True)], protected="sex"))


def test_wrong_words_are_refused():
    with pytest.raises(SpaceError, match="missing must be one of None, 'group', 'drop'"):
        eh.Space.infer(FRAME, protected="sex", missing="ignore")
    with pytest.raises(SpaceError, match='True, False or "drop"'):
        eh.Nominal("sex", ["F", "M"], missing="group")
    with pytest.raises(DataError, match="every row lacks"):
        eh.Space.infer(FRAME.assign(sex=None), protected="sex", missing="drop")


def test_what_is_to_be_done_about_gaps_holds_for_later_data():
    rows = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "M", "F", "M"]})
    space = eh.Space.infer(rows, protected="sex", missing="drop")
    later = rows.assign(sex=["F", None, "F", "M"])
    encoded = space.encode(later)
    assert (len(encoded.individuals), encoded.dropped) == (3, 1)
    assert eh.estimate(lambda f: f["age"] > 30, space, "data", data=later).samples == 3


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_an_empty_text_is_asked_about_as_no_value_is(dtype):
    rows = pd.DataFrame({"age": [20, 30, 40, 50], "sex": pd.Series(["F", "", " ", "M"], dtype=dtype)})
    with pytest.raises(DataError, match="2 of 4 rows have no value") as caught:
        eh.Space.infer(rows, protected="sex")
    assert 'missing="drop"' in str(caught.value)
    dropped = eh.Space.infer(rows, protected="sex", missing="drop")
    assert dropped.combinations == 2
    assert dropped.encode(rows).dropped == 2
    # Whoever says that it is one has a group of its own.
    assert eh.Space.infer(rows, protected="sex", missing="group").combinations == 4
