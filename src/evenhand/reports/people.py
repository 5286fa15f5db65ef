"""What the charts of a report show of people: where they are treated differently, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import number
from evenhand._rng import Stream
from evenhand.errors import ModelError
from evenhand.estimates.pair_counts import outcomes_of
from evenhand.reports.figures import Card, listed, short
from evenhand.spaces.base import table
from evenhand.spaces.frames import native

if TYPE_CHECKING:
    from evenhand.engine.judge import ModelProbe
    from evenhand.estimates.result import Estimate
    from evenhand.reports.report import ReportInputs
    from evenhand.runs.pair_sentences import Pair
    from evenhand.runs.run import Run
    from evenhand.spaces.individuals import Rows
    from evenhand.spaces.tabular import Space

PARTS = 6
"""Parts of an attribute's range, or values, that a map distinguishes."""
WIDEST = 64
"""Counterparts among which those with one value are looked for, where other attributes follow it."""
DOTS = 2_000
"""People in a chart."""
FEW = 5
"""People who have a value that a map names."""
ROUNDED = 1_000
"""From here on three digits round a whole number."""
LEAST = 20
"""People that a map needs."""


@dataclass(frozen=True)
class Cell:
    """Some people, and how many of them are treated differently."""

    found: int
    people: int

    @property
    def rate(self) -> float:
        """Their share."""
        return self.found / self.people if self.people else 0.0


@dataclass(frozen=True)
class Map:
    """The rate over two attributes: a row of cells for each part of the first, a cell for each of the second."""

    down: str
    across: str
    rows: list[str]
    columns: list[str]
    cells: list[list[Cell]]
    population: str

    @property
    def most(self) -> float:
        """The highest rate."""
        return max(cell.rate for row in self.cells for cell in row)


@dataclass(frozen=True)
class Scores:
    """The scores of the same people with one and with the other value of a protected attribute."""

    first: str
    second: str
    of: str
    """What the score is for; empty if that is the model's own number."""
    points: npt.NDArray[np.float64]
    threshold: float | None

    @property
    def people(self) -> int:
        """How many there are."""
        return len(self.points)

    @property
    def only_first(self) -> int:
        """How many reach the threshold only with the first value."""
        return self._only(0)

    @property
    def only_second(self) -> int:
        """How many reach it only with the second."""
        return self._only(1)

    def _only(self, side: int) -> int:
        if self.threshold is None:
            return 0
        over = self.points >= self.threshold
        return int((over[:, side] & ~over[:, 1 - side]).sum())

    @property
    def median(self) -> float:
        """How far apart the two scores of a person are, at the median."""
        return float(np.median(np.abs(self.points[:, 0] - self.points[:, 1])))


def ranked(e: Estimate) -> list[str]:
    """Order free attributes by how much the rate depends on each, judged by the estimate's own people."""
    space, rows, unfair = _judged(e)
    if not unfair.any():
        return []
    strength = {}
    for column in space.free_columns:
        part, names = _parts(space, column, rows[:, column])
        people = np.bincount(part, minlength=len(names))
        rate = np.bincount(part, weights=unfair, minlength=len(names)) / np.maximum(people, 1)
        # What few people could do by chance does not count.
        between = (people * (rate - unfair.mean()) ** 2).sum() - (len(names) - 1) * unfair.var()
        strength[space.names[column]] = between
    return sorted(strength, key=lambda name: -strength[name])


def map_of(e: Estimate, order: Sequence[str]) -> Map | None:
    """Map the rate over the two attributes that matter most."""
    space, rows, unfair = _judged(e)
    if len(order) < 2 or len(rows) < LEAST or not unfair.any():
        return None
    parts = [_parts(space, space.column(name), rows[:, space.column(name)]) for name in order[:2]]
    (down, down_names), (across, across_names) = parts
    place, size = down * len(across_names) + across, len(down_names) * len(across_names)
    people = np.bincount(place, minlength=size).reshape(len(down_names), -1)
    found = np.bincount(place, weights=unfair, minlength=size).reshape(people.shape)
    cells = [[Cell(int(f), int(n)) for f, n in zip(*both, strict=True)] for both in zip(found, people, strict=True)]
    return Map(short(order[0]), short(order[1]), down_names, across_names, cells, e.population)


def _judged(e: Estimate) -> tuple[Space, Rows, npt.NDArray[np.bool_]]:
    """Give the people that an estimate kept, and their verdicts."""
    space: Any = table(e.space)
    people = [block.rows for block in e.kept.people]
    empty = np.zeros((0, len(space.names)), dtype=np.int32)
    return space, np.concatenate(people) if people else empty, e.kept.verdicts()


