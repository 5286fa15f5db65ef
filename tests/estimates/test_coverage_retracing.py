from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import RunError
from evenhand.estimates.coverage import retrace
from tests.strategies.test_contract import TABLES, each
from tests.test_keyset_visited import LARGE, LINKED, SAMPLED, lookup
from tests.worlds import Stretch, World, keys_of, random_world


def keys(run: eh.Run, data: Any = None) -> list[Any]:
    return [key for block in retrace(run, data) for key in block.keys.tolist()]


@each(TABLES, {"themis", "kosei", "adf-local"}.__contains__)
def test_a_loaded_run_has_the_tests_of_the_run_in_memory(strategy: Any, tmp_path: Path) -> None:
    world = random_world(35, 30_000)
    run = eh.audit(
        eh.wrap(world.model, chunk=256), world.space, strategy, eh.Budget(tests=1500), directory=tmp_path / "run"
    )
    asked = world.rows
    known, told = keys(run), keys(eh.Run.load(tmp_path / "run"))
    assert len(set(known)) == len(known) == run.tests
    assert set(told) == set(known)
    assert set(keys_of(run)) <= set(known)
    assert world.rows == asked
    # A smaller budget's tests are the first of a larger one's; told from the log they are in order.
    for tests in (1, 300, 301):
        less = eh.audit(eh.wrap(world.model, chunk=256), world.space, strategy, eh.Budget(tests=tests))
        assert set(keys(less)) == set(told[:tests])


def test_exactly_the_tests_that_were_made(tmp_path: Path) -> None:
    world = random_world(36, 3_000)
    run = eh.audit(world.model, world.space, Stretch(0.2, 0.7), directory=tmp_path)
    assert sorted(keys(run)) == sorted(set(Stretch(0.2, 0.7).people(world.space).keys.tolist()))


@pytest.mark.parametrize("budget", [eh.Budget(findings=40), eh.Budget(rows=1001), eh.Budget(tests=300)])
def test_whatever_ended_the_run(budget: eh.Budget, tmp_path: Path) -> None:
    world = random_world(37, 30_000)
    run = eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", budget, directory=tmp_path / "a")
    assert set(keys(eh.Run.load(tmp_path / "a"))) == set(keys(run))
    assert len(keys(run)) == run.tests
    # The log reaches farther than a run that a smaller budget cuts.
    eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", eh.Budget(tests=2000), directory=tmp_path / "b")
    part = eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", budget, directory=tmp_path / "b")
    assert set(keys(part)) == set(keys(run))


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    world = random_world(38, 30_000)
    eh.audit(eh.wrap(world.model, chunk=256), world.space, "kosei", eh.Budget(tests=2000), directory=tmp_path)
    log = tmp_path / "answers.log"
    log.write_bytes(log.read_bytes()[:-100])
    (tmp_path / "run.json").unlink()
    run = eh.Run.load(tmp_path)
    assert 0 < run.tests < 2000
    assert len(set(keys(run))) == run.tests


@pytest.mark.parametrize("space", [LINKED, SAMPLED])
def test_links_and_samples(space: eh.Space, tmp_path: Path) -> None:
    run = eh.audit(eh.wrap(lookup(space).model, chunk=8), space, "themis", seed=2, directory=tmp_path)
    blocks = list(retrace(eh.Run.load(tmp_path)))
    known = list(retrace(run))
    assert [block.ids.tolist() for block in blocks] == [block.ids.tolist() for block in known]


def large(frame: pd.DataFrame) -> Any:
    return frame["a1"] + 0.1 * frame["member"] > 0.5


def test_a_large_space_needs_a_directory_for_many_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = eh.Budget(tests=500)
    known = np.concatenate([block.rows for block in retrace(eh.audit(large, LARGE, "themis", budget))])
    assert len(np.unique(known, axis=0)) == 500
    monkeypatch.setattr("evenhand._keyset.KEPT", 1000)
    with pytest.raises(RunError, match=r"directory=\.\.\."):
        retrace(eh.audit(large, LARGE, "themis", budget))
    run = eh.audit(eh.wrap(large, chunk=20), LARGE, "themis", budget, directory=tmp_path)
    for again in (run, eh.Run.load(tmp_path)):
        assert (np.concatenate([block.rows for block in retrace(again)]) == known).all()


def test_data_are_needed_where_the_search_starts_from_them(tmp_path: Path) -> None:
    world = random_world(39, 30_000)
    frame = world.space.frame(world.space.coding.rows(np.arange(0, 3000, 7)))
    strategy = eh.Adf(seeds=60, max_iter=5, trials=20)
    run = eh.audit(world.model, world.space, strategy, eh.Budget(tests=800), data=frame, directory=tmp_path)
    loaded = eh.Run.load(tmp_path)
    assert set(keys(loaded, frame)) == set(keys(run))
    with pytest.raises(RunError, match=r"data=\.\.\."):
        retrace(loaded)
    with pytest.raises(RunError, match="not the data"):
        retrace(loaded, frame.iloc[1:])


def test_a_search_of_your_own(tmp_path: Path) -> None:
    world = random_world(40, 3_000)
    eh.audit(world.model, world.space, Stretch(0.0, 0.4), directory=tmp_path)
    with pytest.raises(RunError, match="the run that eh.audit returned"):
        retrace(eh.Run.load(tmp_path))
    # A finished run is read from the directory, but who asked for it knows the search.
    run = eh.audit(world.model, world.space, Stretch(0.0, 0.4), directory=tmp_path)
    assert len(set(keys(run))) == run.tests


def test_a_run_from_another_process() -> None:
    world = random_world(40, 3_000)
    run = pickle.loads(pickle.dumps(eh.audit(World(world.space, world.table).model, world.space, "themis")))
    with pytest.raises(RunError, match="are not known"):
        retrace(run)


def test_answers_that_are_gone(tmp_path: Path) -> None:
    world = random_world(40, 3_000)
    eh.audit(world.model, world.space, "themis", directory=tmp_path)
    run = eh.Run.load(tmp_path)
    (tmp_path / "answers.log").unlink()
    with pytest.raises(RunError, match="0 of the run's"):
        keys(run)


def test_a_run_without_tests_has_none(tmp_path: Path) -> None:
    world = random_world(41, 3_000)

    asked = 0

    def stop(frame: pd.DataFrame) -> Any:
        nonlocal asked
        asked += len(frame)
        # After the fixed rows, and before the first test.
        if asked > 64:
            raise KeyboardInterrupt
        return np.zeros(len(frame))

    run = eh.audit(stop, world.space, "themis", directory=tmp_path)
    assert run.tests == 0
    assert keys(run) == keys(eh.Run.load(tmp_path)) == []
