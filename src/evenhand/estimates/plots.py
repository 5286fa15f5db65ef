"""Estimates as matplotlib figures, which the caller shows or saves."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from evenhand._format import level, percent
from evenhand._intervals import anytime
from evenhand.errors import MissingExtra
from evenhand.estimates.result import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evenhand.estimates.groups import Groups
    from evenhand.estimates.result import Estimate

LINE, BAND, SECOND = "#c2410c", "#64748b", "#0f766e"
POINTS, MOST = 400, 30


def convergence(estimate: Estimate) -> Figure:
    """Draw the share over the sample, with the interval that holds at every moment."""
    figure, axes = _figure(6.4, 3.2)
    samples, share, weigh = *path(estimate), estimate.kept.weight() is not None
    top = estimate.high
    if not weigh:
        low, high = anytime(np.rint(share * samples), samples, estimate.confidence)
        axes.fill_between(samples, 100 * low, 100 * high, color=BAND, alpha=0.3, linewidth=0,
                          label=f"anytime interval, {level(estimate.confidence)}")  # fmt: skip
        top = max(top, float(np.median(high)))
    axes.plot(samples, 100 * share, color=LINE, label="share found so far" + ", weighted" * weigh)
    if not estimate.exact:
        axes.errorbar(
            [estimate.samples],
            [100 * estimate.rate],
            yerr=[[100 * max(0.0, estimate.rate - estimate.low)], [100 * max(0.0, estimate.high - estimate.rate)]],
            fmt="o",
            color=SECOND,
            capsize=3,
            label=f"result ({estimate.interval})",
        )
    axes.set_xscale("log")
    axes.set_xlabel("texts judged" if estimate.space.supports("texts") else "individuals judged")
    axes.set_ylabel("treated differently, %")
    axes.set_ylim(0, min(100, 100 * max(top, float(share[-1])) * 1.2) or 1)
    axes.legend(frameon=False)
    return figure


def path(estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of individuals judged, and the share found up to then, at moments across the sample.

    The first individuals are known one by one, later ones block by block; with weights, only the first are known.
    """
    unfair, weights = estimate.kept.verdicts(), estimate.kept.weight()
    weights = np.ones(len(unfair)) if weights is None else weights
    early = np.cumsum(weights * unfair) / np.cumsum(weights) * np.arange(1, len(unfair) + 1)
    at = np.unique(np.geomspace(1, len(early), POINTS).astype(np.int64)) if len(early) else np.zeros(0, np.int64)
    points = [(int(n), float(early[n - 1])) for n in at]
    if estimate.samples != len(early) and not estimate.kept.weights:
        # If the whole space was tested, families were counted as a whole.
        if estimate.exact or estimate.unfinished:
            points = [p for p in points if p[0] < estimate.points[0][0]]
        points += [point for point in estimate.points if not points or point[0] > points[-1][0]]
    asked = np.array([n for n, _ in points], dtype=np.float64)
    return asked, np.array([k for _, k in points], dtype=np.float64) / asked


def intervals(estimate: Estimate) -> Figure:
    """Draw the comparisons that differ most, with their intervals."""
    if estimate.space.supports("texts"):
        figure, axes = _figure(6.4, 3.2)
        _say(axes, "texts are not compared by pairs of values")
        return figure
    directed = estimate.favourable is not None
    numbers = not directed and any(c.difference is not None for c in estimate.comparisons)
    shown = sorted(estimate.comparisons, key=lambda c: -abs(c.net if c.net is not None else c.rate))[:MOST]
    figure, axes = _figure(7.2, 1.2 + 0.32 * max(len(shown), 1))
    scale = 1 if numbers else 100
    for row, c in enumerate(reversed(shown)):
        value, low, high = (c.net, c.net_low, c.net_high) if directed else (c.rate, c.low, c.high)
        if numbers:
            value, low, high = c.difference, c.difference_low, c.difference_high
        if value is None:
            continue
        colour = LINE if c.verdict.startswith("favours") or c.verdict == "different" else BAND
        if low is not None and high is not None:
            axes.plot([scale * low, scale * high], [row, row], color=colour, linewidth=2)
        axes.plot([scale * value], [row], "o", color=colour)
    axes.set_yticks(range(len(shown)), [f"{listed(c.first)} / {listed(c.second)}" for c in reversed(shown)])
    if numbers:
        axes.set_xlabel("average difference, in the model's unit (right: the first gets more)")
    elif directed:
        axes.set_xlabel("net difference, % of pairs (right: the first is favoured)")
    else:
        axes.set_xlabel("treated differently, %")
    if directed or numbers:
        axes.axvline(0, color=BAND, linewidth=0.8)
    if not numbers:
        # No share is outside these limits.
        left, right = axes.get_xlim()
        axes.set_xlim(max(left, -100) if directed else 0, min(right, 100))
    return figure


def gaps(estimate: Estimate) -> Figure:
    """Draw the distribution of the widest gap of scores in each family."""
    figure, axes = _figure(6.4, 3.2)
    if estimate.gaps is None:
        _say(axes, "the model gives no scores")
        return figure
    unfair, weights = estimate.kept.verdicts(), estimate.kept.weight()
    weights = np.ones(len(unfair)) if weights is None else weights
    edges = np.linspace(0, float(estimate.gaps.max()) or 1.0, 41)
    for who, colour, name in ((np.ones_like(unfair), BAND, "everyone"), (unfair, LINE, "treated differently")):
        if who.any():
            values, share = estimate.gaps[who], 100 * weights[who] / weights[who].sum()
            axes.hist(values, edges.tolist(), weights=share, histtype="stepfilled", alpha=0.5, color=colour, label=name)
    axes.set_xlabel("widest gap of scores among counterparts")
    axes.set_ylabel("% of them")
    axes.legend(frameon=False)
    return figure


def group_intervals(groups: Groups) -> Figure:
    """Draw impact ratios with their intervals, and the four-fifths line."""
    shown = [group for group in groups.groups if group.impact_ratio is not None][:MOST]
    figure, axes = _figure(7.2, 1.2 + 0.32 * max(len(shown), 1))
    for row, group in enumerate(reversed(shown)):
        assert group.impact_ratio is not None
        ends = [end for end in (group.impact_low, group.impact_high) if end is not None]
        axes.plot(ends, [row] * len(ends), color=BAND, linewidth=2)
        axes.plot([group.impact_ratio], [row], "o", color=LINE)
    names = [f"{listed(g.values)} ({percent(g.rate or 0.0)})" for g in reversed(shown)]
    axes.set_yticks(range(len(shown)), names)
    axes.axvline(0.8, color=SECOND, linewidth=0.8, linestyle="--", label="four fifths")
    axes.set_xlim(0, 1)
    axes.set_xlabel("impact ratio (selection rate over the highest)")
    axes.legend(frameon=False)
    return figure


def check_matplotlib() -> None:
    """Raise if matplotlib (the extra ``plots``) is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots", "drawing")


def empty_figure(width: float, height: float) -> Figure:
    """Make a figure to draw on."""
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = empty_figure(width, height)
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _say(axes: Axes, text: str) -> None:
    """Write into the figure why it is empty."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
