"""Fresh evidence about a model, on individuals that no repair used, and the decision whether to accept it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion
from evenhand.engine.probe import ModelProbe
from evenhand.errors import EstimateError, MissingExtra, SpaceError
from evenhand.estimates.estimate import CHUNK, Plan, measured
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.pair_counts import Favour
from evenhand.estimates.populations import SMALL, Data, target_of
from evenhand.estimates.result import Estimate
from evenhand.models.base import Model
from evenhand.repairs.context import Candidate, seed_of
from evenhand.repairs.data import Labelled, LabelledTexts, judged
from evenhand.repairs.metrics import Answers, Calibration, Interval, accuracy, answers, auc, calibration
from evenhand.repairs.result import change, not_shown, rate_difference
from evenhand.repairs.training import Trainer
from evenhand.runs.audit import run_search
from evenhand.runs.run import Run
from evenhand.search import Strategy
from evenhand.spaces.base import AnySpace
from evenhand.spaces.tabular import Space

WATCHED, FEWEST = 20_000, 2_000
"""Rows, at most, by which a watched attribute is judged; and individuals, at least."""
STRATA = 8
"""Values of an ordered attribute, from its lower to its upper end, that a watched individual is compared with."""
FEW = 20
"""Tests that are too few to show anything by, where the repair used the others."""
Mask = npt.NDArray[np.bool_]


@dataclass
class Evidence:
    """What is known of a model from individuals that the repair did not use. Not made by hand."""

    uniform: Estimate | None
    """Of valid individuals, each as likely as any other; None where the repair used them all, and of texts."""
    data: Estimate | None
    """Of the held-out rows or texts; None where the repair used the tests of all of them."""
    audit: Run
    """A search that the repair did not use."""
    accuracy: Interval
    auc: Interval | None
    calibration: Calibration | None
    groups: Groups | None
    """Where it is known what people want, and the extra ``fairness`` is there."""
    others: dict[str, Estimate]
    """How common it is that one other attribute alone makes a difference."""
    said: Answers = field(repr=False)
    verdicts: dict[str, Mask] = field(repr=False)
    """Verdicts of the samples, in order, for comparing two models on the same individuals."""
    kept: float | None = None
    """Of texts: the share of what the check found in the original model, and can be read anew, that this one treats
    differently; 1 for the original itself, None where nothing was found."""

    def estimate(self, name: str) -> Estimate | None:
        """Return an estimate by its name: "uniform", "data", or a watched attribute's; None where there is none."""
        return {"uniform": self.uniform, "data": self.data, **self.others}.get(name)

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            "uniform": None if self.uniform is None else self.uniform.to_dict(),
            "data": None if self.data is None else self.data.to_dict(),
            "audit": self.audit.to_dict(),
            "accuracy": asdict(self.accuracy),
            "auc": None if self.auc is None else asdict(self.auc),
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "groups": None if self.groups is None else self.groups.to_dict(),
            "others": {name: {"rate": e.rate, "low": e.low, "high": e.high} for name, e in self.others.items()},
            **({} if self.kept is None else {"kept": self.kept}),
        }


