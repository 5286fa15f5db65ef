"""The number of queries of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import evenhand as eh
from evenhand.reports.render import render
from evenhand.reports.report import FEWEST, SAMPLES, _rows, affordable, gathered
from tests.reports.conftest import decide
from tests.reports.page import Page


@pytest.mark.parametrize(
    ("seconds", "samples"),
    [
        (0.0, SAMPLES),
        (0.2, SAMPLES),
        (0.8, 5_000),
        (2.0, 500),
        (8.0, 500),
        (20.0, FEWEST),
        (100.0, FEWEST),
        (500.0, 0),
        (1e6, 0),
    ],
)
def test_a_slow_model_is_asked_less(run: eh.Run, seconds: float, samples: int) -> None:
    """10,000 rows took so long, and a test asks 4 rows."""
    slow = replace(run, seconds=seconds, asked={"test": 10_000})
    assert affordable(slow) == samples


def test_a_report_asks_no_more_than_was_planned(run: eh.Run, data: pd.DataFrame) -> None:
    asked = [0]

    def counted(frame: pd.DataFrame) -> Any:
        asked[0] += len(frame)
        return decide(frame)

    for samples in (500, 1_000, 5_000):
        asked[0] = 0
        gathered(run, model=counted, data=data, favourable="granted", samples=samples)
        # What checks the model is apart from that, and the same whatever the samples.
        assert 0 < asked[0] <= _rows(run, samples) + 20_000


def test_a_report_of_a_slow_model_says_so(run: eh.Run, data: pd.DataFrame) -> None:
    slow = replace(run, seconds=0.2 + 20 * run.rows / 30_000)
    text = Page(render(gathered(slow, data=data))).text
    assert "The model is slow, so each part of this report draws at most 500 individuals" in text
    assert "--samples" in text
    for quick in (gathered(slow, data=data, samples=500), gathered(replace(run, seconds=0.3), data=data)):
        assert "The model is slow" not in Page(render(quick)).text


def test_group_figures_of_a_slow_model_are_of_some_rows(run: eh.Run, data: pd.DataFrame) -> None:
    slow = replace(run, seconds=0.2 + 20 * run.rows / 30_000)
    many = pd.concat([data] * (1 + 1_000 // len(data)), ignore_index=True)
    content = gathered(slow, data=many, favourable="granted")
    assert content.groups is not None
    assert content.groups.rows == 500 < len(many)
    assert "500 rows of the data, drawn at random" in Page(render(content)).text
    whole = gathered(run, data=many, favourable="granted")
    assert whole.groups is not None
    assert whole.groups.rows == len(many)


def test_it_never_grows_with_the_time_of_a_row(run: eh.Run) -> None:
    counts = [affordable(replace(run, seconds=10.0**power)) for power in range(-3, 8)]
    assert counts == sorted(counts, reverse=True)


def test_a_model_that_is_far_too_slow_is_not_asked(run: eh.Run) -> None:
    slow = replace(run, seconds=1e6)
    content = gathered(slow)
    assert content.estimates == {}
    assert "eh.report(run, samples=200)" in Page(render(content)).text
    assert gathered(slow, samples=200).estimates["uniform"].samples == 200
