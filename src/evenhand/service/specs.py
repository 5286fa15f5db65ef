"""What a job is asked to do: checked when it is started, and made into the task of a child when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from evenhand.errors import EvenhandError
from evenhand.service import jobs
from evenhand.service.jobs import Claim
from evenhand.service.library import Library, Refused, Row
from evenhand.service.tables import FILE, JOB, MODEL, PROJECT, SPACE
from evenhand.service.tasks import RUN
from evenhand.spaces.text.lexicon import NAMES
from evenhand.strategies import kind_of, make

KINDS = ("audit", "estimate", "repair", "compare")
LIMITS = ("tests", "rows", "findings", "seconds", "requests")


def start(library: Library, project: Row, account: str, kind: str, spec: Mapping[str, Any]) -> str:
    """Check what a job is asked to do, and queue it; return its id."""
    kept = {key: value for key, value in spec.items() if value not in (None, [], {}, "")}
    if kind not in KINDS:
        raise Refused(f"there is no job {kind!r}", remedy=f"choose one of {', '.join(KINDS)}")
    if kind == "compare":
        _check_runs(library, project, kept)
    else:
        _check_inputs(library, project, kind, kept)
    _check_search(kept)
    with library.database.write() as c:
        chosen = sa.select(sa.func.count()).select_from(JOB).join(PROJECT)
        chosen = chosen.where(PROJECT.c.team_id == project["team_id"], JOB.c.state.in_(jobs.OPEN))
        if c.execute(chosen).scalar_one() >= library.limits.open_jobs:
            raise Refused(f"the team already has {library.limits.open_jobs} open jobs", 429, "wait, or stop one")
        return jobs.add(c, project["id"], account, kind, kept)


def resume(library: Library, job: Row, budget: Mapping[str, Any] | None = None) -> None:
    """Queue a job again; with a larger budget, a finished audit continues."""
    spec = None
    if budget:
        if job["kind"] != "audit":
            raise Refused("only audits have a budget")
        _check_budget(budget)
        spec = {**job["spec"], "budget": dict(budget)}
    with library.database.write() as c:
        if not jobs.resume(c, job["id"], spec):
            raise Refused("the job is still queued or running", 409)


def _in_project(library: Library, table: sa.Table, id: Any, project: str, what: str) -> Row:
    with library.database.read() as c:
        found = c.execute(sa.select(table).where(table.c.id == id, table.c.project_id == project)).mappings().first()
    if found is None:
        raise Refused(f"there is no such {what} in the project", 404)
    return found


def _check_inputs(library: Library, project: Row, kind: str, spec: dict[str, Any]) -> None:
    id = project["id"]
    _in_project(library, MODEL, spec.get("model"), id, "model")
    if "texts" in spec:
        file = _in_project(library, FILE, spec["texts"], id, "file of texts")
        if file["kind"] != "texts" or kind == "repair":
            raise Refused("texts are needed for audits and estimates of texts, and only for these")
        lexicons = spec.get("protected") or []
        if not lexicons or any(name not in NAMES for name in lexicons):
            raise Refused("a lexicon is needed for texts", remedy=f"choose from {', '.join(NAMES)}")
        return
    space = _in_project(library, SPACE, spec.get("space"), id, "space")
    spec["space_text"] = space["text"]
    spec.setdefault("data", space["file_id"])
    if spec["data"] is None:
        del spec["data"]
    elif _in_project(library, FILE, spec["data"], id, "data")["kind"] != "data":
        raise Refused("the data of an audit of rows are rows")


def _check_runs(library: Library, project: Row, spec: dict[str, Any]) -> None:
    runs = [_in_project(library, JOB, one, project["id"], "run") for one in spec.get("runs", ())]
    if len(runs) != 2 or any(run["kind"] != "audit" or run["state"] != "done" for run in runs):
        raise Refused("a comparison needs two audits that are done")


def _check_search(spec: Mapping[str, Any]) -> None:
    """Check the search; plugins of the server can be used, other modules cannot be named."""
    name = spec.get("strategy")
    if name is not None:
        if ":" in name:
            raise Refused("a search is chosen by its name", remedy="install it as a plugin on the server")
        try:
            kind_of(name)
            make(name, **spec.get("settings", {}))
        except EvenhandError as error:
            raise Refused(str(error)) from None
    if "budget" in spec:
        _check_budget(spec["budget"])


def _check_budget(budget: Mapping[str, Any]) -> None:
    from evenhand.budget import Budget

    if unknown := set(budget) - set(LIMITS):
        raise Refused(f"a budget has no {min(unknown)!r}", remedy=f"it can have {', '.join(LIMITS)}")
    try:
        Budget(**budget)
    except EvenhandError as error:
        raise Refused(str(error)) from None


def task_of(library: Library, one: Claim) -> dict[str, Any]:
    """Return what a child needs to run a job: files instead of ids, and the secrets of endpoints."""
    spec, out = one.spec, {key: one.spec[key] for key in one.spec if key not in ("model", "space", "data", "runs")}
    out["do"] = one.kind
    with library.database.read() as c:

        def find(table: sa.Table, id: Any) -> Any:
            chosen = sa.select(table).where(table.c.id == id, table.c.project_id == one.project)
            return c.execute(chosen).mappings().first()

        model, space = find(MODEL, spec.get("model")), find(SPACE, spec.get("space"))
        files = {key: find(FILE, spec[key]) for key in ("data", "texts") if spec.get(key)}
        others = [find(JOB, id) for id in spec.get("runs") or ()]
        models = [find(MODEL, other["spec"].get("model")) for other in others if other is not None]
    wanted = (model if one.kind != "compare" else True, *files.values(), *others, *models)
    if any(part is None for part in wanted):
        raise Refused("the model, the data or a run was removed", remedy="start another")
    if one.kind == "compare":
        thresholds = [other["spec"].get("threshold") for other in others]
        out["models"] = list(map(library.model_for, models, thresholds))
        out["runs"] = [str(library.job_folder(other["id"]) / RUN) for other in others]
        return out
    out["model"] = library.model_for(model, spec.get("threshold"))
    out |= {key: str(library.path(file)) for key, file in files.items()}
    # The text is in the spec: a space that is edited later does not change a run that has begun.
    return out | {"space": spec.get("space_text"), "target": None if space is None else space["target"]}
