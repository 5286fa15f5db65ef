"""Stored findings, and other individuals, are judged again as in the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import evenhand as eh
from evenhand.engine.judge import RowLimitReached
from evenhand.errors import ModelError, RunError, SpaceError
from evenhand.runs.replay import Source, judge_of, probe_of, replay
from tests.worlds import World, worlds

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def score(frame: pd.DataFrame) -> Any:
    return (frame["age"] / 100 + 0.1 * (frame["sex"] == "F")).to_numpy()


def flat(frame: pd.DataFrame) -> Any:
    return (frame["age"] / 100).to_numpy()


def refuse(frame: pd.DataFrame) -> Any:
    return (frame["age"] < 10) & (frame["sex"] == "F")


def refuse_fewer(frame: pd.DataFrame) -> Any:
    return (frame["age"] < 4) & (frame["sex"] == "F")


def test_every_finding_is_judged_again(tmp_path: Path) -> None:
    run = eh.audit(refuse, SPACE, "themis", directory=tmp_path)
    done = replay(tmp_path, refuse)
    assert (done.confirmed, done.refuted, done.holds) == (9, 0, True)
    done = replay(tmp_path, refuse_fewer)
    assert (done.confirmed, done.refuted, done.holds) == (3, 6, False)
    assert (run.findings["age"].to_numpy()[done.positions] >= 4).all()


def test_a_gap_must_still_be_there(tmp_path: Path) -> None:
    eh.audit(eh.wrap(score, threshold=10.0), SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path)
    assert replay(tmp_path, score, threshold=10.0).confirmed == 40
    # All decisions are as they were; only the scores tell that nothing is unfair any more.
    assert replay(tmp_path, flat, threshold=10.0).refuted == 40


def test_regression(tmp_path: Path) -> None:
    eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path)
    assert replay(tmp_path, score).holds
    assert not replay(tmp_path, lambda frame: score(frame) + 0.001).holds


def test_killed_runs_are_replayed_up_to_the_last_answer(tmp_path: Path) -> None:
    eh.audit(eh.wrap(refuse, chunk=8), SPACE, "themis", directory=tmp_path)
    log = tmp_path / "answers.log"
    log.write_bytes(log.read_bytes()[:-10])
    (tmp_path / "run.json").unlink()
    done = replay(tmp_path, refuse)
    assert done.holds
    assert 0 < done.confirmed <= 9


def test_nothing_found_holds(tmp_path: Path) -> None:
    eh.audit(flat, SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path)
    assert replay(tmp_path, flat).holds


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not the directory of a run"):
        replay(tmp_path, refuse)
    eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path)
    with pytest.raises(ModelError):
        replay(tmp_path, lambda frame: np.full(len(frame), "no"))


def test_the_threshold_that_was_noted_is_used(tmp_path: Path) -> None:
    run = eh.audit(eh.wrap(score, threshold=0.3), SPACE, "themis", directory=tmp_path)
    assert run.found
    Source("loans:score", None, 0.3).keep(run)
    assert replay(tmp_path, score).holds
    assert replay(tmp_path, eh.wrap(score, threshold=0.3)).holds
    eh.bundle(run, tmp_path.with_suffix(".zip"))
    assert replay(tmp_path.with_suffix(".zip"), score).holds
    # One that is given goes first, with the model or beside it.
    assert replay(tmp_path, eh.wrap(score, threshold=0.05)).confirmed == 0
    assert replay(tmp_path, score, threshold=0.05).confirmed == 0


def test_whether_it_is_the_same_model_is_told(tmp_path: Path) -> None:
    eh.audit(refuse, SPACE, "themis", directory=tmp_path / "labels")
    assert replay(tmp_path / "labels", refuse).same_model is True
    # It confirms every finding, and is another model all the same.
    done = replay(tmp_path / "labels", lambda frame: refuse(frame) | (frame["age"] > 35))
    assert (done.holds, done.same_model) == (True, False)
    eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path / "scores")
    assert replay(tmp_path / "scores", score).same_model is True
    assert replay(tmp_path / "scores", lambda frame: score(frame) + 0.001).same_model is False


def test_of_texts_it_is_not_known(tmp_path: Path) -> None:
    def spot(texts: list[str]) -> list[bool]:
        return ["Sikh" in text for text in texts]

    eh.audit(spot, eh.TextSpace("religion"), "text-random", data=["A Jew."], directory=tmp_path / "texts")
    assert replay(tmp_path / "texts", spot).same_model is None


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
def test_calls_for_attributes_refuse_other_spaces(call: Any) -> None:
    run = eh.audit(lambda t: ["Sikh" in one for one in t], eh.TextSpace("religion"), "text-random", data=["A Jew."])
    with pytest.raises(SpaceError, match="attributes, but this is a space of texts"):
        call(run)
