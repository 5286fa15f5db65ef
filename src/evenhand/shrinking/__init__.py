"""Telling pairs: findings brought as near to real people as they can, and how real they are."""

from evenhand.shrinking.cases import Case, Cases
from evenhand.shrinking.telling import telling

__all__ = ["Case", "Cases", "telling"]
