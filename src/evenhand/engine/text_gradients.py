"""Which word of a text to replace, and by which of its similar words.

By how much each word matters to a decision, at the text and at its most different counterpart: from the model's
gradients by the vectors of words where it has any, else from its scores once the word is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, mix
from evenhand.engine.gradients import DIFFERENCES, Source, may_be_labels
from evenhand.errors import FOR_TEXTS, TEXT_RANDOM, ModelError, StrategyError
from evenhand.models.base import Model
from evenhand.search import of_class
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.space import WORDS, BoundTextSpace
from evenhand.spaces.text.tokens import Positions, Texts, Vocabulary

if TYPE_CHECKING:
    from evenhand.engine.probe import ModelProbe

Floats = npt.NDArray[np.float64]
EPSILON = 1e-6
"""The least effect that a word counts with, relative to the largest of its text."""
CELLS = 2**22
"""Numbers of word vectors that are processed together."""


class WordSlopes:
    """Chooses words of texts, block by block.

    Parameters
    ----------
    probe
        The model and the texts.
    wanted
        ``"model"`` for the model's gradients, ``"scores"`` for scores of texts without a word, ``"auto"`` for the
        former where there are any.
    """

    def __init__(self, probe: ModelProbe, wanted: Source = "auto") -> None:
        model, self.ground = probe.model, cast("BoundTextSpace", probe.ground)
        if wanted == "model" and not model.has_words:
            raise ModelError(f"{model.name} gives no gradients of words, which this search follows", remedy=FOR_TEXTS)
        by_gradient = wanted != "scores" and model.has_words
        self.source = str(model.gradient_source or "gradients of words") if by_gradient else DIFFERENCES
        self.question = "gradient" if by_gradient else "score"
        self._effects = GradientEffects(probe) if by_gradient else ScoreEffects(probe)
        self._vectors = WordVectors(model, self.ground.texts.vocabulary) if by_gradient else None

    def check(self, probe: ModelProbe, scores: Floats) -> None:
        """Raise where a function gives labels after all, which show no effects."""
        if self._vectors is None and may_be_labels(probe, scores):
            raise ModelError(
                f"{probe.model.name} gives labels only, no scores that show how much a word matters",
                remedy=("use ", TEXT_RANDOM, ", which needs labels only, or wrap a function that returns scores"),
            )

    def parts(self, pairs: TextPairs, most: int | None, room: Callable[[], int]) -> Iterator[tuple[slice, int]]:
        """Cut texts into blocks of as many rows as there is room for, each with the number of its rows."""
        rows, words = self._effects.costs(pairs, most)
        start = 0
        while start < len(pairs):
            fits = (np.cumsum(rows[start:]) <= room()) & (np.cumsum(words[start:]) <= self._effects.words)
            stop = start + max(1, int(fits.sum()))
            yield slice(start, stop), int(rows[start:stop].sum())
            start = stop

    def ask(self, pairs: TextPairs, rule: str, draws: Bits | None, most: int | None) -> npt.NDArray[np.int32]:
        """Choose words of texts that can move: the position of one in each text, or one for each column of draws.

        With the rules ``asc`` and ``hotflip`` a second column has the number of the similar word.
        """
        flat, own, other = self._effects.ask(pairs, most)
        texts = pairs.individuals.texts
        rows = texts.rows[flat]
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        assert len(begins) == len(pairs), "a text that cannot move was asked about"
        if rule == "least":
            assert draws is not None
            chosen = least(_norm(own) + _norm(other), begins, flat - texts.starts[rows], draws[rows])
            return (flat[chosen] - texts.starts[:-1, None]).astype(np.int32)
        words, which = texts.words[flat], np.zeros(len(begins), dtype=np.int64)
        if rule == "hotflip":
            gains = self._gains(words, own - other, signed=pairs.most_different is None)
            nearest = gains.argmax(axis=1)
            chosen = largest(gains[np.arange(len(gains)), nearest], begins)
            which = nearest[chosen]
        else:
            chosen = largest(_norm(own - other), begins)
            if rule == "asc":
                which = self._nearest(words[chosen], own[chosen])
        return np.stack([flat[chosen] - texts.starts[:-1], which], axis=1).astype(np.int32)

    def _gains(self, words: npt.NDArray[np.int32], slopes: Floats, signed: bool) -> Floats:
        """Return to first order what each similar word of each word changes: (words, k)."""
        vectors, moves = self._words()
        out = []
        step = max(1, CELLS // (slopes.shape[1] * moves.similar.k))
        for begin in range(0, len(words), step):
            part = words[begin : begin + step]
            similar = moves.of(part)
            change = vectors.of(np.maximum(similar, 0)) - vectors.of(part)[:, None]
            gain = np.matmul(change, slopes[begin : begin + step, :, None])[:, :, 0]
            out.append(np.where(similar >= 0, gain if signed else np.abs(gain), -np.inf))
        return np.concatenate(out)

    def _nearest(self, words: npt.NDArray[np.int32], slopes: Floats) -> Positions:
        """Find the similar word of each word whose direction is nearest to the slope's sign, of equals the first."""
        vectors, moves = self._words()
        similar = moves.of(words)
        directions = np.sign(vectors.of(np.maximum(similar, 0)) - vectors.of(words)[:, None])
        distances = np.square(directions - np.sign(slopes)[:, None]).sum(axis=2)
        out: Positions = np.where(similar >= 0, distances, np.inf).argmin(axis=1)
        return out

    def _words(self) -> tuple[WordVectors, Any]:
        if self._vectors is None:
            raise StrategyError("asc and hotflip follow gradients of words", remedy="ask for the rule 'largest'")
        return self._vectors, self.ground.moves


