"""What all pages and the API share: who asks, where a request comes from, and what a browser may do with an answer."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.accounts import LOCAL, Accounts, Caller, Role, same
from evenhand.service.library import Library, Refused
from evenhand.service.results import Results

COOKIE = "evenhand_session"
FORM_TOKEN = "form_token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
JSON_BYTES = 4 * 2**20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load: only files of the service, and no script or style inside the page."""
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; sandbox"
)
"""A report is one file with its style inside, and without any script."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass
class Service:
    """Everything that a request needs."""

    library: Library
    accounts: Accounts
    results: Results = field(init=False)
    with_accounts: bool = False
    """Whether there are accounts; looked up again until there are."""
    local_team: str = ""

    def __post_init__(self) -> None:
        self.results = Results(self.library)
        self.with_accounts = self.accounts.any()
        self.local_team = self.accounts.team(LOCAL)
        self._form_token = hashlib.sha256(b"form" + (self.library.folder / "secret.key").read_bytes()).hexdigest()

    def needs_login(self) -> bool:
        """Whether callers must say who they are."""
        self.with_accounts = self.with_accounts or self.accounts.any()
        return self.with_accounts

    def caller(self, request: Request) -> Caller | None:
        """Return who asks; None if that is not known."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme:
            return self.accounts.of_token(secret.strip()) if scheme.lower() == "bearer" else None
        if not self.needs_login():
            return Caller(LOCAL, self.local_team, "admin", form_token=self._form_token)
        session = request.cookies.get(COOKIE)
        return None if session is None else self.accounts.of_session(session)


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    found: Service = request.app.state.service
    return found


Here = Annotated[Service, Depends(service_of)]


def check_origin(request: Request) -> None:
    """Refuse a request that a page of another site has sent; clients that are not browsers do not say where from."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise Refused("the request comes from another site", 403)
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise Refused("the request comes from another site", 403)


def from_browser(request: Request) -> bool:
    """Whether a request has what only browsers send, or a session."""
    known = ("origin", "sec-fetch-site", "sec-fetch-mode")
    return COOKIE in request.cookies or any(name in request.headers for name in known)


def check_form_token(request: Request, caller: Caller, given: str | None) -> None:
    """Refuse a request that changes something and could be sent by another page: it lacks the secret of the form."""
    if caller.form_token is not None and from_browser(request) and not same(given, caller.form_token):
        raise Refused("the form is too old, or was not made by this service", 403, "load the page again")


def permitted(caller: Caller | None, role: Role) -> Caller:
    """Return a caller who has a role."""
    if caller is None:
        raise Refused("log in first, or give a token that is valid", 401)
    if not caller.may(role):
        raise Refused(f"this needs the role or the scope {role!r}", 403)
    return caller


class Guard:
    """Refuses requests that are too long or for another host, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        upload = headers.get("content-type", "").startswith("multipart/form-data")
        most = self.service.library.limits.upload + JSON_BYTES if upload else JSON_BYTES

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in given]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        length = headers.get("content-length", "0")
        if not self.service.with_accounts and not is_local(headers.get("host", "")):
            await _refuse(answer, 421, "this service answers to local names only")
        elif not length.isdigit() or int(length) > most:
            await _refuse(answer, 413, f"the request is longer than {most / 2**20:,.0f} MB")
        else:
            await self.app(scope, _limited(receive, most), answer)


def _limited(receive: Receive, most: int) -> Receive:
    so_far = 0

    async def limited() -> Message:
        nonlocal so_far
        message = await receive()
        so_far += len(message.get("body", b""))
        if so_far > most:
            raise HTTPException(413, f"the request is longer than {most / 2**20:,.0f} MB")
        return message

    return limited


async def _refuse(send: Any, status: int, problem: str) -> None:
    from starlette.responses import JSONResponse

    response = JSONResponse({"error": problem}, status)
    await send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


def is_local(host: str) -> bool:
    """Whether a Host header, or an address to listen at, names this machine.

    >>> is_local("localhost:8000"), is_local("[::1]:8000"), is_local("evil.example"), is_local("127.0.0.1.evil.example")
    (True, True, False, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
