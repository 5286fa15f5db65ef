"""Conformance suites for those who write searches, models and kinds of spaces.

``check_strategy``, ``check_model`` and ``check_space`` raise an ``AssertionError`` that says in a sentence what is
wrong, and return nothing where all is right. evenhand's own searches pass the same checks, ``STRATEGY_CHECKS``.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.budget import Budget, StopReason
from evenhand.engine.store import ANSWERS
from evenhand.errors import EvenhandError, ModelError
from evenhand.models.base import Model
from evenhand.models.client import ModelClient
from evenhand.models.wrap import CallableModel, reading, wrap
from evenhand.plugins import is_spec
from evenhand.reports.report import ReportOptions, report
from evenhand.runs.replay import replay
from evenhand.runs.run import Run, audit, needs_of, space_from
from evenhand.spaces.attributes import Integer, Nominal
from evenhand.spaces.base import AnySpace, BoundSpace
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe, known, make

__all__ = ["STRATEGY_CHECKS", "World", "check_model", "check_space", "check_strategy", "worlds_for"]

TESTS = 800
"""Tests of the longest run of a check."""


@dataclass(frozen=True)
class World:
    """Something to search: a model that answers the same row the same way each time, a space, and perhaps data."""

    model: Any
    space: Any
    data: Any = None


def check_strategy(strategy: Any, worlds: Iterable[Any] | None = None) -> None:
    """Check that a search keeps what every search must keep.

    No finding is false and none comes twice; budgets are exact, and a smaller one gives a prefix; the same seed gives
    the same findings whatever the sizes of blocks and calls; a run that was broken off goes on where it was and asks
    nothing twice; and the rows that the model was asked are those that the run counts.

    Parameters
    ----------
    strategy
        The search, with settings that suit small spaces.
    worlds
        What to search, as ``World(model, space, data)``. By default small spaces of attributes, or of texts for a
        search that needs those; a search of another kind of space needs its own.

    Examples
    --------
    >>> from evenhand.strategies import Themis
    >>> check_strategy(Themis(block=100), worlds_for(Themis())[:1])
    """
    for world in worlds_for(strategy) if worlds is None else worlds:
        for check in STRATEGY_CHECKS.values():
            check(strategy, world)


def worlds_for(strategy: Any) -> list[World]:
    """Make worlds that a search can search, from seeds.

    >>> from evenhand.strategies import TextRandom, Themis
    >>> len(worlds_for(Themis())), worlds_for(TextRandom())[0].space.noun
    (2, 'text')
    """
    needs = needs_of(strategy)
    if needs == "attributes":
        plain, decisions = random_table(30, 30_000)
        space, others = random_table(34, 30_000)
        first, second = space.names[:2]
        tight = Space(space.attributes, space.protected, [f"{first} != 0 or {second} == 0"])
        return [World(Lookup(plain, decisions), plain), World(Lookup(tight, others), tight)]
    if needs == "texts":
        words = bool(getattr(strategy, "uses_gradient", False))
        return [World(text_model(n, words), team_space(), team_texts(n, 80, terms=n)) for n in (1, 2)]
    raise AssertionError(f"{_name(strategy)} needs {needs}: give worlds to search, worlds=[World(model, space, data)]")


# What every search must keep.


def _settings(strategy: Any, world: Any) -> None:
    del world
    parameters = getattr(type(strategy), "__dataclass_params__", None)
    _hold(parameters is not None and parameters.frozen, f"{_name(strategy)} is no frozen dataclass")
    described = describe(strategy)
    try:
        settings = json.loads(json.dumps(described))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the settings of {_name(strategy)} cannot be stored as JSON: {error}") from None
    name = settings.pop("strategy")
    if known(name) is not None or is_spec(name):
        again = describe(make(name, **settings))
        _hold(again == described, f"{name} made again of its settings has others: {again} instead of {described}")


def _findings(strategy: Any, world: Any) -> None:
    run = _audit(strategy, world, Budget(tests=TESTS), seed=3, chunk=64)
    _hold(not run.refuted, f"{run.refuted} findings got another answer when they were asked again")
    if not run.found:
        return
    assert run.origin is not None
    asker, pairs = run.origin.asker, run.pairs
    for side, said in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        rows = pairs.rows(side)
        # In another order and one call, which is what a finding must not depend on.
        labels = asker.labels(_some(rows, np.arange(len(rows))[::-1]))[::-1]
        wrong = int((labels != pairs.decisions(said)).sum())
        _hold(not wrong, f"{wrong} of {run.found} findings are false: the model says something else of the {side}")
    alike = int((pairs.decisions("decision") == pairs.decisions("counterpart_decision")).sum())
    _hold(not alike, f"{alike} of {run.found} findings are false: both sides got the same decision")
    keys = _tests_of(run)
    _hold(len(set(keys)) == len(keys), f"{len(keys) - len(set(keys))} of {run.found} findings are of the same test")
    if run.space.supports("attributes") and not run.space.links:
        others = pairs.individuals("counterpart").keys.tolist()
        _hold(keys == others, "a counterpart differs from its individual in more than what is protected")


def _budgets(strategy: Any, world: Any) -> None:
    full = _audit(strategy, world, Budget(tests=2 * TESTS), chunk=500)
    found = _findings_of(full)
    for tests in (1, 100, 499, 500, full.tests):
        run = _audit(strategy, world, Budget(tests=tests), chunk=500)
        _hold(run.tests == min(tests, full.tests), f"a budget of {tests} tests gave {run.tests}")
        _prefix(run, found, f"tests={tests}")
        if world.space.supports("attributes") and not world.space.constraints and not world.space.links:
            rows = run.tests * world.space.width
            _hold(run.asked["test"] == rows, f"{run.tests} tests asked {run.asked['test']} rows instead of {rows}")
    for rows in (7, 100, 1000, 1001):
        run = _audit(strategy, world, Budget(rows=rows), chunk=500)
        _hold(run.rows <= rows, f"a budget of {rows} rows was exceeded: {run.rows} were asked")
        _hold(full.rows <= rows or run.stop is StopReason.ROWS, f"a budget of {rows} rows ended as {run.stop}")
        _prefix(run, found, f"rows={rows}")
    for wanted in (count for count in (1, 5, 37) if count <= full.found):
        run = _audit(strategy, world, Budget(findings=wanted), chunk=500)
        _hold(run.found == wanted, f"a budget of {wanted} findings gave {run.found}")
        _hold(run.stop is StopReason.FINDINGS, f"a budget of {wanted} findings ended as {run.stop}")
        _prefix(run, found, f"findings={wanted}")


def _seeds(strategy: Any, world: Any) -> None:
    budget, first = Budget(tests=TESTS), _findings_of(_audit(strategy, world, Budget(tests=TESTS), seed=9))
    _hold(_findings_of(_audit(strategy, world, budget, seed=9)) == first, "the same seed gave other findings")
    blocks = _findings_of(_audit(strategy, world, budget, seed=9, chunk=64))
    _hold(blocks == first, "the findings depend on the chunk; draw from problem.stream, by walker and step")
    model = wrap(world.model, batch_size=17)
    calls = _findings_of(audit(model, world.space, strategy, budget, 9, data=world.data))
    _hold(calls == first, "the findings depend on the batch size")


def _rows(strategy: Any, world: Any) -> None:
    model = Counted(_model(world))
    run = _audit(strategy, World(model, world.space, world.data), Budget(tests=TESTS), chunk=300)
    counted = run.rows + run.rows_checked
    _hold(model.rows == counted, f"the model was asked {model.rows} rows, and the run counts {counted}")


def _resuming(strategy: Any, world: Any) -> None:
    budget = Budget(tests=TESTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = _audit(strategy, world, budget, chunk=256, directory=folder / "whole")
        answers = (folder / "whole" / ANSWERS).read_bytes()
        for calls, cancel in ((3, False), (5, True), (9, False)):
            dying, token = Counted(_model(world), None if cancel else calls), Count(2 * calls)
            settings: dict[str, Any] = {"chunk": 256, "directory": folder / str(calls)}
            broken = World(dying, world.space, world.data)
            partial = _audit(strategy, broken, budget, cancel=token if cancel else None, **settings)
            if partial.stop is not StopReason.INTERRUPTED:
                # It was over before.
                continue
            model = Counted(_model(world))
            run = _audit(strategy, World(model, world.space, world.data), budget, **settings)
            how = f"a run that was broken off after {calls} calls"
            _hold(_findings_of(run) == _findings_of(whole), f"{how} went on to other findings")
            same = (run.tests, run.rows, run.stop) == (whole.tests, whole.rows, whole.stop)
            _hold(same, f"{how} went on to {run.tests} tests, {run.rows} rows, {run.stop}")
            _hold((folder / str(calls) / ANSWERS).read_bytes() == answers, f"{how} left other answers in its directory")
            kept = run.counts["rows_from_log"]
            _hold(kept == partial.rows, f"{how} had asked {partial.rows} rows, and took {kept} from its directory")
            new = run.rows + run.rows_checked - kept
            _hold(model.rows == new, f"{how} asked {model.rows} rows when it went on, and {new} were new")


def _extending(strategy: Any, world: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        for tests in (100, 500, 300, 800):
            kept = _audit(strategy, world, Budget(tests=tests), chunk=256, directory=Path(name) / "run")
            plain = _audit(strategy, world, Budget(tests=tests), chunk=256)
            what = f"a directory that is called again with a budget of {tests} tests"
            _hold(_findings_of(kept) == _findings_of(plain), f"{what} gives other findings than a new run")
            same = (kept.tests, kept.rows) == (plain.tests, plain.rows)
            _hold(same, f"{what} gives {kept.tests} tests and {kept.rows} rows instead of {plain.tests}, {plain.rows}")


STRATEGY_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "settings": _settings,
    "findings": _findings,
    "budgets": _budgets,
    "seeds": _seeds,
    "rows": _rows,
    "resuming": _resuming,
    "extending": _extending,
}
"""What ``check_strategy`` checks of a search in a world, by name."""


# Models.


def check_model(model: Any, inputs: Any, *, sizes: Sequence[int] = (1, 3, 64)) -> None:
    """Check that a model answers as evenhand relies on.

    Answers have one entry for each row, depend on no other row of the batch, on no position in it and on no batch size,
    and come again; scores and decisions agree; what the model says of itself makes sense.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes, so also an object that a package adapts.
    inputs
        Some rows as the model takes them, at least eight that differ: a frame, an array, or a list of texts.
    sizes
        Batch sizes to compare with one batch of all.

    Examples
    --------
    >>> check_model(wrap(lambda X: X[:, 0] > 3, input="array"), np.arange(20.0).reshape(10, 2))
    """
    count = len(inputs)
    _hold(count >= 8, f"give at least eight rows to ask about, got {count}")
    try:
        asked = reading(wrap(model), texts=isinstance(inputs, list))
        asked.check()
        _check_answers(asked, inputs, count, sizes)
    except ModelError as error:
        raise AssertionError(str(error)) from error


def _check_answers(model: Model, inputs: Any, count: int, sizes: Sequence[int]) -> None:
    asking, every = ModelClient(model), np.arange(count)
    scored = model.has_scores and _gives_scores(asking, inputs, count)

    def ask(at: npt.NDArray[np.int64], size: int | None = None) -> Answers:
        rows = _some(inputs, at)
        asking.calls.fixed = size or len(at)
        scores = asking.scores(rows, len(at)) if scored else None
        said = scores[:, 0] if model.regression and scores is not None else asking.labels(rows, len(at))
        return Answers(said, scores)

    first = ask(every)
    order = np.random.default_rng(0).permutation(count)
    _same(first, ask(every), f"{model.name} gave two answers to the same row of the same batch")
    _same(first[order], ask(order), f"the answers of {model.name} depend on the order of the rows")
    twice = ask(np.concatenate([every, every]))
    _same(first, twice[count:], f"the answers of {model.name} depend on the position in the batch")
    for size in sizes:
        _same(first, ask(every, size), f"the answers of {model.name} depend on the batch size, {size} or {count} rows")
    if scored and model.decides and first.scores is not None:
        wrong = int((~((model.decide(first.scores) == first.labels) | first.ties)).sum())
        _hold(not wrong, f"{model.name} decides otherwise than its scores for {wrong} of {count} rows")
        if model.classes is not None:
            _hold(
                len(model.classes) == first.scores.shape[1] or (first.scores.shape[1] == 1 and len(model.classes) == 2),
                f"{model.name} has {len(model.classes)} classes and {first.scores.shape[1]} columns of scores",
            )
    if model.gradient_source is not None and model.input == "array" and first.scores is not None:
        asking.calls.fixed = None
        slopes = asking.gradients(inputs, first.scores.argmax(axis=1))
        _hold(slopes.shape == np.shape(inputs), f"{model.name} gives gradients of the shape {slopes.shape}")


@dataclass(frozen=True)
class Answers:
    """What a model said of some rows."""

    labels: npt.NDArray[Any]
    scores: npt.NDArray[np.float64] | None

    def __getitem__(self, at: Any) -> Answers:
        return Answers(self.labels[at], None if self.scores is None else self.scores[at])

    @property
    def ties(self) -> npt.NDArray[np.bool_]:
        """Which rows are so near to two decisions that rounding may choose."""
        if self.scores is None or self.scores.shape[1] < 2:
            return np.zeros(len(self.labels), dtype=bool)
        top = np.sort(self.scores, axis=1)
        return _close(top[:, -1], top[:, -2])


def _same(one: Answers, other: Answers, otherwise: str) -> None:
    numbers = one.labels.dtype.kind == "f" == other.labels.dtype.kind
    unlike = ~(_close(one.labels, other.labels) if numbers else np.asarray(one.labels == other.labels) | one.ties)
    if one.scores is not None and other.scores is not None:
        unlike |= ~_close(one.scores, other.scores).all(axis=1)
    _hold(not unlike.any(), f"{otherwise}: {int(unlike.sum())} of {len(one.labels)} rows")


def _close(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell what is the same but for rounding in single precision."""
    return np.asarray(np.abs(one - other) <= 1e-4 * max(1e-6, float(np.abs(one).max(initial=0))), dtype=bool)


