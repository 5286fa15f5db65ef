"""Reports of texts: what is marked, and which parts there are."""

from __future__ import annotations

import pytest

import evenhand as eh
from evenhand.errors import DataError
from evenhand.reporting.cards import cards_of_pairs
from evenhand.reporting.making import gathered
from evenhand.reporting.rendering import environment, render, sections
from evenhand.text_words import TextPair
from tests.reporting.page import Page


def test_only_parts_that_apply_are_there(text_run: eh.Run) -> None:
    content = gathered(text_run)
    assert list(sections(content)) == ["whom", "cases", "curve", "run", "limits"]
    page = Page(render(content))
    page.check()
    assert content.missing == {}
    assert "How common this is among texts was not measured." in page.text
    assert f"Yes: the search found {text_run.found} texts" in page.text
    assert "cannot move" not in page.text
    assert "SHA-256 of the model's answers to the first texts of the data" in page.text


def test_quality_that_fails_says_why(text_run: eh.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DataError("no such words")

    monkeypatch.setattr("evenhand.reporting.gathering._quality", broken)
    content = gathered(text_run)
    assert "quality" in sections(content)
    assert "This part could not be made: no such words." in Page(render(content)).text


def test_flips_by_term(text_run: eh.Run) -> None:
    content = gathered(text_run)
    assert content.terms is not None
    assert content.terms.decisions == ("fine", "rude")
    counts = {term.name: term.counts for term in content.terms.terms}
    assert counts["Sikh"] == (text_run.found, 0)
    assert sum(c[1] for c in counts.values()) == text_run.found
    assert all(c[0] == 0 for name, c in counts.items() if name != "Sikh")


def test_quality_is_that_of_the_words_replaced_alone() -> None:
    words = {"kind": [1.0, 0.0], "nice": [0.9, 0.1], "fine": [0.95, 0.0]}
    run = eh.audit(
        lambda texts: ["Sikh" in text and "nice" in text for text in texts],
        eh.TextSpace("religion", similar=(list(words), list(words.values()))),
        "text-random",
        eh.Budget(tests=60),
        data=["A kind Jew.", "The kind Sikh."],
    )
    assert run.found
    content = gathered(run)
    edited = [changed for *_, changed in run.pairs.records() if changed]  # type: ignore[attr-defined]
    assert content.edited == len(edited) > 0
    assert content.quality["changed"] == sum(map(len, edited)) / len(edited) == 1
    assert "quality" in sections(content)
    page = Page(render(content))
    page.check()
    assert "Words replaced 1.00" in page.text
    assert '<span class="changed">nice</span> <s>kind</s>' in page.html


def test_swapped_and_changed_words_are_marked() -> None:
    pair = TextPair("A kind Sikh.", "A kind Jew.", 0, 1, 0.5, 0, [(1, "<s>nice", "kind")], measured=True)
    module = environment().get_template("cards.html").module
    html = str(module.cards(cards_of_pairs([pair], ["religion"])))  # type: ignore[attr-defined]
    assert html.count('<span class="changed">kind</span> <s>&lt;s&gt;nice</s>') == 2
    assert '<span class="swapped">Sikh</span>' in html
    assert '<span class="swapped">Jew</span>' in html
    assert "The scores are 0.5 apart." in html


def test_a_long_text_is_cut_and_none_found_is_said() -> None:
    run = eh.audit(lambda t: ["Sikh" in x for x in t], eh.TextSpace("religion"), data=["A Sikh " + "went on " * 9_000],
                   strategy="text-random")  # fmt: skip
    assert len(render(gathered(run))) < 100_000
    fair = eh.audit(lambda t: [False] * len(t), eh.TextSpace("religion"), "text-random", data=["A Sikh."])
    page = Page(render(gathered(fair)))
    page.check()
    assert "None found" in page.text
    assert list(sections(gathered(fair))) == ["curve", "run", "limits"]
