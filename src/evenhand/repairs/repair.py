"""``eh.repair``: from arguments to a `Repair`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from evenhand._interrupts import watched
from evenhand._validate import check_bool, check_int, check_number, check_seed
from evenhand.budget import Budget
from evenhand.criteria import Criterion, Flip, check_criterion
from evenhand.errors import BudgetError, DataError, EvenhandError, StrategyError
from evenhand.estimates.estimate import Plan
from evenhand.estimates.pair_counts import alike, normal, outcomes_of
from evenhand.models.base import Model
from evenhand.repairs.augment import Augment, Counterfactual, Retrain
from evenhand.repairs.certified import Certified
from evenhand.repairs.consistency import Consistency
from evenhand.repairs.context import Candidate, Method, RepairContext, seed_of
from evenhand.repairs.data import Labelled, LabelledTexts, Used, UsedTexts, labelled, labelled_texts, split
from evenhand.repairs.evidence import Evidence, EvidencePlan, answers, movable
from evenhand.repairs.marginal import Marginal
from evenhand.repairs.result import Comparison, Repair, change, choose, not_shown, rate_difference
from evenhand.repairs.training import Trainer, tunable
from evenhand.runs.audit import check_kind
from evenhand.search import Strategy
from evenhand.spaces.base import require
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe, kind_of, make

METHODS: dict[str, type[Any]] = {
    "retrain": Retrain,
    "augment": Augment,
    "counterfactual": Counterfactual,
    "consistency": Consistency,
    "marginal": Marginal,
}
TEXT_METHODS: dict[str, type[Any]] = {
    "augment": Augment,
    "counterfactual": Counterfactual,
    "consistency": Consistency,
    "certified": Certified,
}
DEFAULT_SAMPLES = 20_000
TESTS = 20_000
"""Tests of each search."""
TEXT_TESTS = 10_000
"""Tests of each search of texts, which cost up to a thousand times as much as tests of rows."""
MOST_WATCHED = 20
"""Maximum number of attributes that are watched by default."""


@dataclass(frozen=True)
class RepairOptions:
    """Settings of the evidence of a repair: held-out rows, number of individuals, watched attributes.

    >>> RepairOptions(samples=2000).held_out
    0.3
    """

    held_out: Any = 0.3
    """The share of rows that nothing is trained on, or a pair ``(X_test, y_test)``."""
    samples: int = DEFAULT_SAMPLES
    """Uniform random individuals of the final estimates; for texts, maximum number of findings judged again."""
    confidence: float = 0.95
    """Confidence level of all intervals."""
    favourable: Any = None
    """The favourable decision; with it there are group figures (extra ``fairness``). Not for texts."""
    check: str | Strategy | None = None
    """Another search, for the original and the repaired model; by default ``"kosei"``. For texts it starts from the
    held-out ones, and is by default the same search."""
    watch: Sequence[str] | None = None
    """Attributes to which discrimination might have moved; by default the protected ones separately and the free ones,
    up to twenty. Not for texts."""
    control: bool = True
    """Whether to train once more with nothing added, to see what training alone changes."""
    tolerate: float = 1.0
    """Percentage points of accuracy that the best of several methods may lose."""

    def __post_init__(self) -> None:
        check_int("samples", self.samples, BudgetError, 1)
        check_bool("control", self.control, DataError)
        check_number("tolerate", self.tolerate, DataError, 0)
        Plan(confidence=self.confidence)


def repair(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space | TextSpace,
    method: str | Method | Sequence[str | Method] | None = None,
    *,
    seed: int = 0,
    strategy: str | Strategy | None = None,
    budget: Budget | int | None = None,
    criterion: Criterion | None = None,
    progress: Callable[[str], object] | None = None,
    executor: Executor | int | None = None,
    options: RepairOptions | None = None,
) -> Repair:
    """Make a model fairer, and give fresh evidence of what changed.

    Parameters
    ----------
    estimator
        An estimator with ``fit``, as in scikit-learn, which is cloned and never fitted itself; or a function
        ``train(X, y)`` that returns a new model each time, anything that ``wrap`` takes. A function ``train(X, y,
        start)`` also gets the fitted model to continue from, or None.
    X
        Rows with the space's columns and no others: a frame, or an array in the space's order. For texts: a list, a
        series, or a frame with the space's column; training gets a list of strings.
    y
        One label per row.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    method
        ``"retrain"``, ``"augment"``, ``"counterfactual"``, ``"consistency"`` (networks), ``"marginal"``; for texts
        ``"augment"``, ``"counterfactual"``, ``"consistency"`` (networks) or ``"certified"``; or a method with settings,
        such as ``Augment(...)``. Several are compared, and the best is returned. By default those that suit the model
        and are quick.
    seed
        Same seed, same repair, if training is repeatable.
    strategy
        The search that finds individuals to train with; by default that of the method's paper.
    budget
        What each search may spend; by default 20,000 tests, for texts 10,000.
    criterion
        What counts as different; by default a changed decision.
    progress
        Called with a few words at each step.
    executor
        Where models are called: a number of processes on this machine, a ``concurrent.futures.Executor``, or a
        ``dask.distributed.Client``; by default in this process. Models are trained here. The repair is the same.
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
    texts = getattr(space, "noun", "") == "text"
    if not texts:
        require(space, "attributes")
    _check_progress(progress)
    budget = Budget.of(budget)
    check_seed(seed, StrategyError)
    check_criterion(criterion)
    methods = None if method is None else named(method, TEXT_METHODS if texts else METHODS)
    options = RepairOptions() if options is None else options
    if not isinstance(options, RepairOptions):
        raise StrategyError(
            "must be repair options",
            parameter="options",
            value=options,
            remedy="give eh.repairs.RepairOptions(samples=..., held_out=..., ...)",
        )
    with watched():
        context, plan = prepare(
            estimator, X, y, space, methods, options, int(seed), strategy, budget, criterion or Flip(),
            progress or _silent, executor,
        )  # fmt: skip
        try:
            done, failed = compare(methods or named(suited(context.model, texts)), context, plan, strategy, options)
        except EvenhandError as error:
            error.partial = context.original if context.intact else None
            raise
    # A single method is returned as it is; of several, the best.
    name, why = choose(done, options.tolerate, only=len(done) + len(failed) == 1)
    first = next(iter(done.values()))
    best = done.get(name) or dataclasses.replace(
        first, model=first.original, after=first.before, changed=False, rows_added=0, reason=why, cost=""
    )
    best.comparison = Comparison(done, failed, name, why)
    return best


