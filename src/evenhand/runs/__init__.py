"""Runs: the driver of audits, their results, and the files that these can be written to."""
