from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.sklearn import Trees
from evenhand.models.wrap import wrap
from tests.models.people import COLUMNS, answers, approved, categories, frames, numbers, people

FRAME = people()
X = np.nan_to_num(numbers(FRAME))
Y = answers(FRAME)
THREE = np.where(X[:, 0] > 6, "maybe", Y)


def pipeline(final):
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["work", "sex"]), (SimpleImputer(), ["age", "ratio"])
    )
    return make_pipeline(encode, final)


CLASSIFIERS = [
    LogisticRegression(),
    RidgeClassifier(),
    LinearSVC(),
    SVC(),
    SGDClassifier(random_state=0),
    GaussianNB(),
    KNeighborsClassifier(),
    MLPClassifier(max_iter=50, tol=1, random_state=0),
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(10, random_state=0),
    AdaBoostClassifier(n_estimators=10),
    HistGradientBoostingClassifier(max_iter=10),
    VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())]),
    CalibratedClassifierCV(LinearSVC(), ensemble=False),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


@pytest.mark.parametrize(
    "target", [Y, approved(FRAME), approved(FRAME).astype(int), THREE], ids=["text", "bool", "int", "3"]
)
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda estimator: type(estimator).__name__)
def test_classifiers_on_arrays_answer_as_themselves(estimator, target):
    estimator.fit(X, target)
    model = wrap(estimator)
    ask = ModelClient(model)
    assert model.input == "array"
    assert model.columns is None
    assert not model.regression
    expected = estimator.predict(X)
    assert ask.labels(X, len(X)).tolist() == expected.tolist()
    if model.has_scores:
        scores, decisions = ask.both(X, len(X))
        assert scores.dtype == np.float64
        assert decisions.tolist() == expected.tolist()


def test_a_threshold_that_the_estimator_holds_decides():
    estimator = FixedThresholdClassifier(LogisticRegression(), threshold=0.2).fit(X, Y)
    expected = estimator.predict(X)
    assert (expected != estimator.estimator_.predict(X)).any()
    assert (ModelClient(wrap(estimator)).both(X, len(X))[1] == expected).all()


@cache
def fitted_pipeline():
    return pipeline(LogisticRegression(max_iter=1000)).fit(FRAME, Y)


@pytest.mark.slow
@given(frames())
@settings(deadline=None)
def test_a_pipeline_on_frames_answers_as_itself(frame):
    estimator = fitted_pipeline()
    model = wrap(estimator)
    assert model.input == "frame"
    assert model.columns == tuple(COLUMNS)
    ask = ModelClient(model)
    assert (ask.labels(frame, len(frame)) == estimator.predict(frame)).all()
    assert (ask.scores(frame, len(frame)) == estimator.predict_proba(frame)).all()


@cache
def fitted_boosting():
    return HistGradientBoostingClassifier(max_iter=5).fit(categories(FRAME), Y)


@given(frames())
@settings(deadline=None)
def test_category_columns_reach_the_estimator(frame):
    expected = fitted_boosting().predict(categories(frame))
    assert (ModelClient(wrap(fitted_boosting())).labels(frame, len(frame)) == expected).all()


def test_extra_columns_are_dropped_and_others_sorted():
    model = wrap(fitted_pipeline())
    shuffled = FRAME.assign(extra=1)[["extra", "sex", "ratio", "age", "work"]]
    assert (model.labels(shuffled) == fitted_pipeline().predict(FRAME)).all()


def test_scikit_learn_has_nothing_to_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fit_on, rows in ((X, X), (FRAME[["age"]], FRAME)):
            model = wrap(LogisticRegression().fit(fit_on, Y))
            model.labels(rows)
            model.scores(rows)


def test_arrays_for_an_estimator_with_names_are_refused():
    with pytest.raises(ModelError, match="fitted on named columns"):
        wrap(fitted_pipeline(), input="array")


