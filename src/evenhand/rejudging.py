"""What asks the model of a run: individuals are judged outside the run as the run judged its tests."""

from __future__ import annotations

from typing import Any

from evenhand.criteria import Criterion
from evenhand.engine.judge import Judge
from evenhand.engine.probe import Asker
from evenhand.errors import ModelError, RunError
from evenhand.replaying import same_answers
from evenhand.run import Run
from evenhand.sources import deciding, threshold_of
from evenhand.spaces.base import require


def judge_of(run: Run, asker: Asker, limit: int | None = None) -> Judge:
    """Return a judge that judges as the run did: the same counterparts, in blocks of the same size.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & f["member"], space, strategy="themis")
    >>> judge = judge_of(run, asker_of(run, None, "eh.regions"))
    >>> judge.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), judge.rows
    ([True, False, True], 4)
    """
    return Judge(asker, run.identity.seed, chunk=run.identity.chunk, limit=limit)


def asker_of(run: Run, model: Any, call: str, criterion: Criterion | None = None) -> Asker:
    """Return what asks the model of a run: its own, or one that is given and gives the same answers."""
    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")
    instead = "run.findings has every pair, what was replaced, and the row of the data that each comes from"
    require(run.space, "attributes", call, instead)
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
