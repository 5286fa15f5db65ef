"""Freed memory is kept: requested from glibc once, unless the environment sets limits of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
from evenhand.models.client import keep_freed_memory

kept = keep_freed_memory()

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        for size in (1, 2, 4, 8):
            np.ones(size * 2**17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(int(kept), faults())
"""


def asked(**environment: str) -> list[int]:
    import os

    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=clean | environment, capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
@pytest.mark.parametrize("environment", [{}, {"MALLOC_TRIM_THRESHOLD_": "65536"}], ids=["none", "a worker of Dask"])
def test_freed_memory_is_used_again(environment: dict[str, str]) -> None:
    kept, faults = asked(**environment)
    if kept:
        # 50 rounds of 15 MB are 190,000 pages.
        assert faults < 1_000


def test_limits_in_the_environment_are_kept() -> None:
    assert asked(MALLOC_TRIM_THRESHOLD_="131072")[0] == 0
