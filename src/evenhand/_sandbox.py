"""Trial readings: files whose readers have no limits are read first by a child process with limits.

The readers of ONNX, Parquet and Hugging Face folders follow what a file says, and a file of a few kilobytes can say
"a tensor of a terabyte". They offer no limit, so a child process reads the file first, with a limit of memory and of
computing time. Only what it has read to the end is read by this process. Limits of memory need Linux, and those of time
a system that knows them (not Windows); elsewhere a trial still finds a file that crashes its reader.
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
from evenhand.errors import LimitExceeded

_TIMES = 16
"""Bytes of memory for each byte of a file."""
_PER_SECOND = 4 * MIB
_PATIENCE = 120
"""Seconds that a child may take longer than its computing time: the machine may be busy."""
_MEMORY = ("alloc", "memory")
_ALONE = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
}
"""Threads and pools reserve addresses that they never use, which would count."""
_passed: set[tuple[Any, ...]] = set()


class TrialFailed(Exception):
    """A file that its reader cannot read; the message is the reader's own."""


def attempt(reader: str, path: Path, size: int) -> None:
    """Have a child process read a file; raise where it fails or takes too much.

    ``reader`` is "module:function"; the function ``prepare`` of that module, where there is one, imports what it needs
    before the limits count.
    """
    found = path.stat()
    known = (reader, str(path), found.st_ino, found.st_size, found.st_mtime_ns)
    if known in _passed or not sys.executable:
        return
    memory = limit("trial_bytes") + _TIMES * size
    seconds = limit("trial_seconds") + size // _PER_SECOND
    environment = {**os.environ, **_ALONE, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # -P: the folder of this file is no place to import from.
    command = [sys.executable, "-P", str(Path(__file__)), reader, str(path), str(memory), str(seconds)]
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
            raise TrialFailed(f"reading it ends the process that tries by signal {-done.returncode}") from None
        raise TrialFailed((done.stderr.decode("utf-8", "replace").splitlines() or ["no reason given"])[-1]) from None
    if result["limit"] == "trial_bytes":
        raise exceeded("trial_bytes", "more", path, most=memory)
    if result["limit"]:
        raise LimitExceeded(result["message"], result["limit"], result["value"], result["most"], result["remedy"])
    raise TrialFailed(result["message"])


def short_of_memory(error: BaseException) -> bool:
    """Whether the error of a reader means that it got no memory.

    >>> short_of_memory(RuntimeError("std::bad_alloc"))
    True
    """
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in _MEMORY)


def _bounded(memory: int, seconds: int) -> None:
    """Limit what this process may still take."""
    try:
        import resource
    except ImportError:
        return
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: math.ceil(time.process_time()) + seconds}
    statm = Path("/proc/self/statm")
    if statm.exists():
        wanted[resource.RLIMIT_AS] = int(statm.read_text().split()[0]) * resource.getpagesize() + memory
    # The limit of the system counts whole seconds from the start; the timer counts from now, and ends the process too.
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.1))
    for what, most in wanted.items():
        known = [value for value in resource.getrlimit(what) if value != resource.RLIM_INFINITY]
        resource.setrlimit(what, (min([most, *known]),) * 2)


def main(reader: str, path: str, memory: str, seconds: str) -> int:
    """Read a file in this process, within limits; print what went wrong as JSON."""
    module, _, function = reader.partition(":")
    found = importlib.import_module(module)
    getattr(found, "prepare", lambda: None)()
    _bounded(int(memory), int(seconds))
    result: dict[str, Any] = {"limit": "", "message": ""}
    try:
        getattr(found, function)(Path(path))
        return 0
    except LimitExceeded as error:
        result |= {"limit": error.limit, "message": error.reason, "value": error.value, "most": error.most}
        result["remedy"] = error.remedy
    except BaseException as error:
        # The file may be called anything.
        short = isinstance(error, MemoryError) or short_of_memory(Exception(str(error).replace(path, "")))
        result |= {"limit": "trial_bytes" if short else "", "message": str(error)[:2000] or type(error).__name__}
    sys.stdout.write(f"\n{json.dumps(result)}\n")
    return 1


if __name__ == "__main__":
    # Libraries that were refused memory may not survive their own cleaning up.
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
