"""The pages: the same operations as the API, for people with a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from evenhand import __version__
from evenhand.service import api, charts, jobs, specs
from evenhand.service.accounts import SESSION_SECONDS, Caller, Role
from evenhand.service.api import IdPath
from evenhand.service.library import Refused, Row
from evenhand.service.results import FILES
from evenhand.service.tables import FILE, JOB, MODEL, PROJECT, SPACE
from evenhand.service.web import COOKIE, FORM_TOKEN, Here, check_form_token, check_origin, permitted
from evenhand.spaces.text.lexicon import NAMES

if TYPE_CHECKING:
    from jinja2 import Environment

router = APIRouter(include_in_schema=False)
SIZE = 20
"""Findings of a page."""
ENTRIES = 100
STATIC = Path(__file__).parent / "static"
SCRIPTS = ("htmx.min.js", "pages.js")
FIELDS, FIELD_BYTES = 20_000, 2**20


@cache
def templates() -> Environment:
    """Set the templates up, as those of reports."""
    from jinja2 import PackageLoader

    from evenhand.reports.render import environment

    made = environment().overlay(loader=PackageLoader("evenhand.service", "templates"))
    made.filters = made.filters | {"moment": moment, "gist": gist, "happened": happened}
    made.globals = made.globals | {"version": __version__, "curve": charts.curve, "band": charts.band}
    return made


def moment(seconds: float) -> str:
    """Return a time for readers.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def gist(job: Row) -> str:
    """Return the result of a job in a few words."""
    if job["error"]:
        return str(job["error"])[:120]
    result = job["result"] or {}
    if job["kind"] == "audit" and result:
        return f"{result['findings']:,} findings in {result['tests']:,} tests"
    words = result.get("words") or [""]
    return str(words[0])[:160]


def happened(event: Row) -> str:
    """Say what happened to a job."""
    more = event["more"]
    words = {
        "queued": "put into the queue",
        "claimed": "a worker began",
        "retry": f"tried again: {more.get('error', '')}",
        "done": "done",
        "failed": f"failed: {more.get('error', '')}",
        "stopped": "stopped",
    }
    return words.get(str(event["kind"]), str(event["kind"]))


def show(name: str, caller: Caller | None = None, status: int = 200, **values: Any) -> HTMLResponse:
    """Make a page."""
    # In macros of jinja, "caller" has a meaning of its own.
    return HTMLResponse(templates().get_template(name).render(who=caller, **{"problem": "", **values}), status)


def show_error(request: Request, status: int, problem: str, remedy: str = "") -> Response:
    """Make the page of an error; who is not logged in gets the form to do so."""
    if status == 401 and request.url.path != "/login":
        return RedirectResponse("/login", 303)
    heading = {404: "Not found", 403: "Not permitted", 429: "Too many", 503: "Try again soon"}
    back = request.headers.get("referer", "/")
    same_host = back.split("/")[2:3] == [request.headers.get("host", "")]
    text = problem[:1].upper() + problem[1:].rstrip(".")
    values = {"heading": heading.get(status, "This did not work"), "text": text, "remedy": remedy.rstrip(".")}
    return show("error.html", None, status, back=back if same_host else "/", **values)


def _reader(role: Role) -> Callable[..., Caller]:
    def check(request: Request, here: Here) -> Caller:
        return permitted(here.caller(request), role)

    return check


Viewer = Annotated[Caller, Depends(_reader("viewer"))]
Auditor = Annotated[Caller, Depends(_reader("auditor"))]
Admin = Annotated[Caller, Depends(_reader("admin"))]


async def form_of(request: Request, here: Here) -> AsyncIterator[FormData]:
    """Read a form that this service made; a form from elsewhere is refused."""
    check_origin(request)
    async with request.form(max_files=1, max_fields=FIELDS, max_part_size=FIELD_BYTES) as form:
        given = form.get(FORM_TOKEN)
        if (caller := await run_in_threadpool(here.caller, request)) is not None:
            check_form_token(request, caller, given if isinstance(given, str) else None)
        if any("\0" in value for value in form.values() if isinstance(value, str)):
            raise Refused("a form has texts only")
        yield form


Form = Annotated[FormData, Depends(form_of)]


