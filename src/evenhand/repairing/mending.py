"""The entry: from arguments to a `Repair`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from evenhand.budget import Budget, whole
from evenhand.criterion import Criterion, Flip
from evenhand.errors import BudgetError, DataError, EvenhandError, StrategyError
from evenhand.measuring.favour import alike
from evenhand.measuring.plan import Plan
from evenhand.model import Model
from evenhand.repairing.augment import Augment
from evenhand.repairing.counterfactual import Counterfactual
from evenhand.repairing.evidence import Inquiry, movable, watched
from evenhand.repairing.judging import Judged, judge
from evenhand.repairing.marginalise import Marginalise
from evenhand.repairing.result import Repair
from evenhand.repairing.retrain import Retrain
from evenhand.repairing.rows import Labelled, labelled, split
from evenhand.repairing.scoring import answers
from evenhand.repairing.training import Trainer
from evenhand.repairing.used import Used
from evenhand.repairing.workshop import Method, Workshop, seed_of
from evenhand.run import CHUNK, DEFAULT_TESTS, check_arguments
from evenhand.search import Strategy
from evenhand.space.tabular import Space
from evenhand.starting import check_space
from evenhand.strategies import describe, make

METHODS: dict[str, type[Any]] = {
    "retrain": Retrain,
    "augment": Augment,
    "counterfactual": Counterfactual,
    "marginal": Marginalise,
}
DEFAULT_SAMPLES = 100_000


def repair(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space,
    method: str | Method = "retrain",
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
        Rows with the space's columns and no others: a frame, or an array in the space's order.
    y
        One label a row.
    space
        The legal inputs, and which attributes are protected.
    method
        ``"retrain"``, ``"augment"``, ``"counterfactual"``, ``"marginal"``, or one with settings (``Retrain(...)``).
    seed
        Same seed, same repair, if training is repeatable.
    held_out
        The share of rows that nothing is trained on, for evidence; or a pair ``(X_test, y_test)``.
    favourable
        The decision that people want; with it there are group figures (extra ``fairness``).
    confidence
        How sure the intervals are.
    samples
        Uniform individuals of the final estimates.
    strategy
        The search whose findings are trained with; by default the method's own paper's.
    check
        Another search, which goes over the original and the repaired model; by default ``"kosei"``.
    watch
        Attributes to which discrimination might have moved; by default the protected ones apart and the free ones, up
        to twenty.
    budget
        What each search may spend; by default 100,000 tests.
    criterion
        What counts as different; by default a changed decision.
    progress
        Called with a few words at each step.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from evenhand.stream import Stream
    >>> space = eh.Space([eh.Integer("age", 1, 90), eh.Integer("pay", 0, 99), eh.Boolean("member")], protected="member")
    >>> X = space.frame(space.sampler.deal(Stream(0), 0, 500)[0].rows)
    >>> y = (X["pay"] + 10 * X["member"] > 50).to_numpy()
    >>> done = eh.repair(DecisionTreeClassifier(), X, y, space, "counterfactual", samples=2000)
    >>> done.changed, done.after.uniform.rate < done.before.uniform.rate
    (True, True)
    """
    start = time.monotonic()
    check_space(space)
    _check_progress(progress)
    check_arguments(seed, CHUNK, budget, criterion, None, None)
    chosen = made(method)
    if not whole(samples) or samples < 1:
        raise BudgetError(f"samples must be a whole number of at least 1, got {samples!r}")
    Plan(confidence=confidence)
    train, held = _sides(X, y, space, held_out, seed)
    _check_labels(train, favourable)
    names = _watch(space, watch)
    tell = progress or _silent
    trainer = Trainer(estimator, seed_of(seed, "train"), train.columns)
    tell("training the original model")
    original = trainer(train)
    model = trainer.wrap(original)
    # Now, and not after a search and much training, is the time to hear that y and the model speak of other things.
    scored = answers(model, held).scored
    search, other, notes = _searches(chosen, strategy, check, model, scored)
    criterion, budget = criterion or Flip(), budget or Budget(tests=DEFAULT_TESTS)
    used = Used(space)
    workshop = Workshop(train, trainer, original, int(seed), criterion, search, budget, tell, used)
    inquiry = Inquiry(
        held=held,
        used=used,
        criterion=criterion,
        check=other,
        budget=budget,
        samples=samples,
        confidence=confidence,
        favourable=favourable,
        watch=names,
        seed=int(seed),
        tell=tell,
    )
    try:
        remedy = chosen.apply(workshop)
        judged = judge(remedy, inquiry, model, trainer)
    except EvenhandError as error:
        error.partial = original if workshop.intact else None
        raise
    settings = {"strategy": describe(search) if hasattr(chosen, "search") else None}
    settings |= _settings(workshop, inquiry, judged, movable(space) if watch is None else names)
    changed = judged.accepted is not None
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
        notes=[*remedy.notes, *notes, *inquiry.notes],
        seconds=time.monotonic() - start,
        confidence=confidence,
        seed=int(seed),
        settings=settings,
        used=used,
        rejected=None if changed else judged.after,
        reason="" if changed else judged.objection or remedy.reason,
    )


