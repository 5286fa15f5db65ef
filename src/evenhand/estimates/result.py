"""The result of an estimate: a share, its interval and who is favoured, in figures and in words; and limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import (
    Figure,
    Sentence,
    Viewed,
    estimated,
    high,
    interval,
    level,
    number_interval,
    percent,
    phrase,
    plain,
    size,
    to_plain,
)
from evenhand._intervals import clopper_pearson
from evenhand.budget import StopReason
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import is_unaware, statement, unreached, unread
from evenhand.errors import FAIL_ON_FINDING, BudgetError, StrategyError, search
from evenhand.estimates.favoured import Comparison, Confidence, compare, count, summary
from evenhand.estimates.pair_counts import KEPT, Table, Term, favourable_json, frame_of
from evenhand.estimates.populations import Everyone, Near, RowDraws, Target, Uniform
from evenhand.estimates.survey import UNFINISHED, Kept, Survey, Watch, bounds
from evenhand.runs.run import POPULATIONS, RunEstimate
from evenhand.spaces.base import AnySpace, table
from evenhand.spaces.frames import pd
from evenhand.spaces.text.space import DEPENDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from evenhand.estimates.estimate import Plan
    from evenhand.runs.run import Run

STOPS = {
    "samples": "all samples were taken",
    "half_width": "the interval was narrow enough",
    "seconds": "the time limit was reached",
    "exhausted": "all were tested",
    "stopped": "it was stopped",
    "interrupted": "it was interrupted",
}
SHOWN = 8
NOT_RECEIVED = "not received"
"""The verdict and the interval if the model receives no protected attribute."""
ALL_ROWS = "all rows, counterparts sampled"
"""The interval if all rows were judged, but each with a sample of its counterparts."""
LONGEST = 60
"""Maximum characters of a decision within a sentence."""


@dataclass(frozen=True)
class Share:
    """The share treated differently when only some protected attributes change."""

    attributes: tuple[str, ...]
    compared: float
    """Individuals; with weights, the effective number."""
    found: float
    rate: float
    low: float
    high: float


@dataclass
class Estimate(Viewed):
    """How common different treatment is, with a confidence interval. Returned by ``eh.estimate``."""

    rate: float
    low: float
    high: float
    confidence: float
    interval: str
    """The kind of interval; "exact" without sampling, "not received" if there is nothing to estimate."""
    samples: int
    """Individuals judged."""
    found: int
    population: str
    about: str
    """The population of the interval, in words."""
    stop: str
    rows: int
    """Rows handed to the model."""
    rows_checked: int
    seconds: float
    seed: int
    counts: dict[str, int]
    """Individuals without counterparts; data rows: total, clipped, dropped."""
    noise: float
    """Share of rows queried twice that got two answers."""
    repeats: int
    """How often each row was queried."""
    misjudged: float
    """Bound on the share that the model's noise may have misjudged; the interval includes it."""
    sampled: bool
    """Whether individuals were compared with only a sample of their counterparts, so that the share may be higher."""
    model: str
    criterion: Criterion
    favourable: Any
    tolerance: float
    space: AnySpace = field(repr=False)
    shares: tuple[Share, ...] = field(repr=False)
    comparisons: tuple[Comparison, ...] = field(repr=False)
    """Pairs of values of each protected attribute, then of combinations of several."""
    points: list[tuple[int, int]] = field(repr=False)
    """Numbers of individuals judged and found while the sample grew."""
    kept: Kept = field(repr=False)
    score_of: tuple[Any, ...] = ()
    """For a criterion that compares scores: the decisions whose score is compared; empty for the model's own number."""
    terms: tuple[Term, ...] = field(default=(), repr=False)
    """For texts: how often they get each decision with each term."""
    families: int = 0
    """Families judged: an individual and its counterparts are one family."""
    unused: tuple[str, ...] = ()
    """Attributes of the space that the model is known not to receive."""
    scored: tuple[int, int] | None = None
    """If nothing was found: the number of families whose scores were compared, and of those with a changed score."""

    @property
    def unaware(self) -> bool:
        """Whether the model receives no protected attribute, so that nothing can be found."""
        return is_unaware(self.space, self.unused)

    @property
    def note(self) -> str | None:
        """A sentence about attributes that the model does not use; None if there are none."""
        complete = self.exact and self.population == "uniform" and "left_out" not in self.counts
        line = statement(self.space, self.unused, self.found, self.families, self.scored, complete)
        return None if line is None else str(line)

    @property
    def unfinished(self) -> bool:
        """Whether a complete test ended early; the interval then holds for any outcome of the rest."""
        return self.interval == UNFINISHED

    @property
    def exact(self) -> bool:
        """Whether the share is known exactly, because all were tested."""
        return self.interval == "exact"

    @property
    def by_attribute(self) -> pd.DataFrame:
        """The shares treated differently when one protected attribute, or several together, change."""
        rows = [{**asdict(share), "attributes": ", ".join(share.attributes)} for share in self.shares]
        return pd.DataFrame(rows, columns=["attributes", "compared", "found", "rate", "low", "high"])

    @property
    def by_pair(self) -> pd.DataFrame:
        """Who is favoured: every pair of values of each protected attribute, all else equal."""
        return _frame([c for c in self.comparisons if len(c.first) == 1])

    @property
    def by_combination(self) -> pd.DataFrame:
        """Who is favoured: every pair of combinations of several protected attributes."""
        return _frame([c for c in self.comparisons if len(c.first) > 1])

    @property
    def by_term(self) -> pd.DataFrame:
        """For texts: how many of the same texts get each decision with one term and with another."""
        return frame_of(self.terms)

    @cached_property
    def gaps(self) -> npt.NDArray[np.float64] | None:
        """The widest gap of scores in each family, for the first 50,000 individuals; None without scores."""
        return np.concatenate(self.kept.gaps) if self.kept.gaps else None

    @property
    def severity(self) -> dict[str, dict[str, float]] | None:
        """The gaps of all individuals, and of those treated differently: mean, quantiles, maximum."""
        if self.gaps is None:
            return None
        unfair, weights = self.kept.verdicts(), self.kept.weight()
        out = {"everyone": summary(self.gaps, weights)}
        if unfair.any():
            out["treated differently"] = summary(self.gaps[unfair], None if weights is None else weights[unfair])
        return out

    @property
    def verdict(self) -> str:
        """Whether people are treated differently.

        "treated differently", "none found" or "insufficient evidence"; "not received" if the model does not receive the
        protected attributes.
        """
        if self.low > 0:
            return "treated differently"
        if self.unaware:
            return NOT_RECEIVED
        sure = self.high <= self.tolerance and not self.found and not self.sampled
        return "none found" if sure else "insufficient evidence"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        skipped = ("space", "criterion", "kept", "shares", "comparisons", "points", "favourable", "gaps", "terms")
        out = {
            **{name: value for name, value in vars(self).items() if name not in skipped},
            "criterion": self.criterion.to_dict(),
            "exact": self.exact,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "favourable": favourable_json(self.favourable),
            "severity": self.severity,
            "by_attribute": [asdict(share) for share in self.shares],
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "points": self.points,
            "by_term": [_plain_term(term) for term in self.terms],
            "note": self.note,
        }
        return {name: to_plain(value) for name, value in out.items()}

    @property
    def details(self) -> list[str]:
        """Who is favoured, one line per comparison, and other remarks."""
        lines = [self.note] if self.note and not self.unaware else []
        lines += self._by_spelling()
        shown = [c for c in self.comparisons if c.verdict not in ("none found", NOT_RECEIVED)]
        directed = self.favourable is not None or any(c.difference is not None for c in shown)
        if len(self.comparisons) > 1 or directed:
            shown = sorted(shown, key=lambda c: (len(c.first), -abs(c.net or c.rate)))[:SHOWN]
            lines += [line(c, self.score_of, self.confidence) for c in shown]
            rest = len(self.comparisons) - len(shown)
            lines += [f"and {rest:,} more comparisons, see by_pair and by_combination"] * bool(shown and rest)
        return lines + self._by_scores()

    def __repr__(self) -> str:
        return "\n  ".join([f"Estimate: {self.sentence}", *self.details])

    @property
    def noise_floor(self) -> tuple[float, float, float] | None:
        """For texts: the share that another spelling of the same identity changes, with its interval.

        A rate near it may be about words and not about people. None if no text has another common spelling.
        """
        many, changed = (self.counts.get(name, 0) for name in (RESPELLED, CHANGED))
        if not many:
            return None
        low, high = clopper_pearson(changed, many, self.confidence)
        return changed / many, float(low), float(high)

    def _by_spelling(self) -> list[str]:
        """Name what depends on spellings, if anything was spelled otherwise."""
        if self.noise_floor is None:
            return []
        share, low, high = map(percent, self.noise_floor)
        apart = self.counts.get(DEPENDS, 0)
        return [f"another spelling of the same identity changes {share} ({low} to {high}) of the texts that have one; "
                f"{apart:,} more texts depend on the spelling and do not count"]  # fmt: skip

    def _by_scores(self) -> list[str]:
        """Name the terms with the largest score differences that are clear."""
        clear = [term for term in self.terms if (term.difference_low or 0) > 0 or (term.difference_high or 0) < 0]
        clear.sort(key=lambda term: -abs(term.difference or 0))
        lines = [more_of(term, self.score_of, self.confidence) for term in clear[:SHOWN]]
        return lines + [f"and {len(clear) - SHOWN:,} more terms, see by_term"] * (len(clear) > SHOWN)

    def plot_convergence(self) -> Plot:
        """Draw the share while the sample grew, with the interval that holds at every moment."""
        from evenhand.estimates.plots import convergence

        return convergence(self)

    def plot_intervals(self) -> Plot:
        """Draw who is favoured, with intervals: net differences if the favourable outcome is known, otherwise rates."""
        from evenhand.estimates.plots import intervals

        return intervals(self)

    def plot_gaps(self) -> Plot:
        """Draw the distribution of score differences between counterparts."""
        from evenhand.estimates.plots import gaps

        return gaps(self)


