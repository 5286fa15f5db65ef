"""What an estimate is: a share, its interval, who is favoured, and how it came about."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import to_plain
from evenhand.criteria import Criterion
from evenhand.engine.unused import is_unaware, statement, unreached, unread
from evenhand.estimates.bounds import UNFINISHED, Aim, bounds
from evenhand.estimates.comparisons import Comparison, Sureness, compare, count, summary
from evenhand.estimates.favour import wish_json
from evenhand.estimates.plan import Plan
from evenhand.estimates.populations import Drawn, Everyone
from evenhand.estimates.subject import SurveyTarget
from evenhand.estimates.survey import Kept, Survey
from evenhand.estimates.tables import Table
from evenhand.estimates.terms import Term, frame_of
from evenhand.estimates.watching import Watch
from evenhand.estimates.words import ALL_ROWS, listed, more_of, said, sentence
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STOPS = {
    "samples": "all samples were taken",
    "half_width": "the interval was narrow enough",
    "seconds": "the time was up",
    "exhausted": "there was nobody left to ask",
    "stopped": "whoever watched it stopped it",
    "interrupted": "it was interrupted",
}
SHOWN = 8
NOT_RECEIVED = "not received"
"""The verdict and the interval where nothing protected reaches the model."""


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
    """How common it is to be treated differently, and how sure that is. Not made by hand."""

    rate: float
    low: float
    high: float
    confidence: float
    interval: str
    """Which interval it is; "exact" where nothing was left to chance, "not received" where nothing is to estimate."""
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
    """Share of rows, asked twice, that got two answers."""
    repeats: int
    """How often each row was asked."""
    misjudged: float
    """Bound on the share that the model's noise may have misjudged; the interval has it in."""
    sampled: bool
    """Whether individuals were compared with a sample of their counterparts, so that the share may be higher."""
    model: str
    criterion: Criterion
    favourable: Any
    tolerance: float
    space: Space | TextSpace = field(repr=False)
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
    """Families judged: an individual with its counterparts is one, whoever of them was drawn."""
    unused: tuple[str, ...] = ()
    """Attributes of the space that are known not to reach the model."""
    scored: tuple[int, int] | None = None
    """Where nobody was found: in how many families scores were compared, and in how many one changed."""

    @property
    def unaware(self) -> bool:
        """Whether no protected attribute is known to reach the model, so that nobody can be found."""
        return is_unaware(self.space, self.unused)

    @property
    def note(self) -> str | None:
        """What is known about attributes that the model does not use; None where there is nothing to say."""
        complete = self.exact and self.population == "uniform" and "left_out" not in self.counts
        said = statement(self.space, self.unused, self.found, self.families, self.scored, complete)
        return None if said is None else str(said)

    @property
    def unfinished(self) -> bool:
        """Whether everyone was to be asked and was not: the ends are what is certain, whoever is left."""
        return self.interval == UNFINISHED

    @property
    def exact(self) -> bool:
        """Whether the share is known and not estimated: everyone it is about was asked."""
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

    def __repr__(self) -> str:
        lines = [f"Estimate: {self.sentence}"]
        lines += [f"  {self.note}"] if self.note and not self.unaware else []
        shown = [c for c in self.comparisons if c.verdict not in ("none found", NOT_RECEIVED)]
        told = self.favourable is not None or any(c.difference is not None for c in shown)
        if len(self.comparisons) > 1 or told:
            shown = sorted(shown, key=lambda c: (len(c.first), -abs(c.net or c.rate)))[:SHOWN]
            lines += [f"  {said(c, self.score_of, self.confidence)}" for c in shown]
            rest = len(self.comparisons) - len(shown)
            lines += [f"  and {rest:,} more comparisons, see by_pair and by_combination"] * bool(shown and rest)
        lines += [f"  {one}" for one in self._by_scores()]
        return "\n".join(lines)

    def _by_scores(self) -> list[str]:
        """Say which terms the scores differ by most, where that is clear."""
        clear = [term for term in self.terms if (term.difference_low or 0) > 0 or (term.difference_high or 0) < 0]
        clear.sort(key=lambda term: -abs(term.difference or 0))
        lines = [more_of(term, self.score_of, self.confidence) for term in clear[:SHOWN]]
        return lines + [f"and {len(clear) - SHOWN:,} more terms, see by_term"] * (len(clear) > SHOWN)

    def plot_convergence(self) -> Figure:
        """Draw how the share settled while the sample grew, within the interval that holds at every moment."""
        from evenhand.estimates.plots import convergence

        return convergence(self)

    def plot_intervals(self) -> Figure:
        """Draw who is favoured, with intervals: net differences where it is known what people want, else rates."""
        from evenhand.estimates.plots import intervals

        return intervals(self)

    def plot_gaps(self) -> Figure:
        """Draw how far apart the scores of counterparts are."""
        from evenhand.estimates.plots import gaps

        return gaps(self)


