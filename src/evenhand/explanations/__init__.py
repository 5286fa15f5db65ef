"""Regions: where, in readable rules, individuals are treated differently more often than elsewhere."""

from evenhand.explanations.finding import regions
from evenhand.explanations.result import Region, Regions

__all__ = ["Region", "Regions", "regions"]
