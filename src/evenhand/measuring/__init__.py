"""Measuring: how common discrimination is, how severe, against whom, and how sure that is."""

from evenhand.measuring.estimating import estimate
from evenhand.measuring.favour import Order
from evenhand.measuring.group_rates import Group
from evenhand.measuring.groups import Groups, groups
from evenhand.measuring.remaining import Remaining, remaining
from evenhand.measuring.result import Estimate
from evenhand.measuring.watching import Reading

__all__ = ["Estimate", "Group", "Groups", "Order", "Reading", "Remaining", "estimate", "groups", "remaining"]
