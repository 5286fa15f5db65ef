"""Which free attributes a difference depends on: draw one anew, and see whether the difference is still there."""

from __future__ import annotations

import numpy as np

from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.estimates.intervals import clopper_pearson
from evenhand.explanations.drawing import Source
from evenhand.explanations.result import Interaction, Rate
from evenhand.spaces.individuals import Individuals

MOST, FEWEST = 500, 20
"""Individuals of whom one attribute after the other is drawn anew, and how few where more do not fit into the rows."""
CELLS = 2**23
"""Codes of individuals who are asked about together."""


def interactions(judge: Judge, source: Source, unfair: Individuals, confidence: float) -> list[Interaction]:
    """Tell for each free attribute how often drawing it anew ends a difference, most often first.

    Of uniform individuals this is the total effect of the attribute on the verdict (Sobol's index, in the form of
    Jansen 1999) but for a factor that all attributes share. An attribute that the difference does not depend on, alone
    or with others, has exactly 0.

    Parameters
    ----------
    judge
        Judges.
    source
        Where new values are drawn from.
    unfair
        Independent individuals who are treated differently.
    confidence
        Of the intervals.
    """
    space, out = judge.space, []
    people = unfair[: _affordable(judge)]
    if not len(people):
        return []
    step = max(1, CELLS // (len(people) * len(space.names)))
    for start in range(0, len(space.free_columns), step):
        columns = space.free_columns[start : start + step]
        rows = np.repeat(people.rows[None], len(columns), axis=0)
        for i, j in enumerate(columns):
            rows[i, :, j] = source.stream().below(int(space.sizes[j]), "anew", np.arange(len(people)), 0)
        valid = space.valid(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
        able, still = judge.judged(space.individuals(rows[valid]))
        of = np.nonzero(valid)[0]
        ended = np.bincount(of[able & ~still], minlength=len(columns))
        asked = np.bincount(of[able], minlength=len(columns))
        low, high = clopper_pearson(ended, asked, confidence)
        for i, j in enumerate(columns):
            rate = Rate(int(ended[i]), int(asked[i]), float(low[i]), float(high[i]))
            out.append(Interaction(space.names[j], rate))
    return sorted(out, key=lambda it: -it.ends.rate)


def _affordable(judge: Judge) -> int:
    """How many individuals can be asked about all attributes."""
    if judge.limit is None:
        return MOST
    left = (judge.limit - judge.rows) // (judge.cost * len(judge.space.free_columns))
    if left < FEWEST:
        raise RowLimitReached
    return min(MOST, left)
