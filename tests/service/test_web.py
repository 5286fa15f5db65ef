"""Who may do what, from where: every route for every kind of caller, and what other sites can do to it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import argon2
import pytest
import sqlalchemy as sa

from evenhand.errors import ConfigError
from evenhand.service import accounts as accounts_module
from evenhand.service.accounts import ROLES, Accounts, Caller
from evenhand.service.api import router
from evenhand.service.library import Library, Refused
from evenhand.service.serve import Options, check_address
from evenhand.service.tables import FAILURE, JOB, TOKEN
from evenhand.service.web import COOKIE, HEADERS, is_local
from tests.service.conftest import PASSWORD

Client = Any
Connect = Callable[..., Client]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed with less work."""
    hasher = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(accounts_module, "_hasher", lambda: hasher)
    accounts_module._no_password.cache_clear()


@pytest.fixture
def made(library: Library) -> Accounts:
    """Accounts of each role in one team, and an auditor of another team."""
    accounts = Accounts(library.database)
    for name in ("viewer", "auditor", "admin"):
        accounts.add(name, PASSWORD, name, "credit")
    accounts.add("other", PASSWORD, "auditor", "insurance")
    return accounts


def caller_of(accounts: Accounts, name: str) -> Caller:
    row = next(row for row in accounts.everyone() if row["name"] == name)
    return Caller(name, accounts.team(row["team"]), row["role"], row["id"])


def token_of(accounts: Accounts, name: str, scope: str | None = None) -> str:
    caller = caller_of(accounts, name)
    return accounts.add_token(caller, "test", scope or caller.role)[1]


@pytest.fixture
def things(made: Accounts, connect: Connect, library: Library, files: Any) -> dict[str, str]:
    """One of each thing of a team."""
    client = connect(token_of(made, "auditor"))
    project = client.post("/api/v1/projects", json={"name": "Credit"}).json()["id"]
    ids = {"projects": project}
    for name, kind in (("people.csv", "data"), ("tree.skops", "models")):
        with (files / name).open("rb") as stream:
            answer = client.post(
                f"/api/v1/projects/{project}/files", data={"kind": kind.rstrip("s")}, files={"file": (name, stream)}
            )
        assert answer.status_code == 201, answer.text
        ids[kind] = answer.json()["id"]
    given = {"data": ids["data"], "protected": ["sex"], "target": "paid"}
    ids["spaces"] = client.post(f"/api/v1/projects/{project}/spaces", json=given).json()["id"]
    job = {"kind": "audit", "model": ids["models"], "space": ids["spaces"]}
    ids["jobs"] = client.post(f"/api/v1/projects/{project}/jobs", json=job).json()["id"]
    with library.database.write() as c:
        c.execute(JOB.update().values(state="stopped"))
    ids["tokens"] = made.tokens(caller_of(made, "auditor"))[0]["id"]
    ids["accounts"] = caller_of(made, "viewer").account or ""
    return ids


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/projects"): {"name": "New"},
    ("POST", "/projects/{id}/datasets"): {"dataset": "german"},
    ("POST", "/projects/{id}/endpoints"): {"url": "http://model.example/x"},
    ("POST", "/projects/{id}/spaces"): {"data": "data", "protected": ["sex"], "target": "paid"},
    ("PUT", "/spaces/{id}"): {"edits": [{"name": "age", "low": 30}, {"name": "sex", "protected": True}]},
    ("POST", "/models/{id}/try"): {"text": "The muslim man"},
    ("POST", "/projects/{id}/jobs"): {"kind": "audit", "model": "models", "space": "spaces"},
    ("POST", "/tokens"): {},
    ("POST", "/accounts"): {"name": "new", "password": PASSWORD, "team": "credit"},
    ("PATCH", "/accounts/{id}"): {"role": "viewer"},
    ("PUT", "/networks"): {"allowed": ["10.0.0.0/8"]},
}  # fmt: skip
ROUTES = sorted(
    (method, route.path.removeprefix("/api/v1"))
    for route in router.routes
    for method in getattr(route, "methods", ())
    if method != "HEAD"
)
WRITES = {("POST", "/tokens"), ("DELETE", "/tokens/{id}")}
"""What viewers may do besides reading: their own tokens."""
ADMIN = ("/accounts", "/networks")
SHARED = ("/me", "/projects", "/tokens", "/log")
"""Routes without an object: another team sees its own."""