class GradientEffects:
    """The gradients of the loss of a decision by the vector of each word, at texts and at their counterparts."""

    words = 2**18
    """The most words of texts that are asked about at once, as long as they are of more than one text."""

    def __init__(self, probe: ModelProbe) -> None:
        self._probe, self._ground = probe, cast("BoundTextSpace", probe.ground)

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts that are asked about for each, and their words."""
        del most
        return np.full(len(pairs), pairs.sides), pairs.sides * pairs.individuals.texts.lengths

    def ask(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Floats, Floats]:
        """Return words that can move, and for each its effect, a row, at its text and at the counterpart."""
        del most
        texts = pairs.individuals.texts
        flat = np.flatnonzero(self._ground.movable(pairs.individuals))
        if pairs.most_different is None:
            own = self._probe.client.word_gradients(texts, pairs.classes)[flat]
            return flat, own, np.zeros_like(own)
        both = texts.join([texts, pairs.most_different.texts])
        slopes = self._probe.client.word_gradients(both, np.concatenate([pairs.classes, pairs.classes]))
        return flat, slopes[flat], slopes[len(texts.words) + pairs.places[flat]]


class ScoreEffects(GradientEffects):
    """Scores of texts, and of their most different counterparts, without each of their words that can move.

    If a text has more than ``most`` such words, that many are tried, chosen by its contents.
    """

    words = WORDS

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts that are asked about for each, and their words."""
        texts = pairs.individuals.texts
        counts = np.bincount(texts.rows[self._tried(pairs, most)], minlength=len(pairs))
        rows = pairs.sides * (1 + counts)
        return rows, rows * texts.lengths

    def ask(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Floats, Floats]:
        """Return words that can move, and for each its effect, a row, at its text and at the counterpart."""
        texts, flat = pairs.individuals.texts, self._tried(pairs, most)
        asked, rows = _with_and_without(texts, flat), texts.rows[flat]
        if pairs.most_different is not None:
            asked += _with_and_without(pairs.most_different.texts, pairs.places[flat])
        classes = np.tile(np.concatenate([pairs.classes, pairs.classes[rows]]), pairs.sides)
        scores = of_class(self._probe.scores(asked), classes).reshape(pairs.sides, -1)
        # The score of a class falls where its loss rises.
        effects = scores[:, rows] - scores[:, len(texts) :]
        other = np.zeros_like(effects[0]) if pairs.most_different is None else effects[1]
        return flat, effects[0][:, None], other[:, None]

    def _tried(self, pairs: TextPairs, most: int | None) -> Positions:
        flat = np.flatnonzero(self._ground.movable(pairs.individuals))
        rows = pairs.individuals.texts.rows[flat]
        counts = np.bincount(rows, minlength=len(pairs))
        if most is None or counts.max(initial=0) <= most:
            return flat
        positions = (flat - pairs.individuals.texts.starts[rows]).astype(np.uint64)
        order = np.lexsort((mix(pairs.individuals.ids.view(np.uint64)[rows] + positions), rows))
        ranks = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(flat[order[ranks < most]])


