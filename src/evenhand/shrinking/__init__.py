"""Examples: findings brought as near to real people as they can, and how real they are."""

from evenhand.shrinking.examples import examples
from evenhand.shrinking.result import Example, Examples

__all__ = ["Example", "Examples", "examples"]
