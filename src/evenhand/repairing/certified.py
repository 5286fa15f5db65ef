"""Certified training: no findings are needed, all swaps of a protected term are bounded at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from evenhand.errors import ModelError
from evenhand.models.wrap import wrap
from evenhand.repairing.text_rows import ground_of
from evenhand.repairing.workshop import Remedy, Workshop, seed_of
from evenhand.text.certified import Certifying, train_certified


@dataclass(frozen=True)
class Certified(Certifying):
    """Train a net of texts on so that no swap of a protected term changes its decision, by bounds. Needs torch.

    Jia, Raghunathan, Göksel and Liang, "Certified robustness to adversarial word substitutions", EMNLP 2019, with
    protected terms in the place of synonyms: what the TSE paper on texts compares retraining with. The training
    function returns ``eh.wrap(module, encode=...)``, whose layers must be known to ``evenhand.text.layers``.

    >>> Certified().epochs
    20
    """

    def apply(self, workshop: Workshop) -> Remedy:
        """Train a copy of the original net on."""
        from evenhand.models.text.module import TextModule

        model, rows = workshop.trainer.wrap(workshop.original), workshop.rows
        if not isinstance(model, TextModule):
            raise ModelError(
                f"certified training needs the layers of a net, and {model.name} shows none; have the training "
                "function return eh.wrap(module, encode=encode)"
            )
        space: Any = rows.space
        texts: Any = rows.X
        if not len(ground_of(space, texts).seeds):
            return Remedy(None, reason="nothing to repair: no training text has a term that can be swapped")
        workshop.tell("certified training")
        encode: Any = model.encode
        how = Certifying(*(getattr(self, one.name) for one in fields(Certifying)))
        net = train_certified(
            model.source, texts, rows.truth, space.lexicons, encode, how=how,
            together=space.occurrences == "together", ambiguous=space.ambiguous, threshold=model.threshold,
            seed=seed_of(workshop.seed, "certify") % 2**31,
        )  # fmt: skip
        return Remedy(wrap(net, encode=encode, words=model.given_words, threshold=model.threshold))
