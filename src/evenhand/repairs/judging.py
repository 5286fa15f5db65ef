"""Whether a new model is handed back: fresh evidence decides."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.models.base import Model
from evenhand.repairs.evidence import Evidence, Inquiry
from evenhand.repairs.result import rate_difference
from evenhand.repairs.training import Trainer
from evenhand.repairs.words import change, not_shown
from evenhand.repairs.workshop import Remedy


@dataclass(frozen=True)
class Judged:
    """Evidence before and after, and what speaks against the new model."""

    before: Evidence
    after: Evidence | None = None
    """None where a method made no model."""
    objection: str = ""

    @property
    def accepted(self) -> Evidence | None:
        """The evidence about a new model that nothing speaks against; None where there is no such model."""
        return None if self.objection else self.after

    def looked_at(self, attribute: str) -> bool:
        """Whether it is known of both models how many people an attribute makes a difference to."""
        return all(attribute in one.others for one in (self.before, self.after or self.before))


def judge(remedy: Remedy, inquiry: Inquiry, original: Model, trainer: Trainer) -> Judged:
    """Gather evidence; a model that is surely worse, by either share, or of which nothing can be shown is refused."""
    before = inquiry.gather(original, "the original model")
    if remedy.model is None:
        return Judged(before)
    after = inquiry.gather(trainer.wrap(remedy.model), "the repaired model")
    if inquiry.few(before):
        return Judged(before, after, not_shown(before, inquiry.shown_by))
    for name in ("uniform", "data"):
        by = rate_difference(before, after, name, inquiry.confidence)
        if by is not None and by.low > 0:
            return Judged(before, after, f"made worse: {change('discrimination', name, before, after, by)}")
    return Judged(before, after)
