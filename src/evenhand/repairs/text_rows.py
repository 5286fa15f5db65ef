"""The user's texts and labels: taken apart for training and for evidence, and which of them were used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.criteria import Criterion
from evenhand.engine.judge import Exclude, Judge, blocks
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DataError
from evenhand.models.base import Model
from evenhand.models.outputs import as_labels
from evenhand.repairs.rows import Positions, labels_of
from evenhand.spaces.text.individuals import TextFamilies, TextIndividuals
from evenhand.spaces.text.readers import strings_of
from evenhand.spaces.text.space import BoundTextSpace, TextSpace

if TYPE_CHECKING:
    from evenhand.runs.run import Run

PROBES = 64
"""The first texts, whose answers tell one model from another."""


@dataclass(frozen=True)
class Found:
    """Findings to train with."""

    rows: list[str]
    seeds: npt.NDArray[np.int64]
    """Which training text each was made of."""

    def __len__(self) -> int:
        return len(self.rows)


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

    columns: ClassVar[None] = None

    @property
    def data(self) -> list[str]:
        """The texts as an audit and an estimate take them."""
        return self.X

    @cached_property
    def ground(self) -> BoundTextSpace:
        """What an ``ModelProbe`` asks."""
        return ground_of(self.space, self.texts)

    @property
    def people(self) -> tuple[str, ...]:
        """The texts, to be looked up among those that were used."""
        return self.texts

    @property
    def probes(self) -> list[str]:
        """Fixed texts by whose answers a model is recognised."""
        return list(self.texts[:PROBES])

    def findings(self, run: Run, at: Positions) -> Found:
        """Return some findings, to train with."""
        pairs: Any = run.pairs
        records = pairs.records(at)
        return Found([record[0] for record in records], np.array([record[2] for record in records], dtype=np.int64))

    def families(self, found: Found, seed: int) -> Iterator[tuple[Positions, TextFamilies]]:
        """Build the families of texts in blocks; each with the positions of those that have one."""
        ground = ground_of(self.space, found.rows)
        for block in blocks(ground, ground.seeds):
            yield ground.positions[block.seeds], ground.families(block, seed)

    def written(self, rows: list[str]) -> list[str]:
        """Write findings as training takes them."""
        return rows

    @cached_property
    def truth(self) -> npt.NDArray[Any]:
        """The labels as decisions are written: whole numbers without a point."""
        return as_labels(self.y, len(self.y), "y")

    def asked(self, model: Model) -> list[str]:
        """Give what the model is asked with."""
        del model
        return self.X

    def held_out(self, share: float, seed: int) -> npt.NDArray[np.bool_]:
        """Choose a share of the texts; what is one test, or one text, stays together."""
        keys: list[Any] = list(self.texts)
        for row, key in zip(self.ground.positions.tolist(), self.ground.seeds.keys.tolist(), strict=True):
            keys[row] = key
        numbers: dict[Any, int] = {}
        which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        order = np.argsort(Stream(seed).unit("r-split", np.arange(len(numbers)), 0), kind="stable")
        return np.isin(which, order[: round(share * len(numbers))])

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


def ground_of(space: TextSpace, texts: Sequence[str]) -> BoundTextSpace:
    """Read texts that nothing is to be changed in but their terms; they may be none."""
    return BoundTextSpace(space, list(texts), np.arange(len(texts)), None)


def judged(
    model: Model, space: TextSpace, texts: Sequence[str], criterion: Criterion, seed: int
) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """Judge texts as they are: where those that can be judged stand, and which are treated differently.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> model = wrap(lambda texts: ["Sikh came" in text for text in texts], input="text")
    >>> judged(model, TextSpace("religion"), ["Nobody.", "A Sikh came.", "A Jew went."], Flip(), 0)
    (array([1, 2]), array([ True, False]))
    """
    ground = ground_of(space, texts)
    return ground.positions, Judge(ModelProbe(model, ground, criterion), seed).unfair(ground.seeds)


class UsedTexts:
    """Tests that a model was trained with: the training texts, and what a repair adds. They are no evidence.

    >>> used = UsedTexts(TextSpace("religion"), ["A Sikh came."])
    >>> used.add(Found(["A Jew went."], np.array([0])))
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

    def add(self, found: Found) -> None:
        """Note that these were added."""
        self._texts.update(found.rows)
        self._added = np.unique(np.concatenate([self._added, ground_of(self.space, found.rows).seeds.keys]))

    def __call__(self, people: TextIndividuals) -> npt.NDArray[np.bool_]:
        """Tell whose tests were used: by their keys, and in any case where a text is one of them letter for letter."""
        same = [text in self._trained or text in self._texts for text in people.rows]
        used: npt.NDArray[np.bool_] = np.isin(people.keys, np.concatenate([self._known, self._added]))
        used |= np.array(same, dtype=bool)
        return used

    def added(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Tell which texts are, letter for letter, among those that the repair added."""
        return np.array([text in self._texts for text in texts], dtype=bool)

    def barring(self, seed: int) -> Exclude:
        """Leave out those whose test was used."""
        del seed
        return self
