"""Limits: each is named, documented and can be changed; files within the limits are read."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand._files import (
    _JSON_TEXTS,
    LIMITS,
    PREFIX,
    check_limit,
    count_values,
    inflate,
    limit,
    open_archive,
    parse_json,
    parse_toml,
    read_bytes,
)
from evenhand._sandbox import TrialFailed, attempt
from evenhand.errors import ConfigError, DataError, EvenhandError, LimitExceeded
from evenhand.spaces.frames import read_frame

SAFETY = Path(__file__).parents[1] / "docs" / "explanation" / "safety.md"


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_can_be_raised_and_lowered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = limit(name)
    check_limit(name, most, "file")
    with pytest.raises(LimitExceeded, match=f"file: over the limit {name} .*{PREFIX}{name.upper()}") as caught:
        check_limit(name, most + 1, "file")
    assert (caught.value.limit, caught.value.most) == (name, most)
    monkeypatch.setenv(PREFIX + name.upper(), str(most + 1))
    check_limit(name, most + 1, "file")
    monkeypatch.setenv(PREFIX + name.upper(), "0")
    with pytest.raises(LimitExceeded):
        check_limit(name, 1, "file")


@pytest.mark.parametrize("value", ["many", "-1", "", "1.5"])
def test_a_setting_that_is_no_number_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PREFIX + "NESTING", value)
    with pytest.raises(ConfigError, match=f"{PREFIX}NESTING must be an integer"):
        limit("nesting")


def test_each_limit_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", SAFETY.read_text(), re.MULTILINE))
    assert rows == {name: f"{each.most:,}" for name, each in LIMITS.items()}


@pytest.mark.slow
def test_a_raised_limit_lets_a_table_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{n}" for n in range(20_002)) + "\n" + ",".join(["1"] * 20_002) + "\n")
    with pytest.raises(LimitExceeded, match="table_columns"):
        read_frame(path)
    monkeypatch.setenv("EVENHAND_LIMIT_TABLE_COLUMNS", "30000")
    assert read_frame(path).shape == (1, 20_002)


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.csv", b"a,b,c\n" + b"1,2,3\n" * 500), ("rows.jsonl", b'{"a": 1, "b": 2, "c": 3}\n' * 500)],
)
def test_a_plain_file_may_have_as_many_cells_as_its_size_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    monkeypatch.setenv("EVENHAND_LIMIT_TABLE_CELLS", "10")
    monkeypatch.setenv("EVENHAND_LIMIT_JSON_VALUES", "10")
    assert read_frame(path).shape == (500, 3)


def test_lines_of_json_are_not_taken_apart_to_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "a comment, that somebody wrote", "id": 5}\n' * 100)
    monkeypatch.setattr("evenhand._files.count_values", None)
    assert read_frame(path).shape == (100, 2)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("read", [read_frame, eh.datasets.read_texts])
def test_lines_count_once_however_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, read) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(end.join([b"text"] + [b"x"] * 90) + end)
    monkeypatch.setenv("EVENHAND_LIMIT_TABLE_ROWS", "95")
    assert len(read(path)) == 90
    monkeypatch.setenv("EVENHAND_LIMIT_TABLE_ROWS", "80")
    with pytest.raises(LimitExceeded, match="table_rows"):
        read(path)


def test_archives_that_break_during_reading_raise_the_readers_error(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", b"content")
    path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT"))
    with (
        pytest.raises(DataError, match="damaged"),
        path.open("rb") as file,
        open_archive(file, path, "an archive", "archive_entries", "model_bytes", DataError) as archive,
    ):
        archive.read("a")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(values)
def test_json_values_are_read_and_counted(value: object) -> None:
    data = json.dumps(value).encode()

    def count(part: object) -> int:
        inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else []
        return 1 + sum(map(count, inner))

    assert parse_json(data, "text") == value
    # An empty list counts as one that has a value.
    assert count(value) <= count_values(data, "text", 10**6) <= 2 * count(value)
    assert _JSON_TEXTS.sub(b"", json.dumps(str(value)).encode()) == b""


@given(st.integers(0, 99), st.integers(0, 40), st.sampled_from(["[]", '{"a":}']))
def test_nesting_counts_levels_and_not_brackets(depth: int, wide: int, pair: str) -> None:
    inner = "[" + ",".join(["[]"] * wide) + "]"
    text = pair[:-1] * (depth - 1) + inner + pair[-1] * (depth - 1) if depth else inner
    assert parse_json(text.encode(), "text") == json.loads(text)
    deep = pair[:-1] * (101 + depth) + "1" + pair[-1] * (101 + depth)
    for broken in (deep, pair[:-1] * (101 + depth), f"[{deep},{inner}]"):
        with pytest.raises(LimitExceeded, match="nesting"):
            parse_json(broken.encode(), "text")


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.lists(texts, max_size=5), st.integers(1, 8))
def test_toml_is_read_as_tomllib_reads_it(words: list[str], parts: int) -> None:
    quoted = ", ".join(json.dumps(word, ensure_ascii=False).replace("\x7f", "") for word in words)
    literal = "'''" + "".join(words).replace("'", "") + "'''"
    text = f"a = [{quoted}] # {'.' * 99}\nb = {literal}\n" + ".".join(f"k{n}" for n in range(parts)) + " = 1.5\n"
    try:
        expected = tomllib.loads(text)
    except ValueError:
        with pytest.raises(ConfigError, match="not valid TOML"):
            parse_toml(text, "text", ConfigError)
        return
    assert parse_toml(text, "text", ConfigError) == expected
    with pytest.raises(LimitExceeded, match="toml_key_parts"):
        parse_toml(text + "x." * 16 + "y = 1\n", "text", ConfigError)


@given(st.binary(max_size=2000))
def test_packing_round_trips(data: bytes) -> None:
    assert inflate(zlib.compress(data), "json_bytes", "text") == data
    with pytest.raises((ValueError, zlib.error)):
        inflate(zlib.compress(data)[:-1], "json_bytes", "text")


def test_an_honest_archive_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(30):
            made.writestr(f"{number}.txt", str(number) * 1000, zipfile.ZIP_STORED if number % 2 else None)
        made.comment = b"a comment" * 1000
    with path.open("rb") as file, open_archive(file, path, "a", "archive_entries", "model_bytes", DataError) as archive:
        assert [archive.read(f"{number}.txt").decode() for number in range(30)] == [str(n) * 1000 for n in range(30)]


def test_a_file_that_grows_while_it_is_read_stays_within_the_limit(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(b" " * 100)
    monkeypatch.setenv("EVENHAND_LIMIT_JSON_BYTES", "50")
    monkeypatch.setattr("evenhand._files.size_of", lambda path, error: 10)
    with pytest.raises(LimitExceeded, match="json_bytes"):
        read_bytes(path, "json_bytes", DataError)


def test_packed_rows_of_the_usual_kind_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    rows = "".join(f"{n},{n % 7}\n" for n in range(200_000))
    path.write_bytes(gzip.compress(f"a,b\n{rows}".encode()))
    assert read_frame(path)["a"].sum() == 200_000 * 199_999 // 2


def crash(path: Path) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGSEGV)


def endless(path: Path) -> None:
    while True:
        pass


def greedy(path: Path) -> None:
    bytearray(2**40)


def unlucky(path: Path) -> None:
    raise ValueError(f"{path} is odd")


@pytest.mark.slow
def test_a_trial_reports_how_a_reader_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.bin"
    path.write_bytes(b"1")
    monkeypatch.setenv("EVENHAND_LIMIT_TRIAL_SECONDS", "0")
    with pytest.raises(LimitExceeded, match="trial_seconds"):
        attempt("tests.test_files:endless", path, 1)
    with pytest.raises(LimitExceeded, match="trial_bytes"):
        attempt("tests.test_files:greedy", path, 1)
    with pytest.raises(TrialFailed, match="signal 11"):
        attempt("tests.test_files:crash", path, 1)
    with pytest.raises(TrialFailed, match="memory.bin is odd"):
        attempt("tests.test_files:unlucky", path, 1)


def test_the_command_names_the_limit_and_exits_with_2(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "evenhand.toml").write_text("a." * 100_000 + "b = 1")
    command = [sys.executable, "-m", "evenhand", "audit", "evenhand.toml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "toml_key_parts" in done.stderr
    assert "EVENHAND_LIMIT_TOML_KEY_PARTS" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "open_it", [eh.Space.load, eh.Run.load, eh.check_bundle, eh.load_model, eh.datasets.read_texts, read_frame]
)
@pytest.mark.parametrize("ending", [".csv", ".toml", ".zip", ".skops", ".onnx", ""])
def test_a_path_that_no_system_can_have_is_an_error(open_it, ending: str) -> None:
    with pytest.raises(EvenhandError):
        open_it(f"a\0b{ending}")
