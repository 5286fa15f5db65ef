"""The application: the API, the pages, health and metrics."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from evenhand import __version__
from evenhand.errors import EvenhandError
from evenhand.service import api, pages
from evenhand.service.tables import JOB
from evenhand.service.web import Guard, Here, Service


def make_app(service: Service) -> FastAPI:
    """Make the application."""
    app = FastAPI(
        title="evenhand",
        version=__version__,
        description="Audits of models: who is treated differently because of a protected attribute?",
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(api.router)
    app.include_router(pages.router)
    app.get("/healthz", include_in_schema=False)(health)
    app.get("/metrics", include_in_schema=False)(metrics)
    app.add_exception_handler(EvenhandError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(sa.exc.OperationalError, _no_database)
    app.add_middleware(Guard, service=service)
    return app


def health(here: Here) -> dict[str, str]:
    """Say that the service works, and its database answers."""
    with here.library.database.read() as c:
        c.execute(sa.select(sa.literal(1)))
    return {"status": "ok", "version": __version__}


def metrics(here: Here) -> PlainTextResponse:
    """Return figures to monitor, in the text format of Prometheus; they name no project and no person."""
    with here.library.database.read() as c:
        rows = c.execute(sa.select(JOB.c.state, JOB.c.kind, sa.func.count()).group_by(JOB.c.state, JOB.c.kind)).all()
        waiting = c.execute(sa.select(sa.func.min(JOB.c.created)).where(JOB.c.state == "queued")).scalar()
        lapsed = sa.select(sa.func.count()).where(JOB.c.state == "running", JOB.c.lease < time.time())
        lost = c.execute(lapsed).scalar_one()
    lines = ["# HELP evenhand_jobs Jobs by state and kind.", "# TYPE evenhand_jobs gauge"]
    lines += [f'evenhand_jobs{{state="{state}",kind="{kind}"}} {n}' for state, kind, n in rows]
    age = 0.0 if waiting is None else time.time() - waiting
    for name, words, value in (
        ("evenhand_oldest_queued_seconds", "How long the oldest queued job has waited.", f"{age:.1f}"),
        ("evenhand_lapsed_jobs", "Running jobs whose worker says nothing.", str(lost)),
    ):
        lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge", f"{name} {value}"]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _answer(request: Request, status: int, problem: str, remedy: str = "") -> Any:
    """Answer programs in JSON, and people with a page."""
    if not request.url.path.startswith(("/api/", "/healthz", "/metrics", "/openapi.json")):
        return pages.show_error(request, status, problem, remedy)
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": problem, "remedy": remedy}, status, headers)


async def _refused(request: Request, error: Any) -> Any:
    return _answer(request, getattr(error, "status", 422), error.reason, error.remedy)


async def _invalid(request: Request, error: Any) -> Any:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    message = str(first["msg"]).removeprefix("Value error, ").encode("utf-8", "replace").decode()
    return _answer(request, 422, f"{where[:200]}: {message[:500]}".encode("utf-8", "replace").decode())


async def _http(request: Request, error: Any) -> Any:
    return _answer(request, error.status_code, str(error.detail).lower())


async def _no_database(request: Request, _: Any) -> Any:
    return _answer(request, 503, "the database does not answer", "try again soon")
