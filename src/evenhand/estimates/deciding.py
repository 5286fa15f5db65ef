"""What a model decides about the rows of the data, beside what would have been right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Mask
from evenhand.engine.probe import ModelProbe
from evenhand.errors import THRESHOLD, DataError
from evenhand.estimates.favour import LOWER, Favour, alike, look_for
from evenhand.estimates.intervals import Numbers
from evenhand.spaces.attributes import Integer, Real
from evenhand.spaces.frames import columns_of
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

SHOWN = 4
UNKNOWN = -1
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Truth:
    """The true decisions, or the name of their column; which rows are left, of how many."""

    y: Any
    data: Any
    positions: npt.NDArray[np.int64]
    rows: int


@dataclass(frozen=True)
class Decided:
    """Decisions about rows."""

    selected: Mask
    """Who gets the favourable decision."""
    said: Codes | None
    """The decisions numbered, where there is a truth to compare them with."""
    truth: Codes | None
    """The true decisions by the same numbers; ``UNKNOWN`` where there is none."""
    weights: Numbers | None
    numbers: Numbers | None = None
    """What a regression says."""

    @property
    def correct(self) -> Mask | None:
        """Whom the model decides as the truth says."""
        return None if self.said is None else np.asarray(self.said == self.truth, dtype=bool)

    @property
    def told(self) -> Mask:
        """Of whom the truth is known."""
        assert self.truth is not None
        return np.asarray(self.truth != UNKNOWN, dtype=bool)

    def weight(self, at: npt.NDArray[np.int64]) -> Numbers:
        """What some rows count."""
        return np.ones(len(at)) if self.weights is None else self.weights[at]


def decided(
    asker: ModelProbe,
    favour: Favour,
    rows: Rows,
    chunk: int,
    weights: Numbers | None,
    truth: Truth | None,
    own: Mapping[str, Numbers] | None = None,
) -> Decided:
    """Ask the model about rows; with ``own``, numbers of some columns as the data has them."""
    one = asker.asking.scores if asker.model.regression else asker.asking.labels
    parts = [slice(i, i + chunk) for i in range(0, len(rows), chunk)]
    said = np.concatenate([one(_inputs(asker, rows, part, own or {}), len(rows[part])) for part in parts])
    numbers = said[:, 0] if said.ndim == 2 else None
    if numbers is not None:
        selected = _beyond_median(numbers, weights, favour.favourable == LOWER)
    else:
        mask = favour.of(said[:, None])
        look_for(favour, asker)
        assert mask is not None
        selected = mask[:, 0]
    if truth is None:
        return Decided(selected, None, None, weights, numbers)
    return Decided(selected, *_beside_truth(said, truth), weights)


def own_numbers(space: Space, data: Any, positions: npt.NDArray[np.int64], rows: Rows) -> dict[str, Numbers]:
    """Give the columns of numbers that a space changes: beyond its bounds, or between two of its steps.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 90), Boolean("member")], protected="member")
    >>> data = {"age": [95, 30], "member": [True, False]}
    >>> own_numbers(space, data, np.arange(2), space.encode(data).individuals.rows)
    {'age': array([95., 30.])}
    """
    columns, out = columns_of(data), {}
    for j, attribute in enumerate(space.attributes):
        if isinstance(attribute, Integer | Real):
            given = attribute.numbers(columns[attribute.name][positions])
            if not np.allclose(given, attribute.decode(rows[:, j]), rtol=1e-9, atol=0.0, equal_nan=True):
                out[attribute.name] = given
    return out


def _inputs(asker: ModelProbe, rows: Rows, part: slice, own: Mapping[str, Numbers]) -> Any:
    """Build what the model takes, with the data's own numbers in the columns where the space has others."""
    inputs = asker.inputs(rows[part])
    for name, numbers in own.items():
        here = numbers[part]
        if asker.model.input == "array":
            inputs[:, asker.space.column(name)] = here
        elif name in inputs.columns:
            whole = inputs[name].dtype.kind in "iu" and bool((here == np.rint(here)).all())
            inputs[name] = here.astype(inputs[name].dtype) if whole else here
    return inputs


def _beyond_median(numbers: Numbers, weights: Numbers | None, lower: bool) -> Mask:
    order = np.argsort(numbers, kind="stable")
    total = np.cumsum(np.ones(len(numbers)) if weights is None else weights[order])
    median = numbers[order][np.searchsorted(total, total[-1] / 2)]
    return np.asarray(numbers < median if lower else numbers > median, dtype=bool)


def _beside_truth(said: npt.NDArray[Any], truth: Truth) -> tuple[Codes, Codes]:
    import pandas as pd

    y = truth.y
    if isinstance(y, str):
        columns = columns_of(truth.data)
        if y not in columns:
            raise DataError(f"y={y!r}: the data has no such column; it has {', '.join(list(columns)[:20])}")
        y = columns[y]
    right = np.asarray(y)
    if right.shape != (truth.rows,):
        raise DataError(
            f"y must be one true decision for each of the {truth.rows:,} rows of the data, got {right.shape}"
        )
    if said.ndim == 2:
        raise DataError("y: accuracy is of decisions", remedy=("make numbers decisions with ", THRESHOLD))
    decisions, names = pd.factorize(said)
    truths, others = pd.factorize(right[truth.positions])  # What is missing gets -1.
    known, right_ones = names.tolist(), others.tolist()
    if not right_ones:
        raise DataError("y has no true decision for any row; give some, or leave y out")
    # One that the model never makes gets a number of its own, so that nobody is right about it.
    number = [next((i for i, name in enumerate(known) if alike(name, one)), len(known)) for one in right_ones]
    if min(number) == len(known):
        listed = (", ".join(sorted(map(str, values))[:SHOWN]) for values in (right_ones, known))
        raise DataError("y has the values {}, but the model decides {}; give both in one coding".format(*listed))
    numbers = np.array([*number, UNKNOWN], dtype=np.int64)
    return decisions.astype(np.int64), numbers[truths]
