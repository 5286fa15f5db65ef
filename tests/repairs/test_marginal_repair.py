from __future__ import annotations

import numpy as np

import evenhand as eh

from .people import QUICK, SPACE, Coded, people, repair


def test_no_individual_is_treated_differently_and_nothing_is_trained() -> None:
    done = repair(train, *people(300), SPACE, "marginal", **{**QUICK, "samples": 5000})
    assert done.changed
    assert done.before.uniform is not None
    assert done.after.uniform is not None
    assert done.before.uniform.found > 0
    assert done.after.uniform.exact
    assert (done.after.uniform.found, done.after.audit.found, done.rows_added, len(done.used)) == (0, 0, 0, 0)
    assert done.settings["strategy"] is None


def test_weights_are_passed_on() -> None:
    method = eh.repairs.Marginal(weights={"F": 1.0, "M": 0.0})
    done = repair(train, *people(300), SPACE, method, watch=(), **QUICK)
    X, _ = people(100, 5)
    assert (np.asarray(done.model.predict(X)) == done.original.labels(X.assign(sex="F"))).all()


def test_the_shares_of_the_training_rows() -> None:
    X, y = people(300)
    done = repair(train, X, y, SPACE, eh.repairs.Marginal(weights="data"), held_out=(X[:50], y[:50]), watch=(), **QUICK)
    assert done.model.weights == eh.MarginalModel.shares(SPACE, X)
    assert done.after.data is not None
    assert done.after.data.found == 0


def test_estimators_without_recorded_columns() -> None:
    done = repair(Coded(), *people(300), SPACE, "marginal", watch=(), **QUICK)
    assert done.after.uniform is not None
    assert done.after.uniform.found == 0


def test_a_picture() -> None:
    done = repair(train, *people(300), SPACE, "marginal", watch=(), **QUICK)
    uniform, data = done.plot().axes
    assert uniform.get_legend_handles_labels()[1] == ["original", "marginal"]
    assert "held-out" in data.get_xlabel()


def train(X: object, y: object) -> eh.Model:
    return eh.wrap(Coded(random_state=0).fit(X, y), input="frame")  # type: ignore[arg-type]
