"""How a run starts: the space and the search must fit."""

from __future__ import annotations

from typing import Any

from evenhand.errors import TEXT_SPACE, StrategyError, search
from evenhand.search import Strategy
from evenhand.spaces.base import AnySpace, require
from evenhand.spaces.text.space import BORROWED
from evenhand.strategies import describe

REMARKS = {BORROWED: "similar words are only among words of the texts (give words= or similar=)"}
"""What is said about a count where its name does not say enough."""


def check_kind(space: Any, strategy: Strategy) -> None:
    """Raise where a search needs another kind of space.

    >>> from evenhand.strategies import TextRandom
    >>> from evenhand.spaces.text.space import TextSpace
    >>> check_kind(TextSpace("religion"), TextRandom())
    """
    if not isinstance(space, AnySpace):
        require(space, "attributes")
    needs, name = needs_of(strategy), describe(strategy)["strategy"]
    if not space.supports(needs):
        kind = "attributes" if space.supports("attributes") else f"{space.noun}s"
        other = ("use ", TEXT_SPACE, ", or ") if needs == "texts" else ("use ",)
        raise StrategyError(
            f"{name} searches {needs}, and the space is one of {kind}",
            remedy=(*other, search(space.default_strategy), f" (a search of your own sets needs = {needs!r})"),
        )


def needs_of(strategy: Any) -> str:
    """Return the feature that a search needs of a space; attributes, unless it says otherwise."""
    return str(getattr(strategy, "needs", "attributes"))
