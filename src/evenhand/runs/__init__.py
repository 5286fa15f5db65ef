"""Runs: the driver of an audit, its result, and the files it can be written to."""
