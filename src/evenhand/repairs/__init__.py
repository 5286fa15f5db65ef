"""Repairing: a fairer model, with fresh evidence of what changed."""

from evenhand.repairs.augment import Augment
from evenhand.repairs.certified import Certified
from evenhand.repairs.counterfactual import Counterfactual
from evenhand.repairs.evidence import Evidence
from evenhand.repairs.marginal import Marginal
from evenhand.repairs.marginalise import Marginalise
from evenhand.repairs.mending import METHODS, TEXT_METHODS, repair
from evenhand.repairs.result import Repair
from evenhand.repairs.retrain import Retrain
from evenhand.repairs.scoring import Calibration, Interval
from evenhand.repairs.workshop import Remedy, Round, Workshop

__all__ = [
    "METHODS",
    "TEXT_METHODS",
    "Augment",
    "Calibration",
    "Certified",
    "Counterfactual",
    "Evidence",
    "Interval",
    "Marginal",
    "Marginalise",
    "Remedy",
    "Repair",
    "Retrain",
    "Round",
    "Workshop",
    "repair",
]
