"""Estimators and pipelines of scikit-learn, and other objects with ``predict``."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.errors import THRESHOLD, FlakyModel, ModelError, NotFitted
from evenhand.models.base import Array, Codes, Fitted, Floats, Input, Model, Rows, package_of, require_columns, some
from evenhand.models.boosters import BOOSTERS, LightgbmFrame, catboost_decides, fitted_booster
from evenhand.models.client import refuse_labels
from evenhand.models.closed_form import ClosedForm, derive
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Scoring = Literal["predict_proba", "decision_function", "predict"]

# Packages whose classifiers decide for the highest score, with the exceptions: classes that have their own threshold,
# calibrate probabilities separately from the decision, count votes, or clip scores into ties.
_HIGHEST = frozenset({"sklearn", *BOOSTERS})
_NOT_HIGHEST = frozenset(
    {"FixedThresholdClassifier", "NuSVC", "OneVsRestClassifier", "RadiusNeighborsClassifier", "SGDClassifier"}
    | {"SVC", "TunedThresholdClassifierCV"}
)


class EstimatorModel(Model):
    """An object with ``predict``. It receives what it was fitted on: a frame if it knows names, texts, or an array.

    Scores come from ``predict_proba``, otherwise from ``decision_function``, otherwise, for regressors and objects of
    unknown type, from ``predict``.
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
        self.input, self.columns, self._prepare = input or fitted.input, fitted.columns, fitted.prepare
        self.check()

    @cached_property
    def _trees(self) -> Trees | None:
        """The trees of a forest or a tree itself, which answer faster without checks; None for other estimators."""
        return Trees(self.source) if Trees.fit(self.source) else None

    @cached_property
    def _form(self) -> ClosedForm | None:
        """The closed form of the gradients; derived only if a search asks for it."""
        return None if self.input == "text" else derive(self.source)

    @cached_property
    def gradient_source(self) -> str | None:  # type: ignore[override]
        """The source of gradients, if there is one."""
        return None if self._form is None else "closed form"

    @property
    def untyped(self) -> bool:
        """Whether the type of the estimator is unknown, so that its answers may be labels or numbers."""
        return self._scoring == "predict" and not self.regression

    def labels(self, X: Rows) -> Array:
        """Return the predictions, or the decisions of the threshold."""
        if self.threshold is not None:
            return self.decide(self.scores(X))
        rows = self._feed(X)
        shares = None if self._trees is None else self._trees.shares(rows)
        if shares is not None:
            return np.asarray(self.source.classes_.take(shares.argmax(axis=1)))
        answer: Array = self.source.predict(rows)
        if self._scoring == "predict" and getattr(answer, "ndim", 1) == 2 and answer.shape[1] > 1:
            # An object of unknown type, such as a network, may return one score per class.
            return self.decide(answer)
        return answer

    def scores(self, X: Rows) -> Floats:
        """Return probabilities, decision values or predicted numbers."""
        if self._scoring is None:
            return super().scores(X)
        rows = self._feed(X)
        shares = None if self._trees is None else self._trees.shares(rows)
        found = getattr(self.source, self._scoring)(rows) if shares is None else shares
        if self.untyped and self.threshold is None:
            # An object of unknown type may be a classifier.
            refuse_labels(np.asarray(found), self.name)
        answer = np.asarray(found, dtype=np.float64)
        return answer[:, np.newaxis] if answer.ndim == 1 else answer

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Return closed-form gradients, if `derive` finds them."""
        return super().gradients(X, classes) if self._form is None else self._form(self.pick(X), classes)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that the estimator was not fitted on, and those that its first step drops."""
        known: Sequence[str] | None = self.columns
        if isinstance(self._prepare, LightgbmFrame):
            known = [name for name in names if self._prepare.has(name)]
        lost = dropped(self.source, names) if self.input != "text" else set()
        return tuple(name for name in names if name in lost or (known is not None and name not in known))

    def check(self) -> None:
        """Reject rows for a model of texts, and a threshold that is not a probability."""
        super().check()
        if self._text and self.input != "text":
            raise self._wrong_input('must be "text": {} was fitted on texts')
        if self._scoring == "predict_proba":
            self._check_probability()

    def _feed(self, X: Any) -> Any:
        rows = self.pick(X)
        return rows if self._prepare is None else self._prepare(rows)


