"""KOSEI as its paper has it: one individual at a time, plain Python. The reference for findings, order and speed.

Sano, Kitamura and Takada, "An efficient discrimination discovery method for fairness testing", SEKE 2022, Algorithms 2
and 3, with line 10's domain test the way round that the text means.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Individual = tuple[int, ...]


@dataclass
class Sequential:
    """A model under test, the attributes' domains, and which of them are protected (by position)."""

    model: Any
    domains: Sequence[tuple[int, int]]
    protected: Sequence[int]
    judged: set[Individual] = field(default_factory=set)
    """What was evaluated so far, without the protected values (the paper's D_total)."""

    def __post_init__(self) -> None:
        self.free = [p for p in range(len(self.domains)) if p not in self.protected]

    def discriminates(self, individual: Individual) -> bool:
        """Ask the model about everyone who differs in protected attributes only, in one call."""
        values = [range(self.domains[p][0], self.domains[p][1] + 1) for p in self.protected]
        counterparts = []
        for combination in itertools.product(*values):
            counterpart = list(individual)
            for p, value in zip(self.protected, combination, strict=True):
                counterpart[p] = value
            counterparts.append(counterpart)
        return len(set(self.model.predict(np.array(counterparts, dtype=np.float64)))) > 1

    def is_new(self, individual: Individual) -> bool:
        """Tell whether an individual was never evaluated, and remember it."""
        key = tuple(individual[p] for p in self.free)
        if key in self.judged:
            return False
        self.judged.add(key)
        return True

    def global_search(self, sample: Iterable[Individual]) -> list[Individual]:
        """Return the discriminatory individuals of a sample."""
        return [d for d in sample if self.is_new(d) and self.discriminates(d)]

    def local_search(self, seeds: Iterable[Individual]) -> Iterator[Individual]:
        """Pop the oldest; move each free attribute by -1 and +1; what discriminates is found, and appended."""
        worklist = deque(seeds)
        while worklist:
            d = worklist.popleft()
            for p in self.free:
                low, high = self.domains[p]
                for delta in (-1, +1):
                    moved = (*d[:p], d[p] + delta, *d[p + 1 :])
                    if low <= moved[p] <= high and self.is_new(moved) and self.discriminates(moved):
                        worklist.append(moved)
                        yield moved
