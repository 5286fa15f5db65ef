"""THEMIS's baseline: uniform random individuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenhand._validate import check_settings
from evenhand.search import Problem, Search, judge


@dataclass(frozen=True)
class Themis:
    """Judge uniform random individuals until the budget or the space ends.

    Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination", ESEC/FSE 2017. Their program
    counts duplicates; here a repeat costs and counts nothing.

    >>> Themis().samples is None
    True
    """

    samples: int | None = None
    """Maximum number of individuals to draw; None: until the budget or the space ends."""
    block: int = 32_768
    """Number of individuals drawn at a time."""

    uses_data: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Draw and judge, block by block."""
        drawn = 0
        while self.samples is None or drawn < self.samples:
            wanted = self.block if self.samples is None else min(self.block, self.samples - drawn)
            individuals = problem.sample(wanted)
            if not len(individuals):
                return
            drawn += len(individuals)
            yield from judge(individuals)
