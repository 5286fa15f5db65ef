"""The REST API, version 1; its description is at /openapi.json."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Path, Query, Request, UploadFile
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from starlette.concurrency import run_in_threadpool

from evenhand.service import jobs, specs
from evenhand.service.accounts import DAYS, Caller
from evenhand.service.library import Refused, Row
from evenhand.service.results import FILES
from evenhand.service.tables import FILE, JOB, MODEL, PROJECT, SPACE
from evenhand.service.web import REPORT_POLICY, Here, check_form_token, check_origin, permitted

EVERY = 0.5
"""Seconds between two looks at a job that is watched."""
ALIVE = 30
"""Looks without news until a comment keeps the connection open."""


class Problem(BaseModel):
    """An error, with what to do about it if that is known."""

    error: str
    remedy: str = ""


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        400: "The request cannot be read",
        401: "Not logged in, or the token is not valid",
        403: "Not permitted",
        404: "It does not exist, or belongs to another team",
        409: "Not possible in the present state",
        413: "Too large",
        415: "A file of another kind",
        421: "Sent to another host",
        422: "Refused, with the reason",
        429: "Too many",
        503: "The database does not answer",
    }.items()
}


def _text(value: str) -> str:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("must be text")
    return value


Text = Annotated[str, StringConstraints(max_length=200), AfterValidator(_text)]
Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
IdPath = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Whole = Annotated[int, Field(ge=1, le=2**53)]
Scalar = bool | Annotated[int, Field(ge=-(2**53), le=2**53)] | float | Text | None


class Given(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewProject(Given):
    """A project."""

    name: Annotated[Text, Field(min_length=1, examples=["Credit"])]


class NewDataset(Given):
    """A data set of the package."""

    dataset: Literal["german", "adult", "bank", "comments"]


class NewEndpoint(Given):
    """A model behind a URL."""

    url: Annotated[str, StringConstraints(max_length=2000), AfterValidator(_text)]
    name: Text = ""
    protocol: Literal["oip", "mlflow", "instances"] | None = None
    headers: dict[Text, Annotated[str, StringConstraints(max_length=4000)]] = {}


class NewSpace(Given):
    """A space, to be inferred from data."""

    data: Id
    protected: Annotated[list[Text], Field(min_length=1, max_length=20)]
    target: Text | None = None
    exclude: Annotated[list[Text], Field(max_length=1000)] = []
    name: Text = ""


class Edit(Given):
    """What changes about an attribute of a space."""

    name: Text
    keep: bool = True
    protected: bool | None = None
    low: Annotated[int, Field(ge=-(2**53), le=2**53)] | float | None = None
    high: Annotated[int, Field(ge=-(2**53), le=2**53)] | float | None = None
    leave_out: Annotated[list[Text], Field(max_length=1000)] = []


class SpaceChange(Given):
    """Another text of a space, as TOML, or edits of its attributes."""

    text: Annotated[str, StringConstraints(max_length=2**21), AfterValidator(_text)] | None = None
    edits: Annotated[list[Edit], Field(max_length=1000)] | None = None
    constraints: Annotated[list[Annotated[str, StringConstraints(max_length=2000)]], Field(max_length=200)] | None = (
        None
    )


class Budget(Given):
    """When an audit ends."""

    tests: Whole | None = None
    rows: Whole | None = None
    findings: Whole | None = None
    requests: Whole | None = None
    seconds: Annotated[float, Field(gt=0, le=1e6)] | None = None


class NewJob(Given):
    """An audit, an estimate or a repair of a model, or a comparison of two audits."""

    kind: Literal["audit", "estimate", "repair", "compare"]
    model: Id | None = None
    space: Id | None = None
    data: Id | None = None
    texts: Id | None = None
    protected: Annotated[list[Text], Field(max_length=20)] = []
    runs: Annotated[list[Id], Field(max_length=2)] = []
    strategy: Text | None = None
    settings: Annotated[dict[Text, Scalar], Field(max_length=50)] = {}
    budget: Budget | None = None
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    gamma: Annotated[float, Field(gt=0, le=1e9)] | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    samples: Annotated[int, Field(ge=1, le=10**8)] | None = None
    population: Literal["data", "uniform"] | None = None
    favourable: Text | None = None
    methods: Annotated[list[Literal["retrain", "augment", "counterfactual", "marginal"]], Field(max_length=4)] = []
    report: bool = True
    """Whether an audit writes its report and its bundle; many short audits are faster without."""
    title: Text | None = None
    purpose: Text | None = None


class Resumption(Given):
    """How to go on: an audit that has ended continues with a larger budget."""

    budget: Budget | None = None


class Sentence(Given):
    """A text for a model of texts, and the lexicon of the terms to replace."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=5000), AfterValidator(_text)]
    protected: Annotated[list[Text], Field(min_length=1, max_length=5)] = ["religion"]


