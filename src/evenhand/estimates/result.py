"""What an estimate is: a share, its interval, who is favoured, in figures and in words; and limits on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import (
    Figure,
    Sentence,
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
from evenhand._validate import is_int
from evenhand.budget import StopReason
from evenhand.criteria import Criterion, Flip
from evenhand.engine.unused import is_unaware, statement, unreached, unread
from evenhand.errors import BudgetError
from evenhand.estimates.comparisons import Comparison, Sureness, compare, count, summary
from evenhand.estimates.pair_counts import KEPT, Table, Term, frame_of, wish_json
from evenhand.estimates.populations import Everyone, Near, RowDraws, Target, Uniform
from evenhand.estimates.survey import UNFINISHED, Kept, Survey, Watch, bounds
from evenhand.spaces.base import AnySpace, table

if TYPE_CHECKING:
    import pandas as pd
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
"""The verdict and the interval where nothing protected reaches the model."""
ALL_ROWS = "all rows, counterparts sampled"
"""The interval of rows that were all judged, but each by a sample of its counterparts."""
LONGEST = 60
"""Characters of a decision that are shown within a sentence."""


@dataclass(frozen=True)
class Share:
    """How many are treated differently when only some protected attributes change."""

    attributes: tuple[str, ...]
    compared: float
    """Individuals; with weights, so many of equal weight as say as much."""
    found: float
    rate: float
    low: float
    high: float


@dataclass
class Estimate:
    """How common it is to be treated differently, with a confidence interval. Made by ``estimate``."""

    rate: float
    low: float
    high: float
    confidence: float
    interval: str
    """The kind of interval; "exact" without sampling, "not received" where there is nothing to estimate."""
    samples: int
    """Individuals judged."""
    found: int
    population: str
    about: str
    """What the interval is for, in words."""
    stop: str
    rows: int
    """Rows handed to the model."""
    rows_checked: int
    seconds: float
    seed: int
    counts: dict[str, int]
    """Individuals without counterparts; data rows in all, clipped and dropped."""
    noise: float
    """Share of rows, queried twice, that got two answers."""
    repeats: int
    """How often each row was queried."""
    misjudged: float
    """Bound on the share that the model's noise may have misjudged; the interval has it in."""
    sampled: bool
    """Whether individuals were compared with a sample of their counterparts, so that the share may be higher."""
    model: str
    criterion: Criterion
    favourable: Any
    tolerance: float
    space: AnySpace = field(repr=False)
    shares: tuple[Share, ...] = field(repr=False)
    comparisons: tuple[Comparison, ...] = field(repr=False)
    """Pairs of values of each protected attribute, then of combinations of several."""
    points: list[tuple[int, int]] = field(repr=False)
    """How the sample grew: individuals judged, and found."""
    kept: Kept = field(repr=False)
    score_of: tuple[Any, ...] = ()
    """Of a criterion that looks at scores: the decisions whose score is compared; none: the model's own number."""
    terms: tuple[Term, ...] = field(default=(), repr=False)
    """Of texts: how often they get which decision with each term in place."""
    families: int = 0
    """Families judged: an individual and its counterparts are one family."""
    unused: tuple[str, ...] = ()
    """Attributes of the space that are known not to reach the model."""
    scored: tuple[int, int] | None = None
    """Without findings: the families whose scores were compared, and those where one changed."""

    @property
    def unaware(self) -> bool:
        """Whether no protected attribute reaches the model, so nothing can be found."""
        return is_unaware(self.space, self.unused)

    @property
    def note(self) -> str | None:
        """What is known about attributes that the model does not use; None where there is nothing to say."""
        complete = self.exact and self.population == "uniform" and "left_out" not in self.counts
        said = statement(self.space, self.unused, self.found, self.families, self.scored, complete)
        return None if said is None else str(said)

    @property
    def unfinished(self) -> bool:
        """Whether all were to be tested and some were not: the interval holds whatever the rest are."""
        return self.interval == UNFINISHED

    @property
    def exact(self) -> bool:
        """Whether the share is known and not estimated: all were tested."""
        return self.interval == "exact"

    @property
    def by_attribute(self) -> pd.DataFrame:
        """How many are treated differently when one protected attribute, or several together, change."""
        import pandas as pd

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
        """Of texts: how many of the same texts get each decision with one term in place, and with another."""
        return frame_of(self.terms)

    @cached_property
    def gaps(self) -> npt.NDArray[np.float64] | None:
        """The widest gap of scores in each family, of the first 50,000 individuals; None where there are no scores."""
        return np.concatenate(self.kept.gaps) if self.kept.gaps else None

    @property
    def severity(self) -> dict[str, dict[str, float]] | None:
        """The gaps of all, and of those treated differently: mean, quantiles, largest."""
        if self.gaps is None:
            return None
        unfair, weights = self.kept.verdicts(), self.kept.weight()
        out = {"everyone": summary(self.gaps, weights)}
        if unfair.any():
            out["treated differently"] = summary(self.gaps[unfair], None if weights is None else weights[unfair])
        return out

    @property
    def verdict(self) -> str:
        """Say whether people are treated differently.

        "treated differently", "none found", "insufficient evidence"; "not received" where the model does not get the
        protected attributes at all.
        """
        if self.low > 0:
            return "treated differently"
        if self.unaware:
            return NOT_RECEIVED
        sure = self.high <= self.tolerance and not self.found and not self.sampled
        return "none found" if sure else "insufficient evidence"

    @property
    def sentence(self) -> str:
        """Say the result in one sentence."""
        return sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        skipped = ("space", "criterion", "kept", "shares", "comparisons", "points", "favourable", "gaps", "terms")
        out = {
            **{name: value for name, value in vars(self).items() if name not in skipped},
            "criterion": self.criterion.to_dict(),
            "exact": self.exact,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "favourable": wish_json(self.favourable),
            "severity": self.severity,
            "by_attribute": [asdict(share) for share in self.shares],
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "points": self.points,
            "by_term": [{**asdict(term), "shares": dict(term.shares)} for term in self.terms],
            "note": self.note,
        }
        return {name: to_plain(value) for name, value in out.items()}

    @property
    def details(self) -> list[str]:
        """Who is favoured, in a line for each comparison, and other remarks."""
        lines = [self.note] if self.note and not self.unaware else []
        shown = [c for c in self.comparisons if c.verdict not in ("none found", NOT_RECEIVED)]
        told = self.favourable is not None or any(c.difference is not None for c in shown)
        if len(self.comparisons) > 1 or told:
            shown = sorted(shown, key=lambda c: (len(c.first), -abs(c.net or c.rate)))[:SHOWN]
            lines += [said(c, self.score_of, self.confidence) for c in shown]
            rest = len(self.comparisons) - len(shown)
            lines += [f"and {rest:,} more comparisons, see by_pair and by_combination"] * bool(shown and rest)
        return lines + self._by_scores()

    def __repr__(self) -> str:
        return "\n  ".join([f"Estimate: {self.sentence}", *self.details])

    def _by_scores(self) -> list[str]:
        """Say which terms the scores differ by most, where that is clear."""
        clear = [term for term in self.terms if (term.difference_low or 0) > 0 or (term.difference_high or 0) < 0]
        clear.sort(key=lambda term: -abs(term.difference or 0))
        lines = [more_of(term, self.score_of, self.confidence) for term in clear[:SHOWN]]
        return lines + [f"and {len(clear) - SHOWN:,} more terms, see by_term"] * (len(clear) > SHOWN)

    def plot_convergence(self) -> Plot:
        """Draw how the share settled while the sample grew, within the interval that holds at every moment."""
        from evenhand.estimates.plots import convergence

        return convergence(self)

    def plot_intervals(self) -> Plot:
        """Draw who is favoured, with intervals: net differences where it is known what people want, else rates."""
        from evenhand.estimates.plots import intervals

        return intervals(self)

    def plot_gaps(self) -> Plot:
        """Draw how far apart the scores of counterparts are."""
        from evenhand.estimates.plots import gaps

        return gaps(self)


