"""The interface of repair methods: their inputs, the help that they can ask for, and their result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion
from evenhand.engine.judge import ModelProbe
from evenhand.engine.store import digest_of_answers
from evenhand.errors import EvenhandError, ModelError, StrategyError
from evenhand.estimates.estimate import estimate
from evenhand.models.base import Model
from evenhand.repairs.data import Labelled, LabelledTexts, judged
from evenhand.repairs.training import (
    FineTuning,
    Labels,
    Pairs,
    Start,
    Trainer,
    Voters,
    check_classes,
    fine_tune,
    own_labels,
    tunable,
)
from evenhand.runs.audit import audit
from evenhand.runs.run import Run
from evenhand.search import Strategy

STAGES = 1_000
"""Numbers of the random streams of one stage of fine-tuning, before those of the next."""
LONGEST = 64
"""Factor by which a search may exceed its budget to find the wanted number of individuals."""


@dataclass(frozen=True)
class Round:
    """One model that a method trained, and the figures that decided about it."""

    number: int
    percent: float
    """Wanted number of added rows, as a percentage of the training rows or of the findings."""
    wanted: int
    added: int
    """Number of findings that were added."""
    current: float
    """The estimated share of the model to be improved."""
    candidate: float
    """The same share for the model trained in this round, on the same individuals."""
    kept: bool


@dataclass
class Candidate:
    """The result of a method: a model, or None if the original is kept."""

    model: Any
    added: int = 0
    """Number of rows added to the training rows."""
    rounds: list[Round] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reason: str = "nothing changed"
    """Why the original is kept, if it is."""
    control: Callable[[], Any] | None = None
    """Trains the same model with nothing added; None if the method trains nothing."""
    cost: str = ""
    """What each prediction of the model costs more than the original's, in words."""


class Method(Protocol):
    """A repair: a frozen dataclass with one method. Its fields are its settings.

    Optional class attributes: ``search``, the search that finds what it trains with, and ``does``, a clause about it
    for the words of a comparison, such as "which adds counterparts".
    """

    def apply(self, context: RepairContext) -> Candidate:
        """Make a fairer model of the training rows."""
        ...


def seed_of(seed: int, what: str, number: int = 0) -> int:
    """Derive a seed: one purpose, one stream.

    >>> seed_of(0, "search") != seed_of(0, "choose")
    True
    """
    return int(Stream(seed).bits(f"r-{what}", 0, number)[0] >> np.uint64(1))


def check_start(method: Any) -> None:
    """Raise unless a method's ``start`` is one that training knows."""
    if method.start not in (None, "model", "scratch") and not isinstance(method.start, FineTuning):
        raise StrategyError(
            "must be 'model', 'scratch' or a FineTuning",
            parameter="start",
            value=method.start,
            remedy="leave it out for the default of each method",
        )