def test_a_frame_can_be_asked_for_where_the_first_step_forgets_names():
    estimator = make_pipeline("passthrough", pipeline(LogisticRegression(max_iter=1000))).fit(FRAME, Y)
    with pytest.raises(ModelError, match='input="frame"'):
        ModelClient(wrap(estimator)).labels(X, len(X))
    assert (wrap(estimator, input="frame").labels(FRAME) == estimator.predict(FRAME)).all()
    named = make_pipeline(FunctionTransformer(), pipeline(LogisticRegression(max_iter=1000))).fit(FRAME, Y)
    assert wrap(named).columns == tuple(COLUMNS)


def test_a_threshold_on_probabilities_keeps_the_labels():
    estimator = LogisticRegression().fit(X, Y)
    positive = estimator.predict_proba(X)[:, 1]
    cut = float(positive[7])
    labels = wrap(estimator, threshold=cut).labels(X)
    assert labels.tolist() == np.where(positive >= cut, "yes", "no").tolist()


def test_a_threshold_on_decision_values():
    estimator = RidgeClassifier().fit(X, Y)
    value = estimator.decision_function(X)
    labels = wrap(estimator, threshold=-0.4).labels(X)
    assert labels.tolist() == np.where(value >= -0.4, "yes", "no").tolist()
    assert set(labels) == {"yes", "no"}


@pytest.mark.parametrize("threshold", [-0.1, 1.5, 30])
def test_a_threshold_outside_probabilities_is_refused(threshold):
    with pytest.raises(ModelError, match="from 0 to 1"):
        wrap(LogisticRegression().fit(X, Y), threshold=threshold)


def test_a_threshold_needs_two_classes_and_scores():
    with pytest.raises(ModelError, match="needs two classes"):
        wrap(LogisticRegression(max_iter=1000).fit(X, THREE), threshold=0.5)
    with pytest.raises(ModelError, match="needs two classes"):
        wrap(DummyClassifier().fit(X, np.zeros(len(X))), threshold=0.5)
    voting = VotingClassifier([("a", GaussianNB())]).fit(X, Y)
    assert not wrap(voting).has_scores
    with pytest.raises(ModelError, match="labels only"):
        wrap(voting, threshold=0.5)


def test_one_class_alone_is_decided_for():
    model = wrap(DummyClassifier().fit(X, np.full(len(X), "no")))
    assert set(model.decide(model.scores(X))) == {"no"}


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), RandomForestRegressor(5), make_pipeline(StandardScaler(), LinearRegression())],
)
def test_regressors_give_numbers(estimator):
    estimator.fit(X, X[:, 0] * 1.5)
    model = wrap(estimator)
    assert model.regression
    scores = ModelClient(model).scores(X, len(X))
    assert scores.shape == (len(X), 1)
    assert (scores[:, 0] == estimator.predict(X)).all()
    cut = wrap(model, threshold=7.5)
    assert not cut.regression
    assert cut.labels(X).tolist() == (estimator.predict(X) >= 7.5).astype(int).tolist()


def test_clusters_and_outliers_are_labels():
    clusters = KMeans(2, n_init=1, random_state=0).fit(X)
    assert not wrap(clusters).has_scores
    assert (wrap(clusters).labels(X) == clusters.predict(X)).all()
    forest = IsolationForest(n_estimators=10, random_state=0).fit(X)
    assert (ModelClient(wrap(forest)).both(X, len(X))[1] == forest.predict(X)).all()


def test_estimators_with_several_outputs_are_refused():
    two = np.column_stack([Y, Y])
    for estimator in (MultiOutputClassifier(GaussianNB()), RandomForestClassifier(5)):
        with pytest.raises(ModelError, match="2 decisions per row"):
            wrap(estimator.fit(X, two))
    with pytest.raises(ModelError, match="numbers, not labels"):
        ModelClient(wrap(LinearRegression().fit(X, X[:, :2]))).labels(X, len(X))


@pytest.mark.parametrize("estimator", [LogisticRegression(), pipeline(GaussianNB()), GridSearchCV(GaussianNB(), {})])
def test_unfitted_estimators_are_refused(estimator):
    with pytest.raises(ModelError, match="not fitted"):
        wrap(estimator)


