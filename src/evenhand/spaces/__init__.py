"""The valid inputs of a model: attributes, which are protected, constraints, moves and counterparts."""

from evenhand.spaces.attributes import Attribute, Boolean, Integer, Nominal, Ordinal, Real
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Encoded, Space

__all__ = ["Attribute", "Boolean", "Encoded", "Individuals", "Integer", "Nominal", "Ordinal", "Real", "Space"]
