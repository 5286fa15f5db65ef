"""Protected terms in texts: finding them, and replacing them by each other term that fits there.

The longest term is found first, at word boundaries, in the form that fits the context.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.text.lexicon import Form, Lexicon
from evenhand.spaces.text.tokens import (
    Case,
    Positions,
    Texts,
    Vocabulary,
    agree,
    articles,
    is_article,
    plain,
    ranges,
    splice,
    split,
)


class Casing(IntEnum):
    """How a term in a text differs from its spelling in the lexicon; what replaces it differs in the same way."""

    SAME = 0
    LOWER = 1
    UPPER = 2
    CAPITAL = 3

    @classmethod
    def of(cls, found: str, spelling: str, starts: bool) -> Casing:
        """Compare a term with its spelling; ``starts`` if a sentence starts with it."""
        if found == spelling:
            return cls.CAPITAL if starts and found[:1].isupper() else cls.SAME
        if Case.of(found) is Case.UPPER:
            return cls.UPPER
        if found == found.lower():
            return cls.LOWER
        return cls.CAPITAL if found[:1].isupper() else cls.SAME

    def write(self, spelling: str) -> str:
        """Write another term in this way."""
        if self is Casing.CAPITAL:
            return spelling[:1].upper() + spelling[1:]
        return spelling.upper() if self is Casing.UPPER else spelling.lower() if self is Casing.LOWER else spelling


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Terms found in a block of texts, in order: words ``start`` to ``stop`` of ``text``, with identity and form."""

    text: Positions
    start: Positions
    stop: Positions
    form: Positions
    identity: Positions
    casing: Positions

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, which: Any) -> Occurrences:
        """Return some of them, by mask, numbers or slice."""
        return Occurrences(*(getattr(self, field.name)[which] for field in fields(self)))

    def of(self, rows: npt.NDArray[np.integer[Any]]) -> Occurrences:
        """Return the terms of texts that were made from these, where text ``i`` was made from ``rows[i]``.

        A free change replaces one word by one word, so terms stay where they were.
        """
        size = int(max(self.text.max(initial=-1), rows.max(initial=-1))) + 1
        counts = np.bincount(self.text, minlength=size)
        found = self[ranges((np.cumsum(counts) - counts)[rows], counts[rows])]
        found.text[:] = np.repeat(np.arange(len(rows)), counts[rows])
        return found

    def covered(self, texts: Texts) -> Mask:
        """Return which words of the texts belong to a term or are the article before one; the others are free."""
        out = np.zeros(len(texts.words), dtype=bool)
        flat = texts.starts[self.text] + self.start
        out[flat[articles(texts, flat)] - 1] = True
        out[ranges(flat, self.stop - self.start)] = True
        return out

    def without(self, texts: Texts) -> Positions:
        """Return the texts without any term, which cannot be tested."""
        return np.setdiff1d(np.arange(len(texts)), self.text)


_CLASSES = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(files("evenhand.spaces.text").joinpath("english.toml").read_text("utf-8")).items()
}
SINGULAR, PLURAL, DEFINITE, BE, DEGREE = (_CLASSES[name] for name in ("singular", "plural", "definite", "be", "degree"))
FUNCTION = SINGULAR | PLURAL | DEFINITE | BE | DEGREE | _CLASSES["others"]


