"""Repairing: a fairer model, with fresh evidence of what changed."""

from evenhand.repairing.augment import Augment
from evenhand.repairing.certified import Certified
from evenhand.repairing.counterfactual import Counterfactual
from evenhand.repairing.evidence import Evidence
from evenhand.repairing.marginal import Marginal
from evenhand.repairing.marginalise import Marginalise
from evenhand.repairing.mending import METHODS, TEXT_METHODS, repair
from evenhand.repairing.result import Repair
from evenhand.repairing.retrain import Retrain
from evenhand.repairing.scoring import Calibration, Interval
from evenhand.repairing.workshop import Remedy, Round, Workshop

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
