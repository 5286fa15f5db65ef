"""The words chosen for given slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.criteria import Flip
from evenhand.engine.gradients import EPSILON, largest, least
from evenhand.engine.judge import ModelProbe
from evenhand.errors import StrategyError
from evenhand.search import of_class
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.tokens import Texts
from tests.text_worlds import VECTORS, WORDS, Words, WordWorld, team_space, team_texts

# Terms of one, two and three words, so that what stands behind them moves.
UNEVEN = {"team": ["reds", "sky blues", "dark forest greens"]}


def uneven(count: int, seed: int) -> tuple[Any, TextPairs]:
    rng = np.random.default_rng(seed)
    data = [
        " ".join([*rng.choice(WORDS, 3), str(rng.choice(UNEVEN["team"])), *rng.choice(WORDS, 4)]) for _ in range(count)
    ]
    bound = eh.TextSpace.paper(UNEVEN, (WORDS, VECTORS), k=4).begin(data)
    texts = bound.seeds
    stored = bound.families(texts, 0).most_different(1 + rng.integers(0, 2, count))
    return bound, TextPairs(texts, bound.most_different(texts, stored), rng.integers(0, 2, count))


@settings(max_examples=40)
@given(count=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_words_are_aligned_with_counterparts_of_another_length(count: int, seed: int) -> None:
    bound, pairs = uneven(count, seed)
    assert pairs.most_different is not None
    flat = np.flatnonzero(bound.movable(pairs.individuals))
    texts, others = pairs.individuals.texts, pairs.most_different.texts
    assert (others.words[pairs.places[flat]] == texts.words[flat]).all()
    assert (others.rows[pairs.places[flat]] == texts.rows[flat]).all()
    assert (np.diff(pairs.places[flat]) > 0).all()
    some = pairs[np.random.default_rng(seed).permutation(count)[: count // 2 + 1]]
    assert some.most_different is not None
    flat = np.flatnonzero(bound.movable(some.individuals))
    assert (some.most_different.texts.words[some.places[flat]] == some.individuals.texts.words[flat]).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_the_chosen_swap_is_the_best_of_all_by_enumeration(seed: int) -> None:
    bound, pairs = uneven(6, seed)
    assert pairs.most_different is not None
    model = Words(WordWorld(team_space(), []))
    slopes = ModelProbe(model, bound, Flip(), gradient="model").word_slopes
    assert slopes is not None
    texts, others = pairs.individuals.texts, pairs.most_different.texts
    own = model.word_gradients(texts, pairs.classes)
    other = model.word_gradients(others, pairs.classes)
    hot, unsigned, sign, alone, alone_unsigned = (
        slopes.ask(given, rule, None, None)
        for given, rule in (
            (pairs, "hotflip"),
            (pairs, "hotflip-unsigned"),
            (pairs, "asc"),
            (pairs.alone, "hotflip"),
            (pairs.alone, "hotflip-unsigned"),
        )
    )
    scores = [of_class(model.scores(part.strings()), pairs.classes) for part in (texts, others)]
    for i in range(len(pairs)):
        words = texts.vocabulary.words[texts.words[texts.starts[i] : texts.starts[i + 1]]]
        theirs = others.vocabulary.words[others.words[others.starts[i] : others.starts[i + 1]]]
        shift = len(theirs) - len(words)
        towards = -1 if scores[1][i] < scores[0][i] else 1
        gains, plain, norms, near = {}, {}, {}, {}
        for a in (0, 1, 2, *range(len(words) - 4, len(words))):
            g, h = own[texts.starts[i] + a], other[others.starts[i] + (a if a < 3 else a + shift)]
            here = model.word_vectors([words[a]])[0]
            norms[a] = np.abs(g - h).max()
            for j, c in enumerate(bound.similar.of(words[a])):
                change = model.word_vectors([c])[0] - here
                gains[a, j] = towards * (g @ change - h @ change)
                plain[a, j] = g @ change
                near[a, j] = np.linalg.norm(np.sign(change) - np.sign(g))
        assert gains[tuple(hot[i])] == pytest.approx(max(gains.values()))
        assert abs(gains[tuple(unsigned[i])]) == pytest.approx(max(map(abs, gains.values())))
        assert plain[tuple(alone[i])] == pytest.approx(max(plain.values()))
        assert abs(plain[tuple(alone_unsigned[i])]) == pytest.approx(max(map(abs, plain.values())))
        token = max(norms, key=norms.__getitem__)
        assert tuple(sign[i]) == min(((token, j) for a, j in near if a == token), key=near.__getitem__)


@given(parts=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=8))
def test_the_first_of_equally_large_values_is_chosen(parts: list[list[int]]) -> None:
    values = np.concatenate([np.array(part, dtype=float) for part in parts])
    begins = np.cumsum([0, *map(len, parts)])[:-1]
    assert (largest(values, begins) - begins).tolist() == [part.index(max(part)) for part in parts]


def test_words_are_drawn_by_the_reciprocal_of_their_effect() -> None:
    matter, count = np.array([1.0, 2.0, 4.0, 0.5, 3.0, 3.0]), 5_000
    draws = np.random.default_rng(0).integers(0, 2**63, (2, count)).astype(np.uint64)
    begins, positions = np.array([0, 4]), np.array([0, 1, 2, 3, 0, 5])
    chosen = least(matter, begins, positions, draws[[0, 0, 0, 0, 1, 1]])
    for row, part in zip(chosen, (slice(0, 4), slice(4, 6)), strict=True):
        means = matter[part] / matter[part].max() + EPSILON
        expected = (1 / means) / (1 / means).sum()
        seen = np.bincount(row - part.start, minlength=len(means)) / count
        assert np.abs(seen - expected).max() < 4 * np.sqrt(0.25 / count)
    # A word that does not matter at all is nearly always taken, one of several.
    chosen = least(np.array([0.0, 1.0, 0.0]), np.array([0]), np.arange(3), draws[[0, 0, 0]])[0]
    assert 0.45 < (chosen == 0).mean() < 0.55
    assert (chosen == 1).mean() < 0.001


def test_draws_for_a_text_do_not_depend_on_other_texts() -> None:
    draws = np.random.default_rng(0).integers(0, 2**63, (1, 50)).astype(np.uint64)
    matter = np.array([0.3, 0.1, 0.7])
    alone = least(matter, np.array([0]), np.arange(3), draws.repeat(3, axis=0))
    beside = least(np.append(9.0, matter), np.array([0, 1]), np.array([4, 0, 1, 2]), draws.repeat(4, axis=0))
    assert (alone[0] == beside[1] - 1).all()


def test_rules_that_need_gradients_are_refused_without_them() -> None:
    bound = team_space().begin(team_texts(0, 3))
    model = eh.wrap(lambda texts: np.eye(2)[[len(text) % 2 for text in texts]], input="text")
    slopes = ModelProbe(model, bound, Flip(), gradient="auto").word_slopes
    assert slopes is not None
    pairs = TextPairs(bound.seeds, None, np.zeros(3, dtype=np.int64))
    assert slopes.ask(pairs, "largest", None, None).shape == (3, 2)
    with pytest.raises(StrategyError, match="largest"):
        slopes.ask(pairs, "asc", None, None)


@settings(max_examples=40)
@given(strings=st.lists(st.text(max_size=30), max_size=5))
def test_texts_with_one_word_left_out(strings: list[str]) -> None:
    texts = Texts.of(strings)
    flat = np.arange(len(texts.words))
    empty = texts.vocabulary.ids([""])
    expected = [texts.put(flat[i : i + 1], empty).strings()[row] for i, row in enumerate(texts.rows)]
    assert texts.without(flat) == expected
