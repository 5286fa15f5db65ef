"""Word vectors from every kind of source."""

from __future__ import annotations

import gzip
import lzma
from types import SimpleNamespace

import numpy as np
import pytest

from evenhand.errors import DataError, LimitExceeded
from evenhand.spaces.text.similar import load
from tests.helpers import optional

WORDS = ["the", "é", ". . .", "man"]
VECTORS = np.array([[1, 2], [3, 4.5], [-1, 0], [1e-3, 2]], dtype=np.float32)
LINES = "".join(f"{word} {a:g} {b:g}\n" for word, (a, b) in zip(WORDS, VECTORS.tolist(), strict=True))


def check(loaded):
    words, vectors = loaded
    assert words == WORDS
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, VECTORS)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: "\ufeff" + s,
        lambda s: "\n" + s,
        lambda s: s.replace(" ", "\t"),
        lambda s: s.replace(" ", "  "),
        lambda s: s.replace("\n", " \r\n"),
    ],
    ids=["mark", "blank", "tabs", "two spaces", "ends"],
)
@pytest.mark.parametrize("header", ["", "3 2\n"], ids=["GloVe", "word2vec"])
def test_files_of_other_habits(tmp_path, header, change):
    kept = [0, 1, 3]
    lines = "".join(f"{WORDS[n]} {VECTORS[n][0]:g} {VECTORS[n][1]:g}\n" for n in kept)
    (tmp_path / "v.txt").write_bytes(change(header + lines).encode())
    words, vectors = load(tmp_path / "v.txt")
    assert words == [WORDS[n] for n in kept]
    assert np.allclose(vectors, VECTORS[kept])


def test_a_word_may_be_a_space_of_its_own_kind(tmp_path):
    (tmp_path / "v.txt").write_text("the 1 2\n\u00a0 3 4\na\u00a0b 5 6\n", encoding="utf-8")
    assert load(tmp_path / "v.txt")[0] == ["the", "\u00a0", "a\u00a0b"]


@pytest.mark.parametrize("header", ["", "4 2\n"], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.txt.gz", "v.vec.xz"])
def test_text_files(tmp_path, header, name):
    path, text = tmp_path / name, (header + LINES).encode()
    path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}.get(name[-2:], bytes)(text))
    check(load(path))
    assert load(str(path), limit=2)[0] == WORDS[:2]


def test_numpy_files(tmp_path):
    np.savez(tmp_path / "v.npz", words=np.array(WORDS), vectors=VECTORS.astype(np.float64))
    check(load(tmp_path / "v.npz"))


def test_gensim_and_pairs():
    keyed = SimpleNamespace(index_to_key=WORDS, vectors=VECTORS)
    check(load(keyed))
    check(load(SimpleNamespace(wv=keyed)))
    check(load((WORDS, VECTORS.tolist())))


def test_a_matrix_of_torch():
    torch = optional("torch")
    check(load((WORDS, torch.nn.Parameter(torch.tensor(VECTORS)))))


def test_of_a_word_that_comes_twice_the_first_counts():
    words, vectors = load((["a", "b", "a"], [[1], [2], [3]]))
    assert words == ["a", "b"]
    assert vectors.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "vectors must be a .npz with 'words' and 'vectors', .*, got 'int'"),
        ("v.bin", "v.bin: vectors cannot be read from a file of this kind"),
        ("no.npz", "no.npz: there is no such file; check the path"),
        ("no.txt", "no.txt: there is no such file; check the path"),
        ((["a"], [1.0]), r"vectors must be a matrix of numbers, got float64 \(1,\)"),
        ((["a"], [["x"]]), "vectors must be a matrix of numbers"),
        ((["a"], [[1.0], [2.0]]), "one vector for each word, got 1 words, 2 vectors"),
        (([], np.empty((0, 2))), "one vector for each word, got 0 words, 0 vectors"),
        ((["a", "b"], [[1.0], [np.nan]]), "the vector of 'b' must have finite numbers"),
        (([1], [[1.0]]), "words must be texts, got 1"),
        ((["a", "b"], [[1.0], [1e300]]), "the vector of 'b' must have finite numbers"),
    ],
)
def test_what_is_wrong_is_said(source, message):
    with pytest.raises(DataError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.npz", b"no zip", "cannot be read as a NumPy file"),
        ("v.npz", b"", "cannot be read as a NumPy file"),
        ("v.txt", b"", "must be"),
        ("v.txt", b"a 1 2\nb 1\n", "entry 2 must have a word and 2 numbers, got 'b 1'"),
        ("v.txt", b"a 1 2\nb 1 x\n", "an entry near 2 has a value that is not a number"),
        ("v.txt", b"a 1\nb 1e300\n", "the vector of 'b' must have finite numbers"),
        ("v.txt", b"3 2\na 1 2\nb 3 4\n", "first line promises 3 words, and there are 2; if the file is complete"),
        ("v.txt", b"1 2\na 1 2\nb 3 4\n", "first line promises 1 words, and there are 2"),
        ("v.txt", b"2 3\na 1 2\nb 3 4\n", "entry 1 must have a word and 3 numbers.*promises 2 words of 3 numbers"),
        ("v.txt", b"2 1\na 1 2\nb 3 4\n", "entry 1 must have a word and 1 numbers.*promises 2 words of 1.*got 'a 1 2'"),
        ("v.txt", b"\xff\xfe", "it cannot be read as UTF-8 text"),
        ("v.gz", b"plain", "it cannot be read as UTF-8 text"),
    ],
)
def test_files_that_are_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tmp_path / name)


def test_files_that_lack_something(tmp_path):
    np.savez(tmp_path / "v.npz", words=np.array(WORDS))
    with pytest.raises(DataError, match="the arrays 'words' and 'vectors' are needed"):
        load(tmp_path / "v.npz")


def test_words_and_numbers_of_a_file_are_counted_before_they_are_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "v.npz", words=np.array(["a"] * 3), vectors=np.ones((2, 3)))
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(DataError, match="one vector for each word, got 3 words, 2 vectors"):
        load(tmp_path / "v.npz")
    monkeypatch.setenv("EVENHAND_LIMIT_VECTORS_WORDS", "2")
    with pytest.raises(LimitExceeded, match="vectors_words: 3"):
        load(tmp_path / "v.npz")
    monkeypatch.undo()
    monkeypatch.setenv("EVENHAND_LIMIT_VECTORS_VALUES", "10")
    with gzip.open(tmp_path / "v.txt.gz", "wt") as file:
        file.writelines(f"w{n}" + " 1" * 20 + "\n" for n in range(50))
    with pytest.raises(LimitExceeded, match="vectors_values: 1,000"):
        load(tmp_path / "v.txt.gz")
    (tmp_path / "v.txt").write_text("".join(f"w{n}" + " 1" * 20 + "\n" for n in range(50)))
    assert len(load(tmp_path / "v.txt")[0]) == 50
