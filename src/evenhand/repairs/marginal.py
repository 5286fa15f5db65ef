"""A model averaged over protected values, so that these have no effect; and the repair method that uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evenhand._format import count, visible
from evenhand.errors import FRAME, DataError, EvenhandError, ModelError, ModelTimeout, SpaceError, StrategyError
from evenhand.models.base import Array, Floats, Model
from evenhand.models.client import ModelClient, as_labels, as_scores, to_array
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel, wrap
from evenhand.repairs.context import Candidate, RepairContext
from evenhand.spaces.base import require
from evenhand.spaces.frames import as_pandas, columns_of
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space
from evenhand.spaces.toml import dumps, loads

Weights = Mapping[Any, float] | Literal["data"] | None
PARAMETERS = ("model", "space", "weights", "threshold")
CALL = 2**18
"""The most rows of one model call."""
Places = npt.NDArray[np.int64]
Shares = tuple[tuple[tuple[Any, ...], float], ...]
"""Combinations of protected values, each with its weight."""
KEEP = -1
"""The code of a value that stays unchanged."""
LARGEST = 2**22
"""Maximum number of counterparts that are listed to follow links."""


class MarginalModel:
    """Average a model's scores over all combinations of protected values, with fixed weights.

    Two people who differ only in protected attributes get the same scores: for either one, the model is queried about
    both, and the answers are added in the same order. Within one call the scores are identical bit for bit; between
    calls, they are as equal as the model's own scores of one row in different batches. Proxies for a protected
    attribute, such as being a husband for being a man, keep their effect unless the space's `links` name them.

    Parameters
    ----------
    model
        An estimator, fitted or to be fitted by `fit`, or anything else that `eh.wrap` takes. Scores, and numbers of a
        regressor, are averaged. If there are only labels, the one with the most weight is used; ties go to the first in
        order. A function's numbers are labels for `predict` if all are whole.
    space
        Defines the protected attributes, those that follow them (`links`), and the valid combinations (`constraints`),
        to which weights apply. If there are more than `max_family_size`, a fixed selection is used. A protected value
        that is missing, or unknown to the space, has no effect, and a frame may lack the column; all other values reach
        the model unchanged.
    weights
        Weights of combinations of protected values: None for equal weights, a mapping (``{"F": 0.4, "M": 0.6}``, with
        tuples for several protected attributes), or ``"data"`` for their shares in the rows given to `fit`.
    threshold
        Decide for the second class if its averaged score is at least this; by default as the model does.

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
        """Fit a copy of the model; the given one is not changed."""
        if not (callable(getattr(self.model, "fit", None)) and callable(getattr(self.model, "get_params", None))):
            raise ModelError(
                f"{type(self.model).__name__} cannot be fitted: it is not a scikit-learn estimator",
                remedy="give an estimator, or train the model yourself and call predict without fit",
            )
        from sklearn.base import clone

        if self.weights == "data":
            self.shares_ = as_shares(self.shares(self.space, X), self.space)
        self.model_ = clone(self.model).fit(X, y, **options)
        return self

    def predict(self, X: Any) -> Array:
        """Return each row's decision, by averaged scores or the label with most weight; or a regressor's average."""
        return self.__evenhand_model__().labels(X)

    def scores(self, X: Any) -> Floats:
        """Return the averaged scores: one column per class, or a single one."""
        return self.__evenhand_model__().scores(X)

    @property
    def predict_proba(self) -> Any:
        """Return the averaged probabilities; the method exists only if the model has probabilities."""
        return self._method("predict_proba")

    @property
    def decision_function(self) -> Any:
        """Return the averaged decision values; the method exists only if the model has these and no probabilities."""
        return self._method("decision_function")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for a regressor, the share of explained variance."""
        decisions, right = self.predict(X), np.asarray(y)
        for name, given in (("y", right), ("sample_weight", sample_weight)):
            if given is not None and np.shape(given) != decisions.shape:
                raise DataError(
                    f"must have one value for each of {len(decisions):,} rows, got {np.shape(given)}", parameter=name
                )
        if self._wrapped().regression:
            from sklearn.metrics import r2_score

            return float(r2_score(right, decisions, sample_weight=sample_weight))
        return float(np.average(decisions == right, weights=sample_weight))

    def _method(self, name: str) -> Any:
        if scoring_of(self._source()) != name:
            raise AttributeError(f"{type(self._source()).__name__} has no {name} to average")

        def ask(X: Any) -> Floats:
            scores = self.scores(X)
            return scores[:, 0] if name == "decision_function" and scores.shape[1] == 1 else scores

        ask.__name__ = name  # scikit-learn's scorers use it
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
        """The columns that it takes, if it takes a frame."""
        model = self._wrapped()
        named = self.space.names if model.columns is None and model.input == "frame" else model.columns
        return self._known("feature_names_in_", None if named is None else np.asarray(named, dtype=object))

    def _known(self, name: str, value: Array | None) -> Array:
        if value is None:
            raise AttributeError(f"{type(self._source()).__name__} has no {name}")
        return value

    @property
    def sampled(self) -> bool:
        """Whether only some combinations are used, because there are more than the space's `max_family_size`."""
        return self._neighbours().sampled

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as in scikit-learn."""
        out = {name: getattr(self, name) for name in PARAMETERS}
        if deep and hasattr(self.model, "get_params") and not isinstance(self.model, type):
            out |= {f"model__{name}": value for name, value in self.model.get_params().items()}
        return out

    def set_params(self, **parameters: Any) -> MarginalModel:
        """Set parameters, as in scikit-learn; ``model__C`` is the model's ``C``."""
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
        # Texts, numbers and the model: what skops can store, and what people can read before they trust it.
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
                    "takes the shares of the rows that fit gets",
                    parameter="weights",
                    value=self.weights,
                    remedy="call fit first; for a fitted model, weights=eh.MarginalModel.shares(space, data)",
                )
            given = self.shares_
        elif self.weights is not None:
            given = as_shares(self.weights, self.space)
        return neighbours_of(self.space, given)

    @staticmethod
    def shares(space: Space, data: Any) -> dict[Any, float]:
        """Return the shares of combinations of protected values in rows, ignoring rows with an unknown value.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")
        >>> eh.MarginalModel.shares(space, {"sex": ["F", "M", "M", "M"]})
        {'F': 0.25, 'M': 0.75}
        """
        columns = _protected(space, data)
        codes = np.stack([space.attributes[j].encode(columns[space.names[j]])[0] for j in space.protected_columns], 1)
        counts = Counter(map(tuple, codes[(codes >= 0).all(axis=1)].tolist()))
        if not counts:
            raise ModelError(
                f"no row has known values of {', '.join(space.protected)}", remedy="give rows of the space"
            )
        total = sum(counts.values())
        out: dict[Any, float] = {}
        for row, n in sorted(counts.items()):
            pairs = zip(space.protected_columns, row, strict=True)
            values = tuple(_plain(space.attributes[j].decode(np.array([code]))[0]) for j, code in pairs)
            out[values if len(values) > 1 else values[0]] = n / total
        return out


