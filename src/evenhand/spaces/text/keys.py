"""Keys of texts: two 64-bit sums of hashes, one of each word at its place, without the term that is swapped.

A sum does not depend on the order in which words were replaced. Where a text has a single term, the term is left out
and the words behind it move up, so that a whole family has one key. Words are hashed as they are written and not by
numbers of a vocabulary, which depend on the texts before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, mix
from evenhand.spaces.attributes import Mask
from evenhand.spaces.individuals import complex_keys
from evenhand.spaces.text.matcher import Casing, Occurrences
from evenhand.spaces.text.swaps import Swaps
from evenhand.spaces.text.tokens import WRITTEN, Case, Positions, Texts, Vocabulary, articles, ranges, vowel

_WORD, _GAP, _TERM, _ARTICLE, _LEAD = range(5)
_SALTS = (0x243F6A8885A308D3, 0x13198A2E03707344)


def _digest(word: str, lane: bytes) -> int:
    data = word.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=lane).digest(), "little")


_LEFT, _RIGHT = partial(_digest, lane=b"left"), partial(_digest, lane=b"right")


@dataclass(frozen=True, eq=False)
class Keys:
    """What the seeds of a run contribute to the keys of texts that are made from them.

    >>> from evenhand.spaces.text.lexicon import load
    >>> texts = Texts.of(["A Sikh, you know!", "An atheist, you know!", "A Sikh, you say!"])
    >>> swaps = Swaps([load("religion")], texts.vocabulary)
    >>> keys = Keys.of(texts, swaps.find(texts), swaps).of_texts(np.arange(3), texts)
    >>> bool(keys[0] == keys[1]), bool(keys[0] == keys[2])
    (True, False)
    """

    starts: Positions
    masked: Mask
    """For each word of the seeds, whether it belongs to the term, and so is not part of the key."""
    places: tuple[Bits, Bits]
    """For each word of the seeds, a hash of its place."""
    base: tuple[Bits, Bits]
    """For each seed, what never changes: the gaps, and the places and forms of its terms."""

    @classmethod
    def of(cls, texts: Texts, found: Occurrences, swaps: Swaps, *, together: bool = False) -> Keys:
        """Prepare the keys of what is made from texts, each of which has terms."""
        alone = found[_alone(texts, found, swaps, together)[found.text]]
        masked, inner, flat = alone.covered(texts), np.zeros(len(texts.words), dtype=bool), _flat(texts, alone)
        inner[ranges(flat + 1, alone.stop - alone.start - 1)] = True
        slots = np.cumsum(~inner) - 1
        slots -= slots[texts.starts[texts.rows]]
        # A gap inside a term stands before an inner word.
        outer = ~np.append(inner[1:], False)
        article = flat[articles(texts, flat)] - 1
        small = texts.vocabulary.cases[texts.words[article]] == Case.LOWER
        marks = alone.form * len(Casing) + alone.casing
        lanes = []
        for salt, digests in zip(_SALTS, _digests(texts.vocabulary), strict=True):
            gaps = np.where(outer, _hash(digests[texts.gaps], _place(slots, _GAP, salt)), np.uint64(0))
            base = _hash(digests[texts.leads], _place(np.zeros(len(texts), dtype=np.int64), _LEAD, salt))
            base += np.add.reduceat(gaps, texts.starts[:-1])
            np.add.at(base, alone.text, _hash(marks.astype(np.uint64), _place(slots[flat], _TERM, salt)))
            np.add.at(base, texts.rows[article], _hash(small.astype(np.uint64), _place(slots[article], _ARTICLE, salt)))
            lanes.append((_place(slots, _WORD, salt), base))
        (left, base), (right, other) = lanes
        return cls(texts.starts, masked, (left, right), (base, other))

    def of_texts(self, seeds: Positions, texts: Texts) -> npt.NDArray[np.complex128]:
        """Return the keys of texts that were made from seeds; their lowest bit is free."""
        return complex_keys(*self._lanes(seeds, texts, masked=True))

    def exact(self, seeds: Positions, texts: Texts) -> tuple[Bits, Bits]:
        """Return two hashes of each text as it stands, terms included."""
        return self._lanes(seeds, texts, masked=False)

    def _lanes(self, seeds: Positions, texts: Texts, masked: bool) -> tuple[Bits, Bits]:
        flat, lanes = ranges(self.starts[seeds], texts.lengths), []
        for digests, places, base in zip(_digests(texts.vocabulary), self.places, self.base, strict=True):
            hashes = _hash(digests[texts.words], places[flat])
            if masked:
                hashes[self.masked[flat]] = 0
            lanes.append(base[seeds] + np.add.reduceat(hashes, texts.starts[:-1]) if len(seeds) else base[seeds])
        return lanes[0], lanes[1]


def _flat(texts: Texts, found: Occurrences) -> Positions:
    out: Positions = texts.starts[found.text] + found.start
    return out


def _digests(vocabulary: Vocabulary) -> tuple[Bits, Bits]:
    return vocabulary.column(_LEFT, np.uint64), vocabulary.column(_RIGHT, np.uint64)


def _place(slots: Positions, kind: int, salt: int) -> Bits:
    return mix((slots * 8 + kind).astype(np.uint64) ^ np.uint64(salt))


def _hash(digests: Bits, places: Bits) -> Bits:
    return mix(digests ^ places)


def _alone(texts: Texts, found: Occurrences, swaps: Swaps, together: bool) -> Mask:
    """Return which texts have a single term, written as a swap would write it."""
    units = np.unique(np.stack([found.text, found.identity if together else found.start]), axis=1)[0]
    odd: Positions = np.bincount(found.text[~_regular(texts, found, swaps)], minlength=len(texts))
    alone: Mask = (np.bincount(units, minlength=len(texts)) == 1) & (odd == 0)
    return alone


def _regular(texts: Texts, found: Occurrences, swaps: Swaps) -> Mask:
    """Return which terms are spelled as a swap writes them, with the right article."""
    piece = swaps.table[found.form, found.identity] * len(Casing) + found.casing
    length, flat = found.stop - found.start, _flat(texts, found)
    fits = swaps.pieces.lengths[piece] == length
    here, there = ranges(flat[fits], length[fits]), ranges(swaps.pieces.starts[piece[fits]], length[fits])
    ends = np.cumsum(length[fits])
    same = texts.gaps[here] == swaps.pieces.gaps[there]
    same[ends - 1] = True
    same &= texts.words[here] == swaps.pieces.words[there]
    out: Mask = fits.copy()
    if len(ends):
        out[fits] = np.logical_and.reduceat(same, ends - length[fits])
    has = articles(texts, flat)
    out[has] &= _well_written(texts, flat[has], found.casing[has])
    return out


def _well_written(texts: Texts, flat: Positions, casing: Positions) -> Mask:
    """Return which articles before terms are written as a swap writes them."""
    vocabulary, article = texts.vocabulary, texts.words[flat - 1]
    sounds, cases = vocabulary.column(vowel, bool)[texts.words[flat]], vocabulary.cases
    upper = casing == Casing.UPPER
    case = np.where(cases[article] == Case.LOWER, Case.LOWER, np.where(upper, Case.UPPER, Case.TITLE))
    written = np.array([vocabulary.ids(WRITTEN[Case(kind)]) for kind in range(3)])
    right: Mask = article == written[case, sounds.astype(np.intp)]
    return right
