"""Small worlds that are made from seeds: spaces, and models whose every answer is known."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.runs.audit import needs_of
from evenhand.spaces.attributes import Integer, Nominal
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace


@dataclass(frozen=True)
class World:
    """Something to search: a model that answers the same row the same way each time, a space, and perhaps data."""

    model: Any
    space: Any
    data: Any = None


def worlds_for(strategy: Any) -> list[World]:
    """Make worlds that a search can search, from seeds.

    >>> from evenhand.strategies import TextRandom, Themis
    >>> len(worlds_for(Themis())), worlds_for(TextRandom())[0].space.noun
    (2, 'text')
    """
    needs = needs_of(strategy)
    if needs == "attributes":
        plain, decisions = random_table(30, 30_000)
        space, others = random_table(34, 30_000)
        first, second = space.names[:2]
        tight = Space(space.attributes, space.protected, [f"{first} != 0 or {second} == 0"])
        return [World(Lookup(plain, decisions), plain), World(Lookup(tight, others), tight)]
    if needs == "texts":
        words = bool(getattr(strategy, "uses_gradient", False))
        return [World(text_model(n, words), team_space(), team_texts(n, 80, terms=n)) for n in (1, 2)]
    name = type(strategy).__name__
    raise AssertionError(f"{name} needs {needs}: give worlds to search, worlds=[World(model, space, data)]")


def hold(held: Any, otherwise: str) -> None:
    """Raise an ``AssertionError`` unless something holds."""
    if not held:
        raise AssertionError(otherwise)


def take(rows: Any, at: npt.NDArray[np.int64]) -> Any:
    """Return some rows of a frame, an array or a list."""
    if isinstance(rows, list):
        return [rows[i] for i in at.tolist()]
    return rows.iloc[at].reset_index(drop=True) if hasattr(rows, "iloc") else rows[at]


def listed(rows: Any) -> list[Any]:
    """Make rows comparable."""
    return list(rows) if isinstance(rows, list) else [tuple(row) for row in np.asarray(rows).tolist()]


def random_table(
    seed: int, most: int, *, patchy: bool = True, nominal: bool = True
) -> tuple[Space, npt.NDArray[np.int64]]:
    """Make a random space of up to ``most`` individuals, and decisions by id, smooth enough for local searches.

    >>> space, decisions = random_table(0, 1000)
    >>> len(decisions) == space.coding.total <= 1000
    True
    """
    rng = np.random.default_rng(seed)
    attributes: list[Integer | Nominal] = []
    total = 1
    while total < most and len(attributes) < 7:
        size = int(rng.integers(2, 9))
        if total * size > most:
            break
        total *= size
        attributes.append(whole(f"a{len(attributes)}", size, nominal and rng.random() < 0.4))
    names = [a.name for a in attributes]
    protected = list(rng.choice(names, size=int(rng.integers(1, min(3, len(names)))), replace=False))
    space = Space(attributes, protected=[str(p) for p in protected])
    rows = space.coding.rows(np.arange(space.coding.total))
    weights = rng.normal(size=rows.shape[1])
    score = np.sin(rows @ weights) if patchy else rows @ weights - np.median(rows @ weights)
    return space, (score > rng.normal() * 0.5).astype(np.int64)


def whole(name: str, size: int, nominal: bool) -> Integer | Nominal:
    """Make an attribute whose values equal its codes, so that a lookup needs no translation."""
    return Nominal(name, range(size)) if nominal else Integer(name, 0, size - 1)


class Lookup(Model):
    """Decisions from a table, as labels or as scores whose highest is the label."""

    name, input, has_scores, decides = "lookup", "array", True, True

    def __init__(self, space: Space, table: npt.NDArray[np.int64]) -> None:
        self.space, self.table = space, table
        self.count = max(2, int(table.max()) + 1)
        self.classes = np.arange(self.count)

    def labels(self, X: Any) -> Any:
        """Look up decisions."""
        return self.table[self.space.coding.ids(X.astype(np.int32))]

    def scores(self, X: Any) -> Any:
        """Score so that there is something to differentiate between decisions."""
        labels = self.labels(X)
        level = np.sin(X @ np.arange(1, X.shape[1] + 1)[:, None] + np.arange(self.count)) / 4
        return level + (labels[:, None] == np.arange(self.count))


TEAMS = ["reds", "blues", "greens"]
WORDS = [f"{a}{b}" for a, b in itertools.product("bdfklmnprt", "aeiou")]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4))


def team_space(**settings: Any) -> TextSpace:
    """Make a space of texts about three teams."""
    return TextSpace({"team": TEAMS}, (WORDS, VECTORS), **{"k": 5, **settings})


def team_texts(seed: int, count: int, words: int = 8, terms: int = 1) -> list[str]:
    """Make random sentences, each with so many terms."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        chosen = rng.choice(WORDS, words).tolist()
        for at in rng.choice(words, terms, replace=False):
            chosen[at] = str(rng.choice(TEAMS))
        texts.append(", ".join([" ".join(chosen[:3]), " ".join(chosen[3:])]) + "!")
    return texts


def text_label(text: str, salt: int, share: int = 10) -> str:
    """Decide about a text by its checksum; so many of a hundred are bad."""
    return "bad" if zlib.crc32(text.encode(), salt) % 100 < share else "good"


def text_model(salt: int, words: bool = False) -> Model:
    """Make a model that decides by checksums; with ``words`` it also gives scores, and gradients of words."""

    def decide(texts: Sequence[str]) -> Any:
        return np.array([text_label(text, salt) for text in texts])

    return Words(decide) if words else wrap(decide, input="text", name="checksum")


class Words(Model):
    """Decisions about texts as scores whose highest is the label, with made-up slopes of words."""

    name, input, has_scores, decides, has_words, gradient_source = "words", "text", True, True, True, "made up"
    classes = np.array(["bad", "good"])

    def __init__(self, decide: Callable[[list[str]], Any]) -> None:
        self.decisions = decide

    def labels(self, X: Any) -> Any:
        """Decide."""
        return self.decisions(X)

    def scores(self, X: Any) -> Any:
        """Score so that the highest is the label."""
        labels = self.decisions(X)
        level = np.array([[np.sin(zlib.crc32(text.encode()) % 999), 0.0] for text in X]) / 4
        return level + (labels[:, None] == self.classes)

    def word_vectors(self, words: Any) -> Any:
        """Look vectors up."""
        vectors = dict(zip(WORDS, VECTORS, strict=True))
        return np.array([vectors.get(word.lower(), np.zeros(4)) for word in words])

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Make slopes up, the same for the same text and class."""
        self.decisions(texts.strings())
        marks = np.array([zlib.crc32(word.encode()) % 97 for word in texts.vocabulary.words])
        sums = np.bincount(texts.rows, weights=marks[texts.words], minlength=len(texts))
        own = marks[texts.words] * 3 + sums[texts.rows] + classes[texts.rows]
        return np.sin(own[:, None] * np.arange(1, 5))
