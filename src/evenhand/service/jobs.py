"""The queue: jobs in a table, which workers claim for a while and have to keep claiming.

A claim is a lease that its worker renews; when it ends, another worker may claim the job. Each claim has a higher
``fence``, and whatever a worker writes about a job has its fence as a condition, so a worker that has lost a job cannot
change it any more.

Two counters keep a job that cannot succeed from running for ever. ``strikes`` counts children that died, such as those
that needed too much memory; ``lost`` counts workers that were lost, which is seldom the fault of the job, so it may
happen more often. Progress resets both. A run directory that another process still uses is neither: the job waits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from evenhand.service.tables import EVENT, JOB, Database

State = Literal["queued", "running", "done", "failed", "stopped"]
OPEN = ("queued", "running")
LEASE = 10.0
"""Seconds until another worker may claim the job of one that says nothing."""
STRIKES, LOST = 3, 10
"""Number of dead children, and of lost workers, after which a job has failed."""
PAUSE = 1.0
"""Seconds until a job whose directory is in use is tried again."""


@dataclass
class Claim:
    """A job that a worker has claimed."""

    id: str
    kind: str
    spec: dict[str, Any]
    project: str
    fence: int
    strikes: int
    reached: int
    host: str | None
    child: int | None
    """The process group of the last attempt, and the host it ran on; it may still run."""


def add(c: sa.Connection, project: str, account: str, kind: str, spec: Mapping[str, Any]) -> str:
    """Put a job into the queue; return its id."""
    values = {"project_id": project, "account": account, "kind": kind, "spec": dict(spec), "progress": {}}
    id = c.execute(JOB.insert().values(created=time.time(), **values).returning(JOB.c.id)).scalar_one()
    note(c, id, "queued")
    return str(id)


def note(c: sa.Connection, id: str, kind: str, **more: Any) -> None:
    """Record what happened to a job."""
    c.execute(EVENT.insert().values(job_id=id, at=time.time(), kind=kind, more=more))


def claim(database: Database, host: str, lease: float = LEASE) -> Claim | None:
    """Claim the oldest job that is queued, or whose lease has ended."""
    now = time.time()
    expired = (JOB.c.state == "running") & (JOB.c.lease < now)
    waiting = ((JOB.c.state == "queued") & (JOB.c.not_before <= now)) | expired
    oldest = sa.select(JOB).where(waiting).order_by(JOB.c.created, JOB.c.id).limit(1)
    with database.read() as c:
        if c.execute(oldest.with_only_columns(JOB.c.id)).first() is None:
            return None
    with database.write() as c:
        row = c.execute(oldest.with_for_update(skip_locked=True)).mappings().first()
        if row is None:
            return None
        lost = row["lost"] + (row["state"] == "running")
        values = {"state": "running", "lease": now + lease, "fence": row["fence"] + 1, "lost": lost}
        c.execute(JOB.update().where(JOB.c.id == row["id"]).values(version=JOB.c.version + 1, **values))
        one = Claim(
            row["id"], row["kind"], row["spec"], row["project_id"], row["fence"] + 1, row["strikes"], row["reached"],
            row["host"], row["child"],
        )  # fmt: skip
        if row["stop"]:
            _finish(c, one, "stopped")
        elif lost > LOST:
            _finish(c, one, "failed", error=f"{LOST} workers were lost while they ran it")
        else:
            note(c, one.id, "claimed", host=host, fence=one.fence)
            return one
    return claim(database, host, lease)


def started(database: Database, one: Claim, host: str, child: int) -> bool:
    """Record the process group of an attempt; return whether the job is still claimed."""
    with database.write() as c:
        return _update(c, one, host=host, child=child)


def renew(
    database: Database, one: Claim, progress: Mapping[str, Any] | None = None, lease: float = LEASE
) -> Literal["", "lost", "stop"]:
    """Renew a claim, with what the child has reached; say whether the claim is lost, or the job has to stop."""
    values: dict[str, Any] = {"lease": time.time() + lease}
    if progress is not None:
        values |= {"progress": dict(progress), "version": JOB.c.version + 1}
        if (reached := int(progress.get("tests", 0))) > one.reached:
            one.reached, one.strikes = reached, 0
            values |= {"reached": reached, "strikes": 0, "lost": 0}
    with database.write() as c:
        stop = c.execute(_own(one).values(**values).returning(JOB.c.stop)).scalar()
    return "lost" if stop is None else "stop" if stop else ""


def finish(database: Database, one: Claim, state: State, result: Any = None, error: str | None = None) -> bool:
    """End a job; return whether it was still claimed."""
    with database.write() as c:
        return _finish(c, one, state, result, error)


def strike(database: Database, one: Claim, error: str) -> bool:
    """Count a dead child: the job is queued again, or has failed after too many."""
    with database.write() as c:
        if one.strikes + 1 >= STRIKES:
            return _finish(c, one, "failed", error=f"{error}, {STRIKES} times")
        kept = _update(c, one, state="queued", strikes=one.strikes + 1, lease=None)
        if kept:
            note(c, one.id, "retry", error=error, strikes=one.strikes + 1)
        return kept


def release(database: Database, one: Claim, wait: float = 0.0) -> bool:
    """Queue a job again that is not at fault: its worker ends, or its directory is in use."""
    with database.write() as c:
        return _update(c, one, state="queued", lease=None, not_before=time.time() + wait)


def stop(c: sa.Connection, id: str) -> bool:
    """Stop a job: at once if it is queued, otherwise its worker does so; return whether it was open."""
    values = {"state": "stopped", "stop": True, "finished": time.time(), "version": JOB.c.version + 1}
    if c.execute(JOB.update().where(JOB.c.id == id, JOB.c.state == "queued").values(**values)).rowcount:
        note(c, id, "stopped")
        return True
    return bool(c.execute(JOB.update().where(JOB.c.id == id, JOB.c.state == "running").values(stop=True)).rowcount)


def resume(c: sa.Connection, id: str, spec: Mapping[str, Any] | None = None) -> bool:
    """Queue a job again that has ended: its run continues where it was; return whether it had ended."""
    values: dict[str, Any] = {"state": "queued", "stop": False, "strikes": 0, "lost": 0, "lease": None}
    values |= {"error": None, "finished": None, "not_before": 0.0, "version": JOB.c.version + 1}
    values |= {} if spec is None else {"spec": dict(spec)}
    done = c.execute(JOB.update().where(JOB.c.id == id, JOB.c.state.not_in(OPEN)).values(**values)).rowcount
    if done:
        note(c, id, "queued")
    return bool(done)


def _own(one: Claim) -> sa.Update:
    return JOB.update().where(JOB.c.id == one.id, JOB.c.fence == one.fence, JOB.c.state == "running")


def _update(c: sa.Connection, one: Claim, **values: Any) -> bool:
    return bool(c.execute(_own(one).values(version=JOB.c.version + 1, **values)).rowcount)


def _finish(c: sa.Connection, one: Claim, state: State, result: Any = None, error: str | None = None) -> bool:
    values = {"error": error, "finished": time.time(), "lease": None, "child": None}
    values |= {} if result is None else {"result": result}
    done = _update(c, one, state=state, **values)
    if done:
        note(c, one.id, state, **({} if error is None else {"error": error}))
    return done
