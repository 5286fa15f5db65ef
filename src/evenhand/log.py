"""The log of a run's answers: checksummed frames of NumPy arrays in one append-only file.

A frame is a magic word, two lengths, a checksum, a JSON header (kind, counts, the arrays' dtypes and shapes) and the
arrays' bytes, closed by a byte that is not zero. A last frame that a crash cut off, or that a power cut left with zeros
up to the end of the file, is dropped; damage anywhere else is an error. When a run ends, its log is read back: it must
hold what was written.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit, open_file, parse_json, read_bytes, size_of
from evenhand._validate import COUNT, PLAIN, TEXT, check_fields
from evenhand._write import advice, open_plain, reason
from evenhand.errors import EvenhandError, RunError

MAGIC = b"EVH1"
_HEAD = struct.Struct("<4sIQ16s")
_END = b"\x01"
"""Closes a frame, so that zeros at its end are never its own."""
_LONGEST_HEADER = 2**24
_LONGEST_DTYPE = 32
FRAME_FIELDS = {
    "kind": TEXT,
    "digest": TEXT,
    "arrays": [(TEXT, TEXT, [COUNT])],
    "tests?": COUNT,
    "rows?": COUNT,
    "decisions?": [PLAIN],
}
"""What the header of every frame must have."""
_LOST = 2**28
"""Bytes that a power cut may leave as zeros: more than any answer has."""


@dataclass(frozen=True)
class Frame:
    """One logged answer."""

    kind: str
    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def _checksum(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def pack(frame: Frame) -> bytes:
    """Turn a frame into bytes.

    >>> len(pack(Frame("test", {}, {"a": np.arange(2)}))) > 16
    True
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in frame.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"{name}: arrays of Python objects are not logged")
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"kind": frame.kind, "arrays": layout, **frame.header}, sort_keys=True).encode()
    body = b"".join(array.tobytes() for array in arrays.values()) + _END
    return _HEAD.pack(MAGIC, len(header), len(body), _checksum(header, body)) + header + body


def frames(path: Path) -> Iterator[tuple[Frame, int]]:
    """Read frames one after the other, each with the offset behind it; stop at one that was not wholly written."""
    for header, body, start, end in _parts(path):
        yield _frame(header, body, path, start), end


def _parts(path: Path) -> Iterator[tuple[bytes, bytes, int, int]]:
    """Read the header and body of each frame, with where it begins and ends; the checksums are right."""
    size = size_of(path, RunError)
    with open_file(path, RunError) as file:
        while True:
            start = file.tell()
            head = file.read(_HEAD.size)
            if not head.startswith(MAGIC):
                written = head.rstrip(b"\0")
                if MAGIC.startswith(written) and _zeros(file, start + len(written), size):
                    return
                raise RunError(f"{path} is damaged at byte {start}: no frame begins there; restore it from a copy")
            if len(head) < _HEAD.size:
                return
            _, header_length, body_length, checksum = _HEAD.unpack(head)
            end = start + _HEAD.size + header_length + body_length
            if end <= size:
                check_limit("json_bytes", header_length, f"{path}, byte {start}")
                check_limit("frame_bytes", body_length, f"{path}, byte {start}")
                header, body = file.read(header_length), file.read(body_length)
                if _checksum(header, body) == checksum:
                    yield header, body, start, end
                    continue
            elif _fits(file.read(_LONGEST_HEADER), header_length, body_length):
                return
            if _zeros(file, min(end, size) - 1, size):
                return
            raise RunError(f"{path} is damaged between bytes {start} and {end}; restore it from a copy")


def _zeros(file: IO[bytes], start: int, size: int) -> bool:
    """Whether a file holds zeros from a byte to its end: its length was written, and what stood there was not."""
    file.seek(start)
    return size - start <= _LOST and not any(any(part) for part in iter(lambda: file.read(2**20), b""))


def _fits(rest: bytes, header_length: int, body_length: int) -> bool:
    """Whether a frame that reaches beyond the file was cut off, and its lengths are not merely wrong."""
    try:
        fields, end = json.JSONDecoder().raw_decode(rest.decode("latin-1"))
        held = sum(_dtype(dtype).itemsize * math.prod(shape) for _, dtype, shape in fields["arrays"])
    except (ValueError, KeyError, TypeError, RecursionError):
        # Its header was cut off, too.
        return True
    return end == header_length and body_length - held in (0, len(_END))


def _dtype(name: str) -> np.dtype[Any]:
    if len(name) > _LONGEST_DTYPE:
        raise ValueError(f"an array of {name[:_LONGEST_DTYPE]!r}...")
    return np.dtype(name)


def _frame(header: bytes, body: bytes, path: Path, start: int) -> Frame:
    try:
        return _unpack(header, body, f"{path}, byte {start}")
    except (ValueError, TypeError, KeyError, MemoryError, OverflowError, RecursionError) as error:
        raise RunError(
            f"{path} is damaged at byte {start}: its answer cannot be read ({_reason(error)}); restore it from a copy"
        ) from None


def _unpack(header: bytes, body: bytes, where: str) -> Frame:
    fields = parse_json(header, where)
    check_fields(fields, FRAME_FIELDS, "")
    arrays: dict[str, npt.NDArray[Any]] = {}
    at = 0
    for name, dtype, shape in fields.pop("arrays"):
        count = math.prod(shape)
        arrays[name] = np.frombuffer(body, dtype=_dtype(dtype), count=count, offset=at).reshape(shape)
        at += arrays[name].nbytes
    verdicts = 8 * arrays["unfair"].nbytes if "unfair" in arrays else 0
    if fields.get("tests", 0) > verdicts:
        raise ValueError(f"it claims {fields['tests']:,} tests, and has verdicts for {verdicts:,} at most")
    return Frame(fields.pop("kind"), fields, arrays)


