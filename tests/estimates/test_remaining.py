"""Remaining regions: Chao's and Good and Turing's estimates, from independent individuals only."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import EstimateError
from evenhand.estimates.remaining import _count, chao

SPACE = eh.Space([eh.Integer(name, 0, 99) for name in "abcd"] + [eh.Boolean("s")], protected="s")


def patches(frame):
    """Treats people differently in sixteen blocks of one size, each 1/400 of everyone."""
    inside = np.ones(len(frame), dtype=bool)
    for name in "ab":
        inside &= (frame[name] % 25 < 5).to_numpy()
    return inside & frame["s"].to_numpy() & (frame["c"] < 50).to_numpy()


@given(st.lists(st.integers(1, 6), max_size=40))
def test_chao_is_the_bias_corrected_formula(times: list[int]) -> None:
    once, twice = times.count(1), times.count(2)
    assert chao(np.array(times, dtype=np.int64)) == len(times) + once * (once - 1) / (2 * (twice + 1))


def test_regions_of_a_model_with_sixteen_of_them() -> None:
    estimate = eh.estimate(patches, SPACE, samples=60_000)
    left = eh.remaining(estimate)
    assert left.seen <= left.total <= left.leaves
    assert left.seen >= 16
    assert left.findings > 400
    assert left.unseen < 0.1
    assert left.unseen <= left.unseen_high < 0.2
    assert "independent findings" in repr(left)
    json.dumps(left.to_dict(), allow_nan=False)


def test_a_search_is_looked_up_in_the_regions() -> None:
    estimate = eh.estimate(patches, SPACE, samples=60_000)
    some = eh.audit(patches, SPACE, eh.Kosei(samples=300), eh.Budget(tests=3_000))
    many = eh.audit(patches, SPACE, eh.Themis(), eh.Budget(tests=100_000), seed=9)
    none = eh.audit(lambda f: f["a"] > 3, SPACE, eh.Themis(), eh.Budget(tests=100))
    few, all_, nothing = (eh.remaining(estimate, run) for run in (some, many, none))
    assert 0 <= all_.missed < few.missed < nothing.missed == 1
    assert few.missed_low <= few.missed <= few.missed_high
    assert all_.found_by_run > few.found_by_run > nothing.found_by_run == 0
    assert nothing.left == nothing.total
    assert "the search found" in repr(few)


def test_findings_of_a_search_are_refused() -> None:
    run = eh.audit(patches, SPACE, "kosei", eh.Budget(tests=500))
    with pytest.raises(EstimateError, match="stays near its findings"):
        eh.remaining(run)
    with pytest.raises(EstimateError, match="eh.estimate"):
        eh.remaining(3)
    estimate = eh.estimate(patches, SPACE, samples=500)
    other = eh.Space([eh.Integer("a", 0, 9), eh.Boolean("s")], protected="s")
    elsewhere = eh.audit(lambda f: f["a"] > 3, other, "themis")
    with pytest.raises(EstimateError, match="same space"):
        eh.remaining(estimate, elsewhere)


def test_where_none_is_found_nothing_is_known() -> None:
    left = eh.remaining(eh.estimate(lambda f: f["a"] > 3, SPACE, samples=500))
    assert (left.findings, left.seen, left.undiscovered) == (0, 0, 0)
    assert (left.unseen, left.unseen_high) == (1, 1)


def test_where_everyone_is_asked_nothing_is_left() -> None:
    small = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Boolean("s")], protected="s")
    left = eh.remaining(eh.estimate(lambda f: f["s"] & (f["a"] < 9), small))
    assert (left.undiscovered, left.unseen, left.unseen_high) == (0, 0, 0)


def test_the_bound_on_what_is_unseen_holds() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(60, 0.3))
    held = []
    for _ in range(300):
        regions = rng.choice(60, 80, p=shares)
        left = _count(regions, 60, None, 0.95)
        held.append(shares[np.setdiff1d(np.arange(60), regions)].sum() <= left.unseen_high)
    assert np.mean(held) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 300)
