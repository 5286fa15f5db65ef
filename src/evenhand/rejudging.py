"""Judges individuals outside a run as the run judged its tests: the same criterion, the same counterparts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
from evenhand.criterion import Criterion, Judgement, Outputs
from evenhand.errors import ModelError, RunError, SpaceError
from evenhand.replaying import same_answers
from evenhand.run import Run
from evenhand.sources import deciding, threshold_of
from evenhand.space.counterparts import Families
from evenhand.space.individuals import Individuals
from evenhand.text.space import TextSpace

Mask = npt.NDArray[np.bool_]


class Spent(Exception):
    """The next question does not fit into the rows that may be asked."""


class Examiner:
    """Judges individuals, and counts the model's rows; a question beyond ``limit`` rows is not asked.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & f["member"], space, strategy="themis")
    >>> examiner = Examiner(run, asker_of(run, None, "eh.regions"))
    >>> examiner.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), examiner.rows
    ([True, False, True], 4)
    """

    def __init__(self, run: Run, asker: Asker, limit: int | None = None) -> None:
        self.space, self.asker, self.limit = run.space, asker, limit
        self.seed, self.chunk = run.identity.seed, int(run.identity.chunk)
        self.rows = 0

    @property
    def width(self) -> int:
        """How many rows one test asks at most."""
        return int(min(self.space.combinations, self.space.limit) * self.asker.cost)

    def judged(self, people: Individuals) -> tuple[Mask, Mask]:
        """Tell who can be compared at all, and who is treated differently; a test that comes twice is asked once."""
        if not len(people):
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        _, first, back = np.unique(people.keys, return_index=True, return_inverse=True)
        testable, unfair = np.zeros(len(first), dtype=bool), np.zeros(len(first), dtype=bool)
        size = max(1, self.chunk // min(self.space.combinations, self.space.limit))
        for start in range(0, len(first), size):
            families = self.space.families(people[first[start : start + size]], self.seed)
            able = np.arange(len(families)) if families.testable is None else np.flatnonzero(families.testable)
            if len(able):
                testable[start + able] = True
                unfair[start + able] = self.judge(families[able])[1].unfair
        return testable[back.reshape(-1)], unfair[back.reshape(-1)]

    def unfair(self, people: Individuals) -> Mask:
        """Tell who is treated differently; who cannot be compared is not."""
        return self.judged(people)[1]

    def judge(self, families: Families) -> tuple[Outputs, Judgement]:
        """Ask about whole families."""
        cost = int(families.places.sum()) * self.asker.cost
        if self.limit is not None and self.rows + cost > self.limit:
            raise Spent
        self.rows += cost
        outputs = self.asker.outputs(families)
        return outputs, self.asker.criterion.judge(outputs)


def asker_of(run: Run, model: Any, call: str, criterion: Criterion | None = None) -> Asker:
    """Return what asks the model of a run: its own, or one that is given and gives the same answers."""
    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")
    if isinstance(run.space, TextSpace):
        raise SpaceError(
            f"{call} is for runs of attributes, and this is one of texts; run.findings has every pair, what was "
            "replaced, and the row of the data that each comes from"
        )
    if model is not None:
        asker = Asker(deciding(run, model), run.space, criterion or run.identity.criterion)
        check_model(run, asker)
        return asker
    if run.origin is None:
        raise ModelError(
            f"a run that was read from its directory does not have its model ({run.identity.model}) with it; "
            f"give it: {call}(run, model)"
        )
    own = run.origin.asker
    # Without the scores that a search may have asked for its own sake: the same run, read back, does not ask them.
    return Asker(own.model, run.space, criterion or own.criterion, own.timeout)


def check_model(run: Run, asker: Asker) -> None:
    """Raise where a model answers otherwise than the run's did."""
    if not same_answers(run, asker):
        noted = threshold_of(run)
        by = "the decision threshold that it had" if noted is None else f"its decision threshold of {noted:g}"
        raise ModelError(
            f"{asker.model.name} is not the model that the run was made with ({run.identity.model}): it gives other "
            f"answers to the same individuals; give the run's own, with {by}"
        )
