"""A real corpus and real word vectors, in the folder named by EVENHAND_TEXT_DATA."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import round_trip

from evenhand.spaces.text.lexicon import NAMES, load
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.similar import Similar
from evenhand.spaces.text.tokens import Texts

FOLDER = Path(os.environ.get("EVENHAND_TEXT_DATA", ""))
TABLES = sorted(FOLDER.glob("*.csv*")) if os.environ.get("EVENHAND_TEXT_DATA") else []
VECTORS = sorted(FOLDER.glob("*.npz")) if os.environ.get("EVENHAND_TEXT_DATA") else []
needs_tables = pytest.mark.skipif(not TABLES, reason="EVENHAND_TEXT_DATA names no folder with tables of texts")
needs_vectors = pytest.mark.skipif(not VECTORS, reason="EVENHAND_TEXT_DATA names no folder with vectors")


@pytest.fixture(scope="module")
def corpus():
    return [text for path in TABLES for text in pd.read_csv(path, keep_default_na=False)["text"].astype(str)]


def test_random_strings_come_back():
    drawn = round_trip.strings(5_000, seed=0)
    assert len(set(drawn)) > 4_500
    assert Texts.of(drawn).strings() == drawn


def test_the_benchmark_counts_lost_answers(tmp_path, monkeypatch):
    table, out = tmp_path / "texts.csv", tmp_path / "out.json"
    pd.DataFrame({"text": ["a b", "", "c"]}).to_csv(table, index=False)
    round_trip.main(["--strings", "50", "--texts", str(table), "--out", str(out)])
    result = json.loads(out.read_text())
    assert (result["random"]["strings"], result["texts"]["strings"], result["texts"]["words"]) == (50, 3, 3)
    monkeypatch.setattr(Texts, "strings", lambda texts: ["wrong"] * len(texts))
    with pytest.raises(SystemExit, match="some strings did not come back"):
        round_trip.main(["--strings", "50", "--out", str(tmp_path / "wrong.json")])
    assert not (tmp_path / "wrong.json").exists()


@needs_tables
def test_every_text_comes_back(corpus):
    assert Texts.of(corpus).strings() == corpus


@needs_tables
@pytest.mark.parametrize("name", NAMES)
def test_free_words_stay(corpus, name):
    texts = Texts.of(corpus)
    swaps = Swaps([load(name)], texts.vocabulary)
    found = swaps.find(texts)
    some = found[:: max(1, len(found) // 200)]
    made = swaps.counterparts(texts, some)
    assert len(made.texts)
    kept, sources = made.origin >= 0, texts.starts[made.source[made.texts.rows]] + made.origin
    left = texts.lengths[made.source] - (some.stop - some.start)[made.unit]
    assert (np.bincount(made.texts.rows[kept], minlength=len(made.texts)) == left).all()
    old = texts.vocabulary.words[texts.words[sources[kept]]]
    new = texts.vocabulary.words[made.texts.words[kept]]
    changed = {(a.lower(), b.lower()) for a, b in zip(old[old != new], new[old != new], strict=True)}
    assert changed <= {("a", "an"), ("an", "a")}


@needs_vectors
@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.name)
def test_top_k_is_that_of_brute_force(path):
    similar = Similar(path, avoid=())
    numbers = np.random.default_rng(0).choice(len(similar.words), 50)
    vectors = similar.vectors.astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pool = similar._pool
    for number, row in zip(numbers.tolist(), similar.rows(numbers), strict=True):
        cosines = units[pool] @ units[number]
        cosines[pool == number] = -np.inf
        assert row.tolist() == pool[np.lexsort((pool, -cosines))[:10]].tolist()
