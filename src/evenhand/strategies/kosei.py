"""KOSEI: a worklist of the neighbours of all findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evenhand._validate import check_settings
from evenhand.search import Problem, Query, Search, count_rounds, judge, round_size
from evenhand.spaces.individuals import Individuals

NEIGHBOURS, CODES = 2**20, 2**25
"""Maximum number of individuals that one wave proposes, and of their codes if the space is too large for ids."""
LOCAL = 8
"""Number of local tests per draw of a round, before the next round samples again."""


@dataclass(frozen=True)
class Kosei:
    """AEQUITAS's global search, then breadth-first through the neighbours of all findings.

    Sano, Kitamura and Takada, "An efficient discrimination discovery method for fairness testing", SEKE 2022. The
    breadth-first worklist is judged in waves, with the same findings in the same order as in the sequential program.

    The paper samples once and then empties the worklist (``rounds=1``). Here both alternate: each round draws twice as
    many individuals as the one before, then continues the worklist for eight local tests per draw. So the first
    findings lead to others at once, and a search whose worklist runs empty samples on until the budget ends.
    Algorithm 3 limits pops (``pops``); the paper's tables fit a limit of 2000 judged local tests for each seed:
    ``Kosei(samples=2000, per_seed=2000, rounds=1)``.

    >>> Kosei(samples=500).rounds is None
    True
    """

    samples: int = 64
    """Random individuals of the first round; every later round draws twice as many."""
    per_seed: int | None = None
    """Maximum number of local tests per seed found by sampling."""
    pops: int | None = None
    """Maximum number of individuals taken from the worklist."""
    wave: int = 8192
    """Number of individuals taken from the worklist at a time; affects speed and memory, not findings."""
    rounds: int | None = None
    """Number of rounds; the last one empties the worklist. None: until the budget or the space ends."""

    uses_data: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Sample, then judge the neighbours of findings; repeat."""
        worklist = Worklist(problem, self.wave, self.pops)
        seeds = tests = 0
        for number in count_rounds(self.rounds):
            sample = problem.sample(round_size(self.samples, number))
            if len(sample):
                verdicts = yield from judge(sample)
                worklist.append(sample[verdicts.found])
                seeds += len(verdicts.found)
            last = not len(sample) or number + 1 == self.rounds
            limits = [None if last else LOCAL * len(sample), self.per_seed and self.per_seed * seeds - tests]
            tests += yield from worklist.explore(min((n for n in limits if n is not None), default=None))
            if not len(sample):
                # Every individual of the space has been drawn.
                return


class Worklist:
    """Individuals whose neighbours are judged next: first in, first out."""

    def __init__(self, problem: Problem, wave: int, pops: int | None) -> None:
        space, self._pops = problem.space, pops
        # A space with many values has many neighbours; a wave is cut so that they fit into memory.
        most = NEIGHBOURS if space.has_ids else min(NEIGHBOURS, CODES // len(space.names))
        self._wave = max(1, min(wave, most // space.move_table.count))
        self._space, self._blocks = space, deque[Individuals]()
        self._proposed: Individuals | None = None
        """Neighbours of the last popped individuals that are not judged yet."""

    def __len__(self) -> int:
        """Number of waiting individuals, without those whose neighbours are being judged."""
        return sum(map(len, self._blocks))

    def append(self, block: Individuals) -> None:
        """Put a block at the end, in the form that takes least memory."""
        if len(block):
            self._blocks.append(Individuals.from_stored(block.space, block.stored))

    def explore(self, limit: int | None) -> Generator[Query, Any, int]:
        """Pop, judge the neighbours and append what is found, up to ``limit`` fresh tests; return how many."""
        tests = 0
        while limit is None or tests < limit:
            if self._proposed is None:
                popped = self._pop(self._wave if limit is None else min(self._wave, limit - tests))
                if not len(popped):
                    break
                self._proposed = self._space.neighbours(popped)
            neighbours, left = self._proposed, None if limit is None else limit - tests
            verdicts = yield from judge(neighbours, limit=left)
            self.append(neighbours[verdicts.found])
            tests += len(verdicts.positions)
            self._proposed = None
            if len(verdicts.positions) == left:
                self._proposed = neighbours[int(verdicts.positions[-1]) + 1 :]
        return tests

    def _pop(self, most: int) -> Individuals:
        """Take up to ``most`` individuals from the front."""
        if self._pops is not None:
            most = min(most, self._pops)
        parts = [Individuals(self._space, rows=np.empty((0, len(self._space.names)), dtype=np.int32))]
        while self._blocks and most > 0:
            block = self._blocks.popleft()
            parts.append(block[:most])
            if len(block) > most:
                self._blocks.appendleft(block[most:])
            most -= len(parts[-1])
        popped = parts[1] if len(parts) == 2 else Individuals.join(parts)
        if self._pops is not None:
            self._pops -= len(popped)
        return popped
