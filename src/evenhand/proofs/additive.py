"""Models that add up one number per attribute: linear models, and boosted trees that read one attribute each.

The members of a family differ in protected and linked attributes only, so they share the sum of all other attributes.
A family is treated differently exactly if that sum lies in an interval. Sums are counted in two halves: the sums of one
half are listed, those of the other looked up. If both lists are short, the sums themselves are compared, which is exact
up to rounding errors; the few individuals within these are asked about. Otherwise, contributions are rounded to a grid,
down for one bound and up for the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.domain import FAIR, INVALID, UNDECIDED, UNFAIR, UNTESTABLE, Domain, Ints, Measure, Root

Floats: TypeAlias = npt.NDArray[np.float64]
Ask: TypeAlias = Callable[[npt.NDArray[Any], int], npt.NDArray[np.bool_]]
"""Asks about individuals, by codes of the free attributes and the group: who is treated differently."""
LIST = 10**7
"""Maximum number of sums in each half for comparing the sums themselves."""
CELLS = 2**23
"""Cells of the grid, if the sums are too many to be listed."""
HEADS = 2**20
"""Maximum combinations of linked and constrained attributes, for which the interval is computed one by one."""
EDGE = 20_000
"""Maximum number of sums within rounding errors of an interval's ends that are asked about."""


@dataclass(frozen=True, eq=False)
class Additive:
    """A score that is a sum of one term per attribute; decides for the second class above ``cut``.

    ``terms`` has, for each column of the space, the term of each code; ``error`` bounds the rounding errors of the
    model's score and of sums of the terms; ``alike`` numbers the codes of each column whose values are the same to the
    model.
    """

    terms: list[Floats]
    base: float
    cut: float
    error: float
    alike: list[Ints]


@dataclass(frozen=True)
class Counted:
    """Numbers of individuals."""

    fair: int
    unfair: int
    undecided: int
    untestable: int
    exact: bool
    """Whether the sums themselves were compared, so that at most rounding errors are undecided."""
    asked: tuple[int, int] = (0, 0)
    """Numbers of individuals, among these, who were asked about: those treated alike, and differently."""
    example: npt.NDArray[Any] | None = None
    """Codes of an individual that is treated differently."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The distinct terms of one free attribute within a box: their values, weights, and a code of each."""

    place: int
    values: Floats
    weights: npt.NDArray[Any]
    codes: Ints


@dataclass(frozen=True, eq=False)
class Heads:
    """Combinations of the attributes in which members of a family may differ, and of those tied by constraints."""

    places: tuple[int, ...]
    codes: Ints
    weights: npt.NDArray[Any]
    low: Floats
    """The least score of the family without the other attributes, by combination."""
    high: Floats
    group: int


def count(additive: Additive, domain: Domain, measure: Measure, ask: Ask, list_most: int = LIST) -> Counted:
    """Count who is treated differently.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> domain = Domain(Space([Integer("age", 1, 9), Boolean("member")], protected="member"))
    >>> alike = [np.arange(9), np.arange(2)]
    >>> score = Additive([np.arange(1.0, 10), np.array([0.0, 2.0])], 0.0, 5.5, 1e-12, alike)
    >>> found = count(score, domain, domain.uniform, lambda free, group: np.zeros(len(free), bool))
    >>> found.unfair, found.fair, found.undecided
    (4, 14, 0)
    """
    out = Counted(0, 0, 0, 0, True)
    for root in domain.roots:
        alone = int(measure.count(root.low[None], root.high[None])[0])
        families = domain.patterns[root.pattern].families
        lonely = sum(weight for weight, family in zip(measure.groups, families, strict=True) if len(family) == 1)
        for heads, weight, tails in _heads(additive, domain, measure, root):
            unfair, edge, exact, example, asked = _one(additive, heads, tails, measure, ask, list_most, domain)
            out = replace(
                out,
                asked=(out.asked[0] + weight * asked[0], out.asked[1] + weight * asked[1]),
                unfair=out.unfair + weight * unfair,
                undecided=out.undecided + weight * edge,
                fair=out.fair + weight * (alone - unfair - edge),
                exact=out.exact and exact,
                example=out.example if example is None else example,
            )
        out = replace(out, untestable=out.untestable + lonely * alone)
    return out


