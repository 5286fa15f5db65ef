"""Properties of every embedded data set."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets
from evenhand.errors import DataError, SpaceError

SIZES = {"adult": (48_842, 32_561), "german": (1_000, 700), "bank": (45_211, 31_648)}


@pytest.fixture(scope="module", params=datasets.names("tables"))
def data(request):
    return datasets.load(request.param)


def test_names():
    assert datasets.names() == ("adult", "german", "bank", "comments")
    assert datasets.names("tables") + datasets.names("texts") == datasets.names()


@pytest.mark.parametrize("name", ["Adult", "census", "", None, ["adult"]])
def test_an_unknown_name_lists_allowed_names(name):
    with pytest.raises(DataError, match="'adult', 'german', 'bank', 'comments'") as caught:
        datasets.load(name)
    assert (caught.value.parameter, caught.value.value) == ("name", name)


def test_frame_is_features_then_target(data):
    assert list(data.frame.columns) == [*data.features, data.target]
    assert data.target not in data.features
    assert set(data.protected) <= set(data.features)
    assert data.favourable in set(data.frame[data.target])
    assert data.frame[data.target].nunique() == 2


def test_every_row_is_in_train_or_test(data):
    rows, train = SIZES[data.name]
    assert (len(data.frame), len(data.train), len(data.test)) == (rows, train, rows - train)
    pd.testing.assert_frame_equal(pd.concat([data.train, data.test]).sort_index(), data.frame)


def test_both_parts_have_about_the_same_outcomes(data):
    shares = [(part[data.target] == data.favourable).mean() for part in (data.train, data.test)]
    assert abs(shares[0] - shares[1]) < 0.03


def test_columns_are_whole_numbers_or_clean_texts(data):
    for name, column in data.table.items():
        if pd.api.types.is_numeric_dtype(column):
            assert column.dtype == np.int64, name
            continue
        texts = column.dropna()
        assert texts.map(type).eq(str).all(), name
        assert texts.ne("").all(), name
        assert texts.str.strip().eq(texts).all(), name


def test_space_covers_every_row(data):
    encoded = data.space().encode(data.frame, strict=True)
    assert (len(encoded.individuals), encoded.clipped, encoded.dropped) == (len(data.frame), 0, 0)


def test_space_gives_every_row_back(data):
    features = data.frame[list(data.features)]
    space = data.space()
    back = space.frame(space.encode(features).individuals.rows)
    pd.testing.assert_frame_equal(back, features)


def test_space_is_no_wider_than_the_data(data):
    for attribute in data.space().attributes:
        codes, _ = attribute.encode(data.frame[attribute.name].to_numpy())
        used = np.unique(codes)
        assert (used[0], used[-1]) == (0, attribute.size - 1), attribute.name
        if attribute.kind in ("nominal", "ordinal"):
            assert len(used) == attribute.size, attribute.name


def test_protected_can_be_chosen(data):
    assert data.space().protected == data.paper_space().protected == data.protected
    assert data.space(data.features[-1]).protected == data.features[-1:]
    assert data.space(["age"]).protected == data.paper_space(["age"]).protected == ("age",)
    with pytest.raises(SpaceError, match="height"):
        data.space(["height"])


def test_paper_frame_lines_up_with_paper_space(data):
    frame, space = data.paper_frame(), data.paper_space()
    assert tuple(frame.columns[:-1]) == space.names
    assert {attribute.kind for attribute in space.attributes} == {"integer"}
    assert set(frame.dtypes) == {np.dtype("int64")}
    assert space.encode(frame).dropped == 0


def test_paper_label_is_one_for_the_favourable_outcome(data):
    frame = data.paper_frame()
    favourable = data.frame[data.target].loc[frame.index] == data.favourable
    assert (frame.iloc[:, -1] == favourable).all()


def test_frozen(data):
    with pytest.raises(FrozenInstanceError):
        data.name = "other"


def test_import_leaves_pandas_alone():
    code = "import sys, evenhand.datasets; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
