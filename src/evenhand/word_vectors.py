"""The vectors by which a model knows words, looked up once for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.spaces.text.tokens import Vocabulary

if TYPE_CHECKING:
    from evenhand.models.base import Model


class WordVectors:
    """A model's vectors by the numbers of a vocabulary.

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
        self._rows = np.full(0, -1)
        self._table = np.empty((0, 0))
        self._count = 0

    def of(self, ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """Return the vectors of words, one more dimension behind those of ``ids``."""
        grown = len(self._vocabulary) - len(self._rows)
        if grown:
            self._rows = np.concatenate([self._rows, np.full(grown, -1)])
        fresh = np.unique(ids[self._rows[ids] < 0])
        if len(fresh):
            self._add(fresh)
        out: npt.NDArray[np.float64] = self._table[self._rows[ids]]
        return out

    def _add(self, fresh: npt.NDArray[np.integer[Any]]) -> None:
        vectors = np.asarray(self._model.word_vectors(self._vocabulary.words[fresh].tolist()), dtype=np.float64)
        end = self._count + len(fresh)
        if end > len(self._table):
            # Doubled, so that a few new words at a time cost little.
            table = np.empty((2 * end, vectors.shape[1]))
            if self._count:
                table[: self._count] = self._table[: self._count]
            self._table = table
        self._table[self._count : end] = vectors
        self._rows[fresh] = np.arange(self._count, end)
        self._count = end
