"""The entry: from arguments to a `Repair`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand._interrupts import watched
from evenhand._validate import check_int
from evenhand.budget import Budget
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import CHUNK
from evenhand.errors import BudgetError, DataError, EvenhandError, StrategyError
from evenhand.estimates.estimate import Plan
from evenhand.estimates.pair_counts import alike, normal, outcomes_of
from evenhand.models.base import Model
from evenhand.repairs.augment import Augment
from evenhand.repairs.certified import Certified
from evenhand.repairs.context import Method, RepairContext, seed_of
from evenhand.repairs.counterfactual import Counterfactual
from evenhand.repairs.data import Labelled, LabelledTexts, Used, UsedTexts, labelled, labelled_texts, split
from evenhand.repairs.evidence import EvidencePlan, judge, movable
from evenhand.repairs.marginal import Marginal
from evenhand.repairs.metrics import answers
from evenhand.repairs.result import Repair
from evenhand.repairs.retrain import Retrain
from evenhand.repairs.training import Trainer
from evenhand.runs.audit import DEFAULT_TESTS, check_arguments, check_kind
from evenhand.search import Strategy
from evenhand.spaces.base import require
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe, make

METHODS: dict[str, type[Any]] = {
    "retrain": Retrain,
    "augment": Augment,
    "counterfactual": Counterfactual,
    "marginal": Marginal,
}
TEXT_METHODS: dict[str, type[Any]] = {"augment": Augment, "certified": Certified}
DEFAULT_SAMPLES = 100_000
MOST_WATCHED = 20
"""Attributes that are watched unless others are named."""


@dataclass(frozen=True)
class RepairOptions:
    """The evidence that a repair gives: which rows are held out, how many individuals are judged, what is watched.

    >>> RepairOptions(samples=2000).held_out
    0.3
    """

    held_out: Any = 0.3
    """The share of rows that nothing is trained on, or a pair ``(X_test, y_test)``."""
    samples: int = DEFAULT_SAMPLES
    """Uniform individuals of the final estimates; of texts, findings at most that are judged again."""
    confidence: float = 0.95
    """Confidence of all intervals."""
    favourable: Any = None
    """The decision that people want; with it there are group figures (extra ``fairness``). Not for texts."""
    check: str | Strategy | None = None
    """Another search, which goes over the original and the repaired model; by default ``"kosei"``. Of texts it starts
    from the held-out ones, and is by default the same search."""
    watch: Sequence[str] | None = None
    """Attributes to which discrimination might have moved; by default the protected ones separately and the free ones,
    up to twenty. Not for texts."""

    def __post_init__(self) -> None:
        check_int("samples", self.samples, BudgetError, 1)
        Plan(confidence=self.confidence)


def repair(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space | TextSpace,
    method: str | Method | None = None,
    *,
    seed: int = 0,
    strategy: str | Strategy | None = None,
    budget: Budget | None = None,
    criterion: Criterion | None = None,
    progress: Callable[[str], object] | None = None,
    options: RepairOptions | None = None,
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
    strategy
        The search whose findings are trained with; by default the method's own paper's.
    budget
        What each search may spend; by default 100,000 tests, of texts 10,000.
    criterion
        What counts as different; by default a changed decision.
    progress
        Called with a few words at each step.
    options
        How the evidence is made: held-out rows, samples, confidence, and so on; by default ``RepairOptions()``.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from evenhand._rng import Stream
    >>> space = eh.Space([eh.Integer("age", 1, 90), eh.Integer("pay", 0, 99), eh.Boolean("member")], protected="member")
    >>> X = space.frame(space.sampler.draw(Stream(0), 0, 500)[0].rows)
    >>> y = (X["pay"] + 10 * X["member"] > 50).to_numpy()
    >>> options = eh.repairs.RepairOptions(samples=2000)
    >>> done = eh.repair(DecisionTreeClassifier(), X, y, space, "counterfactual", options=options)
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
    options = RepairOptions() if options is None else options
    if not isinstance(options, RepairOptions):
        raise StrategyError(
            "must be repair options",
            parameter="options",
            value=options,
            remedy="give eh.repairs.RepairOptions(samples=..., held_out=..., ...)",
        )
    tell = progress or _silent
    with watched():
        context, plan = prepare(
            estimator, X, y, space, chosen, options, int(seed), strategy, budget, criterion or Flip(), tell
        )
        original, trainer = context.original, context.trainer
        try:
            candidate = chosen.apply(context)
            judged = judge(candidate, plan, trainer.wrap(original), trainer)
        except EvenhandError as error:
            error.partial = original if context.intact else None
            raise
    settings = _settings(context, plan, hasattr(chosen, "search"))
    settings |= {"watched": [name for name in plan.watch if judged.looked_at(name)]}
    settings |= {"not_watched": [name for name in plan.movable if name not in settings["watched"]]}
    changed = judged.accepted is not None
    notes = [*candidate.notes, *plan.notes]
    if changed and settings["not_watched"]:
        notes.append(f"not looked at whether more people depend on {', '.join(settings['not_watched'])}")
    return Repair(
        model=candidate.model if changed else original,
        original=original,
        before=judged.before,
        after=judged.accepted or judged.before,
        changed=changed,
        method=chosen,
        rows_added=candidate.added if changed else 0,
        rounds=candidate.rounds,
        notes=notes,
        seconds=time.monotonic() - start,
        confidence=options.confidence,
        seed=int(seed),
        settings=settings,
        used=context.used,
        rejected=None if changed else judged.after,
        reason="" if changed else judged.objection or candidate.reason,
    )


def _settings(context: RepairContext, plan: EvidencePlan, searches: bool) -> dict[str, Any]:
    """Say what was done with what."""
    return {
        "strategy": describe(context.strategy) if searches else None,
        "check": describe(plan.check),
        "training_rows": len(context.rows),
        "held_out_rows": len(plan.held),
        "held_out_rows_added": plan.held_added,
        "tests_used": len(context.used),
    }


def made(method: Any, methods: dict[str, type[Any]] = METHODS) -> Method:
    """Return a method by name, the first where there is no name, or the options one.

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
        raise StrategyError(
            "must be a function that takes a string", parameter="progress", value=progress, remedy="for example print"
        )


