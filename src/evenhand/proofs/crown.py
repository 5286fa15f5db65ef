"""Affine bounds of a network in boxes, after CROWN (Zhang et al., NeurIPS 2018).

Each activation is enclosed between two lines on the interval that its input can take, and the lines are put in from the
last layer back to the first. There, the bound is a sum of one term per attribute, because a feature depends on one
attribute only; so the least value in a box is exact, also for nominal and linked attributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.domain import Domain, Ints
from evenhand.proofs.networks import Network, activate

Floats: TypeAlias = npt.NDArray[np.float64]
TOGETHER = 512
"""Maximum codes of an attribute whose features are bounded together."""
OWN = 2.0**-44
"""Relative error of the bounds, far above what rounding in 64 bits adds up to."""


class Inputs:
    """The features that the members of families have.

    A *kind* is a view whose features differ from those of other views: the sum of its fixed features, and the free
    features that it sees. Features that links change are additional columns.
    """

    def __init__(self, network: Network, domain: Domain) -> None:
        self.domain = domain
        features, weights = network.features, network.layers[0].weights
        self.place: list[int] = []
        """The position of the free attribute of each feature."""
        self.tables: list[Floats] = []
        numbers: dict[Any, int] = {}
        kinds: dict[Any, int] = {}
        self.shift: Any = []
        self.fixed: Any = []
        """The sum of the absolute values of fixed terms, by kind."""
        seen: list[dict[int, int]] = []
        self.kind_of: list[int] = []
        """The kind of each view."""
        protected = {j: at for at, j in enumerate(domain.space.protected_columns)}
        for view in domain.views:
            shift, fixed = network.layers[0].bias.copy(), np.abs(network.layers[0].bias)
            columns: dict[int, int] = {}
            key: list[Any] = []
            for f, (j, table) in enumerate(zip(features.attribute, features.values, strict=True)):
                if j < 0 or j in protected:
                    value = float(table[0 if j < 0 else view.protected[protected[j]]])
                    if weights[f].any():
                        key.append(value)
                    shift, fixed = shift + value * weights[f], fixed + np.abs(value * weights[f])
                    continue
                i = domain.place[j]
                values = np.asarray(table[view.maps[i]] if i in view.maps else table, dtype=np.float64)
                name = f, values.tobytes()
                if name not in numbers:
                    numbers[name] = len(self.tables)
                    self.place.append(i)
                    self.tables.append(values)
                columns[f] = numbers[name]
            key.append(tuple(columns.values()))
            if tuple(key) not in kinds:
                kinds[tuple(key)] = len(kinds)
                self.shift.append(shift)
                self.fixed.append(fixed)
                seen.append(columns)
            self.kind_of.append(kinds[tuple(key)])
        self.shift, self.fixed = np.array(self.shift), np.array(self.fixed)
        # One matrix of weights for all kinds that see the same features.
        lenses: dict[Any, list[int]] = {}
        for kind, columns in enumerate(seen):
            lenses.setdefault(tuple(columns.items()), []).append(kind)
        self.lenses: list[tuple[list[int], Floats]] = []
        for columns_, members in lenses.items():
            matrix = np.zeros((len(self.tables), weights.shape[1]))
            for f, column in columns_:
                matrix[column] = weights[f]
            self.lenses.append((members, matrix))
        self.of_place = [[f for f, i in enumerate(self.place) if i == at] for at in range(len(domain.columns))]
        self.joint = [i for i, mine in enumerate(self.of_place) if len(mine) > 1 and domain.sizes[i] <= TOGETHER]
        """Attributes with several features, which are bounded together."""
        together = {f for i in self.joint for f in self.of_place[i]}
        self.loose = np.array([f for f in range(len(self.tables)) if f not in together], dtype=np.int64)
        self._ranges = [_Range(self.tables[f]) for f in self.loose]

    def ends(self, low: Ints, high: Ints) -> Ends:
        """Return what the features can be in boxes."""
        middle = np.zeros((len(low), len(self.tables)))
        radius = np.zeros_like(middle)
        for f, one in zip(self.loose.tolist(), self._ranges, strict=True):
            i = self.place[f]
            least, most = one.between(low[:, i], high[:, i])
            middle[:, f], radius[:, f] = (least + most) / 2, (most - least) / 2
        parts = []
        for i in self.joint:
            codes = np.arange(self.domain.sizes[i])
            inside = (codes >= low[:, i, None]) & (codes <= high[:, i, None])
            parts.append((self.of_place[i], np.array([self.tables[f] for f in self.of_place[i]]), inside))
        return Ends(middle, radius, parts)

    def weigh(self, coefficients: Floats) -> Floats:
        """Convert coefficients of the first layer (boxes, kinds, functions, neurons) to coefficients of features."""
        if len(self.lenses) == 1:
            return coefficients @ self.lenses[0][1].T
        out = np.empty((*coefficients.shape[:-1], len(self.tables)))
        for kinds, matrix in self.lenses:
            out[:, kinds] = coefficients[:, kinds] @ matrix.T
        return out


class _Range:
    """The least and the largest value of a table between two positions."""

    def __init__(self, table: Floats) -> None:
        steps = np.diff(table)
        self._way = 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0
        self._levels = [(table, table)]
        if not self._way:
            for k in range(int(math.log2(len(table)))):
                least, most = self._levels[-1]
                half = 1 << k
                self._levels.append((np.minimum(least[:-half], least[half:]), np.maximum(most[:-half], most[half:])))

    def between(self, low: Ints, high: Ints) -> tuple[Floats, Floats]:
        table = self._levels[0][0]
        if self._way:
            return (table[low], table[high]) if self._way > 0 else (table[high], table[low])
        level = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        least, most = np.empty(len(low)), np.empty(len(low))
        for k in np.unique(level):
            rows = np.flatnonzero(level == k)
            one, other = self._levels[k]
            left, right = low[rows], high[rows] - (1 << int(k)) + 1
            least[rows], most[rows] = np.minimum(one[left], one[right]), np.maximum(other[left], other[right])
        return least, most


@dataclass(frozen=True, eq=False)
class Ends:
    """The middle and radius of features in boxes; for those bounded together, which codes are inside."""

    middle: Floats
    radius: Floats
    joint: list[tuple[list[int], Floats, npt.NDArray[np.bool_]]]

    def least(self, coefficients: Floats) -> Floats:
        """Return the least values of sums of weighted features; coefficients by box first, and feature last."""
        boxes, width = len(coefficients), coefficients.shape[-1]
        flat = coefficients.reshape(boxes, -1, width)
        out = (flat @ self.middle[:, :, None] - np.abs(flat) @ self.radius[:, :, None])[..., 0]
        for mine, tables, inside in self.joint:
            out += np.where(inside[:, None], flat[..., mine] @ tables, np.inf).min(axis=-1)
        return out.reshape(coefficients.shape[:-1])

    def moments(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Return, about, the means and variances of sums of weighted features."""
        boxes, width = len(coefficients), coefficients.shape[-1]
        flat = coefficients.reshape(boxes, -1, width)
        mean = (flat @ self.middle[:, :, None])[..., 0]
        variance = (flat**2 @ (self.radius[:, :, None] ** 2 / 3))[..., 0]
        for mine, tables, inside in self.joint:
            share = inside / inside.sum(axis=1, keepdims=True)
            terms = flat[..., mine] @ tables
            middle = (terms @ share[:, :, None])[..., 0]
            mean += middle
            variance += ((terms - middle[..., None]) ** 2 @ share[:, :, None])[..., 0]
        shape = coefficients.shape[:-1]
        return mean.reshape(shape), variance.reshape(shape)

    def spread(self, coefficients: Floats) -> Floats:
        """Return how far each feature moves a sum, at most; features bounded together share the attribute's."""
        out = np.abs(coefficients) * self.radius.reshape(len(self.radius), *[1] * (coefficients.ndim - 2), -1)
        for mine, tables, inside in self.joint:
            terms = coefficients[..., mine] @ tables
            mask = inside.reshape(len(inside), *[1] * (coefficients.ndim - 2), -1)
            width = np.where(mask, terms, -np.inf).max(axis=-1) - np.where(mask, terms, np.inf).min(axis=-1)
            out[..., mine[0]] = width / 2
        return out


