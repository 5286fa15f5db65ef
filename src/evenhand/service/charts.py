"""Charts of a job that goes on: findings against tests, and an estimate that narrows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from evenhand._format import percent
from evenhand.reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks

Point = Sequence[float]


def curve(points: Sequence[Point]) -> Markup:
    """Draw findings against tests.

    >>> curve([[0, 0], [10, 3]]).count("<polyline")
    1
    """
    up = ticks(max(found for _, found in points))
    x, y, parts = _axes(max(tests for tests, _ in points), up, [f"{t:,.0f}" for t in up])
    line = " ".join(f"{x(tests):.1f},{y(found):.1f}" for tests, found in points)
    return _drawn([*parts, f'<polyline class="line" points="{line}"/>'], "Findings against tests")


def band(points: Sequence[Point]) -> Markup:
    """Draw an estimate against tests, with its interval: points are tests, low, rate and high.

    >>> band([[10, 0.1, 0.2, 0.4], [20, 0.15, 0.2, 0.3]]).count("<polygon")
    1
    """
    # The first intervals are wide; those that matter must be seen.
    top = min(max(high for *_, high in points), 3 * points[-1][3], 1.0) or 0.01
    points = [[tests, *(min(share, top) for share in shares)] for tests, *shares in points]
    step = next((one for one in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if one * 4 >= top), 1.0)
    up = [step * n for n in range(5) if step * (n - 1) < top]
    x, y, parts = _axes(max(point[0] for point in points), up, [percent(t) for t in up])
    sides = [(tests, low) for tests, low, _, _ in points] + [(tests, high) for tests, _, _, high in reversed(points)]
    area = " ".join(f"{x(tests):.1f},{y(share):.1f}" for tests, share in sides)
    line = " ".join(f"{x(tests):.1f},{y(rate):.1f}" for tests, _, rate, _ in points)
    shapes = [f'<polygon class="band" points="{area}"/>', f'<polyline class="line" points="{line}"/>']
    return _drawn([*parts, *shapes], "The estimated rate and its interval, against tests")


def _axes(
    most: float, up: Sequence[float], names: Sequence[str]
) -> tuple[Callable[[float], float], Callable[[float], float], list[str]]:
    across = ticks(most)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(tests: float) -> float:
        return LEFT + wide * tests / across[-1]

    def y(value: float) -> float:
        return TOP + high * (1 - value / up[-1])

    parts = [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>' for t in up]
    parts += [
        f'<text class="end" x="{LEFT - 6}" y="{y(t) + 4:.1f}">{name}</text>' for t, name in zip(up, names, strict=True)
    ]
    for place, t in enumerate(across):
        side = "end" if place == len(across) - 1 else "middle"
        parts.append(f'<text class="{side}" x="{x(t):.1f}" y="{HEIGHT - BOTTOM + 17}">{t:,.0f}</text>')
    parts.append(f'<text class="middle" x="{LEFT + wide / 2:g}" y="{HEIGHT - 4}">tests</text>')
    return x, y, parts


def _drawn(parts: Sequence[str], label: str) -> Markup:
    return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>')
