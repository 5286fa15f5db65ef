"""A worker: claims jobs one after the other, and runs each in a child process.

``python -m evenhand.service.worker`` reads its settings as a line of JSON from standard input, and ends with its child
when that closes.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from evenhand.errors import EvenhandError
from evenhand.service import jobs
from evenhand.service.jobs import Claim
from evenhand.service.library import Library, Limits
from evenhand.service.process import Child, end_group, runs
from evenhand.service.specs import task_of
from evenhand.service.tables import Database

BEAT = 0.5
"""Seconds between renewals of a claim, and so the time until a stop is noticed."""
IDLE = 0.5
_STALE = 10.0
"""Seconds to wait for the process group of a lost attempt to be gone."""


class Worker:
    """Runs jobs until it is told to end."""

    def __init__(self, library: Library, dask: str | None = None, lease: float = jobs.LEASE) -> None:
        self.library, self.database, self.dask, self.lease = library, library.database, dask, lease
        self.host = socket.gethostname()
        self.ending = threading.Event()

    def work(self) -> None:
        """Claim and run jobs; failures of the database are waited for."""
        while not self.ending.is_set():
            try:
                one = jobs.claim(self.database, self.host, self.lease)
                if one is not None:
                    self.run(one)
                    continue
            except sa.exc.OperationalError as error:
                say(f"the database does not answer: {error.orig}")
            self.ending.wait(IDLE * (0.5 + random.random()))

    def run(self, one: Claim) -> None:
        """Run a job in a child, and record how it ended."""
        if not self._end_stale(one):
            jobs.release(self.database, one, jobs.PAUSE)
            return
        folder = self.library.job_folder(one.id)
        try:
            task = {**task_of(self.library, one), "folder": str(folder), "dask": self.dask}
        except EvenhandError as error:
            jobs.finish(self.database, one, "failed", error=str(error))
            return
        limits = self.library.limits
        with Child(one.id, task, folder, limits.memory, limits.seconds) as child:
            if jobs.started(self.database, one, self.host, child.id):
                self._follow(one, child)

    def _end_stale(self, one: Claim) -> bool:
        """End what is left of a lost attempt on this machine; return whether it is gone."""
        if one.child is None or one.host != self.host:
            return True
        end = time.monotonic() + _STALE
        while runs(one.child, one.id):
            end_group(one.child)
            if time.monotonic() > end or self.ending.wait(0.05):
                return False
        return True

    def _follow(self, one: Claim, child: Child) -> None:
        """Renew the claim while the child runs, and record its last message."""
        last: dict[str, Any] = {}
        progress: Mapping[str, Any] | None = None
        stopping, beat = False, 0.0
        while child.code is None:
            for message in child.messages(0.1):
                progress = message.get("progress", progress)
                last = message if "progress" not in message else last
            if self.ending.is_set():
                child.kill()
                jobs.release(self.database, one)
                return
            if time.monotonic() >= beat and child.code is None:
                answer = jobs.renew(self.database, one, progress, self.lease)
                progress, beat = None, time.monotonic() + BEAT
                if answer == "lost":
                    return
                if answer == "stop" and not stopping:
                    stopping = True
                    child.stop()
        if progress is not None and jobs.renew(self.database, one, progress, self.lease) == "lost":
            return
        self._record(one, child, last, stopping)

    def _record(self, one: Claim, child: Child, last: Mapping[str, Any], stopping: bool) -> None:
        if "result" in last:
            state: jobs.State = "stopped" if last["result"].get("stopped") else "done"
            jobs.finish(self.database, one, state, last["result"])
        elif stopping:
            jobs.finish(self.database, one, "stopped")
        elif "error" in last:
            jobs.finish(self.database, one, "failed", error=self.library.without_paths(last["error"]))
        elif "wait" in last:
            jobs.release(self.database, one, jobs.PAUSE)
        elif child.why.startswith("its time limit"):
            jobs.finish(self.database, one, "failed", error="it reached its time limit; resume it to continue")
        else:
            how = f"it was ended at {child.why}" if child.why else str(last.get("died") or _death(child))
            jobs.strike(self.database, one, how)


def _death(child: Child) -> str:
    code = child.code or 0
    if code < 0:
        name = signal.Signals(-code).name if -code in {one.value for one in signal.Signals} else str(-code)
        return f"its process died of {name}"
    return f"its process ended with status {code} ({child.last_words()})"


def say(text: str) -> None:
    """Write a line to the log of the service."""
    sys.stderr.write(f"evenhand worker: {' '.join(text.split())[:500]}\n")
    sys.stderr.flush()


def main() -> None:
    """Run a worker until standard input closes."""
    line = sys.stdin.buffer.readline()
    if not line:
        return
    settings = json.loads(line)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    library = Library(Database(settings["database"]), Path(settings["folder"]), Limits(**settings["limits"]))
    worker = Worker(library, settings.get("dask"), settings.get("lease", jobs.LEASE))
    signal.signal(signal.SIGTERM, lambda *_: worker.ending.set())

    def listen() -> None:
        sys.stdin.buffer.read()
        worker.ending.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        worker.work()
    finally:
        library.database.close()


if __name__ == "__main__":
    main()
