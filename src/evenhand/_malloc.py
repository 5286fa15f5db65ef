"""Keeps freed memory while a model is called thousands of times.

A block of rows is some megabytes, allocated anew for each call. By default the C library returns such memory to the
system after each call and requests it again before the next, page by page: on virtual machines that took half of the
time of an estimate of a small network.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

TRIM, MAP = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of glibc's ``mallopt``."""
KEPT = 256 * 2**20
"""Bytes at the end of the heap that may be free before they are returned."""
MAPPED = 32 * 2**20
"""The largest that glibc allows: blocks up to this size come from the heap."""


@cache
def keep() -> bool:
    """Have the C library keep what is freed, once for the process; return whether it does.

    Only glibc can, and environment variables that set its limits, such as ``MALLOC_TRIM_THRESHOLD_``, are respected.

    >>> keep() in (True, False)
    True
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(TRIM, KEPT) and mallopt(MAP, MAPPED))