def needed(method: str, path: str) -> str:
    if path.startswith(ADMIN):
        return "admin"
    reading = method == "GET" and not path.endswith("/bundle")
    return "viewer" if reading or (method, path) in WRITES else "auditor"


def request(client: Client, method: str, path: str, things: dict[str, str]) -> Any:
    kind = path.split("/")[1]
    url = f"/api/v1{path.replace('{id}', things.get(kind, '0' * 16))}"
    if path.endswith("/files"):
        return client.request(method, url, data={"kind": "data"}, files={"file": ("x.csv", b"a,b\n1,2\n")})
    if path.endswith("/events"):
        with client.stream(method, url) as answer:
            return answer
    body = {key: things.get(value, value) if isinstance(value, str) else value for key, value in
            BODIES.get((method, path), {}).items()}  # fmt: skip
    return client.request(method, url, json=body) if method in ("POST", "PUT", "PATCH") else client.request(method, url)


def test_every_route_for_every_caller(
    connect: Connect, made: Accounts, things: dict[str, str], library: Library
) -> None:
    callers = {name: connect(token_of(made, name)) for name in ("viewer", "auditor", "admin", "other")}
    callers["narrow"] = connect(token_of(made, "auditor", "viewer"))
    expired = token_of(made, "auditor")
    with library.database.write() as c:
        c.execute(TOKEN.update().where(TOKEN.c.digest == accounts_module.digest(expired)).values(expires=time.time()))
    unknown = [connect(), connect(expired), connect("eh_wrong"), connect(authorization="Basic YTpi")]
    ranks = {"viewer": 0, "narrow": 0, "auditor": 1}
    for method, path in ROUTES:
        role = needed(method, path)
        refused = dict.fromkeys(unknown, 401)
        refused |= {callers[name]: 403 for name, rank in ranks.items() if rank < ROLES.index(role)}
        if role != "admin" and path not in SHARED:
            refused[callers["other"]] = 404
        for client, status in refused.items():
            assert request(client, method, path, things).status_code == status, (method, path)
    # Those who may are last, because some routes remove what they name.
    for method, path in sorted(
        ROUTES, key=lambda route: (route[0] in ("PATCH", "DELETE"), route[1] == "/projects/{id}")
    ):
        owner = "auditor" if path.startswith("/tokens") else needed(method, path)
        answer = request(callers[owner], method, path, things)
        if "/jobs/{id}/" in path and path.rsplit("/", 1)[1] in ("report", "bundle", "findings"):
            assert answer.status_code == 404
            assert "this job has no" in answer.json()["error"]
        elif path.endswith("/try"):
            assert answer.status_code == 422
        else:
            assert answer.status_code in (200, 201, 202, 204), (method, path, answer.text)
        if path.endswith("/jobs") or path.endswith("/resume"):
            with library.database.write() as c:
                c.execute(JOB.update().values(state="stopped"))


def test_ids_of_other_teams_cannot_be_used_in_a_body(connect: Connect, made: Accounts, things: dict[str, str]) -> None:
    client = connect(token_of(made, "other"))
    project = client.post("/api/v1/projects", json={"name": "Mine"}).json()["id"]
    job = {"kind": "audit", "model": things["models"], "space": things["spaces"]}
    assert client.post(f"/api/v1/projects/{project}/jobs", json=job).status_code == 404
    given = {"data": things["data"], "protected": ["sex"]}
    assert client.post(f"/api/v1/projects/{project}/spaces", json=given).status_code == 404
    runs = {"kind": "compare", "runs": [things["jobs"]] * 2}
    assert client.post(f"/api/v1/projects/{project}/jobs", json=runs).status_code == 404
    # Nor those of another project of the same team.
    admin = connect(token_of(made, "admin"))
    own = admin.post("/api/v1/projects", json={"name": "Second"}).json()["id"]
    assert admin.post(f"/api/v1/projects/{own}/spaces", json=given).status_code == 404
    assert admin.post(f"/api/v1/projects/{own}/jobs", json=job).status_code == 404


