"""The result of an audit, with the estimate of its independent draws; and reading it back from its directory."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand import plugins
from evenhand._format import Figure, Sentence, Viewed, estimated, percent
from evenhand._intervals import planned
from evenhand._validate import ANY, COUNT, FLAG, TEXT, Maybe, check_fields, check_int, check_path, one_of
from evenhand.budget import Budget, StopReason
from evenhand.engine.determinism import Checked
from evenhand.engine.judge import is_unaware, statement
from evenhand.engine.oracle import QUESTIONS, Origin, check_answer
from evenhand.engine.store import (
    ANSWERS,
    IDENTITY,
    RESTORE,
    RESULT,
    About,
    RunIdentity,
    frames,
    read_identity,
    read_result,
    refuse_links,
)
from evenhand.errors import EvenhandError, RunError, SpaceError
from evenhand.search import Drawn
from evenhand.spaces.attributes import KINDS, suggest
from evenhand.spaces.base import AnySpace
from evenhand.spaces.findings import Decisions, Findings, TextFindings
from evenhand.spaces.frames import pd
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.natural import REASONS
from evenhand.spaces.text.space import BORROWED, DEPENDS, REJECTED, SAMPLED, TextSpace

REMARKS = {
    BORROWED: "similar words are only among words of the texts (give words= or similar=)",
    "texts_that_cannot_move": "texts without a replaceable word",
    DEPENDS: "decisions that depend on the spelling of an identity, which are not findings",
    **{f"{REJECTED}{reason}": f"terms not counted ({words})" for reason, words in REASONS.items()},
}
"""Descriptions of some counts."""
BLOCK = 2**20
"""Findings that are compared with the data at once."""
COUNTS = ("repeats", "untestable", "clipped", "dropped", "rows_checked", "rows_from_log")
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
    ]
}
"""Required fields of descriptions of spaces; constructors check the rest."""
POPULATIONS = {"data": "the population of the data", "uniform": "random valid individuals"}
"""Descriptions of the populations."""
MOST = 10**9
"""Maximum number of samples that is recommended."""


@dataclass(frozen=True)
class RunEstimate:
    """How common discrimination is in one population, from the independent draws of a run.

    The estimate is unbiased, and its interval is valid whenever the run is inspected or stopped. It is narrower at the
    end of the first budget of tests: at most 1.25 times as wide as an interval that is valid at that moment only. The
    estimate is then that of the planned draws; the few more that were made count when the run is extended.

    Rows of the data are drawn in random order, each once. The interval is for the population that they are a random
    sample of, and also holds for the rows themselves. When all were drawn, the rate of the rows is exact.

    >>> estimate = RunEstimate("data", 30, 1000, 1000, 30)
    >>> estimate.rate, str(estimate)
    (0.03, 'data: 3% (1.83% to 4.51%), 30 of 1,000 independent draws')
    >>> str(RunEstimate("data", 30, 1000, 1000, 30, left=0))
    'data: 3% (1.83% to 4.51%), 30 of 1,000, which are all of the data'
    """

    population: str
    """``"data"``: the population of which the rows of the data are a random sample. ``"uniform"``: all valid
    individuals."""
    found: int
    """Number of draws that are treated differently; repeats count each time."""
    samples: int
    """Number of independent draws."""
    planned: int = 0
    """Number of these draws that were planned by the first budget of tests; 0 until all planned ones were made."""
    planned_found: int = 0
    """Number of planned draws that were treated differently."""
    exact: bool = False
    """Whether every individual was judged, so that the rate is exact; ``samples`` is then their number."""
    confidence: float = 0.95
    plan: int = 0
    """Number of draws from all populations together that the first budget planned."""
    left: int | None = None
    """Number of rows of the data that were not drawn; None for individuals, which have no end."""

    @property
    def about(self) -> str:
        """What the interval is for."""
        return POPULATIONS[self.population]

    @property
    def all_rows(self) -> bool:
        """Whether all rows of the data were drawn, so that the rate among them is exact."""
        return self.left == 0

    @property
    def rate(self) -> float:
        """The estimated share of the population that is treated differently."""
        return self.found / self.samples if self.samples else 0.0

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self._interval[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self._interval[1]

    @cached_property
    def _interval(self) -> tuple[float, float]:
        if self.exact or not self.samples:
            return (self.rate, self.rate) if self.exact else (0.0, 1.0)
        plan = (self.planned_found, self.planned) if self.planned else None
        return planned(self.found, self.samples, plan, self.confidence)

    def verdict(self, limit: float) -> bool | None:
        """Return whether the rate is at most a limit; None if the interval does not decide.

        >>> RunEstimate("data", 30, 1000).verdict(0.1), RunEstimate("data", 30, 1000).verdict(0.03)
        (True, None)
        """
        return True if self.high <= limit else False if self.low > limit else None

    def needed(self, limit: float) -> int | None:
        """Return about how many more samples are needed to decide about a limit, if the rate stays the same.

        None if there are not enough rows.

        >>> RunEstimate("data", 30, 1000).needed(0.1), RunEstimate("data", 0, 300).needed(0.01)
        (0, 70)
        >>> RunEstimate("data", 0, 300, left=50).needed(0.01) is None
        True
        """
        if self.verdict(limit) is not None:
            return 0
        # A rate equal to the limit would never be decided; the smallest difference considered is a tenth.
        rate = self.rate if abs(self.rate - limit) > limit / 10 else (0.9 if self.rate <= limit else 1.1) * limit

        def decides(samples: int) -> bool:
            low, high = planned(round(rate * samples), samples, None, self.confidence)
            return high <= limit or low > limit

        few, many = self.samples, max(2 * self.samples, 16)
        while many < MOST and not decides(many):
            few, many = many, 2 * many
        while many - few > max(1, many / 100):
            middle = (few + many) // 2
            few, many = (few, middle) if decides(middle) else (middle, many)
        more = many - self.samples
        return more if self.left is None or more <= self.left else None

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values."""
        return {**asdict(self), "rate": self.rate, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        interval = estimated(self.rate, self.low, self.high)
        draws = "individuals" if self.exact else "independent draws"
        of = f"{self.samples:,}, which are all of the data" if self.all_rows else f"{self.samples:,} {draws}"
        return f"{self.population}: {interval}, {self.found:,} of {of}"


def estimate_of_draws(population: str, drawn: Drawn, plan: int, at_plan: bool) -> RunEstimate:
    """Make an estimate from draws, of which the first were planned; at the plan, only from these."""
    planned = drawn.planned
    then = int(drawn.unfair[:planned].sum())
    counted, left = drawn.unfair, drawn.left
    if at_plan and planned:
        counted, left = counted[:planned], None if left is None else left + len(counted) - planned
    return RunEstimate(population, int(counted.sum()), len(counted), planned, then, plan=plan, left=left)


@dataclass
class Run(Viewed):
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
    estimate: dict[str, RunEstimate] = field(default_factory=dict)
    """How common discrimination is, by population, from the independent draws of the search; empty if it makes none."""
    arms: dict[str, dict[str, int]] = field(default_factory=dict)
    """What each search of ``Auto`` asked and found: turns, rows, findings, regions of the space in which it found
    something first, realistic findings, and regions in which it found a realistic one first."""
    marked: str | None = field(default=None, repr=False, compare=False)
    """The stored form of ``from_data``."""
    about: About = field(default_factory=About, compare=False)
    """When it began, and what ``annotate`` says of it."""

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row per finding: the individual, its counterpart's protected values, both decisions, the gap.

        ``confirmed`` is whether the model was queried again and gave the same answers. Findings with other answers are
        left out.
        """
        return self.pairs.frame()

    @cached_property
    def spelling(self) -> pd.DataFrame:
        """Texts whose decision depends on how an identity is spelled, in the columns of ``findings``; not findings.

        The decision changes for some spellings of another identity and not for all, or for another spelling of the
        text's own identity.
        """
        apart = getattr(self.pairs, "apart", None)
        return (apart or TextFindings(self.space)).frame()

    def page(self, start: int, n: int = 100) -> pd.DataFrame:
        """Return ``n`` findings from a position on, as in ``findings``; all may be more than fit into memory.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
        >>> run = eh.audit(lambda frame: (frame["age"] < 4) & (frame["sex"] == "F"), space, strategy="themis")
        >>> len(run.page(0, 2)), len(run.page(2, 2))
        (2, 1)
        """
        start = check_int("start", start, RunError, 0)
        return self.pairs.frame(slice(start, start + check_int("n", n, RunError, 1))).reset_index(drop=True)

    def annotate(
        self, auditor: str | None = None, purpose: str | None = None, data_description: str | None = None
    ) -> Run:
        """Say who ran the audit, what for, and what the data are: reports show it. It is stored with a kept run.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
        >>> run = eh.audit(lambda frame: frame["age"] < 4, space, strategy="themis")
        >>> run.annotate(auditor="Model risk", purpose="Yearly review").about.auditor
        'Model risk'
        """
        self.about = self.about.with_(auditor=auditor, purpose=purpose, data_description=data_description)
        if self.directory is not None:
            self.about.keep(self.directory)
        return self

    @cached_property
    def from_data(self) -> npt.NDArray[np.bool_]:
        """Which findings are rows of the data in everything but what is protected, or texts without a replaced word.

        Where that is not known, because a search that starts from data was killed, all of them.
        """
        if self.marked is not None:
            return np.unpackbits(_bits(self.marked), count=self.found).astype(bool)
        if self.found and self.space.supports("texts"):
            return np.array([not record[3] for record in self.pairs.records()])  # type: ignore[attr-defined]
        if self.origin is None or not self.space.supports("attributes"):
            return np.full(self.found, self.identity.data is not None)
        out = np.zeros(self.found, dtype=bool)
        if self.origin.data is not None:
            known = np.unique(self.origin.data.keys)
            for start in range(0, self.found, BLOCK):
                block = slice(start, start + BLOCK)
                out[block] = np.isin(self.pairs.individuals("individual", block).keys, known)
        return out

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
        """Number of findings that got a different answer when queried again; they are not reported."""
        return len(self.checked.refuted)

    @property
    def unsteady(self) -> str | None:
        """Why the model's answers are not reproducible, if the run ended because of that; otherwise None."""
        return self.checked.unsteady

    @property
    def ended(self) -> str:
        """Why the run ended, in words that follow "because"."""
        if self.unsteady is not None and self.stop is StopReason.INTERRUPTED:
            return "a check of the model stopped it"
        return self.stop.words

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
    def shares(self) -> str:
        """The share of the model rows that each search of ``Auto`` used, and why; empty for other searches."""
        return str(sentence_of_shares(self.row_shares)) if self.row_shares else ""

    @property
    def row_shares(self) -> dict[str, float]:
        """The share of the model rows that each search of ``Auto`` used, in hundredths, the largest first."""
        rows = {name: arm["rows"] for name, arm in self.arms.items() if arm.get("rows")}
        largest_first = sorted(rows.items(), key=lambda arm: -arm[1])
        return {name: round(used / sum(rows.values()), 2) for name, used in largest_first}

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
            # If answers are not reproducible, nothing is known about the model.
            return None
        sentence = statement(self.space, self.unused, self.found, self.tests, self.scored, self.complete)
        return None if sentence is None else str(sentence)

    @property
    def curve(self) -> pd.DataFrame:
        """Findings over time: tests, rows, findings."""
        return pd.DataFrame(self.points, columns=["tests", "rows", "findings"])

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values, without its findings."""
        return {
            "identity": self.identity.to_dict(),
            "budget": self.budget.to_dict(),
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
            **({"estimate": {name: one.to_dict() for name, one in self.estimate.items()}} if self.estimate else {}),
            **({"arms": self.arms} if self.arms else {}),
            **({} if self.found else {"example": self.pairs.example}),
        }

    def to_store(self) -> dict[str, Any]:
        """Return what a directory keeps of how the run ended: that, and which findings are rows of the data."""
        marked = base64.b64encode(np.packbits(self.from_data).tobytes()).decode()
        return self.to_dict() | ({"from_data": marked} if self.space.supports("attributes") else {})

    def __repr__(self) -> str:
        return (
            f"Run: {self.found:,} of {self.tests:,} tests are treated differently ({percent(self.success_rate)}), "
            f"{self.identity.search}"
            + (f" by {self.gradient}" if self.gradient else "")
            + f", {self.rows:,} model rows, {self.seconds:.1f} s; "
            f"{self.ended}"
            + (f", each against a sample of {self.space.max_family_size:,} counterparts" if self.space.sampled else "")
            + "".join(f", {words}: {n:,}" for words, n in self.remarks)
            + (f"; {self.note}" if self.note else "")
            + "".join(f"; {doubt}" for doubt in self.doubts)
        )

    @classmethod
    def load(cls, directory: str | Path) -> Run:
        """Read a run from its directory, without the model.

        The run is as it was when it last ended; a killed run is read up to its last stored answer.
        """
        return load(check_path("directory", directory, RunError))


def load(path: Path) -> Run:
    """Read a run; a killed one is read up to its last stored answer."""
    refuse_links(path)
    identity, result = read_identity(path), read_result(path)
    space = space_from(identity.space, path / IDENTITY)
    pairs, counted, unfair = _pairs(space, path / ANSWERS)
    if result is None:
        return _killed(space, identity, pairs, counted, path)
    checked = _check_result(path / RESULT, result, unfair)
    # A run whose budget ended inside a block has stored a few more.
    pairs.cut(result["findings"] + len(checked.refuted))
    checked.apply(pairs, identity.seed)
    pairs.example = result.get("example")
    marked = result.get("from_data")
    if marked is not None and len(_bits(marked)) != -(-pairs.count // 8):
        raise RunError(f"{path / RESULT} is damaged: from_data does not fit its findings", remedy=RESTORE)
    return Run(
        space,
        identity,
        Budget(**{limit: result["budget"].get(limit) for limit in vars(Budget())}),
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
        estimate=_estimate(path / RESULT, result),
        arms=result.get("arms", {}),
        about=About.read(path),
        marked=marked,
    )


def _bits(marked: str) -> npt.NDArray[np.uint8]:
    try:
        return np.frombuffer(base64.b64decode(marked, validate=True), dtype=np.uint8)
    except ValueError:
        return np.zeros(0, dtype=np.uint8)


def _estimate(path: Path, result: dict[str, Any]) -> dict[str, RunEstimate]:
    """Read the estimates; raise if they contradict themselves."""
    out = {}
    for name, one in result.get("estimate", {}).items():
        found, samples, first, then = (one[part] for part in ("found", "samples", "planned", "planned_found"))
        if not (then <= found <= samples and then <= first <= samples and name in POPULATIONS):
            raise RunError(
                f"{path} is damaged: its estimate counts {found} of {samples}", remedy="restore it from a copy"
            )
        exact, plan, left = bool(one["exact"]), one.get("plan", 0), one.get("left")
        out[name] = RunEstimate(name, found, samples, first, then, exact, plan=plan, left=left)
    return out


class EndLost(RunError):
    """The log has fewer tests than the result counts; the run can continue from there."""


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
    early = cut.get(stop, stop in (StopReason.ROWS, StopReason.SECONDS, StopReason.REQUESTS, StopReason.INTERRUPTED))
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
    tests, stop = counted["tests"], StopReason.INTERRUPTED
    about = About.read(path)
    return Run(space, identity, Budget(), stop, tests, asked, 0.0, counts, pairs, points, {}, path, about=about)


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
        raise RunError(
            f"{kinds[kind].value} cannot read the space ({plugins.reason(error)})",
            remedy="correct the plugin, or audit again with it",
        ) from error
    if not isinstance(space, AnySpace):
        raise RunError(
            f"{kinds[kind].value} returned a {type(space).__name__}, which is not a space", remedy="correct the plugin"
        )
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
            pairs.add_apart(frame.arrays, tests)
            unfair.append(np.unpackbits(frame.arrays["unfair"], count=tests).astype(bool))
            counted["tests"] += tests
        question = "score" if frame.kind == "contrast" else frame.kind
        counted[question] = counted.get(question, 0) + frame.header.get("rows", 0)
    return pairs, counted, np.concatenate(unfair)


def sentence_of_shares(shares: Mapping[str, float]) -> Sentence:
    """Say which share of the model rows each search used, and why.

    >>> str(sentence_of_shares({"kosei": 0.8, "independent": 0.2}))[:47]
    'kosei 80%, independent 20% of the model rows; a'
    """
    parts = [part for name in shares for part in (name, Figure(shares[name], "percent"))]
    why = " of the model rows; apart from independent draws, most go to the searches that find most"
    return Sentence(", ".join(["{} {}"] * len(shares)) + why, tuple(parts))
