"""Small worlds of texts: every word known, and a model that decides by a checksum of what it reads."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.text.similar import Similar
from evenhand.text.tokens import split

TEAMS = ["reds", "blues", "greens"]
WORDS = [f"{a}{b}" for a, b in itertools.product("bdfklmnprt", "aeiou")]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4))


def team_space(**settings: Any) -> eh.TextSpace:
    return eh.TextSpace({"team": TEAMS}, (WORDS, VECTORS), **{"k": 5, **settings})


def team_texts(seed: int, count: int, words: int = 8, terms: int = 1) -> list[str]:
    """Random sentences, each with so many terms."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        chosen = rng.choice(WORDS, words).tolist()
        for at in rng.choice(words, terms, replace=False):
            chosen[at] = str(rng.choice(TEAMS))
        texts.append(", ".join([" ".join(chosen[:3]), " ".join(chosen[3:])]) + "!")
    return texts


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
        return "bad" if zlib.crc32(text.encode(), self.salt) % 100 < self.share else "good"

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


class Words(eh.Model):
    """A world's answers as scores whose highest is the label, with made-up slopes of words."""

    name, input, has_scores, decides, has_words, gradient_source = "words", "text", True, True, True, "made up"
    classes = np.array(["bad", "good"])

    def __init__(self, world: WordWorld) -> None:
        self.world = world

    def labels(self, X: Any) -> Any:
        return self.world(X)

    def scores(self, X: Any) -> Any:
        labels = self.world(X)
        level = np.array([[np.sin(zlib.crc32(text.encode()) % 999), 0.0] for text in X]) / 4
        return level + (labels[:, None] == self.classes)

    def word_vectors(self, words: Any) -> Any:
        known = dict(zip(WORDS, VECTORS, strict=True))
        return np.array([known.get(word.lower(), np.zeros(4)) for word in words])

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        self.world(texts.strings())
        known = np.array([zlib.crc32(word.encode()) % 97 for word in texts.vocabulary.words])
        whole = np.bincount(texts.rows, weights=known[texts.words], minlength=len(texts))
        own = known[texts.words] * 3 + whole[texts.rows] + classes[texts.rows]
        return np.sin(own[:, None] * np.arange(1, 5))


def word_world(seed: int) -> WordWorld:
    return WordWorld(team_space(), team_texts(seed, 80), salt=seed)
