"""The conformance suite for models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.models.wrap import CallableModel, for_space, wrap
from evenhand.testing.worlds import hold, take


def check_model(model: Any, inputs: Any, *, sizes: Sequence[int] = (1, 3, 64)) -> None:
    """Check that a model answers as evenhand relies on.

    Answers have one entry for each row, depend on no other row of the batch, on no position in it and on no batch size,
    and are repeated; scores and decisions agree; what the model says of itself makes sense.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes, so also an object that a package adapts.
    inputs
        Some rows as the model takes them, at least eight that differ: a frame, an array, or a list of texts.
    sizes
        Batch sizes to compare with one batch of all.

    Examples
    --------
    >>> check_model(wrap(lambda X: X[:, 0] > 3, input="array"), np.arange(20.0).reshape(10, 2))
    """
    hold(len(inputs) >= 8, f"give at least eight rows to ask about, got {len(inputs)}")
    try:
        wrapped = for_space(wrap(model), texts=isinstance(inputs, list))
        wrapped.check()
        _check_answers(wrapped, inputs, len(inputs), sizes)
    except ModelError as error:
        raise AssertionError(str(error)) from error


@dataclass(frozen=True)
class Answers:
    """A model's answers to some rows."""

    labels: npt.NDArray[Any]
    scores: npt.NDArray[np.float64] | None

    def __getitem__(self, at: Any) -> Answers:
        return Answers(self.labels[at], None if self.scores is None else self.scores[at])

    @property
    def ties(self) -> npt.NDArray[np.bool_]:
        """Which rows are so near to two decisions that rounding may choose."""
        if self.scores is None or self.scores.shape[1] < 2:
            return np.zeros(len(self.labels), dtype=bool)
        top = np.sort(self.scores, axis=1)
        return _close(top[:, -1], top[:, -2])

    def check_same(self, other: Answers, problem: str) -> None:
        """Raise where another time gave other answers."""
        numbers = self.labels.dtype.kind == "f" == other.labels.dtype.kind
        same = _close(self.labels, other.labels) if numbers else (self.labels == other.labels) | self.ties
        if self.scores is not None and other.scores is not None:
            same = same & _close(self.scores, other.scores).all(axis=1)
        hold(np.all(same), f"{problem}: {int((~np.asarray(same)).sum())} of {len(self.labels)} rows")


def _check_answers(model: Model, inputs: Any, count: int, sizes: Sequence[int]) -> None:
    client, every, name = ModelClient(model), np.arange(count), model.name
    scored = model.has_scores and _gives_scores(client, inputs, count)

    def ask(at: npt.NDArray[np.int64], size: int | None = None) -> Answers:
        rows = take(inputs, at)
        client.calls.fixed = size or len(at)
        scores = client.scores(rows, len(at)) if scored else None
        if model.regression and scores is not None:
            return Answers(scores[:, 0], scores)
        return Answers(client.labels(rows, len(at)), scores)

    first = ask(every)
    order = np.random.default_rng(0).permutation(count)
    first.check_same(ask(every), f"{name} gave two answers to the same row of the same batch")
    first[order].check_same(ask(order), f"the answers of {name} depend on the order of the rows")
    twice = ask(np.concatenate([every, every]))
    first.check_same(twice[count:], f"the answers of {name} depend on the position in the batch")
    for size in sizes:
        first.check_same(ask(every, size), f"the answers of {name} depend on the batch size, {size} or {count} rows")
    if scored and model.decides and first.scores is not None:
        wrong = int((~((model.decide(first.scores) == first.labels) | first.ties)).sum())
        hold(not wrong, f"{name} decides otherwise than its scores for {wrong} of {count} rows")
        width, classes = first.scores.shape[1], None if model.classes is None else len(model.classes)
        fits = classes in (None, width) or (width, classes) == (1, 2)
        hold(fits, f"{name} has {classes} classes and {width} columns of scores")
    if model.gradient_source is not None and model.input == "array" and first.scores is not None:
        client.calls.fixed = None
        slopes = client.gradients(inputs, first.scores.argmax(axis=1))
        hold(slopes.shape == np.shape(inputs), f"{name} gives gradients of the shape {slopes.shape}")


def _close(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return what is equal but for rounding in single precision."""
    return np.asarray(np.abs(one - other) <= 1e-4 * max(1e-6, float(np.abs(one).max(initial=0))), dtype=bool)


def _gives_scores(client: ModelClient, inputs: Any, count: int) -> bool:
    """Whether a model gives scores; of a function that is not known before it is asked."""
    try:
        client.scores(inputs, count)
    except ModelError:
        if isinstance(client.model, CallableModel):
            return False
        raise
    return True
