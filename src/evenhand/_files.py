"""Files, read within limits and written completely or not at all.

Nothing is read, unpacked or parsed before its size, its depth and the sizes that it claims are checked. Each function
that reads takes the kind of error to raise for a faulty file. A file that is only too large always raises
`LimitExceeded`. A crash, a signal or a full disk leaves the old file or the new one.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
import math
import os
import re
import secrets
import stat
import tempfile
import tomllib
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom, FileIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from evenhand.errors import ConfigError, EvenhandError, LimitExceeded, RunError

PREFIX = "EVENHAND_LIMIT_"
MIB, GIB = 2**20, 2**30


class Limit(NamedTuple):
    """A limit: its default, and what it counts."""

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
    "space_counterparts": Limit(10_000_000, "counterparts of one individual, as `max_family_size` in a space's file"),
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
    """Return the current value of a limit.

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
            "must be an integer of at least 0",
            parameter=PREFIX + name.upper(),
            value=text,
            remedy=f"unset it for the default of {LIMITS[name].most:,}",
        )
    return most


def check_limit(name: str, value: int, where: object, remedy: str = "", most: int | None = None) -> None:
    """Raise if a value is over a limit; ``most`` replaces the limit if it also depends on the file.

    >>> check_limit("nesting", 5000, "space.toml")
    Traceback (most recent call last):
    evenhand.errors.LimitExceeded: space.toml: over the limit nesting of 100 (levels of brackets in TOML and JSON), got
    5,000; if you trust the file, set EVENHAND_LIMIT_NESTING higher
    """
    allowed = limit(name) if most is None else most
    if value > allowed:
        raise exceeded(name, f"{value:,}", where, remedy, allowed)


def exceeded(name: str, value: str, where: object, remedy: str = "", most: int | None = None) -> LimitExceeded:
    """Return the error for a limit that was exceeded.

    >>> exceeded("nesting", "too deep", "space.toml").limit
    'nesting'
    """
    allowed = limit(name) if most is None else most
    return LimitExceeded(
        f"{where}: over the limit {name} of {allowed:,} ({LIMITS[name].meaning}), got {value}",
        name,
        value,
        allowed,
        f"{remedy}{', or ' if remedy else ''}if you trust the file, set {PREFIX}{name.upper()} higher",
    )


PACKINGS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
"""Endings of packed files, and what opens them."""
FREE = 16 * MIB
"""Bytes that any file may unpack to, however small it is."""
PIECE = 2**16
_ENTRY = 128
"""Bytes allowed for one entry in an archive's directory; models and bundles need fewer."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""What zipfile raises for archives that are damaged or of an unsupported kind."""
_UNDAMAGED = "get an undamaged copy"
Kind = type[EvenhandError]

# Possessive quantifiers never backtrack, so the time is proportional to the length of the text.
_TOML_WORDS = re.compile(
    r'''"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5})?|\'\'\'(?:[^']++|'(?!''))*+(?:'{3,5})?'''
    r"""|"(?:[^"\\\n]++|\\.)*+"?|'[^'\n]*+'?|\#[^\n]*+|[\w+:-]++|[ \t\r]++""",
    re.DOTALL,
)
_TOML_TABLES = re.compile(r"\.++(?=[\]=])|^\[(?=\.*+\]$)", re.MULTILINE)
"""What makes tables, once words are removed: headers, and dots in keys (and the last dot in a list of numbers)."""
_TABLE = 2
"""How many values such a table counts as."""
_JSON_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))


