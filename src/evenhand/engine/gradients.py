"""Slopes: how much a step of each attribute, or a word of a text, changes the loss of a decision.

They come from the model's own gradients or, if it has none, from differences of its scores. So every model with scores
can be searched by gradients, even trees and one-hot encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, mix
from evenhand._validate import check_choice
from evenhand.criteria import Outputs, Places
from evenhand.errors import FOR_TEXTS, KOSEI, SCORE_DIFFERENCES, TEXT_RANDOM, ModelError, StrategyError
from evenhand.models.base import Model
from evenhand.search import of_class
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.space import WORDS, BoundTextSpace
from evenhand.spaces.text.tokens import Positions, Texts, Vocabulary

if TYPE_CHECKING:
    from evenhand.engine.judge import ModelProbe

Classes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Source = Literal["auto", "model", "scores"]
EPSILON = 1e-6
"""Minimum effect of a word, relative to the largest in its text."""
CELLS = 2**22
"""Number of values of word vectors that are processed together."""

DIFFERENCES = "differences of scores"


class Slopes:
    """Computes slopes with one model call.

    Parameters
    ----------
    probe
        The model and the space.
    wanted
        ``"model"`` for the model's own gradients, ``"scores"`` for differences of its scores, ``"auto"`` for the former
        if there are any.
    """

    def __init__(self, probe: ModelProbe, wanted: Source = "auto") -> None:
        self.space: Space = probe.space
        self._probe, self.source = probe, _source(probe.model, wanted)
        free = np.array(self.space.free_columns)
        self._ordered, self._nominal = free[self.space.ordered[free]], free[~self.space.ordered[free]]

    def check(self, scores: Floats) -> None:
        """Raise if a function returns labels, which have no slopes."""
        if self.source == DIFFERENCES and may_be_labels(self._probe, scores):
            raise _labels_only(self._probe.model.name)

    @property
    def cost(self) -> int:
        """Model rows for the slopes of one individual."""
        if self.source != DIFFERENCES:
            return 1
        # A jump of a nominal attribute is compared with the individual itself.
        return 2 * len(self._ordered) + len(self._nominal) + (len(self._nominal) > 0)

    def ask(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Return (rows, attributes) slopes; those of protected attributes and of missing values are 0."""
        if self.source != DIFFERENCES:
            return self._differentiate(rows, classes, jumps)
        return self._subtract(rows, classes, jumps)

    def _differentiate(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Multiply the model's gradient by the change of its input that one step makes."""
        gradients = self._probe.client.gradients(self._probe.inputs(rows), classes)
        if self._columns is not None:
            every = np.zeros((len(rows), len(self.space.names)))
            every[:, self._columns] = gradients
            gradients = every
        scale, tables, nominal = self._steps
        slopes = gradients * scale
        for j, table in tables.items():
            slopes[:, j] = gradients[:, j] * table[rows[:, j]]
        if jumps is not None:
            for j, values in nominal.items():
                slopes[:, j] = gradients[:, j] * np.nan_to_num(values[jumps[:, j]] - values[rows[:, j]])
        return slopes

    @cached_property
    def _columns(self) -> list[int] | None:
        names = self._probe.model.columns
        return None if names is None else [self.space.column(name) for name in names]

    @cached_property
    def _steps(self) -> tuple[Floats, dict[int, Floats], dict[int, Floats]]:
        """The change of each column's number by one step.

        A constant if all steps are equal (0 for columns that do not move), otherwise tables by code; and the values of
        nominal columns.
        """
        scale, tables, nominal = np.zeros(len(self.space.names)), {}, {}
        seen = range(len(self.space.names)) if self._columns is None else self._columns
        for j in set(seen) & set(self.space.free_columns):
            attribute = self.space.attributes[j]
            values = attribute.decode(np.arange(attribute.size)).astype(np.float64)
            present = values[: attribute.present]
            if not attribute.ordered:
                nominal[j] = values
            elif len(present) > 1:
                steps = np.gradient(present)
                if attribute.has_missing or not np.allclose(steps, steps[0], rtol=1e-9):
                    tables[j] = np.append(steps, np.zeros(attribute.size - attribute.present))
                else:
                    scale[j] = steps[0]
        return scale, tables, nominal

    def _subtract(self, rows: Rows, classes: Classes, jumps: Rows | None) -> Floats:
        """Take differences of the score of the class: over two steps, or between a nominal value and its jump."""
        block = self._around(rows, jumps)
        scores = self._probe.scores(block.reshape(-1, block.shape[2]))
        # The loss falls as the score of the class rises.
        losses = -of_class(scores, np.repeat(classes, block.shape[1])).reshape(block.shape[:2])
        ups = len(self._ordered)
        place = np.arange(ups)
        length = block[:, place, self._ordered] - block[:, ups + place, self._ordered]
        out = np.zeros((len(losses), len(self.space.names)))
        out[:, self._ordered] = (losses[:, :ups] - losses[:, ups : 2 * ups]) / np.maximum(length, 1)
        if len(self._nominal):
            out[:, self._nominal] = losses[:, 2 * ups : -1] - losses[:, -1:]
        return out

    def _around(self, rows: Rows, jumps: Rows | None) -> Rows:
        """Return (rows, cost, attributes) individuals: all steps up, all down, all jumps, then itself."""
        ups, present = len(self._ordered), self.space.present[self._ordered]
        out = np.repeat(rows[:, None, :], self.cost, axis=1)
        code, place = rows[:, self._ordered], np.arange(ups)
        for first, stepped in ((0, np.minimum(code + 1, present - 1)), (ups, np.maximum(code - 1, 0))):
            out[:, first + place, self._ordered] = np.where(code < present, stepped, code)
        if len(self._nominal):
            if jumps is None:
                raise StrategyError(
                    "a space with nominal attributes needs gradients with jumps",
                    remedy="give gradient(..., jumps=rows to step to)",
                )
            out[:, 2 * ups + np.arange(len(self._nominal)), self._nominal] = jumps[:, self._nominal]
        if self.space.constraints:
            # Invalid individuals are not queried: such a step counts as the individual itself.
            valid = self.space.valid(out.reshape(-1, out.shape[2])).reshape(out.shape[:2])
            out = np.where(valid[:, :, None], out, rows[:, None, :])
        return out


def may_be_labels(probe: ModelProbe, scores: Floats) -> bool:
    """Whether the scores of a function may be labels: single numbers without a threshold."""
    model = probe.model
    unknown = model.threshold is None and model.classes is None and probe.criterion.needs_decisions
    return unknown and scores.shape[1] == 1


def _source(model: Any, wanted: Source) -> str:
    check_choice("gradient", wanted, ("auto", "model", "scores"), StrategyError)
    if wanted != "scores" and model.gradient_source is not None:
        return str(model.gradient_source)
    if wanted == "model":
        raise ModelError(
            f"{model.name} has no gradients of its own",
            remedy=("use differences of its scores: ", SCORE_DIFFERENCES, ", or ", KOSEI, ", which needs labels only"),
        )
    if not model.has_scores:
        raise _labels_only(model.name)
    return DIFFERENCES


def _labels_only(name: str) -> ModelError:
    return ModelError(
        f"{name} returns labels only, neither gradients nor scores to take differences of",
        remedy=("use ", KOSEI, ", which needs labels only, or wrap a function that returns scores"),
    )


def most_different_of(model: Model, outputs: Outputs) -> tuple[Classes, Places]:
    """Return the class of each individual, and the position of the counterpart that differs most from it.

    The difference is that of the scores of the individual's own class. Counterparts with a different decision take
    precedence; ties go to the first.

    >>> from evenhand.models.wrap import wrap
    >>> scores = np.array([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> classes, places = most_different_of(wrap(lambda X: X), Outputs(scores.argmax(axis=2), scores, np.array([0])))
    >>> classes.tolist(), places.tolist()
    ([0], [2])
    """
    assert outputs.scores is not None
    assert outputs.labels is not None
    here, own = np.arange(len(outputs.own)), outputs.own
    classes = model.choose(outputs.scores[here, own])
    if outputs.scores.shape[1] == 2:
        return classes, 1 - own
    column = classes if outputs.scores.shape[2] > 1 else np.zeros_like(classes)
    scores = outputs.scores[here, :, column]
    gap = np.abs(scores - scores[here, own][:, None])
    differs = np.asarray(outputs.labels != outputs.labels[here, own][:, None], dtype=bool)
    # Adding the largest gap puts different decisions first.
    gap += differs * (gap.max(axis=1, keepdims=True) + 1)
    gap[here, own] = -1
    return classes, gap.argmax(axis=1)


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
        model, self.bound = probe.model, cast("BoundTextSpace", probe.bound)
        if wanted == "model" and not model.has_words:
            raise ModelError(f"{model.name} has no gradients of words, which this search needs", remedy=FOR_TEXTS)
        by_gradient = wanted != "scores" and model.has_words
        self.source = str(model.gradient_source or "gradients of words") if by_gradient else DIFFERENCES
        self.question = "gradient" if by_gradient else "score"
        self._effects = GradientEffects(probe) if by_gradient else ScoreEffects(probe)
        self._vectors = WordVectors(model, self.bound.texts.vocabulary) if by_gradient else None

    def check(self, probe: ModelProbe, scores: Floats) -> None:
        """Raise if a function returns labels, which show no effects."""
        if self._vectors is None and may_be_labels(probe, scores):
            raise ModelError(
                f"{probe.model.name} returns labels only, no scores that show how much a word matters",
                remedy=("use ", TEXT_RANDOM, ", which needs labels only, or wrap a function that returns scores"),
            )

    def parts(
        self, pairs: TextPairs, rule: str, most: int | None, room: Callable[[], int]
    ) -> Iterator[tuple[slice, int]]:
        """Divide texts into blocks within the remaining rows, each with its number of rows."""
        rows, words = self._effects.costs(pairs, most)
        if _compares(pairs, rule):
            rows, words = rows + pairs.sides, 2 * words
        start = 0
        while start < len(pairs):
            fits = (np.cumsum(rows[start:]) <= room()) & (np.cumsum(words[start:]) <= self._effects.words)
            stop = start + max(1, int(fits.sum()))
            yield slice(start, stop), int(rows[start:stop].sum())
            start = stop

    def ask(self, pairs: TextPairs, rule: str, draws: Bits | None, most: int | None) -> npt.NDArray[np.int32]:
        """Choose words of texts that can move: the position of one in each text, or one for each column of draws.

        With the rules ``asc``, ``hotflip`` and ``hotflip-unsigned`` a second column has the number of the similar word.
        """
        flat, own, other = self._effects.ask(pairs, most)
        texts = pairs.individuals.texts
        rows = texts.rows[flat]
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        assert len(begins) == len(pairs), "a query has a text that no step can change"
        if rule == "least":
            assert draws is not None
            chosen = least(_norm(own) + _norm(other), begins, flat - texts.starts[rows], draws[rows])
            return (flat[chosen] - texts.starts[:-1, None]).astype(np.int32)
        words, which = texts.words[flat], np.zeros(len(begins), dtype=np.int64)
        if rule.startswith("hotflip"):
            slopes = own - other
            if _compares(pairs, rule):
                slopes *= np.where(self._other_is_nearer(pairs)[rows], -1, 1)[:, None]
            gains = self._gains(words, slopes, signed=rule == "hotflip")
            nearest = gains.argmax(axis=1)
            chosen = largest(gains[np.arange(len(gains)), nearest], begins)
            which = nearest[chosen]
        else:
            chosen = largest(_norm(own - other), begins)
            if rule == "asc":
                which = self._nearest(words[chosen], own[chosen])
        return np.stack([flat[chosen] - texts.starts[:-1], which], axis=1).astype(np.int32)

    def _other_is_nearer(self, pairs: TextPairs) -> npt.NDArray[np.bool_]:
        """Return for which texts the counterpart is nearer to the boundary: its score of their class is lower."""
        assert pairs.most_different is not None
        strings = pairs.individuals.texts.strings() + pairs.most_different.texts.strings()
        scores = of_class(self._effects.scores(strings), np.tile(pairs.classes, 2)).reshape(2, -1)
        out: npt.NDArray[np.bool_] = scores[1] < scores[0]
        return out

    def _gains(self, words: npt.NDArray[np.int32], slopes: Floats, signed: bool) -> Floats:
        """Return the first-order change by each similar word of each word: (words, k)."""
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
        """Find the similar word of each word whose direction is nearest to the slope's sign; ties go to the first."""
        vectors, moves = self._words()
        similar = moves.of(words)
        directions = np.sign(vectors.of(np.maximum(similar, 0)) - vectors.of(words)[:, None])
        distances = np.square(directions - np.sign(slopes)[:, None]).sum(axis=2)
        out: Positions = np.where(similar >= 0, distances, np.inf).argmin(axis=1)
        return out

    def _words(self) -> tuple[WordVectors, Any]:
        if self._vectors is None:
            raise StrategyError("asc and hotflip follow gradients of words", remedy="use the rule 'largest'")
        return self._vectors, self.bound.moves


class GradientEffects:
    """The gradients of the loss of a decision by the vector of each word, at texts and at their counterparts."""

    words = 2**18
    """Maximum number of words of texts in one call, if it has more than one text."""

    def __init__(self, probe: ModelProbe) -> None:
        self._probe, self._bound = probe, cast("BoundTextSpace", probe.bound)

    def scores(self, texts: list[str]) -> Floats:
        """Return the model's scores of texts, a row each."""
        return self._probe.scores(texts)

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts to query for each, and their words."""
        del most
        return np.full(len(pairs), pairs.sides), pairs.sides * pairs.individuals.texts.lengths

    def ask(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Floats, Floats]:
        """Return words that can move, and for each its effect, a row, at its text and at the counterpart."""
        del most
        texts = pairs.individuals.texts
        flat = np.flatnonzero(self._bound.movable(pairs.individuals))
        if pairs.most_different is None:
            own = self._probe.client.word_gradients(texts, pairs.classes)[flat]
            return flat, own, np.zeros_like(own)
        both = texts.join([texts, pairs.most_different.texts])
        slopes = self._probe.client.word_gradients(both, np.concatenate([pairs.classes, pairs.classes]))
        return flat, slopes[flat], slopes[len(texts.words) + pairs.places[flat]]


class ScoreEffects(GradientEffects):
    """Scores of texts, and of their most different counterparts, without each of their movable words.

    If a text has more than ``most`` movable words, that many are tried, chosen by its contents.
    """

    words = WORDS

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts to query for each, and their words."""
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
        # The score of a class falls as its loss rises.
        effects = scores[:, rows] - scores[:, len(texts) :]
        other = np.zeros_like(effects[0]) if pairs.most_different is None else effects[1]
        return flat, effects[0][:, None], other[:, None]

    def _tried(self, pairs: TextPairs, most: int | None) -> Positions:
        flat = np.flatnonzero(self._bound.movable(pairs.individuals))
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
                # Doubled, so that adding a few words at a time is cheap.
                grown = np.empty((2 * end, vectors.shape[1]))
                grown[: self._count] = self._table[: self._count] if self._count else 0
                self._table = grown
            self._table[self._count : end] = vectors
            self._rows[fresh] = np.arange(self._count, end)
            self._count = end
        out: Floats = self._table[self._rows[ids]]
        return out


def largest(values: Floats, begins: Positions) -> Positions:
    """Return the position of the largest value of each segment; ties go to the first.

    >>> largest(np.array([1.0, 3.0, 3.0, 2.0]), np.array([0, 3])).tolist()
    [1, 3]
    """
    counts = np.diff(begins, append=len(values))
    hits = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, begins), counts))
    out: Positions = hits[np.searchsorted(hits, begins)]
    return out


def least(matter: Floats, begins: Positions, positions: Positions, draws: Bits) -> Positions:
    """Draw positions of each segment with probabilities proportional to the reciprocals of their effects.

    Each column is one draw. The smallest of exponential times with different means has exactly these probabilities, and
    draws for one segment do not depend on the others.

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


def _compares(pairs: TextPairs, rule: str) -> bool:
    """Return whether a rule needs to know which of two texts is nearer to the decision boundary."""
    return rule == "hotflip" and pairs.most_different is not None


def _norm(slopes: Floats) -> Floats:
    """Return the largest absolute value of each row."""
    out: Floats = np.abs(slopes).max(axis=1)
    return out
