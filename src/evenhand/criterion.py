"""Criteria: what counts as being treated differently.

A criterion looks at the outputs of whole families at once. Criteria compose: ``Flip() & Gap(0.2)`` wants both,
``Flip() | Gap(0.2)`` either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import StrategyError

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Outputs:
    """What the model said of ``n`` families of ``m`` places; an illegal place repeats the individual's own output."""

    labels: npt.NDArray[Any] | None
    """(n, m) decisions."""
    scores: npt.NDArray[np.float64] | None
    """(n, m, k) scores."""
    own: Places
    """(n,) the place of the individual itself."""


@dataclass(frozen=True)
class Judgement:
    """Whether each family is treated differently, the pair of places that shows it, and by how much."""

    unfair: Mask
    first: Places
    second: Places
    gap: npt.NDArray[np.float64]


class Criterion:
    """Base of all criteria; a subclass says which outputs it needs and judges them."""

    needs_labels: bool = False
    needs_scores: bool = False

    def judge(self, outputs: Outputs) -> Judgement:
        """Judge whole families."""
        raise NotImplementedError

    def __and__(self, other: Criterion) -> Criterion:
        return Both(self, other)

    def __or__(self, other: Criterion) -> Criterion:
        return Either(self, other)


@dataclass(frozen=True)
class Flip(Criterion):
    """The decision changes.

    The witness is the individual itself and the first counterpart with another decision; the gap is 1.

    >>> labels = np.array([["no", "yes"], ["no", "no"]])
    >>> Flip().judge(Outputs(labels, None, np.array([0, 0]))).unfair.tolist()
    [True, False]
    """

    needs_labels = True

    def judge(self, outputs: Outputs) -> Judgement:
        """Compare every counterpart's decision with the individual's own."""
        assert outputs.labels is not None
        labels = outputs.labels
        if labels.shape[1] == 2:
            # Two counterparts are by far the commonest case; one comparison settles it.
            unfair = np.asarray(labels[:, 0] != labels[:, 1], dtype=bool)
            return Judgement(unfair, outputs.own, 1 - outputs.own, unfair.astype(np.float64))
        own = labels[np.arange(len(labels)), outputs.own]
        differs = np.asarray(labels != own[:, None], dtype=bool)
        unfair = np.asarray(np.any(differs, axis=1), dtype=bool)
        return Judgement(unfair, outputs.own, differs.argmax(axis=1), unfair.astype(np.float64))


@dataclass(frozen=True)
class Gap(Criterion):
    """The scores of a family differ by more than ``gamma``: max - min, of the class where that is largest.

    >>> scores = np.array([[[0.1], [0.5]], [[0.1], [0.2]]])
    >>> Gap(0.3).judge(Outputs(None, scores, np.array([0, 0]))).unfair.tolist()
    [True, False]
    """

    gamma: float

    needs_scores = True

    def __post_init__(self) -> None:
        if not (isinstance(self.gamma, int | float) and math.isfinite(self.gamma) and self.gamma >= 0):
            raise StrategyError(f"gamma must be a number of at least 0, got {self.gamma!r}")

    def judge(self, outputs: Outputs) -> Judgement:
        """Find each family's most distant pair."""
        assert outputs.scores is not None
        scores = outputs.scores
        spread = scores.max(axis=1) - scores.min(axis=1)
        widest = spread.argmax(axis=1)
        here = np.arange(len(scores))
        column = scores[here, :, widest]
        return Judgement(
            spread[here, widest] > self.gamma, column.argmin(axis=1), column.argmax(axis=1), spread[here, widest]
        )


@dataclass(frozen=True)
class _Pair(Criterion):
    left: Criterion
    right: Criterion

    @property
    def needs_labels(self) -> bool:  # type: ignore[override]
        """Whether either part looks at decisions."""
        return self.left.needs_labels or self.right.needs_labels

    @property
    def needs_scores(self) -> bool:  # type: ignore[override]
        """Whether either part looks at scores."""
        return self.left.needs_scores or self.right.needs_scores

    def _judge(self, outputs: Outputs, unfair: Any) -> Judgement:
        left, right = self.left.judge(outputs), self.right.judge(outputs)
        # The witness and the gap are the right part's where it is unfair: the one with the finer measure by custom.
        use = right.unfair
        return Judgement(
            unfair(left.unfair, right.unfair),
            np.where(use, right.first, left.first),
            np.where(use, right.second, left.second),
            np.where(use, right.gap, left.gap),
        )


@dataclass(frozen=True)
class Both(_Pair):
    """Unfair by both criteria; the witness is the second one's.

    >>> (Flip() & Gap(0.2)).needs_scores
    True
    """

    def judge(self, outputs: Outputs) -> Judgement:
        """Judge by both."""
        return self._judge(outputs, np.logical_and)


@dataclass(frozen=True)
class Either(_Pair):
    """Unfair by at least one of two criteria.

    >>> (Flip() | Gap(0.2)).needs_labels
    True
    """

    def judge(self, outputs: Outputs) -> Judgement:
        """Judge by either."""
        return self._judge(outputs, np.logical_or)
