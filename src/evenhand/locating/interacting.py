"""Which free attributes a difference depends on: draw one anew, and see whether the difference is still there."""

from __future__ import annotations

import numpy as np

from evenhand.locating.drawing import Source
from evenhand.locating.result import Interaction, Rate
from evenhand.measuring.intervals import clopper_pearson
from evenhand.rejudging import Examiner
from evenhand.space.individuals import Individuals

MOST = 500
"""Individuals of whom one attribute after the other is drawn anew."""


def interactions(examiner: Examiner, source: Source, unfair: Individuals, confidence: float) -> list[Interaction]:
    """Tell for each free attribute how often drawing it anew ends a difference, most often first.

    Of uniform individuals this is the total effect of the attribute on the verdict (Sobol's index, in the form of
    Jansen 1999) but for a factor that all attributes share. An attribute that the difference does not depend on, alone
    or with others, has exactly 0.

    Parameters
    ----------
    examiner
        Judges.
    source
        Where new values are drawn from.
    unfair
        Independent individuals who are treated differently.
    confidence
        Of the intervals.
    """
    space, out = examiner.space, []
    people = unfair[:MOST]
    if not len(people):
        return []
    for j in space.free_columns:
        rows = people.rows.copy()
        rows[:, j] = source.stream().below(int(space.sizes[j]), "anew", np.arange(len(rows)), 0)
        moved = space.individuals(rows[space.legal(rows)])
        able, still = examiner.judged(moved)
        ended, asked = int((able & ~still).sum()), int(able.sum())
        low, high = clopper_pearson(ended, asked, confidence)
        out.append(Interaction(space.names[j], Rate(ended, asked, float(low), float(high))))
    return sorted(out, key=lambda it: -it.ends.rate)
