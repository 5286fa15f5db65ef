"""Estimates: how common discrimination is, how severe, which groups it affects, and with what confidence."""

from evenhand.estimates.estimate import Interval, StopRule, estimate
from evenhand.estimates.groups import Group, Groups, groups
from evenhand.estimates.pair_counts import Order
from evenhand.estimates.remaining import Remaining, remaining
from evenhand.estimates.result import Estimate
from evenhand.estimates.survey import Reading

__all__ = [
    "Estimate",
    "Group",
    "Groups",
    "Interval",
    "Order",
    "Reading",
    "Remaining",
    "StopRule",
    "estimate",
    "groups",
    "remaining",
]
