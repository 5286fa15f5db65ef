"""Where a method works on texts: findings from the training texts, their labels, and models trained with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.budget import StopReason
from evenhand.engine.judge import blocks
from evenhand.engine.probe import ModelProbe
from evenhand.estimates.texts import judged
from evenhand.models.base import Model
from evenhand.models.wrap import reading
from evenhand.repairs.text_rows import LabelledTexts, ground_of
from evenhand.repairs.training import Trainer
from evenhand.repairs.voting import Whose, majority, numbers_of
from evenhand.repairs.workshop import Workshop, seed_of
from evenhand.runs.run import FIXED_ROWS, Run, audit, digest_of_answers


class TextTrainer(Trainer):
    """Trains on a list of texts; what it returns is asked with a list of texts."""

    def __init__(self, estimator: Any, seed: int) -> None:
        super().__init__(estimator, seed)

    def wrap(self, model: Any) -> Model:
        """Wrap what training returned."""
        return reading(super().wrap(model), texts=True)


@dataclass(frozen=True)
class Found:
    """Findings to train with."""

    texts: list[str]
    seeds: npt.NDArray[np.int64]
    """Which training text each was made of."""

    def __len__(self) -> int:
        return len(self.texts)


class TextVoters:
    """Labels for findings, for nobody has labelled them.

    ``individual``: the label of the text that it was made of, whose meaning similar words keep; with voters what most
    of them say. ``family``: what most members of its family are said to be by the voters, or by the original model
    where there are none; so the label does not depend on who is spoken of. The individual's own label decides a tie.
    """

    def __init__(self, rows: LabelledTexts, voters: Sequence[Any], seed: int, original: Model) -> None:
        self.rows, self.seed, self.labels = rows, seed, np.unique(rows.y)
        trainers = [TextTrainer(voter, seed) for voter in voters]
        self.voters = [trainer.wrap(trainer(rows)) for trainer in trainers]
        self.family = self.voters or [original]

    def label(self, found: Found, whose: Whose = "individual") -> npt.NDArray[Any]:
        """Label findings."""
        own = numbers_of(self.rows.y[found.seeds], self.labels)
        if self.voters:
            own = majority(np.stack([self._says(voter, found.texts) for voter in self.voters]), len(self.labels))
        if whose == "individual":
            return np.asarray(self.labels[own])
        ground = ground_of(self.rows.space, found.texts)
        counts = np.zeros((len(found), len(self.labels)))
        counts[np.arange(len(found)), own] = 0.5
        for block in blocks(ground, ground.seeds):
            families = ground.families(block, self.seed)
            row = np.repeat(ground.positions[block.seeds], families.places)
            for voter in self.family:
                np.add.at(counts, (row, self._says(voter, families.asked)), 1)
        return np.asarray(self.labels[counts.argmax(axis=1)])

    def _says(self, voter: Model, texts: Any) -> npt.NDArray[np.int64]:
        return numbers_of(voter.labels(list(texts)), self.labels)


@dataclass
class TextWorkshop(Workshop):
    """Training texts, the original model, and findings that a search makes of the training texts."""

    rows: Any
    used: Any

    counted: ClassVar[str] = "the findings to train with"

    @cached_property
    def findings(self) -> Run:
        """What a search finds in the original model, starting from the training texts."""
        self.tell(f"searching with {type(self.strategy).__name__.lower()}")
        model, seed = self.trainer.wrap(self.original), seed_of(self.seed, "search")
        run = audit(model, self.rows.space, self.strategy, self.budget, seed, self.criterion, self.rows.X)
        if run.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    def draw(self, n: int, number: int) -> Any:
        """Draw findings at random, each at most once."""
        found = self.findings.found
        at = Stream(seed_of(self.seed, "draw", number)).shuffled(np.arange(min(n, found)), found, "pick")
        records = self.findings.pairs.records(np.sort(at))  # type: ignore[attr-defined]
        return Found([record[0] for record in records], np.array([record[2] for record in records], dtype=np.int64))

    def voters(self, given: Sequence[Any]) -> Any:
        """Train the voters, where there are any."""
        return TextVoters(self.rows, given, seed_of(self.seed, "voters"), self.trainer.wrap(self.original))

    def train_with(self, people: Any, voters: Any, whose: Whose) -> Any:
        """Train a model on the training texts and some findings."""
        labels = voters.label(people, whose)
        self.used.add(people.texts)
        return self.train(people.texts, labels)

    def rate(self, model: Any, samples: int, number: int) -> float:
        """Say which share of the findings, or of so many of them, a model treats differently, to choose by."""
        some = self.draw(samples, 1_000_000 + number)
        wrapped = self.trainer.wrap(model)
        return float(judged(wrapped, self.rows.space, some.texts, self.criterion, self.seed)[1].mean())

    def _digest(self, model: Any) -> str:
        asker = ModelProbe(self.trainer.wrap(model), self.rows.space, self.criterion)
        labels, scores = asker.both(self.rows.texts[:FIXED_ROWS])
        return digest_of_answers(labels if scores is None else scores)