def size_of(path: Path, error: Kind, remedy: str = "name a file") -> int:
    """Return a file's size; raise unless it is a regular file, because a device or a pipe may have no end.

    >>> from evenhand.errors import DataError
    >>> size_of(Path("nowhere.csv"), DataError)
    Traceback (most recent call last):
    evenhand.errors.DataError: nowhere.csv: there is no such file; check the path
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as problem:
        fault = "there is no such file" if isinstance(problem, FileNotFoundError) else reason(problem)
        raise error(f"{path}: {fault}", remedy="check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{path}: it is a directory or a device, not a file", remedy=remedy)
    return found.st_size


def open_file(path: Path, error: Kind) -> io.BufferedReader:
    """Open a regular file for reading bytes."""
    size_of(path, error)
    try:
        # If it has become a pipe in the meantime, opening it must not wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as problem:
        raise error(f"{path}: it cannot be read ({reason(problem)})") from None
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, name: str, error: Kind, remedy: str = "") -> bytes:
    """Read a whole file, within a limit.

    >>> import tempfile
    >>> from evenhand.errors import DataError
    >>> file = Path(tempfile.mkdtemp()) / "rows.json"
    >>> _ = file.write_bytes(b"[]")
    >>> read_bytes(file, "json_bytes", DataError)
    b'[]'
    """
    size = size_of(path, error)
    check_limit(name, size, path, remedy)
    with open_file(path, error) as file:
        try:
            # Memory is reserved for the size that the file had, and not for the limit.
            content = file.read(size + 1)
            if len(content) > size:
                content += file.read(max(0, limit(name) + 1 - len(content)))
        except OSError as problem:
            raise error(f"{path}: it cannot be read ({reason(problem)})") from None
    check_limit(name, len(content), path, remedy)
    return content


def read_toml(path: Path, error: Kind, remedy: str = "") -> str:
    """Read the text of a TOML file."""
    try:
        return read_bytes(path, "toml_bytes", error, remedy).decode("utf-8")
    except UnicodeDecodeError:
        raise error(f"{path}: it is not UTF-8 text", remedy="save it as UTF-8") from None


def parse_toml(text: str, where: str, error: Kind) -> dict[str, Any]:
    """Parse TOML, with limits on size, depth and dotted keys.

    >>> from evenhand.errors import ConfigError
    >>> parse_toml("a.b = 1", "text", ConfigError)
    {'a': {'b': 1}}
    >>> parse_toml("a" + ".a" * 99 + " = 1", "text", ConfigError)
    Traceback (most recent call last):
    evenhand.errors.LimitExceeded: text: over the limit toml_key_parts of 8 (parts of a dotted key in a TOML file), got
    more; if you trust the file, set EVENHAND_LIMIT_TOML_KEY_PARTS higher
    """
    check_limit("toml_bytes", len(text), where)
    bare = _TOML_WORDS.sub("", text)
    # Each is looked up more than once and costs as much as several values.
    tables = sum(map(len, _TOML_TABLES.findall(bare)))
    check_limit("toml_values", sum(map(bare.count, ",={[")) + _TABLE * tables, where)
    # tomllib's memory grows with the square of the number of parts of a key.
    if "." * limit("toml_key_parts") in bare:
        raise exceeded("toml_key_parts", "more", where)
    try:
        _check_nesting(bare.encode(), where)
        return tomllib.loads(text)
    except RecursionError:
        raise exceeded("nesting", "more than Python can parse", where) from None
    except ValueError as problem:
        raise error(f"{where}: it is not valid TOML ({reason(problem)})", remedy="correct that line") from None


def parse_json(content: bytes, where: object, values: int | None = None) -> Any:
    """Parse JSON within limits; invalid JSON raises a ValueError, as the json module does.

    >>> parse_json(b'{"a": [1, 2]}', "text")
    {'a': [1, 2]}
    >>> parse_json(b"[" * 500, "text")
    Traceback (most recent call last):
    evenhand.errors.LimitExceeded: text: over the limit nesting of 100 (levels of brackets in TOML and JSON), got more;
    if you trust the file, set EVENHAND_LIMIT_NESTING higher
    """
    check_limit("json_bytes", len(content), where)
    most = limit("json_values") if values is None else values
    if len(content) >= most or content.count(b"[") + content.count(b"{") > limit("nesting"):
        # Each value takes a byte, each level a bracket: what is short and flat needs no counting.
        count_values(content, where, most)
    text = content.decode("utf-8-sig")
    del content
    try:
        return json.loads(text)
    except RecursionError:
        raise exceeded("nesting", "more than Python can parse", where) from None


def count_values(data: bytes, where: object, most: int) -> int:
    """Count the values in JSON without parsing it; raise if there are too many or they are nested too deeply."""
    # Texts are removed one by one, so their number is checked first.
    check_limit("json_values", data.count(b'"') // 4, where, most=most)
    bare = _JSON_TEXTS.sub(b"", data).translate(None, _NO_STRUCTURE)
    values = 1 + sum(map(bare.count, (b",", b"[", b"{")))
    check_limit("json_values", values, where, most=most)
    _check_nesting(bare, where)
    return values


def _check_nesting(bare: bytes, where: object) -> None:
    """Raise if brackets are nested too deeply: each round removes the innermost pairs."""
    brackets = bare.translate(None, bytes(set(range(256)) - set(b"[]{}")))
    deepest = limit("nesting")
    if brackets.count(b"[") + brackets.count(b"{") <= deepest:
        return
    for _ in range(deepest):
        left = brackets.replace(b"[]", b"").replace(b"{}", b"")
        # Brackets that never close count as nested; the parser reports brackets that do not match.
        if not left or (len(left) == len(brackets) and max(map(len, re.split(rb"[\]}]+", left))) <= deepest):
            return
        brackets = left
    raise exceeded("nesting", "more", where)


class Unpacked(io.RawIOBase):
    """A file that is unpacked while it is read, and raises if it is too large or was packed too tightly."""

    def __init__(self, path: Path, packed: str, name: str, error: Kind) -> None:
        self._path, self._name = path, name
        size = size_of(path, error)
        check_limit(name, size, path, "give a sample of it")
        file = open_file(path, error)
        self._stream: IO[bytes] = PACKINGS[packed](file, "rb") if packed else file
        self._file = file
        self._most = limit(name)
        self._tight = max(FREE, limit("unpack_ratio") * size) if packed else self._most
        self._so_far = 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        data = self._stream.read(len(buffer))
        self._so_far += len(data)
        if self._so_far > self._most:
            raise exceeded(self._name, f"more than {self._most:,} unpacked", self._path, "give a sample of it")
        if self._so_far > self._tight:
            raise exceeded("unpack_ratio", f"more than {self._tight:,} bytes from a small file", self._path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._file.close()
        super().close()


def unpacked(path: Path, packed: str, name: str, error: Kind) -> io.BufferedReader:
    """Open a file that is unpacked while it is read, within a limit."""
    return io.BufferedReader(Unpacked(path, packed, name, error), PIECE)


def inflate(data: bytes, name: str, where: object) -> bytes:
    """Decompress zlib data, within a limit.

    >>> inflate(zlib.compress(b"ab"), "json_bytes", "text")
    b'ab'
    """
    most = limit(name)
    machine = zlib.decompressobj()
    out = machine.decompress(data, most)
    if machine.unconsumed_tail and machine.decompress(machine.unconsumed_tail, 1):
        raise exceeded(name, "more", where)
    if not machine.eof:
        raise ValueError("the compressed data ends too early")
    return out


class _Directory(io.RawIOBase):
    """A file that limits how much zipfile reads while it looks for an archive's directory."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.most: int | None = None

    def read(self, size: int | None = -1) -> bytes:
        size = -1 if size is None else size
        if self.most is None:
            return self.file.read(size)
        found = self.file.read(self.most + 1 if size < 0 else min(size, self.most + 1))
        if len(found) > self.most:
            raise OverflowError
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


