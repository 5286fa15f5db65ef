from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand._intervals import clopper_pearson
from evenhand._keyset import Memo
from evenhand._rng import Stream
from evenhand.criteria import Criterion, Flip, Judgement, Outputs
from evenhand.search import Draws, Problem
from evenhand.strategies.auto import EXPLORE, LEAST_ROWS, Arm, choose
from evenhand.testing import findings_of, team_space, team_texts, text_model
from tests.worlds import random_world

SPACE = eh.Space([eh.Integer(name, 0, 99) for name in "abc"] + [eh.Boolean("p")], protected="p")


def rule(X: np.ndarray) -> np.ndarray:
    """Decides by p for 3% of all individuals, and for about 6% of the people below."""
    return (X[:, 3] > 0) & (X[:, 0] < 3)


MODEL = eh.wrap(rule, input="array")


def people(n: int = 500) -> Any:
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.integers(0, 50, (n, 3)), rng.integers(0, 2, n)])
    return SPACE.frame(rows.astype(np.int32))


def independent(seed: int, name: str, n: int, data: Any) -> np.ndarray:
    """The individuals that are drawn, whatever the model says."""
    encoded = None if data is None else SPACE.encode(data).individuals
    return np.asarray(Problem(SPACE, Stream(seed), encoded).draws.populations[name].take(0, n)[0].rows)


@pytest.mark.parametrize("with_data", [False, True])
def test_the_estimate_uses_independent_draws_only(with_data: bool) -> None:
    data = people() if with_data else None
    run = eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=4000), 7, data=data)
    assert set(run.estimate) == ({"data", "uniform"} if with_data else {"uniform"})
    for name, one in run.estimate.items():
        # All of one block: draws are numbered, so that blocks of any size give the same.
        drawn = independent(7, name, one.samples, data)
        assert one.found == int((drawn[:, 0] < 3).sum())
        assert one.samples == pytest.approx(800 / (1 + with_data), rel=0.2)
        assert one.low <= one.rate <= one.high


