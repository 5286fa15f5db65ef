"""The nearest valid combination of tied attributes by the solver z3, for ties too large to enumerate."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_int
from evenhand.errors import MissingExtra, SpaceError
from evenhand.spaces.attributes import Attribute, Integer, Real
from evenhand.spaces.constraints import Constraint
from evenhand.spaces.expressions import (
    COMPARE,
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
    shown,
    walk,
)
from evenhand.spaces.individuals import Rows
from evenhand.spaces.sampler import contradiction
from evenhand.spaces.ties import FOUND, NONE, TIMEOUT, Boxes, Solutions, Tie

_ERROR = Fraction(1, 2**52)
"""Twice what one rounding can do, relative to the result."""
_TINY = Fraction(1, 2**1000)
"""More than what a rounding can do near zero."""
_HUGE = 2**1000
"""Beyond this a calculation may overflow, which makes it missing."""
_WHOLE = 2**50
"""Quotients below this have an exact floor."""


def import_z3() -> Any:
    """Import z3; raise with the extra to install where it is missing."""
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
    """Translates calculations with some attributes; ``facts`` are the conditions on the new unknowns."""

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
        """Return a number as a term."""
        if value.denominator == 1:
            return self.z3.IntVal(value.numerator, self.context)
        return self.z3.Q(value.numerator, value.denominator, self.context)

    def _column(self, attribute: Attribute, code: Any) -> Number:
        assert isinstance(attribute, Integer | Real)
        low, step = Fraction(attribute.low), Fraction(attribute.step or 1)
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
        """Take a result as it is if it is exactly a float, else as an unknown near it."""
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
        remedy = "write it with smaller numbers or without the division, or narrow its attributes"
        return SpaceError(
            f"the constraint {shown(self._text)} cannot be translated for the solver: {why}", remedy=remedy
        )


def _grid(value: Fraction) -> Fraction:
    """Return the largest power of two that divides a number."""
    return Fraction(value.numerator & -value.numerator, value.denominator) if value else Fraction(1)


JUDGED = 2**17
"""Codes of a numeric attribute up to which conditions on it alone are judged code by code."""
INTERVALS = 64
"""Intervals of codes that such a condition may have; beyond them it is translated as a calculation."""


class Formulas(Terms):
    """Translates constraints on some attributes, whose codes are given as integer unknowns of the solver."""

    def formula(self, constraint: Constraint) -> Any:
        """Translate a constraint; raise if its calculations have no bounds."""
        self._text = constraint.text
        return self.condition(constraint.tree)

    def intervals(self, code: Any, mask: npt.NDArray[np.bool_]) -> Any:
        """Return the condition that a code is one of those in the mask."""
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
                return self._present(COMPARE[op](a.term, b.term), a, b)

    def _alone(self, node: Condition) -> Any:
        """Judge a condition on at most one attribute code by code; None where that would be too long."""
        names = {part.name for part in walk(node) if isinstance(part, Column)}
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
            return self._all(COMPARE[op](a, b), *present)
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


WORK = 1000
"""Units of z3's own count of work in a millisecond; measured, 700 to 2800."""
LONGEST_MS = 1_000_000
"""The longest limit; z3 counts work in 32 bits."""
PATIENCE = 4
"""How many times its limit a call may take by the clock, should the count of work not stop it."""
REFUSED = 200
"""Solutions of the formulas that break a constraint, by a rounding, in a row after which a box is given up."""


class GaveUp(Exception):
    """The solver reached its limit without an answer."""


