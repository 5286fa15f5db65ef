"""The space of texts: which terms are protected, and which words are similar."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from evenhand._format import visible
from evenhand._rng import Stream, mix
from evenhand._validate import check_bool, check_choice, check_int
from evenhand.errors import TEXTS, DataError, SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.base import Binding
from evenhand.spaces.findings import TextFindings
from evenhand.spaces.frames import pd
from evenhand.spaces.text.individuals import Keys, TextFamilies, TextIndividuals
from evenhand.spaces.text.lexicon import Form, Lexicon, load_all, protected_words
from evenhand.spaces.text.matcher import AMBIGUOUS, Ambiguous, Counterparts, Occurrences, Options, Swaps
from evenhand.spaces.text.natural import NATURAL, PLAIN, described_rules, rules_of
from evenhand.spaces.text.readers import strings_of
from evenhand.spaces.text.similar import Moves, Similar
from evenhand.spaces.text.tokens import Positions, Texts, Vocabulary, ranges, split

WORDS = 2**23
"""Maximum words of texts in one model call with more than one family."""


class BoundTextSpace:
    """The texts that can be tested, and everything that can be made from them.

    Its vocabulary grows with the texts; no result depends on its order.
    """

    constraints: tuple[Any, ...] = ()
    countable = False
    tests = 0
    has_ids = True

    def __init__(
        self,
        space: TextSpace,
        strings: list[str],
        rows: Positions,
        similar: Similar | None,
        missing: int = 0,
        borrowed: int = 0,
    ) -> None:
        self.space, self.similar, self.missing = space, similar, missing
        self.borrowed = borrowed
        """Number of words of the texts that are candidates for similar words, if the model does not list its words."""
        self.together = space.occurrences == "together"
        vocabulary = Vocabulary()
        self.swaps = Swaps(space.lexicons, vocabulary, space.ambiguous, space.natural, space.spellings)
        texts = self._parsed = Texts.of(strings, vocabulary)
        self._positions = rows.tolist()
        found, seen, self.rejected = self.swaps.look(texts)
        counterparts = self.swaps.widths(found, len(texts), together=self.together)
        kept = np.flatnonzero(counterparts)
        self.without = len(found.without(texts))
        """Number of texts without a term."""
        self.alone = len(texts) - self.without - len(kept)
        """Number of texts with terms but no counterpart, because no other identity has all of their forms."""
        self.texts, self.found, self.positions = texts[kept], found.of(kept), rows[kept]
        """The other texts, their terms, and their positions in the data."""
        self.counterparts = counterparts[kept]
        self.sizes = np.minimum(1 + self.counterparts, space.max_family_size)
        """Number of texts of each family."""
        self.keys = Keys.of(self.texts, self.found, self.swaps, together=self.together)
        self.moves = None if similar is None else Moves(similar, vocabulary, self.swaps.fixed)
        # As long as the words that parsing depends on stay, texts made from seeds have the terms of their seeds.
        self._free = ~(self.found.covered(self.texts) | seen[ranges(texts.starts[kept], texts.lengths[kept])])

    def rejected_frame(self) -> pd.DataFrame:
        """Return the spellings of the lexicons that are not counted as terms: text, term, attribute, reason.

        >>> TextSpace("orientation").begin(["Tyson Gay ran.", "A gay man."]).rejected_frame()[["term", "reason"]]
          term reason
        0  Gay   name
        """
        rows = []
        for one in self.rejected:
            flat = self._parsed.starts[one.text] + np.arange(one.start, one.stop)
            term = " ".join(self._parsed.vocabulary.words[self._parsed.words[flat]])
            rows.append((self._positions[one.text], term, self.space.protected[one.lexicon], one.reason))
        return pd.DataFrame(rows, columns=["row", "term", "attribute", "reason"])

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work here."""
        return self.space.supports(feature)

    def family_inputs(self, families: TextFamilies, kind: str, columns: Sequence[str] | None = None) -> list[str]:
        """Build the list of texts of whole families for the model."""
        return self.space.inputs(families.asked, kind, columns)

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return the first texts of the data."""
        return people[:count]

    def digest_of(self, people: TextIndividuals) -> str:
        """Identify the texts that a search starts from."""
        return hashlib.sha256(people.stored.tobytes()).hexdigest()

    def findings(self) -> TextFindings:
        """Return an empty table of findings."""
        return TextFindings(self)

    @property
    def seeds(self) -> TextIndividuals:
        """The texts themselves."""
        return TextIndividuals(self, np.arange(len(self.texts)), self.texts)

    @property
    def width(self) -> int:
        """The most texts of a family."""
        return int(self.sizes.max())

    @property
    def sampled(self) -> int:
        """How many texts are compared with a sample of their counterparts."""
        return int((self.counterparts >= self.space.max_family_size).sum())

    def describe(self) -> dict[str, Any]:
        """Return everything that defines the space, as plain values; the vectors as a digest."""
        return {**self.space.describe(), "similar": None if self.similar is None else self.similar.digest}

    def flat(self, individuals: TextIndividuals) -> Positions:
        """Return for each word of texts where it stands among all words of the seeds."""
        return ranges(self.texts.starts[individuals.seeds], individuals.texts.lengths)

    def movable(self, individuals: TextIndividuals) -> Mask:
        """Return which words of texts are free and have similar words."""
        free = self._free[self.flat(individuals)]
        return free & (self.moves.counts(individuals.texts.words) > 0) if self.moves is not None else free & False

    def batch_size_for(self, individuals: TextIndividuals, positions: Positions, rows: int) -> int:
        """Return how many texts fit one call of ``rows`` rows, and into memory, with their families."""
        seeds = individuals.seeds[positions[:rows]]
        sizes = self.sizes[seeds]
        fits = (np.cumsum(sizes) <= rows) & (np.cumsum(sizes * self.texts.lengths[seeds]) <= WORDS)
        return max(1, int(fits.sum()))

    def families(self, individuals: TextIndividuals, seed: int) -> TextFamilies:
        """Build the counterparts of texts: all, or of more than ``max_family_size`` a sample."""
        found = self.found.of(individuals.seeds)
        options = self.swaps.options(found, together=self.together)
        if (self.counterparts[individuals.seeds] >= self.space.max_family_size).any():
            options = options[self._sample(individuals, seed)]
        return TextFamilies(individuals, found, options, seed)

    def most_different(self, individuals: TextIndividuals, stored: npt.NDArray[Any]) -> Counterparts:
        """Build the counterpart of each text that ``TextFamilies.most_different`` named."""
        found, every = self.found.of(individuals.seeds), np.arange(len(individuals))
        options = self.swaps.options(found, together=self.together)
        options = options[self.codes(found, options) == stored[options.source]]
        texts, origin = self.swaps.swapped(individuals.texts, found, options, options.source)
        unit, identity = np.full((2, len(every)), -1)
        unit[options.source], identity[options.source] = options.unit, options.identity
        return Counterparts(texts, every, unit, identity, origin)

    def codes(self, found: Occurrences, options: Options) -> Positions:
        """Number the options within each text, independently of other texts."""
        first: Positions = np.searchsorted(found.text, options.source)
        return (options.unit - first) * len(self.swaps.owner) + options.column

    def _sample(self, individuals: TextIndividuals, seed: int) -> Mask:
        """Choose options, as a function of (seed, key): one from each of as many equal parts as fit."""
        counts, parts = self.counterparts[individuals.seeds], self.space.max_family_size - 1
        begins, chosen = np.cumsum(counts) - counts, np.ones(int(counts.sum()), dtype=bool)
        bits = mix(individuals.keys.real.astype(np.uint64) ^ Stream(seed).bits("counterp", 0, 0))
        for i in np.flatnonzero(counts > parts):
            ends = np.arange(parts + 1) * counts[i] // parts
            draws = mix(bits[i] + np.arange(parts, dtype=np.uint64)) % np.diff(ends).astype(np.uint64)
            chosen[begins[i] : begins[i] + counts[i]] = False
            chosen[begins[i] + ends[:-1] + draws.astype(np.int64)] = True
        return chosen


def replace_random_word(
    bound: BoundTextSpace, individuals: TextIndividuals, stream: Stream, phase: str, walkers: Positions, step: int
) -> tuple[Positions, TextIndividuals]:
    """Replace one random movable word of each text by a similar one; return which texts changed, and the new texts."""
    flat = np.flatnonzero(bound.movable(individuals))
    counts = np.bincount(individuals.texts.rows[flat], minlength=len(individuals))
    able = np.flatnonzero(counts)
    if not len(able):
        return able, individuals[able]
    assert bound.moves is not None
    nth = (stream.bits(phase, walkers[able], 2 * step) % counts[able].astype(np.uint64)).astype(np.int64)
    chosen = flat[(np.cumsum(counts) - counts)[able] + nth]
    words = individuals.texts.words[chosen]
    which = stream.bits(phase, walkers[able], 2 * step + 1) % bound.moves.counts(words).astype(np.uint64)
    moved = individuals.put(chosen, bound.moves.of(words)[np.arange(len(words)), which.astype(np.int64)])
    return able, moved if len(able) == len(individuals) else moved[able]


Embed = Callable[[Sequence[str]], Any]
DEPENDS = "depends_on_the_spelling"
REJECTED = "terms_rejected_"
SAMPLED = "texts_compared_with_a_sample"
BORROWED = "words_of_the_texts_among_which_similar_ones_are"


class TextSpace:
    """Texts, the protected terms in them, and the similar words by which other words are replaced.

    Parameters
    ----------
    protected
        The name of a lexicon (``"religion"``), a ``.toml`` file, your own terms (``{"team": ["reds", "blues"]}``), or a
        list of these.
    similar
        Where similar words come from: a ``.npz`` with ``words`` and ``vectors``, a text file of GloVe, word2vec or
        fastText, a pair (words, matrix), gensim's keyed vectors. By default from the embedding of the model, if it has
        one; otherwise texts are tested unedited.
    k
        Number of similar words per word.
    occurrences
        ``"together"`` replaces all occurrences of an identity, pronouns too; ``"each"`` replaces the occurrences of
        terms one at a time.
    ambiguous
        When ambiguous words such as "black" or "Turkey" are terms: ``"context"`` decides by the surrounding words;
        ``"always"``; ``"never"``.
    rules
        ``"natural"`` counts identities only, and not names ("Tyson Gay"), fixed expressions ("mother tongue") or goods
        ("persian rugs"), and leaves out counterparts that the rest of the text contradicts; a ``.toml`` file adds
        phrases and words to these rules; ``"plain"`` looks at grammar only.
    spellings
        ``"all"`` writes each identity in all its common spellings: a difference counts if all of them show it;
        ``"first"`` writes the first spelling only.
    avoid_protected
        Whether terms of any lexicon are left out of the similar words.
    agree
        Whether similar words must have the same shape: both a number, both end in -ing, and so on.
    column
        The column of the texts, if the data is a frame.
    max_family_size
        Maximum texts of a family; if there are more, a sample is used and the run says so.

    Examples
    --------
    >>> TextSpace("religion")
    TextSpace: religion (25 identities); all occurrences of an identity; no vectors for similar words
    """

    def __init__(
        self,
        protected: Any,
        similar: Any = None,
        *,
        k: int = 10,
        occurrences: Literal["each", "together"] = "together",
        ambiguous: Ambiguous = "context",
        rules: Any = NATURAL,
        spellings: Literal["all", "first"] = "all",
        avoid_protected: bool = True,
        agree: bool = False,
        column: str = "text",
        max_family_size: int = 1000,
    ) -> None:
        self.lexicons = load_all(protected)
        self.protected = tuple(lexicon.name for lexicon in self.lexicons)
        self.source = similar
        self.k = check_int("k", k, SpaceError, 1)
        self.occurrences = check_choice("occurrences", occurrences, ("each", "together"), SpaceError)
        self.ambiguous = check_choice("ambiguous", ambiguous, AMBIGUOUS, SpaceError)
        self.rules, self.natural = rules, rules_of(rules)
        self.spellings = check_choice("spellings", spellings, ("all", "first"), SpaceError)
        self.avoid_protected = check_bool("avoid_protected", avoid_protected, SpaceError)
        self.agree = check_bool("agree", agree, SpaceError)
        self.max_family_size = check_int("max_family_size", max_family_size, SpaceError, 2)
        if not isinstance(column, str):
            raise SpaceError("must be the name of a column", parameter="column", value=column)
        self.column = column

    @classmethod
    def paper(cls, protected: Any, similar: Any = None, **settings: Any) -> TextSpace:
        """Return a space as in the paper of ADF: one occurrence at a time, in one spelling, by grammar only.

        >>> TextSpace.paper("religion").begin(["Marvin Gaye's mother tongue, he said to a Sikh."]).counterparts.tolist()
        [24]
        """
        return cls(protected, similar, **{"occurrences": "each", "rules": PLAIN, "spellings": "first"} | settings)

    noun, input, default_strategy = "text", "text", "auto"
    sampled = False
    """Whether texts are compared with a sample of their counterparts depends on the texts; the run says so."""

    @cached_property
    def similar(self) -> Similar | None:
        """The similar words, or None if there are no vectors."""
        return None if self.source is None else self._similar(self.source)

    def _similar(self, source: Any) -> Similar:
        if isinstance(source, Similar):
            return source
        avoid = protected_words(self.lexicons) if self.avoid_protected else ()
        return Similar(source, self.k, avoid=avoid, agree=self.agree)

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work with this space."""
        return feature == "texts"

    @property
    def space(self) -> Self:
        """The space itself; single texts can be queried without data."""
        return self

    def inputs(self, rows: Any, kind: str, columns: Sequence[str] | None = None) -> list[str]:
        """Build the list of texts that a model takes: a copy, because a function may change its list."""
        del kind, columns
        return list(rows)

    def bind(self, data: Any, model: Any) -> Binding:
        """Bind the space to the texts and the model of a run."""
        knows = self.source is None and getattr(model, "has_words", False)
        bound = self.begin(data, *((model.word_vectors, getattr(model, "words", None)) if knows else ()))
        rejected = Counter(f"{REJECTED}{one.reason}" for one in bound.rejected)
        counts = {**rejected, "texts_without_a_term": bound.without, "texts_without_a_counterpart": bound.alone,
                  SAMPLED: bound.sampled, BORROWED: bound.borrowed}  # fmt: skip
        alone = bound.without + bound.alone
        return Binding(bound, bound.seeds, 0, bound.missing, counts, alone, bound.positions)

    def by_spelling(self) -> TextSpace:
        """Return the space in which each spelling can replace a term, and all terms of an identity change together.

        >>> space = TextSpace("orientation").by_spelling()
        >>> bound = space.begin(["The homosexual couple."])
        >>> bound.families(bound.seeds, 0).asked[1:4]
        ['The straight couple.', 'The heterosexual couple.', 'The hetero couple.']
        """
        return TextSpace(
            [lexicon.by_spelling() for lexicon in self.lexicons],
            occurrences="together",
            ambiguous=self.ambiguous,
            rules=self.rules,
            spellings="first",
            column=self.column,
            max_family_size=self.max_family_size,
        )

    def findings(self) -> TextFindings:
        """Return an empty table of findings."""
        return TextFindings(self)

    def begin(self, data: Any, embed: Embed | None = None, words: Sequence[str] | None = None) -> BoundTextSpace:
        """Parse the texts that a run starts from; ``embed`` returns the vectors of the ``words`` that a model knows.

        Without ``words``, words of the texts with unique vectors are used.

        >>> bound = TextSpace("religion").begin(["A Sikh wrote it.", "Somebody did."])
        >>> len(bound.seeds), bound.without
        (1, 1)
        """
        strings, rows, missing = strings_of(data, self.column)
        if not strings:
            problem = "must be texts to start from" + (f", and all {missing:,} are missing" if missing else "")
            raise DataError(problem, parameter="data", remedy=("give a list of them: ", TEXTS))
        similar = self.similar
        if similar is None and embed is not None:
            own = (list(words), embed(words)) if words is not None else _distinct_words(strings, embed)
            similar = self._similar(own) if own[0] else None
        borrowed = len(similar.words) if similar is not None and self.similar is None and words is None else 0
        bound = BoundTextSpace(self, strings, rows, similar, missing, borrowed)
        if not len(bound.seeds):
            names = ", ".join(self.protected)
            why = f"{bound.without:,} have no term of {names}, {bound.alone:,} have no counterpart"
            problem = f"none of {len(strings):,} texts can be tested: {why}"
            raise DataError(problem, remedy="give other texts or lexicons")
        return bound

    def describe(self) -> dict[str, Any]:
        """Return everything that defines this space, except vectors, as plain values."""
        settings = ("k", "occurrences", "ambiguous", "avoid_protected", "agree", "max_family_size")
        described = {
            "kind": "text",
            "lexicons": [_described(lexicon) for lexicon in self.lexicons],
            **{name: getattr(self, name) for name in settings},
        }
        # What is switched off is left out, so that such spaces are described as before there was a choice.
        if self.natural is not None:
            described["rules"] = described_rules(self.natural)
        return described | ({"spellings": self.spellings} if self.spellings == "all" else {})

    @classmethod
    def described(cls, described: dict[str, Any]) -> TextSpace:
        """Rebuild a space from its description, without vectors."""
        settings = {name: value for name, value in described.items() if name not in ("kind", "lexicons", "similar")}
        settings = {"rules": PLAIN, "spellings": "first"} | settings
        return cls([_lexicon(fields) for fields in described["lexicons"]], **settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.protected, self.k, self.occurrences))

    def __repr__(self) -> str:
        terms = ", ".join(
            f"{visible(lexicon.name)} ({len(lexicon.identities)} identities)" for lexicon in self.lexicons
        )
        how = "each occurrence of a term by itself" if self.occurrences == "each" else "all occurrences of an identity"
        words = "no vectors for similar words" if self.source is None else f"{self.k} similar words"
        return f"TextSpace: {terms}; {how}; {words}"


