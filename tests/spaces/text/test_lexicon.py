"""Lexicons: built-in ones are sound, users' own are read, and errors are described."""

from __future__ import annotations

from importlib.resources import files

import pytest

from evenhand.errors import ConfigError, EvenhandError, LimitExceeded, SpaceError
from evenhand.spaces.text.lexicon import NAMES, Lexicon, load, load_all, protected_words

SIZES = {"country": 162, "ethnic": 32, "race": 9, "religion": 25}


def test_every_file_has_a_name():
    folder = files("evenhand.spaces.text").joinpath("lexicons")
    assert sorted(path.name for path in folder.iterdir() if path.name.endswith(".toml")) == [f"{n}.toml" for n in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_ours_cite_their_sources(name):
    assert load(name).sources


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes(name, size):
    assert len(load(name).identities) == size


@pytest.mark.parametrize("name", NAMES)
def test_every_term_can_be_swapped(name):
    lexicon = load(name)
    for j, form in enumerate(lexicon.forms):
        assert sum(bool(row[j]) for row in lexicon.cells) > 1, form
        assert form.speech != "noun" or form.number


def test_pairs_are_whole():
    gender = load("gender")
    assert all(row for line in gender.cells[:2] for row in line)


def test_protected_words_are_of_all_lexicons_and_more():
    team = load({"team": ["reds", "Blue Jays"]})
    ours = {
        "muslim",
        "elderly",
        "she",
        "lakisha",
        "bisexual",
        "the netherlands",
        "south korea",
        "south-korea",
        "latino",
    }
    assert ours <= protected_words()
    assert protected_words((team,)) - protected_words() == {"reds", "blue jays", "blue-jays"}


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "party.toml"
    path.write_text(
        """
        forms = [{ name = "member", number = "singular" }, { name = "members", number = "plural" }]
        terms = [["Tory", ["Tories", "Conservatives"]], ["Whig", "Whigs"], ["", "Levellers"]]
        ambiguous = ["Tory"]
        except = ["Tory Island"]
        """
    )
    for given in (path, str(path)):
        party = load(given)
        assert party.name == "party"
        assert party.terms("members") == ["Tories", "Whigs", "Levellers"]
        assert party.identities == ("Tory", "Whig", "Levellers")
        assert party.ambiguous == {"tory"}
    assert load_all([party, "race"])[0] is party


def test_a_dict_of_several():
    assert [lexicon.name for lexicon in load_all({"team": ["reds", "blues"], "pet": ["cat", "dog"]})] == ["team", "pet"]
    both = {
        "pair": {"identities": ["m", "f"], "forms": [{"speech": "pronoun", "terms": [["he", "she"], ["him", "her"]]}]}
    }
    assert [form.name for form in load(both).forms] == ["he/she", "him/her"]


WRONG = [
    ("religon", "protected must name a lexicon, got 'religon'; did you mean 'religion'?"),
    (3, "protected must name a lexicon, got 3; there are 'age', "),
    ({}, "must have one name and its terms"),
    ({"team": []}, "'terms' must be a list that is not empty, got \\[\\]"),
    ({"team": "reds"}, "'terms' must be a list that is not empty, got 'reds'"),
    ({"team": ["reds"]}, "no form has two terms, so nothing can be swapped; add terms"),
    ({"team": ["reds", 3]}, "a line of terms must be a list of at most 1 \\(forms\\), got 3"),
    ({"team": ["reds", ""]}, "the line \\[''\\] has no term; remove it"),
    ({"team": ["reds", "!"]}, "a term must be a text that begins and ends with a word, got '!'"),
    ({"team": ["reds", " blues"]}, "a term must be a text that begins and ends with a word, got ' blues'"),
    ({"team": ["reds", "Reds"]}, "'Reds' is a term of both 'reds' and 'Reds'; give a form of a term one identity"),
    ({"team": ["reds", ["blues", "greens"]]}, "a line of terms must be a list of at most 1"),
    ({"team": {"term": ["reds"]}}, "unknown key 'term'; did you mean 'terms'?"),
    (
        {"team": {"terms": ["reds", "blues"], "ambiguous": ["greens"]}},
        "'ambiguous' names 'greens', which is not a term",
    ),
    ({"team": {"terms": ["reds", "blues"], "except": "reds"}}, "'except' must be a list of texts, got 'reds'"),
    ({"team": {"terms": ["reds", "blues"], "except": ["!"]}}, "a phrase of 'except' must have a word, got '!'"),
    ({"team": {"terms": ["reds", "blues"], "capital": "yes"}}, "'capital' must be true or false, got 'yes'"),
    ({"team": {"terms": ["reds", "blues"], "forms": [3]}}, "form 1 must be a table of name, speech and number, got 3"),
    ({"team": {"terms": ["reds", "blues"], "forms": [{}]}}, "the key 'name' is missing in form 1"),
    (
        {"team": {"terms": ["reds", "blues"], "forms": [{"name": "x", "speech": "verb"}]}},
        "'speech' of form 1 must be one of noun, adjective, pronoun, object, determiner, name, got 'verb'",
    ),
    (
        {"team": {"terms": [["a", "b"]], "forms": [{"name": "x"}, {"name": "x"}]}},
        "names of forms must differ, got \\['x', 'x'\\]",
    ),
    ({"team": ["New York", "new-york"]}, "'new-york' is a term of both 'New York' and 'new-york'"),
    ({"team": {"identities": ["m", "m"], "forms": [{"terms": [["he", "she"]]}]}}, "names of identities must differ"),
    ({"team": {"identities": ["a"], "terms": ["a"]}}, "terms belong below \\[\\[forms\\]\\]"),
    ({"team": {"identities": ["a", "b"], "forms": [{"terms": [["x", "y", "z"]]}]}}, "at most 2 \\(identities\\)"),
    ({"team": {"identities": ["a", "b"], "forms": 3}}, "'forms' must be a list that is not empty, got 3"),
    ({"team": {"identities": ["a", "b"], "forms": [3]}}, "'terms' must be a list that is not empty, got None"),
    ({"team": {"identities": "ab", "forms": [3]}}, "'identities' must be a list of texts, got 'ab'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_ids_are_refused(given, message):
    with pytest.raises(SpaceError, match=message) as caught:
        load(given)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize("given", [None, [], 3, ["race", "race"], [None], b"race"])
def test_several_that_are_wrong(given):
    with pytest.raises(SpaceError, match="lexicon"):
        load_all(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file; check the path"),
        (b"\xff", "it is not UTF-8 text"),
        (b"terms = [", "it is not valid TOML"),
        (b"terms = 3", "'terms' must be a list"),
    ],
)
def test_files_that_are_wrong(tmp_path, content, message):
    path = tmp_path / "team.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EvenhandError, match=f"team.toml: {message}"):
        load(path)


def test_folders_are_refused(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError, match="folder.toml: it is a directory"):
        load(tmp_path / "folder.toml")


def test_unknown_forms_are_refused():
    with pytest.raises(SpaceError, match="the lexicon 'race' has no form 'persons'; did you mean 'person'?"):
        load("race").terms("persons")
    assert isinstance(load("race"), Lexicon)


@pytest.mark.parametrize("name", NAMES)
def test_a_lexicon_by_spelling_recognises_the_same_terms_in_the_same_forms(name):
    lexicon = load(name)
    spelled = lexicon.by_spelling()
    assert {(form, term) for _, form, term in spelled.spellings()} == {
        (form, term) for _, form, term in lexicon.spellings()
    }
    assert all(len(cell) <= 1 for row in spelled.cells for cell in row)
    assert len(set(spelled.identities)) == len(spelled.identities)
    for j in range(len(lexicon.forms)):
        terms = [term for row in lexicon.cells for term in row[j]]
        assert [term for row in spelled.cells for term in row[j]] == terms


def test_a_lexicon_over_the_limit_is_refused_early(monkeypatch):
    monkeypatch.setenv("EVENHAND_LIMIT_LEXICON_CELLS", "5")
    by_identity = {"forms": [{"name": "a"}, {"name": "b"}], "terms": [["r"], ["s"], ["t"]]}
    by_form = {"identities": ["x", "y", "z"], "forms": [{"terms": [["r"], ["s"]]}]}
    for content in (by_identity, by_form):
        with pytest.raises(LimitExceeded, match="lexicon_cells of .*got 6"):
            load({"team": content})
    assert load({"team": by_identity | {"terms": [["r"], ["s"]]}}).terms("a") == ["r", "s"]