class Log:
    """Answers of a run: first those stored earlier, then new ones, appended.

    Without a path nothing is stored. When each answer was given is kept in a file of its own beside the log, so that
    the log itself is the same, byte for byte, whenever the run is repeated.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.times = np.zeros(0)
        self._stored: Iterator[tuple[Frame, int]] = iter(())
        self._end = self._count = self.appended = 0
        self._paths = [] if path is None else [path, _times_path(path)]
        self._files: list[IO[bytes]] = []
        self._lost = False
        self._fault: OSError | None = None
        if path is not None and path.exists():
            self._stored = frames(path)
            self.times = _times(path)
        self._next = self._read()

    def _read(self) -> Frame | None:
        frame, self._end = next(self._stored, (None, self._end))
        self._count += frame is not None
        return frame

    @property
    def upcoming(self) -> Frame | None:
        """The stored answer that comes next, or None when the log has been read to its end."""
        return self._next

    def take(self, kind: str, digest: str) -> Frame | None:
        """Return the stored answer to this question, or None where it is a new one; raise if they do not fit."""
        frame = self._next
        if frame is None:
            return None
        if frame.kind != kind or frame.header["digest"] != digest:
            raise RunError(
                f"{self.path} holds the answers to other questions than this search asks; "
                "it was written by another version or model: use a new directory"
            )
        self._next = self._read()
        return frame

    @property
    def _ends(self) -> tuple[int, int]:
        """Where the answers, and their times, end."""
        return self._end, 8 * self._count

    def append(self, frame: Frame, seconds: float) -> None:
        """Store a new answer; it is on its way to the disk when this returns."""
        if self.path is None or self._lost:
            return
        try:
            if not self._files:
                self._open()
            elif self._sizes() != self._ends:
                # Another program has changed a file: what is written behind a hole could not be read.
                self._lost = True
                return
            packed = pack(frame)
            for file, data in zip(self._files, (packed, struct.pack("<d", seconds)), strict=True):
                _write(file, data)
            self._end += len(packed)
            self._count += 1
            self.appended += 1
        except OSError as error:
            raise self._unwritable(error) from error

    def _open(self) -> None:
        for path, end in zip(self._paths, self._ends, strict=True):
            self._files.append(_open_at(path, end))

    def _sizes(self) -> tuple[int, ...]:
        return tuple(os.fstat(file.fileno()).st_size for file in self._files)

    def close(self) -> None:
        """Finish writing, and read the log back; what went wrong with that, ``check`` says."""
        try:
            if not self._files and self._has_tail():
                self._open()
            written = bool(self._files)
            for file, path, end in zip(self._files, self._paths, self._ends, strict=False):
                if not self._lost:
                    # Of an answer that could not be written to its end.
                    file.truncate(min(end, os.fstat(file.fileno()).st_size))
                os.fsync(file.fileno())
                self._lost = self._lost or not _is_there(file, path)
            self._lost = self._lost or (written and not self._holds())
        except OSError as error:
            self._fault = error
        finally:
            for file in self._files:
                file.close()
            self._files = []

    def _has_tail(self) -> bool:
        """Whether more than whole answers stands in a log of which all answers have been read."""
        return (
            self.path is not None and self._next is None and self.path.exists() and self._end < self.path.stat().st_size
        )

    def _holds(self) -> bool:
        """Whether everything that was read from the log or written to it can be read back."""
        assert self.path is not None
        try:
            ends = [end for *_, end in _parts(self.path)]
        except EvenhandError:
            return False
        return (len(ends), ends[-1:]) == (self._count, [self._end] if self._count else [])

    def check(self) -> None:
        """Raise where the answers of this run are not all in its log."""
        if self._fault is not None:
            raise self._unwritable(self._fault)
        if self.path is not None and (self._lost or (self._count and not self.path.exists())):
            raise self._gone(self.path)

    def _unwritable(self, error: OSError) -> RunError:
        assert self.path is not None
        if not self.path.parent.is_dir():
            return self._gone(self.path)
        return RunError(
            f"cannot write to {self.path}: {reason(error)}; what was judged before is kept there: {advice(error)} and "
            "run again to go on"
        )

    def _gone(self, path: Path) -> RunError:
        what = f"{path} was" if path.parent.is_dir() else f"the directory {path.parent} was"
        return RunError(
            f"{what} deleted, moved or replaced, or its contents changed, during the run, so its answers are not all "
            "kept; run again in another directory"
        )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _times_path(path: Path) -> Path:
    return path.with_suffix(".times")


def _times(path: Path) -> npt.NDArray[np.float64]:
    times = _times_path(path)
    if not times.exists():
        return np.zeros(0)
    data = read_bytes(times, "frame_bytes", RunError)
    return np.frombuffer(data[: len(data) // 8 * 8], dtype="<f8")


def _write(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_at(path: Path, end: int) -> IO[bytes]:
    """Open a file to go on at a byte; what stands behind it (a frame that was cut off) is dropped."""
    file = open_plain(path)
    try:
        file.truncate(end)
        file.seek(end)
    except BaseException:
        file.close()
        raise
    return file


def _is_there(file: IO[bytes], path: Path) -> bool:
    """Whether a file that is open still stands where it was opened."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def digest_of(array: npt.NDArray[Any]) -> str:
    """Identify a block of individuals.

    >>> digest_of(np.arange(3)) == digest_of(np.arange(3))
    True
    """
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
