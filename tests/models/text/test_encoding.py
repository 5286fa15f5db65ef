from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.text import encoding as text_encoding
from evenhand.models.text.encoding import Encoder, Padding, Row, batches

lengths = st.lists(st.integers(1, 40), max_size=80)


@given(lengths=lengths, most=st.integers(1, 200), padded=st.booleans(), left=st.booleans())
def test_every_text_is_in_one_batch_as_it_is(lengths, most, padded, left):
    rows = [Row((np.arange(n) + 100 * i + 1, np.ones(n, bool), np.int64(n))) for i, n in enumerate(lengths)]
    seen = []
    for batch in batches(rows, Padding(left, (0, False, 0)) if padded else None, most):
        ids, mask, count = batch.fields
        assert ids.shape == mask.shape
        assert len(batch) == 1 or ids.size <= max(most, ids.shape[1])
        at, column = batch.cells
        for place, number in enumerate(batch.which):
            own = column[at == place]
            assert ids[place, own].tolist() == rows[number].fields[0].tolist()
            assert mask[place].sum() == len(own) == count[place]
            assert (ids[place] > 0).sum() == len(own)
        if not padded:
            assert (ids > 0).all()
        seen += batch.which.tolist()
    assert sorted(seen) == list(range(len(rows)))


def test_texts_of_like_length_are_put_together():
    rows = [Row((np.zeros(n, int),)) for n in [100] * 40 + [90] * 10 + [10] * 40]
    got = [batch.fields[0].shape for batch in batches(rows, Padding(False, (0,)), 10**6)]
    assert got == [(50, 100), (40, 10)]


def test_a_text_is_encoded_once_as_long_as_there_is_room(monkeypatch):
    asked = []

    def encode(texts):
        asked.extend(texts)
        return [[1] * len(texts[0])]

    encoder = Encoder(encode)
    encoder.rows(["ab", "abc", "ab"])
    assert [len(row.fields[0]) for row in encoder.rows(["abc", "ab"])] == [3, 2]
    assert asked == ["ab", "abc"]
    monkeypatch.setattr(text_encoding, "KEPT", 6)
    encoder.rows(["abcd"])
    assert [len(row.fields[0]) for row in encoder.rows(["abcd", "ab", "abcdefgh"])] == [4, 2, 8]
    assert asked == ["ab", "abc", "abcd", "ab", "abcdefgh"]


def pad(texts, left=False, fill=0):
    width = max(map(len, texts))
    rows = [[ord(c) for c in text] for text in texts]
    return [[fill] * (width - len(row)) + row if left else row + [fill] * (width - len(row)) for row in rows]


@pytest.mark.parametrize("left", [False, True])
def test_how_an_encoder_pads_is_seen(left):
    assert Encoder(lambda texts: pad(texts, left, 9)).padding(["a", "abc", "abcdef"]) == Padding(left, (9,))


words = st.lists(st.text("abz", min_size=1, max_size=12), min_size=1, max_size=30)


def with_mask(texts, left):
    ids = np.array(pad(texts, left, ord("z")))
    return ids, np.array(pad(["a" * len(text) for text in texts], left)) > 0


def with_lengths(texts, left):
    return np.array(pad(texts, left, ord("z"))), np.array([len(text) for text in texts])


@given(texts=words, left=st.booleans(), encode=st.sampled_from([with_mask, with_lengths]), size=st.integers(1, 8))
def test_many_at_once_are_what_each_is_alone(texts, left, encode, size):
    padding = Padding(left, (ord("z"), 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_encoding, "TOGETHER", size)
        together = Encoder(lambda texts: encode(texts, left)).rows(texts, padding)
    # A text may end in what others are filled up with; mask and lengths tell.
    for got, expected in zip(together, Encoder(lambda texts: encode(texts, left)).rows(texts), strict=True):
        for field, own in zip(got.fields, expected.fields, strict=True):
            assert np.array_equal(field, own)


def test_an_encoder_that_mixes_texts_gets_single_texts():
    calls = []

    def encode(texts, mixed=False):
        calls.append(len(texts))
        rows = pad(texts)
        return [[*row, max(map(len, texts))] for row in rows] if mixed else rows

    texts = ["a" * n for n in range(1, 200)]
    for mixed in (False, True):
        encoder = Encoder(lambda texts, mixed=mixed: encode(texts, mixed))
        rows = encoder.rows(texts, Padding(False, (0,)))
        assert [len(row.fields[0]) for row in rows] == [n + mixed for n in range(1, 200)]
        assert (len(calls) > 199) == mixed
        calls.clear()


def test_an_encoder_that_cannot_take_many_gets_single_texts():
    def encode(texts):
        assert len(texts) == 1
        return pad(texts)

    rows = Encoder(encode).rows(["ab", "abc"], Padding(False, (0,)))
    assert [len(row.fields[0]) for row in rows] == [2, 3]


def test_an_encoder_that_does_not_pad_is_seen():
    assert Encoder(lambda texts: [[ord(c) for c in text] for text in texts]).padding(["a", "abc"]) is None
    assert Encoder(lambda texts: [[ord(c) for c in text[:1]] for text in texts]).padding(["a", "abc"]) is None
    # What a text is filled up with depends on its neighbour.
    assert Encoder(lambda texts: pad(texts, fill=len(texts))).padding(["a", "ab", "abc"]) == Padding(False, (3,))
    assert Encoder(lambda texts: [row[::-1] for row in pad(texts)]).padding(["a", "abc"]) == Padding(True, (0,))
    assert Encoder(lambda texts: [[*row, len(texts)] for row in pad(texts)]).padding(["a", "abc"]) is None


def test_wrong_ids_are_refused():
    with pytest.raises(
        ModelError, match=r"encode must return token ids.* float64 values of shape \(1, 2\) for 1 texts"
    ):
        Encoder(lambda texts: [[1.0, 2.0]]).rows(["a"])
    with pytest.raises(ModelError, match="encode must return at least one id for 'a'"):
        Encoder(lambda texts: np.empty((1, 0), int)).rows(["a"])
