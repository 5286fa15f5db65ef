"""A model averaged over protected values, so that protected attributes have no effect; and the repair by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand._format import visible
from evenhand.errors import DataError, ModelError
from evenhand.models.base import Array, Floats, Model, Rows
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel, wrap
from evenhand.repairs.averaging import Neighbours, Shares, as_shares, averaged, follows, neighbours_of, scoring_of
from evenhand.repairs.context import Candidate, RepairContext
from evenhand.spaces.base import require
from evenhand.spaces.frames import columns_of
from evenhand.spaces.tabular import Space
from evenhand.spaces.toml import dumps, loads

Weights = Mapping[Any, float] | Literal["data"] | None
PARAMETERS = ("model", "space", "weights", "threshold")


class MarginalModel:
    """Average a model's scores over all combinations of protected values, with fixed weights.

    Two people who differ in protected attributes only get the same scores: the model is asked about both of them
    for either one, and the answers are added in one order. In one call the scores are the same bit for bit; from call
    to call as far as the model itself gives a row the same score in a different batch. What stands in for a protected
    attribute, such as being a husband for being a man, goes on working unless the space's `links` name it.

    Parameters
    ----------
    model
        An estimator, fitted or to be fitted by `fit`, or anything else that `eh.wrap` takes. Where it gives scores they
        are averaged, numbers of a regressor too; of labels alone the one of most weight is taken, and of labels that
        weigh alike the first in their order. A function's numbers are labels for `predict` where all are whole.
    space
        Says what is protected, what follows a protected attribute (`links`), and which combinations are valid
        (`constraints`): weights count among the valid ones. Of more than `max_family_size`, a fixed choice
        stands for all. A protected value that the space does not know, or that is missing, makes no difference, and a
        frame need not have the column; all other values reach the model as they are.
    weights
        What a combination of protected values counts: None for all alike, a mapping (``{"F": 0.4, "M": 0.6}``, with
        tuples where several attributes are protected), or ``"data"`` for their shares in the rows given to `fit`.
    threshold
        Decide for the second class where its averaged score is at least this; by default as the model does.

    Attributes
    ----------
    model_
        The fitted model, after `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def rule(frame):
    ...     return frame["hours"] / 80 + 0.2 * (frame["sex"] == "M")
    >>> fair = eh.MarginalModel(rule, space)
    >>> fair.scores(pd.DataFrame({"hours": [20, 20], "sex": ["F", "M"]})).tolist()
    [[0.35], [0.35]]
    >>> eh.estimate(fair.scores, space, criterion=eh.Gap(0)).found
    0
    """

    def __init__(self, model: Any, space: Space, weights: Weights = None, threshold: float | None = None) -> None:
        require(space, "attributes")
        self.model, self.space, self.weights, self.threshold = model, space, weights, threshold

    def fit(self, X: Any, y: Any, **options: Any) -> MarginalModel:
        """Fit a copy of the model; the one that was given stays as it is."""
        if not (callable(getattr(self.model, "fit", None)) and callable(getattr(self.model, "get_params", None))):
            raise ModelError(
                f"{type(self.model).__name__} cannot be fitted: it is no scikit-learn estimator. Give one to fit, or "
                "train the model yourself\nand call predict without fit."
            )
        from sklearn.base import clone

        if self.weights == "data":
            self.shares_ = as_shares(self.shares(self.space, X), self.space)
        self.model_ = clone(self.model).fit(X, y, **options)
        return self

    def predict(self, X: Any) -> Array:
        """Decide each row: by the averaged scores, or by the label of most weight; a regressor's average number."""
        return self.__evenhand_model__().labels(X)

    def scores(self, X: Any) -> Floats:
        """Give the averaged scores: one column per class, or a single one."""
        return self.__evenhand_model__().scores(X)

    @property
    def predict_proba(self) -> Any:
        """Average the probabilities; there is no such method where the model has none."""
        return self._method("predict_proba")

    @property
    def decision_function(self) -> Any:
        """Average the decision values; there is no such method where the model has probabilities, or neither."""
        return self._method("decision_function")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the share of right decisions; of a regressor, how much of the variance it explains."""
        said, right = self.predict(X), np.asarray(y)
        for name, given in (("y", right), ("sample_weight", sample_weight)):
            if given is not None and np.shape(given) != said.shape:
                raise DataError(f"{name} must have one value for each of {len(said):,} rows, got {np.shape(given)}")
        if self._wrapped().regression:
            from sklearn.metrics import r2_score

            return float(r2_score(right, said, sample_weight=sample_weight))
        return float(np.average(said == right, weights=sample_weight))

    def _method(self, name: str) -> Any:
        if scoring_of(self._source()) != name:
            raise AttributeError(f"{type(self._source()).__name__} has no {name} to average")

        def ask(X: Any) -> Floats:
            scores = self.scores(X)
            return scores[:, 0] if name == "decision_function" and scores.shape[1] == 1 else scores

        ask.__name__ = name  # scikit-learn's scorers go by it
        return ask

    @property
    def classes_(self) -> Array:
        """The classes, in the order of the scores' columns."""
        return self._known("classes_", self._wrapped().classes)

    @property
    def n_features_in_(self) -> int:
        """How many columns the model was fitted on."""
        known = getattr(self._source(), "n_features_in_", len(self.space.names))
        return int(known)

    @property
    def feature_names_in_(self) -> Array:
        """The columns that it takes, where it takes a frame."""
        model = self._wrapped()
        named = self.space.names if model.columns is None and model.input == "frame" else model.columns
        return self._known("feature_names_in_", None if named is None else np.asarray(named, dtype=object))

    def _known(self, name: str, value: Array | None) -> Array:
        if value is None:
            raise AttributeError(f"{type(self._source()).__name__} has no {name}")
        return value

    @property
    def sampled(self) -> bool:
        """Whether some combinations stand for all, because there are more than the space's `max_family_size`."""
        return self._neighbours().sampled

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters as scikit-learn asks for them."""
        out = {name: getattr(self, name) for name in PARAMETERS}
        if deep and hasattr(self.model, "get_params") and not isinstance(self.model, type):
            out |= {f"model__{name}": value for name, value in self.model.get_params().items()}
        return out

    def set_params(self, **parameters: Any) -> MarginalModel:
        """Change parameters as scikit-learn does; ``model__C`` is the model's ``C``."""
        inner = {}
        for name, value in parameters.items():
            own, _, rest = name.partition("__")
            if own not in PARAMETERS or (rest and own != "model"):
                raise ValueError(f"MarginalModel has no parameter {name!r}; it has {', '.join(PARAMETERS)}, model__...")
            if rest:
                inner[rest] = value
            else:
                if name == "space":
                    require(value, "attributes")
                setattr(self, name, value)
        if inner:
            self.model.set_params(**inner)
        return self

    def __repr__(self) -> str:
        return f"MarginalModel({self.model!r}, by {', '.join(map(visible, self.space.protected))})"

    def __sklearn_is_fitted__(self) -> bool:
        try:
            self._wrapped()
        except ModelError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags
        from sklearn.utils._tags import ClassifierTags, InputTags, Tags, TargetTags

        if hasattr(self.model, "__sklearn_tags__"):
            return get_tags(self.model)
        tags = Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags(), input_tags=InputTags())
        if wrap(self.model).regression:
            tags.estimator_type = "regressor"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # Texts, numbers and the model: what skops can store, and what somebody can read before trusting it.
        state = dict(self.__dict__, space=dumps(self.space))
        for name in ("weights", "shares_"):
            if isinstance(state.get(name), (Mapping, tuple)):
                pairs = state[name].items() if isinstance(state[name], Mapping) else state[name]
                state[name] = [[_plain(key), float(weight)] for key, weight in pairs]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.space = loads(state["space"], "the space of a MarginalModel")
        if isinstance(state["weights"], list):
            self.weights = {tuple(k) if isinstance(k, list) else k: w for k, w in state["weights"]}
        if "shares_" in state:
            self.shares_ = tuple((tuple(key), weight) for key, weight in state["shares_"])

    def _source(self) -> Any:
        return self.__dict__.get("model_", self.model)

    def __evenhand_model__(self) -> AveragedModel:
        return AveragedModel(self, self._wrapped(), self._neighbours())

    def _wrapped(self) -> Model:
        return wrap(self._source(), threshold=self.threshold)

    def _neighbours(self) -> Neighbours:
        given: Shares | None = None
        if isinstance(self.weights, str):
            if self.weights != "data" or not hasattr(self, "shares_"):
                raise ModelError(
                    f'weights={self.weights!r}: "data" takes the shares of the rows that fit gets, so call fit first;\n'
                    "for a model that is fitted: weights=eh.MarginalModel.shares(space, data)."
                )
            given = self.shares_
        elif self.weights is not None:
            given = as_shares(self.weights, self.space)
        return neighbours_of(self.space, given)

    @staticmethod
    def shares(space: Space, data: Any) -> dict[Any, float]:
        """Count the combinations of protected values in rows, as weights; rows with an unknown value do not count.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")
        >>> eh.MarginalModel.shares(space, {"sex": ["F", "M", "M", "M"]})
        {'F': 0.25, 'M': 0.75}
        """
        columns = _protected(space, data)
        codes = np.stack([space.attributes[j].encode(columns[space.names[j]])[0] for j in space.protected_columns], 1)
        counts = Counter(map(tuple, codes[(codes >= 0).all(axis=1)].tolist()))
        if not counts:
            raise ModelError(f"no row has known values of {', '.join(space.protected)}; give rows of the space")
        total = sum(counts.values())
        out: dict[Any, float] = {}
        for row, count in sorted(counts.items()):
            pairs = zip(space.protected_columns, row, strict=True)
            values = tuple(_plain(space.attributes[j].decode(np.array([code]))[0]) for j, code in pairs)
            out[values if len(values) > 1 else values[0]] = count / total
        return out


def _protected(space: Space, data: Any) -> dict[str, Array]:
    if isinstance(data, np.ndarray):
        if data.ndim != 2 or data.shape[1] != len(space.names):
            raise DataError(f"an array needs the space's {len(space.names)} columns, got one of shape {data.shape}")
        return {space.names[j]: data[:, j] for j in space.protected_columns}
    columns = columns_of(data)
    lacking = [name for name in space.protected if name not in columns]
    if lacking:
        raise DataError(f"the data lacks {', '.join(map(repr, lacking))}; it has {', '.join(list(columns)[:12])}")
    return columns


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


class AveragedModel(Model):
    """What `wrap` makes of a `MarginalModel`.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> eh.wrap(eh.MarginalModel(lambda frame: frame["hours"] / 40, space), threshold=0.5).has_scores
    True
    """

    def __init__(self, fair: Any, inner: Model, neighbours: Neighbours) -> None:
        self.source, self.inner, self.neighbours = fair, _as_function(inner), neighbours
        self.name = f"MarginalModel({inner.name})"
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


@dataclass(frozen=True)
class Marginal:
    """Average the original model's scores over all protected combinations: no individual is treated differently.

    Needs no training and no search. ``weights`` are those of ``MarginalModel``; ``"data"`` takes the
    shares of the training rows.

    >>> Marginal().weights is None
    True
    """

    weights: Weights = None

    def apply(self, context: RepairContext) -> Candidate:
        """Put the wrapper around the original."""
        space, model = context.space, context.original
        alone, here = wrap(model), context.trainer.wrap(model)
        if (alone.input, alone.columns) != (here.input, here.columns):
            # It does not say itself what it was fitted on.
            model = here
        weights = MarginalModel.shares(space, context.rows.frame) if self.weights == "data" else self.weights
        return Candidate(MarginalModel(model, space, weights))
