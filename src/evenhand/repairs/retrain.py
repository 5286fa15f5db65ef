"""AEQUITAS's retraining: findings in growing shares, as long as the estimate falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenhand.repairs.voting import Whose, check_voters
from evenhand.repairs.workshop import Remedy, Round, Workshop
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

    def apply(self, workshop: Workshop) -> Remedy:
        """Retrain round by round."""
        if workshop.nothing is not None:
            return workshop.nothing
        voters, found = workshop.voters(self.voters), workshop.findings.found
        remedy, current = Remedy(None), workshop.original
        i = 2
        while (percent := _percent(workshop, i)) <= 100:
            wanted = max(1, int(percent * len(workshop.rows) / 100))
            people = workshop.draw(wanted, i)
            workshop.tell(f"round {i - 1}: training with {len(people):,} findings")
            model = workshop.train_with(people, voters, self.vote)
            before, after = (workshop.rate(one, self.samples, i) for one in (current, model))
            falls = before > after
            remedy.rounds.append(Round(i - 1, percent, wanted, len(people), before, after, falls))
            if wanted > found:
                remedy.notes.append(
                    f"round {i - 1} wanted {wanted:,} findings, and there are {found:,}: all were added"
                )
            if not falls:
                break
            current = remedy.model = model
            remedy.added = len(people)
            i += 1
        if remedy.model is None:
            remedy.reason = "no round lowered the estimate"
        return remedy


def _percent(workshop: Workshop, i: int) -> float:
    """Draw the percentage of a round."""
    low = 2.0 ** (i - 2)
    return low + low * workshop.unit("percent", i)
