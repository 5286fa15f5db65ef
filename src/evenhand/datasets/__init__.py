"""Data sets: three public ones, embedded, and comments, generated or read from files.

``ATTRIBUTION.md`` names the authors and the licence of the public ones.
"""

from __future__ import annotations

from typing import Literal, overload

from evenhand._validate import check_choice
from evenhand.datasets.comments import Comments, Corpus, generate, read_comments, read_jigsaw, read_wikipedia
from evenhand.datasets.tables import Dataset, load_adult, load_bank, load_german
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

_TABLES = {"adult": load_adult, "german": load_german, "bank": load_bank}
_TEXTS = {"comments": generate}


def names(kind: Literal["all", "tables", "texts"] = "all") -> tuple[str, ...]:
    """Return the names of the data sets.

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
    check_choice("name", name, names(), DataError)
    return _TEXTS[name]() if name in _TEXTS else _TABLES[name]()