def test_secrets_are_not_shown(connect: Connect, made: Accounts, library: Library) -> None:
    client = connect(token_of(made, "admin"))
    project = client.post("/api/v1/projects", json={"name": "Credit"}).json()["id"]
    given = {"url": "https://model.example/predict", "headers": {"Authorization": "Bearer t0p-secret"}}
    client.post(f"/api/v1/projects/{project}/endpoints", json=given)
    for path in (f"/projects/{project}", "/accounts", "/tokens", "/log", "/projects"):
        text = client.get(f"/api/v1{path}").text
        assert not re.search("t0p-secret|argon2|secrets|digest|password", text)
    assert b"t0p-secret" not in b"".join(p.read_bytes() for p in library.folder.rglob("*") if p.is_file())
    refused = client.post(
        f"/api/v1/projects/{project}/endpoints", json={"url": "https://u:t0p-secret@model.example/?token=t0p-secret"}
    )
    assert refused.status_code == 422
    assert "t0p-secret" not in refused.text


def login(client: Client, accounts: Accounts, name: str = "auditor") -> str:
    """Begin a session; return the token of its forms."""
    secret = accounts.login(name, PASSWORD, "test")
    client.cookies.set(COOKIE, secret)
    caller = accounts.of_session(secret)
    assert caller is not None
    return str(caller.form_token)


def test_a_session_needs_the_token_of_its_forms(connect: Connect, made: Accounts) -> None:
    client = connect(origin="http://localhost")
    token = login(client, made)
    url = "/api/v1/projects"
    assert client.get(url).status_code == 200
    assert client.post(url, json={"name": "a"}).status_code == 403
    assert client.post(url, json={"name": "a"}, headers={"x-form-token": "wrong"}).status_code == 403
    other = connect(origin="http://localhost")
    assert (
        client.post(url, json={"name": "a"}, headers={"x-form-token": login(other, made, "viewer")}).status_code == 403
    )
    assert client.post(url, json={"name": "a"}, headers={"x-form-token": token}).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"origin": "http://localhost.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_is_refused_even_with_the_token(connect: Connect, made: Accounts, headers: dict[str, str]) -> None:
    client = connect()
    token = login(client, made)
    answer = client.post("/api/v1/projects", json={"name": "a"}, headers={"x-form-token": token, **headers})
    assert answer.status_code == 403


def test_without_accounts_other_sites_are_refused_too(client: Client) -> None:
    url = "/api/v1/projects"
    assert client.post(url, json={"name": "a"}).status_code == 201
    assert client.post(url, json={"name": "a"}, headers={"origin": "http://evil.example"}).status_code == 403
    # A page of this service has the token; a page of another site that could forge its origin has not.
    assert client.post(url, json={"name": "a"}, headers={"origin": "http://localhost"}).status_code == 403
    # A name that another site has pointed to this machine.
    assert client.get(url, headers={"host": "evil.example"}).status_code == 421
    assert client.get(url, headers={"host": "127.0.0.1:80"}).status_code == 200


def test_the_first_account_ends_the_use_without(client: Client, connect: Connect, library: Library) -> None:
    given = {"name": "ada", "password": PASSWORD, "role": "admin", "team": "credit"}
    assert client.post("/api/v1/accounts", json=given).status_code == 201
    assert client.get("/api/v1/projects").status_code == 401
    token = token_of(Accounts(library.database), "ada")
    assert connect(token).get("/api/v1/me").json()["role"] == "admin"


