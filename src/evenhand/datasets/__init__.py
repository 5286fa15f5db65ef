"""Three public data sets, embedded (``ATTRIBUTION.md`` names their authors and licence), and comments.

The comments are generated; those of others are read from files.
"""

from __future__ import annotations

from typing import Literal, overload

from evenhand.datasets import adult, bank, comments, german
from evenhand.datasets._corpus import Corpus
from evenhand.datasets._dataset import Dataset
from evenhand.datasets.comments import Comments
from evenhand.datasets.toxicity import read_comments, read_jigsaw, read_wikipedia
from evenhand.errors import DataError
from evenhand.spaces.text.readers import read_texts

__all__ = [
    "Comments",
    "Corpus",
    "Dataset",
    "load",
    "names",
    "read_comments",
    "read_jigsaw",
    "read_texts",
    "read_wikipedia",
]

_TABLES = {"adult": adult.load, "german": german.load, "bank": bank.load}
_TEXTS = {"comments": comments.generate}


def names(kind: Literal["all", "tables", "texts"] = "all") -> tuple[str, ...]:
    """Name the data sets that there are.

    >>> names()
    ('adult', 'german', 'bank', 'comments')
    """
    return (*(_TABLES if kind != "texts" else ()), *(_TEXTS if kind != "tables" else ()))


@overload
def load(name: Literal["comments"]) -> Comments: ...  # type: ignore[overload-overlap]


@overload
def load(name: str) -> Dataset: ...


def load(name: str) -> Dataset | Comments:
    """Load a data set by name; "comments" is one of texts.

    >>> load("bank").frame.shape
    (45211, 17)
    >>> load("comments")
    Comments(4,000 texts, 1,648 toxic)
    """
    if name not in names():
        raise DataError(f"no data set {name!r}; allowed: {', '.join(names())}")
    return _TEXTS[name]() if name in _TEXTS else _TABLES[name]()
