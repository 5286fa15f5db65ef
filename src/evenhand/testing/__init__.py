"""Conformance suites for those who write searches, models and kinds of spaces.

``check_strategy``, ``check_model`` and ``check_space`` raise an ``AssertionError`` that says what is wrong. evenhand's
own searches pass the same checks, ``STRATEGY_CHECKS``.
"""

from evenhand.testing.models import check_model
from evenhand.testing.spaces import check_space
from evenhand.testing.strategies import STRATEGY_CHECKS, check_strategy
from evenhand.testing.worlds import World, worlds_for

__all__ = ["STRATEGY_CHECKS", "World", "check_model", "check_space", "check_strategy", "worlds_for"]
