"""The conformance suites describe every kind of violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.search import Problem, Search, judge
from evenhand.testing import World, check_model, check_space, check_strategy, worlds_for
from tests.plugin_helpers import installed

__all__ = ["installed"]


@dataclass(frozen=True)
class Uneven:
    """A search that breaks the rules in one way."""

    how: str

    def search(self, problem: Problem) -> Search:
        rng = np.random.default_rng(0 if self.how == "chunk" else None)
        for number in range(30):
            people = problem.sample(100)
            if self.how == "chance":
                people = people[rng.permutation(len(people))]
            if self.how == "chunk":
                # What it asks depends on how much was answered at once.
                verdicts = yield from judge(people, limit=1 + number % 3 * 20)
                people = people[len(verdicts.positions) :]
            yield from judge(people)


@dataclass
class Melting:
    """A search whose settings may change."""

    samples: int = 50

    def search(self, problem: Problem) -> Search:
        yield from judge(problem.sample(self.samples))


def test_a_search_with_its_own_random_draws_is_caught() -> None:
    with pytest.raises(AssertionError, match="findings"):
        check_strategy(Uneven("chance"), worlds_for(eh.Themis())[:1])


def test_a_search_that_keeps_the_rules_passes() -> None:
    check_strategy(Uneven("none"), worlds_for(eh.Themis())[:1])


def test_a_search_that_is_not_frozen_is_caught() -> None:
    with pytest.raises(AssertionError, match="Melting is not a frozen dataclass"):
        check_strategy(Melting(), worlds_for(eh.Themis())[:1])


def test_a_search_of_another_kind_of_space_needs_worlds(installed: None) -> None:
    from pixelbox import Flips

    with pytest.raises(AssertionError, match=r"needs pixels: .*worlds="):
        check_strategy(Flips())


def test_a_model_that_changes_its_answers_is_caught() -> None:
    space = worlds_for(eh.Themis())[0].space
    calls = iter(range(10**9))

    class Fickle(eh.Model):
        input = "array"

        def labels(self, X: Any) -> Any:
            # Its answers are those of the whole run until the run is made a second time.
            return (X[:, 0] + X[:, 1] + (next(calls) > 40)) % 2 == 0

    with pytest.raises((AssertionError, eh.errors.EvenhandError)):
        check_strategy(eh.Themis(), [World(Fickle(), space)])


X = np.random.default_rng(0).normal(size=(40, 3))


class Base(eh.Model):
    name, input, has_scores, decides = "base", "array", True, True
    classes = np.array([0, 1])

    def scores(self, X: Any) -> Any:
        p = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - p, p])

    def labels(self, X: Any) -> Any:
        return (X[:, 0] > 0).astype(int)


class Batch(Base):
    def labels(self, X: Any) -> Any:
        return (X[:, 0] > X[:, 0].mean()).astype(int)


class Place(Base):
    def labels(self, X: Any) -> Any:
        return np.arange(len(X)) % 2


class Short(Base):
    def labels(self, X: Any) -> Any:
        return super().labels(X)[1:]


class Other(Base):
    def labels(self, X: Any) -> Any:
        return 1 - super().labels(X)


class Classes(Base):
    classes = np.array([0, 1, 2])

    def decide(self, scores: Any) -> Any:
        return scores.argmax(axis=1)


class Scores(Base):
    def scores(self, X: Any) -> Any:
        return super().scores(X) + len(X) / 1000

    def decide(self, scores: Any) -> Any:
        return scores.argmax(axis=1)


def test_a_model_that_answers_well_passes() -> None:
    check_model(Base(), X)
    check_model(lambda frame: frame["a"] > 0, pd.DataFrame(X, columns=["a", "b", "c"]))
    check_model(eh.wrap(lambda X: X[:, 0] * 2, input="array", regression=True), X)
    check_model(lambda texts: [len(text) > 5 for text in texts], ["a" * n for n in range(12)])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Batch, "batch"),
        (Place, "order|position"),
        (Short, "39"),
        (Other, "decides differently from its scores for 40 of 40"),
        (Classes, "3 classes and 2 columns"),
        (Scores, "position|batch size"),
    ],
)
def test_a_model_that_breaks_a_rule_is_caught(model: Callable[[], eh.Model], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_model(model(), X)


def test_at_least_eight_rows_are_needed() -> None:
    with pytest.raises(AssertionError, match="eight rows"):
        check_model(Base(), X[:3])


def broken(how: str) -> Any:
    """A space of images that breaks the protocol in one way."""
    from pixelbox import space as pixels

    class Families(pixels.Fillings):
        def __init__(self, individuals: Any) -> None:
            super().__init__(individuals)
            if how == "own":
                self.own = 1 - self.own

        @property
        def places(self) -> Any:
            return super().places + (how == "places")

    class Found(pixels.PixelFindings):
        def frame(self, at: Any = slice(None)) -> Any:
            frame = super().frame(at)
            return frame.assign(when=[id(self)] * len(frame)) if how == "findings" else frame

    class Images(pixels.Images):
        @property
        def keys(self) -> Any:
            keys = super().keys
            if how == "one key":
                return keys * 0
            if how == "lowest bit":
                return keys + 1j
            return pixels.hashed(self.rows) if how == "two keys" else keys

        def __getitem__(self, which: Any) -> Any:
            return Images(self.space, self.rows[which])

    class Space(pixels.PixelSpace):
        def images(self, rows: Any) -> Any:
            return Images(self, np.ascontiguousarray(rows, dtype=np.uint8))

        def families(self, individuals: Any, seed: int) -> Any:
            return Families(individuals)

        def findings(self) -> Any:
            return Found(self)

        def describe(self) -> dict[str, Any]:
            described = super().describe()
            return described | {"levels": np.int64(4)} if how == "describe" else described

        def batch_size_for(self, individuals: Any, positions: Any, rows: int) -> int:
            return 0 if how == "batch_size_for" else super().batch_size_for(individuals, positions, rows)

    return Space


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("own", "place that own names"),
        ("places", "places adds up"),
        ("one key", "two tests have the same key"),
        ("two keys", "the same test has two keys"),
        ("lowest bit", "lowest bit"),
        ("describe", "stored as JSON"),
        ("batch_size_for", "batch_size_for says 0"),
        ("findings", "saved and loaded"),
    ],
)
def test_a_space_that_breaks_the_protocol_is_caught(
    installed: None, monkeypatch: pytest.MonkeyPatch, how: str, words: str
) -> None:
    from pixelbox import Brightness, PixelSpace

    space = broken(how)
    # The entry point leads to the space that is checked.
    monkeypatch.setattr(PixelSpace, "described", classmethod(lambda cls, told: space(*list(told.values())[1:])))
    with pytest.raises(AssertionError, match=words):
        check_space(space(), None, Brightness())


def test_a_space_that_lacks_a_method_is_caught() -> None:
    class Half:
        noun = "half"

    with pytest.raises(AssertionError, match="supports"):
        check_space(Half(), None, len)


def test_our_own_spaces_pass() -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 99), eh.Integer("b", 0, 9), eh.Nominal("sex", ["F", "M"]), eh.Nominal("role", ["H", "W"])],
        protected="sex",
        constraints=["a > 3 or b > 2"],
        links={"sex": {"role": {"F": {"H": "W"}, "M": {"W": "H"}}}},
    )
    check_space(space, None, lambda frame: (frame["a"] + 3 * frame["b"] < 60) & (frame["sex"] == "F"))
    world = worlds_for(eh.TextRandom())[1]
    check_space(world.space, world.data, world.model, eh.TextRandom(phase="global"))
