"""Charts of reports: inline SVG that takes the colours of the page; its numbers have their sources, as in texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from evenhand import _format
from evenhand._format import number, percent, plain, visible
from evenhand.reports.figures import listed, short

if TYPE_CHECKING:
    from evenhand.estimates.favoured import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.reports.people import Scores
    from evenhand.runs.run import Run

WIDTH, HEIGHT = 400, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 38
POINTS = 200
"""Maximum number of points of a curve."""
ROW, END = 38, 28
"""The height of a row of a dot plot, and of its axis."""
LONGEST = 50
"""Characters of a label."""
TURNED = 16
"""Characters of a label that is turned."""
LETTER = 6.2
"""Average width of a letter."""
TICKS = 4
"""About how many steps an axis has."""
SHARES = ("percent", "reverse")


def discovery(runs: Sequence[Run]) -> str:
    """Draw findings against tests, one line per run."""
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
    for place, line in reversed(list(enumerate(points))):
        path = " ".join(f"{_n(x(tests))},{_n(y(found))}" for tests, found in line)
        parts.append(f'<polyline class="line line{min(place, 3)}" points="{path}"/>')
    # The caption has the numbers.
    return _svg(HEIGHT, f"Findings against tests: {', '.join(map(name_of, runs))}", parts)


def span(low: float, value: float, high: float, least: float, most: float) -> str:
    """Draw an interval with its value on a scale, to stand beside the numbers that say the same."""
    length = (most - least) or 1.0

    def x(share: float) -> str:
        return _n(2 + 116 * min(1.0, max(0.0, (share - least) / length)))

    zero = f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="1" y2="13"/>' if least < 0 else ""
    return (
        '<svg class="span" viewBox="0 0 120 14" aria-hidden="true"><line class="rail" x1="2" x2="118" y1="7" y2="7"/>'
        f'{zero}<line class="range" x1="{x(low)}" x2="{x(high)}" y1="7" y2="7"/>'
        f'<circle class="dot" cx="{x(value)}" cy="7" r="3.2"/></svg>'
    )


@dataclass(frozen=True)
class Row:
    """A row of a dot plot: what it says, the ends of its interval, its value, and how the value is written."""

    name: str
    low: float
    value: float
    high: float
    figure: float
    """The number that is written, with its source; the value may be the same with another sign."""
    how: str = "percent"


def dots(rows: Sequence[Row], label: str) -> str:
    """Draw values with their intervals on one axis.

    >>> dots([Row("sex F and sex M", -0.2, -0.1, 0.05, -0.1)], "Net").count("<circle")
    1
    """
    shares = all(row.how in SHARES for row in rows)
    ends = [end for row in rows for end in (row.low, row.value, row.high)]
    axis = round_ticks(min(0.0, *ends), max(0.0, *ends), most=1.0 if shares else math.inf)
    least, most = axis[0], axis[-1]

    def x(value: float) -> str:
        return _n(10 + (WIDTH - 20) * (value - least) / (most - least))

    base, parts = len(rows) * ROW + 6, []
    for place, t in enumerate(axis):
        side = "start" if place == 0 else "end" if place == len(axis) - 1 else "middle"
        line = "zero" if t == 0 else "grid"
        parts.append(f'<line class="{line}" x1="{x(t)}" x2="{x(t)}" y1="18" y2="{base}"/>')
        parts.append(f'<text class="{side}" x="{x(t)}" y="{base + 15}">{percent(t) if shares else number(t)}</text>')
    for place, row in enumerate(rows):
        y = place * ROW
        sure = "" if row.low > 0 or row.high < 0 else " unsure"
        parts.append(f'<text class="label" x="10" y="{y + 13}">{_label(row.name, LONGEST)}</text>')
        parts.append(_figure(row.figure, row.how, WIDTH - 10, y + 13, "label end strong"))
        parts.append(f'<line class="range{sure}" x1="{x(row.low)}" x2="{x(row.high)}" y1="{y + 25}" y2="{y + 25}"/>')
        parts.append(f'<circle class="dot" cx="{x(row.value)}" cy="{y + 25}" r="4"/>')
    return _svg(len(rows) * ROW + END, label, parts)


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map: its share, and a small number below it."""

    share: float | None
    """None if there is nothing to show."""
    note: float | str | None = None
    how: str = "percent"
    """How the share is written: with ``"reverse"`` it is that of the column."""

    @property
    def shown(self) -> float:
        """The share of the row."""
        return (-1 if self.how == "reverse" else 1) * (self.share or 0.0)


