"""Swaps: every term of every lexicon for every other of its form, in sentences written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import SpaceError
from evenhand.spaces.text.lexicon import NAMES, Form, load, load_all
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.tokens import Texts

SPOKEN_AS_YOU = ("UK", "Uyghur", "Uighur", "US", "U.S.", "Ukrain", "Ugand", "Urugua", "United", "Europ")
SILENT = ("heir",)
FRAMES = {
    ("adjective", ""): "It was {a} {term} teacher.",
    ("noun", "singular"): "It was {a} {term} who came.",
    ("noun", "plural"): "We saw some {term} there.",
    ("noun", "mass"): "They came from {term} again.",
    ("pronoun", ""): "It was {term} again.",
    ("object", ""): "It was {term} again.",
    ("determiner", ""): "It was {term} house.",
    ("name", "singular"): "It was {term} again.",
}


def sentence(form: Form, term: str) -> str:
    """Put a term into a sentence, with the article that English wants by the test's own rule."""
    vowel = (term[0].lower() in "aeiou" or term.startswith(SILENT)) and not term.startswith(SPOKEN_AS_YOU)
    return FRAMES[form.speech, form.number].format(a="an" if vowel else "a", term=term)


def counterparts(lexicons, strings, *, together=False, ambiguous="context"):
    """All counterparts, a list for each text."""
    texts = Texts.of(strings)
    swaps = Swaps(load_all(lexicons), texts.vocabulary, ambiguous)
    made = swaps.counterparts(texts, swaps.find(texts), together=together)
    strings = np.array(made.texts.strings(), dtype=object)
    return [strings[made.source == row].tolist() for row in range(len(texts))]


def cases(name):
    """Every spelling of every term, with its sentence and those that must come of it."""
    lexicon = load(name)
    for i, j, spelling in lexicon.spellings():
        others = [row[j][0] for n, row in enumerate(lexicon.cells) if n != i and row[j]]
        form = lexicon.forms[j]
        if others:
            yield spelling, sentence(form, spelling), [sentence(form, other) for other in others]


@pytest.mark.parametrize("name", NAMES)
def test_lexicons_keep_their_terms_together(name):
    texts = Texts.of([sentence(load(name).forms[j], spelling) for _, j, spelling in load(name).spellings()])
    alone = set(Swaps([load(name)], texts.vocabulary).find(texts).text.tolist())
    for other in set(NAMES) - {name}:
        for both in ([name, other], [other, name]):
            found = set(Swaps(load_all(both), texts.vocabulary).find(texts).text.tolist())
            assert not (lost := alone - found), (both, texts[np.array(sorted(lost))].strings())


def test_excepted_phrases_apply_to_one_lexicon():
    place = {"place": ["York", "Hull"]}
    food = {"food": ["York ham", "Parma ham"]}
    spared = replace(load(place), phrases=("York ham",))
    assert counterparts([spared], ["A York ham."]) == [[]]
    for both in ([spared, food], [food, spared]):
        assert counterparts(both, ["A York ham."]) == [["A Parma ham."]]
    assert counterparts([spared, {"county": ["York", "Kent"]}], ["A York ham."]) == [["A Kent ham."]]


@pytest.mark.parametrize("name", NAMES)
def test_every_term_swaps_with_every_other_of_its_form(name):
    _, given, expected = zip(*cases(name), strict=True)
    for text, got, want in zip(given, counterparts(name, given), expected, strict=True):
        assert got == want, text


@pytest.mark.parametrize("name", NAMES)
def test_shouted_terms_are_swapped_for_shouted_ones(name):
    shouted = [(text, want) for term, text, want in cases(name) if not term.removeprefix("the ").isupper()]
    got = counterparts(name, [text.upper() for text, _ in shouted])
    assert got == [[text.upper() for text in want] for _, want in shouted]


