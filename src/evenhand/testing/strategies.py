"""The conformance suite for searches."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.budget import Budget, StopReason
from evenhand.engine.store import ANSWERS
from evenhand.models.base import Model
from evenhand.models.wrap import for_space, wrap
from evenhand.plugins import is_spec
from evenhand.runs.audit import audit
from evenhand.runs.run import Run
from evenhand.strategies import describe, known, make
from evenhand.testing.worlds import World, hold, listed, take, worlds_for

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
    hold(parameters is not None and parameters.frozen, f"{name} is no frozen dataclass")
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
    hold(not run.refuted, f"{run.refuted} findings got another answer when they were asked again")
    if not run.found:
        return
    assert run.origin is not None
    pairs = run.pairs
    for side, name in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        # In another order and one call, which is what a finding must not depend on.
        rows = take(pairs.rows(side), np.arange(run.found)[::-1])
        wrong = int((run.origin.probe.labels(rows)[::-1] != pairs.decisions(name)).sum())
        hold(not wrong, f"{wrong} of {run.found} findings are false: the model decides otherwise for the {side}")
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
        hold(found == whole[: len(found)], f"the findings of {what} are no prefix of those of a larger one")
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
            hold(findings_of(run) == findings_of(whole), f"{how} went on to other findings")
            same = (run.tests, run.rows, run.stop) == (whole.tests, whole.rows, whole.stop)
            hold(same, f"{how} went on to {run.tests} tests, {run.rows} rows, {run.stop}")
            hold((folder / str(calls) / ANSWERS).read_bytes() == answers, f"{how} left other answers in its directory")
            kept = run.counts["rows_from_log"]
            hold(kept == partial.rows, f"{how} had asked {partial.rows} rows, and took {kept} from its directory")
            new = run.rows + run.rows_checked - kept
            hold(model.rows == new, f"{how} asked {model.rows} rows when it went on, and {new} were new")


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


def run_world(strategy: Any, world: Any, budget: Budget, **settings: Any) -> Run:
    """Audit a world."""
    return audit(world.model, world.space, strategy, budget, data=world.data, **settings)


def _counted_run(
    strategy: Any, world: Any, budget: Budget, dies: int | None = None, **settings: Any
) -> tuple[Counted, Run]:
    model = Counted(for_space(wrap(world.model), texts=world.space.input == "text"), dies)
    return model, run_world(strategy, World(model, world.space, world.data), budget, **settings)


def findings_of(run: Run) -> list[str]:
    """Return findings as lines of text, which are equal exactly where the findings are."""
    return lines_of(run.findings)


def lines_of(frame: Any) -> list[str]:
    """Write a frame without what came of asking again, which a run that was cut or loaded may know less of."""
    kept = frame.drop(columns=[name for name in frame if str(name).startswith("confirmed")])
    return str(kept.to_csv(index=False)).splitlines()[1:]
