"""Repairs as a matplotlib figure; nothing is shown or written, that is up to who asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenhand.estimates.plots import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evenhand.repairs.result import Repair

ORIGINAL, COLOURS = "#64748b", ("#c2410c", "#0f766e", "#1d4ed8", "#a21caf", "#a16207")
POPULATIONS = {"uniform": "of valid individuals", "data": "of people like the held-out rows"}


def tradeoff(repairs: Mapping[str, Repair]) -> Figure:
    """Draw accuracy against the share treated differently, before and after each repair, with intervals.

    The best place is the upper left corner. Accuracy is that of the held-out rows.
    """
    figure = empty_figure(9.6, 3.8)
    for number, (population, words) in enumerate(POPULATIONS.items()):
        axes = figure.add_subplot(1, 2, number + 1)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for place, (name, repair) in enumerate(repairs.items()):
            if place == 0:
                _point(axes, repair.before, population, ORIGINAL, "original", "s")
            _point(axes, repair.after, population, COLOURS[place % len(COLOURS)], name, "o")
        axes.set_xlabel(f"treated differently, % {words}")
        axes.set_ylabel("accuracy, %")
        axes.set_xlim(left=0)
        axes.legend(frameon=False, fontsize="small")
    return figure


def _point(axes: Axes, evidence: Any, population: str, colour: str, name: str, marker: str) -> None:
    rate, right = getattr(evidence, population), evidence.accuracy
    if rate is None:
        return
    axes.errorbar(
        [100 * rate.rate],
        [100 * right.value],
        xerr=[[100 * (rate.rate - rate.low)], [100 * (rate.high - rate.rate)]],
        yerr=[[100 * (right.value - right.low)], [100 * (right.high - right.value)]],
        fmt=marker,
        color=colour,
        capsize=2,
        elinewidth=0.8,
        label=name,
    )
