"""Criteria: what counts as being treated differently.

A criterion looks at the outputs of whole families at once. Criteria compose: ``Flip() & Gap(0.2)`` needs both,
``Flip() | Gap(0.2)`` either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_number
from evenhand.errors import RunError, StrategyError

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Which places of families stand for the same counterpart, such as spellings of one identity.

    A group differs only if all its places do, and only from an individual whose own group does not differ within.
    """

    ids: Places
    """(n, m) the group of each place; a number belongs to one family."""
    source: Places
    """(n, m) the group that stands for the individual itself as it was before this place's change."""


@dataclass(frozen=True)
class Outputs:
    """The model's outputs for ``n`` families of ``m`` places; an invalid place repeats the individual's own output."""

    labels: npt.NDArray[Any] | None
    """(n, m) decisions."""
    scores: npt.NDArray[np.float64] | None
    """(n, m, k) scores."""
    own: Places
    """(n,) the place of the individual itself."""
    groups: Groups | None = None
    """None if each place stands for itself."""


@dataclass(frozen=True)
class Judgement:
    """Whether each family is treated differently, the pair of places that shows it, and by how much."""

    unfair: Mask
    first: Places
    second: Places
    gap: npt.NDArray[np.float64]
    within: Mask | None = None
    """With groups: families where some places differ, but only within a group; they are not unfair."""

    def replaced(self, use: Mask, other: Judgement) -> Judgement:
        """Take the pairs of another judgement where ``use`` says so; a family is unfair if either finds it so."""
        first, second, gap = (
            np.where(use, getattr(other, name), getattr(self, name)) for name in ("first", "second", "gap")
        )
        within = None if self.within is None or other.within is None else self.within | other.within
        unfair = self.unfair | other.unfair
        return Judgement(unfair, first, second, gap, None if within is None else within & ~unfair)


@dataclass(frozen=True)
class Clause:
    """What one pair of a family must show: different decisions, scores more than ``gamma`` apart, or both."""

    flip: bool
    gamma: float | None


