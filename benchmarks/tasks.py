"""Many measurements at the same time, each kept as soon as it is there."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import Results, cpu, short


@dataclass(frozen=True)
class Task:
    """One measurement: the file and the place in it where its answer belongs, and the call that gives the answer."""

    file: str
    question: str
    key: str
    call: Callable[[], dict[str, Any]]
    """Can be sent to another process: a partial application of a module's function."""
    cost: float = 1.0
    """CPU seconds, roughly: the longest start first."""

    @property
    def name(self) -> str:
        """The name by which it is chosen."""
        return f"{self.file}/{self.question}/{self.key}"


def chosen(tasks: Iterable[Task], only: list[str]) -> list[Task]:
    """Choose the tasks whose names start with one of these, by default all, the longest first.

    >>> both = [Task("a", "q", "x", dict), Task("b", "q", "x", dict, cost=2)]
    >>> [task.name for task in chosen(both, [])], [task.name for task in chosen(both, ["a/q"])]
    (['b/q/x', 'a/q/x'], ['a/q/x'])
    """
    kept = [task for task in tasks if not only or any(f"{task.name}/".startswith(f"{one}/") for one in only)]
    return sorted(kept, key=lambda task: -task.cost)


def answers(tasks: list[Task], jobs: int, seconds: float | None) -> Iterator[tuple[Task, dict[str, Any] | None]]:
    """Do the tasks, so many at a time, and give their answers as they come; None where one failed.

    After so many seconds nothing more is waited for.
    """
    if jobs == 1:
        for task in tasks:
            yield task, _answer(task)[1]
        return
    # Set before the other processes import numpy and torch.
    os.environ["OMP_NUM_THREADS"] = "1"
    end = None if seconds is None else time.monotonic() + seconds
    named = {task.name: task for task in tasks}
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        waiting = pool.imap_unordered(_answer, tasks)
        for _ in tasks:
            left = None if end is None else max(0.1, end - time.monotonic())
            try:
                name, answer = waiting.next(left)
            except multiprocessing.TimeoutError:
                print("the time is up", flush=True)
                return
            yield named[name], answer


def _answer(task: Task) -> tuple[str, dict[str, Any] | None]:
    try:
        answer, seconds = cpu(task.call)
    except Exception:
        print(f"{task.name} failed\n{traceback.format_exc()}", flush=True)
        return task.name, None
    return task.name, answer | {"cpu_seconds": short(seconds)}


def measure(tasks: list[Task], files: dict[str, Results], jobs: int = 1, seconds: float | None = None) -> list[str]:
    """Do what the files lack, and keep it there; return the names of what is missing afterwards."""
    left = [task for task in tasks if files[task.file].lacks(task.question, task.key)]
    missing = {task.name for task in left}
    for task, answer in answers(left, jobs, seconds):
        if answer is not None:
            files[task.file].add(task.question, task.key, answer)
            missing.discard(task.name)
    return sorted(missing)


def gather(parts: list[Path], into: Results) -> None:
    """Take over the answers of other files with the same settings."""
    for part in parts:
        stored = json.loads(part.read_text())
        if stored["settings"] != into.all["settings"]:
            raise SystemExit(f"{part} has other settings")
        answered = {name: value for name, value in stored.items() if name not in ABOUT and value}
        if not any(into.all.get(name) for name in into.all if name not in ABOUT):
            into.all["machine"] = stored["machine"]
        for name, value in answered.items():
            into.all[name] = into.all.get(name, {}) | value
            into.place(name, stored["machine"])
    if parts:
        into.write()


ABOUT = ("machine", "machines", "settings", "load_after")
"""What a file has besides answers."""
