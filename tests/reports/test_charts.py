"""Charts and maps show what their objects have: places are recalculated, and maps counted by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.reports import charts
from evenhand.reports.content import Content
from evenhand.reports.people import FEW, Scores, map_of, ranked
from evenhand.reports.render import render
from evenhand.reports.report import gathered
from tests.reports.page import Page

SPACE = eh.Space(
    [
        eh.Integer("age", 18, 80),
        eh.Integer("hours", 0, 60),
        eh.Nominal("job", ["nurse", "clerk", "cook", "spy"]),
        eh.Nominal("sex", ["F", "M"]),
    ],
    protected="sex",
)


def people(rows: int = 600) -> pd.DataFrame:
    random = np.random.default_rng(3)
    jobs = np.where(np.arange(rows) < 2, "spy", random.choice(["nurse", "clerk", "cook"], rows))
    return pd.DataFrame(
        {
            "age": random.integers(18, 81, rows),
            "hours": random.integers(0, 61, rows),
            "job": jobs,
            "sex": random.choice(["F", "M"], rows),
        }
    )


def score(frame: pd.DataFrame) -> np.ndarray:
    """Depends on age and job, and on sex where the person is a young cook."""
    young = (frame["age"] < 40) & (frame["job"] == "cook")
    return np.clip(0.7 - 0.3 * (young & (frame["sex"] == "F")) - frame["hours"] / 1_000, 0, 1)


def bounds(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split(" to ")))


def end(words: str) -> int:
    return int(words.split()[-1])


@pytest.fixture(scope="module")
def content() -> Content:
    run = eh.audit(eh.wrap(score, threshold=0.5), SPACE, "themis", 500, data=people())
    return gathered(run, data=people(), favourable=1, samples=1_000)


def test_the_map_counts_people(content: Content) -> None:
    data, chart = people(), content.map
    assert chart is not None
    assert {chart.down, chart.across} == {"age", "job"}
    assert content.influence[:2] == [chart.down, chart.across]
    counted = {
        (row, column): chart.cells[i][j] for i, row in enumerate(chart.rows) for j, column in enumerate(chart.columns)
    }
    for (row, column), cell in counted.items():
        age, job = (row, column) if chart.down == "age" else (column, row)
        low, high = {"up to": (0, end(age)), "over": (end(age) + 1, 99)}.get(age.rpartition(" ")[0]) or bounds(age)
        # Two people have a job that no map names.
        jobs = ["spy"] if job == "other" else [job]
        inside = data[data["age"].between(low, high) & data["job"].isin(jobs)]
        assert cell.people == len(inside)
        assert cell.found == ((inside["age"] < 40) & (inside["job"] == "cook")).sum()
    assert sum(cell.people for cell in counted.values()) == len(data)
    page = Page(render(content))
    assert "spy" not in " ".join(page.text.split("Where it happens")[-1].split("Rules")[0].split()[:80])


def test_a_cell_of_few_people_has_no_rate(content: Content) -> None:
    html = render(content)
    assert content.map is not None
    few = sum(0 < cell.people < FEW for row in content.map.cells for cell in row)
    chart, table = html.split('aria-label="Treated differently, by')[1].split("</table>")[0].split("</svg>")
    assert len(re.findall(">few</text>", chart)) == len(re.findall(">few</td>", table)) == few > 0
    shown = sum(cell.people >= FEW for row in content.map.cells for cell in row)
    assert len(re.findall(r'data-source="map[\w.]*rate"', chart)) == chart.count("<rect") == shown
    assert len(re.findall(r'data-source="map[\w.]*rate"', table)) == shown


def test_dots_are_where_their_scores_are(content: Content) -> None:
    scores = content.scores
    assert scores is not None
    assert (scores.first, scores.second, scores.threshold) == ("sex F", "sex M", 0.5)
    data = people()
    sides = np.column_stack([score(data.assign(sex=sex)) for sex in ("F", "M")])
    assert sorted(map(tuple, scores.points.round(9).tolist())) == sorted(map(tuple, sides.round(9).tolist()))
    assert (scores.only_first, scores.only_second) == (0, ((data["age"] < 40) & (data["job"] == "cook")).sum())
    drawn = re.findall(r"M([\d.]+) ([\d.]+)h0", charts.scatter(scores, "x"))
    assert len(drawn) == len(data)
    left, size, top = 62, 300, 12
    found = sorted(((float(x) - left) / size, 1 - (float(y) - top) / size) for x, y in drawn)
    assert np.allclose(sorted(map(tuple, scores.points.tolist())), found, atol=1e-3)


def test_a_chart_has_two_thousand_dots_at_most(tmp_path: Path) -> None:
    data = people(5_000)
    run = eh.audit(eh.wrap(score, threshold=0.5), SPACE, "themis", 200, data=data)
    content = gathered(run, data=data, samples=5_000)
    assert content.scores is not None
    assert content.scores.people == 2_000
    html = render(content)
    assert html.count("h0M") < 2_000
    assert len(html) < 500_000


def test_a_dot_plot_has_each_interval_on_one_axis() -> None:
    rows = [charts.Row("a", -0.2, -0.1, 0.05, -0.1), charts.Row("b", 0.1, 0.2, 0.4, -0.2, "reverse")]
    svg = charts.dots(rows, "Net")
    # The axis goes from -20% to 40%.
    places = [10 + 380 * (value + 0.2) / 0.6 for row in rows for value in (row.low, row.value, row.high)]
    lines = re.findall(r'class="range( unsure)?" x1="([\d.]+)" x2="([\d.]+)"', svg)
    middle = re.findall(r'<circle class="dot" cx="([\d.]+)"', svg)
    drawn = [float(x) for (_, low, high), value in zip(lines, middle, strict=True) for x in (low, value, high)]
    assert drawn == pytest.approx(places, abs=0.1)
    assert [unsure for unsure, _, _ in lines] == [" unsure", ""]
    assert re.findall(r'strong"[^>]*>([^<]*)<', svg) == ["-10%", "20%"]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_around_the_range(low: float, part: float) -> None:
    width = part * max(1.0, abs(low))
    ticks = charts.round_ticks(low, low + width)
    step = ticks[1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * step
    assert ticks[-1] >= low + width - 1e-6 * step
    assert 2 <= len(ticks) <= 7
    assert np.allclose(np.diff(ticks), step, rtol=1e-3)
    assert any(t == 0 for t in ticks) == (ticks[0] <= 0 <= ticks[-1])


@pytest.mark.parametrize("favourable", ["yes", None, "no"])
def test_who_is_ahead_is_named_first(favourable: str | None) -> None:
    """The words follow from the interval, whichever of the two comes first."""

    def decide(frame: pd.DataFrame) -> Any:
        return np.where((frame["sex"] == "M") & (frame["age"] > 40), "yes", "no")

    run = eh.audit(decide, SPACE, "themis", 300, data=people())
    text = Page(render(gathered(run, data=people(), favourable=favourable, samples=600))).text
    ahead = {
        "yes": "sex M fares better than sex F",
        "no": "sex F fares better than sex M",
        None: "sex M gets “yes” more often than sex F",
    }
    assert ahead[favourable] in text
    assert ": not clear" not in text.split("All figures")[0]


def test_the_attribute_that_matters_comes_first() -> None:
    run = eh.audit(lambda f: (f["hours"] > 50) & (f["sex"] == "F"), SPACE, "themis", 200, data=people())
    e = eh.estimate(lambda f: (f["hours"] > 50) & (f["sex"] == "F"), SPACE, "data", data=people())
    assert ranked(e)[0] == "hours"
    nothing = eh.estimate(lambda f: f["hours"] > 50, SPACE, "data", data=people())
    assert (ranked(nothing), map_of(nothing, SPACE.free)) == ([], None)
    assert run.found


def test_amounts_have_no_threshold() -> None:
    scores = Scores("a", "b", "", np.array([[1.0, 2.0], [5.0, 5.0]]), None)
    assert (scores.only_first, scores.only_second, scores.median) == (0, 0, 0.5)
    svg = charts.scatter(scores, "x")
    assert "zero" not in svg
    assert svg.count("h0") == 2


def test_many_values_have_a_map_of_pairs(tmp_path: Path) -> None:
    values = [f"v{i}" for i in range(9)]
    space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("origin", values)], protected="origin")
    run = eh.audit(lambda f: (f["origin"] == "v3") & (f["age"] > 20), space, "themis", 300)
    content = gathered(run, favourable=True, samples=1_000)
    html = render(content)
    Page(html).check()
    chart = html.split('aria-label="How much more often the row')[1].split("</svg>")[0]
    assert chart.count("<rect") == len(re.findall(r'data-source="estimates[\w.]*net"', chart)) == 36
    # The value that is ahead of all others comes first, in the chart and in the table with the same numbers.
    table = html.split("The same as a table")[1].split("</table>")[0]
    assert [re.findall(r">(v\d)<", part)[8] for part in (chart, table)] == ["v3", "v3"]
    numbers = [re.findall(r"(?:data-as[^>]*)>([^<]+)</(?:text|data)>", part) for part in (chart, table)]
    assert numbers[0] == numbers[1]


def test_what_follows_a_protected_value_is_in_the_scores() -> None:
    space = eh.Space(
        [
            eh.Integer("age", 18, 80),
            eh.Nominal("role", ["husband", "wife", "single"]),
            eh.Nominal("sex", ["F", "M"]),
        ],
        protected="sex",
        links={"sex": {"role": {"M": {"wife": "husband"}, "F": {"husband": "wife"}}}},
    )
    random = np.random.default_rng(0)
    sex = random.choice(["F", "M"], 200)
    role = np.where(random.random(200) < 0.5, "single", np.where(sex == "F", "wife", "husband"))
    data = pd.DataFrame({"age": random.integers(18, 81, 200), "role": role, "sex": sex})
    model = eh.wrap(lambda f: f["age"] / 100 + 0.1 * (f["role"] == "husband"), threshold=0.5)
    run = eh.audit(model, space, "themis", 200, data=data)
    scores = gathered(run, data=data, favourable=1, samples=500).scores
    assert scores is not None
    apart = np.abs(scores.points[:, 0] - scores.points[:, 1])
    assert np.allclose(np.sort(apart), np.sort(np.where(role == "single", 0, 0.1)))
