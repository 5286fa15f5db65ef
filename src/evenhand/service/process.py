"""A task in a child process: with a process group, an environment and limits of its own.

The child gets its task, with all secrets in it, through a pipe, and answers with lines of JSON through another. It ends
itself and its whole group when the first pipe closes, so it never outlives its parent, however that ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

MODULE = "evenhand.service.tasks"
MEMORY = 4096
"""Megabytes that a child and its own children may have in memory."""
GRACE = 0.8
"""Seconds that a child has to stop by itself."""
_LONGEST = 2**24
_PLACES = ("TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The only variables that a child inherits."""


class Child:
    """A task that runs in a child process.

    ``messages`` gives what it has said so far; after it has ended, ``code`` is its exit code and ``why`` the limit that
    ended it, if one did.
    """

    def __init__(self, name: str, task: Mapping[str, Any], folder: Path, memory: int = MEMORY, seconds: float = 0):
        self.memory, self.end = memory, time.monotonic() + seconds if seconds else None
        self.code: int | None = None
        self.why = ""
        self.error = folder / "child.log"
        scratch = folder / "scratch"
        scratch.mkdir(mode=0o700, exist_ok=True)
        mine, theirs = os.pipe()
        os.set_blocking(mine, False)
        environment = {name: os.environ[name] for name in _PLACES if name in os.environ} | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "HOME": str(scratch), "TMPDIR": str(scratch), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        try:
            with self.error.open("wb") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", MODULE, name, str(theirs)],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, cwd=scratch, pass_fds=[theirs],
                    start_new_session=True,
                )  # fmt: skip
        except BaseException:
            os.close(mine)
            raise
        finally:
            os.close(theirs)
        self._pipe, self._rest = mine, b""
        self._say({"task": dict(task)})

    @property
    def id(self) -> int:
        """The process group."""
        return self.process.pid

    def messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Wait for at most some seconds, enforce the limits, and yield what the child has said."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        data = b""
        with suppress(BlockingIOError):
            while ready and (piece := os.read(self._pipe, 2**16)):
                data += piece
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self.code is None:
            self._check_limits()
        if not data and (ready or self.process.poll() is not None):
            # The pipe was closed, or is only open in a child of the child.
            self.kill()
        for line in lines:
            with suppress(ValueError):
                yield json.loads(line)

    def _check_limits(self) -> None:
        if len(self._rest) > _LONGEST:
            self.kill("an answer that is too long")
        elif self.end is not None and time.monotonic() > self.end:
            self.kill("its time limit")
        elif resident(self.id) > self.memory:
            self.kill(f"its memory limit of {self.memory:,} MB")

    def stop(self) -> None:
        """Ask the child to stop; it is killed if it does not do so soon."""
        self._say({"stop": True})
        self.end = min(self.end or float("inf"), time.monotonic() + GRACE)

    def kill(self, why: str = "") -> None:
        """End the child and its whole group, and wait for it."""
        if self.code is None:
            self.why = self.why or why
            end_group(self.id)
            self.code = self.process.wait()

    def close(self) -> None:
        """End the child if it still runs, and close the pipes."""
        self.kill()
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def last_words(self) -> str:
        """Return the end of what the child has printed."""
        with suppress(OSError):
            lines = self.error.read_bytes()[-4000:].decode("utf-8", "replace").strip().splitlines()
            return lines[-1][:400] if lines else ""
        return ""

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()


def end_group(group: int) -> None:
    """Kill a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def runs(group: int, name: str) -> bool:
    """Whether the process that leads a group still runs the task of that name."""
    try:
        words = Path(f"/proc/{group}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{group}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return MODULE.encode() in words and name.encode() in words and state not in (b"Z", b"X")


def resident(process: int) -> int:
    """Return the megabytes of memory that a process and its descendants hold; 0 where the system does not say.

    >>> resident(os.getpid()) >= 0
    True
    """
    total, left = 0, [process]
    while left:
        one = left.pop()
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
            left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except (OSError, ValueError, IndexError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE") // 2**20 if total else 0


def ask(task: Mapping[str, Any], folder: Path, memory: int = 1024, seconds: float = 120) -> dict[str, Any]:
    """Run a short task in a child process; return its answer, or ``{"error": ...}``."""
    with Child("ask", task, folder, memory, seconds) as child:
        answer: dict[str, Any] = {}
        while child.code is None:
            for message in child.messages(0.2):
                answer |= {key: message[key] for key in ("result", "error") if key in message}
        if not answer:
            answer = {"error": f"it was ended at {child.why}" if child.why else "it could not be read"}
        return answer
