"""The log of a run's answers: checksummed frames of NumPy arrays in one append-only file.

A frame is a magic word, two lengths, a checksum, a JSON header (kind, counts, the arrays' dtypes and shapes) and the
arrays' bytes. A frame that was cut off at the end of the file by a crash is dropped; damage anywhere else is an error.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import RunError

MAGIC = b"EVH1"
_HEAD = struct.Struct("<4sIQ16s")


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
    body = b"".join(array.tobytes() for array in arrays.values())
    return _HEAD.pack(MAGIC, len(header), len(body), _checksum(header, body)) + header + body


def frames(path: Path) -> Iterator[tuple[Frame, int]]:
    """Read frames one after the other, each with the offset behind it; stop at a frame that was cut off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while True:
            start = file.tell()
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            magic, header_length, body_length, checksum = _HEAD.unpack(head)
            if magic != MAGIC:
                if not any(head) and not any(file.read()):
                    # After a power cut a file may have its new length but zeros for what was not yet written.
                    return
                raise RunError(f"{path} is damaged at byte {start}: no frame begins there; restore it from a copy")
            end = start + _HEAD.size + header_length + body_length
            if end > size:
                return
            header, body = file.read(header_length), file.read(body_length)
            if _checksum(header, body) != checksum:
                raise RunError(f"{path} is damaged between bytes {start} and {end}; restore it from a copy")
            yield _unpack(header, body), end


def _unpack(header: bytes, body: bytes) -> Frame:
    fields = json.loads(header)
    arrays: dict[str, npt.NDArray[Any]] = {}
    at = 0
    for name, dtype, shape in fields.pop("arrays"):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype=np.dtype(dtype), count=count, offset=at).reshape(shape)
        at += arrays[name].nbytes
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
        self._end = self._count = 0
        self._files: list[IO[bytes]] = []
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

    def append(self, frame: Frame, seconds: float) -> None:
        """Store a new answer; it is on its way to the disk when this returns."""
        if self.path is None:
            return
        try:
            if not self._files:
                self._files = [_open_at(self.path, self._end), _open_at(_times_path(self.path), 8 * self._count)]
            for file, data in zip(self._files, (pack(frame), struct.pack("<d", seconds)), strict=True):
                _write(file, data)
            self._count += 1
        except OSError as error:
            raise RunError(
                f"cannot write to {self.path}: {error.strerror}; what was judged before is kept there: "
                "free some space and run again to go on"
            ) from error

    def close(self) -> None:
        """Finish writing."""
        for file in self._files:
            file.close()
        self._files = []


def _times_path(path: Path) -> Path:
    return path.with_suffix(".times")


def _times(path: Path) -> npt.NDArray[np.float64]:
    try:
        data = _times_path(path).read_bytes()
    except FileNotFoundError:
        return np.zeros(0)
    return np.frombuffer(data[: len(data) // 8 * 8], dtype="<f8")


def _write(file: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_at(path: Path, end: int) -> IO[bytes]:
    """Open a file to go on at a byte; what stands behind it (a frame that was cut off) is dropped."""
    # Unbuffered: what a write reports as done is with the system, and a failed write leaves nothing to fail again.
    file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    file.truncate(end)
    file.seek(end)
    return file


def digest_of(array: npt.NDArray[Any]) -> str:
    """Identify a block of individuals.

    >>> digest_of(np.arange(3)) == digest_of(np.arange(3))
    True
    """
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
