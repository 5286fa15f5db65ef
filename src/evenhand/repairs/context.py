"""What a repair method gets, what it may ask for, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion
from evenhand.engine.probe import ModelProbe
from evenhand.errors import EvenhandError, ModelError
from evenhand.estimates.estimate import estimate
from evenhand.repairs.data import Labelled, LabelledTexts, judged
from evenhand.repairs.training import Trainer, Voters, Whose, check_classes
from evenhand.runs.audit import audit, digest_of_answers
from evenhand.runs.run import Run
from evenhand.search import Strategy


@dataclass(frozen=True)
class Round:
    """One model that a method trained, and what its decision about it was made of."""

    number: int
    percent: float
    """How many rows were wanted, in per cent: of the training rows, or of the findings."""
    wanted: int
    added: int
    current: float
    """The estimated share of the model that was to be bettered."""
    candidate: float
    """That of the model trained in this round, on the same individuals."""
    kept: bool


@dataclass
class Candidate:
    """What a method made: a model, or None where the original stays."""

    model: Any
    added: int = 0
    rounds: list[Round] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reason: str = "nothing changed"
    """Why the original stays, where it does."""


class Method(Protocol):
    """A repair: a frozen dataclass with one method. Its fields are its settings."""

    def apply(self, context: RepairContext) -> Candidate:
        """Make a fairer model of the training rows."""
        ...


def seed_of(seed: int, what: str, number: int = 0) -> int:
    """Derive a seed: one purpose, one stream.

    >>> seed_of(0, "search") != seed_of(0, "choose")
    True
    """
    return int(Stream(seed).bits(f"r-{what}", 0, number)[0] >> np.uint64(1))


@dataclass
class RepairContext:
    """Training rows, the original model fitted on them, a way to train others, and findings, searched when asked for.

    Everything random has a seed of its own: the search, the draws of a method, the estimates that it decides by, and,
    outside of it, the evidence.
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

    @property
    def counted(self) -> str:
        """The individuals that ``rate`` gives a share of."""
        return "valid individuals" if isinstance(self.rows, Labelled) else "the findings to train with"

    def __post_init__(self) -> None:
        self._answers = self._digest(self.original)

    @property
    def space(self) -> Any:
        """The space."""
        return self.rows.space

    @cached_property
    def findings(self) -> Run:
        """What a search finds in the original model."""
        self.tell(f"searching with {type(self.strategy).__name__.lower()}")
        run = audit(
            self.trainer.wrap(self.original),
            self.space,
            self.strategy,
            self.budget,
            seed_of(self.seed, "search"),
            self.criterion,
            self.rows.data,
        )
        if run.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    @property
    def nothing(self) -> Candidate | None:
        """What a method that needs findings hands back where there are none."""
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

    def voters(self, given: Sequence[Any]) -> Voters:
        """Train the voters."""
        if given or isinstance(self.rows, Labelled):
            self.tell("training the voters")
        return Voters(self.rows, given, seed_of(self.seed, "voters"), self.trainer.wrap(self.original))

    def train_with(self, people: Any, voters: Voters, whose: Whose) -> Any:
        """Train a model on the training rows and some individuals, labelled by vote."""
        self.used.add(people)
        return self.train(self.rows.written(people.rows), voters.label(people, whose))

    def train(self, added: Any, labels: npt.NDArray[Any]) -> Any:
        """Train a model on the training rows and some more."""
        model = self.trainer(self.rows.plus(added, labels), len(added))
        if model is self.original:
            raise ModelError(f"{self.trainer.name} returned the same model again; make a new model in each call")
        if not self.intact:
            raise ModelError(
                f"{self.trainer.name} changed the model that it had returned before; make a new model in each call"
            )
        check_classes(self.trainer.wrap(self.original), self.trainer.wrap(model))
        return model

    @property
    def intact(self) -> bool:
        """Whether the original still answers as it did."""
        try:
            return self._digest(self.original) == self._answers
        except EvenhandError:
            return False

    def rate(self, model: Any, samples: int, number: int) -> float:
        """Estimate how common discrimination is, for a method to decide by: never what is reported in the end.

        Texts cannot be drawn from nothing: of those it is the share of the findings, or of so many of them.
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
        labels, scores = ModelProbe(self.trainer.wrap(model), self.rows.ground, self.criterion).both(self.rows.probes)
        return digest_of_answers(labels if scores is None else scores)