TREES = {
    **dict.fromkeys(("DecisionTreeClassifier", "ExtraTreeClassifier"), "sklearn.tree._classes"),
    **dict.fromkeys(("RandomForestClassifier", "ExtraTreesClassifier"), "sklearn.ensemble._forest"),
}
"""Classes that are trees or average them, and their modules."""


class Trees:
    """Averages the trees of a forest, or asks a single tree, with the result of ``predict_proba`` to the last bit.

    scikit-learn prepares a call of each tree: with 50 trees and a few hundred rows, that takes longer than the trees.
    Its own answer is compared in the first call, and rows that it would refuse are left to it.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X, np.arange(20) % 3)
    >>> bool((Trees(forest).shares(X) == forest.predict_proba(X)).all())
    True
    """

    def __init__(self, forest: Any) -> None:
        self._forest = forest
        self._same: bool | None = None
        """Whether the forest gave the same shares; None before the first call."""

    @staticmethod
    def fit(estimator: Any) -> bool:
        """Whether an estimator is a tree or forest of scikit-learn with one output, one core and no other code."""
        kind = type(estimator)
        module = TREES.get(kind.__name__)
        return (
            kind.__module__ == module == kind.predict.__module__ == kind.predict_proba.__module__
            and getattr(estimator, "n_jobs", None) in (None, 1)
            and estimator.n_outputs_ == 1
            and not {"predict", "predict_proba"} & set(vars(estimator))
        )

    def shares(self, rows: Any) -> Floats | None:
        """Return the mean shares of each class, or None if the forest must be asked itself."""
        forest = self._forest
        if self._same is False or not self.fit(forest) or np.shape(rows) != (len(rows), forest.n_features_in_):
            return None
        names = getattr(forest, "feature_names_in_", None)
        if hasattr(rows, "columns") and (names is None or list(rows.columns) != list(names)):
            return None
        try:
            with np.errstate(over="ignore"):
                X = np.ascontiguousarray(np.asarray(rows, dtype=np.float32))
        except (TypeError, ValueError):
            return None
        if not len(X) or not np.isfinite(X).all():
            return None
        total: Floats = np.zeros((len(X), len(forest.classes_)))
        trees = getattr(forest, "estimators_", [forest])
        for tree in trees:
            total += tree.tree_.predict(X)
        total /= len(trees)
        if self._same is None:
            self._same = np.array_equal(total, forest.predict_proba(rows))
        return total if self._same else None


def fitted_on(model: Any) -> Fitted:
    """Return what a model was fitted on."""
    if package_of(model) in BOOSTERS:
        return fitted_booster(model)
    if reads_text(model):
        return Fitted("text")
    names = getattr(model, "feature_names_in_", None)
    return Fitted("array") if names is None else Fitted("frame", tuple(map(str, names)))


def reads_text(model: Any) -> bool:
    """Whether a pipeline starts with one or several text vectorisers, even inside a search."""
    if hasattr(model, "best_estimator_"):
        return reads_text(model.best_estimator_)
    side = getattr(model, "transformer_list", None)
    if isinstance(side, list) and side:
        return all(reads_text(part) for _, part in side)
    if steps := _steps(model):
        return reads_text(_first(steps))
    # A vectoriser may also be configured to read files; its inputs are then paths.
    return callable(getattr(model, "build_analyzer", None)) and getattr(model, "input", None) == "content"


def dropped(model: Any, names: Sequence[str]) -> set[str]:
    """Return the columns that a model drops immediately, because its first step is a ColumnTransformer without them.

    ``model`` is a fitted pipeline, also inside a search or a classifier with a threshold; ``names`` are the columns of
    one that was fitted on an array.
    """
    while True:
        if steps := _steps(model):
            model = _first(steps)
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif type(model).__name__ in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
            model = model.estimator_
        else:
            break
    if package_of(model) != "sklearn" or type(model).__name__ != "ColumnTransformer":
        return set()
    columns = list(getattr(model, "feature_names_in_", names))
    if len(columns) != model.n_features_in_:
        return set()
    kept: set[str] = set()
    for _, transformer, chosen in model.transformers_:
        # An object may define its own comparison with texts.
        if isinstance(transformer, str) and transformer == "drop":
            continue
        taken = _chosen(chosen, columns)
        if taken is None:
            return set()
        kept.update(taken)
    return set(columns) - kept


