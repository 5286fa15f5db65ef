from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.criterion import Outputs


@given(st.data(), st.integers(1, 6), st.integers(2, 5), st.integers(1, 3))
def test_all_criteria_agree_with_plain_loops(data: st.DataObject, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    labels = rng.integers(0, 3, (n, m)).astype(rng.choice(["int64", "U1", "object"]))
    scores, own = rng.random((n, m, k)).round(1), rng.integers(0, m, n)
    outputs = Outputs(labels, scores, own)
    flip, gap = eh.Flip().judge(outputs), eh.Gap(0.35).judge(outputs)
    both, either = (eh.Flip() & eh.Gap(0.35)).judge(outputs), (eh.Flip() | eh.Gap(0.35)).judge(outputs)
    for i in range(n):
        flips = any(a != b for a, b in itertools.combinations(labels[i], 2))
        widest = max(abs(scores[i, a, c] - scores[i, b, c]) for a in range(m) for b in range(m) for c in range(k))
        assert (flip.unfair[i], gap.unfair[i]) == (flips, widest > 0.35)
        assert gap.gap[i] == pytest.approx(widest)
        assert both.unfair[i] == (flips and widest > 0.35)
        assert either.unfair[i] == (flips or widest > 0.35)
        if flips:
            assert flip.first[i] == own[i]
            assert labels[i, flip.first[i]] != labels[i, flip.second[i]]
        assert np.abs(scores[i, gap.first[i]] - scores[i, gap.second[i]]).max() == pytest.approx(widest)


@pytest.mark.parametrize("gamma", [-0.1, float("nan"), float("inf"), "x", None])
def test_wrong_gamma(gamma: Any) -> None:
    with pytest.raises(eh.errors.StrategyError, match="gamma"):
        eh.Gap(gamma)
