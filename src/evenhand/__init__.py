"""Find people whom a model would treat differently if only a protected attribute of theirs were different.

>>> import evenhand as eh
>>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Boolean("member")], protected="member")
>>> eh.audit(lambda frame: frame["hours"] > 20, space, strategy="themis").found
0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenhand import datasets, errors
from evenhand._version import __version__
from evenhand.budget import Budget, StopReason
from evenhand.comparing import Compared, compare
from evenhand.covering import Coverage, coverage
from evenhand.criterion import Flip, Gap
from evenhand.evidence import Checked, bundle, verify
from evenhand.exporting import export
from evenhand.ledger import Status
from evenhand.measuring import Estimate, Groups, Remaining, estimate, groups, remaining
from evenhand.model import Model, load_model, wrap
from evenhand.repairing import Augment, Certified, Counterfactual, Marginal, Marginalise, Repair, Retrain, repair
from evenhand.replaying import Replay, replay
from evenhand.run import Run, audit
from evenhand.search import Contrasts, Problem, Query, Verdicts, contrast, gradient, label, score, test, work
from evenhand.space import Boolean, Integer, Nominal, Ordinal, Real, Space
from evenhand.strategies import Adf, Aequitas, Kosei, Symbolic, TextAdf, TextImportance, TextRandom, Themis
from evenhand.text.space import TextSpace
from evenhand.text_quality import Quality, quality

if TYPE_CHECKING:
    from evenhand.locating import Region, Regions, regions
    from evenhand.shrinking import Case, Cases
    from evenhand.shrinking.telling import telling

__all__ = [
    "Adf",
    "Aequitas",
    "Augment",
    "Boolean",
    "Budget",
    "Case",
    "Cases",
    "Certified",
    "Checked",
    "Compared",
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
    "Region",
    "Regions",
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
    "bundle",
    "compare",
    "contrast",
    "coverage",
    "datasets",
    "errors",
    "estimate",
    "export",
    "gradient",
    "groups",
    "label",
    "load_model",
    "quality",
    "regions",
    "remaining",
    "repair",
    "replay",
    "score",
    "telling",
    "test",
    "verify",
    "work",
    "wrap",
]

_LATE = {
    **dict.fromkeys(("Region", "Regions", "regions"), "evenhand.locating"),
    **dict.fromkeys(("Case", "Cases", "telling"), "evenhand.shrinking"),
}
"""What is imported when somebody first names it: a run is made without."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