def _settings(workshop: Workshop, inquiry: Inquiry, judged: Judged, movable: list[str]) -> dict[str, Any]:
    """Say what was done with what; of the attributes to which discrimination might have moved, which were looked at."""
    looked = [name for name in inquiry.watch if judged.looked_at(name)]
    return {
        "check": describe(inquiry.check),
        "training_rows": len(workshop.rows),
        "held_out_rows": len(inquiry.held),
        "held_out_rows_added": int(workshop.used.added(inquiry.held.encoded.individuals).sum()),
        "tests_used": len(workshop.used),
        "watched": looked,
        "not_watched": [name for name in movable if name not in looked],
    }


def made(method: Any, **settings: Any) -> Method:
    """Return a method by name, or the given one.

    >>> made("augment", share=0.1).share
    0.1
    """
    if isinstance(method, str) and method in METHODS:
        known = [field.name for field in dataclasses.fields(METHODS[method])]
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise StrategyError(f"{method} has no setting {unknown[0]!r}; it has {', '.join(known)}")
        found: Method = METHODS[method](**settings)
        return found
    if isinstance(method, str | type) or not hasattr(method, "apply") or not dataclasses.is_dataclass(method):
        raise StrategyError(
            f"a method is one of {', '.join(map(repr, METHODS))} or a dataclass with an apply method, got {method!r}"
        )
    return method  # type: ignore[return-value]


def _silent(words: str) -> None:
    del words


def _sides(X: Any, y: Any, space: Space, held_out: Any, seed: int) -> tuple[Labelled, Labelled]:
    rows = labelled(X, y, space)
    if not isinstance(held_out, tuple | list):
        return split(rows, held_out, seed)
    if len(held_out) != 2:
        raise DataError(f"held_out must be a share or a pair (X_test, y_test), got {len(held_out)} things")
    held = labelled(held_out[0], held_out[1], space, "X_test")
    if not len(held) or not len(rows):
        raise DataError(f"there must be rows on both sides, got {len(rows):,} to train with and {len(held):,} held out")
    return rows, held


def _check_labels(train: Labelled, favourable: Any) -> None:
    labels = sorted(set(train.truth.tolist()), key=str)
    texts = [str(label) for label in labels]
    if len(labels) < 2:
        raise DataError(
            f"y has the single value {texts[0]!r} in the training rows; a model needs two to decide between"
        )
    if favourable is not None and not any(alike(favourable, label) for label in labels):
        raise DataError(f"favourable={favourable!r} is no label of y; it has {', '.join(texts[:8])}")


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise StrategyError(f"progress must be a function that takes a few words, such as print, got {progress!r}")


def _watch(space: Space, watch: Sequence[str] | None) -> list[str]:
    if watch is None:
        return watched(space)
    names = [watch] if isinstance(watch, str) else watch
    if not isinstance(names, list | tuple | set):
        raise DataError(f"watch must be names of attributes, such as {list(space.names[:2])}, got {watch!r}")
    for name in names:
        if space.attributes[space.column(name)].size < 2:
            raise DataError(f"watch: {name!r} has a single value, so nothing can depend on it")
    return list(dict.fromkeys(names))


def _searches(
    method: Any, strategy: Any, check: Any, model: Model, scored: bool
) -> tuple[Strategy, Strategy, list[str]]:
    """Choose the search that gives findings, and another one that looks at what came out; note what was replaced."""
    own, notes = getattr(method, "search", None), []
    if own == "adf" and strategy is None and not scored:
        own = "kosei"
        notes.append(f"{model.name} gives labels only, no scores: kosei gave the findings instead of adf")
    search = make(strategy or own or "themis")
    searches = own is not None
    default = "aequitas" if searches and describe(search)["strategy"] == "kosei" else "kosei"
    other = make(check or default)
    if searches and type(other) is type(search):
        raise StrategyError(
            f"check={describe(other)['strategy']!r} is the search that the repair trains with; choose another, so that "
            "the check is not of what was taught"
        )
    return search, other, notes