def _chosen(chosen: Any, columns: list[str]) -> list[str] | None:
    """Return the columns that a ColumnTransformer takes, in any of its notations; None if that is unclear."""
    if isinstance(chosen, slice):
        ends = [columns.index(end) if isinstance(end, str) else end for end in (chosen.start, chosen.stop)]
        # In a slice of names, the last one is included.
        return columns[ends[0] : ends[1] + 1 if isinstance(chosen.stop, str) else ends[1] : chosen.step]
    listed = np.atleast_1d(np.asarray(chosen, dtype=object if isinstance(chosen, str) else None))
    if not listed.size:
        return []
    if listed.dtype.kind == "b":
        return [name for name, taken in zip(columns, listed, strict=True) if taken]
    if listed.dtype.kind in "iu":
        return [columns[place] for place in listed]
    return [str(name) for name in listed] if all(isinstance(name, str) for name in listed) else None


def _steps(model: Any) -> list[Any]:
    steps = getattr(model, "steps", None)
    return [step for _, step in steps] if isinstance(steps, list) else []


def _first(steps: list[Any]) -> Any:
    return next((step for step in steps if step not in (None, "passthrough")), None)


def final_step(estimator: Any) -> Any:
    """Return the estimator that makes the decision, inside pipelines and searches."""
    while True:
        if steps := _steps(estimator):
            estimator = steps[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def _readable_name(estimator: Any) -> str:
    outer, inner = type(estimator).__name__, type(final_step(estimator)).__name__
    return outer if outer == inner else f"{outer}({inner})"


def _kind(estimator: Any) -> str | None:
    """Return the estimator's type ("classifier", "regressor", ...), without importing scikit-learn."""
    try:
        kind = estimator.__sklearn_tags__().estimator_type
    except Exception:  # Older objects, and those that only resemble estimators, may raise any exception.
        kind = getattr(estimator, "_estimator_type", None)
    return kind if isinstance(kind, str) else None


def _classes(estimator: Any, name: str) -> Array | None:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    if isinstance(classes, list) and any(isinstance(part, np.ndarray) for part in classes):
        remedy = "wrap one of them: eh.wrap(lambda X: model.predict(X)[:, 0])"
        raise ModelError(f"{name} makes {len(classes)} decisions per row", remedy=remedy)
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
    # Only these are known to follow scikit-learn's convention for fitted attributes.
    if package_of(estimator) not in ("sklearn", "xgboost", "lightgbm"):
        return
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        problem = f"{_readable_name(estimator)} is not fitted"
        raise NotFitted(problem, remedy="call fit first, then wrap it") from error


TAKES = "sensitive_features"
CERTAIN = 1e-9
"""Within this distance of 0 or 1, a probability counts as certain: the rest is rounding."""
MOST = 10_000
"""If the space has more groups than this, they are not compared with those that the model was fitted on."""


def takes_sensitive(model: Any) -> bool:
    """Whether ``predict`` takes protected values as a separate argument, even at the end of a pipeline."""
    try:
        return TAKES in inspect.signature(final_step(model).predict).parameters
    except (AttributeError, TypeError, ValueError):
        return False


class SensitiveModel(EstimatorModel):
    """An object whose ``predict`` takes rows and, separately, the values of some columns of the space.

    The columns are those given to `wrap`, by default all protected ones. The rows have the columns that the object was
    fitted on; if it was fitted on an array, all other columns, or all, depending on their number.

    A postprocessor with randomised decisions raises an error, because it decides the same row differently. Its scores
    are the probabilities of its decisions: ``eh.wrap(model, threshold=0.5)`` converts them to decisions.
    """

    sensitive: tuple[str, ...] | None = None

    def __init__(self, estimator: Any, *, input: Input | None = None) -> None:
        if input not in (None, "frame"):
            raise ModelError(
                f'must be "frame": {type(estimator).__name__} takes {TAKES}, which are columns of a frame',
                parameter="input",
                value=input,
                remedy="leave it out",
            )
        super().__init__(estimator)
        inner = getattr(estimator, "estimator_", None)
        fitted = fitted_on(estimator if hasattr(estimator, "feature_names_in_") or inner is None else inner)
        self._names = fitted.columns
        self._width = getattr(estimator if inner is None else inner, "n_features_in_", None)
        # Only a model that was fitted on an array is known to need one.
        self._takes_frames = input == "frame" or self._width is None
        self._prepare = fitted.prepare
        self._draws = callable(getattr(estimator, "_pmf_predict", None))
        self.input, self.columns = "frame", None
        self.has_scores, self.decides, self._form, self.gradient_source = self._draws, False, None, None
        if self.classes is None and inner is not None:
            self.classes = getattr(inner, "classes_", None)

    def with_sensitive(self, names: Sequence[str]) -> SensitiveModel:
        """Return this model with the names of the columns that it takes separately."""
        changed = copy.copy(self)
        changed.sensitive = tuple(names)
        return changed

    def check_groups(self, space: Space) -> None:
        """Raise if the model knows none of the groups of the space; warn if it does not know some.

        fairlearn stores the values of its groups, not their columns, and gives all others the probability 0 silently.
        """
        final = final_step(self.source)
        fitted = getattr(getattr(final, "interpolated_thresholder_", final), "interpolation_dict", None)
        if not fitted or not self.sensitive or not set(self.sensitive) <= set(space.names):
            return
        given = _every_group(space, self.sensitive)
        unknown = [group for group in given if group not in fitted]
        if not unknown:
            return
        shown = some(list(map(repr, unknown)))
        if len(unknown) == len(given):
            raise ModelError(
                f"must be the columns that {self.name} was fitted on, whose groups are "
                f"{some(list(map(repr, fitted)))}, not {shown}",
                parameter=TAKES,
                value=list(self.sensitive),
                remedy=f"name them in their order: eh.wrap(model, {TAKES}=[...]); the space must have them",
            )
        warnings.warn(
            f"{self.name} was not fitted on {len(unknown):,} of the {len(given):,} groups of the space ({shown}), and "
            f"fairlearn gives those the probability 0. If {TAKES}={list(self.sensitive)} are not the columns that it "
            f"was fitted on, in their order, name those: eh.wrap(model, {TAKES}=[...]).",
            stacklevel=2,
        )

    def labels(self, X: Rows) -> Array:
        """Return the predictions, or the decisions of the threshold; raise if decisions are randomised."""
        if self.threshold is not None:
            return self.decide(self.scores(X))
        if self._draws:
            chances = self.scores(X)
            random = np.asarray(((chances > CERTAIN) & (chances < 1 - CERTAIN)).any(axis=1), dtype=bool)
            if random.any():
                raise FlakyModel(
                    f"{self.name} decides {int(random.sum()):,} of {len(random):,} rows at random, so that its "
                    "decisions cannot be compared",
                    float(random.mean()),
                    ("compare the more probable ones with ", THRESHOLD),
                )
        rows, apart = self._parts(X)
        answer: Array = self.source.predict(rows, sensitive_features=apart)
        return answer

    def scores(self, X: Rows) -> Floats:
        """Return the probabilities with which a postprocessor decides for each class."""
        if not self._draws:
            return super(EstimatorModel, self).scores(X)
        rows, apart = self._parts(X)
        return np.asarray(self.source._pmf_predict(rows, sensitive_features=apart), dtype=np.float64)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that the model takes neither in the rows nor separately."""
        lost = dropped(self.source, names)
        known = self._names
        out = (name for name in names if name in lost or (known is not None and name not in known))
        return tuple(name for name in out if name not in (self.sensitive or ()))

    def _parts(self, X: Any) -> tuple[Any, Any]:
        """Split a frame into the columns that the object was fitted on and those that it takes separately."""
        if self.sensitive is None:
            remedy = f'name the columns: eh.wrap(model, {TAKES}="sex")'
            raise ModelError(f"is needed by {self.name}", parameter=TAKES, remedy=remedy)
        require_columns(self.name, (*self.sensitive, *(self._names or ())), X.columns)
        apart = X[self.sensitive[0]] if len(self.sensitive) == 1 else X[list(self.sensitive)]
        if self._names is not None:
            rows = X[list(self._names)]
        else:
            others = [name for name in X.columns if name not in self.sensitive]
            rows = X if self._width == len(X.columns) else X[others]
            rows = rows if self._takes_frames else rows.to_numpy(dtype=np.float64)
        return (rows if self._prepare is None else self._prepare(rows)), apart


def _every_group(space: Space, names: Sequence[str]) -> list[Any]:
    """List the groups that some columns of a space form, as fairlearn writes them: several columns as one text."""
    columns = [space.attributes[space.column(name)] for name in names]
    sizes = [column.present for column in columns]
    if math.prod(sizes) > MOST:
        return []
    codes = np.indices(sizes).reshape(len(sizes), -1)
    values = pd.DataFrame({c.name: c.column(code) for c, code in zip(columns, codes, strict=True)}).to_numpy()
    if len(columns) == 1:
        return list(values[:, 0].tolist())
    return [",".join(str(value).replace("\\", "\\\\").replace(",", "\\,") for value in row) for row in values]