def _protected(space: Space, data: Any) -> dict[str, Array]:
    if isinstance(data, np.ndarray):
        if data.ndim != 2 or data.shape[1] != len(space.names):
            raise DataError(
                f"an array must have the {len(space.names)} columns of the space, got shape {data.shape}",
                remedy="give a frame with named columns",
            )
        return {space.names[j]: data[:, j] for j in space.protected_columns}
    columns = columns_of(data)
    lacking = [name for name in space.protected if name not in columns]
    if lacking:
        raise DataError(
            f"the data has no column {', '.join(map(repr, lacking))}",
            remedy=f"give it; the data has {', '.join(list(columns)[:12])}",
        )
    return columns


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


class AveragedModel(Model):
    """A `MarginalModel` as adapted by `wrap`.

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
            # Validity may depend on attributes that the inner model does not take.
            more = (name for name in inner.columns or () if name not in neighbours.space.names)
            self.columns = (*neighbours.space.names, *more)

    def labels(self, X: Any) -> Array:
        """Return each row's decision, by averaged scores or the label with most weight; or a regressor's average."""
        scores, labels = averaged(self.inner, self.neighbours, X, decide=True)
        if labels is not None:
            return labels
        assert scores is not None
        return self.inner.decide(scores)

    def scores(self, X: Any) -> Floats:
        """Return the averaged scores."""
        scores, _ = averaged(self.inner, self.neighbours, X)
        if scores is None:
            raise ModelError(f"{self.inner.name} returns labels only, no scores", remedy="use predict")
        return scores

    def check(self) -> None:
        """Apply a threshold to the inner model, which checks it."""
        super().check()
        self.inner = self.inner.with_options(threshold=self.threshold)


def _as_function(model: Model) -> Model:
    """Treat an object with predict of unknown type as a function: its answers show whether they are labels."""
    unsaid = model.classes is None and model.has_scores and not model.regression
    if not unsaid or not isinstance(model, EstimatorModel) or scoring_of(model) is not None:
        return model
    function = CallableModel(model.source.predict, input=model.input, columns=model.columns)
    return function.with_options(threshold=model.threshold, name=model.name)


@dataclass(frozen=True)
class Marginal:
    """Average the original model's scores over all protected combinations: no individual is treated differently.

    Needs no training and no search. ``weights`` are those of ``MarginalModel``; ``"data"`` uses the shares of the
    training rows.

    >>> Marginal().weights is None
    True
    """

    weights: Weights = None

    does: ClassVar[str] = "which averages the scores over the protected values"

    def __post_init__(self) -> None:
        if isinstance(self.weights, str) and self.weights != "data":
            raise StrategyError(
                'must be None, "data" or a mapping of protected values to numbers',
                parameter="weights",
                value=self.weights,
                remedy="leave it out for all alike",
            )

    def apply(self, context: RepairContext) -> Candidate:
        """Wrap the original."""
        space, model = context.space, context.original
        alone, here = wrap(model), context.trainer.wrap(model)
        if (alone.input, alone.columns) != (here.input, here.columns):
            # It does not record what it was fitted on.
            model = here
        weights = MarginalModel.shares(space, context.rows.frame) if self.weights == "data" else self.weights
        asked = f"each prediction asks the original model about up to {space.width:,} combinations of protected values"
        return Candidate(MarginalModel(model, space, weights), cost=asked)


def averaged(model: Model, neighbours: Neighbours, X: Any, decide: bool = False) -> tuple[Floats | None, Array | None]:
    """Average the model's scores over each row's family, or choose the label with the most weight.

    Each family is queried once per call, so rows that differ only in protected attributes get exactly the same answer,
    even if the position in the batch affects the model's rounding.
    """
    table = Table(model, neighbours, X)
    if not table.n:
        # There is nothing to query.
        return _nothing(model)
    first, inverse = table.distinct()
    step = max(1, CALL // neighbours.places.shape[1])
    scores: list[Floats] = []
    labels: list[Array] = []
    starts = range(0, len(first), step)
    for start in starts:
        rows = first[start : start + step]
        asked, weights = table.weighted(rows)
        outputs, numbers = _ask(model, table.members(rows, asked), int(asked.sum()), decide)
        if numbers:
            spread = np.zeros((*asked.shape, outputs.shape[1]))
            spread[asked] = outputs
            scores.append((spread * weights[:, :, None]).sum(axis=1))
        if not numbers or (decide and _may_be_labels(model, outputs)):
            labels.append(_most(as_labels(outputs, len(outputs), model.name), asked, weights))
    # Numbers of a function are labels only if all of them are whole.
    if len(labels) == len(starts):
        return None, np.concatenate(labels)[inverse]
    if len(scores) == len(starts):
        return np.concatenate(scores)[inverse], None
    raise ModelError(
        f"{model.name} gave labels for some rows and scores for others", remedy="return one kind of answer"
    )


def _nothing(model: Model) -> tuple[Floats, Array]:
    known = model.classes
    width = 1 if known is None or _signed(model) else len(known)
    kind = np.float64 if model.regression else np.int64 if known is None else known.dtype
    return np.zeros((0, width)), np.zeros(0, dtype=kind)


def _ask(model: Model, rows: Any, n: int, decide: bool) -> tuple[Array, bool]:
    """Query scores, or labels if there are none or decisions do not follow from them; return also which they are."""
    if not isinstance(model, CallableModel):
        client = ModelClient(model)
        if model.has_scores and (follows(model) or not decide):
            try:
                return client.scores(rows, n), True
            except ModelTimeout:
                raise
            except ModelError:
                # A network may turn out to return labels; other errors are raised again below.
                if not decide or model.regression:
                    raise
        return client.labels(rows, n), False
    # The kind of answers of a function is known only after the call.
    try:
        answer = to_array(model.source(model.pick(rows)), model.name)
    except EvenhandError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise ModelError(
            f"{model.name} raised {type(error).__name__}: {error}", remedy="check that it takes these rows"
        ) from error
    if answer.shape[1:] > (1,) or answer.dtype.kind == "f" or model.threshold is not None or model.regression:
        return as_scores(answer, n, model.name), True
    return as_labels(answer, n, model.name), False


def _may_be_labels(model: Model, outputs: Floats) -> bool:
    """Return whether a function's numbers are all whole: 0.0 and 1.0 are the labels 0 and 1."""
    unknown = isinstance(model, CallableModel) and model.threshold is None and not model.regression
    return unknown and outputs.shape[1] == 1 and bool((outputs == np.rint(outputs)).all())


