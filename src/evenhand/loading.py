"""Reads a run back from its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand import plugins
from evenhand._validate import ANY, COUNT, FLAG, TEXT, Maybe, check_fields, one_of
from evenhand.budget import Budget, StopReason
from evenhand.engine.accounting import QUESTIONS, check_answer
from evenhand.engine.confirm import Checked
from evenhand.engine.store import (
    ANSWERS,
    IDENTITY,
    RESULT,
    RunIdentity,
    frames,
    read_identity,
    read_result,
    refuse_links,
)
from evenhand.errors import EvenhandError, RunError, SpaceError
from evenhand.run import COUNTS, Run
from evenhand.spaces.attributes import KINDS, suggest
from evenhand.spaces.base import AnySpace
from evenhand.spaces.findings import Decisions, Findings
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace

SPACE_FIELDS = {
    "attributes": [{"kind": one_of(list(KINDS)), "name": TEXT, "dtype?": Maybe(TEXT)}],
    "protected": [TEXT],
    "constraints": [TEXT],
    "links": {str: {str: [(ANY, [(ANY, ANY)])]}},
    "limit": COUNT,
}
TEXT_FIELDS = {
    "lexicons": [
        {
            "name": TEXT,
            "forms": [(TEXT, TEXT, TEXT)],
            "identities": [TEXT],
            "cells": [[[TEXT]]],
            "ambiguous": [TEXT],
            "phrases": [TEXT],
            "capital": FLAG,
        }
    ],
}
"""What the descriptions of spaces must have; their constructors check the rest."""


def load(path: Path) -> Run:
    """Read a run; one that was killed is read as far as its answers reach."""
    refuse_links(path)
    identity, result = read_identity(path), read_result(path)
    space = space_from(identity.space, path / IDENTITY)
    pairs, counted, unfair = _pairs(space, path / ANSWERS)
    if result is None:
        return _killed(space, identity, pairs, counted, path)
    checked = _check_result(path / RESULT, result, unfair)
    # A run cut by its budget has stored a few more.
    pairs.cut(result["findings"] + len(checked.refuted))
    checked.settle(pairs, identity.seed)
    pairs.example = result.get("example")
    return Run(
        space,
        identity,
        Budget(**{limit: result["budget"][limit] for limit in vars(Budget())}),
        StopReason(result["stop"]),
        result["tests"],
        result["asked"],
        result["seconds"],
        result["counts"],
        pairs,
        [(p[0], p[1], p[2]) for p in result["curve"]],
        result["versions"],
        path,
        unused=tuple(result.get("unused", ())),
        scored=None if result.get("scored") is None else (result["scored"][0], result["scored"][1]),
        checked=checked,
    )


class EndLost(RunError):
    """A log that ends before the tests that a run's result counts; the run can go on from there.

    >>> issubclass(EndLost, RunError)
    True
    """


def _check_result(path: Path, result: dict[str, Any], unfair: npt.NDArray[np.bool_]) -> Checked:
    """Raise where a result says something else than the answers do, of which it may have counted the first only.

    The answers have the verdicts of the search, the result which of them were refuted when they were asked again.
    """
    tests, budget, stop = result["tests"], result["budget"], StopReason(result["stop"])
    there = int(unfair[:tests].sum())
    checked = Checked.of(result)
    findings = result["findings"] + len(checked.refuted)
    # Whoever reached a limit, or was interrupted, may have been given more answers than count.
    cut = {StopReason.TESTS: tests == budget["tests"], StopReason.FINDINGS: findings == budget["findings"]}
    early = cut.get(stop, stop in (StopReason.ROWS, StopReason.SECONDS, StopReason.INTERRUPTED))
    if (
        findings != there
        or not checked.fits(there)
        or not (tests == len(unfair) or (0 <= tests < len(unfair) and early))
    ):
        # Answers may have been lost with the end of the log; those that are there can still be true.
        lost = tests > len(unfair) and 0 <= findings - there <= tests - len(unfair)
        raise (EndLost if lost else RunError)(
            f"{path} is damaged: it says {findings:,} findings in {tests:,} tests, and the answers have "
            f"{int(unfair.sum()):,} in {len(unfair):,}; restore it from a copy, or delete it to have the run read from "
            f"its answers{', or run the same audit again to go on from them' if lost else ''}"
        )
    return checked


def _killed(space: AnySpace, identity: RunIdentity, pairs: Findings, counted: dict[str, int], path: Path) -> Run:
    """A run that never came to write its result: what its answers tell."""
    asked = {question: counted.get(question, 0) for question in QUESTIONS}
    points = [(counted["tests"], sum(asked.values()), pairs.count)]
    counts = dict.fromkeys(COUNTS, 0)
    return Run(
        space, identity, Budget(), StopReason.INTERRUPTED, counted["tests"], asked, 0.0, counts, pairs, points, {}, path
    )


def space_from(described: dict[str, Any], path: Path) -> AnySpace:
    """Rebuild a space from its description in a file; raise where that is none."""
    try:
        if described.get("kind") == "text":
            check_fields(described, TEXT_FIELDS, "space")
            return TextSpace.described(described)
        if "kind" in described:
            return _installed(described)
        check_fields(described, SPACE_FIELDS, "space")
        space = _tabular(described)
        # Values and dtypes that do not go together show where individuals are laid out.
        space.frame(np.stack([np.zeros_like(space.sizes), space.sizes - 1]).astype(np.int32))
        return space
    except RunError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, SpaceError) as error:
        raise RunError(
            f"{path} cannot be read: it does not describe a space ({error}); restore it from a copy"
        ) from None


def _tabular(described: dict[str, Any]) -> Space:
    attributes = []
    for fields in described["attributes"]:
        kind = KINDS[fields["kind"]]
        attributes.append(kind(**{key: value for key, value in fields.items() if key != "kind"}))
    links = {
        protected: {
            dependent: {value: dict(map(tuple, pairs)) for value, pairs in table} for dependent, table in ds.items()
        }
        for protected, ds in described["links"].items()
    }
    return Space(attributes, described["protected"], described["constraints"], links, described["limit"])


def _installed(described: dict[str, Any]) -> AnySpace:
    """Rebuild a space of a kind that an installed package has."""
    kind, kinds = str(described["kind"]), plugins.installed(plugins.SPACES)
    if kind not in kinds:
        near = f"; {suggest(kind, kinds)}" if kinds else ""
        raise RunError(
            f"the space is of the kind {kind!r}, which no installed package has{near}; install the package that it "
            f"comes from (an entry point {kind!r} in the group {plugins.SPACES!r})"
        )
    try:
        space = plugins.load(kinds[kind], RunError)(described)
    except EvenhandError:
        raise
    except Exception as error:
        raise RunError(f"{kinds[kind].value} cannot read the space ({plugins.reason(error)})") from error
    if not isinstance(space, AnySpace):
        raise RunError(f"{kinds[kind].value} returned a {type(space).__name__}, which is not a space")
    return space


def _pairs(space: AnySpace, answers: Path) -> tuple[Findings, dict[str, int], npt.NDArray[np.bool_]]:
    """Read the findings, how many tests and rows there are, and yes or no for each test."""
    pairs = space.findings()
    counted = {"tests": 0}
    unfair = [np.zeros(0, dtype=bool)]
    for frame, _ in frames(answers) if answers.exists() else ():
        check_answer(frame, pairs, answers)
        if frame.kind == "test":
            tests = frame.header["tests"]
            pairs.coding = Decisions(frame.header["decisions"])
            pairs.add(frame.arrays, len(frame.arrays["decision"]))
            unfair.append(np.unpackbits(frame.arrays["unfair"], count=tests).astype(bool))
            counted["tests"] += tests
        question = "score" if frame.kind == "contrast" else frame.kind
        counted[question] = counted.get(question, 0) + frame.header.get("rows", 0)
    return pairs, counted, np.concatenate(unfair)
