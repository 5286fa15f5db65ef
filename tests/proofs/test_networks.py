"""Proofs of networks contain what enumeration says, on random small worlds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neural_network import MLPClassifier

import evenhand as eh
from evenhand.proofs import bounding, slabs
from tests.proofs.test_small_worlds import SEEDS, check
from tests.proofs.worlds import pipeline, spaces

FAST, MANY = 8, 300
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")


def network(seed: int) -> Any:
    """Return a network to be fitted."""
    return MLPClassifier(
        [(6,), (5, 4), (4, 3, 3)][seed % 3],
        activation=["relu", "tanh", "logistic", "identity"][seed // 3 % 4],
        max_iter=5,
        learning_rate_init=0.05,
        random_state=seed,
    )


def prove(space: eh.Space, seed: int, missing: bool, small: int, boxes: int) -> None:
    try:
        model = pipeline(space, network(seed), seed, missing)
    except ValueError:  # fewer than two classes, or constraints without individuals
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "SMALL", small)
        patch.setattr(slabs, "CELLS", 64)
        patch.setattr(slabs, "LISTED", 8)
        check(model, space, exact=False, boxes=boxes)


@settings(max_examples=FAST)
@given(spaces(), SEEDS, st.sampled_from([0, 4]), st.sampled_from([1, 9, 400]))
def test_networks(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, False, small, boxes)


@settings(max_examples=FAST)
@given(spaces(missing=True), SEEDS, st.sampled_from([0, 4]), st.sampled_from([1, 9, 400]))
def test_networks_with_missing_values(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, True, small, boxes)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(spaces(), SEEDS, st.sampled_from([0, 1, 4]), st.sampled_from([1, 5, 9, 40, 400]))
def test_many_networks(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, False, small, boxes)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(spaces(missing=True), SEEDS, st.sampled_from([0, 1, 4]), st.sampled_from([1, 5, 9, 40, 400]))
def test_many_networks_with_missing_values(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, True, small, boxes)
