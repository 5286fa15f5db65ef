"""Evidence: a run with everything it takes to check it, in one archive whose parts are known by their hashes."""

from evenhand.evidence.bundling import bundle
from evenhand.evidence.checking import BundleCheck, check_bundle, opened

__all__ = ["BundleCheck", "bundle", "check_bundle", "opened"]
