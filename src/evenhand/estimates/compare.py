"""Compares the runs of two models: which findings are fixed or new, and how common discrimination is by each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import Viewed, level, percent, points, points_interval
from evenhand._validate import check_seed
from evenhand.criteria import Criterion
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.errors import RunError, StrategyError
from evenhand.estimates.estimate import CHUNK, Interval, Plan, measured
from evenhand.estimates.favoured import Confidence, mcnemar
from evenhand.estimates.pair_counts import Favour
from evenhand.estimates.populations import Everyone, target_of
from evenhand.runs.replay import check_model, model_of
from evenhand.runs.run import Run
from evenhand.spaces.base import require
from evenhand.spaces.tabular import Space

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rates:
    """How common discrimination is by each of two models, judged on the same fresh individuals."""

    samples: int
    both: int
    """Individuals treated differently by both models."""
    only_a: int
    only_b: int
    rate_a: float
    low_a: float
    high_a: float
    rate_b: float
    low_b: float
    high_b: float
    difference: float
    """The second share minus the first."""
    low: float
    high: float
    p_value: float | None
    """McNemar's exact test of "no difference"; None if all individuals were judged."""
    confidence: float
    exact: bool

    @property
    def sentence(self) -> str:
        """Both rates and their difference in one sentence."""
        shares = f"{percent(self.rate_a)} of individuals by the first model, {percent(self.rate_b)} by the second"
        if self.exact:
            return f"{shares}: a difference of {points(self.difference)} points, exactly: all individuals were judged"
        ends = f"{points_interval(self.low, self.high)} with {level(self.confidence)} confidence"
        sure = "fewer" if self.high < 0 else "more" if self.low > 0 else "no significant difference"
        return f"{shares}: a difference of {points(self.difference)} points, {ends} ({self.samples:,} judged; {sure})"


