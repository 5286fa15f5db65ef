"""The conformance suite for kinds of spaces."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.budget import Budget
from evenhand.errors import EvenhandError
from evenhand.models.base import Model
from evenhand.models.wrap import for_space, wrap
from evenhand.reports.report import ReportOptions, report
from evenhand.runs.replay import replay
from evenhand.runs.run import Run, space_from
from evenhand.spaces.base import AnySpace, BoundSpace
from evenhand.strategies import make
from evenhand.testing.strategies import STRATEGY_CHECKS, TESTS, findings_of, lines_of, run_world
from evenhand.testing.worlds import World, hold, listed, take


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
    bound, again = space.bind(data, wrapped), space.bind(data, wrapped)
    ground = bound.ground
    hold(not _lacking(ground, BoundSpace), f"what bind returns lacks {_lacking(ground, BoundSpace)}")
    people = ground.probes(bound.people, 200) if bound.people is None else bound.people[:200]
    hold(len(people) > 0, "there are no individuals to look at: give data")
    same = again.ground.probes(again.people)
    hold(listed(ground.probes(bound.people).rows) == listed(same.rows), "probes differ from one call to the next")
    if bound.people is not None:
        digests = {one.ground.digest_of(one.people) for one in (bound, again)}
        hold(len(digests) == 1, "digest_of differs for the same data")
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
    hold(type(back) is type(space), f"describe() leads back to a {type(back).__name__}")
    again = json.loads(json.dumps(back.describe()))
    hold(again == plain, f"the space that describe() leads back to describes itself otherwise: {again}")


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


def _check_families(ground: Any, people: Any, model: Model) -> None:
    families = ground.families(people, 0)
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
        people = families.individuals
    asked, count = listed(families.asked), len(families)
    hold(count == len(people), f"{count} families of {len(people)} individuals")
    places = int(families.places.sum())
    hold(places == len(asked), f"places adds up to {places}, asked has {len(asked)}")
    hold(int(families.places.max()) <= ground.width, f"a family has more members than width, {ground.width}")
    at = families.to_grid(np.arange(len(asked)))
    members = _members(families)
    hold(all(len(one) > 1 for one in members), "a family has nothing to compare: its members are all the same")
    if not ground.constraints:
        # Where constraints forbid the individual itself, another of its family stands for it.
        own = listed(people.rows)
        wrong = sum(asked[i] != one for i, one in zip(at[np.arange(count), families.own].tolist(), own, strict=True))
        hold(not wrong, f"{wrong} of {count} families do not have their individual at the place that own names")
    some = np.arange(0, count, 3)
    hold(_members(families[some]) == members[::3], "families that are taken out of others have other members")
    last = np.full(count, at.shape[1] - 1)
    others = ground.most_different(people, families.most_different(last))
    if hasattr(others, "rows"):
        wanted = [asked[i] for i in at[np.arange(count), last].tolist()]
        hold(listed(others.rows) == wanted, "most_different does not give back the members that the families named")
    if not ground.space.sampled:
        _check_keys(people.keys.tolist(), members)
        if hasattr(others, "keys"):
            both = [*members, *_members(ground.families(others, 0))]
            _check_keys([*people.keys.tolist(), *others.keys.tolist()], both)
    fits = ground.batch_size_for(people, np.arange(count), 3 * ground.width)
    hold(1 <= fits <= count, f"batch_size_for says {fits} of {count} individuals")
    rows = int(families.places[:fits].sum())
    hold(fits == 1 or rows <= 3 * ground.width, f"batch_size_for says that {rows} rows fit {3 * ground.width}")
    for make_inputs, what in ((ground.space.inputs, families.asked), (ground.family_inputs, families)):
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
