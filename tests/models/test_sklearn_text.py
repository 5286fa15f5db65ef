"""Callables and scikit-learn pipelines that take texts."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from evenhand.errors import ModelError
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.models.sklearn import reads_text
from evenhand.models.wrap import wrap
from evenhand.spaces.text.tokens import Texts

TEXTS = ["a good day", "a bad day", "so good", "so bad", "very good indeed", "very bad indeed"] * 3
LABELS = ["fine", "rude"] * 9

PIPELINES = {
    "counts": lambda: make_pipeline(CountVectorizer(), LogisticRegression()),
    "tf-idf": lambda: make_pipeline(TfidfVectorizer(), LinearSVC()),
    "hashes": lambda: make_pipeline(HashingVectorizer(n_features=64), LogisticRegression()),
    "side by side": lambda: make_pipeline(
        make_union(CountVectorizer(), TfidfVectorizer(analyzer="char")), LogisticRegression()
    ),
    "nothing first": lambda: make_pipeline("passthrough", CountVectorizer(), LogisticRegression()),
    "inside another": lambda: make_pipeline(make_pipeline(CountVectorizer()), LogisticRegression()),
    "a search": lambda: GridSearchCV(make_pipeline(CountVectorizer(), LogisticRegression()), {}, cv=2),
}


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_pipeline_that_begins_with_a_vectoriser_takes_texts(kind):
    fitted = PIPELINES[kind]().fit(TEXTS, LABELS)
    model = wrap(fitted)
    assert (model.input, model.has_scores, model.gradient_source, model.has_words) == ("text", True, None, False)
    scores, labels = ModelClient(model).both(TEXTS, len(TEXTS))
    assert labels.tolist() == LABELS
    scoring = fitted.predict_proba if hasattr(fitted, "predict_proba") else fitted.decision_function
    assert np.allclose(np.squeeze(scores), scoring(TEXTS))
    for other in ("frame", "array"):
        with pytest.raises(ModelError, match="was fitted on texts"):
            wrap(fitted, input=other)
    assert wrap(fitted.predict).input == "text"


def test_a_threshold_on_a_text_pipeline():
    fitted = PIPELINES["counts"]().fit(TEXTS, LABELS)
    chance = fitted.predict_proba(TEXTS)[:, 1]
    assert (wrap(fitted, threshold=0.4).labels(TEXTS) == np.where(chance >= 0.4, "rude", "fine")).all()
    assert wrap(fitted.predict_proba).input == "text"


def test_a_vectoriser_of_one_column_takes_frames():
    frame = pd.DataFrame({"text": TEXTS, "age": range(18)})
    columns = make_column_transformer((CountVectorizer(), "text"), remainder="passthrough")
    model = wrap(make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(frame, LABELS))
    assert (model.input, model.columns) == ("frame", ("text", "age"))
    with pytest.raises(ModelError, match="named columns"):
        wrap(model, input="text")


def test_a_vectoriser_of_files_is_not_a_text_model():
    assert not reads_text(make_pipeline(HashingVectorizer(input="filename"), LogisticRegression()))
    assert not reads_text(LogisticRegression())


def test_input_text_can_be_set():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    fitted = make_pipeline(lower, CountVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
    assert wrap(fitted, input="text").labels(["A GOOD DAY"]).tolist() == ["fine"]


@pytest.mark.parametrize("answer", [list, np.array, pd.Series])
def test_a_function_on_a_list_of_strings(answer):
    model = wrap(lambda texts: answer(["bad" in text for text in texts]), input="text")
    assert ModelClient(model).labels(TEXTS[:2], 2).tolist() == [False, True]


def test_scores_of_a_function_and_its_list_is_its_own():
    def score(texts):
        texts.sort()
        return [float(len(text)) for text in texts]

    given = ["ccc", "a"]
    assert ModelClient(wrap(score, input="text")).scores(given, 2).tolist() == [[1], [3]]
    assert given == ["ccc", "a"]
    assert wrap(functools.partial(map, len), input="text", name="lengths").name == "lengths"


def test_an_exception_names_the_number_of_texts():
    with pytest.raises(ModelError, match="raised ZeroDivisionError.*\n.*a list of 2 texts"):
        ModelClient(wrap(lambda texts: 1 / 0, input="text")).labels(["a", "b"], 2)


def test_the_wrong_kind_of_space_is_refused():
    frame = pd.DataFrame({"age": [1, 2]})
    text, table = wrap(lambda texts: texts, input="text"), wrap(lambda frame: frame["age"])
    with pytest.raises(ModelError, match="takes texts, but the space has attributes"):
        ModelClient(text).labels(frame, 2)
    with pytest.raises(ModelError, match="takes texts, but the space has attributes"):
        ModelClient(text).scores(np.zeros((2, 1)), 2)
    with pytest.raises(ModelError, match="takes rows of a table, but the space has texts"):
        ModelClient(table).labels(["a", "b"], 2)


def test_without_words_there_are_no_gradients():
    client = ModelClient(wrap(lambda texts: texts, input="text"))
    with pytest.raises(ModelError, match="has no vectors and gradients of words"):
        client.word_gradients(Texts.of(["a"]), np.zeros(1, int))


class Flat(Model):
    name, input, has_words = "flat", "text", True

    def __init__(self, answer):
        self.answer = answer

    def labels(self, X):
        return [0] * len(X)

    def word_gradients(self, texts, classes):
        return self.answer(len(texts.words))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.zeros((n + 1, 2)), r"return \(2, 2\)"),
        (lambda n: np.zeros(n), r"return \(2, 1\)"),
        (lambda n: np.full((n, 2), np.nan), "NaN or infinity.*text-importance"),
        (lambda n: 1 / n / 0, "could not be differentiated.*text-importance"),
    ],
)
def test_gradients_of_words_are_checked(answer, message):
    with pytest.raises(ModelError, match=message):
        ModelClient(Flat(answer)).word_gradients(Texts.of(["a b"]), np.zeros(1, int))
    whole = ModelClient(Flat(lambda n: np.ones((n, 3), int))).word_gradients(Texts.of(["a b"]), np.zeros(1, int))
    assert whole.shape == (2, 3)
