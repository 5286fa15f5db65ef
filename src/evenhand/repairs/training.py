"""Training estimators or training functions, from scratch or from a fitted model; labels for what a repair adds."""

from __future__ import annotations

import copy
import inspect
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_int, check_number
from evenhand.criteria import Flip
from evenhand.engine.judge import ModelProbe
from evenhand.errors import DataError, EvenhandError, ModelError, StrategyError
from evenhand.estimates.pair_counts import alike
from evenhand.models.base import Model, package_of
from evenhand.models.text.encoding import batches
from evenhand.models.text.module import TextModule
from evenhand.models.torch import Evaluation, TorchModel
from evenhand.models.wrap import for_space, wrap
from evenhand.repairs.data import Labelled, LabelledTexts
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

Start = Literal["model", "scratch"]
INSTEAD = "give an estimator with fit and get_params, or a function train(X, y) that returns a model"
PASSES = 10
"""Number of passes of ``partial_fit`` over the rows."""
Pairs = tuple[Any, Any]
"""Individuals and one counterpart of each: arrays, or lists of texts."""
Labels = Literal["vote", "mean", "model"]
"""How added rows are labelled: by voters, by the mean of the original's scores over a family, or by its decision."""
Votes = npt.NDArray[np.int64]
Voter = Callable[[Any], npt.NDArray[Any]]
ONE_HOT = 64
"""Maximum number of values of a nominal attribute for one column per value."""


class Trainer:
    """Trains clones of an estimator, or calls a training function; from scratch, or further from a fitted model.

    Unset random states of the estimator are set to the same number each time, so that models differ only by their data.
    ``columns`` are those of the user's frame, None if rows are arrays. ``texts``: models take lists of texts. Trained
    models are called on the workers of ``executor``.
    """

    def __init__(
        self,
        estimator: Any,
        seed: int,
        columns: tuple[str, ...] | None = None,
        texts: bool = False,
        executor: Executor | int | None = None,
    ) -> None:
        self.name, self._texts = _name(estimator), texts
        if isinstance(estimator, type):
            raise ModelError(
                "must be an object, not a class",
                parameter="estimator",
                value=estimator,
                remedy=f"make one: {self.name}(...)",
            )
        self._fits = callable(getattr(estimator, "fit", None))
        self._columns = columns if self._fits else None
        self._source, self._seed, self._executor = estimator, seed, executor
        self.takes_start = not self._fits and callable(estimator) and _takes_start(estimator)
        """Whether a training function has a parameter ``start``: the fitted model to continue from."""
        if self._fits:
            _cloned(estimator, seed)
        elif not callable(estimator):
            raise ModelError("cannot be trained", parameter="estimator", value=estimator, remedy=INSTEAD)

    def __call__(self, rows: Labelled | LabelledTexts, added: int = 0, start: Any = None, number: int = 0) -> Any:
        """Train a model.

        Parameters
        ----------
        rows
            The training data.
        added
            Number of rows added by the repair, for error messages.
        start
            The fitted model to continue from; None trains from scratch.
        number
            A different number gives a different random state, if the estimator leaves it unset.
        """
        what = f"{len(rows):,} rows" + (f", {added:,} of them added by the repair" if added else "")
        try:
            # A function's model may take arrays, which have the space's column order.
            return self._train(rows.X if self._fits else rows.in_order, rows.y.copy(), start, number)
        except EvenhandError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            gist = " ".join(str(error).split())[:200].rstrip(".") or "(no message)"
            raise ModelError(
                f"{self.name} could not be trained on {what}: {type(error).__name__}: {gist}",
                parameter="estimator",
                remedy="" if added else "train it on these rows without evenhand first",
            ) from error

    def _train(self, X: Any, y: Any, start: Any, number: int) -> Any:
        if self._fits and start is None:
            return _cloned(self._source, self._seed + number).fit(X, y)
        if self._fits:
            return _continued(start, X, y)
        return self._source(X, y, start) if self.takes_start else self._source(X, y)

    def continues(self, model: Any) -> bool:
        """Return whether ``start=model`` works: the function takes it, or the estimator can be trained further."""
        return self.takes_start or (self._fits and _continues(model))

    def wrap(self, model: Any) -> Model:
        """Wrap a trained model."""
        try:
            found = wrap(model)
        except ModelError as error:
            raise ModelError(
                f"{self.name} was trained, but returned no model: {error}", remedy="return the trained model"
            ) from None
        if self._columns is not None and found.columns is None:
            # An estimator that does not record its input was fitted on the input given here.
            found = found.with_options(input="frame")
            found.columns = self._columns
        return (for_space(found, texts=True) if self._texts else found).on(self._executor)


