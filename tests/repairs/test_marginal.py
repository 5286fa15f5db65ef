"""The averaging wrapper, against complete small spaces and an average in plain loops."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DataError, ModelError, NotFitted, SpaceError
from evenhand.repairs import marginal
from tests.helpers import optional
from tests.worlds import World, worlds

from .people import repair

SPACE = eh.Space([eh.Integer("age", 18, 60), eh.Nominal("sex", ["F", "M"])], protected="sex")

QUICK: dict[str, Any] = {"samples": 100, "budget": eh.Budget(tests=50)}


def people(n: int = 300, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 61, n), "sex": rng.choice(["F", "M"], n)})
    return frame, np.where(frame["age"] + 12 * (frame["sex"] == "M") + rng.normal(0, 6, n) > 45, "yes", "no")


def logistic() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    coded = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(coded, LogisticRegression(max_iter=2000))


def everyone(space: eh.Space) -> Any:
    return space.coding.rows(np.arange(space.coding.total))


def linked(world: World, seed: int) -> World:
    """The same world with random links, most of which have no way back."""
    rng, space = np.random.default_rng(seed), world.space
    links: dict[str, Any] = {}
    for name in space.protected:
        size = space.attributes[space.column(name)].size
        free = str(rng.choice(space.free))
        values = range(space.attributes[space.column(free)].size)
        links[name] = {free: {int(v): {int(rng.choice(values)): int(rng.choice(values))} for v in range(size)}}
    texts = [c.text for c in space.constraints]
    return World(eh.Space(space.attributes, space.protected, texts, links), world.table)


@settings(max_examples=60, deadline=None)
@given(worlds(most=200, constraints=True), st.booleans(), st.integers(0, 99))
def test_no_individual_is_treated_differently(world: World, with_links: bool, seed: int) -> None:
    world = linked(world, seed) if with_links else world
    rows = everyone(world.space)
    fair = eh.MarginalModel(world.model, world.space)
    order = np.random.default_rng(seed).permutation(len(rows))
    scores, labels = np.empty((len(rows), len(world.model.classes))), np.empty(len(rows), dtype=int)
    scores[order], labels[order] = fair.scores(rows[order].astype(float)), fair.predict(rows[order].astype(float))
    for row in rows:
        members = world.space.coding.ids(np.array([row, *world._members(row)]))
        if world.space.valid(row[None])[0]:
            assert (scores[members] == scores[members[0]]).all()
            assert (labels[members] == labels[members[0]]).all()


@settings(max_examples=40, deadline=None)
@given(worlds(most=150, constraints=True), st.integers(0, 99))
def test_it_is_the_average_over_the_valid_members(world: World, seed: int) -> None:
    space, rng = world.space, np.random.default_rng(seed)
    sizes = [space.attributes[j].size for j in space.protected_columns]
    weights = {c if len(c) > 1 else c[0]: float(rng.integers(1, 5)) for c in np.ndindex(*sizes)}
    got = eh.MarginalModel(world.model, space, weights).scores(everyone(space).astype(float))
    for row, said in zip(everyone(space), got, strict=True):
        members = world._members(row)
        if not members:
            continue
        counts = [weights[tuple(m[space.protected_columns]) if len(sizes) > 1 else int(m[space.protected_columns[0]])]
                  for m in members]  # fmt: skip
        own = world.model.scores(np.array(members, dtype=float))
        np.testing.assert_allclose(said, np.average(own, axis=0, weights=counts), rtol=1e-12)


def test_linked_people_are_averaged_over_each_other() -> None:
    kinds = ["Husband", "Wife", "Single"]
    links = {"sex": {"kind": {"F": {"Husband": "Wife"}, "M": {"Wife": "Husband"}}}}
    space = eh.Space([eh.Nominal("kind", kinds), eh.Nominal("sex", ["F", "M"])], "sex", links=links)
    value = {("Husband", "M"): 8.0, ("Wife", "F"): 4.0, ("Single", "F"): 1.0, ("Single", "M"): 3.0}

    def price(frame: pd.DataFrame) -> Any:
        return [value.get(pair, 1000.0) for pair in zip(frame["kind"], frame["sex"], strict=True)]

    rows = pd.DataFrame([(k, s) for k in [*kinds, "Widow"] for s in "FM"], columns=["kind", "sex"])
    said = eh.MarginalModel(price, space).scores(rows)[:, 0]
    # A female husband has the same score as a husband, and does not enter into it. Widows are unknown.
    assert said.tolist() == [6.0] * 4 + [2.0] * 2 + [1000.0] * 2
    assert not eh.estimate(eh.MarginalModel(price, space).scores, space, criterion=eh.Gap(0)).found


def test_one_call_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, y = people()
    fitted, calls = logistic().fit(frame, y), []

    def watched(rows: pd.DataFrame) -> Any:
        calls.append(len(rows))
        return fitted.predict_proba(rows)

    expected = eh.MarginalModel(watched, SPACE).scores(frame)
    # As many families as ages; both sexes of each.
    assert calls == [2 * frame["age"].nunique()]
    monkeypatch.setattr(marginal, "CALL", 16)
    # Chunks add up in other blocks, and what is left to differ is the model's own rounding.
    np.testing.assert_allclose(eh.MarginalModel(watched, SPACE).scores(frame), expected, rtol=1e-12)
    assert max(calls[1:]) == 16
    assert eh.MarginalModel(fitted, SPACE).predict(frame[:0]).shape == (0,)


def test_a_search_finds_nothing_and_the_accuracy_stays() -> None:
    frame, y = people()
    fitted = logistic().fit(frame, y)
    fair = eh.MarginalModel(fitted, SPACE)
    assert eh.estimate(fitted, SPACE).rate > 0.05
    assert eh.estimate(fair, SPACE).verdict == "none found"
    assert eh.audit(fair, SPACE, criterion=eh.Gap(0.0), data=frame).found == 0
    assert fair.score(frame, y) > 0.7
    assert eh.wrap(fair).columns == ("age", "sex")


def test_scikit_learn_takes_it_for_an_estimator(tmp_path: Path) -> None:
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import check_is_fitted

    frame, y = people()
    fair = eh.MarginalModel(logistic(), SPACE, weights="data")
    assert is_classifier(fair)
    assert cross_val_score(fair, frame, y, cv=3, scoring="roc_auc").min() > 0.7
    piped = Pipeline([("same", FunctionTransformer()), ("fair", fair)]).fit(frame, y)
    assert piped.score(frame, y) > 0.7
    search = GridSearchCV(fair, {"model__logisticregression__C": [0.01, 1.0]}, cv=2).fit(frame, y)
    assert set(search.best_estimator_.predict(frame)) <= {"no", "yes"}
    again = clone(piped[-1])
    assert (again.weights, again.space, hasattr(again, "model_")) == ("data", SPACE, False)
    with pytest.raises(Exception, match="not fitted"):
        again.predict(frame)
    check_is_fitted(piped[-1])
    assert not again.__sklearn_is_fitted__()
    assert piped[-1].classes_.tolist() == ["no", "yes"]
    assert (piped[-1].n_features_in_, list(piped[-1].feature_names_in_)) == (2, ["age", "sex"])
    numbers = frame.assign(sex=frame["sex"] == "M").to_numpy(float)
    coded = eh.Space([eh.Integer("age", 18, 60), eh.Integer("sex", 0, 1)], protected="sex")
    line = eh.MarginalModel(LinearRegression(), coded).fit(numbers, numbers @ [1.0, 10.0])
    assert is_regressor(line)
    np.testing.assert_allclose(line.predict(numbers), numbers[:, 0] + 5)
    assert line.score(numbers, numbers[:, 0] + 5) == pytest.approx(1)
    assert not hasattr(line, "predict_proba")
    assert not hasattr(line, "feature_names_in_")
    with pytest.raises(ValueError, match="no parameter 'C'"):
        fair.set_params(C=3)


@pytest.mark.parametrize("weights", [None, {"F": 3, "M": 1}, "data"])
def test_it_goes_through_files(weights: Any, tmp_path: Path) -> None:
    frame, y = people()
    fair = eh.MarginalModel(logistic(), SPACE, weights, threshold=0.3).fit(frame, y)
    stored = pickle.loads(pickle.dumps(fair))
    assert (stored.predict_proba(frame) == fair.predict_proba(frame)).all()
    assert (stored.space, stored.weights) == (SPACE, weights)
    skops = optional("skops.io")
    skops.dump(fair, tmp_path / "fair.skops")
    model = eh.load_model(tmp_path / "fair.skops")
    assert (model.labels(frame) == fair.predict(frame)).all()
    assert not eh.estimate(model, SPACE).found
    # A copy with weights of several attributes, whose keys are tuples.
    both = eh.Space([eh.Integer("age", 18, 60), eh.Nominal("sex", ["F", "M"]), eh.Boolean("old")], ["sex", "old"])
    two = pickle.loads(pickle.dumps(eh.MarginalModel(len, both, {("F", True): 1})))
    assert two.weights == {("F", True): 1.0}


def test_the_threshold_in_use_counts() -> None:
    frame, y = people()
    fitted = logistic().fit(frame, y)
    averages = eh.MarginalModel(fitted, SPACE).predict_proba(frame)[:, 1]
    for fair in (
        eh.MarginalModel(fitted, SPACE, threshold=0.2),
        eh.MarginalModel(eh.wrap(fitted, threshold=0.2), SPACE),
    ):
        assert (fair.predict(frame) == np.where(averages >= 0.2, "yes", "no")).all()


def test_models_with_other_decision_rules() -> None:
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.svm import LinearSVC

    frame, y = people()
    numbers = frame.assign(sex=(frame["sex"] == "M").astype(float)).to_numpy(float)
    space = eh.Space([eh.Integer("age", 18, 60), eh.Integer("sex", 0, 1)], protected="sex")
    svm = eh.MarginalModel(LinearSVC(), space).fit(numbers, y)
    both = [svm.model_.decision_function(np.column_stack([numbers[:, 0], np.full(len(y), sex)])) for sex in (0.0, 1.0)]
    np.testing.assert_allclose(svm.decision_function(numbers), np.mean(both, axis=0))
    assert (svm.predict(numbers) == np.where(np.mean(both, axis=0) > 0, "yes", "no")).all()
    # One with a threshold of its own votes, and men count more here.
    own = FixedThresholdClassifier(logistic(), threshold=0.2, pos_label="yes")
    voted = eh.MarginalModel(own, SPACE, {"F": 1, "M": 2}).fit(frame, y)
    assert (voted.predict(frame) == voted.model_.predict(frame.assign(sex="M"))).all()


def test_votes_and_ties() -> None:
    def rule(frame: pd.DataFrame) -> Any:
        return np.where((frame["age"] > 40) & (frame["sex"] == "M"), "yes", "no")

    frame = pd.DataFrame({"age": [50, 50, 20], "sex": ["F", "M", "M"]})
    assert eh.MarginalModel(rule, SPACE).predict(frame).tolist() == ["no", "no", "no"]
    assert eh.MarginalModel(rule, SPACE, {"M": 0.6, "F": 0.4}).predict(frame).tolist() == ["yes", "yes", "no"]
    with pytest.raises(ModelError, match="labels only"):
        eh.MarginalModel(rule, SPACE).scores(frame)


def test_rows_outside_the_space() -> None:
    seen: list[pd.DataFrame] = []

    def rule(frame: pd.DataFrame) -> Any:
        seen.append(frame)
        return frame["age"] / 100 + (frame["sex"] == "M")

    frame = pd.DataFrame({"age": [20, 200], "sex": ["X", None], "note": ["a", "b"]})
    fair = eh.MarginalModel(rule, SPACE)
    assert fair.predict(frame).tolist() == [0.7, 2.5]
    # What is not protected arrives as it came.
    assert seen[0]["age"].tolist() == [20, 20, 200, 200]
    assert seen[0]["note"].tolist() == ["a", "a", "b", "b"]
    assert fair.predict(frame.drop(columns="sex")).tolist() == [0.7, 2.5]
    with pytest.raises(DataError, match="'age'"):
        fair.predict(frame.drop(columns="age"))


def test_constraints_exclude_invalid_individuals() -> None:
    space = eh.Space(
        [eh.Integer("age", 0, 9), eh.Nominal("kind", ["a", "b", "c"])], "kind", ["kind != 'c' or age > 5", "age != 3"]
    )

    def rule(frame: pd.DataFrame) -> Any:
        return frame["kind"].map({"a": 1.0, "b": 2.0, "c": 6.0})

    rows = pd.DataFrame({"age": [2, 8, 2, 3], "kind": ["a", "a", "c", "b"]})
    assert eh.MarginalModel(rule, space).scores(rows)[:, 0].tolist() == [1.5, 3.0, 1.5, 1.5]
    # Weights on no valid individual: all valid ones count alike.
    assert eh.MarginalModel(rule, space, {"c": 1}).scores(rows)[:, 0].tolist() == [1.5, 6.0, 1.5, 1.5]


def test_too_many_combinations_have_a_fixed_choice() -> None:
    space = eh.Space([eh.Integer("age", 0, 9), eh.Integer("home", 0, 9999)], protected="home", max_family_size=50)
    fair = eh.MarginalModel(lambda f: f["home"] / 1.0, space)
    rows = pd.DataFrame({"age": [3, 3, 4], "home": [0, 7777, 5]})
    assert fair.sampled
    said = fair.scores(rows)[:, 0]
    assert set(said) == {said[0]}
    # One from the middle of each stretch: the mean is that of all.
    assert said[0] == pytest.approx(4999.5, abs=1)
    assert not eh.MarginalModel(len, SPACE).sampled


def test_whole_numbers_of_a_function_are_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    def men(frame: pd.DataFrame) -> Any:
        return (frame["sex"] == "M").astype(float)

    class Rule:
        """Has predict, and does not say what it is."""

        def predict(self, X: Any) -> Any:
            return X[:, 1].astype(int)

    frame, y = people(40)
    for weights, right in ((None, 0), ({"F": 1, "M": 2}, 1)):
        assert set(eh.MarginalModel(men, SPACE, weights).predict(frame).tolist()) == {right}
        coded = eh.Space([eh.Integer("age", 18, 60), eh.Integer("sex", 0, 1)], protected="sex")
        votes = None if weights is None else {0: 1, 1: 2}
        assert set(eh.MarginalModel(Rule(), coded, votes).predict(np.array([[20, 0], [30, 1]])).tolist()) == {right}
    # Scores are numbers whatever they are, and one fraction makes all answers of a call numbers, chunks or not.
    assert set(eh.MarginalModel(men, SPACE).scores(frame)[:, 0]) == {0.5}
    price = eh.MarginalModel(lambda f: f["age"] / 2 + (f["sex"] == "M"), SPACE)
    for call in (2, marginal.CALL):
        monkeypatch.setattr(marginal, "CALL", call)
        assert price.predict(frame).tolist() == (frame["age"] / 2 + 0.5).tolist()
    # Through a repair.
    done = repair(lambda X, y: men, frame, (y == "yes").astype(int), SPACE, "marginal", **QUICK)
    assert (done.before.uniform.rate, done.after.uniform.rate) == (1, 0)  # type: ignore[union-attr]


def test_a_function_that_cannot_make_up_its_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginal, "CALL", 2)
    fair = eh.MarginalModel(lambda f: f["age"] / 100 if f["age"].iloc[0] < 30 else ["x"] * len(f), SPACE)
    with pytest.raises(ModelError, match="labels for some rows"):
        fair.predict(pd.DataFrame({"age": [20, 40], "sex": ["F", "M"]}))


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        ({"X": 1}, "'X'"),
        ({"F": -1}, "0 or more"),
        ({"F": float("nan")}, "finite"),
        ({"F": 0.0}, "above 0"),
        ({("F", "M"): 1}, "not a value of"),
        ([1, 2], "mapping"),
        ({"F": "many"}, "finite"),
        ("shares", "call fit first"),
        ("data", "call fit first"),
    ],
)
def test_wrong_weights(weights: Any, word: str) -> None:
    frame, y = people()
    with pytest.raises((SpaceError, ModelError), match=word):
        eh.MarginalModel(logistic().fit(frame, y), SPACE, weights).predict(frame)


def test_models_that_cannot_be_fitted_raise() -> None:
    frame, y = people()
    with pytest.raises(ModelError, match="cannot be fitted"):
        eh.MarginalModel(lambda f: f["age"], SPACE).fit(frame, y)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        eh.MarginalModel(lambda f: 1 / 0, SPACE).predict(frame)
    with pytest.raises(DataError, match="named columns"):
        eh.MarginalModel(logistic().fit(frame, y), SPACE).predict(frame.to_numpy())
    with pytest.raises(SpaceError, match=r"eh\.Space"):
        eh.MarginalModel(logistic(), "x")  # type: ignore[arg-type]
    with pytest.raises(SpaceError, match=r"eh\.Space"):
        eh.MarginalModel(logistic(), SPACE).set_params(space="x")
    fair = eh.MarginalModel(logistic().fit(frame, y), SPACE)
    with pytest.raises(DataError, match="each of 300 rows"):
        fair.score(frame, y[:-1])
    with pytest.raises(DataError, match="sample_weight"):
        fair.score(frame, y, sample_weight=[1.0])
    with pytest.raises(DataError, match="columns"):
        eh.MarginalModel.shares(SPACE, np.zeros(3))
    numbers = eh.MarginalModel(eh.wrap(lambda X: X[:, 0], input="array"), SPACE)
    with pytest.raises(DataError, match="takes numbers"):
        numbers.predict(frame)


def test_scores_of_rows_that_count() -> None:
    frame, y = people()
    fair = eh.MarginalModel(logistic().fit(frame, y), SPACE)
    right = fair.predict(frame) == y
    weights = np.where(right, 3.0, 1.0)
    assert fair.score(frame, y, sample_weight=weights) == pytest.approx(3 * right.sum() / weights.sum())
    assert fair.score(frame, y, weights * 0 + 1) == fair.score(frame, y) == right.mean()


def test_unfitted_models_have_no_fitted_attributes() -> None:
    from sklearn.tree import DecisionTreeClassifier

    for model in (logistic(), DecisionTreeClassifier()):
        bare = eh.MarginalModel(model, SPACE)
        assert not hasattr(bare, "classes_")
        assert not hasattr(bare, "feature_names_in_")
        assert hasattr(bare, "predict_proba")
        with pytest.raises(NotFitted, match="not fitted"):
            bare.predict(people(3)[0])


def test_no_rows_give_empty_scores_of_the_right_width() -> None:
    from sklearn.svm import LinearSVC

    frame, y = people()
    three = np.where(frame["age"] > 50, "old", y)
    numbers = frame.assign(sex=(frame["sex"] == "M").astype(float)).to_numpy(float)
    coded = eh.Space([eh.Integer("age", 18, 60), eh.Integer("sex", 0, 1)], protected="sex")
    for right in (y, three):
        fair = eh.MarginalModel(logistic().fit(frame, right), SPACE)
        assert fair.predict_proba(frame[:0]).shape == (0, *fair.predict_proba(frame).shape[1:])
        assert (fair.predict(frame[:0]).shape, fair.predict(frame[:0]).dtype) == ((0,), fair.predict(frame).dtype)
        svm = eh.MarginalModel(LinearSVC(), coded).fit(numbers, right)
        assert svm.decision_function(numbers[:0]).shape == (0, *svm.decision_function(numbers).shape[1:])


def test_as_a_model_it_has_the_features_of_the_inner_model() -> None:
    """Scores of functions and networks, and with them AUC, calibration and gaps."""
    frame, y = people()

    def score(rows: pd.DataFrame) -> Any:
        return 1 / (1 + np.exp(-(rows["age"] + 9 * (rows["sex"] == "M") - 42) / 9))

    fair = eh.wrap(eh.MarginalModel(score, SPACE, threshold=0.5))
    assert (fair.has_scores, fair.threshold, fair.columns) == (True, 0.5, ("age", "sex"))
    np.testing.assert_array_equal(fair.labels(frame), fair.decide(fair.scores(frame)))
    other = eh.wrap(eh.MarginalModel(score, SPACE), threshold=0.3)
    assert (other.labels(frame) == (other.scores(frame)[:, 0] >= 0.3)).all()
    assert not eh.audit(fair, SPACE, criterion=eh.Gap(0.0), budget=eh.Budget(tests=100)).found
    # The classes are those of the model inside, and one that votes is not taken to follow its scores.
    fitted = eh.wrap(eh.MarginalModel(logistic().fit(frame, y), SPACE))
    assert (fitted.classes.tolist(), fitted.decides) == (["no", "yes"], True)  # type: ignore[union-attr]
    with pytest.raises(ModelError, match="from 0 to 1"):
        eh.wrap(eh.MarginalModel(logistic().fit(frame, y), SPACE), threshold=2)
    method: dict[str, Any] = {"method": "marginal", "criterion": eh.Gap(0.05)}
    right = (y == "yes").astype(int)
    done = repair(lambda X, y: eh.wrap(score, threshold=0.5), frame, right, SPACE, **method, **QUICK)
    assert done.after.auc is not None
    assert done.after.calibration is not None
    assert done.after.uniform.rate == 0  # type: ignore[union-attr]


def test_networks() -> None:
    torch = optional("torch")
    space = eh.Space([eh.Integer("age", 18, 60), eh.Integer("sex", 0, 1)], protected="sex")
    net = torch.nn.Linear(2, 1)
    net.load_state_dict({"weight": torch.tensor([[0.2, 3.0]]), "bias": torch.tensor([-9.0])})
    frame, y = people()
    numbers = frame.assign(sex=(frame["sex"] == "M").astype(float)).to_numpy(float)
    method: dict[str, Any] = {"method": "marginal", "criterion": eh.Gap(0.05)}
    right = (y == "yes").astype(int)
    done = repair(lambda X, y: net, numbers, right, space, **method, **QUICK)
    assert done.before.auc is not None
    assert done.after.auc is not None
    assert done.after.calibration is not None
    assert done.after.uniform.rate == 0  # type: ignore[union-attr]

    class Labels(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x[:, 1].long()

    assert set(eh.MarginalModel(Labels(), space, {0: 1, 1: 2}).predict(numbers).tolist()) == {1}


def test_a_model_of_fewer_columns_than_the_space() -> None:
    space = eh.Space([*SPACE.attributes, eh.Integer("hours", 1, 9)], "sex", ["sex == 'F' or hours > 2"])
    frame, y = people()
    fair = eh.MarginalModel(logistic().fit(frame, y), space)
    assert not eh.estimate(fair, space, samples=500).found
