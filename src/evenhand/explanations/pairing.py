"""Where to begin when no single condition tells anything: codes of two attributes that tell much together.

Of "either married or from the north, but not both" each half alone says nothing, so a search that adds one condition at
a time never begins. The pair that tells most is found by its table: how much the cells say beyond the whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenhand.explanations.rules import Codes, Rule
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

BLOCKS = 8
"""Blocks of codes of an attribute that are told apart in tables of two."""
PAIRS = 4
"""Pairs of attributes from which rules are begun."""
CELLS = 2**20
"""Individuals times attributes that tables are counted from; of more individuals as many of either verdict."""
TOGETHER = 32
"""Attributes whose tables with all others are counted at once."""
Numbers = npt.NDArray[np.float64]


def beginnings(space: Space, rows: Rows, unfair: npt.NDArray[np.bool_]) -> list[tuple[Rule, int]]:
    """Give rules of one condition, each with another column on which a second condition may tell much.

    >>> from evenhand.spaces.attributes import Boolean
    >>> space = Space([Boolean("a"), Boolean("b"), Boolean("c"), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(16))
    >>> [(rule.words, space.names[j]) for rule, j in beginnings(space, rows, rows[:, 0] != rows[:, 2])[:2]]
    [('not a', 'c'), ('a', 'c')]
    """
    columns, few = space.free_columns, _few(unfair, CELLS // len(space.free_columns))
    rows, unfair = rows[few], unfair[few]
    blocks = [_blocks(space, j) for j in columns]
    member = np.zeros((len(rows), len(columns), BLOCKS), dtype=np.float32)
    for i, j in enumerate(columns):
        member[np.arange(len(rows)), i, np.searchsorted(blocks[i], rows[:, j], side="right") - 1] = 1
    told = np.full((len(columns), len(columns)), -np.inf)
    for start in range(0, len(columns), TOGETHER):
        found, every = (
            _tables(member[of, start : start + TOGETHER], member[of, start:]) for of in (unfair, slice(None))
        )
        told[start : start + TOGETHER, start:] = _beyond(found, every)
    told[np.tril_indices(len(columns))] = -np.inf
    # Of equals the first; one attribute makes no pair.
    order = np.argsort(-told, axis=None, kind="stable")[: min(PAIRS, len(columns) * (len(columns) - 1) // 2)]
    best = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, told.shape), strict=True)]
    return [
        (Rule(space).where(columns[i], c), columns[j]) for i, j in best for c in _codes(space, columns[i], blocks[i])
    ]


def _few(unfair: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.int64]:
    """Choose positions evenly, as many of either verdict where not all can be taken."""
    if len(unfair) <= most:
        return np.arange(len(unfair))
    kinds = [np.flatnonzero(unfair == kind) for kind in (False, True)]
    return np.concatenate(
        [at[np.linspace(0, len(at) - 1, min(len(at), max(1, most // 2))).astype(int)] for at in kinds]
    )


def _tables(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> Numbers:
    """Count who is in each block of an attribute and each of another: (attributes, attributes, blocks, blocks)."""
    together = np.tensordot(one, other, axes=(0, 0))
    return together.transpose(0, 2, 1, 3).astype(np.float64)


def _blocks(space: Space, column: int) -> npt.NDArray[np.int64]:
    """Where the blocks of a column begin."""
    size = int(space.sizes[column])
    return np.unique(np.linspace(0, size, min(size, BLOCKS) + 1)[:-1].round().astype(np.int64))


def _codes(space: Space, column: int, starts: npt.NDArray[np.int64]) -> list[Codes]:
    ends = [*starts[1:].tolist(), int(space.sizes[column])]
    spans = [(int(start), end - 1) for start, end in zip(starts, ends, strict=True)]
    return list(spans) if space.ordered[column] else [tuple(range(low, high + 1)) for low, high in spans]


def _beyond(found: Numbers, every: Numbers) -> Numbers:
    """What the cells of tables tell, less what as many cells tell by chance."""
    from scipy.special import xlogy

    cells = (-2, -1)
    rates = found / np.maximum(every, 1)
    overall = found.sum(axis=cells, keepdims=True) / every.sum(axis=cells, keepdims=True)
    told = xlogy(found, rates / overall) + xlogy(every - found, (1 - rates) / (1 - overall))
    return np.asarray(told.sum(axis=cells) - (every > 0).sum(axis=cells) / 2)
