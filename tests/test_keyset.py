from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import _keyset as memo_module
from evenhand._keyset import Memo
from evenhand.errors import RunError


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
        assert memo.holds(as_keys(every, kind)).tolist() == [number in known for number in every]
    assert len(memo) == len(known)


@pytest.mark.parametrize("expected", [0, 1000, 10**12])
def test_expected_values_do_not_change_answers(expected: int) -> None:
    rng, memo, known = np.random.default_rng(0), Memo(expected=expected), set[int]()
    for _ in range(30):
        keys = rng.integers(0, 20_000, 1000) * 2
        fresh = memo.fresh(keys)
        assert fresh.tolist() == [i for i in np.sort(np.unique(keys, return_index=True)[1]) if keys[i] not in known]
        memo.add(keys[fresh], np.zeros(len(fresh), dtype=bool))
        known |= set(keys.tolist())


def test_exact_when_all_keys_share_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    # With one place for all, every key moves on to the next free place.
    monkeypatch.setattr(memo_module, "_scrambled", lambda keys, places: np.zeros(len(keys), dtype=np.int64))
    rng = np.random.default_rng(0)
    memo, known = Memo(), set()
    for _ in range(50):
        keys = rng.integers(0, 3000, 200) * 2
        fresh = memo.fresh(keys)
        expected = [i for i, k in enumerate(keys.tolist()) if k not in known and k not in keys[:i].tolist()]
        assert fresh.tolist() == expected
        memo.add(keys[fresh], np.zeros(len(fresh), dtype=bool))
        known |= set(keys.tolist())


@pytest.mark.parametrize("kind", ["whole", "complex"])
@pytest.mark.parametrize("own", [True, False])
def test_older_keys_go_to_a_file(monkeypatch: pytest.MonkeyPatch, kind: str, own: bool) -> None:
    for name, value in {"MOST": 8, "FIRST": 4, "BITS": 12, "MOST_BITS": 16, "PART": 64}.items():
        monkeypatch.setattr(memo_module, name, value)
    memo, every = Memo(2000 if own and kind == "whole" else None), as_keys(np.arange(1000), kind)
    unfair = np.arange(1000) % 3 == 0
    for part in np.split(np.arange(1000), 20):
        fresh = memo.fresh(every[part])
        if own and kind == "whole":
            assert len(fresh) == 50
        memo.add(every[part], unfair[part])
        # What was judged is never taken for new.
        assert not len(memo.fresh(every[: part[-1] + 1]))
    assert len(memo) == 1000
    assert memo._older is not None
    assert memo._older.count >= 800
    known, found = memo.lookup(as_keys(np.arange(1100), kind))
    assert known.tolist() == [True] * 1000 + [False] * 100
    assert found[:1000].tolist() == unfair.tolist()
    packed = np.concatenate([np.asarray(part) for part in memo.segments])
    assert sorted(packed.tolist(), key=str) == sorted((every + unfair * memo_module._one(every)).tolist(), key=str)
    if kind == "whole" and not own:
        # Some new keys may be taken for known, but few.
        assert memo.holds(as_keys(np.arange(10_000, 20_000), kind)).mean() < 0.2


def test_a_full_disk_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MOST": 4, "FIRST": 4}.items():
        monkeypatch.setattr(memo_module, name, value)

    class Full:
        def write(self, data: Any) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(memo_module, "temporary", lambda owner: Full())
    memo = Memo()
    memo.add(np.arange(8) * 2, np.zeros(8, dtype=bool))
    with pytest.raises(RunError, match="TMPDIR"):
        memo.add(np.arange(8, 16) * 2, np.zeros(8, dtype=bool))