@dataclass(frozen=True)
class Context:
    """Three words to each side in lower case, nearest first; empty if a gap keeps them apart."""

    before: Sequence[str]
    after: Sequence[str]

    @property
    def modifies(self) -> bool:
        """Whether the term goes with the word behind it, as an adjective does: "a Christian school"."""
        follower = self.after[0]
        if not follower or follower in FUNCTION or follower.endswith(("ly", "ed")):
            return False
        # No plural follows "a Christian", so "believes" must be a verb.
        return not (self.before[0] in SINGULAR and follower.endswith("s") and not follower.endswith(("ss", "us", "is")))

    @property
    def possesses(self) -> bool:
        """Whether the term goes with a noun phrase behind it, as "his" and "her" do: "her two sons", "her only son"."""
        if self.after[0] in _CLASSES["inner"]:
            return self._goes_on(1) and not _adverb(self.after[1])
        return bool(self.after[0]) and self.after[0] not in FUNCTION and self.before[0] not in _CLASSES["letting"]

    @property
    def receives(self) -> bool:
        """Whether "her" is "him" in spite of the word behind it: "saw her naked", "told her everything"."""
        follower = self.after[0]
        if follower in _CLASSES["nouns"] or not self.before[0]:
            return False
        if follower in _CLASSES["states"] or _adverb(follower):
            return not self._goes_on(1)
        if follower in _CLASSES["passing"]:
            return self.after[1] in _CLASSES["times"] and self.before[0] not in _CLASSES["during"]
        return follower in _CLASSES["loose"] or (
            follower.endswith(("ing", "ed")) and self.before[0] in _CLASSES["seeing"]
        )

    def _goes_on(self, n: int) -> bool:
        """Whether a noun phrase goes on with the n-th word behind."""
        word = self.after[n]
        return bool(word) and word not in FUNCTION | _CLASSES["loose"] | _CLASSES["passing"]

    @property
    def predicate(self) -> bool:
        """Whether the term is a predicate: "they are Christian", "deeply Christian"."""
        return self.before[0] in BE or self.before[0] in DEGREE or self.before[0].endswith("ly")

    @property
    def of_person(self) -> bool:
        """Whether an adjective describes a person: "black and white men", "he is black"."""
        for follower in self.after:
            if follower in _CLASSES["people"]:
                return True
            if not follower or (follower in FUNCTION and follower not in ("and", "or")):
                break
        subjects = _CLASSES["subjects"] | _CLASSES["people"]
        return self.predicate and (self.before[1] in subjects or self.before[2] in subjects)

    @property
    def of_place(self) -> bool:
        """Whether a name is of a place: "from Turkey", "in the US", "Turkey's army"."""
        if self.before[self.before[0] == "the"] in _CLASSES["placing"]:
            return True
        return self.after[0] == "'s" and self.after[1] in _CLASSES["national"]


def _adverb(word: str) -> bool:
    return word.endswith("ly") and word not in _CLASSES["nouns"]


def read(forms: Sequence[Form], context: Context) -> Form | None:
    """Choose the form of a term in its context; None if it has none, as "German" in "speaks German"."""
    kinds = {form.number if form.speech == "noun" else form.speech: form for form in forms}
    if "adjective" in kinds and context.before[0] in _CLASSES["language"] and not context.modifies:
        return None
    if len(forms) == 1:
        return forms[0]
    if "determiner" in kinds:
        possesses = context.possesses and not ("object" in kinds and context.receives)
        return kinds["determiner"] if possesses else next(form for form in forms if form.speech != "determiner")
    order = ["plural", "adjective", "singular"]
    if context.modifies:
        order = ["adjective"]
    elif "mass" in kinds:
        order = ["mass"]
    elif (before := context.before[0]) in SINGULAR:
        order = ["singular"]
    elif context.predicate:
        order = ["adjective"]
    elif before and (before in DEFINITE or before not in FUNCTION):
        order = ["plural", "singular"]
    return next((kinds[kind] for kind in order if kind in kinds), forms[0])


def plausible(form: Form, context: Context, proper: bool) -> bool:
    """Whether an ambiguous word is a term in its context; ``proper`` if it is spelled with a capital, as names are."""
    if form.name == "place":
        return context.of_place
    if proper:
        # "Polish the car!"
        return form.speech != "adjective" or context.modifies or bool(context.before[0])
    if form.speech == "adjective":
        return context.of_person
    return context.before[0] in SINGULAR | PLURAL | DEFINITE


Ambiguous = Literal["context", "always", "never"]
AMBIGUOUS: tuple[Ambiguous, ...] = ("context", "always", "never")
_HYPHENS = ("-", "\u2010", "\u2011", "/")
_ENDS = re.compile(r"[.!?:\n]")
_DOMAINS = frozenset(["com", "org", "net", "edu", "gov", "info", "io"])
_EXCLAMATIONS = frozenset({"man", "boy"})


