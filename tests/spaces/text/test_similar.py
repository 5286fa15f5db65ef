"""Similar words: the nearest by cosine, against brute force in exact order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import SpaceError
from evenhand.spaces.text import similar as module
from evenhand.spaces.text.similar import Moves, Similar, shape
from evenhand.spaces.text.tokens import Vocabulary


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
def test_the_nearest_are_those_of_brute_force(seed, size, kind, k, avoid, agree):
    words, vectors = made(seed, size, kind)
    similar = Similar((words, vectors), k, avoid=avoid, agree=agree)
    for word in words[:15]:
        assert similar.of(word) == brute(words, vectors, word, k, set(avoid), agree)


@pytest.mark.parametrize("kind", ["ties", "smooth"])
def test_what_is_found_does_not_depend_on_the_block(kind, monkeypatch):
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


def test_words_without_direction_have_no_similar_ones():
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
def test_wrong_settings_are_said(settings, message):
    with pytest.raises(SpaceError, match=message):
        Similar((["a", "b"], np.ones((2, 2))), **settings)