def _takes_start(function: Callable[..., Any]) -> bool:
    try:
        return "start" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _continues(model: Any) -> bool:
    if steps := getattr(model, "steps", None):
        return _continues(steps[-1][1])
    if package_of(model) in ("xgboost", "lightgbm", "catboost"):
        return True
    return hasattr(model, "warm_start") or callable(getattr(model, "partial_fit", None))


def _continued(model: Any, X: Any, y: Any) -> Any:
    """Train a copy of a fitted estimator further; the transformers of a pipeline stay as they are fitted.

    Ensembles of trees get the same number of additional trees. ``partial_fit`` makes several passes over the rows, each
    in a different order.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(5, random_state=0).fit([[0], [1]], [0, 1])
    >>> len(_continued(forest, [[0], [1]], [1, 1]).estimators_), len(forest.estimators_)
    (10, 5)
    """
    if steps := getattr(model, "steps", None):
        whole = copy.deepcopy(model)
        inner = whole[:-1].transform(X) if len(steps) > 1 else X
        whole.steps[-1] = (steps[-1][0], _continued(steps[-1][1], inner, y))
        return whole
    package = package_of(model)
    if package in ("xgboost", "lightgbm", "catboost"):
        before = {"xgb_model": model.get_booster()} if package == "xgboost" else {"init_model": model}
        return _cloned(model, 0).fit(X, y, **before)
    more = copy.deepcopy(model)
    if hasattr(more, "warm_start"):
        trees = "n_estimators" if hasattr(more, "n_estimators") else "max_iter" if hasattr(more, "_predictors") else ""
        more.set_params(warm_start=True, **({trees: 2 * getattr(more, trees)} if trees else {}))
        return more.fit(X, y)
    rng = np.random.default_rng(0)
    for _ in range(PASSES):
        order = rng.permutation(len(y))
        more.partial_fit(X.iloc[order] if hasattr(X, "iloc") else X[order], y[order])
    return more


def _cloned(estimator: Any, seed: int) -> Any:
    from sklearn.base import clone

    try:
        cloned = clone(estimator)
        names = [name for name, value in cloned.get_params(deep=True).items() if _is_open(name, value)]
        return cloned.set_params(**dict.fromkeys(names, seed % 2**31)) if names else cloned
    except Exception as error:
        gist = textwrap.shorten(str(error), 160, placeholder=" ...")
        raise ModelError(
            f"{_name(estimator)} cannot be cloned ({type(error).__name__}: {gist}), so training would change your own "
            "object",
            remedy="give a function train(X, y) that returns a new model",
        ) from None


def _is_open(name: str, value: Any) -> bool:
    return value is None and name.rpartition("__")[2] == "random_state"


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def check_classes(original: Model, trained: Model) -> None:
    """Raise if a model has other classes than the original."""
    if original.classes is None or trained.classes is None:
        return
    before, after = ({str(value) for value in np.asarray(model.classes).tolist()} for model in (original, trained))
    if before != after:
        raise ModelError(
            f"the repaired model knows the classes {', '.join(sorted(after))}, the original one "
            f"{', '.join(sorted(before))}",
            remedy="train on all rows and labels that the training function is given",
        )


