"""What a run counts as being treated differently, in words: another decision, scores far apart, or either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand._format import number
from evenhand.criteria import Criterion, Pairwise

if TYPE_CHECKING:
    from evenhand.runs.run import Run


@dataclass(frozen=True)
class Counted:
    """The words for one criterion, for each place in a sentence.

    >>> from evenhand.criteria import Gap
    >>> said = Counted.by(Gap(0.05))
    >>> f"People who would {said.would}; nobody {said.nobody}; {said.heading}; {said.told}."
    'People who would be scored more than 0.05 apart; nobody is scored more than 0.05 apart; Scores more than 0.05 apart; scored differently.'
    """  # noqa: E501

    would: str
    """What people would."""
    nobody: str
    """What nobody does."""
    heading: str
    model: str
    """What the model does, after "and"."""
    told: str
    scores: bool = False
    """Whether scores decide who is ahead, and not decisions alone."""

    @classmethod
    def of(cls, run: Run) -> Counted:
        """Give the words for a run."""
        return cls.by(run.identity.criterion)

    @classmethod
    def by(cls, criterion: Criterion) -> Counted:
        """Give the words for a criterion."""
        clauses = {(c.flip, c.gamma) for c in criterion.clauses} if isinstance(criterion, Pairwise) else set()
        kind = {flip for flip, _ in clauses}, {gamma is None for _, gamma in clauses}
        least = min((gamma for _, gamma in clauses if gamma is not None), default=0.0)
        apart = f"more than {number(least, 6)} apart"
        if kind == ({True}, {True}):
            return cls("get another outcome", "gets another outcome", "Outcome differs", "decides differently",
                       "decided differently")  # fmt: skip
        if kind == ({False}, {False}):
            return cls(f"be scored {apart}", f"is scored {apart}", f"Scores {apart}", f"gives scores {apart}",
                       "scored differently", True)  # fmt: skip
        if len(clauses) == 1:
            return cls(
                f"get another outcome and scores {apart}",
                f"gets another outcome and scores {apart}",
                f"Outcome differs, scores {apart}",
                f"decides differently, with scores {apart}",
                "decided differently",
                True,
            )
        if clauses == {(True, None), (False, least)}:
            return cls(
                f"get another outcome or scores {apart}",
                f"gets another outcome or scores {apart}",
                f"Outcome differs, or scores {apart}",
                f"decides differently or gives scores {apart}",
                "treated differently",
                True,
            )
        return cls("be treated differently", "is treated differently", "Treated differently", "treats them differently",
                   "treated differently", True)  # fmt: skip

    @property
    def fact(self) -> str:
        """Say it in a list of settings."""
        return {"Outcome differs": "another outcome"}.get(self.heading, self.heading[0].lower() + self.heading[1:])
