"""Results: what the functions of evenhand return. Not made by hand; import them for annotations.

>>> from evenhand.results import Run
>>> Run.__name__
'Run'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.engine.accounting import Status
    from evenhand.estimates.compare import Compared
    from evenhand.estimates.coverage import Coverage
    from evenhand.estimates.groups import Groups
    from evenhand.estimates.remaining import Remaining
    from evenhand.estimates.result import Estimate
    from evenhand.explanations.examples import Example, Examples
    from evenhand.explanations.quality import Quality
    from evenhand.explanations.regions import Region, Regions
    from evenhand.repairs.result import Repair
    from evenhand.runs.bundle import BundleCheck
    from evenhand.runs.replay import Replay
    from evenhand.runs.run import Run

__all__ = [
    "BundleCheck",
    "Compared",
    "Coverage",
    "Estimate",
    "Example",
    "Examples",
    "Groups",
    "Quality",
    "Region",
    "Regions",
    "Remaining",
    "Repair",
    "Replay",
    "Run",
    "Status",
]

_HOME = {
    "Status": "evenhand.engine.accounting",
    "Compared": "evenhand.estimates.compare",
    "Coverage": "evenhand.estimates.coverage",
    "Groups": "evenhand.estimates.groups",
    "Remaining": "evenhand.estimates.remaining",
    "Estimate": "evenhand.estimates.result",
    "Example": "evenhand.explanations.examples",
    "Examples": "evenhand.explanations.examples",
    "Quality": "evenhand.explanations.quality",
    "Region": "evenhand.explanations.regions",
    "Regions": "evenhand.explanations.regions",
    "Repair": "evenhand.repairs.result",
    "BundleCheck": "evenhand.runs.bundle",
    "Replay": "evenhand.runs.replay",
    "Run": "evenhand.runs.run",
}
"""Where each name is imported from when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'evenhand.results' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
