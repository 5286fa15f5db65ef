"""Marginalising: the original model, averaged over protected values."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.models.wrap import wrap
from evenhand.repairs.marginal import Marginal, Weights
from evenhand.repairs.workshop import Remedy, Workshop


@dataclass(frozen=True)
class Marginalise:
    """Average the original model's scores over all protected combinations: nobody is treated differently.

    Nothing is trained and nothing searched. ``weights`` are those of ``Marginal``; ``"data"`` takes the shares of the
    training rows.

    >>> Marginalise().weights is None
    True
    """

    weights: Weights = None

    def apply(self, workshop: Workshop) -> Remedy:
        """Put the wrapper around the original."""
        space, model = workshop.space, workshop.original
        alone, here = wrap(model), workshop.trainer.wrap(model)
        if (alone.input, alone.columns) != (here.input, here.columns):
            # It does not say itself what it was fitted on.
            model = here
        weights = Marginal.shares(space, workshop.rows.frame) if self.weights == "data" else self.weights
        return Remedy(Marginal(model, space, weights))
