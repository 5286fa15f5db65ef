"""Models that are told protected values apart from the rows: ``predict(X, sensitive_features=...)``, as fairlearn's."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import THRESHOLD, FlakyModel, ModelError
from evenhand.model.estimators import EstimatorModel, final_step
from evenhand.model.fitted import dropped, fitted_on
from evenhand.model.protocol import Array, Floats, Input, Rows, some

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

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
