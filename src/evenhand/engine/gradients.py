"""Slopes: how much one step of each attribute changes the loss of a decision.

From the model's own gradients where it has any, else from differences of its scores, so that whatever gives scores can
be searched by gradient, trees and one-hot encoders included.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand.criteria import Outputs, Places
from evenhand.errors import KOSEI, SCORE_DIFFERENCES, ModelError, StrategyError
from evenhand.models.base import Model
from evenhand.search import of_class
from evenhand.spaces.individuals import Ids, Rows
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.engine.probe import ModelProbe


Classes = npt.NDArray[np.int64]
Slope = npt.NDArray[np.float64]
Source = Literal["auto", "model", "scores"]

DIFFERENCES = "differences of scores"


class Slopes:
    """Asks for slopes, with one model call.

    Parameters
    ----------
    asker
        The model and the space.
    wanted
        ``"model"`` for the model's own gradients, ``"scores"`` for differences of its scores, ``"auto"`` for the former
        where there are any.
    """

    def __init__(self, asker: ModelProbe, wanted: Source = "auto") -> None:
        self.space: Space = asker.space
        self._asker, self._asking = asker, asker.asking
        self.source = _source(asker.model, wanted)

    def check(self, scores: npt.NDArray[np.float64]) -> None:
        """Raise where what a function gives are labels after all, which have no slopes."""
        model = self._asker.model
        may_be_labels = model.threshold is None and model.classes is None and self._asker.criterion.needs_decisions
        if self.source == DIFFERENCES and may_be_labels and scores.shape[1] == 1:
            # Fractions were refused before: without a threshold they are no decisions.
            raise _neither(model.name)

    @property
    def cost(self) -> int:
        """Model rows for the slopes of one individual."""
        return 1 if self.source != DIFFERENCES else self._differences.width

    def ask(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Slope:
        """Return (rows, attributes) slopes; protected attributes have none, and missing values do not move."""
        one = self._differentiate if self.source != DIFFERENCES else self._subtract
        return one(rows, classes, jumps)

    def _differentiate(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Slope:
        """Multiply the model's gradient by what one step changes in the number that the model sees."""
        gradients = self._asking.gradients(self._asker.inputs(rows), classes)
        columns = self._columns
        if columns is not None:
            every = np.zeros((len(rows), len(self.space.names)))
            every[:, columns] = gradients
            gradients = every
        scale, tables, nominal = self._steps
        slopes = gradients * scale
        for j, table in tables.items():
            slopes[:, j] = gradients[:, j] * table[rows[:, j]]
        if jumps is not None:
            for j, values in nominal.items():
                slopes[:, j] = gradients[:, j] * np.nan_to_num(values[jumps[:, j]] - values[rows[:, j]])
        return slopes

    def _subtract(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Slope:
        """Take differences of the score of the class: two steps apart, or between a nominal value and its jump."""
        differences = self._differences
        block, length = differences.rows(rows, jumps)
        scores = self._asker.scores(block.reshape(-1, block.shape[2]))
        values = of_class(scores, np.repeat(classes, block.shape[1])).reshape(block.shape[:2])
        # The loss falls where the score of the class rises.
        return differences.slopes(-values, length)

    @cached_property
    def _columns(self) -> list[int] | None:
        names = self._asker.model.columns
        return None if names is None else [self.space.column(name) for name in names]

    @cached_property
    def _steps(
        self,
    ) -> tuple[npt.NDArray[np.float64], dict[int, npt.NDArray[np.float64]], dict[int, npt.NDArray[np.float64]]]:
        """What one step changes in each column's number.

        A constant where all steps are alike (0 for columns that do not move), tables by code where not, and the values
        of nominal columns.
        """
        scale, tables, nominal = np.zeros(len(self.space.names)), {}, {}
        seen = range(len(self.space.names)) if self._columns is None else self._columns
        for j in set(seen) & set(self.space.free_columns):
            attribute = self.space.attributes[j]
            values = attribute.decode(np.arange(attribute.size)).astype(np.float64)
            present = values[: attribute.present]
            if not attribute.ordered:
                nominal[j] = values
            elif len(present) > 1:
                steps = np.gradient(present)
                if attribute.has_missing or not np.allclose(steps, steps[0], rtol=1e-9):
                    tables[j] = np.append(steps, np.zeros(attribute.size - attribute.present))
                else:
                    scale[j] = steps[0]
        return scale, tables, nominal

    @cached_property
    def _differences(self) -> Differences:
        return Differences(self.space)


class Differences:
    """The individuals around others whose scores are compared: one step up, one down, one jump."""

    def __init__(self, space: Space) -> None:
        self.space = space
        free = np.array(space.free_columns)
        self.ordered, self.nominal = free[space.ordered[free]], free[~space.ordered[free]]
        self.columns, self.present = len(space.names), space.present[self.ordered]
        # What a nominal value's jump is compared with is the individual itself.
        self.width = 2 * len(self.ordered) + len(self.nominal) + (len(self.nominal) > 0)

    def rows(self, rows: Rows, jumps: Rows | None) -> tuple[Rows, npt.NDArray[np.int32]]:
        """Return (n, width, attributes) rows: all steps up, all down, all jumps, itself; and the steps' lengths."""
        ups = len(self.ordered)
        out = np.repeat(rows[:, None, :], self.width, axis=1)
        code = rows[:, self.ordered]
        moves = code < self.present
        up = np.where(moves, np.minimum(code + 1, self.present - 1), code)
        down = np.where(moves, np.maximum(code - 1, 0), code)
        place = np.arange(ups)
        out[:, place, self.ordered] = up
        out[:, ups + place, self.ordered] = down
        if len(self.nominal):
            if jumps is None:
                raise StrategyError("a space with nominal attributes wants gradient(..., jumps=...): rows to step to")
            out[:, 2 * ups + np.arange(len(self.nominal)), self.nominal] = jumps[:, self.nominal]
        if self.space.constraints:
            # Nobody illegal is asked about: what cannot be stepped to counts as the individual itself.
            legal = self.space.legal(out.reshape(-1, out.shape[2])).reshape(out.shape[:2])
            out = np.where(legal[:, :, None], out, rows[:, None, :])
        return out, out[:, place, self.ordered] - out[:, ups + place, self.ordered]

    def slopes(self, losses: npt.NDArray[np.float64], length: npt.NDArray[np.int32]) -> Slope:
        """Turn losses of these rows into slopes."""
        ups = len(self.ordered)
        out = np.zeros((len(losses), self.columns))
        out[:, self.ordered] = (losses[:, :ups] - losses[:, ups : 2 * ups]) / np.maximum(length, 1)
        if len(self.nominal):
            out[:, self.nominal] = losses[:, 2 * ups : -1] - losses[:, -1:]
        return out


def _source(model: Any, wanted: Source) -> str:
    if wanted not in get_args(Source):
        raise StrategyError(f"must be one of {', '.join(get_args(Source))}", parameter="gradient", value=wanted)
    if wanted != "scores" and model.gradient_source is not None:
        return str(model.gradient_source)
    if wanted == "model":
        raise ModelError(
            f"{model.name} gives no gradients of its own",
            remedy=("use differences of its scores: ", SCORE_DIFFERENCES, ", or ", KOSEI, ", which needs labels only"),
        )
    if not model.has_scores:
        raise _neither(model.name)
    return DIFFERENCES


def _neither(name: str) -> ModelError:
    return ModelError(
        f"{name} gives labels only, neither gradients nor scores to take differences of",
        remedy=("use ", KOSEI, ", which needs labels only, or wrap a function that returns scores"),
    )


PLACES = 20
"""log2 of how many individuals are remembered."""


def most_different_of(model: Model, outputs: Outputs) -> tuple[npt.NDArray[np.int64], Places]:
    """Return the class that each individual is given, and the place of the counterpart that contrasts most with it.

    The contrast is the change in the score of the individual's own class. A counterpart with another decision comes
    before all with the same one; of equals the first counts.

    >>> from evenhand.models.wrap import wrap
    >>> scores = np.array([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> classes, places = most_different_of(wrap(lambda X: X), Outputs(scores.argmax(axis=2), scores, np.array([0])))
    >>> classes.tolist(), places.tolist()
    ([0], [2])
    """
    assert outputs.scores is not None
    assert outputs.labels is not None
    here, own = np.arange(len(outputs.own)), outputs.own
    classes = model.choose(outputs.scores[here, own])
    if outputs.scores.shape[1] == 2:
        return classes, 1 - own
    column = classes if outputs.scores.shape[2] > 1 else np.zeros_like(classes)
    scores = outputs.scores[here, :, column]
    gap = np.abs(scores - scores[here, own][:, None])
    differs = np.asarray(outputs.labels != outputs.labels[here, own][:, None], dtype=bool)
    # No gap is larger than the largest, so that adding it puts another decision first.
    gap += differs * (gap.max(axis=1, keepdims=True) + 1)
    gap[here, own] = -1
    return classes, gap.argmax(axis=1)


class Recall:
    """The most different counterparts of individuals met lately: walks that come back do not ask again.

    Each individual has one place in a table, which the next one with the same place takes.

    >>> recall = Recall()
    >>> recall.add(np.array([7, 9]), np.array([6, 8]), np.array([1, 0]))
    >>> known, others, classes = recall.find(np.array([9, 5]))
    >>> known.tolist(), int(others[0]), int(classes[0])
    ([True, False], 8, 0)
    """

    def __init__(self) -> None:
        # One row each, so that a place is one access to memory: the id plus one (zeros, which cost nothing before they
        # are written to, are free places), the rival, the class.
        self._table = np.zeros((1 << PLACES, 3), dtype=np.int64)

    def find(self, ids: Ids) -> tuple[npt.NDArray[np.bool_], Ids, Places]:
        """Tell who is remembered, with counterparts and classes (without meaning for the others)."""
        there = self._table[self._places(ids)]
        return there[:, 0] == ids + 1, there[:, 1], there[:, 2]

    def add(self, ids: Ids, others: Ids, classes: npt.NDArray[Any]) -> None:
        """Remember individuals."""
        entries = np.empty((len(ids), 3), dtype=np.int64)
        entries[:, 0], entries[:, 1], entries[:, 2] = ids + 1, others, classes
        self._table[self._places(ids)] = entries

    def _places(self, ids: Ids) -> Places:
        return (mix(ids.view(np.uint64)) >> np.uint64(64 - PLACES)).view(np.int64)