class _Term(NamedTuple):
    """One spelling of a lexicon, as the words that it is looked up by; several forms may share it."""

    lexicon: int
    words: tuple[str, ...]
    the: bool
    spelling: str
    readings: tuple[tuple[Form, int, int], ...]
    """Its forms, with the numbers of form and identity; empty for an excepted phrase."""
    ambiguous: bool
    capital: bool
    stands_alone: bool
    """Whether it is not a term before a noun, as "the UK" in "the UK government"."""


class Finder:
    """Finds the terms of lexicons; forms and identities are numbered across all lexicons.

    If several lexicons have a term, it belongs to the first. ``ambiguous`` is as in ``TextSpace``.

    >>> from evenhand.spaces.text.lexicon import load
    >>> found = Finder([load("religion")]).find(Texts.of(["The Jewish and the Sikh community", "Somebody"]))
    >>> found.text.tolist(), found.start.tolist(), found.identity.tolist()
    ([0, 0], [1, 4], [5, 8])
    """

    def __init__(self, lexicons: Sequence[Lexicon], ambiguous: str = "context") -> None:
        self.ambiguous = check_choice("ambiguous", ambiguous, AMBIGUOUS, SpaceError)
        self._heads: dict[str, list[_Term]] = {}
        for term in _terms(lexicons):
            self._heads.setdefault(term.words[0], []).append(term)
        for terms in self._heads.values():
            terms.sort(key=lambda term: len(term.words) + term.the, reverse=True)

    def find(self, texts: Texts) -> Occurrences:
        """Find all terms; of overlapping terms, the one that starts first, then the longest."""
        return self.look(texts)[0]

    def look(self, texts: Texts) -> tuple[Occurrences, Mask]:
        """Find all terms, and the words on which the result depends.

        All other words can be replaced by any that is not a ``head`` without a change of the terms.
        """
        hits = np.flatnonzero(texts.vocabulary.column(self.head, bool)[texts.words])
        rows, look = texts.rows[hits], _Look(texts)
        found: list[tuple[int, ...]] = []
        ends = texts.starts[:-1].tolist()
        # Up to where the words are an excepted phrase, by lexicon.
        blocked: dict[tuple[int, int], int] = {}
        for hit, row, first, last in zip(
            hits.tolist(), rows.tolist(), texts.starts[rows].tolist(), texts.starts[rows + 1].tolist(), strict=True
        ):
            for term in self._heads[look.lower(hit)] if hit >= ends[row] else ():
                start, stop, own = hit - term.the, hit + len(term.words), (row, term.lexicon)
                if start < max(ends[row], blocked.get(own, 0)) or stop > last or not look.matches(term, start, stop):
                    continue
                if look.is_handle(row, start, stop, first, last) or look.is_exclamation(start, stop, first):
                    continue
                if not term.readings:
                    blocked[own] = stop
                    continue
                reading = self._read(term, look.context(start, stop, first, last))
                if reading is not None:
                    casing = look.casing(term, start, stop, first)
                    found.append((row, start - first, stop - first, *reading, casing))
                    ends[row] = stop
                    break
        return Occurrences(*np.array(found, dtype=np.int64).reshape(-1, 6).T), look.seen

    def head(self, word: str) -> bool:
        """Whether a term, or an excepted phrase, begins with this word."""
        return _plain(word) in self._heads

    def _read(self, term: _Term, context: Context) -> tuple[int, int] | None:
        """Return which form and identity a match has here, None if it is not a term."""
        if term.ambiguous and self.ambiguous == "never":
            return None
        form = read([form for form, _, _ in term.readings], context)
        if form is None or (term.stands_alone and context.modifies):
            return None
        proper = term.spelling != term.spelling.lower()
        if term.ambiguous and self.ambiguous == "context" and not plausible(form, context, proper):
            return None
        return next((j, i) for found, j, i in term.readings if found is form)


