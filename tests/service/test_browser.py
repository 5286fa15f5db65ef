"""The main path in a real browser: nothing is blocked, nothing is cut, nothing is a barrier."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import optional
from tests.reports.test_browser import CONTRAST, WIDE
from tests.service.conftest import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE = 240_000
"""Milliseconds that a busy machine may need to load a page's model; nothing waits that long where it is not needed."""
Page = Any


class Visit:
    """A browser in front of a service; whatever is blocked or complained about is remembered."""

    def __init__(self, browser: Any, axe: str) -> None:
        self.browser, self.axe, self.trouble, self.contexts = browser, axe, list[str](), list[Any]()

    def open(self, url: str, width: int = 1100, scheme: str = "light") -> Page:
        self.contexts.append(self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        page = self.contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.goto(url)
        return page

    def check(self, page: Page) -> None:
        """Look at a page as axe-core does, at its contrast, and at its width."""
        # The policy of the page forbids scripts, but not those of the driver.
        page.evaluate(self.axe)
        found = page.evaluate("axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))")
        assert found == [], page.url
        ratio, text = page.evaluate(CONTRAST)
        assert ratio >= 4.5, (page.url, text)
        for width in (360, 1100):
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate(WIDE.replace('closest("thead")', 'closest(".scroll, .skip")'))
            assert wide == [], (page.url, width)


@pytest.fixture
def visit(browser: Any, axe: str) -> Iterator[Visit]:
    made = Visit(browser, axe)
    yield made
    for context in made.contexts:
        context.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers = []

    def made(**settings: Any) -> Server:
        servers.append(Server(tmp_path / "service", **settings))
        return servers[-1]

    yield made
    for server in servers:
        server.end(signal.SIGINT)


def test_the_main_path(visit: Visit, serve: Callable[..., Server], credit: Path, files: Path) -> None:
    expect = optional("playwright.sync_api").expect
    server = serve()
    page = visit.open(server.url)
    expect(page.get_by_text("There is no project yet")).to_be_visible()
    visit.check(page)
    page.get_by_label("Name").fill("Credit")
    page.get_by_role("button", name="Add the project").click()
    expect(page.get_by_text("First, add data")).to_be_visible()
    visit.check(page)
    home = page.url

    # Data and models.
    page.get_by_label("File: CSV").set_input_files(credit / "credit.csv")
    page.get_by_role("button", name="Upload data").click()
    expect(page.get_by_role("heading", name="Who is protected?")).to_be_visible(timeout=PATIENCE)
    visit.check(page)
    page.get_by_label("sex is protected").check()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_label("Lowest age")).to_have_value("19", timeout=PATIENCE)
    visit.check(page)
    page.get_by_label("Lowest age").fill("25")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Lowest age")).to_have_value("25", timeout=PATIENCE)
    for model in (credit / "model.onnx", credit / "second.skops", files / "words.skops"):
        page.goto(home)
        page.get_by_label("File: ONNX").set_input_files(model)
        page.get_by_role("button", name="Upload model").click()
        expect(page.get_by_role("listitem").filter(has_text=model.name)).to_be_visible(timeout=PATIENCE)
    page.get_by_label("File: ONNX").set_input_files(Path(__file__))
    page.get_by_role("button", name="Upload model").click()
    expect(page.get_by_role("alert")).to_contain_text("pickles run code")
    assert visit.trouble.pop().startswith("Failed to load resource: the server responded with a status of 415")
    visit.check(page)

    # An audit, in seven tabs; the server dies while they watch.
    page.goto(home)
    page.get_by_label("Model", exact=True).select_option(label="model.onnx")
    page.get_by_label("Tests, or samples").fill("8000")
    page.get_by_label("Favourable decision").fill("good")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Running")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("heading", name="First pairs")).to_be_visible(timeout=PATIENCE)
    job = page.url
    tabs = [page, *(visit.contexts[0].new_page() for _ in range(6))]
    for tab in tabs[1:]:
        tab.goto(job)
    server.process.kill()
    server.process.wait()
    again = serve(port=server.port)
    assert again.url == server.url
    visit.trouble.clear()  # Requests that failed meanwhile.
    for tab in tabs:
        expect(tab.get_by_role("link", name="Read the report")).to_be_visible(timeout=PATIENCE)
        expect(tab.get_by_role("img", name="Findings against tests")).to_be_visible()
    for tab in tabs[1:]:
        tab.close()
    visit.trouble.clear()
    expect(page.locator(".figures")).to_contain_text("8,000")
    expect(page.locator("#findings ~ ol > li")).to_have_count(20)
    visit.check(page)
    page.get_by_label("Only where").select_option(label="sex")
    page.get_by_label("is", exact=True).fill("female")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("findings where sex is female")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#findings ~ ol")).to_have_attribute("start", "21")
    page.get_by_role("link", name="Read the report").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("nav a").first).to_be_visible()

    # A second model, and both compared.
    page.goto(home)
    page.get_by_label("Model", exact=True).select_option(label="second.skops")
    page.get_by_label("Tests, or samples").fill("500")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("link", name="Read the report")).to_be_visible(timeout=PATIENCE)
    page.goto(home)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("link", name="Read the report")).to_be_visible(timeout=PATIENCE)
    visit.check(page)

    # A sentence.
    page.goto(home)
    page.get_by_role("listitem").filter(has_text="words.skops").get_by_role("link", name="try a sentence").click()
    page.get_by_label("Sentence").fill("the muslim man")
    page.get_by_role("button", name="Ask the model").click()
    expect(page.get_by_text("the christian man")).to_be_visible(timeout=PATIENCE)
    visit.check(page)
    page.goto(f"{server.url}/log")
    expect(page.get_by_text("started: compare")).to_be_visible()
    visit.check(page)
    dark = visit.open(home, 390, "dark")
    visit.check(dark)
    dark.goto(f"{server.url}/accounts")
    visit.check(dark)
    assert visit.trouble == []
