"""Proofs on larger spaces, what they refuse, and samples of what is undecided."""

from __future__ import annotations

import signal
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.errors import BudgetError, EvenhandError, ModelError, SpaceError
from evenhand.proofs import additive
from evenhand.proofs.boxes import Walk
from tests.proofs.worlds import truth

CREDIT = eh.datasets.load("german")
FRAME = CREDIT.paper_frame()
X, Y = FRAME.iloc[:, :-1], FRAME.iloc[:, -1]
SPACE = CREDIT.paper_space("sex")


def small() -> eh.Space:
    return eh.Space([eh.Integer("age", 0, 9), eh.Integer("hours", 0, 9), eh.Boolean("member")], protected="member")


def rows(space: eh.Space, n: int = 200, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, space.sizes, size=(n, len(space.sizes)))
    noise = rng.normal(size=n)
    return space.array(codes), (codes @ [1.0, -0.7, 3.0] + noise > 2).astype(int)


def test_a_large_tree_agrees_with_its_estimate_and_with_its_model() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(X, Y)
    proof = eh.prove(model, SPACE, data=X)
    assert proof.status.value == "exact"
    estimate = eh.estimate(model, SPACE, samples=20_000, confidence=0.9999)
    assert estimate.low <= proof.rate <= estimate.high
    assert proof.check(20_000) == 20_000
    assert proof.data.total == len(X)
    by_rows = eh.estimate(model, SPACE, eh.populations.Data(X, about="rows"))
    assert proof.data.unfair == by_rows.found


def test_a_large_linear_model_has_tight_bounds_around_the_truth() -> None:
    model = LogisticRegression(max_iter=3000).fit(X, Y)
    proof = eh.prove(model, SPACE)
    assert proof.status.value == "bracket"
    assert 0 < proof.undecided < 1e-5
    estimate = eh.estimate(model, SPACE, samples=20_000, confidence=0.9999)
    assert estimate.low < proof.unfair < estimate.high
    assert proof.check(20_000) > 19_900


def test_marginals_are_the_shares_of_independent_draws() -> None:
    space = small()
    data, labels = rows(space)
    for model in (DecisionTreeClassifier(max_depth=4), LogisticRegression()):
        model.fit(data, labels)
        frame = space.frame(space.encode(dict(zip(space.names, data.T, strict=True))).individuals.rows)
        proof = eh.prove(model, space, data=frame)
        shares = [np.bincount(data[:, j].astype(int), minlength=size) / len(data) for j, size in enumerate(space.sizes)]
        free = np.stack(np.meshgrid(range(10), range(10), indexing="ij"), -1).reshape(-1, 2)
        asked = [model.predict(np.column_stack([free, np.full(100, value)])) for value in (0, 1)]
        weights = shares[0][free[:, 0]] * shares[1][free[:, 1]]
        assert proof.marginals.shares[1] == pytest.approx(weights[asked[0] != asked[1]].sum())


@pytest.mark.parametrize("kind", [RandomForestClassifier, xgboost.XGBClassifier])
def test_an_ensemble_that_stops_has_bounds_around_the_truth(kind: Any) -> None:
    model = kind(n_estimators=20, max_depth=3, random_state=0).fit(X, Y)
    proof = eh.prove(model, SPACE, boxes=4_000)
    estimate = eh.estimate(model, SPACE, samples=20_000, confidence=0.9999)
    assert proof.status.value == "stopped"
    assert proof.low <= estimate.high
    assert estimate.low <= proof.high
    assert proof.undecided < 0.9
    assert proof.check(20_000) > 1_000
    sampled = proof.estimate(5_000, confidence=0.9999)
    assert sampled.low <= estimate.high
    assert estimate.low <= sampled.high


@pytest.mark.parametrize("kind", [xgboost.XGBClassifier, lightgbm.LGBMClassifier])
def test_boosted_stumps(kind: Any) -> None:
    space = small()
    model = kind(n_estimators=8, max_depth=1, verbosity=0 if kind is xgboost.XGBClassifier else -1)
    model.fit(*rows(space))
    proof = eh.prove(model, space)
    fair, unfair, _ = truth(model, space)
    assert (proof.counts.fair, proof.counts.unfair) == (fair, unfair)
    with pytest.raises(EvenhandError, match="no certificate"):
        proof.save("proof.json.gz")


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.73])
def test_thresholds(threshold: float) -> None:
    space = small()
    for model in (LogisticRegression(), DecisionTreeClassifier(max_depth=4)):
        model = eh.wrap(model.fit(*rows(space)), threshold=threshold)
        proof = eh.prove(model, space)
        assert (proof.counts.fair, proof.counts.unfair) == truth(model, space)[:2]