class NewToken(Given):
    """A token; its scope is a role that is not above the account's."""

    name: Text = "token"
    scope: Literal["viewer", "auditor", "admin"] = "viewer"
    days: Annotated[int, Field(ge=1, le=4 * DAYS)] = DAYS


class NewAccount(Given):
    """An account."""

    name: Annotated[Text, Field(min_length=1, max_length=80)]
    password: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_text)]
    role: Literal["viewer", "auditor", "admin"] = "viewer"
    team: Annotated[Text, Field(min_length=1, max_length=80)]


class AccountChange(Given):
    """What changes about an account."""

    role: Literal["viewer", "auditor", "admin"] | None = None
    active: bool | None = None
    password: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_text)] | None = None


class Networks(Given):
    """Networks besides the public ones where endpoints may be."""

    allowed: Annotated[list[Annotated[str, StringConstraints(max_length=50)]], Field(max_length=100)]


class Made(BaseModel):
    """The id of what was added."""

    id: str


Any_ = dict[str, Any]


def _caller(role: Any) -> Callable[..., Caller]:
    def check(request: Request, here: Here) -> Caller:
        caller = here.caller(request)
        changes = request.method not in ("GET", "HEAD")
        # A page of another site must not even learn whether there is a session.
        if changes and "authorization" not in request.headers:
            check_origin(request)
            if caller is not None:
                check_form_token(request, caller, request.headers.get("x-form-token"))
        return permitted(caller, role)

    return check


Viewer = Annotated[Caller, Depends(_caller("viewer"))]
Auditor = Annotated[Caller, Depends(_caller("auditor"))]
Admin = Annotated[Caller, Depends(_caller("admin"))]

router = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["api"])


def shown(row: Row, *without: str) -> dict[str, Any]:
    """Return a row as JSON, without what is not for clients."""
    hidden = {"secrets", "password", "spec", "child", "host", "lease", "fence", "not_before", *without}
    return {name: value for name, value in row.items() if name not in hidden}


@router.get("/me")
def me(caller: Viewer) -> Any_:
    """Say who asks."""
    return {"name": caller.name, "role": caller.role, "team": caller.team}


@router.get("/projects")
def list_projects(here: Here, caller: Viewer) -> list[Any_]:
    """List the projects of the caller's team; an admin sees all."""
    return [shown(row) for row in here.library.projects(caller.sees)]


@router.post("/projects", status_code=201)
def add_project(here: Here, caller: Auditor, given: NewProject) -> Made:
    """Add a project."""
    id = here.library.add_project(caller.team, given.name)
    here.library.note(caller.team, caller.name, "added a project", given.name)
    return Made(id=id)


@router.get("/projects/{id}")
def get_project(here: Here, caller: Viewer, id: IdPath) -> Any_:
    """Return a project with all that is in it."""
    project = here.library.row(PROJECT, id, caller.sees)
    tables = {"files": FILE, "models": MODEL, "spaces": SPACE, "jobs": JOB}
    parts = {name: here.library.rows(table, id) for name, table in tables.items()}
    return shown(project) | {name: [shown(row, "text", "result") for row in rows] for name, rows in parts.items()}


@router.delete("/projects/{id}", status_code=204)
def remove_project(here: Here, caller: Auditor, id: IdPath) -> None:
    """Remove a project with its files and runs."""
    project = here.library.row(PROJECT, id, caller.sees)
    here.library.remove_project(id)
    here.library.note(project["team_id"], caller.name, "removed a project", project["name"])


@router.post("/projects/{id}/files", status_code=201)
def upload(
    here: Here,
    caller: Auditor,
    id: IdPath,
    kind: Annotated[Literal["data", "texts", "model"], Form()],
    file: Annotated[UploadFile, File()],
) -> Made:
    """Upload data, texts or a model; for a model, the id is that of the model."""
    project = here.library.row(PROJECT, id, caller.sees)
    made = here.library.add_file(project, kind, file.filename or "", file.file)
    here.library.note(project["team_id"], caller.name, f"uploaded {kind}", file.filename or "")
    return Made(id=made)


@router.post("/projects/{id}/datasets", status_code=201)
def add_dataset(here: Here, caller: Auditor, id: IdPath, given: NewDataset) -> Made:
    """Add a data set of the package."""
    project = here.library.row(PROJECT, id, caller.sees)
    made = here.library.add_dataset(project, given.dataset)
    here.library.note(project["team_id"], caller.name, "added a data set", given.dataset)
    return Made(id=made)


