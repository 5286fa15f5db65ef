from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import _keyset as memo_module
from evenhand._keyset import Memo


def as_keys(numbers: Any, kind: str) -> Any:
    whole = np.asarray(numbers, dtype=np.int64)
    return whole * 2 if kind == "whole" else (whole % 7).astype(float) + 2j * (whole // 7)


@pytest.mark.parametrize("kind", ["whole", "complex"])
@settings(max_examples=150, deadline=None)
@given(blocks=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=40), max_size=12))
def test_agrees_with_a_dict(kind: str, blocks: list[list[int]]) -> None:
    memo, known = Memo(), {}
    for block in blocks:
        keys = as_keys(block, kind)
        expected = [i for i, number in enumerate(block) if number not in known and number not in block[:i]]
        fresh = memo.fresh(keys)
        assert fresh.tolist() == expected
        for i in expected:
            known[block[i]] = block[i] % 3 == 0
        memo.add(keys[fresh], np.array([known[block[i]] for i in expected], dtype=bool))
        every = list(range(61))
        assert memo.unfair(as_keys(every, kind)).tolist() == [known.get(number, False) for number in every]
    assert len(memo) == len(known)


def test_exact_when_all_keys_share_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    # With one place for all, the tables tell nothing and only the sorted segments are right.
    monkeypatch.setattr(memo_module, "_places", lambda keys, bits: np.zeros(len(keys), dtype=np.int64))
    rng = np.random.default_rng(0)
    memo, known = Memo(), set()
    for _ in range(50):
        keys = rng.integers(0, 3000, 200) * 2
        fresh = memo.fresh(keys)
        expected = [i for i, k in enumerate(keys.tolist()) if k not in known and k not in keys[:i].tolist()]
        assert fresh.tolist() == expected
        memo.add(keys[fresh], np.zeros(len(fresh), dtype=bool))
        known |= set(keys.tolist())


def test_many_blocks_stay_in_few_segments() -> None:
    memo = Memo()
    for start in range(0, 100_000, 1000):
        memo.add(np.arange(start, start + 1000) * 2, np.zeros(1000, dtype=bool))
    assert len(memo._segments) <= 10
    assert len(memo) == 100_000


def test_marks_move_to_a_larger_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo_module, "MARKS", 4)
    monkeypatch.setattr(memo_module, "MOST_MARKS", 8)
    memo = Memo()
    every = np.arange(500) * 2
    for part in np.split(every, 50):
        assert memo.fresh(part).tolist() == list(range(10))
        memo.add(part, part % 4 == 0)
        assert len(memo.fresh(every[: int(part[-1]) // 2 + 1])) == 0
    assert len(memo._marks) == 256
    assert memo.unfair(every).tolist() == (every % 4 == 0).tolist()