def suited(model: Model, texts: bool) -> list[str]:
    """Name the methods to compare by default.

    >>> from evenhand.models.wrap import wrap
    >>> suited(wrap(len), texts=False)
    ['augment', 'counterfactual', 'marginal']
    """
    return ["augment", "counterfactual", *["consistency"] * tunable(model), *["marginal"] * (not texts)]


def compare(
    methods: dict[str, Method], context: RepairContext, plan: EvidencePlan, strategy: Any, options: RepairOptions
) -> tuple[dict[str, Repair], dict[str, EvenhandError]]:
    """Apply each method, then judge all models and controls by the same individuals.

    A method that fails is left out, unless it is the only one or all others failed too.
    """
    made: dict[str, tuple[Candidate, Any, float, list[Any]]] = {}
    failed: dict[str, EvenhandError] = {}
    scored = answers(context.model, plan.held).scored
    for name, method in methods.items():
        start = time.monotonic()
        search, notes = searching(method, strategy, context.model, context.space, scored)
        own = context.with_strategy(search)
        own.tell = _naming(context.tell, name if len(methods) > 1 else "")
        try:
            candidate = method.apply(own)
            control = candidate.control() if options.control and candidate.model and candidate.control else None
        except EvenhandError as error:
            if len(failed) + 1 == len(methods) or not context.intact:
                raise next(iter([*failed.values(), error])) from None
            failed[name] = error
            continue
        candidate.notes[:0] = notes
        made[name] = candidate, control, time.monotonic() - start, [describe(search)] * own.searched
    before = plan.gather(context.model, "the original model")
    controls: dict[int, Evidence] = {}
    done = {}
    for name, (candidate, control, seconds, searches) in made.items():
        start = time.monotonic()
        if control is not None and id(control) not in controls:
            controls[id(control)] = plan.gather(context.trainer.wrap(control), "the control", control=True)
        after = None
        if candidate.model is not None:
            after = plan.gather(context.trainer.wrap(candidate.model), "the repaired model")
        seconds += time.monotonic() - start
        done[name] = _judged(
            methods[name], candidate, context, plan, before, after, controls.get(id(control)), seconds, searches
        )
    return done, failed


