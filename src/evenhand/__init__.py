"""Find people that a model would treat differently if only one of their protected attributes were different.

>>> import evenhand as eh
>>> space = eh.Space([eh.Integer("hours", 1, 40), eh.Boolean("member")], protected="member")
>>> eh.audit(lambda frame: frame["hours"] > 20, space, strategy="themis").found
0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenhand import errors

if TYPE_CHECKING:
    from evenhand import datasets, repairs
    from evenhand.budget import Budget, StopReason
    from evenhand.criteria import Flip, Gap
    from evenhand.estimates import populations
    from evenhand.estimates.compare import compare
    from evenhand.estimates.coverage import coverage
    from evenhand.estimates.estimate import Interval, StopRule, estimate
    from evenhand.estimates.groups import groups
    from evenhand.estimates.pair_counts import Order
    from evenhand.estimates.remaining import remaining
    from evenhand.estimates.result import Estimate
    from evenhand.explanations.examples import examples
    from evenhand.explanations.quality import quality
    from evenhand.explanations.regions import regions
    from evenhand.models.base import Model
    from evenhand.models.files import load_model
    from evenhand.models.wrap import wrap
    from evenhand.proofs.checker import check_proof
    from evenhand.proofs.proof import Proof
    from evenhand.proofs.prove import prove
    from evenhand.repairs.marginal import MarginalModel
    from evenhand.repairs.repair import repair
    from evenhand.repairs.result import Repair
    from evenhand.reports.report import ReportOptions, report
    from evenhand.runs.audit import audit
    from evenhand.runs.bundle import bundle, check_bundle
    from evenhand.runs.exports import export
    from evenhand.runs.replay import replay
    from evenhand.runs.run import Run
    from evenhand.spaces.attributes import Boolean, Integer, Nominal, Ordinal, Real
    from evenhand.spaces.tabular import Space
    from evenhand.spaces.text.space import TextSpace
    from evenhand.spaces.text.templates import TextTemplates
    from evenhand.strategies import (
        Adf,
        Aequitas,
        Archive,
        Auto,
        Boundary,
        Kosei,
        Symbolic,
        TextAdf,
        TextImportance,
        TextRandom,
        Themis,
    )

__all__ = [
    "Adf", "Aequitas", "Archive", "Auto", "Boolean", "Boundary", "Budget", "Endpoint", "Estimate", "Flip",
    "Gap", "Integer", "Interval", "Kosei", "MarginalModel", "Model", "Nominal", "Order", "Ordinal", "Proof",
    "Real", "Repair", "ReportOptions", "Run", "Space", "StopReason", "StopRule", "Symbolic", "TextAdf",
    "TextImportance", "TextRandom", "TextSpace", "TextTemplates", "Themis", "__version__", "audit", "bundle",
    "check_bundle", "check_proof", "compare", "coverage", "datasets", "errors", "estimate", "examples",
    "export", "groups", "load_model", "populations", "prove", "quality", "regions", "remaining", "repair",
    "repairs", "replay", "report", "wrap",
]  # fmt: skip

__version__ = "0.1.0"

_LATE = {
    "budget": "Budget StopReason",
    "criteria": "Flip Gap",
    "estimates": "populations",
    "estimates.compare": "compare",
    "estimates.coverage": "coverage",
    "estimates.estimate": "Interval StopRule estimate",
    "estimates.groups": "groups",
    "estimates.pair_counts": "Order",
    "estimates.remaining": "remaining",
    "estimates.result": "Estimate",
    "explanations.examples": "examples",
    "explanations.quality": "quality",
    "explanations.regions": "regions",
    "models.base": "Model",
    "models.endpoint": "Endpoint",
    "models.files": "load_model",
    "models.wrap": "wrap",
    "proofs.checker": "check_proof",
    "proofs.proof": "Proof",
    "proofs.prove": "prove",
    "repairs.marginal": "MarginalModel",
    "repairs.repair": "repair",
    "repairs.result": "Repair",
    "reports.report": "ReportOptions report",
    "runs.audit": "audit",
    "runs.bundle": "bundle check_bundle",
    "runs.exports": "export",
    "runs.replay": "replay",
    "runs.run": "Run",
    "spaces.attributes": "Boolean Integer Nominal Ordinal Real",
    "spaces.tabular": "Space",
    "spaces.text.space": "TextSpace",
    "spaces.text.templates": "TextTemplates",
    "strategies": "Adf Aequitas Archive Auto Boundary Kosei Symbolic TextAdf TextImportance TextRandom Themis",
}
"""Names by module, imported when first used, so that help and errors do not wait for NumPy."""
_HOME = {name: f"evenhand.{module}" for module, names in _LATE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in ("datasets", "repairs", "results", "strategies"):
        return import_module(f"evenhand.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