@dataclass
class EvidencePlan:
    """What is asked of the original and of the repaired model, with the same individuals for both."""

    held: Labelled | LabelledTexts
    used: Any
    criterion: Criterion
    check: Strategy
    budget: Budget
    samples: int
    confidence: float
    favourable: Any
    watch: Sequence[str]
    movable: Sequence[str]
    """Attributes to which discrimination might have moved, watched or not."""
    seed: int
    tell: Callable[[str], object]
    notes: list[str] = field(default_factory=list)
    """What could not be found out, and why."""
    found: list[str] | None = field(default=None, init=False)
    """Of texts: what the check found in the original model, by which the repaired one is judged."""

    @property
    def shown_by(self) -> str:
        """The share that must be of enough people to show what changed."""
        return "uniform" if isinstance(self.held, Labelled) else "data"

    def gather(self, model: Model, who: str) -> Evidence:
        """Gather evidence about a model; the original's comes first."""
        self.tell(f"estimating {who}")
        said, verdicts = answers(model, self.held), {}
        found: dict[str, Estimate] = {}
        spaces = [("data", Plan(Data(self.held.data), confidence=self.confidence), self.held.space)]
        if isinstance(self.held, Labelled):
            spaces.insert(0, ("uniform", self._uniform(self.held.space), self.held.space))
            spaces += [self._watched(alone(self.held.space, name)) for name in self.watch]
        for number, (name, one, space) in enumerate(spaces):
            try:
                found[name], verdicts[name] = self._estimate(model, space, one, number)
            except (EstimateError, SpaceError):
                # No individual is left to ask, or none has a counterpart in this attribute: there is nothing to report.
                continue
        self.tell(f"searching {who} with {type(self.check).__name__.lower()}")
        run = self._audit(model)
        return Evidence(
            found.pop("uniform", None),
            found.pop("data", None),
            run,
            accuracy(said, self.confidence),
            auc(said, self.confidence),
            calibration(said, self.confidence, seed_of(self.seed, "boots")),
            self._groups(model),
            found,
            said,
            verdicts,
            self._kept(model, run),
        )

    def _uniform(self, space: Space) -> Plan:
        """Ask so many; or, rather than repeating the same ones, all individuals that the repair did not use."""
        tests = space.tests
        every = tests <= SMALL and tests - len(self.used) <= self.samples
        return Plan(samples=max(self.samples, tests) if every else self.samples, confidence=self.confidence)

    @property
    def held_added(self) -> int:
        """How many held-out rows are the same as one that the repair added."""
        return int(self.used.added(self.held.people).sum())

    def few(self, evidence: Evidence) -> bool:
        """Whether the repair used so many that too few individuals are left to show anything."""
        found = evidence.estimate(self.shown_by)
        if found is None:
            return len(self.used) > 0 or self.shown_by == "data"
        return found.counts["left_out"] > 0 and len(evidence.verdicts[self.shown_by]) < min(FEW, self.samples)

    def _watched(self, space: Space) -> tuple[str, Plan, Space]:
        enough = max(FEWEST, WATCHED // space.width)
        return space.protected[0], Plan(samples=min(self.samples, enough), confidence=self.confidence), space

    def _estimate(self, model: Model, space: AnySpace, plan: Plan, number: int) -> tuple[Estimate, Mask]:
        seed = seed_of(self.seed, "final", number)
        favour = Favour(model, self.favourable if space is self.held.space else None)
        target = target_of(plan, space, self.criterion, seed, CHUNK)
        probe = ModelProbe(model, target.ground, self.criterion)
        result, survey = measured(plan, target, probe, favour, seed, exclude=self.used.barring(seed))
        if result.stop == "interrupted":
            raise KeyboardInterrupt
        assert survey.verdicts is not None
        return result, np.concatenate(survey.verdicts)

    def _audit(self, model: Model) -> Run:
        space, seed = self.held.space, seed_of(self.seed, "audit")
        run = run_search(model, space, self.check, self.budget, seed, self.criterion, self.held.data, exclude=self.used)
        if run.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    def _kept(self, model: Model, run: Run) -> float | None:
        """Of texts, say which share of what was found in the original model this one treats differently.

        Read anew, a text may have another family than in the search, because an edited word can be a term or take one
        away; so the set is what the original model is found to treat differently when it reads the texts anew.
        """
        held, seed = self.held, seed_of(self.seed, "final", 1)
        if isinstance(held, Labelled):
            return None
        if self.found is None:
            count = run.found
            some = np.unique(np.linspace(0, count - 1, min(count, self.samples)).round().astype(np.int64))
            texts = run.pairs.rows(at=some) if count else []
            positions, unfair = judged(model, held.space, texts, self.criterion, seed)
            self.found = [texts[at] for at in positions[unfair].tolist()]
            return 1.0 if self.found else None
        if not self.found:
            return None
        return float(judged(model, held.space, self.found, self.criterion, seed)[1].mean())

    def _groups(self, model: Model) -> Groups | None:
        if self.favourable is None or not isinstance(self.held, Labelled):
            return None
        try:
            return groups(
                model, self.held.space, self.held.frame, self.favourable, y=self.held.truth, confidence=self.confidence
            )
        except MissingExtra as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return None


def movable(space: Space) -> list[str]:
    """Name the attributes to which discrimination might move: protected ones apart, then nominal, then ordered ones.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal
    >>> movable(Space([Integer("age", 1, 9), Boolean("member"), Nominal("sex", ["F", "M"])], protected="sex"))
    ['member', 'age']
    """
    apart = list(space.protected) if len(space.protected) > 1 else []
    free = [a for a in space.attributes if a.name in space.free and a.size > 1]
    return apart + [a.name for a in sorted(free, key=lambda a: a.ordered and a.size > 2)]


def alone(space: Space, name: str) -> Space:
    """Return the space with one attribute protected and no other; of many ordered values a few stand for all."""
    links = {name: space.links[name]} if name in space.links else None
    limit = STRATA if space.attributes[space.column(name)].ordered else space.max_family_size
    return Space(
        space.attributes, [name], [c.text for c in space.constraints], links, min(limit, space.max_family_size)
    )


@dataclass(frozen=True)
class Judged:
    """Evidence before and after, and what speaks against the new model."""

    before: Evidence
    after: Evidence | None = None
    """None where a method made no model."""
    objection: str = ""

    @property
    def accepted(self) -> Evidence | None:
        """The evidence about a new model that nothing speaks against; None where there is no such model."""
        return None if self.objection else self.after

    def looked_at(self, attribute: str) -> bool:
        """Whether it is known of both models how many people an attribute makes a difference to."""
        return all(attribute in one.others for one in (self.before, self.after or self.before))


def judge(candidate: Candidate, plan: EvidencePlan, original: Model, trainer: Trainer) -> Judged:
    """Gather evidence; a model that is surely worse, by either share, or of which nothing can be shown is refused."""
    before = plan.gather(original, "the original model")
    if candidate.model is None:
        return Judged(before)
    after = plan.gather(trainer.wrap(candidate.model), "the repaired model")
    if plan.few(before):
        return Judged(before, after, not_shown(before, plan.shown_by))
    for name in ("uniform", "data"):
        by = rate_difference(before, after, name, plan.confidence)
        if by is not None and by.low > 0:
            return Judged(before, after, f"made worse: {change('discrimination', name, before, after, by)}")
    return Judged(before, after)
