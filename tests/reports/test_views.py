"""What notebooks show: every figure is that of its object, nothing is loaded, everything is escaped and can be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand import _format
from tests.reports.page import Page
from tests.reports.test_browser import CONTRAST
from tests.reports.test_figures import Walk, resolved

RESULTS = ["space", "run", "estimate", "groups", "regions", "examples", "compared", "repair", "repairs"]


@pytest.mark.parametrize("which", RESULTS)
def test_every_figure_is_that_of_its_object(results: dict[str, Any], which: str) -> None:
    result, found = results[which], Walk()
    html = result._repr_html_()
    page = Page(html)
    page.check()
    found.feed(html)
    found.close()
    assert found.loose == []
    for source, how, text in found.figures:
        if source.startswith("cards."):
            continue
        value = resolved(result, source)
        assert _format.written(value if isinstance(value, int | float) else len(value), how) == text
    assert found.figures
    assert result._repr_html_() == html


def test_names_and_values_are_escaped() -> None:
    space = eh.Space([eh.Nominal("<b>", ["<i>", "&"]), eh.Nominal("sex", ["<script>", "M"])], "sex")
    run = eh.audit(lambda frame: frame["sex"] == "M", space, "themis")
    for result in (space, run, eh.estimate(lambda frame: frame["sex"] == "M", space)):
        page = Page(result._repr_html_())
        page.check()
        assert "script" not in page.tags
        assert "sex" in page.text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 900])
def test_they_can_be_read(
    show: Callable[..., Any], results: dict[str, Any], axe: str, tmp_path: Path, scheme: str, width: int
) -> None:
    views = "".join(result._repr_html_() for result in results.values())
    path = tmp_path / "x.html"
    path.write_text(f'<!doctype html><meta name="viewport" content="width=device-width">{views}', "utf-8")
    page = show(path, width, scheme)
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator(".evenhand.short").count() == len(RESULTS)
    page.evaluate(axe)
    assert page.evaluate("axe.run('.evenhand').then((found) => found.violations.map((one) => one.id))") == []
    # A notebook's own theme wins over that of the system.
    other = "false" if scheme == "light" else "true"
    page.evaluate(f"document.body.dataset.jpThemeLight = '{other}'")
    colour = page.evaluate("getComputedStyle(document.querySelector('.evenhand')).color")
    assert (colour == "rgb(233, 231, 226)") == (other == "false")
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text


def test_a_view_is_small(results: dict[str, Any]) -> None:
    for result in results.values():
        assert len(result._repr_html_()) < 40_000
        assert not re.search(r"https?://", result._repr_html_())


@pytest.mark.parametrize("which", ["estimate", "compared", "repair", "repairs"])
def test_a_report_of_a_result_has_its_figures(results: dict[str, Any], tmp_path: Path, which: str) -> None:
    result, found = results[which], Walk()
    path = eh.report(result, tmp_path / "x.html", options=eh.ReportOptions(title="Loans <b>"))
    html = path.read_text("utf-8")
    page = Page(html)
    page.check()
    assert page.headings[0] == "Loans <b>"
    found.feed(html)
    found.close()
    assert [text for text in found.loose if "evenhand" not in text] == []
    for source, how, text in found.figures:
        value = resolved(result, source)
        assert _format.written(value if isinstance(value, int | float) else len(value), how) == text
    assert "<svg" in html
    assert eh.report(result, None) == eh.report(result, None)
    if which.startswith("repair"):
        done = result.compared.done if which == "repair" else result.done
        assert html.count('class="dot"') == 2 * sum(2 + (one.control is not None) for one in done.values())
        assert "marginal" in page.text


HOW = [
    getattr(_format, name)
    for name in ("percent", "low", "high", "level", "count", "number", "size", "points", "seconds", "number_low",
                 "number_high", "size_low", "size_high", "reverse")
] + [lambda value: _format.points_interval(value, value)]  # fmt: skip


def leaves(value: Any) -> Iterator[float]:
    """Every number of an object, and the number of parts of each list."""
    if isinstance(value, dict):
        yield from (leaf for part in value.values() for leaf in leaves(part))
    elif isinstance(value, list | tuple):
        yield len(value)
        yield from (leaf for part in value for leaf in leaves(part))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def numbers(text: str) -> set[str]:
    """Every number that a reader reads, without signs."""
    return set(re.findall(r"\d[\d,]*(?:\.\d+)?%?", text))


@pytest.mark.parametrize("which", ["estimate", "compared", "repair", "repairs"])
def test_every_number_of_a_report_is_one_of_its_object(results: dict[str, Any], which: str) -> None:
    """Also those in sentences and tables, which name no source: each is a number of the object, rounded."""
    result = results[which]
    html = eh.report(result, None, options=eh.ReportOptions(title="Loans")).decode()
    html = re.sub(r'<div data-source="scale">.*?</div>|<style>.*?</style>', " ", html, flags=re.DOTALL)
    text = Page(html).text.replace(f"evenhand {eh.__version__}", "")
    known = set()
    runs = [result.run_a.found, result.run_b.found] if which == "compared" else []
    whole = {name: one.to_dict() for name, one in result.done.items()} if which == "repairs" else result.to_dict()
    for leaf in leaves([whole, runs]):
        # A difference may be named without its sign; points are hundredths.
        known |= {said for how in HOW for part in (leaf, -leaf) for said in numbers(how(part))}
    assert numbers(text) - known == set()
    assert len(numbers(text)) > 5
    assert numbers("Loans cost 0.123456%") - known


@pytest.mark.slow
@pytest.mark.parametrize("which", ["estimate", "compared", "repairs"])
def test_a_report_of_a_result_can_be_read(
    show: Callable[..., Any], results: dict[str, Any], tmp_path: Path, which: str
) -> None:
    path = eh.report(results[which], tmp_path / "x.html")
    for width, scheme in ((390, "dark"), (1280, "light")):
        page = show(path, width, scheme)
        ratio, text = page.evaluate(CONTRAST)
        assert ratio >= 4.5, text
        assert page.evaluate("document.documentElement.scrollWidth") == width
