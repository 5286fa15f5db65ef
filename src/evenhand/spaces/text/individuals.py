"""Blocks of texts that were made from the texts of a run by replacing words; their keys and their families.

A key is two 64-bit sums of hashes, one of each word at its place, without the term that is swapped. A sum does not
depend on the order in which words were replaced. Where a text has a single term, the term is left out and the words
behind it move up, so that a whole family has one key. Words are hashed as they are written and not by numbers of a
vocabulary, which depend on the texts before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, mix
from evenhand.criteria import Groups
from evenhand.spaces.attributes import Mask
from evenhand.spaces.individuals import complex_keys
from evenhand.spaces.text.matcher import Casing, Counterparts, Occurrences, Options, Swaps
from evenhand.spaces.text.tokens import WRITTEN, Case, Ids, Positions, Texts, Vocabulary, articles, ranges, vowel

if TYPE_CHECKING:
    from evenhand.spaces.text.space import BoundTextSpace


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
    # Where families differ with the term, each text is a test of its own.
    apart: Positions = np.bincount(found.text[(found.bars > 0) | swaps.varied[found.form]], minlength=len(texts))
    alone: Mask = (np.bincount(units, minlength=len(texts)) == 1) & (odd == 0) & (apart == 0)
    return alone


def _regular(texts: Texts, found: Occurrences, swaps: Swaps) -> Mask:
    """Return which terms are spelled as a swap writes them, with the right article."""
    piece = swaps.first[found.form, found.identity] * len(Casing) + found.casing
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


class TextIndividuals:
    """Texts, thousands at a time, each with the number of its seed.

    A free change replaces one word by one word, so the words of a text stand where those of its seed do.
    """

    __slots__ = ("_keys", "bound", "seeds", "texts")

    def __init__(
        self, bound: BoundTextSpace, seeds: Positions, texts: Texts, keys: npt.NDArray[np.complex128] | None = None
    ) -> None:
        self.bound, self.seeds, self.texts, self._keys = bound, seeds, texts, keys

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, which: Any) -> TextIndividuals:
        """Return some of them, by mask, positions or slice."""
        keys = None if self._keys is None else self._keys[which]
        return TextIndividuals(self.bound, self.seeds[which], self.texts[which], keys)

    @property
    def keys(self) -> npt.NDArray[np.complex128]:
        """What identifies each one's test: its words, without a single term."""
        if self._keys is None:
            self._keys = self.bound.keys.of_texts(self.seeds, self.texts)
        return self._keys

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """A hash of each text as it stands."""
        left, right = self.bound.keys.exact(self.seeds, self.texts)
        return (mix(left ^ mix(right)) >> np.uint64(1)).view(np.int64)

    @property
    def rows(self) -> list[str]:
        """The texts as the model reads them."""
        return self.texts.strings()

    @property
    def stored(self) -> npt.NDArray[np.uint64]:
        """The position of each seed in the data, and a hash of the text as it stands."""
        positions = self.bound.positions[self.seeds].astype(np.uint64)
        return np.stack([positions, *self.bound.keys.exact(self.seeds, self.texts)], axis=1)

    def put(self, flat: npt.NDArray[np.integer[Any]], words: Ids) -> TextIndividuals:
        """Return the texts with other words at some places of ``texts.words``."""
        return TextIndividuals(self.bound, self.seeds, self.texts.put(flat, words))

    def changes(self) -> tuple[Positions, Positions, Ids, Ids]:
        """Return every free edit: of which text, at which word, the seed's word, the new word."""
        flat = self.bound.flat(self)
        at = np.flatnonzero(self.bound.texts.words[flat] != self.texts.words)
        row = self.texts.rows[at]
        return row, at - self.texts.starts[row], self.bound.texts.words[flat[at]], self.texts.words[at]

    @staticmethod
    def join(parts: Sequence[TextIndividuals]) -> TextIndividuals:
        """Put blocks one after the other."""
        return TextIndividuals(
            parts[0].bound,
            np.concatenate([part.seeds for part in parts]),
            Texts.join([part.texts for part in parts]),
            np.concatenate([part.keys for part in parts]),
        )


