"""How much a report asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

import evenhand as eh
from evenhand.reporting.making import gathered
from evenhand.reporting.rendering import render
from evenhand.reporting.subject import FEWEST, SAMPLES, affordable
from tests.reporting.page import Page


@pytest.mark.parametrize(
    ("seconds", "samples"),
    [(0.0, SAMPLES), (0.2, SAMPLES), (2.0, 5_000), (8.0, 1_000), (20.0, 500), (100.0, FEWEST), (500.0, 0), (1e6, 0)],
)
def test_a_slow_model_is_asked_less(run: eh.Run, seconds: float, samples: int) -> None:
    """10,000 rows took so long; a test asks 4 rows, and all questions together ten times what one estimate does."""
    slow = replace(run, seconds=seconds, asked={"test": 10_000})
    assert affordable(slow) == samples


def test_it_never_grows_with_the_time_of_a_row(run: eh.Run) -> None:
    counts = [affordable(replace(run, seconds=10.0**power)) for power in range(-3, 8)]
    assert counts == sorted(counts, reverse=True)


def test_a_model_that_is_far_too_slow_is_not_asked(run: eh.Run) -> None:
    slow = replace(run, seconds=1e6)
    content = gathered(slow)
    assert content.estimates == {}
    assert "eh.report(run, samples=200)" in Page(render(content)).text
    assert gathered(slow, samples=200).estimates["uniform"].samples == 200
