"""The user's rows or texts with their labels, split for training and evidence, and the tests that a repair used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import is_number
from evenhand.criteria import Criterion
from evenhand.engine.judge import Exclude, Judge, blocks
from evenhand.engine.probe import ModelProbe
from evenhand.errors import FRAME, DataError, ModelError
from evenhand.models.base import Model
from evenhand.models.outputs import as_labels
from evenhand.spaces.frames import as_pandas
from evenhand.spaces.individuals import Individuals, Keys, Rows
from evenhand.spaces.individuals import Rows as Codes
from evenhand.spaces.neighbours import TabularFamilies as Families
from evenhand.spaces.tabular import Encoded, Space
from evenhand.spaces.text.individuals import TextFamilies, TextIndividuals
from evenhand.spaces.text.readers import strings_of
from evenhand.spaces.text.space import BoundTextSpace, TextSpace

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.runs.run import Run

SHOWN = 8
PROBES = 64
"""The first texts, whose answers tell one model from another."""
BLOCK = 16_384
"""Individuals whose families are built at once."""
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """Rows with labels, as a frame; ``array``: the user gave, and models are trained on, an array."""

    space: Space
    frame: pd.DataFrame
    y: npt.NDArray[Any]
    array: bool

    def __len__(self) -> int:
        return len(self.y)

    @property
    def X(self) -> Any:  # noqa: N802
        """The rows as the user gave them, a copy: training may change it."""
        return self.frame.to_numpy(copy=True) if self.array else self.frame.copy()

    @property
    def in_order(self) -> Any:
        """The same with the columns in the space's order."""
        return self.X if self.array else self.frame[list(self.space.names)].copy()

    @property
    def data(self) -> Any:
        """The rows as an audit and an estimate take them."""
        return self.frame

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns in the user's own order; None where rows are arrays."""
        return None if self.array else tuple(self.frame.columns)

    @property
    def ground(self) -> Space:
        """What an ``ModelProbe`` asks."""
        return self.space

    @property
    def people(self) -> Individuals:
        """Those rows that are individuals of the space."""
        return self.encoded.individuals

    @property
    def probes(self) -> Any:
        """Fixed rows by whose answers a model is recognised, as an ``ModelProbe`` takes them."""
        return self.space.probes(self.people).rows

    def asked(self, model: Model) -> Any:
        """Give what a model is asked with."""
        frame = self.frame[list(self.space.names)]
        picked = model.pick(frame)
        return _numbers(model, frame) if model.input == "array" else picked

    @cached_property
    def truth(self) -> npt.NDArray[Any]:
        """The labels as decisions are written: whole numbers without a point."""
        return as_labels(self.y, len(self.y), "y")

    @cached_property
    def encoded(self) -> Encoded:
        """The rows as individuals of the space."""
        return self.space.encode(self.frame)

    def held_out(self, share: float, seed: int) -> npt.NDArray[np.bool_]:
        """Choose a share of the rows, of every label alike."""
        draws = Stream(seed).unit("r-split", np.arange(len(self)), 0)
        out = np.zeros(len(self), dtype=bool)
        _, inverse = np.unique(self.truth.astype(str), return_inverse=True)
        for label in range(int(inverse.max(initial=-1)) + 1):
            here = np.flatnonzero(inverse == label)
            out[here[np.argsort(draws[here])][: round(share * len(here))]] = True
        return out

    def take(self, at: Positions) -> Labelled:
        """Return some rows."""
        return replace(self, frame=self.frame.iloc[at].reset_index(drop=True), y=self.y[at])

    def plus(self, added: pd.DataFrame, labels: npt.NDArray[Any]) -> Labelled:
        """Return these rows and some more, in the same columns and dtypes."""
        import pandas as pd

        if not len(added):
            return self
        like = {name: _like(added[name], self.frame[name].dtype) for name in self.frame.columns}
        frame = pd.concat([self.frame, pd.DataFrame(like)], ignore_index=True)
        return replace(self, frame=frame, y=np.concatenate([self.y, labels.astype(self.y.dtype)]))

    def findings(self, run: Run, at: Positions) -> Individuals:
        """Return some findings, to train with."""
        return run.pairs.individuals("individual", at)

    def families(self, people: Individuals, seed: int) -> Iterator[tuple[Positions, Families]]:
        """Build the families of individuals in blocks; each with the positions of those that have one."""
        for at in range(0, len(people), BLOCK):
            here = np.arange(at, min(at + BLOCK, len(people)))
            yield here, self.space.families(people[here], seed)

    def written(self, rows: Codes) -> pd.DataFrame:
        """Write rows of codes in the user's own values."""
        import pandas as pd

        if self.array:
            return pd.DataFrame(self.space.array(rows), columns=list(self.space.names))
        return self.space.frame(rows)


def labelled(X: Any, y: Any, space: Space, name: str = "X") -> Labelled:
    """Check rows and labels, and take them as those of a space.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> labelled([[3, 0], [4, 1]], [0, 1], space).frame["age"].tolist()
    [3, 4]
    """
    import pandas as pd

    array = isinstance(X, np.ndarray | list)
    if array:
        try:
            table = np.asarray(X)
        except ValueError:
            raise DataError(f"{name} must have equally many numbers in each row; give an array or a frame") from None
        if table.ndim != 2 or table.shape[1] != len(space.names) or table.dtype.kind not in "biuf":
            raise DataError(
                f"{name} as an array must hold numbers in the space's {len(space.names)} columns, got "
                f"{table.dtype} of shape {table.shape}; give a frame with names for anything else"
            )
        frame = pd.DataFrame(table, columns=list(space.names))
    else:
        frame = as_pandas(X).reset_index(drop=True)
    _check_columns(frame, space, name)
    return Labelled(space, frame, labels_of(y, len(frame), "y" if name == "X" else "y_test"), array)


