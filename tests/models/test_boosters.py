"""XGBoost, LightGBM and CatBoost: wrapped models give the same answers as the originals."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.wrap import wrap
from tests.helpers import optional
from tests.models.people import COLUMNS, answers, approved, categories, frames, numbers, people

FRAME = people()
CODED = categories(FRAME)
X = numbers(FRAME)
YES = approved(FRAME).astype(int)
TEXT = answers(FRAME)
THREE = np.where(X[:, 0] > 6, 2, YES)
QUIET = {"verbose": -1, "n_jobs": 1}


def agree(model, rows, labels, scores=None):
    ask = ModelClient(model)
    assert ask.labels(rows, len(rows)).tolist() == np.ravel(labels).tolist()
    if scores is not None:
        got, decisions = ask.both(rows, len(rows))
        np.testing.assert_array_equal(got, scores)
        assert decisions.tolist() == np.ravel(labels).tolist()


def xgboost_booster(objective, rows=X, target=YES, **more):
    xgboost = optional("xgboost")
    data = xgboost.DMatrix(rows, label=target, enable_categorical=True)
    return xgboost.train({"objective": objective, "nthread": 1, **more}, data, 4)


def test_xgboost_classifiers():
    xgboost = optional("xgboost")
    for target in (YES, THREE):
        plain = xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, target)
        assert wrap(plain).input == "array"
        agree(wrap(plain), X, plain.predict(X), plain.predict_proba(X))
    regressor = xgboost.XGBRegressor(n_estimators=4, n_jobs=1).fit(X, X[:, 0])
    assert wrap(regressor).regression


@cache
def xgboost_on_frames():
    return optional("xgboost").XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True).fit(CODED, YES)


@pytest.mark.slow
@given(frames())
@settings(deadline=None)
def test_xgboost_takes_texts_for_the_categories_it_learned(frame):
    estimator = xgboost_on_frames()
    expected = estimator.predict_proba(categories(frame))
    for model in (wrap(estimator), wrap(estimator.get_booster())):
        assert model.columns == tuple(COLUMNS)
        np.testing.assert_allclose(ModelClient(model).scores(frame, len(frame)), expected, rtol=1e-6)
    agree(wrap(estimator), frame, estimator.predict(categories(frame)))


def test_xgboost_boosters_by_objective():
    xgboost = optional("xgboost")
    data = xgboost.DMatrix(X)
    binary = xgboost_booster("binary:logistic")
    chance = binary.predict(data).astype(float)
    agree(wrap(binary), X, chance > 0.5, np.column_stack([1 - chance, chance]))
    agree(wrap(binary, threshold=0.3), X, chance >= 0.3)
    raw = xgboost_booster("binary:logitraw")
    agree(wrap(raw), X, raw.predict(data) > 0, raw.predict(data)[:, np.newaxis])
    three = xgboost_booster("multi:softprob", target=THREE, num_class=3)
    agree(wrap(three), X, three.predict(data).argmax(axis=1), three.predict(data))
    for objective, target, more in (("multi:softmax", THREE, {"num_class": 3}), ("binary:hinge", YES, {})):
        labels = xgboost_booster(objective, target=target, **more)
        assert not wrap(labels).has_scores
        agree(wrap(labels), X, labels.predict(data))
    number = xgboost_booster("reg:squarederror")
    assert wrap(number).regression
    assert (ModelClient(wrap(number)).scores(X, len(X))[:, 0] == number.predict(data)).all()


@pytest.mark.filterwarnings("ignore:.*gblinear.*")
def test_xgboost_linear_boosters():
    filled = np.nan_to_num(X)
    linear = xgboost_booster("binary:logistic", rows=filled, booster="gblinear")
    agree(wrap(linear), filled, linear.predict(optional("xgboost").DMatrix(filled)) > 0.5)


def test_xgboost_answers_rows_of_which_a_category_column_has_no_value():
    xgboost = optional("xgboost")
    optional("pyarrow")
    frame = FRAME.assign(work=[None if at % 4 == 0 else work for at, work in enumerate(FRAME["work"])])
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True).fit(categories(frame), approved(FRAME))
    lacking = frame[frame["work"].isna()]
    expected = model.predict(categories(frame))[frame["work"].isna()]
    for one in (model, model.get_booster()):
        assert (wrap(one).labels(lacking) == expected).all()


def test_xgboost_without_its_categories_is_refused():
    from evenhand.models.boosters import XgboostFrame

    with pytest.raises(ModelError, match=r"categories of work.*XGBoost 3\.1"):
        XgboostFrame(("age", "work"), known=False)(FRAME)
    assert XgboostFrame(("age",), known=False)(FRAME) is FRAME


def test_lightgbm_classifiers():
    lightgbm = optional("lightgbm")
    for target in (YES, TEXT, THREE):
        plain = lightgbm.LGBMClassifier(n_estimators=4, **QUIET).fit(X, target)
        assert wrap(plain).input == "array"
        agree(wrap(plain), X, plain.predict(X), plain.predict_proba(X))
    assert wrap(lightgbm.LGBMRegressor(n_estimators=4, **QUIET).fit(X, X[:, 0])).regression


@cache
def lightgbm_on_frames():
    return optional("lightgbm").LGBMClassifier(n_estimators=4, **QUIET).fit(CODED, TEXT)


@pytest.mark.slow
@given(frames())
@settings(deadline=None)
def test_lightgbm_takes_texts_for_the_categories_it_learned(frame):
    estimator = lightgbm_on_frames()
    coded = frame.astype({"work": CODED["work"].dtype, "sex": CODED["sex"].dtype})
    agree(wrap(estimator), frame, estimator.predict(coded), estimator.predict_proba(coded))
    loaded = optional("lightgbm").Booster(model_str=estimator.booster_.model_to_string())
    for booster in (estimator.booster_, loaded):
        assert wrap(booster).columns == tuple(COLUMNS)
        np.testing.assert_array_equal(wrap(booster).scores(frame)[:, 1], booster.predict(coded))


def test_lightgbm_takes_ordered_and_numeric_categories():
    lightgbm = optional("lightgbm")
    order = CODED.assign(work=CODED["work"].cat.as_ordered())
    estimator = lightgbm.LGBMClassifier(n_estimators=4, **QUIET).fit(order, TEXT)
    agree(wrap(estimator), FRAME, estimator.predict(order))
    aged = CODED.astype({"age": "category"})
    estimator = lightgbm.LGBMClassifier(n_estimators=4, **QUIET).fit(aged, TEXT)
    agree(wrap(estimator), FRAME, estimator.predict(aged))


def test_lightgbm_finds_columns_that_it_renamed():
    lightgbm = optional("lightgbm")
    spaced = FRAME.rename(columns={"age": "age in years", "ratio": "debt_ratio"})[["age in years", "debt_ratio"]]
    estimator = lightgbm.LGBMClassifier(n_estimators=4, **QUIET).fit(spaced, TEXT)
    model = wrap(estimator)
    assert model.input == "frame"
    shuffled = spaced.assign(extra="x")[["extra", "debt_ratio", "age in years"]]
    agree(model, shuffled, estimator.predict(spaced), estimator.predict_proba(spaced))
    with pytest.raises(ModelError, match="needs the columns age_in_years"):
        model.labels(spaced[["debt_ratio"]])


def test_lightgbm_boosters_by_objective():
    lightgbm = optional("lightgbm")

    def train(objective, target, **more):
        data = lightgbm.Dataset(X, target)
        return lightgbm.train({"objective": objective, "verbose": -1, "num_threads": 1, **more}, data, 4)

    binary = train("binary", YES)
    chance = binary.predict(X)
    agree(wrap(binary), X, chance > 0.5, np.column_stack([1 - chance, chance]))
    three = train("multiclass", THREE, num_class=3)
    agree(wrap(three), X, three.predict(X).argmax(axis=1), three.predict(X))
    assert wrap(train("regression", X[:, 0])).regression


def catboost(kind, target, rows=X, **more):
    package = optional("catboost")
    settings = {"iterations": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, **more}
    estimator = package.CatBoost(settings) if kind == "CatBoost" else getattr(package, kind)(**settings)
    return estimator.fit(rows, target)


def test_catboost_classifiers():
    for target in (YES, TEXT, THREE, THREE.astype(str), YES == 1):
        plain = catboost("CatBoostClassifier", target)
        assert wrap(plain).input == "array"
        agree(wrap(plain), X, plain.predict(X), plain.predict_proba(X))
    assert wrap(catboost("CatBoostRegressor", X[:, 0])).regression


@cache
def catboost_on_frames():
    return catboost("CatBoostClassifier", TEXT, FRAME, cat_features=["work", "sex"])


@given(frames())
@settings(deadline=None)
def test_catboost_on_frames(frame):
    estimator = catboost_on_frames()
    model = wrap(estimator)
    assert model.columns == tuple(COLUMNS)
    shuffled = frame.assign(extra=1)[["extra", *reversed(COLUMNS)]]
    agree(model, shuffled, estimator.predict(frame), estimator.predict_proba(frame))


def test_catboost_takes_whole_numbers_for_the_categories_it_learned():
    codes = np.nan_to_num(X[:, :3]).astype(int)
    estimator = catboost("CatBoostClassifier", TEXT, codes, cat_features=[1, 2])
    agree(wrap(estimator), codes.astype(float), estimator.predict(codes), estimator.predict_proba(codes))


def test_catboost_native_models(tmp_path):
    for target, loss in ((YES, "Logloss"), (THREE, "MultiClass")):
        native = catboost("CatBoost", target, loss_function=loss)
        chances = native.predict(X, prediction_type="Probability")
        agree(wrap(native), X, native.predict(X, prediction_type="Class"), chances)
    number = catboost("CatBoost", X[:, 0], loss_function="RMSE")
    assert wrap(number).regression
    assert (wrap(number).scores(X)[:, 0] == number.predict(X)).all()


def test_catboost_keeps_a_threshold_of_its_own(tmp_path):
    estimator = catboost("CatBoostClassifier", TEXT)
    before = estimator.predict(X)
    estimator.set_probability_threshold(0.2)
    assert (estimator.predict(X) != before).any()
    agree(wrap(estimator), X, estimator.predict(X), estimator.predict_proba(X))
    estimator.save_model(tmp_path / "model.cbm")
    native = optional("catboost").CatBoost().load_model(tmp_path / "model.cbm")
    agree(wrap(native), X, estimator.predict(X), estimator.predict_proba(X))
    agree(wrap(native, threshold=0.6), X, np.where(estimator.predict_proba(X)[:, 1] >= 0.6, "yes", "no"))


def test_unfitted_boosters_are_refused():
    package = optional("catboost")
    for model in (package.CatBoost(), package.CatBoostClassifier()):
        with pytest.raises(ModelError, match="not fitted"):
            wrap(model)
    for name, kind in (("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")):
        with pytest.raises(ModelError, match="not fitted"):
            wrap(getattr(optional(name), kind)())


def test_missing_columns_are_named():
    for model in (wrap(xgboost_on_frames()), wrap(catboost_on_frames()), wrap(lightgbm_on_frames().booster_)):
        with pytest.raises(ModelError, match="needs the columns sex"):
            model.labels(FRAME.drop(columns="sex"))


def test_models_can_be_sent_to_another_process():
    models = [wrap(lightgbm_on_frames().booster_), wrap(xgboost_on_frames().get_booster())]
    for model in models:
        again = pickle.loads(pickle.dumps(model))
        assert (again.labels(FRAME) == model.labels(FRAME)).all()
