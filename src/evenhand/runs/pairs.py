"""Pairs for readers: an individual or a text beside its counterpart; and the choice of findings to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import json_value, native, number, outcome, phrase, plain, same, visible
from evenhand.spaces.realism import Numbers, Realism
from evenhand.spaces.text.diff import Edit, Piece, marked, shortened, swaps

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.runs.run import Run
    from evenhand.spaces.findings import Findings
    from evenhand.spaces.individuals import Rows
    from evenhand.spaces.tabular import Space

CANDIDATES = 5_000
"""Maximum number of findings to choose from."""
SHARE = 50
"""Of the candidates, the best fiftieth are chosen from, and at least ten for each that is wanted."""
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """An individual, what differs in the counterpart, and what the model predicts for each.

    >>> pair = Pair({"age": 34, "sex": "Female"}, {"sex": "Male"}, "refused", "granted", 1.0)
    >>> pair.sentence
    'age 34, sex Female: refused. The same person with sex Male: granted.'
    """

    individual: dict[str, Any]
    changes: dict[str, Any]
    """The counterpart's values, where they are not the individual's."""
    decision: Any
    counterpart_decision: Any
    gap: float
    measured: bool = False
    """Whether the gap is a difference of scores, and not only a changed decision."""
    confirmed: bool = True
    """Whether the model was queried again and gave the same answers."""
    noun: str = "person"
    """The noun for the individual."""
    protected: tuple[str, ...] = ()
    """The space's protected attributes, or the lexicons of the swapped terms."""

    @property
    def who(self) -> str:
        """Describe the individual."""
        return ", ".join(phrase(name, value) for name, value in self.individual.items())

    @property
    def other(self) -> str:
        """Describe the counterpart's values."""
        return " and ".join(phrase(name, value) for name, value in self.changes.items())

    @property
    def swapped(self) -> str:
        """Name what differs."""
        return ", ".join(plain(name) for name in self.changes)

    @property
    def broken(self) -> str:
        """Name the protected attributes that differ."""
        return "+".join(plain(name) for name in self.protected if name in self.changes)

    @property
    def shared(self) -> list[Any]:
        """The values that identify the test."""
        return [[name, json_value(value)] for name, value in self.individual.items() if name not in self.protected]

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        """The two sides as a table: name, value and counterpart's value, as readers see them."""
        return [
            (plain(name), plain(value), plain(self.changes.get(name, value))) for name, value in self.individual.items()
        ]

    @property
    def pieces(self) -> tuple[list[Piece], list[Piece]] | None:
        """Both sides of a pair of texts, cut into pieces to show; None of all others."""
        return None

    @property
    def origin(self) -> str:
        """Where the individual comes from."""
        return "An individual of the space"

    @property
    def traits(self) -> tuple[Any, ...]:
        """The values of both sides, to choose unlike pairs."""
        return tuple(str(value) for name, value in self.individual.items() if name not in self.changes)

    @property
    def direction(self) -> tuple[Any, ...]:
        """The change and both decisions."""
        return str(self.changes), str(self.decision), str(self.counterpart_decision)

    @property
    def sentence(self) -> str:
        """The pair in one or two sentences."""
        by = f" (scores {number(self.gap, 6)} apart)" if self.measured else ""
        one, other = outcome(self.decision), outcome(self.counterpart_decision)
        unsure = "" if self.confirmed else " (Not asked again, so not confirmed.)"
        return f"{self.who}: {one}. The same {self.noun} with {self.other}: {other}{by}.{unsure}"

    @property
    def kept(self) -> dict[str, Any]:
        """The values to test the individual again."""
        return {name: json_value(value) for name, value in self.individual.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as values of JSON; a missing value is None."""
        return {
            **self._sides(),
            "decision": json_value(self.decision),
            "counterpart_decision": json_value(self.counterpart_decision),
            "gap": self.gap,
            "confirmed": self.confirmed,
            **self._more(),
            "sentence": self.sentence,
        }

    def _sides(self) -> dict[str, Any]:
        return {"individual": self.kept, "changes": {name: json_value(value) for name, value in self.changes.items()}}

    def _more(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class TextPair(Pair):
    """A text and its counterpart.

    In the sentence, swapped terms are in square brackets, and replaced words in braces.

    >>> pair = TextPair.of("A kind Sikh.", "A kind Jew.", "fine", "toxic", changed=[(1, "nice", "kind")])
    >>> pair.sentence
    '"A {nice -> kind} [Sikh].": fine. The same text with [Jew]: toxic.'
    """

    seed: int = 0
    """The row of the data that the text was made from."""
    changed: Sequence[Edit] = ()

    @classmethod
    def of(
        cls,
        text: str,
        other: str,
        decision: Any = None,
        counterpart_decision: Any = None,
        gap: float = 1.0,
        **more: Any,
    ) -> TextPair:
        """Make a pair of two texts."""
        return cls({"text": text}, {"text": other}, decision, counterpart_decision, gap, noun="text", **more)

    @property
    def text(self) -> str:
        """The text."""
        return str(self.individual["text"])

    @property
    def counterpart_text(self) -> str:
        """Its counterpart."""
        return str(self.changes["text"])

    @cached_property
    def _marked(self) -> tuple[list[Piece], list[Piece]]:
        return marked(self.text, self.counterpart_text, self.changed)

    @cached_property
    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Both sides in pieces: long texts around their marks, and nothing that a reader cannot see."""
        one, other = (
            [Piece(visible(piece.text), piece.kind, visible(piece.was)) for piece in shortened(side)]
            for side in self._marked
        )
        return one, other

    @property
    def who(self) -> str:
        """Show the text with its marks."""
        return f'"{_written(self.pieces[0])}"'

    @property
    def other(self) -> str:
        """Show what the counterpart has instead."""
        return " and ".join(dict.fromkeys(f"[{text}]" for text in _swapped(self.pieces[1])))

    @property
    def swapped(self) -> str:
        """Show what was swapped."""
        return " or ".join(" and ".join(_swapped(side)) for side in self.pieces)

    @property
    def broken(self) -> str:
        """Name the protected attributes that differ."""
        return "+".join(map(plain, self.protected))

    @property
    def shared(self) -> list[Any]:
        """What both texts have: the words around what was swapped."""
        return [piece.text for piece in self._marked[0] if piece.kind != "swapped"]

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        """The two texts with their marks."""
        return [("text", _written(self.pieces[0]), _written(self.pieces[1]))]

    @property
    def origin(self) -> str:
        """Say which text of the data it was made from."""
        count = len(self.changed)
        words = f"with {count} {'word' if count == 1 else 'words'} replaced in both"
        return f"Text {self.seed:,} of the data, {words if count else 'but for the swap exactly as written'}"

    @property
    def traits(self) -> tuple[Any, ...]:
        """What makes it unlike other pairs: the text that it was made from, and the words swapped."""
        return str(self.seed), *(str(sorted(map(str.lower, _swapped(side)))) for side in self.pieces)

    @property
    def direction(self) -> tuple[Any, ...]:
        """What was swapped, and what was decided."""
        return *self.traits[1:], str(self.decision)

    def _sides(self) -> dict[str, Any]:
        return {"text": self.text, "counterpart_text": self.counterpart_text}

    def _more(self) -> dict[str, Any]:
        return {"seed": self.seed, "changed": [list(edit) for edit in self.changed]}


def select_pairs(run: Run, n: int = 3, data: Any = None) -> list[Pair]:
    """Choose findings to show: realistic ones with wide gaps before others, and unlike each other.

    Parameters
    ----------
    run
        The run whose findings to choose from; its first 5,000 are looked at.
    n
        How many pairs, at most.
    data
        A frame of real rows: pairs that resemble them come first. Texts are compared with those they come from.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> [pair.sentence for pair in select_pairs(run, 1)]
    ['age 3, sex F: True. The same person with sex M: False.']
    """
    at = np.arange(min(run.found, CANDIDATES))
    if not len(at) or n < 1:
        return []
    strange = apart = None
    if run.space.supports("texts"):
        strange = np.array([len(record[3]) for record in run.pairs.records(at)])  # type: ignore[attr-defined]
    elif data is not None and run.space.supports("attributes"):
        people = run.space.encode(data).individuals
        if len(people):
            likeness = Realism(run.space, people).likeness(run.pairs.individuals("individual", at).rows)
            strange, apart = ~likeness.realistic, likeness.apart
    return pairs_at(run.pairs, choose(run.pairs, at, n, strange, apart))


def choose(
    pairs: Findings, at: Positions, n: int, strange: npt.NDArray[Any] | None = None, apart: Numbers | None = None
) -> Positions:
    """Choose from the findings at some places: not ``strange``, wide gaps, not far ``apart`` from real people."""
    gaps = pairs.select("gap", at) if "gap" in pairs.joined() else np.ones(len(at))
    strange = np.zeros(len(at), dtype=bool) if strange is None else strange
    order = np.lexsort((np.zeros(len(at)) if apart is None else apart, -gaps, strange))
    most, real = max(10 * n, len(at) // SHARE), int((strange == 0).sum())
    best = at[order[: min(most, real) if real >= n else most]]
    return best[unlike(*_traits(pairs, best), n)]


def unlike(traits: npt.NDArray[Any], directions: npt.NDArray[Any], n: int) -> Positions:
    """Pick rows one by one: first a direction not seen yet, then the one with the most traits unlike all those picked.

    >>> unlike(np.array([[1, 1], [1, 1], [1, 2], [2, 2]]), np.array([0, 0, 0, 0]), 3)
    array([0, 3, 2])
    """
    if not len(traits):
        return np.zeros(0, dtype=np.int64)
    chosen = [0]
    apart = (traits != traits[0]).sum(axis=1)
    while len(chosen) < min(n, len(traits)):
        unseen = ~np.isin(directions, directions[chosen])
        best = int(np.argmax(apart + unseen * (traits.shape[1] + 1) * (apart > 0)))
        if apart[best] == 0:
            break
        chosen.append(best)
        apart = np.minimum(apart, (traits != traits[best]).sum(axis=1))
    return np.array(chosen)


def _traits(pairs: Findings, at: Positions) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Give codes of what makes findings unlike each other, and a number for who got what."""
    if not pairs.space.supports("attributes"):
        made = pairs_at(pairs, at)
        return np.array([pair.traits for pair in made]), _numbered(np.array([pair.direction for pair in made]))
    space, rows = pairs.space, pairs.individuals("individual", at).rows
    decisions = [pairs.select(name, at) for name in ("decision", "counterpart_decision")]
    # The numbers of a regression are all different: only which of the two is larger is a direction.
    codes = [np.sign(decisions[0] - decisions[1])] if decisions[0].dtype.kind == "f" else decisions
    return rows[:, space.free_columns], _numbered(np.column_stack([rows[:, space.protected_columns], *codes]))


def _numbered(rows: npt.NDArray[Any]) -> Positions:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def pairs_at(pairs: Findings, at: npt.ArrayLike) -> list[Pair]:
    """Give findings at some places as pairs.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["member"], space, strategy="themis")
    >>> pairs_at(run.pairs, [0])[0].changes
    {'member': True}
    """
    places = np.asarray(at, dtype=np.int64)
    if not len(places):
        return []
    order = np.argsort(places, kind="stable")
    made = _made(pairs, places[order])
    return [made[i] for i in np.argsort(order)]


def _made(pairs: Findings, at: Positions) -> list[Pair]:
    """Make pairs of findings at sorted places."""
    decisions, counterpart_decisions = (pairs.decisions(name, at) for name in ("decision", "counterpart_decision"))
    gaps = pairs.select("gap", at) if "gap" in pairs.joined() else None
    confirmed, space = pairs.confirmed_at(at), pairs.space
    if space.supports("attributes"):
        rows, others = (pairs.individuals(side, at).rows for side in ("individual", "counterpart"))
        return pairs_of(space, rows, others, decisions, counterpart_decisions, gaps, confirmed)
    if space.supports("texts"):
        records = pairs.records(at)  # type: ignore[attr-defined]
        lexicons = _lexicons([record[0] for record in records], [record[1] for record in records], space.space.lexicons)
        made: list[Pair] = [
            TextPair.of(text, other, protected=names, seed=seed, changed=edits)
            for (text, other, seed, edits), names in zip(records, lexicons, strict=True)
        ]
    else:
        made = [
            Pair(one, changes, None, None, 1.0, noun=space.noun, protected=tuple(space.protected))
            for one, changes in _sides(pairs.frame(at))
        ]
    return [
        replace(
            pair,
            decision=native(decisions[i]),
            counterpart_decision=native(counterpart_decisions[i]),
            gap=1.0 if gaps is None else float(gaps[i]),
            measured=gaps is not None,
            confirmed=bool(confirmed[i]),
        )
        for i, pair in enumerate(made)
    ]


def _sides(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Read pairs from a frame, whose columns ``counterpart_NAME`` are of the counterparts."""
    names = [str(name) for name in frame.columns]
    others = {name: f"counterpart_{name}" for name in names if f"counterpart_{name}" in names and name != "decision"}
    own = [n for n in names if n not in {*others.values(), "decision", "counterpart_decision", "gap", "confirmed"}]
    for line in frame.to_dict("records"):
        changes = {name: native(line[other]) for name, other in others.items() if not same(line[name], line[other])}
        yield {name: native(line[name]) for name in own}, changes


def pairs_of(
    space: Space,
    rows: Rows,
    others: Rows,
    decisions: npt.NDArray[Any],
    counterpart_decisions: npt.NDArray[Any],
    gaps: Numbers | None,
    confirmed: npt.NDArray[np.bool_] | None = None,
) -> list[Pair]:
    """Make pairs of rows of codes, their decisions, and how far apart their scores are, where that is known."""
    # What is protected comes first, then what follows it.
    names = [*space.protected, *space.free]
    return [
        Pair(
            one,
            {name: other[name] for name in names if not same(one[name], other[name])},
            native(decisions[i]),
            native(counterpart_decisions[i]),
            1.0 if gaps is None else float(gaps[i]),
            gaps is not None,
            confirmed is None or bool(confirmed[i]),
            protected=space.protected,
        )
        for i, (one, other) in enumerate(zip(records(space, rows), records(space, others), strict=True))
    ]


def records(space: Space, rows: Rows) -> list[dict[str, Any]]:
    """Give rows of codes as the user's names and values."""
    columns = space.values(rows, space.names)
    return [{name: native(columns[name][i]) for name in space.names} for i in range(len(rows))]


def _lexicons(texts: Sequence[str], others: Sequence[str], lexicons: Sequence[Any]) -> list[tuple[str, ...]]:
    """Name for each pair the lexicon of what was swapped; where that is unclear, all of them."""
    every = tuple(lexicon.name for lexicon in lexicons)
    named = swaps(texts, others, lexicons)
    return [next(((lx.name,) for lx in lexicons if {*both} <= {*lx.identities}), every) for both in named]


def _swapped(side: Sequence[Piece]) -> list[str]:
    return [piece.text for piece in side if piece.kind == "swapped"]


def _written(side: Sequence[Piece]) -> str:
    marks = {"swapped": "[{0.text}]", "changed": "{{{0.was} -> {0.text}}}"}
    return "".join(marks.get(piece.kind, "{0.text}").format(piece) for piece in side)