RESPELLED, CHANGED = "texts_respelled", "texts_changed_by_spelling"


def _plain_term(term: Term) -> dict[str, Any]:
    """Return a term as plain values; without figures about spellings where it has none."""
    optional = ("respelled", "changed_by_spelling")
    plain = {name: value for name, value in asdict(term).items() if value is not None or name not in optional}
    return plain | {"shares": dict(term.shares)}


def make(plan: Plan, target: Target, survey: Survey, stop: str, watch: Watch, seed: int) -> Estimate:
    """Make an estimate from a survey."""
    watched = plan.watched or plan.stop.may_stop or stop in ("stopped", "interrupted")
    judge, probe, terms = survey.judge, survey.judge.probe, survey.terms
    found = bounds(plan, target, survey, watched)
    # For a non-deterministic model, half of the error probability is for misjudged individuals, as in the interval.
    confidence = 1 - (1 - plan.confidence) / 2 if judge.half else plan.confidence
    everyone = found.name == "exact" and not judge.half
    misjudged = found.noise * survey.tabled
    known = (survey.found, survey.samples, found.low, found.high)
    even = target.weights is None
    sure = Confidence(confidence, plan.interval.tolerance, watched, everyone, misjudged, survey.looks, known, even)
    # An unfinished count says nothing about single pairs.
    tables = [] if found.name == UNFINISHED else survey.tables
    directed, width = survey.favour.favourable is not None, survey.width if terms is None else terms.width
    unused = unread(probe)
    # Attributes that the model does not receive are not estimated: they cannot change its answers.
    apart = unreached(survey.space, unused)
    low, high, interval = found.low, found.high, _named(found.name, survey)
    if is_unaware(survey.space, unused) and not survey.found:
        low, high, interval = 0.0, 0.0, interval if interval == "exact" else NOT_RECEIVED
    counts = {**target.counts, "untestable": judge.untestable + target.counts.get("untestable", 0)}
    if terms is not None and terms.texts_respelled:
        counts |= {RESPELLED: terms.texts_respelled, CHANGED: terms.texts_flipped, DEPENDS: survey.depends}
    if judge.exclude is not None:
        counts["left_out"] = judge.left_out
    return Estimate(
        rate=found.rate,
        low=low,
        high=high,
        confidence=float(plan.confidence),
        interval=interval,
        samples=survey.samples,
        found=survey.found,
        population=plan.population.name,
        about=_about(plan, target, survey),
        stop=stop,
        rows=judge.rows,
        rows_checked=survey.checked,
        seconds=watch.seconds,
        seed=seed,
        counts=counts,
        noise=survey.noise,
        repeats=max(1, 2 * judge.half),
        misjudged=found.noise,
        sampled=survey.sampled,
        model=probe.model.name,
        criterion=probe.criterion,
        favourable=survey.favour.favourable,
        tolerance=float(plan.interval.tolerance),
        space=survey.space,
        shares=tuple(_share(table, sure, apart) for table in tables),
        comparisons=tuple(compare(tables, sure, directed, width is not None and survey.favour.turned(width), apart)),
        score_of=() if width is None else survey.favour.scored(width),
        points=survey.points,
        kept=survey.kept,
        terms=() if terms is None else terms.shares(lambda found, n: sure.at_once(n).difference(found)),
        families=survey.families,
        unused=unused,
    )


