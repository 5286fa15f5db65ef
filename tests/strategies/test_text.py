"""ADF for texts against a plain implementation of the paper, one text and one word at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import ModelError, StrategyError
from evenhand.spaces.text.tokens import split
from tests.helpers import optional
from tests.strategies.text_reference import TextReference, Watched
from tests.text_worlds import TEAMS, WORDS, movable, replaced, team_space, team_texts

KNOWN = {word: number for number, word in enumerate([*TEAMS, *WORDS], 2)}
WIDTH = 4


def numbers(text: str) -> list[int]:
    return [KNOWN.get(word.lower(), 1) for word in split(text)[1::2]]


def encode(texts: list[str]) -> list[list[int]]:
    rows = [numbers(text) for text in texts]
    return [row + [0] * (max(map(len, rows)) - len(row)) for row in rows]


def network(torch: Any, kind: str, seed: int) -> Any:
    """A tiny LSTM of two layers, or a net on the mean of the words' vectors; both in double precision."""

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(len(KNOWN) + 2, WIDTH, padding_idx=0)
            self.lstm = torch.nn.LSTM(WIDTH, 5, 2, batch_first=True)
            self.hidden = torch.nn.Linear(WIDTH, 5)
            self.last = torch.nn.Linear(5, 2)

        def forward(self, ids: Any) -> Any:
            vectors, there = self.embedding(ids), ids != 0
            if kind == "bag":
                pooled = (vectors * there[:, :, None]).sum(1) / there.sum(1)[:, None]
                return self.last(torch.tanh(self.hidden(pooled)))
            states, _ = self.lstm(vectors)
            return self.last(states[torch.arange(len(ids)), there.sum(1) - 1])

    torch.manual_seed(seed)
    net = Net().double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.5)
        # As many texts on this side of the boundary as on that.
        said = torch.cat([net(torch.tensor([numbers(text)])) for text in team_texts(seed, 30)])
        net.last.bias -= said.mean(0)
    return net


@dataclass
class Reference(TextReference):
    """The paper's Algorithms 5 (ASC), 6 (HF) and 7 (local)."""

    net: Any = None
    torch: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.matrix = self.net.embedding.weight.detach().numpy()
        self.known: dict[str, Any] = {}

    def vector(self, word: str) -> Any:
        return self.matrix[numbers(word)[0]]

    def scores(self, text: str) -> Any:
        if text not in self.known:
            with self.torch.no_grad():
                self.known[text] = self.torch.softmax(self.net(self.torch.tensor([numbers(text)])), dim=1)[0].numpy()
        return self.known[text]

    def slope(self, text: str, y: int) -> list[Any]:
        """The gradient of the loss of a class by the vector of each word."""
        ids = self.torch.tensor([numbers(text)])
        vectors = self.net.embedding(ids).detach().requires_grad_()
        handle = self.net.embedding.register_forward_hook(lambda *_: vectors)
        loss = self.torch.nn.functional.cross_entropy(self.net(ids), self.torch.tensor([y]))
        handle.remove()
        (slope,) = self.torch.autograd.grad(loss, vectors)
        return list(slope[0].numpy())

    def both(self, text: str) -> tuple[list[Any], list[Any]]:
        _, rival, y = self.look(text)
        own = self.slope(text, y)
        return own, self.slope(rival, y) if self.strategy.pair else [np.zeros(WIDTH)] * len(own)

    def step(self, text: str) -> str:
        own, other = self.both(text)
        places, words = movable(text, self.similar), split(text)[1::2]
        if self.strategy.direction == "asc":
            place = max(places, key=lambda a: np.abs(own[a] - other[a]).max())
            here = self.vector(words[place])
            word = min(
                self.candidates(text, place),
                key=lambda c: np.linalg.norm(np.sign(self.vector(c) - here) - np.sign(own[place])),
            )
            return replaced(text, place, word)
        _, rival, y = self.look(text)
        other_is_nearer = self.strategy.pair and self.scores(rival)[y] < self.scores(text)[y]
        best, most = "", -math.inf
        for place in places:
            for word in self.candidates(text, place):
                change = self.vector(word) - self.vector(words[place])
                gain = own[place] @ change - other[place] @ change
                if self.strategy.direction == "hotflip-unsigned":
                    gain = abs(gain)
                elif other_is_nearer:
                    gain = -gain
                if gain > most:
                    best, most = replaced(text, place, word), gain
        return best

    def matter(self, text: str) -> dict[int, float]:
        own, other = self.both(text)
        return {a: np.abs(own[a]).max() + np.abs(other[a]).max() for a in movable(text, self.similar)}