@contextmanager
def open_archive(
    file: IO[bytes], where: object, what: str, entries: str, name: str, error: Kind
) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive after checking that its entries are few, do not overlap and have the sizes that they claim.

    ``what`` names the expected content in errors. ``entries`` and ``name`` name the limits for the number of entries
    and for their total bytes.
    """
    bounded = _Directory(file)
    # zipfile reads the end of the file (a comment of up to 64 KiB), then the directory as a whole.
    bounded.most = max(2**17, _ENTRY * limit(entries))
    try:
        archive = zipfile.ZipFile(bounded)
    except OverflowError:
        raise exceeded(entries, "a longer directory", where) from None
    except (*_DAMAGED, OSError, ValueError) as problem:
        raise error(f"{where}: it cannot be read as {what} ({reason(problem)})", remedy=_UNDAMAGED) from None
    bounded.most = None
    with archive:
        _check_entries(archive, file, where, entries, name, error)
        try:
            yield archive
        except EvenhandError:
            raise
        except (*_DAMAGED, OSError) as problem:
            raise error(f"{where}: it is damaged ({reason(problem)})", remedy=_UNDAMAGED) from None


def _check_entries(
    archive: zipfile.ZipFile, file: IO[bytes], where: object, entries: str, name: str, error: Kind
) -> None:
    listed = archive.infolist()
    check_limit(entries, len(listed), where)
    total = sum(entry.file_size for entry in listed)
    check_limit(name, total, where)
    size = file.seek(0, os.SEEK_END)
    check_limit("unpack_ratio", total // max(size, 1), where, most=max(limit("unpack_ratio"), FREE // max(size, 1)))
    end = 0
    for entry in sorted(listed, key=lambda entry: entry.header_offset):
        # A header has 30 bytes and the name; the directory does not say what else it contains.
        fault, remedy = "", _UNDAMAGED
        if entry.header_offset < end:
            fault = "overlaps another"
        elif entry.flag_bits & 1:
            fault, remedy = "is encrypted", "save it without a password"
        elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            fault, remedy = "is packed in an unknown way", "pack it again"
        elif entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            fault = "is not as large as it claims"
        if fault:
            raise error(f"{where}: its entry {entry.filename[:60]!r} {fault}", remedy=remedy)
        end = entry.header_offset + 30 + len(entry.orig_filename.encode()) + entry.compress_size
    for entry in listed:
        if entry.compress_type == zipfile.ZIP_DEFLATED:
            _check_deflated(archive, entry, f"{where}: its entry {entry.filename[:60]!r}", error)


def _check_deflated(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str, error: Kind) -> None:
    """Unpack an entry piece by piece to check that it has the size in the directory; zipfile would cut it off."""
    try:
        with archive.open(entry) as stream:
            while stream.read(PIECE):
                pass
            # zipfile reads up to the claimed size; anything packed beyond it is found here.
            machine, rest = getattr(stream, "_decompressor", None), getattr(stream, "_compress_left", 0)
            if rest or (machine is not None and not machine.eof):
                raise error(f"{what} is larger than it claims", remedy=_UNDAMAGED)
    except (*_DAMAGED, OSError) as problem:
        raise error(f"{what} is damaged ({reason(problem)})", remedy=_UNDAMAGED) from None


def check_array(stream: IO[bytes], size: int, where: object, error: Kind) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype in the header of a .npy file, after checking that it has that many values."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(stream)
    except (ValueError, OSError, EOFError, RecursionError, MemoryError) as problem:
        raise error(f"{where}: it is not a NumPy array ({reason(problem)})") from None
    count = math.prod(shape)
    # Any number of values without a size, such as empty texts, could be claimed.
    if not 0 <= count * max(dtype.itemsize, 1) <= size or min(shape, default=0) < 0:
        raise error(f"{where}: it claims {count:,} values of {dtype}, and has {size:,} bytes", remedy="save it again")
    return shape, dtype


def reason(error: BaseException) -> str:
    """Return why a file cannot be read or written, in one line.

    >>> reason(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device'
    """
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200] or type(error).__name__


PRIVATE, SHARED = 0o600, 0o666
"""Modes of new files: about people, for their owner alone; other files, as the umask allows."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How a file of a run is opened: a symbolic link in its place is an error."""
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space: your quota is used up",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.ENOENT: "a folder in its path does not exist: create it",
    errno.ENOTDIR: "a part of the path is a file: choose another path",
    errno.EACCES: "change the permissions there",
    errno.EPERM: "change the permissions there",
    errno.EROFS: "the file system is read-only: choose another",
    errno.EEXIST: "a file has that name: choose another name",
    errno.EISDIR: "it is a folder: name a file",
    errno.ELOOP: "it is a symbolic link, and links are not followed here: put the file itself there",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "check the disk",
    errno.ESTALE: "the network file system is gone: mount it again",
}


