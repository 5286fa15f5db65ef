"""Which combinations of protected values are averaged over, and the average of a model's answers over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import count
from evenhand.errors import FRAME, DataError, EvenhandError, ModelError, ModelTimeout, SpaceError
from evenhand.models.base import Array, Floats, Model
from evenhand.models.client import ModelClient
from evenhand.models.outputs import as_labels, as_scores, to_array
from evenhand.models.sklearn import EstimatorModel
from evenhand.models.wrap import CallableModel
from evenhand.spaces.frames import as_pandas, columns_of
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

CALL = 2**18
"""The most rows of one model call."""
Places = npt.NDArray[np.int64]


def averaged(model: Model, neighbours: Neighbours, X: Any, decide: bool = False) -> tuple[Floats | None, Array | None]:
    """Average what a model says of each row's family: scores; or, to decide, labels by weight where those are better.

    Each family is asked about once in a call, so rows that differ in protected attributes only get the very same
    answer, whatever the place of a row in a batch does to the model's rounding.
    """
    table = Table(model, neighbours, X)
    if not table.n:
        # There is nothing to ask, and no model is made for nothing.
        return _nothing(model)
    first, inverse = table.distinct()
    step = max(1, CALL // neighbours.places.shape[1])
    scores: list[Floats] = []
    labels: list[Array] = []
    starts = range(0, len(first), step)
    for start in starts:
        rows = first[start : start + step]
        asked, weights = table.weighted(rows)
        said, numbers = _ask(model, table.members(rows, asked), int(asked.sum()), decide)
        if numbers:
            spread = np.zeros((*asked.shape, said.shape[1]))
            spread[asked] = said
            scores.append((spread * weights[:, :, None]).sum(axis=1))
        if not numbers or (decide and _may_be_labels(model, said)):
            labels.append(_most(as_labels(said, len(said), model.name), asked, weights))
    # Numbers of a function are labels only if all of them are whole.
    if len(labels) == len(starts):
        return None, np.concatenate(labels)[inverse]
    if len(scores) == len(starts):
        return np.concatenate(scores)[inverse], None
    raise ModelError(f"{model.name} gave labels for some rows and scores for others. Return one kind of answer.")


def _nothing(model: Model) -> tuple[Floats, Array]:
    known = model.classes
    width = 1 if known is None or _signed(model) else len(known)
    kind = np.float64 if model.regression else np.int64 if known is None else known.dtype
    return np.zeros((0, width)), np.zeros(0, dtype=kind)


def _ask(model: Model, rows: Any, n: int, decide: bool) -> tuple[Array, bool]:
    """Ask for scores, or labels where there are none or decisions are other than the scores; say which they are."""
    if not isinstance(model, CallableModel):
        client = ModelClient(model)
        if model.has_scores and (follows(model) or not decide):
            try:
                return client.scores(rows, n), True
            except ModelTimeout:
                raise
            except ModelError:
                # A network may turn out to give labels; what is wrong otherwise is said again below.
                if not decide or model.regression:
                    raise
        return client.labels(rows, n), False
    # What a function returns is known when it has returned it.
    try:
        answer = to_array(model.source(model.pick(rows)), model.name)
    except EvenhandError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise ModelError(f"{model.name} raised {type(error).__name__}: {error}") from error
    if answer.shape[1:] > (1,) or answer.dtype.kind == "f" or model.threshold is not None or model.regression:
        return as_scores(answer, n, model.name), True
    return as_labels(answer, n, model.name), False


def _may_be_labels(model: Model, said: Floats) -> bool:
    """Tell whether a function's numbers are all whole: 0.0 and 1.0 are the labels 0 and 1."""
    unsaid = isinstance(model, CallableModel) and model.threshold is None and not model.regression
    return unsaid and said.shape[1] == 1 and bool((said == np.rint(said)).all())


def follows(model: Model) -> bool:
    """Tell whether decisions follow from scores, so that averaged scores decide.

    >>> from evenhand.models.wrap import wrap
    >>> follows(wrap(len))
    True
    """
    return model.decides or model.regression or _signed(model)