@dataclass(frozen=True, eq=False)
class Bounds:
    """Affine bounds of the output for every box and kind: ``lower`` is below it, ``upper`` above.

    Both are coefficients of the features, and constants; rounding errors of the model are in the constants.
    """

    ends: Ends
    lower: Floats
    upper: Floats
    lower_constant: Floats
    upper_constant: Floats
    influence: Floats
    """How much each feature widens the bounds, by box."""


def bound(network: Network, inputs: Inputs, low: Ints, high: Ints) -> Bounds:
    """Bound the output in boxes."""
    ends, kinds, boxes = inputs.ends(low, high), len(inputs.shift), len(low)
    first = np.zeros((boxes, kinds, inputs.shift.shape[1]))
    span = np.zeros_like(first)
    size = np.zeros_like(first) + inputs.fixed
    widths_of: list[list[Floats]] = []
    for members, matrix in inputs.lenses:
        reach = ends.radius @ np.abs(matrix)
        middle = ends.middle @ matrix
        largest = (np.abs(ends.middle) + ends.radius) @ np.abs(matrix)
        bottom, top = middle - reach, middle + reach
        widths = []
        for mine, tables, inside in ends.joint:
            terms = tables.T @ matrix[mine]
            many = np.abs(tables.T) @ np.abs(matrix[mine])
            least = np.where(inside[:, :, None], terms, np.inf).min(axis=1)
            most = np.where(inside[:, :, None], terms, -np.inf).max(axis=1)
            bottom, top = bottom + least, top + most
            widths.append((most - least) / 2)
            largest += np.where(inside[:, :, None], many, 0.0).max(axis=1)
        first[:, members] = bottom[:, None]
        span[:, members] = top[:, None]
        size[:, members] += largest[:, None]
        widths_of.append(widths)
    lowest = (first + inputs.shift).reshape(boxes * kinds, -1)
    highest = (span + inputs.shift).reshape(boxes * kinds, -1)
    sizes = size.reshape(boxes * kinds, -1)
    # What the model's own rounding may change, from layer to layer; ours is far smaller, and added as well.
    count = len(network.features)
    errors = (count + 2) * network.unit * sizes
    own = OWN * sizes
    lines: list[Lines] = []
    gaps: list[tuple[Floats, Floats | None]] = []
    reached: Floats | None = None
    influence = np.zeros((boxes, len(inputs.tables)))
    for at, name in enumerate(network.activations, start=1):
        lowest, highest = lowest - own, highest + own
        line = enclose(name, lowest, highest)
        lines.append(line)
        gaps.append((line.gap(lowest, highest), reached))
        layer = network.layers[at]
        bottom, top = activate(name, lowest), activate(name, highest)
        largest = np.maximum(np.abs(bottom), np.abs(top))
        errors = (
            errors * steepest(name, lowest - errors, highest + errors)
            + (name not in ("relu", "identity")) * 4 * network.unit
        )
        sizes = (largest + errors) @ layer.spread[0] + layer.spread[1]
        errors = (len(layer.weights) + 2) * network.unit * sizes + errors @ layer.spread[0]
        own = OWN * sizes + own @ layer.spread[0]
        coefficients, constant, passed = backward(network, lines, at)
        weighed = inputs.weigh(coefficients.reshape(boxes, kinds, *coefficients.shape[1:]))
        shifted = (coefficients.reshape(boxes, kinds, *coefficients.shape[1:]) @ inputs.shift[..., None])[..., 0]
        constant = constant.reshape(boxes, kinds, -1) + shifted
        width = len(layer.bias)
        if at == len(network.activations):
            break
        value = (ends.least(weighed) + constant).reshape(boxes * kinds, -1)
        plus, minus = np.maximum(layer.weights, 0), np.minimum(layer.weights, 0)
        lowest = np.maximum(value[:, :width], bottom @ plus + top @ minus + layer.bias)
        highest = np.minimum(-value[:, width:], top @ plus + bottom @ minus + layer.bias)
        reached = np.abs(weighed[:, :, :width]).reshape(boxes * kinds, width, -1)
    margin = (errors + own).reshape(boxes, kinds)
    # Which features make the lines lie far apart.
    for (gap, reached), weight in zip(gaps, passed, strict=True):
        heavy = gap * np.abs(weight).sum(axis=-2)
        if reached is None:
            heavy = heavy.reshape(boxes, kinds, -1)
            for (members, matrix), widths in zip(inputs.lenses, widths_of, strict=True):
                part = heavy[:, members].sum(axis=1)
                influence += part @ np.abs(matrix.T) * ends.radius
                for (mine, _, _), reach_ in zip(ends.joint, widths, strict=True):
                    influence[:, mine[0]] += (part * reach_).sum(axis=1)
        else:
            influence += ends.spread((heavy[:, None] @ reached).reshape(boxes, kinds, -1).sum(axis=1))
    return Bounds(
        ends, weighed[:, :, 0], -weighed[:, :, 1], constant[:, :, 0] - margin, margin - constant[:, :, 1], influence
    )


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines below and above an activation: slopes and constants."""

    below: Floats
    below_constant: Floats
    above: Floats
    above_constant: Floats

    def gap(self, low: Floats, high: Floats) -> Floats:
        """Return how far the lines are apart, at most, divided by the width of the interval."""
        ends = [(self.above - self.below) * x + self.above_constant - self.below_constant for x in (low, high)]
        return np.maximum(*ends) / np.maximum(high - low, 1e-300)


def steepest(name: str, low: Floats, high: Floats) -> Floats:
    """Return a bound on the slope of an activation on intervals."""
    if name == "relu":
        return (high > 0).astype(np.float64)
    if name == "identity":
        return np.ones_like(low)
    nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return slope(name, nearest) * (1 + 1e-9) + 1e-12


def slope(name: str, x: Floats) -> Floats:
    """Return the derivative of tanh or the logistic function."""
    y = activate(name, x)
    return 1 - y * y if name == "tanh" else y * (1 - y)


def enclose(name: str, low: Floats, high: Floats) -> Lines:
    """Enclose an activation between two lines on intervals.

    >>> lines = enclose("relu", np.array([-1.0]), np.array([3.0]))
    >>> lines.below.tolist(), lines.above.tolist(), lines.above_constant.tolist()
    ([1.0], [0.75], [0.75])
    """
    if name == "identity":
        one, zero = np.ones_like(low), np.zeros_like(low)
        return Lines(one, zero, one, zero)
    if name == "relu":
        crosses = (low < 0) & (high > 0)
        above = np.where(crosses, high / np.where(crosses, high - low, 1.0), (low >= 0).astype(np.float64))
        below = np.where(crosses, (high > -low).astype(np.float64), above)
        return Lines(below, np.zeros_like(low), above, np.where(crosses, -above * low, 0.0))
    return _s_shaped(name, low, high)


def _s_shaped(name: str, low: Floats, high: Floats) -> Lines:
    """Lines at tanh and the logistic function, which are convex below zero and concave above, and symmetric."""
    at_low, at_high = activate(name, low), activate(name, high)
    wide = high - low > 1e-9
    chord = np.where(wide, (at_high - at_low) / np.where(wide, high - low, 1.0), 0.0)
    steep_low, steep_high = slope(name, low), slope(name, high)
    middle = (low + high) / 2
    # Above: the tangent in the middle where concave; the chord where it stays above; else a tangent from the low end.
    touch = np.where(low >= 0, middle, _touching(name, low, high))
    tangent = slope(name, touch)
    use_chord = (high <= 0) | ((low < 0) & (chord <= steep_high))
    above = np.where(use_chord, chord, tangent)
    above_at = np.where(use_chord, high, touch)
    touch = np.where(high <= 0, middle, -_touching(name, -high, -low))
    tangent = slope(name, touch)
    use_chord = (low >= 0) | ((high > 0) & (chord <= steep_low))
    below = np.where(use_chord, chord, tangent)
    below_at = np.where(use_chord, low, touch)
    above_constant = activate(name, above_at) - above * above_at
    below_constant = activate(name, below_at) - below * below_at
    # Narrow intervals: no slope, between the values at the ends.
    tiny = 1e-12 * (1 + np.abs(low) + np.abs(high))
    above, above_constant = np.where(wide, above, 0.0), np.where(wide, above_constant, at_high) + tiny
    below, below_constant = np.where(wide, below, 0.0), np.where(wide, below_constant, at_low) - tiny
    return Lines(below, below_constant, above, above_constant)


def _touching(name: str, low: Floats, high: Floats) -> Floats:
    """Return a point above zero whose tangent is above the function at ``low``, and near the least such point."""
    left, right = np.zeros_like(low), np.maximum(high, 0.0)
    at_low = activate(name, low)
    rows = np.flatnonzero((low < 0) & (high > 0))
    shape = low.shape
    left, right, flat, value = left.ravel(), right.ravel(), low.ravel(), at_low.ravel()
    rows = np.flatnonzero((flat < 0) & (right > 0))
    if len(rows):
        a, b, x, y = left[rows], right[rows], flat[rows], value[rows]
        for _ in range(12):
            middle = (a + b) / 2
            good = activate(name, middle) + slope(name, middle) * (x - middle) >= y
            a, b = np.where(good, a, middle), np.where(good, middle, b)
        right[rows] = b
    return right.reshape(shape)


def backward(network: Network, lines: list[Lines], layer: int) -> tuple[Floats, Floats, list[Floats]]:
    """Bound the inputs of a layer from below, and minus these: coefficients of the first layer, and constants.

    Also returns the coefficients of every layer between them.
    """
    weights, bias = network.layers[layer].weights.T, network.layers[layer].bias
    coefficients = np.concatenate([weights, -weights])
    constant = np.concatenate([bias, -bias])
    passed = []
    for at in range(layer, 0, -1):
        line = lines[at - 1]
        plus, minus = np.maximum(coefficients, 0), np.minimum(coefficients, 0)
        passed.append(coefficients)
        if at == layer:
            constant = constant + line.below_constant @ plus.T + line.above_constant @ minus.T
        else:
            constant = (
                constant + (plus @ line.below_constant[..., None] + minus @ line.above_constant[..., None])[..., 0]
            )
        coefficients = plus * line.below[:, None] + minus * line.above[:, None]
        if at > 1:
            constant = constant + coefficients @ network.layers[at - 1].bias
            coefficients = coefficients @ network.layers[at - 1].weights.T
    return coefficients, constant, passed[::-1]