@pytest.mark.parametrize("name", ["country", "ethnic", "gender", "race", "religion"])
def test_whispered_names_are_swapped_for_whispered_ones(name):
    whispered = [
        (text, want) for term, text, want in cases(name)
        if term != term.lower() and not term.isupper() and term.removeprefix("the ").lower() not in load(name).ambiguous
    ]  # fmt: skip
    got = counterparts(name, [text.lower() for text, _ in whispered])
    assert got == [[text.lower() for text in want] for _, want in whispered]


@pytest.mark.parametrize("name", NAMES)
def test_a_sentence_starts_with_a_capital(name):
    lexicon = load(name)
    starts = [
        (i, j, spelling) for i, j, spelling in lexicon.spellings()
        if lexicon.forms[j].number in ("plural", "mass") and not spelling.isupper()
    ]  # fmt: skip
    got = counterparts(name, [f"{started(spelling)} came. So did we." for _, _, spelling in starts], ambiguous="always")
    assert got == [
        [f"{started(row[j][0])} came. So did we." for n, row in enumerate(lexicon.cells) if n != i and row[j]]
        for i, j, _ in starts
    ]


def started(term):
    return term[0].upper() + term[1:]


@pytest.mark.parametrize(
    ("name", "text", "swapped"),
    [
        ("religion", "A Christian, you know", "An atheist, you know"),
        ("religion", 'an  "Atheist"', 'a  "Jew"'),
        ("religion", "AN ATHEIST!", "A JEW!"),
        ("religion", "A JEW!", "AN ATHEIST!"),
        ("religion", "vitamin a. Jew", "vitamin a. Atheist"),
        ("religion", "the Jew's son", "the Muslim's son"),
        ("religion", "a anti-Jewish, a Atheist", "a anti-Jewish, a Agnostic"),
        ("religion", "the Jewish school", "the Muslim school"),
        ("religion", "a devout Christian", "a devout Jew"),
        ("religion", "they are Christian", "they are Jewish"),
        ("religion", "every Christian believes it", "every Jew believes it"),
        ("religion", "Christian and Sikh people", "Jewish and Sikh people"),
        ("country", "in South Korea,", "in the Netherlands,"),
        ("country", "The Netherlands won", "South Korea won"),
        ("country", "in the NETHERLANDS", "in South Korea"),
        ("country", "the U.S. Army", "the French Army"),
        ("country", "a UK citizen", "an Egyptian citizen"),
        ("country", "A US citizen", "An Israeli citizen"),
        ("country", "It was AN ISRAELI CITIZEN", "It was A CHINESE CITIZEN"),
        ("country", "the Chinese are many", "the French people are many"),
        ("country", "two French tourists", "two Chinese tourists"),
        ("country", "a Chinese", "an Egyptian"),
        ("country", "North-Korean rockets", "South Korean rockets"),
        ("race", "Black people, a black man", "White people, a black man"),
        ("race", "an African-American who", "a white person who"),
        ("gender", "I saw her.", "I saw him."),
        ("gender", "her own car", "his own car"),
        ("gender", "let her go", "let him go"),
        ("gender", "His is hers", "Hers is hers"),
        ("gender", "he'll go, isn't he", "she'll go, isn't he"),
        ("gender", "Mr. Smith", "Ms. Smith"),
        ("gender", "a heir, an uncle", "a heir, an aunt"),
        ("gender", "an uncle", "an aunt"),
        ("gender", "a waiter", "a waitress"),
    ],
)
def test_swaps_that_a_person_wrote_down(name, text, swapped):
    assert swapped in counterparts(name, [text], ambiguous="always")[0]


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("race", "a black box and white noise, black and white photos", 0),
        ("race", "black and white men; he is black; my wife was white", 4),
        ("race", "The White House and the whites", 1),
        ("country", "Turkey sandwiches with Jordan and Chad", 0),
        ("country", "from Turkey to Jordan, in the US", 3),
        ("country", "polish it for us; turkey, poles", 0),
        ("country", "Polish Poles", 2),
        ("country", "fine china, a german shepherd in an Indian summer", 0),
        ("country", "Polish the car. Polish it!", 0),
        ("country", "The Philippines are islands. The United States have", 0),
        ("country", "the Philippines is an archipelago; Polish cars, he is Polish", 3),
        ("country", "Turkey's army and Jordan's government", 2),
        ("country", "Turkey's bones and Jordan's mother", 0),
        ("race", "She was white as a sheet; he is white with rage, white trash people; black coffee", 0),
        ("race", "he is white with blue eyes", 1),
        ("country", "New Mexico, Northern Ireland, African American", 0),
        ("country", "Papua New Guinea and Georgia", 0),
        ("country", "She speaks German, written in French", 0),
        ("orientation", "go straight on; a straight line", 0),
        ("orientation", "a straight man is not gay", 2),
        ("age", "ten years old, an old car, the old version", 0),
        ("age", "an old man, she is young", 2),
        ("gender", "he or she, s/he, his/her", 0),
        ("gender", "The king and queen, bride and groom; towels, hers and his.", 0),
        ("gender", "Man, that hurts. Boy! Oh man, oh boy.", 0),
        ("gender", "The man, a boy! Man is wolf to man", 4),
        ("religion", "muslim.com, @Muslim, mail@muslim.org", 0),
        ("religion", "@Muslim", 0),
        ("religion", "A Muslim.Come in. A Muslim. com @ Muslim", 3),
        ("names", "mary, will and maria", 0),
        ("names", "Mary, Will and MARIA", 2),
        ("religion", "christianised, unchristian, e.g. http://x.org/Jews", 0),
        ("ethnic", "South Africans", 0),
    ],
)
def test_words_that_are_not_terms_stay(name, text, count):
    texts = Texts.of([text])
    assert len(Swaps([load(name)], texts.vocabulary).find(texts)) == count


