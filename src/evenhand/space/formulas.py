"""Constraints as formulas of the solver z3, over the codes of the attributes.

Whatever speaks of one attribute is judged code by code and becomes intervals of codes; so texts, missing values and
odd steps need no translation. Calculations with several attributes become terms, see ``terms``. A formula holds
wherever its constraint does and, where floats are rounded, perhaps at its very border too: that there is no solution
can be believed, and a solution must be checked by the constraint itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.space.attributes import Integer, Real
from evenhand.space.constraints import Constraint
from evenhand.space.expressions import (
    And,
    Arithmetic,
    Column,
    Columns,
    Compare,
    Condition,
    Literal,
    Member,
    Missing,
    Not,
    Or,
    Value,
    listed,
)
from evenhand.space.terms import Number, Terms

JUDGED = 2**17
"""Codes of a numeric attribute up to which conditions on it alone are judged code by code."""
INTERVALS = 64
"""Intervals of codes that such a condition may have; beyond them it is translated as a calculation."""


class Formulas(Terms):
    """Translates constraints on some attributes, whose codes are given as integer unknowns of the solver."""

    def formula(self, constraint: Constraint) -> Any:
        """Translate a constraint, or raise if nothing can be told of its calculations."""
        self._text = constraint.text
        return self.condition(constraint.tree)

    def intervals(self, code: Any, mask: npt.NDArray[np.bool_]) -> Any:
        """Say that a code is one of those in the mask."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
        spans = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        return self._any([code == a if a + 1 == b else self._all(code >= a, code < b) for a, b in spans])

    def condition(self, node: Condition) -> Any:
        """Translate a condition."""
        alone = self._alone(node)
        if alone is not None:
            return alone
        match node:
            case And(parts):
                return self._all(*[self.condition(part) for part in parts])
            case Or(parts):
                return self._any([self.condition(part) for part in parts])
            case Not(part):
                return self.z3.Not(self.condition(part))
            case Missing(operand):
                return self._any(list(self.number(operand).missing))
            case Member(operand, values):
                number = self.number(operand)
                options = [number.term == self.constant(Fraction(float(value))) for value in values]
                return self._present(self._any(options), number)
            case Compare(op, left, right):
                if listed(left, self.attributes) is not None:
                    return self._listed(op, left, right)
                a, b = self.number(left), self.number(right)
                return self._present(_compared(op, a.term, b.term), a, b)

    def _alone(self, node: Condition) -> Any:
        """Judge a condition on at most one attribute code by code; None where that would be too long."""
        names = _names(node)
        if len(names) > 1:
            return None
        attribute = self.attributes[next(iter(names), next(iter(self.attributes)))]
        numeric = isinstance(attribute, Integer | Real)
        if numeric and attribute.size > JUDGED:
            return None
        with np.errstate(all="ignore"):
            truth = Columns([attribute], {attribute.name: np.arange(attribute.size)}, coded=True).truth(node)
        mask = np.broadcast_to(np.asarray(truth, dtype=bool), attribute.size)
        if numeric and np.count_nonzero(np.diff(mask)) > 2 * INTERVALS:
            return None
        return self.intervals(self.codes[attribute.name], mask)

    def _listed(self, op: str, left: Value, right: Value) -> Any:
        """Compare two attributes with listed values."""
        first, second = listed(left, self.attributes), listed(right, self.attributes)
        assert first is not None
        assert second is not None
        a, b = self.codes[first.name], self.codes[second.name]
        present = [code < own.present for code, own in ((a, first), (b, second)) if own.has_missing]
        if first.values == second.values:
            return self._all(_compared(op, a, b), *present)
        common = [(first._index[value], k) for k, value in enumerate(second.values) if value in first._index]
        same = self._any([self._all(a == i, b == k) for i, k in common])
        return self._all(same if op == "==" else self.z3.Not(same), *present)

    def _present(self, truth: Any, *numbers: Number) -> Any:
        return self._all(truth, *[self.z3.Not(when) for number in numbers for when in number.missing])

    def _all(self, *parts: Any) -> Any:
        return parts[0] if len(parts) == 1 else self.z3.And(*parts)

    def _any(self, parts: list[Any]) -> Any:
        if not parts:
            return self.z3.BoolVal(False, self.context)
        return parts[0] if len(parts) == 1 else self.z3.Or(*parts)


def _compared(op: str, a: Any, b: Any) -> Any:
    match op:
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b


def _names(node: Condition | Value) -> set[str]:
    """The attributes that a condition mentions."""
    match node:
        case Column(name):
            return {name}
        case Literal():
            return set()
        case Arithmetic(_, left, right) | Compare(_, left, right):
            return _names(left) | _names(right)
        case Missing(operand) | Member(operand, _):
            return _names(operand)
        case Not(part):
            return _names(part)
        case And(parts) | Or(parts):
            return set().union(*map(_names, parts))
