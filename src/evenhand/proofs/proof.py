"""What is proved about a model, the certificate of it, and a sample of what is left open."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand._files import replacing
from evenhand._format import percent
from evenhand._intervals import clopper_pearson
from evenhand._rng import Stream
from evenhand._validate import check_confidence, check_int, check_number, check_seed
from evenhand.errors import BudgetError, EstimateError, RunError
from evenhand.proofs.boxes import Limits
from evenhand.proofs.domain import FAIR, UNDECIDED, UNFAIR, Domain, Measure
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.engine.judge import Judge
    from evenhand.proofs.boxes import Partition
    from evenhand.proofs.ensembles import Ensemble
    from evenhand.proofs.gaps import LargestGap
    from evenhand.proofs.people import People

SAMPLES = 10_000
DRAWN = 64
"""How many individuals of a box are drawn at once, where only some of them are undecided."""
TRIES = 200
"""How many individuals may be drawn for each one that is undecided, where these cannot be drawn directly."""


class Status(StrEnum):
    """What a proof has reached.

    >>> Status.EXACT.value
    'exact'
    """

    FAIR = "fair"
    """No valid individual is treated differently."""
    EXACT = "exact"
    """The share is known exactly."""
    BRACKET = "bracket"
    """The share is between two bounds; more time would not narrow them."""
    STOPPED = "stopped"
    """The share is between two bounds, because a limit was reached, or because of Ctrl-C."""


@dataclass(frozen=True)
class Counts:
    """Numbers of individuals, as exact integers; individuals without a valid counterpart are not counted.

    >>> Counts(fair=80, unfair=15, undecided=5).shares
    (0.8, 0.15, 0.05)
    """

    fair: int
    unfair: int
    undecided: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.fair + self.unfair + self.undecided

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares that are fair, unfair and undecided."""
        whole = max(1, self.total)
        return self.fair / whole, self.unfair / whole, self.undecided / whole

    def __str__(self) -> str:
        _, unfair, undecided = self.shares
        if not self.undecided:
            return f"exactly {percent(unfair)}" if self.unfair else "none"
        ends = next(
            (low, high)
            for digits in range(2, 17)
            for low, high in [(f"{100 * unfair:.{digits}g}", f"{100 * (unfair + undecided):.{digits}g}")]
            if low != high or digits == 16
        )
        return f"between {ends[0]}% and {ends[1]}%"


@dataclass(frozen=True, eq=False)
class Sampled:
    """An estimate that samples the undecided part only, and adds what is certified.

    >>> Sampled(0.15, 0.14, 0.16, 1000, 0.95)
    Sampled: 15% (14% to 16%) are treated differently; 1,000 of the undecided were sampled
    """

    rate: float
    low: float
    high: float
    samples: int
    confidence: float

    def __repr__(self) -> str:
        return (
            f"Sampled: {percent(self.rate)} ({percent(self.low)} to {percent(self.high)}) are treated differently; "
            f"{self.samples:,} of the undecided were sampled"
        )


