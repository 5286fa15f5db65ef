"""The report of a run: one offline HTML file for readers who never ran anything."""

from evenhand.reports.render import summary
from evenhand.reports.report import ReportOptions, report

__all__ = ["ReportOptions", "report", "summary"]
