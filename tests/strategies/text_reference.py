"""What the plain references of searches of texts share: phases, draws and the order of visits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import evenhand as eh
from evenhand._rng import Stream, mix
from evenhand.engine.gradients import EPSILON
from evenhand.search import Problem, Query, watched
from evenhand.spaces.text.tokens import split
from tests.text_worlds import family, key, replaced


@dataclass(frozen=True)
class Watched:
    """A search whose visits are written down."""

    inner: Any
    visits: list[str] = field(default_factory=list)
    needs: ClassVar[str] = "texts"
    uses_gradient: ClassVar[bool] = True

    @property
    def gradient(self) -> str:
        return str(self.inner.gradient)

    def search(self, problem: Problem) -> Any:
        return watched(self.inner.search(problem), self.look)

    def look(self, query: Query) -> None:
        if query.kind in ("contrast", "test"):
            assert query.individuals is not None
            self.visits.extend(query.individuals.rows)


@dataclass
class TextReference(ABC):
    """Both phases with plain loops, one text and one word at a time; random draws are the run's own."""

    space: eh.TextSpace
    strategy: Any
    seed: int
    every: int = 1

    def __post_init__(self) -> None:
        self.stream, self.similar = Stream(self.seed), self.space.similar

    @abstractmethod
    def scores(self, text: str) -> Any:
        """The scores of a text."""

    @abstractmethod
    def step(self, text: str) -> str:
        """One step of the global phase."""

    @abstractmethod
    def matter(self, text: str) -> dict[int, float]:
        """What each word that can move matters, to the text and to its rival together."""

    def candidates(self, text: str, place: int) -> list[str]:
        words: list[str] = self.similar.of(split(text)[1::2][place])
        return words

    def look(self, text: str) -> tuple[bool, str, int]:
        """Whether a text is discriminatory, its most different counterpart, and its own decision."""
        first, *others = family(text)
        own = self.scores(first)
        y = int(np.argmax(own))
        flipped = [other for other in others if int(np.argmax(self.scores(other))) != y]
        rival = max(flipped or others, key=lambda other: abs(self.scores(other)[y] - own[y]))
        return bool(flipped), rival, y

    def lead(self, text: str) -> tuple[list[str], bool]:
        """Global: every text that a seed became, and whether the last was found."""
        path = [text]
        for _ in range((1 if self.strategy.phase == "local" else self.strategy.max_iter) - 1):
            if self.look(path[-1])[0]:
                break
            path.append(self.step(path[-1]))
        return path, self.look(path[-1])[0]

    def walk(self, walker: int, text: str) -> Iterator[str]:
        """Local: words by the reciprocal of what they matter, replaced by any similar one."""
        yield text
        for trial in range(self.strategy.trials):
            if trial % self.every == 0:
                matter = self.matter(text)
            draw = mix(self.stream.bits("choice", walker, trial))[0]
            times = {}
            for place, own in matter.items():
                unit = int(mix(np.array([draw + np.uint64(place)]))[0] >> np.uint64(11)) / 2**53
                times[place] = -math.log1p(-unit) * (own / (max(matter.values()) or 1.0) + EPSILON)
            place = min(times, key=times.__getitem__)
            words = self.candidates(text, place)
            text = replaced(text, place, words[int(self.stream.bits("similar", walker, trial)[0]) % len(words)])
            yield text

    def visits(self, data: list[str]) -> list[str]:
        """Every text that is judged, in the order of a search whose walkers step together."""
        order = self.stream.shuffled(np.arange(len(data)), len(data), "seeds").tolist()
        seeds = list({key(data[i]): data[i] for i in reversed(order)}.values())[::-1][: self.strategy.seeds]
        leads = [self.lead(text) for text in seeds]
        longest = max(len(path) for path, _ in leads)
        out = [path[i] for i in range(longest) for path, _ in leads if i < len(path)]
        found: dict[str, tuple[int, str]] = {}
        for i in range(longest):
            for walker, (path, unfair) in enumerate(leads):
                if unfair and len(path) == i + 1:
                    found.setdefault(key(path[-1]), (walker, path[-1]))
        if self.strategy.phase != "global":
            walks = [list(self.walk(walker, text)) for walker, text in found.values()]
            out += [walk[t] for t in range(self.strategy.trials + 1) for walk in walks]
        return out
