"""What a repair is: a model, the one it was made of, and how both do on fresh individuals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand._format import to_plain, visible
from evenhand.estimates.result import Estimate
from evenhand.repairs.evidence import Evidence
from evenhand.repairs.scoring import Interval, auc_difference, calibration_difference, share_difference
from evenhand.repairs.text_rows import UsedTexts
from evenhand.repairs.used import Used
from evenhand.repairs.words import verdict
from evenhand.repairs.workshop import Round, seed_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KEPT = "of the same findings"
"""The share of what the check found in the original model that a model treats differently."""


@dataclass(frozen=True)
class Shift:
    """How the share of those to whom one other attribute makes a difference changed."""

    attribute: str
    before: float
    after: float
    difference: Interval
    """Its interval holds for all attributes that were watched at once."""

    @property
    def rose(self) -> bool:
        """Whether the interval of the difference is above 0."""
        return self.difference.low > 0


@dataclass
class Repair:
    """A model with evidence of what changed. Not made by hand."""

    model: Any
    """What is handed back: the repaired model, or the original."""
    original: Any
    """The same estimator, trained on the same rows without any repair."""
    before: Evidence
    after: Evidence
    """Of the model that is handed back."""
    changed: bool
    """False where the original is handed back."""
    method: Any
    rows_added: int
    rounds: list[Round]
    notes: list[str]
    seconds: float
    confidence: float
    seed: int
    settings: dict[str, Any]
    """Search, check, rows for training and held out, tests that the repair used, attributes watched or not."""
    used: Used | UsedTexts = field(repr=False)
    """The tests that the repair trained with: nobody of them is in an estimate or in the audit."""
    rejected: Evidence | None = field(default=None, repr=False)
    """Of a repaired model that was not handed back: it is worse, or nobody is left to show that it is not."""
    reason: str = ""
    """Why the original is handed back, where it is."""

    @cached_property
    def differences(self) -> dict[str, Interval | None]:
        """How much each figure rose, on the same individuals and rows, each with an interval."""
        return differences(self.before, self.after, self.confidence, self.seed)

    @cached_property
    def shifts(self) -> tuple[Shift, ...]:
        """What became of the other attributes that were watched."""
        return shifts(self.before, self.after, self.confidence)

    @property
    def moved(self) -> tuple[str, ...]:
        """Attributes that make a difference to more people than before, all comparisons taken together."""
        return tuple(shift.attribute for shift in self.shifts if shift.rose)

    @property
    def removed(self) -> float | None:
        """Of texts: the share of the original model's findings, made of held-out texts, that are none any more."""
        return None if self.after.kept is None else 1 - self.after.kept

    @property
    def verdict(self) -> str:
        """Say what changed."""
        return verdict(self)

    @property
    def frame(self) -> pd.DataFrame:
        """Every figure before, after, and its difference, with intervals."""
        import pandas as pd

        rows = []
        for name, apart in self.differences.items():
            row: dict[str, Any] = {"figure": name}
            for when, one in (("before", figures(self.before)[name]), ("after", figures(self.after)[name])):
                ends = (np.nan, np.nan, np.nan) if one is None else (one.value, one.low, one.high)
                row |= dict(zip((when, f"{when}_low", f"{when}_high"), ends, strict=True))
            ends = (np.nan, np.nan, np.nan) if apart is None else (apart.value, apart.low, apart.high)
            rows.append(row | dict(zip(("difference", "low", "high"), ends, strict=True)))
        return pd.DataFrame(rows).set_index("figure")

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values, the models not included."""
        return {
            "method": {"method": type(self.method).__name__.lower(), **to_plain(vars(self.method))},
            "changed": self.changed,
            "reason": self.reason,
            "verdict": self.verdict,
            "rows_added": self.rows_added,
            "rounds": [asdict(one) for one in self.rounds],
            "notes": self.notes,
            "seconds": self.seconds,
            "confidence": self.confidence,
            "seed": self.seed,
            "settings": to_plain(self.settings),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "rejected": None if self.rejected is None else self.rejected.to_dict(),
            "differences": {
                name: None if one is None else to_plain(asdict(one)) for name, one in self.differences.items()
            },
            "shifts": [{**asdict(shift), "rose": shift.rose} for shift in self.shifts],
            "moved": list(self.moved),
        }

    def plot(self) -> Figure:
        """Draw accuracy against the share treated differently, before and after."""
        from evenhand.repairs.plots import tradeoff

        return tradeoff({type(self.method).__name__.lower(): self})

    def __repr__(self) -> str:
        return "\n".join([f"Repair: {self.verdict}", *(f"  {visible(note)}" for note in self.notes)])


def figures(evidence: Evidence) -> dict[str, Interval | None]:
    """Lay a model's figures out by name."""
    calibrated, run = evidence.calibration, evidence.audit
    of_texts = run.space.supports("texts")
    share = None if evidence.kept is None else Interval(evidence.kept, math.nan, math.nan)
    return {
        **({KEPT: share} if of_texts else {"uniform": _interval(evidence.uniform)}),
        "data": _interval(evidence.data),
        "found by the check": Interval(run.success_rate, math.nan, math.nan),
        "accuracy": evidence.accuracy,
        "auc": evidence.auc,
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def _interval(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.rate, estimate.low, estimate.high)


def differences(before: Evidence, after: Evidence, confidence: float, seed: int) -> dict[str, Interval | None]:
    """Compare two models on the same individuals and rows."""
    calibrated = calibration_difference(before.said, after.said, confidence, seed_of(seed, "boots"))
    shares = (before.audit.success_rate, after.audit.success_rate)
    uniform = rate_difference(before, after, "uniform", confidence)
    # Findings of one walk are much alike, so their share has no interval.
    kept = None if before.kept is None or after.kept is None else Interval(after.kept - 1, math.nan, math.nan)
    return {
        **({KEPT: kept} if before.audit.space.supports("texts") else {"uniform": uniform}),
        "data": rate_difference(before, after, "data", confidence),
        # A search goes where it finds: its share is no estimate, and has no interval.
        "found by the check": Interval(shares[1] - shares[0], math.nan, math.nan),
        "accuracy": share_difference(before.said.correct, after.said.correct, confidence),
        "auc": auc_difference(before.said, after.said, confidence),
        "brier": None if calibrated is None else calibrated.brier,
        "calibration error": None if calibrated is None else calibrated.error,
    }


def rate_difference(before: Evidence, after: Evidence, name: str, confidence: float) -> Interval | None:
    """How much a share rose; without any width where everyone was asked."""
    first, second = before.estimate(name), after.estimate(name)
    if first is None or second is None:
        return None
    if first.exact and second.exact:
        return Interval(*[second.rate - first.rate] * 3)
    verdicts = before.verdicts[name], after.verdicts[name]
    misjudged = (first.misjudged + second.misjudged) * len(verdicts[0])
    return share_difference(*verdicts, confidence, misjudged)


def shifts(before: Evidence, after: Evidence, confidence: float) -> tuple[Shift, ...]:
    """Compare two models on other attributes, with intervals that hold for all of them at once (Bonferroni)."""
    names = [name for name in before.others if name in after.others]
    at_once = 1 - (1 - confidence) / max(1, len(names))
    out = []
    for name in names:
        apart = rate_difference(before, after, name, at_once)
        assert apart is not None
        out.append(Shift(name, before.others[name].rate, after.others[name].rate, apart))
    return tuple(out)
