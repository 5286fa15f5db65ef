"""One pass over a population: judges it block by block until a rule stops it, counts, and confirms findings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand._format import percent
from evenhand._intervals import (
    Numbers,
    anytime,
    anytime_of_rows,
    at_most,
    clopper_pearson,
    hypergeometric,
    lln,
    spent,
    weighted,
)
from evenhand.criteria import Outputs
from evenhand.engine.determinism import (
    ALONE,
    PATIENCE,
    PROBES,
    RANDOM,
    STEADY,
    RowChecks,
    affordable,
    confirm,
    holds,
    in_turn,
    repeated_pairs,
)
from evenhand.engine.judge import Judge, Judged, Mask, ModelProbe
from evenhand.errors import EstimateError, EvenhandError, FlakyModel, Use
from evenhand.estimates.pair_counts import KEPT, Favour, Table, TermCounts, View, tables_of
from evenhand.estimates.populations import Everyone, Target
from evenhand.runs.audit import nothing_to_compare
from evenhand.search import Numbered
from evenhand.spaces.base import Families
from evenhand.spaces.findings import Decisions

if TYPE_CHECKING:
    from evenhand.estimates.estimate import Plan

UNTESTABLE = 100_000
"""Individuals without counterparts after which a survey that has judged none stops."""
AGAIN = 1_000
"""Findings that are queried again at the end."""
MEASURED = 4_096
"""Rows that measure the noise of a model."""
TURNS, MORE_TURNS = 8, 64
"""How often each row is queried to distinguish noise from replicas that answer in turn; and if that is not enough."""
SEVERAL = 3
"""More differences than rare noise, not seen in many more repeats, would cause by chance."""
RESIDUE = 0.001
"""Share of individuals that may be misjudged if the noise is the same everywhere."""
MOST_HALF = 51
"""Maximum queries of a row in each half of the repeats."""
HOPELESS = 0.25
FIRST = 1024
"""The first block of a sample that may end early; the next ones double."""
FIRST_TIMED = 16
"""The first block of a sample with a time limit, which may cut off a block of a slow model."""

UNFINISHED = "what is certain"
"""The interval of an unfinished count: each remaining individual may be treated either way."""


class NoisyModel(Exception):
    """The model gave two answers to the same row, so the survey must query every row several times."""

    def __init__(self, half: int, noise: float) -> None:
        super().__init__(half, noise)
        self.half, self.noise = half, noise


def flaky(noise: float, name: str = "the model") -> FlakyModel:
    """Return the error for a noisy model that may be queried only once."""
    return FlakyModel(
        f"{name} gave two answers to {percent(noise)} of the rows that were queried twice",
        noise,
        (
            f"{RANDOM}; or leave out ",
            Use("interval=eh.Interval(repeats=1)", "estimate.repeats", 1),
            ", and its noise is measured",
        ),
    )


@dataclass
class Kept:
    """The first individuals of a sample, their verdicts, decisions and gaps."""

    people: list[Any] = field(default_factory=list)
    unfair: list[Mask] = field(default_factory=list)
    decided: list[npt.NDArray[Any]] = field(default_factory=list)
    gaps: list[npt.NDArray[np.float64]] = field(default_factory=list)
    later: list[Any] = field(default_factory=list)
    """Findings after the kept individuals."""
    weights: list[npt.NDArray[np.float64]] = field(default_factory=list)
    decisions: Decisions = field(default_factory=Decisions)
    forgotten: int = 0
    """Findings that were not kept."""
    count: int = 0

    def add(self, block: Judged, weights: npt.NDArray[np.float64] | None) -> None:
        """Keep individuals until there are enough."""
        room = slice(0, max(0, KEPT - self.count))
        if room.stop < len(block):
            found = room.stop + np.flatnonzero(block.unfair[room.stop :])
            if sum(map(len, self.later)) < KEPT:
                self.later.append(block.families.individuals[found])
            else:
                self.forgotten += len(found)
        if not room.stop:
            return
        outputs, here = block.outputs, np.arange(len(block))
        self.people.append(block.families.individuals[room])
        self.unfair.append(block.unfair[room])
        assert outputs.labels is not None
        self.decided.append(self.decisions.encode(outputs.labels[here, outputs.own])[room])
        if outputs.scores is not None:
            self.gaps.append(widest(outputs)[room])
        if weights is not None:
            self.weights.append(weights[room])
        self.count += len(self.unfair[-1])

    def verdicts(self) -> Mask:
        """Verdicts in the order of the sample."""
        return np.concatenate(self.unfair) if self.unfair else np.zeros(0, dtype=bool)

    def weight(self) -> npt.NDArray[np.float64] | None:
        """Weights in the order of the sample; None if all are equal."""
        return np.concatenate(self.weights) if self.weights else None


class Survey:
    """Judges a population, and counts."""

    def __init__(
        self,
        judge: Judge,
        population: Numbered,
        favour: Favour,
        keep_all: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        checked: int = 0,
    ) -> None:
        self.judge, self.population, self.favour = judge, population, favour
        self.bound = judge.probe.bound
        self.space = self.bound.space
        self.steadiness = RowChecks(judge.probe, judge.seed, judge.chunk)
        # Few individuals show little of a model.
        self.steadiness.spare = lambda: self.bound.probes(population.take(0, PROBES)[0], PROBES).rows
        self.apart = checked
        # Scaled so that the sum is the effective sample size (Kish).
        self._weights = None if weights is None else weights * weights.sum() / np.square(weights).sum()
        self.whole_families = isinstance(population, Everyone) and not population.singly
        self.samples = self.found = self.unsure = self.families = 0
        self.depends = 0
        """Families whose decision depends on how an identity is spelled."""
        self.noise = self.tabled = 0.0
        self.points: list[tuple[int, int]] = []
        needs_scores = judge.probe.criterion.needs_scores
        self.tables: list[Table] = tables_of(self.space) if self.bound.supports("attributes") else []
        self.terms: TermCounts | None = None
        """For texts: decisions by term."""
        if self.bound.supports("texts"):
            self.terms = TermCounts(judge.probe.bound, favour.level if needs_scores else None)
        self.kept = Kept()
        self.width: int | None = None
        """Number of scores of a row, if the criterion uses scores."""
        self.verdicts: list[Mask] | None = [] if keep_all else None
        self.doubts: list[Mask] = []
        self.places: list[npt.NDArray[np.int64]] = []
        """For whole families: the number of individuals in each."""
        self._findings = self.bound.findings()
        """The first findings, queried again at the end."""
        self._batches: list[tuple[int, int, int, Mask]] = []
        """For each block: findings before it, its start in the population, its size and verdicts."""
        self._at = self._drawn = 0
        self._last: Families | None = None

    @property
    def checked(self) -> int:
        """Rows used to check the model and to confirm findings."""
        return self.apart + self.steadiness.rows

    @property
    def complete(self) -> bool:
        """Whether all of a finite population was tested."""
        return self.population.size is not None and self._at >= self.population.size

    @property
    def sampled(self) -> bool:
        """Whether some individuals are compared with a sample of their counterparts only."""
        return bool(self.space.sampled or (self.terms is not None and self.terms.sampled))

    @property
    def unasked(self) -> int:
        """Maximum number of individuals not judged yet; some may have no counterparts."""
        assert self.population.size is not None
        left = max(0, self.population.size - self._at)
        return left * (self.space.combinations if self.whole_families else 1)

    @property
    def looks(self) -> int:
        """Number of interim results so far."""
        return len(self.points)

    def ask(self, wanted: int) -> bool:
        """Judge the next individuals; return whether any were left."""
        people, end = self.population.take(self._at, wanted)
        fitting = self.bound.batch_size_for(people, np.arange(len(people)), self.judge.chunk)
        if fitting < len(people):
            people, end = self.population.take(self._at, fitting)
        if not len(people) and (self.population.size is None or end >= self.population.size):
            self._at = end
            return False
        self._drawn += len(people)
        families = self.judge.families(people)
        if len(families):
            block = self.judge.judge(families)
            self._check_steady(block)
            self._count(block, len(people))
        elif not self.samples and self._drawn >= UNTESTABLE:
            raise _nothing_left(self.space, self._drawn, self.judge.left_out)
        # Counted only now, because the model may have failed on them.
        self._at = end
        return True

    def _check_steady(self, block: Judged) -> None:
        """Query some rows again; for a noisy model some more, to measure its noise."""
        differing, asked = self.steadiness.check(block.families, block.outputs)
        self._last = block.families
        if differing:
            self._measure(differing, asked)

    def check_rows(self) -> None:
        """At the end, check the rows of small blocks together, unless the model is known to be noisy."""
        if not self.judge.half and self._last is not None:
            differing, asked = self.steadiness.finish()
            if differing:
                self._measure(differing, asked)

    def _measure(self, differing: int, asked: int, families: Families | None = None) -> None:
        families = self._last if families is None else families
        assert families is not None
        most = min(len(families), max(1, MEASURED // self.judge.width))
        more, here, rows = measure_noise(self.judge.probe, families[np.arange(most)], differing)
        self.apart += rows
        self._note(max(1, differing + more), asked + here)

    def _count(self, block: Judged, size: int) -> None:
        members = self._members(block)
        if block.verdicts.within is not None:
            self.depends += int(block.verdicts.within.sum())
        weights = None if self._weights is None else self._weights[self.samples : self.samples + len(block)]
        self._tabulate(block, weights)
        self.families += len(block)
        self.samples += len(block) if members is None else int(members.sum())
        self.found += int(block.unfair.sum() if members is None else members @ block.unfair)
        if block.unsure is not None:
            self.unsure += int(block.unsure.sum() if members is None else members @ block.unsure)
            if self.verdicts is not None:
                self.doubts.append(block.unsure)
        self.points.append((self.samples, self.found))
        self.kept.add(block, weights)
        if self.verdicts is not None:
            self.verdicts.append(block.unfair)
            if members is not None:
                self.places.append(members)
        known = self._findings.count
        if len(found := np.flatnonzero(block.unfair)[: AGAIN - known]):
            self._findings.add(self._findings.written(block, found), len(found))
            self._batches.append((known, self._at, size, block.unfair))

    def _members(self, block: Judged) -> npt.NDArray[np.int64] | None:
        """Number of individuals of each family; None if one each."""
        return block.families.places if self.whole_families else None

    def _tabulate(self, block: Judged, weights: npt.NDArray[np.float64] | None) -> None:
        outputs = block.outputs
        assert outputs.labels is not None
        criterion, ranks = self.judge.probe.criterion, self.favour.ranks(outputs.labels)
        if criterion.needs_scores and outputs.scores is not None:
            if self.width is None:
                self.judge.probe.check_gap(outputs.scores)
            self.width = outputs.scores.shape[2]
        members = self._members(block)
        count = len(block) if members is None else int(members.sum())
        self.tabled += count if weights is None else float(weights.sum())
        if self.terms is not None:
            self.terms.add(block.families, outputs)
        view = View(outputs, block.valid, criterion, ranks, self.favour.level(outputs.scores))
        for table in self.tables:
            if self.whole_families:
                table.add_all(view, block.unfair)
            else:
                table.add(view, block.unfair, weights)

    def check_findings(self) -> None:
        """Query some findings again, in another order and in other batches, because noise can be rare."""
        findings, judge = self._findings, self.judge
        if not findings.count or judge.half:
            return
        checked, rows, error = confirm(judge.probe, findings, judge.seed, judge.chunk)
        self.apart += rows
        if error is None:
            return
        every, lost = np.arange(findings.count), checked.refuted
        _, at, size, before = next(batch for batch in reversed(self._batches) if batch[0] <= lost[0])
        held, company = ~np.isin(every, lost), self.population.take(at, size)[0]

        def again() -> Mask:
            self.apart += 2 * len(every) * judge.probe.cost
            return holds(judge.probe, findings, every, judge.chunk, judge.seed)

        # A noisy answer does not repeat; one that depends on the batch repeats with the same batch.
        steady = all((again() == held).all() for _ in range(STEADY))
        if steady and all((self._judge_again(company)[1] == before).all() for _ in range(STEADY)):
            raise FlakyModel(
                f"the prediction depends on the other rows in the batch: {len(lost):,} of {len(every):,} findings "
                "got a different answer when they were queried again in another order and in batches of other sizes",
                error.noise,
                ALONE,
            )
        self._measure(0, 0, self._judge_again(company)[0])

    def _judge_again(self, people: Any) -> tuple[Families, Mask]:
        """Judge individuals again in one batch, outside the counts of the survey."""
        old = self.judge
        judge = Judge(old.probe, old.seed, chunk=old.chunk, exclude=old.exclude)
        families = judge.families(people)
        unfair = judge.judge(families).unfair
        self.apart += judge.rows
        return families, unfair

    def _note(self, differing: int, rows: int) -> None:
        """Record the noise; raise if the model is noisy and queried only once."""
        noise = differing / rows
        self.noise = max(self.noise, noise)
        if differing and not self.judge.half:
            if self.judge.probe.criterion.needs_scores:
                raise FlakyModel(
                    f"the model gave two answers to {percent(noise)} of {rows:,} rows that were queried twice",
                    noise,
                    RANDOM,
                )
            raise NoisyModel(repeats_for(noise, rows, self.judge.width), noise)


def widest(outputs: Outputs) -> npt.NDArray[np.float64]:
    """The largest difference between two scores in each family, over all classes."""
    assert outputs.scores is not None
    return np.asarray((outputs.scores.max(axis=1) - outputs.scores.min(axis=1)).max(axis=1), dtype=np.float64)


def _nothing_left(space: Any, drawn: int, left_out: int) -> EvenhandError:
    """Return the error for a sample in which no individual can be compared."""
    if left_out:
        return EstimateError(
            f"all {left_out:,} drawn individuals are excluded, so there is none left to judge",
            remedy="draw from another population, or exclude fewer",
        )
    return nothing_to_compare(space, drawn)


class TimeUp(Exception):
    """The time limit ended a block between two model calls; the block is not counted."""


@dataclass(frozen=True)
class Reading:
    """An interim result of an estimate; its interval is valid at any time."""

    samples: int
    found: int
    rows: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class ProgressOnly:
    """Shows interim results, and never stops the estimate."""

    show: Callable[[Reading], object]

    def __call__(self, reading: Reading) -> None:
        """Show an interim result."""
        self.show(reading)


class Watch:
    """Judges block by block until a rule stops it."""

    def __init__(self, plan: Plan, target: Target, chunk: int) -> None:
        self.plan, self.target, self.chunk = plan, target, chunk
        self.stop, self._start = plan.stop, time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._start

    def run(self, survey: Survey) -> str:
        """Judge until a rule stops the survey; return that rule."""
        early = self.plan.open or self.stop.when is not None
        # Families of texts differ in size: the survey takes as many as fit.
        width = survey.judge.width if survey.bound.supports("attributes") else 2
        most = max(1, self.chunk // width)
        size = min(FIRST if self.stop.seconds is None else FIRST_TIMED, most) if early else most
        calls = survey.judge.probe.client.calls
        calls.between, calls.cancel = self._check_clock, self.stop.cancel
        try:
            stop = None
            while stop is None:
                stop = self._ask(survey, size)
                size = min(most, 2 * size)
            calls.between = None
            if not survey.samples:
                raise self._nothing(survey, stop)
            survey.check_rows()
            survey.check_findings()
        except KeyboardInterrupt as interrupt:
            if not survey.samples:
                raise too_early(interrupt) from None
            interrupts.mark_handled()
            return "interrupted"
        finally:
            calls.between = calls.cancel = None
        return stop

    def _ask(self, survey: Survey, size: int) -> str | None:
        """Judge one block; return the rule that stops the survey, if any."""
        left = self._left(survey)
        if left == 0:
            return "exhausted" if self._unlimited(survey) else "samples"
        try:
            more = survey.ask(size if left is None else min(size, left))
        except TimeUp:
            return "seconds"
        if not more:
            return "exhausted"
        return self._reached(survey) if survey.samples else None

    def _check_clock(self) -> None:
        if self.stop.seconds is not None and self.seconds >= self.stop.seconds:
            raise TimeUp

    def _nothing(self, survey: Survey, stop: str) -> EvenhandError:
        """Return the error for a survey without individuals."""
        if stop == "seconds":
            return EstimateError(
                "is too short to judge any individual",
                parameter="seconds",
                value=self.stop.seconds,
                remedy="allow more, or make the calls smaller with eh.wrap(model, batch_size=...)",
            )
        return _nothing_left(survey.space, survey.judge.untestable, survey.judge.left_out)

    def _unlimited(self, survey: Survey) -> bool:
        size = survey.population.size
        return size is not None and (self.plan.samples is None or self.plan.samples >= size)

    def _left(self, survey: Survey) -> int | None:
        """Number of individuals still to ask; None if there is no limit."""
        if isinstance(survey.population, Everyone):
            return None
        size = survey.population.size
        limits = [] if size is None else [size]
        if self.plan.samples is not None or (not self.plan.open and size is None):
            limits.append(self.plan.wanted)
        return min(limits) - survey.samples if limits else None

    def _reached(self, survey: Survey) -> str | None:
        rule, everyone = self.stop, isinstance(survey.population, Everyone)
        rate, low, high = 0.5, 0.0, 1.0
        if rule.half_width is not None or rule.when is not None:
            now = bounds(self.plan, self.target, survey, True)
            rate, low, high = now.rate, now.low, now.high
        if rule.when is not None:
            reading = Reading(survey.samples, survey.found, survey.judge.rows, self.seconds, low, high)
            answer = rule.when(reading)
            if isinstance(answer, bool | np.bool_) and answer and not survey.complete:
                return "stopped"
        if rule.seconds is not None and self.seconds >= rule.seconds and not survey.complete:
            return "seconds"
        if everyone:
            return None
        if rule.half_width is not None and max(high - rate, rate - low) <= rule.half_width:
            return "half_width"
        return None


def too_early(interrupt: KeyboardInterrupt) -> BaseException:
    """Return the error for an estimate that was cancelled before it judged anyone."""
    if isinstance(interrupt, interrupts.Cancelled):
        return EstimateError("cancelled before any individual was judged", remedy="let it run longer")
    return interrupt


def measure_noise(probe: ModelProbe, families: Families, seen: int) -> tuple[int, int, int]:
    """Query families of a noisy model several times; return the rows with two answers, all rows, and the rows asked.

    Raises ``FlakyModel`` if whole batches of answers repeat, as from replicas in turn, because they have no majority;
    and if other batches gave ``seen`` rows a different answer, but the same batch always gives the same.
    """
    rows, decisions, before = families.asked, Decisions(), probe.client.calls.rows

    def ask(turns: int) -> npt.NDArray[Any]:
        # The same rows in the same order, so differences are the model's own noise.
        with probe.client.calls.at_once():
            return np.stack([decisions.encode(probe.both(rows)[0]) for _ in range(turns)])

    codes = ask(TURNS)
    unlike, enough = int((codes[0] != codes[1]).sum()), SEVERAL
    if repeated_pairs(codes) if (codes != codes[0]).any() else 0 < seen < SEVERAL:
        # If few answers differ, whole batches repeat by chance; more queries show whether too often.
        turns = affordable(probe, MORE_TURNS, len(rows), PATIENCE)
        codes = np.concatenate([codes, ask(max(0, turns - TURNS))]) if turns > TURNS else codes
        enough = 1 if turns == MORE_TURNS else SEVERAL
    noise = float((codes != codes[0]).any(axis=0).mean())
    if not noise and seen >= enough:
        raise FlakyModel(
            "the prediction depends on the other rows in the batch, or on earlier calls: the same rows in the same "
            "order always get the same answer, but not in other batches",
            seen / PROBES,
            ALONE,
        )
    if in_turn(codes):
        raise FlakyModel(
            f"the model gave two answers to {percent(noise)} of {len(rows):,} rows, and whole calls repeat the same "
            "few answers, as with replicas that answer in turn",
            noise,
            "query only one replica",
        )
    return unlike, len(rows), probe.client.calls.rows - before


def repeats_for(noise: float, rows: int, width: int) -> int:
    """Choose the queries of a row in each half of the repeats, so that the majority is nearly always the usual answer.

    ``noise`` is the share of ``rows`` rows, queried twice, that got two answers; ``width`` is the size of a family.
    """
    # To be safe, assume the upper end of the measured noise.
    likely = min(0.5, float(at_most(round(noise * rows), rows)))
    other = (1 - math.sqrt(1 - 2 * likely)) / 2
    for half in range(3, MOST_HALF + 1, 2):
        if 4 * width * _minority_wins(other, half) <= RESIDUE:
            return half
    if 4 * width * _minority_wins(other, MOST_HALF) > HOPELESS:
        raise FlakyModel(
            f"the model gave two answers to {percent(noise)} of {rows:,} rows that were queried twice, which is "
            "too much noise to judge it",
            noise,
            RANDOM,
        )
    return MOST_HALF


def _minority_wins(chance: float, repeats: int) -> float:
    """The probability that the rarer of two answers is in the majority."""
    from scipy.special import bdtrc

    return float(bdtrc(repeats // 2, repeats, chance))


@dataclass(frozen=True)
class Bounds:
    """The share of a survey and its interval."""

    rate: float
    low: float
    high: float
    name: str
    noise: float = 0.0
    """Maximum share that noise may have misjudged; both ends are wider by this much."""


def bounds(plan: Plan, target: Target, survey: Survey, watched: bool) -> Bounds:
    """Return the interval of a survey so far.

    If the model is noisy, half of the risk goes to the interval and half to the bound on misjudged individuals.
    """
    risk = 1 - plan.confidence
    noisy = survey.judge.half > 0
    confidence = 1 - risk / 2 if noisy else plan.confidence
    rate, low, high, name = _interval(plan, target, survey, watched, confidence)
    if not noisy:
        return Bounds(rate, low, high, name)
    noise = _misjudged(target, survey, watched, confidence)
    low, high = max(0.0, low - noise), min(1.0, high + noise)
    return Bounds(rate, low, high, name, noise)


def _misjudged(target: Target, survey: Survey, watched: bool, confidence: float) -> float:
    """Return the upper bound of the share that noise may have misjudged."""
    if target.weights is not None:
        unsure = np.concatenate(survey.doubts)
        risk = spent(1 - confidence, survey.looks) if watched else 1 - confidence
        return float(weighted(unsure, target.weights[: len(unsure)], 1 - 2 * risk)[1])
    if watched:
        return float(anytime(survey.unsure, survey.samples, confidence)[1])
    return float(at_most(survey.unsure, survey.samples, confidence))


def _interval(
    plan: Plan, target: Target, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    found, samples, size = survey.found, survey.samples, survey.population.size
    rate = found / samples if samples else 0.0
    if target.known is not None:
        own = replace(target.known, confidence=confidence)
        return own.rate, own.low, own.high, "exact" if own.exact else "anytime"
    if isinstance(survey.population, Everyone):
        if survey.complete and survey.judge.left_out:
            # Some were excluded: the rest is a sample, in which the tests are independent.
            low, high = clopper_pearson(rate * survey.families, survey.families, confidence)
            return rate, float(low), float(high), "Clopper-Pearson"
        if survey.complete:
            return rate, rate, rate, "exact"
        every = samples + survey.unasked
        return rate, found / every, (found + survey.unasked) / every, UNFINISHED
    if target.weights is not None:
        return _of_weighted(target, target.weights, survey, watched, confidence)
    if target.rows and size is not None:
        return of_counts(found, samples, size, watched, confidence)
    if plan.interval.method == "lln" and not watched:
        assert survey.verdicts is not None
        counts = np.concatenate(survey.verdicts).reshape(plan.interval.experiments, -1)
        low, high = lln(counts.sum(axis=1), counts.shape[1], confidence)
        if low < high:
            return rate, min(rate, float(low)), max(rate, float(high)), "lln"
        # If all experiments agree, that interval has no width.
    return of_counts(found, samples, None, watched, confidence)


def of_counts(
    found: int, samples: int, size: int | None, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    """Return share and interval of a count: for ``size`` rows of which some were asked, or None for a population."""
    rate = found / samples if samples else 0.0
    if size is None:
        low, high = (anytime if watched else clopper_pearson)(found, samples, confidence)
        return rate, float(low), float(high), "anytime" if watched else "Clopper-Pearson"
    if samples == size:
        return rate, rate, rate, "exact"
    low, high = (anytime_of_rows if watched else hypergeometric)(found, samples, size, confidence)
    # With few rows left, the sample's share may be impossible for all rows.
    rate = float(np.clip(rate, low, high))
    return rate, float(low), float(high), "anytime, rows asked once" if watched else "hypergeometric"


def _of_weighted(
    target: Target, every: Numbers, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    assert survey.verdicts is not None
    unfair = np.concatenate(survey.verdicts)
    weights, left = every[: len(unfair)], every[len(unfair) :]
    rate = float(weights[unfair].sum() / weights.sum()) if weights.any() else 0.0
    if target.rows:
        if not len(left):
            return rate, rate, rate, "exact"
        sure, total = float(weights[unfair].sum()), float(every.sum())
        return rate, sure / total, min(1.0, (sure + float(left.sum())) / total), UNFINISHED
    if not watched:
        low, high = weighted(unfair, weights, confidence)
        return rate, float(low), float(high), "Fay-Feuer"
    low, high = weighted(unfair, weights, 1 - spent(1 - confidence, survey.looks))
    return rate, float(low), float(high), "Fay-Feuer at every look"
