"""Regions: readable rules for where individuals are treated differently more often than elsewhere.

A rule is learned, refined by queries to the model, and confirmed on fresh individuals. Then the next one is sought
outside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from evenhand._format import Viewed, estimated, level, percent, visible
from evenhand._intervals import clopper_pearson
from evenhand._validate import check_confidence, check_int, check_seed
from evenhand.engine.judge import Judge, RowLimitReached
from evenhand.errors import StrategyError
from evenhand.explanations.rule_learning import Refiner, Rule, Source, information, propose, within
from evenhand.runs.replay import judge_of, probe_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import pd
from evenhand.spaces.individuals import Individuals

CHECKED = 2_000
"""Number of fresh individuals inside a rule, and outside, to confirm it with."""
FINDINGS = 2_000
"""Maximum number of findings of the run to learn a rule from."""
PARTS = 3
"""How often a rule may be replaced by a part of it."""
LEAST = 100
"""Minimum number of tests to learn from."""
INTERACTING, FEWEST = 500, 20
"""Number of individuals whose attributes are redrawn one by one, and the minimum if rows are scarce."""
CELLS = 2**23
"""Maximum number of codes of individuals judged together."""


@dataclass(frozen=True)
class Rate:
    """A share of fresh individuals who are treated differently, with its interval.

    >>> Rate(31, 100, 0.22, 0.41).words
    '31% (22% to 41%)'
    """

    found: int
    samples: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share; 0 if there was no individual to judge."""
        return self.found / self.samples if self.samples else 0.0

    @property
    def words(self) -> str:
        """The rate in words."""
        return estimated(self.rate, self.low, self.high)