def heat(down: Sequence[str], across: Sequence[str], cells: Sequence[Sequence[Cell | None]], label: str) -> str:
    """Draw shares by two attributes, darker where they are larger; negative ones in another colour.

    >>> heat(["F"], ["nurse", "cook"], [[Cell(0.1), None]], "Rate").count("<rect")
    1
    """
    left = min(110, 12 + round(LETTER * max(map(len, down))))
    turned = max(map(len, across)) > ((WIDTH - left) / max(4, len(across)) - 4) / LETTER
    longest = max(map(len, across)) if not turned else min(TURNED, max(map(len, across)))
    # Names are turned by half a right angle; the last needs room beside it.
    beside = max(0.0, 0.71 * LETTER * min(longest, len(across[-1])) - 20) if turned else 0.0
    wide = (WIDTH - left - beside) / max(4, len(across))
    noted = any(cell is not None and cell.note is not None for line in cells for cell in line)
    high, top = (34 if noted else 26), 10 + (round(0.71 * LETTER * longest) if turned else 12)
    most = max((abs(cell.shown) for line in cells for cell in line if cell is not None), default=0.0)
    parts = []
    for i, name in enumerate(across):
        x = left + (i + 0.5) * wide
        place = f'x="{_n(x)}" y="{top - 6}"'
        turn = f' transform="rotate(-45 {_n(x)} {top - 6})"' if turned else ""
        parts.append(f'<text class="{"start" if turned else "middle"}" {place}{turn}>{_label(name, longest)}</text>')
    for j, (name, line) in enumerate(zip(down, cells, strict=True)):
        y = top + j * high
        parts.append(f'<text x="0" y="{_n(y + high / 2 + 3)}">{_label(name, int((left - 6) / LETTER))}</text>')
        for i, cell in enumerate(line):
            if cell is None:
                continue
            x, middle = left + i * wide, left + (i + 0.5) * wide
            below = high / 2 + (-1 if noted else 4)
            if cell.share is not None:
                kind = f"h{shade(cell.shown, most)}{' less' if cell.shown < 0 else ''}"
                size = f'width="{_n(wide - 2)}" height="{high - 2}"'
                parts.append(f'<rect class="{kind}" x="{_n(x + 1)}" y="{y + 1}" {size} rx="2"/>')
                parts.append(_figure(cell.share, cell.how, middle, y + below, "label middle"))
            if isinstance(cell.note, str):
                parts.append(f'<text class="middle" x="{_n(middle)}" y="{_n(y + high / 2 + 4)}">{cell.note}</text>')
            elif cell.note is not None:
                parts.append(_figure(cell.note, "count", middle, y + below + 11, "middle small"))
    return _svg(top + len(down) * high + 2, label, parts)


@dataclass(frozen=True)
class Point:
    """A model in a chart of two shares, each with its interval."""

    name: str
    x: tuple[float, float, float]
    """The low end, the value and the high end."""
    y: tuple[float, float, float]
    kind: str = ""
    """``"before"`` for the original, ``"control"`` for one that was only trained again."""


MANY = 10
"""With more pairs of values of one attribute, a heat map shows them instead of a dot plot."""


