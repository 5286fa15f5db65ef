"""Evidence: a run with everything it takes to check it, in one archive whose parts are known by their hashes."""

from evenhand.evidence.bundling import bundle
from evenhand.evidence.checking import Checked, opened, verify

__all__ = ["Checked", "bundle", "opened", "verify"]
