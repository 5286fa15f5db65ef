"""What a repair needs before its method works: rows or texts taken apart, the original model, and the searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.budget import Budget
from evenhand.criteria import Criterion
from evenhand.errors import DataError, StrategyError
from evenhand.estimates.pair_counts import alike, normal, outcomes_of
from evenhand.models.base import Model
from evenhand.repairs.evidence import Inquiry, movable, watched
from evenhand.repairs.rows import Labelled, labelled, split
from evenhand.repairs.scoring import answers
from evenhand.repairs.text_rows import LabelledTexts, UsedTexts, labelled_texts
from evenhand.repairs.training import Trainer
from evenhand.repairs.used import Used
from evenhand.repairs.workshop import Method, Workshop, seed_of
from evenhand.runs.audit import DEFAULT_TESTS, check_kind
from evenhand.search import Strategy
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe, make

TEXT_TESTS = 10_000
"""What a search of texts may spend: a test of texts costs up to a thousand times as much as one of rows."""


@dataclass(frozen=True)
class Given:
    """The arguments of a repair that say how, checked."""

    seed: int
    held_out: Any
    favourable: Any
    confidence: float
    samples: int
    strategy: Any
    check: Any
    watch: Sequence[str] | None
    budget: Budget | None
    criterion: Criterion
    tell: Callable[[str], object]


def prepare(
    estimator: Any, X: Any, y: Any, space: Space | TextSpace, method: Method, given: Given
) -> tuple[Workshop, Inquiry]:
    """Train the original model."""
    of_texts = isinstance(space, TextSpace)
    if of_texts and (given.watch or given.favourable is not None):
        raise DataError("watch and favourable are for rows of attributes; leave them out where there are texts")
    train, held = _sides(labelled_texts if of_texts else labelled, X, y, space, given)
    _check_labels(train, given.favourable)
    names: list[str] = []
    used: Used | UsedTexts
    if isinstance(space, TextSpace):
        used = UsedTexts(space, train.texts)
        for side in (train, held):
            space.begin(side.data)
    else:
        names, used = _watch(space, given.watch), Used(space)
    trainer = Trainer(estimator, seed_of(given.seed, "train"), train.columns, of_texts)
    given.tell("training the original model")
    original = trainer(train)
    model = trainer.wrap(original)
    # Now, and not after a search and much training, is the time to hear that y and the model speak of other things.
    scored = answers(model, held).scored
    search, other, notes = (_text_searches if of_texts else _searches)(
        method, given.strategy, given.check, model, scored
    )
    for one in (search, other):
        check_kind(space, one)
    budget = given.budget or Budget(tests=TEXT_TESTS if of_texts else DEFAULT_TESTS)
    workshop = Workshop(train, trainer, original, given.seed, given.criterion, search, budget, given.tell, used)
    inquiry = Inquiry(
        held=held,
        used=used,
        criterion=given.criterion,
        check=other,
        budget=budget,
        samples=given.samples,
        confidence=given.confidence,
        favourable=given.favourable,
        watch=names,
        movable=names if isinstance(space, TextSpace) or given.watch is not None else movable(space),
        seed=given.seed,
        tell=given.tell,
        notes=notes,
    )
    return workshop, inquiry


def _sides(read: Any, X: Any, y: Any, space: Any, given: Given) -> tuple[Any, Any]:
    """Take apart what is trained on and what is held out."""
    rows, held_out = read(X, y, space), given.held_out
    if not isinstance(held_out, tuple | list):
        return split(rows, held_out, given.seed)
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


def _text_searches(
    method: Any, strategy: Any, check: Any, model: Model, scored: bool
) -> tuple[Strategy, Strategy, list[str]]:
    """Choose the search of texts; the check is the same one, because it starts from other texts."""
    del scored
    own = getattr(method, "search", "adf") == "adf" and model.has_words
    search = make(strategy or ("text-adf" if own else "text-random"))
    return search, make(check or search), []
