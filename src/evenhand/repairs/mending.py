"""The entry: from arguments to a `Repair`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from evenhand._interrupts import watched
from evenhand._validate import is_int
from evenhand.budget import Budget
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import CHUNK
from evenhand.errors import BudgetError, EvenhandError, StrategyError
from evenhand.estimates.estimate import Plan
from evenhand.repairs.augment import Augment
from evenhand.repairs.certified import Certified
from evenhand.repairs.counterfactual import Counterfactual
from evenhand.repairs.evidence import Inquiry
from evenhand.repairs.judging import judge
from evenhand.repairs.marginalise import Marginalise
from evenhand.repairs.preparing import Given, prepare
from evenhand.repairs.result import Repair
from evenhand.repairs.retrain import Retrain
from evenhand.repairs.workshop import Method, Workshop
from evenhand.runs.audit import check_arguments
from evenhand.search import Strategy
from evenhand.spaces.base import require
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe

METHODS: dict[str, type[Any]] = {
    "retrain": Retrain,
    "augment": Augment,
    "counterfactual": Counterfactual,
    "marginal": Marginalise,
}
TEXT_METHODS: dict[str, type[Any]] = {"augment": Augment, "certified": Certified}
DEFAULT_SAMPLES = 100_000


def repair(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space | TextSpace,
    method: str | Method | None = None,
    *,
    seed: int = 0,
    held_out: Any = 0.3,
    favourable: Any = None,
    confidence: float = 0.95,
    samples: int = DEFAULT_SAMPLES,
    strategy: str | Strategy | None = None,
    check: str | Strategy | None = None,
    watch: Sequence[str] | None = None,
    budget: Budget | None = None,
    criterion: Criterion | None = None,
    progress: Callable[[str], object] | None = None,
) -> Repair:
    """Make a model fairer, and give fresh evidence of what changed.

    Parameters
    ----------
    estimator
        An estimator in the manner of scikit-learn, which is cloned and never fitted itself, or a function
        ``train(X, y)`` that returns a new model each time, anything that ``wrap`` takes.
    X
        Rows with the space's columns and no others: a frame, or an array in the space's order. Of texts: a list, a
        series, or a frame with the space's column; training gets a list of strings.
    y
        One label a row.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    method
        ``"retrain"`` (the default), ``"augment"``, ``"counterfactual"``, ``"marginal"``; of texts ``"augment"`` (the
        default) or ``"certified"``; or one with settings (``Retrain(...)``).
    seed
        Same seed, same repair, if training is repeatable.
    held_out
        The share of rows that nothing is trained on, for evidence; or a pair ``(X_test, y_test)``.
    favourable
        The decision that people want; with it there are group figures (extra ``fairness``).
    confidence
        How sure the intervals are.
    samples
        Uniform individuals of the final estimates; of texts, findings at most that are judged again.
    strategy
        The search whose findings are trained with; by default the method's own paper's.
    check
        Another search, which goes over the original and the repaired model; by default ``"kosei"``. Of texts it starts
        from the held-out ones, and is by default the same search.
    watch
        Attributes to which discrimination might have moved; by default the protected ones apart and the free ones, up
        to twenty. Not for texts.
    budget
        What each search may spend; by default 100,000 tests, of texts 10,000.
    criterion
        What counts as different; by default a changed decision.
    progress
        Called with a few words at each step.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from evenhand._rng import Stream
    >>> space = eh.Space([eh.Integer("age", 1, 90), eh.Integer("pay", 0, 99), eh.Boolean("member")], protected="member")
    >>> X = space.frame(space.sampler.draw(Stream(0), 0, 500)[0].rows)
    >>> y = (X["pay"] + 10 * X["member"] > 50).to_numpy()
    >>> done = eh.repair(DecisionTreeClassifier(), X, y, space, "counterfactual", samples=2000)
    >>> done.changed, done.after.uniform.rate < done.before.uniform.rate
    (True, True)
    """
    start = time.monotonic()
    texts = getattr(space, "noun", "") == "text"
    if not texts:
        require(space, "attributes")
    _check_progress(progress)
    check_arguments(seed, CHUNK, budget, criterion, None, None)
    chosen = made(method, TEXT_METHODS if texts else METHODS)
    if not is_int(samples) or samples < 1:
        raise BudgetError(f"samples must be a whole number of at least 1, got {samples!r}")
    Plan(confidence=confidence)
    given = Given(int(seed), held_out, favourable, confidence, samples, strategy, check, watch, budget,
                  criterion or Flip(), progress or _silent)  # fmt: skip
    with watched():
        workshop, inquiry = prepare(estimator, X, y, space, chosen, given)
        original, trainer = workshop.original, workshop.trainer
        try:
            remedy = chosen.apply(workshop)
            judged = judge(remedy, inquiry, trainer.wrap(original), trainer)
        except EvenhandError as error:
            error.partial = original if workshop.intact else None
            raise
    settings = _settings(workshop, inquiry, hasattr(chosen, "search"))
    settings |= {"watched": [name for name in inquiry.watch if judged.looked_at(name)]}
    settings |= {"not_watched": [name for name in inquiry.movable if name not in settings["watched"]]}
    changed = judged.accepted is not None
    notes = [*remedy.notes, *inquiry.notes]
    if changed and settings["not_watched"]:
        notes.append(f"not looked at whether more people depend on {', '.join(settings['not_watched'])}")
    return Repair(
        model=remedy.model if changed else original,
        original=original,
        before=judged.before,
        after=judged.accepted or judged.before,
        changed=changed,
        method=chosen,
        rows_added=remedy.added if changed else 0,
        rounds=remedy.rounds,
        notes=notes,
        seconds=time.monotonic() - start,
        confidence=confidence,
        seed=int(seed),
        settings=settings,
        used=workshop.used,
        rejected=None if changed else judged.after,
        reason="" if changed else judged.objection or remedy.reason,
    )


def _settings(workshop: Workshop, inquiry: Inquiry, searches: bool) -> dict[str, Any]:
    """Say what was done with what."""
    return {
        "strategy": describe(workshop.strategy) if searches else None,
        "check": describe(inquiry.check),
        "training_rows": len(workshop.rows),
        "held_out_rows": len(inquiry.held),
        "held_out_rows_added": inquiry.held_added,
        "tests_used": len(workshop.used),
    }


def made(method: Any, methods: dict[str, type[Any]] = METHODS) -> Method:
    """Return a method by name, the first where there is no name, or the given one.

    >>> made("augment").share
    0.05
    """
    method = next(iter(methods)) if method is None else method
    if isinstance(method, str) and method in methods:
        found: Method = methods[method]()
        return found
    others = tuple({*METHODS.values(), *TEXT_METHODS.values()} - {*methods.values()})
    if isinstance(method, (str, type, *others)) or not hasattr(method, "apply") or not dataclasses.is_dataclass(method):
        raise StrategyError(
            f"a method {'of texts ' * (methods is TEXT_METHODS)}is one of {', '.join(map(repr, methods))} or a "
            f"dataclass with an apply method, got {method!r}"
        )
    return method  # type: ignore[return-value]


def _silent(words: str) -> None:
    del words


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise StrategyError(f"progress must be a function that takes a few words, such as print, got {progress!r}")