@dataclass(frozen=True)
class FineTuning:
    """How a network is trained further from its weights: Adam on random batches.

    Dropout is off, and batch normalisation keeps its statistics. Frozen parameters stay frozen.

    >>> FineTuning(steps=1280).rate
    0.001
    """

    rate: float = 0.001
    """Learning rate."""
    batch: int = 512
    """Rows of each step."""
    steps: int = 640
    stages: int = 1
    """The steps are divided into so many stages, and the learning rate falls linearly from one to the next: with 3,
    it is ``rate``, then two thirds and one third of it."""

    def __post_init__(self) -> None:
        check_number("rate", self.rate, StrategyError, above=0)
        for name in ("batch", "steps", "stages"):
            check_int(name, getattr(self, name), StrategyError, 1)

    @property
    def parts(self) -> list[FineTuning]:
        """The stages, one after the other.

        >>> [(part.steps, part.rate) for part in FineTuning(rate=0.002, steps=450, stages=2).parts]
        [(225, 0.002), (225, 0.001)]
        """
        number = min(self.stages, self.steps)
        ends = [self.steps * at // number for at in range(number + 1)]
        return [
            FineTuning(self.rate * (number - at) / number, self.batch, ends[at + 1] - ends[at]) for at in range(number)
        ]


def tunable(model: Model) -> bool:
    """Return whether a model is a network that can be trained further here.

    >>> tunable(wrap(len))
    False
    """
    # A Keras model is trained as a torch module; on other backends it has no gradients.
    return isinstance(model, TorchModel) and model.gradient_source is not None


def fine_tune(
    model: Model, X: Any, y: npt.NDArray[Any], how: FineTuning, seed: int, pairs: Pairs | None = None,
    weight: float = 0.0,
) -> Model:  # fmt: skip
    """Train a copy of a network further on rows, or texts, and return it wrapped; the network itself stays as it is.

    Parameters
    ----------
    model
        The network.
    X, y
        The training data, in the form that the network takes. Labels are class numbers.
    how
        Learning rate, batch size and steps.
    seed
        Determines the batches.
    pairs, weight
        Pairs of counterparts, and the weight of the mean square of their differences in probability.

    Examples
    --------
    >>> import torch
    >>> net = wrap(torch.nn.Linear(2, 2))
    >>> tuned = fine_tune(net, np.eye(2), np.array([1, 0]), FineTuning(rate=0.1, steps=60), seed=0)
    >>> tuned.labels(np.eye(2)).tolist(), tuned.source is net.source
    ([1, 0], False)
    """
    import torch

    if not isinstance(model, TorchModel) or not tunable(model):
        raise ModelError(
            f"{model.name} is not a torch or Keras network, so it cannot be fine-tuned", remedy="use another method"
        )
    tuned = _copied(model)
    _outputs(tuned, X[: how.batch])
    numbers = _class_numbers(y, tuned.scores(X[:2]).shape[1], model.name)
    weights = [weight for weight in tuned.source.parameters() if weight.requires_grad]
    optimiser, rng = torch.optim.Adam(weights, how.rate), np.random.default_rng(seed)
    with (
        torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False), Evaluation(tuned._parts()),
    ):  # fmt: skip
        torch.manual_seed(seed)
        for rows in _cycled(len(numbers), how, rng):
            optimiser.zero_grad()
            logs = _outputs(tuned, _some(X, rows))
            wanted = torch.from_numpy(numbers[rows]).to(logs.device)
            loss = torch.nn.functional.nll_loss(logs, wanted)
            if pairs is not None and weight:
                chosen = rng.integers(0, len(pairs[0]), how.batch)
                loss = loss + weight * _difference(tuned, *(_some(side, chosen) for side in pairs))
            loss.backward()
            optimiser.step()
    return tuned


def _copied(model: TorchModel) -> TorchModel:
    """Wrap a copy of the network like the network."""
    module = copy.deepcopy(model.source)
    text = {"encode": model.encode, "words": model.given_words} if isinstance(model, TextModule) else {}
    out = wrap(module, **text, threshold=model.threshold, timeout=model.timeout, batch_size=model.batch_size)
    assert isinstance(out, TorchModel)
    out.name = model.name
    return out


def _cycled(rows: int, how: FineTuning, rng: np.random.Generator) -> Any:
    """Yield batches; every row is used once before any is used again."""
    left = np.zeros(0, dtype=np.int64)
    for _ in range(how.steps):
        if not len(left):
            left = rng.permutation(rows)
        yield left[: how.batch]
        left = left[how.batch :]


def _outputs(model: TorchModel, X: Any) -> Any:
    """Compute the logarithm of each class's probability, as a differentiable tensor."""
    import torch

    kind = model._scored(X)
    if isinstance(model, TextModule):
        padding = model._look(X)
        parts = list(batches(model._encoder.rows(X, padding), padding, model._most))
        outputs = torch.cat([model._output(part) for part in parts])
        order = np.concatenate([part.which for part in parts])
        outputs = outputs[torch.from_numpy(np.argsort(order)).to(outputs.device)]
    else:
        outputs = model._output(model._rows(X))
    least = torch.finfo(outputs.dtype).tiny
    if kind == "logits" and outputs.ndim == 2:
        return torch.log_softmax(outputs, dim=1)
    if kind == "logits":
        both = torch.stack([-outputs, outputs], dim=1)
        return torch.nn.functional.logsigmoid(both)
    if kind == "logs":
        return torch.stack([torch.log(-torch.expm1(outputs) + least), outputs], dim=1)
    chances = outputs if outputs.ndim == 2 else torch.stack([1 - outputs, outputs], dim=1)
    return torch.log(chances.clamp(min=least))