def _terms(lexicons: Sequence[Lexicon]) -> list[_Term]:
    """List the excepted phrases of each lexicon, then its terms."""
    out = []
    forms = identities = 0
    for n, lexicon in enumerate(lexicons):
        out += [_Term(n, _words(phrase), False, phrase, (), False, False, False) for phrase in lexicon.phrases]
        spellings: dict[str, str] = {}
        readings: dict[str, list[tuple[Form, int, int]]] = {}
        for i, j, spelling in lexicon.spellings():
            spellings.setdefault(spelling.lower(), spelling)
            readings.setdefault(spelling.lower(), []).append((lexicon.forms[j], forms + j, identities + i))
        for lower, spelling in spellings.items():
            bare = lower.removeprefix("the ")
            ambiguous = bool({lower, bare} & lexicon.ambiguous)
            capital = lexicon.capital or (ambiguous and spelling != lower) or spelling.isupper()
            alone = bare != lower and any(form.speech == "adjective" for form, _, _ in readings.get(bare, ()))
            known = _words(bare), bare != lower, spelling, tuple(readings[lower])
            out.append(_Term(n, *known, ambiguous, capital, alone))
        forms, identities = forms + len(lexicon.forms), identities + len(lexicon.identities)
    return out


def _plain(word: str) -> str:
    return word.lower().replace("\u2019", "'")


def _words(spelling: str) -> tuple[str, ...]:
    return tuple(map(_plain, split(spelling)[1::2]))


class _Look:
    """Reads single words of texts and records which were read."""

    def __init__(self, texts: Texts) -> None:
        self.texts, self.words = texts, texts.vocabulary.words
        self.seen = np.zeros(len(texts.words), dtype=bool)

    def word(self, at: int) -> str:
        self.seen[at] = True
        return str(self.words[self.texts.words[at]])

    def lower(self, at: int) -> str:
        return _plain(self.word(at))

    def gap(self, at: int) -> str:
        return str(self.words[self.texts.gaps[at]])

    def matches(self, term: _Term, start: int, stop: int) -> bool:
        words = ("the", *term.words) if term.the else term.words
        if not all(_glued(self.gap(at)) for at in range(start, stop - 1)):
            return False
        if any(self.lower(start + n) != word for n, word in enumerate(words)):
            return False
        name = self.word(start + term.the)
        return not term.capital or (name.isupper() if term.spelling.isupper() else name[:1].isupper())

    def is_handle(self, row: int, start: int, stop: int, first: int, last: int) -> bool:
        """Whether words are in the name of a user or a site: "@muslim", "muslim.com"."""
        before = self.gap(start - 1) if start > first else str(self.words[self.texts.leads[row]])
        return before.endswith("@") or (stop < last and self.gap(stop - 1) == "." and self.word(stop) in _DOMAINS)

    def is_exclamation(self, start: int, stop: int, first: int) -> bool:
        """Whether a word is an exclamation: "Man, that hurts!"."""
        if stop - start > 1 or self.lower(start) not in _EXCLAMATIONS or not self.gap(start).startswith((",", "!")):
            return False
        return start == first or _ENDS.search(self.gap(start - 1)) is not None

    def casing(self, term: _Term, start: int, stop: int, first: int) -> int:
        starts = start == first or _ENDS.search(self.gap(start - 1)) is not None
        found = " ".join(map(self.word, range(start, stop)))
        return int(Casing.of(found, " ".join(split(term.spelling)[1::2]), starts))

    def context(self, start: int, stop: int, first: int, last: int) -> Context:
        before, after = range(start - 1, max(start - 4, first - 1), -1), range(stop, min(stop + 3, last))
        return Context(_Side(self, before, before), _Side(self, after, range(stop - 1, last)))


class _Side(Sequence[str]):
    """The words to one side of a term, each read when needed; ``gaps`` stand between it and the last."""

    def __init__(self, look: _Look, places: Sequence[int], gaps: Sequence[int]) -> None:
        self._look, self._places, self._gaps = look, places, gaps

    def __len__(self) -> int:
        return 3

    def __getitem__(self, n: Any) -> Any:
        if n >= 3:
            raise IndexError(n)
        if n >= len(self._places) or not all(_near(self._look.gap(at)) for at in self._gaps[: n + 1]):
            return ""
        return self._look.lower(self._places[n])


