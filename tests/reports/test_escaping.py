"""Names, values and decisions are plain text, whatever they contain; without examples, the file has no values."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from hypothesis import given, settings

import evenhand as eh
from evenhand._format import plain, visible
from evenhand.reports.render import render
from evenhand.reports.report import gathered
from tests.reports.page import Page
from tests.runs.hostile import NASTY, runs, texts, texts_of


def readable(text: str) -> str:
    return " ".join(visible(text).split())


@settings(max_examples=12)
@given(runs(), texts)
def test_names_and_values_are_texts(run: eh.Run, title: str) -> None:
    html = render(gathered(run, samples=100, options=eh.ReportOptions(title=title, note=title)))
    page = Page(html)
    page.check()
    html.encode("utf-8")
    assert not [c for c in html if not c.isprintable() and c not in "\n\u200c\u200d"]
    shown = " ".join(page.cells).replace("\n", " ")
    for name in run.space.names:
        assert readable(plain(name)) in " ".join(shown.split())
    assert readable(title) in page.text or not title.strip()


@settings(max_examples=25)
@given(runs())
def test_the_short_form(run: eh.Run) -> None:
    page = Page(run._repr_html_())
    page.check()
    for said in {plain(v) for name in ("decision", "counterpart_decision") for v in run.pairs.decisions(name)}:
        assert readable(said) in " ".join(" ".join(page.cells).split())
    assert texts_of(run)


def test_texts_are_texts() -> None:
    nasty = "".join(NASTY) + "\ud800 A Sikh."
    run = eh.audit(
        lambda texts: ["<i>no</i>" if "Sikh" in t else "yes" for t in texts],
        eh.TextSpace("religion"),
        "text-random",
        data=[nasty],
    )
    html = render(gathered(run))
    page = Page(html)
    page.check()
    html.encode("utf-8")
    assert "\u202e" not in html
    assert '<span class="swapped">Sikh</span>' in html
    assert "<i>no</i>" in page.text


def secret_run() -> tuple[eh.Run, pd.DataFrame]:
    """People whose names and cities nothing depends on."""
    names = [f"Person{i}Secret" for i in range(40)]
    space = eh.Space(
        [eh.Nominal("name", names), eh.Integer("age", 18, 80), eh.Integer("code", 700_000, 700_999),
         eh.Nominal("sex", ["F", "M"])],
        protected="sex",
    )  # fmt: skip
    random = np.random.default_rng(0)
    data = pd.DataFrame(
        {"name": random.choice(names, 300), "age": random.integers(18, 80, 300),
         "code": random.integers(700_000, 700_999, 300), "sex": random.choice(["F", "M"], 300)}
    )  # fmt: skip
    run = eh.audit(lambda f: (f["age"] < 40) & (f["sex"] == "F"), space, "kosei", eh.Budget(tests=3_000), data=data)
    return run, data


def test_without_rows_no_value_of_a_person_is_left() -> None:
    run, data = secret_run()
    with_rows = render(gathered(run, data=data, samples=1_000))
    assert "Secret" in with_rows
    html = render(gathered(run, data=data, show_examples="none", samples=1_000))
    page = Page(html)
    page.check()
    assert "Secret" not in html
    # Whole numbers only: the digits of a time may well have one of them within.
    assert not re.search(r"\b700\d{3}\b", html)
    assert "Row " not in page.text
    assert "Pairs are left out of this report" in page.text
    # Rules and counts stay.
    assert re.search(r"age <= \d\d", page.text)


def test_an_error_names_no_value_without_rows() -> None:
    run, data = secret_run()
    html = render(gathered(run, data=data, show_examples="none", samples=1_000, y="name"))
    assert "Secret" not in html