def follows(model: Model) -> bool:
    """Return whether decisions follow from scores, so that averaged scores decide.

    >>> from evenhand.models.wrap import wrap
    >>> follows(wrap(len))
    True
    """
    return model.decides or model.regression or _signed(model)


def _signed(model: Model) -> bool:
    """Return whether the model decides by the sign of one number, as an SVM with two classes does."""
    two = model.classes is not None and len(model.classes) == 2
    return two and isinstance(model, EstimatorModel) and scoring_of(model) == "decision_function"


def scoring_of(source: Any) -> str | None:
    """Return the name of the method whose answers are averaged, if there is one.

    >>> scoring_of(len) is None
    True
    """
    if isinstance(source, EstimatorModel):
        source = source.source
    if isinstance(source, Model):
        return "predict_proba" if source.has_scores and source.classes is not None else None
    for name in ("predict_proba", "decision_function"):
        if callable(getattr(source, name, None)):
            return name
    return None


def _most(labels: Array, asked: npt.NDArray[np.bool_], weights: Floats) -> Array:
    """Choose the label with the most weight in each family; ties go to the first in order."""
    values, codes = np.unique(labels, return_inverse=True)
    spread = np.full(asked.shape, -1)
    spread[asked] = codes.ravel()
    total = np.stack([np.where(spread == code, weights, 0.0).sum(axis=1) for code in range(len(values))], axis=1)
    chosen: Array = values[np.round(total, 12).argmax(axis=1)]
    return chosen


