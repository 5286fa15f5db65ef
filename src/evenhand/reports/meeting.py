"""Whom the estimates met: real people who are affected as they are, and somebody to show where nobody was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.explanations.examples import Known
from evenhand.runs.replay import judge_of
from evenhand.spaces.base import table
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space
from evenhand.words import Pair, pairs_of

if TYPE_CHECKING:
    from evenhand.engine.probe import Asker
    from evenhand.estimates.result import Estimate
    from evenhand.runs.run import Run


def affected(e: Estimate | None, space: Space, data: Any) -> Known | None:
    """Say which people of the data are like those whom the estimate found; None where nobody was asked.

    How many are affected, and of how many, is the estimate's own count.
    """
    if e is None:
        return None
    rows = space.encode(data).individuals.rows
    found = {row.tobytes() for row in _found(e).rows}
    return Known(np.flatnonzero([row.tobytes() in found for row in rows]), e.samples, e.found)


def pairs_met(run: Run, asker: Asker, estimates: Sequence[Estimate], count: int) -> list[Pair]:
    """Give some individuals whom an estimate found, each beside a counterpart; the model is asked about them again."""
    for e in estimates:
        people = _found(e)[:count]
        if not len(people):
            continue
        families = run.space.families(people, run.identity.seed)
        if families.valid is not None:
            # Where everyone was judged, a family may be dealt as one of its members whom the constraints forbid.
            people = families.members(np.arange(len(people)), families.valid.argmax(axis=1))
            families = run.space.families(people, run.identity.seed)
        answer = judge_of(run, asker).judge(families)
        outputs, judged = answer.outputs, answer.verdicts
        here = np.flatnonzero(judged.unfair)
        first, second = judged.first[here], judged.second[here]
        assert outputs.labels is not None
        return pairs_of(
            run.space,
            families.members(here, first).rows,
            families.members(here, second).rows,
            outputs.labels[here, first],
            outputs.labels[here, second],
            None if outputs.scores is None else judged.gap[here],
        )
    return []


def _found(e: Estimate) -> Individuals:
    """Those whom an estimate found, as far as it kept them."""
    kept, space = e.kept, table(e.space)
    parts = [people[np.flatnonzero(unfair)] for people, unfair in zip(kept.people, kept.unfair, strict=True)]
    return Individuals.join([*parts, *kept.later]) if parts or kept.later else Individuals(space, rows=_none(space))


def _none(space: Space) -> Any:
    return np.zeros((0, len(space.names)), dtype=np.int32)
