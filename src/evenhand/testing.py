"""Conformance suites for those who write searches, models and kinds of spaces.

``check_strategy``, ``check_model`` and ``check_space`` raise an ``AssertionError`` that says what is wrong. evenhand's
own searches pass the same checks, ``STRATEGY_CHECKS``.
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
from evenhand.models.wrap import CallableModel, for_space, wrap
from evenhand.plugins import is_spec
from evenhand.reports.report import ReportOptions, report
from evenhand.runs.audit import audit, needs_of
from evenhand.runs.replay import replay
from evenhand.runs.run import Run, space_from
from evenhand.spaces.attributes import Integer, Nominal
from evenhand.spaces.base import AnySpace, BoundSpace
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import describe, known, make

__all__ = ["STRATEGY_CHECKS", "World", "check_model", "check_space", "check_strategy", "worlds_for"]


@dataclass(frozen=True)
class World:
    """Something to search: a model that answers the same row the same way each time, a space, and perhaps data."""

    model: Any
    space: Any
    data: Any = None


def worlds_for(strategy: Any) -> list[World]:
    """Make worlds that a search can search, from seeds.

    >>> from evenhand.strategies import TextRandom, Themis
    >>> len(worlds_for(Themis())), worlds_for(TextRandom())[0].space.noun
    (2, 'text')
    """
    needs = needs_of(strategy)
    if needs in ("attributes", "any"):
        plain, decisions = random_table(30, 30_000)
        space, others = random_table(34, 30_000)
        first, second = space.names[:2]
        tight = Space(space.attributes, space.protected, [f"{first} != 0 or {second} == 0"])
        return [World(Lookup(plain, decisions), plain), World(Lookup(tight, others), tight)]
    if needs == "texts":
        words = bool(getattr(strategy, "uses_gradient", False))
        return [World(text_model(n, words), team_space(), team_texts(n, 80, terms=n)) for n in (1, 2)]
    name = type(strategy).__name__
    raise AssertionError(f"{name} needs {needs}: give worlds to search, worlds=[World(model, space, data)]")


def hold(held: Any, otherwise: str) -> None:
    """Raise an ``AssertionError`` unless something holds."""
    if not held:
        raise AssertionError(otherwise)


def take(rows: Any, at: npt.NDArray[np.int64]) -> Any:
    """Return some rows of a frame, an array or a list."""
    if isinstance(rows, list):
        return [rows[i] for i in at.tolist()]
    return rows.iloc[at].reset_index(drop=True) if hasattr(rows, "iloc") else rows[at]


def listed(rows: Any) -> list[Any]:
    """Make rows comparable."""
    return list(rows) if isinstance(rows, list) else [tuple(row) for row in np.asarray(rows).tolist()]


def random_table(
    seed: int, most: int, *, patchy: bool = True, nominal: bool = True
) -> tuple[Space, npt.NDArray[np.int64]]:
    """Make a random space of up to ``most`` individuals, and decisions by id, smooth enough for local searches."""
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
        """Look up decisions."""
        return self.table[self.space.coding.ids(X.astype(np.int32))]

    def scores(self, X: Any) -> Any:
        """Score so that there is something to differentiate between decisions."""
        labels = self.labels(X)
        level = np.sin(X @ np.arange(1, X.shape[1] + 1)[:, None] + np.arange(self.count)) / 4
        return level + (labels[:, None] == np.arange(self.count))


TEAMS = ["reds", "blues", "greens"]
WORDS = [f"{a}{b}" for a, b in itertools.product("bdfklmnprt", "aeiou")]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4))


def team_space(**settings: Any) -> TextSpace:
    """Make a space of texts about three teams."""
    return TextSpace.paper({"team": TEAMS}, (WORDS, VECTORS), **{"k": 5, **settings})


def team_texts(seed: int, count: int, words: int = 8, terms: int = 1) -> list[str]:
    """Make random sentences with terms."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        chosen = rng.choice(WORDS, words).tolist()
        for at in rng.choice(words, terms, replace=False):
            chosen[at] = str(rng.choice(TEAMS))
        texts.append(", ".join([" ".join(chosen[:3]), " ".join(chosen[3:])]) + "!")
    return texts


