"""The largest gap of scores equals enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.errors import BudgetError, ModelError
from tests.proofs.test_prove import rows, small
from tests.proofs.worlds import ensembles, everyone, pipeline, spaces, sums

SEEDS = st.integers(0, 10_000)


def scores(model: Any, X: Any) -> Any:
    """Return what a gap is measured in, from the model itself."""
    final = model[-1]
    if type(final).__name__.endswith(("ForestClassifier", "TreesClassifier")):
        return model.predict_proba(X)[:, 1]
    if hasattr(final, "get_booster"):
        return final.predict(model[:-1].transform(X), output_margin=True)
    if hasattr(final, "booster_"):
        return final.predict(model[:-1].transform(X), raw_score=True)
    return model.decision_function(X)


def agrees(space: eh.Space, kind: Any, seed: int) -> None:
    try:
        model = pipeline(space, kind(seed), seed)
    except ValueError:  # fewer than two classes
        return
    gap = eh.prove(model, space, seconds=5).largest_gap()
    people = space.individuals(everyone(space))
    families = space.families(people, 0)
    families = families[np.flatnonzero(families.testable)] if families.testable is not None else families
    if not len(families):
        assert gap.high == 0
        return
    grid = families.to_grid(np.asarray(scores(model, space.frame(families.asked))))
    valid = np.ones(grid.shape, dtype=bool) if families.valid is None else families.valid
    most = np.where(valid, grid, -np.inf).max(axis=1) - np.where(valid, grid, np.inf).min(axis=1)
    assert gap.exact
    assert gap.high == pytest.approx(float(most.max()), rel=1e-5, abs=1e-5)
    if gap.pair is not None:
        assert gap.low > 0


@settings(max_examples=8)
@given(spaces(), SEEDS)
def test_gaps_of_small_worlds(space: eh.Space, seed: int) -> None:
    agrees(space, [sums, ensembles][seed % 2], seed // 2)


@pytest.mark.slow
@settings(max_examples=200)
@given(spaces(), SEEDS)
def test_gaps_of_many_worlds(space: eh.Space, seed: int) -> None:
    agrees(space, [sums, ensembles][seed % 2], seed // 2)


def test_trees_have_no_scores() -> None:
    proof = eh.prove(DecisionTreeClassifier().fit(*rows(small())), small())
    with pytest.raises(ModelError, match="decision tree"):
        proof.largest_gap()
    with pytest.raises(BudgetError, match="seconds"):
        proof.largest_gap(0)
