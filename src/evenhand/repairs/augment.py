"""ADF's augmentation: a fixed share of the findings, several times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from evenhand._format import percent
from evenhand._validate import is_number
from evenhand.errors import StrategyError
from evenhand.repairs.context import Candidate, RepairContext, Round
from evenhand.repairs.training import Whose, check_voters
from evenhand.strategies._settings import check_settings


@dataclass(frozen=True)
class Augment:
    """Add a random share of the findings to the training rows and retrain; repeated, with the spread.

    Zhang, Wang, Sun and others, "White-box fairness testing through adversarial sampling", ICSE 2020, section 4 (RQ3):
    five per cent of the findings, labelled by majority vote, five times. The paper reports the mean of the repeats. A
    user needs one model: it is that of the median estimate, so neither the luckiest nor the unluckiest.

    >>> Augment().share, Augment().repeats
    (0.05, 5)
    """

    share: float = 0.05
    """Of the findings."""
    repeats: int = 5
    voters: tuple[Any, ...] = ()
    """Estimators that label what is added; none: five classifiers of different kinds."""
    vote: Whose = "individual"
    """Whether they vote on the individual, or on it and its counterparts together."""
    samples: int = 100_000
    """Individuals of each repeat's estimate."""

    search: ClassVar[str] = "adf"

    def __post_init__(self) -> None:
        check_settings(self)
        check_voters(self)
        if not is_number(self.share) or not 0 < self.share <= 1:
            raise StrategyError(f"Augment: share must be above 0 and at most 1, got {self.share!r}")

    def apply(self, context: RepairContext) -> Candidate:
        """Augment and train so many times."""
        if context.nothing is not None:
            return context.nothing
        voters = context.voters(self.voters)
        wanted = max(1, round(self.share * context.findings.found))
        current = context.rate(context.original, self.samples, 0)
        models, rounds = [], []
        for at in range(self.repeats):
            people = context.draw(wanted, at)
            context.tell(f"repeat {at + 1}: training with {len(people):,} findings")
            models.append(context.train_with(people, voters, self.vote))
            rate = context.rate(models[-1], self.samples, 0)
            rounds.append(Round(at + 1, 100 * self.share, wanted, len(people), current, rate, False))
        rates = np.array([one.candidate for one in rounds])
        # Of an even number the worse of the two in the middle.
        chosen = int(np.argsort(rates, kind="stable")[self.repeats // 2])
        rounds[chosen] = replace(rounds[chosen], kept=True)
        notes = [
            f"{self.repeats} repeats left {percent(rates.min())} to {percent(rates.max())} of {context.counted} "
            f"treated differently, {percent(rates.mean())} in the mean, where it was {percent(current)} with the "
            "original; the model of the median was judged"
        ]
        return Candidate(models[chosen], wanted, rounds, notes if self.repeats > 1 else [])