@pytest.mark.parametrize("kind", ["lstm", "bag"])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    direction=st.sampled_from(["asc", "hotflip", "hotflip-unsigned"]),
    pair=st.sampled_from([True, True, False]),
    phase=st.sampled_from(["both", "global", "local"]),
    terms=st.integers(1, 2),
    chunk=st.sampled_from([16, 4096]),
)
def test_a_net_is_searched_as_the_paper_does(
    kind: str, seed: int, direction: Any, pair: bool, phase: Any, terms: int, chunk: int
) -> None:
    torch = optional("torch")
    net, space, data = network(torch, kind, seed), team_space(), team_texts(seed, 12, terms=terms)
    strategy = eh.TextAdf(direction, pair=pair, seeds=8, max_iter=5, trials=4, phase=phase, rounds=1)
    search = Watched(strategy)
    run = eh.audit(eh.wrap(net, encode=encode, chunk=chunk), space, search, eh.Budget(), seed=seed, data=data)
    assert search.visits == Reference(space, strategy, seed, net=net, torch=torch).visits(data)
    assert run.gradient == "autograd"


def test_both_phases_find_and_rows_are_counted() -> None:
    torch = optional("torch")
    net, data = network(torch, "lstm", 3), team_texts(3, 60)
    model = eh.wrap(net, encode=encode)
    runs = {
        name: eh.audit(model, team_space(), eh.TextAdf(trials=10, rounds=1, **given), data=data)
        for name, given in {
            "raw": {"phase": "global", "max_iter": 1},
            "global": {"phase": "global"},
            "alone": {"phase": "global", "pair": False},
            "hotflip": {"phase": "global", "direction": "hotflip"},
            "unsigned": {"phase": "global", "direction": "hotflip-unsigned"},
            "both": {},
        }.items()
    }
    assert 0 < runs["raw"].found < runs["global"].found < runs["both"].found
    assert runs["raw"].asked["gradient"] == 0

    # Every text but the found ones was moved after each judgement but the last; each move asks two rows.
    def moves(name: str) -> int:
        return int(runs[name].tests + runs[name].counts["repeats"] - 60)

    assert runs["global"].asked["gradient"] == 2 * moves("global")
    assert runs["alone"].asked["gradient"] == moves("alone")
    # Which of the two is nearer to the boundary, two more rows say.
    assert runs["hotflip"].asked["gradient"] == 4 * moves("hotflip")
    assert runs["unsigned"].asked["gradient"] == 2 * moves("unsigned")


def test_a_model_without_gradients_of_words_is_refused_at_once() -> None:
    calls = []

    def scores(texts: list[str]) -> Any:
        calls.append(texts)
        return np.zeros((len(texts), 2))

    with pytest.raises(ModelError, match="no gradients of words.*text-importance.*text-random"):
        eh.audit(eh.wrap(scores, input="text"), team_space(), "text-adf", data=team_texts(0, 5))
    assert not calls


def test_texts_that_cannot_move_are_tested_and_counted() -> None:
    torch = optional("torch")
    model = eh.wrap(network(torch, "bag", 0), encode=encode)
    space = eh.TextSpace.paper({"team": TEAMS}, (["ba", "be"], np.eye(2)), k=1)
    run = eh.audit(
        model, space, eh.TextAdf(max_iter=3, trials=2, rounds=1), data=["reds", "so greens", "reds ba", "ba reds be"]
    )
    assert run.counts["texts_that_cannot_move"] == 2
    assert run.tests > 4


@pytest.mark.parametrize(
    "settings",
    [
        {"direction": "up"},
        {"pair": 1},
        {"seeds": 0},
        {"max_iter": 0},
        {"trials": 1.5},
        {"phase": "neither"},
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(StrategyError) as caught:
        eh.TextAdf(**settings)
    assert caught.value.parameter == next(iter(settings))
