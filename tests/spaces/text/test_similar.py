"""Similar words: the nearest by cosine, against brute force in exact order."""

from __future__ import annotations

import gzip
import lzma
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError, LimitExceeded, SpaceError
from evenhand.spaces.text import similar as module
from evenhand.spaces.text.similar import Moves, Similar, load, shape
from evenhand.spaces.text.tokens import Vocabulary
from tests.helpers import optional


def brute(words, vectors, word, k, avoid, agree):
    """Sort every other word by its exact cosine, equal ones by position."""
    vectors = np.asarray(vectors, dtype=np.float32).astype(np.float64)
    norms = np.sqrt((vectors**2).sum(axis=1))
    if word.lower() in avoid or word not in words or not norms[words.index(word)]:
        return []
    own, seen, others = words.index(word), set(), []
    for n, other in enumerate(words):
        lower = other.lower()
        if lower in avoid or not norms[n] or lower in seen:
            continue
        seen.add(lower)
        if lower != word.lower() and (not agree or shape(other) == shape(word)):
            others.append((-(vectors[own] * vectors[n]).sum() / (norms[own] * norms[n]), n))
    return [words[n] for _, n in sorted(others)[:k]]


def made(seed, size, kind):
    """Words with vectors; small whole numbers give many that are equally similar."""
    rng = np.random.default_rng(seed)
    stems = ["walk", "walking", "walked", "dogs", "Dogs", "the", "7", "slowly", "she", "Jews", "red"]
    words = [
        stems[n] if n < len(stems) else f"{stems[n % 4]}{'abcdefghij'[n % 10]}{n:x}".replace("0", "o")
        for n in range(size)
    ]
    vectors = rng.integers(-1, 2, (size, 3)) if kind == "ties" else rng.normal(size=(size, 8))
    return list(dict.fromkeys(words)), vectors[: len(dict.fromkeys(words))]


@given(
    st.integers(0, 10**6),
    st.integers(2, 200),
    st.sampled_from(["ties", "smooth"]),
    st.integers(1, 12),
    st.sampled_from([(), {"dogs", "red"}]),
    st.booleans(),
)
def test_similar_words_equal_brute_force(seed, size, kind, k, avoid, agree):
    words, vectors = made(seed, size, kind)
    similar = Similar((words, vectors), k, avoid=avoid, agree=agree)
    for word in words[:15]:
        assert similar.of(word) == brute(words, vectors, word, k, set(avoid), agree)


@pytest.mark.parametrize("kind", ["ties", "smooth"])
def test_similar_words_do_not_depend_on_the_block(kind, monkeypatch):
    words, vectors = made(0, 1000, kind)
    one = Similar((words, vectors), 7, avoid=())
    every = one.rows(np.arange(len(words)))
    monkeypatch.setattr(module, "_CELLS", 3000)
    other = Similar((words, vectors), 7, avoid=())
    for number in (5, 999 % len(words), 17):
        assert (other.rows(np.array([number]))[0] == every[number]).all()
    assert (other.rows(np.arange(len(words))[::-1])[::-1] == every).all()


def test_terms_neither_replace_nor_are_replaced():
    words = ["Jews", "people", "Muslims", "African-American", "she", "Nepal", "folk"]
    source = (words, np.ones((7, 2)))
    assert Similar(source).of("people") == ["folk"]
    assert Similar(source).of("jews") == Similar(source).of("Jews") == []
    assert Similar(source, avoid=()).of("people") == ["Jews", "Muslims", "she", "Nepal", "folk"]
    assert Similar(source, avoid=()).of("Jews") == ["people", "Muslims", "she", "Nepal", "folk"]
    assert Similar(source, avoid={"FOLK"}).of("people") == ["Jews", "Muslims", "she", "Nepal"]


def test_candidates_are_single_words():
    words = ["good", "well-known", "fine.", "'s", "don't", "e.g.", "two words", ",", "best"]
    assert Similar((words, np.ones((9, 2)))).of("good") == ["don't", "e.g.", "best"]


def test_zero_vectors_have_no_similar_words():
    similar = Similar((["a", "b", "c"], [[0, 0], [1, 0], [1, 1]]), avoid=())
    assert similar.of("a") == []
    assert similar.of("b") == ["c"]
    assert Similar((["a", "b"], np.zeros((2, 2)))).of("a") == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("cat", "dog", True),
        ("cats", "dogs", True),
        ("cats", "dog", False),
        ("boss", "dog", True),
        ("running", "dog", False),
        ("is", "were", True),
        ("the", "these", True),
        ("of", "with", True),
        ("of", "dog", False),
        ("1990", "12th", True),
        ("Quickly", "slowly", True),
    ],
)
def test_shapes(one, other, same):
    assert (shape(one) == shape(other)) is same


def test_moves_take_the_case_over():
    vocabulary = Vocabulary()
    moves = Moves(Similar((["good", "fine", "Paris"], [[1, 0], [1, 0.1], [1, 0.2]]), k=3, avoid=()), vocabulary)
    ids = vocabulary.ids(["good", "Good", "GOOD", "unknown", ",", "paris"])
    found = moves.of(ids)
    assert found.shape == (6, 3)
    words = [[vocabulary.words[n] for n in row if n >= 0] for row in found]
    assert words == [["fine", "Paris"], ["Fine", "Paris"], ["FINE", "PARIS"], [], [], []]
    again = moves.of(vocabulary.ids(["good", "FINE"]))
    assert (again[0] == found[0]).all()
    assert vocabulary.words[again[1, 0]] == "PARIS"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"k": 2.5}, "k must be an integer of at least 1, got 2.5"),
        ({"limit": 0}, "limit must be an integer of at least 1, got 0"),
        ({"avoid": "she"}, "avoid must be a collection of words, got 'she'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(SpaceError, match=message):
        Similar((["a", "b"], np.ones((2, 2))), **settings)


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


def test_words_may_be_unusual_spaces(tmp_path):
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
def test_wrong_input_is_refused(source, message):
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
        ("v.txt", b"\xff\xfe", "cannot be read as UTF-8 text"),
        ("v.gz", b"plain", "cannot be read as UTF-8 text"),
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
    with pytest.raises(LimitExceeded, match="vectors_words of .*got 3"):
        load(tmp_path / "v.npz")
    monkeypatch.undo()
    monkeypatch.setenv("EVENHAND_LIMIT_VECTORS_VALUES", "10")
    with gzip.open(tmp_path / "v.txt.gz", "wt") as file:
        file.writelines(f"w{n}" + " 1" * 20 + "\n" for n in range(50))
    with pytest.raises(LimitExceeded, match="vectors_values of .*got 1,000"):
        load(tmp_path / "v.txt.gz")
    (tmp_path / "v.txt").write_text("".join(f"w{n}" + " 1" * 20 + "\n" for n in range(50)))
    assert len(load(tmp_path / "v.txt")[0]) == 50