class TextFamilies:
    """The counterparts of texts, family after family; a text itself has the first place.

    A counterpart differs from its text in a window around the term. Only windows are built word by word; the rest is
    copied from the text as it is written.
    """

    testable = None

    def __init__(self, individuals: TextIndividuals, found: Occurrences, options: Options, seed: int) -> None:
        self.individuals, self._found, self._options, self._seed = individuals, found, options, seed
        self.places: Positions = 1 + np.bincount(options.source, minlength=len(individuals))
        self.starts: Positions = np.cumsum(self.places) - self.places
        self.own = np.zeros(len(individuals), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, which: npt.NDArray[Any]) -> TextFamilies:
        """Return some of the families."""
        return self.individuals.bound.families(self.individuals[which], self._seed)

    @cached_property
    def valid(self) -> Mask:
        """Which places exist: families differ in size."""
        return np.arange(int(self.places.max(initial=1))) < self.places[:, None]

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that does not exist repeats the text's own answer."""
        return answers[self.starts[:, None] + np.where(self.valid, np.arange(self.valid.shape[1]), 0)]

    @property
    def identities(self) -> tuple[Positions, Positions, Positions]:
        """Return which identity stands in which member: its family, its place there, the identity.

        A text stands for the identity of each of its terms that can be swapped, a counterpart for the one swapped in.
        """
        options = self._options
        unit, first = np.unique(options.unit, return_index=True)
        own = options.source[first]
        # Each identity in its first spelling.
        new = np.append(True, (np.diff(options.unit) != 0) | (np.diff(options.identity) != 0))[: len(options)]
        swapped = np.flatnonzero(new & (options.identity != self._found.identity[options.unit]))
        source = options.source[swapped]
        return (
            np.concatenate([own, source]),
            np.concatenate([np.zeros_like(own), self._others[swapped] - self.starts[source]]),
            np.concatenate([self._found.identity[unit], options.identity[swapped]]),
        )

    @property
    def respelled(self) -> tuple[Positions, Positions, Positions]:
        """Return the members that spell a text's own identity otherwise: family, place there, identity."""
        options = self._options
        own = np.flatnonzero(options.identity == self._found.identity[options.unit])
        source = options.source[own]
        return source, self._others[own] - self.starts[source], options.identity[own]

    @cached_property
    def groups(self) -> Groups | None:
        """Which places spell the same identity for the same term; None if each has one spelling only."""
        options = self._options
        if not self.individuals.bound.swaps.varied[self._found.form].any():
            return None
        names = len(self.individuals.bound.swaps.identities)
        group = options.unit * names + options.identity + len(self)
        source = options.unit * names + self._found.identity[options.unit] + len(self)
        filled = np.repeat(np.arange(len(self)), self.places)
        parts = []
        for column in (group, source):
            members = filled.copy()
            members[self._others] = column
            parts.append(members)
        numbers = np.unique(np.stack(parts), return_inverse=True)[1].reshape(2, -1)
        return Groups(self.to_grid(numbers[0]), self.to_grid(numbers[1]))

    def most_different(self, places: npt.NDArray[np.int64]) -> Positions:
        """Name one member of each family."""
        codes = np.full(int(self.places.sum()), -1)
        codes[self._others] = self.individuals.bound.codes(self._found, self._options)
        return codes[self.at(np.arange(len(self)), places)]

    def at(self, which: Positions, places: Positions) -> Positions:
        """Return where members of some families stand among all; a place that does not exist is the text itself."""
        out: Positions = self.starts[which] + np.where(places < self.places[which], places, 0)
        return out

    @cached_property
    def asked(self) -> list[str]:
        """The texts that the model is asked, family after family."""
        texts, (low, high), (windows, _) = self.individuals.texts, self._bounds, self._windows
        lengths = texts.vocabulary.column(len, np.int64)
        ends = np.append(0, np.cumsum(lengths[texts.words] + lengths[texts.gaps]))
        begins = texts.starts[self._options.source]
        offset = lengths[texts.leads[self._options.source]] - ends[begins]
        left, right = (ends[begins + low] + offset).tolist(), (ends[begins + high] + offset).tolist()
        own, source = texts.strings(), self._options.source.tolist()
        pieces = zip(source, left, windows.strings(), right, strict=True)
        out = np.empty(int(self.places.sum()), dtype=object)
        out[self.starts] = own
        out[self._others] = [own[i][:a] + window + own[i][b:] for i, a, window, b in pieces]
        return out.tolist()

    def shifted(self, member: int, position: int) -> int:
        """Return where a free word of a text stands in one of its members."""
        option = member - int(np.searchsorted(self.starts, member, side="right"))
        (low, high), (windows, origin) = self._bounds, self._windows
        begin, end = windows.starts[option], windows.starts[option + 1]
        if position < low[option]:
            return position
        if position >= high[option]:
            return int(position + end - begin - (high[option] - low[option]))
        return int(low[option] + np.flatnonzero(origin[begin:end] == position - low[option])[0])

    @property
    def _others(self) -> Positions:
        """Where the counterparts stand among all members."""
        return np.arange(len(self._options)) + self._options.source + 1

    @cached_property
    def _bounds(self) -> tuple[Positions, Positions]:
        """The words of each text among which a counterpart differs; one before the term, which may be its article."""
        options, order = self._options, self._options.order
        low = np.maximum(self._found.start[order[options.begin]] - 1, 0)
        return low, self._found.stop[order[options.begin + options.count - 1]]

    @cached_property
    def _windows(self) -> tuple[Texts, Positions]:
        options, (low, high) = self._options, self._bounds
        windows = self.individuals.texts.cut(options.source, low, high)
        return self.individuals.bound.swaps.swapped(windows, self._found, options, np.arange(len(options)), low)


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Texts, a counterpart of each, and what the model decides for the texts."""

    individuals: TextIndividuals
    most_different: Counterparts | None
    """None if a search uses the texts alone."""
    classes: npt.NDArray[np.int64]
    """The decisions, as columns of the scores."""

    def __len__(self) -> int:
        return len(self.individuals)

    def __getitem__(self, which: Any) -> TextPairs:
        """Return some of them, by mask, positions or slice."""
        most_different = None if self.most_different is None else self.most_different[which]
        return TextPairs(self.individuals[which], most_different, self.classes[which])

    @property
    def alone(self) -> TextPairs:
        """The texts without their counterparts."""
        return replace(self, most_different=None)

    @property
    def sides(self) -> int:
        """How many texts there are of each."""
        return 1 if self.most_different is None else 2

    @cached_property
    def places(self) -> Positions:
        """For each word of the texts, where it stands among all words of the counterparts; -1 if it does not."""
        assert self.most_different is not None
        texts, (others, origin) = self.individuals.texts, (self.most_different.texts, self.most_different.origin)
        there = np.flatnonzero(origin >= 0)
        places = np.full(len(texts.words), -1)
        places[texts.starts[others.rows[there]] + origin[there]] = there
        return places
