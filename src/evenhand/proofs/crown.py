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
    lowest, highest, sizes, widths = _first_layer(inputs, ends)
    # What rounding may change: the model's own, from layer to layer, and ours, which is far smaller.
    errors, own = (len(network.features) + 2) * network.unit * sizes, OWN * sizes
    lines: list[Lines] = []
    gaps: list[tuple[Floats, Floats | None]] = []
    reached: Floats | None = None
    for at, name in enumerate(network.activations, start=1):
        layer = network.layers[at]
        lowest, highest = lowest - own, highest + own
        lines.append(enclose(name, lowest, highest))
        gaps.append((lines[-1].gap(lowest, highest), reached))
        bottom, top = activate(name, lowest), activate(name, highest)
        errors = errors * steepest(name, lowest - errors, highest + errors)
        if name not in ("relu", "identity"):
            errors = errors + 8 * network.unit
        sizes = (np.maximum(np.abs(bottom), np.abs(top)) + errors) @ layer.spread[0] + layer.spread[1]
        errors = (len(layer.weights) + 2) * network.unit * sizes + errors @ layer.spread[0]
        own = OWN * sizes + own @ layer.spread[0]
        coefficients, constant, passed = backward(network, lines, at)
        coefficients = coefficients.reshape(boxes, kinds, *coefficients.shape[1:])
        weighed = inputs.weigh(coefficients)
        constant = constant.reshape(boxes, kinds, -1) + (coefficients @ inputs.shift[..., None])[..., 0]
        if at == len(network.activations):
            break
        least, width = (ends.least(weighed) + constant).reshape(boxes * kinds, -1), len(layer.bias)
        plus, minus = np.maximum(layer.weights, 0), np.minimum(layer.weights, 0)
        lowest = np.maximum(least[:, :width], bottom @ plus + top @ minus + layer.bias)
        highest = np.minimum(-least[:, width:], top @ plus + bottom @ minus + layer.bias)
        reached = np.abs(weighed[:, :, :width]).reshape(boxes * kinds, width, -1)
    margin = (errors + own).reshape(boxes, kinds) + network.loose
    return Bounds(
        ends, weighed[:, :, 0], -weighed[:, :, 1], constant[:, :, 0] - margin, margin - constant[:, :, 1],
        _influence(inputs, ends, gaps, passed, widths),
    )  # fmt: skip


def _first_layer(inputs: Inputs, ends: Ends) -> tuple[Floats, Floats, Floats, list[list[Floats]]]:
    """Return the least and largest values of the first layer, by box and kind, and the sizes of what is added up.

    Also returns how far the attributes that are bounded together move each neuron, by lens.
    """
    boxes, (kinds, neurons) = len(ends.middle), inputs.shift.shape
    out = np.zeros((3, boxes, kinds, neurons))
    widths_of = []
    for members, matrix in inputs.lenses:
        weight = np.abs(matrix)
        reach, middle = ends.radius @ weight, ends.middle @ matrix
        bottom, top, size = middle - reach, middle + reach, (np.abs(ends.middle) + ends.radius) @ weight
        widths = []
        for mine, tables, inside in ends.joint:
            terms, inside = tables.T @ matrix[mine], inside[:, :, None]
            least = np.where(inside, terms, np.inf).min(axis=1)
            most = np.where(inside, terms, -np.inf).max(axis=1)
            bottom, top = bottom + least, top + most
            size += np.where(inside, np.abs(tables.T) @ weight[mine], 0.0).max(axis=1)
            widths.append((most - least) / 2)
        for at, one in enumerate((bottom, top, size)):
            out[at][:, members] = one[:, None]
        widths_of.append(widths)
    out[:2] += inputs.shift
    out[2] += inputs.fixed
    lowest, highest, sizes = out.reshape(3, boxes * kinds, neurons)
    return lowest, highest, sizes, widths_of


def _influence(
    inputs: Inputs,
    ends: Ends,
    gaps: list[tuple[Floats, Floats | None]],
    passed: list[Floats],
    widths_of: list[list[Floats]],
) -> Floats:
    """Return how much each feature makes the lines lie apart, by box."""
    boxes, kinds = len(ends.middle), len(inputs.shift)
    out = np.zeros((boxes, len(inputs.tables)))
    for (gap, reached), weight in zip(gaps, passed, strict=True):
        heavy = gap * np.abs(weight).sum(axis=-2)
        if reached is not None:
            out += ends.spread((heavy[:, None] @ reached).reshape(boxes, kinds, -1).sum(axis=1))
            continue
        heavy = heavy.reshape(boxes, kinds, -1)
        for (members, matrix), widths in zip(inputs.lenses, widths_of, strict=True):
            part = heavy[:, members].sum(axis=1)
            out += part @ np.abs(matrix.T) * ends.radius
            for (mine, _, _), width in zip(ends.joint, widths, strict=True):
                out[:, mine[0]] += (part * width).sum(axis=1)
    return out


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
