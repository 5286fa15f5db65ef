"""Labels for individuals whom nobody has labelled: the majority vote of several classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Flip
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DataError, StrategyError
from evenhand.estimates.favour import alike
from evenhand.repairs.rows import Labelled
from evenhand.repairs.training import Trainer
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.tabular import Space

Whose = Literal["individual", "family"]
Voter = Callable[[Rows], npt.NDArray[Any]]
ONE_HOT = 64
"""Values up to which a nominal attribute has a column each."""
CHUNK = 16_384


class Voters:
    """Classifiers trained on the training rows, and what they agree on.

    Each individual gets the label that most voters give; of equally many, the first voter's among them. ``family``: the
    votes on the individual and on all of its counterparts are counted together, so that the label does not depend on
    protected attributes; where they are even, the individual's own vote decides.
    """

    def __init__(self, rows: Labelled, voters: Sequence[Any], seed: int) -> None:
        self.space, self.seed = rows.space, seed
        self.labels = np.unique(rows.y)
        self.voters = _own(rows, voters, seed) if voters else _default(rows, seed)

    def label(self, people: Individuals, whose: Whose = "individual") -> npt.NDArray[Any]:
        """Label individuals."""
        parts = [self._label(people[i : i + CHUNK], whose) for i in range(0, len(people), CHUNK)]
        return np.concatenate(parts) if parts else self.labels[:0]

    def _label(self, people: Individuals, whose: Whose) -> npt.NDArray[Any]:
        own = majority(self._votes(people.rows), len(self.labels))
        if whose == "individual":
            return np.asarray(self.labels[own])
        families = self.space.families(people, self.seed)
        family = np.repeat(np.arange(len(people)), families.places)
        counts = np.zeros((len(people), len(self.labels)))
        for vote in self._votes(families.asked):
            np.add.at(counts, (family, vote), 1)
        counts[np.arange(len(people)), own] += 0.5
        return np.asarray(self.labels[counts.argmax(axis=1)])

    def _votes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """One row a voter: the number of the label that it gives."""
        return np.stack([numbers_of(voter(rows), self.labels) for voter in self.voters])


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


def _own(rows: Labelled, voters: Sequence[Any], seed: int) -> list[Voter]:
    """Train the user's voters on the rows as the user gave them."""
    out: list[Voter] = []
    for voter in voters:
        trainer = Trainer(voter, seed, rows.columns)
        asker = ModelProbe(trainer.wrap(trainer(rows)), rows.space, Flip())
        out.append(asker.labels)
    return out


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
