"""Regions: where, in readable rules, individuals are treated differently more often than elsewhere."""

from evenhand.locating.finding import regions
from evenhand.locating.result import Region, Regions

__all__ = ["Region", "Regions", "regions"]
