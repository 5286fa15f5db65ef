"""Measuring: how common discrimination is, how severe, against whom, and how sure that is."""

from evenhand.estimates.estimating import estimate
from evenhand.estimates.favour import Order
from evenhand.estimates.group_rates import Group
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.remaining import Remaining, remaining
from evenhand.estimates.result import Estimate
from evenhand.estimates.watching import Reading

__all__ = ["Estimate", "Group", "Groups", "Order", "Reading", "Remaining", "estimate", "groups", "remaining"]