@dataclass(frozen=True)
class Region:
    """A rule, and how often the individuals that meet it are treated differently. Returned by ``eh.regions``."""

    rule: Rule = field(repr=False)
    inside: Rate
    """The rate among fresh individuals that meet the rule."""
    outside: Rate
    """The rate among fresh individuals that do not."""
    support: float
    """The share of valid individuals that meet the rule."""
    data_support: float | None
    """The share of the data's rows that meet the rule; None without data."""
    p_value: float
    """The p-value of the difference between the two rates."""

    @property
    def rate(self) -> float:
        """The share of its individuals that are treated differently."""
        return self.inside.rate

    @property
    def words(self) -> str:
        """The rule, in the user's names and values."""
        return self.rule.words

    @property
    def sentence(self) -> str:
        """The region in one sentence."""
        real = "" if self.data_support is None else f", {percent(self.data_support)} of the data"
        elsewhere = f", against {self.outside.words} elsewhere" if self.outside.samples else ""
        return (
            f"{self.words}: {self.inside.words} of such individuals are treated differently{elsewhere}. They are "
            f"{percent(self.support)} of all valid individuals{real}."
        )

    def contains(self, frame: Any) -> npt.NDArray[np.bool_]:
        """Return which rows of a frame meet the rule; rows outside the space do not."""
        encoded = self.rule.space.encode(frame)
        out = np.zeros(len(encoded.positions) + encoded.dropped, dtype=bool)
        out[encoded.positions] = self.rule.inside(encoded.individuals.rows)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Give all of it in plain values."""
        return {
            "rule": self.words,
            "conditions": self.rule.to_dict(),
            **{name: value for side in ("inside", "outside") for name, value in _plain(side, getattr(self, side))},
            "support": self.support,
            "data_support": self.data_support,
            "p_value": self.p_value,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Interaction:
    """How much different treatment depends on one free attribute."""

    name: str
    ends: Rate
    """The share of differences that disappear if only this attribute takes a random other value."""


@dataclass(frozen=True)
class Regions(Viewed):
    """Where individuals are treated differently, the most informative region first. Returned by ``eh.regions``."""

    regions: list[Region]
    everybody: Rate
    """The rate among fresh uniform individuals."""
    beyond: Rate
    """The rate among fresh individuals outside all regions."""
    interactions: list[Interaction] = field(repr=False)
    confidence: float
    rows: int
    """Rows that the model was asked, outside all budgets."""
    complete: bool = True
    """Whether the rows sufficed to refine all rules and to look for more."""

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self.regions)

    @overload
    def __getitem__(self, place: int) -> Region: ...
    @overload
    def __getitem__(self, place: slice) -> list[Region]: ...
    def __getitem__(self, place: int | slice) -> Region | list[Region]:
        """Return one region, or some."""
        return self.regions[place]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per region."""
        names = ["rule", "rate", "low", "high", "outside", "outside_low", "outside_high", "support", "data_support",
                 "p_value"]  # fmt: skip
        lines = [
            (r.words, r.rate, r.inside.low, r.inside.high, r.outside.rate, r.outside.low, r.outside.high, r.support,
             r.data_support, r.p_value)
            for r in self.regions
        ]  # fmt: skip
        return pd.DataFrame(lines, columns=names)

    @property
    def sentence(self) -> str:
        """A summary in one sentence."""
        if self.regions:
            n = len(self.regions)
            left = f"; outside {'it' if n == 1 else 'all of them'} {self.beyond.words}" if self.beyond.samples else ""
            return f"{n} {'region' if n == 1 else 'regions'} of discrimination{left}"
        if not self.everybody.found:
            return f"no region: no individual is treated differently in {self.everybody.samples:,} draws from the space"
        return f"no region stands out: {self.everybody.words} of all individuals are treated differently"

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            "regions": [region.to_dict() for region in self.regions],
            **dict(_plain("everybody", self.everybody)),
            **dict(_plain("beyond", self.beyond)),
            "interactions": [{"attribute": it.name, **dict(_plain("ends", it.ends))} for it in self.interactions],
            "confidence": self.confidence,
            "rows": self.rows,
            "complete": self.complete,
        }

    def __repr__(self) -> str:
        cut = (
            ""
            if self.complete
            else "; the row limit was reached: thresholds may be imprecise, and there may be more regions"
        )
        lines = [f"Regions: {self.sentence} ({level(self.confidence)} confidence{cut})"]
        lines += [f"  {region.sentence}" for region in self.regions]
        strong = [it for it in self.interactions if it.ends.low > 0]
        if strong:
            listed = ", ".join(f"{visible(it.name)} ({percent(it.ends.rate)})" for it in strong[:5])
            lines.append(f"  the difference most often disappears with another value of {listed}")
        return "\n".join(lines)


def _plain(side: str, rate: Rate) -> list[tuple[str, Any]]:
    return [
        (f"{side}_rate", rate.rate if rate.samples else None),
        (f"{side}_low", rate.low),
        (f"{side}_high", rate.high),
        (f"{side}_found", rate.found),
        (f"{side}_samples", rate.samples),
    ]


