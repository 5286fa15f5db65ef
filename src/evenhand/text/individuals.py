"""A block of texts that were made from the seeds of a run by replacing free words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand.text.texts import Ids, Positions, Texts

if TYPE_CHECKING:
    from evenhand.text.ground import BoundTextSpace


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
        """What identifies each one's test: its words, a term that alone is judged left out."""
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
        """Where each seed stands in the data, and a hash of the text as it stands."""
        return np.stack(
            [self.ground.positions[self.seeds].astype(np.uint64), *self.ground.keys.exact(self.seeds, self.texts)],
            axis=1,
        )

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
