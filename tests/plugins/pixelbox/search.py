"""Two searches: one of attributes, one of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evenhand.search import Problem, Search, judge


@dataclass(frozen=True)
class Mirrored:
    """Random individuals, and each finding with all its free values mirrored."""

    samples: int = 500
    """Random individuals of one round."""

    def search(self, problem: Problem) -> Search:
        """Sample and mirror, in turns."""
        space = problem.space
        while len(people := problem.sample(self.samples)):
            verdicts = yield from judge(people)
            rows = people[verdicts.found].rows.copy()
            for column in space.free_columns:
                rows[:, column] = space.present[column] - 1 - rows[:, column]
            yield from judge(space.individuals(rows[space.valid(rows)]))


@dataclass(frozen=True)
class Flips:
    """Images of the data and random ones, then findings with one pixel changed."""

    samples: int = 300
    """Random images of one round."""
    flips: int = 4
    """Changed images that one finding gives."""

    needs: ClassVar[str] = "pixels"

    def search(self, problem: Problem) -> Search:
        """Sample, and change what was found, in turns."""
        space: Any = problem.bound
        if problem.data is not None:
            yield from judge(problem.data)
        number = 0
        while True:
            images = space.random(problem.stream, number, self.samples)
            verdicts = yield from judge(images)
            parents = np.repeat(images[verdicts.found].rows, self.flips, axis=0)
            here = np.arange(len(parents))
            pixel = space.free[problem.stream.below(len(space.free), "pixel", here, number)]
            parents[here, pixel] = problem.stream.below(space.levels, "level", here, number)
            yield from judge(space.images(parents))
            number += 1
