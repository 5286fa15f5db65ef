"""The directory of a run: its identity, the log of answers, and its result."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import (
    advice,
    check_limit,
    leftover,
    open_file,
    open_plain,
    parse_json,
    read_bytes,
    reason,
    replacing_synced,
    size_of,
)
from evenhand._validate import (
    AMOUNT,
    ANY,
    COUNT,
    FLAG,
    PLAIN,
    TEXT,
    WHOLE,
    Leaf,
    Maybe,
    check_fields,
    check_path,
    one_of,
)
from evenhand.budget import StopReason
from evenhand.criteria import KINDS, Criterion, UnknownCriterion, from_dict
from evenhand.errors import EvenhandError, RunError, StrategyError

FORMAT = 3
READABLE = (1, 2, 3)
"""Supported formats of ``identity.json``. Format 1 stored the criterion as text; formats 1 and 2 called a space's
``max_family_size`` ``limit``.
"""


class InUse(RunError):
    """The directory of a run is in use by another process."""


IDENTITY_FIELDS = {
    "space": {str: ANY},
    "strategy": {"strategy": TEXT},
    "seed": COUNT,
    "criterion": ANY,
    "chunk": Leaf("an integer of at least 2", lambda value: COUNT.holds(value) and value >= 2),
    "data": Maybe(TEXT),
    "model": TEXT,
    "answers": TEXT,
    "model_sha256?": Maybe(TEXT),
    "gradient?": Maybe(TEXT),
}
"""Required fields of ``identity.json``."""


@dataclass(frozen=True)
class RunIdentity:
    """Everything that makes a run what it is, except its budget: a larger budget continues the same run.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> identity = eh.audit(lambda frame: frame["age"] > 4, space, strategy="themis").identity
    >>> identity.search, identity.seed, identity.criterion
    ('themis', 0, Flip())
    >>> RunIdentity.from_dict(identity.to_dict()) == identity
    True
    """

    space: dict[str, Any]
    """The space, as ``describe()`` gives it."""
    strategy: dict[str, Any]
    """The search's name under ``strategy``, and its settings."""
    seed: int
    criterion: Criterion
    chunk: int
    data: str | None
    """Digest of the rows, or texts, that the search starts from; None if it uses none."""
    model: str
    answers: str
    """Digest of the model's answers to a fixed set of individuals."""
    model_sha256: str | None = None
    """Hash of the model's file, if it was loaded from one; the same model may also be passed as an object."""
    gradient: str | None = None
    """The source of the gradients of a search; None for searches without."""

    @property
    def search(self) -> str:
        """The name of the search."""
        return str(self.strategy["strategy"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the search."""
        return {name: value for name, value in self.strategy.items() if name != "strategy"}

    def to_dict(self) -> dict[str, Any]:
        """Return the identity in plain values, without the optional parts that are not known."""
        plain = asdict(self) | {"criterion": self.criterion.to_dict()}
        return {name: v for name, v in plain.items() if v is not None or name not in ("model_sha256", "gradient")}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RunIdentity:
        """Read an identity that ``to_dict`` wrote, in any readable format."""
        try:
            check_fields(stored, IDENTITY_FIELDS, "")
            values: dict[str, Any] = {field.name: stored.get(field.name) for field in fields(cls)}
            criterion = stored["criterion"]
            read = _format_1(criterion) if isinstance(criterion, str) else from_dict(criterion)
        except (ValueError, TypeError, KeyError, AttributeError, StrategyError) as error:
            raise RunError(f"it is not the identity of a run ({error})", remedy="restore it from a copy") from None
        return cls(**(values | {"criterion": read, "space": _current(stored["space"])}))


def digest_of_answers(answers: npt.NDArray[Any]) -> str:
    """Identify a model by its labels, or its rows of scores, for the fixed individuals."""
    values = [str(v) for v in answers] if answers.ndim == 1 else np.round(answers, 6).tolist()
    return hashlib.sha256(repr(values).encode()).hexdigest()


@dataclass(frozen=True)
class About:
    """When a run began, and what its author says of it: nothing is taken from the operating system but the time.

    >>> About(auditor="Model risk").to_dict()
    {'auditor': 'Model risk'}
    """

    started: str | None = None
    """Date and time in UTC, as ISO 8601; None for runs of earlier versions."""
    auditor: str | None = None
    """Who ran the audit."""
    purpose: str | None = None
    """What the audit is for."""
    data_description: str | None = None
    """What the data are: their source, period and selection."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, str | None):
                raise RunError("must be text", parameter=name, value=value)

    @classmethod
    def now(cls) -> About:
        """Return that of a run that begins now."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"))

    def to_dict(self) -> dict[str, str]:
        """Return what is known, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def with_(self, **values: str | None) -> About:
        """Return a copy with the values that are not None."""
        return replace(self, **{name: value for name, value in values.items() if value is not None})

    @classmethod
    def read(cls, directory: Path) -> About:
        """Read it from a run's directory, which may have none."""
        path = directory / ABOUT
        if not path.exists():
            return cls()
        stored = read_json(path)
        try:
            check_fields(stored, {f"{one.name}?": TEXT for one in fields(cls)}, "")
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}", remedy="restore it from a copy, or delete it") from None
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})

    def keep(self, directory: Path) -> None:
        """Write it into a run's directory."""
        write_json(directory / ABOUT, self.to_dict())