class Inside(Protocol):
    """What is proved about individuals of boxes that are undecided as a whole; boxes by their numbers."""

    def verdicts(self, number: int, group: int, free: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """Judge individuals of a box and group, by codes of the free attributes."""
        ...

    def left(self, number: int, group: int) -> int:
        """Return how many combinations of free values of a box are undecided for a group."""
        ...


Claim = Mapping[str, Any]
"""The part of a certificate that depends on the kind of model."""


@dataclass(frozen=True, eq=False)
class Proof:
    """What is certain about a model: which shares of all valid individuals are treated alike and differently.

    Attributes
    ----------
    counts
        Numbers of valid individuals, as exact integers.
    data
        The same of the rows of the data, if there are any: all are asked about.
    marginals
        The same shares if every attribute is drawn independently from the data: products of numbers of rows.
    status
        What is reached.
    counterexample
        A frame with one pair, in the columns of ``run.findings``; None if no such pair is known.
    people
        What is proved about the individuals near each row of the data; None without ``within``.
    untestable
        Number of valid individuals without a valid counterpart.
    method
        How it was proved.
    seconds
        Time that it took.

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> space = eh.Space([eh.Integer("age", 1, 4), eh.Boolean("member")], protected="member")
    >>> model = DecisionTreeClassifier().fit([[1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [4, 1]], [0, 0, 0, 1, 1, 1])
    >>> proof = eh.prove(model, space)
    >>> proof
    Proof: exactly 25% of all 8 valid individuals are treated differently
    >>> proof.status.value, proof.rate
    ('exact', 0.25)
    """

    space: Space
    model: Any = field(repr=False)
    counts: Counts
    status: Status
    method: str
    seconds: float
    rows: int
    untestable: int = 0
    data: Counts | None = None
    marginals: Counts | None = None
    counterexample: pd.DataFrame | None = None
    people: People | None = None
    _domain: Domain = field(repr=False, default=None)  # type: ignore[assignment]
    _judge: Judge = field(repr=False, default=None)  # type: ignore[assignment]
    _parts: Partition | None = field(repr=False, default=None)
    _verdict: Callable[[npt.NDArray[Any], int], npt.NDArray[np.int8]] = field(repr=False, default=None)  # type: ignore[assignment]
    _inside: Inside | None = field(repr=False, default=None)
    _ensemble: Callable[[], Ensemble] = field(repr=False, default=None)  # type: ignore[assignment]
    _claim: Claim = field(repr=False, default_factory=dict)

    @property
    def fair(self) -> float:
        """The certified share of individuals who are treated alike."""
        return self.counts.shares[0]

    @property
    def unfair(self) -> float:
        """The certified share of individuals who are treated differently."""
        return self.counts.shares[1]

    @property
    def undecided(self) -> float:
        """The share about which nothing is proved."""
        return self.counts.shares[2]

    @property
    def rate(self) -> float | None:
        """The share of individuals who are treated differently, if it is known exactly."""
        return None if self.counts.undecided else self.unfair

    @property
    def low(self) -> float:
        """The least possible share."""
        return self.unfair

    @property
    def high(self) -> float:
        """The largest possible share."""
        return 1 - self.fair

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        whole = f"all {self.counts.total:,} valid individuals"
        if self.status is Status.FAIR:
            return f"none of {whole} is treated differently"
        return f"{self.counts} of {whole} are treated differently"

    def __repr__(self) -> str:
        lines = [f"Proof: {self.sentence}"]
        if self.data is not None:
            lines.append(f"  of the {self.data.total:,} rows of the data: {self.data}")
        if self.marginals is not None:
            lines.append(f"  of people with the data's values, each drawn independently: {self.marginals}")
        if self.people is not None:
            lines.append(f"  {self.people.sentence}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""

        def plain(counts: Counts | None) -> Any:
            return None if counts is None else dict(
                zip(("fair", "unfair", "undecided"), counts.shares, strict=True)
            )  # fmt: skip

        return {
            "status": self.status.value,
            "fair": self.fair,
            "unfair": self.unfair,
            "undecided": self.undecided,
            "rate": self.rate,
            "individuals": self.counts.total,
            "counts": [self.counts.fair, self.counts.unfair, self.counts.undecided],
            "untestable": self.untestable,
            "data": plain(self.data),
            "marginals": plain(self.marginals),
            "people": None if self.people is None else self.people.to_dict(),
            "counterexample": None if self.counterexample is None else self.counterexample.iloc[0].to_dict(),
            "method": self.method,
            "model": self.model.name,
            "model_rows": self.rows,
            "seconds": self.seconds,
        }

    @cached_property
    def regions(self) -> pd.DataFrame:
        """Values for which no one is treated differently, certified: runs of values of single attributes.

        One row per run: the attribute, its first and last value, and the share of individuals with such values.
        """
        import pandas as pd

        found = []
        for i, alike in enumerate(self._alike_values()):
            attribute = self.space.attributes[self._domain.columns[i]]
            edges = np.flatnonzero(np.diff(np.concatenate([[0], alike.astype(np.int8), [0]])))
            for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                ends = attribute.decode(np.array([first, end - 1])).tolist()
                found.append((attribute.name, ends[0], ends[1], (end - first) / attribute.size))
        table = pd.DataFrame(found, columns=["attribute", "first", "last", "share"])
        return table.sort_values("share", ascending=False, ignore_index=True)

    def _alike_values(self) -> list[npt.NDArray[np.bool_]]:
        """Return, for each free attribute, the codes whose individuals are all certified to be treated alike."""
        out = [np.ones(int(size), dtype=bool) for size in self._domain.sizes]
        parts = self._parts
        if parts is None:
            everyone = self.status is Status.FAIR
            return [one & everyone for one in out]
        counts = self._domain.uniform.count(parts.low, parts.high)
        open_ = ((parts.verdicts == UNFAIR) | (parts.verdicts == UNDECIDED)).any(axis=1) & (counts > 0)
        for i, one in enumerate(out):
            steps = np.zeros(len(one) + 1, dtype=np.int64)
            np.add.at(steps, parts.low[open_, i], 1)
            np.add.at(steps, parts.high[open_, i] + 1, -1)
            one &= np.cumsum(steps)[:-1] == 0
        return out

    def check(self, samples: int = SAMPLES, seed: int = 0) -> int:
        """Ask the model about random individuals, and compare with what is proved; return how many were decided.

        Raises an ``AssertionError`` where an answer contradicts the proof.
        """
        check_int("samples", samples, BudgetError, 1)
        free, own = self._draw(Stream(check_seed(seed, EstimateError)), 0, samples)
        verdicts = self._verdicts(free, own)
        testable, unfair = self._judge.judged(Individuals(self.space, rows=self._domain.rows(free, own)))
        decided = ((verdicts == FAIR) | (verdicts == UNFAIR)) & testable
        wrong = decided & (unfair != (verdicts == UNFAIR))
        if wrong.any():
            row = self._domain.rows(free[wrong][:1], own[wrong][:1])
            raise AssertionError(f"the model contradicts the proof: {self.space.frame(row).iloc[0].to_dict()}")
        return int(decided.sum())

    def estimate(self, samples: int = SAMPLES, confidence: float = 0.95, seed: int = 0) -> Sampled:
        """Sample the undecided part only, and add what is certified.

        The interval is that of Clopper and Pearson, narrowed to the undecided share. What is undecided is fixed before
        anything is sampled, so the interval holds.
        """
        check_int("samples", samples, BudgetError, 1)
        check_confidence(confidence, EstimateError)
        stream = Stream(check_seed(seed, EstimateError))
        if not self.counts.undecided:
            return Sampled(self.unfair, self.unfair, self.unfair, 0, confidence)
        people = self._draw_undecided(stream, samples)
        if not len(people):
            return Sampled(self.unfair + self.undecided / 2, self.low, self.high, 0, confidence)
        _, unfair = self._judge.judged(people)
        found = int(unfair.sum())
        low, high = (float(end) for end in clopper_pearson(found, len(people), confidence))
        low, mid, high = (self.unfair + self.undecided * one for one in (low, found / len(people), high))
        return Sampled(mid, low, high, len(people), confidence)

    def largest_gap(self, seconds: float = 30.0) -> LargestGap:
        """Prove how far the scores of an individual and a counterpart can be apart.

        Examples
        --------
        >>> import evenhand as eh
        >>> from sklearn.linear_model import LogisticRegression
        >>> space = eh.Space([eh.Integer("age", 1, 8), eh.Boolean("member")], protected="member")
        >>> model = LogisticRegression().fit([[1, 0], [2, 1], [3, 1], [7, 0], [6, 1], [8, 1]], [0, 0, 0, 1, 1, 1])
        >>> gap = eh.prove(model, space).largest_gap()
        >>> gap.exact, bool(abs(gap.high - abs(model.coef_[0, 1])) < 1e-9)
        (True, True)
        """
        from evenhand.proofs.gaps import LargestGap, largest_gap
        from evenhand.proofs.pairs import frame_of

        check_number("seconds", seconds, BudgetError, above=0, remedy="give some time, such as 30")
        began, ensemble = time.monotonic(), self._ensemble()
        found, scale = largest_gap(ensemble, Limits(seconds)), ensemble.trees.scale
        pair = None
        if found.free is not None:
            ends = [self._domain.complete(found.free[None], view) for view in found.views]
            pair = frame_of(self._judge, *ends, *(self._judge.probe.labels(rows) for rows in ends))
        return LargestGap(scale * found.low, scale * found.high, ensemble.trees.unit, pair, time.monotonic() - began)

    def _draw(self, stream: Stream, start: int, n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Draw valid individuals: codes of the free attributes, and the number of the own protected values."""
        people, _ = self.space.sampler.draw(stream, start, n, repeats=True)
        return people.rows[:, self._domain.columns].astype(np.int64), self._domain.own_of(people.rows)

    def _verdicts(self, free: npt.NDArray[Any], own: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
        """Return what is proved about individuals."""
        group = np.zeros(len(self._domain.combinations), dtype=np.int64)
        for number, owns in enumerate(self._domain.groups):
            group[list(owns)] = number
        if self._parts is not None:
            leaf = locate(self._parts, free)
            return self._look_inside(leaf, group[own], free, np.asarray(self._parts.verdicts[leaf, group[own]]))
        out = np.full(len(free), UNDECIDED, dtype=np.int8)
        for number in range(len(self._domain.groups)):
            rows = np.flatnonzero(group[own] == number)
            out[rows] = self._verdict(free[rows], number)
        return out

    def _look_inside(
        self, leaf: npt.NDArray[Any], group: npt.NDArray[Any], free: npt.NDArray[Any], verdicts: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.int8]:
        """Fill in what is proved about individuals in boxes that are undecided as a whole."""
        if self._inside is None or self._parts is None:
            return verdicts
        out, rows = verdicts.copy(), np.flatnonzero(verdicts == UNDECIDED)
        order = rows[np.lexsort((group[rows], leaf[rows]))]
        changes = (np.diff(leaf[order]) != 0) | (np.diff(group[order]) != 0)
        for some in np.split(order, np.flatnonzero(changes) + 1) if len(order) else []:
            number = int(self._parts.leaves[leaf[some[0]]])
            out[some] = self._inside.verdicts(number, int(group[some[0]]), free[some])
        return out

    def _draw_undecided(self, stream: Stream, samples: int) -> Individuals:
        """Draw uniformly from the undecided part."""
        if self._parts is not None and not self._domain.tied:
            return Individuals(self.space, rows=self._domain.rows(*self._draw_in_boxes(self._parts, stream, samples)))
        found: list[npt.NDArray[Any]] = []
        count = at = 0
        tries = max(samples, math.ceil(min(samples / max(self.undecided, 1e-9), TRIES * samples)))
        size = min(tries, 2**17)
        while count < samples and at < tries:
            free, own = self._draw(stream, at, size)
            keep = self._verdicts(free, own) == UNDECIDED
            at += size
            found.append(self._domain.rows(free[keep], own[keep]))
            count += int(keep.sum())
        return Individuals(self.space, rows=np.concatenate(found)[:samples])

    def _draw_in_boxes(
        self, parts: Partition, stream: Stream, samples: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Draw undecided individuals: first their box, by how many are undecided in it, then one of these."""
        leaf, group = np.nonzero(parts.verdicts == UNDECIDED)
        if self._inside is None:
            weights = self._domain.uniform.count(parts.low[leaf], parts.high[leaf]).astype(np.float64)
        else:
            pairs = zip(parts.leaves[leaf].tolist(), group.tolist(), strict=True)
            weights = np.array([self._inside.left(*pair) for pair in pairs], dtype=np.float64)
        weights = weights * np.array(self._domain.uniform.groups, dtype=np.float64)[group]
        totals = np.cumsum(weights) / weights.sum()
        numbers = np.arange(samples)
        at = np.minimum(np.searchsorted(totals, stream.unit("box", numbers, 0), "right"), len(totals) - 1)
        low, high = parts.low[leaf[at]].astype(np.int64), parts.high[leaf[at]].astype(np.int64)
        free, wanted = np.empty_like(low), numbers
        for turn in range(1 if self._inside is None else TRIES):
            tries = 1 if self._inside is None else DRAWN
            many = np.repeat(wanted, tries)
            counter = (turn * samples + wanted[:, None]) * tries + np.arange(tries)
            drawn = np.empty((len(many), low.shape[1]), dtype=np.int64)
            for i in range(low.shape[1]):
                width = high[many, i] - low[many, i] + 1
                drawn[:, i] = low[many, i] + (stream.unit("inside", counter.ravel(), i) * width).astype(np.int64)
            verdicts = np.full(len(many), UNDECIDED, dtype=np.int8)
            open_ = self._look_inside(leaf[at[many]], group[at[many]], drawn, verdicts) == UNDECIDED
            open_ = open_.reshape(len(wanted), tries)
            some = open_.any(axis=1)
            free[wanted[some]] = drawn.reshape(len(wanted), tries, -1)[some, open_.argmax(axis=1)[some]]
            wanted = wanted[~some]
            if not len(wanted):
                break
        kept = np.setdiff1d(numbers, wanted)
        owns = [np.array(one) for one in self._domain.groups]
        turns = stream.unit("own", numbers, 0)
        own = [owns[g][int(t * len(owns[g]))] for g, t in zip(group[at], turns, strict=True)]
        return free[kept], np.array(own, dtype=np.int64)[kept]

    def save(self, path: str | Path) -> None:
        """Write a certificate, which ``evenhand check-proof FILE --model MODEL`` verifies without this code.

        Individuals whose score is within rounding errors of the threshold were asked about; the certificate counts
        them as undecided. Models of other libraries, boosters of stumps and networks have no certificate.
        """
        if not self._claim:
            raise RunError(
                f"there is no certificate for {self.model.name}",
                remedy="certificates are for linear models, trees, forests and boosters of scikit-learn; keep "
                "proof.to_dict(), or what evenhand prove --json prints",
            )
        from evenhand.spaces.toml import dumps

        content: dict[str, Any] = {
            "format": "evenhand proof",
            "version": 1,
            "space": dumps(self.space),
            "model": self.model.name,
            "threshold": self.model.threshold,
            **counts_to_dict(self.counts, self.untestable),
            **{key: value for key, value in self._claim.items() if key != "asked"},
        }
        if self._parts is not None:
            parts = self._parts
            verdicts = self._without_answers(parts)
            shares = self._domain.uniform.shares(parts.low, parts.high, verdicts)
            content |= counts_to_dict(Counts(*shares[:3]), self.untestable)
            content["splits"] = {
                "column": parts.column.tolist(), "cut": parts.cut.tolist(), "lower": parts.lower.tolist()
            }  # fmt: skip
            ends = np.ascontiguousarray(np.concatenate([parts.low, parts.high], axis=1), dtype="<i4")
            content["boxes"] = {
                "number": parts.leaves.tolist(), "verdicts": verdicts.tolist(),
                "ends": hashlib.sha256(ends.tobytes()).hexdigest(),
            }  # fmt: skip
        text = json.dumps(content, separators=(",", ":"), sort_keys=True)
        content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        with replacing(Path(path)) as file:
            file.write(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 6, mtime=0))

    def _without_answers(self, parts: Partition) -> npt.NDArray[np.int8]:
        """Return the verdicts that follow from the model's parameters; those that it was asked about are undecided."""
        verdicts = parts.verdicts
        asked = np.isin(parts.leaves, self._claim.get("asked", ()))
        if asked.any():
            verdicts = verdicts.copy()
            rows = verdicts[asked]
            verdicts[asked] = np.where((rows == FAIR) | (rows == UNFAIR), UNDECIDED, rows)
        return verdicts


def locate(parts: Partition, free: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the position, among the boxes of a partition, of the box that contains each individual."""
    at = np.zeros(len(free), dtype=np.int64)
    rows = np.arange(len(free))
    rows = rows[parts.column[at[rows]] >= 0]
    while len(rows):
        node = at[rows]
        above = free[rows, parts.column[node]] >= parts.cut[node]
        at[rows] = parts.lower[node] + above
        rows = rows[parts.column[at[rows]] >= 0]
    return np.searchsorted(parts.leaves, at)


def counts_to_dict(counts: Counts, untestable: int) -> dict[str, Any]:
    """Return counts as a certificate has them, with the status that they mean."""
    status = Status.BRACKET if counts.undecided else Status.EXACT if counts.unfair else Status.FAIR
    numbers = {"fair": counts.fair, "unfair": counts.unfair, "undecided": counts.undecided, "untestable": untestable}
    return {"status": status.value, "counts": numbers}


def weights_of(domain: Domain, rows: npt.NDArray[Any]) -> Measure:
    """Return the measure in which every attribute is drawn independently from some rows of codes."""
    sizes = domain.space.coding.sizes
    return Measure(domain, [np.bincount(rows[:, j], minlength=size) for j, size in enumerate(sizes)])
