"""Shrunk findings are valid, discriminatory, and the nearest ones, as shown by enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.explanations.examples import Shrinker
from evenhand.runs.replay import judge_of, probe_of
from evenhand.spaces.realism import Distance
from tests.worlds import World, random_world, worlds


def plain_order(space: eh.Space, row: Any, other: Any) -> tuple[int, float]:
    """The distance, written out."""
    far = 0.0
    for a, mine, theirs in zip(space.attributes, row.tolist(), other.tolist(), strict=True):
        if mine != theirs:
            missing = a.present in (mine, theirs) and a.has_missing
            far += abs(mine - theirs) / max(a.present - 1, 1) if a.ordered and not missing else 1
    return int((row != other).sum()), far


def everybody_unfair(world: World) -> npt.NDArray[np.int32]:
    rows = world.space.coding.rows(np.arange(world.space.coding.total))
    rows = rows[world.space.valid(rows)]
    keys = world.unfair_keys()
    return rows[[key in keys for key in world.space.individuals(rows).keys.tolist()]]


def pairs(world: World, run: eh.Run, seed: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = world.space.coding.rows(np.arange(world.space.coding.total))
    rows = rows[world.space.valid(rows)]
    findings = run.pairs.individuals().rows
    return rows[rng.integers(len(rows), size=n)], findings[rng.integers(len(findings), size=n)]


@settings(max_examples=30)
@given(worlds(most=200, constraints=True), st.integers(0, 99), st.booleans())
def test_examples_are_valid_discriminatory_and_not_farther(world: World, seed: int, exact: bool) -> None:
    run = eh.audit(world.model, world.space, "themis")
    if not run.found:
        return
    people, findings = pairs(world, run, seed, 5)
    shrinker = Shrinker(judge_of(run, probe_of(run, None, "")), exact)
    unfair = {tuple(row) for row in everybody_unfair(world).tolist()}
    for rows in (shrinker.shrink(people, findings), shrinker.towards(people, findings)):
        for person, finding, row in zip(people, findings, rows, strict=True):
            assert tuple(row.tolist()) in unfair
            assert plain_order(world.space, row, person) <= plain_order(world.space, finding, person)
    if exact:
        for person, row in zip(people, shrinker.shrink(people, findings), strict=True):
            least = min(plain_order(world.space, np.array(other), person) for other in unfair)
            count, far = plain_order(world.space, row, person)
            assert (count, round(far, 9)) == (least[0], round(least[1], 9))


def test_the_search_of_large_spaces_finds_the_nearest_of_small_ones() -> None:
    nearest = tried = 0
    for seed in range(12):
        world = random_world(seed, 3000)
        run = eh.audit(world.model, world.space, "themis", eh.Budget(tests=100), seed=seed)
        if not run.found:
            continue
        people, findings = pairs(world, run, seed, 20)
        rows = Shrinker(judge_of(run, probe_of(run, None, "")), exact=False).shrink(people, findings)
        distance, unfair = Distance(world.space), everybody_unfair(world)
        least = np.array([distance.order(unfair, person).min() for person in people])
        nearest += int(np.isclose(distance.order(rows, people), least).sum())
        tried += len(people)
    assert tried >= 100
    assert nearest >= 0.99 * tried


def test_a_limit_of_rows_stops_the_search_and_keeps_what_is_found() -> None:
    world = random_world(3, 3000)
    run = eh.audit(world.model, world.space, "themis", eh.Budget(tests=100))
    people, findings = pairs(world, run, 0, 10)
    before = world.rows
    shrinker = Shrinker(judge_of(run, probe_of(run, None, ""), limit=50))
    rows = shrinker.shrink(people, findings)
    assert world.rows - before <= 50
    assert not shrinker.complete
    unfair = {tuple(row) for row in everybody_unfair(world).tolist()}
    assert all(tuple(row) in unfair for row in rows.tolist())


@given(worlds(most=200), st.integers(0, 99))
def test_distances(world: World, seed: int) -> None:
    distance, rng = Distance(world.space), np.random.default_rng(seed)
    rows = world.space.coding.rows(rng.integers(world.space.coding.total, size=12))
    one, others = rows[:4], rows[4:]
    near = distance.nearest(one, others, 3)
    for i, row in enumerate(one):
        apart = [plain_order(world.space, row, other) for other in others]
        ranked = sorted(range(len(others)), key=lambda k: (apart[k][0], round(apart[k][1], 9), k))
        assert near[i].tolist() == ranked[:3]
        assert np.isclose(distance.least(one, others)[i], min(far for _, far in apart))
