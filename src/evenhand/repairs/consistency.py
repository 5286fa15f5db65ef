"""Consistency: a network is fine-tuned so that counterparts get the same scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from evenhand._format import number, percent
from evenhand._validate import check_number, check_settings
from evenhand.errors import ModelError, StrategyError
from evenhand.models.client import ModelClient
from evenhand.repairs.context import Candidate, RepairContext, seed_of
from evenhand.repairs.data import split
from evenhand.repairs.training import FineTuning, Pairs, together, tunable

ROWS = FineTuning(steps=1_920)
"""Three times as many steps as without the penalty: the rate among uniform individuals keeps falling for longer."""
TEXTS = FineTuning(rate=0.002, batch=128, steps=450, stages=3)
"""With a constant rate, how many texts a recurrent network treats differently still varies from step to step."""
POOL, TEXT_POOL = 20_000, 3_000
"""Number of individuals, or texts, from each source of pairs."""


@dataclass(frozen=True)
class Consistency:
    """Fine-tune a network with a penalty on the difference between counterparts' scores. Needs torch or Keras.

    The loss is the cross-entropy of the training rows, plus ``weight`` times the mean square of the differences in
    probability between counterparts. These are training rows, uniform random individuals and findings, with a random
    counterpart each. For texts they are training texts, also those without a term, which get one; of each family the
    two members whose scores differ most. Pairs are chosen again for each stage of training: once a network scores two
    terms alike, others differ most.

    Without a weight, the largest of ``weights`` is chosen whose accuracy, on a fifth of the training rows that is held
    out for this choice, is at most ``loss`` percentage points below that of fine-tuning with weight 0.

    >>> Consistency(weight=0.3).loss
    0.5
    """

    weight: float | None = None
    """The weight of the penalty; None chooses it."""
    weights: tuple[float, ...] = (30.0, 10.0, 3.0, 1.0, 0.3)
    """The weights to choose from, largest first."""
    loss: float = 0.5
    """Maximum loss of accuracy, in percentage points."""
    validation: float = 0.2
    """The share of the training rows used to choose the weight."""
    start: FineTuning | None = None
    """How the network is trained further; by default ``FineTuning(steps=1920)``, and for texts ``FineTuning(rate=0.002,
    batch=128, steps=450, stages=3)``."""

    search: ClassVar[str] = "adf"
    does: ClassVar[str] = "which penalises different scores of counterparts in training"

    def __post_init__(self) -> None:
        check_settings(self, loss=(0, 100))
        check_number("validation", self.validation, StrategyError, above=0, below=1)
        if not isinstance(self.weights, tuple) or not self.weights:
            raise StrategyError(
                "must be a tuple of numbers", parameter="weights", value=self.weights, remedy="for example (3.0, 1.0)"
            )
        for weight in self.weights:
            check_number("weights", weight, StrategyError, above=0)
        if self.start is not None and not isinstance(self.start, FineTuning):
            raise StrategyError(
                "must be a FineTuning", parameter="start", value=self.start, remedy="for example FineTuning(steps=640)"
            )

    def apply(self, context: RepairContext) -> Candidate:
        """Choose the weight, and train with it."""
        if not tunable(context.model):
            raise ModelError(
                f"must suit the model: this one needs a torch or Keras network, which {context.model.name} is not",
                parameter="method",
                value="consistency",
                remedy="use the method 'counterfactual'",
            )
        weight, notes = self.weight, list[str]()
        pairs = self._pairs(context, context.model, 0)
        if pairs is None:
            return Candidate(None, reason=f"nothing to train with: no {context.space.noun} has a counterpart")
        if weight is None:
            weight, notes = self._chosen(context, pairs)
        if weight is None:
            return Candidate(None, notes=notes, reason="every weight loses too much accuracy")
        context.tell(f"training with weight {number(weight)}")
        model = self._trained(context, context.rows, weight, pairs)
        return Candidate(model, notes=notes, control=partial(context.control, self._how(context)))

    def _how(self, context: RepairContext) -> FineTuning:
        return self.start or (TEXTS if context.space.supports("texts") else ROWS)

    def _trained(self, context: RepairContext, rows: Any, weight: float, first: Pairs) -> Any:
        """Train further on rows, with these pairs in the first stage."""

        def pairs(model: Any, stage: int) -> Pairs | None:
            return self._pairs(context, model, stage) if stage else first

        return context.tune(rows, self._how(context), pairs, weight)

    def _pairs(self, context: RepairContext, model: Any, stage: int) -> Pairs | None:
        """Draw pairs of counterparts from each source; None if there are none."""
        rows, seed, texts = context.rows, seed_of(context.seed, "draw", stage), context.space.supports("texts")
        pool = TEXT_POOL if texts else POOL
        sources = [rows.tested, rows.others(pool, seed)]
        # Pairs of texts are chosen by the scores, so that no search is needed.
        if not texts and context.findings.found:
            sources.append(context.draw(pool, 0))
        first: list[Any] = []
        second: list[Any] = []
        for at, people in enumerate(sources):
            some = people[np.sort(np.random.default_rng([seed, at]).permutation(len(people))[:pool])]
            pair = rows.paired(some, model, seed)
            if not len(pair[0]):
                continue
            for one, side in zip(pair, (first, second), strict=True):
                context.used.add(one)
                # Each source is used equally often.
                side.append(rows.inputs(one[np.resize(np.arange(len(one)), pool)]))
        return (together(first), together(second)) if first else None

    def _chosen(self, context: RepairContext, pairs: Pairs) -> tuple[float | None, list[str]]:
        """Choose the largest weight that loses little accuracy on rows that are not trained on."""
        rows, held = split(context.rows, self.validation, seed_of(context.seed, "validation"))
        usual = _accuracy(context, context.tune(rows, self._how(context)), held)
        for weight in sorted(self.weights, reverse=True):
            context.tell(f"trying weight {number(weight)}")
            right = _accuracy(context, self._trained(context, rows, weight, pairs), held)
            if right >= usual - self.loss / 100:
                return weight, [
                    f"weight {number(weight)} was chosen: accuracy {percent(right)} on rows not trained on, "
                    f"{percent(usual)} with weight 0"
                ]
        return None, [f"the smallest weight has accuracy {percent(right)} on rows not trained on, weight 0 "
                      f"{percent(usual)}"]  # fmt: skip


def _accuracy(context: RepairContext, model: Any, rows: Any) -> float:
    wrapped = context.trainer.wrap(model)
    decisions = ModelClient(wrapped).labels(rows.asked(wrapped), len(rows))
    return float((decisions == rows.truth).mean())