def test_a_stated_share_of_the_tests_is_drawn_whenever_the_run_ends() -> None:
    for share in (0.1, 0.5):
        for tests in (300, 1000, 5000):
            run = eh.audit(MODEL, SPACE, eh.Auto(share), eh.Budget(tests=tests))
            planned = round(share * tests)
            assert run.estimate["uniform"].samples == run.estimate["uniform"].planned == planned
            # No more than one turn ahead, or 10% of the tests.
            assert run.arms["independent"]["rows"] / 2 <= share * max(tests + LEAST_ROWS // 2, 1.1 * tests) + 1
    assert eh.audit(MODEL, SPACE, eh.Auto(0.0), eh.Budget(tests=500)).estimate == {}


def test_repeats_count_with_their_stored_verdict() -> None:
    """In a space of few tests almost every draw is a repeat; without them the rate of what is left would be wrong."""
    space = eh.Space([eh.Integer("a", 0, 9), eh.Integer("b", 0, 99), eh.Boolean("p")], protected="p")
    model = eh.wrap(lambda X: (X[:, 2] > 0) & (X[:, 0] < 2), input="array")
    found = samples = 0
    for seed in range(40):
        run = eh.audit(model, space, eh.Auto(0.8), eh.Budget(tests=900), seed)
        found, samples = found + run.estimate["uniform"].found, samples + run.estimate["uniform"].samples
        assert run.estimate["uniform"].samples == 720
    assert abs(found / samples - 0.2) < 4 * np.sqrt(0.16 / samples)


def test_draws_before_the_first_unjudged_one_count_where_the_run_ends_among_them() -> None:
    class Block:
        def __init__(self, keys: list[int]) -> None:
            self.keys = np.array(keys)

        def __len__(self) -> int:
            return len(self.keys)

    @dataclass
    class Fixed:
        size: int | None

        def take(self, start: int, n: int) -> Any:
            return Block([2, 2, 8, 4, 6, 8, 2, 12, 10][start : start + n]), start + n

    for size in (None, 9, 12):
        draws, memo = Draws({"x": Fixed(size)}), Memo()
        memo.add(np.array([2, 4, 6, 10]), np.array([True, False, False, True]))
        search = draws.judge(draws.take(4))
        next(search)
        with pytest.raises(StopIteration):
            search.send(None)  # type: ignore[arg-type]
        # 8 has no counterparts; 12 was not reached, so that 10 behind it must not count though it is known.
        next(draws.judge(draws.take(5)))
        for plan, planned in ((0, 0), (4, 4), (5, 5), (6, 0)):
            one = draws.verdicts(memo, lambda block: block.keys != 8, plan)["x"]
            assert (one.unfair.tolist(), one.planned) == ([True, True, False, False, True], planned)
            assert one.left == (None if size is None else size - 7)


def test_the_plan_is_reached_where_some_individuals_have_no_counterparts() -> None:
    space = eh.Space(SPACE.attributes, protected="p", constraints=["not p or a < 30"])
    data = people()
    data = data[(data["p"] == 0) | (data["a"] < 30)]
    samples = set()
    for tests in (120, 333, 1000, 1019, 2500, 2600, 2700):
        run = eh.audit(MODEL, space, eh.Auto(), eh.Budget(tests=tests), data=data)
        estimates = run.estimate.values()
        assert int(0.2 * tests) - 1 <= sum(one.samples for one in estimates) <= 0.2 * tests
        for one in estimates:
            assert one.planned == one.samples
            low, high = clopper_pearson(one.found, one.samples)
            assert one.high - one.low <= 1.25 * (high - low)
        samples.add(run.estimate["data"].samples > run.estimate["uniform"].samples)
    assert samples == {True}


def test_a_budget_of_findings_counts_the_last_one_in_the_estimate() -> None:
    everyone = eh.wrap(lambda X: X[:, 3] > 0, input="array")
    run = eh.audit(everyone, SPACE, eh.Auto(), eh.Budget(findings=1))
    assert (run.found, run.estimate["uniform"].found, run.estimate["uniform"].samples) == (1, 1, 1)


def test_a_run_that_is_extended_keeps_the_plan_it_began_with(tmp_path: Path) -> None:
    def run(tests: int, directory: Path | None = tmp_path / "run") -> Any:
        return eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=tests), directory=directory)

    first, longer = run(1000), run(3000)
    assert first.estimate["uniform"].planned == longer.estimate["uniform"].planned == 200
    assert run(3000, None).estimate["uniform"].planned == 600
    loaded = eh.Run.load(tmp_path / "run")
    assert (loaded.estimate, loaded.arms) == (longer.estimate, longer.arms)
    assert json.loads(json.dumps(longer.to_dict()))["estimate"]["uniform"]["rate"] == longer.estimate["uniform"].rate


def test_each_arm_gets_turns_and_its_rows_add_up() -> None:
    run = eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=20_000), data=people())
    names = {"independent", "boundary", "nearby", "archive-real", "archive", "worklist", "aequitas", "uniform"}
    assert set(run.arms) == names
    assert all(arm["turns"] > 0 for arm in run.arms.values())
    assert sum(arm["rows"] for arm in run.arms.values()) == run.rows
    assert sum(arm["found"] for arm in run.arms.values()) <= run.found
    # Where people have the effect, realistic findings are what pays.
    assert run.arms["archive-real"]["rows"] > run.arms["uniform"]["rows"]


def test_command_and_report_say_what_each_search_used(tmp_path: Path) -> None:
    from evenhand.cli.audit import facts

    run = eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=2000), data=people())
    assert run.shares.startswith("archive-real")
    assert run.shares.count("%") == sum(arm["rows"] > 0 for arm in run.arms.values())
    assert dict(facts(run))["searches"] == run.shares
    page = eh.report(run, tmp_path / "report.html", data=people(), samples=100).read_text("utf-8")
    assert run.shares in re.sub("<[^>]+>", "", page)
    assert eh.audit(MODEL, SPACE, "themis", eh.Budget(tests=100)).shares == ""


