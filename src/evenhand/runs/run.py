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
"""Longer descriptions of some counts."""
COUNTS = ("repeats", "untestable", "clipped", "dropped", "rows_checked", "rows_from_log")


@dataclass
class Run:
    """The result of an audit: findings, costs, and everything needed to repeat it."""

    space: Any
    """An ``eh.Space``, an ``eh.TextSpace``, or a space of another kind."""
    identity: RunIdentity
    budget: Budget
    stop: StopReason
    tests: int
    """Unique tests judged."""
    asked: dict[str, int]
    """Model rows, by kind of query."""
    seconds: float
    counts: dict[str, int]
    """Repeats avoided, untestable individuals, data rows clipped and dropped, rows queried again to check; and the
    counts of the search itself."""
    pairs: Findings = field(repr=False)
    points: list[tuple[int, int, int]] = field(repr=False)
    versions: dict[str, str] = field(repr=False)
    directory: Path | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """The model, strategy and data of a run that ``audit`` returned; None for one that was read from its directory."""
    unused: tuple[str, ...] = ()
    """Attributes of the space that the model is known not to receive."""
    scored: tuple[int, int] | None = None
    """If nothing was found: the number of families whose scores were compared, and of those with a changed score."""
    checked: Checked = field(default_factory=Checked)
    """The result of querying the findings again."""

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row per finding: the individual, its counterpart's protected values, both decisions, the gap.

        ``confirmed`` is whether the model was queried again and gave the same answers. Findings with other answers are
        left out.
        """
        return self.pairs.frame()

    @property
    def found(self) -> int:
        """Number of findings, confirmed or not queried again; refuted ones do not count."""
        return self.pairs.count

    @property
    def confirmed(self) -> int:
        """Number of findings that were queried again and got the same answers."""
        return int(self.pairs.confirmed_at().sum())

    @property
    def unconfirmed(self) -> int:
        """Number of findings that are not confirmed.

        The run was interrupted, ``confirm`` leaves them out, or the model is not reproducible.
        """
        return self.found - self.confirmed

    @property
    def refuted(self) -> int:
        """Number of findings that got another answer when queried again; they are not reported."""
        return len(self.checked.refuted)

    @property
    def unsteady(self) -> str | None:
        """Why the model's answers are not reproducible, if the run ended because of that; otherwise None."""
        return self.checked.unsteady

    @property
    def doubts(self) -> list[str]:
        """Sentences on why some findings are not confirmed; empty if all are."""
        out = [] if self.unsteady is None else ["the model's answers are not reproducible, so no finding is confirmed"]
        if self.unconfirmed and not out:
            out.append(f"{self.unconfirmed:,} of {self.found:,} findings were not queried again, so not confirmed")
        if self.refuted:
            out.append(f"{self.refuted:,} more were refuted when queried again, and left out")
        return out

    @property
    def rows(self) -> int:
        """Model rows of all queries."""
        return sum(self.asked.values())

    @property
    def rows_checked(self) -> int:
        """Rows used to check the model and to confirm findings, outside all budgets."""
        return self.counts["rows_checked"]

    @property
    def sampled(self) -> bool:
        """Whether individuals were compared with a sample of their counterparts, so that some pairs may be missed."""
        return bool(self.space.sampled) or SAMPLED in self.counts

    @property
    def gradient(self) -> str | None:
        """Source of the gradients of the search; None for searches without."""
        return self.identity.gradient

    @property
    def remarks(self) -> list[tuple[str, int]]:
        """Nonzero counts of the search itself, each with its description."""
        counts = sorted((name, n) for name, n in self.counts.items() if n and name not in COUNTS)
        return [(REMARKS.get(name, name.replace("_", " ")), n) for name, n in counts]

    @property
    def success_rate(self) -> float:
        """Findings per test: the efficiency of the search, not the prevalence of discrimination.

        Refuted findings do not count; their tests do.
        """
        return self.found / self.tests if self.tests else 0.0

    @property
    def unaware(self) -> bool:
        """Whether the model receives no protected attribute, so that nothing can be found."""
        return is_unaware(self.space, self.unused)

    @property
    def complete(self) -> bool:
        """Whether all individuals of the space were judged, each against all counterparts."""
        return self.stop is StopReason.EXHAUSTED and not self.sampled

    @property
    def note(self) -> str | None:
        """A sentence on attributes that the model does not use; None if there are none."""
        if self.unsteady is not None:
            # Nothing is known of a model whose answers are not reproducible.
            return None
        sentence = statement(self.space, self.unused, self.found, self.tests, self.scored, self.complete)
        return None if sentence is None else str(sentence)

    @property
    def curve(self) -> pd.DataFrame:
        """Findings over time: tests, rows, findings."""
        import pandas as pd

        return pd.DataFrame(self.points, columns=["tests", "rows", "findings"])

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values, without its findings."""
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
        # Imported by name, because reports are a layer above runs.
        return str(import_module("evenhand.reports").summary(self))

    @classmethod
    def load(cls, directory: str | Path) -> Run:
        """Read a run from its directory, without the model.

        The run is as it was when it last ended; a killed run is read up to its last stored answer.
        """
        return load(as_path(directory, "directory"))


def load(path: Path) -> Run:
    """Read a run; a killed one is read up to its last stored answer."""
    refuse_links(path)
    identity, result = read_identity(path), read_result(path)
    space = space_from(identity.space, path / IDENTITY)
    pairs, counted, unfair = _pairs(space, path / ANSWERS)
    if result is None:
        return _killed(space, identity, pairs, counted, path)
    checked = _check_result(path / RESULT, result, unfair)
    # A run that its budget ended inside a block has stored a few more.
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
    """The log has fewer tests than the result counts; the run can continue from there.

    >>> issubclass(EndLost, RunError)
    True
    """


def _check_result(path: Path, result: dict[str, Any], unfair: npt.NDArray[np.bool_]) -> Checked:
    """Raise if a result contradicts the log, of which it may count only the first tests.

    The log has the verdicts of the search, the result which findings were refuted when queried again.
    """
    tests, budget, stop = result["tests"], result["budget"], StopReason(result["stop"])
    there = int(unfair[:tests].sum())
    checked = Checked.of(result)
    findings = result["findings"] + len(checked.refuted)
    # A run that reached a limit, or was interrupted, may have stored more answers than count.
    cut = {StopReason.TESTS: tests == budget["tests"], StopReason.FINDINGS: findings == budget["findings"]}
    early = cut.get(stop, stop in (StopReason.ROWS, StopReason.SECONDS, StopReason.INTERRUPTED))
    if (
        findings != there
        or not checked.fits(there)
        or not (tests == len(unfair) or (0 <= tests < len(unfair) and early))
    ):
        # Only the end of the log may be lost; the other answers can still be right.
        lost = tests > len(unfair) and 0 <= findings - there <= tests - len(unfair)
        raise (EndLost if lost else RunError)(
            f"{path} is damaged: it has {findings:,} findings in {tests:,} tests, but the log has "
            f"{int(unfair.sum()):,} in {len(unfair):,}",
            remedy="restore it from a copy, or delete it, and the run is read from its log"
            + (", or run the same audit again to continue from the log" if lost else ""),
        )
    return checked


def _killed(space: AnySpace, identity: RunIdentity, pairs: Findings, counted: dict[str, int], path: Path) -> Run:
    """Return a run without a result, from its log alone."""
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
"""Required fields of descriptions of spaces; constructors check the rest."""


def space_from(described: dict[str, Any], path: Path) -> AnySpace:
    """Rebuild a space from its description in a file."""
    try:
        if described.get("kind") == "text":
            check_fields(described, TEXT_FIELDS, "space")
            return TextSpace.described(described)
        if "kind" in described:
            return _installed(described)
        check_fields(described, SPACE_FIELDS, "space")
        space = _tabular(described)
        # Building individuals shows whether values and dtypes fit.
        space.frame(np.stack([np.zeros_like(space.sizes), space.sizes - 1]).astype(np.int32))
        return space
    except RunError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, SpaceError) as error:
        raise RunError(
            f"{path} cannot be read: it does not describe a space ({error})", remedy="restore it from a copy"
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
    """Rebuild a space of a kind that an installed package provides."""
    kind, kinds = str(described["kind"]), plugins.installed(plugins.SPACES)
    if kind not in kinds:
        near = f"; {suggest(kind, kinds)}" if kinds else ""
        raise RunError(
            f"the space is of the kind {kind!r}, which no installed package provides{near}",
            remedy=f"install the package with the entry point {kind!r} in the group {plugins.SPACES!r}",
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
    """Read the findings, the numbers of tests and rows, and the verdict of each test."""
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
