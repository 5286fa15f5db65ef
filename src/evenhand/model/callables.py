"""Any callable on a batch as a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from evenhand.model.answers import as_scores, refuse_labels, to_array
from evenhand.model.protocol import Array, Floats, Input, Model, Rows


class CallableModel(Model):
    """A function that takes a batch and returns labels, one score per row, or one row of scores per row.

    Which of these it returns is seen from its answer: two dimensions are score rows, of which the highest decides.
    One dimension is labels where it holds text, whole numbers or booleans, and single scores where it holds floats.

    Examples
    --------
    >>> import numpy as np
    >>> model = CallableModel(lambda X: X / X.sum(axis=1, keepdims=True), input="array")
    >>> model.labels(np.array([[1.0, 3.0], [3.0, 1.0]]))
    array([1, 0])
    """

    has_scores = True
    decides = True

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        input: Input = "frame",
        columns: tuple[str, ...] | None = None,
    ) -> None:
        self.source = function
        self.input = input
        self.columns = columns
        self.name = readable_name(function)
        self.check()

    def labels(self, X: Rows) -> Array:
        """Return the function's labels, or decide from the scores that it returned."""
        answer = to_array(self._call(X), self.name)
        if self.threshold is None and (answer.ndim != 2 or answer.shape[1] == 1):
            return answer
        return self.decide(as_scores(answer, len(answer), self.name))

    def scores(self, X: Rows) -> Floats:
        """Return the function's numbers as score rows; whole numbers are labels unless the user said otherwise."""
        answer = to_array(self._call(X), self.name)
        if self.threshold is None and not self.regression:
            refuse_labels(answer, self.name)
        return as_scores(answer, len(answer), self.name)

    def _call(self, X: Any) -> Any:
        # A shallow copy, so that a function may add columns to its frame without changing the caller's.
        if self.input == "frame":
            return self.source(self.pick(X).copy(deep=False))
        return self.source(list(X) if self.input == "text" else X)


def readable_name(function: Any) -> str:
    """Name a callable as its author did.

    >>> readable_name(functools.partial(sorted, reverse=True))
    'sorted'
    """
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
