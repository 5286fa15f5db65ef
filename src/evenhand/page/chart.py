"""The discovery curve as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.run import Run

INK = "#010203"
"""Stands for the page's own text colour, which is not known before the page is shown."""
COLOURS = ("#c2410c", "#64748b", "#0f766e", "#7c3aed")
STYLES = ("-", "--", ":", "-.")
MOST = 400


def discovery(runs: Sequence[Run], salt: str = "") -> str:
    """Draw findings against tests, one line a run, in the page's own text colour.

    ``salt`` tells the ids of one chart from those of the others on a page.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> discovery([eh.audit(lambda f: f["age"] > 3, space, strategy="themis")])[:4]
    '<svg'
    """
    import matplotlib
    from matplotlib.figure import Figure

    # The salt makes ids, and so pages, the same each time; texts stay texts, for readers and search.
    with matplotlib.rc_context(
        {"svg.hashsalt": f"evenhand {salt}", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    ):
        figure = Figure(figsize=(6.4, 2.8), layout="constrained")
        axes = figure.add_subplot()
        for number, run in enumerate(runs):
            tests, found = _points(run)
            name = run.identity["strategy"]["strategy"]
            style = STYLES[number % len(STYLES)]
            axes.plot(tests, found, style, color=COLOURS[number % len(COLOURS)], label=name, linewidth=2)
        axes.set_xlabel("tests", color=INK)
        axes.set_ylabel("found", color=INK)
        axes.tick_params(colors=INK)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(INK)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue())


def _inline(svg: str) -> str:
    """Make an SVG file part of a page: no preamble, no ids that two charts share, a size that follows the page."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    return re.sub(r' (width|height)="[0-9.]+pt"', "", svg, count=2)


def _points(run: Run) -> tuple[list[int], list[int]]:
    """Thin the curve out to what a reader can see, its end always kept."""
    points = run.points
    stride = max(1, len(points) // MOST)
    kept = [(0, 0, 0), *points[::stride], points[-1]] if points else [(0, 0, 0)]
    return [p[0] for p in kept], [p[2] for p in kept]
