"""Reports in a real browser: nothing is loaded, nothing is cut, everything can be read and clicked."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from tests.helpers import ROOT
from tests.runs.hostile import NASTY

pytestmark = pytest.mark.slow

CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest("style, details:not([open])")) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e.closest("svg") ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, walk.currentNode.data];
  }
  return least;
}"""
WIDE = """() => [...document.querySelectorAll("body *")].filter((e) =>
  !e.closest("thead") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map((e) => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def reports(run: eh.Run, text_run: eh.Run, data: pd.DataFrame, tmp_path_factory: Any) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        "rows": eh.report(run, folder / "rows.html", data=data, favourable="granted", y="paid", samples=1_000),
        "texts": eh.report(text_run, folder / "texts.html"),
    }


both = pytest.mark.parametrize("which", ["rows", "texts"])


@both
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(show: Callable[..., Any], reports: dict[str, Path], which: str, scheme: str) -> None:
    page = show(reports[which], scheme=scheme)
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    assert dark == (scheme == "dark")


@both
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(
    show: Callable[..., Any], reports: dict[str, Path], which: str, width: int
) -> None:
    page = show(reports[which], width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(WIDE) == []


@both
def test_every_part_is_a_click_away(show: Callable[..., Any], reports: dict[str, Path], which: str) -> None:
    page = show(reports[which], 360)
    links = page.locator("nav a")
    assert links.count() == page.locator("section h2").count() > 4
    for link in links.all():
        link.click()
        heading = page.locator(page.evaluate("location.hash"))
        assert heading.inner_text() == link.inner_text()
        page.wait_for_function("(e) => e.getBoundingClientRect().top < innerHeight", arg=heading.element_handle())
        assert heading.is_visible()
    assert not page.get_by_text("SHA-256 of the model").is_visible()
    page.get_by_text("Versions and digests").click()
    assert page.get_by_text("SHA-256 of the model").is_visible()


def test_pairs_stand_beside_each_other(show: Callable[..., Any], reports: dict[str, Path]) -> None:
    page = show(reports["rows"], 360)
    for card in page.locator(".card").all():
        one, other = (cell.bounding_box() for cell in card.locator("thead th").all())
        assert one["y"] == other["y"]
        assert one["x"] + one["width"] <= other["x"] + 1
        marked = card.locator("tr.protected")
        assert marked.count() >= 1
        for row in marked.all():
            first, second = row.locator("td").all_inner_texts()
            assert first != second
    texts = show(reports["texts"], 1100)
    boxes = [side.bounding_box() for side in texts.locator(".card").first.locator(".text").all()]
    assert boxes[0]["x"] < boxes[1]["x"]


@both
def test_printed_it_is_light_whole_and_uncut(show: Callable[..., Any], reports: dict[str, Path], which: str) -> None:
    page = show(reports[which], 720, "dark")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("SHA-256 of the model").bounding_box()["height"] > 0
    for card in page.locator(".card").all():
        assert card.evaluate("(e) => getComputedStyle(e).breakInside") == "avoid"
        # An A4 page, less its margins, is 1,000 pixels high.
        assert card.bounding_box()["height"] < 1_000


def test_nasty_names_and_values_are_seen_as_text(show: Callable[..., Any], tmp_path: Path) -> None:
    space = eh.Space([eh.Nominal("a<b>", NASTY), eh.Nominal("</style>", ["<script>", "M"])], protected="</style>")
    run = eh.audit(
        lambda f: ["<img src=x onerror=alert(1)>" if v == "M" else "no" for v in f["</style>"]], space, "themis"
    )
    page = show(
        eh.report(
            run, tmp_path / "x.html", options=eh.ReportOptions(title="</title><script>alert(1)</script>", examples=30)
        ),
        360,
    )
    assert page.title() == "</title><script>alert(1)</script>"
    assert page.locator("img, script").count() == 0
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    assert page.get_by_text("<img src=x onerror=alert(1)>").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("length", [70, 3_000])
def test_long_values_do_not_break_the_tables(show: Callable[..., Any], tmp_path: Path, length: int) -> None:
    ours, theirs = "a" * length, "b" * length
    space = eh.Space(
        [eh.Integer("n", 0, 50), eh.Nominal("origin_as_declared", [ours, theirs]), eh.Nominal("sex", ["F", "M"])],
        protected=["origin_as_declared", "sex"],
    )
    run = eh.audit(
        lambda f: np.where((f["n"] > 20) & (f["sex"] == "F") & (f["origin_as_declared"] == ours), ours, theirs), space
    )
    data = space.frame(space.coding.rows(np.arange(0, 200, 3)))
    path = eh.report(run, tmp_path / "x.html", data=data, favourable=theirs, samples=500)
    assert "a" * 100 not in path.read_text("utf-8")
    for width in (360, 800, 1100):
        page = show(path, width)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        lines = "(e) => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)"
        for number in page.locator("table.list td[data-is] > b").all():
            assert number.evaluate(lines) < 2
        # A word to a line at most: no word is torn.
        torn = "(e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length }"
        for head in page.locator(
            "table.list thead th", has_text=re.compile("^(Outcome differs|Only the second gets it)$")
        ).all():
            assert head.evaluate(torn) <= len(head.text_content().split())


def test_the_short_form(show: Callable[..., Any], run: eh.Run, text_run: eh.Run, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text(f"<!doctype html>{run._repr_html_()}{text_run._repr_html_()}", "utf-8")
    page = show(tmp_path / "x.html")
    assert page.locator(".card").count() == 3 + min(3, text_run.found)
    assert page.get_by_text(f"{run.found:,}", exact=True).first.is_visible()


KINDS = ["rows", "texts", "regression", "many", "wide", "nothing", "estimate", "compared", "repair"]
LARGEST = 500_000


@pytest.fixture(scope="module")
def kinds(
    reports: dict[str, Path], results: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A page of every kind; four are those of the pictures in the documentation."""
    folder = tmp_path_factory.mktemp("kinds")
    runpy.run_path(str(ROOT / "docs" / "images" / "reports.py"))["generated"](folder)
    made = {name: folder / f"{name}.html" for name in ("regression", "many", "wide", "nothing")}
    of_results = {name: eh.report(results[name], folder / f"{name}.html") for name in KINDS[-3:]}
    return {**reports, **made, **of_results}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("which", KINDS)
def test_a_page_of_every_kind(
    show: Callable[..., Any], kinds: dict[str, Path], axe: str, which: str, width: int, scheme: str
) -> None:
    """Nothing is loaded or complained about, nothing is cut, everything can be read, and axe-core finds nothing."""
    assert kinds[which].stat().st_size < LARGEST
    page = show(kinds[which], width, scheme)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(WIDE) == []
        ratio, text = page.evaluate(CONTRAST)
        assert ratio >= 4.5, text
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    page.evaluate(axe)
    assert page.evaluate("axe.run().then((found) => found.violations.map((one) => [one.id, one.nodes[0].html]))") == []
