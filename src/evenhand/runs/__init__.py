"""A run for machines: its findings as tables, its result in the formats that other programs read."""

from evenhand.runs.formats import (FORMATS, export)

__all__ = ["FORMATS", "export"]
