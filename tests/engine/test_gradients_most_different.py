from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.criteria import Outputs
from evenhand.engine.gradients import most_different_of


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 6), st.integers(1, 4), st.booleans())
def test_the_rival_is_the_most_different_and_flips_come_first(
    seed: int, n: int, places: int, width: int, coarse: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, places, width))
    if coarse:
        # Ties, of which the first counts.
        scores = np.round(scores)
    own = rng.integers(0, places, n)
    model: Any = eh.wrap(lambda X: X)
    if width == 1:
        model.classes = np.arange(2)
    labels = model.decide(scores.reshape(-1, width)).reshape(n, places)
    classes, chosen = most_different_of(model, Outputs(labels, scores, own))
    for i in range(n):
        y = int(scores[i, own[i], 0] > 0) if width == 1 else int(scores[i, own[i]].argmax())
        assert classes[i] == y
        column = scores[i, :, 0 if width == 1 else y]
        others = [p for p in range(places) if p != own[i]]
        flipped = [p for p in others if labels[i, p] != labels[i, own[i]]]
        best = max(flipped or others, key=lambda p: abs(column[p] - column[own[i]]))
        assert chosen[i] == best
