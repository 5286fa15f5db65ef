"""One pass over a population: asks block by block until a rule ends it, counts, and confirms what it found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand._format import percent
from evenhand._stats import (
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
from evenhand.engine.confirm import confirm, holds
from evenhand.engine.judge import Judge, Judged, Mask
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import (
    ALONE,
    PATIENCE,
    PROBES,
    RANDOM,
    STEADY,
    Steadiness,
    affordable,
    in_turn,
    repeated_pairs,
)
from evenhand.errors import EstimateError, EvenhandError, FlakyModel, SpaceError, Use
from evenhand.estimates.pair_counts import KEPT, Favour, Table, TermCounts, View, tables_of
from evenhand.estimates.populations import Aim, Draws, Everyone
from evenhand.spaces.base import Families
from evenhand.spaces.findings import Decisions

if TYPE_CHECKING:
    from evenhand.estimates.estimate import Plan

UNTESTABLE = 100_000
"""Individuals without counterparts after which a survey that has judged none gives up."""
AGAIN = 1_000
"""Findings that are asked again in the end."""
MEASURED = 4_096
"""Rows by which the noise of a model is measured."""
TURNS, MORE_TURNS = 8, 64
"""How often they are asked, to tell noise from replicas that answer in turn; and how often where that is not enough."""
SEVERAL = 3
"""More than the rarest noise, which many more repeats did not show, does by chance."""
RESIDUE = 0.001
"""The share of individuals who may be misjudged where the model's noise is the same everywhere."""
MOST_HALF = 51
"""The most times that each half of the repeats asks a row."""
HOPELESS = 0.25
FIRST = 1024
"""The first block of a sample that may end early; the next ones double."""
FIRST_TIMED = 16
"""The first block of a sample that a clock ends, which may cut a block of a slow model off."""

UNFINISHED = "what is certain"
"""The interval of a count that did not come to its end: an individual that was not asked may be treated either way."""


class NoisyModel(Exception):
    """The model gave two answers to the same row: the survey has to ask every row several times."""

    def __init__(self, half: int, noise: float) -> None:
        super().__init__(half, noise)
        self.half, self.noise = half, noise


def flaky(noise: float, name: str = "the model") -> FlakyModel:
    """Say that a model is noisy and may be asked once only."""
    return FlakyModel(
        f"{name} gave two answers to {percent(noise)} of the rows that were asked twice",
        noise,
        (f"{RANDOM}; or leave out ", Use("repeats=1", "estimate.repeats", 1), ", and its noise is measured"),
    )


@dataclass
class Kept:
    """The first individuals of a sample, their verdicts, decisions and gaps."""

    people: list[Any] = field(default_factory=list)
    unfair: list[Mask] = field(default_factory=list)
    said: list[npt.NDArray[Any]] = field(default_factory=list)
    gaps: list[npt.NDArray[np.float64]] = field(default_factory=list)
    later: list[Any] = field(default_factory=list)
    """Those found later on."""
    weights: list[npt.NDArray[np.float64]] = field(default_factory=list)
    decisions: Decisions = field(default_factory=Decisions)
    forgotten: int = 0
    """Findings that there was no room for."""
    count: int = 0

    def add(self, block: Judged, weights: npt.NDArray[np.float64] | None) -> None:
        """Keep what there is room for."""
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
        self.said.append(self.decisions.encode(outputs.labels[here, outputs.own])[room])
        if outputs.scores is not None:
            self.gaps.append(widest(outputs)[room])
        if weights is not None:
            self.weights.append(weights[room])
        self.count += len(self.unfair[-1])

    def verdicts(self) -> Mask:
        """Verdicts in the order of the sample."""
        return np.concatenate(self.unfair) if self.unfair else np.zeros(0, dtype=bool)

    def weight(self) -> npt.NDArray[np.float64] | None:
        """What they count, in the order of the sample; None: all alike."""
        return np.concatenate(self.weights) if self.weights else None


