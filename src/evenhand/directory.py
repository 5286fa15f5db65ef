"""The directory of a run: who it is, its answers, and how it ended."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenhand._files import parse_json, read_bytes
from evenhand._validate import AMOUNT, COUNT, PLAIN, TEXT, WHOLE, Maybe, check_fields, one_of
from evenhand._write import advice, leftover, open_plain, reason, replacing_synced
from evenhand.budget import StopReason
from evenhand.errors import RunError
from evenhand.identity import FORMAT, READABLE, RunIdentity

try:
    import fcntl
except ImportError:  # Windows has no such locks; two processes on one directory are then the user's own care.
    fcntl = None  # type: ignore[assignment]

IDENTITY, RESULT, ANSWERS, TIMES, LOCK = "identity.json", "run.json", "answers.log", "answers.times", "lock"
COVERAGE, SOURCE = "coverage.json", "source.json"
WRITTEN_ALONE = (IDENTITY, RESULT)
"""What only the process that holds the lock writes, so that unfinished ones that another process finds are dead."""
OLD_TEMPORARY = ("identity.tmp", "run.tmp")
"""What earlier versions left behind when they were killed."""
RESULT_FIELDS = {
    "budget": {"tests": Maybe(COUNT), "rows": Maybe(COUNT), "findings": Maybe(COUNT), "seconds": Maybe(AMOUNT)},
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
}
"""What ``run.json`` must have."""
MODEL_FILE = "model_sha256"
"""What the identity has of a model that was read from a file; the same model may also come as an object."""


class Directory:
    """Opens a run's directory for writing, alone.

    ``identity.json`` says which run lives there, ``answers.log`` holds every answer of the model, ``run.json`` how far
    it came. A directory that holds anything else is refused.
    """

    def __init__(self, path: str | Path, identity: RunIdentity) -> None:
        if not isinstance(path, str | os.PathLike):
            raise RunError(f"directory must be a path, got {path!r}")
        wanted = _plain(identity.to_dict())
        self.path = Path(path)
        _refuse_dangling(self.path)
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            refuse_links(self.path)
            self._lock = open_plain(self.path / LOCK)
        except (OSError, ValueError) as error:
            raise RunError(
                f"cannot use {self.path} as a run's directory: {reason(error)}; {advice(error)}, or choose another"
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
        """Where the answers are."""
        return self.path / ANSWERS

    @property
    def result(self) -> dict[str, Any] | None:
        """How the run ended the last time, or None."""
        return read_result(self.path)

    def finish(self, result: dict[str, Any]) -> None:
        """Write how the run ended."""
        write_json(self.path / RESULT, result)

    def check(self) -> None:
        """Raise where the directory no longer says which run it holds."""
        refuse_links(self.path)
        file = self.path / IDENTITY
        try:
            same = read_bytes(file, "json_bytes", RunError) == self._claimed
        except RunError:
            same = False
        if not same:
            raise RunError(
                f"{file} was deleted or changed during the run, so the directory cannot be read; run again in another "
                "directory"
            )

    def close(self) -> None:
        """Let others use the directory."""
        self._lock.close()

    def _take_lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{self.path} is in use by another process; wait for it or choose another") from None

    def _claim(self, wanted: dict[str, Any]) -> None:
        file = self.path / IDENTITY
        self._tidy()
        if not file.exists():
            foreign = sorted(p.name for p in self.path.iterdir() if p.name != LOCK and leftover(p.name) is None)
            if foreign:
                raise RunError(
                    f"{self.path} holds files that are no run ({', '.join(foreign[:3])}); choose an empty directory"
                )
            write_json(file, {"format": FORMAT, **wanted})
            return
        stored = read_identity(self.path).to_dict()
        now, then = wanted.get(MODEL_FILE), stored.get(MODEL_FILE)
        if now is not None and then is not None and now != then:
            raise RunError(
                f"the model file has changed since the run in {self.path} was made; choose another directory, or use "
                "the file as it was"
            )
        differing = [k for k in {**wanted, **stored} if k != MODEL_FILE and wanted.get(k) != stored.get(k)]
        if differing:
            raise RunError(
                f"{self.path} holds another run: {', '.join(_difference(k, stored, wanted) for k in differing[:3])}; "
                "choose another directory, or repeat the run with what it was made with"
            )

    def _tidy(self) -> None:
        """Remove what a process that was killed has left unfinished."""
        for file in self.path.iterdir():
            if leftover(file.name) in WRITTEN_ALONE or file.name in OLD_TEMPORARY:
                with suppress(OSError):
                    file.unlink()


def refuse_links(path: Path) -> None:
    """Raise where a file of a run is a symbolic link: what is written there would change, or show, a file elsewhere.

    >>> refuse_links(Path("run"))
    """
    for name in (IDENTITY, RESULT, ANSWERS, TIMES, COVERAGE, SOURCE, LOCK):
        if (path / name).is_symlink():
            raise RunError(
                f"{path / name} is a symbolic link, and links in a run's directory are not followed; put the file "
                "itself there, or choose another directory"
            )


def _refuse_dangling(path: Path) -> None:
    """Raise where a path leads by way of a link to nothing, in whose place no directory can be made."""
    with suppress(OSError, ValueError):
        for link in (path, *path.parents):
            if link.is_symlink() and not link.exists():
                raise RunError(
                    f"cannot use {path} as a run's directory: {link} is a symbolic link to {link.readlink()}, which is "
                    "not there; make that directory, or choose another path"
                )


def _difference(key: str, stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    old, new = stored.get(key), wanted.get(key)
    if key == "answers":
        return "the model answers the same individuals differently (another model, or one whose answers vary)"
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
            f"this run cannot be kept in a directory ({error}); use texts, numbers and truth values as values of "
            "attributes and settings, or run without a directory"
        ) from None


def as_path(value: Any, what: str) -> Path:
    """Make a name a path; raise where it is none.

    >>> as_path("run", "directory").name
    'run'
    """
    if not isinstance(value, str | os.PathLike):
        raise RunError(f"{what} must be a path, got {type(value).__name__}; give a text or a pathlib.Path")
    return Path(value)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or raise in words."""
    if not path.exists():
        raise RunError(f"{path.parent} is no run's directory: it has no {path.name}")
    try:
        value = parse_json(read_bytes(path, "json_bytes", RunError), path)
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error}); restore it from a copy or start a new run") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is no JSON object; restore it from a copy or start a new run")
    return value


