"""Surveys: who can be compared, and how often a noisy model is queried."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import evenhand as eh
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.errors import FlakyModel
from evenhand.estimates.survey import HOPELESS, MOST_HALF, RESIDUE, repeats_for

SPACE = eh.Space(
    [eh.Integer("age", 0, 9), eh.Nominal("sex", ["F", "M"])], protected="sex", constraints=["age < 5 or sex == 'F'"]
)


def everyone() -> np.ndarray:
    rows = SPACE.coding.rows(np.arange(20))
    return SPACE.individuals(rows[SPACE.valid(rows)])


@pytest.mark.parametrize("width", [2, 10])
@pytest.mark.parametrize("error", [0.001, 0.05, 0.2])
def test_repeats_leave_little_noise(error: float, width: int) -> None:
    half = repeats_for(2 * error * (1 - error), 100_000, width)
    assert half % 2
    assert 4 * width * stats.binom.sf(half // 2, half, error) <= RESIDUE or half == MOST_HALF
    assert repeats_for(0.02, 100, width) >= repeats_for(0.02, 100_000, width)


def test_hopeless_noise_is_an_error() -> None:
    with pytest.raises(FlakyModel, match="48%") as caught:
        repeats_for(0.48, 4_096, 2)
    assert caught.value.noise == 0.48
    assert 0 < HOPELESS < 1


def test_those_without_counterparts_are_counted() -> None:
    judge = Judge(ModelProbe(eh.wrap(lambda f: f["sex"] == "F"), SPACE, eh.Flip()), 0, chunk=100)
    block = judge.judge(judge.families(everyone()))
    assert (len(block), judge.untestable, judge.rows) == (10, 5, 20)
    assert block.unfair.all()


class Turns:
    """Tells by the rows asked so far in which repeat a call is; a repeat asks all 20 rows, in several calls."""

    def __init__(self, answers: list[int]) -> None:
        self.answers, self.rows = answers, 0

    def next(self, rows: int) -> int:
        self.rows += rows
        return self.answers[(self.rows - 1) // 20]


def test_the_most_frequent_answer_counts() -> None:
    turns = Turns([0, 1, 1, 0, 1, 1])

    def model(frame):
        lies = turns.next(len(frame)) == 0
        return (frame["age"] < 3) ^ lies

    judge = Judge(ModelProbe(eh.wrap(model, batch_size=100), SPACE, eh.Flip()), 0, chunk=100, half=3)
    block = judge.judge(judge.families(everyone()))
    assert not block.unfair.any()
    assert not block.unsure.any()
    assert judge.rows == turns.rows == 6 * 20
    assert block.outputs.labels[:, 0].tolist() == (block.families.rows[:, 0, 0] < 3).tolist()


def test_halves_that_disagree_are_unsure() -> None:
    turns = Turns([0, 0, 0, 1, 1, 1])
    model = eh.wrap(lambda frame: np.full(len(frame), turns.next(len(frame))), batch_size=100)
    judge = Judge(ModelProbe(model, SPACE, eh.Flip()), 0, chunk=100, half=3)
    block = judge.judge(judge.families(everyone()))
    assert block.unsure.all()
