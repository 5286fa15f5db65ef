"""Pairs of texts in pieces: what was swapped, what was changed before, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from evenhand.spaces.text.lexicon import Lexicon
from evenhand.spaces.text.matcher import Finder
from evenhand.spaces.text.tokens import Texts, split

Kind = Literal["same", "swapped", "changed", "cut"]
Edit = tuple[int, str, str]
"""The position of a word, the old word, the new one."""
Stretch = tuple[int, int, int, int]
"""Tokens of one text and of the other, each from the first to behind the last."""

LONGEST = 400
"""Characters of a text that are shown whole."""
_AROUND, _MOST, _WORD = 80, 60, 60
"""Of a longer one: characters around what is marked, pieces, characters of what is marked itself."""


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
    """Find the stretches of tokens in which two texts differ; an article and its noun are one.

    >>> differing(split("a Sikh, a Sikh"), split("an atheist, a Sikh"))
    [(1, 4, 1, 4)]
    """
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
    for number, piece in enumerate(pieces[:_MOST]):
        if piece.kind != "same":
            out.append(Piece(_clipped(piece.text), piece.kind, _clipped(piece.was)))
            continue
        left, right = _AROUND * (number > 0), _AROUND * (number < len(pieces) - 1)
        if len(piece.text) <= left + right + 1:
            out.append(piece)
            continue
        tail = piece.text[len(piece.text) - right :]
        out += [Piece(piece.text[:left], "same"), Piece("…", "cut"), Piece(tail, "same")]
    if len(pieces) > _MOST:
        out.append(Piece("…", "cut"))
    return [piece for piece in out if piece.text or piece.kind != "same"]


def swaps(texts: Sequence[str], others: Sequence[str], lexicons: Sequence[Lexicon]) -> list[tuple[str, str]]:
    """Name the identities that were swapped in each pair; where a lexicon has no name, the words themselves.

    >>> from evenhand.spaces.text.lexicon import load
    >>> swaps(["Two Jews met."], ["Two Native Americans met."], [load("religion"), load("race")])
    [('Jewish', 'Native American')]
    """
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
