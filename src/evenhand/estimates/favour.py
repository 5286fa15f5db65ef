"""What people want of the model: an outcome, one of several, a better one of an order, or a higher or lower number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import json_value, native, plain
from evenhand._rng import Stream
from evenhand.engine.judge import Mask
from evenhand.engine.probe import ModelProbe
from evenhand.errors import ORDER, THRESHOLD, ModelError, SpaceError
from evenhand.models.base import Model

HIGHER, LOWER = "higher", "lower"
SHOWN = 8
LOOKED_AT = 5_000
"""Individuals among whom a decision is looked for that was not met."""
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """Outcomes from worst to best: of two people, the one whose outcome comes later is favoured.

    It must name every outcome of the model.

    >>> Order(["refused", "reduced", "granted"])
    Order('refused' < 'reduced' < 'granted')
    """

    outcomes: tuple[Any, ...]

    def __init__(self, outcomes: Iterable[Any]) -> None:
        listed = _outcomes(outcomes)
        if listed is None or len(listed) < 2:
            raise ModelError(f"an order lists at least two outcomes, worst first, got {outcomes!r}")
        if twice := [one for i, one in enumerate(listed) if any(alike(one, other) for other in listed[:i])]:
            raise ModelError(f"an order names each outcome once, got {twice[0]!r} twice in {list(listed)!r}")
        object.__setattr__(self, "outcomes", listed)

    def __repr__(self) -> str:
        return f"Order({' < '.join(map(repr, self.outcomes))})"


Wanted = Any
"""One outcome, a tuple of several, an ``Order``, "higher", "lower", or None where nobody said."""


class Favour:
    """The favourable outcomes: finds them among the decisions and the scores.

    A decision is matched by its value or, as the command line writes it, by its text.

    >>> from evenhand.models.wrap import wrap
    >>> Favour(wrap(lambda X: X), "1").of(np.array([[0, 1]]))
    array([[False,  True]])
    >>> Favour(wrap(lambda X: X), Order(["no", "perhaps", "yes"])).ranks(np.array([["yes", "no"]]))
    array([[2, 0]])
    """

    def __init__(self, model: Model, favourable: Any) -> None:
        self.model = model
        self.favourable: Wanted = normal(favourable)
        self._found: dict[int, Any] = {}
        """The model's own value of each outcome that is named, by its place."""
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
                    f"must leave some decision of {model.name} out",
                    parameter="favourable",
                    value=self._given,
                    remedy=("name fewer, or give their order: ", ORDER),
                )

    def of(self, labels: npt.NDArray[Any]) -> Mask | None:
        """Tell who gets a favourable decision, of an order the best; None without a wish, or with numbers only."""
        ranks = self.ranks(labels)
        return None if ranks is None else np.asarray(ranks == (len(self._named) - 1 if self._ordered else 1))

    def ranks(self, labels: npt.NDArray[Any]) -> Ranks | None:
        """Rank decisions, the best highest; None where it is not known what people want, or by numbers only."""
        if self.favourable is None or self.model.regression or labels.dtype.kind == "f":
            return None
        if self._ordered or not self.complete:
            import pandas as pd

            self._meet([value for value in pd.unique(labels.ravel()).tolist() if value not in self._seen])
        out = np.zeros(labels.shape, dtype=np.int64)
        for place, value in self._found.items():
            out[labels == value] = place if self._ordered else 1
        return out

    def level(self, scores: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
        """Return the score of what people want, or of the second of two; None where no one number says it."""
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
        """Whether ``level`` is minus the model's own number, because people want that to be low."""
        if self.favourable is None or width > 1:
            return False
        if directs(self.favourable):
            return bool(self.favourable == LOWER)
        classes = self._classes(2)
        if not any(alike(value, one) for value in classes for one in self._named):
            # A number speaks for the second of two decisions, and for nothing else.
            raise self._directed(self.model, self.favourable)
        return not self._wants(classes[-1])

    def scored(self, width: int) -> tuple[Any, ...]:
        """Name the decisions whose score is compared, of so many columns; none where it is the model's own number."""
        if width == 1:
            return () if self.model.classes is None else (self._classes(2)[-1],)
        classes = self._classes(width)
        return (classes[-1],) if self.favourable is None else tuple(value for value in classes if self._wants(value))

    @property
    def complete(self) -> bool:
        """Whether the model made every decision that is named."""
        return len(self._found) == len(self._named)

    def check(self) -> None:
        """Raise where the model decided this and that but never what people are said to want."""
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
        """Note decisions that the model makes; raise where an order does not say how good one is."""
        self._seen += values
        for value in values:
            place = next((i for i, one in enumerate(self._named) if alike(value, one)), None)
            if place is not None:
                self._found.setdefault(place, value)
            elif self._ordered:
                raise ModelError(
                    f"must say how good {value!r} is, which {self.model.name} decides too",
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
            remedy=("or make them decisions with ", THRESHOLD),
        )

    def _unknown(self) -> ModelError:
        lost = next(one for i, one in enumerate(self._named) if i not in self._found)
        which = "" if lost is self.favourable else f": {lost!r}"
        shown = ", ".join(repr(value) for value in self._seen[:SHOWN])
        return ModelError(
            f"must be a decision of {self.model.name}{which}",
            parameter="favourable",
            value=self._given,
            remedy=f"it decides {shown}; name some of these",
        )


def look_for(favour: Favour, asker: ModelProbe) -> int:
    """Ask about drawn individuals where a decision that is named was not met; raise if it is not met there either.

    Few rows need not meet every decision. Returns how many were asked.
    """
    if favour.favourable is None or favour.complete or asker.model.regression:
        return 0
    try:
        people = asker.space.sampler.deal(Stream(0), 0, LOOKED_AT)[0]
    except SpaceError:
        people = None
    if people is not None:
        favour.ranks(asker.labels(people.rows))
    favour.check()
    return 0 if people is None else len(people)


def normal(favourable: Any) -> Wanted:
    """Check what people want, and write it in one way: several outcomes as a tuple, one as itself.

    >>> normal(["granted", "granted with conditions"]), normal(["granted"])
    (('granted', 'granted with conditions'), 'granted')
    """
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
        raise ModelError(f"favourable must name at least one outcome, got {favourable!r}; leave it out if none is")
    unique = tuple(one for i, one in enumerate(listed) if not any(alike(one, other) for other in listed[:i]))
    return unique if len(unique) > 1 else unique[0]


def outcomes_of(wanted: Wanted) -> tuple[Any, ...]:
    """List the outcomes that are named.

    >>> outcomes_of(("a", "b")), outcomes_of(Order(["a", "b"])), outcomes_of("a"), outcomes_of(None)
    (('a', 'b'), ('a', 'b'), ('a',), ())
    """
    if isinstance(wanted, Order):
        return wanted.outcomes
    return wanted if isinstance(wanted, tuple) else () if wanted is None else (wanted,)


def directs(wanted: Wanted) -> bool:
    """Whether people want a number to be high, or low.

    >>> directs("higher"), directs("granted")
    (True, False)
    """
    return isinstance(wanted, str) and wanted in (HIGHER, LOWER)


def wish(wanted: Wanted) -> str:
    """Say what people want, as part of a sentence.

    >>> wish("granted"), wish(("granted", "reduced")), wish(Order(["no", "yes"])), wish("lower")
    ('“granted”', '“granted” or “reduced”', 'a better outcome', 'a lower number')
    """
    if isinstance(wanted, Order):
        return "a better outcome"
    if directs(wanted):
        return f"a {wanted} number"
    return " or ".join(f"“{plain(one)}”" for one in outcomes_of(wanted))


def wish_json(wanted: Wanted) -> Any:
    """Give what people want in values that JSON has: an outcome, a list of them, or ``{"order": [...]}``.

    >>> wish_json(Order(["no", "yes"])), wish_json(("a", "b")), wish_json(np.int64(1))
    ({'order': ['no', 'yes']}, ['a', 'b'], 1)
    """
    values = [json_value(native(one)) for one in outcomes_of(wanted)]
    if isinstance(wanted, Order):
        return {"order": values}
    return values if isinstance(wanted, tuple) else values[0] if values else None


def alike(one: Any, other: Any) -> bool:
    """Whether two decisions are the same: by value or, as files and the command line write them, by text.

    >>> alike(1, True), alike(1, "1"), alike(1.0, 1), alike("yes", "no")
    (True, True, True, False)
    """
    return bool(one == other) or str(one) == str(other)


def _outcomes(value: Any) -> tuple[Any, ...] | None:
    """List outcomes in the order that they have, a set by name; None where it is no collection of single ones."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    listed = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    if wrong := [one for one in listed if not _single(one)]:
        raise ModelError(f"favourable lists single outcomes, got {wrong[0]!r} among them")
    return tuple(listed)


def _single(value: Any) -> bool:
    import pandas as pd

    return np.ndim(value) == 0 and not isinstance(value, dict | set | frozenset | Order) and not pd.isna(value)
