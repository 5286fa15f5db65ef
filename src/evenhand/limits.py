"""How large a file may be before it is refused, each limit by its name, and how to raise one.

A file that somebody sent may be made to use up time or memory: a small archive that unpacks to terabytes, a text
nested a million levels deep. Whoever reads a file checks what the file claims against these limits first.

Each limit can be changed by an environment variable, for the library, the command and pytest alike::

    EVENHAND_LIMIT_TABLE_COLUMNS=200000 evenhand audit evenhand.toml
"""

from __future__ import annotations

import os
from typing import NamedTuple

from evenhand.errors import ConfigError, LimitExceeded

PREFIX = "EVENHAND_LIMIT_"
KIB, MIB, GIB = 2**10, 2**20, 2**30


class Limit(NamedTuple):
    """A limit: the most that is allowed unless it is changed, and of what."""

    most: int
    meaning: str


LIMITS: dict[str, Limit] = {
    "toml_bytes": Limit(2 * MIB, "bytes of a TOML file: a space, a lexicon, evenhand.toml"),
    "toml_values": Limit(250_000, "values in a TOML file; a header or a dot of a key counts as two"),
    "toml_key_parts": Limit(8, "parts of a dotted key in a TOML file"),
    "json_bytes": Limit(128 * MIB, "bytes of a JSON file, of a line of JSON lines, or of the texts of one answer"),
    "json_values": Limit(
        5_000_000, "values in a JSON file, or one for each 8 of its bytes; of JSON lines one for each 4"
    ),
    "nesting": Limit(100, "levels of brackets in TOML and JSON"),
    "lexicon_cells": Limit(1_000_000, "identities of a lexicon times its forms"),
    "space_attributes": Limit(20_000, "attributes of a space that is read from a file"),
    "space_counterparts": Limit(10_000_000, "counterparts of one individual, as `limit` in a space's file"),
    "constraints": Limit(2_000, "constraints of a space"),
    "constraint_characters": Limit(100_000, "characters of all constraints of a space together"),
    "constraint_work": Limit(500_000_000, "conditions times combinations of values to find the valid ones"),
    "link_cells": Limit(10_000_000, "values of a protected attribute times those of an attribute linked to it"),
    "data_bytes": Limit(4 * GIB, "bytes of a file of rows or texts, after unpacking"),
    "unpack_ratio": Limit(100, "bytes unpacked for each byte of a packed file (its first 16 MiB are free)"),
    "table_columns": Limit(20_000, "columns of a table"),
    "table_rows": Limit(20_000_000, "rows of a table, or lines of a text file"),
    "table_cells": Limit(
        50_000_000, "cells of a table, or one for each byte of its file (of a small file: 20 for each of its bytes)"
    ),
    "vectors_bytes": Limit(16 * GIB, "bytes of a file of word vectors, after unpacking"),
    "vectors_words": Limit(5_000_000, "words of a file of vectors (beyond 100,000: one for each of its bytes)"),
    "vectors_numbers": Limit(10_000, "numbers of one word's vector"),
    "vectors_values": Limit(5_000_000, "numbers in a text of vectors, or two for each byte of its file"),
    "model_bytes": Limit(4 * GIB, "bytes of a model file, after unpacking"),
    "model_nodes": Limit(100_000, "objects in a .skops file, each counted as often as it is used"),
    "archive_entries": Limit(50_000, "entries of a .skops or .npz file"),
    "bundle_bytes": Limit(8 * GIB, "bytes of a bundle"),
    "bundle_entries": Limit(1_000, "entries of a bundle"),
    "frame_bytes": Limit(384 * MIB, "bytes of one answer in answers.log"),
    "trial_bytes": Limit(384 * MIB, "memory that a trial reading in a child process may take, plus 16 times the file"),
    "trial_seconds": Limit(1, "seconds of computing for a trial reading, plus one for each 4 MiB of the file"),
}


def limit(name: str) -> int:
    """Return the most that is allowed now.

    >>> limit("nesting")
    100
    """
    text = os.environ.get(PREFIX + name.upper())
    if text is None:
        return LIMITS[name].most
    try:
        most = int(text)
    except ValueError:
        most = -1
    if most < 0:
        raise ConfigError(
            f"{PREFIX}{name.upper()} must be a whole number of 0 or more, got {text!r}; "
            f"unset it for the default of {LIMITS[name].most:,}"
        )
    return most


def check(name: str, value: int, where: object, remedy: str = "", most: int | None = None) -> None:
    """Raise where a value is beyond a limit; ``most`` is the limit where it depends on the file as well.

    >>> check("nesting", 5000, "space.toml")
    Traceback (most recent call last):
    evenhand.errors.LimitExceeded: space.toml: beyond the limit nesting: 5,000, where 100 is the most (levels of
    brackets in TOML and JSON); if you trust the file, set EVENHAND_LIMIT_NESTING higher
    """
    allowed = limit(name) if most is None else most
    if value > allowed:
        raise exceeded(name, f"{value:,}", where, remedy, allowed)


def exceeded(name: str, value: str, where: object, remedy: str = "", most: int | None = None) -> LimitExceeded:
    """Make the error of a limit that was exceeded.

    >>> exceeded("nesting", "too deep", "space.toml").limit
    'nesting'
    """
    allowed = limit(name) if most is None else most
    return LimitExceeded(
        f"{where}: beyond the limit {name}: {value}, where {allowed:,} is the most ({LIMITS[name].meaning});\n"
        f"{remedy}{', or ' if remedy else ''}if you trust the file, set {PREFIX}{name.upper()} higher",
        name, value, allowed,
    )  # fmt: skip
