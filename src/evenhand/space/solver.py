"""The nearest legal combination of tied attributes by the solver z3, for ties too large to enumerate."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import SpaceError
from evenhand.space.boxes import Boxes
from evenhand.space.formulas import Formulas
from evenhand.space.individuals import Rows
from evenhand.space.terms import import_z3
from evenhand.space.ties import FOUND, NONE, TIMEOUT, Mended, Tie

WORK = 1000
"""Units of z3's own count of work in a millisecond; measured, 700 to 2800."""
LONGEST_MS = 1_000_000
"""The longest limit; z3 counts work in 32 bits."""
PATIENCE = 4
"""How many times its limit a call may take by the clock, should the count of work not stop it."""
REFUSED = 200
"""Solutions of the formulas that break a constraint, by a rounding, in a row after which a box is given up."""


class GaveUp(Exception):
    """The solver could not tell within its limit."""


class Solver:
    """Solves boxes of one tie; the domain and the constraints are told once, each box is pushed and popped.

    The limit is one of work, which z3 counts, and not of time: what was given up once is given up again wherever and
    whenever a run is repeated. The clock is only a net below it.
    """

    def __init__(self, tie: Tie, limit_ms: int) -> None:
        if isinstance(limit_ms, bool) or not isinstance(limit_ms, int) or not 1 <= limit_ms <= LONGEST_MS:
            raise SpaceError(f"limit_ms must be a whole number of 1 to {LONGEST_MS:,} milliseconds, got {limit_ms!r}")
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
            texts = " and ".join(repr(c.text) for c in tie.constraints)
            raise SpaceError(
                f"no legal individual: {texts} cannot hold together; loosen one of them or widen an attribute's bounds"
            )

    def nearest(self, boxes: Boxes, rows: Rows, least: Any) -> Mended:
        """Find the nearest legal combination of each box; ``least`` is how many attributes change at least."""
        out = Mended.blank(self.tie, len(rows), TIMEOUT)
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
        """Make a term as small as it can be and hold it there: is it so already? If not, by bisection."""
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
        """Find any legal combination under more conditions; None if there is none."""
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
            # A float was rounded: the formulas allow what a constraint does not. Its attributes alone are to blame.
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
