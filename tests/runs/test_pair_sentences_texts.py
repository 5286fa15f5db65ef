from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenhand.runs.pair_sentences import LONGEST, Piece, marked, shortened, swaps
from evenhand.spaces.text.lexicon import load

WORDS = st.lists(
    st.sampled_from(["a", "the", "kind", "Sikh", "Jew", "Native American", "אדם", "x-y", "12"]), min_size=1
)


def joined(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def kinds(pieces: list[Piece]) -> list[tuple[str, str]]:
    return [(piece.text, piece.kind) for piece in pieces if piece.kind != "same"]


@given(WORDS, WORDS)
def test_diff_pieces_join_to_the_texts(left: list[str], right: list[str]) -> None:
    text, other = " ".join(left), " ".join(right)
    ours, theirs = marked(text, other)
    assert (joined(ours), joined(theirs)) == (text, other)
    assert [p.text for p in ours if p.kind == "same"] == [p.text for p in theirs if p.kind == "same"] or text != other
    if text == other:
        assert {p.kind for p in ours} == {"same"}


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_characters(text: str, other: str) -> None:
    ours, theirs = marked(text, other, [(0, "old", "new"), (10**6, "old", "new")])
    assert (joined(ours), joined(theirs)) == (text, other)


def test_an_article_and_its_noun_are_one_swap() -> None:
    ours, theirs = marked("He is a Sikh, a kind one.", "He is an atheist, a kind one.", [(5, "nice", "kind")])
    assert kinds(ours) == [("a Sikh", "swapped"), ("kind", "changed")]
    assert kinds(theirs) == [("an atheist", "swapped"), ("kind", "changed")]
    assert next(p.was for p in theirs if p.kind == "changed") == "nice"


def test_changed_words_are_found_behind_longer_swaps() -> None:
    text, other = "Two black men and a dog sat down.", "Two Native American men and a cat sat down."
    other = other.replace("cat", "dog")
    ours, theirs = marked(text, other, [(5, "cat", "dog"), (7, "up", "down")])
    assert kinds(ours) == [("black", "swapped"), ("dog", "changed"), ("down", "changed")]
    assert kinds(theirs) == [("Native American", "swapped"), ("dog", "changed"), ("down", "changed")]


def test_all_occurrences_are_marked() -> None:
    ours, theirs = marked("Sikhs and other Sikhs, said a Sikh.", "Jews and other Jews, said a Jew.")
    assert [text for text, _ in kinds(ours)] == ["Sikhs", "Sikhs", "Sikh"]
    assert [text for text, _ in kinds(theirs)] == ["Jews", "Jews", "Jew"]


def test_long_texts_are_cut_around_marks() -> None:
    text = "word " * 20_000 + "a Sikh spoke " + "word " * 20_000
    short = shortened(marked(text, text.replace("Sikh", "Jain"))[0])
    assert len(joined(short)) < LONGEST
    assert "a Sikh spoke" in joined(short)
    assert [p.kind for p in short] == ["cut", "same", "swapped", "same", "cut"]
    endless = [Piece("x" * 10_000, "changed", "y" * 10_000), Piece(" ", "same")] * 500
    assert len(joined(shortened(endless))) < 10_000
    few = [Piece("short", "same")]
    assert shortened(few) == few


def test_swaps_name_identities_whole() -> None:
    lexicons = [load("race"), load("religion")]
    texts = ["The Native American man", "Two Asians.", "Some Jews spoke", "reds"]
    others = ["The Asian man", "Two black people.", "Some agnostics spoke", "blues"]
    named = swaps(texts, others, lexicons)
    assert named[0] == ("Native American", "Asian")
    assert named[2:] == [("Jewish", "agnostic"), ("reds", "blues")]
