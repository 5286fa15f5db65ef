from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_expit, log_softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PassiveAggressiveClassifier,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.closed_form import derive
from evenhand.models.wrap import wrap
from tests.models.people import answers, people

NAMES = ["age", "ratio", "points", "income"]
CENTRES, SPREADS = np.array([0.0, 1.0, -1.0, 0.5]), np.array([1.0, 0.5, 2.0, 1.0])


def mlp(activation, *sizes):
    # It stops at once, as those of `FINALS` do that would take long: the weights are drawn in `fitted`.
    return MLPClassifier(sizes, activation=activation, tol=10, n_iter_no_change=1, random_state=0)


FINALS = [
    LogisticRegression(max_iter=5),
    LogisticRegression(max_iter=5, fit_intercept=False),
    LogisticRegressionCV(Cs=1, cv=2, max_iter=5),
    LinearDiscriminantAnalysis(),
    LinearSVC(),
    LinearSVC(fit_intercept=False),
    LinearSVC(multi_class="crammer_singer"),
    RidgeClassifier(),
    RidgeClassifierCV(),
    Perceptron(),
    SGDClassifier("hinge"),
    SGDClassifier("log_loss"),
    SGDClassifier("modified_huber"),
    SGDClassifier("squared_hinge"),
    SGDClassifier("perceptron"),
    SGDClassifier("squared_error"),
    mlp("identity", 4),
    mlp("logistic", 5, 4),
    mlp("tanh", 4, 3, 3),
    mlp("relu", 6, 4),
    mlp("relu"),
]
if "multi_class" in LogisticRegression().get_params():  # before scikit-learn 1.8
    FINALS += [LogisticRegression(max_iter=5, multi_class=how) for how in ("auto", "ovr", "multinomial")]
    FINALS += [LogisticRegression(solver="liblinear")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # it leaves with scikit-learn 1.10
    FINALS.append(PassiveAggressiveClassifier())
STEPS = [
    [],
    [StandardScaler()],
    [StandardScaler(copy=False)],
    [MinMaxScaler((-3, 2))],
    [MaxAbsScaler(), "passthrough"],
    [None, RobustScaler(), PCA(3, whiten=True)],
    [StandardScaler(), PCA()],
    [StandardScaler(), IncrementalPCA(2)],
    [StandardScaler(), TruncatedSVD(2)],
    [VarianceThreshold(), RobustScaler(with_centering=False), SelectKBest(k=3)],
    [make_pipeline(MinMaxScaler(), "passthrough"), make_pipeline(SelectPercentile(percentile=50))],
]
seeds = st.integers(0, 2**32 - 1)


def rows(rng, n, named=False):
    X = rng.normal(CENTRES, SPREADS, (n, 4))
    return pd.DataFrame(X, columns=NAMES) if named else X


def last(estimator):
    estimator = getattr(estimator, "best_estimator_", estimator)
    return last(estimator[-1]) if hasattr(estimator, "steps") else estimator


def fitted(estimator, rng, classes, named=False, pandas=False):
    """Fit on noise, then draw weights: what is learnt does not matter here."""
    y = np.repeat(["a", "b", "c", "d"][:classes], 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise does not converge, and some settings are on their way out
        estimator = clone(estimator)
        if pandas:
            estimator.set_output(transform="pandas")
        estimator.fit(rows(rng, len(y), named), y)
    final = last(estimator)
    if hasattr(final, "coefs_"):
        final.coefs_ = [rng.normal(size=weights.shape) / np.sqrt(len(weights)) for weights in final.coefs_]
        final.intercepts_ = [rng.normal(size=bias.shape) for bias in final.intercepts_]
    else:
        final.coef_ = rng.normal(size=np.shape(final.coef_)) / 2
        if np.ndim(final.intercept_):
            final.intercept_ = rng.normal(size=final.intercept_.shape)
    return estimator


def loss(estimator, X, classes):
    """Compute what `derive` says that it differentiates, from what the estimator itself answers."""
    if hasattr(estimator, "predict_proba") and getattr(last(estimator), "loss", "log_loss") == "log_loss":
        return -np.log(estimator.predict_proba(X)[np.arange(len(X)), classes])
    values = estimator.decision_function(X)
    if values.ndim == 1:
        return -log_expit(np.where(classes == 1, values, -values))
    return -log_softmax(values, axis=1)[np.arange(len(X)), classes]


def check(estimator, X, classes):
    """Compare the gradients with central differences of the loss."""
    model = wrap(estimator, input="frame" if isinstance(X, pd.DataFrame) else None)
    assert model.gradient_source == "closed form"
    gradients = ModelClient(model).gradients(X, classes)
    size = 1e-3 + np.abs(gradients).max(axis=1)
    step, compared = 1e-6, 0
    for column, unit in enumerate(np.eye(4) * step):
        below, at, above = (loss(estimator, X + shift, classes) for shift in (-unit, 0 * unit, unit))
        close = np.abs(gradients[:, column] - (above - below) / (2 * step)) <= 1e-4 * size
        # Probabilities that are one minus something have too few digits for differences where they are small.
        judged = at < 7
        if getattr(last(estimator), "activation", None) == "relu":
            # Where the slopes to the two sides differ, there is a kink between them.
            judged &= np.abs(above - 2 * at + below) <= 1e-4 * size * step
        assert close[judged].all()
        compared += judged.sum()
    assert compared >= len(X)


@pytest.mark.parametrize("final", FINALS, ids=repr)
@given(seeds, st.integers(2, 4), st.sampled_from(STEPS), st.booleans(), st.booleans())
@settings(max_examples=8)
def test_gradients_are_those_of_the_loss(final, seed, classes, steps, named, pandas):
    rng = np.random.default_rng(seed)
    estimator = make_pipeline(*steps, final) if steps else final
    check(fitted(estimator, rng, classes, named, pandas and steps), rows(rng, 8, named), rng.integers(classes, size=8))


@pytest.mark.parametrize("final", [LogisticRegression(), LinearSVC(), mlp("tanh", 3)], ids=repr)
@pytest.mark.parametrize("named", [False, True])
def test_the_best_of_a_search_is_differentiated(final, named):
    rng = np.random.default_rng(0)
    inside = GridSearchCV(make_pipeline(StandardScaler(), final), {"standardscaler__with_mean": [True, False]}, cv=2)
    around = make_pipeline(MinMaxScaler(), GridSearchCV(final, {"random_state": [0]}, cv=2))
    for estimator in (inside, around):
        check(fitted(estimator, rng, 3, named), rows(rng, 8, named), rng.integers(3, size=8))


@pytest.mark.parametrize("estimator", [LogisticRegression(), SGDClassifier(), LinearSVC()], ids=repr)
def test_sparse_weights(estimator):
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        sparse = fitted(estimator, rng, classes).sparsify()
        assert not isinstance(sparse.coef_, np.ndarray)
        check(sparse, rows(rng, 8), rng.integers(classes, size=8))


def test_weights_of_single_precision():
    rng = np.random.default_rng(0)
    X, y = rows(rng, 60).astype(np.float32), np.tile([0, 1, 2], 20)
    estimator = make_pipeline(StandardScaler(), mlp("logistic", 4)).fit(X, y)
    assert estimator[-1].coefs_[0].dtype == np.float32
    check(estimator, rows(rng, 8), rng.integers(3, size=8))


@pytest.mark.parametrize("final", FINALS, ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_far_from_the_boundary_are_finite(final, classes):
    rng = np.random.default_rng(0)
    model = wrap(fitted(final, rng, classes))
    far = rows(rng, 50) * np.logspace(0, 200, 50)[:, np.newaxis]
    for wanted in range(classes):
        gradients = ModelClient(model).gradients(far, np.full(50, wanted))
        assert (np.abs(gradients) < 1e3).all()


@pytest.mark.parametrize("final", [LogisticRegression(), SGDClassifier("log_loss"), mlp("identity", 3)], ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_certain_decisions_keep_a_direction(final, classes):
    # At a margin of a hundred the probability is 1 to the last digit, and the loss is 0; its slope is not.
    estimator = fitted(final, np.random.default_rng(0), classes)
    X = rows(np.random.default_rng(1), 200) * 40
    answer = estimator.predict_proba(X)
    certain = answer.max(axis=1) == 1
    assert certain.any()
    gradients = wrap(estimator).gradients(X, answer.argmax(axis=1))
    assert (np.abs(gradients[certain]).max(axis=1) < 1e-10).all()
    # One-vs-rest goes by the likelier of the others, which may be far off as well.
    assert np.count_nonzero(gradients[certain].any(axis=1)) > certain.sum() / 2


def test_certain_decisions_keep_the_right_direction():
    estimator = fitted(LogisticRegression(), np.random.default_rng(0), 3)
    X = rows(np.random.default_rng(1), 200) * 40
    classes = estimator.predict_proba(X).argmax(axis=1)
    gradients = wrap(estimator).gradients(X, classes)
    estimator.coef_ = estimator.coef_ + np.arange(4)  # the softmax does not look at what all values have in common
    np.testing.assert_allclose(wrap(estimator).gradients(X, classes), gradients, rtol=1e-6)


def test_columns_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 50)
    X = np.column_stack([1.7e9 + 1e3 * rng.random(100), rng.random(100) + y])
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    scaler, final = estimator[0], estimator[-1]
    expected = (estimator.predict_proba(X)[:, 1] - y)[:, np.newaxis] * final.coef_ / scaler.scale_
    np.testing.assert_allclose(wrap(estimator).gradients(X, y), expected, rtol=1e-6)


def test_frames_are_picked_from():
    rng = np.random.default_rng(0)
    estimator = fitted(make_pipeline(StandardScaler(), mlp("relu", 5)), rng, 2, named=True)
    model, X = wrap(estimator), rows(rng, 20, named=True)
    classes = rng.integers(2, size=20)
    gradients = model.gradients(X, classes)
    shuffled = X.assign(extra="text")[["income", "extra", "points", "ratio", "age"]]
    assert (model.gradients(shuffled, classes) == gradients).all()
    whole = X.round().astype({"age": int, "points": bool})
    assert (model.gradients(whole, classes) == model.gradients(whole.astype(float), classes)).all()


def test_options_do_not_change_gradients():
    rng = np.random.default_rng(0)
    model = wrap(fitted(LogisticRegression(), rng, 2))
    X, classes = rows(rng, 20), rng.integers(2, size=20)
    cut = wrap(model, threshold=0.9, timeout=60)
    assert cut.gradient_source == "closed form"
    assert (ModelClient(cut).gradients(X, classes) == model.gradients(X, classes)).all()


def test_no_rows_have_no_gradients():
    for classes in (2, 3):
        model = wrap(fitted(mlp("tanh", 3), np.random.default_rng(0), classes))
        assert ModelClient(model).gradients(np.empty((0, 4)), np.empty(0, dtype=np.int64)).shape == (0, 4)


def test_forms_can_be_pickled():
    rng = np.random.default_rng(0)
    form = derive(fitted(make_pipeline(StandardScaler(), SGDClassifier("log_loss")), rng, 3))
    X, classes = rows(rng, 5), rng.integers(3, size=5)
    expected = form(X, classes)
    assert (pickle.loads(pickle.dumps(form))(X, classes) == expected).all()


NOISE = rows(np.random.default_rng(0), 90)
THREE = np.tile([0, 1, 2], 30)
MANY = np.random.default_rng(0).integers(2, size=(90, 3))


class Mine(LogisticRegression):
    def predict_proba(self, X):
        return super().predict_proba(X) ** 2


Mine.__name__ = "LogisticRegression"  # somebody else's class may well have a name that is known


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5),
        SVC(kernel="linear"),
        OneVsRestClassifier(LogisticRegression()),
        CalibratedClassifierCV(LinearSVC()),
        Mine(),
        make_pipeline(MinMaxScaler(clip=True), LogisticRegression()),
        make_pipeline(QuantileTransformer(n_quantiles=20), LogisticRegression()),
        make_pipeline(StandardScaler(), make_pipeline(QuantileTransformer(n_quantiles=20), PCA()), LinearSVC()),
        GridSearchCV(RandomForestClassifier(5), {"max_depth": [2]}, cv=2),
        make_pipeline(StandardScaler(), RandomForestClassifier(5)),
    ],
    ids=repr,
)
def test_other_models_have_no_closed_form(estimator):
    model = wrap(estimator.fit(NOISE, THREE))
    assert model.gradient_source is None
    with pytest.raises(ModelError, match="has no gradients"):
        ModelClient(model).gradients(NOISE, THREE)


def test_encoded_text_has_no_closed_form():
    encode = make_column_transformer((OneHotEncoder(), ["work", "sex"]))
    frame = people()
    assert wrap(make_pipeline(encode, LogisticRegression()).fit(frame, answers(frame))).gradient_source is None


@pytest.mark.parametrize("estimator", [LinearRegression(), mlp("relu", 3), RidgeClassifier()], ids=repr)
@pytest.mark.parametrize("labels", [2, 3])
def test_several_answers_have_no_closed_form(estimator, labels):
    assert derive(estimator.fit(NOISE, MANY[:, :labels])) is None


def test_numbers_and_single_classes_have_no_closed_form():
    assert derive(MLPRegressor(hidden_layer_sizes=3, tol=10, n_iter_no_change=1).fit(NOISE, THREE)) is None
    assert derive(mlp("relu", 3).fit(NOISE, np.zeros(90))) is None
    assert derive(RidgeClassifier().fit(NOISE, np.zeros(90))) is None
