"""KOSEI: a worklist over the neighbours of everything found."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from evenhand.search import Problem, Search, test
from evenhand.space.individuals import Individuals
from evenhand.strategies._checks import at_least

NEIGHBOURS = 2**20
"""The most individuals that one wave proposes."""


@dataclass(frozen=True)
class Kosei:
    """AEQUITAS's global search, then breadth-first through the neighbours of all findings.

    Sano, Kitamura and Takada, "An efficient discrimination discovery method for fairness testing", SEKE 2022. A
    breadth-first worklist may be judged in waves: the findings and their order are those of the sequential program.
    Algorithm 3 limits pops (``pops``); the paper's tables fit a limit of judged local tests, 2000 for each seed
    (``per_seed=2000``). Neither is set by default: the budget ends the search.

    >>> Kosei(samples=500).samples
    500
    """

    samples: int = 2000
    """Random individuals of the global phase."""
    per_seed: int | None = None
    """Local tests judged, for each seed that the global phase found."""
    pops: int | None = None
    """Individuals taken from the worklist."""
    wave: int = 8192
    """How many individuals are taken from the worklist at a time; it changes speed and memory, not findings."""

    uses_data: ClassVar[bool] = False

    def __post_init__(self) -> None:
        at_least(self, 1, "samples", "per_seed", "pops", "wave")

    def search(self, problem: Problem) -> Search:
        """Sample globally, then pop, move every free attribute, judge, and append what is found."""
        sample = problem.sample(self.samples)
        verdicts = yield from test(sample)
        worklist = Worklist(sample[verdicts.found])
        tests = None if self.per_seed is None else self.per_seed * len(worklist)
        pops = self.pops
        # A space with many values has many neighbours; a wave is cut so that they fit into memory.
        wave = max(1, min(self.wave, NEIGHBOURS // problem.space.move_table.count))
        while len(worklist) and tests != 0 and pops != 0:
            popped = worklist.pop(wave if pops is None else min(pops, wave))
            neighbours = problem.space.neighbours(popped)
            verdicts = yield from test(neighbours, limit=tests)
            worklist.append(neighbours[verdicts.found])
            if tests is not None:
                tests -= len(verdicts.positions)
            if pops is not None:
                pops -= len(popped)


class Worklist:
    """First in, first out, in blocks."""

    def __init__(self, first: Individuals) -> None:
        self._blocks = deque([first])
        self._length = len(first)

    def __len__(self) -> int:
        return self._length

    def append(self, block: Individuals) -> None:
        """Put a block at the end, in the form that takes the least memory."""
        self._blocks.append(Individuals.from_stored(block.space, block.stored))
        self._length += len(block)

    def pop(self, most: int) -> Individuals:
        """Take up to ``most`` individuals from the front."""
        parts: list[Individuals] = []
        while self._blocks and most > 0:
            block = self._blocks.popleft()
            parts.append(block[:most])
            if len(block) > most:
                self._blocks.appendleft(block[most:])
            most -= len(parts[-1])
        self._length -= sum(map(len, parts))
        return parts[0] if len(parts) == 1 else Individuals.join(parts)
