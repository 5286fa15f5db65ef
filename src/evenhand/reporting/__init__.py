"""The report of a run: one offline HTML file for readers who never ran anything."""

from evenhand.reporting.making import report
from evenhand.reporting.short import short

__all__ = ["report", "short"]
