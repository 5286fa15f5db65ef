"""Counts of a survey: decisions by pairs of protected values or by terms, and which outcomes are favourable."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._format import plain
from evenhand._intervals import Ends, Sums
from evenhand._rng import Stream
from evenhand.criteria import Criterion, Outputs
from evenhand.engine.judge import Mask, ModelProbe
from evenhand.errors import ORDER, THRESHOLD, ModelError, SpaceError
from evenhand.estimates.favoured import Differences
from evenhand.models.base import Model
from evenhand.spaces.findings import Decisions
from evenhand.spaces.frames import json_value, native, pd
from evenhand.spaces.tabular import Space

HIGHER, LOWER = "higher", "lower"
SHOWN = 8
"""Decisions that an error lists."""
LOOKED_AT = 5_000
"""Maximum number of individuals judged to look for a decision that has not occurred."""
Ranks = npt.NDArray[np.int64]
ALL_VALUES, SPREAD = 12, 5
"""Maximum number of values of an attribute to compare; if there are more, this many across the range."""
COMBINATIONS = 16
"""Maximum number of combinations of several attributes that are compared in pairs."""
KEPT = 50_000
"""Number of individuals whose gaps of scores are kept: the first ones, because all are drawn independently."""
SCORED = ("mean", "difference", "difference_low", "difference_high")
Places = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Level: TypeAlias = Callable[[Floats | None], Floats | None]
"""Extracts one number per (family, place) from scores; None if no single number is meaningful."""


@dataclass(frozen=True)
class Order:
    """Outcomes from worst to best: of two individuals, the one with the later outcome is favoured.

    It must name every outcome of the model.

    >>> Order(["refused", "reduced", "granted"])
    Order('refused' < 'reduced' < 'granted')
    """

    outcomes: tuple[Any, ...]

    def __init__(self, outcomes: Iterable[Any]) -> None:
        listed = _outcomes(outcomes)
        if listed is None or len(listed) < 2:
            raise ModelError("must list at least two outcomes, worst first", parameter="order", value=outcomes)
        if twice := [one for i, one in enumerate(listed) if any(alike(one, other) for other in listed[:i])]:
            raise ModelError(
                f"must list each outcome once, not {twice[0]!r} twice", parameter="order", value=list(listed)
            )
        object.__setattr__(self, "outcomes", listed)

    def __repr__(self) -> str:
        return f"Order({' < '.join(map(repr, self.outcomes))})"


Wanted = Any
"""One outcome, a tuple of several, an ``Order``, "higher", "lower", or None if not given."""


class Favour:
    """The favourable outcomes: finds them among the decisions and the scores.

    Decisions are matched by value or, as written on the command line, by text.
    """

    def __init__(self, model: Model, favourable: Any) -> None:
        self.model = model
        self.favourable: Wanted = normal(favourable)
        self._found: dict[int, Any] = {}
        """The model's own value of each named outcome, by its position."""
        self._seen: list[Any] = []
        if favourable is None:
            return
        if model.regression:
            if not directs(self.favourable):
                raise self._directed(model, favourable)
        elif model.classes is not None:
            self._meet(model.classes.tolist())
            if not self.complete:
                raise self._unknown()
            if isinstance(self.favourable, tuple) and len(self._found) == len(self._seen):
                raise ModelError(
                    f"must not include every decision of {model.name}",
                    parameter="favourable",
                    value=self._given,
                    remedy=("name fewer, or give their order: ", ORDER),
                )

    def of(self, labels: npt.NDArray[Any]) -> Mask | None:
        """Return who gets a favourable decision, or the best of an order; None if none was set, or for numbers."""
        ranks = self.ranks(labels)
        return None if ranks is None else np.asarray(ranks == (len(self._named) - 1 if self._ordered else 1))

    def ranks(self, labels: npt.NDArray[Any]) -> Ranks | None:
        """Rank decisions, the best highest; None if the favourable outcome is unknown or a number."""
        if self.favourable is None or self.model.regression or labels.dtype.kind == "f":
            return None
        if self._ordered or not self.complete:
            self._meet([value for value in pd.unique(labels.ravel()).tolist() if value not in self._seen])
        out = np.zeros(labels.shape, dtype=np.int64)
        for place, value in self._found.items():
            out[labels == value] = place if self._ordered else 1
        return out

    def level(self, scores: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
        """Return the score of the favourable outcome, or of the second of two; None if there is no single number."""
        if scores is None:
            return None
        width = scores.shape[2]
        if self.favourable is None:
            return scores[:, :, -1] if width <= 2 else None
        if width == 1:
            return -scores[:, :, 0] if self.turned(width) else scores[:, :, 0]
        if self._ordered and width > 2:
            return None
        at = [place for place, value in enumerate(self._classes(width)) if self._wants(value)]
        return np.asarray(scores[:, :, at].sum(axis=2)) if at else None

    def turned(self, width: int) -> bool:
        """Whether ``level`` is the negative of the model's number, because a low number is favourable."""
        if self.favourable is None or width > 1:
            return False
        if directs(self.favourable):
            return bool(self.favourable == LOWER)
        classes = self._classes(2)
        if not any(alike(value, one) for value in classes for one in self._named):
            # A single number can only be the score of the second of two decisions.
            raise self._directed(self.model, self.favourable)
        return not self._wants(classes[-1])

    def scored(self, width: int) -> tuple[Any, ...]:
        """Return the decisions whose score is compared; empty if it is the model's own number."""
        if width == 1:
            return () if self.model.classes is None else (self._classes(2)[-1],)
        classes = self._classes(width)
        return (classes[-1],) if self.favourable is None else tuple(value for value in classes if self._wants(value))

    @property
    def complete(self) -> bool:
        """Whether the model has made every named decision."""
        return len(self._found) == len(self._named)

    def check(self) -> None:
        """Raise if the model never predicted the favourable outcome."""
        if self.favourable is not None and not self.complete and len(self._seen) > 1:
            raise self._unknown()

    @property
    def _ordered(self) -> bool:
        return isinstance(self.favourable, Order)

    @property
    def _named(self) -> tuple[Any, ...]:
        return outcomes_of(self.favourable)

    @property
    def _given(self) -> Any:
        return list(self.favourable) if isinstance(self.favourable, tuple) else self.favourable

    def _classes(self, width: int) -> list[Any]:
        return list(range(width)) if self.model.classes is None else self.model.classes.tolist()[:width]

    def _wants(self, value: Any) -> bool:
        best = self._named[-1:] if self._ordered else self._named
        return any(alike(value, one) for one in best)

    def _meet(self, values: list[Any]) -> None:
        """Record decisions that the model makes; raise if an order does not rank one of them."""
        self._seen += values
        for value in values:
            place = next((i for i, one in enumerate(self._named) if alike(value, one)), None)
            if place is not None:
                self._found.setdefault(place, value)
            elif self._ordered:
                raise ModelError(
                    f"must also rank {value!r}, which {self.model.name} predicts",
                    parameter="favourable",
                    value=self._given,
                    remedy="name every outcome in the order",
                )

    @staticmethod
    def _directed(model: Model, favourable: Any) -> ModelError:
        return ModelError(
            f'must be "higher" or "lower", because {model.name} returns numbers',
            parameter="favourable",
            value=favourable,
            remedy=("or convert them to decisions with ", THRESHOLD),
        )

    def _unknown(self) -> ModelError:
        lost = next(one for i, one in enumerate(self._named) if i not in self._found)
        which = "" if lost is self.favourable else f": {lost!r}"
        shown = ", ".join(repr(value) for value in self._seen[:SHOWN])
        return ModelError(
            f"must be a decision of {self.model.name}{which}",
            parameter="favourable",
            value=self._given,
            remedy=f"it predicts {shown}; name some of these",
        )


def look_for(favour: Favour, probe: ModelProbe) -> int:
    """If a named decision has not occurred, judge random individuals; raise if it does not occur there either.

    A small number of rows may lack some decisions. Returns the number of rows queried.
    """
    if favour.favourable is None or favour.complete or probe.model.regression:
        return 0
    try:
        people = probe.space.sampler.draw(Stream(0), 0, LOOKED_AT)[0]
    except SpaceError:
        people = None
    if people is not None:
        favour.ranks(probe.labels(people.rows))
    favour.check()
    return 0 if people is None else len(people)


def normal(favourable: Any) -> Wanted:
    """Check the favourable outcome, and normalise it: several outcomes become a tuple."""
    if favourable is None or isinstance(favourable, Order):
        return favourable
    listed = _outcomes(favourable)
    if listed is None:
        if not _single(favourable):
            raise ModelError(
                ("must be an outcome, a list of outcomes or ", ORDER), parameter="favourable", value=favourable
            )
        return favourable
    if not listed:
        raise ModelError(
            "must name at least one outcome",
            parameter="favourable",
            value=favourable,
            remedy="leave it out if there is none",
        )
    unique = tuple(one for i, one in enumerate(listed) if not any(alike(one, other) for other in listed[:i]))
    return unique if len(unique) > 1 else unique[0]


def outcomes_of(wanted: Wanted) -> tuple[Any, ...]:
    """List the named outcomes."""
    if isinstance(wanted, Order):
        return wanted.outcomes
    return wanted if isinstance(wanted, tuple) else () if wanted is None else (wanted,)


def directs(wanted: Wanted) -> bool:
    """Whether a high or a low number is favourable."""
    return isinstance(wanted, str) and wanted in (HIGHER, LOWER)


def favourable_words(wanted: Wanted) -> str:
    """Write the favourable outcome as part of a sentence."""
    if isinstance(wanted, Order):
        return "a better outcome"
    if directs(wanted):
        return f"a {wanted} number"
    return " or ".join(f"“{plain(one)}”" for one in outcomes_of(wanted))


def favourable_json(wanted: Wanted) -> Any:
    """Write the favourable outcome as JSON values: an outcome, a list of outcomes, or ``{"order": [...]}``."""
    values = [json_value(native(one)) for one in outcomes_of(wanted)]
    if isinstance(wanted, Order):
        return {"order": values}
    return values if isinstance(wanted, tuple) else values[0] if values else None


def alike(one: Any, other: Any) -> bool:
    """Whether two decisions are the same: by value or, as written in files and on the command line, by text."""
    return bool(one == other) or str(one) == str(other)


def _outcomes(value: Any) -> tuple[Any, ...] | None:
    """List outcomes in their order, those of a set by name; None if the value is not a collection of outcomes."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    listed = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    if wrong := [one for one in listed if not _single(one)]:
        raise ModelError("must list single outcomes", parameter="favourable", value=wrong[0])
    return tuple(listed)


def _single(value: Any) -> bool:
    return np.ndim(value) == 0 and not isinstance(value, dict | set | frozenset | Order) and not pd.isna(value)


@dataclass(frozen=True)
class View:
    """The model's answers to a block, in the form that tables need: one column for each place of a family."""

    outputs: Outputs
    valid: Mask | None
    criterion: Criterion
    ranks: npt.NDArray[np.int64] | None
    """The rank of each decision, the best highest; None if not given."""
    level: Floats | None
    """The score of the favourable decision, where higher is better; or of the second of two decisions."""

    def differ(self, first: Places, second: Places) -> Mask:
        """Return which pairs of places differ by the criterion: (individuals, pairs)."""
        labels, scores = self.outputs.labels, self.outputs.scores
        pairs = [None if a is None else _paired(a, first, second) for a in (labels, scores)]
        shape = (len(self.outputs.own), first.shape[-1])
        own = np.zeros(math.prod(shape), dtype=np.int64)
        return self.criterion.judge(Outputs(pairs[0], pairs[1], own)).unfair.reshape(shape)

    def direction(self, first: Places, second: Places) -> npt.NDArray[np.int8]:
        """Return who is favoured in each pair: 1 the first, -1 the second."""
        out = np.zeros((len(self.outputs.own), first.shape[-1]), dtype=np.int8)
        if self.ranks is not None:
            out = np.sign(picked(self.ranks, first) - picked(self.ranks, second)).astype(np.int8)
        if self.criterion.needs_scores and self.level is not None:
            # If both get the same decision, the score shows who is closer to the favourable one.
            apart = np.sign(picked(self.level, first) - picked(self.level, second)).astype(np.int8)
            out = np.where(out == 0, apart, out)
        return out

    def gap(self, first: Places, second: Places) -> Floats:
        """The difference between the scores of each pair; signed if there is a single score to compare."""
        if self.level is not None:
            return np.asarray(picked(self.level, first) - picked(self.level, second), dtype=np.float64)
        assert self.outputs.scores is not None
        apart = np.abs(picked(self.outputs.scores, first) - picked(self.outputs.scores, second))
        return np.asarray(apart.max(axis=-1), dtype=np.float64)


class Weighted:
    """What is recorded of weighted pairs besides sums: squared weights, the largest weight, the number of rows."""

    def __init__(self, pairs: int) -> None:
        self.squares, self.heaviest, self.rows = (np.zeros((4, pairs)) for _ in range(3))
        self.individuals = np.zeros(3)
        """Squared weights of the found and of all, and the largest weight."""
        self.kept: list[Floats] = []
        """The weights of the individuals whose gaps are kept."""

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
        """How much more the first gets, if scores are compared by a single number."""
        self.compared = self.found = 0.0
        """Numbers of individuals, and of those treated differently when only these attributes change."""
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
        """Count individuals; their other protected attributes stay unchanged."""
        own = view.outputs.own
        if weight is not None and self.weighted is None:
            self.weighted = Weighted(len(self.first))
        if self.whole:
            self._add(view, np.int64(0), weight, unfair)
        else:
            digits = sum(own // self._radix[i] % self._sizes[i] * self._radix[i] for i in self._chosen)
            self._add(view, own - digits, weight, None)

    def add_all(self, view: View, unfair: Mask) -> None:
        """Count all members of the families, whichever member a family was built from."""
        others = [range(1 if i in self._chosen else size) for i, size in enumerate(self._sizes)]
        for digits in itertools.product(*others):
            base = np.int64(sum(digit * radix for digit, radix in zip(digits, self._radix, strict=True)))
            here = len(self._every) if view.valid is None else picked(view.valid, base + self._every).sum(axis=1)
            self._add(view, base, np.broadcast_to(here, len(unfair)), unfair if self.whole else None)

    def _add(self, view: View, base: Any, weight: npt.NDArray[Any] | None, unfair: Mask | None) -> None:
        self._add_individuals(view, self._at(base, self._every), weight, unfair)
        at = self._at(base, self._offset)
        first, second = at[..., self.first], at[..., self.second]
        both = np.ones((len(view.outputs.own), len(self.first)), dtype=bool)
        if view.valid is not None:
            both = picked(view.valid, first) & picked(view.valid, second)
        if unfair is not None and len(self._every) == 2:
            # A family of two is a single pair, and was already judged.
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
        if view.valid is not None:
            able = able & (picked(view.valid, at).sum(axis=1) >= 2)
        if unfair is None:
            labels, scores = view.outputs.labels, view.outputs.scores
            parts = [None if a is None else picked(a, at) for a in (labels, scores)]
            own = np.broadcast_to(at == view.outputs.own[:, None], (len(weight), at.shape[-1])).argmax(axis=1)
            if view.valid is not None:
                parts = [None if a is None else _filled(a, picked(view.valid, at)) for a in parts]
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
        """Gaps of scores, (individuals kept, pairs); NaN if a pair could not be compared."""
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
    """One table for each protected attribute, and one for each set of attributes with few enough combinations."""
    if space.combinations > space.max_family_size:
        # Each individual is compared with its own sample, which rarely contains a given pair.
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
    """Choose the codes of an attribute to compare; ``present`` of all codes are values, one more may be "missing"."""
    if size <= ALL_VALUES:
        return list(range(size))
    return [round(i * (present - 1) / (SPREAD - 1)) for i in range(SPREAD)]


def picked(array: npt.NDArray[Any], places: Places) -> npt.NDArray[Any]:
    """Select places of each row: the same for all rows, or different ones."""
    if places.ndim == 1:
        return array[:, places]
    return array[np.arange(len(array))[:, None], places]


def _paired(array: npt.NDArray[Any], first: Places, second: Places) -> npt.NDArray[Any]:
    both = np.stack([picked(array, first), picked(array, second)], axis=2)
    return both.reshape(-1, 2, *array.shape[2:])


def _filled(array: npt.NDArray[Any], valid: Mask) -> npt.NDArray[Any]:
    """Replace the answers at invalid places by that of a valid place, so that they have no effect."""
    first = valid.argmax(axis=1)
    mask = valid if array.ndim == 2 else valid[:, :, None]
    return np.where(mask, array, array[np.arange(len(array)), first][:, None])


@dataclass(frozen=True)
class Term:
    """How often texts get each decision with a given term."""

    attribute: str
    term: str
    texts: int
    """Texts with the term, unchanged or swapped in; a text with two terms counts once for each."""
    shares: tuple[tuple[Any, float], ...]
    """Each decision, and the share of the texts that get it; empty if the model returns numbers."""
    mean: float | None = None
    """For a criterion that compares scores: the average score of these texts."""
    difference: float | None = None
    """How much higher the same text is scored with this term than with the other terms, on average."""
    difference_low: float | None = None
    difference_high: float | None = None
    """Its interval holds for all terms simultaneously; None if too few texts differ."""
    respelled: int | None = None
    """Texts that were also asked with another common spelling of this term, their own."""
    changed_by_spelling: float | None = None
    """The share of these whose decision changes with the spelling alone: the noise floor of the rate."""


class TermCounts:
    """Counts decisions by the term in a text.

    Families that were compared with only a sample of their counterparts are left out, because they have other terms
    than the rest.
    """

    def __init__(self, bound: Any, level: Level | None = None) -> None:
        lexicons = bound.space.lexicons
        self.names = [(lexicon.name, identity) for lexicon in lexicons for identity in lexicon.identities]
        self.decisions = Decisions()
        self._bound, self._level = bound, level
        self._counts = np.zeros((len(self.names), 0), dtype=np.int64)
        self._differences = Differences(len(self.names))
        self._texts, self._sums = np.zeros(len(self.names), dtype=np.int64), np.zeros(len(self.names))
        self.sampled = False
        """Whether a text was compared with only a sample of its counterparts."""
        self.width: int | None = None
        """Number of scores, if terms are compared by scores."""
        self.respelled, self.flips = np.zeros((2, len(self.names)), dtype=np.int64)
        """For each term, texts asked with another spelling of it, and those whose decision that changes."""
        self.texts_respelled = self.texts_flipped = 0

    def add(self, families: Any, outputs: Outputs) -> None:
        """Count a block; numbers are not decisions, and their values are not counted."""
        assert outputs.labels is not None
        self._add_spellings(families, outputs.labels, outputs.own)
        row, place, identity = families.identities
        whole = self._bound.counterparts[families.individuals.seeds] < self._bound.space.max_family_size
        self.sampled |= not whole.all()
        row, place, identity = row[whole[row]], place[whole[row]], identity[whole[row]]
        self._texts += np.bincount(identity, minlength=len(self.names))
        if self._level is not None and outputs.scores is not None:
            level = self._level(outputs.scores)
            if level is not None:
                self.width = outputs.scores.shape[2]
                self._add_scores(level, row, place, identity)
        if outputs.labels.dtype.kind == "f":
            return
        codes: npt.NDArray[Any] = self.decisions.encode(outputs.labels[row, place])
        new = len(self.decisions.values) - self._counts.shape[1]
        self._counts = np.pad(self._counts, ((0, 0), (0, new)))
        np.add.at(self._counts, (identity, codes.astype(np.int64)), 1)

    def _add_spellings(self, families: Any, labels: npt.NDArray[Any], own: npt.NDArray[np.int64]) -> None:
        """Count texts whose decision changes if their own term is spelled otherwise."""
        row, place, identity = families.respelled
        if not len(row):
            return
        changed = np.asarray(labels[row, place] != labels[row, own[row]], dtype=bool)
        pairs, first = np.unique(np.stack([row, identity]), axis=1, return_inverse=True)
        flipped = np.bincount(first.ravel(), weights=changed, minlength=pairs.shape[1]) > 0
        self.respelled += np.bincount(pairs[1], minlength=len(self.names))
        self.flips += np.bincount(pairs[1][flipped], minlength=len(self.names))
        self.texts_respelled += len(np.unique(row))
        self.texts_flipped += len(np.unique(row[changed]))

    def _add_scores(self, level: Floats, row: Any, place: Any, identity: Any) -> None:
        """Compare the score of each text with one term to its scores with the other terms of that attribute."""
        scores, shape = level[row, place], (len(level), len(self.names))
        self._sums += np.bincount(identity, weights=scores, minlength=len(self.names))
        at = np.ravel_multi_index((row, identity), shape)
        size = shape[0] * shape[1]
        count = np.bincount(at, minlength=size).reshape(shape)
        mean = np.bincount(at, weights=scores, minlength=size).reshape(shape) / np.maximum(count, 1)
        attributes = np.unique([name for name, _ in self.names], return_inverse=True)[1]
        others = (attributes[:, None] == attributes) & ~np.eye(len(attributes), dtype=bool)
        many = (count > 0) @ others.astype(np.int64)
        rest = mean @ others.astype(np.float64) / np.maximum(many, 1)
        self._differences.add(mean, rest, (count > 0) & (many > 0), None)

    def shares(self, ends: Callable[[Differences, int], Ends]) -> tuple[Term, ...]:
        """Return the terms that occurred, in the order of the lexicons; ``ends`` computes the intervals."""
        out, decisions = [], self.decisions.values
        order = sorted(range(len(decisions)), key=lambda code: str(decisions[code]))
        found = self._differences
        low, high = ends(found, int((found.compared > 0).sum()))
        for at, (attribute, name) in enumerate(self.names):
            texts = int(self._texts[at])
            if not texts or (self.width is None and not order):
                continue
            shares = tuple((decisions[code], int(self._counts[at, code]) / texts) for code in order)
            scored: dict[str, float | None] = {}
            if self.width is not None:
                scored["mean"] = float(self._sums[at] / texts)
            if found.compared[at]:
                figures = zip(SCORED[1:], (found.mean, low, high), strict=True)
                scored |= {n: float(v[at]) + 0.0 if np.isfinite(v[at]) else None for n, v in figures}
            if many := int(self.respelled[at]):
                scored |= {"changed_by_spelling": int(self.flips[at]) / many}
            out.append(Term(attribute, name, texts, shares, **scored, respelled=many or None))
        return tuple(out)


def frame_of(terms: tuple[Term, ...]) -> pd.DataFrame:
    """Return terms as a frame, with a column for the share of each decision, and the scores if known."""
    decided = [f"decided {value}" for value, _ in terms[0].shares] if terms else []
    scored = SCORED if any(term.mean is not None for term in terms) else ()
    if any(term.respelled for term in terms):
        scored = (*scored, "respelled", "changed_by_spelling")
    rows = [
        [
            term.attribute,
            term.term,
            term.texts,
            *(share for _, share in term.shares),
            *(getattr(term, n) for n in scored),
        ]
        for term in terms
    ]
    return pd.DataFrame(rows, columns=["attribute", "term", "texts", *decided, *scored])