HIM = """
I met her last week | I saw her twice | told her everything | I love her dearly | tell her something | saw her dancing
I saw her naked | have known her personally | I never saw her again | let her go | made her happy | love her very much
I want her dead, he said | we found her asleep | tell her whatever you like | treat her like this | I told her today
they saw her arrested | I spoke to her last night | ask her politely why | I met her next Monday | I knew her better
"""
HIS = """
I met her last boyfriend | in her last week | saw her twin | told her family | I love her deadly wit | tell her son
I saw her wedding | her only son | her most famous book | her early work | saw her naked body | Her last week was bad
her recently deceased father | we found her dead husband | told her elderly mother | saw her two sons
during her next year | her beautiful house | it is her daily bread | I read her reply | near her bed
"""


@pytest.mark.parametrize(("texts", "word"), [(HIM, "him"), (HIS, "his")], ids=["him", "his"])
def test_her_is_him_or_his(texts, word):
    cases = [case.strip() for line in texts.strip().splitlines() for case in line.split("|")]
    got = [made[0] for made in counterparts("gender", [case.lower() for case in cases])]
    wrong = [text for text, case in zip(got, cases, strict=True) if text != case.lower().replace("her", word, 1)]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "word"),
    [("spent his last week", "her"), ("his only son", "her"), ("we saw his dancing", "her"), ("it is his.", "hers")],
)
def test_his_is_her_or_hers(text, word):
    assert counterparts("gender", [text])[0][0] == text.replace("his", word)


def test_ambiguous_terms_have_a_switch():
    texts = Texts.of(["a black box", "a black man", "an Asian box"])
    found = {
        how: Swaps([load("race")], texts.vocabulary, how).find(texts).text.tolist()
        for how in ("always", "context", "never")
    }
    assert found == {"always": [0, 1, 2], "context": [1, 2], "never": [2]}
    with pytest.raises(SpaceError, match="ambiguous must be one of 'context', 'always', 'never', got 'often'"):
        Swaps([load("race")], texts.vocabulary, "often")


