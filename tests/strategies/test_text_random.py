"""RP against a plain sequential implementation, and against all reachable texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import StrategyError
from evenhand.spaces.text.tokens import split
from tests.text_worlds import TextWorld, family, key, movable, replaced, team_space, team_texts

SETTINGS = [
    eh.TextRandom(seeds=12, max_iter=4, trials=15, rounds=1),
    eh.TextRandom(seeds=None, max_iter=6, phase="global"),
    eh.TextRandom(seeds=30, trials=9, phase="local"),
]


def reference(world: TextWorld, strategy: Any, seed: int) -> Iterator[tuple[str, str, int]]:
    """The findings of RP, one text after the other; draws are the run's own."""
    stream, similar, judged = Stream(seed), world.space.similar, {}

    def judge(text: str, row: int) -> Iterator[tuple[str, str, int]]:
        if key(text) not in judged:
            first, *others = family(text)
            witness = next((other for other in others if world.label(other) != world.label(first)), None)
            judged[key(text)] = witness is not None
            if witness is not None:
                yield text, witness, row

    def moved(text: str, phase: str, walker: int, step: int) -> str:
        places = movable(text, similar)
        place = places[int(stream.bits(phase, walker, 2 * step)[0]) % len(places)]
        words = similar.of(split(text)[1::2][place])
        return replaced(text, place, words[int(stream.bits(phase, walker, 2 * step + 1)[0]) % len(words)])

    seeds: dict[str, tuple[str, int]] = {}
    for row in stream.shuffled(np.arange(len(world.data)), len(world.data), "seeds").tolist():
        seeds.setdefault(key(world.data[row]), (world.data[row], row))
    walkers = dict(enumerate(list(seeds.values())[: strategy.seeds]))
    found = {}
    for step in range(1 if strategy.phase == "local" else strategy.max_iter):
        for walker, (text, row) in list(walkers.items()):
            fresh = list(judge(text, row))
            yield from fresh
            if fresh:
                found[walker] = (text, row)
            if judged[key(text)]:
                del walkers[walker]
            else:
                walkers[walker] = (moved(text, "lead", walker, step), row)
    if strategy.phase != "global":
        for step in range(strategy.trials):
            for walker, (text, row) in found.items():
                found[walker] = (moved(text, "walk", walker, step), row)
                yield from judge(*found[walker])


@pytest.mark.parametrize("strategy", SETTINGS, ids=lambda s: s.phase)
@pytest.mark.parametrize("terms", [1, 2])
def test_findings_are_those_of_the_sequential_program(strategy: Any, terms: int) -> None:
    for seed in range(4):
        world = TextWorld(team_space(), team_texts(seed, 40, terms=terms), salt=seed)
        found = eh.audit(eh.wrap(world, chunk=50), world.space, strategy, seed=seed, data=world.data).findings
        expected = list(reference(world, strategy, seed))
        assert list(zip(found["text"], found["counterpart_text"], found["seed"], strict=True)) == expected
        assert len(expected) > 5


def test_all_reachable_texts_of_a_small_world_are_judged_correctly() -> None:
    words = ["ba", "be", "bi", "bo"]
    space = eh.TextSpace.paper(
        {"team": ["reds", "blues", "greens"]}, (words, np.random.default_rng(1).normal(size=(4, 3))), k=2
    )
    world = TextWorld(space, ["ba be reds bi", "blues bo bo ba"], salt=5, share=12)
    run = eh.audit(world, space, eh.TextRandom(max_iter=200, trials=1500), data=world.data)
    reach, waiting = set(), list(world.data)
    while waiting:
        text = waiting.pop()
        if key(text) not in reach:
            reach.add(key(text))
            waiting += [
                replaced(text, place, word)
                for place in movable(text, space.similar)
                for word in space.similar.of(split(text)[1::2][place])
            ]
    unfair = {key(t) for t in run.findings["text"]}
    assert run.tests == len(reach)
    assert unfair == {k for k in reach if len({world.label(t) for t in family(k.replace("_", "reds"))}) > 1}
    assert 0 < len(unfair) < len(reach)
    assert run.stop is eh.StopReason.FINISHED


def test_texts_that_cannot_move_are_tested_and_counted() -> None:
    world = TextWorld(
        eh.TextSpace.paper({"team": ["reds", "blues"]}), ["reds win", "so do blues", "reds lose"], share=50
    )
    run = eh.audit(world, world.space, "text-random", data=world.data)
    assert run.tests == 3
    assert run.counts["texts_that_cannot_move"] == 3
    assert ("texts without a replaceable word", 3) in run.remarks
    assert "texts without a replaceable word: 3" in repr(run)


@pytest.mark.parametrize(
    "settings", [{"seeds": 0}, {"max_iter": 0}, {"trials": 1.5}, {"phase": "neither"}, {"seeds": "all"}]
)
def test_wrong_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(StrategyError) as caught:
        eh.TextRandom(**settings)
    assert caught.value.parameter == next(iter(settings))
