"""One pass over a population: asks block by block, counts, and keeps a first part of the sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Outputs
from evenhand.engine.judge import Judge, Judged, Mask, ask_mixed
from evenhand.engine.steadiness import ALONE, STEADY, Steadiness, rounding_alone
from evenhand.errors import EstimateError, EvenhandError, FlakyModel, SpaceError
from evenhand.estimates.favour import Favour
from evenhand.estimates.noise import MEASURED, measure_noise, repeats_for
from evenhand.estimates.populations import Everyone, Population
from evenhand.estimates.tables import KEPT, Table, View, tables_of
from evenhand.spaces.base import Families
from evenhand.spaces.findings import Decisions
from evenhand.spaces.individuals import Individuals

UNTESTABLE = 100_000
AGAIN = 1_000
"""Findings that are asked again in the end."""


class NoisyModel(Exception):
    """The model gave two answers to the same row: the survey has to ask every row several times."""

    def __init__(self, half: int, noise: float) -> None:
        super().__init__(half, noise)
        self.half, self.noise = half, noise


@dataclass
class Kept:
    """The first individuals of a sample, their verdicts, decisions and gaps."""

    people: list[Individuals] = field(default_factory=list)
    unfair: list[Mask] = field(default_factory=list)
    said: list[npt.NDArray[Any]] = field(default_factory=list)
    gaps: list[npt.NDArray[np.float64]] = field(default_factory=list)
    later: list[Individuals] = field(default_factory=list)
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
        population: Population,
        favour: Favour,
        keep_all: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        checked: int = 0,
    ) -> None:
        self.judge, self.population, self.favour = judge, population, favour
        self.steadiness = Steadiness(judge.asker, judge.seed, judge.chunk)
        self.apart = checked
        # Scaled so that they add up to as many individuals of equal weight as say as much (Kish).
        self._weights = None if weights is None else weights * weights.sum() / np.square(weights).sum()
        self.space = judge.asker.space
        self.whole_families = isinstance(population, Everyone) and not population.singly
        self.samples = self.found = self.unsure = self.families = 0
        self.noise = self.tabled = 0.0
        self.points: list[tuple[int, int]] = []
        self.tables: list[Table] = tables_of(self.space)
        self.kept = Kept()
        self.width: int | None = None
        """How many scores a row has, where the criterion looks at them."""
        self.verdicts: list[Mask] | None = [] if keep_all else None
        self.doubts: list[Mask] = []
        self._examples: list[tuple[Individuals, int, int, Mask]] = []
        """Findings, the part of the population in whose company they were asked, and its verdicts."""
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
        """Whether individuals are compared with a sample of their counterparts only."""
        return self.space.combinations > self.space.max_family_size

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
        if not len(people) and (self.population.size is None or end >= self.population.size):
            self._at = end
            return False
        self._drawn += len(people)
        families = self.judge.families(people)
        if len(families):
            block = self.judge.judge(families)
            self._check_steady(block)
            self._count(block, wanted)
        elif not self.samples and self._drawn >= UNTESTABLE:
            raise nobody(self.space, self._drawn, self.judge.left_out)
        # Only now: of those whom the model failed on nothing is known.
        self._at = end
        return True

    def _check_steady(self, block: Judged) -> None:
        """Ask some rows again; of a noisy model some more, to know how noisy it is."""
        waver, asked = self.steadiness.check(block.families, block.outputs)
        self._last = block.families
        if waver:
            self._measure(waver, asked)

    def check_rows(self) -> None:
        """In the end, check the rows of small blocks together; a model that is known to be noisy was looked at."""
        if not self.judge.half and self._last is not None:
            waver, asked = self.steadiness.finish()
            if waver:
                self._measure(waver, asked)

    def _measure(self, waver: int, asked: int, families: Families | None = None) -> None:
        families = self._last if families is None else families
        assert families is not None
        most = min(len(families), max(1, MEASURED // self.judge.width))
        more, here, rows = measure_noise(self.judge.asker, families[np.arange(most)], waver)
        self.apart += rows
        self._note(max(1, waver + more), asked + here)

    def _count(self, block: Judged, wanted: int) -> None:
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
        if block.unfair.any() and sum(len(found) for found, *_ in self._examples) < AGAIN:
            found = block.families.individuals[np.flatnonzero(block.unfair)[:AGAIN]]
            self._examples.append((found, self._at, wanted, block.unfair))

    def _members(self, block: Judged) -> npt.NDArray[np.int64] | None:
        """How many individuals each family stands for; None: one each."""
        return block.families.places if self.whole_families else None

    def _tabulate(self, block: Judged, weights: npt.NDArray[np.float64] | None) -> None:
        outputs = block.outputs
        assert outputs.labels is not None
        criterion, ranks = self.judge.asker.criterion, self.favour.ranks(outputs.labels)
        view = View(outputs, block.legal, criterion, ranks, self.favour.level(outputs.scores))
        if criterion.needs_scores and outputs.scores is not None:
            self.width = outputs.scores.shape[2]
        members = self._members(block)
        count = len(block) if members is None else int(members.sum())
        self.tabled += count if weights is None else float(weights.sum())
        for table in self.tables:
            if self.whole_families:
                table.add_all(view, block.unfair)
            else:
                table.add(view, block.unfair, weights)

    def check_findings(self) -> None:
        """Ask some of those found again, in another order and in other batches; a model may be noisy now and then."""
        if not self._examples or self.judge.half:
            return
        every = Individuals.join([found for found, *_ in self._examples])
        some = every[np.arange(min(len(every), AGAIN))]
        families, unfair = self.judge_again(some, mixed=True)
        lost = np.flatnonzero(~unfair)
        if not len(lost):
            return
        starts = np.cumsum([0, *(len(found) for found, *_ in self._examples)])
        part = int(np.searchsorted(starts, lost[0], side="right")) - 1
        _, at, wanted, before = self._examples[part]
        company = self.population.take(at, wanted)[0]
        # A noisy answer does not come again; one that depends on its company does, whenever that is the same.
        if self._steadily(some, unfair, True) and self._steadily(company, before, False):
            raise FlakyModel(
                f"the prediction depends on the other rows in the batch: {len(lost):,} of {len(families):,} findings "
                "got another answer when they were asked again in another order and in batches of other sizes; "
                f"{ALONE}",
                len(lost) / len(families),
            )
        self._measure(0, 0, self.judge_again(company)[0])

    def judge_again(self, people: Individuals, mixed: bool = False) -> tuple[Families, Mask]:
        """Judge individuals once more, outside the counts of the survey.

        ``mixed``: in another order, the same each time, and in batches of other sizes.
        """
        asker = self.judge.asker
        # What it counts is counted apart.
        judge = Judge(asker, self.judge.seed, chunk=self.judge.chunk, half=self.judge.half, exclude=self.judge.exclude)
        families = judge.families(people)
        if not mixed:
            unfair = judge.judge(families).unfair
            self.apart += judge.rows
            return families, unfair
        again, asked = ask_mixed(asker, families, judge.seed, judge.chunk)
        self.apart += asked
        if rounding_alone(asker, again.outputs, np.flatnonzero(~again.unfair), len(again)):
            return families, np.ones(len(again), dtype=bool)
        return families, again.unfair

    def _steadily(self, people: Individuals, before: Mask, mixed: bool) -> bool:
        """Whether the same individuals, asked in the same batches, get the same verdicts time after time."""
        return all(bool((self.judge_again(people, mixed)[1] == before).all()) for _ in range(STEADY))

    def _note(self, waver: int, rows: int) -> None:
        """Note how often the model wavers; raise where it does and is asked only once."""
        noise = waver / rows
        self.noise = max(self.noise, noise)
        if waver and not self.judge.half:
            if self.judge.asker.criterion.needs_scores:
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


def nobody(space: Any, drawn: int, left_out: int) -> EvenhandError:
    """Say why nobody can be compared."""
    if left_out:
        return EstimateError(f"nobody is left to ask: all of {left_out:,} individuals drawn are among those left out")
    return SpaceError(
        f"none of {drawn:,} individuals has two counterparts that the constraints allow, so nothing can be compared; "
        f"loosen the constraints on {', '.join(map(repr, space.protected))}"
    )
