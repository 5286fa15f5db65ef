"""How a run starts: the space, the data and the search are brought together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenhand.errors import SpaceError, StrategyError
from evenhand.model import Model
from evenhand.search import Problem, Strategy
from evenhand.space.ground import Ground
from evenhand.space.tabular import Space
from evenhand.strategies import describe
from evenhand.text.ground import TextGround
from evenhand.text.space import TextSpace

SAMPLED = "texts_compared_with_a_sample"
BORROWED = "words_of_the_texts_among_which_similar_ones_are"
REMARKS = {BORROWED: "similar words are only among words of the texts (give words= or similar=)"}
"""What is said about a count where its name does not say enough."""


def check_space(space: Any) -> None:
    """Raise unless this is a space of attributes.

    >>> from evenhand.space import Boolean, Integer
    >>> check_space(Space([Integer("age", 1, 9), Boolean("member")], protected="member"))
    """
    if isinstance(space, TextSpace):
        raise SpaceError("this is for spaces of attributes, and got one of texts; eh.audit and eh.estimate take both")
    if not isinstance(space, Space):
        raise SpaceError(f"space must be an eh.Space, got {type(space).__name__}; eh.Space.infer(frame, ...) makes one")


def check_kind(space: Any, strategy: Strategy) -> None:
    """Raise where a search of attributes is to search texts, or the other way round.

    >>> from evenhand.strategies import TextRandom
    >>> check_kind(TextSpace("religion"), TextRandom())
    """
    for_texts, name = getattr(strategy, "for_texts", False), describe(strategy)["strategy"]
    if not isinstance(space, TextSpace):
        check_space(space)
        if for_texts:
            raise StrategyError(
                f"{name} searches texts, and the space is one of attributes; use eh.TextSpace, or strategy='kosei'"
            )
    elif not for_texts:
        raise StrategyError(
            f"{name} searches attributes, and the space is one of texts; use strategy='text-adf', "
            "'text-importance' or 'text-random' (a search of your own for texts has the attribute for_texts = True)"
        )


@dataclass(frozen=True)
class Start:
    """Where a run starts."""

    ground: Ground
    people: Any = None
    """The data as individuals, or None."""
    clipped: int = 0
    """Rows with a value outside the bounds, moved to the nearest bound."""
    dropped: int = 0
    """Rows left out: outside the space, or without a text."""


def begin(space: Space | TextSpace, data: Any, model: Model) -> Start:
    """Put the data into the space; texts make the ground of the run.

    >>> from evenhand.model import wrap
    >>> len(begin(TextSpace("religion"), ["A Sikh.", "Nobody."], wrap(len)).people)
    1
    """
    if isinstance(space, TextSpace):
        knows = space.source is None and getattr(model, "has_words", False)
        ground = space.begin(data, *((model.word_vectors, getattr(model, "words", None)) if knows else ()))
        return Start(ground, ground.seeds, dropped=ground.missing)
    if data is None:
        return Start(space)
    encoded = space.encode(data)
    return Start(space, encoded.individuals, encoded.clipped, encoded.dropped)


def count_texts(problem: Problem) -> None:
    """Count the texts that are left out, and those with more counterparts than are asked."""
    if isinstance(problem.ground, TextGround):
        ground = problem.ground
        left_out = {"texts_without_a_term": ground.without, "texts_without_a_counterpart": ground.alone}
        for name, n in {**left_out, SAMPLED: ground.sampled, BORROWED: ground.borrowed}.items():
            if n:
                problem.count(name, n)
