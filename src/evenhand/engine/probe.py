"""Queries a model about individuals, which are rows of codes or texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand import _malloc
from evenhand.criteria import Criterion, Outputs, UnknownCriterion
from evenhand.engine.gradients import Slopes, Source
from evenhand.engine.text_gradients import WordSlopes
from evenhand.errors import FLIP, TEXT_RANDOM, DataError, ModelError, Words
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.models.sklearn import SensitiveModel
from evenhand.models.wrap import for_space
from evenhand.spaces.base import BoundSpace, Families, table
from evenhand.spaces.tabular import Space


class ModelProbe:
    """Converts individuals to inputs of the model, and its answers to inputs of a criterion."""

    def __init__(
        self,
        model: Model,
        ground: BoundSpace,
        criterion: Criterion,
        timeout: float | None = None,
        gradient: Source | None = None,
    ) -> None:
        if isinstance(criterion, UnknownCriterion):
            raise criterion.error
        _malloc.keep()
        model = for_space(model, texts=ground.space.input == "text")
        if isinstance(model, SensitiveModel):
            model = model if model.sensitive is not None else model.with_sensitive(table(ground).protected)
            model.check_groups(table(ground))
        self.model, self.ground, self.criterion, self.timeout = model, ground, criterion, timeout
        self.client = ModelClient(model, timeout=timeout)
        self.contrasts = gradient is not None
        """Whether the search uses contrasts, and so scores."""
        self.slopes = Slopes(self, gradient) if gradient is not None and ground.supports("attributes") else None
        """Gradients for a search of attributes; None if it does not use them."""
        self.word_slopes: WordSlopes | None = None
        """Effects of words for a search of texts; None if it does not use them."""
        self.scored = criterion.needs_scores or self.contrasts
        """Whether scores are needed besides decisions."""
        if criterion.needs_scores and not model.has_scores:
            raise ModelError(f"{criterion} needs scores, but {model.name} gives labels only", remedy=("use ", FLIP))
        if self.contrasts and not model.has_scores:
            raise ModelError(
                f"this search needs scores, but {model.name} gives labels only", remedy=("use ", TEXT_RANDOM)
            )
        if gradient is not None and ground.supports("texts"):
            self.word_slopes = WordSlopes(self, gradient)
        if model.columns is not None and ground.supports("attributes"):
            lacking = [name for name in model.columns if name not in self.space.names]
            if lacking:
                raise DataError(
                    f"{model.name} needs the column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking))}, which "
                    "the space does not have",
                    remedy="add to the space, or fit the model without",
                )

    @property
    def space(self) -> Space:
        """The space of attributes."""
        return table(self.ground)

    @property
    def gradient(self) -> str | None:
        """The source of the gradients; None for a search without."""
        if self.slopes is not None:
            return self.slopes.source
        return None if self.word_slopes is None else self.word_slopes.source

    @property
    def cost(self) -> int:
        """Model rows per row of a test: 2 if decisions do not follow from scores."""
        follows = self.model.decides or self.model.regression
        return 2 if self.scored and not follows else 1

    def inputs(self, rows: Any) -> Any:
        """Build the frame, array or list of texts that the model takes."""
        return self.ground.space.inputs(rows, self.model.input, self.model.columns)

    def labels(self, rows: Any, instead: Words | None = None) -> npt.NDArray[Any]:
        """Query decisions; ``instead`` is the remedy for a model that returns scores."""
        return self.client.labels(self.inputs(rows), len(rows), instead)

    def scores(self, rows: Any) -> npt.NDArray[np.float64]:
        """Query scores, one row of them per row."""
        return self.client.scores(self.inputs(rows), len(rows))

    def both(self, rows: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
        """Query decisions, and scores if needed; in one model call if possible."""
        return self._both(self.inputs(rows))

    def _both(self, inputs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
        if not self.scored:
            return self.client.labels(inputs, len(inputs)), None
        scores, labels = self.client.both(inputs, len(inputs))
        return self.client.decided(labels) if self.criterion.needs_decisions else labels, scores

    def outputs(self, families: Families) -> Outputs:
        """Query whole families."""
        labels, scores = self._both(self.ground.family_inputs(families, self.model.input, self.model.columns))
        return Outputs(families.to_grid(labels), None if scores is None else families.to_grid(scores), families.own)
