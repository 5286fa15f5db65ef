"""Places for files, tried before the work and not after it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evenhand.errors import ConfigError


def check_place(path: Path) -> None:
    """Raise unless a file can be written there.

    >>> check_place(Path("findings.csv"))
    """
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise ConfigError(f"{path} cannot be a file there; name one in a folder that exists")
    if path.exists() and not path.is_file():
        # A device or a pipe, which is written to as it is.
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written there ({error.strerror}); choose another place") from None