def together(parts: Sequence[Any]) -> Any:
    """Put arrays, or lists of texts, together.

    >>> together([["a"], ["b"]]), together([np.zeros(1), np.ones(1)]).tolist()
    (['a', 'b'], [0.0, 1.0])
    """
    return list(chain(*parts)) if isinstance(parts[0], list) else np.concatenate(parts)


def _some(X: Any, rows: npt.NDArray[np.integer[Any]]) -> Any:
    """Choose rows of an array, or texts of a list."""
    return [X[row] for row in rows.tolist()] if isinstance(X, list) else X[rows]


def _difference(model: TorchModel, first: Any, second: Any) -> Any:
    """Return the mean square of the differences in probability between counterparts."""
    logs = _outputs(model, together([first, second]))
    return (logs[: len(first)].exp() - logs[len(first) :].exp()).square().sum(dim=1).mean()


def _class_numbers(y: npt.NDArray[Any], classes: int, name: str) -> npt.NDArray[np.int64]:
    """Check that labels are numbers of a network's classes."""
    if y.dtype.kind not in "iub" or y.min() < 0 or y.max() >= classes:
        wrong = next(label for label in y.tolist() if not isinstance(label, int) or not 0 <= label < classes)
        raise DataError(
            f"must be numbers of classes from 0 to {classes - 1} to fine-tune {name}",
            parameter="y",
            value=wrong,
            remedy="number the classes, or give a function train(X, y, start) that continues training itself",
        )
    return y.astype(np.int64)


class Voters:
    """Classifiers trained on the training rows, and the label that most of them give.

    Ties go to the label of the first voter. Without voters of the user, five classifiers vote on rows, and a text gets
    the label of the text that it was made from. ``blind`` voters do not use protected attributes: the five classifiers
    are trained without them, and voters of the user vote on an individual and all of its counterparts together; in a
    tie, the votes on the individual decide.
    """

    def __init__(self, rows: Labelled | LabelledTexts, voters: Sequence[Any], seed: int, blind: bool = True) -> None:
        self.rows, self.seed, self.labels = rows, seed, np.unique(rows.y)
        self.together = blind and bool(voters)
        self.voters: list[Voter] = []
        if voters:
            trainers = [Trainer(voter, seed, rows.columns, texts=isinstance(rows, LabelledTexts)) for voter in voters]
            self.voters = [asks(trainer.wrap(trainer(rows)), rows) for trainer in trainers]
        elif isinstance(rows, Labelled):
            self.voters = _default(rows, seed, blind)

    def label(self, people: Any) -> npt.NDArray[Any]:
        """Label individuals."""
        if not self.voters:
            return np.asarray(self.rows.y[people.seeds])
        own = majority(self._votes(people.rows), len(self.labels))
        if not self.together:
            return np.asarray(self.labels[own])
        counts = np.zeros((len(people), len(self.labels)))
        counts[np.arange(len(people)), own] = 0.5
        for positions, families in self.rows.families(people, self.seed):
            family = np.repeat(positions, families.places)
            for vote in self._votes(families.asked):
                np.add.at(counts, (family, vote), 1)
        return np.asarray(self.labels[counts.argmax(axis=1)])

    def _votes(self, rows: Any) -> Votes:
        """Return one row for each voter: the number of the label that it gives."""
        return np.stack([numbers_of(voter(rows), self.labels) for voter in self.voters])


