"""Repairs: a fairer model, with fresh evidence of what changed. `eh.repair` is the entry; the methods are here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.repairs.augment import Augment, Counterfactual, Retrain
    from evenhand.repairs.certified import Certified
    from evenhand.repairs.consistency import Consistency
    from evenhand.repairs.context import Candidate, Method, RepairContext, Round
    from evenhand.repairs.evidence import Calibration, Evidence, Interval
    from evenhand.repairs.marginal import Marginal
    from evenhand.repairs.repair import METHODS, TEXT_METHODS, RepairOptions
    from evenhand.repairs.result import Comparison
    from evenhand.repairs.training import FineTuning

_HOME = {
    "METHODS": "repair",
    "TEXT_METHODS": "repair",
    "Augment": "augment",
    "Calibration": "evidence",
    "Candidate": "context",
    "Certified": "certified",
    "Comparison": "result",
    "Consistency": "consistency",
    "Counterfactual": "augment",
    "Evidence": "evidence",
    "FineTuning": "training",
    "Interval": "evidence",
    "Marginal": "marginal",
    "Method": "context",
    "RepairContext": "context",
    "RepairOptions": "repair",
    "Retrain": "augment",
    "Round": "context",
}
"""Where each name is imported from when it is first used."""

__all__ = [
    "METHODS",
    "TEXT_METHODS",
    "Augment",
    "Calibration",
    "Candidate",
    "Certified",
    "Comparison",
    "Consistency",
    "Counterfactual",
    "Evidence",
    "FineTuning",
    "Interval",
    "Marginal",
    "Method",
    "RepairContext",
    "RepairOptions",
    "Retrain",
    "Round",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'evenhand.repairs' has no attribute {name!r}")
    return getattr(import_module(f"evenhand.repairs.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
