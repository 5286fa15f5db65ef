"""Fresh evidence about a model of texts: from texts that nothing was trained on, and that no repair has used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion
from evenhand.errors import EstimateError
from evenhand.estimates.plan import Plan
from evenhand.estimates.result import Estimate
from evenhand.estimates.texts import judged, measured_texts
from evenhand.models.base import Model
from evenhand.repairs.evidence import FEW, Evidence, Mask
from evenhand.repairs.scoring import accuracy, answers, auc, calibration
from evenhand.repairs.text_rows import LabelledTexts, UsedTexts
from evenhand.repairs.workshop import seed_of
from evenhand.runs.run import Run, run_search
from evenhand.search import Strategy


@dataclass
class TextInquiry:
    """What is asked of the original and then of the repaired model, with the same texts for both."""

    held: LabelledTexts
    used: UsedTexts
    criterion: Criterion
    check: Strategy
    budget: Budget
    samples: int
    confidence: float
    seed: int
    tell: Callable[[str], object]
    found: list[str] | None = field(default=None, init=False)
    """What the check found in the original model: the set by which the repaired one is judged."""
    notes: list[str] = field(default_factory=list, init=False)
    watch: ClassVar[tuple[str, ...]] = ()
    movable: ClassVar[tuple[str, ...]] = ()
    shown_by: ClassVar[str] = "data"

    def gather(self, model: Model, who: str) -> Evidence:
        """Gather evidence about a model; the original's comes first."""
        self.tell(f"judging {who}")
        said = answers(model, self.held)
        data, verdicts = self._estimate(model)
        self.tell(f"searching {who} with {type(self.check).__name__.lower()}")
        run = self._audit(model)
        return Evidence(
            None,
            data,
            run,
            accuracy(said, self.confidence),
            auc(said, self.confidence),
            calibration(said, self.confidence, seed_of(self.seed, "boots")),
            None,
            {},
            said,
            {"data": verdicts},
            self._kept(model, run),
        )

    @property
    def held_added(self) -> int:
        """How many held-out texts are the same as one that the repair added."""
        return int(self.used.added(self.held.texts).sum())

    def few(self, evidence: Evidence) -> bool:
        """Whether next to no held-out text is left that nothing was trained with."""
        if evidence.data is None:
            return True
        return evidence.data.counts["left_out"] > 0 and evidence.data.samples < min(FEW, self.samples)

    def _estimate(self, model: Model) -> tuple[Estimate | None, Mask]:
        """Estimate how common it is that a text like the held-out ones, as it is, is treated differently."""
        plan, held, seed = Plan("data", confidence=self.confidence), self.held, seed_of(self.seed, "final")
        try:
            result, verdicts = measured_texts(
                plan, model, held.space, held.X, self.criterion, seed, exclude=self.used, like="the held-out ones"
            )
        except EstimateError:
            # No text is left to ask: there is nothing to say.
            return None, np.zeros(0, dtype=bool)
        if result.stop == "interrupted":
            raise KeyboardInterrupt
        return result, verdicts

    def _audit(self, model: Model) -> Run:
        space, seed = self.held.space, seed_of(self.seed, "audit")
        run = run_search(model, space, self.check, self.budget, seed, self.criterion, self.held.X, exclude=self.used)
        if run.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    def _kept(self, model: Model, run: Run) -> float | None:
        """Say which share of what was found in the original model is treated differently by this one.

        Read anew, a text may have another family than in the search, because an edited word can be a term or take one
        away; so the set is what the original model is found to treat differently when it reads the texts anew.
        """
        seed = seed_of(self.seed, "final", 1)
        if self.found is None:
            texts = run.pairs.rows(at=_some(run.found, self.samples))
            unfair = np.zeros(len(texts), dtype=bool)
            if texts:
                positions, verdicts = judged(model, self.held.space, texts, self.criterion, seed)
                unfair[positions] = verdicts
            self.found = [text for text, one in zip(texts, unfair.tolist(), strict=True) if one]
            return 1.0 if self.found else None
        if not self.found:
            return None
        return float(judged(model, self.held.space, self.found, self.criterion, seed)[1].mean())


def _some(count: int, most: int) -> Any:
    """Take evenly spaced ones where there are too many."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)) if count else slice(0)
