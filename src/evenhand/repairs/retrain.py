"""AEQUITAS's retraining: findings in growing shares, as long as the estimate falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenhand.repairs.context import Candidate, RepairContext, Round
from evenhand.repairs.training import Whose, check_voters
from evenhand.strategies._settings import check_settings


@dataclass(frozen=True)
class Retrain:
    """Add random findings to the training rows and retrain, a larger share each round, while the estimate falls.

    Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing", ASE 2018, Algorithm 5. Round ``i`` = 2, 3,
    and so on draws a percentage of the training size from ``[2**(i-2), 2**(i-1)]``, adds so many findings to the
    *original* rows, and trains. The new model is kept if fewer are estimated to be treated differently than by the
    current one; the first that is not ends it, and so does a percentage above 100. Both are estimated anew in each
    round, on the same individuals. How findings are labelled the paper leaves open, and suggests a majority vote.

    >>> Retrain(samples=10_000).vote
    'individual'
    """

    voters: tuple[Any, ...] = ()
    """Estimators that label what is added; none: five classifiers of different kinds."""
    vote: Whose = "individual"
    """Whether they vote on the individual, or on it and its counterparts together."""
    samples: int = 100_000
    """Individuals of each estimate that decides between two models."""

    search: ClassVar[str] = "aequitas"

    def __post_init__(self) -> None:
        check_settings(self)
        check_voters(self)

    def apply(self, context: RepairContext) -> Candidate:
        """Retrain round by round."""
        if context.nothing is not None:
            return context.nothing
        voters, found = context.voters(self.voters), context.findings.found
        candidate, current = Candidate(None), context.original
        i = 2
        while (percent := _percent(context, i)) <= 100:
            wanted = max(1, int(percent * len(context.rows) / 100))
            people = context.draw(wanted, i)
            context.tell(f"round {i - 1}: training with {len(people):,} findings")
            model = context.train_with(people, voters, self.vote)
            before, after = (context.rate(one, self.samples, i) for one in (current, model))
            falls = before > after
            candidate.rounds.append(Round(i - 1, percent, wanted, len(people), before, after, falls))
            if wanted > found:
                candidate.notes.append(
                    f"round {i - 1} wanted {wanted:,} findings, and there are {found:,}: all were added"
                )
            if not falls:
                break
            current = candidate.model = model
            candidate.added = len(people)
            i += 1
        if candidate.model is None:
            candidate.reason = "no round lowered the estimate"
        return candidate


def _percent(context: RepairContext, i: int) -> float:
    """Draw the percentage of a round."""
    low = 2.0 ** (i - 2)
    return low + low * context.unit("percent", i)
