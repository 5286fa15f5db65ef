"""The kinds of attribute: values to codes and back."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import SpaceError
from evenhand.spaces.attributes import KINDS, Boolean, Integer, Nominal, Ordinal, Real, missing_mask
from evenhand.spaces.tabular import Space

EVERY = [
    Integer("x", 0, 5),
    Integer("x", -7, 30, step=4),
    Integer("x", 1, 9, missing=True),
    Integer("x", 1, 9, dtype="int8"),
    Integer("x", 1, 9, missing=True, dtype="Int64"),
    Integer("x", 0, 2**31 - 2),
    Real("x", 0, 1, step=0.1),
    Real("x", -2.5, 7, step=0.3, missing=True),
    Real("x", 0, 1),
    Real("x", 0.1, 0.1),
    Real("x", 0, 1, step=0.1, dtype="float32"),
    Ordinal("x", ["low", "high"]),
    Ordinal("x", ["low", "high"], missing=True, dtype="category"),
    Ordinal("x", [3, 1, 2]),
    Nominal("x", ["b", "a", "ä"], missing=True),
    Nominal("x", ["b", "a"], dtype="string"),
    Nominal("x", [1.5, 2], missing=True),
    Nominal("x", ["a", 1, 2.5, (1, 2)], missing=True),
    Nominal("x", [(1, 2), (3, 4)]),
    Nominal("x", ["only"]),
    Boolean("x"),
    Boolean("x", missing=True),
    Boolean("x", missing=True, dtype="boolean"),
]
every = pytest.mark.parametrize("attribute", EVERY, ids=repr)


def sampled(attribute):
    """All codes, or the first and last of very many."""
    size = attribute.size
    return np.arange(size) if size < 1000 else np.array([0, 1, size // 2, size - 2, size - 1])


@every
def test_codes_and_values_are_one_to_one(attribute):
    codes = sampled(attribute)
    values = attribute.decode(codes)
    back, clipped = attribute.encode(values)
    assert back.tolist() == codes.tolist()
    assert not clipped.any()
    assert len({str(v) for v in values}) == len(codes)
    assert attribute.size == attribute.present + attribute.has_missing
    assert missing_mask(values).sum() == attribute.has_missing


@every
def test_the_frames_column_holds_the_same_values(attribute):
    codes = sampled(attribute)
    column = pd.Series(attribute.column(codes))
    if attribute.dtype:
        assert str(column.dtype) == attribute.dtype
    values = attribute.decode(codes)
    for mine, its in zip(values, column, strict=True):
        if pd.isna(mine) is True:
            assert pd.isna(its)
        else:
            assert mine == its or np.float32(mine) == its
    assert attribute.encode(np.array(column, dtype=object))[0].tolist() == codes.tolist()


@every
def test_single_codes(attribute):
    for code in sampled(attribute):
        assert attribute.code(attribute.decode(np.array([code]))[0]) == code


@every
def test_a_description_rebuilds_the_attribute(attribute):
    fields = attribute.describe()
    assert KINDS[fields.pop("kind")](**fields) == attribute


@every
def test_attributes_are_values(attribute):
    attribute.decode(np.array([0]))
    assert pickle.loads(pickle.dumps(attribute)) == attribute
    assert hash(attribute) == hash(attribute)
    with pytest.raises(AttributeError):
        attribute.name = "y"


def test_grids_snap_and_clip():
    codes, clipped = Integer("x", 0, 10, step=5).encode(np.array([-3, 2, 3, 11, 15]))
    assert codes.tolist() == [0, 0, 1, 2, 2]
    assert clipped.tolist() == [True, False, False, False, True]
    codes, clipped = Real("x", 0, 1, step=0.5).encode(np.array([0.2, 0.3, np.inf, -np.inf, np.nan]))
    assert codes.tolist() == [0, 1, 2, 0, -1]
    assert clipped.tolist() == [False, False, True, True, False]


def test_grids_read_texts_of_numbers_only():
    codes, _ = Integer("x", 0, 9, missing=True).encode(np.array(["3", "x", None, 4.0, True], dtype=object))
    assert codes.tolist() == [3, -1, 10, 4, 1]


def test_unlisted_values():
    codes, _ = Nominal("x", ["a", "b"]).encode(np.array(["b", "c", None, "a"], dtype=object))
    assert codes.tolist() == [1, -1, -1, 0]
    with pytest.raises(SpaceError, match="'c' is not a value of 'x'; allowed: 'a', 'b'"):
        Nominal("x", ["a", "b"]).code("c")
    with pytest.raises(SpaceError, match="whole numbers 0 to 9"):
        Integer("x", 0, 9).code(10)
    with pytest.raises(SpaceError, match="and 12 more"):
        Nominal("x", range(20)).code("c")


def test_decimals_read_as_written():
    assert Real("x", 0, 1, step=0.1).decode(np.arange(11)).tolist() == [i / 10 for i in range(11)]


@pytest.mark.parametrize(
    ("make", "parameter", "message"),
    [
        (lambda: Integer("x", 3, 2), "low", "at most high"),
        (lambda: Integer("x", 0, 9, step=0), "step", "at least 1"),
        (lambda: Integer("x", 0.5, 9), "low", "whole number.*got 0.5"),
        (lambda: Integer("x", True, 9), "low", "whole number.*got True"),
        (lambda: Integer("x", 2**60, 2**60 + 9), "low", "whole number"),
        (lambda: Integer("x", float("-inf"), 9), "low", "finite"),
        (lambda: Integer("x", float("nan"), 9), "low", "finite"),
        (lambda: Integer("x", 0, 2**31), None, "larger step"),
        (lambda: Real("x", 1, 0), "low", "at most high"),
        (lambda: Real("x", 0, float("inf")), "high", "finite"),
        (lambda: Real("x", "a", 9), "low", "finite"),
        (lambda: Real("x", 0, 1, step=0), "step", "positive"),
        (lambda: Real("x", 0, 1, step=float("nan")), "step", "finite"),
        (lambda: Real("x", 0, 1e308, step=1e-10), "step", "fits the range"),
        (lambda: Real("x", 0, 1, step=1e-12), None, "larger step"),
        (lambda: Nominal("x", []), "values", "at least one"),
        (lambda: Nominal("x", "abc"), "values", "must be a list"),
        (lambda: Nominal("x", 3), "values", "must be a list"),
        (lambda: Nominal("x", [["a"]]), "values", "must be texts"),
        (lambda: Nominal("x", [None, "a"]), "values", "missing=True"),
        (lambda: Nominal("x", [float("nan")]), "values", "missing=True"),
        (lambda: Ordinal("x", ["a", "b", "a"]), "values", "list each value once"),
        (lambda: Ordinal("x", [1, True]), "values", "list each value once"),
        (lambda: Nominal("x", ["\ud83d", "b"]), None, r"'\\ud83d' of 'x' has a lone surrogate"),
        (lambda: Space([Integer("a\ud83d", 1, 2)], protected="a"), None, r"'a\\ud83d' has a lone surrogate"),
    ],
)
def test_wrong_settings_are_refused(make, parameter, message):
    with pytest.raises(SpaceError, match=message) as caught:
        make()
    assert caught.value.parameter == parameter


@settings(deadline=None)
@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4), st.integers(0, 10**4), st.booleans())
def test_integers(low, step, steps, missing):
    attribute = Integer("x", low, low + steps * step, step, missing)
    assert attribute.size == steps + 1 + missing
    codes = np.unique(np.linspace(0, attribute.size - 1, 50).astype(np.int64))
    assert attribute.encode(attribute.decode(codes))[0].tolist() == codes.tolist()


@settings(deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(1, 500), st.integers(0, 10**4), st.integers(0, 6))
def test_decimal_grids(low, step, steps, decimals):
    scale = 10**decimals
    attribute = Real("x", low / scale, (low + steps * step) / scale, step / scale)
    assert attribute.size == steps + 1
    codes = np.unique(np.linspace(0, steps, 50).astype(np.int64))
    values = attribute.decode(codes)
    assert values.tolist() == [(low + int(code) * step) / scale for code in codes]
    assert attribute.encode(values)[0].tolist() == codes.tolist()


plain = st.text(max_size=4) | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.booleans()


@settings(deadline=None)
@given(st.lists(plain, min_size=1, max_size=10, unique=True), st.booleans(), st.data())
def test_listed(values, missing, data):
    attribute = Nominal("x", values, missing)
    codes = np.array(data.draw(st.lists(st.integers(0, attribute.size - 1), max_size=20)), dtype=np.int64)
    assert attribute.encode(attribute.decode(codes))[0].tolist() == codes.tolist()