def _signed(model: Model) -> bool:
    """Tell whether the model decides by the sign of one number, as an SVM of two classes does."""
    two = model.classes is not None and len(model.classes) == 2
    return two and isinstance(model, EstimatorModel) and scoring_of(model) == "decision_function"


def scoring_of(source: Any) -> str | None:
    """Name the method whose answers are averaged, where there is one.

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
    """Choose the label of most weight in each family; of labels that weigh alike, the first in their order."""
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
    """Rows as they came, and what is known of their families."""

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
                raise DataError(f"the rows lack {', '.join(map(repr, lacking))}; they have {list(self.X.columns)[:12]}")
            if not self.framed:
                self.X = _numbers(self.X[list(names)], self.model.name)
        elif self.framed:
            raise DataError(f"{self.model.name} takes a frame with named columns, got an array; name the columns")
        elif self.X.ndim != 2 or self.X.shape[1] != len(names):
            raise DataError(f"an array needs the space's {len(names)} columns, {', '.join(names)}; got {self.X.shape}")
        else:
            self.X = _numbers(self.X, self.model.name)
        self.n = len(self.X)
        self._codes: dict[int, npt.NDArray[np.int64]] = {}
        own = np.stack([self.code(j, exact=True) for j in self.neighbours.columns], axis=1) if self.n else None
        self.families = np.zeros(0, dtype=np.int64) if own is None else self.neighbours.families(own)

    def code(self, j: int, exact: bool = False) -> npt.NDArray[np.int64]:
        """Give the codes of a column, -1 for what the space does not know; beyond a bound the bound, unless exact."""
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
        """Tell which members of the rows' families are asked about, and what each counts; they sum up to 1."""
        family = self.families[rows]
        weights = self.neighbours.weights[family]
        there = ~np.isnan(weights)
        valid = there & self._valid(rows, self.neighbours.places[family])
        # A row whose every member is invalid is no individual of the space; it is answered all the same.
        valid = np.where(valid.any(axis=1, keepdims=True), valid, there)
        weights = np.where(valid, weights, 0.0)
        unweighted = weights.sum(axis=1, keepdims=True) == 0
        weights = np.where(unweighted & valid, 1.0, weights)
        return weights > 0, weights / weights.sum(axis=1, keepdims=True)

    def _valid(self, rows: Places, places: Places) -> npt.NDArray[np.bool_]:
        """Tell which members meet the constraints that can tell members apart."""
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
        """Write the rows of all members that are asked about, family after family."""
        take = np.repeat(rows, asked.sum(axis=1))
        codes = self.neighbours.codes[self.neighbours.places[self.families[rows]][asked]]
        out = self.X.iloc[take].reset_index(drop=True) if self.framed else self.X[take]
        for k, j in enumerate(self.neighbours.columns):
            self._put(out, j, codes[:, k])
        return out

    def _put(self, out: Any, j: int, codes: npt.NDArray[np.int32]) -> None:
        """Put values in the place of a column; where the code says so a row keeps its own."""
        attribute, given = self.neighbours.space.attributes[j], codes != KEEP
        if not given.any():
            return
        if not self.framed:
            out[given, j] = attribute.decode(codes[given]).astype(np.float64)
        elif given.all():
            out[attribute.name] = attribute.column(codes)
        else:
            out.loc[given, attribute.name] = attribute.decode(codes[given])