def text_label(text: str, salt: int, share: int = 10) -> str:
    """Decide about a text by its checksum; a percentage is bad."""
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


TESTS = 800
"""Tests of the longest run of a check."""


def check_strategy(strategy: Any, worlds: Iterable[Any] | None = None) -> None:
    """Check that a search keeps the rules that every search must keep.

    No finding is false and none comes twice; budgets are exact, and a smaller one gives a prefix; the same seed gives
    the same findings whatever the sizes of blocks and calls; an interrupted run continues where it was and asks nothing
    twice; and the rows that the model was asked are those that the run counts.

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


def _check_settings(strategy: Any, world: Any) -> None:
    del world
    name = type(strategy).__name__
    parameters = getattr(type(strategy), "__dataclass_params__", None)
    hold(parameters is not None and parameters.frozen, f"{name} is not a frozen dataclass")
    described = describe(strategy)
    try:
        settings = json.loads(json.dumps(described))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the settings of {name} cannot be stored as JSON: {error}") from None
    found = settings.pop("strategy")
    if known(found) is not None or is_spec(found):
        again = describe(make(found, **settings))
        hold(again == described, f"{found} made again from its settings has others: {again} instead of {described}")


def _check_findings(strategy: Any, world: Any) -> None:
    run = run_world(strategy, world, Budget(tests=TESTS), seed=3, chunk=64)
    hold(not run.refuted, f"{run.refuted} findings got a different answer when they were queried again")
    if not run.found:
        return
    assert run.origin is not None
    pairs = run.pairs
    for side, name in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        # In another order and one call, which is what a finding must not depend on.
        rows = take(pairs.rows(side), np.arange(run.found)[::-1])
        wrong = int((run.origin.probe.labels(rows)[::-1] != pairs.decisions(name)).sum())
        hold(not wrong, f"{wrong} of {run.found} findings are false: the model gives another decision for the {side}")
    alike = int((pairs.decisions("decision") == pairs.decisions("counterpart_decision")).sum())
    hold(not alike, f"{alike} of {run.found} findings are false: both sides got the same decision")
    tables = run.space.supports("attributes")
    keys = pairs.individuals().keys.tolist() if tables else listed(pairs.rows())
    hold(len(set(keys)) == len(keys), f"{len(keys) - len(set(keys))} of {run.found} findings are of the same test")
    if tables and not run.space.links:
        others = pairs.individuals("counterpart").keys.tolist()
        hold(keys == others, "a counterpart differs from its individual in more than what is protected")


def _check_budgets(strategy: Any, world: Any) -> None:
    full = run_world(strategy, world, Budget(tests=2 * TESTS), chunk=500)
    whole = findings_of(full)

    def cut(**limit: int) -> tuple[Run, str]:
        run, what = run_world(strategy, world, Budget(**limit), chunk=500), f"a budget of {limit}"
        found = findings_of(run)
        hold(found == whole[: len(found)], f"the findings of {what} are not the first ones of a larger one")
        return run, what

    for tests in (1, 100, 499, 500, full.tests):
        run, what = cut(tests=tests)
        hold(run.tests == min(tests, full.tests), f"{what} gave {run.tests} tests")
        if world.space.supports("attributes") and not world.space.constraints and not world.space.links:
            rows = run.tests * world.space.width
            hold(run.asked["test"] == rows, f"{run.tests} tests asked {run.asked['test']} rows instead of {rows}")
    for rows in (7, 100, 1000, 1001):
        run, what = cut(rows=rows)
        hold(run.rows <= rows, f"{what} was exceeded: {run.rows} were asked")
        hold(full.rows <= rows or run.stop is StopReason.ROWS, f"{what} ended as {run.stop}")
    for wanted in (count for count in (1, 5, 37) if count <= full.found):
        run, what = cut(findings=wanted)
        hold((run.found, run.stop) == (wanted, StopReason.FINDINGS), f"{what} gave {run.found}, ended as {run.stop}")


def _check_seeds(strategy: Any, world: Any) -> None:
    def found(model: Any = world.model, **settings: Any) -> list[str]:
        return findings_of(run_world(strategy, World(model, world.space, world.data), Budget(tests=TESTS), **settings))

    first = found(seed=9)
    hold(found(seed=9) == first, "the same seed gave other findings")
    hold(found(seed=9, chunk=64) == first, "the findings depend on the chunk; draw only from problem.stream")
    hold(found(wrap(world.model, batch_size=17), seed=9) == first, "the findings depend on the batch size")


def _check_rows(strategy: Any, world: Any) -> None:
    model, run = _counted_run(strategy, world, Budget(tests=TESTS), chunk=300)
    counted = run.rows + run.rows_checked
    hold(model.rows == counted, f"the model was asked {model.rows} rows, and the run counts {counted}")


def _check_resuming(strategy: Any, world: Any) -> None:
    budget = Budget(tests=TESTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = run_world(strategy, world, budget, chunk=256, directory=folder / "whole")
        answers = (folder / "whole" / ANSWERS).read_bytes()
        for calls, cancel in ((3, False), (5, True), (9, False)):
            settings: dict[str, Any] = {"chunk": 256, "directory": folder / str(calls)}
            stop = {"cancel": CancelAfter(2 * calls)} if cancel else {"dies": calls}
            _, partial = _counted_run(strategy, world, budget, **settings, **stop)
            if partial.stop is not StopReason.INTERRUPTED:
                # It was over before.
                continue
            model, run = _counted_run(strategy, world, budget, **settings)
            how = f"a run that was interrupted after {calls} calls"
            hold(findings_of(run) == findings_of(whole), f"{how} ended with other findings when it was continued")
            same = (run.tests, run.rows, run.stop) == (whole.tests, whole.rows, whole.stop)
            hold(same, f"{how} ended with {run.tests} tests, {run.rows} rows, {run.stop} when it was continued")
            hold((folder / str(calls) / ANSWERS).read_bytes() == answers, f"{how} left other answers in its directory")
            kept = run.counts["rows_from_log"]
            hold(kept == partial.rows, f"{how} had asked {partial.rows} rows, and took {kept} from its directory")
            new = run.rows + run.rows_checked - kept
            hold(model.rows == new, f"{how} asked {model.rows} rows when it was continued, and {new} were new")


def _check_extending(strategy: Any, world: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        for tests in (100, 500, 300, 800):
            kept = run_world(strategy, world, Budget(tests=tests), chunk=256, directory=Path(name) / "run")
            plain = run_world(strategy, world, Budget(tests=tests), chunk=256)
            what = f"a directory that is continued with a budget of {tests} tests"
            hold(findings_of(kept) == findings_of(plain), f"{what} gives other findings than a new run")
            same = (kept.tests, kept.rows) == (plain.tests, plain.rows)
            hold(same, f"{what} gives {kept.tests} tests and {kept.rows} rows instead of {plain.tests}, {plain.rows}")


STRATEGY_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "settings": _check_settings,
    "findings": _check_findings,
    "budgets": _check_budgets,
    "seeds": _check_seeds,
    "rows": _check_rows,
    "resuming": _check_resuming,
    "extending": _check_extending,
}
"""The checks of ``check_strategy``, by name: each takes a search and a world."""


class Counted(Model):
    """A model that counts the rows it is asked; after ``dies`` calls it behaves as if Ctrl-C was pressed."""

    def __init__(self, model: Model, dies: int | None = None) -> None:
        same = (*Model.__annotations__, "decide", "unread", "word_vectors")
        vars(self).update({name: getattr(model, name) for name in same})
        self.inner, self.dies = model, dies
        self.calls = self.rows = 0

    def _ask(self, question: str, rows: Any, *more: Any) -> Any:
        if self.dies is not None and self.calls >= self.dies:
            raise KeyboardInterrupt
        self.calls += 1
        self.rows += len(rows)
        return getattr(self.inner, question)(rows, *more)

    def labels(self, X: Any) -> Any:
        """Count and ask."""
        return self._ask("labels", X)

    def scores(self, X: Any) -> Any:
        """Count and ask."""
        return self._ask("scores", X)

    def gradients(self, X: Any, classes: Any) -> Any:
        """Count and ask."""
        return self._ask("gradients", X, classes)

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Count and ask."""
        return self._ask("word_gradients", texts, classes)


