"""Individuals are judged outside a run as the run judges them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import evenhand as eh
from evenhand.engine.judge import RowLimitReached
from evenhand.errors import SpaceError
from evenhand.runs.replay import judge_of, probe_of
from tests.worlds import World, worlds


@settings(max_examples=40)
@given(worlds(constraints=True))
def test_verdicts_are_those_of_enumeration(world: World) -> None:
    run = eh.audit(world.model, world.space, "themis", eh.Budget(tests=5))
    rows = world.space.coding.rows(np.arange(world.space.coding.total))
    people = world.space.individuals(np.repeat(rows[world.space.valid(rows)], 2, axis=0))
    judge, before = judge_of(run, probe_of(run, None, "")), world.rows
    able, unfair = judge.judged(people)
    tests, found = world.families(), world.unfair_keys()
    assert able.tolist() == [key in tests for key in people.keys.tolist()]
    assert unfair.tolist() == [key in found for key in people.keys.tolist()]
    # Each test once, however often it comes.
    assert judge.rows == world.rows - before == sum(map(len, tests.values()))


def test_nothing_is_asked_beyond_the_limit() -> None:
    space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("sex")], protected="sex")
    run = eh.audit(lambda frame: frame["age"] > 3, space, "themis")
    judge = judge_of(run, probe_of(run, None, ""), limit=5)
    people = space.individuals([[1, 0], [2, 0], [3, 0]])
    with pytest.raises(RowLimitReached):
        judge.unfair(people)
    assert judge.rows == 0
    judge.unfair(people[:2])
    assert judge.rows == 4


@pytest.mark.parametrize("call", [eh.regions, eh.examples, lambda run: eh.compare(run, run)])
def test_what_is_for_attributes_says_so(call: Any) -> None:
    run = eh.audit(lambda t: ["Sikh" in one for one in t], eh.TextSpace("religion"), "text-random", data=["A Jew."])
    with pytest.raises(SpaceError, match="attributes, and this is a space of texts"):
        call(run)
