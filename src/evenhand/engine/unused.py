"""Says of a model in which nothing was found whether it uses what is protected at all.

A model that never receives an attribute has no findings by it, however it treats people. So has one that receives it
and ignores it. Neither is evidence that groups are treated alike, and whoever reads "none found" must be told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._format import Figure, Sentence
from evenhand.engine.steadiness import BRIEF, affordable
from evenhand.errors import ModelError
from evenhand.spaces.base import table
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.engine.probe import ModelProbe
    from evenhand.spaces.base import AnySpace, Families

SCORED = 256
"""Families whose scores are compared where nothing was found."""
NO_GAP = 1e-9
"""Scores that are no further apart than this are the same but for rounding."""
BEYOND = "it may still disadvantage a group through other attributes: see eh.groups"
IN_TEXTS = "it may still disadvantage a group by what else is in the texts"


def unread(asker: ModelProbe) -> tuple[str, ...]:
    """Name the attributes of the space that are known not to reach the model."""
    return asker.model.unread(asker.space.names) if asker.ground.supports("attributes") else ()


def unreached(space: AnySpace, unused: Sequence[str]) -> frozenset[str]:
    """Name the protected attributes that do not reach the model, nor does anything that follows them.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> sorted(unreached(Space([Integer("age", 1, 9), Boolean("a"), Boolean("b")], protected=["a", "b"]), ["a", "age"]))
    ['a']
    """
    if not space.supports("attributes"):
        return frozenset()
    links = {name: _followers(table(space), name, unused) for name in space.protected}
    return frozenset(name for name in space.protected if name in unused and not links[name])


def is_unaware(space: AnySpace, unused: Sequence[str]) -> bool:
    """Tell whether no protected attribute reaches the model, nor anything that follows one.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> is_unaware(Space([Integer("age", 1, 9), Boolean("member")], protected="member"), ["member"])
    True
    """
    return space.supports("attributes") and unreached(space, unused) == set(space.protected)


def compare_scores(asker: ModelProbe, families: Families) -> tuple[tuple[int, int] | None, int]:
    """Ask for the scores of families: of how many, and in how many some score changed; and how many rows that took.

    None where the model has no scores, or returns numbers that may well be labels. Of a slow model they are fewer.
    """
    model = asker.model
    if not model.has_scores:
        return None, 0
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
    if not len(families):
        return None, 0
    most = affordable(asker, int(families.places.sum()), 1, BRIEF)
    families = families[np.arange(max(1, int(np.searchsorted(np.cumsum(families.places), most, side="right"))))]
    scores, before = None, asker.asking.calls.rows
    with suppress(ModelError):
        scores = asker.scores(families.asked)
    rows = asker.asking.calls.rows - before
    told = model.threshold is not None or model.classes is not None or model.regression or asker.criterion.needs_scores
    if scores is None or not (told or scores.shape[1] > 1):
        return None, rows
    return (len(families), int(changed(families.to_grid(scores)).sum())), rows


def scores_at_hand(asker: ModelProbe, gaps: Sequence[npt.NDArray[np.float64]]) -> tuple[int, int] | None:
    """Tell the same of gaps of scores that are known already."""
    if not asker.scored or not gaps:
        return None
    apart = np.concatenate(list(gaps))
    return len(apart), int((apart > NO_GAP).sum())


def changed(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Tell in which families some score differs by more than rounding: (families, places, scores).

    >>> changed(np.array([[[0.2], [0.2]], [[0.2], [0.3]]])).tolist()
    [False, True]
    """
    first = scores[:, :1]
    return np.asarray(~np.isclose(scores, first, rtol=1e-6, atol=1e-12).all(axis=(1, 2)), dtype=bool)


def statement(
    space: AnySpace,
    unused: Sequence[str],
    found: int,
    families: int,
    scored: tuple[int, int] | None,
    complete: bool = False,
) -> Sentence | None:
    """Say what is known about attributes that the model does not use; None where there is nothing to say.

    Parameters
    ----------
    space
        The space that was searched or sampled.
    unused
        Attributes that are known not to reach the model.
    found
        How many families have a changed decision.
    families
        How many were judged.
    scored
        Of how many families scores were compared, and in how many some score changed.
    complete
        Whether all families of the space were judged, each with all of its counterparts.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> str(statement(space, ["member"], 0, 9, None))[:85]
    "the model does not receive 'member', so it cannot treat anybody differently by it; it"
    >>> str(statement(space, [], 0, 5, (9, 0)))[:74]
    'no decision changed in 5 families, and no score in 9 drawn to compare scor'
    """
    said = list[Sentence]()
    guarded = [name for name in space.protected if name in unused]
    received = [name for name in space.protected if name not in unused]
    if guarded and space.supports("attributes"):
        followers = list(dict.fromkeys(f for name in guarded for f in _followers(table(space), name, unused)))
        said.append(_not_received(guarded, followers, received if found else []))
        received += followers
    if received and not found and families and (scored is None or not scored[1]):
        said.append(_unchanged(received, families, scored, complete))
    if said:
        said.append(Sentence(IN_TEXTS if space.supports("texts") else BEYOND))
    if left := [name for name in unused if name not in space.protected]:
        repeats = "tests that differ in nothing else are repeats; leave it out of the space"
        said.append(Sentence(f"the space has {{}}, which the model does not receive: {repeats}", (_listed(left),)))
    if not said:
        return None
    return Sentence("; ".join(one.text for one in said), sum((one.parts for one in said), ()))


def _not_received(guarded: list[str], followers: list[str], others: list[str]) -> Sentence:
    """Say what does not reach the model; ``others``: what the findings are about, where there are some."""
    names = _listed(guarded)
    if followers:
        # A finding may be about either.
        return Sentence("the model does not receive {} itself, only {}, which follows it", (names, _listed(followers)))
    said = Sentence("the model does not receive {}, so it cannot treat anybody differently by it", (names,))
    return said + Sentence(", and what was found is about {}", (_listed(others),)) if others else said


def _unchanged(names: list[str], families: int, scored: tuple[int, int] | None, complete: bool) -> Sentence:
    """Say that no answer changed, and in how many families."""
    said = Sentence("no decision changed in {} families", (Figure(families, "count"),))
    if complete:
        said += Sentence(", which are all that the space has")
    if scored:
        which = "that were asked for them" if scored[0] <= families else "drawn to compare scores"
        said += Sentence(f", and no score in {{}} {which}", (Figure(scored[0], "count"),))
    so = "no decision depends on {}" if complete else "the model may not use {}"
    return said + Sentence(f": {so}", (_listed(names),))


def _followers(space: Space, name: str, unused: Sequence[str]) -> list[str]:
    """Name what the model receives and the space lets follow a protected attribute."""
    return [free for free in space.links.get(name, {}) if free not in unused]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