def _current(space: dict[str, Any]) -> dict[str, Any]:
    """Return a space's description as it is written today."""
    ours = space.get("kind", "text") == "text"
    return {"max_family_size" if ours and name == "limit" else name: value for name, value in space.items()}


def _format_1(text: str) -> Criterion:
    """Read the criterion of a run in format 1, which stored it as a Python expression; nothing is executed.

    >>> _format_1("Both(left=Flip(), right=Gap(gamma=0.2))")
    Both(left=Flip(), right=Gap(gamma=0.2))
    """
    try:
        return _criterion(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return UnknownCriterion(text[:80], {})


def _criterion(node: ast.expr) -> Criterion:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in KINDS:
        raise ValueError("not a known criterion")
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("not a known criterion")
    named = {str(keyword.arg): _argument(keyword.value) for keyword in node.keywords}
    return KINDS[node.func.id](**named)


def _argument(node: ast.expr) -> Any:
    return _criterion(node) if isinstance(node, ast.Call) else ast.literal_eval(node)


try:
    import fcntl
except ImportError:  # Windows has no such locks, so users must not run two processes in one directory.
    fcntl = None  # type: ignore[assignment]

IDENTITY, RESULT, ANSWERS, TIMES, LOCK = "identity.json", "run.json", "answers.log", "answers.times", "lock"
COVERAGE, SOURCE, ABOUT = "coverage.json", "source.json", "about.json"
PENDING = "answers.pending"
"""Answers of an endpoint to an unfinished block."""
WRITTEN_ALONE = (IDENTITY, RESULT)
"""Files that only the process with the lock writes, so unfinished ones of other processes are stale."""
RESTORE = "restore it from a copy, or start a new run"
OLD_TEMPORARY = ("identity.tmp", "run.tmp")
"""Temporary files of earlier versions, left when they were killed."""
RESULT_FIELDS = {
    "budget": {
        "tests": Maybe(COUNT),
        "rows": Maybe(COUNT),
        "findings": Maybe(COUNT),
        "seconds": Maybe(AMOUNT),
        "requests?": COUNT,
    },
    "stop": one_of([reason.value for reason in StopReason]),
    "tests": WHOLE,
    "findings": WHOLE,
    "refuted?": COUNT,
    "checked?": {
        "confirm": Maybe(COUNT),
        "asked_again": COUNT,
        "refuted": [COUNT],
        "unsteady": Maybe(TEXT),
        "noise?": AMOUNT,
    },
    "asked": {str: COUNT},
    "seconds": AMOUNT,
    "counts": {"rows_checked": COUNT, str: COUNT},
    "curve": [(COUNT, COUNT, COUNT)],
    "versions": {str: TEXT},
    "unused?": [TEXT],
    "scored?": Maybe((COUNT, COUNT)),
    "example?": Maybe(PLAIN),
    "from_data?": TEXT,
    "arms?": {str: {str: COUNT}},
    "estimate?": {
        str: {
            "found": COUNT,
            "samples": COUNT,
            "planned": COUNT,
            "planned_found": COUNT,
            "exact": FLAG,
            "left?": Maybe(COUNT),
            str: PLAIN,
        },
    },
}
"""Required fields of ``run.json``."""
MODEL_FILE = "model_sha256"
ASKED = ("space", "strategy", "criterion", "data", "gradient")
"""Parts of the identity that decide what a model is asked, to identify it."""


class Directory:
    """Opens a run's directory for writing, by one process at a time.

    ``identity.json`` identifies the run, ``answers.log`` has every answer of the model, ``run.json`` the result. A
    directory with other files is refused.
    """

    def __init__(self, path: str | Path, identity: RunIdentity) -> None:
        self.path = check_path("directory", path, RunError)
        wanted = _plain(identity.to_dict())
        _refuse_dangling(self.path)
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            refuse_links(self.path)
            self._lock = open_plain(self.path / LOCK)
        except (OSError, ValueError) as error:
            raise RunError(
                f"cannot use {self.path} as a run's directory: {reason(error)}",
                remedy=f"{advice(error)}, or choose another directory",
            ) from error
        try:
            self._take_lock()
            self._claim(wanted)
            self._claimed = read_bytes(self.path / IDENTITY, "json_bytes", RunError)
        except BaseException:
            self.close()
            raise

    @property
    def answers(self) -> Path:
        """The file of the answers."""
        return self.path / ANSWERS

    @property
    def result(self) -> dict[str, Any] | None:
        """The result when the run last ended, or None."""
        return read_result(self.path)

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result of the run."""
        write_json(self.path / RESULT, result)

    def check(self) -> None:
        """Raise if the identity of the run was deleted or changed."""
        refuse_links(self.path)
        file = self.path / IDENTITY
        try:
            same = read_bytes(file, "json_bytes", RunError) == self._claimed
        except RunError:
            same = False
        if not same:
            raise RunError(
                f"{file} was deleted or changed during the run, so the directory cannot be read",
                remedy="run again in another directory",
            )

    def close(self) -> None:
        """Release the directory."""
        self._lock.close()

    def _take_lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InUse(
                f"{self.path} is in use by another process", remedy="wait for it, or choose another directory"
            ) from None

    def _claim(self, wanted: dict[str, Any]) -> None:
        file = self.path / IDENTITY
        self._tidy()
        if not file.exists():
            foreign = sorted(p.name for p in self.path.iterdir() if p.name != LOCK and leftover(p.name) is None)
            if foreign:
                raise RunError(
                    f"{self.path} has files that do not belong to a run ({', '.join(foreign[:3])})",
                    remedy="choose an empty directory",
                )
            write_json(file, {"format": FORMAT, **wanted})
            self._note_start()
            return
        stored = read_identity(self.path).to_dict()
        now, then = wanted.get(MODEL_FILE), stored.get(MODEL_FILE)
        if now is not None and then is not None and now != then:
            raise RunError(
                f"the model file has changed since the run in {self.path} was made",
                remedy="choose another directory, or use the original file",
            )
        differing = [k for k in {**wanted, **stored} if k != MODEL_FILE and wanted.get(k) != stored.get(k)]
        if not {*differing}.isdisjoint(ASKED):
            # Other questions have other answers, also by the same model.
            differing = [k for k in differing if k != "answers"]
        if differing:
            raise RunError(
                f"{self.path} holds another run: {', '.join(_difference(k, stored, wanted) for k in differing[:3])}",
                remedy="choose another directory, or use the arguments of the stored run",
            )
        self._note_start()

    def _note_start(self) -> None:
        """Write when the run began, unless it has answers; a process may end between the identity and this file."""
        if not self.answers.exists():
            self._remove_unfinished(ABOUT)
            if not (self.path / ABOUT).exists():
                About.now().keep(self.path)

    def _tidy(self) -> None:
        """Remove the unfinished files of a killed process."""
        self._remove_unfinished(*WRITTEN_ALONE)
        for name in OLD_TEMPORARY:
            with suppress(OSError):
                (self.path / name).unlink()

    def _remove_unfinished(self, *names: str) -> None:
        for file in self.path.iterdir():
            if leftover(file.name) in names:
                with suppress(OSError):
                    file.unlink()


def refuse_links(path: Path) -> None:
    """Raise if a file of a run is a symbolic link, which could expose or overwrite a file elsewhere.

    >>> refuse_links(Path("run"))
    """
    for name in (IDENTITY, RESULT, ANSWERS, TIMES, COVERAGE, SOURCE, ABOUT, LOCK, PENDING):
        if (path / name).is_symlink():
            raise RunError(
                f"{path / name} is a symbolic link, and links in a run's directory are not followed",
                remedy="put the file itself there, or choose another directory",
            )


def _refuse_dangling(path: Path) -> None:
    """Raise if a path contains a dangling link, because no directory can be created there."""
    with suppress(OSError, ValueError):
        for link in (path, *path.parents):
            if link.is_symlink() and not link.exists():
                raise RunError(
                    f"cannot use {path} as a run's directory: {link} is a symbolic link to {link.readlink()}, which "
                    "does not exist",
                    remedy="create that directory, or choose another path",
                )


def _difference(key: str, stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    old, new = stored.get(key), wanted.get(key)
    if key == "answers":
        return "the model answers the same individuals differently (a different model, or a non-deterministic one)"
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [f"{k} {old.get(k)!r} there, {new.get(k)!r} now" for k in {**old, **new} if old.get(k) != new.get(k)]
        text = "; ".join(inner)
        return f"{key} differs ({text})" if len(text) < 120 else f"{key} differs"
    return f"{key} {str(old)[:40]!r} there, {str(new)[:40]!r} now"


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise RunError(
            f"this run cannot be stored ({error})",
            remedy="use texts, numbers and booleans as values of attributes and settings, or run without a directory",
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    if not path.exists():
        raise RunError(
            f"{path.parent} is not the directory of a run: {path.name} is missing",
            remedy="give the directory that an audit wrote",
        )
    try:
        value = parse_json(read_bytes(path, "json_bytes", RunError), path)
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error})", remedy=RESTORE) from None
    if not isinstance(value, dict):
        raise RunError(f"{path} must contain a JSON object", remedy=RESTORE)
    return value


def read_identity(directory: Path) -> RunIdentity:
    """Read the identity of the run in a directory."""
    path = directory / IDENTITY
    stored = read_json(path)
    if stored.get("format") not in READABLE:
        raise RunError(
            f"{directory} was written by another version of evenhand",
            remedy="read it with that version, or choose another directory",
        )
    try:
        return RunIdentity.from_dict(stored)
    except RunError as error:
        raise RunError(f"{path} cannot be read: {error.reason}", remedy=RESTORE) from None


def read_result(directory: Path) -> dict[str, Any] | None:
    """Read the result of a run; None if it has not ended."""
    path = directory / RESULT
    if not path.exists():
        return None
    result = read_json(path)
    try:
        check_fields(result, RESULT_FIELDS, "")
    except ValueError as error:
        raise RunError(
            f"{path} is damaged: {error}",
            remedy="restore it from a copy, or delete it, and the run is read from its log",
        ) from None
    return result


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object so that a crash leaves the old file or the new one, never half of it."""
    try:
        with replacing_synced(path) as file:
            file.write(json.dumps(value, indent=1).encode())
    except OSError as error:
        if not path.parent.is_dir():
            raise RunError(
                f"cannot write {path}: its directory was deleted or moved", remedy="choose another directory"
            ) from error
        raise RunError(
            f"cannot write {path}: {reason(error)}", remedy=f"{advice(error)}, or choose another directory"
        ) from error


MAGIC = b"EVH1"
_HEAD = struct.Struct("<4sIQ16s")
_END = b"\x01"
"""Ends a frame, so that zeros at its end are never part of it."""
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
"""Required fields of the header of every frame."""
_LOST = 2**28
"""Maximum bytes that a power cut may leave as zeros: more than any answer has."""


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
    """Convert a frame to bytes.

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
    """Read frames one by one, each with the offset after it; stop at one that was not completely written."""
    for header, body, start, end in _parts(path):
        yield _frame(header, body, path, start), end


def _parts(path: Path) -> Iterator[tuple[bytes, bytes, int, int]]:
    """Read the header and body of each frame, with its start and end, after verifying checksums."""
    size = size_of(path, RunError)
    with open_file(path, RunError) as file:
        while True:
            start = file.tell()
            head = file.read(_HEAD.size)
            if not head.startswith(MAGIC):
                written = head.rstrip(b"\0")
                if MAGIC.startswith(written) and _zeros(file, start + len(written), size):
                    return
                raise RunError(
                    f"{path} is damaged at byte {start}: no frame begins there", remedy="restore it from a copy"
                )
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
            raise RunError(f"{path} is damaged between bytes {start} and {end}", remedy="restore it from a copy")


def _zeros(file: IO[bytes], start: int, size: int) -> bool:
    """Whether a file has only zeros from a byte on, because its length was written but not its contents."""
    file.seek(start)
    return size - start <= _LOST and not any(any(part) for part in iter(lambda: file.read(2**20), b""))


def _fits(rest: bytes, header_length: int, body_length: int) -> bool:
    """Whether a frame that extends beyond the file was truncated, and its lengths are plausible."""
    try:
        fields, end = json.JSONDecoder().raw_decode(rest.decode("latin-1"))
        held = sum(_dtype(dtype).itemsize * math.prod(shape) for _, dtype, shape in fields["arrays"])
    except (ValueError, KeyError, TypeError, RecursionError):
        # Its header was also truncated.
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
            f"{path} is damaged at byte {start}: its answer cannot be read ({type(error).__name__}: {error!s:.160})",
            remedy="restore it from a copy",
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
    """The answers of a run: stored ones are read first, then new ones are appended.

    Without a path nothing is stored. The times of answers are in a separate file, so that the log is the same, byte for
    byte, whenever the run is repeated.
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
        """The next stored answer, or None at the end of the log."""
        return self._next

    def take(self, kind: str, digest: str) -> Frame | None:
        """Return the stored answer to this query, or None at the end; raise if it answers a different query."""
        frame = self._next
        if frame is None:
            return None
        if frame.kind != kind or frame.header["digest"] != digest:
            raise RunError(
                f"{self.path} has answers to queries of a different search, version or model",
                remedy="use a new directory",
            )
        self._next = self._read()
        return frame

    @property
    def _ends(self) -> tuple[int, int]:
        """The ends of the answers and of their times."""
        return self._end, 8 * self._count

    @property
    def end(self) -> int:
        """The end of the answers that were read or written."""
        return self._end

    def append(self, frame: Frame, seconds: float) -> None:
        """Store a new answer; the system has it when this returns."""
        if self.path is None or self._lost:
            return
        try:
            if not self._files:
                self._open()
            elif self._sizes() != self._ends:
                # Another program has changed a file; data written after a hole could not be read.
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
        """Finish writing, and read the log back; ``check`` raises if that failed."""
        try:
            if not self._files and self._has_tail():
                self._open()
            written = bool(self._files)
            for file, path, end in zip(self._files, self._paths, self._ends, strict=False):
                if not self._lost:
                    # The answer may not have been written completely.
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
        """Whether a log has more bytes after its last complete answer."""
        return (
            self.path is not None and self._next is None and self.path.exists() and self._end < self.path.stat().st_size
        )

    def _holds(self) -> bool:
        """Whether everything read from or written to the log can be read back."""
        assert self.path is not None
        try:
            ends = [end for *_, end in _parts(self.path)]
        except EvenhandError:
            return False
        return (len(ends), ends[-1:]) == (self._count, [self._end] if self._count else [])

    def check(self) -> None:
        """Raise unless all answers of this run are in its log."""
        if self._fault is not None:
            raise self._unwritable(self._fault)
        if self.path is not None and (self._lost or (self._count and not self.path.exists())):
            raise self._gone(self.path)

    def _unwritable(self, error: OSError) -> RunError:
        assert self.path is not None
        if not self.path.parent.is_dir():
            return self._gone(self.path)
        return RunError(
            f"cannot write to {self.path}: {reason(error)}; earlier answers are kept there",
            remedy=f"{advice(error)} and run again to continue",
        )

    def _gone(self, path: Path) -> RunError:
        what = f"{path} was" if path.parent.is_dir() else f"the directory {path.parent} was"
        return RunError(
            f"{what} deleted, moved, replaced or changed during the run, so some answers are lost",
            remedy="run again in another directory",
        )


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
    """Open a file to continue at a byte; what follows it (a truncated frame) is dropped."""
    file = open_plain(path)
    try:
        file.truncate(end)
        file.seek(end)
    except BaseException:
        file.close()
        raise
    return file


def _is_there(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still at its path."""
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
