"""Group figures: equal to pandas, with intervals, and without missing groups."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evenhand as eh
from evenhand._format import estimated, number, number_interval
from evenhand._intervals import clopper_pearson
from evenhand.errors import DataError, EstimateError, MissingExtra, ModelError
from evenhand.estimates.groups import ratio_ends
from tests.helpers import optional

SPACE = eh.Space(
    [
        eh.Integer("age", 18, 90),
        eh.Integer("pay", 0, 99),
        eh.Nominal("sex", ["F", "M", "X"]),
        eh.Nominal("race", ["a", "b"]),
    ],
    protected=["sex", "race", "age"],
)


def people(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, n),
            "pay": rng.integers(0, 100, n),
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(["a", "b"], n, p=[0.99, 0.01]),
            "y": rng.choice(["yes", "no"], n),
            "w": rng.uniform(0.1, 3, n),
        }
    )


def decide(frame):
    return np.where(frame["pay"] > np.where(frame["sex"] == "F", 60, 40), "yes", "no")


@pytest.fixture(autouse=True)
def _needs_fairlearn() -> None:
    optional("fairlearn")


def test_rates_are_those_of_the_data() -> None:
    frame = people(4_000)
    said = pd.Series(decide(frame) == "yes")
    figures = eh.groups(decide, SPACE, frame, "yes", y="y")
    sex = {g.values["sex"]: g for g in figures.groups if set(g.values) == {"sex"}}
    for name in "FM":
        here = said[frame["sex"] == name]
        assert (sex[name].rows, sex[name].selected) == (len(here), here.sum())
        assert sex[name].rate == pytest.approx(here.mean())
        assert np.allclose((sex[name].low, sex[name].high), clopper_pearson(here.sum(), len(here)))
        right = (decide(frame) == frame["y"])[frame["sex"] == name]
        assert sex[name].accuracy == pytest.approx(right.mean())
    assert sex["F"].impact_ratio == pytest.approx(sex["F"].rate / sex["M"].rate)
    assert sex["F"].impact_low < sex["F"].impact_ratio < sex["F"].impact_high
    assert sex["F"].verdict == "below four fifths"
    # Its rate is the largest for sure, so its ratio is 1 for sure.
    assert (sex["M"].impact_ratio, sex["M"].impact_low, sex["M"].verdict) == (1, 1, "at least four fifths")
    # No individual of sex X is in the data: the group is there, and says so.
    assert (sex["X"].rows, sex["X"].rate, sex["X"].verdict) == (0, None, "insufficient evidence")
    assert "sex X: no individuals in the data" in repr(figures)
    small = next(g for g in figures.groups if g.values == {"race": "b"})
    assert small.rate is not None
    assert small.impact_ratio is None


def test_intersections_and_bands() -> None:
    figures = eh.groups(decide, SPACE, people(), "yes", bands={"age": [30, 60]})
    names = {tuple(g.values) for g in figures.groups}
    assert names == {
        ("sex",),
        ("race",),
        ("age",),
        ("sex", "race"),
        ("sex", "age"),
        ("race", "age"),
        ("sex", "race", "age"),
    }
    assert [g.values["age"] for g in figures.groups if set(g.values) == {"age"}] == ["18 to 29", "30 to 59", "60 to 90"]
    for chosen in names:
        assert sum(g.rows for g in figures.groups if tuple(g.values) == chosen) == 600
    quartiles = [g.rows for g in eh.groups(decide, SPACE, people(), "yes").groups if set(g.values) == {"age"}]
    assert len(quartiles) == 4
    assert min(quartiles) > 120


def test_weights() -> None:
    frame = people()
    frame.loc[frame["sex"] == "M", "w"] = 0.0
    figures = eh.groups(decide, SPACE, frame, "yes", weights="w", y="y")
    sex = {g.values["sex"]: g for g in figures.groups if set(g.values) == {"sex"}}
    women = frame[frame["sex"] == "F"]
    expected = np.average(decide(women) == "yes", weights=women["w"])
    assert sex["F"].rate == pytest.approx(expected)
    assert sex["F"].low < expected < sex["F"].high
    assert sex["M"].rows == 0


def test_rows_without_weight_are_not_counted_as_left_out() -> None:
    """A report on a slow model weights a sample of the rows; what lies outside the space is counted in it."""
    frame = people()
    frame.loc[frame.index[::4], "sex"] = "unknown"
    some = np.arange(len(frame)) < 100
    weighted, cut = eh.groups(decide, SPACE, frame, "yes", weights=some), eh.groups(decide, SPACE, frame[some], "yes")
    assert weighted.counts == cut.counts == {"rows": 100, "dropped": 25, "moved": 0}
    assert (weighted.rows, weighted.note) == (cut.rows, cut.note)


def test_numbers_are_selected_beyond_the_median() -> None:
    from sklearn.linear_model import LinearRegression

    frame = people()
    model = LinearRegression().fit(frame[["pay"]], frame["pay"])
    higher, lower = (eh.groups(model, SPACE, frame, which) for which in ("higher", "lower"))
    race = [next(g for g in f.groups if g.values == {"race": "a"}) for f in (higher, lower)]
    assert race[0].rate == pytest.approx(0.5, abs=0.02)
    assert race[0].rate + race[1].rate <= 1
    assert "above the median" in repr(higher)
    assert "below the median" in repr(lower)
    with pytest.raises(ModelError, match="higher"):
        eh.groups(model, SPACE, frame, "yes")


def test_plain_values_and_picture() -> None:
    figures = eh.groups(decide, SPACE, people(), "yes")
    values = json.loads(json.dumps(figures.to_dict(), allow_nan=False))
    assert len(values["groups"]) == len(figures.groups) == len(figures.frame)
    assert figures.plot_intervals().axes


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"favourable": "maybe"}, "maybe"),
        ({"favourable": None}, "favourable"),
        ({"y": "z"}, "y must be a column"),
        ({"y": ["yes"]}, "one true label"),
        ({"y": np.zeros(600)}, "encode both the same way"),
        ({"weights": "z"}, "a column of the data"),
        ({"bands": {"pay": [3]}}, "protected attributes"),
        ({"bands": {"sex": [3]}}, "no order"),
        ({"bands": {"age": ["old"]}}, "numbers"),
        ({"confidence": 2}, "confidence"),
        ({"smallest": -1}, "smallest"),
    ],
)
def test_wrong_arguments(kwargs: dict[str, object], words: str) -> None:
    with pytest.raises((DataError, EstimateError, ModelError), match=words):
        eh.groups(decide, SPACE, people(), **{"favourable": "yes", **kwargs})


def test_rows_outside_the_space() -> None:
    with pytest.raises(DataError, match="none of the 1 rows"):
        eh.groups(decide, SPACE, {"age": [20], "pay": [3], "sex": ["?"], "race": ["a"]}, "yes")


def test_without_fairlearn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    with pytest.raises(MissingExtra, match="evenhand\\[fairness\\]"):
        eh.groups(decide, SPACE, people(), "yes")


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.1), (0.3, 0.35), (0.02, 0.05)])
def test_impact_interval_covers_whichever_group_is_on_top(rates: tuple[float, float]) -> None:
    n, confidence = 25, 0.95
    counts = np.arange(n + 1)
    risk = (1 - confidence) / 4
    alone, at_once = clopper_pearson(counts, n, 1 - 2 * risk), clopper_pearson(counts, n, 1 - risk)
    chance = [stats.binom.pmf(counts, n, rate) for rate in rates]
    covered = np.zeros(2)
    for a in counts:
        for b in counts:
            at = np.array([a, b])
            low, high = ratio_ends(alone[0][at], alone[1][at], at_once[0][at])
            truth = np.array(rates) / max(rates)
            covered += chance[0][a] * chance[1][b] * ((low <= truth + 1e-12) & (truth <= high + 1e-12))
    assert (covered >= confidence).all()


@pytest.mark.parametrize("given", ["frame", "array"])
def test_rows_are_asked_as_they_are_given(given: str) -> None:
    space = eh.Space(
        [eh.Real("pay", 0.0, 1.0, step=0.1), eh.Integer("hours", 0, 10), eh.Boolean("member")], protected="member"
    )
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"pay": rng.uniform(0, 1.4, 500), "hours": rng.integers(0, 30, 500), "member": rng.random(500) < 0.5}
    )

    def columns(x: object) -> tuple[np.ndarray, ...]:
        return tuple(x.T) if isinstance(x, np.ndarray) else tuple(np.asarray(x[name]) for name in space.names)

    def narrow(x: object) -> np.ndarray:
        pay, hours, member = columns(x)
        return (pay > 0.47 + 0.1 * np.asarray(member, dtype=float)) & (hours > 14)

    figures = eh.groups(eh.wrap(narrow, input=given), space, frame, True, y=narrow(frame))
    for group in figures.groups:
        here = frame[frame["member"] == group.values["member"]]
        assert (group.selected, group.rate) == (narrow(here).sum(), pytest.approx(narrow(here).mean()))
        assert group.accuracy == 1
    assert "500 rows, as given" in repr(figures)
    assert "if the model was trained on them, it is overstated" in repr(figures)
    assert "accuracy" not in eh.groups(eh.wrap(narrow, input=given), space, frame, True).note


def test_rows_rejected_by_the_model_are_moved_and_counted() -> None:
    space = eh.Space([eh.Integer("pay", 0, 10), eh.Boolean("member")], protected="member")
    frame = pd.DataFrame({"pay": [*range(10), 12, 13], "member": [True, False] * 6})

    def strict(x: pd.DataFrame) -> np.ndarray:
        if (x["pay"] > 10).any():
            raise ValueError("pay")
        return np.asarray(x["pay"] > 5)

    figures = eh.groups(strict, space, frame, True)
    assert figures.counts["moved"] == 2
    assert "2 of them moved to the nearest values of the space" in repr(figures)
    assert "as given;" not in figures.note


def test_the_verdict_follows_from_the_interval_that_is_shown() -> None:
    rng = np.random.default_rng(2)
    for share in (0.2, 0.5, 0.62, 0.7, 0.9, 1.0):
        frame = people(900).assign(pay=rng.integers(0, 100, 900))
        figures = eh.groups(lambda f, s=share: np.where(f["pay"] < np.where(f["sex"] == "F", 80 * s, 80), "yes", "no"),
                            SPACE, frame, "yes")  # fmt: skip
        for group in figures.groups:
            if group.impact_ratio is None:
                continue
            assert (group.verdict == "below four fifths") == (group.impact_high < 0.8)
            assert (group.verdict == "at least four fifths") == (group.impact_low >= 0.8)
            told = f"{number(group.impact_ratio)} ({number_interval(group.impact_low, group.impact_high)})"
            assert told in repr(figures)
            assert estimated(group.rate, group.low, group.high) in repr(figures)
