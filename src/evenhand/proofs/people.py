"""Proofs for real people: whether anyone within a stated distance of a row of data is treated differently.

The individuals within the distance form a box around the row. It is split until every part is decided, or until the
nearest individual that is treated differently is known: parts that are further away than one that was found are left
out. The model is asked about every individual that is named.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from evenhand._format import count
from evenhand.engine.judge import Judge
from evenhand.errors import DataError, ModelError
from evenhand.proofs.boxes import Limits
from evenhand.proofs.domain import INSTEAD, UNDECIDED, UNFAIR, Codes, Ints, Mask
from evenhand.proofs.ensembles import Ensemble
from evenhand.proofs.pairs import pairs_of
from evenhand.spaces.attributes import Integer, Real
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space

Within: TypeAlias = float | Mapping[str, float | bool]
Ask: TypeAlias = Callable[[npt.NDArray[Any], Ints], Mask]
"""Asks about individuals, by codes of the free attributes and the number of their own protected values."""


@dataclass(frozen=True, eq=False)
class People:
    """What is proved about each row of the data.

    ``frame`` has one line for each row: ``row``, its position in the data; and ``verdict``: ``fair`` if no individual
    within the distance is treated differently, ``different`` if one is, or ``undecided``. Where one is, it also has
    that individual's ``distance``, the sum of the shares of the ranges by which it differs and 1 for each other value;
    whether it is certainly the ``nearest``; its values; and those of its counterpart.
    """

    frame: pd.DataFrame = field(repr=False)
    within: str
    seconds: float = field(repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of rows by verdict."""
        found = self.frame["verdict"].value_counts()
        return {verdict: int(found.get(verdict, 0)) for verdict in ("fair", "different", "undecided")}

    @property
    def decided(self) -> float:
        """The share of rows that are decided."""
        return 1 - self.counts["undecided"] / max(1, len(self.frame))

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        fair, different, undecided = self.counts.values()
        text = (
            f"within {self.within} of {count(fair)} of {count(len(self.frame))} rows, no one is treated differently; "
            f"of {count(different)}, someone is"
        )
        return text + (f"; {count(undecided)} are undecided" if undecided else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        return {"within": self.within, "rows": len(self.frame), **self.counts, "seconds": self.seconds}

    def __repr__(self) -> str:
        return f"People: {self.sentence}"


@dataclass(frozen=True, eq=False)
class Reach:
    """How far each free attribute may differ, in codes, and what one code counts as distance."""

    steps: Ints
    """-1: any value."""
    scale: npt.NDArray[np.float64]
    words: str

    @staticmethod
    def of(space: Space, within: Within) -> Reach:
        """Read what ``within`` says.

        >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal
        >>> space = Space([Integer("age", 1, 41), Nominal("work", ["a", "b"]), Boolean("member")], "member")
        >>> Reach.of(space, 0.05).steps.tolist(), Reach.of(space, {"age": 3, "work": True}).steps.tolist()
        ([2, 0], [3, -1])
        """
        free = [space.attributes[j] for j in space.free_columns]
        numeric = [isinstance(one, Integer | Real) for one in free]
        if isinstance(within, Mapping):
            given = dict(within)
            unknown = [name for name in given if name not in {one.name for one in free}]
            if unknown:
                raise DataError(
                    f"{unknown[0]!r} is not an attribute that may differ", parameter="within",
                    remedy=f"name some of {', '.join(one.name for one in free)}",
                )  # fmt: skip
            words = ", ".join(f"{name} {_words(value)}" for name, value in given.items())
        else:
            given = {one.name: within for one, is_number in zip(free, numeric, strict=True) if is_number}
            words = _words(within)
        steps, scale = np.zeros(len(free), dtype=np.int64), np.ones(len(free))
        for i, (one, is_number) in enumerate(zip(free, numeric, strict=True)):
            scale[i] = 1 / max(1, one.present - 1) if is_number else 1.0
            value = given.get(one.name, 0)
            fits = isinstance(value, bool | int | float | np.number) and math.isfinite(value) and value >= 0
            if not fits or (isinstance(value, float) and value > 1) or (not is_number and not isinstance(value, bool)):
                fit = "a number of steps, or a share such as 0.05" if is_number else "True for any value"
                if value != 0:
                    raise DataError(f"cannot be {value!r} for {one.name}", parameter="within", remedy=f"give {fit}")
            if isinstance(value, bool):
                steps[i] = -1 if value else 0
            else:
                steps[i] = math.floor(value * (one.present - 1) + 1e-9) if isinstance(value, float) else int(value)
        return Reach(steps, scale, words)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "any" if value else "unchanged"
    if isinstance(value, float):
        return f"{100 * value:g}%"
    return f"{value} step{'s' * (value != 1)}"


@dataclass(eq=False)
class Neighbourhoods:
    """The boxes around rows, while they are split; rows are codes of the free attributes and own protected values."""

    ensemble: Ensemble
    free: Ints
    own: Ints
    reach: Reach
    ask: Ask

    def __post_init__(self) -> None:
        domain = self.ensemble.grid.domain
        groups = np.zeros(len(domain.combinations), dtype=np.int64)
        for number, owns in enumerate(domain.groups):
            groups[list(owns)] = number
        self.group = groups[self.own]
        last = np.array([domain.space.attributes[j].present - 1 for j in domain.columns])
        any_ = self.reach.steps < 0
        known = self.free <= last
        self.first = np.where(any_, 0, np.where(known, np.maximum(self.free - self.reach.steps, 0), self.free))
        self.last = np.where(
            any_, domain.sizes - 1, np.where(known, np.minimum(self.free + self.reach.steps, last), self.free)
        )
        self.distance = np.full(len(self.free), np.inf)
        """The distance of the nearest individual that is treated differently, so far."""
        self.example = self.free.copy()
        self.open = np.zeros(len(self.free), dtype=bool)
        """Rows whose box is not decided completely."""

    def decide(self, limits: Limits) -> None:
        """Split boxes until all are decided, or a limit is reached."""
        waiting, size = [self._begin()], self.ensemble.batch
        while waiting:
            if limits.reached(0):
                for part in waiting:
                    self.open[part[0]] = True
                return
            chosen = [waiting.pop()]
            while waiting and sum(len(part[0]) for part in chosen) < size:
                chosen.append(waiting.pop())
            owner, low, high, pattern = (np.concatenate(part) for part in zip(*chosen, strict=True))
            if len(owner) > size:
                waiting.append((owner[size:], low[size:], high[size:], pattern[size:]))
                owner, low, high, pattern = owner[:size], low[:size], high[:size], pattern[:size]
            near = np.flatnonzero(self._gaps(owner, low, high).sum(axis=1) < self.distance[owner])
            if not len(near):
                continue
            owner, low, high, pattern = owner[near], low[near], high[near], pattern[near]
            bounds = self.ensemble.bound(low, high)
            verdicts = self.ensemble.verdicts(bounds, pattern)[np.arange(len(owner)), self.group[owner]]
            clear = np.flatnonzero((verdicts == UNDECIDED) & bounds.single)
            self._found(owner, low, high, np.flatnonzero(verdicts == UNFAIR), certain=True)
            self._found(owner, low, high, clear, certain=False)
            left = np.flatnonzero((verdicts == UNDECIDED) & ~bounds.single)
            if len(left):
                place, cell = self.ensemble.cuts(bounds[left], low[left], high[left])
                rows = np.arange(len(left))
                upper, lower = low[left].copy(), high[left].copy()
                lower[rows, place], upper[rows, place] = cell - 1, cell
                new_low, new_high = np.concatenate([low[left], upper]), np.concatenate([lower, high[left]])
                owners = np.concatenate([owner[left], owner[left]])
                # The part that is nearer to its row comes first.
                order = np.argsort(self._gaps(owners, new_low, new_high).sum(axis=1), kind="stable")
                patterns = np.concatenate([pattern[left], pattern[left]])
                waiting.append((owners[order], new_low[order], new_high[order], patterns[order]))

    def _begin(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the boxes, divided by what constraints allow families: owners, cells, and patterns."""
        domain, starts = self.ensemble.grid.domain, self.ensemble.grid.starts
        parts = []
        for root in domain.roots:
            first, last = np.maximum(self.first, root.low), np.minimum(self.last, root.high)
            some = np.flatnonzero((first <= last).all(axis=1))
            low = np.stack([np.searchsorted(s, first[some, i], "right") - 1 for i, s in enumerate(starts)], axis=1)
            high = np.stack([np.searchsorted(s, last[some, i], "right") - 1 for i, s in enumerate(starts)], axis=1)
            parts.append((some, low, high, np.full(len(some), root.pattern)))
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _codes(self, owner: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return boxes as intervals of codes, within the distance of their rows."""
        first, last = self.ensemble.grid.codes(low, high)
        return np.maximum(first, self.first[owner]), np.minimum(last, self.last[owner])

    def _gaps(self, owner: Ints, low: Ints, high: Ints) -> npt.NDArray[np.float64]:
        """Return the least distance of boxes from their rows, by attribute."""
        first, last = self._codes(owner, low, high)
        return self._between(self.free[owner], np.clip(self.free[owner], first, last))

    def _between(self, row: Ints, other: Ints) -> npt.NDArray[np.float64]:
        steps = np.abs(row - other)
        return np.asarray(np.where(self.reach.scale == 1, steps > 0, steps * self.reach.scale))

    def _found(self, owner: Ints, low: Ints, high: Ints, which: Ints, certain: bool) -> None:
        """Take the nearest valid individuals of some boxes; ask about them if the bounds do not tell."""
        if not len(which):
            return
        owner = owner[which]
        first, last = self._codes(owner, low[which], high[which])
        free = np.clip(self.free[owner], first, last)
        valid = self._nearest_valid(owner, first, last, free)
        owner, free = owner[valid], free[valid]
        if not certain and len(owner):
            hits = self.ask(free, self.own[owner])
            owner, free = owner[hits], free[hits]
        distance = self._between(self.free[owner], free).sum(axis=1)
        order = np.argsort(-distance, kind="stable")
        better = order[distance[order] < self.distance[owner[order]]]
        # The last assignment of a row's several ones is the nearest.
        self.distance[owner[better]], self.example[owner[better]] = distance[better], free[better]

    def _nearest_valid(self, owner: Ints, first: Ints, last: Ints, free: Ints) -> Ints:
        """Move individuals to the nearest valid ones in their boxes, and return those that exist."""
        keep = np.ones(len(owner), dtype=bool)
        for tied in self.ensemble.grid.domain.tied:
            places = list(tied.columns)
            wrong = np.flatnonzero(~tied.valid[tuple(free[:, i] for i in places)])
            for row in wrong.tolist():
                ends = zip(first[row, places].tolist(), last[row, places].tolist(), strict=True)
                inside = np.argwhere(tied.valid[tuple(slice(a, b + 1) for a, b in ends)])
                if not len(inside):
                    keep[row] = False
                    continue
                others = np.repeat(self.free[owner[row]][None], len(inside), axis=0)
                others[:, places] = inside + first[row, places]
                nearest = int(self._between(self.free[owner[row]][None], others).sum(axis=1).argmin())
                free[row] = np.where(np.isin(np.arange(free.shape[1]), places), others[nearest], free[row])
        return np.flatnonzero(keep)


def prove_people(
    ensemble: Ensemble, judge: Judge, rows: Codes, positions: Ints, within: Within, limits: Limits
) -> People:
    """Decide the neighbourhoods of rows of codes, which are at some positions of the data."""
    began, domain, space = time.monotonic(), ensemble.grid.domain, ensemble.grid.domain.space
    reach = Reach.of(space, within)
    own = domain.own_of(rows)
    distinct, back = np.unique(np.column_stack([rows[:, domain.columns], own]), axis=0, return_inverse=True)
    free, own, back = distinct[:, :-1].astype(np.int64), distinct[:, -1].astype(np.int64), back.reshape(-1)

    def ask(some: npt.NDArray[Any], owns: Ints) -> Mask:
        return judge.unfair(Individuals(space, rows=domain.rows(some, owns)))

    near = Neighbourhoods(ensemble, free, own, reach, ask)
    near.decide(limits)
    hit = np.isfinite(near.distance)
    found = near.example[hit], own[hit]
    if hit.any() and not ask(*found).all():
        raise ModelError(
            f"{judge.probe.model.name} treats an individual alike that its parameters say is treated differently",
            remedy=INSTEAD,
        )
    verdict = np.where(hit, "different", np.where(near.open, "undecided", "fair"))
    frame = pd.DataFrame({
        "row": positions, "verdict": verdict[back], "distance": np.where(hit, near.distance, np.nan)[back],
        "nearest": (hit & ~near.open)[back],
    })  # fmt: skip
    if hit.any():
        pairs = pairs_of(judge, Individuals(space, rows=domain.rows(*found)))
        values = pairs.reindex(np.where(hit, np.cumsum(hit) - 1, -1)[back]).reset_index(drop=True)
        frame = pd.concat([frame, values], axis=1)
    return People(frame, reach.words, time.monotonic() - began)
