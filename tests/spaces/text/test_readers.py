"""Files of texts: written texts are read back, and unreadable files are described."""

from __future__ import annotations

import csv
import gzip
import json
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.datasets import read_comments
from evenhand.errors import DataError
from evenhand.spaces.text.readers import read_texts
from evenhand.spaces.text.space import TextSpace

TEXTS = ["Hello, you!", "", 'She said "no"\nand left', "NA", "007", " spaces ", "ελληνικά 😀", "a\tb"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".csv.xz", ".tsv.xz"])
def test_tables_give_every_text_back(tmp_path, ending):
    path = tmp_path / f"texts{ending}"
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if ".tsv" in ending else ",")
        writer.writerows([("id", "text"), *enumerate(TEXTS)])
    assert read_texts(path) == read_texts(path, "text") == TEXTS


def test_json_lines_and_json_give_every_text_back(tmp_path):
    rows = [{"said": text, "id": n} for n, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "texts.json").write_text(json.dumps(rows))
    assert read_texts(tmp_path / "texts.jsonl", "said") == read_texts(str(tmp_path / "texts.json"), "said") == TEXTS


line = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))


@given(st.lists(line, min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_plain_lines_keep_their_numbers(tmp_path_factory, lines, newline, ended):
    lines[-1] += "" if ended else "."
    path = tmp_path_factory.mktemp("lines") / "texts.txt"
    path.write_bytes(("\ufeff" + newline.join(lines) + (newline if ended else "")).encode())
    assert read_texts(path) == lines


def test_packed_lines(tmp_path):
    with gzip.open(tmp_path / "texts.txt.gz", "wt") as file:
        file.write("one\n\ntwo")
    assert read_texts(tmp_path / "texts.txt.gz") == ["one", "", "two"]


def test_an_encoding_can_be_named(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_bytes("text\ncafé\n".encode("latin-1"))
    assert read_texts(path, encoding="latin-1") == ["café"]
    assert read_texts(path) == ["café"]
    with pytest.raises(DataError, match=r"texts\.csv: it is not written in utf-8.*encoding='latin-1'"):
        read_texts(path, encoding="utf-8")
    with pytest.raises(DataError, match="there is no encoding 'latin-99'"):
        read_texts(path, encoding="latin-99")
    path.write_bytes(b"\xef\xbb\xbftext\nx\n")
    assert read_texts(path) == ["x"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("name", ["texts.csv", "texts.txt", "texts.csv.gz"])
def test_the_encoding_utf_16_is_found_or_suggested(tmp_path, name, encoding):
    content = ("\ufeff" if encoding.endswith("be") else "") + "text\ncafé\n"
    pack = gzip.compress if name.endswith("gz") else bytes
    (tmp_path / name).write_bytes(pack(content.encode(encoding)))
    with pytest.raises(DataError, match="name its encoding: encoding='utf-16'"):
        read_texts(tmp_path / name, encoding="utf-8")
    assert read_texts(tmp_path / name)[-1] == "café"
    assert read_texts(tmp_path / name, encoding="utf-16")[-1] == "café"


@pytest.mark.parametrize(("header", "row"), [("text", "{}"), ("id,text", "7,{}"), ("id;text", "7;{}")])
@given(texts=st.lists(st.sampled_from(["one", "two", None])), blank=st.sampled_from(["", "\n", "\r\n\n"]))
def test_a_blank_row_keeps_its_number(tmp_path_factory, header, row, texts, blank):
    lines = ["" if text is None else row.format(text) for text in [*texts, "last"]]
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    path.write_bytes((blank + "\n".join([header, *lines]) + "\n" + blank).encode())
    assert [text or None for text in read_texts(path)] == [*texts, "last"]


def test_a_table_with_semicolons_may_have_commas_in_its_texts(tmp_path):
    (tmp_path / "a.csv").write_text('id;said\n1;Hello, you, and you\n2;"a; b"\n')
    assert read_texts(tmp_path / "a.csv", "said") == ["Hello, you, and you", "a; b"]


def test_the_only_column_need_not_be_named(tmp_path):
    (tmp_path / "one.csv").write_text("said\nHello\n")
    assert read_texts(tmp_path / "one.csv") == ["Hello"]


@pytest.mark.parametrize(
    ("name", "content", "column", "says"),
    [
        ("a.csv", "id,text\n", None, "it has column names and no texts"),
        ("a.csv", "id;said\n1;2\n", None, "column of the texts is unknown; name one of id, said"),
        ("a.csv", "x,y\n1,2\n", None, "column of the texts is unknown; name one of x, y"),
        ("a.csv", "x,text\n1,2\n", "txt", "no column 'txt'.*text"),
        ("a.csv", "", None, "the file is empty; it needs column names and rows"),
        ("a.txt", "", None, "the file is empty; it needs texts, one in each line"),
        ("a.csv", 'text\n"never closed', None, "cannot be read as a table"),
        ("a.csv", "text\na,b,c\n", None, "cannot be read as a table"),
        ("a.txt", "x\n", "text", "plain lines have no column 'text'"),
        ("a.jsonl", '{"text": 5}\n', None, r"row 0 of 'text' must be a text, got 5"),
        ("a.jsonl", "{", None, "line 1 is not JSON"),
        ("a.json", "{", None, "cannot be read"),
        ("a.docx", "x", None, "a file of this kind cannot be read; allowed: .csv"),
        ("a.jsonl.xz", "x", None, "a file of this kind cannot be read"),
        ("a.csv.xz", "text\nx\n", None, "cannot be read"),
        ("a.csv.gz", "text\nx\n", None, "cannot be read"),
    ],
)
def test_wrong_ids_are_refused(tmp_path, name, content, column, says):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        read_texts(path, column)
    assert name in str(caught.value)
    assert str(caught.value).count("\n") < 3


def test_empty_texts_are_missing_unless_labelled(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "reds", "toxic": 0}\n{"text": null, "toxic": 1}\n{"toxic": 0}\n')
    assert read_texts(path) == ["reds", None, None]
    assert TextSpace({"team": ["reds", "blues"]}).begin(read_texts(path)).missing == 2
    (tmp_path / "a.csv").write_text("text,toxic\nreds,0\n\nblues,1\n\n")
    assert read_comments(tmp_path / "a.csv").texts == ("reds", "blues")
    with pytest.raises(DataError, match=r"a\.jsonl: row 1 has no text, and each label needs one"):
        read_comments(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: there is no such file"):
        read_texts(tmp_path / "none.csv")
