"""What a data set is: frames with a space on the raw columns and the coding of the papers, or labelled texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.errors import DataError
from evenhand.spaces.attributes import Attribute, Integer
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    import pandas as pd

    Code = Callable[[pd.Series[Any]], pd.Series[Any]]

Links = Mapping[str, Mapping[str, Mapping[Any, Mapping[Any, Any]]]]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with the space of its individuals.

    Attributes
    ----------
    name
        What ``load`` knows it by.
    target
        The column that a model predicts.
    favourable
        The outcome that people want.
    protected
        The attributes that must not matter, unless ``space`` is told otherwise.
    attributes
        The columns that a model is trained on, as attributes of a space.
    links
        Attributes that follow a protected one, for every attribute that may be protected.
    table
        Every column of the embedded file, and those derived from it.
    paper
        The columns as the papers code them, the label last.
    paper_train_only
        Whether the papers use the training rows only.

    Examples
    --------
    >>> from evenhand import datasets
    >>> german = datasets.load("german")
    >>> german.target, german.favourable, german.protected
    ('credit_risk', 'good', ('sex',))
    >>> len(german.train), len(german.test)
    (700, 300)
    """

    name: str
    target: str
    favourable: str
    protected: tuple[str, ...]
    attributes: tuple[Attribute, ...] = field(repr=False)
    table: pd.DataFrame = field(repr=False)
    paper: tuple[Coded, ...] = field(repr=False)
    links: Links = field(default_factory=dict, repr=False)
    paper_train_only: bool = field(default=False, repr=False)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that a model is trained on.

        >>> from evenhand import datasets
        >>> datasets.load("adult").features[:4]
        ('age', 'workclass', 'education', 'marital_status')
        """
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All rows: the features, then the target.

        >>> from evenhand import datasets
        >>> datasets.load("adult").frame.shape
        (48842, 13)
        """
        return self.table[[*self.features, self.target]]

    @cached_property
    def train(self) -> pd.DataFrame:
        """The rows to fit a model on: Adult's own split, seven tenths of the others.

        >>> from evenhand import datasets
        >>> datasets.load("adult").train.shape
        (32561, 13)
        """
        return self.frame[self.table["split"] == "train"]

    @cached_property
    def test(self) -> pd.DataFrame:
        """The rows that are not for fitting.

        >>> from evenhand import datasets
        >>> datasets.load("adult").test.shape
        (16281, 13)
        """
        return self.frame[self.table["split"] == "test"]

    def space(self, protected: str | Sequence[str] | None = None) -> Space:
        """Give the space of the raw columns, with bounds that cover every row.

        >>> from evenhand import datasets
        >>> datasets.load("adult").space(protected=["race", "sex"]).protected
        ('race', 'sex')
        """
        names = self._protected(protected)
        links = {
            name: {free: by_value for free, by_value in self.links[name].items() if free not in names}
            for name in names
            if name in self.links
        }
        return Space(self.attributes, protected=names, links={name: d for name, d in links.items() if d})

    def paper_space(self, protected: str | Sequence[str] | None = None) -> Space:
        """Give the space in the papers' integer coding, with the domains that they declare and no links.

        >>> from evenhand import datasets
        >>> datasets.load("adult").paper_space().attributes[0]
        Integer(name='age', dtype=None, low=1, high=9, step=1, missing=False)
        """
        columns = [Integer(column.name, column.low, column.high) for column in self.paper[:-1]]
        return Space(columns, protected=self._protected(protected))

    def paper_frame(self) -> pd.DataFrame:
        """Give the rows in the integer coding of the papers, the label last (1 is the favourable outcome).

        As in the papers' own files, some values lie outside the domains of ``paper_space``.

        >>> from evenhand import datasets
        >>> datasets.load("adult").paper_frame().iloc[0].tolist()
        [3, 5, 3, 0, 2, 8, 3, 0, 1, 2, 0, 40, 0, 0]
        """
        import pandas as pd

        table = self.table
        if self.paper_train_only:
            table = table[table["split"] == "train"]
        return pd.DataFrame({column.name: column.column(table) for column in self.paper})

    def _protected(self, protected: str | Sequence[str] | None) -> tuple[str, ...]:
        if protected is None:
            return self.protected
        return (protected,) if isinstance(protected, str) else tuple(protected)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with their labels: 1 is toxic, 0 is not.

    >>> corpus = Corpus(("Thank you.", "You fool.", "Well done."), np.array([0, 1, 0]))
    >>> len(corpus), corpus[corpus.labels == 1].texts
    (3, ('You fool.',))
    """

    texts: tuple[str, ...]
    labels: Labels

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"got {len(self.texts)} texts and {len(self.labels)} labels"
            raise DataError(f"each text needs a label: {got}", remedy="give as many labels as texts")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} texts, {int(self.labels.sum()):,} toxic)"

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Corpus:
        """Return some of the texts, by mask, numbers or slice."""
        rows = np.arange(len(self))[which]
        return Corpus(tuple(self.texts[row] for row in rows.tolist()), self.labels[rows])

    def split(self, share: float = 0.7, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Divide the texts at random, equal ones to the same side: those to train on, then the others.

        >>> train, test = Corpus(tuple("abcdefghij"), np.zeros(10, dtype=np.int64)).split(0.5)
        >>> sorted(train.texts + test.texts) == list("abcdefghij")
        True
        """
        numbers: dict[str, int] = {}
        which = np.array([numbers.setdefault(text, len(numbers)) for text in self.texts], dtype=np.int64)
        first = Stream(seed).unit("split", which, 0) < share
        return self[first], self[~first]


@dataclass(frozen=True)
class Coded:
    """One column as the papers code it: its declared domain, and how it comes from a raw column."""

    name: str
    low: int
    high: int
    code: Code
    source: str | None = None
    """The raw column; None where it has the same name."""

    def column(self, table: pd.DataFrame) -> pd.Series[Any]:
        """Code the raw column."""
        return self.code(table[self.source or self.name]).astype("int64")


def listed(values: Sequence[str], missing: int | None = None) -> Code:
    """Code a text by its position in ``values``, no text at all by ``missing``.

    >>> import pandas as pd
    >>> listed(["no", "yes"], missing=100)(pd.Series(["yes", None])).tolist()
    [1.0, 100.0]
    """
    positions = {value: position for position, value in enumerate(values)}

    def code(column: pd.Series[Any]) -> pd.Series[Any]:
        codes = column.map(positions)
        return codes if missing is None else codes.fillna(missing)

    return code


def steps(width: int, low: int | None = None, high: int | None = None) -> Code:
    """Code a number by the step of ``width`` that it lies in, cut at ``low`` and ``high``.

    >>> import pandas as pd
    >>> steps(10, high=5)(pd.Series([9, 10, 99])).tolist()
    [0, 1, 5]
    """

    def code(column: pd.Series[Any]) -> pd.Series[Any]:
        return (column // width).clip(low, high)

    return code


def unchanged(column: pd.Series[Any]) -> pd.Series[Any]:
    """Keep a column that the papers take as it is."""
    return column


def read(name: str, missing: Collection[str] = ()) -> pd.DataFrame:
    """Read an embedded file; only the texts in ``missing`` are missing values.

    >>> read("german").shape
    (1000, 22)
    """
    import pandas as pd

    with files("evenhand.datasets").joinpath(f"{name}.csv.xz").open("rb") as file:
        # pandas would also take texts such as "None" for missing ones.
        return pd.read_csv(file, compression="xz", keep_default_na=False, na_values=list(missing))
