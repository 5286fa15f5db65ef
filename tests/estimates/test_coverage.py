from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.errors import ModelError, RunError, SpaceError, StrategyError
from evenhand.estimates.coverage import _people, imitate, retrace
from evenhand.spaces.findings import Decisions
from tests.strategies.test_contract import TABLES
from tests.test_keyset_visited import LARGE, LINKED, SAMPLED, lookup
from tests.worlds import Stretch, World, random_world, worlds

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: pd.DataFrame) -> Any:
    return (frame["age"] < 10) & (frame["sex"] == "F")


def by_enumeration(world: World, run: eh.Run, samples: int, seed: int = 0) -> tuple[int, int]:
    """Leaves reached and leaves in all, family by family, of the tree that coverage grows."""
    people, complete = _people(run, samples, seed)
    # Decisions are numbered as they come; which has which number decides between splits that are equally good.
    tree = imitate(world.space, people.rows, Decisions().encode(world(people.rows)), complete)
    families = world.families()
    keys = {key for block in retrace(run) for key in block.keys.tolist()}
    members = [member for key in keys for member in families[key]]
    return len(set(tree.leaf(np.array(members)).tolist())) if members else 0, tree.leaves


@settings(max_examples=25, deadline=None)
@given(
    world=worlds(constraints=True), start=st.floats(0, 1), length=st.floats(0, 1), samples=st.sampled_from([100, 500])
)
def test_leaves_are_those_that_families_come_to(world: World, start: float, length: float, samples: int) -> None:
    stretch = Stretch(start, min(1.0, start + length))
    try:
        run = eh.audit(world.model, world.space, stretch)
        done = eh.coverage(run, samples=samples)
    except SpaceError as error:
        assert "counterparts that the constraints allow" in str(error)
        return
    assert (done.reached, done.leaves) == by_enumeration(world, run, samples)
    assert done.tests == run.tests
    assert done.share == done.reached / done.leaves


@settings(max_examples=25, deadline=None)
@given(world=worlds(constraints=True), samples=st.sampled_from([100, 500]), seed=st.integers(0, 9))
def test_testing_all_individuals_reaches_every_leaf(world: World, samples: int, seed: int) -> None:
    run = eh.audit(world.model, world.space, "themis")
    done = eh.coverage(run, samples=samples, seed=seed)
    assert done.share == 1
    # No individual was asked that breaks a constraint, or has no valid counterpart.
    assert done.rows <= min(samples, sum(map(len, world.families().values())))


@pytest.mark.parametrize("strategy", TABLES.values(), ids=TABLES.keys())
def test_any_strategy_from_memory_and_from_its_directory(strategy: Any, tmp_path: Path) -> None:
    world = random_world(50, 3_000)
    run = eh.audit(world.model, world.space, strategy, eh.Budget(tests=40), directory=tmp_path)
    done = eh.coverage(run, samples=1000)
    assert (done.reached, done.leaves) == by_enumeration(world, run, 1000)
    assert 0 < done.reached < done.leaves
    assert eh.coverage(eh.Run.load(tmp_path), world.model, samples=1000) == done


def test_half_a_space() -> None:
    """A tree of four leaves, of which the young reach two, and the women's by their counterparts."""
    space = eh.Space([eh.Integer("age", 0, 99), eh.Integer("pay", 0, 9), eh.Boolean("sex")], protected="sex")

    def decide(frame: pd.DataFrame) -> Any:
        old = np.where(frame["pay"] < 5, "c", "d")
        return np.where(frame["age"] < 50, np.where(frame["sex"], "a", "b"), old)

    def covered(strategy: Any) -> tuple[int, int]:
        done = eh.coverage(eh.audit(decide, space, strategy))
        return done.reached, done.leaves

    assert covered(Stretch(0.0, 0.5)) == (2, 4)
    assert covered(Stretch(0.0, 0.001)) == (2, 4)
    assert covered(Stretch(0.5, 1.0)) == (2, 4)
    assert covered(Stretch(0.995, 1.0)) == (1, 4)
    assert covered(Stretch(0.4, 1.0)) == (4, 4)


