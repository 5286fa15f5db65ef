"""Two runs compared, a model and the one that follows it: what was fixed, what is new, and how common each is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import level, percent, points, points_interval
from evenhand.criteria import Criterion
from evenhand.engine.judge import Judge
from evenhand.engine.probe import ModelProbe
from evenhand.errors import RunError
from evenhand.estimates.comparisons import Sureness, mcnemar
from evenhand.estimates.estimate import CHUNK, Plan, measured
from evenhand.estimates.pair_counts import Favour
from evenhand.estimates.populations import Everyone, target_of
from evenhand.runs.audit import check_arguments
from evenhand.runs.provenance import model_of
from evenhand.runs.replay import check_model
from evenhand.runs.run import Run
from evenhand.spaces.base import require
from evenhand.spaces.tabular import Space

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rates:
    """How common discrimination is by each of two models, asked about the same fresh individuals."""

    samples: int
    both: int
    """Treated differently by both models."""
    only_a: int
    only_b: int
    rate_a: float
    low_a: float
    high_a: float
    rate_b: float
    low_b: float
    high_b: float
    difference: float
    """The second share less the first."""
    low: float
    high: float
    p_value: float | None
    """McNemar's exact test of "no difference"; None where everyone was asked: nothing is left to chance."""
    confidence: float
    exact: bool

    @property
    def sentence(self) -> str:
        """Say it to a reader."""
        shares = f"{percent(self.rate_a)} of individuals by the first model, {percent(self.rate_b)} by the second"
        if self.exact:
            return f"{shares}: a difference of {points(self.difference)} points, exactly; everyone was judged"
        ends = f"{points_interval(self.low, self.high)} with {level(self.confidence)} confidence"
        sure = "fewer" if self.high < 0 else "more" if self.low > 0 else "no difference that the sample shows"
        return f"{shares}: a difference of {points(self.difference)} points, {ends} ({self.samples:,} asked; {sure})"


@dataclass(frozen=True)
class Compared:
    """What became of one model's findings with the other, and how the shares differ. Not made by hand."""

    run_a: Run = field(repr=False)
    run_b: Run = field(repr=False)
    fixed: Positions = field(repr=False)
    """Findings of the first run that the second model treats alike: where they stand."""
    still: Positions = field(repr=False)
    """Findings of the first run that the second model still treats differently."""
    new: Positions = field(repr=False)
    """Findings of the second run that the first model treats alike."""
    known: Positions = field(repr=False)
    """Findings of the second run that the first model treats differently as well."""
    rates: Rates

    @property
    def sentence(self) -> str:
        """Say in a few sentences what has changed."""
        old, new = len(self.fixed) + len(self.still), len(self.new) + len(self.known)
        # Before reading that all are fixed, the reader must know that the model may just not get the column.
        runs = (("first", self.run_a), ("second", self.run_b))
        notes = "".join(f"Of the {which} model: {run.note}. " for which, run in runs if run.note)
        return (
            f"{notes}Of the first run's {old:,} findings {len(self.fixed):,} are fixed and {len(self.still):,} are "
            f"still there. Of the second run's {new:,} findings {len(self.new):,} are new, {len(self.known):,} were "
            f"there before. Treated differently are {self.rates.sentence}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the counts and the rates in plain values."""
        counts = {name: len(getattr(self, name)) for name in ("fixed", "still", "new", "known")}
        return {**counts, "rates": asdict(self.rates), "sentence": self.sentence}

    def __repr__(self) -> str:
        return f"Compared: {self.sentence}"


def compare(
    run_a: Run,
    run_b: Run,
    model_a: Any = None,
    model_b: Any = None,
    *,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    timeout: float | None = None,
) -> Compared:
    """Compare a model with the one that follows it, by a run of each.

    Each run's findings are judged by the other model; and both models judge the same fresh individuals, drawn
    uniformly, so that the difference of the shares has a narrow interval.

    Parameters
    ----------
    run_a, run_b
        The earlier and the later run, of one space and one criterion.
    model_a, model_b
        Their models, anything that ``wrap`` takes; by default the runs' own, where they are available: in memory, or in
        an .onnx or .skops file that the command has written down.
    samples
        How many individuals both models are asked about; by default 100,000, and everyone in a small space.
    confidence
        How sure the intervals are to be.
    seed
        Same seed, same sample.
    timeout
        Seconds after which one model call is given up.

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
    check_arguments(seed, CHUNK, None, None, timeout, None)
    probes = []
    for run, model, name in ((run_a, model_a, "model_a"), (run_b, model_b, "model_b")):
        probe = ModelProbe(model_of(run, model, name=name), run.space, criterion, timeout)
        check_model(run, probe)
        probes.append(probe)
    rates = _rates(probes, run_a.space, criterion, Plan(samples=samples, confidence=confidence, repeats=1), seed)
    still, new = _unfair(probes[1], run_a), ~_unfair(probes[0], run_b)
    return Compared(
        run_a,
        run_b,
        np.flatnonzero(~still),
        np.flatnonzero(still),
        np.flatnonzero(new),
        np.flatnonzero(~new),
        rates,
    )


def _check_runs(run_a: Any, run_b: Any) -> Criterion:
    for run in (run_a, run_b):
        if not isinstance(run, Run):
            raise RunError(f"compare takes two eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")
        instead = "'evenhand replay RUN --model LATER' asks a later model about every finding"
        require(run.space, "attributes", "compare", instead)
    if run_a.space != run_b.space:
        raise RunError(
            f"the runs are about different spaces: {_differing(run_a.space, run_b.space)}; audit both models with one "
            "space, saved as TOML"
        )
    criteria: list[Criterion] = [run.identity.criterion for run in (run_a, run_b)]
    if criteria[0] != criteria[1]:
        raise RunError(
            f"the runs were judged by {criteria[0]} and by {criteria[1]}; audit both models with one criterion"
        )
    return criteria[0]


def _differing(first: Space, second: Space) -> str:
    """Say the first thing in which two spaces differ."""
    for one, other, words in ((first, second, "only the first has"), (second, first, "only the second has")):
        lacking = [name for name in one.names if name not in other.names]
        if lacking:
            return f"{words} {', '.join(map(repr, lacking[:3]))}"
    for a, b in zip(first.attributes, second.attributes, strict=True):
        if a.describe() != b.describe():
            if a.name != b.name:
                return f"the order of the attributes, {a.name!r} there and {b.name!r} here"
            return f"{a.name!r} is {a.allowed()} in the first and {b.allowed()} in the second"
    told = [space.describe() for space in (first, second)]
    return "they differ in " + ", ".join(key for key in told[0] if told[0][key] != told[1][key])


def _unfair(probe: ModelProbe, run: Run) -> npt.NDArray[np.bool_]:
    """Judge every finding of a run by a model: whether anybody of the family is treated differently."""
    judge = Judge(probe, run.identity.seed)
    parts = [slice(at, at + CHUNK) for at in range(0, run.found, CHUNK)]
    found = [judge.unfair(run.pairs.individuals("individual", part)) for part in parts]
    return np.concatenate([np.zeros(0, dtype=bool), *found])


def _rates(probes: list[ModelProbe], space: Space, criterion: Criterion, plan: Plan, seed: int) -> Rates:
    """Have both models judge the same individuals and count who is treated differently by which."""
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
    sure = Sureness(confidence, 0.0, exact=exact)
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
