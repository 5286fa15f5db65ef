from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

import evenhand as eh
from evenhand.errors import DataError, ModelError
from evenhand.repairs.data import labelled
from evenhand.repairs.evidence import (
    Answers,
    Interval,
    accuracy,
    answers,
    auc,
    auc_difference,
    calibration,
    calibration_difference,
    share_difference,
)

from .people import SPACE, Coded, people


def scored(level: Any, positive: Any) -> Answers:
    level, positive = np.asarray(level, dtype=float), np.asarray(positive, dtype=bool)
    said = level > 0.5
    column = positive[:, None], level[:, None]
    return Answers(said, said == positive, *column, np.square(level - positive), level, positive)


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool]]) -> None:
    one = scored([level / 6 for level, _ in rows], [positive for _, positive in rows])
    assert one.level is not None
    high, low = ([v for v, p in rows if p is side] for side in (True, False))
    found = auc(one, 0.95)
    if not high or not low:
        assert found is None
        return
    pairs = [(a > b) + 0.5 * (a == b) for a in high for b in low]
    assert found is not None
    assert found.value == pytest.approx(np.mean(pairs))
    assert 0 <= found.low <= found.value <= found.high <= 1
    if found.value in (0, 1):
        assert found.high - found.low > 0


def test_figures_agree_with_scikit_learn() -> None:
    X, y = people(500)
    rows = labelled(*people(400, 1), SPACE)
    model = eh.wrap(Coded(4).fit(X, y), input="frame")
    one = answers(model, rows)
    p = model.source.predict_proba(rows.frame)[:, 1]
    assert accuracy(one, 0.95).value == (model.source.predict(rows.frame) == rows.y).mean()
    assert auc(one, 0.95).value == pytest.approx(roc_auc_score(rows.y, p))  # type: ignore[union-attr]
    found = calibration(one, 0.95, 0)
    assert found is not None
    assert found.brier.value == pytest.approx(brier_score_loss(rows.y, p))
    bins = np.minimum((p * 10).astype(int), 9)
    by_hand = sum(abs(p[bins == b].mean() - rows.y[bins == b].mean()) * (bins == b).mean() for b in set(bins.tolist()))
    assert found.error.value == pytest.approx(by_hand)


def test_intervals_hold_and_paired_ones_are_narrower() -> None:
    """Draw many samples of two models whose true difference is known."""
    rng = np.random.default_rng(0)
    wide, narrow, caught, caught_auc = [], [], 0, 0
    for _ in range(200):
        positive = rng.random(300) < 0.5
        signal = positive + rng.normal(size=300)
        a, b = (scored(1 / (1 + np.exp(-signal - rng.normal(scale=0.3, size=300))), positive) for _ in range(2))
        gain = share_difference(a.correct, b.correct, 0.95)
        caught += gain.low <= 0 <= gain.high
        area = auc_difference(a, b, 0.95)
        assert area is not None
        caught_auc += area.low <= 0 <= area.high
        own = auc(a, 0.95)
        assert own is not None
        narrow.append(area.high - area.low)
        wide.append(own.high - own.low)
        assert gain.value == pytest.approx(b.correct.mean() - a.correct.mean())
    assert caught >= 188
    assert caught_auc >= 180
    assert np.mean(narrow) < np.mean(wide)


def test_difference_intervals_are_nearly_optimal() -> None:
    up, down = np.arange(300) < 15, np.arange(300) >= 276
    gain = share_difference(~up, ~down, 0.95)
    spread = np.std(up.astype(int) - down) / np.sqrt(300)
    assert gain.value == pytest.approx(-0.03)
    assert 2 * 1.96 * spread < gain.high - gain.low < 1.05 * 2 * 1.96 * spread


def test_two_equal_models_differ_by_nothing() -> None:
    one = scored([0.2, 0.7, 0.9, 0.4], [0, 1, 1, 1])
    apart = calibration_difference(one, one, 0.95, 0)
    assert apart is not None
    assert (apart.brier.value, apart.error.value) == (0, 0)
    assert share_difference(one.correct, one.correct, 0.95).value == 0


def test_several_classes() -> None:
    X, y = people(300)
    three = np.where(X["age"] > 15, 2, y)
    rows = labelled(X, three, SPACE)
    one = answers(eh.wrap(Coded(4).fit(X, three), input="frame"), rows)
    p = Coded(4).fit(X, three).predict_proba(X)
    area = auc(one, 0.95)
    assert area is not None
    assert area.value == pytest.approx(roc_auc_score(three, p, multi_class="ovr", average="macro"))
    assert area.low < area.value < area.high <= 1
    assert auc_difference(one, one, 0.95) == Interval(0.0, 0.0, 0.0)
    found = calibration(one, 0.95, 0)
    assert found is not None
    assert found.brier.value == pytest.approx(np.square(p - np.eye(3)[three]).sum(axis=1).mean())


def test_the_interval_of_the_mean_area_holds() -> None:
    """Three classes, two models of the same quality: the true difference is nothing, and the paired interval knows."""
    rng, held, widths, spread = np.random.default_rng(0), 0, [], []
    for _ in range(200):
        truth = rng.integers(0, 3, 150)[:, None] == np.arange(3)
        signal = truth + rng.normal(size=truth.shape)
        first, second = (
            Answers(truth[:, 0], truth[:, 0], truth, signal + rng.normal(scale=0.5, size=truth.shape)) for _ in range(2)
        )
        apart = auc_difference(first, second, 0.95)
        assert apart is not None
        held += apart.low <= 0 <= apart.high
        widths.append(apart.high - apart.low)
        spread.append(apart.value)
    assert held >= 180
    # Neither too narrow nor too wide: what the simulation itself shows.
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(spread), rel=0.2)


@pytest.mark.parametrize("truth", [[False, True], [0, 1], [0.0, 1.0], ["0", "1"]], ids=str)
def test_labels_of_other_types_are_the_same_labels(truth: list[Any]) -> None:
    X, y = people(100)
    rows = labelled(X, np.array(truth)[y], SPACE)
    right = answers(eh.wrap(lambda frame: 0.1 + 0.8 * y[frame.index], threshold=0.5), rows)
    assert accuracy(right, 0.95).value == 1
    assert auc(right, 0.95).value == 1  # type: ignore[union-attr]


def test_a_function_of_labels_gives_no_scores() -> None:
    rows = labelled(people(60)[0], np.arange(60) % 3, SPACE)
    assert not answers(eh.wrap(lambda X: np.arange(len(X)) % 3), rows).scored
    assert answers(eh.wrap(Coded(4).fit(rows.frame, rows.y), input="frame"), rows).scored


def test_scores_that_are_no_probabilities_or_no_scores() -> None:
    rows = labelled(*people(100), SPACE)
    raw = answers(eh.wrap(lambda X: X["pay"] - 10.25, threshold=0), rows)
    assert calibration(raw, 0.95, 0) is None
    assert auc(raw, 0.95) is not None
    labels = answers(eh.wrap(lambda X: (X["pay"] > 10).to_numpy().astype(int)), rows)
    assert (auc(labels, 0.95), calibration(labels, 0.95, 0)) == (None, None)
    with pytest.raises(ModelError, match="takes an array of numbers"):
        answers(eh.wrap(lambda X: X[:, 0] > 3, input="array"), rows)
    with pytest.raises(DataError, match="encode both the same way"):
        answers(eh.wrap(lambda X: np.where(X["pay"] > 10, "yes", "no")), rows)