def _named(interval: str, survey: Survey) -> str:
    """Name an interval; it is not exact if noise or a sample of counterparts may hide something."""
    if interval != "exact":
        return interval
    if survey.judge.half:
        return "exact except for noise"
    return ALL_ROWS if survey.sampled else interval


def _share(table: Table, sure: Confidence, unreached: frozenset[str]) -> Share:
    low, high = sure.rate(table.found, table.compared, table.sums)
    if unreached.issuperset(table.attributes) and not table.found:
        low, high = 0.0, 0.0
    rate = table.found / table.compared if table.compared else 0.0
    compared, found = count(table.compared), count(table.found)
    return Share(table.attributes, compared, found, rate, float(low), float(high))


def _about(plan: Plan, target: Target, survey: Survey) -> str:
    if isinstance(survey.population, Everyone):
        if survey.judge.left_out:
            return f"valid individuals like the {survey.samples:,} that the repair did not use"
        return f"all {survey.samples:,} valid individuals" if survey.complete else "all valid individuals"
    if isinstance(plan.population, Uniform):
        return "synthetic people (uniform random)"
    if isinstance(plan.population, Near):
        return f"individuals within {plan.population.steps} steps of the data's rows"
    texts = survey.space.supports("texts")
    rows = "texts" if texts else "rows"
    if target.weights is not None or isinstance(survey.population, RowDraws):
        rows = f"weighted {rows}"
    which = " with a protected term" if texts else ""
    if target.rows:
        size = survey.population.size
        return f"the data's {rows}{which}" if size is None else f"the data's {size:,} {rows}{which}"
    return (
        f"texts like those given{which}"
        if texts
        else f"the population of the data's {rows}"
        if rows != "rows"
        else "the population"
    )