@dataclass(frozen=True)
class Compared(Viewed):
    """Which findings of each run the other model shares, and how the rates differ. Returned by ``eh.compare``."""

    run_a: Run = field(repr=False)
    run_b: Run = field(repr=False)
    fixed: Positions = field(repr=False)
    """Positions of findings of the first run that the second model treats equally."""
    still: Positions = field(repr=False)
    """Positions of findings of the first run that the second model still treats differently."""
    new: Positions = field(repr=False)
    """Positions of findings of the second run that the first model treats equally."""
    known: Positions = field(repr=False)
    """Positions of findings of the second run that the first model also treats differently."""
    rates: Rates

    @property
    def verdict(self) -> str:
        """Which model treats more individuals differently, and by how much."""
        r = self.rates
        clear = r.difference != 0 if r.exact else r.low > 0 or r.high < 0
        if not clear:
            same = "treat equally many individuals differently" if r.exact else "do not differ significantly"
            return f"The models {same}"
        worse, better = ("second", "first") if r.difference > 0 else ("first", "second")
        by = points(abs(r.difference)).removeprefix("+")
        span = points_interval(*sorted((abs(r.low), abs(r.high)))).removesuffix(" points").replace("+", "")
        ends = "" if r.exact else f" ({level(r.confidence)} CI {span})"
        return f"The {worse} model treats more individuals differently than the {better}, by {by} points{ends}"

    @property
    def sentence(self) -> str:
        """What has changed, in a few sentences."""
        old, new = len(self.fixed) + len(self.still), len(self.new) + len(self.known)
        # Comes first, because findings can look fixed only because the model does not receive the column.
        runs = (("first", self.run_a), ("second", self.run_b))
        notes = "".join(f"Of the {which} model: {run.note}. " for which, run in runs if run.note)
        return (
            f"{notes}Of the first run's {old:,} findings, {len(self.fixed):,} are fixed and {len(self.still):,} "
            "remain. "
            f"Of the second run's {new:,} findings, {len(self.new):,} are new and {len(self.known):,} are not. Treated "
            f"differently: {self.rates.sentence}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the rates as plain values."""
        counts = {name: len(getattr(self, name)) for name in ("fixed", "still", "new", "known")}
        return {"verdict": self.verdict, **counts, "rates": asdict(self.rates), "sentence": self.sentence}

    def __repr__(self) -> str:
        return f"Compared: {self.verdict}. {self.sentence}"


def compare(
    run_a: Run,
    run_b: Run,
    model_a: Any = None,
    model_b: Any = None,
    *,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Compared:
    """Compare two versions of a model by a run of each.

    Each model judges the findings of the other's run. Both also judge the same fresh individuals, drawn uniformly, so
    that the difference of the rates has a narrow interval.

    Parameters
    ----------
    run_a, run_b
        The earlier and the later run, with the same space and criterion.
    model_a, model_b
        Their models, in any form that ``wrap`` takes. By default the runs' own models: from memory, or from the file
        that the command line recorded, if loading it runs no code.
    samples
        Number of individuals that both models judge; by default 100,000, or all individuals of a small space.
    confidence
        Confidence level of the intervals.
    seed
        Same seed, same sample.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> runs = [eh.audit(lambda f, n=n: (f["age"] < n) & (f["sex"] == "F"), space, "themis") for n in (4, 3)]
    >>> compared = eh.compare(*runs)
    >>> len(compared.fixed), len(compared.still), len(compared.new)
    (1, 2, 0)
    """
    criterion = _check_runs(run_a, run_b)
    check_seed(seed, StrategyError)
    probes = []
    for run, model, name in ((run_a, model_a, "model_a"), (run_b, model_b, "model_b")):
        probe = ModelProbe(model_of(run, model, name=name), run.space, criterion)
        check_model(run, probe)
        probes.append(probe)
    plan = Plan(samples=samples, confidence=confidence, interval=Interval(repeats=1))
    rates = _rates(probes, run_a.space, criterion, plan, seed)
    still, new = _unfair(probes[1], run_a), ~_unfair(probes[0], run_b)
    return Compared(
        run_a, run_b, np.flatnonzero(~still), np.flatnonzero(still), np.flatnonzero(new), np.flatnonzero(~new), rates
    )


def _check_runs(run_a: Any, run_b: Any) -> Criterion:
    for name, run in (("run_a", run_a), ("run_b", run_b)):
        if not isinstance(run, Run):
            raise RunError("must be an eh.Run", parameter=name, value=run, remedy="eh.Run.load(directory) reads one")
        instead = "'evenhand replay RUN --model LATER' queries a later model about every finding"
        require(run.space, "attributes", "compare", instead)
    if run_a.space != run_b.space:
        raise RunError(
            f"the runs have different spaces: {_differing(run_a.space, run_b.space)}",
            remedy="audit both models with one space, saved as TOML",
        )
    criteria: list[Criterion] = [run.identity.criterion for run in (run_a, run_b)]
    if criteria[0] != criteria[1]:
        raise RunError(
            f"the runs have different criteria: {criteria[0]} and {criteria[1]}",
            remedy="audit both models with one criterion",
        )
    return criteria[0]


def _differing(first: Space, second: Space) -> str:
    """Describe the first difference between two spaces."""
    for one, other, words in ((first, second, "only the first has"), (second, first, "only the second has")):
        lacking = [name for name in one.names if name not in other.names]
        if lacking:
            return f"{words} {', '.join(map(repr, lacking[:3]))}"
    for a, b in zip(first.attributes, second.attributes, strict=True):
        if a.describe() != b.describe():
            if a.name != b.name:
                return f"the order of the attributes, {a.name!r} there and {b.name!r} here"
            return f"{a.name!r} is {a.allowed()} in the first and {b.allowed()} in the second"
    described = [space.describe() for space in (first, second)]
    return "they differ in " + ", ".join(key for key in described[0] if described[0][key] != described[1][key])


def _unfair(probe: ModelProbe, run: Run) -> npt.NDArray[np.bool_]:
    """Judge every finding of a run by a model: whether any member of its family is treated differently."""
    judge = Judge(probe, run.identity.seed)
    parts = [slice(at, at + CHUNK) for at in range(0, run.found, CHUNK)]
    found = [judge.unfair(run.pairs.individuals("individual", part)) for part in parts]
    return np.concatenate([np.zeros(0, dtype=bool), *found])


def _rates(probes: list[ModelProbe], space: Space, criterion: Criterion, plan: Plan, seed: int) -> Rates:
    """Have both models judge the same individuals, and count those that each treats differently."""
    target = target_of(plan, space, criterion, seed, CHUNK)
    surveys = []
    for probe in probes:
        found, survey = measured(plan, target, probe, Favour(probe.model, None), seed, CHUNK, keep_all=True)
        if found.stop == "interrupted":
            raise KeyboardInterrupt
        surveys.append(survey)
    first, second = (np.concatenate(survey.verdicts or []) for survey in surveys)
    members = np.concatenate(surveys[0].places) if surveys[0].places else None
    counts = np.bincount(2 * first + second, weights=members, minlength=4).astype(np.int64)
    return _counted(counts, plan.confidence, isinstance(target.population, Everyone))


def _counted(counts: npt.NDArray[np.int64], confidence: float, exact: bool) -> Rates:
    _, only_b, only_a, both = (int(n) for n in counts)
    samples = int(counts.sum())
    sure = Confidence(confidence, 0.0, exact=exact)
    (low_a, high_a), (low_b, high_b) = (sure.share(found, samples) for found in (both + only_a, both + only_b))
    low, high = sure.net(only_b, only_a, samples)
    return Rates(
        samples,
        both,
        only_a,
        only_b,
        (both + only_a) / samples,
        float(low_a),
        float(high_a),
        (both + only_b) / samples,
        float(low_b),
        float(high_b),
        (only_b - only_a) / samples,
        float(low),
        float(high),
        None if exact else float(mcnemar(only_a, only_b)),
        confidence,
        exact,
    )