def text_of(form: FormData, name: str, most: int = 200) -> str:
    """Return a field of a form."""
    value = form.get(name)
    return value.strip()[:most] if isinstance(value, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """Return all values of a field."""
    return [value for value in form.getlist(name) if isinstance(value, str)]


def number_of(form: FormData, name: str, most: int = 10**9) -> int:
    """Return a field that is a whole number."""
    value = text_of(form, name)
    if not (value.isascii() and value.isdigit()) or not 1 <= int(value[:20]) <= most:
        raise Refused(f"{name} must be a whole number from 1 to {most:,}")
    return int(value)


def go(path: str) -> RedirectResponse:
    """Show another page."""
    return RedirectResponse(path, 303)


@router.get("/static/style.css")
def style() -> Response:
    """Return the style of reports, and that of the service."""
    from evenhand.reports import render

    reports = Path(render.__file__).parent
    parts = [(reports / name).read_text("utf-8") for name in ("style.css", "page.css")]
    text = "\n".join([*parts, (STATIC / "service.css").read_text("utf-8")])
    return Response(text, media_type="text/css", headers={"cache-control": "max-age=600"})


@router.get("/static/{name}")
def script(name: str) -> FileResponse:
    """Return a script."""
    if name not in SCRIPTS:
        raise Refused("there is no such file", 404)
    return FileResponse(STATIC / name, media_type="text/javascript", headers={"cache-control": "max-age=600"})


@router.get("/login")
def login_page() -> Response:
    """Ask who it is."""
    return show("login.html")


@router.post("/login")
async def login_form(request: Request, here: Here) -> Response:
    """Begin a session."""
    check_origin(request)
    async with request.form(max_files=0, max_fields=10, max_part_size=10_000) as form:
        name, password = text_of(form, "name"), str(form.get("password", ""))
    address = request.client.host if request.client else ""
    try:
        secret = await run_in_threadpool(here.accounts.login, name, password, address)
    except Refused as error:
        await run_in_threadpool(here.library.note, None, name[:80], "failed to log in", address)
        problem = f"{error.reason[:1].upper()}{error.reason[1:]}" + (f": {error.remedy}" if error.remedy else "")
        return show("login.html", None, error.status, problem=problem + ".")
    await run_in_threadpool(here.library.note, None, name[:80], "logged in", address)
    answer = go("/")
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, secret, max_age=int(SESSION_SECONDS), httponly=True, samesite="lax", secure=secure)
    return answer


@router.post("/logout")
def logout(request: Request, here: Here, _: Form) -> Response:
    """End a session."""
    if secret := request.cookies.get(COOKIE):
        here.accounts.logout(secret)
    answer = go("/login")
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/")
def projects(here: Here, caller: Viewer) -> Response:
    """List the projects."""
    return show("projects.html", caller, projects=here.library.projects(caller.sees))


@router.post("/projects")
def add_project(here: Here, caller: Auditor, form: Form) -> Response:
    """Add a project."""
    return go(f"/projects/{api.add_project(here, caller, api.NewProject(name=text_of(form, 'name') or '-')).id}")


@router.get("/projects/{id}")
def project(here: Here, caller: Viewer, id: IdPath) -> Response:
    """Show a project."""
    one = here.library.row(PROJECT, id, caller.sees)
    files, models = here.library.rows(FILE, id), here.library.rows(MODEL, id)
    listed = here.library.rows(JOB, id)
    return show(
        "project.html",
        caller,
        project=one,
        jobs=listed,
        done=[job for job in listed if job["kind"] == "audit" and job["state"] == "done"],
        models=models,
        names={model["id"]: model["name"] for model in models},
        spaces=here.library.rows(SPACE, id),
        lexicons=NAMES,
        data=[file for file in files if file["kind"] == "data"],
        texts=[file for file in files if file["kind"] == "texts"],
    )


