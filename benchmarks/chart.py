"""Bar charts as SVG, for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

WIDTH, LABELS, VALUES, BAR, GAP, TOP = 720, 190, 70, 13, 12, 58
COLOURS = ("var(--paper)", "var(--ours)", "var(--control)")
STYLE = """<style>
svg { --ink: #1f2328; --soft: #59636e; --paper: #9aa4b0; --ours: #2167c9; --control: #d8a13a; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --soft: #9198a1; --paper: #6e7681; --ours: #5aa2ff; --control: #d8a13a; }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.title { font-size: 14px; font-weight: 600; }
.soft { fill: var(--soft); }
</style>"""


def bars(
    title: str, series: Sequence[str], groups: Sequence[tuple[str, Sequence[float | None]]], log: bool = False
) -> str:
    """Draw groups of horizontal bars, one bar for each series; a missing value has none.

    >>> bars("Found", ["paper", "here"], [("tree", [1.0, None])]).count("<rect")
    3
    """
    every = [value for _, values in groups for value in values if value is not None]
    most = max(every, default=1.0) or 1.0
    least = min((value for value in every if value > 0), default=1.0)
    room = WIDTH - LABELS - VALUES

    def length(value: float) -> float:
        if not log:
            return room * max(0.0, value) / most
        # One decade below the smallest value is the left edge.
        low = log10(least) - 0.5
        return 0.0 if value <= 0 else room * (log10(value) - low) / (log10(most) - low or 1)

    parts, y = [], TOP
    for label, values in groups:
        middle = y + len(values) * BAR / 2 + 4
        parts.append(f'<text x="{LABELS - 8}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>')
        for colour, value in zip(COLOURS, values, strict=False):
            if value is not None:
                wide = length(value)
                parts.append(
                    f'<rect x="{LABELS}" y="{y}" width="{wide:.1f}" height="{BAR - 2}" style="fill: {colour}"/>'
                    f'<text class="soft" x="{LABELS + wide + 4:.1f}" y="{y + 10}">{written(value)}</text>'
                )
            y += BAR
        y += GAP
    keys, x = [], LABELS
    for colour, name in zip(COLOURS, series, strict=False):
        keys.append(f'<rect x="{x}" y="33" width="11" height="11" style="fill: {colour}"/>')
        keys.append(f'<text x="{x + 16}" y="43">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    scale = " (logarithmic scale)" if log else ""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
            f'aria-label="{escape(title)}">',
            STYLE,
            f'<text class="title" x="12" y="20">{escape(title + scale)}</text>',
            *keys,
            *parts,
            "</svg>\n",
        ]
    )


def written(value: float) -> str:
    """Write a value beside its bar.

    >>> written(12345.6), written(3.14159)
    ('12,346', '3.1')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"