@pytest.mark.parametrize("space", [LINKED, SAMPLED])
def test_links_and_samples(space: eh.Space, tmp_path: Path) -> None:
    model = lookup(space).model
    run = eh.audit(model, space, "themis", eh.Budget(tests=5), directory=tmp_path)
    done = eh.coverage(run)
    asked = np.concatenate([space.families(block, 0).asked for block in retrace(run)])
    people, complete = _people(run, 20_000, 0)
    assert complete
    tree = imitate(space, people.rows, Decisions().encode(lookup(space)(people.rows)), complete)
    assert done.reached == len(set(tree.leaf(asked).tolist())) < done.leaves
    assert eh.coverage(eh.Run.load(tmp_path), model) == done


def test_a_large_space(tmp_path: Path) -> None:
    def decide(frame: pd.DataFrame) -> Any:
        return (frame["a1"] > 0.5) & (frame["a2"] > 0.5)

    run = eh.audit(decide, LARGE, "themis", eh.Budget(tests=2), directory=tmp_path)
    done = eh.coverage(run, samples=2000)
    assert (done.rows, done.accurate) == (2000, True)
    assert 0 < done.reached < done.leaves
    assert eh.coverage(eh.Run.load(tmp_path), decide, samples=2000) == done
    assert eh.coverage(eh.audit(decide, LARGE, "themis", eh.Budget(tests=2)), samples=2000) == done


def test_same_seed_same_tree() -> None:
    world = random_world(51, 30_000)
    run = eh.audit(world.model, world.space, "kosei", eh.Budget(tests=300))
    done = [eh.coverage(run, samples=2000, seed=seed) for seed in (0, 0, 1)]
    assert done[0] == done[1]
    assert done[0].accuracy != done[2].accuracy


def test_the_tree_is_not_grown_from_the_tests_of_a_random_search() -> None:
    world = random_world(52, 30_000)
    run = eh.audit(world.model, world.space, "themis", eh.Budget(tests=100), seed=0)
    tested = {key for block in retrace(run) for key in block.keys.tolist()}
    people, _ = _people(run, 100, 0)
    assert len(tested & set(people.keys.tolist())) < 20


def test_the_model_is_asked_once_for_each_sample_and_no_more() -> None:
    world = random_world(53, 30_000)
    run = eh.audit(eh.wrap(world.model, chunk=100), world.space, "themis", eh.Budget(tests=300))
    rows, before = world.rows, run.rows
    done = eh.coverage(run, samples=1000)
    assert world.rows - rows == done.rows == 1000
    assert run.rows == before


def test_a_tree_that_is_not_accurate_says_so() -> None:
    world = random_world(54, 30_000)
    noise = World(world.space, np.random.default_rng(0).integers(0, 2, len(world.table)))
    done = eh.coverage(eh.audit(noise.model, noise.space, "themis", eh.Budget(tests=300)), samples=1000)
    assert not done.accurate
    assert "less than the requested 90%" in repr(done)
    assert done.to_dict()["accurate"] is False
    assert eh.coverage(eh.audit(noise.model, noise.space, "themis"), samples=1000, accuracy=0.1).accurate


def test_a_model_that_decides_all_alike_has_one_leaf() -> None:
    done = eh.coverage(eh.audit(lambda frame: np.full(len(frame), "no"), SPACE, "themis"))
    assert (done.reached, done.leaves, done.accuracy) == (1, 1, 1)
    assert "1 of 1 leaf (100%)" in repr(done)


def test_no_tests_reach_nothing(tmp_path: Path) -> None:
    asked, stops = 0, True

    def stop(frame: pd.DataFrame) -> Any:
        nonlocal asked
        asked += len(frame)
        # After the fixed rows, and before the first test.
        if stops and asked > 64:
            raise KeyboardInterrupt
        return refuse(frame)

    run = eh.audit(stop, SPACE, Stretch(0.0, 0.1), directory=tmp_path)
    stops = False
    assert (run.tests, eh.coverage(run).reached) == (0, 0)


def test_models_of_every_kind() -> None:
    """Labels, scores and numbers with a threshold have decisions; a text is as good as a number."""

    def probabilities(frame: pd.DataFrame) -> Any:
        p = np.where(refuse(frame), 0.8, 0.3)
        return np.column_stack([1 - p, p])

    def score(frame: pd.DataFrame) -> Any:
        return probabilities(frame)[:, 1]

    expected = eh.coverage(eh.audit(refuse, SPACE, "themis")).to_dict()
    for model, criterion in (
        (probabilities, eh.Flip()),
        (probabilities, eh.Gap(0.1)),
        (eh.wrap(score, threshold=0.5), eh.Gap(0.1)),
        (lambda frame: np.where(refuse(frame), "no", "yes"), eh.Flip()),
    ):
        assert eh.coverage(eh.audit(model, SPACE, "themis", criterion=criterion)).to_dict() == expected
    run = eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.1))
    assert eh.coverage(run, eh.wrap(score, threshold=0.5)).to_dict() == expected


