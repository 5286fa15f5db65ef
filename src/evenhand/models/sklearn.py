"""Estimators and pipelines of scikit-learn, and everything else that has ``predict``."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.errors import THRESHOLD, FlakyModel, ModelError, NotFitted
from evenhand.models.base import Array, Floats, Input, Model, Rows, some
from evenhand.models.boosters import catboost_decides
from evenhand.models.closed_form import derive
from evenhand.models.fitted import BOOSTERS, LightgbmFrame, dropped, fitted_on, package_of
from evenhand.models.outputs import refuse_labels

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space


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


TAKES = "sensitive_features"
CERTAIN = 1e-9
"""A chance that is no further from 0 or 1 is certainty but for rounding."""
MOST = 10_000
"""With more groups in the space than this they are not compared with those that the model was fitted on."""


def takes_sensitive(model: Any) -> bool:
    """Tell whether ``predict`` asks for protected values by themselves, also at the end of a pipeline.

    >>> class Rule:
    ...     def predict(self, X, *, sensitive_features): ...
    >>> takes_sensitive(Rule())
    True
    """
    try:
        return TAKES in inspect.signature(final_step(model).predict).parameters
    except (AttributeError, TypeError, ValueError):
        return False


class SensitiveModel(EstimatorModel):
    """An object whose ``predict`` takes rows and, apart from them, the values of some columns of the space.

    The columns are those that `wrap` names, by default all that the space protects. The rows are what the object was
    fitted on; one that was fitted on an array gets all other columns, or all, by how many it knows.

    A postprocessor that draws lots decides the same row differently, and raises. It says with which chance it decides:
    these are its scores, and ``eh.wrap(model, threshold=0.5)`` makes decisions of them.
    """

    sensitive: tuple[str, ...] | None = None

    def __init__(self, estimator: Any, *, input: Input | None = None) -> None:
        if input not in (None, "frame"):
            raise ModelError(
                f'{type(estimator).__name__} takes {TAKES}, which are columns of a frame. Leave out input="{input}".'
            )
        super().__init__(estimator)
        inner = getattr(estimator, "estimator_", None)
        fitted = fitted_on(estimator if hasattr(estimator, "feature_names_in_") or inner is None else inner)
        self._names = fitted.columns
        self._width = getattr(estimator if inner is None else inner, "n_features_in_", None)
        # Only what was fitted on an array is known to want one.
        self._takes_frames = input == "frame" or self._width is None
        self._prepare = fitted.prepare
        self._draws = callable(getattr(estimator, "_pmf_predict", None))
        self.input, self.columns = "frame", None
        self.has_scores, self.decides, self._form, self.gradient_source = self._draws, False, None, None
        if self.classes is None and inner is not None:
            self.classes = getattr(inner, "classes_", None)

    def told(self, names: Sequence[str]) -> SensitiveModel:
        """Return this model with the columns named that it is told apart from the rows."""
        changed = copy.copy(self)
        changed.sensitive = tuple(names)
        return changed

    def check_groups(self, space: Space) -> None:
        """Raise where the model knows none of the groups of the space; warn where it lacks some.

        fairlearn says of its groups which values they have, not of which columns, and gives everybody else the chance 0
        without a word.
        """
        final = final_step(self.source)
        fitted = getattr(getattr(final, "interpolated_thresholder_", final), "interpolation_dict", None)
        if not fitted or not self.sensitive or not set(self.sensitive) <= set(space.names):
            return
        given = _every_group(space, self.sensitive)
        unknown = [group for group in given if group not in fitted]
        if not unknown:
            return
        passed = f"{TAKES}={list(self.sensitive)}"
        if len(unknown) == len(given):
            raise ModelError(
                f"{self.name} was fitted on the groups {some(list(map(repr, fitted)))}; with {passed} it is given "
                f"others: {some(list(map(repr, unknown)))}.\nName the columns that it was fitted on, in their order: "
                f"eh.wrap(model, {TAKES}=[...]); the space must have them."
            )
        warnings.warn(
            f"{self.name} was not fitted on {len(unknown):,} of the {len(given):,} groups of the space "
            f"({some(list(map(repr, unknown)))}), and fairlearn gives those the chance 0. "
            f"If {passed} are not the columns that it was fitted on, in their order, name those: "
            f"eh.wrap(model, {TAKES}=[...]).",
            stacklevel=2,
        )

    def labels(self, X: Rows) -> Array:
        """Return what ``predict`` says, or what the threshold makes of the scores."""
        if self.threshold is not None:
            return self.decide(self.scores(X))
        if self._draws:
            self._refuse_lots(self.scores(X))
        rows, apart = self._parts(X)
        answer: Array = self.source.predict(rows, sensitive_features=apart)
        return answer

    def scores(self, X: Rows) -> Floats:
        """Return the chances with which a postprocessor decides for each class."""
        if not self._draws:
            return super(EstimatorModel, self).scores(X)
        rows, apart = self._parts(X)
        return np.asarray(self.source._pmf_predict(rows, sensitive_features=apart), dtype=np.float64)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Name the columns that are neither in the rows nor told apart from them."""
        lost = dropped(self.source, names)
        known = self._names
        out = (name for name in names if name in lost or (known is not None and name not in known))
        return tuple(name for name in out if name not in (self.sensitive or ()))

    def _refuse_lots(self, chances: Floats) -> None:
        """Raise where rows are decided by lot: two answers to one row, or to two, say nothing about the rows."""
        lots = np.asarray(((chances > CERTAIN) & (chances < 1 - CERTAIN)).any(axis=1), dtype=bool)
        if lots.any():
            raise FlakyModel(
                f"{self.name} decides {int(lots.sum()):,} of {len(lots):,} rows by lot, so that its decisions cannot "
                "be compared",
                float(lots.mean()),
                ("compare the likelier ones with ", THRESHOLD),
            )

    def _parts(self, X: Any) -> tuple[Any, Any]:
        """Take a frame apart: what the object was fitted on, and what it is told beside it."""
        if self.sensitive is None:
            raise ModelError(
                f'{self.name} takes {TAKES}, and nobody has said which columns they are: eh.wrap(model, {TAKES}="sex").'
            )
        lacking = [name for name in (*self.sensitive, *(self._names or ())) if name not in X.columns]
        if lacking:
            raise ModelError(
                f"{self.name} needs columns that it is not given: {some(lacking)}.\n"
                f"It is given {some(list(X.columns))}. Add the missing ones to the space, or name others: "
                f"eh.wrap(model, {TAKES}=...)."
            )
        apart = X[self.sensitive[0]] if len(self.sensitive) == 1 else X[list(self.sensitive)]
        if self._names is not None:
            rows = X[list(self._names)]
        else:
            others = [name for name in X.columns if name not in self.sensitive]
            rows = X if self._width == len(X.columns) else X[others]
            rows = rows if self._takes_frames else rows.to_numpy(dtype=np.float64)
        return (rows if self._prepare is None else self._prepare(rows)), apart


def _every_group(space: Space, names: Sequence[str]) -> list[Any]:
    """List the groups that some columns of a space make, as fairlearn names them: of several columns one text."""
    import pandas as pd

    columns = [space.attributes[space.column(name)] for name in names]
    sizes = [column.present for column in columns]
    if math.prod(sizes) > MOST:
        return []
    codes = np.indices(sizes).reshape(len(sizes), -1)
    values = pd.DataFrame({c.name: c.column(code) for c, code in zip(columns, codes, strict=True)}).to_numpy()
    if len(columns) == 1:
        return list(values[:, 0].tolist())
    return [",".join(str(value).replace("\\", "\\\\").replace(",", "\\,") for value in row) for row in values]
