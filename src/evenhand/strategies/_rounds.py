"""The schedule of searches that sample and search locally in turns; it does not depend on the budget."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

LARGEST = 2**20
"""The most individuals that one round draws."""


def numbers(rounds: int | None) -> Iterator[int]:
    """Count the rounds of a search; None: without end.

    >>> list(numbers(3))
    [0, 1, 2]
    """
    return itertools.count() if rounds is None else iter(range(rounds))


def draws(first: int, number: int) -> int:
    """Say how many individuals a round draws: twice as many as the one before.

    >>> [draws(64, number) for number in range(4)]
    [64, 128, 256, 512]
    """
    return max(first, min(first << min(number, 62), LARGEST))