def make(plan: Plan, target: Target, survey: Survey, stop: str, watch: Watch, seed: int) -> Estimate:
    """Make an estimate of a survey."""
    watched = plan.watched or plan.stop.may_stop or stop in ("stopped", "interrupted")
    aim, judge, probe, terms = target.aim, survey.judge, survey.judge.probe, survey.terms
    found = bounds(plan, aim, survey, watched)
    # For a non-deterministic model half of the risk goes to the bound on the misjudged, as in the interval.
    confidence = 1 - (1 - plan.confidence) / 2 if judge.half else plan.confidence
    everyone = found.name == "exact" and not judge.half
    misjudged = found.noise * survey.tabled
    known = (survey.found, survey.samples, found.low, found.high)
    even = aim.weights is None
    sure = Sureness(confidence, plan.interval.tolerance, watched, everyone, misjudged, survey.looks, known, even)
    # An unfinished count says nothing about single pairs.
    tables = [] if found.name == UNFINISHED else survey.tables
    directed, width = survey.favour.favourable is not None, survey.width if terms is None else terms.width
    unused = unread(probe)
    # What does not reach the model is not estimated: no individual can be treated differently by it.
    apart = unreached(survey.space, unused)
    low, high, interval = found.low, found.high, _named(found.name, survey)
    if is_unaware(survey.space, unused) and not survey.found:
        low, high, interval = 0.0, 0.0, interval if interval == "exact" else NOT_RECEIVED
    counts = {**target.counts, "untestable": judge.untestable + target.counts.get("untestable", 0)}
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
    """Name an interval; nothing is exact that noise or a sample of counterparts may have hidden."""
    if interval != "exact":
        return interval
    if survey.judge.half:
        return "exact but for noise"
    return ALL_ROWS if survey.sampled else interval