def _frame(comparisons: list[Comparison]) -> pd.DataFrame:
    rows = []
    for c in comparisons:
        row = c.to_dict()
        gaps = row.pop("gaps") or {}
        rows.append(
            {
                **row,
                "first": listed(c.first),
                "second": listed(c.second),
                **{f"gap_{name}": value for name, value in gaps.items()},
            }
        )
    columns = [name for name in Comparison.__dataclass_fields__ if name != "gaps"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def listed(values: dict[str, object]) -> str:
    """Write protected values for a reader."""
    return ", ".join(phrase(name, value) for name, value in values.items())


def treated(space: AnySpace, criterion: Criterion) -> str:
    """Describe what is counted, as words that follow "are".

    Scores are compared between any two members of a family. With more than two values, the pair farthest apart need not
    include the individual.
    """
    texts = space.supports("texts")
    if criterion == Flip() or (not texts and table(space).combinations <= 2):
        return "treated differently"
    what = "words" if texts else "values" if len(space.protected) == 1 else "combinations"
    return f"treated differently for some pair of {what} of {' and '.join(map(plain, space.protected))}"


def noun(space: AnySpace) -> str:
    """Return the noun for what is judged."""
    return f"{space.noun}s"


def sentence(e: Estimate) -> str:
    """Write the share, its population and its interval as a sentence."""
    sure, of, how = level(e.confidence), e.about, treated(e.space, e.criterion)
    texts = e.space.supports("texts")
    who = "some were compared with a sample of their" if texts else "each was compared with a sample of its"
    more = f"; {who} counterparts only, so the share may be higher" if e.sampled else ""
    if e.repeats > 1:
        more += (
            f"; the model is not deterministic: {percent(e.noise)} of the rows queried twice got two answers, so each "
            f"was queried {e.repeats} times and the most frequent answer counts"
        )
    more += _rows_lost(e.counts, texts)
    sample = ", assuming the rows are a random sample of it" if e.about.startswith("the population") else ""
    if e.unaware and not e.found:
        return f"{e.note}{more}"
    if e.unfinished:
        return (
            f"{e.found:,} of the {e.samples:,} judged so far ({of}) are {how}; the share of all is "
            f"{interval(e.low, e.high)}, whatever the remaining ones show{more}"
        )
    if e.sampled and e.interval == ALL_ROWS:
        many = percent(e.rate) if e.found else "none"
        return f"{many} of {of} {'are' if e.found else 'is'} {how} by these samples; all were tested{more}"
    if e.exact:
        if not e.found:
            return f"none of {of} is {how}; all were tested{more}"
        return f"exactly {percent(e.rate)} of {of} are {how}; all were tested{more}"
    if not e.found:
        by = " by these samples of counterparts" if e.sampled else ""
        bound = f"at most {high(e.high)} of {of} are{by}, with {sure} confidence"
        return f"none of {e.samples:,} tested is {how}: {bound}{sample}{more}"
    return (
        f"{percent(e.rate)} of {of} are {how} ({sure} CI {interval(e.low, e.high)}){sample}; {e.found:,} of "
        f"{e.samples:,} tested, {e.interval}{more}"
    )


def _rows_lost(counts: dict[str, int], texts: bool) -> str:
    dropped, clipped, rows, used = (counts.get(name, 0) for name in ("dropped", "clipped", "rows", "left_out"))
    lost = "texts missing" if texts else "rows outside the space left out"
    out = f"; {dropped:,} of the {rows:,} {lost}" if dropped else ""
    out += f"; {clipped:,} of the {rows:,} rows moved to the nearest bound of the space" if clipped else ""
    return out + (f"; {used:,} used by the repair left out" if used else "")


def more(c: Comparison, scored: tuple[Any, ...], confidence: float) -> Sentence | None:
    """Write which of the two gets more, and how much on average; None if no numbers were compared.

    ``scored`` names the decisions whose score is compared; empty for the model's own number. One of the two gets more
    if the interval shown excludes 0.
    """
    if c.difference is None:
        return None
    turned = c.difference < 0
    who, other = (listed(side) for side in ((c.second, c.first) if turned else (c.first, c.second)))
    names = tuple(_short(one) for one in scored)
    of = f" for {' or '.join(['“{}”'] * len(names))}" if names else ""
    up, down = ("higher", "lower") if scored else ("more", "less")
    gets = "scores" if scored else "gets"
    much = Figure(c.difference, "size")
    same = f"{{}} and {{}} {'score' if scored else 'get'} the same{of}"
    if c.difference_low is None and not c.difference and c.gaps is not None and not c.gaps["largest"]:
        # With more pairs, only the gaps of the first are known.
        if c.pairs > KEPT:
            return Sentence(f"{same} on average", (who, other, *names))
        return Sentence(f"{same} in all {{}} asked", (who, other, *names, Figure(c.pairs, "count")))
    if c.difference_low is None or c.difference_high is None:
        few = "too few pairs differ for an interval"
        return Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average ({few})", (who, much, *names, other))
    if not (c.difference or c.difference_low or c.difference_high):
        return Sentence(f"{same} on average", (who, other, *names))
    ends = (Figure(c.difference_low, "size_low"), Figure(c.difference_high, "size_high"))
    ends, sure = ends[::-1] if turned else ends, Figure(confidence, "level")
    if c.difference_low <= 0 <= c.difference_high:
        clear = f"it is not clear whether {{}} {gets} {up}{of} than {{}} on average ({{}} CI {{}} {down} to {{}} {up})"
        return Sentence(clear, (who, *names, other, sure, *ends))
    line = Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average", (who, much, *names, other))
    known = c.difference_low == c.difference_high
    return line if known else line + Sentence(" ({} CI {} to {})", (sure, *ends))


def more_of(term: Term, scored: tuple[Any, ...], confidence: float) -> str:
    """Write how much higher or lower texts are scored with a term on average, if it has an interval."""
    if term.difference is None or term.difference_low is None or term.difference_high is None:
        return ""
    turned = term.difference < 0
    ends = (-term.difference_high, -term.difference_low) if turned else (term.difference_low, term.difference_high)
    of = f" for {' or '.join(f'“{_short(one)}”' for one in scored)}" if scored else ""
    sure = f" ({level(confidence)} CI {number_interval(*ends)})" if ends[0] < ends[1] else ""
    return (
        f"with “{plain(term.term)}” the score{of} is {size(term.difference)} {'lower' if turned else 'higher'} than "
        f"with the other terms of {plain(term.attribute)}{sure}"
    )


def _short(value: object) -> str:
    text = plain(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def line(c: Comparison, scored: tuple[Any, ...] = (), confidence: float = 0.95) -> str:
    """Write a comparison in one line."""
    pair = f"{listed(c.first)} and {listed(c.second)}"
    numbers = more(c, scored, confidence)
    if c.net is None or c.net_low is None or c.net_high is None:
        sure = f" ({interval(c.low, c.high)})" if c.low < c.high else ""
        return f"{pair}: {percent(c.rate)} differ{sure}; {numbers or c.verdict}"
    assert c.first_share is not None
    assert c.second_share is not None
    turned = c.net < 0
    one, other = (c.second, c.first) if turned else (c.first, c.second)
    ends = sorted((-c.net_low, -c.net_high)) if turned else (c.net_low, c.net_high)
    shares = [percent(share) for share in sorted((c.first_share, c.second_share), reverse=True)]
    short = [", ".join(map(plain, side.values())) for side in (one, other)]
    head = f"{listed(one)} against {listed(other)}: {c.verdict};"
    if c.verdict.startswith("favours"):
        head = f"{listed(one)} favoured over {listed(other)}:"
    text = f"{head} net {estimated(abs(c.net), *ends)}, {short[0]} in {shares[0]} of pairs, {short[1]} in {shares[1]}"
    return f"{text}; {numbers}" if numbers else text


class Outcome(Enum):
    """Whether a limit is met."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "too few tests to tell"


@dataclass(frozen=True)
class Limit:
    """A maximum share of individuals.

    >>> Limit.of("5%")
    Limit(share=0.05)
    """

    share: float

    @classmethod
    def of(cls, value: Any) -> Limit:
        """Read a limit, a text such as "5%"; a plain number could be mistaken for a number of findings.

        >>> Limit.of(0)
        Traceback (most recent call last):
        evenhand.errors.BudgetError: fail_above must be a percentage, such as '1%', got 0; to fail on any finding, use \
fail_on_finding=True
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.strip().endswith("%"):
            try:
                share = float(value.strip()[:-1]) / 100
            except ValueError:
                share = -1.0
            if 0 <= share <= 1:
                return cls(share)
        remedy = ("to fail on any finding, use ", FAIL_ON_FINDING)
        raise BudgetError("must be a percentage, such as '1%'", parameter="fail_above", value=value, remedy=remedy)

    def of_run(self, run: Run) -> Outcome:
        """Judge a run by its independent draws, those from the data if there are any."""
        if run.unaware and not run.found:
            return Outcome.PASS
        verdict = estimate_of(run).verdict(self.share)
        return {True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.UNDECIDED}[verdict]

    def of_estimate(self, found: Estimate) -> Outcome:
        """Judge an estimate by its interval: above the limit, within it, or undecided."""
        if found.unaware and not found.found:
            return Outcome.PASS
        if found.exact:
            return Outcome.FAIL if found.rate > self.share else Outcome.PASS
        if found.low > self.share:
            return Outcome.FAIL
        return Outcome.PASS if found.high <= self.share else Outcome.UNDECIDED

    def needed(self, run: Run) -> int | None:
        """Return about how many more tests are needed to decide, if the rate stays the same.

        No more than all tests of the space. None if they decide nothing, because the data have too few rows.
        """
        draws = estimate_of(run).needed(self.share)
        if draws is None:
            return None
        tests = math.ceil(draws * len(run.estimate) / float(run.identity.strategy["share"]))
        return min(tests, run.space.tests - run.tests) if run.space.supports("attributes") else tests

    def words(self, run: Run) -> str:
        """Describe the outcome."""
        found, outcome = estimate_of(run), self.of_run(run)
        known = "" if found.exact else "an estimated "
        rate = f"{known}{estimated(found.rate, found.low, found.high)} of {POPULATIONS[found.population]}"
        if outcome is Outcome.UNDECIDED:
            needed = self.needed(run)
            more = "more rows of data are needed" if needed is None else f"about {needed:,} more may suffice"
            few = "rows" if found.all_rows else "tests"
            return f"{rate}: too few {few} to tell whether that is above {self}; {more}"
        return f"{rate}, {'more than' if outcome is Outcome.FAIL else 'within'} {self}"

    def __str__(self) -> str:
        return percent(self.share)


def estimate_of(run: Run) -> RunEstimate:
    """Return the estimate that a limit applies to, that of the data if there is one; raise if the run has none."""
    if not run.estimate:
        raise StrategyError(
            f"a limit for the rate needs an estimate, which {run.identity.search} does not make here",
            remedy=("use ", search("auto"), ", or 'evenhand estimate'"),
        )
    return run.estimate.get("data") or next(iter(run.estimate.values()))


def outcome_of_findings(run: Run) -> Outcome:
    """Fail on any confirmed finding; undecided if no test was completed or no finding was confirmed."""
    if run.confirmed:
        return Outcome.FAIL
    ended = run.tests and run.stop is not StopReason.INTERRUPTED
    return Outcome.PASS if ended and not run.found else Outcome.UNDECIDED


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several limits.

    >>> worst([Outcome.PASS, Outcome.UNDECIDED])
    <Outcome.UNDECIDED: 'too few tests to tell'>
    """
    order = (Outcome.FAIL, Outcome.UNDECIDED)
    return next((outcome for outcome in order if outcome in outcomes), Outcome.PASS)
