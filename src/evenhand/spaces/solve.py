"""Members of boxes that meet the space's constraints: the nearest to given individuals, or random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.individuals import Rows
from evenhand.spaces.ties import FOUND, NONE, OPEN, TIMEOUT, Boxes, Mask, Mended, Tie, choose, rings, scan, ties

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

LIMIT_MS = 1000
"""How long one call of the solver may take, in milliseconds."""
ATTEMPTS = 8
"""Draws after which a valid combination is chosen from the list or solved for."""
UNSATISFIABLE, GIVEN_UP = -1, -2
"""Codes of nobody, and why."""


@dataclass(frozen=True)
class Solved:
    """Members of boxes; nothing is guessed.

    Attributes
    ----------
    rows
        One row of codes a box; in every column ``UNSATISFIABLE`` where the box was proved to have no valid member, or
        ``GIVEN_UP`` where the solver came to its limit.
    """

    rows: Rows

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
    """Raise at once where the solver may be needed and cannot serve.

    It is not installed, cannot be told a constraint, or finds that the constraints contradict each other.
    """
    for tie in ties(space):
        if tie.table is None:
            from evenhand.spaces.z3 import Solver

            Solver(tie, LIMIT_MS)


def solve_nearest(boxes: Boxes, rows: Rows, *, limit_ms: int = LIMIT_MS) -> Solved:
    """Find of box ``i`` the valid member nearest to row ``i``.

    Nearest is who changes the fewest attributes; of those, who is at the least distance (differences of codes of
    ordered attributes, 1 for a nominal one that changes); of those, who has the smallest codes in the space's order.
    That is one individual, whichever way it is found.

    Parameters
    ----------
    boxes
        Where to look.
    rows
        From where, as rows of codes; they need neither lie in the boxes nor be valid.
    limit_ms
        How long one call of the solver may take. It is counted as work, so that repeated runs give up at the same
        places; only constraints on more than four million combinations come to the solver at all.

    Examples
    --------
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

    Parameters
    ----------
    boxes
        Where to look.
    stream, walkers, step
        What the draws depend on: the stream, one number a box, and the step.
    limit_ms
        How long one call of the solver may take, see ``solve_nearest``.

    Examples
    --------
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
            mended = _nearest(tie, boxes[which], out[which], limit_ms)
        else:
            mended = choose(tie, boxes[which], stream.bits(f"tie{columns[0]}", numbers[which], step))
        _enter(tie, which, mended, out, state)
    return _result(out, state)


def _known(boxes: Boxes) -> npt.NDArray[np.int8]:
    return np.where(boxes.empty, NONE, FOUND).astype(np.int8)


def _broken(tie: Tie, rows: Rows, state: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Which individuals break a constraint of the tie; those that are lost already are not asked for."""
    which = np.flatnonzero(state == FOUND)
    return which[~tie.valid(rows[which[:, None], np.array(tie.columns)])]


def _nearest(tie: Tie, boxes: Boxes, rows: Rows, limit_ms: int) -> Mended:
    out = rings(tie, boxes, rows)
    rest = np.flatnonzero(out.state == OPEN)
    if len(rest):
        if tie.table is not None:
            mended = scan(tie, boxes[rest], rows[rest])
        else:
            from evenhand.spaces.z3 import Solver

            # A new one for every call: what a solver has learnt before would change where it gives up, and a resumed
            # run has not solved what it reads from its log.
            mended = Solver(tie, limit_ms).nearest(boxes[rest], rows[rest], out.least[rest])
        out.codes[rest], out.state[rest] = mended.codes, mended.state
    return out


def _enter(tie: Tie, which: npt.NDArray[np.int64], mended: Mended, rows: Rows, state: npt.NDArray[np.int8]) -> None:
    rows[which[:, None], np.array(tie.columns)] = mended.codes
    state[which] = mended.state


def _result(rows: Rows, state: npt.NDArray[np.int8]) -> Solved:
    rows[state == NONE] = UNSATISFIABLE
    rows[state == TIMEOUT] = GIVEN_UP
    return Solved(rows)