def regions(
    run: Run,
    model: Any = None,
    data: Any = None,
    seed: int = 0,
    confidence: float = 0.95,
    *,
    max_regions: int = 5,
    samples: int = 20_000,
    rows: int = 2_000_000,
    executor: Executor | int | None = None,
) -> Regions:
    """Find where individuals are treated differently, as readable rules that were checked on fresh individuals.

    A rule is learned from uniform individuals, and from the run's findings if uniform individuals hardly meet it.
    Findings are not a fair sample, and a search among many rules finds some by chance. So each rule is refined by
    queries to the model, and reported only if fresh individuals inside it are treated differently significantly more
    often than fresh ones outside. The probability that any reported region is a false alarm is at most ``1 -
    confidence``.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    model
        Anything that ``wrap`` takes; needed for a run that was read from its directory, else by default the run's own.
    data
        Real rows, to report how many of them are in each region.
    seed
        Same seed, same regions.
    confidence
        Confidence level of each interval, and of all regions together.
    max_regions
        Maximum number of regions.
    samples
        Number of uniform individuals to learn from.
    rows
        Maximum number of model rows, outside all budgets; the result says if they were too few.
    executor
        Where the model is called: a number of processes on this machine, a ``concurrent.futures.Executor``, or a
        ``dask.distributed.Client``; by default as in the run. The result is the same.

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
    probe = probe_of(run, model, "eh.regions").on(executor)
    check_seed(seed, StrategyError)
    check_confidence(confidence, StrategyError)
    for name, value, least in (("max_regions", max_regions, 1), ("samples", samples, LEAST), ("rows", rows, LEAST)):
        check_int(name, value, StrategyError, least)
    real = None if data is None else run.space.encode(data).individuals
    search = Search(
        run, judge_of(run, probe, int(rows)), Source(run.space, int(seed)), float(confidence), int(max_regions)
    )
    return search.result(int(samples), real)


@dataclass
class Search:
    """The search for regions of one model."""

    run: Run
    judge: Judge
    source: Source
    confidence: float
    max_regions: int
    rules: list[Rule] = field(default_factory=list)
    checks: list[tuple[Rate, float]] = field(default_factory=list)
    complete: bool = True

    def result(self, samples: int, real: Individuals | None) -> Regions:
        """Look for regions until none is left or the rows are spent."""
        affordable = (self.judge.limit or 0) // (3 * self.judge.cost)
        if affordable < LEAST:
            raise StrategyError(
                f"is too small: a test asks up to {self.judge.cost:,} rows, and three times {LEAST} tests are needed",
                parameter="rows",
                value=self.judge.limit,
                remedy=f"allow {3 * LEAST * self.judge.cost:,}",
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
        """Find rules one by one, each among the individuals that no earlier rule covers."""
        found, total = self._findings(), self.judge.limit or 0
        while len(self.rules) < self.max_regions:
            # Each region gets an equal part of the rows, so that refining one leaves enough to confirm the others.
            left = total - self.judge.rows
            self.judge.limit = self.judge.rows + left // (self.max_regions - len(self.rules) + 1)
            rest = ~within(self.rules, people)
            outside = float(unfair[rest].mean()) if rest.any() else 0.0
            refiner = Refiner(self.judge, self.source, self.rules, outside)
            proposals = self._proposals(people[rest], unfair[rest], found[~within(self.rules, found)])
            exact = [rule for proposal in proposals if (rule := refiner.refine(proposal)) is not None]
            refined = [self._purer(refiner, rule) for rule in exact]
            self.judge.limit, self.complete = total, self.complete and refiner.complete
            scores = [self._information(rule, refiner.rate(rule), outside) for rule in refined]
            if not scores or not self._checked(refined[int(np.argmax(scores))]):
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
        """Learn a rule from uniform individuals, and one from the run's findings and uniform non-findings."""
        space = self.run.space
        out = [propose(space, people.rows, unfair)]
        if len(found):
            fair = people[~unfair]
            verdicts = np.arange(len(fair) + len(found)) >= len(fair)
            out.append(propose(space, np.concatenate([fair.rows, found.rows]), verdicts))
        return list(dict.fromkeys(rule for rule in out if rule is not None))

    def _purer(self, refiner: Refiner, rule: Rule) -> Rule:
        """Return a part of the rule that is at least half as informative as the whole, if there is one.

        Two neighbouring regions can be most informative as one rule that includes the gap between them.
        """
        for _ in range(PARTS):
            try:
                people, unfair = self._judged(self.source.inside(rule, 2 * CHECKED, self.rules))
                whole_told = self._information(rule, refiner.rate(rule), refiner.outside)
            except RowLimitReached:
                break
            proposal = propose(self.run.space, people.rows, unfair)
            part = None if proposal is None else refiner.refine(rule.both(proposal))
            if part is None or part == rule:
                break
            if not refiner.complete or self._information(part, refiner.rate(part), refiner.outside) < whole_told / 2:
                break
            rule = part
        return rule

    def _information(self, rule: Rule, rate: float, outside: float) -> float:
        """The information that a rule gives about a uniform individual."""
        share = self.source.share(rule)
        return information(share, share * rate, 1.0, share * rate + (1 - share) * outside)

    def _checked(self, rule: Rule) -> bool:
        """Judge fresh individuals inside the rule and outside; keep the rule if they differ significantly.

        What no earlier rule covers must differ from what no rule covers, and all inside from all outside.
        """
        inside, verdicts = self._judged(self.source.inside(rule, CHECKED))
        p_value = self._p_value(verdicts[~within(self.rules, inside)], [*self.rules, rule])
        if self.rules:
            p_value = max(p_value, self._p_value(verdicts, [rule]))
        # Bonferroni: at most this many rules are kept, and the first that fails ends the search.
        if p_value > (1 - self.confidence) / self.max_regions:
            return False
        self.rules.append(rule)
        self.checks.append((self._rate(verdicts), p_value))
        return True

    def _p_value(self, inside: npt.NDArray[np.bool_], rules: list[Rule]) -> float:
        """Return how likely so much more inside is by chance, compared with fresh individuals outside some rules."""
        from scipy.stats import fisher_exact

        _, outside = self._judged(self.source.outside(rules, CHECKED))
        table = np.array([[part.sum(), (~part).sum()] for part in (inside, outside)])
        return float(fisher_exact(table, alternative="greater").pvalue)

    def _report(self, everybody: Rate, real: Individuals | None) -> tuple[Rate, list[Region]]:
        """Return the regions, each compared with fresh individuals outside it."""
        rules = self.rules
        # These individuals are judged whatever the rules are, so nothing was selected by them.
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
        """Return uniform individuals that are treated differently; if there are few, those of the first region."""
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


