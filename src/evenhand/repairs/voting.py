"""Labels for individuals whom nobody has labelled: the majority vote of several classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Flip
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DataError, StrategyError
from evenhand.estimates.pair_counts import alike
from evenhand.models.base import Model
from evenhand.repairs.rows import Labelled
from evenhand.repairs.text_rows import LabelledTexts
from evenhand.repairs.training import Trainer
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

Whose = Literal["individual", "family"]
Voter = Callable[[Any], npt.NDArray[Any]]
ONE_HOT = 64
"""Values up to which a nominal attribute has a column each."""


class Voters:
    """Classifiers trained on the training rows, and what they agree on.

    Each individual gets the label that most voters give; of equally many, the first voter's among them. ``family``: the
    votes on the individual and on all of its counterparts are counted together, so that the label does not depend on
    protected attributes; where they are even, the individual's own vote decides. Without voters of the user, five
    classifiers vote on rows; a text has the label of the one that it was made of, whose meaning similar words keep, and
    the original model votes on its family.
    """

    def __init__(
        self, rows: Labelled | LabelledTexts, voters: Sequence[Any], seed: int, original: Model | None = None
    ) -> None:
        self.rows, self.seed = rows, seed
        self.labels = np.unique(rows.y)
        self.voters: list[Voter] = []
        if voters:
            trainers = [Trainer(voter, seed, rows.columns, texts=isinstance(rows, LabelledTexts)) for voter in voters]
            self.voters = [_asks(trainer.wrap(trainer(rows)), rows) for trainer in trainers]
        elif isinstance(rows, Labelled):
            self.voters = _default(rows, seed)
        self._of_family = self.voters if original is None or self.voters else [_asks(original, rows)]

    def label(self, people: Any, whose: Whose = "individual") -> npt.NDArray[Any]:
        """Label individuals."""
        if self.voters:
            own = majority(self._votes(self.voters, people.rows), len(self.labels))
        else:
            own = numbers_of(self.rows.y[people.seeds], self.labels)
        if whose == "individual":
            return np.asarray(self.labels[own])
        counts = np.zeros((len(people), len(self.labels)))
        counts[np.arange(len(people)), own] = 0.5
        for positions, families in self.rows.families(people, self.seed):
            family = np.repeat(positions, families.places)
            for vote in self._votes(self._of_family, families.asked):
                np.add.at(counts, (family, vote), 1)
        return np.asarray(self.labels[counts.argmax(axis=1)])

    def _votes(self, voters: Sequence[Voter], rows: Any) -> npt.NDArray[np.int64]:
        """One row a voter: the number of the label that it gives."""
        return np.stack([numbers_of(voter(rows), self.labels) for voter in voters])


def _asks(model: Model, rows: Labelled | LabelledTexts) -> Voter:
    return ModelProbe(model, rows.ground, Flip()).labels


def check_voters(method: Any) -> None:
    """Raise unless a method's voters are several things, and no single one that happens to have parts."""
    if not isinstance(method.voters, tuple | list):
        raise StrategyError(
            f"{type(method).__name__}: voters must be a tuple of estimators, such as (first, second, third), got "
            f"{type(method.voters).__name__}; one alone is (first,)"
        )


def majority(votes: npt.NDArray[np.int64], labels: int) -> npt.NDArray[np.int64]:
    """Count votes, one row a voter; of equally frequent ones the vote of the first voter wins.

    >>> majority(np.array([[0, 1, 2], [1, 1, 0], [1, 0, 1]]), 3).tolist()
    [1, 1, 2]
    """
    here = np.arange(votes.shape[1])
    counts = np.stack([(votes == label).sum(axis=0) for label in range(labels)])
    first = (counts[votes, here] == counts.max(axis=0)).argmax(axis=0)
    return np.asarray(votes[first, here])


def numbers_of(said: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Number what a voter said by the labels that there are.

    >>> numbers_of(np.array(["no", "yes"]), np.array(["no", "yes"])).tolist()
    [0, 1]
    """
    known = labels.tolist()
    values, inverse = np.unique(said, return_inverse=True)
    numbers = [next((at for at, label in enumerate(known) if alike(value, label)), -1) for value in values.tolist()]
    if -1 in numbers:
        stranger = values[numbers.index(-1)]
        raise DataError(f"a voter gave the label {stranger}, which the training rows do not have")
    return np.array(numbers, dtype=np.int64)[inverse]


def _default(rows: Labelled, seed: int) -> list[Voter]:
    """Train five classifiers of different kinds on the rows' codes."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    state = seed % 2**31
    kinds = [
        LogisticRegression(max_iter=1000),
        RandomForestClassifier(50, random_state=state),
        HistGradientBoostingClassifier(early_stopping=False, random_state=state),
        DecisionTreeClassifier(random_state=state),
        GaussianNB(),
    ]
    encoded, space = rows.encoded, rows.space
    if not len(encoded.individuals):
        raise DataError("none of the training rows is in the space; give rows of the space, or widen it")
    table, y = features(space, encoded.individuals.rows), rows.y[encoded.positions]
    if len(np.unique(y)) < 2:
        return [lambda codes: np.repeat(y[:1], len(codes))]
    fitted = [kind.fit(table, y) for kind in kinds]
    return [lambda codes, one=one: one.predict(features(space, codes)) for one in fitted]  # type: ignore[misc]


def features(space: Space, rows: Rows) -> npt.NDArray[np.float64]:
    """Write codes as numbers for any classifier: scaled where values have an order, else a column for each value.

    >>> from evenhand.spaces.attributes import Integer, Nominal
    >>> space = Space([Integer("age", 1, 5), Nominal("sex", ["F", "M"])], protected="sex")
    >>> features(space, np.array([[2, 1]], dtype=np.int32)).tolist()
    [[0.5, 0.0, 1.0]]
    """
    parts = []
    for j, attribute in enumerate(space.attributes):
        codes = rows[:, j]
        if attribute.ordered or attribute.size > ONE_HOT:
            parts.append(codes[:, None] / max(1, attribute.size - 1))
        else:
            parts.append((codes[:, None] == np.arange(attribute.size)).astype(np.float64))
    return np.concatenate(parts, axis=1)
