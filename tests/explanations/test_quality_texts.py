from __future__ import annotations

import builtins
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError, MissingExtra
from evenhand.explanations.quality import text_quality, within
from evenhand.spaces.text.tokens import split
from tests.helpers import optional

WORDS = ["good", "Good", "bad", "day", "the", "is"]
VECTORS = {word: np.array([number, number**2 / 3, -1.0]) for number, word in enumerate(WORDS)}
SOURCE = (list(VECTORS), np.array(list(VECTORS.values())))
sentence = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=7)
pairs = st.lists(st.tuples(sentence, sentence), max_size=8)


def reference(old, new):
    """The measures of one pair, as they are written down."""
    edits = [[i + j if not i * j else 0 for j in range(len(new) + 1)] for i in range(len(old) + 1)]
    for i in range(1, len(old) + 1):
        for j in range(1, len(new) + 1):
            edits[i][j] = min(
                edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (old[i - 1] != new[j - 1])
            )
    same = len(old) == len(new)
    changed = sum(a != b for a, b in zip(old, new, strict=True)) if same else edits[-1][-1]
    mean = np.mean(list(VECTORS.values()), axis=0)
    vector = lambda word: VECTORS.get(word, mean)  # noqa: E731
    square = sum(np.sum((vector(a) - vector(b)) ** 2) for a, b in zip(old, new, strict=False))
    union = set(old) | set(new)
    return changed, math.sqrt(square) if same else math.nan, len(set(old) & set(new)) / len(union) if union else 1.0


@given(pairs)
def test_each_pair_is_measured_as_if_alone(pairs):
    table = text_quality([" ".join(a) for a, _ in pairs], [", ".join(b) for _, b in pairs], vectors=SOURCE, bleu=False)
    assert list(table) == ["changed", "distance", "jaccard"]
    expected = [reference(a, b) for a, b in pairs]
    assert np.allclose(table.to_numpy(dtype=float), np.array(expected).reshape(-1, 3), atol=1e-5, equal_nan=True)


def test_vectors_may_come_from_a_function():
    table = text_quality(
        ["the good day"], ["the bad day"], vectors=lambda words: [VECTORS[w] for w in words], bleu=False
    )
    assert table["distance"].tolist() == pytest.approx([np.linalg.norm(VECTORS["good"] - VECTORS["bad"])])


@settings(max_examples=20)
@given(pairs)
def test_bleu_is_that_of_sacrebleu(pairs):
    sacrebleu = optional("sacrebleu")
    before, after = ([" ".join(part) for part in parts] for parts in (zip(*pairs, strict=True) if pairs else ((), ())))
    got = text_quality(before, after)["bleu"]
    for value, old, new in zip(got, before, after, strict=True):
        expected = sacrebleu.sentence_bleu(new, [old], use_effective_order=True).score / 100 if old != new else 1.0
        assert value == pytest.approx(expected)


def test_similar_meaning_by_any_encoder():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return [[text.count("good"), text.count("bad"), 0] for text in texts]

    before, after = ["good", "good", "good", ""], ["good", "bad", "good bad", "good"]
    got = text_quality(before, after, encoder=encode, bleu=False)["similarity"]
    assert got.tolist() == pytest.approx([1, 0, math.sqrt(0.5), 0])
    assert len(asked) == len(set(asked))

    class Encoder:
        def encode(self, texts):
            return np.array(encode(texts))

    assert text_quality(before, after, encoder=Encoder(), bleu=False)["similarity"].equals(got)


def test_within_limits():
    table = text_quality(
        ["a b c d", "a b", "a"], ["a b c e", "c d", "a b"], vectors=(["a", "c"], [[0, 1], [1, 0]]), bleu=False
    )
    assert within(table).tolist() == [True, True, True]
    assert within(table, changed=1).tolist() == [True, False, True]
    assert within(table, jaccard=0.6).tolist() == [True, False, False]
    assert within(table, distance=100).tolist() == [True, True, False]
    with pytest.raises(DataError, match="limits must be one of 'changed', 'distance'"):
        within(table, charm=1)
    with pytest.raises(DataError, match="similarity was not measured"):
        within(table, similarity=1)
    for wrong in (None, "2", float("nan")):
        with pytest.raises(DataError, match="changed must be a number"):
            within(table, changed=wrong)


def test_wrong_arguments_are_named():
    with pytest.raises(DataError, match="lists of equal length"):
        text_quality(["a"], [])
    with pytest.raises(DataError, match="lists of equal length"):
        text_quality("a", "b")
    with pytest.raises(DataError, match="text 0 must be a string"):
        text_quality([None], ["a"])
    with pytest.raises(DataError, match="encoder must be .*got 3"):
        text_quality(["a"], ["b"], encoder=3)
    with pytest.raises(DataError, match="before and after must be lists of equal length"):
        text_quality(3, ["b"])


@pytest.mark.parametrize("made", [np.ones((1, 3)), None, 3.0, [[1.0], [1.0, 2.0]], "ab"])
def test_encoders_must_return_one_vector_each(made):
    for name, what in (("encoder", "texts"), ("vectors", "words")):
        with pytest.raises(DataError, match=f"{name} must return one vector for each of 2 {what}, got"):
            text_quality(["a"], ["b"], bleu=False, **{name: lambda _: made})


def test_vectors_must_be_finite():
    for name in ("encoder", "vectors"):
        with pytest.raises(DataError, match=f"{name} must return finite numbers; 2 of 2 .* NaN"):
            text_quality(["a"], ["b"], bleu=False, **{name: lambda some: np.full((len(some), 3), np.nan)})


def test_empty_lists_are_not_encoded():
    assert text_quality([], [], encoder=lambda texts: texts, bleu=False)["similarity"].tolist() == []


@pytest.mark.parametrize(
    ("package", "options", "extra"),
    [("sacrebleu", {"bleu": True}, "text"), ("sentence_transformers", {"encoder": "folder"}, "sentences")],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package, options, extra):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=rf"evenhand\[{extra}\]"):
        text_quality(["a"], ["b"], **options)
    if package == "sacrebleu":
        assert "bleu" not in text_quality(["a"], ["b"])


def test_the_words_are_those_of_the_text_space():
    before, after = "She's a U.S. jurist!", "She's a U.S. judge?"
    assert text_quality([before], [after], bleu=False)["changed"].tolist() == [1]
    assert split(before)[1::2][:2] == ["She", "'s"]
