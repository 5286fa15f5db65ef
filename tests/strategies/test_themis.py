from __future__ import annotations

import pytest
from hypothesis import given, settings

import evenhand as eh
from tests.worlds import World, keys_of, random_world, worlds


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(worlds(constraints=True))
def test_the_whole_space_as_budget_finds_every_discriminatory_test(world: World) -> None:
    run = eh.audit(world.model, world.space, strategy="themis", budget=eh.Budget(tests=world.space.tests))
    assert set(keys_of(run)) == world.unfair_keys()
    assert run.tests == len(world.test_keys())
    assert len(keys_of(run)) == len(set(keys_of(run)))


@pytest.mark.parametrize("seed", range(4))
def test_finds_all_in_spaces_of_a_hundred_thousand(seed: int) -> None:
    world = random_world(seed, 100_000)
    run = eh.audit(world.model, world.space, strategy="themis", budget=eh.Budget(tests=world.space.tests))
    assert run.stop is eh.StopReason.EXHAUSTED
    labels = world.table.reshape(-1, world.space.combinations)
    unfair = (labels != labels[:, :1]).any(axis=1).nonzero()[0] * 2
    assert sorted(keys_of(run)) == unfair.tolist()


def test_samples_ends_the_search() -> None:
    world = random_world(3, 60_000)
    run = eh.audit(world.model, world.space, strategy=eh.Themis(samples=50, block=7))
    assert run.stop is eh.StopReason.FINISHED
    assert run.tests + run.counts["repeats"] == 50


@pytest.mark.parametrize("setting", [{"samples": 0}, {"block": 0}, {"samples": 1.5}, {"block": True}])
def test_wrong_settings_are_named(setting: dict[str, object]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Themis(**setting)  # type: ignore[arg-type]
    assert caught.value.parameter == next(iter(setting))
