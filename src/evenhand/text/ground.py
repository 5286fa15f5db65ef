"""A text space with the texts that a run starts from: seeds, keys, families, moves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream, mix
from evenhand.text.families import TextFamilies
from evenhand.text.individuals import TextIndividuals
from evenhand.text.keys import Keys
from evenhand.text.occurrences import Occurrences
from evenhand.text.similar import Moves, Similar
from evenhand.text.swaps import Counterparts, Options, Swaps
from evenhand.text.texts import Positions, Texts, Vocabulary, ranges

if TYPE_CHECKING:
    from evenhand.findings import Findings
    from evenhand.text.space import TextSpace

WORDS = 2**23
"""The most words of texts that a model is asked at once, as long as they are of more than one family."""


class BoundTextSpace:
    """The texts that can be tested, and everything that can be made of them.

    Its vocabulary grows with what is read and made; nothing that a run tells depends on that.
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
        """How many words of the texts similar ones are found among, where nothing else tells words."""
        self.together = space.occurrences == "together"
        vocabulary = Vocabulary()
        self.swaps = Swaps(space.lexicons, vocabulary, space.ambiguous)
        texts = Texts.of(strings, vocabulary)
        found, seen = self.swaps.look(texts)
        counterparts = self.swaps.widths(found, len(texts), together=self.together)
        kept = np.flatnonzero(counterparts)
        self.without = len(found.without(texts))
        """How many texts have no term."""
        self.alone = len(texts) - self.without - len(kept)
        """How many have terms and yet no counterpart: no other identity has all of their forms."""
        self.texts, self.found, self.positions = texts[kept], found.of(kept), rows[kept]
        """The others, their terms, and where they stand in the data."""
        self.counterparts = counterparts[kept]
        self.sizes = np.minimum(1 + self.counterparts, space.limit)
        """How many texts a family has."""
        self.keys = Keys.of(self.texts, self.found, self.swaps, together=self.together)
        self.moves = None if similar is None else Moves(similar, vocabulary, self.swaps.fixed)
        # Where what the reading looked at stays, texts that are made of seeds have the terms of their seeds.
        self._free = ~(self.found.covered(self.texts) | seen[ranges(texts.starts[kept], texts.lengths[kept])])

    def supports(self, feature: str) -> bool:
        """Whether searches and results that need a feature work here."""
        return self.space.supports(feature)

    def family_inputs(self, families: TextFamilies, kind: str, columns: Sequence[str] | None = None) -> list[str]:
        """Build the list of texts that a model takes of whole families."""
        return self.space.inputs(families.asked, kind, columns)

    def probes(self, people: Any, count: int = 64) -> Any:
        """Return the first texts of the data."""
        return people[:count]

    def digest_of(self, people: TextIndividuals) -> str:
        """Identify the texts that a search starts from."""
        return hashlib.sha256(people.stored.tobytes()).hexdigest()

    def findings(self) -> Findings:
        """Return an empty table of findings."""
        from evenhand.text_findings import TextFindings

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
        return int((self.counterparts >= self.space.limit).sum())

    def describe(self) -> dict[str, Any]:
        """Give everything that makes the space, in plain values; the vectors as a digest."""
        return {**self.space.describe(), "similar": None if self.similar is None else self.similar.digest}

    def flat(self, individuals: TextIndividuals) -> Positions:
        """Return for each word of texts where it stands among all words of the seeds."""
        return ranges(self.texts.starts[individuals.seeds], individuals.texts.lengths)

    def movable(self, individuals: TextIndividuals) -> npt.NDArray[np.bool_]:
        """Tell which words of texts are free and have similar words."""
        free = self._free[self.flat(individuals)]
        return free & (self.moves.counts(individuals.texts.words) > 0) if self.moves is not None else free & False

    def batch_size_for(self, individuals: TextIndividuals, positions: Positions, rows: int) -> int:
        """Say how many texts fit one call of so many rows, and into memory, with their families."""
        seeds = individuals.seeds[positions[:rows]]
        sizes = self.sizes[seeds]
        fits = (np.cumsum(sizes) <= rows) & (np.cumsum(sizes * self.texts.lengths[seeds]) <= WORDS)
        return max(1, int(fits.sum()))

    def families(self, individuals: TextIndividuals, seed: int) -> TextFamilies:
        """Build the counterparts of texts: all, or of more than the limit a sample."""
        found = self.found.of(individuals.seeds)
        options = self.swaps.options(found, together=self.together)
        if (self.counterparts[individuals.seeds] >= self.space.limit).any():
            options = options[self._sample(individuals, seed)]
        return TextFamilies(individuals, found, options, seed)

    def most_different(self, individuals: TextIndividuals, stored: npt.NDArray[Any]) -> Counterparts:
        """Make the one counterpart of each text that ``TextFamilies.most_different`` named."""
        found, every = self.found.of(individuals.seeds), np.arange(len(individuals))
        options = self.swaps.options(found, together=self.together)
        options = options[self.codes(found, options) == stored[options.source]]
        texts, origin = self.swaps.swapped(individuals.texts, found, options, options.source)
        unit, identity = np.full((2, len(every)), -1)
        unit[options.source], identity[options.source] = options.unit, options.identity
        return Counterparts(texts, every, unit, identity, origin)

    def codes(self, found: Occurrences, options: Options) -> Positions:
        """Number options within each text, whichever other texts there are."""
        first: Positions = np.searchsorted(found.text, options.source)
        return (options.unit - first) * len(self.swaps.identities) + options.identity

    def _sample(self, individuals: TextIndividuals, seed: int) -> npt.NDArray[np.bool_]:
        """Choose options, as a function of (seed, key): one from each of as many equal parts as the limit allows."""
        counts, parts = self.counterparts[individuals.seeds], self.space.limit - 1
        begins, chosen = np.cumsum(counts) - counts, np.ones(int(counts.sum()), dtype=bool)
        bits = mix(individuals.keys.real.astype(np.uint64) ^ Stream(seed).bits("counterp", 0, 0))
        for i in np.flatnonzero(counts > parts):
            ends = np.arange(parts + 1) * counts[i] // parts
            draws = mix(bits[i] + np.arange(parts, dtype=np.uint64)) % np.diff(ends).astype(np.uint64)
            chosen[begins[i] : begins[i] + counts[i]] = False
            chosen[begins[i] + ends[:-1] + draws.astype(np.int64)] = True
        return chosen


def nudged(
    ground: BoundTextSpace, individuals: TextIndividuals, stream: Stream, phase: str, walkers: Positions, step: int
) -> tuple[Positions, TextIndividuals]:
    """Replace one movable word of each text, drawn uniformly, by one of its similar words, drawn uniformly.

    Returned are the numbers of the texts that have such a word, and these texts, changed.
    """
    flat = np.flatnonzero(ground.movable(individuals))
    counts = np.bincount(individuals.texts.rows[flat], minlength=len(individuals))
    able = np.flatnonzero(counts)
    if not len(able):
        return able, individuals[able]
    assert ground.moves is not None
    nth = (stream.bits(phase, walkers[able], 2 * step) % counts[able].astype(np.uint64)).astype(np.int64)
    chosen = flat[(np.cumsum(counts) - counts)[able] + nth]
    words = individuals.texts.words[chosen]
    which = stream.bits(phase, walkers[able], 2 * step + 1) % ground.moves.counts(words).astype(np.uint64)
    moved = individuals.put(chosen, ground.moves.of(words)[np.arange(len(words)), which.astype(np.int64)])
    return able, moved if len(able) == len(individuals) else moved[able]
