"""Uniform valid individuals who meet a rule, and how many of all do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.explanations.rules import Rule
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.sampler import Digit

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Choice = range | npt.NDArray[np.int64]
"""Some of a digit's combinations; a range is never listed, however long it is."""
TRIES = 20
"""Draws for each individual that is wanted, where constraints or earlier regions turn many down."""


class Source:
    """Independent samples: each one has draws of its own, so that none was looked at before.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("hours", 0, 60), Boolean("sex")], protected="sex", constraints=["hours != 50"])
    >>> source, rule = Source(space, 0), Rule(space).where(0, (49, 51))
    >>> sorted(set(source.inside(rule, 100).rows[:, 0].tolist())), source.share(rule)
    ([49, 51], 0.03333333333333333)
    """

    def __init__(self, space: Space, seed: int, purpose: str = "regions") -> None:
        self.space = space
        # Draws of their own: those of a random search with the same seed are what rules are learnt from.
        self._base = Stream(int(Stream(seed).bits(purpose, 0, 0)[0] >> np.uint64(1)))
        self._number = 0

    def stream(self) -> Stream:
        """Return a stream that nobody has drawn from."""
        self._number += 1
        return Stream(int(self._base.bits("sample", self._number, 0)[0] >> np.uint64(1)))

    def everybody(self, n: int) -> Individuals:
        """Draw uniform valid individuals."""
        return self.space.sampler.draw(self.stream(), 0, n, repeats=True)[0]

    def outside(self, rules: list[Rule], n: int) -> Individuals:
        """Draw uniform valid individuals who meet none of the rules; fewer where there are hardly any."""
        stream, start, parts, found = self.stream(), 0, [], 0
        while found < n and start < TRIES * n:
            people, start = self.space.sampler.draw(stream, start, n, repeats=True)
            parts.append(people[np.flatnonzero(~within(rules, people))][: n - found])
            found += len(parts[-1])
        return Individuals.join(parts)

    def inside(self, rule: Rule, n: int, without: list[Rule] | None = None) -> Individuals:
        """Draw uniform valid individuals who meet a rule, and none of some others; fewer where there are hardly any."""
        stream, start, parts, found = self.stream(), 0, [], 0
        choices = [_allowed(rule, digit) for digit in self.space.sampler.digits]
        possible = all(choice is None or len(choice) for choice in choices)
        while found < n and start < TRIES * n and possible:
            rows = self._draw(choices, stream, np.arange(start, start + n))
            start += n
            if self.space.sampler.rejects:
                rows = rows[self.space.valid(rows)]
            people = self.space.individuals(rows)
            parts.append(people[np.flatnonzero(~within(without or [], people))][: n - found])
            found += len(parts[-1])
        return Individuals.join(parts) if parts else self.everybody(0)

    def share(self, rule: Rule) -> float:
        """Return which share of the individuals that the sampler can draw meet the rule."""
        counts = [(_allowed(rule, digit), digit.count) for digit in self.space.sampler.digits]
        return math.prod(1.0 if choice is None else len(choice) / count for choice, count in counts)

    def _draw(
        self, choices: list[Choice | None], stream: Stream, numbers: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int32]:
        out = np.empty((len(numbers), len(self.space.names)), dtype=np.int32)
        for i, (digit, choice) in enumerate(zip(self.space.sampler.digits, choices, strict=True)):
            at = stream.below(digit.count if choice is None else len(choice), "rule", numbers, i)
            at = at if choice is None else choice.start + at if isinstance(choice, range) else choice[at]
            out[:, list(digit.columns)] = at[:, None] if digit.table is None else digit.table[at]
        return out


def within(rules: list[Rule], people: Individuals) -> npt.NDArray[np.bool_]:
    """Tell who meets at least one of some rules."""
    out = np.zeros(len(people), dtype=bool)
    for rule in rules:
        out |= rule.inside(people.rows)
    return out


def _allowed(rule: Rule, digit: Digit) -> Choice | None:
    """Which of a digit's combinations meet the rule; None: all."""
    if all(rule.of(j) is None for j in digit.columns):
        return None
    if digit.table is None:
        (column,) = digit.columns
        codes = rule.of(column)
        assert codes is not None
        return range(codes[0], codes[1] + 1) if rule.space.ordered[column] else np.array(codes, dtype=np.int64)
    met = np.ones(digit.count, dtype=bool)
    for i, column in enumerate(digit.columns):
        met &= rule.meets(column, digit.table[:, i])
    return np.flatnonzero(met)
