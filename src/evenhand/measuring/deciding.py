"""What a model decides about the rows of the data, beside what would have been right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
from evenhand.errors import DataError
from evenhand.measuring.favour import LOWER, Favour
from evenhand.measuring.intervals import Numbers
from evenhand.measuring.judging import Mask
from evenhand.space.frames import columns_of
from evenhand.space.individuals import Rows

SHOWN = 4


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
    said: npt.NDArray[np.str_] | None
    """The decisions as texts, where there is a truth to compare them with."""
    truth: npt.NDArray[np.str_] | None
    weights: Numbers | None

    @property
    def correct(self) -> Mask | None:
        """Whom the model decides as the truth says."""
        return None if self.said is None else np.asarray(self.said == self.truth, dtype=bool)

    def weight(self, at: npt.NDArray[np.int64]) -> Numbers:
        """What some rows count."""
        return np.ones(len(at)) if self.weights is None else self.weights[at]


def decided(
    asker: Asker, favour: Favour, rows: Rows, chunk: int, weights: Numbers | None, truth: Truth | None
) -> Decided:
    """Ask the model about rows."""
    one = asker.scores if asker.model.regression else asker.labels
    said = np.concatenate([one(rows[i : i + chunk]) for i in range(0, len(rows), chunk)])
    selected = _beyond_median(said[:, 0], weights, favour.favourable == LOWER) if said.ndim == 2 else None
    if selected is None:
        mask = favour.of(said[:, None])
        favour.check()
        assert mask is not None
        selected = mask[:, 0]
    if truth is None:
        return Decided(selected, None, None, weights)
    return Decided(selected, *_beside_truth(said, truth), weights)


def _beyond_median(numbers: Numbers, weights: Numbers | None, lower: bool) -> Mask:
    order = np.argsort(numbers, kind="stable")
    total = np.cumsum(np.ones(len(numbers)) if weights is None else weights[order])
    median = numbers[order][np.searchsorted(total, total[-1] / 2)]
    return np.asarray(numbers < median if lower else numbers > median, dtype=bool)


def _beside_truth(said: npt.NDArray[Any], truth: Truth) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.str_]]:
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
        raise DataError("y: accuracy is of decisions; make numbers decisions with eh.wrap(model, threshold=...)")
    # As texts, so that 1 and True, or a number and its text in a file, are told apart as a reader would.
    texts = [np.array([str(value) for value in array.tolist()]) for array in (said, right[truth.positions])]
    if not set(texts[0]) & set(texts[1]):
        decisions, truths = (", ".join(sorted(set(text))[:SHOWN]) for text in texts)
        raise DataError(f"y has the values {truths}, but the model decides {decisions}; give both in one coding")
    return texts[0], texts[1]
