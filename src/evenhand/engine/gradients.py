"""Slopes: how much one step of each attribute changes the loss of a decision.

They come from the model's own gradients where it has any, else from differences of its scores, so that every model that
gives scores can be searched by gradient, trees and one-hot encoders included.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand._validate import check_choice
from evenhand.criteria import Outputs, Places
from evenhand.errors import KOSEI, SCORE_DIFFERENCES, ModelError, StrategyError
from evenhand.models.base import Model
from evenhand.search import of_class
from evenhand.spaces.individuals import Ids, Rows
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.engine.probe import ModelProbe

Classes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Source = Literal["auto", "model", "scores"]

DIFFERENCES = "differences of scores"


class Slopes:
    """Asks for slopes, with one model call.

    Parameters
    ----------
    probe
        The model and the space.
    wanted
        ``"model"`` for the model's own gradients, ``"scores"`` for differences of its scores, ``"auto"`` for the former
        where there are any.
    """

    def __init__(self, probe: ModelProbe, wanted: Source = "auto") -> None:
        self.space: Space = probe.space
        self._probe, self.source = probe, _source(probe.model, wanted)
        free = np.array(self.space.free_columns)
        self._ordered, self._nominal = free[self.space.ordered[free]], free[~self.space.ordered[free]]

    def check(self, scores: Floats) -> None:
        """Raise where a function gives labels after all, which have no slopes."""
        if self.source == DIFFERENCES and may_be_labels(self._probe, scores):
            raise _labels_only(self._probe.model.name)

    @property
    def cost(self) -> int:
        """Model rows for the slopes of one individual."""
        if self.source != DIFFERENCES:
            return 1
        # A nominal value's jump is compared with the individual itself.
        return 2 * len(self._ordered) + len(self._nominal) + (len(self._nominal) > 0)

    def ask(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Return (rows, attributes) slopes; protected attributes have none, and missing values do not move."""
        if self.source != DIFFERENCES:
            return self._differentiate(rows, classes, jumps)
        return self._subtract(rows, classes, jumps)

    def _differentiate(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Multiply the model's gradient by what one step changes in the number that the model sees."""
        gradients = self._probe.client.gradients(self._probe.inputs(rows), classes)
        if self._columns is not None:
            every = np.zeros((len(rows), len(self.space.names)))
            every[:, self._columns] = gradients
            gradients = every
        scale, tables, nominal = self._steps
        slopes = gradients * scale
        for j, table in tables.items():
            slopes[:, j] = gradients[:, j] * table[rows[:, j]]
        if jumps is not None:
            for j, values in nominal.items():
                slopes[:, j] = gradients[:, j] * np.nan_to_num(values[jumps[:, j]] - values[rows[:, j]])
        return slopes

    @cached_property
    def _columns(self) -> list[int] | None:
        names = self._probe.model.columns
        return None if names is None else [self.space.column(name) for name in names]

    @cached_property
    def _steps(self) -> tuple[Floats, dict[int, Floats], dict[int, Floats]]:
        """What one step changes in each column's number.

        A constant where all steps are equal (0 for columns that do not move), tables by code where they are not, and
        the values of nominal columns.
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

    def _subtract(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Take differences of the score of the class: two steps apart, or between a nominal value and its jump."""
        block = self._around(rows, jumps)
        scores = self._probe.scores(block.reshape(-1, block.shape[2]))
        # The loss falls where the score of the class rises.
        losses = -of_class(scores, np.repeat(classes, block.shape[1])).reshape(block.shape[:2])
        ups = len(self._ordered)
        place = np.arange(ups)
        length = block[:, place, self._ordered] - block[:, ups + place, self._ordered]
        out = np.zeros((len(losses), len(self.space.names)))
        out[:, self._ordered] = (losses[:, :ups] - losses[:, ups : 2 * ups]) / np.maximum(length, 1)
        if len(self._nominal):
            out[:, self._nominal] = losses[:, 2 * ups : -1] - losses[:, -1:]
        return out

    def _around(self, rows: Rows, jumps: Rows | None) -> Rows:
        """Return (rows, cost, attributes) individuals: all steps up, all down, all jumps, then itself."""
        ups, present = len(self._ordered), self.space.present[self._ordered]
        out = np.repeat(rows[:, None, :], self.cost, axis=1)
        code, place = rows[:, self._ordered], np.arange(ups)
        for first, stepped in ((0, np.minimum(code + 1, present - 1)), (ups, np.maximum(code - 1, 0))):
            out[:, first + place, self._ordered] = np.where(code < present, stepped, code)
        if len(self._nominal):
            if jumps is None:
                raise StrategyError("a space with nominal attributes needs gradient(..., jumps=...): rows to step to")
            out[:, 2 * ups + np.arange(len(self._nominal)), self._nominal] = jumps[:, self._nominal]
        if self.space.constraints:
            # Invalid individuals are not asked about: such a step counts as the individual itself.
            valid = self.space.valid(out.reshape(-1, out.shape[2])).reshape(out.shape[:2])
            out = np.where(valid[:, :, None], out, rows[:, None, :])
        return out


def may_be_labels(probe: ModelProbe, scores: Floats) -> bool:
    """Whether the scores of a function may be labels: a single number, and nothing that makes it a decision."""
    model = probe.model
    unknown = model.threshold is None and model.classes is None and probe.criterion.needs_decisions
    return unknown and scores.shape[1] == 1


def _source(model: Any, wanted: Source) -> str:
    check_choice("gradient", wanted, ("auto", "model", "scores"), StrategyError)
    if wanted != "scores" and model.gradient_source is not None:
        return str(model.gradient_source)
    if wanted == "model":
        raise ModelError(
            f"{model.name} gives no gradients of its own",
            remedy=("use differences of its scores: ", SCORE_DIFFERENCES, ", or ", KOSEI, ", which needs labels only"),
        )
    if not model.has_scores:
        raise _labels_only(model.name)
    return DIFFERENCES


def _labels_only(name: str) -> ModelError:
    return ModelError(
        f"{name} gives labels only, neither gradients nor scores to take differences of",
        remedy=("use ", KOSEI, ", which needs labels only, or wrap a function that returns scores"),
    )


def most_different_of(model: Model, outputs: Outputs) -> tuple[Classes, Places]:
    """Return the class of each individual, and the place of the counterpart that differs most from it.

    The difference is that of the scores of the individual's own class. A counterpart with another decision comes before
    all with the same one; of equals the first counts.

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


PLACES = 20
"""log2 of how many individuals are remembered."""


class Recall:
    """The most different counterparts of recent individuals: walks that come back do not ask again.

    Each individual has one place in a table, which the next one with the same place takes.

    >>> recall = Recall()
    >>> recall.add(np.array([7, 9]), np.array([6, 8]), np.array([1, 0]))
    >>> known, others, classes = recall.find(np.array([9, 5]))
    >>> known.tolist(), int(others[0]), int(classes[0])
    ([True, False], 8, 0)
    """

    def __init__(self) -> None:
        # One row each, so that a place is one access to memory: the id plus one (zeros, which cost nothing before they
        # are written to, are free places), the counterpart, the class.
        self._table = np.zeros((1 << PLACES, 3), dtype=np.int64)

    def find(self, ids: Ids) -> tuple[npt.NDArray[np.bool_], Ids, Places]:
        """Return who is remembered, with counterparts and classes (without meaning for the others)."""
        there = self._table[self._places(ids)]
        return there[:, 0] == ids + 1, there[:, 1], there[:, 2]

    def add(self, ids: Ids, others: Ids, classes: npt.NDArray[Any]) -> None:
        """Remember individuals."""
        self._table[self._places(ids)] = np.stack([ids + 1, others, classes], axis=1)

    def _places(self, ids: Ids) -> Places:
        return (mix(ids.view(np.uint64)) >> np.uint64(64 - PLACES)).view(np.int64)
