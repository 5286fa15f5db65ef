"""Training estimators or training functions, and labelling added individuals by majority vote."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Flip
from evenhand.engine.probe import ModelProbe
from evenhand.errors import DataError, EvenhandError, ModelError, StrategyError
from evenhand.estimates.pair_counts import alike
from evenhand.models.base import Model
from evenhand.models.wrap import for_space, wrap
from evenhand.repairs.data import Labelled, LabelledTexts
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

Train = Callable[[Any, Any], Any]
INSTEAD = "give an estimator with fit and get_params, or a function train(X, y) that returns a model"


class Trainer:
    """Trains an estimator, always a clone of it, or calls a training function.

    Random states that the estimator leaves open are set, to the same number each time: so models differ by their data
    and by nothing else. ``columns`` are those of the user's frame, None where rows are arrays. ``texts``: models take
    lists of texts.
    """

    def __init__(self, estimator: Any, seed: int, columns: tuple[str, ...] | None = None, texts: bool = False) -> None:
        self.name, self._texts = _name(estimator), texts
        if isinstance(estimator, type):
            raise ModelError(f"Got the class {self.name}, not an object of it; make one: {self.name}(...)")
        self._fits = callable(getattr(estimator, "fit", None))
        self._columns = columns if self._fits else None
        if self._fits:
            _cloned(estimator, seed)
            self._train: Train = lambda X, y: _cloned(estimator, seed).fit(X, y)
        elif callable(estimator):
            self._train = estimator
        else:
            raise ModelError(f"{self.name} cannot be trained; {INSTEAD}")

    def __call__(self, rows: Labelled | LabelledTexts, added: int = 0) -> Any:
        """Train a model; ``added`` says how many of the rows the repair made, for the message."""
        what = f"{len(rows):,} rows" + (f", {added:,} of them added by the repair" if added else "")
        try:
            # What a function returns may take arrays, and those come in the space's order.
            return self._train(rows.X if self._fits else rows.in_order, rows.y.copy())
        except EvenhandError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            gist = " ".join(str(error).split())[:200].rstrip(".") or "(no message)"
            raise ModelError(f"{self.name} could not be trained on {what}: {type(error).__name__}: {gist}") from error

    def wrap(self, model: Any) -> Model:
        """Wrap what training returned."""
        try:
            found = wrap(model)
        except ModelError as error:
            raise ModelError(f"{self.name} was trained, but returned no model: {error}") from None
        if self._columns is not None and found.columns is None:
            # An estimator that does not say what it was fitted on was fitted on what it was given here.
            found = found.with_options(input="frame")
            found.columns = self._columns
        return for_space(found, texts=True) if self._texts else found


def _cloned(estimator: Any, seed: int) -> Any:
    from sklearn.base import clone

    try:
        copy = clone(estimator)
        names = [name for name, value in copy.get_params(deep=True).items() if _is_open(name, value)]
        return copy.set_params(**dict.fromkeys(names, seed % 2**31)) if names else copy
    except Exception as error:
        gist = textwrap.shorten(str(error), 160, placeholder=" ...")
        raise ModelError(
            f"{_name(estimator)} cannot be cloned ({type(error).__name__}: {gist});\n"
            "without a clone your own object would be changed: give a function train(X, y) that returns a new model"
        ) from None


def _is_open(name: str, value: Any) -> bool:
    return value is None and name.rpartition("__")[2] == "random_state"


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def check_classes(original: Model, trained: Model) -> None:
    """Raise where a model has lost, or won, a class that the original one has."""
    if original.classes is None or trained.classes is None:
        return
    before, after = ({str(value) for value in np.asarray(model.classes).tolist()} for model in (original, trained))
    if before != after:
        raise ModelError(
            f"the repaired model knows the classes {', '.join(sorted(after))}, the original one "
            f"{', '.join(sorted(before))}; "
            "train on all rows and labels that the training function is given"
        )


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
