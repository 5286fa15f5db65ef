"""Small worlds of texts: every word known, and a model that decides by a checksum of what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import testing as made
from evenhand.spaces.text.similar import Similar
from evenhand.spaces.text.tokens import split
from evenhand.testing import TEAMS, VECTORS, WORDS, team_space, team_texts, text_label

__all__ = ["TEAMS", "VECTORS", "WORDS", "team_space", "team_texts"]


@dataclass
class TextWorld:
    """What a world of attributes has (``tests.worlds``), for texts."""

    space: eh.TextSpace
    data: list[str]
    salt: int = 0
    share: int = 10
    dies: int | None = None
    calls: int = 0
    rows: int = 0
    combinations: int = len(TEAMS)

    def __call__(self, texts: list[str]) -> Any:
        if self.dies is not None and self.calls >= self.dies:
            raise KeyboardInterrupt
        self.calls += 1
        self.rows += len(texts)
        return np.array([self.label(text) for text in texts])

    def label(self, text: str) -> str:
        return text_label(text, self.salt, self.share)

    @property
    def model(self) -> Any:
        return eh.wrap(self, input="text")


def text_world(seed: int, **settings: Any) -> TextWorld:
    return TextWorld(team_space(**settings), team_texts(seed, 80), salt=seed)


# A plain reading of the definitions, one text at a time.


def family(text: str) -> list[str]:
    """The text, then every text with one occurrence of a term replaced."""
    tokens = split(text)
    out = [text]
    for at, token in enumerate(tokens):
        if token in TEAMS:
            out += ["".join([*tokens[:at], team, *tokens[at + 1 :]]) for team in TEAMS if team != token]
    return out


def key(text: str) -> str:
    """What makes a text a test of its own: one term is left out, several are not."""
    tokens = split(text)
    terms = [token for token in tokens if token in TEAMS]
    return "".join("_" if token in TEAMS else token for token in tokens) if len(terms) == 1 else text


def movable(text: str, similar: Similar) -> list[int]:
    """The words of a text that are no terms and have similar words, by position."""
    return [i for i, word in enumerate(split(text)[1::2]) if word not in TEAMS and similar.of(word)]


def replaced(text: str, position: int, word: str) -> str:
    tokens = split(text)
    tokens[2 * position + 1] = word
    return "".join(tokens)


# A world whose model can be looked into.


class WordWorld(TextWorld):
    """A world whose model also gives scores, and gradients of words."""

    @property
    def model(self) -> Any:
        return Words(self)


class Words(made.Words):
    """A world's answers, which the world counts."""

    def __init__(self, world: WordWorld) -> None:
        super().__init__(world)
        self.world = world


def word_world(seed: int) -> WordWorld:
    return WordWorld(team_space(), team_texts(seed, 80), salt=seed)