class Survey:
    """Asks a population, and counts."""

    def __init__(
        self,
        judge: Judge,
        population: Draws,
        favour: Favour,
        keep_all: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        checked: int = 0,
    ) -> None:
        self.judge, self.population, self.favour = judge, population, favour
        self.steadiness = Steadiness(judge.probe, judge.seed, judge.chunk)
        self.apart = checked
        # Scaled so that they add up to as many individuals of equal weight as say as much (Kish).
        self._weights = None if weights is None else weights * weights.sum() / np.square(weights).sum()
        self.ground = judge.probe.ground
        self.space = self.ground.space
        self.whole_families = isinstance(population, Everyone) and not population.singly
        self.samples = self.found = self.unsure = self.families = 0
        self.noise = self.tabled = 0.0
        self.points: list[tuple[int, int]] = []
        needs_scores = judge.probe.criterion.needs_scores
        self.tables: list[Table] = tables_of(self.space) if self.ground.supports("attributes") else []
        self.terms: TermCounts | None = None
        """Of texts: what is decided with which term."""
        if self.ground.supports("texts"):
            self.terms = TermCounts(judge.probe.ground, favour.level if needs_scores else None)
        self.kept = Kept()
        self.width: int | None = None
        """How many scores a row has, where the criterion looks at them."""
        self.verdicts: list[Mask] | None = [] if keep_all else None
        self.doubts: list[Mask] = []
        self.places: list[npt.NDArray[np.int64]] = []
        """With verdicts of whole families: how many individuals each stands for."""
        self._findings = self.ground.findings()
        """The first findings, to be asked again in the end."""
        self._batches: list[tuple[int, int, int, Mask]] = []
        """How many findings there were before a block, where it begins in the population, its size and verdicts."""
        self._at = self._drawn = 0
        self._last: Families | None = None

    @property
    def checked(self) -> int:
        """Rows asked to check the model and what it says."""
        return self.apart + self.steadiness.rows

    @property
    def complete(self) -> bool:
        """Whether a population that ends was asked to its end."""
        return self.population.size is not None and self._at >= self.population.size

    @property
    def sampled(self) -> bool:
        """Whether some are compared with a sample of their counterparts only."""
        return bool(self.space.sampled or (self.terms is not None and self.terms.sampled))

    @property
    def unasked(self) -> int:
        """How many of everyone in the space are not judged yet, at most: some may have no counterparts."""
        assert self.population.size is not None
        left = max(0, self.population.size - self._at)
        return left * (self.space.combinations if self.whole_families else 1)

    @property
    def looks(self) -> int:
        """How often one could have looked at what it shows."""
        return len(self.points)

    def ask(self, wanted: int) -> bool:
        """Ask the next so many; return whether there was anybody left."""
        people, end = self.population.take(self._at, wanted)
        fitting = self.ground.batch_size_for(people, np.arange(len(people)), self.judge.chunk)
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
            raise nothing_to_compare(self.space, self._drawn, self.judge.left_out)
        # Only now: nothing is known about those that the model failed on.
        self._at = end
        return True

    def _check_steady(self, block: Judged) -> None:
        """Ask some rows again; of a noisy model some more, to know how noisy it is."""
        differing, asked = self.steadiness.check(block.families, block.outputs)
        self._last = block.families
        if differing:
            self._measure(differing, asked)

    def check_rows(self) -> None:
        """In the end, check the rows of small blocks together; a model that is known to be noisy was looked at."""
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
        """How many individuals each family stands for; None: one each."""
        return block.families.places if self.whole_families else None

    def _tabulate(self, block: Judged, weights: npt.NDArray[np.float64] | None) -> None:
        outputs = block.outputs
        assert outputs.labels is not None
        criterion, ranks = self.judge.probe.criterion, self.favour.ranks(outputs.labels)
        if criterion.needs_scores and outputs.scores is not None:
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
        """Ask some findings again, in another order and in other batches; a model may be noisy now and then."""
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

        # A noisy answer does not come again; one that depends on its batch does, whenever that is the same.
        steady = all((again() == held).all() for _ in range(STEADY))
        if steady and all((self._judge_again(company)[1] == before).all() for _ in range(STEADY)):
            raise FlakyModel(
                f"the prediction depends on the other rows in the batch: {len(lost):,} of {len(every):,} findings "
                "got another answer when they were asked again in another order and in batches of other sizes; "
                f"{ALONE}",
                error.noise,
            )
        self._measure(0, 0, self._judge_again(company)[0])

    def _judge_again(self, people: Any) -> tuple[Families, Mask]:
        """Judge individuals once more, in one batch, outside the counts of the survey."""
        old = self.judge
        judge = Judge(old.probe, old.seed, chunk=old.chunk, exclude=old.exclude)
        families = judge.families(people)
        unfair = judge.judge(families).unfair
        self.apart += judge.rows
        return families, unfair

    def _note(self, differing: int, rows: int) -> None:
        """Note how often the model is non-deterministic; raise where it is and is asked only once."""
        noise = differing / rows
        self.noise = max(self.noise, noise)
        if differing and not self.judge.half:
            if self.judge.probe.criterion.needs_scores:
                raise FlakyModel(
                    f"the model gave two answers to {noise:.1%} of {rows:,} rows that were asked twice; switch off "
                    "what is random in it (dropout, sampling, temperature), or average its answers",
                    noise,
                )
            raise NoisyModel(repeats_for(noise, rows, self.judge.width), noise)


