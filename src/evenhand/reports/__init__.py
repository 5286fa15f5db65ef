"""The report of a run: one offline HTML file for readers who did not run the audit."""

from evenhand.reports.render import view
from evenhand.reports.report import ReportOptions, report

__all__ = ["ReportOptions", "report", "view"]