def interactions(judge: Judge, source: Source, unfair: Individuals, confidence: float) -> list[Interaction]:
    """Measure for each free attribute how often a random other value removes a difference, most often first.

    For uniform individuals this is the total effect of the attribute on the verdict (Sobol's index, in the form of
    Jansen 1999), up to a factor common to all attributes. An attribute without any influence, alone or with others, has
    exactly 0.

    Parameters
    ----------
    judge
        The judge.
    source
        Where new values are drawn from.
    unfair
        Independent individuals that are treated differently.
    confidence
        Confidence level of the intervals.
    """
    space, out = judge.space, []
    people = unfair[: _affordable(judge)]
    if not len(people):
        return []
    step = max(1, CELLS // (len(people) * len(space.names)))
    for start in range(0, len(space.free_columns), step):
        columns = space.free_columns[start : start + step]
        rows = np.repeat(people.rows[None], len(columns), axis=0)
        for i, j in enumerate(columns):
            rows[i, :, j] = source.stream().below(int(space.sizes[j]), "anew", np.arange(len(people)), 0)
        valid = space.valid(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
        able, still = judge.judged(space.individuals(rows[valid]))
        of = np.nonzero(valid)[0]
        ended = np.bincount(of[able & ~still], minlength=len(columns))
        asked = np.bincount(of[able], minlength=len(columns))
        low, high = clopper_pearson(ended, asked, confidence)
        for i, j in enumerate(columns):
            rate = Rate(int(ended[i]), int(asked[i]), float(low[i]), float(high[i]))
            out.append(Interaction(space.names[j], rate))
    return sorted(out, key=lambda it: -it.ends.rate)


def _affordable(judge: Judge) -> int:
    """Number of individuals for which all attributes can be redrawn."""
    if judge.limit is None:
        return INTERACTING
    left = (judge.limit - judge.rows) // (judge.cost * len(judge.space.free_columns))
    if left < FEWEST:
        raise RowLimitReached
    return min(INTERACTING, left)
