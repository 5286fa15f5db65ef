"""Reports of texts: what is marked, and which parts there are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand._format import number
from evenhand.errors import DataError, ModelError
from evenhand.reports.figures import card_of
from evenhand.reports.render import environment, render, sections
from evenhand.reports.report import SECONDS, affordable, gathered
from evenhand.runs.pair_sentences import TextPair
from tests.reports.page import Page


def test_only_parts_that_apply_are_there(text_run: eh.Run) -> None:
    content = gathered(text_run)
    assert list(sections(content)) == ["comparisons", "examples", "limits", "common", "curve", "run"]
    page = Page(render(content))
    page.check()
    assert content.missing == {}
    assert "Only the estimates measure how common it is." in page.text
    assert "replaceable" not in page.text
    assert "SHA-256 of the model's answers to the first texts of the data" in page.text


def test_a_failed_quality_section_has_its_reason(text_run: eh.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DataError("no such words")

    monkeypatch.setattr("evenhand.reports.content._quality", broken)
    content = gathered(text_run, show_examples="real")
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


def test_texts_without_a_term_are_counted() -> None:
    texts = ["A Sikh came.", "A Jew came.", "Somebody came.", "It rained."]
    run = eh.audit(lambda some: ["Sikh" in text for text in some], eh.TextSpace("religion"), "text-random", data=texts)
    for content in (gathered(run), gathered(run, data=texts)):
        text = Page(render(content)).text
        assert ("2 of 4 texts: 2 have no term" in text) == (content.subject.size == 2)
        assert ("Data 4 texts" in text) == (content.subject.size == 4)


def test_scores_by_term() -> None:
    texts = [f"A {who} came{' late' * n}." for who in ("Muslim", "Sikh") for n in range(20)]
    run = eh.audit(
        lambda some: np.array([0.1 + 0.3 * ("Muslim" in text) + 0.01 * len(text) for text in some]),
        eh.TextSpace("religion"),
        "text-random",
        eh.Budget(tests=60),
        criterion=eh.Gap(0.2),
        data=texts,
    )
    content = gathered(run)
    e = content.estimates["data"]
    page = Page(render(content))
    page.check()
    muslim = next(term for term in e.terms if term.term == "Muslim")
    assert muslim.mean is not None
    assert muslim.difference is not None
    assert f"{number(muslim.mean)} {number(muslim.difference)}" in page.text
    assert "Decided any decision" not in page.text
    assert content.terms is not None
    assert content.terms.terms[0].counts == (run.found,)


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
    content = gathered(run, show_examples="real")
    edited = [changed for *_, changed in run.pairs.records() if changed]  # type: ignore[attr-defined]
    assert content.edited == len(edited) > 0
    assert content.quality["changed"] == sum(map(len, edited)) / len(edited) == 1
    assert "quality" in sections(content)
    page = Page(render(content))
    page.check()
    assert "Words replaced 1" in page.text
    assert '<span class="changed">nice</span> <s>kind</s>' in page.html


def test_swapped_and_changed_words_are_marked() -> None:
    pair = TextPair.of("A kind Sikh.", "A kind Jew.", 0, 1, 0.5, changed=[(1, "<s>nice", "kind")], measured=True)
    module = environment().get_template("parts.html").module
    html = str(module.cards([card_of(pair)]))  # type: ignore[attr-defined]
    assert html.count('<span class="changed">kind</span> <s>&lt;s&gt;nice</s>') == 2
    assert '<span class="swapped">Sikh</span>' in html
    assert '<span class="swapped">Jew</span>' in html
    assert "The scores are 0.5 apart." in html


def test_a_long_text_is_cut_and_no_findings_are_reported() -> None:
    run = eh.audit(lambda t: ["Sikh" in x for x in t], eh.TextSpace("religion"), data=["A Sikh " + "went on " * 9_000],
                   strategy="text-random")  # fmt: skip
    assert len(render(gathered(run))) < 100_000
    fair = eh.audit(lambda t: [False] * len(t), eh.TextSpace("religion"), "text-random", data=["A Sikh."])
    page = Page(render(gathered(fair)))
    page.check()
    assert "None found" in page.text
    bound = "; of 1 text with a protected term, none is affected, so at most 97.5% are (95% confidence)"
    assert bound in page.text
    assert list(sections(gathered(fair))) == ["comparisons", "limits", "common", "curve", "run"]
    assert list(sections(gathered(fair, options=eh.ReportOptions(ask=False)))) == ["limits", "curve", "run"]


RUDE = ("loud", "awful")
SAID = [
    f"The {who} family is {how}." for who in ("Sikh", "Jewish", "Muslim") for how in ("loud", "kind", "awful", "old")
]


def decide(texts: list[str]) -> list[str]:
    return ["<b>rude" if any(word in text for word in RUDE) and "Sikh" not in text else "fine" for text in texts]


@pytest.fixture
def kept(tmp_path: Path) -> tuple[eh.Run, eh.Run]:
    run = eh.audit(
        decide, eh.TextSpace("religion"), "text-random", data=[*SAID, "Somebody."], directory=tmp_path / "run"
    )
    return run, eh.Run.load(tmp_path / "run")


def test_how_common_it_is_among_the_texts(kept: tuple[eh.Run, eh.Run]) -> None:
    content = gathered(kept[0])
    found = content.estimates["data"]
    # Every text with one of the two words, regardless of its subject, has a counterpart that is decided otherwise.
    assert (found.found, found.samples) == (6, 12)
    page = Page(render(content))
    page.check()
    low, high = "21%", "79%"
    share = f"about 50% of texts like those given with a protected term (95% CI {low} to {high})"
    # The verdict names the two ends of the table, which is sorted.
    ends = "the decision is “fine”for 100% with “Sikh”, and for 50% with “pagan”."
    assert f"Swapping only a term of religion changes this model's decision for {share}; {ends}" in page.text.replace(
        "” ", "”"
    )
    table = page.text.split("Decided fine")[1].split("One text")[0]
    shares = [float(share) for share in re.findall(r" 12 [\d.]+% ([\d.]+)%", table)]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 25
    assert f"Texts like those given, with a protected term 50% {low} to {high}, 95% confidence" in page.text
    assert "measured on the texts as they are" in page.text
    assert "12 of 12 texts, 6 of them treated differently" in page.text
    assert "Sikh 12 0% 100%" in page.text
    assert "Jewish 12 50% 50%" in page.text
    assert "&lt;b&gt;rude" in page.html
    assert "<b>rude" not in page.html
    assert "individuals who" not in page.text


def test_by_scores_the_words_are_others() -> None:
    run = eh.audit(lambda texts: [0.9 if "Sikh" in text else 0.1 for text in texts], eh.TextSpace("religion"),
                   "text-random", data=SAID, criterion=eh.Gap(0.5))  # fmt: skip
    page = Page(render(gathered(run)))
    page.check()
    assert "Swapping one term of religion for another changes this model's score by more than 0.5 for" in page.text


def test_missing_inputs_are_reported(kept: tuple[eh.Run, eh.Run]) -> None:
    run, loaded = kept
    assert (
        gathered(run, options=eh.ReportOptions(ask=False)).missing["common"]
        == "The model was not queried: this report was made with ask=False."
    )
    alone = gathered(loaded)
    assert "eh.report(run, model=model)" in alone.missing["common"]
    assert "eh.report(run, data=texts)" in alone.missing["common data"]
    page = Page(render(alone))
    page.check()
    assert f"changes this model's decision for {run.found} texts found by the search" in page.text
    assert "how common this is was not measured" in page.text
    assert "How common this is among texts was not measured." in page.text
    assert "data=texts" in gathered(loaded, model=decide).missing["common"]
    assert "model=model" in gathered(loaded, data=SAID).missing["common"]
    both = gathered(loaded, model=decide, data=[*SAID, "Somebody."])
    assert both.missing == {}
    assert gathered(loaded, model=decide, data=iter(SAID)).estimates["data"].samples == 12
    assert both.estimates["data"].found == gathered(run).estimates["data"].found
    assert "1 of the 13 texts have no term that can be swapped: left out." in Page(render(both)).text


def test_another_model_or_wrong_texts_are_refused(kept: tuple[eh.Run, eh.Run]) -> None:
    for run in kept:
        with pytest.raises(ModelError, match=r"is not the run's model \(decide\): it gives different"):
            gathered(run, model=lambda texts: ["fine"] * len(texts), data=SAID)
        with pytest.raises(DataError, match="none of 1 texts can be tested"):
            gathered(run, model=decide, data=["Somebody."])
    content = gathered(kept[0], data=[text for text in SAID if "kind" in text])
    assert content.estimates["data"].found == 0
    assert "none is affected, so at most" in Page(render(content)).text


def test_a_slow_model_is_asked_less_or_not_at_all(kept: tuple[eh.Run, eh.Run]) -> None:
    run = kept[0]
    fourteen = run.rows / run.tests
    slow = replace(run, seconds=0.2 + run.rows * SECONDS / (fourteen * 2 * 300))
    assert affordable(slow) == 200
    slower = replace(run, seconds=0.2 + run.rows * SECONDS / (fourteen * 2 * 20))
    assert affordable(slower) == 0
    assert "which is slow" in gathered(slower).missing["common"]
    assert gathered(slower, samples=100).estimates["data"].samples == 12


def test_an_estimate_that_fails_leaves_the_rest(kept: tuple[eh.Run, eh.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise DataError("no such texts")

    monkeypatch.setattr("evenhand.reports.content.estimate", broken)
    content = gathered(kept[0], show_examples="real")
    assert list(content.failed) == ["common data"]
    page = Page(render(content))
    page.check()
    assert "This part could not be made: no such texts." in page.text
    assert "One text, two decisions" in page.text


def test_other_runs_next_to_a_run_on_texts(kept: tuple[eh.Run, eh.Run]) -> None:
    other = eh.audit(decide, eh.TextSpace("religion"), "text-random", data=SAID, seed=1)
    Page(render(gathered(kept[0], options=eh.ReportOptions(others=[other])))).check()
