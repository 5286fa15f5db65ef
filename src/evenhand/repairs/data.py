"""The user's rows or texts with their labels, split for training and evidence, and the tests that a repair used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_number
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import Exclude, Judge, ModelProbe, blocks
from evenhand.errors import FRAME, DataError, ModelError
from evenhand.models.base import Model
from evenhand.models.client import as_labels
from evenhand.spaces.frames import as_pandas, pd
from evenhand.spaces.individuals import Individuals, Keys, Rows
from evenhand.spaces.individuals import Rows as Codes
from evenhand.spaces.individuals import TabularFamilies as Families
from evenhand.spaces.tabular import Encoded, Space
from evenhand.spaces.text.individuals import TextFamilies, TextIndividuals
from evenhand.spaces.text.readers import strings_of
from evenhand.spaces.text.space import BoundTextSpace, TextSpace

if TYPE_CHECKING:
    from evenhand.runs.run import Run

SHOWN = 8
PROBES = 64
"""Number of first texts whose answers identify a model."""
BLOCK = 16_384
"""Number of individuals whose families are built at once."""
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """Rows with labels, as a frame; ``array``: the user's rows, and those that models are trained on, are arrays."""

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
        """The columns in the user's own order; None if rows are arrays."""
        return None if self.array else tuple(self.frame.columns)

    @property
    def bound(self) -> Space:
        """What an ``ModelProbe`` asks."""
        return self.space

    @property
    def people(self) -> Individuals:
        """The rows that are individuals of the space."""
        return self.encoded.individuals

    @property
    def tested(self) -> Individuals:
        """Those that may have a counterpart."""
        return self.people

    def others(self, most: int, seed: int) -> Individuals:
        """Draw uniform individuals; at most a quarter of a small space, most of which is left for evidence."""
        return self.space.sampler.draw(Stream(seed), 0, max(1, min(most, self.space.tests // 4)))[0]

    def paired(self, people: Individuals, model: Model, seed: int) -> tuple[Individuals, Individuals]:
        """Return individuals and a random counterpart of each, without those that have none."""
        del model
        owner, others = self.swapped(people, False, seed)
        return people[owner], others

    def inputs(self, people: Individuals) -> npt.NDArray[np.float64]:
        """Write individuals as a network takes them."""
        return self.space.array(people.rows)

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
        """The labels in the form of decisions: whole numbers without a decimal point."""
        return as_labels(self.y, len(self.y), "y")

    @cached_property
    def encoded(self) -> Encoded:
        """The rows as individuals of the space."""
        return self.space.encode(self.frame)

    def held_out(self, share: float, seed: int) -> npt.NDArray[np.bool_]:
        """Choose a share of the rows, the same for every label."""
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
        if not len(added):
            return self
        like = {name: _like(added[name], self.frame[name].dtype) for name in self.frame.columns}
        frame = pd.concat([self.frame, pd.DataFrame(like)], ignore_index=True)
        return replace(self, frame=frame, y=np.concatenate([self.y, labels.astype(self.y.dtype)]))

    def joined(self, first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
        """Put rows together."""
        return pd.concat([first, second], ignore_index=True)

    def findings(self, run: Run, at: Positions) -> Individuals:
        """Return some findings, to train with."""
        return run.pairs.individuals("individual", at)

    def families(self, people: Individuals, seed: int) -> Iterator[tuple[Positions, Families]]:
        """Build the families of individuals in blocks; each with the positions of those that have one."""
        for at in range(0, len(people), BLOCK):
            here = np.arange(at, min(at + BLOCK, len(people)))
            yield here, self.space.families(people[here], seed)

    def members(self, people: Individuals, seed: int) -> tuple[Positions, Individuals]:
        """Return all valid members of families, and the position of the individual that each belongs to."""
        owners: list[Positions] = [np.zeros(0, dtype=np.int64)]
        rows: list[Codes] = [np.zeros((0, len(self.space.names)), dtype=np.int32)]
        for positions, families in self.families(people, seed):
            owners.append(np.repeat(positions, families.places))
            rows.append(families.asked)
        return np.concatenate(owners), Individuals(self.space, rows=np.concatenate(rows))

    def swapped(self, people: Individuals, every: bool, seed: int) -> tuple[Positions, Individuals]:
        """Return counterparts of individuals, one drawn for each or every valid one, and the position of each's own."""
        owners: list[Positions] = [np.zeros(0, dtype=np.int64)]
        rows: list[Codes] = [np.zeros((0, len(self.space.names)), dtype=np.int32)]
        for positions, families in self.families(people, seed):
            n = len(positions)
            other = np.ones((n, families.width), dtype=bool) if families.valid is None else families.valid.copy()
            other[np.arange(n), families.own] = False
            if not every:
                numbers = positions[:, None] * families.width + np.arange(families.width)
                draws = Stream(seed).unit("which", numbers.ravel(), 0).reshape(other.shape)
                chosen = np.where(other, draws, -1.0).argmax(axis=1)
                other &= np.arange(families.width) == chosen[:, None]
            owners.append(positions[np.nonzero(other)[0]])
            rows.append(families.rows[other])
        return np.concatenate(owners), Individuals(self.space, rows=np.concatenate(rows))

    def counterparts(self, every: bool, seed: int) -> tuple[Positions, Individuals, pd.DataFrame]:
        """Return counterparts of the rows, one drawn for each row or every valid one.

        They come with the position of the row that each belongs to, and as rows in the user's own values: protected and
        linked values change, everything else stays as the user gave it.
        """
        owners, people = self.swapped(self.people, every, seed)
        at = self.encoded.positions[owners]
        linked = {j for dependents in self.space.link_tables.values() for j in dependents}
        written = self.written(people.rows)
        changing = [name for j, name in enumerate(self.space.names) if j in linked or name in self.space.protected]
        frame = self.frame.iloc[at].reset_index(drop=True)
        return at, people, frame.assign(**{name: written[name] for name in changing})

    def written(self, rows: Codes) -> pd.DataFrame:
        """Write rows of codes in the user's own values."""
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
    array = isinstance(X, np.ndarray | list)
    if array:
        try:
            table = np.asarray(X)
        except ValueError:
            raise DataError(
                "must have the same number of values in each row", parameter=name, remedy="give an array or a frame"
            ) from None
        if table.ndim != 2 or table.shape[1] != len(space.names) or table.dtype.kind not in "biuf":
            raise DataError(
                f"as an array must hold numbers in the space's {len(space.names)} columns, got {table.dtype} of "
                f"shape {table.shape}",
                parameter=name,
                remedy="for anything else, give a frame with named columns",
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
        raise DataError(
            f"must have all columns of the space, and has no {', '.join(map(repr, lacking[:SHOWN]))}", parameter=name
        )
    if more:
        raise DataError(
            f"must have only columns of the space, and has {', '.join(map(repr, more[:SHOWN]))}",
            parameter=name,
            remedy="drop these columns or add them to the space: their values are unknown for added individuals",
        )


def labels_of(y: Any, rows: int, name: str) -> npt.NDArray[Any]:
    """Check labels, one a row.

    >>> labels_of([["good"], ["bad"]], 2, "y").tolist()
    ['good', 'bad']
    """
    labels = np.asarray(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (rows,):
        raise DataError(f"must be one label for each of {rows:,} rows, got shape {labels.shape}", parameter=name)
    absent = pd.isna(labels) | (np.isinf(labels) if labels.dtype.kind == "f" else False)
    if absent.any():
        first = int(absent.argmax())
        raise DataError(
            f"has no label for {int(absent.sum()):,} of {rows:,} rows (first: row {first}, {labels[first]!s})",
            parameter=name,
            remedy="leave such rows out, or label them",
        )
    try:
        as_labels(labels, rows, name, "repairs need decisions; turn numbers into decisions")
    except ModelError as error:
        raise DataError(f"cannot be used as labels: {error}", parameter=name) from None
    return labels


def split(rows: Any, share: Any, seed: int) -> tuple[Any, Any]:
    """Split rows, or texts, into those to train with and a share held out.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> train, test = split(labelled([[age, 0] for age in range(10)], [0, 1] * 5, space), 0.4, seed=0)
    >>> len(train), sorted(test.y.tolist())
    (6, [0, 0, 1, 1])
    """
    check_number("held_out", share, DataError, above=0, below=1, remedy="or give a pair (X_test, y_test)")
    out = rows.held_out(share, seed)
    if not out.any() or out.all():
        raise DataError(
            f"leaves one side without rows, of {len(rows):,}",
            parameter="held_out",
            value=share,
            remedy="give more rows",
        )
    return rows.take(np.flatnonzero(~out)), rows.take(np.flatnonzero(out))


def _like(values: pd.Series[Any], dtype: Any) -> pd.Series[Any]:
    """Convert values to the dtype of a column if that loses nothing; otherwise the columns get a common dtype."""
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
    """Texts to train with."""

    rows: list[str]
    seeds: npt.NDArray[np.int64]
    """Which training text each was made of."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Positions) -> Found:
        """Return some of the texts."""
        return Found([self.rows[row] for row in at.tolist()], self.seeds[at])


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
    def bound(self) -> BoundTextSpace:
        """What an ``ModelProbe`` asks."""
        return bind_texts(self.space, self.texts)

    @property
    def people(self) -> Found:
        """The texts, each made of itself."""
        return Found(self.X, np.arange(len(self)))

    @property
    def tested(self) -> Found:
        """Those that may have a counterpart: the texts with a term."""
        return self.people[self.bound.positions]

    def others(self, most: int, seed: int) -> Found:
        """Draw texts that have no term of their own, each with a random one."""
        return self.mentions(1, seed, most)

    def paired(self, people: Found, model: Model, seed: int) -> tuple[Found, Found]:
        """Return for each text the two of its family whose scores differ most, without those that have no counterpart.

        A family may have dozens of members, of which one or two terms are scored differently; random pairs would hardly
        ever have them.
        """
        owner, found = replace(self, space=self.space.by_spelling()).members(people, seed)
        scores = ModelProbe(model, self.bound, Flip()).scores(found.rows)
        one = _furthest(scores, owner, np.unique(owner, return_index=True)[1])
        other = _furthest(scores, owner, one)
        apart = one != other
        return found[one[apart]], found[other[apart]]

    def inputs(self, people: Found) -> list[str]:
        """Write texts as a network takes them."""
        return people.rows

    @property
    def probes(self) -> list[str]:
        """Fixed texts by whose answers a model is recognised."""
        return list(self.texts[:PROBES])

    def joined(self, first: list[str], second: list[str]) -> list[str]:
        """Put texts together."""
        return [*first, *second]

    def findings(self, run: Run, at: Positions) -> Found:
        """Return some findings, to train with."""
        pairs: Any = run.pairs
        records = pairs.records(at)
        return Found([record[0] for record in records], np.array([record[2] for record in records], dtype=np.int64))

    def families(self, found: Found, seed: int) -> Iterator[tuple[Positions, TextFamilies]]:
        """Build the families of texts in blocks; each with the positions of those that have one."""
        bound = bind_texts(self.space, found.rows)
        for block in blocks(bound, bound.seeds):
            yield bound.positions[block.seeds], bound.families(block, seed)

    def members(self, found: Found, seed: int) -> tuple[Positions, Found]:
        """Return the members of families, and the position of the text that each belongs to."""
        owners, texts = [np.zeros(0, dtype=np.int64)], list[str]()
        for positions, families in self.families(found, seed):
            owners.append(np.repeat(positions, families.places))
            texts += families.asked
        # An edited text may have no term left when it is parsed again; it is then its only member.
        alone = np.setdiff1d(np.arange(len(found)), np.concatenate(owners))
        owner = np.concatenate([*owners, alone])
        return owner, Found([*texts, *(found.rows[at] for at in alone.tolist())], found.seeds[owner])

    def swapped(self, people: Found, every: bool, seed: int) -> tuple[Positions, Found]:
        """Return counterparts of texts, one drawn for each or every one, and the position of each's own.

        All terms of an identity are replaced together, by every spelling of a term. A model that is trained on texts
        and such counterparts sees all spellings equally often, and in the same texts; if terms are replaced one by one
        the original's remain more frequent.
        """
        owner, found = replace(self, space=self.space.by_spelling()).members(people, seed)
        # A text itself is the first member of its family.
        first = np.ones(len(owner), dtype=bool)
        first[1:] = owner[1:] != owner[:-1]
        at = np.flatnonzero(~first)
        if not every and len(at):
            order = np.lexsort((Stream(seed).unit("which", at, 0), owner[at]))
            at = np.sort(at[order][np.unique(owner[at][order], return_index=True)[1]])
        return owner[at], found[at]

    def counterparts(self, every: bool, seed: int) -> tuple[Positions, Found, list[str]]:
        """Return counterparts of the texts, one drawn for each text or every one, and the text each belongs to."""
        owner, found = self.swapped(self.people, every, seed)
        return owner, found, found.rows

    def mentions(self, number: int, seed: int, most: int | None = None) -> Found:
        """Return copies of the texts that have no counterpart, or of at most so many, with random terms and places.

        >>> rows = LabelledTexts(TextSpace({"team": ["reds", "blues"]}), ("Hello you", "reds"), np.array([0, 1]))
        >>> rows.mentions(2, seed=0).rows
        ['Hello blues you', 'reds Hello you']
        """
        cells = [cell for lexicon in self.space.lexicons for row in lexicon.cells for cell in row]
        terms = sorted({term for cell in cells for term in cell})
        without = np.setdiff1d(np.arange(len(self)), self.bound.positions)
        if most is not None and len(without) > most:
            without = np.sort(np.random.default_rng(seed).choice(without, most, replace=False))
        seeds = np.repeat(without, number)
        term, place = (Stream(seed).unit(what, np.arange(len(seeds)), 0).tolist() for what in ("term", "place"))
        rows = []
        for row, which, where in zip(seeds.tolist(), term, place, strict=True):
            words = self.texts[row].split(" ")
            words.insert(int(where * (len(words) + 1)), terms[int(which * len(terms))])
            rows.append(" ".join(words))
        return Found(rows, seeds)

    def written(self, rows: list[str]) -> list[str]:
        """Write findings as training takes them."""
        return rows

    @cached_property
    def truth(self) -> npt.NDArray[Any]:
        """The labels in the form of decisions: whole numbers without a decimal point."""
        return as_labels(self.y, len(self.y), "y")

    def asked(self, model: Model) -> list[str]:
        """Give what the model is asked with."""
        del model
        return self.X

    def held_out(self, share: float, seed: int) -> npt.NDArray[np.bool_]:
        """Choose a share of the texts; texts of the same test, and equal texts, stay together."""
        keys: list[Any] = list(self.texts)
        for row, key in zip(self.bound.positions.tolist(), self.bound.seeds.keys.tolist(), strict=True):
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


def _furthest(scores: npt.NDArray[Any], owner: Positions, those: Positions) -> Positions:
    """Return the member of each family whose scores are furthest from those of a given member.

    >>> _furthest(np.array([[0.5], [0.1], [0.7]]), np.array([0, 0, 0]), np.array([0]))
    array([1])
    """
    families, inverse = np.unique(owner, return_inverse=True)
    distances = np.square(scores - scores[those[inverse]]).sum(axis=1)
    order = np.lexsort((distances, inverse))
    return order[np.searchsorted(inverse[order], np.arange(len(families)), side="right") - 1]


def labelled_texts(X: Any, y: Any, space: TextSpace, name: str = "X") -> LabelledTexts:
    """Check texts and labels.

    >>> len(labelled_texts(["A Sikh.", "Somebody."], [0, 1], TextSpace("religion")))
    2
    """
    strings, _, missing = strings_of(X, space.column)
    if missing:
        raise DataError(f"{missing:,} texts of {name} are missing", remedy="drop them, and their labels")
    return LabelledTexts(space, tuple(strings), labels_of(y, len(strings), "y" if name == "X" else "y_test"))


def bind_texts(space: TextSpace, texts: Sequence[str]) -> BoundTextSpace:
    """Parse texts in which only terms will be changed; there may be none."""
    return BoundTextSpace(space, list(texts), np.arange(len(texts)), None)


def judged(
    model: Model, space: TextSpace, texts: Sequence[str], criterion: Criterion, seed: int
) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """Judge texts without edits; return the positions of those that can be judged, and which are treated differently.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> model = wrap(lambda texts: ["Sikh came" in text for text in texts], input="text")
    >>> judged(model, TextSpace("religion"), ["Somebody.", "A Sikh came.", "A Jew went."], Flip(), 0)
    (array([1, 2]), array([ True, False]))
    """
    bound = bind_texts(space, texts)
    return bound.positions, Judge(ModelProbe(model, bound, criterion), seed).unfair(bound.seeds)


class UsedTexts:
    """Tests that a model was trained with, which are not evidence: the training texts, and those that a repair adds.

    >>> used = UsedTexts(TextSpace("religion"), ["A Sikh came."])
    >>> used.add(Found(["A Jew went."], np.array([0])))
    >>> people = TextSpace("religion").begin(["An atheist went.", "A Jain came.", "A Jain stayed."]).seeds
    >>> used(people).tolist(), len(used)
    ([True, True, False], 1)
    """

    def __init__(self, space: TextSpace, texts: Sequence[str] = ()) -> None:
        self.space = space
        self._known = bind_texts(space, texts).seeds.keys
        self._added = self._known[:0]
        self._trained, self._texts = frozenset(texts), set[str]()

    def __len__(self) -> int:
        return len(self._added)

    def add(self, found: Found) -> None:
        """Record that these were added."""
        self._texts.update(found.rows)
        self._added = np.unique(np.concatenate([self._added, bind_texts(self.space, found.rows).seeds.keys]))

    def __call__(self, people: TextIndividuals) -> npt.NDArray[np.bool_]:
        """Return whose tests were used, by keys; and texts that equal a used one."""
        same = [text in self._trained or text in self._texts for text in people.rows]
        used: npt.NDArray[np.bool_] = np.isin(people.keys, np.concatenate([self._known, self._added]))
        used |= np.array(same, dtype=bool)
        return used

    def added(self, people: Found) -> npt.NDArray[np.bool_]:
        """Return which texts equal one that the repair added."""
        return np.array([text in self._texts for text in people.rows], dtype=bool)

    def excluder(self, seed: int) -> Exclude:
        """Exclude those whose test was used."""
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
        """Record that these were used."""
        self.keys = np.unique(np.concatenate([self.keys, people.keys]))
        self.rows = np.unique(np.concatenate([self.rows, people.rows]), axis=0)

    def __call__(self, people: Individuals) -> Mask:
        """Return whose tests were used."""
        if not len(self.keys):
            return np.zeros(len(people), dtype=bool)
        # If another attribute is protected, an individual that then shares the test still counts as used.
        own = people if people.space is self.space else Individuals(self.space, rows=people.rows)
        at = np.minimum(np.searchsorted(self.keys, own.keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == own.keys, dtype=bool)

    def added(self, people: Individuals) -> Mask:
        """Return which individuals equal, in every value, one that the repair added."""
        every = np.concatenate([self.rows, people.rows])
        numbers = np.unique(every, axis=0, return_inverse=True)[1].reshape(-1)
        return np.isin(numbers[len(self.rows) :], numbers[: len(self.rows)])

    def excluder(self, seed: int) -> Exclude:
        """Exclude individuals with a family member whose test was used; ``seed`` is that of the judge."""

        def exclude(people: Individuals) -> Mask:
            if people.space is self.space or not len(self):
                return self(people)
            families = people.space.families(people, seed)
            places = families.rows.reshape(-1, len(self.space.names))
            used = self(Individuals(self.space, rows=places)).reshape(len(people), families.width)
            return np.asarray((used if families.valid is None else used & families.valid).any(axis=1))

        return exclude