def test_numbers_are_no_decisions() -> None:
    frame = pd.DataFrame({"age": [1, 20, 40], "sex": [0, 1, 0]})
    space = eh.Space([eh.Integer("age", 1, 40), eh.Integer("sex", 0, 1)], protected="sex")
    regression = LinearRegression().fit(frame, [1.0, 2.5, 4.0])
    many = eh.Space([eh.Integer("pay", 0, 999), eh.Boolean("sex")], protected="sex")
    for model, where in (
        (regression, space),
        (lambda frame: frame["pay"] * 10.0 + frame["sex"], many),
        (lambda frame: frame["pay"] / 7, many),
    ):
        run = eh.audit(model, where, "themis", criterion=eh.Gap(0.5))
        with pytest.raises(ModelError, match="threshold"):
            eh.coverage(run)


def test_to_dict_is_plain() -> None:
    done = eh.coverage(eh.audit(refuse, SPACE, "themis"))
    assert json.loads(json.dumps(done.to_dict())) == {
        "reached": 3,
        "leaves": 3,
        "tests": 40,
        "accuracy": 1.0,
        "wanted": 0.9,
        "rows": 80,
        "share": 1.0,
        "accurate": True,
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"accuracy": 0}, "accuracy"),
        ({"accuracy": 1.01}, "accuracy"),
        ({"accuracy": "high"}, "accuracy"),
        ({"accuracy": float("nan")}, "accuracy"),
        ({"samples": 99}, "at least 100"),
        ({"samples": 1e4}, "samples"),
        ({"samples": True}, "samples"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_wrong_settings(given: dict[str, Any], words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        eh.coverage(eh.audit(refuse, SPACE, "themis"), **given)


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"eh\.Run\.load"):
        eh.coverage(tmp_path)  # type: ignore[arg-type]
    eh.audit(refuse, SPACE, "themis", directory=tmp_path)
    with pytest.raises(ModelError, match=r"eh\.coverage\(run, model\)"):
        eh.coverage(eh.Run.load(tmp_path))
    with pytest.raises(ModelError, match="^model must be a function .*, got 3;") as caught:
        eh.coverage(eh.Run.load(tmp_path), 3)
    assert (caught.value.parameter, caught.value.value) == ("model", 3)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        eh.coverage(eh.Run.load(tmp_path), lambda frame: 1 / 0)


def test_no_individual_to_draw() -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 9999), eh.Integer("b", 0, 9999), eh.Boolean("sex")],
        protected="sex",
        constraints=["sex or a == b"],
    )
    run = eh.audit(lambda frame: frame["a"] > 5, space, "themis", eh.Budget(tests=1))
    with pytest.raises(SpaceError, match="^0 of 1,000 .*individuals"):
        eh.coverage(run, samples=1000)


def test_another_model_than_the_runs_is_refused(tmp_path: Path) -> None:
    def score(frame: pd.DataFrame) -> Any:
        return frame["age"] / 40

    eh.audit(refuse, SPACE, "themis", directory=tmp_path / "labels")
    eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.1), directory=tmp_path / "scores")
    labels, scores = eh.Run.load(tmp_path / "labels"), eh.Run.load(tmp_path / "scores")
    assert eh.coverage(labels, refuse).share == eh.coverage(scores, eh.wrap(score, threshold=0.5)).share == 1
    for run, other in (
        (labels, lambda frame: ~refuse(frame)),
        (scores, eh.wrap(lambda f: f["age"] / 41, threshold=0.5)),
    ):
        with pytest.raises(ModelError, match=r"is not the run's model \(.*other answers"):
            eh.coverage(run, other)
    with pytest.raises(ModelError, match=r"(?s)look like scores, not labels; decide with eh.wrap"):
        eh.coverage(scores, score)


def test_numbers_of_numpy() -> None:
    run = eh.audit(refuse, SPACE, "themis")
    assert eh.coverage(run, samples=np.int64(500), seed=np.int64(3)) == eh.coverage(run, samples=500, seed=3)


def test_one_test_is_singular() -> None:
    assert "1 test reaches" in repr(eh.coverage(eh.audit(refuse, SPACE, "themis", eh.Budget(tests=1))))