@dataclass
class RepairContext:
    """Training rows, the original model fitted on them, a way to train others, and findings, searched on demand.

    Everything random has its own seed: the search, the draws of a method, the estimates that it uses and, outside of
    it, the evidence.
    """

    rows: Any
    """``Labelled``, or ``LabelledTexts``."""
    trainer: Trainer
    original: Any
    seed: int
    criterion: Criterion
    strategy: Strategy
    budget: Budget
    tell: Callable[[str], object]
    used: Any
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Runs, voters and controls, shared by the methods of one comparison."""
    searched: bool = False
    """Whether the method has asked for findings."""

    def __post_init__(self) -> None:
        self._answers = self._digest(self.original)

    def with_strategy(self, strategy: Strategy) -> RepairContext:
        """Return the same context with another search."""
        other = copy.copy(self)
        other.strategy, other.searched = strategy, False
        return other

    @property
    def counted(self) -> str:
        """The population of ``rate``."""
        return "valid individuals" if isinstance(self.rows, Labelled) else "the findings to train with"

    @property
    def space(self) -> Any:
        """The space."""
        return self.rows.space

    @property
    def model(self) -> Model:
        """The original model, wrapped."""
        return self.trainer.wrap(self.original)

    @property
    def findings(self) -> Run:
        """The findings of a search in the original model, within the budget."""
        return self.find(0)

    def find(self, wanted: int) -> Run:
        """Search; if there are too few findings, continue beyond the budget: four times as far, and so on."""
        key, self.searched = ("run", repr(self.strategy)), True
        budget: Budget
        run: Run | None
        budget, run = self.cache.get(key) or (self.budget, None)
        while run is None or self._goes_on(run, wanted, budget):
            if run is not None:
                budget = _longer(budget, 4)
            self.tell(f"searching with {type(self.strategy).__name__.lower()}")
            seed = seed_of(self.seed, "search")
            run = audit(self.model, self.space, self.strategy, budget, seed, self.criterion, self.rows.data)
            if run.stop is StopReason.INTERRUPTED:
                raise KeyboardInterrupt
            self.cache[key] = budget, run
        return run

    def _goes_on(self, run: Run, wanted: int, budget: Budget) -> bool:
        spent = run.stop in (StopReason.TESTS, StopReason.ROWS, StopReason.SECONDS)
        return 0 < run.found < wanted and spent and _longer(self.budget, LONGEST) != budget

    @property
    def nothing(self) -> Candidate | None:
        """Return the result of a method that needs findings, if there are none."""
        run = self.findings
        if run.found:
            return None
        return Candidate(None, reason=f"nothing to repair: no findings in {run.tests:,} tests")

    def draw(self, n: int, number: int) -> Any:
        """Draw findings at random, each at most once."""
        found = self.findings.found
        at = Stream(seed_of(self.seed, "draw", number)).shuffled(np.arange(min(n, found)), found, "pick")
        return self.rows.findings(self.findings, np.sort(at))

    def unit(self, what: str, number: int) -> float:
        """Draw a number from 0 to 1."""
        return float(Stream(self.seed).unit(f"r-{what}", number, 0)[0])

    def label(self, people: Any, how: Labels, voters: Sequence[Any], blind: bool) -> npt.NDArray[Any]:
        """Label individuals."""
        seed = seed_of(self.seed, "voters")
        if how != "vote":
            return own_labels(self.model, self.rows, people, how, seed)
        key = ("voters", tuple(map(id, voters)), blind)
        if key not in self.cache:
            if voters or isinstance(self.rows, Labelled):
                self.tell("training the voters")
            self.cache[key] = Voters(self.rows, voters, seed, blind)
        return np.asarray(self.cache[key].label(people))

    def starts(self, start: Start | FineTuning | None) -> Start | FineTuning:
        """Resolve what training starts from; None: the model, if it is a network or the function accepts it."""
        if start == "scratch" or (start is None and not self.trainer.takes_start and not tunable(self.model)):
            return "scratch"
        if isinstance(start, FineTuning) or not self.trainer.continues(self.original):
            if not tunable(self.model):
                raise ModelError(
                    f"needs a model that can be trained further, and {self.trainer.name} cannot",
                    parameter="start",
                    value=start,
                    remedy="use start='scratch', or give a function train(X, y, start)",
                )
            return start if isinstance(start, FineTuning) else FineTuning()
        return "model"

    def train(self, added: Any, labels: npt.NDArray[Any], start: Start | FineTuning | None = "scratch") -> Any:
        """Train a model on the training rows and some more."""
        return self._checked(self._train(self.rows.plus(added, labels), len(added), self.starts(start)))

    def control(self, start: Start | FineTuning | None) -> Any:
        """Train on the same rows with nothing added, in another order, and with another seed if none is set."""
        key = ("control", self.starts(start))
        if key not in self.cache:
            self.tell("training the control")
            order = np.random.default_rng(seed_of(self.seed, "control")).permutation(len(self.rows))
            self.cache[key] = self._checked(self._train(self.rows.take(order), 0, key[1], 1))
        return self.cache[key]

    def tune(
        self, rows: Any, how: FineTuning, pairs: Callable[[Model, int], Pairs | None] | None = None,
        weight: float = 0.0, number: int = 0,
    ) -> Any:  # fmt: skip
        """Fine-tune the original network on rows; the answer is wrapped as the original is.

        ``pairs`` gives the pairs of counterparts of each stage, from the network at its start and the stage's number.
        """
        tuned = self.model
        for at, part in enumerate(how.parts):
            seed = seed_of(self.seed, "tune", number + STAGES * at)
            chosen = None if pairs is None else pairs(tuned, at)
            tuned = fine_tune(tuned, rows.asked(tuned), rows.truth, part, seed % 2**31, chosen, weight)
        return tuned if isinstance(self.original, Model) else tuned.source

    def _train(self, rows: Any, added: int, start: Start | FineTuning, number: int = 0) -> Any:
        if isinstance(start, FineTuning):
            return self.tune(rows, start, number=number)
        return self.trainer(rows, added, self.original if start == "model" else None, number)

    def _checked(self, model: Any) -> Any:
        """Raise if training returned, or changed, the original."""
        new = "make a new model in each call"
        if model is self.original:
            raise ModelError(f"{self.trainer.name} returned the same model again", remedy=new)
        if not self.intact:
            raise ModelError(f"{self.trainer.name} changed the model that it had returned before", remedy=new)
        check_classes(self.model, self.trainer.wrap(model))
        return model

    @property
    def intact(self) -> bool:
        """Whether the original still gives the same answers."""
        try:
            return self._digest(self.original) == self._answers
        except EvenhandError:
            return False

    def rate(self, model: Any, samples: int, number: int) -> float:
        """Estimate how common discrimination is, for a method's decisions; the evidence uses other individuals.

        Texts cannot be drawn uniformly: the rate is the share of the findings, or of a sample of them, that remain.
        """
        wrapped = self.trainer.wrap(model)
        if isinstance(self.rows, LabelledTexts):
            some = self.draw(samples, 1_000_000 + number)
            return float(judged(wrapped, self.space, some.rows, self.criterion, self.seed)[1].mean())
        seed = seed_of(self.seed, "choose", number)
        found = estimate(wrapped, self.space, samples=samples, criterion=self.criterion, seed=seed)
        if found.stop == "interrupted":
            raise KeyboardInterrupt
        return found.rate

    def _digest(self, model: Any) -> str:
        labels, scores = ModelProbe(self.trainer.wrap(model), self.rows.bound, self.criterion).both(self.rows.probes)
        return digest_of_answers(labels if scores is None else scores)


def _longer(budget: Budget, times: int) -> Budget:
    """Return a budget of several times as much.

    >>> _longer(Budget(tests=10), 4).tests
    40
    """

    def more(value: Any) -> Any:
        return None if value is None else times * value

    return replace(budget, tests=more(budget.tests), rows=more(budget.rows), seconds=more(budget.seconds))
