"""The C library keeps freed memory, in this process and on workers."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

TRIM, MAP = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of glibc's ``mallopt``."""
KEPT = 256 * 2**20
"""Number of free bytes at the end of the heap before they are returned."""
MAPPED = 32 * 2**20
"""The maximum that glibc allows: blocks up to this size come from the heap."""
OF_DASK = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""What Dask sets for its workers by default: a forest then takes half as long again."""


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep freed memory, once for the process; return whether it does.

    A block of rows is some megabytes. By default glibc returns them to the system after each call of the model and
    requests them again before the next, page by page: on virtual machines that took half of the time of an estimate of
    a small network. Environment variables that set its limits, such as ``MALLOC_TRIM_THRESHOLD_``, are respected,
    except the default of Dask's workers.

    >>> keep_freed_memory() in (True, False)
    True
    """
    given = {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}
    if not sys.platform.startswith("linux") or given not in ({}, OF_DASK):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(TRIM, KEPT) and mallopt(MAP, MAPPED))
