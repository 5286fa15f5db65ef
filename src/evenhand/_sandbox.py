"""Trial reads: a child process with limits first reads files whose readers have no limits of their own.

The readers of ONNX, Parquet and Hugging Face folders follow what a file says, and a file of a few kilobytes can say
"a tensor of a terabyte". They have no limits, so a child process reads the file first, with limits on memory and
computing time. This process reads the file only if the child succeeds. Memory limits need Linux, and time limits do not
work on Windows; without them, a trial still detects a file that crashes its reader.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evenhand._files import MIB, exceeded, limit
from evenhand.errors import EvenhandError, LimitExceeded

_TIMES = 16
"""Bytes of memory for each byte of a file."""
_PER_SECOND = 4 * MIB
_PATIENCE = 120
"""Seconds that a child may take beyond its computing time, because the machine may be busy."""
_MEMORY = ("alloc", "memory")
_ALONE = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
}
"""Threads and pools reserve addresses that they never use, and these would count."""
_passed: set[tuple[Any, ...]] = set()


class TrialFailed(Exception):
    """A file that its reader cannot read; the message is the reader's own, and complete if it has a remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.remedy = remedy


def attempt(reader: str, path: Path, size: int, imports: str = "") -> None:
    """Have a child process read a file; raise if it fails or needs too much.

    ``reader`` is "module:function". If that module has a function ``prepare``, it is called before the limits apply,
    and the modules named in ``imports`` are imported before them.
    """
    found = path.stat()
    known = (reader, str(path), found.st_ino, found.st_size, found.st_mtime_ns)
    if known in _passed or not sys.executable:
        return
    memory = limit("trial_bytes") + _TIMES * size
    seconds = limit("trial_seconds") + size // _PER_SECOND
    environment = {**os.environ, **_ALONE, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # -P: do not import from the folder of this file.
    command = [sys.executable, "-P", str(Path(__file__)), reader, str(path), str(memory), str(seconds), imports]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, env=environment, timeout=seconds + _PATIENCE,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise exceeded("trial_seconds", "more", path, most=seconds) from None
    if done.returncode == 0:
        _passed.add(known)
        return
    _raise_failure(done, path, memory, seconds)


def _raise_failure(done: subprocess.CompletedProcess[bytes], path: Path, memory: int, seconds: int) -> None:
    """Raise the error of a child process."""
    if -done.returncode in (getattr(signal, name, None) for name in ("SIGPROF", "SIGXCPU", "SIGKILL")):
        raise exceeded("trial_seconds", "more", path, most=seconds)
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        if done.returncode < 0:
            raise TrialFailed(f"reading it crashes the process with signal {-done.returncode}") from None
        raise TrialFailed((done.stderr.decode("utf-8", "replace").splitlines() or ["no reason given"])[-1]) from None
    if result["limit"] == "trial_bytes":
        raise exceeded("trial_bytes", "more", path, most=memory)
    if result["limit"]:
        raise LimitExceeded(result["message"], result["limit"], result["value"], result["most"], result["remedy"])
    raise TrialFailed(result["message"], result["remedy"])


def short_of_memory(error: BaseException) -> bool:
    """Return whether a reader's error means that it ran out of memory.

    >>> short_of_memory(RuntimeError("std::bad_alloc"))
    True
    """
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in _MEMORY)


def _bounded(memory: int, seconds: int) -> None:
    """Limit the memory and time that this process may still use."""
    try:
        import resource
    except ImportError:
        return
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: math.ceil(time.process_time()) + seconds}
    statm = Path("/proc/self/statm")
    if statm.exists():
        wanted[resource.RLIMIT_AS] = int(statm.read_text().split()[0]) * resource.getpagesize() + memory
    # The system's limit counts whole seconds from the start; the timer counts from now, and also ends the process.
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.1))
    for what, most in wanted.items():
        known = [value for value in resource.getrlimit(what) if value != resource.RLIM_INFINITY]
        resource.setrlimit(what, (min([most, *known]),) * 2)


def main(reader: str, path: str, memory: str, seconds: str, imports: str = "") -> int:
    """Read a file in this process, within limits; print a failure as JSON."""
    module, _, function = reader.partition(":")
    found = importlib.import_module(module)
    getattr(found, "prepare", lambda: None)()
    for name in imports.split():
        importlib.import_module(name)
    _bounded(int(memory), int(seconds))
    result: dict[str, Any] = {"limit": "", "message": "", "remedy": ""}
    try:
        getattr(found, function)(Path(path))
        return 0
    except LimitExceeded as error:
        result |= {"limit": error.limit, "message": error.reason, "value": error.value, "most": error.most}
        result["remedy"] = error.remedy
    except EvenhandError as error:
        result |= {"message": error.reason, "remedy": error.remedy}
    except BaseException as error:
        # The file may have any name.
        short = isinstance(error, MemoryError) or short_of_memory(Exception(str(error).replace(path, "")))
        result |= {"limit": "trial_bytes" if short else "", "message": str(error)[:2000] or type(error).__name__}
    sys.stdout.write(f"\n{json.dumps(result)}\n")
    return 1


if __name__ == "__main__":
    # Libraries that ran out of memory may crash while they clean up.
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