def _numbers(X: Any, name: str) -> Floats:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        gist = " ".join(str(error).split())[:120]
        raise DataError(f"{name} takes numbers ({gist})", remedy=("if it takes a frame: ", FRAME)) from None


@dataclass
class Table:
    """Rows as given, and their families."""

    model: Model
    neighbours: Neighbours
    X: Any

    def __post_init__(self) -> None:
        names = self.neighbours.space.names
        self.framed = self.model.input == "frame"
        if not isinstance(self.X, np.ndarray):
            self.X = as_pandas(self.X)
            optional = set() if not self.framed else set(self.neighbours.space.protected)
            lacking = [name for name in names if name not in self.X.columns and name not in optional]
            if lacking:
                raise DataError(
                    f"the rows have no column {', '.join(map(repr, lacking))}",
                    remedy=f"give it; they have {list(self.X.columns)[:12]}",
                )
            if not self.framed:
                self.X = _numbers(self.X[list(names)], self.model.name)
        elif self.framed:
            raise DataError(
                f"{self.model.name} takes a frame with named columns, got an array", remedy="name the columns"
            )
        elif self.X.ndim != 2 or self.X.shape[1] != len(names):
            raise DataError(
                f"an array must have the {len(names)} columns of the space, got {self.X.shape}",
                remedy=f"give {', '.join(names)}",
            )
        else:
            self.X = _numbers(self.X, self.model.name)
        self.n = len(self.X)
        self._codes: dict[int, npt.NDArray[np.int64]] = {}
        own = np.stack([self.code(j, exact=True) for j in self.neighbours.columns], axis=1) if self.n else None
        self.families = np.zeros(0, dtype=np.int64) if own is None else self.neighbours.families(own)

    def code(self, j: int, exact: bool = False) -> npt.NDArray[np.int64]:
        """Return the codes of a column, -1 for unknown values; values beyond the bounds are clipped, or -1 if exact."""
        space, name = self.neighbours.space, self.neighbours.space.names[j]
        if j not in self._codes or exact:
            if not self.framed:
                values = self.X[:, j]
            elif name in self.X.columns:
                values = columns_of(self.X[[name]])[name]
            else:
                return np.full(self.n, KEEP)
            codes, clipped = space.attributes[j].encode(values)
            if exact:
                return np.where(clipped, KEEP, codes)
            self._codes[j] = codes
        return self._codes[j]

    def distinct(self) -> tuple[Places, Places]:
        """Find one row of each family, and the family of each row."""
        space = self.neighbours.space
        linked = self.neighbours.columns[len(space.protected_columns) :]
        kept = self.families == 0
        if self.framed:
            names = [name for name in self.X.columns if name not in space.protected]
            if self.model.columns is not None:
                names = [name for name in names if name in self.model.columns or name in space.names]
            follow = {space.names[j] for j in linked}
            keys = [self.X[name].where(kept) if name in follow else self.X[name] for name in names]
            frame = self.X[[]].assign(**{f"k{i}": key.array for i, key in enumerate(keys)}, family=self.families)
            number = frame.groupby(list(frame.columns), dropna=False, sort=False, observed=True).ngroup().to_numpy()
        else:
            values = self.X[:, space.free_columns]
            for j in linked:
                values[~kept, space.free_columns.index(j)] = 0.0
            whole = np.ascontiguousarray(np.column_stack([values, self.families]))
            number = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
        _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
        return first, inverse.ravel()

    def weighted(self, rows: Places) -> tuple[npt.NDArray[np.bool_], Floats]:
        """Return which members of the rows' families are queried, and their weights, which sum to 1."""
        family = self.families[rows]
        weights = self.neighbours.weights[family]
        there = ~np.isnan(weights)
        valid = there & self._valid(rows, self.neighbours.places[family])
        # A row without valid members is not an individual of the space, but gets an answer.
        valid = np.where(valid.any(axis=1, keepdims=True), valid, there)
        weights = np.where(valid, weights, 0.0)
        unweighted = weights.sum(axis=1, keepdims=True) == 0
        weights = np.where(unweighted & valid, 1.0, weights)
        return weights > 0, weights / weights.sum(axis=1, keepdims=True)

    def _valid(self, rows: Places, places: Places) -> npt.NDArray[np.bool_]:
        """Return which members meet the constraints that can differ between members."""
        space = self.neighbours.space
        out = np.ones(places.shape, dtype=bool)
        told_apart = {space.names[j]: k for k, j in enumerate(self.neighbours.columns)}
        for constraint in space.constraints:
            if not told_apart.keys() & set(constraint.names):
                continue
            codes = {}
            for name in constraint.names:
                own = np.broadcast_to(self.code(space.column(name))[rows][:, None], places.shape)
                if name in told_apart:
                    theirs = self.neighbours.codes[places, told_apart[name]]
                    own = np.where(theirs == KEEP, own, theirs)
                codes[name] = own
            known = np.logical_and.reduce([code >= 0 for code in codes.values()])
            flat = {name: np.maximum(code, 0).ravel().astype(np.int32) for name, code in codes.items()}
            out &= constraint.holds_codes(flat).reshape(places.shape) | ~known
        return out

    def members(self, rows: Places, asked: npt.NDArray[np.bool_]) -> Any:
        """Write the rows of all queried members, family after family."""
        take = np.repeat(rows, asked.sum(axis=1))
        codes = self.neighbours.codes[self.neighbours.places[self.families[rows]][asked]]
        out = self.X.iloc[take].reset_index(drop=True) if self.framed else self.X[take]
        for k, j in enumerate(self.neighbours.columns):
            self._put(out, j, codes[:, k])
        return out

    def _put(self, out: Any, j: int, codes: npt.NDArray[np.int32]) -> None:
        """Replace the values of a column; rows with the code for "own" keep theirs."""
        attribute, given = self.neighbours.space.attributes[j], codes != KEEP
        if not given.any():
            return
        if not self.framed:
            out[given, j] = attribute.decode(codes[given]).astype(np.float64)
        elif given.all():
            out[attribute.name] = attribute.column(codes)
        else:
            out.loc[given, attribute.name] = attribute.decode(codes[given])


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The members of every family, padded to one width.

    ``columns`` are the protected ones, then those that follow them; ``codes`` holds what members have there.
    Family 0 has all combinations and keeps linked values, for rows whose linked values are unknown to the space.
    """

    space: Space
    columns: tuple[int, ...]
    codes: Rows
    places: npt.NDArray[np.int64]
    """(families, width): rows of ``codes``."""
    weights: npt.NDArray[np.float64]
    """(families, width): the weight of each member; NaN if there is none."""
    lookup: npt.NDArray[np.int64] | None
    """The family of each combination of protected and linked codes, by number; None without links."""
    sampled: bool
    """Whether there were too many combinations, so that only some are used."""

    def families(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the family of rows, given their codes in ``columns``; a protected code of -1 counts as the first."""
        if self.lookup is None:
            return np.zeros(len(codes), dtype=np.int64)
        protected = len(self.space.protected_columns)
        known = (codes[:, protected:] >= 0).all(axis=1)
        sizes = [self.space.attributes[j].size for j in self.columns]
        number = np.ravel_multi_index(tuple(np.maximum(codes, 0).T), tuple(sizes))
        return np.where(known, self.lookup[number], 0)