def _glued(gap: str) -> bool:
    """Whether two words are one phrase: "African American", "African-American"."""
    return gap in _HYPHENS or (not gap.strip() and gap.count("\n") < 2)


def _near(gap: str) -> bool:
    return gap == "-" or plain(gap)


@dataclass(frozen=True, eq=False)
class Options:
    """Possible swaps, in the order of the texts."""

    source: Positions
    """The text of each."""
    unit: Positions
    """Which term: the number of the occurrence or, of several together, of the first."""
    identity: Positions
    """The identity that is swapped in."""
    order: Positions
    """Occurrences, those that are swapped together one after the other."""
    begin: Positions
    """Where those of each option begin in the order."""
    count: Positions
    """How many are swapped together."""

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, which: Any) -> Options:
        """Return some of them, by mask or numbers."""
        return Options(
            self.source[which], self.unit[which], self.identity[which], self.order, self.begin[which], self.count[which]
        )


@dataclass(frozen=True, eq=False)
class Counterparts:
    """Texts that differ from others in a protected term only, in the order of those."""

    texts: Texts
    source: Positions
    """Which text each was made from."""
    unit: Positions
    """Which term was swapped: the number of the occurrence or, of several together, of the first."""
    identity: Positions
    """What it was swapped for."""
    origin: Positions
    """For each word of ``texts``, where it stands in its source; -1 if it belongs to the new term."""

    def __getitem__(self, which: Any) -> Counterparts:
        """Return some of them, by mask, numbers or slice."""
        rows = np.arange(len(self.texts))[which]
        words = ranges(self.texts.starts[rows], self.texts.lengths[rows])
        return Counterparts(
            self.texts[rows], self.source[rows], self.unit[rows], self.identity[rows], self.origin[words]
        )


