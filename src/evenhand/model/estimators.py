"""Estimators and pipelines of scikit-learn, and everything else that has ``predict``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError, NotFitted
from evenhand.model.answers import refuse_labels
from evenhand.model.boosters import catboost_decides
from evenhand.model.closed_form import derive
from evenhand.model.fitted import BOOSTERS, LightgbmFrame, dropped, fitted_on, package_of
from evenhand.model.protocol import Array, Floats, Input, Model, Rows

Scoring = Literal["predict_proba", "decision_function", "predict"]

# Packages whose classifiers decide for the highest score, and their classes that do not: they have a
# threshold of their own, calibrate probabilities apart from the decision, count votes, or clip scores into
# ties.
_HIGHEST = frozenset({"sklearn", *BOOSTERS})
_NOT_HIGHEST = frozenset(
    {
        "FixedThresholdClassifier",
        "NuSVC",
        "OneVsRestClassifier",
        "RadiusNeighborsClassifier",
        "SGDClassifier",
        "SVC",
        "TunedThresholdClassifierCV",
    }
)


class EstimatorModel(Model):
    """An object with ``predict``, fed what it was fitted on: a frame where it knows names, texts, else an array.

    Scores come from ``predict_proba``, else ``decision_function``, else, for regressors and for objects that
    do not say what they are, ``predict``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
    >>> model = EstimatorModel(LogisticRegression().fit(X, y))
    >>> model.input, model.labels(X).tolist()
    ('array', ['no', 'no', 'yes', 'yes'])
    """

    def __init__(self, estimator: Any, *, input: Input | None = None) -> None:
        _check_fitted(estimator)
        self.source = estimator
        self.name = _readable_name(estimator)
        self.classes = _classes(estimator, self.name)
        self._scoring = _scoring(estimator, self.classes)
        self.has_scores = self._scoring is not None
        self.regression = _kind(estimator) == "regressor"
        self.decides = self._scoring == "predict" or (self.classes is not None and _follows_scores(estimator))
        fitted = fitted_on(estimator)
        self._text = fitted.input == "text"
        self._form = None if self._text or input == "text" else derive(estimator)
        self.gradient_source = None if self._form is None else "closed form"
        self.input, self.columns, self._prepare = input or fitted.input, fitted.columns, fitted.prepare
        self.check()

    @property
    def unsaid(self) -> bool:
        """Whether the object does not say what it is, so that its answers may be labels or numbers."""
        return self._scoring == "predict" and not self.regression

    def labels(self, X: Rows) -> Array:
        """Return what ``predict`` says, or what the threshold makes of the scores."""
        if self.threshold is not None:
            return self.decide(self.scores(X))
        answer: Array = self.source.predict(self._feed(X))
        if self._scoring == "predict" and getattr(answer, "ndim", 1) == 2 and answer.shape[1] > 1:
            # An object that does not say what it is, a network for one, may well give one score per class.
            return self.decide(answer)
        return answer

    def scores(self, X: Rows) -> Floats:
        """Return probabilities, decision values or predicted numbers."""
        if self._scoring is None:
            return super().scores(X)
        said = getattr(self.source, self._scoring)(self._feed(X))
        if self.unsaid and self.threshold is None:
            # An object that does not say what it is may well be a classifier.
            refuse_labels(np.asarray(said), self.name)
        answer = np.asarray(said, dtype=np.float64)
        return answer[:, np.newaxis] if answer.ndim == 1 else answer

    def gradients(self, X: Rows, classes: npt.NDArray[np.int64]) -> Floats:
        """Return gradients in closed form, where `derive` finds one; it says of which loss."""
        return super().gradients(X, classes) if self._form is None else self._form(self.pick(X), classes)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Name the columns that the estimator was not fitted on, and those that its first step drops."""
        known: Sequence[str] | None = self.columns
        if isinstance(self._prepare, LightgbmFrame):
            known = [name for name in names if self._prepare.has(name)]
        lost = dropped(self.source, names) if self.input != "text" else set()
        return tuple(name for name in names if name in lost or (known is not None and name not in known))

    def check(self) -> None:
        """Refuse rows for what was fitted on texts, and a threshold that no probability can be on either side of."""
        super().check()
        if self._text and self.input != "text":
            raise ModelError(f'{self.name} was fitted on texts. Leave out input="{self.input}".')
        if self.threshold is not None and self._scoring == "predict_proba" and not 0 <= self.threshold <= 1:
            raise ModelError(f"threshold={self.threshold:g} on the probabilities of {self.name}: choose from 0 to 1.")

    def _feed(self, X: Any) -> Any:
        rows = self.pick(X)
        return rows if self._prepare is None else self._prepare(rows)


def final_step(estimator: Any) -> Any:
    """Look through pipelines and searches for the estimator that makes the decision."""
    while True:
        steps = getattr(estimator, "steps", None)
        if isinstance(steps, list) and steps:
            estimator = steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def _readable_name(estimator: Any) -> str:
    outer, inner = type(estimator).__name__, type(final_step(estimator)).__name__
    return outer if outer == inner else f"{outer}({inner})"


def _kind(estimator: Any) -> str | None:
    """Read what the estimator says it is ("classifier", "regressor", ...), without importing scikit-learn."""
    try:
        kind = estimator.__sklearn_tags__().estimator_type
    except Exception:  # Objects from before tags, or that only look like estimators, raise all sorts of things here.
        kind = getattr(estimator, "_estimator_type", None)
    return kind if isinstance(kind, str) else None


def _classes(estimator: Any, name: str) -> Array | None:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    if isinstance(classes, list) and any(isinstance(part, np.ndarray) for part in classes):
        raise ModelError(
            f"{name} decides {len(classes)} things at once. Wrap one of them:\n"
            "eh.wrap(lambda X: model.predict(X)[:, 0])."
        )
    return np.asarray(classes) if len(classes) else None


def _scoring(estimator: Any, classes: Array | None) -> Scoring | None:
    kind = _kind(estimator)
    if kind != "regressor":
        if callable(getattr(estimator, "predict_proba", None)):
            return "predict_proba"
        if callable(getattr(estimator, "decision_function", None)):
            return "decision_function"
    return "predict" if kind in ("regressor", None) and classes is None else None


def _follows_scores(estimator: Any) -> bool:
    final = final_step(estimator)
    if package_of(final) == "catboost":
        return catboost_decides(final)
    return package_of(final) in _HIGHEST and type(final).__name__ not in _NOT_HIGHEST


def _check_fitted(estimator: Any) -> None:
    # Only these are sure to follow scikit-learn's convention for what "fitted" looks like.
    if package_of(estimator) not in ("sklearn", "xgboost", "lightgbm"):
        return
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise NotFitted(f"{_readable_name(estimator)} is not fitted. Call fit first, then wrap it.") from error
