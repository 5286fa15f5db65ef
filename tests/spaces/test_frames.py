"""Reading frames and files."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import lzma
import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError, LimitExceeded, MissingExtra
from evenhand.spaces import frames as files
from evenhand.spaces.frames import PIECE, as_pandas, columns_of, encoding_of, read_frame
from tests.helpers import optional


def packed(content):
    """Pack without the time, so that all workers see the same tests."""
    return gzip.compress(content, mtime=0)


def check(array, expected, dtype):
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype, array.dtype
    got = array.tolist()
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert type(a) is type(b)
        assert a == b or (a != a and b != b)


NAN = math.nan
CASES = [
    ([1, 2], "int64", [1, 2], "int64"),
    ([1, 2], "int8", [1, 2], "int8"),
    ([1, 2], "uint64", [1, 2], "uint64"),
    ([1.5, NAN], "float64", [1.5, NAN], "float64"),
    ([1.5, 2.0], "float32", [1.5, 2.0], "float32"),
    ([1.5, NAN], "float32", [1.5, NAN], "float64"),
    ([1, None], "Int64", [1.0, NAN], "float64"),
    ([1, 2], "Int16", [1, 2], "int16"),
    ([1.5, None], "Float32", [1.5, NAN], "float64"),
    ([True, False], "bool", [True, False], "bool"),
    ([True, None], "boolean", [True, None], "object"),
    ([True, False], "boolean", [True, False], "bool"),
    ([True, None], "object", [True, None], "object"),
    ([True, False], "object", [True, False], "bool"),
    (["a", None], "object", ["a", None], "object"),
    (["a", NAN], "object", ["a", None], "object"),
    (["a", None], "string", ["a", None], "object"),
    (["a", None], "str", ["a", None], "object"),
    (["a", None, "b"], "category", ["a", None, "b"], "object"),
    ([2, 1], "category", [2, 1], "int64"),
    ([1, None], "object", [1.0, NAN], "float64"),
    ([1, 2.5], "object", [1.0, 2.5], "float64"),
    ([2**70, 1], "object", [float(2**70), 1.0], "float64"),
    ([decimal.Decimal("1.5"), None], "object", [1.5, NAN], "float64"),
    ([1, "a", None], "object", [1, "a", None], "object"),
    ([(1, 2), [3], {}], "object", [(1, 2), [3], {}], "object"),
    ([None, None], "object", [None, None], "object"),
    ([0, 0, 5], "Sparse[int64]", [0, 0, 5], "int64"),
    ([1 + 2j], "complex128", [1 + 2j], "complex128"),
]


@pytest.mark.parametrize(("values", "dtype", "expected", "array_dtype"), CASES)
def test_pandas_columns(values, dtype, expected, array_dtype):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    before = frame.copy(deep=True)
    check(columns_of(frame)["x"], expected, array_dtype)
    pd.testing.assert_frame_equal(frame, before)


def test_pandas_dates():
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", None])})
    day = columns_of(frame)["day"]
    assert day.dtype == object
    assert day[0] == pd.Timestamp("2020-01-01")
    assert day[1] is None


def test_polars_columns():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "integer": pl.Series([1, None], dtype=pl.Int8),
            "whole": pl.Series([1, 2], dtype=pl.UInt16),
            "real": [1.5, None],
            "single": pl.Series([1.5, 2.5], dtype=pl.Float32),
            "truth": [True, None],
            "sure": [True, False],
            "text": ["a", None],
            "category": pl.Series(["a", None], dtype=pl.Categorical),
            "enum": pl.Series(["b", None], dtype=pl.Enum(["b", "a"])),
            "day": [datetime.date(2020, 1, 1), None],
            "money": pl.Series([decimal.Decimal("1.5"), None]),
            "list": [[1], None],
            "nothing": [None, None],
        }
    )
    columns = columns_of(frame)
    assert list(columns) == frame.columns
    check(columns["integer"], [1.0, NAN], "float64")
    check(columns["whole"], [1, 2], "uint16")
    check(columns["real"], [1.5, NAN], "float64")
    check(columns["single"], [1.5, 2.5], "float32")
    check(columns["truth"], [True, None], "object")
    check(columns["sure"], [True, False], "bool")
    check(columns["text"], ["a", None], "object")
    check(columns["category"], ["a", None], "object")
    check(columns["enum"], ["b", None], "object")
    check(columns["day"], [datetime.date(2020, 1, 1), None], "object")
    check(columns["money"], [1.5, NAN], "float64")
    check(columns["list"], [[1], None], "object")
    check(columns["nothing"], [None, None], "object")
    assert as_pandas(frame).shape == frame.shape
    with pytest.raises(DataError, match="collect a lazy frame"):
        columns_of(frame.lazy())
    with pytest.raises(DataError, match="must be a frame"):
        columns_of(frame["text"])


def test_arrow_columns():
    pa = optional("pyarrow")
    frame = pa.table(
        {
            "integer": pa.array([1, None], type=pa.int8()),
            "whole": pa.array([1, 2], type=pa.int16()),
            "truth": [True, None],
            "sure": [True, False],
            "text": ["a", None],
            "category": pa.array(["a", None]).dictionary_encode(),
            "real": pa.array([1.5, None], type=pa.float32()),
            "day": [datetime.date(2020, 1, 1), None],
        }
    )
    columns = columns_of(frame)
    check(columns["integer"], [1.0, NAN], "float64")
    check(columns["whole"], [1, 2], "int16")
    check(columns["truth"], [True, None], "object")
    check(columns["sure"], [True, False], "bool")
    check(columns["text"], ["a", None], "object")
    check(columns["category"], ["a", None], "object")
    check(columns["real"], [1.5, NAN], "float64")
    check(columns["day"], [datetime.date(2020, 1, 1), None], "object")
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="a"):
        columns_of(twice)


def test_mappings():
    columns = columns_of({"a": [1, None], "b": ["x", None], "c": np.array([1, 2], dtype=np.int8)})
    check(columns["a"], [1.0, NAN], "float64")
    check(columns["b"], ["x", None], "object")
    check(columns["c"], [1, 2], "int8")
    assert columns_of({}) == {}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((2, 2)), "must be a frame"),
        ([1, 2], "must be a frame"),
        (None, "must be a frame"),
        ("people.csv", "must be a frame"),
        (pd.Series([1, 2]), "must be a frame"),
        ({"a": [1], "b": [1, 2]}, "equal length"),
        ({"a": 1}, "lists of equal length"),
        ({3: [1]}, "must be texts, got 3"),
        (pd.DataFrame([[1, 2]]), "must be texts, got 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
        (pd.DataFrame([[1]], columns=[None]), "must be texts"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "must be texts"),
    ],
)
def test_other_objects_than_frames_are_refused(frame, message):
    for function in (columns_of, as_pandas):
        with pytest.raises(DataError, match=message) as caught:
            function(frame)
        assert len(str(caught.value).split("\n")) <= 3


TABLE = "age,work,ratio\n20,nurse,0.5\n30,,1.25\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE.encode()),
        ("a.CSV", TABLE.encode()),
        ("b.csv", b"\xef\xbb\xbf" + TABLE.encode()),
        ("c.csv", TABLE.replace("\n", "\r\n").encode()),
        ("d.csv.gz", packed(TABLE.encode())),
        ("my.data.csv.xz", lzma.compress(TABLE.encode())),
        ("e.tsv", TABLE.replace(",", "\t").encode()),
        ("e.tsv.gz", packed(TABLE.replace(",", "\t").encode())),
        (
            "f.json",
            json.dumps([{"age": 20, "work": "nurse", "ratio": 0.5}, {"age": 30, "ratio": 1.25}]).encode(),
        ),
        ("g.json", b'{"age": [20, 30], "work": ["nurse", null], "ratio": [0.5, 1.25]}'),
        (
            "h.json",
            b'{"age": {"7": 20, "8": 30}, "work": {"7": "nurse", "8": null}, "ratio": {"7": 0.5, "8": 1.25}}',
        ),
        (
            "i.jsonl",
            b'{"age": 20, "work": "nurse", "ratio": 0.5}\n\n{"age": 30, "work": null, "ratio": 1.25}\n',
        ),
    ],
)
def test_read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for given_path in (path, str(path)):
        columns = columns_of(read_frame(given_path))
        assert list(columns) == ["age", "work", "ratio"]
        check(columns["age"], [20, 30], "int64")
        check(columns["work"], ["nurse", None], "object")
        check(columns["ratio"], [0.5, 1.25], "float64")


def test_visible_json_reads_back_the_same(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"code": "007", "date": "2020-01-01"}]')
    assert read_frame(path).to_dict("records") == [{"code": "007", "date": "2020-01-01"}]


def test_parquet(tmp_path):
    optional("pyarrow")
    path = tmp_path / "a.parquet"
    pd.DataFrame({"age": [20, 30]}).to_parquet(path)
    check(columns_of(read_frame(path))["age"], [20, 30], "int64")
    path.write_bytes(b"PAR1 junk PAR1")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read_frame(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="evenhand\\[parquet\\]"):
        read_frame(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"  \n\n", "empty"),
        ("a.csv.gz", packed(b""), "empty"),
        ("a.csv", b"age,work\n", "no rows"),
        ("a.csv", bytes(range(256)), "binary"),
        ("a.csv", TABLE.encode("utf-32"), "binary"),
        # Some letters in UTF-8, some not.
        ("a.csv", "größe\n".encode() + b"1\n" * 100_000 + b"\xff\n", "not UTF-8"),
        ("a.csv", b"a\n" + b"1\n" * 100_000 + b"\x02\xff\n", "not UTF-8"),
        ("a.csv", TABLE.encode("utf-16")[:-1], "not UTF-8"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read as csv"),
        ("a.csv", b"a,b\n1,2,3\n1,2,3\n", "cannot be read as csv"),
        ("a.csv", b'a,b\n1,"2\n', "cannot be read as csv"),
        ("a.csv", b"a,a\n1,2\n", "two columns are called 'a'"),
        ("a.csv.gz", b"no gzip at all", "cannot be read"),
        ("a.csv.gz", packed(TABLE.encode() * 100)[:-20], "cannot be read"),
        ("a.csv.xz", b"no xz at all", "cannot be read"),
        ("a.json", b"{", "cannot be read as json"),
        ("a.json", b"[1, 2]", "list of rows"),
        ("a.json", b"3", "list of rows"),
        ("a.json", b"{}", "list of rows"),
        ("a.json", b"[]", "no rows"),
        ("a.json", b'{"a": [1], "b": [1, 2]}', "cannot be read as json"),
        ("a.json", b'"\xff"', "not UTF-8"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2 must be a row"),
        ("a.jsonl", b"\n", "no rows"),
        ("a.xlsx", b"PK", "allowed: .csv"),
        ("a", b"age\n1\n", "allowed: .csv"),
        ("a.gz", b"", "allowed: .csv"),
        ("a.json.gz", b"", "allowed: .csv"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_frame(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert len(text.split("\n")) <= 3


CITIES = {
    "city": ["Köln", "Genève", "Łódź", ""],
    "size": [1.5, -20.25, 3.0, 1000.125],
    "note": ["a, b", "c; d", "e", "f"],
}
WRITTEN = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"]


@pytest.mark.parametrize("encoding", WRITTEN)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("rows", [1, 2, 5_000])
def test_what_spreadsheets_write_is_read(tmp_path, encoding, separator, decimal, rows):
    if decimal == separator:
        return
    frame = pd.DataFrame(CITIES)
    if encoding in ("latin-1", "cp1252"):
        frame["city"] = frame["city"].replace("Łódź", "Århus")
    frame = pd.concat([frame] * (1 + rows // 4), ignore_index=True)[:rows]
    path = tmp_path / "cities.csv"
    frame.to_csv(path, sep=separator, decimal=decimal, encoding=encoding, index=False)
    pd.testing.assert_frame_equal(read_frame(path), frame.replace({"city": {"": np.nan}}), check_dtype=False)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=300))
def test_utf_8_is_never_mistaken(text):
    folder = Path(tempfile.mkdtemp())
    for encoding in ("utf-8", "utf-8-sig"):
        (folder / "a.csv").write_bytes(text.encode(encoding))
        assert encoding_of(folder / "a.csv", "") == "utf-8-sig"
    (folder / "b.csv").write_bytes(text.encode("utf-16"))
    assert encoding_of(folder / "b.csv", "") == "utf-16"


def test_a_letter_across_two_pieces_is_read(tmp_path):
    for encoding in ("utf-8", "utf-16-le", "latin-1"):
        content = "name\n" + "x" * (PIECE - 6) + "ö" * 5 + "\n"
        (tmp_path / "a.csv").write_bytes(content.encode(encoding))
        assert read_frame(tmp_path / "a.csv")["name"][0][-6:] == "xööööö"


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_frame(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="directory"):
        read_frame(tmp_path / "folder.csv")
    with pytest.raises(DataError, match="check the path"):
        read_frame("a\0b.csv")


def test_too_large(tmp_path, monkeypatch):
    path = tmp_path / "large.csv"
    with path.open("wb") as stream:
        stream.truncate(2**32 + 1)
    with pytest.raises(LimitExceeded, match="data_bytes of 4,294,967,296 .*got 4,294,967,297"):
        read_frame(path)
    small = tmp_path / "large.csv.gz"
    small.write_bytes(packed(b"a\n" + b"1\n" * 1_000_000))
    monkeypatch.setenv("EVENHAND_LIMIT_DATA_BYTES", str(2**20))
    with pytest.raises(LimitExceeded, match="data_bytes of .*got more than 1,048,576 unpacked"):
        read_frame(small)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=8)


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=20))
def test_texts_survive_a_csv_file(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("csv") / "texts.csv"
    values = [f"_{value}" for value in values]  # so that none of them reads as a number or as missing
    pd.DataFrame({"x": values, "y": range(len(values))}).to_csv(path, index=False)
    assert columns_of(read_frame(path))["x"].tolist() == values


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([".csv", ".tsv", ".csv.gz", ".csv.xz", ".json", ".jsonl"]))
def test_junk_is_read_or_refused(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("junk") / f"junk{ending}"
    path.write_bytes(content)
    try:
        frame = read_frame(path)
    except DataError:
        return
    assert len(frame) > 0


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_csv_says_what_separates_its_columns(mark: str, tmp_path: Path) -> None:
    lines = [mark.join(["age", '"a; b"', "sex"]), mark.join(["20", "nurse", "F"]), mark.join(["30", '"x, y"', "M"])]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    frame = read_frame(tmp_path / "x.csv")
    assert list(frame) == ["age", "a; b", "sex"]
    assert frame.to_numpy().tolist() == [[20, "nurse", "F"], [30, "x, y", "M"]]


@pytest.mark.parametrize("mark", [",", ";"])
def test_codes_with_leading_zeros_stay_text(mark: str, tmp_path: Path) -> None:
    rows = ["code,age,share,late,zone", "007,20,0.5,,00", '"012",30,0.25,1,01', "300,0,0,0,02", "300,9,1,,"]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(rows).replace(",", mark))
    frame = read_frame(path)
    assert frame["code"].tolist() == ["007", "012", "300", "300"]
    assert frame["zone"].tolist()[:3] == ["00", "01", "02"]
    assert frame["zone"].isna().tolist() == [False] * 3 + [True]
    assert (frame["age"].tolist(), frame["share"].tolist()) == ([20, 30, 0, 9], [0.5, 0.25, 0.0, 1.0])
    assert frame["late"].dtype.kind == "f"


def test_a_code_across_two_pieces_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.csv"
    path.write_text("code,age\n1,20\n02,30\n")
    for size in range(1, 20):
        monkeypatch.setattr("evenhand.spaces.frames.PIECE", size)
        assert files._has_zeros(path, "", ",", "utf-8-sig")
