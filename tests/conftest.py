"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine is no failure, so there are no deadlines. Continuous integration tries the same examples every time;
# on a developer's machine every run tries new ones.
settings.register_profile("evenhand", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("evenhand")

collect_ignore = ["plugins"]
"""A package of its own, which tests put on the path where they want it."""