def _gives_scores(asking: ModelClient, inputs: Any, count: int) -> bool:
    """Whether a function, of which that is not known before it is asked, gives scores."""
    try:
        asking.scores(inputs, count)
    except ModelError:
        if isinstance(asking.model, CallableModel):
            return False
        raise
    return True


def _some(rows: Any, at: npt.NDArray[np.int64]) -> Any:
    if isinstance(rows, list):
        return [rows[i] for i in at.tolist()]
    return rows.iloc[at].reset_index(drop=True) if hasattr(rows, "iloc") else rows[at]


# Spaces.


def check_space(space: Any, data: Any, model: Any, strategy: Any = None) -> None:
    """Check that a kind of space keeps what every space must keep.

    Families contain the individual; keys are equal exactly for the same test; ``describe()`` is plain and leads back to
    the space; findings survive saving and loading, and are confirmed by a replay; a run that was broken off goes on;
    and a report of it can be made.

    Parameters
    ----------
    space
        The space.
    data
        What its runs take as data, or None.
    model
        A model that treats some of its individuals differently.
    strategy
        A search for the space; by default its own.

    Examples
    --------
    >>> space = Space([Integer("age", 1, 90), Nominal("sex", ["F", "M"])], protected="sex")
    >>> check_space(space, None, lambda frame: (frame["age"] < 40) & (frame["sex"] == "F"))
    """
    _hold(not _lacking(space, AnySpace), f"the space lacks {_lacking(space, AnySpace)}, which AnySpace asks for")
    _check_description(space)
    wrapped = reading(wrap(model), texts=space.input == "text")
    bound, again = space.bind(data, wrapped), space.bind(data, wrapped)
    ground = bound.ground
    _hold(not _lacking(ground, BoundSpace), f"what bind returns lacks {_lacking(ground, BoundSpace)}")
    people = ground.probes(bound.people, 200) if bound.people is None else bound.people[:200]
    _hold(len(people) > 0, "there is nobody to look at: give data")
    same = again.ground.probes(again.people)
    _hold(_listed(ground.probes(bound.people).rows) == _listed(same.rows), "probes differ from one call to the next")
    if bound.people is not None:
        digests = {one.ground.digest_of(one.people) for one in (bound, again)}
        _hold(len(digests) == 1, "digest_of differs for the same data")
    _check_block(people)
    _check_families(ground, people, wrapped)
    _check_runs(World(model, space, data), strategy or space.default_strategy)


