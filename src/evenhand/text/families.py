"""Families of texts: a text and its counterparts, of which every text has a number of its own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.text.individuals import TextIndividuals
from evenhand.text.occurrences import Occurrences
from evenhand.text.swaps import Options
from evenhand.text.texts import Positions, Texts


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
    def legal(self) -> npt.NDArray[np.bool_]:
        """Which places there are: families differ in size."""
        return np.arange(int(self.places.max(initial=1))) < self.places[:, None]

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that there is not repeats the text's own answer."""
        return answers[self.starts[:, None] + np.where(self.legal, np.arange(self.legal.shape[1]), 0)]

    @property
    def identities(self) -> tuple[Positions, Positions, Positions]:
        """Say which identity stands in which member: its family, its place there, the identity.

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
        """Return where members of some families stand among all; a place that there is not is the text itself."""
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