class Solver:
    """Solves boxes of one tie; the domain and the constraints are added once, each box is pushed and popped.

    The limit counts z3's work and not time, so that a repeated run gives up at the same places. The clock is a second,
    wider limit.
    """

    def __init__(self, tie: Tie, limit_ms: int) -> None:
        check_int("limit_ms", limit_ms, SpaceError, 1, LONGEST_MS)
        self.z3 = import_z3()
        self.tie = tie
        context = self.z3.Context()
        self.solver = self.z3.Solver(ctx=context)
        # z3 would take Ctrl-C for itself and report that it does not know.
        self.solver.set("ctrl_c", False)
        self.solver.set("rlimit", limit_ms * WORK)
        self.solver.set("timeout", limit_ms * PATIENCE)
        self.codes = [self.z3.Int(f"c{j}", context) for j in tie.columns]
        attributes = [tie.space.attributes[j] for j in tie.columns]
        for code, attribute in zip(self.codes, attributes, strict=True):
            self.solver.add(code >= 0, code < attribute.size)
        self.formulas = Formulas(attributes, self.codes)
        for constraint in tie.constraints:
            self.solver.add(self.formulas.formula(constraint))
        self.solver.add(*self.formulas.facts)
        if self.solver.check() == self.z3.unsat:
            raise contradiction(c.text for c in tie.constraints)

    def nearest(self, boxes: Boxes, rows: Rows, least: Any) -> Solutions:
        """Find the nearest valid combination of each box; ``least`` is how many attributes change at least."""
        out = Solutions.blank(self.tie, len(rows), TIMEOUT)
        for i in range(len(rows)):
            self.solver.push()
            try:
                codes = self._solved(boxes[i : i + 1], rows[i], int(least[i]))
                out.state[i] = NONE if codes is None else FOUND
                out.codes[i] = -1 if codes is None else codes
            except GaveUp:
                pass
            finally:
                self.solver.pop()
        return out

    def _solved(self, box: Boxes, row: npt.NDArray[np.int32], least: int) -> list[int] | None:
        z3, ordered = self.z3, self.tie.space.ordered
        own = row[list(self.tie.columns)].tolist()
        changes, gaps = [], []
        for code, j, mine in zip(self.codes, self.tie.columns, own, strict=True):
            changes.append(z3.If(code == mine, 0, 1))
            if not ordered[j]:
                self.solver.add(self.formulas.intervals(code, box.codes(j)[0]))
                gaps.append(changes[-1])
                continue
            low, high = int(box.low[0, j]), int(box.high[0, j])
            self.solver.add(code >= low, code <= high)
            if mine <= low or mine >= high:
                gaps.append(code - mine if mine <= low else mine - code)
            else:
                gaps.append(z3.If(code >= mine, code - mine, mine - code))
        best = self._find()
        if best is None:
            return None
        best = self._fewest(z3.Sum(changes), own, least, best)
        clamped = box.nearest(row[None])[0, list(self.tie.columns)]
        best = self._least(z3.Sum(gaps), lambda codes: self._distance(codes, own), self._distance(clamped, own), best)
        # The optimum is nearly always the only one; where it is not, each code in turn is made as small as it can be.
        smaller = z3.BoolVal(False, self.solver.ctx)
        for code, value in zip(reversed(self.codes), reversed(best), strict=True):
            smaller = z3.Or(code < value, z3.And(code == value, smaller))
        if self._find(smaller) is None:
            return best
        for i, code in enumerate(self.codes):
            best = self._least(code, operator.itemgetter(i), 0, best)
        return best

    def _fewest(self, changes: Any, own: list[int], least: int, best: list[int]) -> list[int]:
        """Let more and more attributes change: mostly the first answer is yes."""
        count = sum(a != b for a, b in zip(best, own, strict=True))
        for most in range(least, count):
            found = self._find(changes <= most)
            if found is not None:
                count, best = most, found
                break
        self.solver.add(changes <= count)
        return best

    def _least(self, term: Any, measure: Callable[[list[int]], int], low: int, best: list[int]) -> list[int]:
        """Make a term as small as possible, by bisection, and hold it there."""
        high = measure(best)
        middle = high - 1
        while low < high:
            found = self._find(term <= middle)
            if found is None:
                low = middle + 1
            else:
                best, high = found, measure(found)
            middle = (low + high) // 2
        self.solver.add(term <= high)
        return best

    def _distance(self, codes: npt.ArrayLike, own: npt.ArrayLike) -> int:
        return int(self.tie.distance(np.asarray(codes, dtype=np.int32), np.asarray(own, dtype=np.int32)))

    def _find(self, *conditions: Any) -> list[int] | None:
        """Find any valid combination under more conditions; None if there is none."""
        switch = self.z3.FreshBool("s", ctx=self.solver.ctx)
        self.solver.add(self.z3.Implies(switch, self.z3.And(self.z3.BoolVal(True, self.solver.ctx), *conditions)))
        for _ in range(REFUSED):
            answer = self.solver.check(switch)
            if answer == self.z3.unsat:
                return None
            if answer == self.z3.unknown:
                raise GaveUp
            model = self.solver.model()
            codes = [model.eval(code, model_completion=True).as_long() for code in self.codes]
            broken = self._broken(codes)
            if not broken:
                return codes
            # A float was rounded: the formulas allow what a constraint does not. Exclude the values of its attributes.
            for columns in broken:
                self.solver.add(self.z3.Or(*[self.codes[i] != codes[i] for i in columns]))
        raise GaveUp

    def _broken(self, codes: list[int]) -> list[list[int]]:
        """The places of the attributes of each constraint that a combination breaks."""
        names = [self.tie.space.names[j] for j in self.tie.columns]
        row = {name: np.array([code]) for name, code in zip(names, codes, strict=True)}
        return [
            [names.index(name) for name in constraint.names]
            for constraint in self.tie.constraints
            if not constraint.holds_codes(row)[0]
        ]