def read_identity(directory: Path) -> RunIdentity:
    """Read which run a directory holds."""
    path = directory / IDENTITY
    stored = read_json(path)
    if stored.get("format") not in READABLE:
        raise RunError(
            f"{directory} was written by another version of evenhand; read it with that one, or choose another "
            "directory"
        )
    try:
        return RunIdentity.from_dict(stored)
    except RunError as error:
        raise RunError(f"{path} cannot be read: {error}, or start a new run") from None


def read_result(directory: Path) -> dict[str, Any] | None:
    """Read how a run ended; None where it never did."""
    path = directory / RESULT
    if not path.exists():
        return None
    result = read_json(path)
    try:
        check_fields(result, RESULT_FIELDS, "")
    except ValueError as error:
        raise RunError(
            f"{path} is damaged: {error}; restore it from a copy, or delete it to have the run read from its answers"
        ) from None
    return result


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object so that a crash leaves the old file or the new one, never half of it."""
    try:
        with replacing_synced(path) as file:
            file.write(json.dumps(value, indent=1).encode())
    except OSError as error:
        if not path.parent.is_dir():
            raise RunError(f"cannot write {path}: its directory was deleted or moved; choose another") from error
        raise RunError(f"cannot write {path}: {reason(error)}; {advice(error)}, or choose another directory") from error
