"""The queue: who has a job, for how long, and how often it may fail."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evenhand.service import jobs
from evenhand.service.jobs import Claim
from evenhand.service.tables import EVENT, JOB, PROJECT, TEAM, Database


def add(database: Database, n: int = 1) -> list[str]:
    with database.write() as c:
        team = c.execute(TEAM.insert().values(name=f"team {n} {id(n)}").returning(TEAM.c.id)).scalar_one()
        values = {"team_id": team, "name": "p", "created": 0.0}
        project = c.execute(PROJECT.insert().values(**values).returning(PROJECT.c.id)).scalar_one()
        return [jobs.add(c, project, "ada", "audit", {"seed": i}) for i in range(n)]


def job(database: Database, id: str) -> Any:
    with database.read() as c:
        return c.execute(sa.select(JOB).where(JOB.c.id == id)).mappings().one()


def kinds(database: Database, id: str) -> list[str]:
    with database.read() as c:
        return list(c.execute(sa.select(EVENT.c.kind).where(EVENT.c.job_id == id).order_by(EVENT.c.id)).scalars())


def taken(database: Database, lease: float = 60) -> Claim:
    one = jobs.claim(database, "here", lease)
    assert one is not None
    return one


def test_each_job_is_claimed_once_oldest_first(database: Database) -> None:
    ids = add(database, 3)
    assert [taken(database).id for _ in ids] == ids
    assert jobs.claim(database, "here") is None


def test_a_lost_job_is_claimed_again_and_its_first_worker_cannot_write(database: Database) -> None:
    (id,) = add(database)
    first = taken(database, lease=-1)
    second = taken(database)
    assert (second.id, second.fence) == (id, first.fence + 1)
    assert jobs.renew(database, first, {"tests": 9}) == "lost"
    assert not jobs.finish(database, first, "done")
    assert not jobs.strike(database, first, "x")
    assert not jobs.release(database, first)
    assert not jobs.started(database, first, "here", 1)
    assert job(database, id)["state"] == "running"
    assert jobs.finish(database, second, "done", {"a": 1})
    assert job(database, id)["result"] == {"a": 1}
    assert kinds(database, id) == ["queued", "claimed", "claimed", "done"]


def test_dead_children_are_counted_until_there_is_progress(database: Database) -> None:
    (id,) = add(database)
    for _ in range(jobs.STRIKES - 1):
        jobs.strike(database, taken(database), "died")
    one = taken(database)
    assert jobs.renew(database, one, {"tests": 100}) == ""
    for _ in range(jobs.STRIKES):
        assert job(database, id)["state"] == "running"
        jobs.strike(database, one, "died")
        one = one if job(database, id)["state"] == "failed" else taken(database)
    assert job(database, id)["error"] == f"died, {jobs.STRIKES} times"
    # The same progress again does not count.
    with database.write() as c:
        assert jobs.resume(c, id)
    for _ in range(jobs.STRIKES):
        one = taken(database)
        jobs.renew(database, one, {"tests": 100})
        jobs.strike(database, one, "died")
    assert job(database, id)["state"] == "failed"


def test_lost_workers_may_be_more(database: Database) -> None:
    (id,) = add(database)
    for _ in range(jobs.LOST + 1):
        assert jobs.claim(database, "here", lease=-1) is not None
    assert jobs.claim(database, "here", lease=-1) is None
    assert job(database, id)["state"] == "failed"
    assert "workers" in job(database, id)["error"]


def test_a_directory_in_use_is_no_strike(database: Database) -> None:
    (id,) = add(database)
    for _ in range(20):
        jobs.release(database, taken(database))
    assert (job(database, id)["strikes"], job(database, id)["lost"]) == (0, 0)
    jobs.release(database, taken(database), wait=60)
    assert jobs.claim(database, "here") is None


def test_stopping(database: Database) -> None:
    queued, running, done = add(database, 3)
    with database.write() as c:
        assert jobs.stop(c, queued)
    assert job(database, queued)["state"] == "stopped"
    one = taken(database)
    assert one.id == running
    with database.write() as c:
        assert jobs.stop(c, running)
    assert job(database, running)["state"] == "running"
    assert jobs.renew(database, one) == "stop"
    # Its worker is lost before it could stop the job.
    jobs.renew(database, one, lease=-1)
    last = taken(database)
    assert (last.id, job(database, running)["state"]) == (done, "stopped")
    jobs.finish(database, last, "done")
    with database.write() as c:
        assert not jobs.stop(c, done)
        assert jobs.resume(c, running)
        assert not jobs.resume(c, running)
    assert taken(database).id == running


class Queue(RuleBasedStateMachine):
    """Any order of events: a job ends once, and only through the worker that has it."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database.open(f"sqlite:///{self.folder.name}/queue.db")
        self.ids = add(self.database, 2)
        self.claims: list[Claim] = []
        self.ended: dict[str, int] = dict.fromkeys(self.ids, 0)
        self.fences: dict[str, int] = dict.fromkeys(self.ids, 0)

    @rule(lease=st.sampled_from([-1.0, 60.0]))
    def claim(self, lease: float) -> None:
        one = jobs.claim(self.database, "here", lease)
        if one is not None:
            assert one.fence > self.fences[one.id]
            self.fences[one.id] = one.fence
            self.claims.append(one)

    @rule(data=st.data(), how=st.sampled_from(["done", "strike", "release", "renew"]))
    def work(self, data: st.DataObject, how: str) -> None:
        if not self.claims:
            return
        one = data.draw(st.sampled_from(self.claims))
        before = job(self.database, one.id)
        mine = before["state"] == "running" and before["fence"] == one.fence
        if how == "done":
            assert jobs.finish(self.database, one, "done") == mine
        elif how == "strike":
            assert jobs.strike(self.database, one, "died") == mine
        elif how == "release":
            assert jobs.release(self.database, one) == mine
        else:
            assert (jobs.renew(self.database, one) != "lost") == mine

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.ids))
        is_open = job(self.database, id)["state"] in jobs.OPEN
        with self.database.write() as c:
            assert jobs.stop(c, id) == is_open

    @invariant()
    def ends_once(self) -> None:
        for id in getattr(self, "ids", ()):
            found = [kind for kind in kinds(self.database, id) if kind in ("done", "failed", "stopped")]
            assert len(found) == (job(self.database, id)["state"] not in jobs.OPEN)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()


Queue.TestCase.settings = settings(max_examples=6, stateful_step_count=15, deadline=None)
TestQueue = pytest.mark.slow(Queue.TestCase)
