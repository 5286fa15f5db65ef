"""The result of an audit, and reading it back from its directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand import plugins
from evenhand._format import percent
from evenhand._validate import ANY, COUNT, FLAG, TEXT, Maybe, check_fields, one_of
from evenhand.budget import Budget, StopReason
from evenhand.engine.accounting import QUESTIONS, check_answer
from evenhand.engine.confirm import Checked
from evenhand.engine.store import (
    ANSWERS,
    IDENTITY,
    RESULT,
    RunIdentity,
    as_path,
    frames,
    read_identity,
    read_result,
    refuse_links,
)
from evenhand.engine.unused import is_unaware, statement
from evenhand.engine.visited import Origin
from evenhand.errors import (
    EvenhandError,
    RunError,
    SpaceError,
)
from evenhand.spaces.attributes import KINDS, suggest
from evenhand.spaces.base import AnySpace
from evenhand.spaces.findings import Decisions, Findings
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import BORROWED, SAMPLED, TextSpace

if TYPE_CHECKING:
    import pandas as pd


REMARKS = {BORROWED: "similar words are only among words of the texts (give words= or similar=)"}
"""What is said about a count where its name does not say enough."""
COUNTS = ("repeats", "untestable", "clipped", "dropped", "rows_checked", "rows_from_log")


@dataclass
class Run:
    """What an audit found, what it spent, and everything needed to repeat it."""

    space: Any
    """An ``eh.Space``, an ``eh.TextSpace``, or a space of another kind."""
    identity: RunIdentity
    budget: Budget
    stop: StopReason
    tests: int
    """Unique tests judged."""
    asked: dict[str, int]
    """Rows handed to the model, by kind of question."""
    seconds: float
    counts: dict[str, int]
    """Repeats avoided, untestable individuals, data rows clipped and dropped, rows asked again to check; and what the
    search counted itself."""
    pairs: Findings = field(repr=False)
    points: list[tuple[int, int, int]] = field(repr=False)
    versions: dict[str, str] = field(repr=False)
    directory: Path | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """What the run was made with, where ``audit`` returned it; None where it was read from its directory."""
    unused: tuple[str, ...] = ()
    """Attributes of the space that are known not to reach the model."""
    scored: tuple[int, int] | None = None
    """Where nothing was found: in how many families scores were compared, and in how many one changed."""
    checked: Checked = field(default_factory=Checked)
    """What came of asking the findings again."""

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row per finding: the individual, its counterpart's protected values, both decisions, the gap.

        ``confirmed`` says whether the model was asked about it again and answered as before; those to which it gave
        another answer are not here.
        """
        return self.pairs.frame()

    @property
    def found(self) -> int:
        """How many findings there are, confirmed or not asked again; those that were refuted do not count."""
        return self.pairs.count

    @property
    def confirmed(self) -> int:
        """How many findings the model was asked about again and answered as before."""
        return int(self.pairs.confirmed_at().sum())

    @property
    def unconfirmed(self) -> int:
        """How many findings are not confirmed.

        The run was broken off, ``confirm`` leaves them out, or the model does not answer steadily.
        """
        return self.found - self.confirmed

    @property
    def refuted(self) -> int:
        """How many findings of the search got another answer when they were asked again; they are not reported."""
        return len(self.checked.refuted)

    @property
    def unsteady(self) -> str | None:
        """Why the model does not answer steadily, where the run ended because of that; None where it does."""
        return self.checked.unsteady

    @property
    def doubts(self) -> list[str]:
        """What keeps the findings from all being confirmed, in words; nothing where they are."""
        out = [] if self.unsteady is None else ["the model does not answer steadily, so no finding is confirmed"]
        if self.unconfirmed and not out:
            out.append(f"{self.unconfirmed:,} of {self.found:,} findings not asked again, so not confirmed")
        if self.refuted:
            out.append(f"{self.refuted:,} more refuted when asked again, and left out")
        return out

    @property
    def rows(self) -> int:
        """Rows handed to the model for any question."""
        return sum(self.asked.values())

    @property
    def rows_checked(self) -> int:
        """Rows asked to check the model and to confirm the findings, outside all budgets."""
        return self.counts["rows_checked"]

    @property
    def sampled(self) -> bool:
        """Whether individuals were compared with a sample of their counterparts, so that some pairs may be missed."""
        return bool(self.space.sampled) or SAMPLED in self.counts

    @property
    def gradient(self) -> str | None:
        """How the gradients of a search that asks for them came about; None for other searches."""
        return self.identity.gradient

    @property
    def remarks(self) -> list[tuple[str, int]]:
        """What the search counted itself, in words; nothing that is zero."""
        counts = sorted((name, n) for name, n in self.counts.items() if n and name not in COUNTS)
        return [(REMARKS.get(name, name.replace("_", " ")), n) for name, n in counts]

    @property
    def success_rate(self) -> float:
        """Findings per test: how well the search aims, not how common discrimination is.

        As everywhere, refuted findings do not count; their tests do.
        """
        return self.found / self.tests if self.tests else 0.0

    @property
    def unaware(self) -> bool:
        """Whether no protected attribute is known to reach the model, so that nothing can be found."""
        return is_unaware(self.space, self.unused)

    @property
    def complete(self) -> bool:
        """Whether everyone in the space was judged, each against all counterparts."""
        return self.stop is StopReason.EXHAUSTED and not self.sampled

    @property
    def note(self) -> str | None:
        """What is known about attributes that the model does not use; None where there is nothing to say."""
        if self.unsteady is not None:
            # Nothing is known of a model that does not answer steadily.
            return None
        said = statement(self.space, self.unused, self.found, self.tests, self.scored, self.complete)
        return None if said is None else str(said)

    @property
    def curve(self) -> pd.DataFrame:
        """How findings grew: tests, rows, findings."""
        import pandas as pd

        return pd.DataFrame(self.points, columns=["tests", "rows", "findings"])

    def to_dict(self) -> dict[str, Any]:
        """Give the run in plain values, findings not included."""
        return {
            "identity": self.identity.to_dict(),
            "budget": vars(self.budget),
            "stop": self.stop.value,
            "tests": self.tests,
            "findings": self.found,
            "confirmed": self.confirmed,
            "unconfirmed": self.unconfirmed,
            "refuted": self.refuted,
            "checked": self.checked.to_dict(),
            "success_rate": self.success_rate,
            "sampled": self.sampled,
            "rows": self.rows,
            "asked": self.asked,
            "seconds": self.seconds,
            "counts": self.counts,
            "curve": [list(point) for point in self.points],
            "versions": self.versions,
            "unused": list(self.unused),
            "scored": None if self.scored is None else list(self.scored),
            "note": self.note,
            **({} if self.found else {"example": self.pairs.example}),
        }

    def __repr__(self) -> str:
        return (
            f"Run: {self.found:,} of {self.tests:,} tests are treated differently ({percent(self.success_rate)}), "
            f"{self.identity.search}"
            + (f" by {self.gradient}" if self.gradient else "")
            + f", {self.rows:,} model rows, {self.seconds:.1f} s; "
            f"{self.stop.words}"
            + (f", each against a sample of {self.space.max_family_size:,} counterparts" if self.space.sampled else "")
            + "".join(f", {words}: {n:,}" for words, n in self.remarks)
            + (f"; {self.note}" if self.note else "")
            + "".join(f"; {doubt}" for doubt in self.doubts)
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        # By name: what shows runs stands above them.
        return str(import_module("evenhand.reports").summary(self))

    @classmethod
    def load(cls, directory: str | Path) -> Run:
        """Read a run from its directory, without the model.

        The run as it was when it last ended; a run that was killed is read as far as its answers reach.
        """
        return load(as_path(directory, "a run's directory"))


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


SPACE_FIELDS = {
    "attributes": [{"kind": one_of(list(KINDS)), "name": TEXT, "dtype?": Maybe(TEXT)}],
    "protected": [TEXT],
    "constraints": [TEXT],
    "links": {str: {str: [(ANY, [(ANY, ANY)])]}},
    "max_family_size": COUNT,
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
    return Space(attributes, described["protected"], described["constraints"], links, described["max_family_size"])


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
