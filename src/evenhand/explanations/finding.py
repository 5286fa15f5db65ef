"""Finds regions: learn a rule, make it exact by asking, check it on fresh individuals, then look beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import is_int, is_number
from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.errors import StrategyError
from evenhand.estimates.intervals import clopper_pearson
from evenhand.explanations.drawing import Source, within
from evenhand.explanations.interacting import interactions
from evenhand.explanations.learning import information, propose
from evenhand.explanations.refining import Refiner
from evenhand.explanations.result import Interaction, Rate, Region, Regions
from evenhand.explanations.rules import Rule
from evenhand.runs.replay import judge_of, probe_of
from evenhand.runs.run import Run
from evenhand.spaces.individuals import Individuals

CHECKED = 2_000
"""Fresh individuals inside a rule, and outside, by whom it is checked."""
FINDINGS = 2_000
"""Findings of the run that a rule is learnt from, at most."""
PARTS = 3
"""How often a part of a rule is put in its place."""
LEAST = 100
"""The fewest tests to learn from."""


def regions(
    run: Run,
    model: Any = None,
    data: Any = None,
    seed: int = 0,
    confidence: float = 0.95,
    *,
    most: int = 5,
    samples: int = 20_000,
    rows: int = 2_000_000,
) -> Regions:
    """Find where individuals are treated differently, as readable rules that were checked on fresh individuals.

    A rule is learnt from uniform individuals, and from the run's findings where uniform ones hardly meet it. Because
    findings are no fair sample, and because whoever looks at many rules finds some by chance, each is then made exact
    by asking the model, and reported only if fresh individuals inside of it are treated differently more often than
    fresh ones outside; the chance that any region of the result is a false alarm is at most ``1 - confidence``.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    model
        Anything that ``wrap`` takes; needed for a run that was read from its directory, else by default the run's own.
    data
        Real rows, to say how many of them are in each region.
    seed
        Same seed, same regions.
    confidence
        How sure to be: of the intervals, each by itself, and of the regions, all together.
    most
        The most regions.
    samples
        Uniform individuals to learn from.
    rows
        The most rows to ask the model, outside all budgets; where they do not suffice, the result says so.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("hours", 1, 60), eh.Boolean("married"), eh.Boolean("sex")], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["hours"] >= 45) & frame["married"] & frame["sex"]
    >>> found = eh.regions(eh.audit(refuse, space, strategy="themis"))
    >>> found[0].words, found[0].rate, found[0].outside.rate
    ('hours >= 45 and married', 1.0, 0.0)
    """
    probe = probe_of(run, model, "eh.regions")
    _check(seed, confidence, most, samples, rows)
    real = None if data is None else run.space.encode(data).individuals
    search = Search(run, judge_of(run, probe, int(rows)), Source(run.space, int(seed)), float(confidence), int(most))
    return search.result(int(samples), real)


@dataclass
class Search:
    """The search for regions of one model."""

    run: Run
    judge: Judge
    source: Source
    confidence: float
    most: int
    rules: list[Rule] = field(default_factory=list)
    checks: list[tuple[Rate, float]] = field(default_factory=list)
    complete: bool = True

    def result(self, samples: int, real: Individuals | None) -> Regions:
        """Look for regions until none is left, or the rows are spent."""
        affordable = (self.judge.limit or 0) // (3 * self.judge.cost)
        if affordable < LEAST:
            raise StrategyError(
                f"rows={self.judge.limit:,} are too few: a test asks up to {self.judge.cost:,} rows, and at "
                f"least {LEAST} tests are needed three times over; allow {3 * LEAST * self.judge.cost:,}"
            )
        people, unfair = self._judged(self.source.everybody(min(samples, affordable)))
        mattering = list[Interaction]()
        everybody = self._rate(unfair)
        try:
            self._cover(people, unfair)
            mattering = interactions(self.judge, self.source, self._unfair(people, unfair), self.confidence)
        except RowLimitReached:
            self.complete = False
        beyond, found = self._report(everybody, real)
        return Regions(found, everybody, beyond, mattering, self.confidence, self.judge.rows, self.complete)

    def _cover(self, people: Individuals, unfair: npt.NDArray[np.bool_]) -> None:
        """Find rules one after the other, each among the individuals that no earlier one covers."""
        found, total = self._findings(), self.judge.limit or 0
        while len(self.rules) < self.most:
            # An equal part of the rows for each region, so that none is made exact at the cost of the others' check.
            left = total - self.judge.rows
            self.judge.limit = self.judge.rows + left // (self.most - len(self.rules) + 1)
            rest = ~within(self.rules, people)
            outside = float(unfair[rest].mean()) if rest.any() else 0.0
            refiner = Refiner(self.judge, self.source, self.rules, outside)
            proposals = self._proposals(people[rest], unfair[rest], found[~within(self.rules, found)])
            exact = [rule for proposal in proposals if (rule := refiner.refine(proposal)) is not None]
            refined = [self._purer(refiner, rule) for rule in exact]
            self.judge.limit, self.complete = total, self.complete and refiner.complete
            told = [self._told(rule, refiner.rate(rule), outside) for rule in refined]
            if not told or not self._checked(refined[int(np.argmax(told))]):
                return

    def _findings(self) -> Individuals:
        """Choose some of the run's findings."""
        count = self.run.found
        if not count:
            return self.source.everybody(0)
        at = np.arange(count)
        if count > FINDINGS:
            at = np.sort(self.source.stream().shuffled(np.arange(FINDINGS), count, "findings"))
        return self.run.pairs.individuals("individual", at)

    def _proposals(self, people: Individuals, unfair: npt.NDArray[np.bool_], found: Individuals) -> list[Rule]:
        """Learn a rule from uniform individuals, and one from the fair ones of them beside the run's findings."""
        space = self.run.space
        out = [propose(space, people.rows, unfair)]
        if len(found):
            fair = people[~unfair]
            verdicts = np.arange(len(fair) + len(found)) >= len(fair)
            out.append(propose(space, np.concatenate([fair.rows, found.rows]), verdicts))
        return list(dict.fromkeys(rule for rule in out if rule is not None))

    def _purer(self, refiner: Refiner, rule: Rule) -> Rule:
        """Give the part of a rule that tells at least half as much as the whole, where there is one.

        Two regions side by side may tell most when taken for one that also holds what lies between them.
        """
        for _ in range(PARTS):
            try:
                people, unfair = self._judged(self.source.inside(rule, 2 * CHECKED, self.rules))
                whole_told = self._told(rule, refiner.rate(rule), refiner.outside)
            except RowLimitReached:
                break
            proposal = propose(self.run.space, people.rows, unfair)
            part = None if proposal is None else refiner.refine(rule.both(proposal))
            if part is None or part == rule:
                break
            if not refiner.complete or self._told(part, refiner.rate(part), refiner.outside) < whole_told / 2:
                break
            rule = part
        return rule

    def _told(self, rule: Rule, rate: float, outside: float) -> float:
        """How much a rule says about a uniform individual."""
        share = self.source.share(rule)
        return information(share, share * rate, 1.0, share * rate + (1 - share) * outside)

    def _checked(self, rule: Rule) -> bool:
        """Ask fresh individuals inside and outside all rules; keep the rule if they differ beyond chance."""
        from scipy.stats import fisher_exact

        inside, verdicts = self._judged(self.source.inside(rule, CHECKED))
        new = verdicts[~within(self.rules, inside)]
        _, others = self._judged(self.source.outside([*self.rules, rule], CHECKED))
        table = np.array([[new.sum(), (~new).sum()], [others.sum(), (~others).sum()]])
        p_value = float(fisher_exact(table, alternative="greater").pvalue)
        # At most so many rules are ever kept, and the first that fails ends the search: Bonferroni.
        if p_value > (1 - self.confidence) / self.most:
            return False
        self.rules.append(rule)
        self.checks.append((self._rate(verdicts), p_value))
        return True

    def _report(self, everybody: Rate, real: Individuals | None) -> tuple[Rate, list[Region]]:
        """Give the regions, each beside fresh individuals outside of it."""
        rules = self.rules
        # Outside of these fresh ones nothing was chosen: they are asked about whatever the rules are.
        people = self.source.everybody(2 * CHECKED)
        self.judge.limit = None
        fresh, unfair = self._judged(people)
        out = []
        for rule, (inside, p_value) in zip(rules, self.checks, strict=True):
            support = self.source.share(rule)
            if self.run.space.sampler.rejects:
                support = float(rule.inside(fresh.rows).mean())
            share = None if real is None else float(rule.inside(real.rows).mean()) if len(real) else 0.0
            out.append(Region(rule, inside, self._rate(unfair[~rule.inside(fresh.rows)]), support, share, p_value))
        return (self._rate(unfair[~within(rules, fresh)]) if rules else everybody), out

    def _unfair(self, people: Individuals, unfair: npt.NDArray[np.bool_]) -> Individuals:
        """Return uniform individuals who are treated differently; where there are few, those of the first region."""
        if unfair.sum() >= LEAST or not self.rules:
            return people[unfair]
        inside, verdicts = self._judged(self.source.inside(self.rules[0], CHECKED))
        return inside[verdicts]

    def _judged(self, people: Individuals) -> tuple[Individuals, npt.NDArray[np.bool_]]:
        able, unfair = self.judge.judged(people)
        return people[able], unfair[able]

    def _rate(self, unfair: npt.NDArray[np.bool_]) -> Rate:
        low, high = clopper_pearson(int(unfair.sum()), len(unfair), self.confidence)
        return Rate(int(unfair.sum()), len(unfair), float(low), float(high))


def _check(seed: Any, confidence: Any, most: Any, samples: Any, rows: Any) -> None:
    """Raise in words where an argument is of the wrong kind."""
    if not is_int(seed) or not 0 <= seed < 2**63:
        raise StrategyError(f"seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    if not is_number(confidence) or not 0 < confidence < 1:
        raise StrategyError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    for name, value, least in (("most", most, 1), ("samples", samples, LEAST), ("rows", rows, LEAST)):
        if not is_int(value) or value < least:
            raise StrategyError(f"{name} must be a whole number of at least {least}, got {value!r}")
