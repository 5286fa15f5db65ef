"""Kills of everything, at random: every job ends once, with the findings of an undisturbed run, and nothing is left.

One seed runs in continuous integration; ``make check-all`` sets EVENHAND_CHAOS_SEEDS for more.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from evenhand.service import jobs, specs
from evenhand.service.accounts import Accounts
from evenhand.service.library import Library
from evenhand.service.tables import EVENT, FILE, JOB, MODEL, PROJECT, SPACE, Database
from tests.service.conftest import LONG, SEEDS, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KILLS, JOBS, WORKERS = (20, 10, 3) if LONG else (6, 4, 2)
BUDGET = {"tests": 4000}


def processes(folder: Path, module: str) -> list[int]:
    """The living processes of a module that belong to a service; a test beside this one has others."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                alive = (place / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
                home = str(folder).encode() in (place / "environ").read_bytes() + os.fsencode(
                    (place / "cwd").readlink()
                )
                if alive and home and module.encode() in words:
                    found.append(int(place.name))
    return found


def kill(number: int, how: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(number, how)


@pytest.fixture
def queued(library: Library, files: Path, here: None) -> list[str]:
    """Jobs that differ in their seeds only in pairs: two of each must leave the same bytes."""
    id = library.add_project(Accounts(library.database).team("credit"), "Credit")
    project = library.row(PROJECT, id, None)
    for name, kind in (("people.csv", "data"), ("tree.skops", "model")):
        with (files / name).open("rb") as stream:
            library.add_file(project, kind, name, stream)  # type: ignore[arg-type]
    data, model = library.rows(FILE, id, FILE.c.kind == "data")[0], library.rows(MODEL, id)[0]["id"]
    library.infer_space(project, data, ["sex"], "paid", [])
    spec = {"model": model, "space": library.rows(SPACE, id)[0]["id"], "budget": BUDGET, "report": False}
    return [specs.start(library, project, "ada", "audit", {**spec, "seed": n // 2}) for n in range(JOBS)]


def undisturbed(library: Library, ids: list[str], files: Path) -> list[bytes]:
    """The logs of the same audits, made here."""
    import evenhand as eh
    from evenhand.models.files import load_model
    from evenhand.spaces.frames import read_frame
    from evenhand.spaces.toml import loads

    logs = {}
    for seed in range((len(ids) + 1) // 2):
        text = library.row(JOB, ids[2 * seed], None)["spec"]["space_text"]
        place = library.folder / f"alone{seed}"
        eh.audit(
            load_model(files / "tree.skops"), loads(text), "auto", eh.Budget(**BUDGET), seed,
            data=read_frame(files / "people.csv"), directory=place, progress=False,
        )  # fmt: skip
        logs[seed] = (place / "answers.log").read_bytes()
    return [logs[n // 2] for n in range(len(ids))]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_chaos(seed: int, library: Library, url: str, queued: list[str], files: Path) -> None:
    database, random_ = library.database, random.Random(seed)
    mark = library.folder / "home"
    flags, extra = ("--workers", str(WORKERS)), {"EVENHAND_DATABASE": url, "EVENHAND_TEST_HOME": str(mark)}
    server = Server(library.folder, *flags, **extra)
    killed, struck = 0, Counter[str]()
    try:
        end = time.monotonic() + 800
        while len(left := _open(database)) > 0:
            assert time.monotonic() < end, left
            if killed < KILLS and (victims := _victims(library, mark, struck)):
                # Wait until something runs, so that the kill disturbs it.
                name, number = random_.choice([*victims, ("server", server.process.pid)])
                kill(number)
                killed += 1
                struck[name] += 1
                if name == "server":
                    server.process.wait()
                    server.end()
                    server = Server(library.folder, *flags, port=server.port, **extra)
            time.sleep(random_.random())
    finally:
        server.end(signal.SIGINT)
    assert killed >= min(KILLS, JOBS)
    for id, log in zip(queued, undisturbed(library, queued, files), strict=True):
        job = library.row(JOB, id, None)
        assert (job["state"], job["error"]) == ("done", None)
        with database.read() as c:
            kinds = list(c.execute(sa.select(EVENT.c.kind).where(EVENT.c.job_id == id)).scalars())
        assert kinds.count("done") == 1
        assert (library.job_folder(id) / "run" / "answers.log").read_bytes() == log
    for module in ("evenhand.service.tasks", "evenhand.service.worker"):
        while processes(mark, module) or processes(library.jobs, module):
            time.sleep(0.05)


def _open(database: Database) -> list[str]:
    with database.read() as c:
        return list(c.execute(sa.select(JOB.c.id).where(JOB.c.state.in_(jobs.OPEN))).scalars())


def _victims(library: Library, mark: Path, struck: Counter[str]) -> list[tuple[str, int]]:
    """List workers, and children by their job; a third kill of one would rightly end its job."""
    found = processes(library.jobs, "evenhand.service.tasks")
    children = [(name, number) for number in found if struck[name := _job_of(number)] < jobs.STRIKES - 1]
    workers = [("worker", number) for number in processes(mark, "evenhand.service.worker")]
    return [*children, *workers] if children else []


def _job_of(number: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[-3].decode()
    return ""