def _share(table: Table, sure: Sureness, unreached: frozenset[str]) -> Share:
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
    if target.aim.weights is not None or isinstance(survey.population, RowDraws):
        rows = f"weighted {rows}"
    which = " with a protected term" if texts else ""
    if target.aim.rows:
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
    import pandas as pd

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
    """Write protected values as a reader says them.

    >>> listed({"sex": "F", "race": "black"})
    'sex F, race black'
    """
    return ", ".join(phrase(name, value) for name, value in values.items())


def treated(space: AnySpace, criterion: Criterion) -> str:
    """Say what is counted of people, after "are".

    Scores are compared between any two of a family, so of more than two values those farthest apart need not include
    the individual's own.

    >>> from evenhand.criteria import Gap
    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Nominal("race", ["A", "B", "C"])], protected="race")
    >>> treated(space, Flip()), treated(space, Gap(0.2))
    ('treated differently', 'such that some two values of race are treated differently')
    """
    texts = space.supports("texts")
    if criterion == Flip() or (not texts and table(space).combinations <= 2):
        return "treated differently"
    what = "words" if texts else "values" if len(space.protected) == 1 else "combinations"
    return f"such that some two {what} of {' and '.join(map(plain, space.protected))} are treated differently"


def noun(space: AnySpace) -> str:
    """Name what is judged.

    >>> from evenhand.spaces.text.space import TextSpace
    >>> noun(TextSpace("religion"))
    'texts'
    """
    return f"{space.noun}s"