@router.post("/projects/{id}/files")
def upload(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Upload a file."""
    kind, file = text_of(form, "kind"), form.get("file")
    if not isinstance(file, UploadFile) or not file.filename or kind not in ("data", "texts", "model"):
        raise Refused("no file was chosen")
    made = api.upload(here, caller, id, kind, file)  # type: ignore[arg-type]
    return go(
        f"/files/{made.id}/space" if kind == "data" else f"/projects/{id}#{'models' if kind == 'model' else 'data'}"
    )


@router.post("/projects/{id}/datasets")
def add_dataset(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Add a data set of the package."""
    name = text_of(form, "dataset")
    one = here.library.row(PROJECT, id, caller.sees)
    made = here.library.add_dataset(one, name)
    here.library.note(one["team_id"], caller.name, "added a data set", name)
    return go(f"/projects/{id}#data" if name == "comments" else f"/files/{made}/space")


@router.post("/projects/{id}/endpoints")
def add_endpoint(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Add a model behind a URL."""
    one = here.library.row(PROJECT, id, caller.sees)
    url, header = text_of(form, "url", 3000), text_of(form, "header", 4000)
    here.library.add_endpoint(one, url, "", None, {"Authorization": header} if header else {})
    here.library.note(one["team_id"], caller.name, "added an endpoint", url)
    return go(f"/projects/{id}#models")


@router.get("/files/{id}/space")
def choose(here: Here, caller: Auditor, id: IdPath) -> Response:
    """Ask who is protected."""
    file = here.library.row(FILE, id, caller.sees)
    if file["kind"] != "data":
        raise Refused("only rows have attributes", 404)
    of = here.library.row(PROJECT, file["project_id"], caller.sees)
    return show("choose.html", caller, file=file, project=of)


@router.post("/files/{id}/space")
def infer(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Infer a space."""
    file = here.library.row(FILE, id, caller.sees)
    of = here.library.row(PROJECT, file["project_id"], caller.sees)
    protected = texts_of(form, "protected")
    made = here.library.infer_space(of, file, protected, text_of(form, "target") or None, texts_of(form, "exclude"))
    here.library.note(of["team_id"], caller.name, "added a space", ", ".join(protected))
    return go(f"/spaces/{made}")


@router.get("/spaces/{id}")
def space(here: Here, caller: Viewer, id: IdPath) -> Response:
    """Show a space as a table."""
    one = here.library.row(SPACE, id, caller.sees)
    of = here.library.row(PROJECT, one["project_id"], caller.sees)
    return show("space.html", caller, space=one, project=of)


@router.post("/spaces/{id}")
def change_space(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Change a space."""
    one = here.library.row(SPACE, id, caller.sees)
    protected, left_out = set(texts_of(form, "protected")), set(texts_of(form, "exclude"))
    known = {a["name"]: a for a in one["facts"]["attributes"]}
    edits = []
    for n, name in enumerate(texts_of(form, "name")):
        edit = {"name": name, "keep": name not in left_out, "protected": name in protected}
        edit |= {"low": text_of(form, f"low{n}"), "high": text_of(form, f"high{n}")}
        values = known.get(name, {})
        if values.get("values") and not values.get("many"):
            edit["leave_out"] = sorted(set(values["values"]) - set(texts_of(form, f"value{n}")))
        edits.append(edit)
    constraints = [line.strip() for line in text_of(form, "constraints", 100_000).splitlines() if line.strip()]
    here.library.change_space(one, {"edits": edits, "constraints": constraints})
    of = here.library.row(PROJECT, one["project_id"], caller.sees)
    here.library.note(of["team_id"], caller.name, "changed a space", one["name"])
    return go(f"/spaces/{id}")


@router.post("/projects/{id}/jobs")
def start(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Start a job."""
    kind, tests = text_of(form, "kind"), number_of(form, "tests")
    spec: dict[str, Any] = {"model": text_of(form, "model"), "favourable": text_of(form, "favourable")}
    chosen = text_of(form, "space").split()
    if chosen[:1] == ["texts"] and len(chosen) == 3:
        spec |= {"texts": chosen[1], "protected": [chosen[2]], "favourable": None}
    else:
        spec |= {"space": " ".join(chosen)}
    spec |= {"budget": {"tests": tests}} if kind == "audit" else {"samples": tests}
    return _started(here, caller, id, kind, spec)


@router.post("/projects/{id}/compare")
def compare(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Compare two audits."""
    runs = [text_of(form, "first"), text_of(form, "second")]
    if runs[0] == runs[1]:
        raise Refused("choose two different audits")
    return _started(here, caller, id, "compare", {"runs": runs, "samples": 20_000})


def _started(here: Here, caller: Caller, id: IdPath, kind: str, spec: Mapping[str, Any]) -> Response:
    of = here.library.row(PROJECT, id, caller.sees)
    made = specs.start(here.library, of, caller.name, kind, {**spec, "auditor": caller.name})
    here.library.note(of["team_id"], caller.name, f"started: {kind}", made)
    return go(f"/jobs/{made}")


def _live(here: Here, job: Row) -> dict[str, Any]:
    has = {name: here.results.has(job, name) for name in FILES}
    return {"job": job, "open": job["state"] in jobs.OPEN, "has": has}


@router.get("/jobs/{id}")
def job(here: Here, caller: Viewer, id: IdPath, offset: int = 0, column: str = "", value: str = "") -> Response:
    """Show a job: what it has reached, and what it has found."""
    one = here.library.row(JOB, id, caller.sees)
    of, found, names = here.library.row(PROJECT, one["project_id"], caller.sees), None, []
    if one["kind"] == "audit" and one["state"] not in jobs.OPEN and one["result"]:
        where = {column: value} if column and value else {}
        found = here.results.findings(one, where, max(0, min(offset, 2**31)), SIZE)
        names = [str(name) for name in here.results.run(one).page(0, 1).columns if name not in ("gap", "changed")]
    models = {model["id"]: model["name"] for model in here.library.rows(MODEL, one["project_id"])}

    def page(start: int) -> str:
        query = {"offset": max(0, start), **({"column": column, "value": value} if value else {})}
        return f"/jobs/{quote(id)}?{urlencode(query)}#findings"

    return show(
        "job.html", caller, project=of, findings=found, attributes=names, column=column, value=value, size=SIZE,
        page=page, events=here.library.history(id), model=models.get(one["spec"].get("model"), "two models"),
        **_live(here, one),
    )  # fmt: skip


@router.get("/jobs/{id}/live")
def live(here: Here, caller: Viewer, id: IdPath) -> Response:
    """Return what a job has reached; the page asks for it every second, and loads again when the job has ended."""
    one = here.library.row(JOB, id, caller.sees)
    state = _live(here, one)
    answer = show("live.html", caller, **state)
    if not state["open"]:
        answer.headers["hx-refresh"] = "true"
    return answer


@router.post("/jobs/{id}/stop")
def stop(here: Here, caller: Auditor, id: IdPath, _: Form) -> Response:
    """Stop a job."""
    api.stop_job(here, caller, id)
    return go(f"/jobs/{id}")


@router.post("/jobs/{id}/resume")
def resume(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Resume a job."""
    budget = api.Budget(tests=number_of(form, "tests")) if form.get("tests") else None
    api.resume_job(here, caller, id, api.Resumption(budget=budget))
    return go(f"/jobs/{id}")


router.get("/jobs/{id}/report")(api.get_report)
router.get("/jobs/{id}/bundle")(api.get_bundle)


@router.get("/models/{id}/try")
def try_page(here: Here, caller: Auditor, id: IdPath) -> Response:
    """Ask for a sentence."""
    return _tried(here, caller, id)


@router.post("/models/{id}/try")
def try_text(here: Here, caller: Auditor, id: IdPath, form: Form) -> Response:
    """Ask a model about a sentence."""
    text, lexicon = text_of(form, "text", 5000), text_of(form, "protected")
    if lexicon not in NAMES or not text:
        raise Refused("type a sentence, and choose the terms")
    answer = api.try_text(here, caller, id, api.Sentence(text=text, protected=[lexicon]))
    return _tried(here, caller, id, text, lexicon, answer)


def _tried(
    here: Here, caller: Caller, id: IdPath, text: str = "", chosen: str = "religion", answer: Any = None
) -> Response:
    model = here.library.row(MODEL, id, caller.sees)
    of = here.library.row(PROJECT, model["project_id"], caller.sees)
    given = {"text": text, "chosen": chosen, "answer": answer, "lexicons": NAMES}
    return show("try.html", caller, model=model, project=of, **given)


@router.get("/log")
def log(here: Here, caller: Viewer, before: int | None = None) -> Response:
    """Show who did what."""
    entries = here.library.entries(caller.sees, None if before is None else max(0, min(before, 2**31 - 1)), ENTRIES)
    return show("log.html", caller, entries=entries, size=ENTRIES)


@router.get("/account")
def account(here: Here, caller: Viewer) -> Response:
    """Show the caller's tokens."""
    return show("account.html", caller, tokens=here.accounts.tokens(caller), secret="")


@router.post("/tokens")
def add_token(here: Here, caller: Viewer, form: Form) -> Response:
    """Add a token, and show it once."""
    name, scope = text_of(form, "name"), text_of(form, "scope")
    _, secret = here.accounts.add_token(caller, name, scope, number_of(form, "days", 360))
    here.library.note(caller.team, caller.name, "added a token", f"{name}, {scope}")
    return show("account.html", caller, tokens=here.accounts.tokens(caller), secret=secret)


@router.post("/tokens/{id}/remove")
def remove_token(here: Here, caller: Viewer, id: IdPath, _: Form) -> Response:
    """Remove a token."""
    api.remove_token(here, caller, id)
    return go("/account")


@router.get("/accounts")
def accounts(here: Here, caller: Admin) -> Response:
    """Show all accounts, and where models may be."""
    everyone = here.accounts.everyone()
    return show("accounts.html", caller, accounts=everyone, allowed=here.library.allowed())


@router.post("/accounts")
def add_account(here: Here, caller: Admin, form: Form) -> Response:
    """Add an account."""
    name, role, team = (text_of(form, key) for key in ("name", "role", "team"))
    here.accounts.add(name, str(form.get("password", "")), role, team)
    here.library.note(None, caller.name, "added an account", f"{name}, {role}, team {team}")
    return go("/accounts")


@router.post("/accounts/{id}")
def change_account(here: Here, caller: Admin, id: IdPath, form: Form) -> Response:
    """End or allow the access of an account."""
    api.change_account(here, caller, id, api.AccountChange(active=bool(text_of(form, "active"))))
    return go("/accounts")


@router.post("/networks")
def networks(here: Here, caller: Admin, form: Form) -> Response:
    """Set where models may be."""
    allowed = text_of(form, "allowed", 10_000).split()
    api.set_networks(here, caller, api.Networks(allowed=allowed[:100]))
    return go("/accounts")
