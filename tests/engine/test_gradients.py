from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.criteria import Flip, Outputs
from evenhand.engine.gradients import DIFFERENCES, Slopes, most_different_of
from evenhand.engine.judge import ModelProbe


def slopes_of(model: Any, space: eh.Space, wanted: Any = "auto") -> Slopes:
    slopes = ModelProbe(eh.wrap(model), space, Flip(), gradient=wanted).slopes
    assert slopes is not None
    return slopes


def mixed(missing: bool = False) -> eh.Space:
    return eh.Space(
        [
            eh.Integer("years", 10, 40, step=3, missing=missing),
            eh.Real("ratio", 0, 1, step=0.05),
            eh.Ordinal("grade", [1, 2, 4, 9]),
            eh.Nominal("work", [3, 5, 11]),
            eh.Integer("sex", 0, 1),
        ],
        protected="sex",
    )


def people(space: eh.Space, n: int = 40, seed: int = 0) -> Any:
    return space.sampler.draw(Stream(seed), 0, n)[0].rows


def jump(space: eh.Space, rows: Any) -> Any:
    out = rows.copy()
    for j in space.free_columns:
        if not space.ordered[j]:
            out[:, j] = (rows[:, j] + 1) % space.coding.sizes[j]
    return out


class Linear(eh.Model):
    """A model whose gradient is known: the loss of class 1 falls by the weights."""

    name, input, has_scores, decides = "linear", "array", True, True
    gradient_source = "known"
    classes = np.arange(2)
    weights = np.array([0.5, -2.0, 1.0, 0.25, 7.0])

    def labels(self, X: Any) -> Any:
        return self.decide(self.scores(X))

    def scores(self, X: Any) -> Any:
        return X @ self.weights[:, None]

    def gradients(self, X: Any, classes: Any) -> Any:
        return np.where(classes == 1, -1, 1)[:, None] * self.weights


def test_a_slope_is_the_gradient_times_one_step() -> None:
    space, model = mixed(), Linear()
    rows = people(space)
    classes = np.arange(len(rows)) % 2
    slopes = slopes_of(model, space)
    assert (slopes.source, slopes.cost) == ("known", 1)
    got = slopes.ask(rows, classes, jump(space, rows))
    sign = np.where(classes == 1, -1, 1)
    values = space.array(rows)
    jumped = space.array(jump(space, rows))
    assert np.allclose(got[:, 0], sign * 0.5 * 3)
    assert np.allclose(got[:, 1], sign * -2.0 * 0.05)
    # The steps of an ordinal attribute differ: inside, half the way from the one below to the one above.
    assert np.allclose(got[:, 2], sign * np.array([1, 1.5, 3.5, 5])[rows[:, 2]])
    assert np.allclose(got[:, 3], sign * 0.25 * (jumped[:, 3] - values[:, 3]))
    assert (got[:, 4] == 0).all()


def test_differences_of_scores_equal_the_gradients_of_a_linear_model() -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 9), eh.Real("b", 0, 1, step=0.1), eh.Nominal("c", [0, 1, 5]), eh.Integer("sex", 0, 1)],
        protected="sex",
    )

    class Small(Linear):
        weights = np.array([0.5, -2.0, 0.25, 7.0])

    rows = people(space)
    classes = np.arange(len(rows)) % 2
    own, differences = slopes_of(Small(), space), slopes_of(Small(), space, "scores")
    assert (differences.source, differences.cost) == (DIFFERENCES, 2 + 2 + 1 + 1)
    targets = jump(space, rows)
    expected = own.ask(rows, classes, targets)
    assert np.allclose(differences.ask(rows, classes, targets), expected, atol=1e-6)