def advice(error: BaseException) -> str:
    """Return the remedy for a file that cannot be written.

    >>> advice(OSError(errno.ENOSPC, "No space left on device"))
    'free some space'
    """
    return _ADVICE.get(getattr(error, "errno", None) or 0, "check the path and the disk")


def leftover(name: str) -> str | None:
    """Return the name of the file that a temporary file was written for; None if ``replacing`` did not make it.

    >>> leftover(".run.json.0123456789abcdef.tmp"), leftover("run.tmp")
    ('run.json', None)
    """
    found = _TEMPORARY.fullmatch(name)
    return None if found is None else found["name"]


@contextmanager
def replacing(path: Path, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """Open a file for writing (and reading back) that replaces ``path`` once it is complete.

    Until then it has another name in the same folder, and is removed if anything fails. Symbolic links are followed,
    and devices and pipes are written to directly. An existing file keeps its mode.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as file:
    ...         _ = file.write(b"new")
    ...     Path(folder, "a.txt").read_bytes(), os.listdir(folder)
    (b'new', ['a.txt'])
    """
    before = path.stat().st_mode if path.exists() else None
    if before is not None and not stat.S_ISREG(before):
        # Neither can be replaced; opening a folder raises a clear error.
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
    """Do the same for a file of a run, and survive a power cut as well; a symbolic link is replaced.

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
    # Only a part of a long name, because file systems limit the length of names.
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

    Unbuffered: the system has each finished write, and a failed write leaves nothing behind that fails again.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, PRIVATE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        what = "it has another hard link" if stat.S_ISREG(found.st_mode) else "it is not a regular file"
        raise OSError(errno.EINVAL, f"{path.name}: {what}")
    return FileIO(descriptor, "r+")


def sync_folder(path: Path) -> None:
    """Make a file's new name survive a power cut, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary(owner: object) -> IO[bytes]:
    """Open a file without a name, which is deleted together with its owner or the process.

    >>> class Owner: pass
    >>> owner = Owner()
    >>> temporary(owner).write(b"12")
    2
    """
    file: IO[bytes] = tempfile.TemporaryFile(prefix="evenhand-")  # noqa: SIM115
    weakref.finalize(owner, file.close)
    return file


def no_room(what: str, error: OSError) -> RunError:
    """Return the error for data that do not fit into temporary files.

    >>> no_room("the findings", OSError(28, "No space left on device")).remedy
    'name a folder with more space in the environment variable TMPDIR'
    """
    return RunError(
        f"cannot store {what} in {tempfile.gettempdir()}: {error}",
        remedy="name a folder with more space in the environment variable TMPDIR",
    )