def test_objects_that_only_have_predict_are_taken_as_functions():
    class Scorer:
        def predict(self, X):
            return X[:, 0] / 10

    ask = ModelClient(wrap(Scorer()))
    with pytest.raises(ModelError, match="look like scores"):
        ask.labels(X, len(X))
    assert ask.scores(X, len(X)).shape == (len(X), 1)
    assert set(wrap(Scorer(), threshold=0.5).labels(X)) == {0, 1}


def test_objects_that_only_have_predict_may_give_score_rows():
    class Network:
        def predict(self, X):
            return np.column_stack([X[:, 0] < 5, X[:, 0] >= 5]).astype(np.float32)

    scores, labels = ModelClient(wrap(Network())).both(X, len(X))
    assert scores.shape == (len(X), 2)
    assert labels.tolist() == (X[:, 0] >= 5).astype(int).tolist()
    assert ModelClient(wrap(Network())).labels(X, len(X)).tolist() == labels.tolist()


def test_names_show_the_decision():
    assert wrap(fitted_pipeline()).name == "Pipeline(LogisticRegression)"
    assert wrap(GaussianNB().fit(X, Y)).name == "GaussianNB"
    assert wrap(fitted_pipeline(), name="loans").name == "loans"


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(7, random_state=1),
        RandomForestClassifier(3, max_depth=2, bootstrap=False, random_state=2),
        ExtraTreesClassifier(5, min_samples_leaf=4, random_state=3),
        DecisionTreeClassifier(max_depth=4, random_state=4),
    ],
)
def test_the_trees_of_a_forest_answer_as_the_forest(forest: Any) -> None:
    rng = np.random.default_rng(0)
    for classes, kind in ((2, str), (4, int)):
        rows = rng.normal(size=(200, 3))
        fitted = clone(forest).fit(rows, rng.integers(0, classes, 200).astype(kind))
        model, trees = wrap(fitted), Trees(fitted)
        for n in (1, 16, 200):
            shares = trees.shares(rows[:n])
            assert shares is not None
            assert np.array_equal(shares, fitted.predict_proba(rows[:n]))
            assert np.array_equal(model.labels(rows[:n]), fitted.predict(rows[:n]))
            assert model.labels(rows[:n]).dtype == fitted.predict(rows[:n]).dtype
        named = pd.DataFrame(rows, columns=list("abc"))
        assert trees.shares(named) is None
        fitted.fit(named, rng.integers(0, classes, 200))
        assert np.array_equal(trees.shares(named), fitted.predict_proba(named))  # type: ignore[arg-type]
        assert trees.shares(named[["b", "a", "c"]]) is None


def test_a_forest_is_asked_itself_where_its_trees_may_differ() -> None:
    class Own(RandomForestClassifier):  # type: ignore[misc]
        pass

    rows, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    assert not Trees.fit(Own(2).fit(rows, y))
    assert not Trees.fit(RandomForestClassifier(2, n_jobs=2).fit(rows, y))
    assert not Trees.fit(RandomForestClassifier(2).fit(rows, np.stack([y, y], axis=1)))
    forest = RandomForestClassifier(2, random_state=0).fit(rows, y)
    model, trees = wrap(forest), Trees(forest)
    assert model.labels(rows).tolist() == forest.predict(rows).tolist()
    for bad in (np.full((3, 2), np.nan), np.full((3, 2), 1e300), rows[:, :1], rows[:0], [[1.0, 2.0]] * 3):
        assert trees.shares(bad) is None or isinstance(bad, list)
    forest.predict = lambda X: np.full(len(X), 7)
    assert model.labels(rows).tolist() == [7] * 20
    del forest.predict
    # A forest whose sum differs from that of its trees.
    forest.estimators_ = list(forest.estimators_)
    other = Trees(forest)
    forest.predict_proba = lambda X: np.full((len(X), 2), 0.5)
    assert other.shares(rows) is None
