"""What jobs leave in their folders: findings by pages, reports and bundles."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.engine.store import ANSWERS, IDENTITY, RESULT
from evenhand.errors import EvenhandError
from evenhand.runs.pair_sentences import pairs_at, shown_pairs
from evenhand.runs.run import Run
from evenhand.service.library import Library, Refused, Row
from evenhand.service.tasks import BUNDLE, REPORT, RUN

KEPT = 4
"""Number of runs that are kept in memory, because their findings are being read."""
FILES = {"report": (REPORT, "text/html; charset=utf-8"), "bundle": (BUNDLE, "application/zip")}


class Results:
    """Reads the results of jobs."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._runs: OrderedDict[tuple[Any, ...], Run] = OrderedDict()
        self._lock = threading.Lock()

    def file(self, job: Row, name: str) -> Path:
        """Return the report or the bundle of a job."""
        path = self.library.job_folder(job["id"]) / FILES[name][0]
        if not path.is_file():
            raise Refused(f"this job has no {name}", 404, "wait until it is done")
        return path

    def has(self, job: Row, name: str) -> bool:
        """Whether a job has a report or a bundle."""
        return Path(self.library.jobs, job["id"], FILES[name][0]).is_file()

    def run(self, job: Row) -> Run:
        """Return the run of an audit, as it was when it last ended."""
        place = self.library.job_folder(job["id"]) / RUN
        if job["kind"] != "audit" or job["state"] in ("queued", "running") or not (place / IDENTITY).is_file():
            raise Refused("this job has no findings to read", 404, "wait until the audit has ended")
        times = [(place / name).stat().st_mtime_ns for name in (RESULT, ANSWERS) if (place / name).exists()]
        key = (job["id"], *times)
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
                return self._runs[key]
            try:
                run = Run.load(place)
            except EvenhandError as error:
                raise Refused(f"the run cannot be read: {error.reason}", 409, "resume the job") from None
            self._runs[key] = run
            while len(self._runs) > KEPT:
                self._runs.popitem(last=False)
            return run

    def findings(self, job: Row, where: Mapping[str, str], offset: int, limit: int, real: bool = False) -> Any:
        """Return the findings of an audit from an offset on, those only that have some values.

        Rows of the data are shown without most of their values, as in reports, unless ``real``.
        """
        run = self.run(job)
        at = np.arange(run.found)
        if where and run.found:
            frame = run.findings
            unknown = [name for name in where if name not in frame.columns]
            if unknown:
                raise Refused(
                    f"findings have no column {unknown[0]!r}",
                    remedy=f"choose from {', '.join(map(str, frame.columns))}",
                )
            chosen = np.ones(len(frame), dtype=bool)
            for name, value in where.items():
                chosen &= (frame[name].astype(str) == value).to_numpy()
            at = np.flatnonzero(chosen)
        page = at[offset : offset + limit]
        pairs = pairs_at(run.pairs, page) if real else shown_pairs(run, page)
        return {"total": len(at), "offset": offset, "findings": [pair.to_dict() for pair in pairs]}
