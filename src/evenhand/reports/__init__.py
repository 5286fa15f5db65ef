"""The report of a run: one offline HTML file for readers who never ran anything."""

from evenhand.reports.making import report
from evenhand.reports.short import short

__all__ = ["report", "short"]