class Criterion(ABC):
    """Base of all criteria: judges whole families from the model's outputs."""

    @property
    def needs_scores(self) -> bool:
        """Whether scores are compared, and not only decisions."""
        return False

    @property
    def needs_decisions(self) -> bool:
        """Whether decisions are compared, so that the model must make decisions."""
        return True

    @abstractmethod
    def judge(self, outputs: Outputs) -> Judgement:
        """Judge whole families."""

    def to_dict(self) -> dict[str, Any]:
        """Return the criterion as plain values, which ``from_dict`` reads.

        >>> Gap(0.2).to_dict()
        {'kind': 'Gap', 'gamma': 0.2}
        """
        kind = {"kind": type(self).__name__}
        if not is_dataclass(self):
            return {**kind, "settings": repr(self)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return kind | {name: v.to_dict() if isinstance(v, Criterion) else v for name, v in values.items()}


class Pairwise(Criterion):
    """Criteria made of clauses: a family is treated differently if a pair of it meets one of them. They compose."""

    @property
    @abstractmethod
    def clauses(self) -> tuple[Clause, ...]:
        """The conditions for a pair, in order of preference for the witness."""

    @property
    def needs_scores(self) -> bool:
        """Whether scores are compared, and not only decisions."""
        return any(clause.gamma is not None for clause in self.clauses)

    @property
    def needs_decisions(self) -> bool:
        """Whether decisions are compared, so that the model must make decisions."""
        return any(clause.flip for clause in self.clauses)

    def judge(self, outputs: Outputs) -> Judgement:
        """Judge whole families; the witness is a pair of the first clause that is met."""
        first, *rest = [_judge(clause, outputs) for clause in self.clauses]
        for other in rest:
            first = first.replaced(other.unfair & ~first.unfair, other)
        return first

    def __and__(self, other: object) -> Pairwise:
        return Both(self, other) if isinstance(other, Pairwise) else NotImplemented

    def __or__(self, other: object) -> Pairwise:
        return Either(self, other) if isinstance(other, Pairwise) else NotImplemented


@dataclass(frozen=True)
class Flip(Pairwise):
    """The decision changes.

    The witness is the individual itself and the first counterpart with a different decision. Without scores, the gap is
    1.

    >>> labels = np.array([["no", "yes"], ["no", "no"]])
    >>> Flip().judge(Outputs(labels, None, np.array([0, 0]))).unfair.tolist()
    [True, False]
    """

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Different decisions."""
        return (Clause(True, None),)


@dataclass(frozen=True)
class Gap(Pairwise):
    """The scores of a family differ by more than ``gamma``: max - min, for the class where that is largest.

    >>> scores = np.array([[[0.1], [0.5]], [[0.1], [0.2]]])
    >>> Gap(0.3).judge(Outputs(None, scores, np.array([0, 0]))).unfair.tolist()
    [True, False]
    """

    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_number("gamma", self.gamma, StrategyError, 0))

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Scores far apart."""
        return (Clause(False, self.gamma),)


@dataclass(frozen=True)
class _Two(Pairwise):
    left: Pairwise
    right: Pairwise

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            if not isinstance(part, Pairwise):
                problem, remedy = "must be made of criteria that compare pairs", "use eh.Flip() or eh.Gap(0.1)"
                raise StrategyError(problem, parameter="criterion", value=part, remedy=remedy)


@dataclass(frozen=True)
class Both(_Two):
    """One pair meets both criteria.

    >>> (Flip() & Gap(0.2)).clauses
    (Clause(flip=True, gamma=0.2),)
    """

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Every clause of one combined with every clause of the other."""
        return tuple(
            Clause(a.flip or b.flip, max((g for g in (a.gamma, b.gamma) if g is not None), default=None))
            for a in self.left.clauses
            for b in self.right.clauses
        )


@dataclass(frozen=True)
class Either(_Two):
    """A pair meets at least one of two criteria.

    >>> (Flip() | Gap(0.2)).clauses
    (Clause(flip=True, gamma=None), Clause(flip=False, gamma=0.2))
    """

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of both."""
        return self.left.clauses + self.right.clauses


@dataclass(frozen=True)
class UnknownCriterion(Criterion):
    """An unknown criterion of a stored run: the run can be read, but not judged again.

    >>> from_dict({"kind": "Mine", "settings": "Mine(3)"})
    UnknownCriterion(kind='Mine', settings={'settings': 'Mine(3)'})
    """

    kind: str
    settings: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the criterion as it was stored."""
        return {"kind": self.kind, **self.settings}

    def judge(self, _: Outputs) -> Judgement:
        """Raise, because only the program that defines this criterion can judge by it."""
        raise self.error

    @property
    def error(self) -> RunError:
        """The error to raise if the run should be judged again."""
        return RunError(
            f"the run was judged by the criterion {self.kind!r}, which cannot be read back",
            remedy=f"known criteria: {', '.join(KINDS)}",
        )


KINDS: dict[str, type[Criterion]] = {kind.__name__: kind for kind in (Flip, Gap, Both, Either)}
"""The criteria that can be read back, by name."""


def check_criterion(criterion: Any) -> None:
    """Raise unless this is a criterion or None."""
    if criterion is not None and not isinstance(criterion, Criterion):
        raise StrategyError(
            "must be eh.Flip(), eh.Gap(gamma) or a combination of them", parameter="criterion", value=criterion
        )


def from_dict(stored: Mapping[str, Any]) -> Criterion:
    """Return the criterion that ``Criterion.to_dict`` described.

    >>> from_dict((Flip() & Gap(0.2)).to_dict())
    Both(left=Flip(), right=Gap(gamma=0.2))
    """
    kind, settings = str(stored["kind"]), {name: value for name, value in stored.items() if name != "kind"}
    if kind not in KINDS:
        return UnknownCriterion(kind, settings)
    read = {name: from_dict(v) if isinstance(v, Mapping) else v for name, v in settings.items()}
    if any(isinstance(v, UnknownCriterion) for v in read.values()):
        return UnknownCriterion(kind, settings)
    return KINDS[kind](**read)


def _judge(clause: Clause, outputs: Outputs) -> Judgement:
    if outputs.groups is not None:
        return _by_group(clause, outputs, outputs.groups)
    if clause.gamma is None:
        return _flipped(outputs)
    pair = _widest_flip(outputs) if clause.flip else _widest(outputs)
    return Judgement(pair.unfair & (pair.gap > clause.gamma), pair.first, pair.second, pair.gap)


def _flipped(outputs: Outputs) -> Judgement:
    """Compare every counterpart's decision with the individual's own."""
    assert outputs.labels is not None
    labels = outputs.labels
    if labels.shape[1] == 2:
        # Two counterparts are by far the most common case; one comparison is enough.
        unfair, second = np.asarray(labels[:, 0] != labels[:, 1], dtype=bool), 1 - outputs.own
    else:
        own = labels[np.arange(len(labels)), outputs.own]
        differs = np.asarray(labels != own[:, None], dtype=bool)
        unfair, second = np.asarray(np.any(differs, axis=1), dtype=bool), differs.argmax(axis=1)
    gap = unfair.astype(np.float64)
    if outputs.scores is not None:
        # Only for different decisions, because the other gaps are never used.
        here = np.flatnonzero(unfair)
        apart = outputs.scores[here, outputs.own[here]] - outputs.scores[here, second[here]]
        gap[here] = np.abs(apart).max(axis=1)
    return Judgement(unfair, outputs.own, second, gap)


def _widest(outputs: Outputs) -> Judgement:
    """Find each family's most distant pair of scores."""
    assert outputs.scores is not None
    scores = outputs.scores
    spread = scores.max(axis=1) - scores.min(axis=1)
    widest = spread.argmax(axis=1)
    here = np.arange(len(scores))
    column = scores[here, :, widest]
    return Judgement(
        np.ones(len(scores), dtype=bool), column.argmin(axis=1), column.argmax(axis=1), spread[here, widest]
    )


def _widest_flip(outputs: Outputs) -> Judgement:
    """Find each family's most distant pair of scores among those with different decisions.

    In each class, one side of such a pair has the highest or the lowest score of the family: otherwise an extreme
    member could replace one of the two, or both, and widen the gap.
    """
    assert outputs.labels is not None
    assert outputs.scores is not None
    labels, here = outputs.labels, np.arange(len(outputs.labels))
    best = Judgement(np.zeros(len(here), dtype=bool), outputs.own, outputs.own, np.full(len(here), -np.inf))
    for k in range(outputs.scores.shape[2]):
        scores = outputs.scores[:, :, k]
        for end, sign in ((scores.argmax(axis=1), 1), (scores.argmin(axis=1), -1)):
            differs = np.asarray(labels != labels[here, end][:, None], dtype=bool)
            distance = np.where(differs, sign * (scores[here, end][:, None] - scores), -np.inf)
            other = distance.argmax(axis=1)
            gap = distance[here, other]
            best = best.replaced(gap > best.gap, Judgement(np.asarray(differs.any(axis=1)), end, other, gap))
    return best


def _by_group(clause: Clause, outputs: Outputs, groups: Groups) -> Judgement:
    """Compare every place with the individual; a group counts if all its places differ and none of the own group."""
    labels, scores, own = outputs.labels, outputs.scores, outputs.own
    here = np.arange(len(own))
    differs, gap = np.ones(groups.ids.shape, dtype=bool), np.zeros(groups.ids.shape)
    if clause.flip:
        assert labels is not None
        differs = np.asarray(labels != labels[here, own][:, None], dtype=bool)
        gap = differs.astype(np.float64)
    if scores is not None:
        gap = np.abs(scores - scores[here, own][:, None]).max(axis=2)
    if clause.gamma is not None:
        differs = differs & (gap > clause.gamma)
    size = np.bincount(groups.ids.ravel(), minlength=int(groups.source.max(initial=-1)) + 1)
    many = np.bincount(groups.ids[differs], minlength=len(size))
    counts = differs & (many == size)[groups.ids] & (many[groups.source] == 0) & (groups.ids != groups.source)
    unfair = counts.any(axis=1)
    second = np.where(unfair, np.where(counts, gap + 1, 0).argmax(axis=1) if clause.gamma is not None
                      else counts.argmax(axis=1), differs.argmax(axis=1))  # fmt: skip
    return Judgement(unfair, own, second, np.where(unfair, gap[here, second], 0.0), differs.any(axis=1) & ~unfair)