class Swaps:
    """The terms of lexicons, ready to be found and swapped in texts of one vocabulary.

    Terms are swapped for those of the same lexicon and form. ``ambiguous`` is as in ``TextSpace``.

    >>> from evenhand.spaces.text.lexicon import load
    >>> texts = Texts.of(["A Christian wrote it.", "Somebody did."])
    >>> swaps = Swaps([load("religion")], texts.vocabulary)
    >>> found = swaps.find(texts)
    >>> len(found), found.without(texts).tolist()
    (1, [1])
    >>> swaps.counterparts(texts, found).texts.strings()[-3:]
    ['A Zoroastrian wrote it.', 'An atheist wrote it.', 'An agnostic wrote it.']
    """

    def __init__(self, lexicons: Sequence[Lexicon], vocabulary: Vocabulary, ambiguous: str = "context") -> None:
        self.vocabulary = vocabulary
        self.finder = Finder(lexicons, ambiguous)
        self.identities = [name for lexicon in lexicons for name in lexicon.identities]
        self.table, spellings = _table(lexicons)
        """The number of what is written for a form (row) of an identity (column); -1 if there is none."""
        self.pieces = Texts.of([casing.write(text) for text in spellings for casing in Casing], vocabulary)

    def find(self, texts: Texts) -> Occurrences:
        """Find all terms that can be swapped."""
        return self.look(texts)[0]

    def look(self, texts: Texts) -> tuple[Occurrences, Mask]:
        """Find all terms that can be swapped, and the words that this depends on."""
        found, seen = self.finder.look(texts)
        return found[(self.table[found.form] >= 0).sum(axis=1) > 1], seen

    def fixed(self, word: str) -> bool:
        """Whether a word must neither come nor go for terms to stay: a term begins with it, or it is an article."""
        return self.finder.head(word) or is_article(word)

    def counterparts(self, texts: Texts, found: Occurrences, *, together: bool = False) -> Counterparts:
        """Swap terms for those of every other identity that has their form; capitals and articles follow.

        One occurrence at a time or, ``together``, all occurrences of an identity in a text.

        >>> from evenhand.spaces.text.lexicon import load
        >>> texts = Texts.of(["He lost his keys."])
        >>> swaps = Swaps([load("gender")], texts.vocabulary)
        >>> swaps.counterparts(texts, swaps.find(texts)).texts.strings()
        ['She lost his keys.', 'He lost her keys.']
        >>> swaps.counterparts(texts, swaps.find(texts), together=True).texts.strings()
        ['She lost her keys.']
        """
        options = self.options(found, together=together)
        made, origin = self.swapped(texts[options.source], found, options, np.arange(len(options)))
        return Counterparts(made, options.source, options.unit, options.identity, origin)

    def options(self, found: Occurrences, *, together: bool = False) -> Options:
        """List what ``counterparts`` swaps, without swapping."""
        first, order, counts = _units(found, together)
        begin = np.cumsum(counts) - counts
        unit, identity = np.nonzero(self._fits(found, first, order, begin))
        return Options(found.text[first[unit]], first[unit], identity, order, begin[unit], counts[unit])

    def widths(self, found: Occurrences, texts: int, *, together: bool = False) -> Positions:
        """Count the counterparts of each of so many texts."""
        first, order, counts = _units(found, together)
        fits = self._fits(found, first, order, np.cumsum(counts) - counts).sum(axis=1)
        return np.bincount(found.text[first], weights=fits, minlength=texts).astype(np.int64)

    def swapped(
        self,
        texts: Texts,
        found: Occurrences,
        options: Options,
        rows: Positions,
        shift: Positions | int = 0,
    ) -> tuple[Texts, Positions]:
        """Swap an option in each of ``rows``; the other texts stay as they are.

        Where the texts are pieces, ``shift`` is the word at which each begins. Also returned is, for each word of the
        new texts, its old position, or -1 if it belongs to a new term.
        """
        row, which = np.repeat(rows, options.count), options.order[ranges(options.begin, options.count)]
        identity, shift = (np.repeat(np.broadcast_to(v, len(rows)), options.count) for v in (options.identity, shift))
        piece = self.table[found.form[which], identity] * len(Casing) + found.casing[which]
        start, stop = found.start[which] - shift, found.stop[which] - shift
        first, shouted = self.pieces.words[self.pieces.starts[piece]], found.casing[which] == Casing.UPPER
        texts = agree(texts, texts.starts[row] + start, first, shouted)
        return splice(texts, row, start, stop, self.pieces, piece)

    def _fits(self, found: Occurrences, first: Positions, order: Positions, begin: Positions) -> Mask:
        """Return which identities (columns) each unit (row) can be swapped for."""
        if not len(first):
            return np.zeros((0, self.table.shape[1]), dtype=bool)
        fits: Mask = np.logical_and.reduceat(self.table[found.form[order]] >= 0, begin)
        fits[np.arange(len(first)), found.identity[first]] = False
        return fits


def _table(lexicons: Sequence[Lexicon]) -> tuple[Positions, list[str]]:
    """Number the written terms of all lexicons."""
    forms, identities = (sum(len(getattr(lexicon, of)) for lexicon in lexicons) for of in ("forms", "identities"))
    table = np.full((forms, identities), -1)
    spellings: list[str] = []
    top = left = 0
    for lexicon in lexicons:
        for i, cells in enumerate(lexicon.cells):
            for j, cell in enumerate(cells):
                if cell:
                    table[top + j, left + i] = len(spellings)
                    spellings.append(cell[0])
        top, left = top + len(lexicon.forms), left + len(lexicon.identities)
    return table, spellings


def _units(found: Occurrences, together: bool) -> tuple[Positions, Positions, npt.NDArray[np.int64]]:
    """Group occurrences that are swapped at once: the first of each group, all by group, and how many each has."""
    if not together:
        every = np.arange(len(found))
        return every, every, np.ones(len(found), dtype=np.int64)
    groups = np.stack([found.text, found.identity], axis=1)
    _, first, which, counts = np.unique(groups, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, np.argsort(which.ravel(), kind="stable"), counts
