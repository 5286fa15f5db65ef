"""Inference of attributes from a frame."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DataError, SpaceError
from evenhand.spaces.attributes import Boolean, Integer, Nominal, Ordinal, Real
from evenhand.spaces.frames import columns_of
from evenhand.spaces.infer import infer
from evenhand.spaces.tabular import Space

NAN = math.nan


def one(values, dtype=None, **options):
    """Infer a single column beside a protected one."""
    series = pd.Series(values, dtype=dtype)
    frame = pd.DataFrame({"x": series, "sex": ["F", "M"] * (len(series) // 2) + ["F"] * (len(series) % 2)})
    if len(series) == 1:
        frame["sex"] = pd.Categorical(["F"], categories=["F", "M"])
    (attribute, _), (note, _) = infer(frame, "sex", **options)
    assert note.name == "x"
    assert note.kind == attribute.kind
    return attribute, note.reason


@pytest.mark.parametrize(
    ("values", "dtype", "expected", "reason"),
    [
        ([3, 7, 3], None, Integer("x", 3, 7), "integer column"),
        ([0, 1], None, Integer("x", 0, 1), "integer column"),
        ([5, 5], None, Integer("x", 5, 5), "constant"),
        ([3, 7], "int8", Integer("x", 3, 7, dtype="int8"), "integer column"),
        ([3, 7], "Int64", Integer("x", 3, 7, dtype="Int64"), "integer column"),
        ([3, None], "Int64", Integer("x", 3, 3, missing=True, dtype="Int64"), "^integer column, 1 missing"),
        ([3.0, 7.0], None, Integer("x", 3, 7, dtype="float64"), "whole numbers"),
        ([3.0, NAN, 7.0], None, Integer("x", 3, 7, missing=True), "whole numbers, 1 missing"),
        ([3.0, 7.0], "float32", Integer("x", 3, 7, dtype="float32"), "whole numbers"),
        ([3, None, 7], "object", Integer("x", 3, 7, missing=True, dtype="object"), "whole"),
        ([0.5, 2.0], None, Real("x", 0.5, 2.0, step=0.1), "steps of 0.1"),
        ([0.25, 0.5, NAN], None, Real("x", 0.25, 0.5, step=0.01, missing=True), "steps of 0.01, 1 missing"),
        ([0.1, 0.7], "float32", Real("x", 0.1, 0.7, step=0.1, dtype="float32"), "steps of 0.1"),
        ([0.0, 99.99], None, Real("x", 0.0, 99.99, step=0.01), "steps of 0.01"),
        ([0.01, 100.01], None, Real("x", 0.01, 100.01, step=0.01), "steps of 0.01"),
        ([0.01, 100.02], None, Real("x", 0.01, 100.02), "100 steps"),
        ([1e-7, 3e-7], None, Real("x", 1e-7, 3e-7, step=1e-7), "steps of 1e-07"),
        ([0.0, math.pi], None, Real("x", 0.0, math.pi), "100 steps"),
        ([0.5, 0.5], None, Real("x", 0.5, 0.5, step=0.1), "constant"),
        ([0.0, 1e300], None, Real("x", 0.0, 1e300), "100 steps"),
        ([0.0, 1e10], None, Real("x", 0.0, 1e10), "100 steps"),
        ([decimal.Decimal("0.5"), decimal.Decimal(1)], "object", Real("x", 0.5, 1.0, 0.1, dtype="object"), "steps"),
        ([True, False], None, Boolean("x"), "boolean column"),
        ([True, True], None, Boolean("x"), "boolean column"),
        ([True, None], "boolean", Boolean("x", missing=True, dtype="boolean"), "1 missing"),
        ([True, None], "object", Boolean("x", missing=True), "1 missing"),
        ([True, False], "object", Boolean("x", dtype="object"), "boolean column"),
        (["b", "a", "b"], "str", Nominal("x", ["a", "b"]), "2 different texts"),
        (["b", None, "a"], "str", Nominal("x", ["a", "b"], missing=True), "2 different texts, 1 missing"),
        (["b", "a"], "object", Nominal("x", ["a", "b"], dtype="object"), "2 different texts"),
        (["b", None], "string", Nominal("x", ["b"], missing=True, dtype="string"), "^1 text, 1 missing"),
        (["10", "9"], "str", Nominal("x", ["10", "9"]), "read as numbers; kept as texts"),
        (["b", "a"], "category", Nominal("x", ["a", "b"], dtype="category"), "category column"),
        ([2, 1], "category", Nominal("x", [1, 2], dtype="category"), "category column"),
        (
            ["hi", None],
            pd.CategoricalDtype(["lo", "hi"], ordered=True),
            Ordinal("x", ["lo", "hi"], missing=True, dtype="category"),
            "ordered category column, 1 of its values not in the data, 1 missing",
        ),
        (
            ["b", 2, 1.5, None, (1, 2)],
            "object",
            Nominal("x", [1.5, 2, "b", (1, 2)], missing=True),
            "mixed types \\(float, int, str, tuple\\), 1 missing",
        ),
        ([10, 9, "a"], "object", Nominal("x", [10, 9, "a"]), "mixed types \\(int, str\\)"),
    ],
)
def test_kinds(values, dtype, expected, reason):
    attribute, why = one(values, dtype)
    assert attribute == expected
    assert type(attribute) is type(expected)
    assert pd.Series([why]).str.contains(reason)[0], why


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([3, 7], "int8"),
        ([3, 7], "uint16"),
        ([3, None], "Int64"),
        ([3.0, 7.0], "float64"),
        ([0.1, 0.7], "float32"),
        ([0.5, None], "Float64"),
        ([True, None], "boolean"),
        (["b", None], "string"),
        (["b", "a"], "object"),
        (["b", "a"], "category"),
        (["b", "a"], pd.CategoricalDtype(["b", "a", "c"], ordered=True)),
        ([1, "a"], "object"),
    ],
)
def test_the_model_gets_the_frame_that_it_knows(values, dtype):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype), "sex": ["F", "M"]})
    space = Space.infer(frame, "sex")
    pd.testing.assert_frame_equal(space.frame(space.encode(frame, strict=True).individuals.rows), frame)


def test_dtypes_without_a_name_are_let_go():
    attribute, _ = one([0, 0, 5], "Sparse[int64]")
    assert attribute.decode(np.array([0])).tolist() == [0]


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([None, None], "object", "no values, only missing ones"),
        ([NAN, NAN], None, "no values"),
        ([1.0, math.inf], None, "1 infinite"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), None, "dates"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]).astype("category"), None, "dates"),
        ([datetime.date(2020, 1, 1), None], "object", "dates"),
        (pd.to_timedelta([1, 2], unit="s"), None, "dates"),
        (pd.period_range("2020", periods=2, freq="M"), None, "dates"),
        ([[1], [2]], "object", "cannot be compared \\(list\\)"),
        ([{}, "a"], "object", "cannot be compared"),
        ([1j, 2j], None, "complex128"),
        ([0, 2**40], None, "too many"),
        ([2**60, 2**60 + 1], None, "too many"),
        ([-1.5e308, 1.5e308], None, "too far apart"),
        ([f"id{i}" for i in range(1001)], None, "looks like an identifier: 1,001 different values"),
    ],
)
def test_refused_columns(values, dtype, message):
    with pytest.raises(DataError, match=message) as caught:
        one(values, dtype)
    text = str(caught.value)
    assert "column 'x'" in text
    assert "exclude=['x']" in text
    assert len(text.split("\n")) <= 3
    assert one(values, dtype, overrides={"x": Integer("x", 0, 1)})[1] == "given"
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype), "y": 1})
    frame["sex"] = ["F"] + ["M"] * (len(frame) - 1)
    assert [a.name for a in infer(frame, "sex", exclude=["x"])[0]] == ["y", "sex"]
    assert [a.name for a in infer(frame, "sex", exclude="x")[0]] == ["y", "sex"]
    assert [a.name for a in infer(frame, "sex", "x")[0]] == ["y", "sex"]


def test_repeated_texts_are_not_an_identifier():
    texts = [f"id{i}" for i in range(1001)] * 2
    assert one(texts)[0].size == 1001
    assert one(texts[:1000] + texts[:60])[0].size == 1000
    with pytest.raises(DataError, match="identifier: 1,000 different values in 1,000 rows"):
        one(texts[:1000])
    # Few rows may have different values by chance; and a larger limit is a wish to keep them.
    assert one(texts[:99])[0].size == 99
    assert one(texts[:1000], max_nominal=5_000)[0].size == 1000
    with pytest.raises(DataError, match="identifier"):
        one(["a", "b", "c"], max_nominal=2)


@pytest.mark.parametrize("separator", [" ", "T"])
def test_dates_in_texts_are_in_order(separator):
    days = [str(day)[:10] for day in pd.date_range("2019-12-30", periods=300)]
    attribute, reason = one([*days[::-1], None])
    assert (attribute.kind, reason) == ("ordinal", "300 different dates, in order, 1 missing")
    assert attribute.decode(np.arange(3)).tolist() == ["2019-12-30", "2019-12-31", "2020-01-01"]
    times = [f"{day}{separator}08:30" for day in days]
    assert one(times)[0].kind == "ordinal"
    assert one([*days[:50], "soon"])[0].kind == "nominal"
    with pytest.raises(DataError, match="dates or times"):
        one([str(day)[:10] for day in pd.date_range("2019-12-30", periods=1_001)])


FRAME = pd.DataFrame({"age": [20, 30], "sex": ["F", "M"], "alive": ["yes", "yes"], "income": [0, 1]})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"protected": "Sexx"}, SpaceError, "no column 'Sexx'; did you mean 'sex'"),
        ({"protected": ["sex", "zzz"]}, SpaceError, "no column 'zzz'; there are 'age'"),
        ({"protected": "sex", "target": "incme"}, SpaceError, "did you mean 'income'"),
        ({"protected": "sex", "exclude": ["ag"]}, SpaceError, "did you mean 'age'"),
        ({"protected": "sex", "overrides": {"agee": Integer("agee", 0, 1)}}, SpaceError, "did you mean 'age'"),
        ({"protected": "sex", "overrides": {"age": Integer("old", 0, 1)}}, SpaceError, "of that name"),
        ({"protected": "sex", "overrides": {"age": 3}}, SpaceError, "overrides must map 'age'.*got 3"),
        ({"protected": "sex", "target": "sex"}, SpaceError, "name it in one of them"),
        ({"protected": "alive"}, SpaceError, "single value"),
        ({"protected": [], "exclude": list(FRAME)}, DataError, "no column is left"),
    ],
)
def test_wrong_names(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        infer(FRAME, **arguments)
    assert len(str(caught.value).split("\n")) <= 3


@pytest.mark.parametrize("frame", [FRAME.iloc[:0], FRAME[[]], pd.DataFrame(), {}, {"a": []}])
def test_empty(frame):
    with pytest.raises(DataError, match="at least one row and one column"):
        infer(frame, "sex")


def test_overrides_make_a_single_value_enough():
    attributes, notes = infer(FRAME, ["alive"], "income", overrides={"alive": Nominal("alive", ["no", "yes"])})
    assert [a.name for a in attributes] == ["age", "sex", "alive"]
    assert [n.reason for n in notes] == ["integer column", "2 different texts", "given"]


def test_other_frames():
    pl = pytest.importorskip("polars")
    data = {"age": [20, None], "ratio": [0.5, 0.25], "sex": ["F", "M"], "ok": [True, None]}
    expected = [
        Integer("age", 20, 20, missing=True),
        Real("ratio", 0.25, 0.5, step=0.01),
        Nominal("sex", ["F", "M"]),
        Boolean("ok", missing=True),
    ]
    assert infer(data, "sex")[0] == expected
    assert infer(pl.DataFrame(data), "sex")[0] == expected


def test_it_prints():
    text = repr(Space.infer(FRAME, "sex", "income"))
    assert "integer column" in text
    assert "constant" in text


cells = {
    "int": st.integers(-(10**6), 10**6),
    "bool": st.booleans(),
    "text": st.text("abc ä'\n0", max_size=5),
    "cents": st.integers(-4000, 4000).map(lambda i: i / 100),
    "mixed": st.one_of(
        st.integers(0, 5), st.text("abä", max_size=2), st.tuples(st.integers(0, 3)), st.sampled_from([0.5, 0.25])
    ),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(2, 12))
    columns = {"sex": pd.Series((["F", "M"] * rows)[:rows])}
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(list(cells)))
        cell = st.none() | cells[kind] if draw(st.booleans()) else cells[kind]
        values = draw(st.lists(cell, min_size=rows, max_size=rows))
        assume(any(value is not None for value in values))
        dtype = draw(st.sampled_from([None, "category", "string"])) if kind == "text" else None
        columns[f"{kind} {i}"] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)


@settings(deadline=None)
@given(frames())
def test_encoding_and_decoding_give_the_frame_back(frame):
    space = Space.infer(frame, "sex")
    encoded = space.encode(frame, strict=True)
    assert (encoded.clipped, encoded.dropped) == (0, 0)
    back = space.frame(encoded.individuals.rows)
    assert list(back.dtypes) == list(frame.dtypes)
    before, after = columns_of(frame), columns_of(back)
    for name in frame.columns:
        assert before[name].dtype == after[name].dtype
        for a, b in zip(before[name].tolist(), after[name].tolist(), strict=True):
            assert a == b or (a != a and b != b)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.sampled_from(["float64", "float32"]))
def test_floats_come_back_within_half_a_step(values, dtype):
    series = np.array(values, dtype=dtype)
    (attribute, _), _ = infer({"x": series, "sex": np.arange(len(values))} if len(values) > 1 else
                              {"x": np.repeat(series, 2), "sex": [0, 1]}, "sex")  # fmt: skip
    codes, clipped = attribute.encode(series)
    assert not clipped.any()
    assert (codes >= 0).all()
    step = getattr(attribute, "step", 1)
    off = np.abs(attribute.decode(codes) - series.astype(np.float64))
    assert (off <= step * 0.5000001 + 1e-6 * np.abs(series)).all()


WITHOUT_VALUES = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 99, 35],
        "sex": ["F", "M", "F", "M", None, "F"],
        "member": [True, False, None, True, None, True],
    }
)


def decide(frame):
    return (frame["age"] > 32).to_numpy()


@pytest.mark.parametrize("as_frame", [pd.DataFrame, lambda frame: pytest.importorskip("polars").from_pandas(frame)])
def test_missing_protected_values_raise(as_frame):
    with pytest.raises(DataError) as caught:
        eh.Space.infer(as_frame(WITHOUT_VALUES[["age", "sex"]]), protected="sex")
    text = str(caught.value)
    assert "'sex' is protected, and 1 of 6 rows have no value of it" in text
    assert 'missing="drop"' in text
    assert 'missing="group"' in text
    with pytest.raises(DataError, match=r"'sex' is protected, and 1 of 6.*'member' is protected, and 2 of 6"):
        eh.Space.infer(WITHOUT_VALUES, protected=["sex", "member"])


def test_missing_protected_numbers_raise():
    frame = pd.DataFrame({"age": [20, np.nan, 40], "hours": [1, 2, 3]})
    with pytest.raises(DataError, match="'age' is protected, and 1 of 3"):
        eh.Space.infer(frame, protected="age")
    assert not eh.Space.infer(frame, protected="age", missing="drop").attributes[0].has_missing


def test_unprotected_columns_may_have_missing_values():
    assert eh.Space.infer(WITHOUT_VALUES.drop(columns="member").dropna(), protected="sex").combinations == 2
    space = eh.Space.infer(
        WITHOUT_VALUES.assign(sex="F", member=[True, False] * 3).assign(sex=list("FMFMFM")), "member"
    )
    assert space.combinations == 2


def test_missing_values_as_a_group():
    space = eh.Space.infer(WITHOUT_VALUES[["age", "sex"]], protected="sex", missing="group")
    assert space.combinations == 3
    assert len(space.encode(WITHOUT_VALUES[["age", "sex"]]).individuals) == 6
    assert len(eh.groups(decide, space, WITHOUT_VALUES[["age", "sex"]], favourable=True).groups) == 3


def test_missing_values_dropped(tmp_path):
    rows = WITHOUT_VALUES[["age", "sex"]]
    space = eh.Space.infer(rows, protected="sex", missing="drop")
    # Rows that are left out do not widen the bounds.
    assert (space.combinations, space.attributes[0].high) == (2, 50)
    assert "1 row without a value left out" in repr(space)
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
def test_data_with_missing_protected_values_raises(attribute):
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


def test_wrong_settings_of_missing_are_refused():
    with pytest.raises(SpaceError, match="missing must be one of None, 'group', 'drop'"):
        eh.Space.infer(WITHOUT_VALUES, protected="sex", missing="ignore")
    with pytest.raises(SpaceError, match='True, False or "drop"'):
        eh.Nominal("sex", ["F", "M"], missing="group")
    with pytest.raises(DataError, match="every row lacks"):
        eh.Space.infer(WITHOUT_VALUES.assign(sex=None), protected="sex", missing="drop")


def test_missing_drop_applies_to_later_data():
    rows = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "M", "F", "M"]})
    space = eh.Space.infer(rows, protected="sex", missing="drop")
    later = rows.assign(sex=["F", None, "F", "M"])
    encoded = space.encode(later)
    assert (len(encoded.individuals), encoded.dropped) == (3, 1)
    assert eh.estimate(lambda f: f["age"] > 30, space, "data", data=later).samples == 3


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_empty_texts_count_as_missing(dtype):
    rows = pd.DataFrame({"age": [20, 30, 40, 50], "sex": pd.Series(["F", "", " ", "M"], dtype=dtype)})
    with pytest.raises(DataError, match="2 of 4 rows have no value") as caught:
        eh.Space.infer(rows, protected="sex")
    assert 'missing="drop"' in str(caught.value)
    dropped = eh.Space.infer(rows, protected="sex", missing="drop")
    assert dropped.combinations == 2
    assert dropped.encode(rows).dropped == 2
    # With missing="group", missing values are a group of their own.
    assert eh.Space.infer(rows, protected="sex", missing="group").combinations == 4


def test_columns_that_cannot_be_attributes_are_offered_together():
    count = 3_000
    frame = pd.DataFrame(
        {
            "id": [f"id{i}" for i in range(count)],
            "born": pd.to_datetime(["1990-01-01"] * count),
            "name": [f"n{i}" for i in range(count)],
            "age": range(count),
            "sex": ["F", "M"] * (count // 2),
        }
    )
    with pytest.raises(DataError) as caught:
        infer(frame, "sex")
    assert caught.value.value == ["id", "born", "name"]
    assert "exclude=['id', 'born', 'name']" in str(caught.value)
    assert "3 columns cannot be attributes" in str(caught.value)
    assert "'born' holds dates or times" in str(caught.value)
    attributes, _ = infer(frame, "sex", exclude=caught.value.value)
    assert [attribute.name for attribute in attributes] == ["age", "sex"]