@router.post("/projects/{id}/endpoints", status_code=201)
def add_endpoint(here: Here, caller: Auditor, id: IdPath, given: NewEndpoint) -> Made:
    """Add a model behind a URL."""
    project = here.library.row(PROJECT, id, caller.sees)
    made = here.library.add_endpoint(project, given.url, given.name, given.protocol, given.headers)
    here.library.note(project["team_id"], caller.name, "added an endpoint", given.url)
    return Made(id=made)


@router.post("/projects/{id}/spaces", status_code=201)
def infer_space(here: Here, caller: Auditor, id: IdPath, given: NewSpace) -> Made:
    """Infer a space from data."""
    project, file = here.library.row(PROJECT, id, caller.sees), here.library.row(FILE, given.data, caller.sees)
    if file["project_id"] != id:
        raise Refused("there is no such file in the project", 404)
    made = here.library.infer_space(project, file, given.protected, given.target, given.exclude, given.name)
    here.library.note(project["team_id"], caller.name, "added a space", ", ".join(given.protected))
    return Made(id=made)


@router.get("/spaces/{id}")
def get_space(here: Here, caller: Viewer, id: IdPath) -> Any_:
    """Return a space: its text, and its attributes."""
    return shown(here.library.row(SPACE, id, caller.sees))


@router.put("/spaces/{id}", status_code=204)
def change_space(here: Here, caller: Auditor, id: IdPath, given: SpaceChange) -> None:
    """Change a space."""
    space = here.library.row(SPACE, id, caller.sees)
    here.library.change_space(space, given.model_dump(exclude_none=True))
    here.library.note(_team(here, space, caller), caller.name, "changed a space", space["name"])


def _team(here: Here, row: Row, caller: Caller) -> str:
    return str(here.library.row(PROJECT, row["project_id"], caller.sees)["team_id"])


@router.post("/models/{id}/try")
def try_text(here: Here, caller: Auditor, id: IdPath, given: Sentence) -> Any_:
    """Ask a model of texts about a sentence, and about the same one with other protected terms."""
    model = here.library.row(MODEL, id, caller.sees)
    task = {"do": "try", "model": here.library.model_for(model), "text": given.text, "protected": given.protected}
    return here.library.ask(task)


@router.post("/projects/{id}/jobs", status_code=201)
def start_job(here: Here, caller: Auditor, id: IdPath, given: NewJob) -> Made:
    """Start an audit, an estimate, a repair, or a comparison."""
    project = here.library.row(PROJECT, id, caller.sees)
    spec = given.model_dump(exclude={"kind"}, exclude_none=True) | {"auditor": caller.name}
    made = specs.start(here.library, project, caller.name, given.kind, spec)
    here.library.note(project["team_id"], caller.name, f"started: {given.kind}", made)
    return Made(id=made)


@router.get("/jobs/{id}")
def get_job(here: Here, caller: Viewer, id: IdPath) -> Any_:
    """Return a job: its state, what it has reached, and its result."""
    job = here.library.row(JOB, id, caller.sees)
    files = {name: here.results.has(job, name) for name in FILES}
    return shown(job) | {"spec": {k: v for k, v in job["spec"].items() if k != "space_text"}, "has": files}


@router.post("/jobs/{id}/stop", status_code=202)
def stop_job(here: Here, caller: Auditor, id: IdPath) -> Any_:
    """Stop a job; what an audit has found is kept."""
    job = here.library.row(JOB, id, caller.sees)
    with here.library.database.write() as c:
        was_open = jobs.stop(c, id)
    here.library.note(_team(here, job, caller), caller.name, f"stopped: {job['kind']}", id)
    return {"stopping": was_open}


@router.post("/jobs/{id}/resume", status_code=202)
def resume_job(here: Here, caller: Auditor, id: IdPath, given: Resumption | None = None) -> Any_:
    """Continue a job where it ended; with a larger budget, also one that is done."""
    job = here.library.row(JOB, id, caller.sees)
    budget = None if given is None or given.budget is None else given.budget.model_dump(exclude_none=True)
    specs.resume(here.library, job, budget)
    here.library.note(_team(here, job, caller), caller.name, f"resumed: {job['kind']}", id)
    return {"resuming": True}


@router.get("/jobs/{id}/findings")
def get_findings(
    here: Here,
    caller: Viewer,
    id: IdPath,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    where: Annotated[list[str] | None, Query(description="COLUMN=VALUE; repeatable", max_length=20)] = None,
) -> Any_:
    """Return findings of an audit, by pages."""
    job = here.library.row(JOB, id, caller.sees)
    chosen = dict(one.partition("=")[::2] for one in where or [])
    found: dict[str, Any] = here.results.findings(job, chosen, offset, limit)
    return found


