"""Impact ratios: each group's selection rate over that of the most selected group, with intervals that hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.estimates.intervals import Numbers, weighted

if TYPE_CHECKING:
    from evenhand.estimates.deciding import Decided
    from evenhand.estimates.group_rates import Group

FOUR_FIFTHS = 0.8
Ends = tuple[Numbers, Numbers]


def ratio_ends(low: Numbers, high: Numbers, low_at_once: Numbers) -> Ends:
    """Interval of each rate over the largest of all, from one-sided bounds of the rates.

    ``low`` and ``high`` hold for each group by itself, ``low_at_once`` for all groups together. The largest rate is at
    most the largest upper bound, because that of the truly largest group is no lower; it is at least the largest of
    the lower bounds that hold together. So it does not matter which group happens to come out on top.

    >>> ends = ratio_ends(np.array([0.2, 0.4]), np.array([0.3, 0.6]), np.array([0.19, 0.39]))
    >>> [end.round(2).tolist() for end in ends]
    [[0.33, 0.67], [0.77, 1.0]]
    """
    most, least = float(np.max(high)), float(np.max(low_at_once))
    return (
        low / most if most else np.zeros_like(low),
        np.minimum(1.0, high / least) if least else np.ones_like(high),
    )


def impact_ratios(
    groups: list[Group],
    members: list[npt.NDArray[np.int64]],
    known: Decided,
    confidence: float,
    smallest: float,
    verdicts: int,
) -> list[Group]:
    """Add impact ratios to the groups that are large enough; so many intervals and ``verdicts`` hold at once."""
    able = [i for i, group in enumerate(groups) if group.rate is not None and group.share >= smallest]
    best = max((groups[i].rate or 0.0 for i in able), default=0.0)
    if not best:
        return groups
    here = [members[i] for i in able]
    low, high = _ends(here, known, 1 - (1 - confidence) / verdicts)
    out = list(groups)
    for k, i in enumerate(able):
        verdict = "insufficient evidence"
        if high[k] < FOUR_FIFTHS:
            verdict = "below four fifths"
        elif low[k] >= FOUR_FIFTHS:
            verdict = "at least four fifths"
        ratio = (groups[i].rate or 0.0) / best
        ends = float(low[k]), float(high[k])
        out[i] = replace(groups[i], impact_ratio=ratio, impact_low=ends[0], impact_high=ends[1], verdict=verdict)
    return out


def _ends(members: list[npt.NDArray[np.int64]], known: Decided, confidence: float) -> Ends:
    """Intervals of the ratios of some groups; each of four bounds on rates takes a quarter of the risk."""
    risk = (1 - confidence) / 4
    alone, at_once = (
        np.array([weighted(known.selected[at], known.weight(at), 1 - 2 * part) for at in members])
        for part in (risk, risk / len(members))
    )
    return ratio_ends(alone[:, 0], alone[:, 1], at_once[:, 0])
