"""Calculations of constraints as terms of the solver z3, over the codes of the attributes.

A constraint calculates with 64-bit floats, a solver with true numbers. Where every result is a float anyway (whole
numbers, quarters), a calculation is translated as it stands. Where a result is rounded, its term is a new unknown that
may lie anywhere within the rounding error. The floats that a constraint really sees are always among the values that
the solver may give its unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from evenhand.errors import MissingExtra, SpaceError
from evenhand.space.attributes import Attribute, Integer, Real
from evenhand.space.expressions import Arithmetic, Column, Literal, Value
from evenhand.space.grammar import shown

_ERROR = Fraction(1, 2**52)
"""Twice what one rounding can do, relative to the result."""
_TINY = Fraction(1, 2**1000)
"""More than what a rounding can do near zero."""
_HUGE = 2**1000
"""Beyond this a calculation may overflow, which makes it missing."""
_WHOLE = 2**50
"""Quotients below this have an exact floor."""


def import_z3() -> Any:
    """Import z3, or say which extra brings it."""
    try:
        import z3
    except ImportError as error:
        raise MissingExtra("z3-solver", "symbolic", "solving constraints on very many combinations") from error
    return z3


class Number(NamedTuple):
    """A value: its term, when it is missing, and what is known of it where it is not."""

    term: Any
    missing: tuple[Any, ...]
    low: Fraction
    high: Fraction
    grid: Fraction | None = None
    """All values are multiples of this power of two, and exact; None where they may be rounded."""
    apart: Fraction | None = None
    """No value but zero itself is nearer to zero than this; None where that is not known."""

    @property
    def largest(self) -> Fraction:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def smallest(self) -> Fraction | None:
        """The smallest absolute value other than zero, if it is known."""
        return max(self.low, -self.high) if self.low > 0 or self.high < 0 else self.apart


class Terms:
    """Translates calculations with some attributes; ``facts`` is what the solver must be told of the new unknowns."""

    def __init__(self, attributes: Sequence[Attribute], codes: Sequence[Any]) -> None:
        self.z3 = import_z3()
        self.attributes = {a.name: a for a in attributes}
        self.codes = dict(zip(self.attributes, codes, strict=True))
        self.context = codes[0].ctx
        self.facts: list[Any] = []
        self._text = ""
        self._numbers: dict[Value, Number] = {}

    def number(self, node: Value) -> Number:
        """Translate a calculation; equal ones share their unknowns."""
        if node not in self._numbers:
            match node:
                case Literal(value):
                    exact = Fraction(float(value))
                    grid = _grid(exact)
                    self._numbers[node] = Number(self.constant(exact), (), exact, exact, grid, grid)
                case Column(name):
                    self._numbers[node] = self._column(self.attributes[name], self.codes[name])
                case Arithmetic(op, left, right):
                    self._numbers[node] = self._calculated(op, self.number(left), self.number(right))
        return self._numbers[node]

    def constant(self, value: Fraction) -> Any:
        """Write a number down."""
        if value.denominator == 1:
            return self.z3.IntVal(value.numerator, self.context)
        return self.z3.Q(value.numerator, value.denominator, self.context)

    def _column(self, attribute: Attribute, code: Any) -> Number:
        assert isinstance(attribute, Integer | Real)
        low, step = (Fraction(v) for v in attribute._grid())
        high = low + step * (attribute.present - 1)
        missing = (code == attribute.present,) if attribute.has_missing else ()
        term = code if step == 1 else self.constant(step) * code
        term = self.constant(low) + term if low else term
        grid = min(_grid(low), _grid(step))
        decimals = (attribute._decimals or 0) if isinstance(attribute, Real) else 0
        # Rounding to decimals changes nothing while the shifted number is a whole one that a float can be.
        most = abs(low) + step * attribute.present
        if most * 10**decimals <= 2**53 * min(grid, Fraction(1)):
            return Number(term, missing, low, high, grid, grid)
        nearest = min(max(math.floor(-low / step), 0), attribute.present - 1)
        around = np.arange(max(nearest - 2, 0), min(nearest + 3, attribute.present))
        values = np.abs(attribute.decode(around).astype(np.float64))
        apart = Fraction(float(values[values > 0].min())) if (values > 0).any() else None
        return self._near(term, missing, low, high, 8 * _ERROR * most)._replace(apart=apart)

    def _calculated(self, op: str, a: Number, b: Number) -> Number:
        missing = a.missing + b.missing
        if op == "*":
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            grid = a.grid * b.grid if a.grid and b.grid else None
            return self._rounded(a.term * b.term, missing, min(corners), max(corners), grid)
        if op in "+-":
            grid = min(a.grid, b.grid) if a.grid and b.grid else None
            if op == "+":
                return self._rounded(a.term + b.term, missing, a.low + b.low, a.high + b.high, grid)
            return self._rounded(a.term - b.term, missing, a.low - b.high, a.high - b.low, grid)
        if b.low <= 0 <= b.high:
            missing += (b.term == 0,)
        if b.low == b.high == 0:
            # Always missing, so that the value does not matter.
            return Number(self.constant(Fraction(0)), missing, Fraction(0), Fraction(0), Fraction(1), Fraction(1))
        if b.smallest is None:
            raise self._error("it divides by a rounded calculation that may come arbitrarily near zero")
        most = a.largest / b.smallest
        return self._divided(a, b, missing, most) if op == "/" else self._floored(op, a, b, missing, most)

    def _divided(self, a: Number, b: Number, missing: tuple[Any, ...], most: Fraction) -> Number:
        if b.low == b.high:
            # A power of two divides without rounding.
            grid = a.grid / abs(b.low) if a.grid and _grid(b.low) == abs(b.low) else None
            ends = sorted((a.low / b.low, a.high / b.low))
            return self._rounded(a.term * self.constant(1 / b.low), missing, ends[0], ends[1], grid)
        self._check(most)
        term = self._unknown(self.z3.Real)
        error = self.constant(_ERROR * a.largest + _TINY * b.largest)
        rest = term * b.term - a.term
        self.facts.append(self.z3.Implies(b.term != 0, self.z3.And(rest <= error, -error <= rest)))
        return Number(term, missing, -2 * most, 2 * most)

    def _floored(self, op: str, a: Number, b: Number, missing: tuple[Any, ...], most: Fraction) -> Number:
        """Translate ``//`` and ``%``, which NumPy builds on the exact remainder of two floats."""
        if most > _WHOLE:
            raise self._error(f"its quotients may exceed {_WHOLE:.0e}")
        term = self._unknown(self.z3.Int)
        rest = a.term - term * b.term
        upward = self.z3.And(rest >= 0, rest < b.term)
        downward = self.z3.And(rest <= 0, rest > b.term)
        if b.low >= 0:
            self.facts.append(self.z3.Implies(b.term > 0, upward))
        elif b.high <= 0:
            self.facts.append(self.z3.Implies(b.term < 0, downward))
        else:
            self.facts.append(self.z3.And(self.z3.Implies(b.term > 0, upward), self.z3.Implies(b.term < 0, downward)))
        if op == "//":
            one = Fraction(1)
            return Number(term, missing, -most - 1, most + 1, one, one)
        grid = min(a.grid, b.grid) if a.grid and b.grid else None
        return self._rounded(rest, missing, min(b.low, Fraction(0)), max(b.high, Fraction(0)), grid)

    def _rounded(
        self, term: Any, missing: tuple[Any, ...], low: Fraction, high: Fraction, grid: Fraction | None
    ) -> Number:
        """Take a result as it stands if it is a float for sure, else as an unknown near it."""
        largest = max(abs(low), abs(high))
        self._check(largest)
        if grid is not None and grid >= _TINY and largest <= grid * 2**53:
            return Number(term, missing, low, high, grid, grid)
        return self._near(term, missing, low, high, _ERROR * largest + _TINY)

    def _near(self, term: Any, missing: tuple[Any, ...], low: Fraction, high: Fraction, error: Fraction) -> Number:
        unknown, bound = self._unknown(self.z3.Real), self.constant(error)
        self.facts.append(self.z3.And(unknown - term <= bound, term - unknown <= bound))
        return Number(unknown, missing, low - error, high + error)

    def _unknown(self, sort: Any) -> Any:
        return sort(f"u{len(self.facts)}", self.context)

    def _check(self, largest: Fraction) -> None:
        if largest > _HUGE:
            raise self._error("its numbers may grow beyond 1e300")

    def _error(self, why: str) -> SpaceError:
        return SpaceError(
            f"the constraint {shown(self._text)} cannot be translated for the solver: {why}; "
            "write it with smaller numbers or without the division, or narrow its attributes"
        )


def _grid(value: Fraction) -> Fraction:
    """Return the largest power of two that divides a number."""
    return Fraction(value.numerator & -value.numerator, value.denominator) if value else Fraction(1)
