"""The directory of a run: who it is, its answers, and how it ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from evenhand.errors import RunError

try:
    import fcntl
except ImportError:  # Windows has no such locks; two processes on one directory are then the user's own care.
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
IDENTITY, RESULT, ANSWERS, LOCK = "identity.json", "run.json", "answers.log", "lock"
COVERAGE, SOURCE = "coverage.json", "source.json"


class Directory:
    """Opens a run's directory for writing, alone.

    ``identity.json`` says which run lives there, ``answers.log`` holds every answer of the model, ``run.json`` how far
    it came. A directory that holds anything else is refused.
    """

    def __init__(self, path: str | Path, identity: dict[str, Any]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise RunError(f"directory must be a path, got {path!r}")
        identity = _plain(identity)
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = (self.path / LOCK).open("a")
        except OSError as error:
            raise RunError(f"cannot use {self.path} as a run's directory: {error.strerror}; choose another") from error
        try:
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(f"{self.path} is in use by another process; wait for it or choose another") from None
        try:
            self._claim({"format": FORMAT, **identity})
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
        return read_json(self.path / RESULT) if (self.path / RESULT).exists() else None

    def finish(self, result: dict[str, Any]) -> None:
        """Write how the run ended."""
        write_json(self.path / RESULT, result)

    def close(self) -> None:
        """Let others use the directory."""
        self._lock.close()

    def _claim(self, identity: dict[str, Any]) -> None:
        file = self.path / IDENTITY
        if not file.exists():
            foreign = sorted(p.name for p in self.path.iterdir() if p.name != LOCK)
            if foreign:
                raise RunError(
                    f"{self.path} holds files that are no run ({', '.join(foreign[:3])}); choose an empty directory"
                )
            write_json(file, identity)
            return
        stored = read_json(file)
        differing = [key for key in identity if _plain(identity[key]) != stored.get(key)]
        if differing:
            raise RunError(
                f"{self.path} holds another run: {', '.join(_difference(k, stored, identity) for k in differing[:3])}; "
                "choose another directory, or repeat the run with what it was made with"
            )


def _difference(key: str, stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    old, new = stored.get(key), _plain(wanted[key])
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
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path.parent} is no run's directory: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); restore it from a copy or start a new run") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is no JSON object; restore it from a copy or start a new run")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object so that a crash leaves the old file or the new one, never half of it."""
    temporary = path.with_suffix(".tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; free some space or choose another directory") from error
