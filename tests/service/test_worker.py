"""Jobs in real children: they end once, with the results of an undisturbed run, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.models.files import load_model
from evenhand.service import jobs, specs
from evenhand.service.library import Library, Limits, Row
from evenhand.service.process import GRACE, runs
from evenhand.service.tables import FILE, JOB, MODEL, PROJECT, SPACE
from evenhand.service.worker import BEAT, Worker

pytestmark = pytest.mark.slow
BUDGET = {"tests": 2000}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """SQLite; the tests of chaos also run on PostgreSQL."""
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def project(library: Library, files: Path) -> Row:
    """A project with data, a space and two models."""
    from evenhand.service.accounts import Accounts

    id = library.add_project(Accounts(library.database).team("credit"), "Credit")
    project = library.row(PROJECT, id, None)
    for name, kind in (("people.csv", "data"), ("tree.skops", "model"), ("line.skops", "model")):
        with (files / name).open("rb") as stream:
            library.add_file(project, kind, name, stream)  # type: ignore[arg-type]
    data = library.rows(FILE, id, FILE.c.kind == "data")[0]
    library.infer_space(project, data, ["sex"], "paid", [])
    return project


@pytest.fixture
def worker(library: Library) -> Iterator[Worker]:
    made = Worker(library)
    thread = threading.Thread(target=made.work)
    thread.start()
    yield made
    made.ending.set()
    thread.join()


def start(library: Library, project: Row, kind: str = "audit", model: str = "tree.skops", **spec: Any) -> str:
    chosen = next(row for row in library.rows(MODEL, project["id"]) if row["name"] == model)
    space = library.rows(SPACE, project["id"])[0]["id"]
    given = {"model": chosen["id"], "space": space, "report": False, **spec}
    return specs.start(library, project, "ada", kind, given)


def wait(library: Library, id: str, *states: str) -> Row:
    states = states or ("done", "failed", "stopped")
    end = time.monotonic() + 240
    while (job := library.row(JOB, id, None))["state"] not in states:
        assert time.monotonic() < end, dict(job)
        time.sleep(0.02)
    return job


def running(library: Library, id: str, tests: int = 1) -> Row:
    """Wait until a job runs and has judged some tests."""
    end = time.monotonic() + 240
    while not ((job := library.row(JOB, id, None))["child"] and (job["progress"] or {}).get("tests", 0) >= tests):
        assert job["state"] in jobs.OPEN, dict(job)
        assert time.monotonic() < end, dict(job)
        time.sleep(0.02)
    return job


def test_an_audit_finds_what_the_library_finds(here: None, worker: Worker, project: Row, files: Path) -> None:
    library = worker.library
    id = start(library, project, budget=BUDGET, favourable="high", report=True)
    estimate = start(library, project, "estimate", samples=500)
    job = wait(library, id)
    assert (job["state"], job["error"]) == ("done", None)
    space = eh.Space.infer(eh.spaces.frames.read_frame(files / "people.csv"), "sex", "paid")
    data = eh.spaces.frames.read_frame(files / "people.csv")
    alone = eh.audit(load_model(files / "tree.skops"), space, budget=eh.Budget(**BUDGET), data=data, progress=False)
    assert job["result"]["findings"] == alone.found > 0
    kept = eh.Run.load(library.job_folder(id) / "run")
    assert kept.findings.equals(alone.findings)
    assert job["progress"]["curve"][-1] == [alone.tests, alone.found]
    assert job["progress"]["pairs"]
    for name in ("report.html", "bundle.zip"):
        assert (library.job_folder(id) / name).stat().st_size > 1000
    assert wait(library, estimate)["result"]["found"] > 0
    # A larger budget continues the run.
    specs.resume(library, job, {"tests": 3000})
    assert wait(library, id)["result"]["tests"] == min(3000, space.tests)
    other = start(library, project, model="line.skops", budget=BUDGET)
    wait(library, other)
    compared = wait(library, specs.start(library, project, "ada", "compare", {"runs": [id, other]}))
    assert compared["state"] == "done", compared["error"]
    assert set(compared["result"]) > {"fixed", "new"}


def test_a_repair(here: None, worker: Worker, project: Row) -> None:
    id = start(worker.library, project, "repair", methods=["marginal"], samples=300)
    job = wait(worker.library, id)
    assert (job["state"], job["error"]) == ("done", None)
    assert "marginal" in job["result"]["methods"]


def test_a_job_is_stopped_and_resumes(here: None, worker: Worker, project: Row) -> None:
    library = worker.library
    id = start(library, project, strategy="themis", seed=1, gamma=0.001, budget={"tests": 10**9, "seconds": 600})
    job = running(library, id)
    with library.database.write() as c:
        assert jobs.stop(c, id)
    job = wait(library, id)
    assert job["state"] == "stopped"
    # Within two seconds: until the worker looks, and until it kills the child. A busy machine may take longer.
    assert BEAT + GRACE < 2
    assert not runs(job["child"] or 0, id)
    with library.database.write() as c:
        jobs.resume(c, id)
    running(library, id, tests=int(job["progress"]["tests"]))


def test_a_child_that_is_killed_resumes(here: None, worker: Worker, project: Row) -> None:
    library = worker.library
    many = {"strategy": "themis", "gamma": 0.001, "budget": {"tests": 1_000_000}}
    id = start(library, project, **many)
    os.kill(running(library, id)["child"], signal.SIGKILL)
    assert wait(library, id)["state"] == "done"
    other = start(library, project, **many)
    assert wait(library, other)["state"] == "done"
    logs = [(library.job_folder(one) / "run" / "answers.log").read_bytes() for one in (id, other)]
    assert logs[0] == logs[1]


def test_a_child_beyond_its_memory_fails_after_three_attempts(here: None, worker: Worker, project: Row) -> None:
    library = worker.library
    library.limits = replace(Limits(), memory=60)
    job = wait(library, start(library, project, budget=BUDGET))
    assert (job["state"], job["fence"]) == ("failed", jobs.STRIKES)
    assert "memory limit of 60 MB" in job["error"]
    library.limits = replace(Limits(), seconds=1)
    job = wait(library, start(library, project, budget={"tests": 10**9, "seconds": 600}))
    assert (job["state"], job["fence"]) == ("failed", 1)
    assert "time limit" in job["error"]


def test_a_stopped_worker_loses_its_job_without_a_strike(here: None, library: Library, project: Row) -> None:
    """Its child still runs and holds the directory; the next worker ends it first."""
    id = start(library, project, budget=BUDGET)
    first, second = Worker(library, lease=1.0), Worker(library)
    one = jobs.claim(library.database, first.host, lease=1.0)
    assert one is not None
    folder = library.job_folder(id)
    from evenhand.service.process import Child

    task = {**specs.task_of(library, one), "folder": str(folder), "budget": {"tests": 10**9, "seconds": 600}}
    with Child(id, task, folder) as child:
        assert jobs.started(library.database, one, first.host, child.id)
        while not (folder / "run" / "answers.log").exists():
            list(child.messages(0.1))
        while (again := jobs.claim(library.database, second.host)) is None:
            time.sleep(0.05)
        second.run(again)
        assert wait(library, id)["state"] == "done"
        assert child.process.wait() == -signal.SIGKILL
    job = library.row(JOB, id, None)
    assert (job["strikes"], job["fence"]) == (0, 2)
    assert jobs.renew(library.database, one) == "lost"