def test_findings_are_realistic_where_there_are_data() -> None:
    from evenhand.spaces.realism import Realism

    data = people()
    realism = Realism(SPACE, SPACE.encode(data).individuals)
    shares = {}
    for strategy in (eh.Kosei(), eh.Auto()):
        run = eh.audit(MODEL, SPACE, strategy, eh.Budget(tests=10_000), data=data)
        shares[type(strategy)] = realism.realistic(run.pairs.individuals().rows).mean()
    assert shares[eh.Auto] > 0.6 > shares[eh.Kosei]


def test_a_model_with_scores_is_searched_by_gradient() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 100, (400, 3)), rng.integers(0, 2, 400)])
    model = LogisticRegression().fit(X, X[:, :3].sum(axis=1) + 40 * X[:, 3] > 170)
    run = eh.audit(model, SPACE, eh.Auto(), eh.Budget(tests=3000))
    assert run.arms["adf"]["turns"] > 0
    assert run.asked["gradient"] > 0
    assert run.identity.gradient is not None
    assert "adf" not in eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=300)).arms


@pytest.mark.parametrize(("words", "names"), [(False, ["text-random"]), (True, ["text-random", "text-adf"])])
def test_texts_are_searched_by_supported_searches(words: bool, names: list[str]) -> None:
    texts = team_texts(3, 60)
    run = eh.audit(text_model(3, words), team_space(), eh.Auto(), eh.Budget(tests=2000), data=texts)
    assert list(run.arms) == ["independent", *names]
    assert run.found > 0
    one = run.estimate["data"]
    assert (one.samples, one.planned, one.all_rows) == (60, 60, True)


def test_all_texts_are_drawn_where_the_search_ends_before_the_budget() -> None:
    said = [f"The {who} was {how}." for who in ("Sikh", "Jew", "Muslim", "Hindu") for how in ("kind", "late", "loud")]
    run = eh.audit(
        lambda texts: ["late" in text and "Sikh" in text for text in texts],
        eh.TextSpace("religion"),
        budget=eh.Budget(tests=400),
        data=said,
    )
    one = run.estimate["data"]
    assert run.stop is eh.StopReason.FINISHED
    # Texts that differ in the term alone are one test, and each counts.
    assert (run.tests, one.found, one.samples, one.planned, one.all_rows) == (3, 4, 12, 12, True)


