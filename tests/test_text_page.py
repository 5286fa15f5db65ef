"""Pages of texts: what is marked, and that nothing in a text becomes part of the page."""

from __future__ import annotations

from typing import Any

import pytest

import evenhand as eh
from evenhand.page import Section, render
from evenhand.text_words import TextPair
from evenhand.words import telling
from tests.test_page import Page

NASTY = '<script>alert("x")</script> <b onclick=x>A Sikh</b> & \u202eold\u2069 \x00 \ud800 {{ 7 * 7 }} {% x %}'
SPACE = eh.TextSpace("religion")


def classify(texts: list[str]) -> Any:
    return ["<i>no</i>" if "Sikh" in text else "yes" for text in texts]


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(classify, SPACE, "text-random", data=[NASTY, "הסיפור של Sikh קצר", "A Sikh " + "went on " * 9_000])


def test_texts_are_marked_and_escaped(run: eh.Run) -> None:
    text = render([Section(NASTY, run, telling(run), NASTY)], title=NASTY)
    page = Page(text)
    assert page.open == []
    assert not page.tags & {"script", "link", "img", "iframe", "b", "i"}
    assert text.count('<span class="swapped">Sikh</span>') >= 2
    assert text.count('dir="auto"') == 6
    # Characters that turn text round, and those that are none, are written out.
    assert "\u202e" not in text.partition("</h2>")[2].partition("<p>")[2].partition("</p>")[2]
    for written in ("\\u202e", "\\u2069", "\\x00", "\\ud800", "הסיפור", "{{ 7 * 7 }}", "&lt;script&gt;"):
        assert written in text
    assert "one text twice" in text
    assert len(text) < 100_000
    assert '<span class="cut">…</span>' in text


def test_changed_words_show_what_they_replaced(run: eh.Run) -> None:
    pair = TextPair("A kind Sikh.", "A kind Jew.", 0, 1, 0.5, 0, [(1, "<s>nice", "kind")], measured=True)
    text = render([Section("x", run, [pair])])
    assert text.count('<span class="changed">kind</span> <s>&lt;s&gt;nice</s>') == 2
    assert "The scores are 0.5 apart." in text


def test_rows_and_texts_on_one_page(run: eh.Run) -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("sex")], protected="sex")
    rows = eh.audit(lambda frame: frame["sex"], space, "themis")
    text = render([Section("x", run, telling(run)), Section("y", rows, telling(rows))])
    assert "<dl>" in text
    assert 'class="swapped"' in text
    assert Page(text).open == []
