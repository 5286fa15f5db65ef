from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.criteria import Outputs
from evenhand.errors import ModelError


@given(st.data(), st.integers(1, 6), st.integers(2, 5), st.integers(1, 3))
def test_all_criteria_agree_with_plain_loops(data: st.DataObject, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    labels = rng.integers(0, 3, (n, m)).astype(rng.choice(["int64", "U1", "object"]))
    scores, own = rng.random((n, m, k)).round(1), rng.integers(0, m, n)
    outputs = Outputs(labels, scores, own)
    flip, gap = eh.Flip().judge(outputs), eh.Gap(0.35).judge(outputs)
    both, either = (eh.Flip() & eh.Gap(0.35)).judge(outputs), (eh.Flip() | eh.Gap(0.35)).judge(outputs)
    for i in range(n):
        pairs = list(itertools.permutations(range(m), 2))
        flips = {(a, b) for a, b in pairs if labels[i, a] != labels[i, b]}
        gaps = {(a, b): np.abs(scores[i, a] - scores[i, b]).max() for a, b in pairs}
        wide = {pair for pair in pairs if gaps[pair] > 0.35}
        for judged, shows in ((flip, flips), (gap, wide), (both, flips & wide), (either, flips | wide)):
            assert judged.unfair[i] == bool(shows)
            if shows:
                pair = (judged.first[i], judged.second[i])
                assert pair in shows
                assert judged.gap[i] == pytest.approx(gaps[pair])
        if flips:
            assert flip.first[i] == own[i]
        assert gap.gap[i] == pytest.approx(max(gaps.values()))
        if flips & wide:
            assert both.gap[i] == pytest.approx(max(gaps[pair] for pair in flips))


def test_without_scores_the_gap_of_a_flip_is_one() -> None:
    judged = eh.Flip().judge(Outputs(np.array([[1, 2]]), None, np.array([1])))
    assert (judged.first[0], judged.second[0], judged.gap[0]) == (1, 0, 1.0)


def test_criteria_distribute() -> None:
    nested = (eh.Flip() | eh.Gap(0.5)) & eh.Gap(0.2)
    assert [(c.flip, c.gamma) for c in nested.clauses] == [(True, 0.2), (False, 0.5)]
    assert not eh.Flip().needs_scores
    assert nested.needs_scores


@pytest.mark.parametrize("gamma", [-0.1, float("nan"), float("inf"), "x", None])
def test_wrong_gamma(gamma: Any) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Gap(gamma)
    assert caught.value.parameter == "gamma"


BY_SEX = eh.Space([eh.Integer("age", 18, 80), eh.Integer("pay", 0, 9_999), eh.Boolean("sex")], protected="sex")


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(18, 80, 300), rng.integers(0, 9_999, 300), rng.integers(0, 2, 300)])
    return LogisticRegression().fit(X, X[:, 0] + 30 * X[:, 2] > 60)


@pytest.mark.parametrize("criterion", [eh.Gap(1), eh.Gap(3), eh.Flip() | eh.Gap(2), eh.Flip() & eh.Gap(1.5)])
def test_a_gap_that_probabilities_cannot_have_is_refused(criterion: Any) -> None:
    share = eh.wrap(lambda X: X[:, 0] / 100, input="array", threshold=0.5)
    for model in (logistic(), share):
        with pytest.raises(ModelError, match="no pair can be found") as caught:
            eh.audit(model, BY_SEX, "themis", eh.Budget(tests=100), criterion=criterion)
        assert "Gap(0.1)" in str(caught.value)
        with pytest.raises(ModelError, match="no pair can be found"):
            eh.estimate(model, BY_SEX, samples=100, criterion=criterion)


def test_a_wide_gap_of_amounts_or_decision_values_is_accepted() -> None:
    pay = eh.wrap(lambda X: X[:, 0] / 100 + 0 * X[:, 2], input="array", regression=True)
    tall = eh.wrap(lambda X: X[:, 0] / 10 + 4 * X[:, 2], input="array", threshold=0.5)
    for model, found in ((pay, 0), (tall, 100)):
        assert eh.audit(model, BY_SEX, "themis", eh.Budget(tests=100), criterion=eh.Gap(3)).found == found
    assert eh.audit(logistic(), BY_SEX, "themis", eh.Budget(tests=100), criterion=eh.Gap(0.99)).found == 0