def make(plan: Plan, subject: SurveyTarget, survey: Survey, stop: str, watch: Watch, seed: int) -> Estimate:
    """Make an estimate of a survey."""
    watched = plan.watched or watch.may_stop or stop in ("stopped", "interrupted")
    aim, judge, asker = subject.aim, survey.judge, survey.judge.asker
    found = bounds(plan, aim, survey, watched)
    # Of a model that wavers, as in the interval itself, half of the risk goes to the bound on the misjudged.
    confidence = 1 - (1 - plan.confidence) / 2 if judge.half else plan.confidence
    everyone = found.name == "exact" and not judge.half
    misjudged = found.noise * survey.tabled
    known = (survey.found, survey.samples, found.low, found.high)
    even = aim.weights is None
    sure = Sureness(confidence, plan.tolerance, watched, everyone, misjudged, survey.looks, known, even)
    # Of a count that did not come to its end nothing is known about single pairs.
    tables = [] if found.name == UNFINISHED else survey.tables
    directed, width = survey.favour.favourable is not None, survey.width
    unused = unread(asker)
    # What does not reach the model is not estimated: nobody can be treated differently by it.
    apart = unreached(survey.space, unused)
    low, high, interval = found.low, found.high, _named(found.name, survey)
    if is_unaware(survey.space, unused) and not survey.found:
        low, high, interval = 0.0, 0.0, interval if interval == "exact" else NOT_RECEIVED
    untestable = judge.untestable + subject.counts.get("untestable", 0)
    return Estimate(
        rate=found.rate,
        low=low,
        high=high,
        confidence=float(plan.confidence),
        interval=interval,
        samples=survey.samples,
        found=survey.found,
        population=plan.population,
        about=_about(plan, aim, survey),
        stop=stop,
        rows=judge.rows,
        rows_checked=survey.checked,
        seconds=watch.seconds,
        seed=seed,
        counts={**subject.counts, "untestable": untestable} | ({"left_out": judge.left_out} if judge.exclude else {}),
        noise=survey.noise,
        repeats=max(1, 2 * judge.half),
        misjudged=found.noise,
        sampled=survey.sampled,
        model=asker.model.name,
        criterion=asker.criterion,
        favourable=survey.favour.favourable,
        tolerance=float(plan.tolerance),
        space=survey.space,
        shares=tuple(_share(table, sure, apart) for table in tables),
        comparisons=tuple(compare(tables, sure, directed, width is not None and survey.favour.turned(width), apart)),
        score_of=() if width is None else survey.favour.scored(width),
        points=survey.points,
        kept=survey.kept,
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


def _about(plan: Plan, aim: Aim, survey: Survey) -> str:
    if isinstance(survey.population, Everyone):
        if survey.judge.left_out:
            return f"legal individuals such as the {survey.samples:,} whom the repair did not use"
        return f"all {survey.samples:,} legal individuals" if survey.complete else "all legal individuals"
    if plan.population == "uniform":
        return "uniformly drawn legal individuals"
    if plan.population == "near":
        return f"individuals within {plan.steps} steps of the data's rows"
    rows = "weighted rows" if aim.weights is not None or isinstance(survey.population, Drawn) else "rows"
    if aim.rows:
        size = survey.population.size
        return f"the data's {rows}" if size is None else f"the data's {size:,} {rows}"
    return f"the people of whom the data's {rows} are a random sample"


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
