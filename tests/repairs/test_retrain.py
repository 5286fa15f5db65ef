from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import StrategyError
from evenhand.repairs.context import seed_of

from .people import CODED, QUICK, SPACE, Coded, by_pay, codes, people, repair


def everyone() -> pd.DataFrame:
    return SPACE.frame(SPACE.coding.rows(np.arange(SPACE.coding.total)))


def rate_by_hand(model: Any) -> float:
    """Ask everyone in both sexes."""
    frame = everyone()
    said = [model.predict(frame.assign(sex=sex)) for sex in ("F", "M")]
    return float((said[0] != said[1]).mean())


def algorithm_5(train: Any, X: pd.DataFrame, y: Any, findings: pd.DataFrame, label: Any, seed: int) -> Any:
    """The paper's algorithm, line by line; random numbers are those of the repair."""
    f_cur, trace = train(X, y), []
    for i in itertools.count(2):
        p = 2 ** (i - 2) + float(Stream(seed).unit("r-percent", i, 0)[0]) * (2 ** (i - 1) - 2 ** (i - 2))
        if p > 100:
            break
        k = len(X)
        n = max(1, int(p * k / 100))
        n = min(n, len(findings))
        chosen = Stream(seed_of(seed, "draw", i)).shuffled(np.arange(n), len(findings), "pick")
        added = findings.iloc[sorted(chosen)]
        f_new = train(pd.concat([X, added], ignore_index=True), np.concatenate([y, label(added)]))
        fair_cur, fair_new = rate_by_hand(f_cur), rate_by_hand(f_new)
        trace.append((len(added), fair_cur, fair_new))
        if fair_cur > fair_new:
            f_cur = f_new
        else:
            break
    return f_cur, trace


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_papers_algorithm(seed: int) -> None:
    X, y = people(200, seed)
    held = people(60, seed + 100)
    options: dict[str, Any] = {**QUICK, "samples": 5000, "strategy": "themis", "watch": ()}
    got = repair(
        Coded(), X, y, SPACE, eh.repairs.Retrain(1, voters=CODED[:1], blind=False), seed=seed, held_out=held, **options
    )

    def train(X: Any, y: Any) -> Any:
        return Coded(random_state=seed_of(seed, "train") % 2**31).fit(X, y)

    voter = Coded(3, random_state=seed_of(seed, "voters") % 2**31).fit(X, y)
    run = eh.audit(eh.wrap(train(X, y), input="frame"), SPACE, "themis", QUICK["budget"], seed_of(seed, "search"))
    model, trace = algorithm_5(train, X, y, run.findings[list(X.columns)], voter.predict, seed)
    assert [(one.added, one.current, one.candidate) for one in got.rounds] == trace
    assert [one.kept for one in got.rounds] == [before > after for _, before, after in trace]
    assert (got.model.predict(everyone()) == model.predict(everyone())).all()
    assert got.changed == any(one.kept for one in got.rounds)
    assert got.rows_added == max([one.added for one in got.rounds if one.kept], default=0)


def test_the_references_rounds_are_of_every_kind() -> None:
    """Else the comparison above would show little: some model is kept, some is not."""
    X, y = people(200, 1)
    rounds = [
        one
        for seed in range(3)
        for one in repair(
            Coded(), X, y, SPACE, eh.repairs.Retrain(voters=CODED[:1]), seed=seed, strategy="themis", watch=(), **QUICK
        ).rounds
    ]
    assert {one.kept for one in rounds} == {True, False}


def test_percentages_double_and_findings_that_are_too_few_are_all_added() -> None:
    """A training function whose models get fairer as rows double: the algorithm goes on until nothing doubles."""

    def train(X: Any, y: Any) -> Any:
        return by_pay({"F": 18 - 2 * (len(X) - 100).bit_length(), "M": 0})

    X, y = people(150)
    method = eh.repairs.Retrain(voters=CODED)
    done = repair(train, X.iloc[:100], y[:100], SPACE, method, held_out=(X.iloc[100:], y[100:]),
                     strategy="themis", samples=1000, budget=eh.Budget(tests=1200, findings=30))  # fmt: skip
    for at, one in enumerate(done.rounds):
        assert 2**at <= one.percent <= 2 ** (at + 1)
        assert one.wanted == max(1, int(one.percent))
        assert one.added == min(one.wanted, 30)
    assert [one.kept for one in done.rounds] == [True] * 5 + [False]
    assert done.rounds[-1].added == 30
    assert done.rows_added == done.rounds[4].added
    assert any("there are only 30: all were added" in note for note in done.notes)


def worse(X: Any, y: Any) -> Any:
    """Fair enough on the user's rows; with any more it wants nothing of men."""
    return by_pay({"F": 10, "M": 8} if len(X) == 210 else {"F": 10, "M": 0})


def test_the_original_is_returned_if_every_round_is_worse() -> None:
    X, y = people(300)
    done = repair(worse, X, y, SPACE, eh.repairs.Retrain(voters=CODED), strategy="themis", **QUICK)
    assert not done.changed
    assert done.model is done.original
    assert done.after is done.before
    assert done.rows_added == 0
    assert len(done.rounds) == 3
    assert all(one.candidate > one.current for one in done.rounds)
    assert "no round lowered the estimated rate; the original model is returned" in done.verdict
    assert (done.model(everyone()) == worse(X[:210], y)(everyone())).all()


def test_nothing_to_repair() -> None:
    X, y = people(100)
    for method in (eh.repairs.Retrain(), eh.repairs.Augment()):
        done = repair(lambda X, y: by_pay({"F": 9, "M": 9}), X, y, SPACE, method, strategy="themis", **QUICK)
        assert not done.changed
        assert done.verdict.startswith("nothing to repair: no findings in 400 tests")
        assert done.before.uniform is not None
        assert done.before.uniform.found == 0


@pytest.mark.parametrize("settings", [{"samples": 0}, {"labels": "all"}])
def test_wrong_settings(settings: Any) -> None:
    with pytest.raises(StrategyError):
        eh.repairs.Retrain(**settings)


def test_codes_are_as_the_space_has_them() -> None:
    assert codes(everyone()[:3]).tolist() == SPACE.coding.rows(np.arange(3)).tolist()