def test_the_estimate_is_unbiased_where_attributes_are_linked() -> None:
    space = eh.Space(
        [eh.Nominal("sex", ["F", "M"]), eh.Nominal("role", ["wife", "husband", "other"]), eh.Integer("age", 0, 9)],
        protected="sex",
        links={"sex": {"role": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
    )

    def model(X: Any) -> Any:
        return (X["age"] > 4) & (X["sex"] == "F") & (X["role"] != "other")

    found = samples = 0
    for seed in range(30):
        run = eh.audit(model, space, eh.Auto(0.8), eh.Budget(tests=25), seed)
        found, samples = found + run.estimate["uniform"].found, samples + run.estimate["uniform"].samples
    assert abs(found / samples - 1 / 3) < 4 * np.sqrt(0.25 / samples)


def test_no_estimate_where_a_verdict_is_not_that_of_the_family() -> None:
    class Own(Criterion):
        needs_scores, needs_decisions = False, True

        def judge(self, outputs: Outputs) -> Judgement:
            return Flip().judge(outputs)

    run = eh.audit(MODEL, SPACE, eh.Auto(), eh.Budget(tests=200), criterion=Own())
    assert run.tests == 200
    assert run.estimate == {}


def test_best_arm_plays_and_waiting_arms_get_turns() -> None:
    arms = [Arm(name, lambda: iter(())) for name in "abc"]
    assert [choose(arms, turn).name for turn in range(3)] == ["a", "b", "c"]  # type: ignore[union-attr]
    for arm, reward in zip(arms, (1.0, 5.0, 2.0), strict=True):
        arm.learn(reward)
    chosen = [choose(arms, turn) for turn in range(3, 3 + 2 * EXPLORE)]
    names = [arm.name for arm in chosen if arm is not None]
    assert names.count("b") == 2 * EXPLORE - 2
    assert {"a", "c"} <= set(names)
    arms[1].over = True
    best = choose(arms, 100)
    assert best is not None
    assert best.name == "c"


def test_arms_that_find_nothing_take_turns() -> None:
    run = eh.audit(lambda frame: frame["a"] > 50, SPACE, eh.Auto(), eh.Budget(tests=6000), data=people())
    turns = [run.arms[name]["turns"] for name in ("boundary", "nearby", "aequitas", "uniform")]
    assert run.found == 0
    assert max(turns) - min(turns) <= 1


def test_small_calls_count_as_larger_ones() -> None:
    """AEQUITAS walks from the only finding, one individual a call; that must not go on for a whole turn."""
    calls = []

    def model(X: np.ndarray) -> np.ndarray:
        calls.append(len(X))
        return (X[:, 3] > 0) & (X[:, 0] == 3) & (X[:, 1] < 50)

    eh.audit(eh.wrap(model, input="array"), SPACE, eh.Auto(arms="aequitas"), eh.Budget(tests=2000), confirm=0)
    alone = len(calls)
    calls.clear()
    eh.audit(eh.wrap(model, input="array"), SPACE, eh.Auto(arms="aequitas,archive,uniform"), eh.Budget(tests=2000))
    assert len(calls) < alone / 2


def test_a_search_that_waits_for_a_finding_gets_one_from_the_draws() -> None:
    for share, tests in ((0.2, 500), (0.0, 0)):
        run = eh.audit(MODEL, SPACE, eh.Auto(share, arms="worklist"), eh.Budget(tests=500), 1)
        assert run.tests == tests
    fair = eh.audit(lambda frame: frame["a"] > 50, SPACE, eh.Auto(arms="worklist"), eh.Budget(tests=500))
    assert (fair.tests, fair.arms["worklist"]["turns"]) == (500, 0)


@pytest.mark.parametrize("arms", ["adf", "text-random", "nearby, archive-real"])
def test_searches_that_are_not_possible_are_refused(arms: str) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.audit(MODEL, SPACE, eh.Auto(arms=arms), eh.Budget(tests=100))
    assert (caught.value.parameter, caught.value.value) == ("arms", arms)
    assert "boundary" in str(caught.value)


@pytest.mark.parametrize("seed", range(2))
def test_a_smaller_budget_gives_a_prefix_and_another_seed_other_findings(seed: int) -> None:
    world = random_world(seed + 60, 50_000)
    runs = [eh.audit(world.model, world.space, eh.Auto(), eh.Budget(tests=n), seed) for n in (700, 3000)]
    short, long = map(findings_of, runs)
    assert short == long[: len(short)]
    other = eh.audit(world.model, world.space, eh.Auto(), eh.Budget(tests=3000), seed + 1)
    assert findings_of(other) != long


def test_everything_in_a_small_space_is_found() -> None:
    world = random_world(3, 3000)
    run = eh.audit(world.model, world.space, eh.Auto())
    assert run.stop is eh.StopReason.EXHAUSTED
    assert run.found == len(world.unfair_keys())


def test_a_small_space_ends_when_the_realistic_search_has_nothing_new() -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 29), eh.Integer("b", 0, 9), eh.Boolean("p")], protected="p", constraints=["b < 9 or a > 3"]
    )
    data = space.frame(space.sampler.draw(Stream(4), 0, 60, repeats=True)[0].rows)
    model = eh.wrap(lambda X: (X[:, 2] > 0) & (X[:, 0] < 15), input="array")
    run = eh.audit(model, space, eh.Auto(), data=data)
    assert (run.found, run.tests) == (15 * 10 - 4, 296)


def test_only_the_named_searches_get_turns() -> None:
    run = eh.audit(MODEL, SPACE, eh.Auto(arms="nearby, archive-real"), eh.Budget(tests=2000), data=people())
    assert set(run.arms) == {"independent", "nearby", "archive-real"}
    assert run.found


@pytest.mark.parametrize(
    "setting", [{"share": -0.1}, {"share": 1.1}, {"share": "half"}, {"arms": "kosei"}, {"arms": 3}]
)
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Auto(**setting)
    assert caught.value.parameter == next(iter(setting))
