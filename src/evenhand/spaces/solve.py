"""Members of boxes that meet the space's constraints: the nearest to given individuals, or random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.attributes import Mask
from evenhand.spaces.individuals import Rows
from evenhand.spaces.ties import FOUND, NONE, OPEN, TIMEOUT, Boxes, Solutions, Tie, choose, rings, scan, ties

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

LIMIT_MS = 1000
"""How long one call of the solver may take, in milliseconds."""
ATTEMPTS = 8
"""Draws after which a valid combination is chosen from the list or solved for."""
UNSATISFIABLE, GIVEN_UP = -1, -2
"""Codes in place of an individual: there is none, or the solver gave up."""


@dataclass(frozen=True)
class Solved:
    """Members of boxes."""

    rows: Rows
    """One row of codes a box; in every column ``UNSATISFIABLE`` where the box was proved to have no valid member, or
    ``GIVEN_UP`` where the solver reached its limit."""

    @property
    def found(self) -> Mask:
        """Which boxes have a member."""
        return np.asarray(self.rows[:, 0] >= 0)

    @property
    def unsatisfiable(self) -> int:
        """How many boxes were proved to have no valid member."""
        return int((self.rows[:, 0] == UNSATISFIABLE).sum())

    @property
    def timeouts(self) -> int:
        """How many boxes the solver gave up at its limit."""
        return int((self.rows[:, 0] == GIVEN_UP).sum())


def check_solvable(space: Space) -> None:
    """Raise where the solver may be needed and is missing, or cannot use the constraints."""
    for tie in ties(space):
        if tie.table is None:
            from evenhand.spaces.z3 import Solver

            Solver(tie, LIMIT_MS)


def solve_nearest(boxes: Boxes, rows: Rows, *, limit_ms: int = LIMIT_MS) -> Solved:
    """Find the valid member of box ``i`` nearest to row ``i``.

    Nearest is the member that changes the fewest attributes; of those, the one at the least distance (differences of
    codes of ordered attributes, 1 for a nominal one that changes); of those, the one with the smallest codes in the
    space's order. So the answer does not depend on the technique.

    Rows need neither lie in the boxes nor be valid. ``limit_ms`` is how long one call of the solver may take, counted
    as work, so that repeated runs give up at the same places. Only constraints on more than four million combinations
    need the solver.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("age", 0, 9), Integer("hours", 0, 9), Nominal("sex", ["F", "M"])]
    >>> space = Space(attributes, protected=["sex"], constraints=["hours <= age"])
    >>> low = Boxes.all(space, 2).restrict([0, 1], [0, 0], [3, -1], [True, True])
    >>> solved = solve_nearest(low, np.array([[7, 5, 1], [7, 5, 1]], dtype=np.int32))
    >>> solved.rows.tolist(), solved.unsatisfiable
    ([[3, 3, 1], [-1, -1, -1]], 1)
    """
    out, state = boxes.nearest(rows), _known(boxes)
    # The clamped row is, column by column, the best that its box has. Where it is valid it is therefore the best of
    # the valid members, which are some of all; and so for the columns of each tie alone.
    for tie in ties(boxes.space):
        which = _broken(tie, out, state)
        if len(which):
            _enter(tie, which, _nearest(tie, boxes[which], rows[which], limit_ms), out, state)
    return _result(out, state)


def solve_any(boxes: Boxes, stream: Stream, walkers: npt.ArrayLike, step: int, *, limit_ms: int = LIMIT_MS) -> Solved:
    """Find a random valid member of each box.

    Members are drawn; attributes whose draw breaks a constraint are drawn again, some times, and then chosen from the
    list of their valid combinations: all valid members of a box are equally likely. Only where constraints tie more
    than four million combinations together, so that there is no list, they become the nearest to what was drawn.

    Draws depend on the stream, one number a box (``walkers``), and the step.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("age", 0, 9), Integer("hours", 0, 9), Nominal("sex", ["F", "M"])]
    >>> space = Space(attributes, protected=["sex"], constraints=["hours == age + 9"])
    >>> solve_any(Boxes.all(space, 3), Stream(0), np.arange(3), 0).rows[:, :2].tolist()
    [[0, 9], [0, 9], [0, 9]]
    """
    numbers = np.broadcast_to(np.asarray(walkers), len(boxes))
    out, state = boxes.draw(stream, numbers, step), _known(boxes)
    for tie in ties(boxes.space):
        columns = np.array(tie.columns)
        which = _broken(tie, out, state)
        for attempt in range(1, ATTEMPTS):
            drawn = boxes[which].draw(stream, numbers[which], step, attempt=attempt, columns=columns)
            out[which[:, None], columns] = drawn
            which = which[~tie.valid(drawn)]
        if not len(which):
            continue
        if tie.table is None:
            solved = _nearest(tie, boxes[which], out[which], limit_ms)
        else:
            solved = choose(tie, boxes[which], stream.bits(f"tie{columns[0]}", numbers[which], step))
        _enter(tie, which, solved, out, state)
    return _result(out, state)


def _known(boxes: Boxes) -> npt.NDArray[np.int8]:
    return np.where(boxes.empty, NONE, FOUND).astype(np.int8)


def _broken(tie: Tie, rows: Rows, state: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Find the individuals, not lost yet, that break a constraint of the tie."""
    which = np.flatnonzero(state == FOUND)
    return which[~tie.valid(rows[which[:, None], np.array(tie.columns)])]


def _nearest(tie: Tie, boxes: Boxes, rows: Rows, limit_ms: int) -> Solutions:
    out = rings(tie, boxes, rows)
    rest = np.flatnonzero(out.state == OPEN)
    if len(rest):
        if tie.table is not None:
            solved = scan(tie, boxes[rest], rows[rest])
        else:
            from evenhand.spaces.z3 import Solver

            # A new solver for every call: what one has learnt changes where it gives up, and a resumed run reads
            # earlier solutions from its log.
            solved = Solver(tie, limit_ms).nearest(boxes[rest], rows[rest], out.least[rest])
        out.codes[rest], out.state[rest] = solved.codes, solved.state
    return out


def _enter(tie: Tie, which: npt.NDArray[np.int64], solved: Solutions, rows: Rows, state: npt.NDArray[np.int8]) -> None:
    rows[which[:, None], np.array(tie.columns)] = solved.codes
    state[which] = solved.state


def _result(rows: Rows, state: npt.NDArray[np.int8]) -> Solved:
    rows[state == NONE] = UNSATISFIABLE
    rows[state == TIMEOUT] = GIVEN_UP
    return Solved(rows)
