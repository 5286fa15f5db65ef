"""scikit-learn models load from skops files; forged and unknown ones are refused."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from evenhand.errors import ModelError
from evenhand.models.files import HARMLESS, TREE, check_trees, load_model

io = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"]).assign(s=RNG.choice(["x", "y", "z"], 120))
Y = np.where(FRAME["a"] + (FRAME["s"] == "x") > 0.3, "yes", "no")
NUMBERS = FRAME[["a", "b", "c"]].to_numpy()

CLASSIFIERS = [
    RandomForestClassifier(5, random_state=0),
    RandomForestClassifier(5, max_leaf_nodes=6, random_state=0),
    ExtraTreesClassifier(5, random_state=0),
    DecisionTreeClassifier(random_state=0, ccp_alpha=0.01),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    HistGradientBoostingClassifier(max_iter=5, random_state=0),
    AdaBoostClassifier(n_estimators=5, random_state=0),
    BaggingClassifier(n_estimators=3, max_features=0.5, random_state=0),
    CalibratedClassifierCV(RandomForestClassifier(3, random_state=0), cv=2),
    VotingClassifier([("a", LogisticRegression()), ("b", RandomForestClassifier(3, random_state=0))]),
    StackingClassifier([("a", LogisticRegression())], RandomForestClassifier(3, random_state=0), cv=2),
    MLPClassifier((4,), max_iter=20, random_state=0),
    GridSearchCV(RandomForestClassifier(3, random_state=0), {"max_depth": [2, 3]}, cv=2),
    TunedThresholdClassifierCV(LogisticRegression(), cv=2),
]


def encoder():
    numbers = make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")
    return make_column_transformer((OneHotEncoder(sparse_output=False), ["s"]), numbers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_pipelines_of_scikit_learn_need_no_trust(classifier, tmp_path):
    fitted = make_pipeline(encoder(), classifier).fit(FRAME, Y)
    io.dump(fitted, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").labels(FRAME) == fitted.predict(FRAME)).all()


@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")
@pytest.mark.parametrize("kind", [object, np.number, np.integer, np.floating], ids=lambda kind: kind.__name__)
def test_types_that_select_columns_need_no_trust(kind, tmp_path):
    columns = make_column_selector(dtype_include=kind)
    encode = make_column_transformer((OneHotEncoder(), ["s"]), (OneHotEncoder(), columns))
    fitted = make_pipeline(encode, DecisionTreeClassifier()).fit(FRAME, Y)
    io.dump(fitted, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").labels(FRAME) == fitted.predict(FRAME)).all()


def test_bins_need_no_trust(tmp_path):
    bins = KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf")
    fitted = make_pipeline(bins, DecisionTreeClassifier()).fit(NUMBERS, Y)
    io.dump(fitted, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").labels(NUMBERS) == fitted.predict(NUMBERS)).all()


def test_every_allowed_name_is_a_type_or_a_pure_function_that_is_there():
    import importlib

    for name in HARMLESS:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute, None)
        # Names that come and go with the version of scikit-learn may be missing; nothing else may stand there.
        assert found is None or isinstance(found, type) or attribute in {
            "balanced_accuracy_score", "chi2", "f_classif", "f_regression"
        }  # fmt: skip


@pytest.mark.parametrize(
    "outside",
    [
        FunctionTransformer(np.loadtxt),
        FunctionTransformer(np.fromfile),
        FunctionTransformer(pd.read_pickle),
        KNeighborsClassifier(),
    ],
    ids=["loadtxt", "fromfile", "read_pickle", "neighbours"],
)
def test_types_outside_the_list_need_trust(outside, tmp_path):
    estimator = outside if hasattr(outside, "predict") else make_pipeline(outside, LogisticRegression())
    if hasattr(outside, "predict"):
        estimator.fit(NUMBERS, Y)
    io.dump(estimator, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="may be unsafe"):
        load_model(tmp_path / "m.skops")


def with_nodes(tree, **changes):
    state = tree.__getstate__()
    for field, (place, value) in changes.items():
        state["nodes"][field][place] = value
    tree.__setstate__(state)


FORGED = {
    "a child beyond the end": {"left_child": (0, 10**6)},
    "a child before the beginning": {"right_child": (0, -5)},
    "a child that is its own parent": {"left_child": (0, 0)},
    "a column beyond the row": {"feature": (0, 3)},
    "a negative column": {"feature": (0, -7)},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier, GradientBoostingClassifier])
def test_a_forged_tree_is_refused(kind, changes, tmp_path):
    fitted = kind(random_state=0).fit(NUMBERS, Y)
    tree = fitted if kind is DecisionTreeClassifier else np.ravel(fitted.estimators_)[-1]
    with_nodes(tree.tree_, **changes)
    io.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(ModelError, match=r"could crash Python.*trust=\['sklearn.tree._tree.Tree'\]"):
        load_model(tmp_path / "m.skops")


def test_a_forged_width_is_refused(tmp_path):
    fitted = RandomForestClassifier(3, random_state=0).fit(NUMBERS, Y)
    fitted.n_features_in_ = 1
    io.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="columns that do not exist"):
        load_model(tmp_path / "m.skops")
    fitted.n_features_in_ = 3
    del fitted.estimators_[1].n_features_in_
    io.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="width of a tree"):
        load_model(tmp_path / "m.skops")


@pytest.mark.parametrize(
    ("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 3), ("feature_idx", -1), ("is_categorical", 1)]
)
def test_a_forged_histogram_tree_is_refused(field, value, tmp_path):
    fitted = HistGradientBoostingClassifier(max_iter=3).fit(NUMBERS, Y)
    fitted._predictors[-1][0].nodes[field][0] = value
    io.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="could crash Python"):
        load_model(tmp_path / "m.skops")


def test_a_forged_depth_is_refused(tmp_path):
    fitted = DecisionTreeClassifier(random_state=0).fit(NUMBERS, Y)
    io.dump(fitted, tmp_path / "good.skops")
    with zipfile.ZipFile(tmp_path / "good.skops") as good, zipfile.ZipFile(tmp_path / "m.skops", "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                entry = schema["content"]["content"]["tree_"]["content"]["content"]["max_depth"]
                assert entry["content"] == str(fitted.tree_.max_depth)
                entry["content"] = "0"
                content = json.dumps(schema).encode()
            bad.writestr(name, content)
    with pytest.raises(ModelError, match="deeper than it claims"):
        load_model(tmp_path / "m.skops")


def test_a_tree_outside_of_an_estimator_is_refused():
    with pytest.raises(ModelError, match="outside an estimator"):
        check_trees([DecisionTreeClassifier().fit(NUMBERS, Y).tree_])


def test_trusted_trees_are_not_checked(tmp_path):
    fitted = DecisionTreeClassifier(random_state=0).fit(NUMBERS, Y)
    fitted.extra = [DecisionTreeClassifier(max_depth=1).fit(NUMBERS, Y).tree_]
    io.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(ModelError, match="outside an estimator"):
        load_model(tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops", trust=[TREE]).labels(NUMBERS) == fitted.predict(NUMBERS)).all()
