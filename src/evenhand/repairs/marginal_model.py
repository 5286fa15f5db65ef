"""A `Marginal` as a model: it has the scores, classes and threshold of the model inside, averaged."""

from __future__ import annotations

from typing import Any

from evenhand.errors import ModelError
from evenhand.models.base import Array, Floats, Model, Rows
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel
from evenhand.repairs.averaging import averaged, follows, scoring_of
from evenhand.repairs.neighbours import Neighbours


class MarginalModel(Model):
    """What `wrap` makes of a `Marginal`.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> eh.wrap(eh.Marginal(lambda frame: frame["hours"] / 40, space), threshold=0.5).has_scores
    True
    """

    def __init__(self, fair: Any, inner: Model, neighbours: Neighbours) -> None:
        self.source, self.inner, self.neighbours = fair, _as_function(inner), neighbours
        self.name = f"Marginal({inner.name})"
        self.input, self.classes, self.threshold = inner.input, inner.classes, inner.threshold
        self.has_scores, self.regression, self.decides = inner.has_scores, inner.regression, follows(inner)
        if inner.input == "frame":
            # Who is valid may hang on attributes that the model inside does not take.
            more = (name for name in inner.columns or () if name not in neighbours.space.names)
            self.columns = (*neighbours.space.names, *more)

    def labels(self, X: Rows) -> Array:
        """Decide each row: by the averaged scores, or by the label of most weight; a regressor's average number."""
        scores, labels = averaged(self.inner, self.neighbours, X, decide=True)
        if labels is not None:
            return labels
        assert scores is not None
        return self.inner.decide(scores)

    def scores(self, X: Rows) -> Floats:
        """Give the averaged scores."""
        scores, _ = averaged(self.inner, self.neighbours, X)
        if scores is None:
            raise ModelError(f"{self.inner.name} gives labels only, no scores. Use predict.")
        return scores

    def check(self) -> None:
        """Put a threshold on the model inside, which knows what its scores allow."""
        super().check()
        self.inner = self.inner.with_options(threshold=self.threshold)


def _as_function(model: Model) -> Model:
    """Take an object that has predict and says no more as a function: its answers tell whether they are labels."""
    unsaid = model.classes is None and model.has_scores and not model.regression
    if not unsaid or not isinstance(model, EstimatorModel) or scoring_of(model) is not None:
        return model
    function = CallableModel(model.source.predict, input=model.input, columns=model.columns)
    return function.with_options(threshold=model.threshold, name=model.name)