def widest(outputs: Outputs) -> npt.NDArray[np.float64]:
    """The largest distance of two scores in each family, of the class where that is largest."""
    assert outputs.scores is not None
    return np.asarray((outputs.scores.max(axis=1) - outputs.scores.min(axis=1)).max(axis=1), dtype=np.float64)


def nothing_to_compare(space: Any, drawn: int, left_out: int) -> EvenhandError:
    """Say why no individual can be compared."""
    if left_out:
        return EstimateError(
            f"no individual is left to ask: all of {left_out:,} individuals drawn are among those left out"
        )
    return SpaceError(
        f"none of {drawn:,} individuals has two counterparts that the constraints allow, so nothing can be compared; "
        f"loosen the constraints on {', '.join(map(repr, space.protected))}"
    )


class TimeUp(Exception):
    """The clock ends a block between two model calls; it is not counted."""


@dataclass(frozen=True)
class Reading:
    """Where an estimate stands, for those who watch it; the interval holds at every moment."""

    samples: int
    found: int
    rows: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class ProgressOnly:
    """Shows where an estimate stands, and never ends it."""

    show: Callable[[Reading], object]

    def __call__(self, reading: Reading) -> None:
        """Show a reading."""
        self.show(reading)


class Watch:
    """Asks block by block until a rule ends it."""

    def __init__(self, plan: Plan, aim: Aim, chunk: int) -> None:
        self.plan, self.aim, self.chunk = plan, aim, chunk
        self.stop, self._start = plan.stop, time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._start

    def run(self, survey: Survey) -> str:
        """Ask until a rule ends it; return which."""
        early = self.plan.open or self.stop.when is not None
        # Families of texts differ in size: the survey takes as many as fit.
        width = survey.judge.width if survey.ground.supports("attributes") else 2
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
            interrupts.settled()
            return "interrupted"
        finally:
            calls.between = calls.cancel = None
        return stop

    def _ask(self, survey: Survey, size: int) -> str | None:
        """Ask one block; return what ends the survey, if anything does."""
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
        """Say why there is nothing to estimate from."""
        if stop == "seconds":
            return EstimateError(
                f"seconds={self.stop.seconds:g} was too short to judge anybody; allow more, or make the calls smaller "
                "with eh.wrap(model, batch_size=...)"
            )
        return nothing_to_compare(survey.space, survey.judge.untestable, survey.judge.left_out)

    def _unlimited(self, survey: Survey) -> bool:
        size = survey.population.size
        return size is not None and (self.plan.samples is None or self.plan.samples >= size)

    def _left(self, survey: Survey) -> int | None:
        """How many are still to be asked; None: no number ends it."""
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
            now = bounds(self.plan, self.aim, survey, True)
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
    """Return what to raise where an estimate was broken off before it had anything to say.

    >>> too_early(interrupts.Cancelled())
    EstimateError('cancelled before anybody was judged; let it run longer')
    """
    if isinstance(interrupt, interrupts.Cancelled):
        return EstimateError("cancelled before anybody was judged; let it run longer")
    return interrupt