def _heads(
    additive: Additive, domain: Domain, measure: Measure, root: Root
) -> Iterator[tuple[Heads, int, list[Terms]]]:
    """Yield, for each kind of family in a box: the combinations, the weight of their own values, the other terms."""
    families: dict[tuple[int, ...], list[int]] = {}
    for group, family in enumerate(domain.patterns[root.pattern].families):
        if len(family) > 1:
            families.setdefault(family, []).append(group)
    for family, groups in families.items():
        views = [domain.views[view] for view in family]
        linked = {i for view in views for i in view.maps}
        tied = {i for one in domain.tied for i in one.columns}
        places = tuple(sorted(linked | tied))
        tails = [_terms(additive, domain, measure, root, i) for i in range(len(domain.columns)) if i not in places]
        codes = _combinations(domain, root, places)
        weights = np.ones(len(codes), dtype=measure.dtype)
        for at, i in enumerate(places):
            weights = weights * measure.weights[domain.columns[i]][codes[:, at]]
        scores = np.zeros((len(codes), len(views)))
        for v, view in enumerate(views):
            scores[:, v] = additive.base + sum(
                float(additive.terms[j][code])
                for j, code in zip(domain.space.protected_columns, view.protected, strict=True)
            )
            for at, i in enumerate(places):
                mapped = view.maps[i][codes[:, at]] if i in view.maps else codes[:, at]
                scores[:, v] += additive.terms[domain.columns[i]][mapped]
        # Members with the same values to the model have one score, to the last bit.
        equal = np.ones(len(codes), dtype=bool)
        for at, i in enumerate(places):
            alike = additive.alike[domain.columns[i]]
            for view in views:
                if i in view.maps:
                    equal &= alike[view.maps[i][codes[:, at]]] == alike[codes[:, at]]
        for at, j in enumerate(domain.space.protected_columns):
            equal &= len({int(additive.alike[j][view.protected[at]]) for view in views}) == 1
        scores[equal] = np.inf
        if not len(codes):
            tails = []
        heads = Heads(places, codes, weights, scores.min(axis=1), scores.max(axis=1), groups[0])
        yield heads, sum(measure.groups[group] for group in groups), tails


def _combinations(domain: Domain, root: Root, places: tuple[int, ...]) -> Ints:
    """List the valid combinations of some attributes within a box."""
    from evenhand.proofs.features import unreadable

    parts, done = [], set[int]()
    for tied in domain.tied:
        inside = tied.valid[tuple(slice(int(root.low[i]), int(root.high[i]) + 1) for i in tied.columns)]
        found = np.argwhere(inside) + root.low[list(tied.columns)]
        parts.append((tied.columns, found))
        done |= set(tied.columns)
    parts += [((i,), np.arange(root.low[i], root.high[i] + 1)[:, None]) for i in places if i not in done]
    total = math.prod(len(found) for _, found in parts)
    if total > HEADS:
        raise unreadable(f"links and constraints make {total:,} combinations, more than {HEADS:,}")
    out = np.empty((total, len(places)), dtype=np.int64)
    numbers = np.arange(total)
    for columns, found in parts:
        numbers, which = np.divmod(numbers, len(found))
        for at, i in enumerate(columns):
            out[:, places.index(i)] = found[which, at]
    return out


def _terms(additive: Additive, domain: Domain, measure: Measure, root: Root, place: int) -> Terms:
    column = domain.columns[place]
    codes = np.arange(root.low[place], root.high[place] + 1)
    _, first, back = np.unique(additive.alike[column][codes], return_index=True, return_inverse=True)
    weights = np.zeros(len(first), dtype=measure.dtype)
    np.add.at(weights, back, measure.weights[column][codes])
    return Terms(place, additive.terms[column][codes[first]], weights, codes[first])


def _halves(heads: int, tails: list[Terms]) -> tuple[list[Terms], list[Terms]]:
    """Divide the attributes so that the longer list is as short as possible, roughly."""
    sizes = [float(heads), 1.0]
    halves: tuple[list[Terms], list[Terms]] = [], []
    for one in sorted(tails, key=lambda one: -len(one.values)):
        side = int(sizes[0] > sizes[1])
        halves[side].append(one)
        sizes[side] *= len(one.values)
    return halves