@dataclass(frozen=True)
class Gains:
    """Who gains and who loses: a dot plot of the pairs of values, and heat maps of attributes with many values."""

    chart: str
    maps: list[Grid]
    kind: str
    """``"net"``: how much more often one of the two is better off; ``"amount"``: how much more one gets on average;
    ``"rate"``: how often the two are treated differently."""


@dataclass(frozen=True)
class Grid:
    """A heat map, as a drawing and as what it draws."""

    name: str
    down: list[str]
    across: list[str]
    cells: list[list[Cell | None]]
    chart: str


def gains(e: Estimate, better: str = "is better off than") -> Gains:
    """Draw the comparisons of one attribute each; the words say who is ahead, where that is clear."""
    single = [c for c in e.comparisons if len(c.first) == 1 and c.pairs]
    amounts = bool(single) and not e.score_of and all(c.difference is not None for c in single)
    kind = "amount" if amounts else "net" if single and all(c.net is not None for c in single) else "rate"
    pairs: dict[str, list[Comparison]] = {}
    for c in single:
        pairs.setdefault(next(iter(c.first)), []).append(c)
    few = [_row(c, kind, better) for own in pairs.values() if len(own) <= MANY or amounts for c in own]
    rows = sorted(few, key=lambda row: -abs(row.value))[:MANY]
    many = [] if amounts else [(name, own) for name, own in pairs.items() if len(own) > MANY]
    maps = [_grid(name, own, directed=kind == "net") for name, own in many]
    return Gains(dots(rows, KINDS[kind]) if rows else "", maps, kind)


KINDS = {
    "net": "How much more often one of two is better off",
    "amount": "How much more one of two gets on average",
    "rate": "How often two are treated differently",
}


def _row(c: Comparison, kind: str, better: str) -> Row:
    """Name the one who is ahead first."""
    one, other = listed(c.first), listed(c.second)
    if kind == "rate":
        return Row(f"{one} and {other}", c.low, c.rate, c.high, c.rate)
    value, low, high = (c.net, c.net_low, c.net_high) if kind == "net" else (
        c.difference, c.difference_low, c.difference_high
    )  # fmt: skip
    assert value is not None
    low, high = (value if end is None else end for end in (low, high))
    how = "percent" if kind == "net" else "size"
    figure, words = value, "gets more than" if kind == "amount" else better
    if value < 0:
        value, low, high, one, other = -value, -high, -low, other, one
        how = "reverse" if kind == "net" else how
    return Row(f"{one} {words} {other}" if low > 0 else f"{one} and {other}: not clear", low, value, high, figure, how)


def _grid(name: str, comparisons: Sequence[Comparison], *, directed: bool) -> Grid:
    """Map all pairs of values; where one is ahead, who is ahead most comes first."""
    values = list(
        {plain(c.first[name]): None for c in comparisons} | {plain(c.second[name]): None for c in comparisons}
    )
    lead = dict.fromkeys(values, 0.0)
    known: dict[tuple[str, str], Cell] = {}
    for c in comparisons:
        one, other, share = plain(c.first[name]), plain(c.second[name]), c.net if directed else c.rate
        assert share is not None
        known |= {(one, other): Cell(share), (other, one): Cell(share, how="reverse" if directed else "percent")}
        lead[one] += share
        lead[other] += -share if directed else 0.0
    if directed:
        values.sort(key=lambda value: -lead[value])
    # The first column and the last row would have no pairs.
    down, across = [short(value) for value in values[:-1]], [short(value) for value in values[1:]]
    cells = [
        [known.get((a, b)) if i <= j else None for j, b in enumerate(values[1:])] for i, a in enumerate(values[:-1])
    ]
    words = "How much more often the row is better off than the column" if directed else KINDS["rate"]
    return Grid(name, down, across, cells, heat(down, across, cells, f"{words}, by {name}"))