TEXT_TESTS = 10_000
"""What a search of texts may spend: a test of texts costs up to a thousand times as much as one of rows."""


def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space | TextSpace,
    method: Method,
    options: RepairOptions,
    seed: int,
    strategy: Any,
    budget: Budget | None,
    criterion: Criterion,
    tell: Callable[[str], object],
) -> tuple[RepairContext, EvidencePlan]:
    """Train the original model."""
    of_texts = isinstance(space, TextSpace)
    if of_texts and (options.watch or options.favourable is not None):
        raise DataError("watch and favourable are for rows of attributes; leave them out where there are texts")
    train, held = _sides(labelled_texts if of_texts else labelled, X, y, space, options.held_out, seed)
    _check_labels(train, options.favourable)
    names: list[str] = []
    used: Used | UsedTexts
    if isinstance(space, TextSpace):
        used = UsedTexts(space, train.texts)
        for side in (train, held):
            space.begin(side.data)
    else:
        names, used = _watch(space, options.watch), Used(space)
    trainer = Trainer(estimator, seed_of(seed, "train"), train.columns, of_texts)
    tell("training the original model")
    original = trainer(train)
    model = trainer.wrap(original)
    # Fails early if the labels of y and of the model differ.
    scored = answers(model, held).scored
    search, other, notes = (_text_searches if of_texts else _searches)(method, strategy, options.check, model, scored)
    for one in (search, other):
        check_kind(space, one)
    budget = budget or Budget(tests=TEXT_TESTS if of_texts else DEFAULT_TESTS)
    context = RepairContext(train, trainer, original, seed, criterion, search, budget, tell, used)
    plan = EvidencePlan(
        held=held,
        used=used,
        criterion=criterion,
        check=other,
        budget=budget,
        samples=options.samples,
        confidence=options.confidence,
        favourable=options.favourable,
        watch=names,
        movable=names if isinstance(space, TextSpace) or options.watch is not None else movable(space),
        seed=seed,
        tell=tell,
        notes=notes,
    )
    return context, plan


def _sides(read: Any, X: Any, y: Any, space: Any, held_out: Any, seed: int) -> tuple[Any, Any]:
    """Take apart what is trained on and what is held out."""
    rows = read(X, y, space)
    if not isinstance(held_out, tuple | list):
        return split(rows, held_out, seed)
    if len(held_out) != 2:
        raise DataError(f"held_out must be a share or a pair (X_test, y_test), got {len(held_out)} things")
    held = read(held_out[0], held_out[1], space, "X_test")
    if not len(held) or not len(rows):
        raise DataError(f"there must be rows on both sides, got {len(rows):,} to train with and {len(held):,} held out")
    return rows, held


def _check_labels(train: Labelled | LabelledTexts, favourable: Any) -> None:
    labels = sorted(set(train.truth.tolist()), key=str)
    texts = [str(label) for label in labels]
    if len(labels) < 2:
        raise DataError(
            f"y has the single value {texts[0]!r} in the training rows; a model needs two to decide between"
        )
    for one in outcomes_of(normal(favourable)):
        if not any(alike(one, label) for label in labels):
            raise DataError(
                "must be a label of y", parameter="favourable", value=one, remedy=f"y has {', '.join(texts[:8])}"
            )


def _watch(space: Space, watch: Sequence[str] | None) -> list[str]:
    if watch is None:
        return movable(space)[:MOST_WATCHED]
    names = [watch] if isinstance(watch, str) else watch
    if not isinstance(names, list | tuple | set):
        raise DataError(
            "must be names of attributes",
            parameter="watch",
            value=watch,
            remedy=f"for example {list(space.names[:2])}",
        )
    for name in names:
        if space.attributes[space.column(name)].size < 2:
            raise DataError(
                "must name attributes with at least two values",
                parameter="watch",
                value=name,
                remedy=f"leave {name!r} out",
            )
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


def _text_searches(
    method: Any, strategy: Any, check: Any, model: Model, scored: bool
) -> tuple[Strategy, Strategy, list[str]]:
    """Choose the search of texts; the check is the same one, because it starts from other texts."""
    del scored
    own = getattr(method, "search", "adf") == "adf" and model.has_words
    search = make(strategy or ("text-adf" if own else "text-random"))
    return search, make(check or search), []
