"""Writes files so that a crash, a signal or a full disk leaves the old one or the new one, never half of it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom, FileIO
from pathlib import Path
from typing import IO

PRIVATE, SHARED = 0o600, 0o666
"""Modes of new files: about people, for their owner alone; other files, as the umask allows."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How a file of a run is opened: a symbolic link in its place is an error."""
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space: your quota is used up",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.ENOENT: "a folder on the way to it was deleted or never there: make it",
    errno.ENOTDIR: "a part of the path is a file: choose another",
    errno.EACCES: "allow yourself to write there",
    errno.EPERM: "allow yourself to write there",
    errno.EROFS: "the file system can only be read: choose another",
    errno.EEXIST: "a file has that name: choose another",
    errno.EISDIR: "it is a folder: name a file",
    errno.ELOOP: "it is a symbolic link, and links are not followed here: put the file itself there",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "check the disk",
    errno.ESTALE: "the network file system has gone: mount it again",
}


def advice(error: BaseException) -> str:
    """Return the remedy for a file that cannot be written.

    >>> advice(OSError(errno.ENOSPC, "No space left on device"))
    'free some space'
    """
    return _ADVICE.get(getattr(error, "errno", None) or 0, "check the path and the disk")


def reason(error: BaseException) -> str:
    """Return why a file cannot be written.

    >>> reason(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device'
    """
    return getattr(error, "strerror", None) or str(error)


def leftover(name: str) -> str | None:
    """Return the file that a temporary one was written for, or None where it is not one of ``replacing``.

    >>> leftover(".run.json.0123456789abcdef.tmp"), leftover("run.tmp")
    ('run.json', None)
    """
    found = _TEMPORARY.fullmatch(name)
    return None if found is None else found["name"]


@contextmanager
def replacing(path: Path, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """Open a file to write (and to read back) that replaces ``path`` once it is complete.

    Until then it has another name in the same folder, and is removed if anything goes wrong. A symbolic link is
    followed; a device or a pipe is written to as it is. An existing file keeps its mode.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as file:
    ...         _ = file.write(b"new")
    ...     Path(folder, "a.txt").read_bytes(), os.listdir(folder)
    (b'new', ['a.txt'])
    """
    before = path.stat().st_mode if path.exists() else None
    if before is not None and not stat.S_ISREG(before):
        # This cannot be replaced; opening a folder raises a clear error.
        with path.open("wb") as file:
            yield file
        return
    try:
        target = Path(os.path.realpath(path))
    except ValueError as error:
        raise OSError(errno.EINVAL, f"no file can have that name ({error})") from None
    with _renamed(target, mode) as file:
        if before is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), before & 0o777)
        yield file


@contextmanager
def replacing_synced(path: Path) -> Iterator[IO[bytes]]:
    """Do the same for a file of a run, safe also against a power cut; a symbolic link is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing_synced(Path(folder, "run.json")) as file:
    ...         _ = file.write(b"{}")
    ...     oct(Path(folder, "run.json").stat().st_mode & 0o777)
    '0o600'
    """
    with _renamed(path, PRIVATE) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


@contextmanager
def _renamed(path: Path, mode: int) -> Iterator[IO[bytes]]:
    # A short part of a long name: the whole must not be longer than a file system allows.
    temporary = path.with_name(f".{path.name[:48]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, mode)
        with BufferedRandom(FileIO(descriptor, "r+")) as file:
            yield file
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def open_plain(path: Path) -> FileIO:
    """Open a file of a run for reading and writing, and create it if needed; links are not followed.

    Unbuffered: a finished write is with the system, and a failed write leaves nothing to fail again.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, PRIVATE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        what = "it is also a file elsewhere (a hard link)" if stat.S_ISREG(found.st_mode) else "it is no plain file"
        raise OSError(errno.EINVAL, f"{path.name}: {what}")
    return FileIO(descriptor, "r+")


def sync_folder(path: Path) -> None:
    """Make a file's new name survive a power cut, where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