class CancelAfter:
    """A cancel token that is set after it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        """Whether it was looked at often enough."""
        self.left -= 1
        return self.left < 0


def run_world(strategy: Any, world: Any, budget: Budget, chunk: int | None = None, **settings: Any) -> Run:
    """Audit a world."""
    return audit(wrap(world.model, chunk=chunk), world.space, strategy, budget, data=world.data, **settings)


def _counted_run(
    strategy: Any, world: Any, budget: Budget, dies: int | None = None, chunk: int | None = None, **settings: Any
) -> tuple[Counted, Run]:
    model = Counted(for_space(wrap(world.model), texts=world.space.input == "text"), dies)
    # Not on a copy, which would count by itself.
    model.chunk = chunk
    return model, run_world(strategy, World(model, world.space, world.data), budget, **settings)


def findings_of(run: Run) -> list[str]:
    """Return findings as lines of text, which are equal exactly where the findings are."""
    return lines_of(run.findings)


def lines_of(frame: Any) -> list[str]:
    """Write a frame without what came of asking again, which a run that was cut or loaded may know less of."""
    kept = frame.drop(columns=[name for name in frame if str(name).startswith("confirmed")])
    return str(kept.to_csv(index=False)).splitlines()[1:]


def check_space(space: Any, data: Any, model: Any, strategy: Any = None) -> None:
    """Check that a kind of space keeps the rules that every space must keep.

    Families contain the individual; keys are equal exactly for the same test; ``describe()`` is plain and leads back to
    the space; findings survive saving and loading, and are confirmed by a replay; an interrupted run continues; and a
    report of it can be made.

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
    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 90), Nominal("sex", ["F", "M"])], protected="sex")
    >>> check_space(space, None, lambda frame: (frame["age"] < 40) & (frame["sex"] == "F"))
    """
    hold(not _lacking(space, AnySpace), f"the space lacks {_lacking(space, AnySpace)}, which AnySpace asks for")
    _check_description(space)
    wrapped = for_space(wrap(model), texts=space.input == "text")
    binding, again = space.bind(data, wrapped), space.bind(data, wrapped)
    bound = binding.bound
    hold(not _lacking(bound, BoundSpace), f"what bind returns lacks {_lacking(bound, BoundSpace)}")
    people = bound.probes(binding.people, 200) if binding.people is None else binding.people[:200]
    hold(len(people) > 0, "there are no individuals to look at: give data")
    same = again.bound.probes(again.people)
    hold(listed(bound.probes(binding.people).rows) == listed(same.rows), "probes differ from one call to the next")
    if binding.people is not None:
        digests = {one.bound.digest_of(one.people) for one in (binding, again)}
        hold(len(digests) == 1, "digest_of differs for the same data")
    _check_block(people)
    _check_families(bound, people, wrapped)
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
    hold(type(back) is type(space), f"describe() was read back as a {type(back).__name__}")
    again = json.loads(json.dumps(back.describe()))
    hold(again == plain, f"the space read back from describe() has another description: {again}")


def _check_block(people: Any) -> None:
    count, half = len(people), np.arange(0, len(people), 2)
    mask = np.arange(count) % 2 == 0
    wanted = listed(take(people.rows, half))
    for name, which in (("positions", half), ("a mask", mask), ("a slice", slice(0, None, 2))):
        some = people[which]
        hold(len(some) == len(half), f"a block indexed by {name} has {len(some)} individuals instead of {len(half)}")
        hold(listed(some.rows) == wanted, f"a block indexed by {name} has other individuals")
        hold((some.keys == people.keys[which]).all(), f"keys change when a block is indexed by {name}")
    hold(people.keys.dtype in (np.int64, np.complex128), f"keys are {people.keys.dtype}, not int64 or complex128")
    low = people.keys.imag if people.keys.dtype.kind == "c" else people.keys
    hold(not (low.astype(np.int64) & 1).any(), "the lowest bit of a key is not free: it holds the verdict")
    hold(len(people.stored) == count, f"stored has {len(people.stored)} entries for {count} individuals")


def _check_families(bound: Any, people: Any, model: Model) -> None:
    families = bound.families(people, 0)
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
        people = families.individuals
    asked, count = listed(families.asked), len(families)
    hold(count == len(people), f"{count} families of {len(people)} individuals")
    places = int(families.places.sum())
    hold(places == len(asked), f"places adds up to {places}, asked has {len(asked)}")
    hold(int(families.places.max()) <= bound.width, f"a family has more members than width, {bound.width}")
    at = families.to_grid(np.arange(len(asked)))
    members = _members(families)
    hold(all(len(one) > 1 for one in members), "a family has nothing to compare: its members are all the same")
    if not bound.constraints:
        # Where constraints forbid the individual itself, another of its family stands for it.
        own = listed(people.rows)
        wrong = sum(asked[i] != one for i, one in zip(at[np.arange(count), families.own].tolist(), own, strict=True))
        hold(not wrong, f"{wrong} of {count} families do not have their individual at the place that own names")
    some = np.arange(0, count, 3)
    hold(_members(families[some]) == members[::3], "families that are taken out of others have other members")
    last = np.full(count, at.shape[1] - 1)
    others = bound.most_different(people, families.most_different(last))
    if hasattr(others, "rows"):
        wanted = [asked[i] for i in at[np.arange(count), last].tolist()]
        hold(listed(others.rows) == wanted, "most_different does not give back the members that the families named")
    if not bound.space.sampled:
        _check_keys(people.keys.tolist(), members)
        if hasattr(others, "keys"):
            both = [*members, *_members(bound.families(others, 0))]
            _check_keys([*people.keys.tolist(), *others.keys.tolist()], both)
    fits = bound.batch_size_for(people, np.arange(count), 3 * bound.width)
    hold(1 <= fits <= count, f"batch_size_for says {fits} of {count} individuals")
    rows = int(families.places[:fits].sum())
    hold(fits == 1 or rows <= 3 * bound.width, f"batch_size_for says that {rows} rows fit {3 * bound.width}")
    for make_inputs, what in ((bound.space.inputs, families.asked), (bound.family_inputs, families)):
        made = len(make_inputs(what, model.input, model.columns))
        hold(made == len(asked), f"{make_inputs.__name__} made {made} rows of {len(asked)}")


def _check_keys(keys: list[Any], families: list[frozenset[Any]]) -> None:
    by_key: dict[Any, frozenset[Any]] = {}
    for key, family in zip(keys, families, strict=True):
        hold(by_key.setdefault(key, family) == family, "two tests have the same key: their families differ")
    hold(len(set(by_key.values())) == len(by_key), "the same test has two keys: two families are equal")


def _members(families: Any) -> list[frozenset[Any]]:
    asked = listed(families.asked)
    return [frozenset(asked[i] for i in row) for row in families.to_grid(np.arange(len(asked))).tolist()]


def _check_runs(world: World, strategy: Any) -> None:
    chosen = make(strategy)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        run = run_world(chosen, world, Budget(tests=TESTS), directory=place)
        hold(run.found > 1, f"{run.found} findings in {run.tests} tests; give a model that treats more differently")
        kept = Run.load(place)
        hold(findings_of(kept) == findings_of(run), "findings change when a run is saved and loaded")
        sides = ("individual", "counterpart")
        same = all(listed(kept.pairs.rows(side)) == listed(run.pairs.rows(side)) for side in sides)
        hold(same, "the rows of findings change when a run is saved and loaded")
        replayed = replay(place, world.model)
        hold(replayed.refuted == 0, f"{replayed.refuted} of {run.found} findings are not confirmed by a replay")
        lines = findings_of(kept)
        kept.pairs.drop(np.array([0]))
        hold(lines_of(kept.pairs.frame()) == lines[1:], "drop([0]) leaves other findings")
        kept.pairs.cut(1)
        hold(kept.pairs.count == len(kept.pairs.frame()) == 1, f"cut(1) leaves {len(kept.pairs.frame())} findings")
        for shown in (run, Run.load(place)):
            page: Any = report(shown, None, options=ReportOptions(ask=False))
            hold(page.startswith(b"<!doctype html>"), "no report can be made")
    for name in ("findings", "budgets", "resuming"):
        STRATEGY_CHECKS[name](chosen, world)


def _lacking(thing: Any, protocol: Any) -> str:
    """Name what an object does not have of a protocol."""
    wanted = {**vars(protocol), **protocol.__annotations__}
    return ", ".join(name for name in wanted if not name.startswith("_") and not hasattr(thing, name))


def check_model(model: Any, inputs: Any, *, sizes: Sequence[int] = (1, 3, 64)) -> None:
    """Check that a model answers as evenhand relies on.

    Answers have one entry for each row, depend on no other row of the batch, on no position in it and on no batch size,
    and are repeated; scores and decisions agree; what the model says of itself makes sense.

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
    hold(len(inputs) >= 8, f"give at least eight rows to ask about, got {len(inputs)}")
    try:
        wrapped = for_space(wrap(model), texts=isinstance(inputs, list))
        wrapped.check()
        _check_answers(wrapped, inputs, len(inputs), sizes)
    except ModelError as error:
        raise AssertionError(str(error)) from error