def test_answers_have_the_headers(client: Client) -> None:
    for path in ("/healthz", "/api/v1/projects", "/nowhere", "/api/v1/projects/x"):
        answer = client.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path


def test_long_requests_are_refused(client: Client, library: Library) -> None:
    assert client.post("/api/v1/projects", content=b"x" * (5 * 2**20)).status_code == 413
    pieces = (b"x" * 2**20 for _ in range(6))
    assert client.post("/api/v1/projects", content=pieces).status_code == 413
    project = client.post("/api/v1/projects", json={"name": "a"}).json()["id"]
    big = {"file": ("a.csv", b"a,b\n" + b"1,2\n" * (library.limits.upload // 4 + 1))}
    answer = client.post(f"/api/v1/projects/{project}/files", data={"kind": "data"}, files=big)
    assert answer.status_code == 413
    assert [path.name for path in library.files.iterdir()] == []


def test_logins_are_limited(made: Accounts, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(accounts_module.PER_NAME):
        with pytest.raises(Refused) as raised:
            made.login("viewer", "wrong", "1.2.3.4")
        assert raised.value.status == 401
    with pytest.raises(Refused) as raised:
        made.login("viewer", PASSWORD, "1.2.3.4")
    assert raised.value.status == 429
    # Others can log in, until too many logins from one address have failed.
    assert made.login("auditor", PASSWORD, "1.2.3.4")
    monkeypatch.setattr(accounts_module, "PER_ADDRESS", 5)
    with pytest.raises(Refused) as raised:
        made.login("admin", PASSWORD, "1.2.3.4")
    assert raised.value.status == 429
    with library.database.write() as c:
        c.execute(FAILURE.update().values(at=sa.text(f"at - {accounts_module.WINDOW}")))
    assert made.login("viewer", PASSWORD, "1.2.3.4")


def test_an_unknown_name_takes_as_long(made: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same work is done for both, which a clock on a busy machine could not show."""
    asked: list[str] = []
    verify = Accounts._verify

    def counted(self: Accounts, known: str, password: str) -> bool:
        asked.append(known.rpartition("$")[0].rpartition("$")[0])
        return verify(self, known, password)

    monkeypatch.setattr(Accounts, "_verify", counted)
    for name in ("viewer", "unknown"):
        with pytest.raises(Refused, match="the name or the password is wrong"):
            made.login(name, "wrong", "1.2.3.4")
    assert len(asked) == 2
    assert asked[0] == asked[1]


def test_changes_end_sessions_and_tokens(made: Accounts) -> None:
    secret, token = made.login("auditor", PASSWORD, "x"), token_of(made, "auditor")
    id = caller_of(made, "auditor").account or ""
    made.change(id, role="viewer")
    assert made.of_session(secret) is None
    found = made.of_token(token)
    assert found is not None
    assert found.role == "viewer"
    made.change(id, active=False)
    assert made.of_token(token) is None
    with pytest.raises(Refused):
        made.login("auditor", PASSWORD, "x")
    with pytest.raises(Refused, match="last active admin"):
        made.change(caller_of(made, "admin").account or "", role="viewer")
    secret = made.login("viewer", PASSWORD, "x")
    made.logout(secret)
    assert made.of_session(secret) is None


def test_accounts_are_needed_for_other_addresses(library: Library, tmp_path: Any) -> None:
    accounts = Accounts(library.database)
    for host in ("127.0.0.1", "::1", "localhost"):
        check_address(Options(tmp_path, host), accounts)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(ConfigError, match="--add-account"):
            check_address(Options(tmp_path, host), accounts)
    accounts.add("ada", PASSWORD, "admin", "credit")
    check_address(Options(tmp_path, "0.0.0.0"), accounts)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example", "[::1", "localhost@evil.example", "0"])
def test_other_names_are_not_local(host: str) -> None:
    assert not is_local(host)
