"""Arbitrary texts: splitting and joining restores them, and a swap changes only the term."""

from __future__ import annotations

import pytest
from benchmarks import round_trip

import evenhand as eh
from evenhand.spaces.text.lexicon import load
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.tokens import Texts
from tests.helpers import slow

ODD = {
    "right to left": ("قال الرجل: ", " יהודי אמר שלום\u200f."),
    "emoji": ("👩\u200d👩\u200d👧 😀\ufe0f ", " 🇮🇱🏳️\u200d🌈!"),
    "marks": ("e\u0301 n\u0303 \u0301", " Ⅷ ǅ ﬁ ß İ"),
    "lines": ("\r\n\t\u2028 \x00", "\n\n\v\x1f"),
    "halves of pairs": ("\ud83d ", " \udc00"),
    "long": ("word, 😀 " * 6_000, " ש" * 25_000),
    "nothing": ("", ""),
}


def test_thousands_of_random_strings_come_back():
    found = round_trip.measure(round_trip.strings(2_000, seed) for seed in range(4))
    assert found["strings"] == 8_000
    assert found["words"] > 8_000
    assert found["different"] == 0


def test_in_thousands_of_random_strings_a_swap_changes_the_term_alone():
    strings = round_trip.strings(2_000, seed=9)
    texts = Texts.of([f"{a} . the Muslims : {b}" for a, b in zip(strings[0::2], strings[1::2], strict=True)])
    swaps = Swaps([load("religion")], texts.vocabulary)
    made = swaps.counterparts(texts, swaps.find(texts))
    before, after = texts.strings(), made.texts.strings()
    lexicon = load("religion")
    column = [form.name for form in lexicon.forms].index("people")
    assert len(after) == 24 * len(before)
    for at in range(len(before)):
        expected = [
            before[at].replace("the Muslims :", f"the {names[0]} :")
            for row in lexicon.cells
            for names in [row[column]]
            if names[0] != "Muslims"
        ]
        assert after[24 * at : 24 * at + 24] == expected


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("term", ["A Jew", *slow(["a jew", "A JEW"])])
def test_audited_texts_differ_in_the_term_only(name, term):
    before, behind = ODD[name]
    text, asked = f"{before}{term} left{behind}", set()

    def model(texts):
        asked.update(texts)
        return ["JEW" in one.upper() for one in texts]

    run = eh.audit(model, eh.TextSpace.paper("religion"), "text-random", data=["", text, before + behind])
    assert run.findings["text"].tolist() == [text]
    atheist = {"A Jew": "An atheist", "a jew": "an atheist", "A JEW": "AN ATHEIST"}[term]
    assert f"{before}{atheist} left{behind}" in asked
    assert all(one.startswith(before) and one.endswith(f" left{behind}") for one in asked)
    assert len(asked) == 25
