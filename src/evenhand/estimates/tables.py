"""Counts of who is treated how: all pairs of values of some protected attributes, all else left as it is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Criterion, Outputs
from evenhand.engine.judge import Mask
from evenhand.estimates.differences import Differences
from evenhand.estimates.intervals import Sums
from evenhand.spaces.tabular import Space

ALL_VALUES, SPREAD = 12, 5
"""An attribute with up to so many values is compared at all of them, one with more at so many spread over its range."""
COMBINATIONS = 16
"""The most combinations of several attributes that are compared in pairs."""
KEPT = 50_000
"""Individuals whose gaps of scores are kept; they are drawn independently, so the first are as good as any."""

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """What the model said of a block, as the tables look at it: one column for each place of a family."""

    outputs: Outputs
    legal: Mask | None
    criterion: Criterion
    ranks: npt.NDArray[np.int64] | None
    """How good each decision is to people, the best highest; None where nobody said."""
    level: Floats | None
    """The score of that decision, or of the second of two; higher is better where it is known what people want."""

    def differ(self, first: Places, second: Places) -> Mask:
        """Tell which pairs of places the criterion takes for different: (individuals, pairs)."""
        labels, scores = self.outputs.labels, self.outputs.scores
        pairs = [None if a is None else _paired(a, first, second) for a in (labels, scores)]
        shape = (len(self.outputs.own), first.shape[-1])
        own = np.zeros(math.prod(shape), dtype=np.int64)
        return self.criterion.judge(Outputs(pairs[0], pairs[1], own)).unfair.reshape(shape)

    def direction(self, first: Places, second: Places) -> npt.NDArray[np.int8]:
        """Tell who of each pair is favoured: 1 the first, -1 the second."""
        out = np.zeros((len(self.outputs.own), first.shape[-1]), dtype=np.int8)
        if self.ranks is not None:
            out = np.sign(picked(self.ranks, first) - picked(self.ranks, second)).astype(np.int8)
        if self.criterion.needs_scores and self.level is not None:
            # Where both get the same decision the score says who is nearer to it.
            apart = np.sign(picked(self.level, first) - picked(self.level, second)).astype(np.int8)
            out = np.where(out == 0, apart, out)
        return out

    def gap(self, first: Places, second: Places) -> Floats:
        """How far apart the scores of each pair are; with a sign where there is one score to look at."""
        if self.level is not None:
            return np.asarray(picked(self.level, first) - picked(self.level, second), dtype=np.float64)
        assert self.outputs.scores is not None
        apart = np.abs(picked(self.outputs.scores, first) - picked(self.outputs.scores, second))
        return np.asarray(apart.max(axis=-1), dtype=np.float64)


class Weighted:
    """What weighted pairs leave beside their sums: squares of the weights, the heaviest, and how many rows."""

    def __init__(self, pairs: int) -> None:
        self.squares, self.heaviest, self.rows = (np.zeros((4, pairs)) for _ in range(3))
        self.individuals = np.zeros(3)
        """Squares of the found and of all, and the heaviest."""
        self.kept: list[Floats] = []
        """The weights of those whose gaps are kept."""

    def add(self, count: int, mask: Mask, weight: Floats) -> None:
        """Add a block to one of the four counts."""
        self.squares[count] += np.square(weight) @ mask
        self.rows[count] += mask.sum(axis=0)
        self.heaviest[count] = np.maximum(self.heaviest[count], (weight[:, None] * mask).max(axis=0, initial=0.0))

    def add_individuals(self, found: Floats, of: Floats) -> None:
        """Add a block of individuals."""
        self.individuals[:2] += np.square(found).sum(), np.square(of).sum()
        self.individuals[2] = max(self.individuals[2], of.max(initial=0.0))


class Table:
    """Counts over all pairs of values of some protected attributes."""

    def __init__(self, space: Space, chosen: tuple[int, ...]) -> None:
        sizes = [space.coding.sizes[j] for j in space.protected_columns]
        self._radix = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        self._sizes, self._chosen = sizes, chosen
        self.space, self.attributes = space, tuple(space.protected[i] for i in chosen)
        present = [int(space.present[j]) for j in space.protected_columns]
        self.codes = list(itertools.product(*(spread(sizes[i], present[i]) for i in chosen)))
        self._every = self._offsets(list(itertools.product(*(range(sizes[i]) for i in chosen))))
        self._offset = self._offsets(self.codes)
        first, second = np.triu_indices(len(self.codes), 1)
        self.first, self.second = first.astype(np.int64), second.astype(np.int64)
        self.counts = np.zeros((4, len(first)))
        """For each pair: compared, treated differently, the first favoured, the second favoured."""
        self.weighted: Weighted | None = None
        self.differences: Differences | None = None
        """Where scores are compared and one number says them: how much more the first gets."""
        self.compared = self.found = 0.0
        """Individuals, and those treated differently when these attributes alone change."""
        self._gaps: list[npt.NDArray[np.float32]] = []
        self._kept = 0

    @property
    def sums(self) -> Sums | None:
        """The sums of weighted individuals."""
        if self.weighted is None:
            return None
        found, of, heaviest = self.weighted.individuals
        return Sums(*(np.asarray(v) for v in (self.found, self.compared, found, of, heaviest)))

    @property
    def whole(self) -> bool:
        """Whether these are all protected attributes."""
        return len(self._chosen) == len(self._sizes)

    def add(self, view: View, unfair: Mask, weight: Floats | None = None) -> None:
        """Count individuals, each with its other protected attributes as they are."""
        own = view.outputs.own
        if weight is not None and self.weighted is None:
            self.weighted = Weighted(len(self.first))
        if self.whole:
            self._add(view, np.int64(0), weight, unfair)
        else:
            digits = sum(own // self._radix[i] % self._sizes[i] * self._radix[i] for i in self._chosen)
            self._add(view, own - digits, weight, None)

    def add_all(self, view: View, unfair: Mask) -> None:
        """Count everyone in the families, whoever of them they were built from."""
        others = [range(1 if i in self._chosen else size) for i, size in enumerate(self._sizes)]
        for digits in itertools.product(*others):
            base = np.int64(sum(digit * radix for digit, radix in zip(digits, self._radix, strict=True)))
            here = len(self._every) if view.legal is None else picked(view.legal, base + self._every).sum(axis=1)
            self._add(view, base, np.broadcast_to(here, len(unfair)), unfair if self.whole else None)

    def _add(self, view: View, base: Any, weight: npt.NDArray[Any] | None, unfair: Mask | None) -> None:
        self._add_individuals(view, self._at(base, self._every), weight, unfair)
        at = self._at(base, self._offset)
        first, second = at[..., self.first], at[..., self.second]
        both = np.ones((len(view.outputs.own), len(self.first)), dtype=bool)
        if view.legal is not None:
            both = picked(view.legal, first) & picked(view.legal, second)
        if unfair is not None and len(self._every) == 2:
            # Of a family of two the only pair is the family, and was judged with it.
            differ = unfair[:, None] & both
        else:
            differ = view.differ(first, second) & both
        direction = view.direction(first, second)
        for count, mask in enumerate((both, differ, differ & (direction > 0), differ & (direction < 0))):
            self.counts[count] += mask.sum(axis=0) if weight is None else weight @ mask
            if self.weighted is not None and weight is not None:
                self.weighted.add(count, mask, weight)
        if view.criterion.needs_scores and view.level is not None:
            if self.differences is None:
                self.differences = Differences(len(self.first))
            self.differences.add(picked(view.level, first), picked(view.level, second), both, weight)
        self._keep(view, first, second, both, weight)

    def _add_individuals(self, view: View, at: Places, weight: npt.NDArray[Any] | None, unfair: Mask | None) -> None:
        weight = np.ones(len(view.outputs.own), dtype=np.int64) if weight is None else weight
        able = weight > 0
        if view.legal is not None:
            able = able & (picked(view.legal, at).sum(axis=1) >= 2)
        if unfair is None:
            labels, scores = view.outputs.labels, view.outputs.scores
            parts = [None if a is None else picked(a, at) for a in (labels, scores)]
            own = np.broadcast_to(at == view.outputs.own[:, None], (len(weight), at.shape[-1])).argmax(axis=1)
            if view.legal is not None:
                parts = [None if a is None else _filled(a, picked(view.legal, at)) for a in parts]
            unfair = view.criterion.judge(Outputs(parts[0], parts[1], own)).unfair
        self.compared += float(weight[able].sum())
        self.found += float(weight[able & unfair].sum())
        if self.weighted is not None:
            self.weighted.add_individuals(weight[able & unfair], weight[able])

    def _keep(self, view: View, first: Places, second: Places, both: Mask, weight: Floats | None) -> None:
        room = KEPT - self._kept
        if view.outputs.scores is not None and room > 0:
            gap = np.where(both, view.gap(first, second), np.nan)[:room].astype(np.float32)
            self._gaps.append(gap)
            if self.weighted is not None and weight is not None:
                self.weighted.kept.append(weight[:room])
            self._kept += len(gap)

    @cached_property
    def gaps(self) -> npt.NDArray[np.float32] | None:
        """Gaps of scores, (individuals kept, pairs); NaN where a pair could not be compared."""
        return np.concatenate(self._gaps) if self._gaps else None

    def values(self, place: int) -> dict[str, Any]:
        """The values of one side of the pairs, by attribute."""
        out = {}
        for name, code in zip(self.attributes, self.codes[place], strict=True):
            value = self.space.attributes[self.space.column(name)].decode(np.array([code]))[0]
            out[name] = value.item() if isinstance(value, np.generic) else value
        return out

    def _offsets(self, codes: list[tuple[int, ...]]) -> Places:
        return np.array([sum(c * self._radix[i] for c, i in zip(code, self._chosen, strict=True)) for code in codes])

    def _at(self, base: Any, offsets: Places) -> Places:
        return np.asarray(base)[..., None] + offsets if np.ndim(base) else offsets + base


def tables_of(space: Space) -> list[Table]:
    """One table for each protected attribute, and one for each few attributes that have few enough combinations.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("hours", 1, 9), Boolean("a"), Boolean("b")], protected=["a", "b"])
    >>> [table.attributes for table in tables_of(space)]
    [('a',), ('b',), ('a', 'b')]
    """
    if space.combinations > space.max_family_size:
        # Each individual is compared with a sample of its own, in which a given pair is seldom.
        return []
    singles = [Table(space, (i,)) for i in range(len(space.protected))]
    sizes = [len(table.codes) for table in singles]
    several = [
        chosen
        for count in range(2, len(sizes) + 1)
        for chosen in itertools.combinations(range(len(sizes)), count)
        if math.prod(sizes[i] for i in chosen) <= COMBINATIONS
    ]
    return singles + [Table(space, chosen) for chosen in several]


def spread(size: int, present: int) -> list[int]:
    """Choose the codes at which an attribute is compared; ``present`` of them are values, one more may be "missing".

    >>> spread(3, 2), spread(74, 73)
    ([0, 1, 2], [0, 18, 36, 54, 72])
    """
    if size <= ALL_VALUES:
        return list(range(size))
    return [round(i * (present - 1) / (SPREAD - 1)) for i in range(SPREAD)]


def picked(array: npt.NDArray[Any], places: Places) -> npt.NDArray[Any]:
    """Take places of each row: the same ones of all rows, or each row's own."""
    if places.ndim == 1:
        return array[:, places]
    return array[np.arange(len(array))[:, None], places]


def _paired(array: npt.NDArray[Any], first: Places, second: Places) -> npt.NDArray[Any]:
    both = np.stack([picked(array, first), picked(array, second)], axis=2)
    return both.reshape(-1, 2, *array.shape[2:])


def _filled(array: npt.NDArray[Any], legal: Mask) -> npt.NDArray[Any]:
    """Put a legal place's answer where a place is not legal, so that it makes no difference."""
    first = legal.argmax(axis=1)
    mask = legal if array.ndim == 2 else legal[:, :, None]
    return np.where(mask, array, array[np.arange(len(array)), first][:, None])