def tradeoff(points: Sequence[Point], across: str, up: str) -> str:
    """Draw models by two shares: the best place is the upper left corner."""
    left, size, top = 62, 300, 12
    across_at = round_ticks(0.0, max(point.x[2] for point in points) or 0.01, most=1.0)
    lows, highs = (f(point.y[i] for point in points) for f, i in ((min, 0), (max, 2)))
    up_at = round_ticks(lows, highs, most=1.0)
    most, lows, highs = across_at[-1], up_at[0], up_at[-1]

    def x(value: float) -> str:
        return _n(left + size * value / most)

    def y(value: float) -> str:
        return _n(top + size * (1 - (value - lows) / (highs - lows)))

    parts = []
    for tick, t in enumerate(across_at):
        side = "start" if tick == 0 else "end" if tick == len(across_at) - 1 else "middle"
        parts.append(f'<text class="{side}" x="{x(t)}" y="{top + size + 16}">{percent(t)}</text>')
    for t in up_at:
        parts.append(f'<line class="grid" x1="{left}" x2="{left + size}" y1="{y(t)}" y2="{y(t)}"/>')
        parts.append(f'<text class="end" x="{left - 6}" y="{float(y(t)) + 4:g}">{percent(t)}</text>')
    for point in points:
        (low, value, high), (bottom, height, ceiling) = point.x, point.y
        own, here, there = f"range {point.kind}", x(value), y(height)
        parts.append(f'<line class="{own}" x1="{x(low)}" x2="{x(high)}" y1="{there}" y2="{there}"/>')
        parts.append(f'<line class="{own}" x1="{here}" x2="{here}" y1="{y(bottom)}" y2="{y(ceiling)}"/>')
        parts.append(f'<circle class="dot" cx="{here}" cy="{there}" r="4"/>')
        side, shift = ("end", -8) if value > most / 2 else ("start", 8)
        place = f'x="{float(here) + shift:g}" y="{float(there) - 7:g}"'
        parts.append(f'<text class="label {side}" {place}>{_label(point.name, LONGEST)}</text>')
    middle = left + size / 2
    parts.append(f'<text class="middle name" x="{middle:g}" y="{top + size + 34}">{escape(across)}</text>')
    turned = f'x="14" y="{top + size / 2:g}" transform="rotate(-90 14 {top + size / 2:g})"'
    parts.append(f'<text class="middle name" {turned}>{escape(up)}</text>')
    return _svg(top + size + 42, f"{up} against {across}", parts)


def scatter(scores: Scores, label: str, noun: str = "score") -> str:
    """Draw each person as a dot: the score with one value across, with the other up, and the threshold."""
    size, left, top = 300, 62, 12
    points, at = np.array(scores.points), scores.threshold
    low, high = float(points.min()), float(points.max())
    if at is not None:
        low, high = min(low, at), max(high, at)
    axis = [0.0, 0.25, 0.5, 0.75, 1.0] if at is not None and low >= 0 and high <= 1 else round_ticks(low, high)
    low, high = axis[0], axis[-1]

    def x(value: float) -> str:
        return _n(left + size * (value - low) / (high - low))

    def y(value: float) -> str:
        return _n(top + size * (1 - (value - low) / (high - low)))

    parts = [f'<line class="grid" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>']
    for place, t in enumerate(axis):
        parts.append(f'<text class="end" x="{left - 6}" y="{float(y(t)) + 4:g}">{number(t)}</text>')
        side = "end" if place == len(axis) - 1 else "start" if place == 0 else "middle"
        parts.append(f'<text class="{side}" x="{x(t)}" y="{top + size + 16}">{number(t)}</text>')
    # One path for all: a line of no length is a dot.
    changed = _crossing(scores)
    for name, kept in (("people", ~changed), ("people changed", changed)):
        path = "".join(f"M{x(a)} {y(b)}h0" for a, b in points[kept].tolist())
        parts.append(f'<path class="{name}" d="{path}"/>' if path else "")
    first, second = (_label(name, 24) for name in (scores.first, scores.second))
    if at is not None:
        parts.append(f'<line class="zero" x1="{x(at)}" x2="{x(at)}" y1="{top}" y2="{top + size}"/>')
        parts.append(f'<line class="zero" x1="{left}" x2="{left + size}" y1="{y(at)}" y2="{y(at)}"/>')
        # Each of these corners is where only one of the two reaches the threshold.
        for side, name, count, across, up in (
            ("start", second, scores.only_second, left + 4, top + 11),
            ("end", first, scores.only_first, left + size - 4, top + size - 18),
        ):
            parts.append(f'<text class="label {side}" x="{across}" y="{up}">above only as {name}</text>')
            parts.append(_figure(count, "count", across, up + 13, f"label strong {side}"))
    middle = left + size / 2
    parts.append(f'<text class="middle name" x="{middle:g}" y="{top + size + 34}">{noun} as {first}</text>')
    turned = f'x="14" y="{top + size / 2:g}" transform="rotate(-90 14 {top + size / 2:g})"'
    parts.append(f'<text class="middle name" {turned}>{noun} as {second}</text>')
    return _svg(top + size + 42, label, parts)


