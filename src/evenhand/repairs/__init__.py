"""Repairs: a fairer model, with fresh evidence of what changed. `eh.repair` is the entry; the methods are here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.repairs.augment import Augment
    from evenhand.repairs.certified import Certified
    from evenhand.repairs.context import Candidate, Method, RepairContext, Round
    from evenhand.repairs.counterfactual import Counterfactual
    from evenhand.repairs.evidence import Evidence
    from evenhand.repairs.marginal import Marginal
    from evenhand.repairs.metrics import Calibration, Interval
    from evenhand.repairs.repair import METHODS, TEXT_METHODS, RepairOptions
    from evenhand.repairs.retrain import Retrain

_HOME = {
    "METHODS": "repair",
    "TEXT_METHODS": "repair",
    "Augment": "augment",
    "Calibration": "metrics",
    "Candidate": "context",
    "Certified": "certified",
    "Counterfactual": "counterfactual",
    "Evidence": "evidence",
    "Interval": "metrics",
    "Marginal": "marginal",
    "Method": "context",
    "RepairContext": "context",
    "RepairOptions": "repair",
    "Retrain": "retrain",
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
    "Counterfactual",
    "Evidence",
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