@dataclass(frozen=True)
class Answers:
    """A model's answers to some rows."""

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

    def check_same(self, other: Answers, problem: str) -> None:
        """Raise where another time gave other answers."""
        numbers = self.labels.dtype.kind == "f" == other.labels.dtype.kind
        same = _close(self.labels, other.labels) if numbers else (self.labels == other.labels) | self.ties
        if self.scores is not None and other.scores is not None:
            same = same & _close(self.scores, other.scores).all(axis=1)
        hold(np.all(same), f"{problem}: {int((~np.asarray(same)).sum())} of {len(self.labels)} rows")


def _check_answers(model: Model, inputs: Any, count: int, sizes: Sequence[int]) -> None:
    client, every, name = ModelClient(model), np.arange(count), model.name
    scored = model.has_scores and _gives_scores(client, inputs, count)

    def ask(at: npt.NDArray[np.int64], size: int | None = None) -> Answers:
        rows = take(inputs, at)
        client.calls.fixed = size or len(at)
        scores = client.scores(rows, len(at)) if scored else None
        if model.regression and scores is not None:
            return Answers(scores[:, 0], scores)
        return Answers(client.labels(rows, len(at)), scores)

    first = ask(every)
    order = np.random.default_rng(0).permutation(count)
    first.check_same(ask(every), f"{name} gave two answers to the same row of the same batch")
    first[order].check_same(ask(order), f"the answers of {name} depend on the order of the rows")
    twice = ask(np.concatenate([every, every]))
    first.check_same(twice[count:], f"the answers of {name} depend on the position in the batch")
    for size in sizes:
        first.check_same(ask(every, size), f"the answers of {name} depend on the batch size, {size} or {count} rows")
    if scored and model.decides and first.scores is not None:
        wrong = int((~((model.decide(first.scores) == first.labels) | first.ties)).sum())
        hold(not wrong, f"{name} decides differently from its scores for {wrong} of {count} rows")
        width, classes = first.scores.shape[1], None if model.classes is None else len(model.classes)
        fits = classes in (None, width) or (width, classes) == (1, 2)
        hold(fits, f"{name} has {classes} classes and {width} columns of scores")
    if model.gradient_source is not None and model.input == "array" and first.scores is not None:
        client.calls.fixed = None
        slopes = client.gradients(inputs, first.scores.argmax(axis=1))
        hold(slopes.shape == np.shape(inputs), f"{name} gives gradients of the shape {slopes.shape}")


def _close(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return what is equal except for rounding in single precision."""
    return np.asarray(np.abs(one - other) <= 1e-4 * max(1e-6, float(np.abs(one).max(initial=0))), dtype=bool)


def _gives_scores(client: ModelClient, inputs: Any, count: int) -> bool:
    """Whether a model gives scores; of a function that is not known before it is asked."""
    try:
        client.scores(inputs, count)
    except ModelError:
        if isinstance(client.model, CallableModel):
            return False
        raise
    return True