def _check_columns(frame: pd.DataFrame, space: Space, name: str) -> None:
    lacking = [column for column in space.names if column not in frame.columns]
    more = [str(column) for column in frame.columns if column not in space.names]
    if lacking:
        raise DataError(f"{name} lacks {', '.join(map(repr, lacking[:SHOWN]))}, which the space has")
    if more:
        raise DataError(
            f"{name} has columns that the space lacks: {', '.join(map(repr, more[:SHOWN]))}; their values are "
            "unknown for individuals that are added: drop them, or add them to the space"
        )


def labels_of(y: Any, rows: int, name: str) -> npt.NDArray[Any]:
    """Check labels, one a row.

    >>> labels_of([["good"], ["bad"]], 2, "y").tolist()
    ['good', 'bad']
    """
    import pandas as pd

    labels = np.asarray(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (rows,):
        raise DataError(f"{name} must be one label for each of {rows:,} rows, got shape {labels.shape}")
    absent = pd.isna(labels) | (np.isinf(labels) if labels.dtype.kind == "f" else False)
    if absent.any():
        first = int(absent.argmax())
        raise DataError(
            f"{name} has no label for {int(absent.sum()):,} of {rows:,} rows (first: row {first}, {labels[first]!s}); "
            "leave such rows out, or label them"
        )
    try:
        as_labels(labels, rows, name, "repairs are for decisions; make decisions of numbers")
    except ModelError as error:
        raise DataError(f"{name} cannot be used as labels: {error}") from None
    return labels


def split(rows: Any, share: Any, seed: int) -> tuple[Any, Any]:
    """Split rows, or texts, into those to train with and a share held out.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> train, test = split(labelled([[age, 0] for age in range(10)], [0, 1] * 5, space), 0.4, seed=0)
    >>> len(train), sorted(test.y.tolist())
    (6, [0, 0, 1, 1])
    """
    if not is_number(share) or not 0 < share < 1:
        raise DataError(f"held_out must be a share above 0 and below 1, or a pair (X_test, y_test); got {share!r}")
    out = rows.held_out(share, seed)
    if not out.any() or out.all():
        raise DataError(
            f"leaves no row on one side, of {len(rows):,}", parameter="held_out", value=share, remedy="give more rows"
        )
    return rows.take(np.flatnonzero(~out)), rows.take(np.flatnonzero(out))


def _like(values: pd.Series[Any], dtype: Any) -> pd.Series[Any]:
    """Give values the dtype of a column, where that loses nothing; else the joined column finds one for both."""
    import pandas as pd

    if values.dtype == dtype:
        return values
    try:
        cast = values.astype(dtype)
        # A value that a category lacks becomes a missing one.
        same = bool(
            (cast.isna() == values.isna()).all()
            and (cast.astype(object) == values.astype(object))[values.notna()].all()
        )
    except (TypeError, ValueError):
        return values
    return cast if same else pd.Series(values)


def _numbers(model: Model, frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    try:
        return np.ascontiguousarray(frame.to_numpy(dtype=np.float64))
    except (TypeError, ValueError):
        raise ModelError(
            f"{model.name} takes an array of numbers, and not all of the rows' columns are numbers",
            remedy=("where it takes the frame itself, return ", FRAME),
        ) from None


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
        """The texts as a new list: training may change it."""
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


Mask = npt.NDArray[np.bool_]


class Used:
    """Tests that a repair trained with; called with individuals, of this space or of one with the same columns.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> used = Used(space)
    >>> used.add(space.individuals([[3, 0]]))
    >>> used(space.individuals([[3, 1], [4, 1]])).tolist(), len(used)
    ([True, False], 1)
    >>> used.added(space.individuals([[3, 1], [3, 0]])).tolist()
    [False, True]
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.rows: Rows = np.zeros((0, len(space.names)), dtype=np.int32)
        """The individuals themselves, each once."""
        self.keys: Keys = space.individuals(self.rows).keys

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, people: Individuals) -> None:
        """Note that these were used."""
        self.keys = np.unique(np.concatenate([self.keys, people.keys]))
        self.rows = np.unique(np.concatenate([self.rows, people.rows]), axis=0)

    def __call__(self, people: Individuals) -> Mask:
        """Tell whose tests were used."""
        if not len(self.keys):
            return np.zeros(len(people), dtype=bool)
        # Another attribute may be protected now, and an individual that then shares the test still counts as used.
        own = people if people.space is self.space else Individuals(self.space, rows=people.rows)
        at = np.minimum(np.searchsorted(self.keys, own.keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == own.keys, dtype=bool)

    def added(self, people: Individuals) -> Mask:
        """Return which individuals equal, in every value, one that the repair added."""
        every = np.concatenate([self.rows, people.rows])
        numbers = np.unique(every, axis=0, return_inverse=True)[1].reshape(-1)
        return np.isin(numbers[len(self.rows) :], numbers[: len(self.rows)])

    def barring(self, seed: int) -> Exclude:
        """Bar those of whose families anybody's test was used; ``seed`` chooses counterparts as the judge's does."""

        def exclude(people: Individuals) -> Mask:
            if people.space is self.space or not len(self):
                return self(people)
            families = people.space.families(people, seed)
            places = families.rows.reshape(-1, len(self.space.names))
            used = self(Individuals(self.space, rows=places)).reshape(len(people), families.width)
            return np.asarray((used if families.valid is None else used & families.valid).any(axis=1))

        return exclude