def test_together_swaps_an_identity_throughout():
    (got,) = counterparts("gender", ["He told his wife that her brother is a man like him."], together=True)
    assert got == [
        "She told her wife that her brother is a woman like her.".replace("brother", "sister"),
        "He told his husband that his brother is a man like him.",
    ]


def test_together_needs_every_form():
    assert counterparts("gender", ["A male nurse lost his keys."], together=True) == [
        ["A female nurse lost her keys.", "A nonbinary nurse lost their keys."]
    ]
    assert len(counterparts("gender", ["A male nurse lost his keys."])[0]) == 5


def test_names_of_one_origin_go_together():
    assert "Lakisha and Jamal met Jamal" in counterparts("names", ["Emily and Greg met Greg"], together=True)[0]


def test_several_lexicons_swap_within_each():
    (got,) = counterparts([{"team": ["reds", "blues"]}, "gender"], ["He likes reds"])
    assert got == ["She likes reds", "He likes blues"]
    (first,) = counterparts([{"a": ["x", "y"]}, {"b": ["x", "z"]}], ["x"])
    assert first == ["y"]


def test_texts_without_a_term_are_listed():
    texts = Texts.of(["", "no term", "a Jew", "😀"])
    swaps = Swaps([load("religion")], texts.vocabulary)
    assert swaps.find(texts).without(texts).tolist() == [0, 1, 3]
    none = Texts.of([], texts.vocabulary)
    for together in (False, True):
        assert len(swaps.counterparts(none, swaps.find(none), together=together).texts) == 0


def test_terms_stay_where_they_were_when_free_words_change():
    texts = Texts.of(["nothing", "a Jew said: an Arab", "the Jews"])
    swaps = Swaps(load_all(["ethnic"]), texts.vocabulary)
    found = swaps.find(texts)
    covered = texts.vocabulary.words[texts.words[found.covered(texts)]].tolist()
    assert covered == ["a", "Jew", "an", "Arab", "Jews"]
    rows = np.array([2, 1, 0, 1])
    changed = texts[rows].put(np.array([0]), texts.vocabulary.ids(["those"]))
    again = found.of(rows)
    assert again.text.tolist() == [0, 1, 1, 3, 3]
    made = swaps.counterparts(changed, again)
    assert made.texts[made.source == 0].strings()[0] == "those Africans"
    assert (made.texts.vocabulary.words[made.texts.words[made.origin >= 0]] != "Jews").all()


@given(
    st.lists(
        st.sampled_from(["a", "an", "Jew", "JEWS", "muslim", "the", "school", "is", ",", ".", "é", "Who"]), max_size=12
    )
)
def test_counterparts_undo_to_the_text(words):
    text = " ".join(words)
    texts = Texts.of([text])
    swaps = Swaps([load("religion")], texts.vocabulary)
    found = swaps.find(texts)
    made = swaps.counterparts(texts, found)
    assert len(made.texts) == 24 * len(found)
    kept = made.origin >= 0
    rows = made.texts.rows[kept]
    # What is not the new term is the old text but for articles.
    old = texts.vocabulary.words[texts.words[made.origin[kept]]]
    new = made.texts.vocabulary.words[made.texts.words[kept]]
    differ = old != new
    assert {(a.lower(), b.lower()) for a, b in zip(old[differ], new[differ], strict=True)} <= {("a", "an"), ("an", "a")}
    assert (np.bincount(rows[differ], minlength=len(made.texts)) <= 1).all()


def test_long_texts():
    text = "word, " * 15_000 + " a Jew" + " \n" * 5_000 + "."
    texts = Texts.of([text])
    swaps = Swaps([load("religion")], texts.vocabulary)
    made = swaps.counterparts(texts, swaps.find(texts)).texts.strings()
    assert made[-1] == text.replace("a Jew", "a pagan")