Shares = tuple[tuple[tuple[Any, ...], float], ...]
"""Combinations of protected values, each with its weight."""
KEEP = -1
"""The code of a value that stays the row's own."""
LARGEST = 2**22
"""The most counterparts that are listed to follow links."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The members of every family, padded to one width.

    ``columns`` are the protected ones, then those that follow them; ``codes`` holds what members have there.
    Family 0 has all combinations and keeps what is linked: of a row whose linked values the space does not know.
    """

    space: Space
    columns: tuple[int, ...]
    codes: Rows
    places: npt.NDArray[np.int64]
    """(families, width): rows of ``codes``."""
    weights: npt.NDArray[np.float64]
    """(families, width): what a member counts; NaN where there is none."""
    lookup: npt.NDArray[np.int64] | None
    """The family of each combination of protected and linked codes, by its number; None without links."""
    sampled: bool
    """Whether there were too many combinations, and some stand for all."""

    def families(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tell the family of rows, given their codes in ``columns``; a protected code of -1 is taken as the first."""
        if self.lookup is None:
            return np.zeros(len(codes), dtype=np.int64)
        protected = len(self.space.protected_columns)
        known = (codes[:, protected:] >= 0).all(axis=1)
        sizes = [self.space.attributes[j].size for j in self.columns]
        number = np.ravel_multi_index(tuple(np.maximum(codes, 0).T), tuple(sizes))
        return np.where(known, self.lookup[number], 0)


@lru_cache(maxsize=16)
def neighbours_of(space: Space, shares: Shares | None = None) -> Neighbours:
    """List the families of a space; ``shares`` are the combinations that count, by default all of them alike.

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
        # Two members with the same protected values share what these count.
        all_weights[family, : len(rows)] = [
            by_combination.get(combination, 0.0) / combinations.count(combination) for combination in combinations
        ]
    return Neighbours(space, columns, np.vstack([plain, codes]), all_places, all_weights, lookup + 1, sampled)


def _chosen(space: Space, shares: Shares | None) -> tuple[Rows, npt.NDArray[np.float64], bool]:
    """Give the combinations that count, in the order of their numbers, what each counts, and whether some are left out.

    Of too many, one is taken from the middle of each of equal stretches; of too many shares the largest.
    """
    sizes = [space.attributes[j].size for j in space.protected_columns]
    total, limit = space.combinations, space.max_family_size
    if shares is None:
        # Python's own numbers: there may be more combinations than 64 bits count.
        step, first = (1, 0) if total <= limit else (total // limit, total // (2 * limit))
        numbers = [place * step + first for place in range(min(total, limit))]
        weights = np.full(len(numbers), 1.0)
    else:
        counted = _numbered(space, shares, sizes)
        if total <= limit:
            # A combination of weight 0 is still asked where no other one is valid.
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
            raise SpaceError(f"weights: {values!r} must name a value of each of {', '.join(space.protected)}")
        pairs = zip(space.protected_columns, values, strict=True)
        codes = [space.attributes[j].code(value) for j, value in pairs]
        number = 0
        for code, size in zip(codes, sizes, strict=True):
            number = number * size + int(code)
        if number in out:
            raise SpaceError(f"weights: {values!r} is there twice; name each combination once")
        if not weight >= 0 or not np.isfinite(weight):
            raise SpaceError(f"weights: {values!r} counts {weight!r}; give a finite number, 0 or more")
        out[number] = float(weight)
    if not sum(out.values()) > 0:
        raise SpaceError("weights: all are 0; give at least one combination a weight above 0")
    return out


def _joined(space: Space, columns: tuple[int, ...]) -> tuple[Rows, npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Follow links to the end: all codes, the family of each, and the members that each family ends in."""
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
            f"links join {count(total)} combinations of protected and linked values, with {count(width)} counterparts "
            f"each; {LARGEST:,} in all is the most: link or protect less"
        )
    # Numbered as ravel_multi_index does, which need not be the space's own order.
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
    """Write weights by combination (a tuple, or the value itself where one attribute is protected) in one form.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> as_shares({True: 3, False: 1}, Space([Integer("age", 1, 9), Boolean("sex")], protected="sex"))
    (((True,), 3.0), ((False,), 1.0))
    """
    if not isinstance(weights, Mapping):
        raise SpaceError(
            'weights must be None, "data" or a mapping of protected values to numbers such as\n'
            f"{{'F': 0.5, 'M': 0.5}} (a tuple for several attributes), got {type(weights).__name__}"
        )
    several = len(space.protected) > 1
    shares = []
    for values, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
            raise SpaceError(f"weights: {values!r} counts {weight!r}; give a finite number, 0 or more")
        shares.append((values if several and isinstance(values, tuple) else _single(values), float(weight)))
    return tuple(shares)


def _single(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) and len(values) == 1 else (values,)