def _one(
    additive: Additive, heads: Heads, tails: list[Terms], measure: Measure, ask: Ask, most: int, domain: Domain
) -> tuple[int, int, bool, npt.NDArray[Any] | None, tuple[int, int]]:
    """Count, for one kind of family: who is certainly treated differently, and who may be."""
    single = [one for one in tails if len(one.values) == 1]
    factor = math.prod(int(one.weights[0]) for one in single)
    shift = math.fsum(float(one.values[0]) for one in single)
    tails = [one for one in tails if len(one.values) > 1]
    heads = replace(heads, low=heads.low + shift, high=heads.high + shift)
    if np.isinf(heads.low).all():
        return 0, 0, True, None, (0, 0)
    left, right = _halves(len(heads.codes), tails)
    lengths = len(heads.codes) * math.prod(len(one.values) for one in left), math.prod(len(o.values) for o in right)
    if max(lengths) <= most:
        unfair, edge, example, asked = _exactly(additive, heads, left, right, measure, ask, single, domain)
        return factor * unfair, factor * edge, True, example, (factor * asked[0], factor * asked[1])
    unfair, edge = _on_grid(additive, heads, left, right, measure)
    return factor * unfair, factor * edge, False, None, (0, 0)


def _sums(terms: list[Terms], dtype: Any) -> tuple[Floats, npt.NDArray[Any]]:
    """List all sums of terms, in mixed radix with the first one slowest, and their weights."""
    values, weights = np.zeros(1), np.ones(1, dtype=dtype)
    for one in terms:
        values = np.add.outer(values, one.values).ravel()
        weights = np.multiply.outer(weights, one.weights).ravel()
    return values, weights


