"""Where to begin when no single condition tells anything: codes of two attributes that tell much together.

Of "either married or from the north, but not both" each half alone says nothing, so a search that adds one condition at
a time never begins. The pair that tells most is found by its table: how much the cells say beyond the whole.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from evenhand.locating.rules import Codes, Rule
from evenhand.space.individuals import Rows
from evenhand.space.tabular import Space

BLOCKS = 8
"""Blocks of codes of an attribute that are told apart in tables of two."""
PAIRS = 4
"""Pairs of attributes from which rules are begun."""
Numbers = npt.NDArray[np.float64]


def beginnings(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> list[tuple[Rule, int]]:
    """Give rules of one condition, each with another column on which a second condition may tell much.

    >>> from evenhand.space import Boolean
    >>> space = Space([Boolean("a"), Boolean("b"), Boolean("c"), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(16))
    >>> [(rule.words, space.names[j]) for rule, j in beginnings(space, rows, rows[:, 0] != rows[:, 2])[:2]]
    [('not a', 'c'), ('a', 'c')]
    """
    blocks = {j: _blocks(space, j) for j in space.free_columns}
    at = {j: np.searchsorted(cuts, rows[:, j], side="right") - 1 for j, cuts in blocks.items()}
    told = {}
    for i, j in combinations(space.free_columns, 2):
        shape = len(blocks[i]), len(blocks[j])
        cell = at[i] * shape[1] + at[j]
        found, every = (np.bincount(cell[of], minlength=shape[0] * shape[1]) for of in (unfair, slice(None)))
        told[i, j] = _beyond(found.astype(np.float64), every.astype(np.float64))
    best = sorted(told, key=lambda pair: (-told[pair], pair))[:PAIRS]
    return [(Rule(space).where(i, codes), j) for i, j in best for codes in _codes(space, i, blocks[i])]


def _blocks(space: Space, column: int) -> npt.NDArray[np.int64]:
    """Where the blocks of a column begin."""
    size = int(space.sizes[column])
    return np.unique(np.linspace(0, size, min(size, BLOCKS) + 1)[:-1].round().astype(np.int64))


def _codes(space: Space, column: int, starts: npt.NDArray[np.int64]) -> list[Codes]:
    ends = [*starts[1:].tolist(), int(space.sizes[column])]
    spans = [(int(start), end - 1) for start, end in zip(starts, ends, strict=True)]
    return list(spans) if space.ordered[column] else [tuple(range(low, high + 1)) for low, high in spans]


def _beyond(found: Numbers, every: Numbers) -> float:
    """What the cells of a table tell, less what as many cells tell by chance."""
    from scipy.special import xlogy

    met = every > 0
    rates, overall = found[met] / every[met], found.sum() / every.sum()
    told = xlogy(found[met], rates / overall) + xlogy(every[met] - found[met], (1 - rates) / (1 - overall))
    return float(told.sum() - met.sum() / 2)
