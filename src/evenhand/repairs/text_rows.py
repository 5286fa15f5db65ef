"""The user's texts and labels: taken apart for training and for evidence, and which of them were used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import is_number
from evenhand.errors import DataError
from evenhand.models.base import Model
from evenhand.models.outputs import as_labels
from evenhand.repairs.rows import Positions, labels_of
from evenhand.spaces.text.individuals import TextIndividuals
from evenhand.spaces.text.readers import strings_of
from evenhand.spaces.text.space import BoundTextSpace, TextSpace


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels."""

    space: TextSpace
    texts: tuple[str, ...]
    y: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def X(self) -> list[str]:  # noqa: N802
        """The texts as a new list: whoever trains may change it."""
        return list(self.texts)

    @property
    def in_order(self) -> list[str]:
        """The same: a text has no columns."""
        return self.X

    @cached_property
    def truth(self) -> npt.NDArray[Any]:
        """The labels as decisions are written: whole numbers without a point."""
        return as_labels(self.y, len(self.y), "y")

    def asked(self, model: Model) -> list[str]:
        """Give what the model is asked with."""
        del model
        return self.X

    def take(self, at: Positions) -> LabelledTexts:
        """Return some of the texts."""
        return replace(self, texts=tuple(self.texts[row] for row in at.tolist()), y=self.y[at])

    def plus(self, added: Sequence[str], labels: npt.NDArray[Any]) -> LabelledTexts:
        """Return these texts and some more."""
        return replace(self, texts=(*self.texts, *added), y=np.concatenate([self.y, labels.astype(self.y.dtype)]))


def labelled_texts(X: Any, y: Any, space: TextSpace, name: str = "X") -> LabelledTexts:
    """Check texts and labels.

    >>> len(labelled_texts(["A Sikh.", "Nobody."], [0, 1], TextSpace("religion")))
    2
    """
    strings, _, missing = strings_of(X, space.column)
    if missing:
        raise DataError(f"{missing:,} texts of {name} are missing; drop them, and their labels")
    return LabelledTexts(space, tuple(strings), labels_of(y, len(strings), "y" if name == "X" else "y_test"))


def split_texts(rows: LabelledTexts, share: Any, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """Split texts into those to train with and a share held out; what is one test, or one text, stays together.

    >>> rows = labelled_texts([f"A {who} said {n}." for who in ("Sikh", "Jew") for n in range(9)], [0] * 18,
    ...                       TextSpace("religion"))
    >>> train, held = split_texts(rows, 0.5, seed=0)
    >>> len(train) + len(held), {text[-2] for text in train.texts} & {text[-2] for text in held.texts}
    (18, set())
    """
    if not is_number(share) or not 0 < share < 1:
        raise DataError(f"held_out must be a share above 0 and below 1, or a pair (X_test, y_test); got {share!r}")
    numbers: dict[Any, int] = {}
    which = np.array([numbers.setdefault(key, len(numbers)) for key in _tests(rows)], dtype=np.int64)
    order = np.argsort(Stream(seed).unit("r-split", np.arange(len(numbers)), 0), kind="stable")
    out = np.isin(which, order[: round(share * len(numbers))])
    if not out.any() or out.all():
        raise DataError(
            f"leaves one side empty, of {len(numbers):,} different texts",
            parameter="held_out",
            value=share,
            remedy="give more texts",
        )
    return rows.take(np.flatnonzero(~out)), rows.take(np.flatnonzero(out))


def _tests(rows: LabelledTexts) -> list[Any]:
    """Say which test each text is; a text that is none is itself."""
    ground = ground_of(rows.space, rows.texts)
    keys: list[Any] = list(rows.texts)
    for row, key in zip(ground.positions.tolist(), ground.seeds.keys.tolist(), strict=True):
        keys[row] = key
    return keys


def ground_of(space: TextSpace, texts: Sequence[str]) -> BoundTextSpace:
    """Read texts that nothing is to be changed in but their terms; they may be none."""
    return BoundTextSpace(space, list(texts), np.arange(len(texts)), None)


class UsedTexts:
    """Tests that a model was trained with: the training texts, and what a repair adds. They are no evidence.

    >>> used = UsedTexts(TextSpace("religion"), ["A Sikh came."])
    >>> used.add(["A Jew went."])
    >>> people = TextSpace("religion").begin(["An atheist went.", "A Jain came.", "A Jain stayed."]).seeds
    >>> used(people).tolist(), len(used)
    ([True, True, False], 1)
    """

    def __init__(self, space: TextSpace, texts: Sequence[str] = ()) -> None:
        self.space = space
        self._known = ground_of(space, texts).seeds.keys
        self._added = self._known[:0]
        self._trained, self._texts = frozenset(texts), set[str]()

    def __len__(self) -> int:
        return len(self._added)

    def add(self, texts: Sequence[str]) -> None:
        """Note that these were added."""
        self._texts.update(texts)
        self._added = np.unique(np.concatenate([self._added, ground_of(self.space, texts).seeds.keys]))

    def __call__(self, people: TextIndividuals) -> npt.NDArray[np.bool_]:
        """Tell whose tests were used: by their keys, and in any case where a text is one of them letter for letter."""
        same = [text in self._trained or text in self._texts for text in people.rows]
        used: npt.NDArray[np.bool_] = np.isin(people.keys, np.concatenate([self._known, self._added]))
        used |= np.array(same, dtype=bool)
        return used

    def added(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Tell which texts are, letter for letter, among those that the repair added."""
        return np.array([text in self._texts for text in texts], dtype=bool)
