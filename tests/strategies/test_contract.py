"""The contract of searches: the checks of ``evenhand.testing``, and more for evenhand's own searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.runs.audit import needs_of
from evenhand.strategies import STRATEGIES
from evenhand.testing import STRATEGY_CHECKS, worlds_for
from tests.helpers import slow
from tests.text_worlds import text_world, word_world
from tests.worlds import World, keys_of, random_world, worlds

EVERY = {
    "themis": eh.Themis(block=50),
    "aequitas-random": eh.Aequitas("random", samples=60, steps=30, width=16),
    "aequitas-semi": eh.Aequitas("semi", samples=60, steps=30, width=16),
    "aequitas-full": eh.Aequitas("full", samples=60, steps=30, width=7),
    "kosei": eh.Kosei(samples=60, wave=16),
    "auto": eh.Auto(),
    "archive": eh.Archive(block=50),
    "boundary": eh.Boundary(people=40, block=16),
    "adf": eh.Adf(seeds=60, max_iter=5, trials=60),
    "adf-local": eh.Adf(clusters=2, seeds=200, trials=40, phase="local", stray=0.2),
    "symbolic": eh.Symbolic(neighbours=25, depth=5),
    "kosei-limits": eh.Kosei(samples=60, per_seed=200, pops=300),
    "text-random": eh.TextRandom(seeds=70, max_iter=5, trials=60),
    "text-random-local": eh.TextRandom(trials=150, phase="local"),
    "text-adf": eh.TextAdf(seeds=70, max_iter=5, trials=60),
    "text-adf-alone": eh.TextAdf("hotflip", pair=False, seeds=None, max_iter=6, trials=60),
    "text-importance": eh.TextImportance(seeds=70, max_iter=4, trials=60, words=5, every=4),
}
TABLES = {name: strategy for name, strategy in EVERY.items() if needs_of(strategy) != "texts"}
VARIANTS = ["aequitas-random", "aequitas-semi", "adf-local", "kosei-limits", "text-random-local", "text-adf-alone"]
"""Other settings of searches that are here already."""


def each(strategies: dict[str, Any], fast: Callable[[str], bool] = lambda name: name not in VARIANTS) -> Any:
    """A test for each strategy, of which ``make test`` runs the fast ones."""
    marked = [s for name, value in strategies.items() for s in ([value] if fast(name) else slow([value]))]
    return pytest.mark.parametrize("strategy", marked, ids=strategies.keys())


every_strategy = each(EVERY)
every_strategy_of_tables = each(TABLES)


def world_of(strategy: Any, seed: int) -> Any:
    """A world that the strategy can search."""
    if needs_of(strategy) == "texts":
        return word_world(seed) if getattr(strategy, "uses_gradient", False) else text_world(seed)
    return random_world(seed, 30_000)


def audit(world: Any, strategy: Any, *args: Any, chunk: int | None = None, **kwargs: Any) -> eh.Run:
    return eh.audit(eh.wrap(world.model, chunk=chunk), world.space, strategy, *args, data=world.data, **kwargs)


def fair(world: Any) -> Any:
    """The same world, in which all are treated alike."""
    if isinstance(world, World):
        return replace(world, table=np.zeros_like(world.table))
    return replace(world, share=0)


def test_every_registered_strategy_is_tested() -> None:
    assert {type(s) for s in EVERY.values()} == set(STRATEGIES.values())


@every_strategy_of_tables
@settings(max_examples=25, deadline=None)
@given(world=worlds(constraints=True), seed=st.integers(0, 3))
def test_no_false_finding_and_no_duplicate(strategy: Any, world: World, seed: int) -> None:
    run = eh.audit(eh.wrap(world.model, chunk=64), world.space, strategy, seed=seed)
    found = keys_of(run)
    assert len(found) == len(set(found))
    assert set(found) <= world.unfair_keys()
    assert run.tests <= len(world.test_keys())
    frame = run.findings
    for side in ("", "counterpart_"):
        rows = frame[list(world.space.names)].copy()
        for name in world.space.protected:
            rows[name] = frame[side + name]
        encoded = world.space.encode(rows, strict=True).individuals.rows
        assert (world(encoded) == frame[side + "decision"].to_numpy()).all()
    assert (frame["decision"] != frame["counterpart_decision"]).all()


@every_strategy
@pytest.mark.parametrize("check", STRATEGY_CHECKS.values(), ids=STRATEGY_CHECKS.keys())
def test_every_search_passes_the_conformance_suite(strategy: Any, check: Any) -> None:
    check(strategy, worlds_for(strategy)[0])


@every_strategy
def test_a_budget_of_rows_is_used_up(strategy: Any) -> None:
    world = world_of(strategy, 30)
    combinations = world.combinations
    # A question that does not fit is not begun; a test is the smallest of them.
    several = isinstance(strategy, eh.Adf | eh.Auto | eh.Boundary | eh.Symbolic | eh.TextAdf | eh.TextImportance)
    for rows in (combinations, combinations + 1, 1000, 1001):
        run = audit(world, strategy, eh.Budget(rows=rows), chunk=500)
        assert (0 if several else rows // combinations * combinations) <= run.rows <= rows


@every_strategy
@pytest.mark.parametrize("found", ["some", "nothing"])
def test_no_search_ends_while_budget_and_untested_space_remain(strategy: Any, found: str) -> None:
    world = world_of(strategy, 36)
    if found == "nothing":
        world = fair(world)
    bound = world.space.tests // 2 if isinstance(world, World) else 3000
    run = audit(world, strategy, eh.Budget(tests=bound))
    assert (run.found > 0) == (found == "some")
    if getattr(strategy, "phase", "both") == "both":
        assert (run.tests, run.stop) == (bound, eh.StopReason.TESTS)
    if found == "nothing" and isinstance(strategy, eh.Kosei | eh.Aequitas | eh.Adf | eh.TextRandom | eh.TextAdf):
        # The paper's own end is one setting away.
        paper = audit(world, replace(strategy, rounds=1), eh.Budget(tests=bound))
        assert paper.tests < bound
        assert paper.stop is eh.StopReason.FINISHED


@pytest.mark.parametrize("seed", [0, 1, *slow(range(2, 20))])
@pytest.mark.parametrize("name", ["kosei", "aequitas", "themis"])
def test_default_searches_find_a_rule_that_holds_for_one_in_three_thousand(name: str, seed: int) -> None:
    attributes = [eh.Integer("a", 0, 99), eh.Integer("b", 0, 29), eh.Integer("c", 0, 999)]
    space = eh.Space([*attributes, eh.Integer("sex", 0, 1)], protected="sex")

    def rule(X: Any) -> Any:
        return (X[:, 0] == 7) & (X[:, 1] == 3) & (X[:, 3] == 0)

    run = eh.audit(eh.wrap(rule, input="array"), space, name, seed=seed)
    assert run.found
    assert run.stop is eh.StopReason.TESTS


@every_strategy
def test_another_seed_finds_others(strategy: Any) -> None:
    world = world_of(strategy, 32)
    runs = [audit(world, strategy, eh.Budget(tests=1200), seed=seed) for seed in (9, 10)]
    assert runs[0].findings.to_csv() != runs[1].findings.to_csv()


@every_strategy
def test_a_finished_run_asks_for_a_few_tests_again(strategy: Any, tmp_path: Path) -> None:
    world = world_of(strategy, 34)
    audit(world, strategy, eh.Budget(tests=1100), chunk=256, directory=tmp_path / "r")
    before = world.rows
    audit(world, strategy, eh.Budget(tests=1100), chunk=256, directory=tmp_path / "r")
    # The fixed rows that tell one model from another, and some stored tests.
    assert world.rows <= before + 64 + 2 * 512 * (world.combinations + 2)


@each(EVERY, {"kosei", "text-random"}.__contains__)
def test_any_budgets_in_any_order_on_one_directory(strategy: Any, tmp_path: Path) -> None:
    world = world_of(strategy, 35)
    rng = np.random.default_rng(0)
    for _ in range(14):
        kind = str(rng.choice(["tests", "rows", "findings"]))
        budget = eh.Budget(**{kind: int(rng.integers(1, 120 if kind == "findings" else 1500))})
        kept = audit(world, strategy, budget, chunk=256, directory=tmp_path / "r")
        plain = audit(world, strategy, budget, chunk=256)
        assert kept.findings.to_csv() == plain.findings.to_csv()
        assert (kept.tests, kept.stop) == (plain.tests, plain.stop)
        assert budget.rows is None or kept.rows <= budget.rows
