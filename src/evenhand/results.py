"""The classes of results, which the functions of evenhand return. Import them for annotations.

>>> from evenhand.results import Run
>>> Run.__name__
'Run'
"""

from evenhand.engine.oracle import Status
from evenhand.engine.store import About
from evenhand.estimates.compare import Compared
from evenhand.estimates.coverage import Coverage
from evenhand.estimates.groups import Groups
from evenhand.estimates.remaining import Remaining
from evenhand.estimates.result import Estimate
from evenhand.explanations.examples import Example, Examples
from evenhand.explanations.quality import Quality
from evenhand.explanations.regions import Region, Regions
from evenhand.proofs.checker import ProofCheck
from evenhand.proofs.proof import Proof, Sampled
from evenhand.repairs.result import Repair
from evenhand.runs.bundle import BundleCheck
from evenhand.runs.replay import Replay
from evenhand.runs.run import Run

__all__ = [
    "About",
    "BundleCheck",
    "Compared",
    "Coverage",
    "Estimate",
    "Example",
    "Examples",
    "Groups",
    "Proof",
    "ProofCheck",
    "Quality",
    "Region",
    "Regions",
    "Remaining",
    "Repair",
    "Replay",
    "Run",
    "Sampled",
    "Status",
]