def _with_and_without(texts: Texts, flat: Positions) -> list[str]:
    return texts.strings() + texts.without(flat)


class WordVectors:
    """A model's vectors by the numbers of the words in a vocabulary.

    >>> from evenhand.models.base import Model
    >>> class Lengths(Model):
    ...     def labels(self, texts):
    ...         return [0] * len(texts)
    ...
    ...     def word_vectors(self, words):
    ...         return np.array([[len(word)] for word in words])
    >>> vocabulary = Vocabulary()
    >>> WordVectors(Lengths(), vocabulary).of(vocabulary.ids(["an", "imam"])).tolist()
    [[2.0], [4.0]]
    """

    def __init__(self, model: Model, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._rows, self._table, self._count = np.full(0, -1), np.empty((0, 0)), 0

    def of(self, ids: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return the vectors of words, in one more dimension than ``ids``."""
        new = len(self._vocabulary) - len(self._rows)
        self._rows = np.append(self._rows, np.full(new, -1)) if new else self._rows
        fresh = np.unique(ids[self._rows[ids] < 0])
        if len(fresh):
            vectors = np.asarray(self._model.word_vectors(self._vocabulary.words[fresh].tolist()), dtype=np.float64)
            end = self._count + len(fresh)
            if end > len(self._table):
                # Doubled, so that a few new words at a time cost little.
                grown = np.empty((2 * end, vectors.shape[1]))
                grown[: self._count] = self._table[: self._count] if self._count else 0
                self._table = grown
            self._table[self._count : end] = vectors
            self._rows[fresh] = np.arange(self._count, end)
            self._count = end
        out: Floats = self._table[self._rows[ids]]
        return out


def largest(values: Floats, begins: Positions) -> Positions:
    """Return where the largest value of each stretch is, of equals the first.

    >>> largest(np.array([1.0, 3.0, 3.0, 2.0]), np.array([0, 3])).tolist()
    [1, 3]
    """
    counts = np.diff(begins, append=len(values))
    hits = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, begins), counts))
    out: Positions = hits[np.searchsorted(hits, begins)]
    return out


def least(matter: Floats, begins: Positions, positions: Positions, draws: Bits) -> Positions:
    """Draw places of each stretch with probabilities that are the normalised reciprocals of how much they matter.

    There is a draw in each column. Of exponential times, each with its own mean, each is the shortest with just these
    probabilities; and what is drawn for one stretch does not depend on the others.

    >>> draws = np.arange(8, dtype=np.uint64)[None].repeat(2, axis=0)
    >>> least(np.array([1.0, 1e9]), np.array([0]), np.arange(2), draws).tolist()
    [[0, 0, 0, 0, 0, 0, 0, 0]]
    """
    counts = np.diff(begins, append=len(matter))
    most = np.repeat(np.maximum.reduceat(matter, begins), counts)
    means = matter / np.where(most > 0, most, 1) + EPSILON
    bits = mix(mix(draws) + positions.astype(np.uint64)[:, None])
    times = -np.log1p(-((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53))
    return np.stack([largest(-times[:, j] * means, begins) for j in range(draws.shape[1])], axis=1)


def _norm(slopes: Floats) -> Floats:
    """Return the largest absolute value of each row."""
    out: Floats = np.abs(slopes).max(axis=1)
    return out
