from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import evenhand as eh
from evenhand import _keyset
from evenhand._keyset import Memo, Visited, visited_of
from evenhand.engine.determinism import RowChecks
from evenhand.spaces.individuals import Individuals
from tests.worlds import World, random_world, worlds

AGES = [eh.Integer("age", 0, 8), eh.Nominal("work", range(3)), eh.Nominal("sex", range(2))]
LINKED = eh.Space(AGES, protected="sex", links={"sex": {"work": {0: {1: 2}, 1: {2: 1}}}})
SAMPLED = eh.Space([eh.Integer("age", 0, 8), eh.Integer("group", 0, 9)], protected="group", max_family_size=4)
PLAIN = eh.Space(AGES, protected="sex", constraints=["age > 2 or work == 1"])
LARGE = eh.Space([eh.Real(f"a{i}", 0, 1, step=1e-6) for i in range(5)] + [eh.Boolean("member")], protected="member")


def lookup(space: eh.Space) -> World:
    return World(space, np.arange(space.coding.total) % 3)


@settings(max_examples=25, deadline=None)
@given(world=worlds(constraints=True))
def test_tests_are_recovered_from_keys(world: World) -> None:
    run = eh.audit(world.model, world.space, "themis")
    assert run.origin is not None
    assert run.origin.visited is not None
    families = world.families()
    for block in run.origin.visited:
        asked = world.space.families(block, run.identity.seed)
        for key, rows, valid in zip(
            block.keys.tolist(), asked.rows, np.ones(len(block)) if asked.valid is None else asked.valid, strict=True
        ):
            members = rows[np.broadcast_to(valid, len(rows)).astype(bool)]
            assert sorted(members.tolist()) == sorted(m.tolist() for m in families.pop(key))
    assert not families


@pytest.mark.parametrize(("space", "tell"), [(PLAIN, True), (LINKED, False), (SAMPLED, False), (LARGE, False)])
def test_visited_individuals_are_kept_only_where_keys_are_not_enough(space: eh.Space, tell: bool) -> None:
    assert (visited_of(space) is None) is tell


@pytest.mark.parametrize("space", [PLAIN, LINKED, SAMPLED])
def test_every_test_is_there_once(space: eh.Space) -> None:
    run = eh.audit(eh.wrap(lookup(space).model, chunk=8), space, "themis", seed=3)
    assert run.origin is not None
    assert run.origin.visited is not None
    keys = np.concatenate([block.keys for block in run.origin.visited])
    assert len(keys) == len(np.unique(keys)) == run.tests


def test_sampled_families_keep_their_individual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A family that is a sample always has the individual itself in it, so the key alone does not tell the family."""
    # Without the rows that check the model: first those that identify it are asked, then all tests.
    monkeypatch.setattr(RowChecks, "check", lambda *_: (0, 0))
    world = lookup(SAMPLED)
    asked: list[Any] = []

    class Listening(World):
        def __call__(self, X: Any) -> Any:
            asked.append(np.asarray(X, dtype=np.int32))
            return super().__call__(X)

    run = eh.audit(Listening(SAMPLED, world.table).model, SAMPLED, "themis", seed=3)
    assert run.origin is not None
    assert run.origin.visited is not None
    again = [SAMPLED.families(block, 3).asked for block in run.origin.visited]
    fixed, tests = len(SAMPLED.probes(None)), np.concatenate(again)
    assert tests.tolist() == np.concatenate(asked)[fixed : fixed + len(tests)].tolist()


def test_blocks_are_of_moderate_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keyset, "ROWS", 10)
    ids = np.arange(0, 54, 2)
    kept = Visited(PLAIN)
    kept.add(Individuals(PLAIN, ids=ids))
    blocks = list(kept)
    assert [len(block) for block in blocks] == [5] * 5 + [2]
    assert np.concatenate([block.ids for block in blocks]).tolist() == ids.tolist()
    memo = Memo()
    memo.add(ids * 2, np.ones(len(ids), dtype=bool))
    blocks = list(Visited(PLAIN, memo))
    assert [len(block) for block in blocks] == [5] * 5 + [2]
    assert np.concatenate([block.ids for block in blocks]).tolist() == (ids * 2).tolist()


def test_a_large_space_keeps_a_limited_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keyset, "KEPT", 100 * LARGE.individuals(np.zeros((1, 6), dtype=np.int32)).stored.nbytes)
    for tests in (100, 101, 300):
        run = eh.audit(eh.wrap(lambda frame: frame["a1"] > 0.5, chunk=20), LARGE, "themis", eh.Budget(tests=tests))
        assert run.origin is not None
        assert run.origin.visited is not None
        assert run.origin.visited.known is (tests == 100)
        assert sum(map(len, run.origin.visited)) == (100 if tests == 100 else 0)


def test_a_run_is_pickled_without_its_origin() -> None:
    world = random_world(1, 3000)
    run = eh.audit(lambda frame: frame["a0"] > 2, world.space, "themis")
    again = pickle.loads(pickle.dumps(run))
    assert again.origin is None
    assert again.to_dict() == run.to_dict()