def own_labels(model: Model, rows: Labelled | LabelledTexts, people: Any, how: Labels, seed: int) -> npt.NDArray[Any]:
    """Label individuals by the model itself: by its decisions, or by the mean of its scores over their families.

    A model whose decisions do not follow from scores labels by the majority of its decisions over the family.
    """
    known, probe = np.unique(rows.y), ModelProbe(model, rows.bound, Flip())
    decided = numbers_of(probe.labels(people.rows), known)
    if how == "model":
        return np.asarray(known[decided])
    for positions, families in rows.families(people, seed):
        family = np.repeat(np.arange(len(positions)), families.places)
        if model.has_scores and model.decides:
            scores = probe.scores(families.asked)
            means = np.zeros((len(positions), scores.shape[1]))
            np.add.at(means, family, scores / families.places[family][:, None])
            decided[positions] = numbers_of(model.decide(means), known)
        else:
            counts = np.zeros((len(positions), len(known)))
            counts[np.arange(len(positions)), decided[positions]] = 0.5
            np.add.at(counts, (family, numbers_of(probe.labels(families.asked), known)), 1)
            decided[positions] = counts.argmax(axis=1)
    return np.asarray(known[decided])


def asks(model: Model, rows: Labelled | LabelledTexts) -> Voter:
    """Return a function that gives a model's decisions about rows of codes, or texts."""
    return ModelProbe(model, rows.bound, Flip()).labels


def check_voters(method: Any) -> None:
    """Raise unless a method's voters are a tuple or list."""
    if not isinstance(method.voters, tuple | list):
        raise StrategyError(
            "must be a tuple of estimators",
            parameter="voters",
            value=method.voters,
            remedy="for example (first, second, third); one alone is (first,)",
        )


def majority(votes: Votes, labels: int) -> Votes:
    """Count votes, one row per voter; ties go to the vote of the first voter.

    >>> majority(np.array([[0, 1, 2], [1, 1, 0], [1, 0, 1]]), 3).tolist()
    [1, 1, 2]
    """
    here = np.arange(votes.shape[1])
    counts = np.stack([(votes == label).sum(axis=0) for label in range(labels)])
    first = (counts[votes, here] == counts.max(axis=0)).argmax(axis=0)
    return np.asarray(votes[first, here])


def numbers_of(votes: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Votes:
    """Return the position of each decision among the known labels.

    >>> numbers_of(np.array(["no", "yes"]), np.array(["no", "yes"])).tolist()
    [0, 1]
    """
    known = labels.tolist()
    values, inverse = np.unique(votes, return_inverse=True)
    numbers = [next((at for at, label in enumerate(known) if alike(value, label)), -1) for value in values.tolist()]
    if -1 in numbers:
        unknown = values[numbers.index(-1)]
        raise DataError(
            f"a voter gave the label {unknown}, which the training rows do not have",
            remedy="give voters that return labels of y",
        )
    return np.array(numbers, dtype=np.int64)[inverse]


def _default(rows: Labelled, seed: int, blind: bool) -> list[Voter]:
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
        raise DataError("none of the training rows is in the space", remedy="give rows of the space, or widen it")
    hidden = {j for j in space.protected_columns if blind}
    hidden |= {j for dependents in space.link_tables.values() for j in dependents if blind}
    columns = [j for j in range(len(space.names)) if j not in hidden]
    y = rows.y[encoded.positions]
    if len(np.unique(y)) < 2 or not columns:
        values, counts = np.unique(y, return_counts=True)
        return [lambda codes: np.repeat(values[counts.argmax()], len(codes))]
    table = features(space, encoded.individuals.rows, columns)
    fitted = [kind.fit(table, y) for kind in kinds]
    return [lambda codes, one=one: one.predict(features(space, codes, columns)) for one in fitted]  # type: ignore[misc]


def features(space: Space, rows: Rows, columns: Sequence[int] | None = None) -> npt.NDArray[np.float64]:
    """Write codes as numbers for any classifier: scaled if values have an order, else one column per value.

    >>> from evenhand.spaces.attributes import Integer, Nominal
    >>> space = Space([Integer("age", 1, 5), Nominal("sex", ["F", "M"])], protected="sex")
    >>> features(space, np.array([[2, 1]], dtype=np.int32)).tolist()
    [[0.5, 0.0, 1.0]]
    >>> features(space, np.array([[2, 1]], dtype=np.int32), [0]).tolist()
    [[0.5]]
    """
    parts = []
    for j in range(len(space.names)) if columns is None else columns:
        attribute, codes = space.attributes[j], rows[:, j]
        if attribute.ordered or attribute.size > ONE_HOT:
            parts.append(codes[:, None] / max(1, attribute.size - 1))
        else:
            parts.append((codes[:, None] == np.arange(attribute.size)).astype(np.float64))
    return np.concatenate(parts, axis=1)