def _distinct_words(strings: list[str], embed: Embed) -> tuple[list[str], npt.NDArray[Any]]:
    """Return the words of texts whose vector is unique: all words that a model does not know share one."""
    words = sorted({word.lower() for text in strings for word in split(text)[1::2]})
    vectors = np.asarray(embed(words)) if words else np.zeros((0, 1))
    _, which, counts = np.unique(vectors, axis=0, return_inverse=True, return_counts=True)
    own = np.flatnonzero(counts[which.ravel()] == 1)
    return [words[i] for i in own], vectors[own]


def _described(lexicon: Lexicon) -> dict[str, Any]:
    more: dict[str, Any] = {
        name: sorted(getattr(lexicon, name)) for name in ("rare", "unread") if getattr(lexicon, name)
    }
    for name in ("ties", "against"):
        if getattr(lexicon, name):
            more[name] = [[identity, list(words)] for identity, words in getattr(lexicon, name)]
    return more | {
        "name": lexicon.name,
        "forms": [[form.name, form.speech, form.number] for form in lexicon.forms],
        "identities": list(lexicon.identities),
        "cells": [[list(cell) for cell in row] for row in lexicon.cells],
        "ambiguous": sorted(lexicon.ambiguous),
        "phrases": list(lexicon.phrases),
        "capital": lexicon.capital,
    }


def _lexicon(fields: dict[str, Any]) -> Lexicon:
    cells, forms, identities = fields["cells"], fields["forms"], fields["identities"]
    if len(cells) != len(identities) or any(len(row) != len(forms) for row in cells):
        raise ValueError(f"lexicon {fields['name']!r}: cells must have a row for each identity, with one of each form")
    return Lexicon(
        fields["name"],
        tuple(Form(*form) for form in forms),
        tuple(identities),
        tuple(tuple(map(tuple, row)) for row in cells),
        frozenset(fields["ambiguous"]),
        tuple(fields["phrases"]),
        fields["capital"],
        rare=frozenset(fields.get("rare", ())),
        unread=frozenset(fields.get("unread", ())),
        ties=tuple((identity, tuple(words)) for identity, words in fields.get("ties", ())),
        against=tuple((identity, tuple(words)) for identity, words in fields.get("against", ())),
    )
