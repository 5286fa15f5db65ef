"""The archive's form: a zip file whose bytes follow from its parts alone."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from evenhand.engine.store import ANSWERS, COVERAGE, IDENTITY, RESULT, SOURCE, TIMES

MANIFEST, FINDINGS, SPACE, SPACE_JSON = "manifest.json", "findings.csv", "space.toml", "space.json"
RUN_FILES = (IDENTITY, RESULT, ANSWERS, TIMES, COVERAGE, SOURCE)
"""What is taken of a run's directory, where it is there."""
Part = bytes | Path
_MOMENT = (1980, 1, 1, 0, 0, 0)


def pack(file: IO[bytes], parts: Mapping[str, Part]) -> None:
    """Write parts in the order of their names, none compressed, all of one date: same parts, same bytes everywhere.

    >>> import io
    >>> files = [io.BytesIO(), io.BytesIO()]
    >>> pack(files[0], {"a": b"1", "b": b"2"}), pack(files[1], {"b": b"2", "a": b"1"})
    (None, None)
    >>> files[0].getvalue() == files[1].getvalue()
    True
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(parts):
            part = parts[name]
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            entry.file_size = len(part) if isinstance(part, bytes) else part.stat().st_size
            with archive.open(entry, "w") as target:
                if isinstance(part, bytes):
                    target.write(part)
                else:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, target, 2**20)


def digest(part: Part) -> tuple[str, int]:
    """Give the SHA-256 and the size of a part.

    >>> digest(b"")[0][:8], digest(b"")[1]
    ('e3b0c442', 0)
    """
    if isinstance(part, bytes):
        return hashlib.sha256(part).hexdigest(), len(part)
    with part.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), part.stat().st_size