def sentence(e: Estimate) -> str:
    """Say the share, its population and its interval."""
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
            f"{e.found:,} of the {e.samples:,} judged so far, of {of}, are {how}; so between "
            f"{interval(e.low, e.high)} of all are, whatever the rest{more}"
        )
    if e.sampled and e.interval == ALL_ROWS:
        many = percent(e.rate) if e.found else "none"
        return f"{many} of {of} {'are' if e.found else 'is'} found to be {how}; all were tested{more}"
    if e.exact:
        if not e.found:
            return f"none of {of} is {how}; all were tested{more}"
        return f"exactly {percent(e.rate)} of {of} are {how}; all were tested{more}"
    if not e.found:
        what = " would be found so by these counterparts" if e.sampled else ""
        bound = f"at most {high(e.high)}{what} with {sure} confidence"
        return f"none of {e.samples:,} tested is {how}: {bound}, of {of}{sample}{more}"
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
    """Say who of the two gets more, and how much on average; None where no numbers were compared.

    ``scored`` names the decisions whose score is compared; none: the model's own number. Somebody is said to get more
    where the interval that is shown excludes 0.

    >>> from evenhand.estimates.comparisons import Comparison
    >>> c = Comparison({"sex": "F"}, {"sex": "M"}, 9, 9, 1, 1, 1, *[None] * 7, None, "different", -412.3, -444, -380)
    >>> print(more(c, (), 0.95))
    sex M gets 412 more than sex F on average (95% CI 380 to 444)
    >>> print(more(c, ("good",), 0.95))
    sex M scores 412 higher for “good” than sex F on average (95% CI 380 to 444)
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
        # Of more pairs the gaps of the first alone are known.
        if c.pairs > KEPT:
            return Sentence(f"{same} on average", (who, other, *names))
        return Sentence(f"{same} in all {{}} asked", (who, other, *names, Figure(c.pairs, "count")))
    if c.difference_low is None or c.difference_high is None:
        few = "too few pairs differ to say how sure that is"
        return Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average ({few})", (who, much, *names, other))
    if not (c.difference or c.difference_low or c.difference_high):
        return Sentence(f"{same} on average", (who, other, *names))
    ends = (Figure(c.difference_low, "size_low"), Figure(c.difference_high, "size_high"))
    ends, sure = ends[::-1] if turned else ends, Figure(confidence, "level")
    if c.difference_low <= 0 <= c.difference_high:
        clear = f"it is not clear whether {{}} {gets} {up}{of} than {{}} on average ({{}} CI {{}} {down} to {{}} {up})"
        return Sentence(clear, (who, *names, other, sure, *ends))
    said = Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average", (who, much, *names, other))
    known = c.difference_low == c.difference_high
    return said if known else said + Sentence(" ({} CI {} to {})", (sure, *ends))


def more_of(term: Term, scored: tuple[Any, ...], confidence: float) -> str:
    """Say of a term that has an interval how much higher or lower texts are scored with it, on average.

    >>> from evenhand.estimates.pair_counts import Term
    >>> more_of(Term("religion", "Sikh", 40, (), 0.5, -0.21, -0.22, -0.2), ("toxic",), 0.95)
    'with “Sikh” the score for “toxic” is 0.21 lower than with the other terms of religion (95% CI 0.2 to 0.22)'
    """
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


def said(c: Comparison, scored: tuple[Any, ...] = (), confidence: float = 0.95) -> str:
    """Say a comparison in one line.

    >>> from evenhand.estimates.comparisons import Comparison
    >>> c = Comparison({"sex": "F"}, {"sex": "M"}, 1000, 90, 0.09, 0.07, 0.11, 10, 80, 0.09, -0.07, -0.09, -0.05, 1e-9,
    ...                None, "favours second")
    >>> said(c)
    'sex M favoured over sex F: net 7% (5% to 9%), M in 8% of pairs, F in 1%'
    """
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
    """Whether a limit is kept."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "too few tests to say"


@dataclass(frozen=True)
class Limit:
    """At most so many findings of a search, or at most such a share of individuals.

    >>> Limit.of(3), Limit.of("5%")
    (Limit(findings=3, share=None), Limit(findings=None, share=0.05))
    """

    findings: int | None = None
    share: float | None = None

    @classmethod
    def of(cls, value: Any) -> Limit:
        """Read a limit: a whole number of findings, or a text such as "5%"."""
        if isinstance(value, cls):
            return value
        if is_int(value) and value >= 0:
            return cls(findings=int(value))
        if isinstance(value, str) and value.strip().endswith("%"):
            try:
                share = float(value.strip()[:-1]) / 100
            except ValueError:
                share = -1.0
            if 0 <= share <= 1:
                return cls(share=share)
        raise BudgetError(f"a limit is a number of findings, 0 or more, or a share such as '5%'; got {value!r}")

    def of_run(self, run: Run) -> Outcome:
        """Judge a search by the number of its findings; more of them are known whenever it ended."""
        assert self.findings is not None
        if run.found > self.findings:
            return Outcome.FAIL
        return Outcome.UNDECIDED if not run.tests or run.stop is StopReason.INTERRUPTED else Outcome.PASS

    def of_estimate(self, found: Estimate) -> Outcome:
        """Judge an estimate by its interval: beyond the limit, within it, or neither.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
        >>> Limit(share=0.05).of_estimate(eh.estimate(lambda f: f["age"] > 3, space)).value
        'pass'
        """
        assert self.share is not None
        if found.unaware and not found.found:
            return Outcome.PASS
        if found.exact:
            return Outcome.FAIL if found.rate > self.share else Outcome.PASS
        if found.low > self.share:
            return Outcome.FAIL
        return Outcome.PASS if found.high <= self.share else Outcome.UNDECIDED

    def __str__(self) -> str:
        return f"{self.findings:,} findings" if self.share is None else percent(self.share)
