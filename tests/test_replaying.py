from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.criterion import Both, Either
from evenhand.errors import EvenhandError, ModelError, RunError
from evenhand.replaying import criterion_of, replay

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


def test_a_run_that_was_killed_is_replayed_as_far_as_it_came(tmp_path: Path) -> None:
    eh.audit(refuse, SPACE, "themis", directory=tmp_path, chunk=8)
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
    with pytest.raises(RunError, match="no run's directory"):
        replay(tmp_path, refuse)
    eh.audit(score, SPACE, "themis", criterion=eh.Gap(0.05), directory=tmp_path)
    with pytest.raises(ModelError):
        replay(tmp_path, lambda frame: np.full(len(frame), "no"))


@pytest.mark.parametrize(
    "criterion",
    [eh.Flip(), eh.Gap(0.2), eh.Gap(3), Both(eh.Flip(), eh.Gap(0.2)), Either(Both(eh.Gap(1.5), eh.Flip()), eh.Flip())],
)
def test_criteria_are_read_back(criterion: Any) -> None:
    assert criterion_of(repr(criterion)) == criterion


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Flip",
        "Flip(",
        "open('x')",
        "Gap(gamma=open('x'))",
        "Gap(**{'gamma': 1})",
        "Gap()",
        "Flip(3)",
        "eh.Flip()",
        "Flip() and Flip()",
        "Gap(gamma=[1, 2])",
        "(" * 5000,
    ],
)
def test_other_texts_are_no_criteria(text: str) -> None:
    with pytest.raises(EvenhandError):
        criterion_of(text)
