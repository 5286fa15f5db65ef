"""The text networks of the demo and the benchmarks."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st

from evenhand.datasets import Corpus
from evenhand.demo.text import PAD, UNKNOWN, Encoder, TextNet, Training, batches, decide, given, small
from evenhand.errors import DataError

WORDS = ["you", "fool", "thank", "don't"]


@settings(max_examples=30)
@each(st.lists(st.lists(st.sampled_from([*WORDS, "other"]), max_size=6), min_size=1, max_size=5))
def test_words_are_numbered_and_rows_padded(words):
    got = Encoder(WORDS)([", ".join(row).upper() for row in words])
    for row, said in zip(got.tolist(), words, strict=True):
        numbers = [WORDS.index(word) + 2 if word in WORDS else UNKNOWN for word in said] or [UNKNOWN]
        assert row == numbers + [PAD] * (len(row) - len(numbers))


def test_long_texts_are_cut():
    assert Encoder(WORDS, longest=2)(["you fool thank", "you"]).tolist() == [[2, 3], [2, PAD]]


def test_frequent_words_are_known():
    encode = Encoder.of(["b B a", "a b c"])
    assert encode.words == ("b", "a")
    assert len(encode) == 4


@settings(max_examples=10)
@each(st.sampled_from(["lstm", "gru"]), st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(0, 9))
def test_padding_changes_no_answer(kind, lengths, seed):
    torch.manual_seed(seed)
    net = TextNet(20, 5, kind, layers=2, states=4).eval()
    rows = [torch.randint(1, 20, (1, length)) for length in lengths]
    padded = torch.zeros(len(rows), 12, dtype=torch.int64)
    for at, row in enumerate(rows):
        padded[at, : row.shape[1]] = row
    alone = torch.cat([net(row) for row in rows])
    torch.testing.assert_close(net(padded), alone)
    assert decide(net, padded.numpy(), batch=2).tolist() == alone.argmax(1).tolist()


def test_given_vectors_stay_and_unknown_words_have_their_mean():
    vectors = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    net = given(vectors, "gru", 3, 10)
    table = net.embedding.weight
    assert not table.requires_grad
    np.testing.assert_array_equal(table[2:].numpy(), vectors)
    np.testing.assert_allclose(table[UNKNOWN].numpy(), vectors.mean(axis=0), rtol=1e-6)
    assert (net.recurrent.num_layers, net.recurrent.hidden_size) == (3, 10)


def test_every_row_is_in_one_batch():
    lengths = torch.randint(1, 50, (333,))
    made = list(batches(lengths, 8))
    assert sorted(torch.cat(made).tolist()) == list(range(333))
    assert max(map(len, made)) == 8


def test_no_texts_are_refused():
    with pytest.raises(DataError, match="no texts"):
        small(Corpus((), np.empty(0, dtype=np.int64)))


@pytest.mark.slow
def test_the_benchmark_trains_nets_and_keeps_them(tmp_path, monkeypatch):
    from benchmarks import papers, text_nets

    rng = np.random.default_rng(0)
    toxic = rng.integers(0, 2, 200)
    texts = [f"{'fool' if t else 'thank'} you {n}" for n, t in enumerate(toxic)]
    pd.DataFrame({"text": texts, "toxic": toxic}).to_csv(tmp_path / "comments.csv.xz", index=False)
    np.savez(tmp_path / "vectors.npz", words=WORDS, vectors=rng.normal(size=(4, 6)))
    monkeypatch.setenv("EVENHAND_TEXT_DATA", str(tmp_path))
    monkeypatch.setattr(text_nets, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(text_nets, "TRAINING", Training(rate=0.03, batch=32, epochs=12))
    for kept in (text_nets.corpus, text_nets.vectors, text_nets.encoder):
        kept.cache_clear()
    try:
        papers.main(["--only", "texts/nets/gru", "--jobs", "1", "--output", str(tmp_path)])
        said = json.loads((tmp_path / "texts.json").read_text())["nets"]["gru/0"]
        assert said["train_texts"] + said["test_texts"] == 200
        assert said["test_accuracy"] > 0.9
        monkeypatch.setattr(text_nets, "train", lambda *_: pytest.fail("trained again"))
        assert text_nets.facts("gru")["test_accuracy"] == said["test_accuracy"]
        assert len(list((tmp_path / "cache").glob("*.pt"))) == 1
    finally:
        for kept in (text_nets.corpus, text_nets.vectors, text_nets.encoder):
            kept.cache_clear()
