"""Draws gradients.svg from two real runs of eh.Adf: ``python docs/images/gradients.py [FILE]``."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import evenhand as eh
from evenhand.search import Problem, Query

INK, WOMEN, MEN, BAND, FOUND = "#333333", "#0063a6", "#b34700", "#fdf0b8", "#8a1c7c"
SIZE = {"hours": 45, "years": 28}
SEEDS = [(3, 9), (7, 11), (11, 25), (17, 6), (25, 2), (26, 22), (36, 3), (38, 25), (40, 16)]
START = (29, 9)


def margin(hours: Any, years: Any, man: Any) -> Any:
    """How far a person lies above the boundary; what is above is accepted."""
    return years - 15 - 5 * np.cos((hours - 4 * man) / 7) + 3 * man


def model(frame: pd.DataFrame) -> Any:
    """Probabilities of being refused and of being accepted."""
    p = 1 / (1 + np.exp(-margin(frame["hours"], frame["years"], frame["sex"] == "man") / 3))
    return np.column_stack([1 - p, p])


@dataclass(frozen=True)
class Watched:
    """A search that writes down where it goes, and who is treated differently there."""

    inner: eh.Adf
    places: list[tuple[Any, Any]] = field(default_factory=list)
    uses_gradient: ClassVar[bool] = True

    def search(self, problem: Problem) -> Generator[Query, Any, None]:
        """Pass on questions and answers."""
        search, answer = self.inner.search(problem), None
        with suppress(StopIteration):
            while True:
                query = search.send(answer)
                answer = yield query
                if query.kind == "contrast" and query.individuals is not None:
                    self.places.append((query.individuals.rows[:, :2], answer.verdicts.unfair))


def watch(search: eh.Adf, people: list[tuple[int, int]]) -> list[tuple[Any, Any]]:
    """Run a search from women of these hours and years, and return where it went."""
    attributes = [eh.Integer(name, 0, size - 1) for name, size in SIZE.items()]
    space = eh.Space([*attributes, eh.Nominal("sex", ["woman", "man"])], protected="sex")
    watched = Watched(search)
    eh.audit(model, space, watched, data=pd.DataFrame(people, columns=list(SIZE)).assign(sex="woman"), seed=1)
    return watched.places


def paths(places: list[tuple[Any, Any]]) -> tuple[list[list[Any]], set[int]]:
    """Sort the places of a global phase by who went there; also return who was found."""
    active = np.arange(len(places[0][0]))
    went: list[list[Any]] = [[] for _ in active]
    found: set[int] = set()
    for rows, unfair in places:
        for walker, row in zip(active, rows, strict=True):
            went[walker].append(row)
        found |= set(active[unfair].tolist())
        active = active[~unfair]
    return went, found


def backdrop(axes: Any, title: str) -> None:
    """Draw both boundaries and the band between them."""
    hours = np.linspace(0, SIZE["hours"] - 1, 400)
    women, men = -margin(hours, 0, 0), -margin(hours, 0, 1)
    axes.fill_between(hours, men, women, color=BAND, lw=0, label="treated differently")
    axes.plot(hours, women, color=WOMEN, lw=1.8, label="women are accepted above")
    axes.plot(hours, men, color=MEN, lw=1.8, ls=(0, (6, 1.5)), label="men are accepted above")
    axes.set(xlabel="hours", ylabel="years", xlim=(-1, SIZE["hours"]), ylim=(0, SIZE["years"]), aspect="equal")
    axes.set_title(title, fontsize=11, loc="left")


def leading(axes: Any) -> None:
    """Draw the paths of the global phase."""
    went, found = paths(watch(eh.Adf(phase="global"), SEEDS))
    for walker, path in enumerate(np.array(path) for path in went):
        axes.plot(*path.T, color=INK, lw=1, marker=".", ms=3.5, zorder=3)
        axes.plot(*path[0], color="white", mec=INK, marker="o", ms=6, zorder=4)
        if walker in found:
            axes.plot(*path[-1], color=FOUND, marker="o", ms=6, zorder=5)
    note(axes, "the signs for hours disagree:\nonly years moves", (24.6, 4.5), (4.5, 1.2))
    note(axes, "steps over\nthe thin band", (11.3, 15.3), (13.5, 18))


def note(axes: Any, text: str, at: tuple[float, float], place: tuple[float, float]) -> None:
    """Write beside the paths."""
    arrow = {"arrowstyle": "-", "color": "#888888", "lw": 0.8}
    axes.annotate(text, at, place, fontsize=8.5, color=INK, arrowprops=arrow)


def walking(axes: Any) -> None:
    """Draw the places of one walk of the local phase."""
    places = watch(eh.Adf(phase="local", trials=300), [START])
    rows, unfair = np.concatenate([rows for rows, _ in places]), np.concatenate([unfair for _, unfair in places])
    axes.plot(*rows[~unfair].T, color=INK, marker=".", ms=4, ls="", zorder=3, label="step, not found")
    axes.plot(*rows[unfair].T, color=FOUND, marker="o", ms=5, ls="", zorder=4, label="finding")
    axes.plot(*START, color="white", mec=INK, marker="o", ms=6, ls="", zorder=5, label="start")


def draw(path: Path) -> None:
    """Draw both phases side by side."""
    with mpl.rc_context({"svg.hashsalt": "gradients", "font.size": 10}):
        figure = Figure(figsize=(10.5, 4.4), facecolor="white", layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        backdrop(left, f"Global phase: {len(SEEDS)} seeds")
        leading(left)
        backdrop(right, "Local phase: one walk of 300 steps")
        walking(right)
        right.label_outer()
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".svg"))