@lru_cache(maxsize=16)
def neighbours_of(space: Space, shares: Shares | None = None) -> Neighbours:
    """List the families of a space; ``shares`` are weights of combinations, by default equal.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> neighbours = neighbours_of(Space([Integer("age", 1, 9), Boolean("sex")], protected="sex"))
    >>> neighbours.codes.tolist(), neighbours.weights.tolist()
    ([[0], [1]], [[0.5, 0.5]])
    """
    chosen, weights, sampled = _chosen(space, shares)
    linked = tuple(j for j in space.free_columns if j not in space.unlinked_columns)
    columns = (*space.protected_columns, *linked)
    plain = np.hstack([chosen, np.full((len(chosen), len(linked)), KEEP, dtype=np.int32)])
    places = np.arange(len(chosen))[None]
    if not linked:
        return Neighbours(space, columns, plain, places, weights[None], None, sampled)
    codes, lookup, members = _joined(space, columns)
    by_combination = {tuple(row): weight for row, weight in zip(chosen.tolist(), weights.tolist(), strict=True)}
    width = max(len(chosen), *(len(rows) for rows in members))
    all_places = np.zeros((len(members) + 1, width), dtype=np.int64)
    all_weights = np.full((len(members) + 1, width), np.nan)
    all_weights[0, : len(chosen)], all_places[0, : len(chosen)] = weights, places
    for family, rows in enumerate(members, 1):
        combinations = [tuple(row) for row in codes[rows, : len(space.protected_columns)].tolist()]
        all_places[family, : len(rows)] = rows + len(plain)
        # Two members with the same protected values share their weight.
        all_weights[family, : len(rows)] = [
            by_combination.get(combination, 0.0) / combinations.count(combination) for combination in combinations
        ]
    return Neighbours(space, columns, np.vstack([plain, codes]), all_places, all_weights, lookup + 1, sampled)


