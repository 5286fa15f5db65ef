"""Readers of published files of comments."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets
from evenhand.datasets.comments import KINDS
from evenhand.errors import DataError

FOLDER = os.environ.get("EVENHAND_TEXT_DATA", "")
TABLES = sorted(Path(FOLDER).glob("*.csv*")) if FOLDER else []


def jigsaw(path, labels, **more):
    frame = pd.DataFrame(labels, columns=KINDS)
    frame.insert(0, "id", [f"id{n}" for n in range(len(frame))])
    for name, values in more.items():
        frame[name] = values
    frame.to_csv(path, index=False)
    return path


def test_any_of_the_six_labels_is_toxic(tmp_path):
    labels = np.concatenate([np.eye(6, dtype=int), np.zeros((2, 6), dtype=int)])
    texts = ["a, b", 'c "d"', "e\nf", "", "NA", "g", "h", "i"]
    corpus = datasets.read_jigsaw(jigsaw(tmp_path / "train.csv", labels, comment_text=texts))
    assert corpus.texts == tuple(texts)
    assert corpus.labels.tolist() == [1] * 6 + [0] * 2


def test_separate_labels_are_matched_by_id_and_unscored_comments_left_out(tmp_path):
    labels = np.array([[0] * 6, [-1] * 6, [1] + [0] * 5])
    apart = jigsaw(tmp_path / "test_labels.csv", labels[[2, 1, 0]])
    (tmp_path / "test.csv").write_text("id,comment_text\nid2,no\nid1,unknown\nid0,yes\n")
    corpus = datasets.read_jigsaw(tmp_path / "test.csv", apart)
    assert (corpus.texts, corpus.labels.tolist()) == (("no", "yes"), [0, 1])
    (tmp_path / "test.csv").write_text("id,comment_text\nid9,no\n")
    with pytest.raises(DataError, match=r"test_labels\.csv: 1 .*test\.csv have no labels, such as id 'id9'"):
        datasets.read_jigsaw(tmp_path / "test.csv", apart)


def wikipedia(folder, comments, annotations, label="toxicity"):
    paths = folder / "comments.tsv", folder / "annotations.tsv"
    pd.DataFrame(comments, columns=["rev_id", "comment"]).to_csv(paths[0], sep="\t", index=False)
    pd.DataFrame(annotations, columns=["rev_id", "worker_id", label]).to_csv(paths[1], sep="\t", index=False)
    return paths


def test_the_majority_of_annotators_decides(tmp_path):
    said = [(9.0, 1, 1), (7.0, 1, 0), (9.0, 2, 1), (9.0, 3, 0), (7.0, 3, 1), (8.0, 1, 1.0)]
    paths = wikipedia(tmp_path, [(7.0, "NEWLINE_TOKENaTAB_TOKENb"), (8.0, "`c`"), (9.0, "NA")], said, "attack")
    corpus = datasets.read_wikipedia(*paths, label="attack")
    assert corpus.texts == ("\na\tb", "`c`", "NA")
    assert corpus.labels.tolist() == [0, 1, 1], "a half is no majority"


@pytest.mark.parametrize(
    ("comments", "annotations", "says"),
    [
        ([(7, "a"), (8, "b")], [(7, 1, 0)], r"annotations\.tsv: 1 comments of .* have no annotation, such as rev_id 8"),
        ([(7, "a")], [], "1 comments of .* have no annotation"),
        ([(7, "a")], [(7, 1, "maybe")], r"annotations\.tsv: 'toxicity' must be one of 0, 1, got 'maybe' in row 0"),
    ],
)
def test_wrong_annotations_are_named(tmp_path, comments, annotations, says):
    with pytest.raises(DataError, match=says):
        datasets.read_wikipedia(*wikipedia(tmp_path, comments, annotations))


def test_missing_columns_are_named(tmp_path):
    paths = wikipedia(tmp_path, [(7, "a")], [(7, 1, 0)], "attack")
    with pytest.raises(DataError, match=r"annotations\.tsv: there is no column 'toxicity'"):
        datasets.read_wikipedia(*paths)
    (tmp_path / "x.csv").write_text("text,toxic\na,2\n")
    with pytest.raises(DataError, match=r"x\.csv: 'toxic' must be one of 0, 1, got '2' in row 0"):
        datasets.read_comments(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"x\.csv: there is no column 'toxic_'.*toxic"):
        datasets.read_comments(tmp_path / "x.csv", label="toxic_")
    with pytest.raises(DataError, match=r"x\.csv: there is no column 'severe_toxic'|x\.csv: 'toxic' must be"):
        datasets.read_jigsaw(tmp_path / "x.csv")


def test_equal_texts_are_on_the_same_side():
    corpus = datasets.Corpus(tuple("abcdefgh" * 5), np.zeros(40, dtype=np.int64))
    train, test = corpus.split(0.5)
    assert len(train) + len(test) == 40
    assert not set(train.texts) & set(test.texts)
    assert train.texts
    assert test.texts
    assert corpus.split(0.5)[0].texts == train.texts


def test_a_corpus_has_a_label_for_each_text():
    with pytest.raises(DataError, match="got 1 texts and 2 labels"):
        datasets.Corpus(("a",), np.zeros(2, dtype=np.int64))


@pytest.mark.skipif(not TABLES, reason="EVENHAND_TEXT_DATA names no folder with tables of texts")
@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_real_comments_load(path):
    corpus = datasets.read_comments(path)
    frame = pd.read_csv(path, keep_default_na=False)
    assert list(corpus.texts) == frame["text"].astype(str).tolist()
    assert (corpus.labels == frame["toxic"]).all()