def _check_description(space: Any) -> None:
    try:
        plain = json.loads(json.dumps(space.describe(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"describe() cannot be stored as JSON: {error}") from None
    try:
        back = space_from(plain, Path("identity.json"))
    except EvenhandError as error:
        raise AssertionError(f"the space cannot be read back from describe(): {error}") from None
    _hold(type(back) is type(space), f"describe() leads back to a {type(back).__name__}")
    again = json.loads(json.dumps(back.describe()))
    _hold(again == plain, f"the space that describe() leads back to describes itself otherwise: {again}")


def _check_block(people: Any) -> None:
    count = len(people)
    half = np.arange(0, count, 2)
    mask = np.zeros(count, dtype=bool)
    mask[half] = True
    wanted = _listed(_some(people.rows, half))
    for name, which in (("positions", half), ("a mask", mask), ("a slice", slice(0, None, 2))):
        some = people[which]
        _hold(len(some) == len(half), f"a block indexed by {name} has {len(some)} individuals instead of {len(half)}")
        _hold(_listed(some.rows) == wanted, f"a block indexed by {name} has other individuals")
        _hold((some.keys == people.keys[which]).all(), f"keys change when a block is indexed by {name}")
    _hold(people.keys.dtype in (np.int64, np.complex128), f"keys are {people.keys.dtype}, not int64 or complex128")
    low = people.keys.imag if people.keys.dtype.kind == "c" else people.keys
    _hold(not (low.astype(np.int64) & 1).any(), "the lowest bit of a key is not free: it holds the verdict")
    _hold(len(people.stored) == count, f"stored has {len(people.stored)} entries for {count} individuals")


def _check_families(ground: Any, people: Any, model: Model) -> None:
    families = ground.families(people, 0)
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
        people = families.individuals
    asked, count = _listed(families.asked), len(families)
    _hold(count == len(people), f"{count} families of {len(people)} individuals")
    _hold(
        int(families.places.sum()) == len(asked), f"places adds up to {families.places.sum()}, asked has {len(asked)}"
    )
    _hold(int(families.places.max()) <= ground.width, f"a family has more members than width, {ground.width}")
    at = families.to_grid(np.arange(len(asked)))
    members = _members(families)
    _hold(all(len(one) > 1 for one in members), "a family has nobody to compare with: its members are all the same")
    if not ground.constraints:
        # Where constraints forbid the individual itself, another of its family stands for it.
        own = _listed(people.rows)
        wrong = sum(asked[i] != one for i, one in zip(at[np.arange(count), families.own].tolist(), own, strict=True))
        _hold(not wrong, f"{wrong} of {count} families do not have their individual at the place that own names")
    some = np.arange(0, count, 3)
    _hold(_members(families[some]) == members[::3], "families that are taken out of others have other members")
    last = np.full(count, at.shape[1] - 1)
    others = ground.most_different(people, families.most_different(last))
    if hasattr(others, "rows"):
        wanted = [asked[i] for i in at[np.arange(count), last].tolist()]
        _hold(_listed(others.rows) == wanted, "most_different does not give back the members that the families named")
    if not ground.space.sampled:
        _check_keys(people.keys.tolist(), members)
        if hasattr(others, "keys"):
            both = [*members, *_members(ground.families(others, 0))]
            _check_keys([*people.keys.tolist(), *others.keys.tolist()], both)
    fits = ground.batch_size_for(people, np.arange(count), 3 * ground.width)
    _hold(1 <= fits <= count, f"batch_size_for says {fits} of {count} individuals")
    rows = int(families.places[:fits].sum())
    _hold(fits == 1 or rows <= 3 * ground.width, f"batch_size_for says that {rows} rows fit {3 * ground.width}")
    for what, made in (
        ("inputs", ground.space.inputs(families.asked, model.input, model.columns)),
        ("family_inputs", ground.family_inputs(families, model.input, model.columns)),
    ):
        _hold(len(made) == len(asked), f"{what} made {len(made)} rows of {len(asked)}")


def _check_keys(keys: list[Any], families: list[frozenset[Any]]) -> None:
    by_key: dict[Any, frozenset[Any]] = {}
    for key, family in zip(keys, families, strict=True):
        _hold(by_key.setdefault(key, family) == family, "two tests have the same key: their families differ")
    _hold(len(set(by_key.values())) == len(by_key), "the same test has two keys: two families are equal")


def _members(families: Any) -> list[frozenset[Any]]:
    """Give who is in each family."""
    asked = _listed(families.asked)
    return [frozenset(asked[i] for i in row) for row in families.to_grid(np.arange(len(asked))).tolist()]


def _check_runs(world: World, strategy: Any) -> None:
    chosen = make(strategy)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        run = _audit(chosen, world, Budget(tests=TESTS), directory=place)
        _hold(run.found > 1, f"{run.found} findings in {run.tests} tests; give a model that treats more differently")
        kept = Run.load(place)
        _hold(_findings_of(kept) == _findings_of(run), "findings change when a run is saved and loaded")
        sides = ("individual", "counterpart")
        same = all(_listed(kept.pairs.rows(side)) == _listed(run.pairs.rows(side)) for side in sides)
        _hold(same, "the rows of findings change when a run is saved and loaded")
        replayed = replay(place, world.model)
        _hold(replayed.refuted == 0, f"{replayed.refuted} of {run.found} findings are not confirmed by a replay")
        lines = _findings_of(kept)
        kept.pairs.drop(np.array([0]))
        _hold(_lines(kept.pairs.frame()) == lines[1:], "drop([0]) leaves other findings")
        kept.pairs.cut(1)
        _hold(kept.pairs.count == len(kept.pairs.frame()) == 1, f"cut(1) leaves {len(kept.pairs.frame())} findings")
        for shown in (run, Run.load(place)):
            page: Any = report(shown, None, options=ReportOptions(ask=False))
            _hold(page.startswith(b"<!doctype html>"), "no report can be made")
    for check in (_findings, _budgets, _resuming):
        check(chosen, world)


def _lacking(thing: Any, protocol: Any) -> str:
    """Name what a protocol asks for and an object does not have."""
    wanted = {**vars(protocol), **protocol.__annotations__}
    return ", ".join(name for name in wanted if not name.startswith("_") and not hasattr(thing, name))


# What the checks are made of.


class Counted(Model):
    """A model that counts the rows it is asked; after so many calls it is as if somebody pressed Ctrl-C."""

    def __init__(self, model: Model, dies: int | None = None) -> None:
        vars(self).update({name: getattr(model, name) for name in Model.__annotations__})
        self.inner, self.dies = model, dies
        self.calls = self.rows = 0

    def _count(self, rows: int) -> None:
        if self.dies is not None and self.calls >= self.dies:
            raise KeyboardInterrupt
        self.calls += 1
        self.rows += rows

    def labels(self, X: Any) -> Any:
        """Count and ask."""
        self._count(len(X))
        return self.inner.labels(X)

    def scores(self, X: Any) -> Any:
        """Count and ask."""
        self._count(len(X))
        return self.inner.scores(X)

    def gradients(self, X: Any, classes: Any) -> Any:
        """Count and ask."""
        self._count(len(X))
        return self.inner.gradients(X, classes)

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Count and ask."""
        self._count(len(texts))
        return self.inner.word_gradients(texts, classes)

    def word_vectors(self, words: Any) -> Any:
        """Ask."""
        return self.inner.word_vectors(words)

    def decide(self, scores: Any) -> Any:
        """Decide as the model does."""
        return self.inner.decide(scores)

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Ask."""
        return self.inner.unread(names)


class Count:
    """A cancel token that is set after it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        """Whether it was looked at often enough."""
        self.left -= 1
        return self.left < 0


def _model(world: Any) -> Model:
    return reading(wrap(world.model), texts=world.space.input == "text")


def _audit(strategy: Any, world: Any, budget: Budget, **settings: Any) -> Run:
    return audit(world.model, world.space, strategy, budget, data=world.data, **settings)


def _findings_of(run: Run) -> list[str]:
    """Give findings as lines of text, which are equal exactly where the findings are."""
    return _lines(run.findings)


def _lines(frame: Any) -> list[str]:
    """Write a frame without what came of asking again, which a run that was cut or loaded may know less of."""
    kept = frame.drop(columns=[name for name in frame if str(name).startswith("confirmed")])
    return str(kept.to_csv(index=False)).splitlines()[1:]


def _tests_of(run: Run) -> list[Any]:
    if run.space.supports("attributes"):
        return list(run.pairs.individuals().keys.tolist())
    return _listed(run.pairs.rows())


def _prefix(run: Run, whole: list[str], what: str) -> None:
    found = _findings_of(run)
    _hold(found == whole[: len(found)], f"the findings of a budget of {what} are no prefix of those of a larger one")


def _listed(rows: Any) -> list[Any]:
    """Make rows comparable."""
    return list(rows) if isinstance(rows, list) else [tuple(row) for row in np.asarray(rows).tolist()]


def _name(strategy: Any) -> str:
    return type(strategy).__name__


def _hold(held: Any, otherwise: str) -> None:
    if not held:
        raise AssertionError(otherwise)


# Worlds of attributes: every individual's decision stands in a table.


def random_table(
    seed: int, most: int, *, patchy: bool = True, nominal: bool = True
) -> tuple[Space, npt.NDArray[np.int64]]:
    """Make a random space of up to ``most`` individuals, and decisions by id, smooth enough for local searches.

    >>> space, decisions = random_table(0, 1000)
    >>> len(decisions) == space.coding.total <= 1000
    True
    """
    rng = np.random.default_rng(seed)
    attributes: list[Integer | Nominal] = []
    total = 1
    while total < most and len(attributes) < 7:
        size = int(rng.integers(2, 9))
        if total * size > most:
            break
        total *= size
        attributes.append(whole(f"a{len(attributes)}", size, nominal and rng.random() < 0.4))
    names = [a.name for a in attributes]
    protected = list(rng.choice(names, size=int(rng.integers(1, min(3, len(names)))), replace=False))
    space = Space(attributes, protected=[str(p) for p in protected])
    rows = space.coding.rows(np.arange(space.coding.total))
    weights = rng.normal(size=rows.shape[1])
    score = np.sin(rows @ weights) if patchy else rows @ weights - np.median(rows @ weights)
    return space, (score > rng.normal() * 0.5).astype(np.int64)


def whole(name: str, size: int, nominal: bool) -> Integer | Nominal:
    """Make an attribute whose values equal its codes, so that a lookup needs no translation."""
    return Nominal(name, range(size)) if nominal else Integer(name, 0, size - 1)


class Lookup(Model):
    """Decisions from a table, as labels or as scores whose highest is the label."""

    name, input, has_scores, decides = "lookup", "array", True, True

    def __init__(self, space: Space, table: npt.NDArray[np.int64]) -> None:
        self.space, self.table = space, table
        self.count = max(2, int(table.max()) + 1)
        self.classes = np.arange(self.count)

    def labels(self, X: Any) -> Any:
        """Look decisions up."""
        return self.table[self.space.coding.ids(X.astype(np.int32))]

    def scores(self, X: Any) -> Any:
        """Score so that there is something to differentiate between decisions."""
        labels = self.labels(X)
        level = np.sin(X @ np.arange(1, X.shape[1] + 1)[:, None] + np.arange(self.count)) / 4
        return level + (labels[:, None] == np.arange(self.count))


# Worlds of texts: every word is known, and a checksum decides.

TEAMS = ["reds", "blues", "greens"]
WORDS = [f"{a}{b}" for a, b in itertools.product("bdfklmnprt", "aeiou")]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4))


def team_space(**settings: Any) -> TextSpace:
    """Make a space of texts about three teams."""
    return TextSpace({"team": TEAMS}, (WORDS, VECTORS), **{"k": 5, **settings})


def team_texts(seed: int, count: int, words: int = 8, terms: int = 1) -> list[str]:
    """Make random sentences, each with so many terms."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        chosen = rng.choice(WORDS, words).tolist()
        for at in rng.choice(words, terms, replace=False):
            chosen[at] = str(rng.choice(TEAMS))
        texts.append(", ".join([" ".join(chosen[:3]), " ".join(chosen[3:])]) + "!")
    return texts


def text_label(text: str, salt: int, share: int = 10) -> str:
    """Decide about a text by its checksum; so many of a hundred are bad."""
    return "bad" if zlib.crc32(text.encode(), salt) % 100 < share else "good"


def text_model(salt: int, words: bool = False) -> Model:
    """Make a model that decides by checksums; with ``words`` it also gives scores, and gradients of words."""

    def decide(texts: Sequence[str]) -> Any:
        return np.array([text_label(text, salt) for text in texts])

    return Words(decide) if words else wrap(decide, input="text", name="checksum")


class Words(Model):
    """Decisions about texts as scores whose highest is the label, with made-up slopes of words."""

    name, input, has_scores, decides, has_words, gradient_source = "words", "text", True, True, True, "made up"
    classes = np.array(["bad", "good"])

    def __init__(self, decide: Callable[[list[str]], Any]) -> None:
        self.decisions = decide

    def labels(self, X: Any) -> Any:
        """Decide."""
        return self.decisions(X)

    def scores(self, X: Any) -> Any:
        """Score so that the highest is the label."""
        labels = self.decisions(X)
        level = np.array([[np.sin(zlib.crc32(text.encode()) % 999), 0.0] for text in X]) / 4
        return level + (labels[:, None] == self.classes)

    def word_vectors(self, words: Any) -> Any:
        """Look vectors up."""
        vectors = dict(zip(WORDS, VECTORS, strict=True))
        return np.array([vectors.get(word.lower(), np.zeros(4)) for word in words])

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Make slopes up, the same for the same text and class."""
        self.decisions(texts.strings())
        marks = np.array([zlib.crc32(word.encode()) % 97 for word in texts.vocabulary.words])
        sums = np.bincount(texts.rows, weights=marks[texts.words], minlength=len(texts))
        own = marks[texts.words] * 3 + sums[texts.rows] + classes[texts.rows]
        return np.sin(own[:, None] * np.arange(1, 5))