def test_scores_that_equal_the_threshold_are_asked_about() -> None:
    space = small()
    model = LogisticRegression().fit(*rows(space))
    # Sums of these weights tie at the threshold again and again.
    model.coef_, model.intercept_ = np.array([[0.1, -0.3, 0.2]]), np.array([0.0])
    proof = eh.prove(model, space)
    assert (proof.counts.fair, proof.counts.unfair) == truth(model, space)[:2]
    assert proof.status.value == "exact"


def test_a_model_that_ignores_the_protected_attribute_is_fair() -> None:
    space = small()
    data, labels = rows(space)
    model = DecisionTreeClassifier().fit(data * [1, 1, 0], labels)
    proof = eh.prove(model, space)
    assert proof.status.value == "fair"
    assert proof.counterexample is None
    assert set(proof.regions["attribute"]) == {"age", "hours"}


def test_limits_give_the_bounds_reached() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(X, Y)
    proof = eh.prove(model, SPACE, boxes=10)
    exact = eh.prove(model, SPACE)
    assert proof.status.value == "stopped"
    assert proof.low <= exact.rate <= proof.high
    sampled = proof.estimate(2_000, seed=1)
    assert sampled.low <= exact.rate <= sampled.high
    assert sampled.high - sampled.low < proof.high - proof.low


def test_ctrl_c_gives_the_bounds_reached(monkeypatch: pytest.MonkeyPatch, ctrl_c: None) -> None:
    step = Walk.step

    def interrupted(self: Walk) -> None:
        step(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Walk, "step", interrupted)
    proof = eh.prove(DecisionTreeClassifier(random_state=0).fit(X, Y), SPACE)
    assert proof.status.value == "stopped"
    assert proof.counts.undecided
    del ctrl_c


def test_samples_of_the_undecided_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "CELLS", 64)
    monkeypatch.setattr(additive.count, "__defaults__", (0,))
    space, held = small(), 0
    for seed in range(40):
        model = LogisticRegression().fit(*rows(space, seed=seed))
        proof = eh.prove(model, space)
        fair, unfair, _ = truth(model, space)
        sampled = proof.estimate(200, seed=seed)
        held += sampled.low <= unfair / (fair + unfair) <= sampled.high
    assert held >= 36


def nan_weights() -> Any:
    model = LogisticRegression().fit(*rows(small()))
    model.coef_ = model.coef_ * np.nan
    return model


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (lambda: nan_weights(), EvenhandError, "finite"),
        (lambda: make_pipeline(PCA(), LogisticRegression()).fit(*rows(small())), ModelError, "PCA"),
        (lambda: GaussianNB().fit(*rows(small())), ModelError, "eh.estimate"),
        (lambda: RandomForestClassifier(3).fit(X, X["age"] % 3), ModelError, "3 classes"),
        (lambda: lambda frame: frame["age"] > 3, ModelError, "eh.estimate"),
    ],
)
def test_models_that_cannot_be_read(model: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        eh.prove(model(), SPACE if words == "3 classes" else small())


def test_wrong_limits_and_spaces() -> None:
    model = LogisticRegression().fit(*rows(small()))
    with pytest.raises(BudgetError, match="seconds"):
        eh.prove(model, small(), seconds=0)
    with pytest.raises(BudgetError, match="boxes"):
        eh.prove(model, small(), boxes=0)
    sampled = eh.Space(
        [eh.Integer("age", 0, 9), eh.Integer("hours", 0, 9), eh.Boolean("member")], "hours", max_family_size=3
    )
    with pytest.raises(SpaceError, match="max_family_size"):
        eh.prove(model, sampled)
    huge = eh.Space([eh.Integer("age", 0, 2**30), eh.Integer("hours", 0, 9), eh.Boolean("member")], "member")
    with pytest.raises(ModelError, match="too many"):
        eh.prove(model, huge)
    wide = [eh.Integer(name, 0, 300) for name in "abc"]
    tied = eh.Space([*wide, eh.Boolean("member")], "member", ["a + b + c <= 500"])
    with pytest.raises(SpaceError, match="tie"):
        eh.prove(LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]), tied)
