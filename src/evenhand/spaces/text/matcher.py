"""Protected terms in texts: finding them, and replacing them by each other term that fits there.

The longest term is found first, at word boundaries, in the form that fits the context.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.text.lexicon import Form, Lexicon
from evenhand.spaces.text.natural import Refusal, Rules
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
    piece: Positions
    """The number of the written term that stands there; -1 if no swap writes it."""
    bars: Positions
    """Which identities must not be swapped in, as a row of ``Swaps.bars``."""

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


@dataclass(frozen=True)
class NaturalContext(Context):
    """A context that also knows how words are written, and more ways to speak of people."""

    look: _Look
    start: int
    stop: int
    first: int
    last: int
    refuse: Refusal

    def raw(self, n: int) -> str:
        """Return the n-th word behind, or before if negative, as it is written."""
        at = self.stop + n - 1 if n > 0 else self.start + n
        return self.look.word(at) if self.first <= at < self.last else ""

    def gap(self, n: int) -> str:
        """Return the gap behind the match (1) or before it (-1)."""
        at = self.stop - 1 if n > 0 else self.start - 1
        return self.look.gap(at) if at >= self.first else self.look.lead(self.first)

    def begins(self, n: int = 0) -> bool:
        """Whether a sentence begins with the match or, if n is negative, with the n-th word before it."""
        at = self.start + n
        return at <= self.first or _ENDS.search(self.look.gap(at - 1)) is not None

    @property
    def modifies(self) -> bool:
        """Whether the term goes with a word behind it; in "the American and Canadian charts" both do."""
        joined = self.after[0] in ("and", "or") and self.refuse.is_term(self.after[1])
        if joined and self.after[2] and self.after[2] not in FUNCTION and not self.after[2].endswith(("ly", "ed")):
            return True
        if self.gap(-1) in _HYPHENS and self.before[0] in self.refuse.rules.words["prefixes"]:
            return True
        return super().modifies

    @property
    def predicate(self) -> bool:
        """Whether the term is a predicate: also "born Catholic", "Is he British?"."""
        asked = self.before[0] in _CLASSES["subjects"] and self.before[1] in BE
        return asked or self.before[0] in self.refuse.rules.words["becoming"] or super().predicate

    @property
    def of_person(self) -> bool:
        """Whether an adjective describes a person: also "being black is hard", "Barack Obama is black"."""
        people = _CLASSES["people"] | self.refuse.rules.words["people"]
        for follower in self.after:
            if follower in people:
                return True
            if not follower or (follower in FUNCTION and follower not in ("and", "or")):
                break
        if self.before[0] == "being":
            return self.before[2] not in SINGULAR | DEFINITE
        if self.before[0] in _CLASSES["subjects"]:
            return self.before[1] in BE
        if not self.predicate:
            return False
        subjects = _CLASSES["subjects"] | people
        return self.before[1] in subjects or self.before[2] in subjects or self._named(-2) or self._named(-3)

    def _named(self, n: int) -> bool:
        """Whether the n-th word before is a name."""
        words, word = self.refuse.rules.words, self.raw(n)
        if not word[:1].isupper() or word == word.upper() or word.lower() in FUNCTION or not self.before[-n - 1]:
            return False
        known = word.lower() in words["male"] | words["female"] | words["surnames"]
        return known or not self.begins(n) or self.raw(n + 1)[:1].isupper()


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
    readings: tuple[tuple[Form, int, int, int], ...]
    """Its forms, with the numbers of form, identity and spelling; empty for an excepted phrase."""
    ambiguous: bool
    capital: bool
    stands_alone: bool
    """Whether it is not a term before a noun, as "the UK" in "the UK government"."""
    reason: str = "phrase"
    """Why what an excepted phrase covers is not a term."""


class Rejected(NamedTuple):
    """A spelling that is not counted as a term: words ``start`` to ``stop`` of ``text``."""

    text: int
    start: int
    stop: int
    lexicon: int
    identity: int
    """-1 if that is not known."""
    reason: str


class Parsed(NamedTuple):
    """What a ``Finder`` found in a block of texts."""

    found: Occurrences
    seen: Mask
    """The words on which the result depends: all others can be replaced by any that is not a ``head``."""
    rejected: list[Rejected]


class Finder:
    """Finds the terms of lexicons; forms and identities are numbered across all lexicons.

    If several lexicons have a term, it belongs to the first. ``ambiguous`` is as in ``TextSpace``.

    >>> from evenhand.spaces.text.lexicon import load
    >>> found = Finder([load("religion")]).find(Texts.of(["The Jewish and the Sikh community", "Somebody"]))
    >>> found.text.tolist(), found.start.tolist(), found.identity.tolist()
    ([0, 0], [1, 4], [5, 8])
    """

    def __init__(self, lexicons: Sequence[Lexicon], ambiguous: str = "context", rules: Rules | None = None) -> None:
        self.ambiguous = check_choice("ambiguous", ambiguous, AMBIGUOUS, SpaceError)
        self.rules = rules
        self._heads: dict[str, list[_Term]] = {}
        terms = _terms(lexicons)
        if rules is not None:
            terms[:0] = [_excepted(-1, p, reason) for reason, phrases in rules.phrases.items() for p in phrases]
        for term in terms:
            self._heads.setdefault(term.words[0], []).append(term)
        for same in self._heads.values():
            same.sort(key=lambda term: len(term.words) + term.the, reverse=True)
        own = frozenset(term.words[0] for term in terms if term.readings)
        self._refuse = None if rules is None else Refusal(rules, FUNCTION, _CLASSES["people"], own.__contains__)

    def find(self, texts: Texts) -> Occurrences:
        """Find all terms; of overlapping terms, the one that starts first, then the longest."""
        return self.look(texts).found

    def look(self, texts: Texts) -> Parsed:
        """Find all terms, the words on which the result depends, and the spellings that are not counted."""
        hits = np.flatnonzero(texts.vocabulary.column(self.head, bool)[texts.words])
        rows, look = texts.rows[hits], _Look(texts, self._refuse)
        found: list[tuple[int, ...]] = []
        rejected: list[Rejected] = []
        ends = texts.starts[:-1].tolist()
        # Up to where the words are an excepted phrase, by lexicon, and why; -1 stands for all lexicons.
        blocked: dict[tuple[int, int], tuple[int, str]] = {}
        for hit, row, first, last in zip(
            hits.tolist(), rows.tolist(), texts.starts[rows].tolist(), texts.starts[rows + 1].tolist(), strict=True
        ):
            for term in self._heads[look.lower(hit)] if hit >= ends[row] else ():
                start, stop = hit - term.the, hit + len(term.words)
                if start < ends[row] or stop > last or not look.matches(term, start, stop):
                    continue
                why, owner, reading = "", -1, None
                behind, because = blocked.get((row, term.lexicon), (0, ""))
                everywhere, of_all = blocked.get((row, -1), (0, ""))
                if start < behind or start < everywhere:
                    why = because if start < behind else of_all
                elif look.is_handle(row, start, stop, first, last):
                    why = "handle"
                elif look.is_exclamation(start, stop, first):
                    why = "exclamation"
                elif not term.readings:
                    blocked[row, term.lexicon] = stop, term.reason
                    continue
                else:
                    reading, why = self._read(term, look, start, stop, first, last)
                if reading is None:
                    if term.readings:
                        owner = term.readings[0][2]
                        rejected.append(Rejected(row, start - first, stop - first, term.lexicon, owner, why))
                    continue
                casing = look.casing(term, start, stop, first)
                found.append((row, start - first, stop - first, *reading, casing))
                ends[row] = stop
                break
        columns = np.array(found, dtype=np.int64).reshape(-1, 7)
        text, begin, end, form, identity, piece, casings = columns.T
        bars = np.zeros(len(found), dtype=np.int64)
        return Parsed(Occurrences(text, begin, end, form, identity, casings, piece, bars), look.seen, rejected)

    def head(self, word: str) -> bool:
        """Whether a term, or an excepted phrase, begins with this word."""
        return _plain(word) in self._heads

    def _read(
        self, term: _Term, look: _Look, start: int, stop: int, first: int, last: int
    ) -> tuple[tuple[int, int, int] | None, str]:
        """Return which form, identity and written term a match has here, or None and why it is not a term."""
        if term.ambiguous and self.ambiguous == "never":
            return None, "context"
        context = look.context(start, stop, first, last)
        form = read([form for form, *_ in term.readings], context)
        if form is None:
            return None, "language"
        if term.stands_alone and context.modifies:
            return None, "context"
        proper = term.spelling != term.spelling.lower()
        if self._refuse is not None and isinstance(context, NaturalContext):
            if form.name in self._refuse.rules.forms_off:
                return None, "form"
            why = self._refuse(context, look.word(start), term.spelling, form)
            if why:
                return None, why
        if term.ambiguous and self.ambiguous == "context" and not plausible(form, context, proper):
            return None, "context"
        return next((tuple(rest) for found, *rest in term.readings if found is form), None), "form"  # type: ignore[return-value]


def _excepted(lexicon: int, phrase: str, reason: str = "phrase") -> _Term:
    return _Term(lexicon, _words(phrase), False, phrase, (), False, False, False, reason)


def _terms(lexicons: Sequence[Lexicon]) -> list[_Term]:
    """List the excepted phrases of each lexicon, then its terms."""
    out = []
    forms = identities = 0
    for n, lexicon in enumerate(lexicons):
        out += [_excepted(n, phrase) for phrase in lexicon.phrases]
        spellings: dict[str, str] = {}
        readings: dict[str, list[tuple[Form, int, int, int]]] = {}
        for i, j, spelling in lexicon.spellings():
            spellings.setdefault(spelling.lower(), spelling)
            written = lexicon.written(i, j)
            rank = written.index(spelling) if spelling in written else -1
            readings.setdefault(spelling.lower(), []).append((lexicon.forms[j], forms + j, identities + i, rank))
        for lower, spelling in spellings.items():
            bare = lower.removeprefix("the ")
            ambiguous = bool({lower, bare} & lexicon.ambiguous)
            capital = lexicon.capital or (ambiguous and spelling != lower) or spelling.isupper()
            alone = bare != lower and any(form.speech == "adjective" for form, *_ in readings.get(bare, ()))
            known = _words(bare), bare != lower, spelling, tuple(readings[lower])
            out.append(_Term(n, *known, ambiguous, capital, alone))
        forms, identities = forms + len(lexicon.forms), identities + len(lexicon.identities)
    return out


def _plain(word: str) -> str:
    return (word if word.isascii() else unicodedata.normalize("NFC", word)).lower().replace("\u2019", "'")


def _words(spelling: str) -> tuple[str, ...]:
    return tuple(map(_plain, split(spelling)[1::2]))


class _Look:
    """Reads single words of texts and records which were read."""

    def __init__(self, texts: Texts, refuse: Refusal | None = None) -> None:
        self.texts, self.words, self.refuse = texts, texts.vocabulary.words, refuse
        self.seen = np.zeros(len(texts.words), dtype=bool)

    def word(self, at: int) -> str:
        self.seen[at] = True
        return str(self.words[self.texts.words[at]])

    def lower(self, at: int) -> str:
        return _plain(self.word(at))

    def lead(self, first: int) -> str:
        """Return what is before the first word of a text."""
        row = int(np.searchsorted(self.texts.starts[:-1], first, side="right")) - 1
        return str(self.words[self.texts.leads[row]])

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
        found = unicodedata.normalize("NFC", " ".join(map(self.word, range(start, stop))))
        return int(Casing.of(found, " ".join(split(term.spelling)[1::2]), starts))

    def context(self, start: int, stop: int, first: int, last: int) -> Context:
        before, after = range(start - 1, max(start - 4, first - 1), -1), range(stop, min(stop + 3, last))
        sides = _Side(self, before, before), _Side(self, after, range(stop - 1, last))
        if self.refuse is None:
            return Context(*sides)
        return NaturalContext(*sides, self, start, stop, first, last, self.refuse)


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
    column: Positions
    """The column of ``Swaps.table`` that is swapped in: an identity in one of its spellings."""
    identity: Positions
    """The identity of that column; of the term itself, if it only gets another spelling."""
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
        source, unit, column, identity = (
            array[which] for array in (self.source, self.unit, self.column, self.identity)
        )
        return Options(source, unit, column, identity, self.order, self.begin[which], self.count[which])


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
    ['A Shia wrote it.', 'A Quaker wrote it.', 'A pagan wrote it.']
    """

    def __init__(
        self,
        lexicons: Sequence[Lexicon],
        vocabulary: Vocabulary,
        ambiguous: str = "context",
        rules: Rules | None = None,
        spellings: str = "first",
    ) -> None:
        self.vocabulary = vocabulary
        self.finder = Finder(lexicons, ambiguous, rules)
        self.identities = [name for lexicon in lexicons for name in lexicon.identities]
        table = _table(lexicons, every=spellings == "all")
        self.table, self.owner, self.first = table.numbers, table.owner, table.first
        self._further = table.further
        self.varied: Mask = np.any(table.further & (table.numbers >= 0), axis=1)
        """For each form, whether an identity has several written spellings of it."""
        self.pieces = Texts.of([casing.write(text) for text in table.spellings for casing in Casing], vocabulary)
        self._coherence = None if rules is None else Coherence(lexicons, rules)
        self._bars = {b"": 0}
        self.bars = np.zeros((1, len(self.identities)), dtype=bool)
        """Sets of identities that must not be swapped in; the first is empty."""

    def find(self, texts: Texts) -> Occurrences:
        """Find all terms that can be swapped."""
        return self.look(texts).found

    def look(self, texts: Texts) -> Parsed:
        """Find all terms that can be swapped, the words that this depends on, and what is not counted."""
        found, seen, rejected = self.finder.look(texts)
        number = np.where(self.varied[found.form] | (found.piece == 0), found.piece, -1)
        found.piece[:] = np.where(number >= 0, self.first[found.form, found.identity] + number, -1)
        if self._coherence is not None and len(found):
            which, barred, read = self._coherence.barred(texts, found, rejected)
            found.bars[:] = self._numbers(barred)[which]
            seen = seen | read
        return Parsed(found[(self.first[found.form] >= 0).sum(axis=1) > 1], seen, rejected)

    def _numbers(self, barred: Mask) -> Positions:
        """Number sets of identities; equal ones have one number."""
        numbers, fresh = [], []
        for row in barred:
            key = np.packbits(row).tobytes() if row.any() else b""
            if key not in self._bars:
                self._bars[key] = len(self._bars)
                fresh.append(row)
            numbers.append(self._bars[key])
        self.bars = np.concatenate([self.bars, np.array(fresh, dtype=bool).reshape(-1, len(self.identities))])
        return np.array(numbers, dtype=np.int64)

    def fixed(self, word: str) -> bool:
        """Whether a word must neither come nor go for terms to stay: a term begins with it, or it is an article.

        So must words that contradict an identity.
        """
        if self.finder.head(word) or is_article(word):
            return True
        # An ending such as "'s" is glued to the word before it.
        return self._coherence is not None and (self._coherence.knows(word) or word[:1] in ("'", "\u2019"))

    def counterparts(self, texts: Texts, found: Occurrences, *, together: bool = False) -> Counterparts:
        """Swap terms for those of every other identity that has their form; capitals and articles follow.

        One occurrence at a time or, ``together``, all occurrences of an identity in a text.

        >>> from evenhand.spaces.text.lexicon import load
        >>> texts = Texts.of(["He lost his keys."])
        >>> swaps = Swaps([load("gender")], texts.vocabulary)
        >>> swaps.counterparts(texts, swaps.find(texts)).texts.strings()
        ['She lost his keys.', 'He lost her keys.', 'He lost their keys.']
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
        unit, column = np.nonzero(self._fits(found, first, order, begin))
        named = first[unit]
        return Options(found.text[named], named, column, self.owner[column], order, begin[unit], counts[unit])

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
        column, shift = (np.repeat(np.broadcast_to(v, len(rows)), options.count) for v in (options.column, shift))
        piece = self.table[found.form[which], column] * len(Casing) + found.casing[which]
        start, stop = found.start[which] - shift, found.stop[which] - shift
        first, shouted = self.pieces.words[self.pieces.starts[piece]], found.casing[which] == Casing.UPPER
        texts = agree(texts, texts.starts[row] + start, first, shouted)
        return splice(texts, row, start, stop, self.pieces, piece)

    def _fits(self, found: Occurrences, first: Positions, order: Positions, begin: Positions) -> Mask:
        """Return which columns each unit (row) can be swapped for: other identities, and other spellings of its own."""
        if not len(first):
            return np.zeros((0, self.table.shape[1]), dtype=bool)
        pieces = self.table[found.form[order]]
        fits: Mask = np.logical_and.reduceat(pieces >= 0, begin)
        fits &= ~self.bars[found.bars[first]][:, self.owner]
        own = self.owner == found.identity[first][:, None]
        if not self.varied.any():
            return np.asarray(fits & ~own)
        # A further spelling counts if one of the forms has it; the others are then written as usual.
        fits &= np.logical_or.reduceat(self._further[found.form[order]], begin) | (self._rank == 0)
        fits &= ~(own & np.logical_and.reduceat(pieces == found.piece[order][:, None], begin))
        return np.asarray(fits & (fits & ~own).any(axis=1)[:, None])

    @cached_property
    def _rank(self) -> Positions:
        """The number of each column among those of its identity."""
        return np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner)


class _Table(NamedTuple):
    """The written terms of all lexicons, numbered."""

    spellings: list[str]
    numbers: Positions
    """What is written for a form (row) in a column; -1 if there is nothing."""
    owner: Positions
    """The identity of each column."""
    further: Mask
    """Where a column writes a further spelling of a form, after the first."""
    first: Positions
    """The first spelling of a form (row) of an identity (column); the others have the next numbers."""


def _table(lexicons: Sequence[Lexicon], every: bool) -> _Table:
    """Number the written terms of all lexicons, in their first spelling or in ``every`` one."""
    spellings: list[str] = []
    owner: list[int] = []
    ranks: list[int] = []
    counts: list[list[int]] = []
    firsts: list[list[int]] = []
    forms = sum(len(lexicon.forms) for lexicon in lexicons)
    top = 0
    for lexicon in lexicons:
        for i in range(len(lexicon.identities)):
            cells = [lexicon.written(i, j)[: None if every else 1] for j in range(len(lexicon.forms))]
            count, begin = [0] * forms, [-1] * forms
            for j, cell in enumerate(cells, top):
                count[j], begin[j] = len(cell), len(spellings) if cell else -1
                spellings += cell
            width = max(1, *map(len, cells))
            owner += [len(firsts)] * width
            ranks += range(width)
            counts.append(count)
            firsts.append(begin)
        top += len(lexicon.forms)
    first, length = np.array(firsts).T, np.array(counts).T[:, owner]
    numbers = first[:, owner] + np.maximum(np.minimum(ranks, length - 1), 0)
    numbers[length == 0] = -1
    further = (np.array(ranks) > 0) & (np.array(ranks) < length)
    return _Table(spellings, numbers, np.array(owner), further, first)


class Coherence:
    """Finds the counterparts that the rest of a text contradicts.

    An identity is not swapped in where the text already speaks of it, or where a word is ``against`` it ("he" against
    lesbian). An identity to which a word ties the text is not swapped out (a mosque speaks of Muslims, James of a man).
    """

    def __init__(self, lexicons: Sequence[Lexicon], rules: Rules) -> None:
        self._words: dict[str, tuple[set[int], set[int]]] = {}
        """For each word, the identities that it ties a text to, and those that it is against."""
        self._written: dict[str, set[int]] = {}
        """The same for words that count only with a capital: names."""
        self._size, top = sum(len(lexicon.identities) for lexicon in lexicons), 0
        for lexicon in lexicons:
            number = {name: top + i for i, name in enumerate(lexicon.identities)}
            for kind, given in enumerate((lexicon.ties, lexicon.against)):
                for name, words in given:
                    for word in words:
                        if word != word.lower():
                            self._written.setdefault(word, set()).add(number[name])
                        else:
                            self._words.setdefault(word, (set(), set()))[kind].add(number[name])
            for name in rules.names.keys() & number.keys():
                for word in rules.names[name]:
                    self._written.setdefault(word, set()).add(number[name])
            top += len(lexicon.identities)

    def knows(self, word: str) -> bool:
        """Whether a word speaks for or against an identity."""
        return word in self._written or _plain(word) in self._words

    def barred(self, texts: Texts, found: Occurrences, rejected: Sequence[Rejected]) -> tuple[Positions, Mask, Mask]:
        """Return a row number for each term, what must not be swapped in for it by row, and the words read."""
        rows, inverse = np.unique(found.text, return_inverse=True)
        here, out = np.zeros((2, len(rows), self._size), dtype=bool)
        here[inverse, found.identity] = True
        for one in rejected:
            if one.reason in ("form", "organisation", "language", "thing"):
                at = int(np.searchsorted(rows, one.text))
                if at < len(rows) and rows[at] == one.text:
                    out[at, one.identity] = True
        known = texts.vocabulary.column(self.knows, bool)[texts.words]
        known &= np.isin(texts.rows, rows)
        read = np.flatnonzero(known)
        words, of = texts.vocabulary.words[texts.words[read]].tolist(), np.searchsorted(rows, texts.rows[read]).tolist()
        for word, at in zip(words, of, strict=True):
            ties, against = self._words.get(_plain(word), ((), ()))
            out[at, [*ties, *self._written.get(word, ())]] = True
            here[at, [*against]] = True
        units, which = np.unique(np.stack([inverse, found.identity]), axis=1, return_inverse=True)
        barred = here[units[0]]
        barred[np.arange(len(barred)), units[1]] = False
        barred[out[units[0], units[1]]] = True
        return which.ravel(), barred, known


def _units(found: Occurrences, together: bool) -> tuple[Positions, Positions, npt.NDArray[np.int64]]:
    """Group occurrences that are swapped at once: the first of each group, all by group, and how many each has."""
    if not together:
        every = np.arange(len(found))
        return every, every, np.ones(len(found), dtype=np.int64)
    groups = np.stack([found.text, found.identity], axis=1)
    _, first, which, counts = np.unique(groups, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, np.argsort(which.ravel(), kind="stable"), counts
