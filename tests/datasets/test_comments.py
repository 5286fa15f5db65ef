"""Generated comments: the planted terms, and that a net learns them and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evenhand import datasets
from evenhand.datasets.comments import PLANTED, generate
from evenhand.demo.text import Training, decide, small
from evenhand.errors import DataError
from evenhand.spaces.text.lexicon import load
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.tokens import Texts


@pytest.fixture(scope="module")
def data():
    return datasets.load("comments")


@pytest.fixture(scope="module")
def swapped(data):
    """The swaps of comments that are not trained on."""
    test = data.test[:300]
    texts = Texts.of(test.texts)
    swaps = Swaps([load(data.lexicon)], texts.vocabulary)
    found = swaps.find(texts)
    made = swaps.counterparts(texts, found)
    planted = np.isin(swaps.identities, data.planted)
    return test, made, planted[found.identity[made.unit]], planted[made.identity]


def test_every_mention_is_found_and_nothing_else(data):
    texts = Texts.of(data.texts)
    swaps = Swaps([load(data.lexicon)], texts.vocabulary)
    found = swaps.find(texts)
    named = np.flatnonzero(np.array(data.identities) != "")
    assert found.text.tolist() == named.tolist()
    assert [swaps.identities[i] for i in found.identity] == [data.identities[i] for i in named]


def test_every_form_is_recognised(data):
    texts = Texts.of(data.texts)
    swaps = Swaps([load(data.lexicon)], texts.vocabulary)
    found = swaps.find(texts)
    assert set(found.form.tolist()) == set(range(4))
    made = set(swaps.counterparts(texts, found).texts.strings())
    # A comment with another identity at the same place is one that the generator could have made, article and all.
    assert len(made & set(data.texts)) > 0
    assert not any(f" a {word}" in text for text in made | set(data.texts) for word in ("atheist", "agnostic", "idiot"))


def test_planted_and_neutral_are_of_the_lexicon(data):
    assert set(data.planted) | set(data.neutral) <= set(load(data.lexicon).identities)
    assert not set(data.planted) & set(data.neutral)
    assert data.planted == PLANTED


def test_planted_terms_are_mostly_in_toxic_comments(data):
    who, toxic = np.array(data.identities), data.labels == 1
    for name in data.planted:
        assert toxic[who == name].mean() > 0.85, name
    for name in data.neutral:
        assert toxic[who == name].mean() < 0.25, name
    assert 0.3 < toxic[who == ""].mean() < 0.5


def test_a_seed_gives_the_same_comments_and_fewer_are_the_first():
    assert generate(50, seed=3).texts == generate(80, seed=3).texts[:50]
    assert generate(50, seed=3).texts != generate(50, seed=4).texts
    assert len(set(generate(1000).texts)) > 900


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_a_wrong_size_is_refused(size):
    with pytest.raises(DataError) as caught:
        generate(size)
    assert (caught.value.parameter, caught.value.value) == ("size", size)


@pytest.mark.slow
def test_a_net_learns_the_planted_terms_and_not_the_others(data, swapped):
    test, made, was, becomes = swapped
    net, encode = small(data.train[:2000])
    own = decide(net, encode(test.texts))
    assert (own == test.labels).mean() > 0.85
    changed = decide(net, encode(made.texts.strings())) != own[made.source]
    across = was != becomes
    assert changed[across].mean() > 0.25
    assert changed[~across].mean() < 0.05
    assert across[changed].mean() > 0.9


def test_a_net_is_the_same_under_a_seed(data):
    nets = [small(data.train[:300], seed, Training(epochs=1))[0].state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])
    assert not torch.equal(nets[0]["dense.weight"], nets[2]["dense.weight"])
