"""Rules: conjunctions of conditions on free attributes, in words; and uniform individuals who meet one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import json_value, plain
from evenhand._rng import Stream
from evenhand.spaces.attributes import Attribute
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.sampler import Digit

if TYPE_CHECKING:
    from evenhand.spaces.individuals import Rows
    from evenhand.spaces.tabular import Space

Choice = range | npt.NDArray[np.int64]
"""Some of a digit's combinations; a range is never listed, however long it is."""
TRIES = 20
"""Draws for each individual that is wanted, where constraints or earlier regions turn many down."""
Codes = tuple[int, ...]
"""The first and the last code of an ordered attribute; every code of a nominal one."""


@dataclass(frozen=True)
class Rule:
    """Individuals who meet every condition. A missing value is the last code, so thresholds take it as the largest.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("hours", 0, 60), Nominal("work", ["clerk", "nurse", "cook"]), Boolean("sex")]
    >>> space = Space(attributes, protected="sex")
    >>> rule = Rule(space).where(0, (45, 60)).where(1, (0, 1))
    >>> rule.words
    'hours >= 45 and work is not cook'
    >>> rule.inside(np.array([[50, 0, 1], [50, 2, 1]])).tolist()
    [True, False]
    """

    space: Space = field(repr=False, compare=False)
    conditions: tuple[tuple[int, Codes], ...] = ()
    """Column and codes, in the space's order; columns without one may have any code."""

    def of(self, column: int) -> Codes | None:
        """Return the codes that a column may have; None: all."""
        return dict(self.conditions).get(column)

    def where(self, column: int, codes: Codes | None) -> Rule:
        """Put another condition on a column, or none; one that everybody meets is none."""
        size = int(self.space.sizes[column])
        if codes is not None and (codes == (0, size - 1) if self.space.ordered[column] else len(codes) == size):
            codes = None
        kept = {j: c for j, c in self.conditions if j != column}
        if codes is not None:
            kept[column] = codes
        return Rule(self.space, tuple(sorted(kept.items())))

    def both(self, other: Rule) -> Rule:
        """Return the rule of who meets this one and another.

        >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
        >>> space = Space([Integer("hours", 0, 60), Boolean("sex")], protected="sex")
        >>> Rule(space).where(0, (10, 60)).both(Rule(space).where(0, (0, 20))).words
        'hours 10 to 20'
        """
        out = self
        for column, codes in other.conditions:
            mine = self.of(column)
            if mine is None:
                out = out.where(column, codes)
            elif self.space.ordered[column]:
                out = out.where(column, (max(mine[0], codes[0]), min(mine[1], codes[1])))
            else:
                out = out.where(column, tuple(code for code in mine if code in codes))
        return out

    def meets(self, column: int, codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Tell which codes of a column meet its condition."""
        wanted = self.of(column)
        if wanted is None:
            return np.ones(len(codes), dtype=bool)
        if self.space.ordered[column]:
            return np.asarray((codes >= wanted[0]) & (codes <= wanted[1]))
        return np.isin(codes, wanted)

    def inside(self, rows: Rows | npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Tell which rows meet all conditions."""
        out = np.ones(len(rows), dtype=bool)
        for column, _ in self.conditions:
            out &= self.meets(column, rows[:, column])
        return out

    @property
    def words(self) -> str:
        """Say the conditions in the user's names and values."""
        return " and ".join(self.phrases) or "everybody"

    @property
    def phrases(self) -> list[str]:
        """Say each condition."""
        return [
            (_interval if attribute.ordered else _set)(attribute, codes)
            for j, codes in self.conditions
            for attribute in [self.space.attributes[j]]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Give each condition in plain values: the least and the greatest value, or all values; missing is None."""
        out = {}
        for j, codes in self.conditions:
            attribute = self.space.attributes[j]
            if attribute.ordered:
                low, high = codes
                top = min(high, attribute.present - 1)
                out[attribute.name] = {
                    "least": _json(attribute, low) if low <= top else None,
                    "greatest": _json(attribute, top) if low <= top else None,
                    "missing": attribute.has_missing and high == attribute.present,
                }
            else:
                out[attribute.name] = {"values": [_json(attribute, code) for code in codes]}
        return out


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
        """Return a stream that has not been drawn from."""
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
        """Return which share of the individuals that the sampler can deal meet the rule."""
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


def _interval(attribute: Attribute, codes: Codes) -> str:
    (low, high), name, last = codes, plain(attribute.name), attribute.present - 1
    if low > last:
        return f"{name} missing"
    absent = " or missing" if high > last else ""
    top = min(high, last)
    if low == 0 and top == last:
        return f"{name} not missing"
    if attribute.kind == "boolean":
        return (name if low else f"not {name}") + absent
    if low == top:
        return f"{name} = {_value(attribute, low)}{absent}"
    if low == 0:
        return f"{name} <= {_value(attribute, top)}{absent}"
    if top == last:
        return f"{name} >= {_value(attribute, low)}{absent}"
    return f"{name} {_value(attribute, low)} to {_value(attribute, top)}{absent}"


def _set(attribute: Attribute, codes: Codes) -> str:
    others = [code for code in range(attribute.size) if code not in codes]
    if len(others) < len(codes):
        return f"{plain(attribute.name)} is not {' or '.join(_value(attribute, code) for code in others)}"
    if len(codes) == 1:
        return f"{plain(attribute.name)} = {_value(attribute, codes[0])}"
    return f"{plain(attribute.name)} is {' or '.join(_value(attribute, code) for code in codes)}"


def _value(attribute: Attribute, code: int) -> str:
    return plain(_json(attribute, code))


def _json(attribute: Attribute, code: int) -> Any:
    return json_value(attribute.decode(np.array([code]))[0])