def _crossing(scores: Scores) -> np.ndarray:
    if scores.threshold is None:
        return np.zeros(len(scores.points), dtype=bool)
    over = np.array(scores.points) >= scores.threshold
    return np.asarray(over[:, 0] != over[:, 1])


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    name = escape(visible(label))
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _label(name: str, longest: int) -> str:
    """Write a name, cut if it is longer than there is room; tables beside the charts have all of it."""
    return escape(visible(name if len(name) <= longest else f"{name[: max(1, longest - 1)]}…"))


def _figure(value: float, how: str, x: float, y: float, kind: str) -> str:
    """Write a number; with its source, if it has one, so that tests compare the two."""
    source = escape(str(getattr(value, "source", "")))
    link = f' data-source="{source}" data-as="{how}"' if source else ""
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}"{link}>{_format.written(value, how)}</text>'


def shade(share: float, most: float) -> int:
    """Give one of ten shades for a share.

    >>> shade(0.0, 0.4), shade(0.4, 0.4), shade(-0.2, 0.4)
    (0, 9, 5)
    """
    return min(9, int(9 * abs(share) / most + 0.5)) if most else 0


def round_ticks(low: float, high: float, most: float = math.inf) -> list[float]:
    """Return round numbers around a range, which include 0 if the range does.

    >>> round_ticks(-0.02, 0.184), round_ticks(1191, 2997), round_ticks(0, 0.97, most=1)
    ([-0.1, 0.0, 0.1, 0.2], [1000.0, 1500.0, 2000.0, 2500.0, 3000.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    step = _round_step((high - low) / TICKS or abs(high) / TICKS or 1.0)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    out = [float(f"{i * step:.9g}") for i in range(first, max(last, first + 1) + 1)]
    return [*[t for t in out if -most <= t < most], *([float(most)] if out[-1] >= most else [])]


def ticks(most: float) -> list[float]:
    """Return round numbers from 0 to at least ``most``."""
    if most <= 1:
        return [0.0, 1.0]
    step = max(1.0, _round_step(most / TICKS))
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def _round_step(least: float) -> float:
    """Return the smallest round number of at least this."""
    unit = 10.0 ** math.floor(math.log10(least))
    return next(lead * unit for lead in (1, 2, 2.5, 5, 10) if lead * unit >= least * (1 - 1e-9))


def thinned(run: Run) -> list[tuple[int, int]]:
    """Reduce a curve to as many points as a chart shows; the last one is always kept."""
    points = [(tests, found) for tests, _, found in run.points]
    stride = max(1, len(points) // POINTS)
    return [(0, 0), *points[::stride], *points[-1:]]


def name_of(run: Run) -> str:
    """Name a run's search."""
    return run.identity.search + (f" by {run.gradient}" if run.gradient else "")


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
