from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand._rng import Stream, _mixed, mix


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**9), st.integers(0, 10**6))
def test_draws_do_not_depend_on_the_block(seed: int, walker: int, step: int) -> None:
    stream = Stream(seed)
    block = stream.bits("walk", np.arange(walker, walker + 5), step)
    assert [int(stream.bits("walk", walker + i, step)[0]) for i in range(5)] == block.tolist()


def test_draws_look_uniform_and_independent() -> None:
    stream = Stream(3)
    draws = [stream.unit(phase, np.arange(20_000), step) for phase in ("choice", "down") for step in (0, 1)]
    for draw in draws:
        assert stats.kstest(draw, "uniform").pvalue > 1e-3
    for i, left in enumerate(draws):
        for right in draws[i + 1 :]:
            assert abs(np.corrcoef(left, right)[0, 1]) < 0.03
    walkers = np.array([stream.unit("choice", 7, step)[0] for step in range(3000)])
    assert stats.kstest(walkers, "uniform").pvalue > 1e-3


@given(st.integers(1, 5000), st.integers(0, 100))
def test_a_shuffle_is_a_permutation(size: int, seed: int) -> None:
    dealt = Stream(seed).shuffled(np.arange(size), size, "deck")
    assert sorted(dealt.tolist()) == list(range(size))


def test_a_shuffle_is_uniform() -> None:
    first = [int(Stream(seed).shuffled(np.arange(1), 10, "deck")[0]) for seed in range(4000)]
    assert stats.chisquare(np.bincount(first, minlength=10)).pvalue > 1e-3


def test_below_is_uniform() -> None:
    counts = np.bincount(Stream(0).below(6, "sample", np.arange(60_000), 0), minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-3


@given(st.integers(0, 2**64 - 1))
def test_single_numbers_are_mixed_like_arrays(word: int) -> None:
    assert _mixed(word) == int(mix(np.array([word], dtype=np.uint64))[0])
