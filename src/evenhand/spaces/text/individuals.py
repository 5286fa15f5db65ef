"""A block of texts that were made from the seeds of a run by replacing free words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand.spaces.attributes import Mask
from evenhand.spaces.text.matcher import Occurrences
from evenhand.spaces.text.swaps import Counterparts, Options
from evenhand.spaces.text.tokens import Ids, Positions, Texts

if TYPE_CHECKING:
    from evenhand.spaces.text.space import BoundTextSpace


class TextIndividuals:
    """Texts, thousands at a time, each with the number of its seed.

    A free change replaces one word by one word, so the words of a text stand where those of its seed do.
    """

    __slots__ = ("_keys", "ground", "seeds", "texts")

    def __init__(
        self,
        ground: BoundTextSpace,
        seeds: Positions,
        texts: Texts,
        keys: npt.NDArray[np.complex128] | None = None,
    ) -> None:
        self.ground, self.seeds, self.texts, self._keys = ground, seeds, texts, keys

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, which: Any) -> TextIndividuals:
        """Return some of them, by mask, positions or slice."""
        keys = None if self._keys is None else self._keys[which]
        return TextIndividuals(self.ground, self.seeds[which], self.texts[which], keys)

    @property
    def keys(self) -> npt.NDArray[np.complex128]:
        """What identifies each one's test: its words, without a single term."""
        if self._keys is None:
            self._keys = self.ground.keys.of_texts(self.seeds, self.texts)
        return self._keys

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """A hash of each text as it stands."""
        left, right = self.ground.keys.exact(self.seeds, self.texts)
        return (mix(left ^ mix(right)) >> np.uint64(1)).view(np.int64)

    @property
    def rows(self) -> list[str]:
        """The texts as the model reads them."""
        return self.texts.strings()

    @property
    def stored(self) -> npt.NDArray[np.uint64]:
        """The position of each seed in the data, and a hash of the text as it stands."""
        positions = self.ground.positions[self.seeds].astype(np.uint64)
        return np.stack([positions, *self.ground.keys.exact(self.seeds, self.texts)], axis=1)

    def put(self, flat: npt.NDArray[np.integer[Any]], words: Ids) -> TextIndividuals:
        """Return the texts with other words at some places of ``texts.words``."""
        return TextIndividuals(self.ground, self.seeds, self.texts.put(flat, words))

    def changes(self) -> tuple[Positions, Positions, Ids, Ids]:
        """Return every free edit: of which text, at which word, the seed's word, the new word."""
        flat = self.ground.flat(self)
        at = np.flatnonzero(self.ground.texts.words[flat] != self.texts.words)
        row = self.texts.rows[at]
        return row, at - self.texts.starts[row], self.ground.texts.words[flat[at]], self.texts.words[at]

    @staticmethod
    def join(parts: Sequence[TextIndividuals]) -> TextIndividuals:
        """Put blocks one after the other."""
        return TextIndividuals(
            parts[0].ground,
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
        return self.individuals.ground.families(self.individuals[which], self._seed)

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
        source, own = options.source, options.source[first]
        return (
            np.concatenate([own, source]),
            np.concatenate([np.zeros_like(own), self._others - self.starts[source]]),
            np.concatenate([self._found.identity[unit], options.identity]),
        )

    def most_different(self, places: npt.NDArray[np.int64]) -> Positions:
        """Name one member of each family."""
        codes = np.full(int(self.places.sum()), -1)
        codes[self._others] = self.individuals.ground.codes(self._found, self._options)
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
        return self.individuals.ground.swaps.swapped(windows, self._found, options, np.arange(len(options)), low)


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Texts, a counterpart of each, and what the model decides for the texts."""

    individuals: TextIndividuals
    most_different: Counterparts | None
    """None where a search uses the texts alone."""
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