def _naming(tell: Callable[[str], object], name: str) -> Callable[[str], object]:
    return lambda words: tell(f"{name}: {words}" if name else words)


def _judged(
    method: Method, candidate: Candidate, context: RepairContext, plan: EvidencePlan, before: Evidence,
    after: Evidence | None, control: Evidence | None, seconds: float, searches: list[Any],
) -> Repair:  # fmt: skip
    """Accept or refuse a candidate."""
    refused = "" if after is None else _objection(before, after, plan)
    changed = after is not None and not refused
    both = (before, after or before)
    looked = [name for name in plan.watch if all(name in one.others for one in both)]
    unwatched = [name for name in plan.movable if name not in looked]
    notes = [*candidate.notes, *plan.notes]
    if changed and unwatched:
        notes.append(f"not checked: whether more people depend on {', '.join(unwatched)}")
    settings = {
        "strategy": searches[0] if searches else None,
        "start": _start(method, context),
        "check": describe(plan.check),
        "training_rows": len(context.rows),
        "held_out_rows": len(plan.held),
        "held_out_rows_added": plan.held_added,
        "tests_used": len(context.used),
        "watched": looked,
        "not_watched": unwatched,
    }
    return Repair(
        model=candidate.model if changed else context.original,
        original=context.original,
        before=before,
        after=after if changed and after is not None else before,
        changed=changed,
        method=method,
        rows_added=candidate.added if changed else 0,
        rounds=candidate.rounds,
        notes=notes,
        seconds=seconds,
        confidence=plan.confidence,
        seed=context.seed,
        settings=settings,
        used=context.used,
        control=control,
        rejected=None if changed else after,
        reason="" if changed else refused or candidate.reason,
        cost=candidate.cost if changed else "",
    )


def _start(method: Any, context: RepairContext) -> str | None:
    """Say what a method's training starts from."""
    if not hasattr(method, "start"):
        return None
    return "scratch" if method.start == "scratch" or context.starts(method.start) == "scratch" else "model"


def named(method: Any, methods: dict[str, type[Any]] = METHODS) -> dict[str, Method]:
    """Return methods by name.

    >>> named("augment")["augment"].share
    0.05
    """
    several = method if isinstance(method, list | tuple) else [method]
    out: dict[str, Method] = {}
    for one in several:
        found = made(one, methods)
        name = type(found).__name__.lower()
        number = 1 + sum(key.partition(" ")[0] == name for key in out)
        if found not in out.values():
            out[f"{name} {number}" if number > 1 else name] = found
    if not out:
        raise StrategyError("must name a method", parameter="method", value=method, remedy="leave it out to compare")
    return out


def made(method: Any, methods: dict[str, type[Any]] = METHODS) -> Method:
    """Return a method by name, or the given one.

    >>> made("augment").share
    0.05
    """
    if isinstance(method, str) and method in methods:
        found: Method = methods[method]()
        return found
    others = tuple({*METHODS.values(), *TEXT_METHODS.values()} - {*methods.values()})
    if isinstance(method, (str, type, *others)) or not hasattr(method, "apply") or not dataclasses.is_dataclass(method):
        raise StrategyError(
            f"must be one of {', '.join(map(repr, methods))}{' for texts' * (methods is TEXT_METHODS)}, or a dataclass "
            "with a method apply",
            parameter="method",
            value=method,
            remedy="leave it out to compare those that suit the model",
        )
    return method  # type: ignore[return-value]


def _silent(words: str) -> None:
    del words


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise StrategyError(
            "must be a function that takes a string",
            parameter="progress",
            value=progress,
            remedy="give a function such as print",
        )