def measure_noise(probe: ModelProbe, families: Families, seen: int) -> tuple[int, int, int]:
    """Ask families of a noisy model several times; return how many rows got two answers, of how many.

    The third number is how many rows that took.

    Raises ``FlakyModel`` where whole answers come again, as of replicas in turn: those have no majority. So they
    do where other batches gave ``seen`` rows another answer, and the same batch always gives the same.
    """
    rows, decisions, before = families.asked, Decisions(), probe.client.calls.rows

    def ask(turns: int) -> npt.NDArray[Any]:
        # The same rows in the same order: what differs now is the model's own noise.
        with probe.client.calls.at_once():
            return np.stack([decisions.encode(probe.both(rows)[0]) for _ in range(turns)])

    codes = ask(TURNS)
    unlike, enough = int((codes[0] != codes[1]).sum()), SEVERAL
    if repeated_pairs(codes) if (codes != codes[0]).any() else 0 < seen < SEVERAL:
        # Where few answers differ, whole answers come again by chance: more of them tell whether too often.
        turns = affordable(probe, MORE_TURNS, len(rows), PATIENCE)
        codes = np.concatenate([codes, ask(max(0, turns - TURNS))]) if turns > TURNS else codes
        enough = 1 if turns == MORE_TURNS else SEVERAL
    noise = float((codes != codes[0]).any(axis=0).mean())
    if not noise and seen >= enough:
        raise FlakyModel(
            "the prediction depends on the other rows in the batch, or on the calls before: the same rows in the "
            f"same order always get the same answer, and in other batches another; {ALONE}",
            seen / PROBES,
        )
    if in_turn(codes):
        raise FlakyModel(
            f"the model gave two answers to {noise:.1%} of {len(rows):,} rows, and the same few to all rows of a "
            "call again and again, as replicas do that answer in turn; ask one replica only",
            noise,
        )
    return unlike, len(rows), probe.client.calls.rows - before


def repeats_for(noise: float, rows: int, width: int) -> int:
    """Choose how often each half of the repeats asks a row, so that most frequent answers are the usual ones.

    ``noise`` is the share of ``rows`` rows, asked twice, that got two answers; ``width`` the size of a family.

    >>> repeats_for(0.1, 256, 2)
    11
    """
    # Rather too often than not often enough: as if the noise were at the upper end of what was measured.
    likely = min(0.5, float(at_most(round(noise * rows), rows)))
    other = (1 - math.sqrt(1 - 2 * likely)) / 2
    for half in range(3, MOST_HALF + 1, 2):
        if 4 * width * _minority_wins(other, half) <= RESIDUE:
            return half
    if 4 * width * _minority_wins(other, MOST_HALF) > HOPELESS:
        raise FlakyModel(
            f"the model gave two answers to {noise:.1%} of {rows:,} rows that were asked twice, so that no verdict on "
            "it is possible; switch off what is random in it (dropout, sampling, temperature), or average its answers",
            noise,
        )
    return MOST_HALF


