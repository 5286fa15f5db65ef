"""The pages: forms of this service only; every page for an empty and for a full project."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evenhand.service.accounts import Accounts
from evenhand.service.library import Library
from evenhand.service.pages import router
from evenhand.service.tables import JOB
from evenhand.service.web import COOKIE
from tests.runs.hostile import NASTY
from tests.service.conftest import PASSWORD

Client = Any
BROWSER = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}


@pytest.fixture
def browser(connect: Callable[..., Client]) -> Client:
    """A browser, in front of a service without accounts."""
    return connect(**BROWSER)


def form_token(client: Client) -> str:
    found = re.search('name="form_token" value="(.*?)"', client.get("/accounts").text)
    assert found
    return found[1]


def post(client: Client, path: str, files: Any = None, **fields: Any) -> Any:
    answer = client.post(path, data={"form_token": form_token(client), **fields}, files=files)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def project(browser: Client, files: Any) -> str:
    """A project with everything that an audit needs."""
    page = post(browser, "/projects", name="Credit")
    id = str(page.url).rsplit("/", 1)[1]
    for name, kind in (
        ("tree.skops", "model"),
        ("words.skops", "model"),
        ("texts.csv", "texts"),
        ("people.csv", "data"),
    ):
        with (files / name).open("rb") as stream:
            page = post(browser, f"/projects/{id}/files", {"file": (name, stream)}, kind=kind)
    assert "Who is protected?" in page.text
    post(browser, str(page.url.path), protected="sex", target="paid")
    return id


def link(client: Client, page: str, start: str) -> str:
    found = re.search(f'href="({start}[0-9a-f]{{16}}[^"]*)"', client.get(page).text)
    assert found, start
    return found[1]


def test_a_space_is_a_table_that_can_be_changed(browser: Client, project: str, library: Library) -> None:
    space = link(browser, f"/projects/{project}", "/spaces/")
    fields = {"name": ["age", "hours", "sex"], "low0": "25", "high0": "50", "low1": "10", "high1": "49"}
    fields |= {"low2": "0", "high2": "1", "protected": ["sex"], "exclude": [], "constraints": "age >= 30\n"}
    page = post(browser, space, **fields)
    assert 'name="low0" value="25"' in page.text
    assert "age &gt;= 30" in page.text
    refused = browser.post(space, data={"form_token": form_token(browser), **fields, "low0": "old"})
    assert refused.status_code == 422
    assert "the bound of" in refused.text.lower()
    assert post(browser, space, **fields | {"exclude": ["hours"], "constraints": ""}).text.count("Lowest") == 3
    none = browser.post(space, data={"form_token": form_token(browser), **fields, "protected": []})
    assert "no attribute is protected" in none.text.lower()


def test_jobs_are_started_stopped_and_resumed(browser: Client, project: str, library: Library) -> None:
    home = f"/projects/{project}"
    text = browser.get(home).text
    model, space = (re.search(f'<select id="{n}".*?value="(.*?)"', text, re.DOTALL)[1] for n in ("model", "space"))  # type: ignore[index]
    page = post(browser, f"{home}/jobs", kind="audit", model=model, space=space, tests="100", favourable="high")
    assert "Waiting" in page.text
    job = page.url.path
    assert 'hx-get="' + job + '/live"' in page.text
    assert "hx-refresh" not in browser.get(f"{job}/live").headers
    assert "Stopped" in post(browser, f"{job}/stop").text
    assert browser.get(f"{job}/live").headers["hx-refresh"] == "true"
    assert "Waiting" in post(browser, f"{job}/resume").text
    for tests in ("0", "-1", "x", "1e3", "9" * 50):
        refused = browser.post(
            f"{home}/jobs", data={"form_token": form_token(browser), "kind": "audit", "tests": tests}
        )
        assert refused.status_code == 422
    with library.database.write() as c:
        c.execute(JOB.update().values(state="failed", error="its process died of SIGSEGV, 3 times"))
    assert "SIGSEGV" in browser.get(job).text
    assert "SIGSEGV" in browser.get(home).text


def test_a_sentence_is_tried(browser: Client, project: str) -> None:
    path = next(path for path in re.findall('href="(/models/.*?/try)"', browser.get(f"/projects/{project}").text))
    page = post(browser, path, text="the muslim man", protected="religion")
    assert "The model says <b>toxic</b>" in page.text
    assert "the christian man" in page.text


def test_forms_of_other_sites_are_refused(browser: Client, connect: Callable[..., Client]) -> None:
    """Every form, without its token, and with the token from another site."""
    token = form_token(browser)
    evil = connect(origin="http://evil.example")
    forms = [route.path for route in router.routes if "POST" in getattr(route, "methods", ())]
    assert len(forms) > 12
    for path in forms:
        url = path.replace("{id}", "0" * 16)
        for refused in (evil.post(url, data={"form_token": token, "name": "x", "password": "x"}),):
            assert refused.status_code == 403, path
        if path != "/login":
            assert browser.post(url, data={"name": "x"}).status_code == 403, path


def test_pages_need_a_login_once_there_are_accounts(
    browser: Client, connect: Callable[..., Client], library: Library
) -> None:
    accounts = Accounts(library.database)
    post(browser, "/accounts", name="ada", password=PASSWORD, team="credit", role="admin")
    client = connect(**BROWSER)
    assert client.get("/").url.path == "/login"
    wrong = client.post("/login", data={"name": "ada", "password": "wrong"})
    assert (wrong.status_code, "is wrong" in wrong.text) == (401, True)
    page = client.post("/login", data={"name": "ada", "password": PASSWORD})
    assert page.url.path == "/"
    cookie = next(one for one in client.cookies.jar if one.name == COOKIE)
    assert cookie.has_nonstandard_attr("HttpOnly")
    token = re.search('name="form_token" value="(.*?)"', page.text)[1]  # type: ignore[index]
    made = client.post("/tokens", data={"form_token": token, "name": "ci", "scope": "auditor", "days": "30"})
    secret = re.search("eh_[A-Za-z0-9_-]+", made.text)[0]  # type: ignore[index]
    found = accounts.of_token(secret)
    assert found is not None
    assert found.role == "auditor"
    assert secret not in client.get("/account").text
    assert "added a token" in client.get("/log").text
    assert client.post("/logout", data={"form_token": token}).url.path == "/login"
    assert client.get("/").url.path == "/login"


def test_names_of_users_are_only_shown(browser: Client) -> None:
    for name in NASTY:
        page = browser.post("/projects", data={"form_token": form_token(browser), "name": name})
        assert page.status_code in (200, 422), name
    text = browser.get("/").text
    assert "<img" not in text
    assert "<script>" not in text


@pytest.mark.parametrize("path", ["/nowhere", "/projects/0000000000000000", "/jobs/0000000000000000/live", "/static/x"])
def test_what_does_not_exist(browser: Client, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 404
    assert "Go back" in answer.text


def test_pages_have_no_script_or_style_inside(browser: Client, project: str) -> None:
    """The policy forbids them, so they would not work."""
    pages = ["/", f"/projects/{project}", "/log", "/accounts", "/login", "/nowhere"]
    pages += [link(browser, f"/projects/{project}", start) for start in ("/spaces/", "/files/", "/models/")]
    for path in pages:
        text = browser.get(path).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), path
        assert not re.search(r"<script(?! src=)", text), path
