"""Plots as small inline SVG, in the page's own colours: everything is a class, nothing a colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from evenhand._format import visible

if TYPE_CHECKING:
    from evenhand.runs.run import Run

WIDTH, HEIGHT = 400, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 38
MOST = 200
"""Points of a curve."""


def discovery(runs: Sequence[Run]) -> str:
    """Draw findings against tests, one line a run.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> discovery([eh.audit(lambda f: f["age"] > 3, space, strategy="themis")])[:4]
    '<svg'
    """
    points = [thinned(run) for run in runs]
    across, up = ticks(max(line[-1][0] for line in points)), ticks(max(line[-1][1] for line in points))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(tests: float) -> float:
        return LEFT + wide * tests / across[-1]

    def y(found: float) -> float:
        return TOP + high * (1 - found / up[-1])

    parts = [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_n(y(t))}" y2="{_n(y(t))}"/>' for t in up]
    parts += [f'<text class="end" x="{LEFT - 6}" y="{_n(y(t) + 4)}">{t:,.0f}</text>' for t in up]
    for place, t in enumerate(across):
        side = "end" if place == len(across) - 1 else "middle"
        parts.append(f'<text class="{side}" x="{_n(x(t))}" y="{HEIGHT - BOTTOM + 17}">{t:,.0f}</text>')
    parts.append(f'<text class="middle name" x="{LEFT + wide / 2:g}" y="{HEIGHT - 4}">tests</text>')
    for number, line in reversed(list(enumerate(points))):
        path = " ".join(f"{_n(x(tests))},{_n(y(found))}" for tests, found in line)
        parts.append(f'<polyline class="line line{min(number, 3)}" points="{path}"/>')
    # The caption has the numbers.
    label = escape(visible(f"Findings against tests: {', '.join(map(name_of, runs))}"))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def span(low: float, value: float, high: float, least: float, most: float) -> str:
    """Draw an interval with its value on a scale, to stand beside the numbers that say the same.

    >>> "circle" in span(0.1, 0.2, 0.3, 0, 1)
    True
    """
    length = (most - least) or 1.0

    def x(share: float) -> str:
        return _n(2 + 116 * min(1.0, max(0.0, (share - least) / length)))

    zero = f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="1" y2="13"/>' if least < 0 else ""
    return (
        '<svg class="span" viewBox="0 0 120 14" aria-hidden="true"><line class="rail" x1="2" x2="118" y1="7" y2="7"/>'
        f'{zero}<line class="range" x1="{x(low)}" x2="{x(high)}" y1="7" y2="7"/>'
        f'<circle class="dot" cx="{x(value)}" cy="7" r="3.2"/></svg>'
    )


def ticks(most: float, wanted: int = 4) -> list[float]:
    """Give round numbers from 0 to at least ``most``.

    >>> ticks(31_025)
    [0.0, 10000.0, 20000.0, 30000.0, 40000.0]
    >>> ticks(0)
    [0.0, 1.0]
    """
    if most <= 1:
        return [0.0, 1.0]
    step = most / wanted
    unit = 10.0 ** math.floor(math.log10(step))
    step = max(1.0, next(lead * unit for lead in (1, 2, 2.5, 5, 10) if lead * unit >= step * (1 - 1e-9)))
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def thinned(run: Run) -> list[tuple[int, int]]:
    """Thin a curve out to what a reader can see, its end always kept."""
    points = [(tests, found) for tests, _, found in run.points]
    stride = max(1, len(points) // MOST)
    return [(0, 0), *points[::stride], *points[-1:]]


def name_of(run: Run) -> str:
    """Name a run's search."""
    return run.identity.search + (f" by {run.gradient}" if run.gradient else "")


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
