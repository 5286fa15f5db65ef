"""Three public data sets, embedded; ``ATTRIBUTION.md`` names their authors and licence."""

from __future__ import annotations

from evenhand.datasets import adult, bank, german
from evenhand.datasets._dataset import Dataset
from evenhand.errors import DataError

__all__ = ["Dataset", "load", "names"]

_LOADERS = {"adult": adult.load, "german": german.load, "bank": bank.load}


def names() -> tuple[str, ...]:
    """Name the data sets that there are.

    >>> names()
    ('adult', 'german', 'bank')
    """
    return tuple(_LOADERS)


def load(name: str) -> Dataset:
    """Load a data set by name.

    >>> load("bank").frame.shape
    (45211, 17)
    """
    if name not in names():
        raise DataError(f"no data set {name!r}; allowed: {', '.join(names())}")
    return _LOADERS[name]()