def dot(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> int:
    """Return the exact sum of products of whole numbers that are not negative.

    >>> dot(np.array([2**40, 3]), np.array([2**40, 5])) == 2**80 + 15
    True
    """
    if first.dtype == object or second.dtype == object:
        return int(np.dot(first.astype(object), second.astype(object))) if len(first) else 0
    modulo = int((first.astype(np.uint64) * second.astype(np.uint64)).sum(dtype=np.uint64))
    about = int(np.dot(first.astype(np.float64), second.astype(np.float64)))
    # The product in floats is right to 2**-40 at least, and so to less than 2**62 for sums below 2**100.
    assert about < 2**100
    return modulo + (about - modulo + 2**63) // 2**64 * 2**64


@dataclass(frozen=True, eq=False)
class _Found:
    """Individuals by their positions in both lists of sums."""

    domain: Domain
    heads: Heads
    single: list[Terms]
    left: tuple[list[Terms], Ints]
    """The attributes of the first list, and where each of its sums was before sorting."""
    right: tuple[list[Terms], Ints]
    head: Ints

    def free(self, which: Ints, places: Ints) -> npt.NDArray[Any]:
        """Return codes of the free attributes."""
        free = np.zeros((len(which), len(self.domain.columns)), dtype=np.int64)
        for one in self.single:
            free[:, one.place] = one.codes[0]
        for at, i in enumerate(self.heads.places):
            free[:, i] = self.heads.codes[self.head[which], at]
        for chosen, (terms, before) in ((which, self.left), (places, self.right)):
            rest = before[chosen]
            for one in reversed(terms):
                rest, digit = np.divmod(rest, len(one.values))
                free[:, one.place] = one.codes[digit]
        return free

    def row(self, which: Ints, places: Ints) -> npt.NDArray[Any]:
        """Return codes of all attributes, with the first own values of the group."""
        return self.domain.rows(self.free(which, places), self.domain.groups[self.heads.group][0])


def _exactly(
    additive: Additive,
    heads: Heads,
    left: list[Terms],
    right: list[Terms],
    measure: Measure,
    ask: Ask,
    single: list[Terms],
    domain: Domain,
) -> tuple[int, int, npt.NDArray[Any] | None, tuple[int, int]]:
    values, weights = _sums(right, measure.dtype)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    totals = np.concatenate([[0], np.cumsum(weights[order])])
    sums, counts = _sums(left, measure.dtype)
    sums = np.tile(sums, len(heads.codes))
    head = np.repeat(np.arange(len(heads.codes)), len(counts))
    counts = np.tile(counts, len(heads.codes)) * heads.weights[head]
    # Sorted queries are found much faster, and their order does not matter.
    turn = np.argsort(sums - heads.low[head] if len(heads.codes) > 1 else sums, kind="stable")
    sums, head, counts = sums[turn], head[turn], counts[turn]
    ends = additive.cut - sums - heads.high[head], additive.cut - sums - heads.low[head]
    at = [np.searchsorted(ordered, end + sign * additive.error, "right") for end in ends for sign in (-1, 1)]
    start, inner, last, end = at[0], at[1], at[2], at[3]
    sure = np.maximum(last, inner)
    unfair = dot(counts, totals[sure] - totals[inner])
    example = None
    some = np.flatnonzero(sure > inner)

    found = _Found(domain, heads, single, (left, turn % max(1, len(turn) // len(heads.codes))), (right, order), head)
    if len(some):
        example = found.row(some[:1], inner[some[:1]])
    # Sums within rounding errors of an end.
    near = [(start, np.minimum(inner, end)), (np.maximum(last, inner), end)]
    sizes = [np.maximum(stop - begin, 0) for begin, stop in near]
    edge = sum(dot(counts, np.where(size > 0, totals[stop] - totals[begin], 0))
               for (begin, stop), size in zip(near, sizes, strict=True))  # fmt: skip
    listed = sum(int(size.sum()) for size in sizes)
    if not edge or listed > EDGE:
        return unfair, int(edge), example, (0, 0)
    which = np.concatenate([np.repeat(np.arange(len(size)), size) for size in sizes])
    starts = np.concatenate([np.repeat(begin, size) for (begin, _), size in zip(near, sizes, strict=True)])
    firsts = np.concatenate([np.repeat(np.cumsum(size) - size, size) for size in sizes])
    counters = np.concatenate([np.arange(int(size.sum())) for size in sizes])
    places = starts + counters - firsts
    answers = ask(found.free(which, places), heads.group)
    hits = 0
    for chosen in np.flatnonzero(answers):
        hits += int(counts[which[chosen]]) * int(weights[order[places[chosen]]])
        example = found.row(which[chosen : chosen + 1], places[chosen : chosen + 1])
    return unfair + hits, 0, example, (int(edge) - hits, hits)


def _on_grid(
    additive: Additive, heads: Heads, left: list[Terms], right: list[Terms], measure: Measure
) -> tuple[int, int]:
    tails, domain = [*left, *right], measure.domain
    ranges = [additive.terms[j] for j in domain.columns]
    cells = CELLS if measure.dtype is not object else CELLS // 64
    step = math.fsum(float(terms.max() - terms.min()) for terms in ranges) / cells or 1.0
    histogram, rounded = _histogram(right, step, measure.dtype)
    totals = np.cumsum(histogram)
    grid, again = _histogram(left, step, measure.dtype)
    used = np.flatnonzero(grid)
    grid = grid[used]
    # A sum lies between its cell and ``steps`` cells further up; ``loose`` covers rounding errors, also the grid's own.
    steps, loose = rounded + again, 3 + _cell(additive.error / step)
    base = math.fsum(float(one.values.min()) for one in tails)
    unfair = possible = 0
    for head in np.flatnonzero(np.isfinite(heads.low)).tolist():
        first = _cell((additive.cut - heads.high[head] - base) / step)
        last = _cell((additive.cut - heads.low[head] - base) / step)
        weight = int(heads.weights[head])
        sure = _between(totals, first + loose - used, last - steps - loose - used)
        may = _between(totals, first - steps - loose - used, last + loose - used)
        unfair += weight * dot(grid, sure)
        possible += weight * dot(grid, may)
    return unfair, possible - unfair


def _cell(position: float) -> int:
    """Return the cell of a position on the grid; far outside, any other cell far outside."""
    return math.floor(max(-(2.0**60), min(2.0**60, position)))


def _between(totals: npt.NDArray[Any], first: Ints, last: Ints) -> npt.NDArray[Any]:
    """Sum a histogram from one cell to another, both included, from its running totals."""
    top = len(totals) - 1
    upper = np.where(last >= 0, totals[np.clip(last, 0, top)], 0)
    lower = np.where(first > 0, totals[np.clip(first - 1, 0, top)], 0)
    return np.where(last >= first, upper - lower, 0)


def _histogram(terms: list[Terms], step: float, dtype: Any) -> tuple[npt.NDArray[Any], int]:
    """Count sums by the cell of a grid; return also how often they were rounded down."""
    values, weights = np.zeros(1), np.ones(1, dtype=dtype)
    out: npt.NDArray[Any] | None = None
    rounded = 1
    # Sums are listed and rounded once, as far as that costs less than adding shifted histograms.
    for one in sorted(terms, key=lambda one: -len(one.values)):
        above = one.values - one.values.min()
        if out is None and len(values) * len(above) <= CELLS:
            values = np.add.outer(values, above).ravel()
            weights = np.multiply.outer(weights, one.weights).ravel()
            continue
        out = _gathered(values, weights, step, dtype) if out is None else out
        shifts = np.floor(above / step).astype(np.int64)
        grown = np.zeros(len(out) + int(shifts.max()), dtype=dtype)
        for shift, weight in zip(shifts.tolist(), one.weights.tolist(), strict=True):
            grown[shift : shift + len(out)] += out * weight if weight != 1 else out
        out, rounded = grown, rounded + 1
    return (_gathered(values, weights, step, dtype) if out is None else out), rounded


def _gathered(values: Floats, weights: npt.NDArray[Any], step: float, dtype: Any) -> npt.NDArray[Any]:
    cells = np.floor(values / step).astype(np.int64)
    out = np.zeros(int(cells.max()) + 1, dtype=dtype)
    np.add.at(out, cells, weights)
    return out


def terms_of(values: list[tuple[int, Floats, float]], sizes: list[int]) -> tuple[list[Floats], list[Ints], float]:
    """Add up weighted columns by attribute: the terms, which codes are alike, and the largest sum of absolute values.

    Each column is an attribute's number (-1: constant, left out), its value for each code, and a weight.
    """
    terms = [np.zeros(size) for size in sizes]
    largest = [np.zeros(size) for size in sizes]
    seen: list[list[npt.NDArray[Any]]] = [[] for _ in sizes]
    for attribute, column, weight in values:
        if attribute < 0 or weight == 0:
            continue
        terms[attribute] += weight * column
        largest[attribute] += np.abs(weight * column)
        seen[attribute].append(column)
    alike = [
        np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
        if columns
        else np.zeros(size, dtype=np.int64)
        for columns, size in zip(seen, sizes, strict=True)
    ]
    return terms, alike, math.fsum(float(one.max()) for one in largest)


def verdicts(additive: Additive, domain: Domain, free: npt.NDArray[Any], group: int) -> npt.NDArray[np.int8]:
    """Judge individuals of a group by their scores; undecided within rounding errors."""
    ok = np.ones((len(free), len(domain.views)), dtype=bool)
    for tied in domain.varying:
        at: Any = (slice(None), *(free[:, i] for i in tied.columns))
        ok &= tied.valid[at].T
    out = np.full(len(free), UNDECIDED, dtype=np.int8)
    family, own = domain.family(group)
    scores = np.stack([score(additive, domain, free, view) for view in family], axis=1)
    valid = ok[:, family]
    above = (valid & (scores > additive.cut + additive.error)).any(axis=1)
    below = (valid & (scores <= additive.cut - additive.error)).any(axis=1)
    edge = (valid & (np.abs(scores - additive.cut) <= additive.error)).any(axis=1)
    out[above & below] = UNFAIR
    out[~edge & ~(above & below)] = FAIR
    out[valid.sum(axis=1) < 2] = UNTESTABLE
    out[~ok[:, own]] = INVALID
    return out


def score(additive: Additive, domain: Domain, free: npt.NDArray[Any], view: int) -> Floats:
    """Return the scores of individuals in one view."""
    one = domain.views[view]
    out = np.full(len(free), additive.base)
    for j, code in zip(domain.space.protected_columns, one.protected, strict=True):
        out += additive.terms[j][code]
    for i, j in enumerate(domain.columns):
        codes = one.maps[i][free[:, i]] if i in one.maps else free[:, i]
        out += additive.terms[j][codes]
    return out
