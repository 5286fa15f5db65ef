"""Which protected attributes a model does not use, and what a result says about it.

A model that never receives an attribute has no findings by it, however it treats people. So has one that receives it
and ignores it. Neither is evidence that groups are treated alike, so "none found" always comes with this note.
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

if TYPE_CHECKING:
    from evenhand.engine.probe import ModelProbe
    from evenhand.spaces.base import AnySpace, Families

SCORED = 256
"""Families whose scores are compared where nothing was found."""
NO_GAP = 1e-9
"""Scores that are no further apart than this are equal but for rounding."""
BEYOND = "it may still disadvantage a group through other attributes: see eh.groups"
IN_TEXTS = "it may still disadvantage a group by what else is in the texts"


def unread(probe: ModelProbe) -> tuple[str, ...]:
    """Name the attributes of the space that are known not to reach the model."""
    return probe.model.unread(probe.space.names) if probe.ground.supports("attributes") else ()


def unreached(space: AnySpace, unused: Sequence[str]) -> frozenset[str]:
    """Name the protected attributes that do not reach the model, nor does anything that follows them.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> sorted(unreached(Space([Integer("age", 1, 9), Boolean("a"), Boolean("b")], protected=["a", "b"]), ["a", "age"]))
    ['a']
    """
    return frozenset(name for name in space.protected if name in unused and not _followers(space, name, unused))


def is_unaware(space: AnySpace, unused: Sequence[str]) -> bool:
    """Whether no protected attribute reaches the model, nor anything that follows one.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> is_unaware(Space([Integer("age", 1, 9), Boolean("member")], protected="member"), ["member"])
    True
    """
    return unreached(space, unused) == set(space.protected)


def compare_scores(probe: ModelProbe, families: Families) -> tuple[tuple[int, int] | None, int]:
    """Ask for scores: of how many families, and in how many some score changed; and how many rows that took.

    None where the model has no scores, or returns numbers that may be labels. For a slow model they are fewer.
    """
    model = probe.model
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
    if not model.has_scores or not len(families):
        return None, 0
    most = affordable(probe, int(families.places.sum()), 1, BRIEF)
    families = families[np.arange(max(1, int(np.searchsorted(np.cumsum(families.places), most, side="right"))))]
    scores, before = None, probe.client.calls.rows
    with suppress(ModelError):
        scores = probe.scores(families.asked)
    rows = probe.client.calls.rows - before
    known = model.threshold is not None or model.classes is not None or model.regression or probe.criterion.needs_scores
    if scores is None or not (known or scores.shape[1] > 1):
        return None, rows
    return (len(families), int(changed(families.to_grid(scores)).sum())), rows


def compare_gaps(probe: ModelProbe, gaps: Sequence[npt.NDArray[np.float64]]) -> tuple[int, int] | None:
    """Count the same from gaps of scores that are known already."""
    if not probe.scored or not gaps:
        return None
    apart = np.concatenate(list(gaps))
    return len(apart), int((apart > NO_GAP).sum())


def changed(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return in which families some score differs by more than rounding: (families, places, scores).

    >>> changed(np.array([[[0.2], [0.2]], [[0.2], [0.3]]])).tolist()
    [False, True]
    """
    return np.asarray(~np.isclose(scores, scores[:, :1], rtol=1e-6, atol=1e-12).all(axis=(1, 2)), dtype=bool)


def statement(
    space: AnySpace,
    unused: Sequence[str],
    found: int,
    families: int,
    scored: tuple[int, int] | None,
    complete: bool = False,
) -> Sentence | None:
    """Say which attributes the model does not use; None where it uses all, as far as is known.

    ``unused`` are the attributes that are known not to reach the model. Of the ``families`` judged, decisions changed
    in ``found``; ``scored`` says of how many scores were compared, and in how many some score changed; ``complete``
    whether all families of the space were judged.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> str(statement(space, ["member"], 0, 9, None))[:85]
    "the model does not receive 'member', so it cannot treat anyone differently by it; it "
    >>> str(statement(space, [], 0, 5, (9, 0)))[:74]
    'no decision changed in 5 families, and no score in 9 drawn to compare scor'
    """
    out = list[Sentence]()
    guarded = [name for name in space.protected if name in unused]
    received = [name for name in space.protected if name not in unused]
    if guarded:
        followers = list(dict.fromkeys(f for name in guarded for f in _followers(space, name, unused)))
        out.append(_not_received(guarded, followers, received if found else []))
        received += followers
    if received and not found and families and (scored is None or not scored[1]):
        out.append(_unchanged(received, families, scored, complete))
    if out:
        out.append(Sentence(IN_TEXTS if space.supports("texts") else BEYOND))
    if left := [name for name in unused if name not in space.protected]:
        repeats = "tests that differ in nothing else are repeats; leave it out of the space"
        out.append(Sentence(f"the space has {{}}, which the model does not receive: {repeats}", (_listed(left),)))
    return Sentence("; ".join(one.text for one in out), sum((one.parts for one in out), ())) if out else None


def _not_received(guarded: list[str], followers: list[str], others: list[str]) -> Sentence:
    """Say what does not reach the model; ``others``: what the findings are about, where there are some."""
    names = _listed(guarded)
    if followers:
        # A finding may be about either.
        return Sentence("the model does not receive {} itself, only {}, which follows it", (names, _listed(followers)))
    out = Sentence("the model does not receive {}, so it cannot treat anyone differently by it", (names,))
    return out + Sentence(", and what was found is about {}", (_listed(others),)) if others else out


def _unchanged(names: list[str], families: int, scored: tuple[int, int] | None, complete: bool) -> Sentence:
    """Say that no answer changed, and in how many families."""
    out = Sentence("no decision changed in {} families", (Figure(families, "count"),))
    if complete:
        out += Sentence(", which are all that the space has")
    if scored:
        which = "that were asked for them" if scored[0] <= families else "drawn to compare scores"
        out += Sentence(f", and no score in {{}} {which}", (Figure(scored[0], "count"),))
    so = "no decision depends on {}" if complete else "the model may not use {}"
    return out + Sentence(f": {so}", (_listed(names),))


def _followers(space: AnySpace, name: str, unused: Sequence[str]) -> list[str]:
    """Name the received attributes that are linked to a protected one."""
    return [free for free in table(space).links.get(name, {}) if free not in unused]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