def _chosen(space: Space, shares: Shares | None) -> tuple[Rows, npt.NDArray[np.float64], bool]:
    """Return the combinations with weights, in order, their weights, and whether some are left out.

    If there are too many, one from the middle of each of equal segments is used; with given shares, the largest.
    """
    sizes = [space.attributes[j].size for j in space.protected_columns]
    total, limit = space.combinations, space.max_family_size
    if shares is None:
        # Python integers, because there may be more combinations than 64 bits can count.
        step, first = (1, 0) if total <= limit else (total // limit, total // (2 * limit))
        numbers = [place * step + first for place in range(min(total, limit))]
        weights = np.full(len(numbers), 1.0)
    else:
        counted = _numbered(space, shares, sizes)
        if total <= limit:
            # A combination with weight 0 is still queried if no other is valid.
            counted = dict.fromkeys(range(total), 0.0) | counted
        largest = sorted(counted, key=lambda number: (-counted[number], number))[:limit]
        numbers = sorted(largest)
        weights = np.array([counted[number] for number in numbers])
        total = len(counted)
    rest, codes = np.array(numbers, dtype=object), np.empty((len(numbers), len(sizes)), dtype=np.int32)
    for i in reversed(range(len(sizes))):
        rest, codes[:, i] = rest // sizes[i], rest % sizes[i]
    return codes, weights / weights.sum(), total > limit


def _numbered(space: Space, shares: Shares, sizes: Sequence[int]) -> dict[int, float]:
    out: dict[int, float] = {}
    for values, weight in shares:
        if len(values) != len(sizes):
            raise SpaceError(
                f"must name a value of each of {', '.join(space.protected)}", parameter="weights", value=values
            )
        pairs = zip(space.protected_columns, values, strict=True)
        codes = [space.attributes[j].code(value) for j, value in pairs]
        number = 0
        for code, size in zip(codes, sizes, strict=True):
            number = number * size + int(code)
        if number in out:
            raise SpaceError("must name each combination once", parameter="weights", value=values)
        if not weight >= 0 or not np.isfinite(weight):
            raise SpaceError(
                f"must be finite numbers, 0 or more, also for {values!r}", parameter="weights", value=weight
            )
        out[number] = float(weight)
    if not sum(out.values()) > 0:
        raise SpaceError(
            "must not all be 0", parameter="weights", remedy="give at least one combination a weight above 0"
        )
    return out


def _joined(space: Space, columns: tuple[int, ...]) -> tuple[Rows, npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Follow links to the end: all codes, the family of each, and the final members of each family."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    small = Space(
        [space.attributes[j] for j in columns],
        space.protected,
        links=space.links,
        max_family_size=space.max_family_size,
    )
    total, width = small.coding.total, small.combinations
    if total * width > LARGEST:
        raise SpaceError(
            f"links join {count(total)} combinations of protected and linked values with {count(width)} "
            f"counterparts each, {LARGEST:,} in all at most",
            remedy="link or protect fewer attributes",
        )
    # Numbered as by ravel_multi_index, which may differ from the space's order.
    codes = np.stack(np.unravel_index(np.arange(total), [a.size for a in small.attributes]), axis=1).astype(np.int32)
    family = small.families(small.individuals(codes), 0).rows.reshape(-1, len(columns))
    reached = np.ravel_multi_index(tuple(family.T), tuple(a.size for a in small.attributes))
    start = np.repeat(np.arange(total), width)
    graph = coo_array((np.ones(len(start), dtype=bool), (start, reached)), shape=(total, total)).tocsr()
    kinds, joined = connected_components(graph, directed=True, connection="weak")
    rounds, strong = connected_components(graph, directed=True, connection="strong")
    ends = np.ones(rounds, dtype=bool)
    ends[strong[start[strong[start] != strong[reached]]]] = False
    last = ends[strong]
    return codes, joined.astype(np.int64), [np.flatnonzero(last & (joined == kind)) for kind in range(kinds)]


def as_shares(weights: Mapping[Any, float], space: Space) -> Shares:
    """Normalise weights by combination (a tuple, or the value itself if one attribute is protected).

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> as_shares({True: 3, False: 1}, Space([Integer("age", 1, 9), Boolean("sex")], protected="sex"))
    (((True,), 3.0), ((False,), 1.0))
    """
    if not isinstance(weights, Mapping):
        raise SpaceError(
            f'must be None, "data" or a mapping of protected values to numbers, got {type(weights).__name__}',
            parameter="weights",
            remedy="for example {'F': 0.5, 'M': 0.5}; for several attributes, tuples",
        )
    several = len(space.protected) > 1
    shares = []
    for values, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
            raise SpaceError(
                f"must be finite numbers, 0 or more, also for {values!r}", parameter="weights", value=weight
            )
        shares.append((values if several and isinstance(values, tuple) else _single(values), float(weight)))
    return tuple(shares)


def _single(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) and len(values) == 1 else (values,)
