"""Reports of numbers, of scores and of three outcomes: who gets more, by how much, and honest axes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.reports.render import render
from evenhand.reports.report import gathered
from tests.helpers import optional
from tests.reports.page import Page

SPACE = eh.Space(
    [eh.Integer("age", 18, 65), eh.Integer("hours", 0, 60), eh.Nominal("sex", ["F", "M"])], protected="sex"
)
_random = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": _random.integers(18, 66, 400),
        "hours": _random.integers(0, 61, 400),
        "sex": _random.choice(["F", "M"], 400),
    }
)


def salary(frame: pd.DataFrame) -> Any:
    """Pays men over thirty 5,450 more."""
    return 1_002_000.0 + 40 * frame["hours"] + 5450 * (frame["sex"] == "M") * (frame["age"] > 30)


def decide(frame: pd.DataFrame) -> Any:
    """Gives men fifteen points more."""
    points = frame["hours"] + 15 * (frame["sex"] == "M")
    return np.select([points > 40, points > 20], ["granted", "reduced"], "refused")


def text_of(model: Any, criterion: Any = None, **given: Any) -> str:
    run = eh.audit(model, SPACE, "themis", eh.Budget(tests=300), criterion=criterion or eh.Flip())
    page = Page(render(gathered(run, data=PEOPLE, samples=6_000, **given)))
    page.check()
    return page.text


def check_figures(text: str) -> None:
    """No powers of ten, and no axis of shares beyond all of them."""
    assert not re.search(r"\de[+-]\d", text)
    ends = [float(end) for end in re.findall(r"[Bb]ars go from \S+% to (\S+)%", text)]
    assert ends
    assert max(ends) <= 100


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("favourable", [None, "higher", "lower"])
def test_a_report_of_numbers_says_who_gets_more_and_by_how_much(favourable: Any, regression: bool) -> None:
    text = text_of(eh.wrap(salary, regression=regression), eh.Gap(200), favourable=favourable)
    check_figures(text)
    mean = 5450 * (PEOPLE["age"] > 30).mean()
    head = text[: text.index("How common it is")]
    told = re.search(r"sex M gets ([\d,]+) more than sex F on average \(95% CI ([\d,]+) to ([\d,]+)\)", head)
    assert told is not None
    shown, low, high = (float(number.replace(",", "")) for number in told.groups())
    assert shown == round(mean)
    assert low < mean < high
    assert ("favoured" in text) == (favourable is not None)
    assert ("sex M is favoured" in text) == (favourable == "higher")
    assert ("sex F is favoured" in text) == (favourable == "lower")
    assert ("to the disadvantage of" in head) == (favourable is not None)
    # Over the space everybody was asked: 35 of 48 ages are over thirty.
    assert f"sex M gets {5450 * 35 / 48:,.0f} more than sex F on average" in text


def test_a_report_of_a_regression_has_means_of_groups() -> None:
    optional("fairlearn")
    text = text_of(eh.wrap(salary, regression=True), eh.Gap(200))
    text = text[text.index("they compare different people") :]
    said = pd.Series(salary(PEOPLE)).groupby(PEOPLE["sex"]).mean()
    assert f"{said['F']:,.0f}" in text
    assert f"{said['M'] - said['F']:,.0f}" in text
    assert "four fifths" not in text


def test_everybody_is_no_more_than_all() -> None:
    # All are treated differently: 110% of the longest bar would be beyond all.
    check_figures(text_of(lambda f: 0.25 * (f["sex"] == "M"), eh.Gap(0.1), favourable="higher"))
    check_figures(text_of(lambda f: f["sex"] == "M", favourable=True))


@pytest.mark.parametrize(
    ("favourable", "wanted", "share"),
    [
        (["granted", "reduced"], "“granted” or “reduced”", lambda a, b: (a == "refused") & (b != "refused")),
        (eh.Order(["refused", "reduced", "granted"]), "“refused”, “reduced”, “granted”", lambda a, b: a != b),
        ("granted", "“granted”", lambda a, b: (a != "granted") & (b == "granted")),
    ],
)
def test_report_of_three_outcomes_names_the_favoured_group(favourable: Any, wanted: str, share: Any) -> None:
    women, men = (decide(PEOPLE.assign(sex=sex)) for sex in "FM")
    net = 100 * share(women, men).mean()
    text = text_of(decide, favourable=favourable)
    check_figures(text)
    assert wanted in text
    assert "sex M is favoured" in text
    assert "to the disadvantage of sex F" in text
    row = text[text.index("sex F and as sex M") :]
    shown = re.search(r" (-\d+(?:\.\d+)?)% (-\d+(?:\.\d+)?)% to (-\d+(?:\.\d+)?)%", row)
    assert shown is not None
    value, low, high = map(float, shown.groups())
    assert value == pytest.approx(-net, abs=0.5)
    assert low < -net < high


def test_plots_of_shares_end_at_100_percent() -> None:
    optional("matplotlib")
    everyone = eh.estimate(lambda f: f["sex"] == "M", SPACE, favourable=True)
    left, right = everyone.plot_intervals().axes[0].get_xlim()
    assert -100 <= left < right <= 100
    left, right = eh.estimate(lambda f: f["sex"] == "M", SPACE).plot_intervals().axes[0].get_xlim()
    assert (left, right <= 100) == (0, True)
    numbers = eh.estimate(salary, SPACE, "data", data=PEOPLE, criterion=eh.Gap(200)).plot_intervals().axes[0]
    assert numbers.get_xlim()[0] < -3_000
    assert "%" not in numbers.get_xlabel()
