"""The interface of models: labels for a batch and, if available, scores and gradients."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice, check_int, check_number
from evenhand.errors import FLIP, FOR_TEXTS, KOSEI, ModelError
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from evenhand.models.endpoint import Remote
    from evenhand.models.executors import Workers
    from evenhand.spaces.text.tokens import Texts

Input: TypeAlias = Literal["frame", "array", "text"]
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = "pd.DataFrame | Floats | list[str]"
SHOWN = 8
"""Names in a message."""


class Model(ABC):
    """A model that answers batches. Write a subclass if `wrap` does not support your kind of model.

    Attributes
    ----------
    name : str
        The name in reports.
    input : {"frame", "array", "text"}
        What `labels` and `scores` receive: a pandas frame with the user's own values, a C-ordered float64
        array in the space's column order, or a list of texts.
    columns : tuple of str or None
        The names that the model was fitted on, if known. Other columns are dropped before it is called.
    has_scores : bool
        Whether the model has scores. True for a function, whose answers are unknown before it is called.
    regression : bool
        Whether the answers are numbers and not decisions.
    decides : bool
        Whether ``decide(scores(X))`` equals ``labels(X)``, except for ties within rounding, so that one call is enough
        for both.
    classes : array or None
        The labels of the score columns, if known.
    threshold : float or None
        Decide for the second class if its score is at least this.
    timeout : float or None
        Maximum seconds for one call.
    batch_size : int or None
        Maximum rows in one call; with None, calls grow as long as they are fast.
    chunk : int or None
        Maximum rows of a block of an audit, which is judged and logged as a unit; None: 32,768.
    workers : object or None
        Workers that call the model instead of this process.
    calls_at_once : int
        Number of simultaneous calls, from several threads, that the model supports. For information only: calls are
        made one by one.
    row_cost : float
        The cost of one row, in a unit of your own, such as a price. For information only.
    least_call : int
        Minimum rows in one call, while calls grow.
    remote : object or None
        For a model behind HTTP: the requests sent, and whether the model has changed.
    call_size : int or None
        The number of rows of the last calls; the next calls start with it.
    pace : float or None
        Seconds per row, in the fastest call so far.
    gradient_source : str or None
        How `gradients` are computed ("autograd", "closed form"); None if there are none.
    has_words : bool
        Whether the model has `word_vectors` and `word_gradients`.
    words : list of str or None
        The vocabulary of the model, if known. Similar words are chosen from it.
    source : object
        The wrapped object: an estimator, a booster, a function.
    sha256 : str or None
        The hash of the file from which the model was loaded.

    Examples
    --------
    >>> import pandas as pd
    >>> class Rule(Model):
    ...     name = "rule"
    ...
    ...     def labels(self, X):
    ...         return (X["hours"] > 40).to_numpy()
    >>> Rule().labels(pd.DataFrame({"hours": [38, 45]}))
    array([False,  True])
    """

    name: str = "model"
    input: Input = "frame"
    columns: tuple[str, ...] | None = None
    has_scores: bool = False
    regression: bool = False
    decides: bool = False
    classes: Array | None = None
    threshold: float | None = None
    timeout: float | None = None
    batch_size: int | None = None
    chunk: int | None = None
    workers: Workers | None = None
    call_size: int | None = None
    pace: float | None = None
    calls_at_once: int = 1
    least_call: int = 16
    remote: Remote | None = None
    row_cost: float = 0.0
    gradient_source: str | None = None
    has_words: bool = False
    words: Sequence[str] | None = None
    source: Any = None
    sha256: str | None = None

    def on(self, executor: Executor | int | None) -> Model:
        """Return the model called on the workers of an executor; with None as it is."""
        if executor is None:
            return self
        from evenhand.models.executors import spread

        return spread(self, executor)

    @abstractmethod
    def labels(self, X: Rows) -> Array:
        """Return the decision for each row: an array of n comparable values."""

    def scores(self, X: Rows) -> Floats:
        """Return the scores of each row: n rows with one column per class, or a single column for one number."""
        del X
        raise ModelError(f"{self.name} returns labels only, no scores", remedy=("use ", FLIP))

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Differentiate each row's loss by each of its columns: an array of the shape of ``X``.

        The loss is the cross-entropy of the row's class, which ``classes`` gives as a column of the scores (for a
        single score: 1 for the class that it scores, 0 for the other).
        """
        del X, classes
        raise ModelError(f"{self.name} has no gradients", remedy=("use ", KOSEI, ", which needs labels only"))

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """Return the embedding of each word, one row per word."""
        del words
        raise self._no_words()

    def word_gradients(self, texts: Texts, classes: Codes) -> Floats:
        """Differentiate each text's loss by the vector of each of its words: one row for each of ``texts.words``.

        The loss is the cross-entropy of the text's class. Words that the model does not read, because it truncates
        texts, get zeros.
        """
        del texts, classes
        raise self._no_words()

    def _no_words(self) -> ModelError:
        return ModelError(
            f"{self.name} has no vectors and gradients of words",
            remedy=(
                "wrap a torch module with an embedding layer: eh.wrap(module, encode=encode); otherwise ",
                *FOR_TEXTS,
            ),
        )

    def decide(self, scores: Floats) -> Array:
        """Convert scores into decisions, with the threshold in use.

        A single column without a threshold is a number and stays unchanged, unless two classes are known. It is then a
        decision value: above zero means the second class.
        """
        width = scores.shape[1]
        named = self.classes is not None and len(self.classes) in (width, 2 if width == 1 else width)
        if width == 1 and self.threshold is None and not named:
            return scores[:, 0]
        chosen = self.choose(scores)
        return np.take(self.classes, chosen) if self.classes is not None and named else chosen

    def choose(self, scores: Floats) -> Codes:
        """Return the score column of each row's decision; for a single score, 1 for its class and 0 otherwise."""
        width = scores.shape[1]
        if self.threshold is not None:
            if width > 2:
                raise ModelError(
                    f"needs one or two scores per row; {self.name} returns {width}",
                    parameter="threshold",
                    remedy="leave it out",
                )
            return (scores[:, -1] >= self.threshold).astype(np.int64)
        if width == 1 and (self.classes is None or len(self.classes) > 1):
            return (scores[:, 0] > 0).astype(np.int64)
        if width == 2:
            # Equivalent to argmax, which is slow on short rows.
            return (scores[:, 1] > scores[:, 0]).astype(np.int64)
        highest: Codes = scores.argmax(axis=1)
        return highest

    def same_model(self) -> AbstractContextManager[None]:
        """Raise if a model behind HTTP is another one at the end of a ``with`` block."""
        return nullcontext() if self.remote is None else self.remote.same_model()

    def with_options(
        self,
        *,
        threshold: float | None = None,
        input: Input | None = None,
        timeout: float | None = None,
        name: str | None = None,
        batch_size: int | None = None,
        chunk: int | None = None,
    ) -> Self:
        """Return a copy of this model with the options that are not None."""
        options = {
            "threshold": threshold, "input": input, "timeout": timeout, "name": name, "batch_size": batch_size,
            "chunk": chunk,
        }  # fmt: skip
        given = {option: value for option, value in options.items() if value is not None}
        if not given:
            return self
        changed = copy.copy(self)
        for option, value in given.items():
            setattr(changed, option, value)
        changed.check()
        if threshold is not None:
            # Labels now follow from scores, and a number with a threshold is a decision.
            changed.threshold, changed.decides, changed.regression = float(threshold), True, False
        return changed

    def check(self) -> None:
        """Raise ModelError if an option does not fit this model; adapters add their own checks."""
        check_choice("input", self.input, ("frame", "array", "text"), ModelError)
        if self.input != "frame" and self.columns is not None:
            raise self._wrong_input('must be "frame": {} was fitted on named columns')
        if self.timeout is not None:
            check_number("timeout", self.timeout, ModelError, above=0, remedy="leave it out for no limit")
        if self.batch_size is not None:
            check_int("batch_size", self.batch_size, ModelError, 1, remedy="leave it out to let calls grow")
        if self.chunk is not None:
            check_int("chunk", self.chunk, ModelError, 2)
        check_int("calls_at_once", self.calls_at_once, ModelError, 1)
        check_number("row_cost", self.row_cost, ModelError, 0)
        if self.threshold is None:
            return
        check_number("threshold", self.threshold, ModelError, remedy="give a finite number, such as 0.5")
        if not self.has_scores:
            raise ModelError(
                f"needs scores; {self.name} returns labels only", parameter="threshold", remedy="leave it out"
            )
        if self.classes is not None and len(self.classes) != 2:
            problem = f"needs two classes; {self.name} has {len(self.classes)}"
            raise ModelError(problem, parameter="threshold", remedy="leave it out")

    def _wrong_input(self, problem: str, remedy: str = "leave it out") -> ModelError:
        return ModelError(problem.format(self.name), parameter="input", value=self.input, remedy=remedy)

    def _check_probability(self) -> None:
        """Raise if the threshold is not a probability."""
        if self.threshold is not None:
            check_number(
                "threshold",
                self.threshold,
                ModelError,
                0,
                1,
                remedy=f"choose a probability: {self.name} returns probabilities",
            )

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the space that the model is known not to use."""
        return () if self.columns is None else tuple(name for name in names if name not in self.columns)

    def pick(self, X: Any) -> Any:
        """Return the rows with the columns that the model was fitted on, in its order."""
        if self.columns is None or isinstance(X, (np.ndarray, list)) or tuple(X.columns) == self.columns:
            return X
        return X[list(require_columns(self.name, self.columns, X.columns))]


class Fitted(NamedTuple):
    """What a model was fitted on."""

    input: Input
    columns: tuple[str, ...] | None = None
    prepare: Callable[[Any], Any] | None = None
    """Converts rows with these columns for the model; None if no conversion is needed."""


def package_of(model: Any) -> str:
    """Return the top-level package of a model's class."""
    return type(model).__module__.partition(".")[0]


def derives(thing: Any, module: str, name: str = "") -> bool:
    """Whether an object's class derives from a class of a module, without importing the module."""
    return any(base.__module__.startswith(module) and name in ("", base.__name__) for base in type(thing).__mro__)


def is_torch(model: Any) -> bool:
    """Whether a model is a torch module."""
    return derives(model, "torch.nn.modules")


def require_columns(name: str, wanted: Sequence[str], given: Iterable[str]) -> Sequence[str]:
    """Return the wanted columns; raise if some are missing."""
    found = list(given)
    if missing := [column for column in wanted if column not in found]:
        raise ModelError(
            f"{name} needs the columns {some(missing)}, but is given {some(found)}",
            remedy="add the missing ones to the space",
        )
    return wanted


def some(names: list[Any]) -> str:
    """Join names for a message, the first few of many."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
