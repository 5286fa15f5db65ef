"""Find people whom a model would treat differently if only a protected attribute of theirs were different.

>>> import evenhand as eh
>>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Boolean("member")], protected="member")
>>> eh.audit(lambda frame: frame["hours"] > 20, space, strategy="themis").found
0
"""

from evenhand import datasets, errors
from evenhand._version import __version__
from evenhand.budget import Budget, StopReason
from evenhand.covering import Coverage, coverage
from evenhand.criterion import Flip, Gap
from evenhand.measuring import Estimate, Groups, Remaining, estimate, groups, remaining
from evenhand.model import Model, load_model, wrap
from evenhand.oracle import Status
from evenhand.repairing import Augment, Certified, Counterfactual, Marginal, Marginalise, Repair, Retrain, repair
from evenhand.replaying import Replay, replay
from evenhand.run import Run, audit
from evenhand.search import Contrasts, Problem, Query, Verdicts, contrast, gradient, label, score, test, work
from evenhand.space import Boolean, Integer, Nominal, Ordinal, Real, Space
from evenhand.strategies import Adf, Aequitas, Kosei, Symbolic, TextAdf, TextImportance, TextRandom, Themis
from evenhand.text.space import TextSpace
from evenhand.text_quality import Quality, quality

__all__ = [
    "Adf",
    "Aequitas",
    "Augment",
    "Boolean",
    "Budget",
    "Certified",
    "Contrasts",
    "Counterfactual",
    "Coverage",
    "Estimate",
    "Flip",
    "Gap",
    "Groups",
    "Integer",
    "Kosei",
    "Marginal",
    "Marginalise",
    "Model",
    "Nominal",
    "Ordinal",
    "Problem",
    "Quality",
    "Query",
    "Real",
    "Remaining",
    "Repair",
    "Replay",
    "Retrain",
    "Run",
    "Space",
    "Status",
    "StopReason",
    "Symbolic",
    "TextAdf",
    "TextImportance",
    "TextRandom",
    "TextSpace",
    "Themis",
    "Verdicts",
    "__version__",
    "audit",
    "contrast",
    "coverage",
    "datasets",
    "errors",
    "estimate",
    "gradient",
    "groups",
    "label",
    "load_model",
    "quality",
    "remaining",
    "repair",
    "replay",
    "score",
    "test",
    "work",
    "wrap",
]
