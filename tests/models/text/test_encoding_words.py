"""The vocabulary of a network: given or found, verified by encoding each word, and used for similar words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import ModelError
from evenhand.models.text.encoding import Encoder, single_ids, words_of
from tests.helpers import optional

torch = optional("torch")

WORDS = ["good", "fine", "bad", "poor", "loud", "kind", "odd", "calm"]
TEXT = "The reds are good."
TEAMS = {"team": ["reds", "blues"]}


class Words:
    """Encodes word by word; numbers follow the order of the words from ``first`` on, after padding (0), unknown (1)."""

    def __init__(self, first: int = 2, fixed: int = 0, cls: bool = False) -> None:
        self.table = {word: first + n for n, word in enumerate(WORDS)}
        self.fixed, self.cls, self.calls = fixed, cls, 0

    def __call__(self, texts):
        self.calls += 1
        rows = [[self.table.get(word.strip(".,").lower(), 1) for word in text.split()] for text in texts]
        rows = [[99, *row, 98] if self.cls else row or [0] for row in rows]
        width = self.fixed or max(map(len, rows))
        return [row[:width] + [0] * (width - len(row)) for row in rows]


def net(rows: int = 100):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(rows, 4), Mean(), torch.nn.Linear(4, 2))


class Mean(torch.nn.Module):
    def forward(self, vectors):
        return vectors.mean(dim=1)


@pytest.mark.parametrize(
    "encode", [Words(), Words(5), Words(fixed=6), Words(cls=True)], ids=["plain", "shifted", "padded", "framed"]
)
def test_word_ids_are_found_among_special_tokens(encode):
    ids = single_ids(Encoder(encode), [*WORDS, "unheard", "good bad", ""])
    assert ids.tolist() == [*(encode.table[word] for word in WORDS), -1, -1, -1]


def test_single_text_encoders_get_single_texts():
    def encode(texts):
        (text,) = texts
        return Words()([text])

    assert single_ids(Encoder(encode), WORDS).tolist() == list(range(2, 10))


def test_many_words_are_encoded_in_few_calls():
    encode = Words()
    many = [f"w{n}" for n in range(20_000)]
    encode.table = {word: n + 2 for n, word in enumerate(many)}
    assert single_ids(Encoder(encode), many).tolist() == list(range(2, 20_002))
    assert encode.calls < 30


@pytest.mark.parametrize("name", ["words", "vocab", "vocabulary", "word_index", "get_vocab", "get_vocabulary"])
def test_words_come_from_the_encoder_or_its_object(name):
    encode = Words()
    setattr(encode, name, encode.table if not name.startswith("get_") else lambda: encode.table)
    for thing in (encode, encode.__call__):
        words, numbers = words_of(thing)
        assert dict(zip(words, numbers.tolist(), strict=True)) == encode.table
    assert eh.wrap(net(), encode=encode).words == WORDS
    assert words_of(Words()) is None
    assert eh.wrap(net(), encode=Words()).words is None


@given(st.integers(2, 20), st.lists(st.sampled_from([None, "unheard", "Good"]), max_size=3))
def test_a_shift_of_all_ids_is_found_and_words_with_another_id_are_left_out(first, more):
    model = eh.wrap(net(), encode=Words(first), words=[*WORDS, *more])
    assert model.words == WORDS
    rows = model._embedding.weight.detach().numpy()
    assert np.allclose(model.word_vectors(model.words), rows[first : first + len(WORDS)])
    assert np.allclose(model.word_vectors(["bad"]), rows[[first + 2]])


def test_an_attribute_with_other_contents_is_not_a_vocabulary():
    encode = Words()
    encode.words = [*WORDS[::-1], *(f"other{n}" for n in range(8))]
    assert eh.wrap(net(), encode=encode).words is None


def test_an_unknown_word_is_left_out_even_if_it_has_a_row():
    model = eh.wrap(net(), encode=Words(), words=["pad", "unk", *WORDS])
    assert model.words == WORDS


def test_words_beyond_the_embedding_are_left_out():
    assert eh.wrap(net(6), encode=Words(), words=[None, None, *WORDS]).words == WORDS[:4]


@pytest.mark.parametrize("words", ["good", 3, [], [None, 1], {}])
def test_wrong_words_are_refused(words):
    with pytest.raises(ModelError, match="words must be the words of the rows"):
        eh.wrap(net(), encode=Words(), words=words)


def test_words_of_another_net_are_refused():
    with pytest.raises(ModelError, match="words must be.*encode gives 0 of 2 words"):
        eh.wrap(net(), encode=Words(), words=["apple", "pear"]).words  # noqa: B018
    with pytest.raises(ModelError, match="encode must be a function"):
        eh.wrap(net(), words=WORDS)
    with pytest.raises(ModelError, match="for torch modules"):
        eh.wrap(len, words=WORDS)


def test_similar_words_come_from_the_whole_vocabulary():
    model, space = eh.wrap(net(), encode=Words(), words=[None, None, *WORDS]), eh.TextSpace.paper(TEAMS, k=3)
    few, many = (space.begin(texts, model.word_vectors, model.words) for texts in ([TEXT], [TEXT, "Poor, odd blues."]))
    assert few.similar.of("good") == many.similar.of("good")
    assert len(few.similar.of("good")) == 3
    run = eh.audit(model, space, "text-adf", data=[TEXT], seed=1)
    assert run.tests > 1
    assert "words_of_the_texts_among_which_similar_ones_are" not in run.counts


def test_a_run_notes_that_words_are_unknown():
    run = eh.audit(eh.wrap(net(), encode=Words()), eh.TextSpace(TEAMS), "text-random", data=[TEXT, "Bad, loud reds."])
    assert run.counts["words_of_the_texts_among_which_similar_ones_are"] == 3
    assert "only among words of the texts (give words= or similar=): 3" in repr(run)
    given = eh.audit(
        eh.wrap(net(), encode=Words()), eh.TextSpace(TEAMS, (WORDS, np.eye(8))), "text-random", data=[TEXT]
    )
    assert "words_of_the_texts_among_which_similar_ones_are" not in given.counts