@router.get("/jobs/{id}/report", response_class=FileResponse)
def get_report(here: Here, caller: Viewer, id: IdPath) -> FileResponse:
    """Return the report of a job: one HTML file."""
    job = here.library.row(JOB, id, caller.sees)
    headers = {"content-security-policy": REPORT_POLICY}
    return FileResponse(here.results.file(job, "report"), media_type=FILES["report"][1], headers=headers)


@router.get("/jobs/{id}/bundle", response_class=FileResponse)
def get_bundle(here: Here, caller: Auditor, id: IdPath) -> FileResponse:
    """Return the bundle of an audit, which can be checked and replayed; it contains the data and the model."""
    job = here.library.row(JOB, id, caller.sees)
    path = here.results.file(job, "bundle")
    here.library.note(_team(here, job, caller), caller.name, "downloaded a bundle", id)
    return FileResponse(path, media_type=FILES["bundle"][1], filename=f"evenhand-{id}.zip")


@router.get("/jobs/{id}/events", response_class=StreamingResponse)
def watch(here: Here, caller: Viewer, id: IdPath, request: Request) -> StreamingResponse:
    """Stream what a job reaches, as server-sent events, until it has ended; each has the number of its version.

    A client that reconnects with ``Last-Event-ID`` gets what is new since then.
    """
    here.library.row(JOB, id, caller.sees)
    last = request.headers.get("last-event-id", "")
    known = int(last) if last.isdecimal() and len(last) < 16 else -1
    return StreamingResponse(_events(here, caller, id, known), media_type="text/event-stream")


async def _events(here: Here, caller: Caller, id: str, known: int) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    quiet = 0
    while True:
        job = await run_in_threadpool(here.library.row, JOB, id, caller.sees)
        if job["version"] != known:
            known, quiet = job["version"], 0
            data = {key: job[key] for key in ("state", "progress", "error")}
            yield f"id: {known}\nevent: progress\ndata: {json.dumps(data)}\n\n"
        if job["state"] not in jobs.OPEN:
            yield f"id: {known}\nevent: end\ndata: {json.dumps({'state': job['state']})}\n\n"
            return
        quiet += 1
        if quiet % ALIVE == 0:
            yield ": waiting\n\n"
        await asyncio.sleep(EVERY)


@router.get("/tokens")
def list_tokens(here: Here, caller: Viewer) -> list[Any_]:
    """List the caller's tokens."""
    return [shown(row) for row in here.accounts.tokens(caller)]


@router.post("/tokens", status_code=201)
def add_token(here: Here, caller: Viewer, given: NewToken) -> Any_:
    """Add a token; its secret is shown only now."""
    id, secret = here.accounts.add_token(caller, given.name, given.scope, given.days)
    here.library.note(caller.team, caller.name, "added a token", f"{given.name}, {given.scope}")
    return {"id": id, "token": secret}


@router.delete("/tokens/{id}", status_code=204)
def remove_token(here: Here, caller: Viewer, id: IdPath) -> None:
    """Remove a token."""
    here.accounts.remove_token(caller, id)
    here.library.note(caller.team, caller.name, "removed a token", id)


@router.get("/accounts")
def list_accounts(here: Here, _: Admin) -> list[Any_]:
    """List all accounts."""
    return [shown(row) for row in here.accounts.everyone()]


@router.post("/accounts", status_code=201)
def add_account(here: Here, caller: Admin, given: NewAccount) -> Made:
    """Add an account; the first one ends the use without accounts."""
    made = here.accounts.add(given.name, given.password, given.role, given.team)
    here.library.note(None, caller.name, "added an account", f"{given.name}, {given.role}, team {given.team}")
    return Made(id=made)


@router.patch("/accounts/{id}", status_code=204)
def change_account(here: Here, caller: Admin, id: IdPath, given: AccountChange) -> None:
    """Change an account."""
    here.accounts.change(id, **given.model_dump(exclude_none=True))
    here.library.note(None, caller.name, "changed an account", f"{id}: {', '.join(given.model_fields_set)}")


@router.get("/networks")
def get_networks(here: Here, _: Admin) -> Networks:
    """List the networks besides the public ones where endpoints may be."""
    return Networks(allowed=here.library.allowed())


@router.put("/networks", status_code=204)
def set_networks(here: Here, caller: Admin, given: Networks) -> None:
    """Set them."""
    here.library.allow(given.allowed)
    here.library.note(None, caller.name, "allowed networks", ", ".join(given.allowed))


@router.get("/log")
def get_log(
    here: Here,
    caller: Viewer,
    before: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> list[Any_]:
    """List who did what, the latest first; an admin sees all teams."""
    return [shown(row) for row in here.library.entries(caller.sees, before, limit)]
