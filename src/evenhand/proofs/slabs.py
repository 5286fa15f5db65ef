"""Counting who is treated differently in a box where the score of each member of a family lies between two sums.

Those who are treated differently lie between two nearly parallel surfaces, so no box holds only them. But a sum of one
term per attribute can be counted. In a box, four such sums decide: one below the scores of all members of a family, one
above them all, one below the highest score, and one above the lowest score. Where the first is above the threshold, or
the second is not, people are treated alike; where the third is above it and the fourth is not, differently.

Sums are rounded down to cells of a grid, group of attributes by group, and the groups are combined by convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.crown import Ends, Inputs
from evenhand.proofs.domain import FAIR, UNDECIDED, UNFAIR, Domain, Ints, Measure

Floats: TypeAlias = npt.NDArray[np.float64]
Part: TypeAlias = tuple[tuple[int, ...], Ints]
"""Positions of free attributes, and combinations of their codes."""
CELLS = 2048
"""Cells of the grid of one box."""
LISTED = 4096
"""Maximum sums in one group of attributes, unless one attribute or constraint has more."""
MOST = 2**18
"""Maximum combinations that a constraint may allow in a box, for it to be counted."""
LOST = 2.0**-36
"""Share of a box that is given up for the rounding errors of convolutions, far above them."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The four sums of a box: coefficients of the features, and constants."""

    coefficients: Floats
    constants: Floats


def sums_of(ends: Ends, lower: Floats, lower_constant: Floats, upper: Floats, upper_constant: Floats) -> Sums:
    """Choose the four sums for families with some members: (boxes, members, features) and (boxes, members).

    The first and the third are from below; the second and the fourth, which are from above, change their sign.
    """
    boxes = np.arange(len(lower))
    middle_low = (lower @ ends_middle(ends)[..., None])[..., 0] + lower_constant
    middle_high = (upper @ ends_middle(ends)[..., None])[..., 0] + upper_constant
    top, bottom = middle_low.argmax(axis=1), middle_high.argmin(axis=1)
    below = lower - lower[boxes, bottom][:, None]
    below_constant = ends.least(below) + lower_constant
    above = upper[boxes, top][:, None] - upper
    above_constant = ends.least(above) - upper_constant
    coefficients = np.stack(
        [lower[boxes, bottom], -upper[boxes, top], lower[boxes, top], -upper[boxes, bottom]], axis=1
    )
    constants = np.stack(
        [below_constant.min(axis=1), above_constant.min(axis=1),
         lower_constant[boxes, top], -upper_constant[boxes, bottom]], axis=1,
    )  # fmt: skip
    return Sums(coefficients, constants)


def ends_middle(ends: Ends) -> Floats:
    """Return the middle of every feature; for features bounded together, their mean."""
    out = ends.middle.copy()
    for mine, tables, inside in ends.joint:
        out[:, mine] = (inside / inside.sum(axis=1, keepdims=True)) @ tables.T
    return out


SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
"""The sums from above, and what they need, have the other sign."""