def _minority_wins(chance: float, repeats: int) -> float:
    """The chance that the rarer of two answers comes more often."""
    from scipy.special import bdtrc

    return float(bdtrc(repeats // 2, repeats, chance))


@dataclass(frozen=True)
class Bounds:
    """A survey's share and how sure it is."""

    rate: float
    low: float
    high: float
    name: str
    noise: float = 0.0
    """How many individuals the model's noise may have misjudged at most; both ends are that much further out."""


def bounds(plan: Plan, aim: Aim, survey: Survey, watched: bool) -> Bounds:
    """Give the interval of a survey as far as it has come.

    Where the model is noisy, half of the risk goes to the interval and half to the bound on how many were misjudged.
    """
    risk = 1 - plan.confidence
    noisy = survey.judge.half > 0
    confidence = 1 - risk / 2 if noisy else plan.confidence
    rate, low, high, name = _interval(plan, aim, survey, watched, confidence)
    if not noisy:
        return Bounds(rate, low, high, name)
    noise = _misjudged(aim, survey, watched, confidence)
    low, high = max(0.0, low - noise), min(1.0, high + noise)
    return Bounds(rate, low, high, name, noise)


def _misjudged(aim: Aim, survey: Survey, watched: bool, confidence: float) -> float:
    """Bound the share that noise may have misjudged."""
    if aim.weights is not None:
        unsure = np.concatenate(survey.doubts)
        risk = spent(1 - confidence, survey.looks) if watched else 1 - confidence
        return float(weighted(unsure, aim.weights[: len(unsure)], 1 - 2 * risk)[1])
    if watched:
        return float(anytime(survey.unsure, survey.samples, confidence)[1])
    return float(at_most(survey.unsure, survey.samples, confidence))


def _interval(
    plan: Plan, aim: Aim, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    found, samples, size = survey.found, survey.samples, survey.population.size
    rate = found / samples if samples else 0.0
    if isinstance(survey.population, Everyone):
        if survey.complete and survey.judge.left_out:
            # Of everyone some were not to be asked: the rest is a sample, and its tests are what is independent.
            low, high = clopper_pearson(rate * survey.families, survey.families, confidence)
            return rate, float(low), float(high), "Clopper-Pearson"
        if survey.complete:
            return rate, rate, rate, "exact"
        every = samples + survey.unasked
        return rate, found / every, (found + survey.unasked) / every, UNFINISHED
    if aim.weights is not None:
        return _of_weighted(aim, aim.weights, survey, watched, confidence)
    if aim.rows and size is not None:
        return of_counts(found, samples, size, watched, confidence)
    if plan.interval.method == "lln" and not watched:
        assert survey.verdicts is not None
        counts = np.concatenate(survey.verdicts).reshape(plan.interval.experiments, -1)
        low, high = lln(counts.sum(axis=1), counts.shape[1], confidence)
        if low < high:
            return rate, min(rate, float(low)), max(rate, float(high)), "lln"
        # Experiments that all agree leave that interval without any width, and nothing would be certain by it.
    return of_counts(found, samples, None, watched, confidence)


def of_counts(
    found: int, samples: int, size: int | None, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    """Give share and interval of a count: for ``size`` rows of which some were asked, or None: for a population.

    >>> of_counts(1, 4, 4, False, 0.95)
    (0.25, 0.25, 0.25, 'exact')
    """
    rate = found / samples if samples else 0.0
    if size is None:
        low, high = (anytime if watched else clopper_pearson)(found, samples, confidence)
        return rate, float(low), float(high), "anytime" if watched else "Clopper-Pearson"
    if samples == size:
        return rate, rate, rate, "exact"
    low, high = (anytime_of_rows if watched else hypergeometric)(found, samples, size, confidence)
    # Of few rows that are left the sample's own share may be none that all rows can have.
    rate = float(np.clip(rate, low, high))
    return rate, float(low), float(high), "anytime, rows asked once" if watched else "hypergeometric"


def _of_weighted(
    aim: Aim, every: Numbers, survey: Survey, watched: bool, confidence: float
) -> tuple[float, float, float, str]:
    assert survey.verdicts is not None
    unfair = np.concatenate(survey.verdicts)
    weights, left = every[: len(unfair)], every[len(unfair) :]
    rate = float(weights[unfair].sum() / weights.sum()) if weights.any() else 0.0
    if aim.rows:
        if not len(left):
            return rate, rate, rate, "exact"
        sure, total = float(weights[unfair].sum()), float(every.sum())
        return rate, sure / total, min(1.0, (sure + float(left.sum())) / total), UNFINISHED
    if not watched:
        low, high = weighted(unfair, weights, confidence)
        return rate, float(low), float(high), "Fay-Feuer"
    low, high = weighted(unfair, weights, 1 - spent(1 - confidence, survey.looks))
    return rate, float(low), float(high), "Fay-Feuer at every look"