def test_missing_values_do_not_move() -> None:
    space = mixed(missing=True)
    rows = people(space, 200)
    gone = rows[:, 0] == space.present[0]
    assert gone.any()
    for wanted in ("model", "scores"):

        class Model(Linear):
            def scores(self, X: Any) -> Any:
                return np.nan_to_num(X) @ self.weights[:, None]

        got = slopes_of(Model(), space, wanted).ask(rows, np.ones(len(rows), dtype=int), jump(space, rows))
        assert (got[gone, 0] == 0).all()
        assert (got[~gone, 0] != 0).all()
        assert np.isfinite(got).all()


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_differences_are_those_of_the_scores_of_the_class(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    space = eh.Space(
        [eh.Integer("a", 0, 4), eh.Nominal("b", ["x", "y", "z"]), eh.Integer("c", 0, 2), eh.Boolean("sex")],
        protected="sex",
    )
    table = rng.normal(size=(space.coding.total, width))

    def model(frame: Any) -> Any:
        return table[space.encode(frame).individuals.ids]

    rows = people(space, 30, seed)
    classes = rng.integers(0, max(width, 2), len(rows))
    targets = jump(space, rows)
    got = slopes_of(model, space).ask(rows, classes, targets)
    for i, row in enumerate(rows):

        def loss(changed: Any, y: int = int(classes[i])) -> float:
            scores = table[space.coding.ids(changed[None])[0]]
            return float(-scores[y] if width > 1 else (-scores[0] if y == 1 else scores[0]))

        for j in space.free_columns:
            up, down = row.copy(), row.copy()
            if space.ordered[j]:
                up[j], down[j] = min(row[j] + 1, space.sizes[j] - 1), max(row[j] - 1, 0)
                assert got[i, j] == pytest.approx((loss(up) - loss(down)) / (up[j] - down[j]), rel=1e-5, abs=1e-6)
            else:
                up[j] = targets[i, j]
                assert got[i, j] == pytest.approx(loss(up) - loss(row), rel=1e-5, abs=1e-6)
        assert got[i, 3] == 0


def test_columns_unknown_to_the_model_have_no_slope() -> None:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    space = mixed()
    frame = space.frame(people(space, 200))
    model = LogisticRegression().fit(frame[["sex", "years"]], frame["years"] + frame["sex"] > 25)
    rows = people(space, 50, 1)
    got = slopes_of(model, space).ask(rows, np.ones(50, dtype=int), jump(space, rows))
    assert isinstance(frame, pd.DataFrame)
    assert (got[:, 0] != 0).all()
    assert (got[:, 1:] == 0).all()


def test_a_missing_source_of_gradients_is_refused() -> None:
    space = mixed()

    class Labels(eh.Model):
        def labels(self, X: Any) -> Any:
            return np.zeros(len(X))

    with pytest.raises(eh.errors.ModelError, match="kosei"):
        slopes_of(Labels(), space)
    with pytest.raises(eh.errors.ModelError, match="gradient='scores'"):
        slopes_of(lambda X: X, space, "model")


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 6), st.integers(1, 4), st.booleans())
def test_counterparts_with_another_decision_come_first_then_the_largest_gap(
    seed: int, n: int, places: int, width: int, coarse: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, places, width))
    if coarse:
        # Ties, of which the first counts.
        scores = np.round(scores)
    own = rng.integers(0, places, n)
    model: Any = eh.wrap(lambda X: X)
    if width == 1:
        model.classes = np.arange(2)
    labels = model.decide(scores.reshape(-1, width)).reshape(n, places)
    classes, chosen = most_different_of(model, Outputs(labels, scores, own))
    for i in range(n):
        y = int(scores[i, own[i], 0] > 0) if width == 1 else int(scores[i, own[i]].argmax())
        assert classes[i] == y
        column = scores[i, :, 0 if width == 1 else y]
        others = [p for p in range(places) if p != own[i]]
        flipped = [p for p in others if labels[i, p] != labels[i, own[i]]]
        best = max(flipped or others, key=lambda p: abs(column[p] - column[own[i]]))
        assert chosen[i] == best