def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    space: Space | TextSpace,
    methods: dict[str, Method] | None,
    options: RepairOptions,
    seed: int,
    strategy: Any,
    budget: Budget | None,
    criterion: Criterion,
    tell: Callable[[str], object],
    executor: Executor | int | None = None,
) -> tuple[RepairContext, EvidencePlan]:
    """Read the rows, train the original model, and plan the evidence."""
    of_texts = space.noun == "text"
    if of_texts:
        _check_for_texts(options)
    train, held = _sides(labelled_texts if of_texts else labelled, X, y, space, options.held_out, seed)
    _check_labels(train, options.favourable)
    names: list[str] = []
    moves: list[str] = []
    used: Used | UsedTexts
    if isinstance(space, TextSpace):
        used = UsedTexts(space, train.texts)
        for side in (train, held):
            space.begin(side.data)
    else:
        names, used = _watch(space, options.watch), Used(space)
        moves = names if options.watch is not None else movable(space)
    trainer = Trainer(estimator, seed_of(seed, "train"), train.columns, of_texts, executor)
    tell("training the original model")
    original = trainer(train)
    model = trainer.wrap(original)
    # Fails early if the labels of y and of the model differ.
    scored = answers(model, held).scored
    chosen = methods or named(suited(model, of_texts), TEXT_METHODS if of_texts else METHODS)
    searches = [searching(one, strategy, model, space, scored)[0] for one in chosen.values()]
    trained_by = [one for one, method in zip(searches, chosen.values(), strict=True) if hasattr(method, "search")]
    other = checking(options.check, trained_by, searches[0], of_texts)
    for one in (*searches, other):
        check_kind(space, one)
    budget = budget or Budget(tests=TEXT_TESTS if of_texts else TESTS)
    context = RepairContext(train, trainer, original, seed, criterion, searches[0], budget, tell, used)
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
        movable=moves,
        seed=seed,
        tell=tell,
    )
    return context, plan


def _check_for_texts(options: RepairOptions) -> None:
    for name in ("watch", "favourable"):
        value = getattr(options, name)
        if value is not None and value != ():
            raise DataError("is for rows of attributes", parameter=name, value=value, remedy="leave it out for texts")


def _sides(read: Any, X: Any, y: Any, space: Any, held_out: Any, seed: int) -> tuple[Any, Any]:
    """Separate the training rows from the held-out rows."""
    rows = read(X, y, space)
    if not isinstance(held_out, tuple | list):
        return split(rows, held_out, seed)
    if len(held_out) != 2:
        raise DataError(f"must be a share or a pair (X_test, y_test), got {len(held_out)} items", parameter="held_out")
    held = read(held_out[0], held_out[1], space, "X_test")
    if not len(held) or not len(rows):
        empty = "X" if not len(rows) else "held_out"
        raise DataError("must have at least one row", parameter=empty, value=0, remedy="give rows with labels")
    return rows, held


def _check_labels(train: Labelled | LabelledTexts, favourable: Any) -> None:
    labels = sorted(set(train.truth.tolist()), key=str)
    texts = [str(label) for label in labels]
    if len(labels) < 2:
        raise DataError(
            f"must have at least two labels in the {len(train):,} training rows",
            parameter="y",
            value=labels[0],
            remedy="give rows with other labels too",
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


def searching(
    method: Any, strategy: Any, model: Model, space: Space | TextSpace, scored: bool
) -> tuple[Strategy, list[str]]:
    """Choose the search that finds training rows, and note what was replaced."""
    own = getattr(method, "search", None)
    if space.noun == "text":
        return make(strategy or ("text-adf" if own in (None, "adf") and model.has_words else "text-random")), []
    if own == "adf" and strategy is None and not scored:
        return make("kosei"), [f"{model.name} returns labels only, no scores: kosei found the rows instead of adf"]
    return make(strategy or own or "themis"), []


def _search(check: Any) -> Strategy:
    """Return the search of a check."""
    try:
        return make(check)
    except StrategyError as error:
        error.parameter = "check" if error.parameter == "strategy" else error.parameter
        error.args = (error.render(),)
        raise


def checking(check: Any, trained_by: list[Strategy], search: Strategy, texts: bool) -> Strategy:
    """Choose a search that no method trains with; for texts it may be the same, as its texts differ."""
    if texts:
        return _search(check or search)
    kinds = {type(one) for one in trained_by}
    names = (name for name in ("kosei", "aequitas", "themis") if kind_of(name) not in kinds)
    other = _search(check or next(names))
    if type(other) in kinds:
        raise StrategyError(
            "is also the search that finds training rows, so it cannot check the result",
            parameter="check",
            value=describe(other)["strategy"],
            remedy="choose another search",
        )
    return other


def _objection(before: Evidence, after: Evidence, plan: EvidencePlan) -> str:
    """Describe why a new model is refused: a rate rose significantly, or too few individuals are left; else empty."""
    if plan.few(before):
        return not_shown(before, plan.shown_by)
    for name in ("uniform", "data"):
        by = rate_difference(before, after, name, plan.confidence)
        if by is not None and by.low > 0:
            return f"made worse: {change('discrimination', name, before, after, by)}"
    return ""
