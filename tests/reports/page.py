"""Reads a report as a browser would, as far as tests need it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = ("meta", "br", "wbr", "link", "col", "line", "circle", "polyline", "path", "rect")
_ALLOWED = """
html head meta title link style body header main footer section nav article h1 h2 h3 p wbr ol ul li a b s small span
code pre div dl dt dd table colgroup col thead tbody tr th td figure figcaption details summary
svg line text polyline circle rect
"""
TAGS = set(_ALLOWED.split()) | {"caption", "path"}
"""Every tag that a report may have: whatever else there is came from the user."""


FIGURE = re.compile(r'<data value="[^"<>]*" data-source="[^"<>]*" data-as="[a-z_:0-9]+">|</data>')
"""What marks a figure; ``test_figures`` looks at it."""


class Page(HTMLParser):
    """Collects tags, ids and texts, and checks that tags close as they open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.cells: list[str] = []
        self._texts: list[str] = []
        self.feed(FIGURE.sub("", html))
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        """What a reader reads, with one space where there is any."""
        return " ".join("".join(self._texts).replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")
        if tag in ("td", "th", "dd", "dt", "span", "h1", "s", "b"):
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data
        if self.cells:
            self.cells[-1] += data
        self._texts.append(data if self.open and self.open[-1] in ("b", "s", "a", "code") else f" {data} ")

    def check(self) -> None:
        """Assert that the page is whole, loads nothing, and has no tag or handler of anybody else's."""
        assert self.tags <= TAGS, self.tags - TAGS
        assert not {name for name in self.attributes if name.startswith("on")}
        assert len(set(self.ids)) == len(self.ids)
        for link in self.links:
            assert link == "data:," or link[1:] in self.ids
        assert not re.search(r"@import|url\(", self.html)