class Slab:
    """A box with its sums on grids: each needs to reach a first cell."""

    def __init__(self, inputs: Inputs, low: Ints, high: Ints, sums: Sums, cut: float) -> None:
        self.domain, self.low, self.high = inputs.domain, low, high
        self._inputs = inputs
        self._groups = _groups(inputs.domain, low, high)
        self._places = [[places for places, _ in group] for group in self._groups]
        ends = inputs.ends(low[None], high[None])
        coefficients, need = sums.coefficients, SIGNS * cut - sums.constants
        self._list(coefficients, need)
        after = ends.least((coefficients[2] + coefficients[3])[None])[0] - need[2] - need[3]
        self.ordered = bool(after > 2 * self._margin[2:].sum() + (len(self._places) + 1) * self._width[2:].sum())
        """Whether the third sum certainly reaches what it needs where the fourth does not."""
        self.last = 0
        if not self.ordered:
            # One direction for both; the sum must lie between two cells.
            middle = (coefficients[2] - coefficients[3]) / 2
            least = ends.least(np.stack([coefficients[2] - middle, coefficients[3] + middle])[None])[0]
            need = need - np.concatenate([[0.0, 0.0], least])
            self._list(np.stack([coefficients[0], coefficients[1], middle]), need[:3])
            end = (-need[3] - self._margin[2] - self._base[2]) / self._width[2]
            self.last = int(np.floor(np.clip(end, -(2.0**40), 2.0**40))) - len(self._places) - 1

    def _list(self, coefficients: Floats, need: Floats) -> None:
        """List the sums of every group of attributes, and find the cells that are needed."""
        self._coefficients = coefficients
        values = [self._sums(group) for group in self._groups]
        least = self._least = [one.min(axis=1) for one in values]
        largest = sum((np.abs(one).max(axis=1) for one in values), start=np.zeros(len(need)))
        spread = sum((one.max(axis=1) - low for one, low in zip(values, least, strict=True)), start=np.zeros(len(need)))
        self._base = sum(least, start=np.zeros(len(need)))
        self._margin = 2.0**-40 * (np.abs(need) + largest)
        self._width = np.where(spread > 0, spread / CELLS, 1.0)
        self._cells = [self._cell(one, at) for at, one in enumerate(values)]
        first = (need + self._margin - self._base) / self._width
        self.first = np.ceil(np.clip(first, -(2.0**40), 2.0**40)).astype(np.int64)

    def _cell(self, values: Floats, group: int) -> npt.NDArray[np.int64]:
        """Return the cells of sums of a group of attributes."""
        cells = np.floor((values - self._least[group][:, None]) / self._width[:, None])
        return np.asarray(cells, dtype=np.int64)

    def count(self, measures: list[Measure]) -> None:
        """Count the combinations of free values that are certainly fair, and unfair; then forget the lists."""
        self.total = int(self.domain.uniform.count(self.low[None], self.high[None])[0])
        self.counts = [self._count(measure) for measure in measures]
        self._groups, self._cells = [], []

    def _count(self, measure: Measure) -> tuple[int, int]:
        total = int(measure.count(self.low[None], self.high[None])[0])
        if not total:
            return 0, 0
        histograms = [self._histogram(at, measure) for at in range(len(self._cells))]
        while len(histograms) > 2:
            histograms.sort(key=lambda one: -one.shape[1])
            histograms.append(_convolved(histograms.pop(), histograms.pop()))
        ends = [self.first] if self.ordered else [self.first, np.array([2**40, 2**40, self.last + 1])]
        reach = [_reaching(histograms, end) for end in ends]
        # Sums of whole numbers below 2**50 are exact; convolutions are so after rounding, if the box is small.
        exact = len(self._cells) <= 2 and total <= 2**50 and measure.dtype is not object
        lost = 0.0 if exact or total * LOST < 0.25 else total * LOST
        reach = [np.rint(one) if not lost else one for one in reach]
        fair = math.floor(reach[0][0] - lost) + math.floor(reach[0][1] - lost)
        if self.ordered:
            unfair = math.floor(reach[0][2] - lost) + math.floor(reach[0][3] - lost) - total
        else:
            unfair = math.floor(reach[0][2] - lost) - math.ceil(reach[1][2] + lost)
        return max(0, fair), max(0, unfair)

    def verdicts(self, free: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """Judge individuals of the box, by codes of the free attributes."""
        sums = np.zeros((len(self._coefficients), len(free)), dtype=np.int64)
        for at, group in enumerate(self._places):
            values = np.zeros((len(self._coefficients), len(free)))
            for places in group:
                # The same sums as in the lists, added in the same order, so they are equal to the last bit.
                values = values + self._terms(places, free[:, list(places)])
            sums += self._cell(values, at)
        reached = sums >= self.first[:, None]
        unfair = reached[2] & (reached[3] if self.ordered else sums[2] <= self.last)
        out = np.where(unfair, UNFAIR, np.where(reached[0] | reached[1], FAIR, UNDECIDED))
        return out.astype(np.int8)

    def _histogram(self, at: int, measure: Measure) -> Floats:
        """Count the sums of a group by their cells."""
        cells = self._cells[at]
        width = int(cells.max()) + 1
        flat = (cells + width * np.arange(len(cells))[:, None]).ravel()
        if measure is self.domain.uniform:
            counts: npt.NDArray[Any] = np.bincount(flat, minlength=width * len(cells)).astype(np.float64)
        else:
            weights = np.ones(1)
            for places, codes in self._groups[at]:
                mine = np.ones(len(codes))
                for column, i in enumerate(places):
                    one = measure.weights[self.domain.columns[i]]
                    mine = mine * np.asarray(one, dtype=np.float64)[codes[:, column]]
                weights = np.multiply.outer(weights, mine).ravel()
            counts = np.bincount(flat, np.tile(weights, len(cells)), minlength=width * len(cells))
        return np.asarray(counts.reshape(len(cells), width))

    def _sums(self, group: list[Part]) -> Floats:
        """List the sums of all combinations of a group, the first part slowest."""
        out = np.zeros((len(self._coefficients), 1))
        for places, codes in group:
            terms = self._terms(places, codes)
            out = (out[:, :, None] + terms[:, None, :]).reshape(len(out), -1)
        return out

    def _terms(self, places: tuple[int, ...], codes: Ints) -> Floats:
        """Return sums of terms of some attributes: functions by combinations of codes."""
        out = np.zeros((len(self._coefficients), len(codes)))
        for column, i in enumerate(places):
            for f in self._inputs.of_place[i]:
                out += self._coefficients[:, f, None] * self._inputs.tables[f][codes[:, column]]
        return out


def countable(domain: Domain, low: Ints, high: Ints) -> bool:
    """Whether the combinations that constraints allow in a box are few enough."""
    return all(
        math.prod((high[list(one.columns)] - low[list(one.columns)] + 1).tolist()) <= MOST for one in domain.tied
    )


def combinations(domain: Domain, low: Ints, high: Ints) -> Ints:
    """List the valid combinations of all free attributes in a box, by codes."""
    parts = _parts(domain, low, high)
    listed = _product([codes for _, codes in parts])
    listed = listed[:, np.argsort([i for places, _ in parts for i in places])]
    return listed[np.lexsort(listed.T[::-1])] if domain.tied else listed


def _parts(domain: Domain, low: Ints, high: Ints) -> list[Part]:
    """List the valid codes of attributes in a box, those that constraints tie together as combinations."""
    parts: list[Part] = []
    tied: set[int] = set()
    for one in domain.tied:
        inside = one.valid[tuple(slice(int(low[i]), int(high[i]) + 1) for i in one.columns)]
        parts.append((one.columns, np.argwhere(inside) + low[list(one.columns)]))
        tied |= set(one.columns)
    return parts + [((i,), np.arange(low[i], high[i] + 1)[:, None]) for i in range(len(low)) if i not in tied]


def _groups(domain: Domain, low: Ints, high: Ints) -> list[list[Part]]:
    """Group the attributes of a box so that few groups have few combinations each."""
    groups: list[list[Part]] = []
    sizes: list[int] = []
    for part in sorted(_parts(domain, low, high), key=lambda part: -len(part[1])):
        at = next((at for at, size in enumerate(sizes) if size * len(part[1]) <= LISTED), len(sizes))
        if at == len(sizes):
            groups.append([])
            sizes.append(1)
        groups[at].append(part)
        sizes[at] *= len(part[1])
    return groups


def _product(parts: list[Ints]) -> Ints:
    """Combine lists of codes, the first one slowest."""
    out = parts[0]
    for part in parts[1:]:
        out = np.concatenate([np.repeat(out, len(part), axis=0), np.tile(part, (len(out), 1))], axis=1)
    return out


def positions(places: tuple[int, ...], codes: Ints, free: npt.NDArray[np.int64]) -> Ints:
    """Find combinations in their list, which is in order."""
    mine = free[:, list(places)] - codes.min(axis=0)
    spans = codes.max(axis=0) - codes.min(axis=0) + 1
    if math.prod(spans.tolist()) == len(codes):
        return np.asarray(np.ravel_multi_index(tuple(mine.T), tuple(spans.tolist())))
    keys = np.ravel_multi_index(tuple((codes - codes.min(axis=0)).T), tuple(spans.tolist()))
    order = np.argsort(keys)
    wanted = np.ravel_multi_index(tuple(mine.T), tuple(spans.tolist()))
    return np.asarray(order[np.searchsorted(keys[order], wanted)])


def _convolved(first: Floats, second: Floats) -> Floats:
    """Convolve histograms, row by row."""
    length = first.shape[1] + second.shape[1] - 1
    size = 1 << (length - 1).bit_length()
    out = np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)
    return np.asarray(out[:, :length])


def _reaching(histograms: list[Floats], first: Ints) -> Floats:
    """Count, for each row, the sums that reach a cell."""
    one = histograms[0]
    other = histograms[1] if len(histograms) > 1 else np.ones((len(one), 1))
    # tails[k] counts the sums of the second histogram from cell k on.
    tails = np.concatenate([np.cumsum(other[:, ::-1], axis=1)[:, ::-1], np.zeros((len(one), 1))], axis=1)
    wanted = np.clip(first[:, None] - np.arange(one.shape[1]), 0, other.shape[1])
    return np.asarray((one * np.take_along_axis(tails, wanted, axis=1)).sum(axis=1))
