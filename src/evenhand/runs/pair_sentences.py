"""Pairs in words: an individual or a text, and its counterpart, with the differences; which findings to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._format import number, outcome, phrase, plain, visible
from evenhand.spaces.frames import json_value, native, pd, same
from evenhand.spaces.realism import Numbers, Realism
from evenhand.spaces.text.lexicon import Lexicon
from evenhand.spaces.text.matcher import Finder
from evenhand.spaces.text.tokens import Texts, split

if TYPE_CHECKING:
    from evenhand.runs.run import Run
    from evenhand.spaces.findings import Findings
    from evenhand.spaces.individuals import Rows
    from evenhand.spaces.tabular import Space


CANDIDATES = 5_000
"""Maximum number of findings to choose from."""
SHARE = 50
"""The best fiftieth of the candidates are considered, but at least ten for each wanted pair."""
SYNTHETIC, REAL, NONE = "synthetic", "real", "none"
EXAMPLES = (SYNTHETIC, REAL, NONE)
"""What readers are shown: no row of the data with all its values; rows of the data too; no examples."""
Positions = npt.NDArray[np.int64]
Kind = Literal["same", "swapped", "changed", "cut"]
Edit = tuple[int, str, str]
"""The position of a word, the old word, the new one."""
Stretch = tuple[int, int, int, int]
"""Tokens of one text and of the other: from the first up to, but not including, the last number."""
LONGEST = 400
"""Characters of a text that are shown whole."""
_AROUND, _MOST, _WORD = 80, 60, 60
"""For longer texts: characters around each mark, maximum pieces, maximum characters of a marked word."""


@dataclass(frozen=True)
class Pair:
    """An individual, what differs in the counterpart, and what the model predicts for each.

    >>> pair = Pair({"age": 34, "sex": "Female"}, {"sex": "Male"}, "refused", "granted", 1.0)
    >>> pair.sentence
    'age 34, sex Female: refused. The same person with sex Male: granted.'
    """

    individual: dict[str, Any]
    changes: dict[str, Any]
    """The counterpart's values that differ from the individual's."""
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
    hidden: bool = False
    """Whether values are left out, because they are those of a row of the data."""

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
        """Both sides of a pair of texts, cut into pieces to show; None for other pairs."""
        return None

    @property
    def origin(self) -> str:
        """Where the individual comes from."""
        return "An individual of the space"

    @property
    def traits(self) -> tuple[Any, ...]:
        """The values of both sides, to choose diverse pairs."""
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
        unsure = "" if self.confirmed else " (Not confirmed by querying again.)"
        less = " (From the data: other values are not shown.)" if self.hidden else ""
        return f"{self.who}: {one}. The same {self.noun} with {self.other}: {other}{by}.{less}{unsure}"

    def synthetic(self) -> Pair:
        """Return the pair with nothing of the row of the data that it was made from."""
        return self

    def brief(self, most: int) -> list[str]:
        """Say what differs, and in a second line some other values.

        >>> Pair({"age": 34, "sex": "F", "pay": 3}, {"sex": "M"}, "refused", "granted", 1.0).brief(1)
        ['sex F: refused; sex M: granted', 'age 34, and 1 more']
        """
        by = f" (scores {number(self.gap, 6)} apart)" if self.measured else ""
        own = " and ".join(phrase(name, self.individual[name]) for name in self.changes if name in self.individual)
        unsure = "" if self.confirmed else " (not confirmed)"
        first = f"{own}: {outcome(self.decision)}; {self.other}: {outcome(self.counterpart_decision)}{by}{unsure}"
        if self.hidden:
            return [first, "a row of the data: its other values are not shown"]
        others = [phrase(name, value) for name, value in self.individual.items() if name not in self.changes]
        rest = f", and {len(others) - most} more" if len(others) > most else ""
        return [first, *([", ".join(others[:most]) + rest] if others else [])]

    @property
    def kept(self) -> dict[str, Any]:
        """The values to test the individual again."""
        return {name: json_value(value) for name, value in self.individual.items()}

    def masked(self) -> Pair:
        """Return the pair with only the protected values, for a person of the data.

        >>> Pair({"age": 34, "sex": "F"}, {"sex": "M"}, "refused", "granted", 1.0, protected=("sex",)).masked().sentence
        'sex F: refused. The same person with sex M: granted. (From the data: other values are not shown.)'
        """
        shown = {name: value for name, value in self.individual.items() if name in self.protected}
        changes = {name: value for name, value in self.changes.items() if name in self.protected}
        return replace(self, individual=shown, changes=changes, hidden=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as values of JSON; a missing value is None."""
        return {
            **self._sides(),
            "decision": json_value(self.decision),
            "counterpart_decision": json_value(self.counterpart_decision),
            "gap": self.gap,
            "confirmed": self.confirmed,
            **({"hidden": True} if self.hidden else {}),
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

    seed: int | None = 0
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

    def masked(self) -> Pair:
        """Return the pair with the swapped terms alone.

        >>> TextPair.of("A kind Sikh.", "A kind Jew.", "fine", "toxic").masked().who
        '"[Sikh]"'
        """
        one, other = (" … ".join(_swapped(side)) for side in self.pieces)
        return replace(self, individual={"text": one}, changes={"text": other}, changed=(), hidden=True)

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
        """Both sides in pieces: long texts are cut around their marks, and invisible characters are escaped."""
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

    def synthetic(self) -> Pair:
        """Return the pair without the words that were replaced: with them the text of the data would be known.

        >>> TextPair.of("A kind Sikh.", "A kind Jew.", "fine", "toxic", changed=[(1, "nice", "kind")]).synthetic().who
        '"A kind [Sikh]."'
        """
        return replace(self, changed=(), seed=None)

    def brief(self, most: int) -> list[str]:  # noqa: ARG002
        """Say it in a sentence: a text is one value."""
        return [self.sentence]

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
        if self.seed is None:
            return "A text made from one of the data, with words replaced"
        count = len(self.changed)
        words = f"with {count} {'word' if count == 1 else 'words'} replaced in both"
        return (
            f"Text {self.seed:,} of the data, {words if count else 'exactly as written except for the replaced term'}"
        )

    @property
    def traits(self) -> tuple[Any, ...]:
        """What distinguishes it from other pairs: the text that it was made from, and the swapped words."""
        return str(self.seed), *(str(sorted(map(str.lower, _swapped(side)))) for side in self.pieces)

    @property
    def direction(self) -> tuple[Any, ...]:
        """The swap, and both decisions."""
        return *self.traits[1:], str(self.decision)

    def _sides(self) -> dict[str, Any]:
        return {"text": self.text, "counterpart_text": self.counterpart_text}

    def _more(self) -> dict[str, Any]:
        return {"seed": self.seed, "changed": [list(edit) for edit in self.changed]}


def select_pairs(run: Run, n: int = 3, data: Any = None, show: str = SYNTHETIC) -> list[Pair]:
    """Choose findings to show: realistic ones with wide gaps first, and diverse ones.

    Rows of the data are not among them by default; if there is nothing else, most of their values are left out.

    Parameters
    ----------
    run
        The run; its first 5,000 findings are considered.
    n
        Maximum number of pairs.
    data
        A frame of real rows; pairs that resemble them come first. Texts are compared with their originals.
    show
        ``"synthetic"``; ``"real"``, also rows of the data as they are; or ``"none"``.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> run = eh.audit(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, strategy="themis")
    >>> [pair.sentence for pair in select_pairs(run, 1)]
    ['age 3, sex F: True. The same person with sex M: False.']
    """
    if show == NONE:
        return []
    at = np.arange(run.found)
    if show == SYNTHETIC:
        at = others if len(others := np.flatnonzero(~run.from_data)) else at
    at = at[:CANDIDATES]
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
    return shown_pairs(run, choose(run.pairs, at, n, strange, apart), show)


def shown_pairs(run: Run, at: npt.ArrayLike, show: str = SYNTHETIC) -> list[Pair]:
    """Give findings at some places as pairs for readers, by default with little of those that are rows of the data."""
    places = np.asarray(at, dtype=np.int64)
    pairs = pairs_at(run.pairs, places)
    if show == REAL:
        return pairs
    hidden = np.ones(len(places), dtype=bool) if show == NONE else run.from_data[places]
    return [pair.masked() if hide else pair.synthetic() for pair, hide in zip(pairs, hidden, strict=True)]


def choose(
    pairs: Findings, at: Positions, n: int, strange: npt.NDArray[Any] | None = None, apart: Numbers | None = None
) -> Positions:
    """Choose among findings at some positions: not ``strange``, with wide gaps, not far ``apart`` from real people."""
    gaps = pairs.select("gap", at) if "gap" in pairs.joined() else np.ones(len(at))
    strange = np.zeros(len(at), dtype=bool) if strange is None else strange
    order = np.lexsort((np.zeros(len(at)) if apart is None else apart, -gaps, strange))
    most, real = max(10 * n, len(at) // SHARE), int((strange == 0).sum())
    best = at[order[: min(most, real) if real >= n else most]]
    return best[unlike(*_traits(pairs, best), n)]


def unlike(traits: npt.NDArray[Any], directions: npt.NDArray[Any], n: int) -> Positions:
    """Choose rows one by one: new directions first, then the row that differs most from those chosen."""
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
    """Return codes of the traits that distinguish findings, and a number for their direction."""
    if not pairs.space.supports("attributes"):
        made = pairs_at(pairs, at)
        return np.array([pair.traits for pair in made]), _numbered(np.array([pair.direction for pair in made]))
    space, rows = pairs.space, pairs.individuals("individual", at).rows
    decisions = [pairs.select(name, at) for name in ("decision", "counterpart_decision")]
    # The numbers of a regression are all different, so the direction is which of the two is larger.
    codes = [np.sign(decisions[0] - decisions[1])] if decisions[0].dtype.kind == "f" else decisions
    return rows[:, space.free_columns], _numbered(np.column_stack([rows[:, space.protected_columns], *codes]))


def _numbered(rows: npt.NDArray[Any]) -> Positions:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def pairs_at(pairs: Findings, at: npt.ArrayLike) -> list[Pair]:
    """Return findings at some positions as pairs."""
    places = np.asarray(at, dtype=np.int64)
    if not len(places):
        return []
    order = np.argsort(places, kind="stable")
    made = _made(pairs, places[order])
    return [made[i] for i in np.argsort(order)]


def _made(pairs: Findings, at: Positions) -> list[Pair]:
    """Make pairs of findings at sorted positions."""
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
    """Make pairs of rows of codes, their decisions and, if known, the differences of their scores."""
    # Protected attributes come first, then those that follow them.
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
    """Return rows of codes as the user's names and values."""
    columns = space.values(rows, space.names)
    return [{name: native(columns[name][i]) for name in space.names} for i in range(len(rows))]


def _lexicons(texts: Sequence[str], others: Sequence[str], lexicons: Sequence[Any]) -> list[tuple[str, ...]]:
    """Name the lexicon of each pair's swap; all lexicons if that is unclear."""
    every = tuple(lexicon.name for lexicon in lexicons)
    named = swaps(texts, others, lexicons)
    return [next(((lx.name,) for lx in lexicons if {*both} <= {*lx.identities}), every) for both in named]


def _swapped(side: Sequence[Piece]) -> list[str]:
    return [piece.text for piece in side if piece.kind == "swapped"]


def _written(side: Sequence[Piece]) -> str:
    marks = {"swapped": "[{0.text}]", "changed": "{{{0.was} -> {0.text}}}"}
    return "".join(marks.get(piece.kind, "{0.text}").format(piece) for piece in side)


class Piece(NamedTuple):
    """A part of a text, and what it is."""

    text: str
    kind: Kind
    was: str = ""
    """The word that a changed one replaced."""


def marked(text: str, other: str, changed: Sequence[Edit] = ()) -> tuple[list[Piece], list[Piece]]:
    """Cut a text and its counterpart into pieces; ``changed`` are edits of the text that the counterpart shares.

    >>> ours, theirs = marked("A kind Sikh spoke.", "A kind Jew spoke.", [(1, "nice", "kind")])
    >>> [(piece.text, piece.kind) for piece in ours]
    [('A ', 'same'), ('kind', 'changed'), (' ', 'same'), ('Sikh', 'swapped'), (' spoke.', 'same')]
    >>> "".join(piece.text for piece in theirs)
    'A kind Jew spoke.'
    """
    ours, theirs = split(text), split(other)
    stretches = differing(ours, theirs)
    was = {2 * position + 1: old for position, old, _ in changed}
    # Equal tokens are as far from the stretch before them in both texts.
    ends = [(0, 0), *((b, d) for _, b, _, d in stretches)]
    shifted = {
        place + next(d - b for b, d in reversed(ends) if b <= place): old
        for place, old in was.items()
        if not any(a <= place < b for a, b, _, _ in stretches)
    }
    return (
        list(_pieces(ours, [(a, b) for a, b, _, _ in stretches], was)),
        list(_pieces(theirs, [(c, d) for _, _, c, d in stretches], shifted)),
    )


def differing(ours: Sequence[str], theirs: Sequence[str]) -> list[Stretch]:
    """Find the stretches of tokens in which two texts differ; an article and its noun are one."""
    first, shorter = 0, min(len(ours), len(theirs))
    while first < shorter and ours[first] == theirs[first]:
        first += 1
    last = 0
    while last < shorter - first and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    a, b = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    found: list[Stretch] = []
    for tag, i, j, k, m in SequenceMatcher(None, a, b).get_opcodes():
        if tag == "equal":
            continue
        if found and first + i - found[-1][1] == 1 and not ours[first + i - 1].strip():
            found[-1] = (found[-1][0], first + j, found[-1][2], first + m)
        else:
            found.append((first + i, first + j, first + k, first + m))
    return found


def shortened(pieces: Sequence[Piece], longest: int = LONGEST) -> list[Piece]:
    """Cut what is equal in long texts, except around marks.

    >>> [piece.text for piece in shortened([Piece("x" * 500, "same"), Piece("Sikh", "swapped"), Piece(".", "same")])]
    ['…', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 'Sikh', '.']
    """
    if sum(len(piece.text) + len(piece.was) for piece in pieces) <= longest:
        return list(pieces)
    out: list[Piece] = []
    for at, piece in enumerate(pieces[:_MOST]):
        if piece.kind != "same":
            out.append(Piece(_clipped(piece.text), piece.kind, _clipped(piece.was)))
            continue
        left, right = _AROUND * (at > 0), _AROUND * (at < len(pieces) - 1)
        if len(piece.text) <= left + right + 1:
            out.append(piece)
            continue
        tail = piece.text[len(piece.text) - right :]
        out += [Piece(piece.text[:left], "same"), Piece("…", "cut"), Piece(tail, "same")]
    if len(pieces) > _MOST:
        out.append(Piece("…", "cut"))
    return [piece for piece in out if piece.text or piece.kind != "same"]


def swaps(texts: Sequence[str], others: Sequence[str], lexicons: Sequence[Lexicon]) -> list[tuple[str, str]]:
    """Name the identities that were swapped in each pair; where a lexicon has no name, the words themselves."""
    ours, theirs = _Named(texts, lexicons), _Named(others, lexicons)
    out = []
    for row, (text, other) in enumerate(zip(texts, others, strict=True)):
        left, right = split(text), split(other)
        a, b, c, d = next(iter(differing(left, right)), (0, 0, 0, 0))
        out.append((ours.name(row, a, b) or "".join(left[a:b]), theirs.name(row, c, d) or "".join(right[c:d])))
    return out


class _Named:
    """The terms of texts, by the places of their words."""

    def __init__(self, texts: Sequence[str], lexicons: Sequence[Lexicon]) -> None:
        identities = [name for lexicon in lexicons for name in lexicon.identities]
        # Where something was swapped, it is known to be a term.
        found = Finder(lexicons, "always").find(Texts.of(texts))
        self._terms: dict[int, list[tuple[int, int, str]]] = {}
        columns = (found.text, found.start, found.stop, found.identity)
        for row, start, stop, identity in zip(*(column.tolist() for column in columns), strict=True):
            self._terms.setdefault(row, []).append((2 * start + 1, 2 * stop, identities[identity]))

    def name(self, row: int, first: int, last: int) -> str:
        overlapping = (name for start, stop, name in self._terms.get(row, ()) if start < last and first < stop)
        return next(overlapping, "")


def _pieces(tokens: Sequence[str], stretches: Sequence[tuple[int, int]], was: dict[int, str]) -> Iterator[Piece]:
    """Join tokens of one kind."""
    marks: list[tuple[int, int, Kind]] = [(a, b, "swapped") for a, b in stretches]
    inside = {place for place in was for a, b in stretches if a <= place < b}
    marks += [(place, place + 1, "changed") for place in was if place not in inside and place < len(tokens)]
    done = 0
    for start, stop, kind in sorted(marks):
        if done < start:
            yield Piece("".join(tokens[done:start]), "same")
        yield Piece("".join(tokens[start:stop]), kind, was.get(start, "") if kind == "changed" else "")
        done = stop
    if done < len(tokens):
        yield Piece("".join(tokens[done:]), "same")


def _clipped(text: str) -> str:
    return text if len(text) <= _WORD else text[: _WORD - 1] + "…"