def _parts(space: Space, column: int, codes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Divide people by an attribute: ranges of an ordered one with about equally many each, the commonest values."""
    attribute = space.attributes[column]
    present = int(space.present[column])
    numbers = attribute.ordered and attribute.kind != "ordinal"
    if numbers and present > PARTS:
        # A missing value has the code behind the last. Ends are rounded, so that they point at no person.
        here = codes < present
        values = np.asarray(attribute.decode(np.where(here, codes, 0)), dtype=float)
        cuts = np.quantile(values[here], np.linspace(0, 1, PARTS + 1)[1:-1]) if here.any() else np.zeros(0)
        ends = np.unique([float(f"{cut:.3g}") for cut in cuts])
        part = np.searchsorted(ends, values, side="left")
        part[~here] = len(ends) + 1
        names = [*_ranges(ends, whole=attribute.kind == "integer"), "missing"]
    else:
        values, counts = np.unique(codes, return_counts=True)
        # A value that only a few people have would point at them.
        common = values[np.argsort(-counts, kind="stable")][: PARTS - (len(values) > PARTS)]
        kept = common[np.isin(common, values[counts >= FEW])]
        kept = np.sort(kept)
        place = np.full(int(space.sizes[column]), len(kept))
        place[kept] = np.arange(len(kept))
        part = place[codes]
        names = [*(short(native(value)) for value in attribute.decode(kept)), "other"]
    used = np.unique(part)
    return np.searchsorted(used, part), [names[i] for i in used.tolist()]


def _ranges(ends: npt.NDArray[np.float64], whole: bool) -> list[str]:
    """Name the ranges between some ends, each with its upper one.

    >>> _ranges(np.array([26.0, 35.0]), whole=True)
    ['up to 26', '27 to 35', 'over 35']
    """
    if not len(ends):
        return [""]
    said = [number(end, grouped=False) for end in ends.tolist()]
    begins = [number(end + 1, grouped=False) for end in ends.tolist()]
    if not whole or ends[-1] >= ROUNDED:
        begins = [f"over {end}" for end in said]
    middle = [f"{begin} to {end}" for begin, end in zip(begins, said[1:], strict=False)]
    return [f"up to {said[0]}", *middle, f"over {said[-1]}"]


def score_column(subject: ReportInputs) -> tuple[int, str] | None:
    """Say which column of a model's scores to show, and what it is for; None if there is no single one."""
    probe = subject.probe
    if probe is None or not (probe.model.has_scores or probe.model.regression) or not subject.people:
        return None
    classes = [] if probe.model.classes is None else [native(value) for value in probe.model.classes.tolist()]
    if probe.model.regression or len(classes) not in (0, 2):
        return (0, "") if probe.model.regression else None
    if not classes:
        return 0, ""
    named = [str(value) for value in outcomes_of(subject.favourable)] if subject.favourable is not None else []
    column = 0 if named == [str(classes[0])] else 1
    return column, short(classes[column])


def asked(probe: ModelProbe, sides: Sequence[Rows], column: int) -> npt.NDArray[np.float64] | None:
    """Ask for the scores of both sides, a column for each; None from a function that turns out to have none."""
    try:
        scores = [probe.scores(rows) for rows in sides]
    except ModelError:
        return None
    # A model with one number has that of the second of two decisions.
    return np.column_stack([one[:, column] if one.shape[1] > column else one[:, -1] for one in scores])


def scores_of(subject: ReportInputs, e: Estimate) -> Scores | None:
    """Ask for the scores of some people with each of the two values that differ most."""
    chosen, space = score_column(subject), subject.run.space
    single = [c for c in e.comparisons if len(c.first) == 1 and c.pairs]
    if chosen is None or not single or (space.links and space.width > WIDEST):
        return None
    column, of = chosen
    probe = subject.probe
    assert probe is not None
    worst = max(single, key=lambda c: abs(c.rate if c.net is None else c.net))
    rows = np.concatenate([block.rows for block in e.kept.people])
    most = min(DOTS, subject.samples)
    if len(rows) > most:
        rows = rows[np.sort(Stream(subject.options.seed).shuffled(np.arange(most), len(rows), "scores"))]
    sides = [_with_value(space, rows, *values) for side in (worst.first, worst.second) for values in side.items()]
    valid = space.valid(sides[0]) & space.valid(sides[1])
    if not valid.any():
        return None
    points = asked(probe, [side[valid] for side in sides], column)
    if points is None:
        return None
    model = probe.model
    threshold = model.threshold if model.threshold is not None or not of else 0.5
    return Scores(listed(worst.first), listed(worst.second), of, points, threshold)


def _with_value(space: Space, rows: Rows, name: str, value: Any) -> Rows:
    """Give people another value of a protected attribute, and what follows from it."""
    column = space.column(name)
    code = space.attributes[column].code(value)
    out = rows.copy()
    out[:, column] = code
    if not space.links:
        return out
    families = space.families(space.individuals(rows), 0)
    everyone, same = np.arange(len(rows)), [other for other in space.protected_columns if other != column]
    for place in range(space.width):
        member = families.members(everyone, np.full(len(rows), place)).rows
        fits = (member[:, column] == code) & (member[:, same] == rows[:, same]).all(axis=1)
        out[fits] = member[fits]
    return out


def with_scores(subject: ReportInputs, cards: list[Card], pairs: Sequence[Pair]) -> list[Card]:
    """Put the scores of both sides on cards of individuals."""
    chosen, run = score_column(subject), subject.run
    amounts = subject.probe is not None and subject.probe.model.regression
    # The amounts of a regression are its decisions.
    if chosen is None or amounts or not cards or any(pair.hidden for pair in pairs):
        return cards
    column, of = chosen
    assert subject.probe is not None
    points = asked(subject.probe, [_rows(run, pairs, changed) for changed in (False, True)], column)
    if points is None:
        return cards
    return [
        replace(card, scores=(one, other), score_of=of)
        for card, (one, other) in zip(cards, points.tolist(), strict=True)
    ]


def _rows(run: Run, pairs: Sequence[Pair], changed: bool) -> Rows:
    values = [pair.individual | (pair.changes if changed else {}) for pair in pairs]
    frame = {name: [one[name] for one in values] for name in run.space.names}
    rows: Rows = run.space.encode(frame, strict=True).individuals.rows
    return rows
