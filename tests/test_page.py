from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import RunError
from evenhand.page import Section, render, write
from evenhand.words import telling

NASTY = '<script>alert("x")</script>'
SPACE = eh.Space([eh.Integer("age", 1, 9), eh.Nominal(NASTY, [NASTY, "M"])], protected=NASTY)


def refuse(frame: pd.DataFrame) -> Any:
    return np.where((frame["age"] < 4) & (frame[NASTY] == NASTY), "<b>no</b>", "yes")


class Page(HTMLParser):
    """Collects ids and checks that tags close as they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(refuse, SPACE, "themis")


def test_the_page_is_whole_offline_and_escaped(run: eh.Run) -> None:
    text = render([Section(NASTY, run, telling(run), NASTY, [run], eh.coverage(run))] * 2, title=NASTY)
    page = Page(text)
    assert page.open == []
    assert not page.tags & {"script", "link", "img", "iframe", "b"}
    assert len(set(page.ids)) == len(page.ids)
    # Names of XML languages are no addresses that anything loads.
    loaded = [url for url in re.findall(r"https?://[^\"' )<]+", text) if not url.startswith("http://www.w3.org/")]
    assert loaded == []
    assert "url(http" not in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("&lt;b&gt;no&lt;/b&gt;") == 2 * 3
    assert "It does not say how common discrimination is." in text
    assert text.count("Its tests reach 3 of 3 leaves (100.0%)") == 2


def test_the_same_run_makes_the_same_page(run: eh.Run) -> None:
    section = Section("x", run, telling(run))
    assert render([section]) == render([section])


def test_nobody_found() -> None:
    run = eh.audit(lambda frame: frame["age"] > 3, SPACE, "themis")
    assert "Nobody was found" in render([Section("x", run, telling(run))])


def test_write(run: eh.Run, tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "page.html", [Section("x", run, [])], title="Loans")
    assert "<title>Loans</title>" in path.read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        write(tmp_path / "file" / "page.html", [])
