"""What the rest of evenhand asks of a model: labels for a batch and, where there are any, scores and gradients."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice, check_int, check_number
from evenhand.errors import FLIP, FOR_TEXTS, KOSEI, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from evenhand.spaces.text.tokens import Texts

Input: TypeAlias = Literal["frame", "array", "text"]
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = "pd.DataFrame | Floats | list[str]"


class Model(ABC):
    """A decision maker that answers batches. Write a subclass when `wrap` does not know your kind of model.

    Attributes
    ----------
    name : str
        The name in reports.
    input : {"frame", "array", "text"}
        What `labels` and `scores` receive: a pandas frame with the user's own values, a C-ordered float64
        array in the space's column order, or a list of texts.
    columns : tuple of str or None
        The names that the model was fitted on, where known. Other columns are dropped before it is called.
    has_scores : bool
        Whether the model has scores. True for a callable, whose answers are not known before it is called.
    regression : bool
        The answers are numbers, not decisions.
    decides : bool
        ``decide(scores(X))`` equals ``labels(X)`` (except for ties within rounding), so that one call is enough
        for both.
    classes : array or None
        The labels of the score columns, where known.
    threshold : float or None
        Decide for the second class where its score is at least this.
    timeout : float or None
        Seconds that one call may take.
    batch_size : int or None
        The most rows in one call; None: calls grow as long as they are fast.
    calls_at_once : int
        How many calls the model can take at the same time, from several threads. For information only: calls are
        made one by one.
    row_cost : float
        What one row costs, in a unit of your own, such as a price. For information only.
    call_size : int or None
        The number of rows per call that was reached last; the next calls start with it.
    pace : float or None
        Seconds per row, in the fastest call so far.
    gradient_source : str or None
        How `gradients` are computed ("autograd", "closed form"); None where there are none.
    has_words : bool
        Whether the model has `word_vectors` and `word_gradients`.
    words : list of str or None
        The words that the model knows, where known. Similar words are chosen from these.
    source : object
        What was wrapped: the estimator, the booster, the function.
    sha256 : str or None
        The hash of the file that the model was loaded from.

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
    call_size: int | None = None
    pace: float | None = None
    calls_at_once: int = 1
    row_cost: float = 0.0
    gradient_source: str | None = None
    has_words: bool = False
    words: Sequence[str] | None = None
    source: Any = None
    sha256: str | None = None

    @abstractmethod
    def labels(self, X: Rows) -> Array:
        """Decide each row: an array of n comparable values."""

    def scores(self, X: Rows) -> Floats:
        """Score each row: n rows, one column per class, or a single column for one number."""
        del X
        raise ModelError(f"{self.name} gives labels only, no scores", remedy=("use ", FLIP))

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Differentiate each row's loss by each of its columns: an array of the shape of ``X``.

        The loss is the cross-entropy of the row's class, which ``classes`` gives as a column of the scores (where a
        row has a single score: 1 for the class that it is the score of, 0 for the other).
        """
        del X, classes
        raise ModelError(f"{self.name} gives no gradients", remedy=("use ", KOSEI, ", which needs labels only"))

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """Return the embedding of each word, one row per word."""
        del words
        raise self._no_words()

    def word_gradients(self, texts: Texts, classes: Codes) -> Floats:
        """Differentiate each text's loss by the vector of each of its words: one row for each of ``texts.words``.

        The loss is the cross-entropy of the text's class. Words that the model does not see, because it reads only the
        beginning of a text, have zeros.
        """
        del texts, classes
        raise self._no_words()

    def _no_words(self) -> ModelError:
        return ModelError(
            f"{self.name} gives no vectors and gradients of words",
            remedy=(
                "wrap a torch module with an embedding layer: eh.wrap(module, encode=encode); otherwise ",
                *FOR_TEXTS,
            ),
        )

    def decide(self, scores: Floats) -> Array:
        """Turn score rows into decisions, with the threshold that is in use.

        One column without a threshold is a number and stays one, unless two classes are known: then it is a
        decision value, and above zero means the second class.
        """
        width = scores.shape[1]
        named = self.classes is not None and len(self.classes) in (width, 2 if width == 1 else width)
        if width == 1 and self.threshold is None and not named:
            return scores[:, 0]
        chosen = self.choose(scores)
        return np.take(self.classes, chosen) if self.classes is not None and named else chosen

    def choose(self, scores: Floats) -> Codes:
        """Return the score column that each row decides for; with a single score, 1 for its class and 0 otherwise."""
        width = scores.shape[1]
        if self.threshold is not None:
            if width > 2:
                raise ModelError(
                    f"needs one or two scores a row; {self.name} gives {width}",
                    parameter="threshold",
                    remedy="leave it out",
                )
            return (scores[:, -1] >= self.threshold).astype(np.int64)
        if width == 1 and (self.classes is None or len(self.classes) > 1):
            return (scores[:, 0] > 0).astype(np.int64)
        if width == 2:
            # The same as argmax, which is slow on short rows.
            return (scores[:, 1] > scores[:, 0]).astype(np.int64)
        highest: Codes = scores.argmax(axis=1)
        return highest

    def with_options(
        self,
        *,
        threshold: float | None = None,
        input: Input | None = None,
        timeout: float | None = None,
        name: str | None = None,
        batch_size: int | None = None,
    ) -> Self:
        """Return a copy of this model with the options that are not None."""
        options = {
            "threshold": threshold, "input": input, "timeout": timeout, "name": name, "batch_size": batch_size
        }  # fmt: skip
        given = {option: value for option, value in options.items() if value is not None}
        if not given:
            return self
        changed = copy.copy(self)
        for option, value in given.items():
            setattr(changed, option, value)
        changed.check()
        if threshold is not None:
            # Labels now come from scores by definition, and a number cut in two is a decision.
            changed.threshold, changed.decides, changed.regression = float(threshold), True, False
        return changed

    def check(self) -> None:
        """Raise ModelError where an option does not fit this model; adapters add checks of their own."""
        check_choice("input", self.input, ("frame", "array", "text"), ModelError)
        if self.input != "frame" and self.columns is not None:
            raise self._wrong_input('must be "frame": {} was fitted on named columns')
        if self.timeout is not None:
            check_number("timeout", self.timeout, ModelError, above=0, remedy="leave it out for no limit")
        if self.batch_size is not None:
            check_int("batch_size", self.batch_size, ModelError, 1, remedy="leave it out to let calls grow")
        check_int("calls_at_once", self.calls_at_once, ModelError, 1)
        check_number("row_cost", self.row_cost, ModelError, 0)
        if self.threshold is None:
            return
        check_number("threshold", self.threshold, ModelError, remedy="give a finite number, such as 0.5")
        if not self.has_scores:
            raise ModelError(
                f"needs scores; {self.name} gives labels only", parameter="threshold", remedy="leave it out"
            )
        if self.classes is not None and len(self.classes) != 2:
            problem = f"needs two classes; {self.name} knows {len(self.classes)}"
            raise ModelError(problem, parameter="threshold", remedy="leave it out")

    def _wrong_input(self, problem: str, remedy: str = "leave it out") -> ModelError:
        return ModelError(problem.format(self.name), parameter="input", value=self.input, remedy=remedy)

    def _check_probability(self) -> None:
        """Raise where the threshold is no probability."""
        if self.threshold is not None:
            check_number(
                "threshold",
                self.threshold,
                ModelError,
                0,
                1,
                remedy=f"choose a probability: {self.name} gives probabilities",
            )

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the space that the model is known not to use.

        >>> class Rule(Model):
        ...     columns = ("hours",)
        ...
        ...     def labels(self, X):
        ...         return (X["hours"] > 40).to_numpy()
        >>> Rule().unread(["hours", "sex"])
        ('sex',)
        """
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
    """Makes rows with these columns acceptable to the model; None where they are already."""


def package_of(model: Any) -> str:
    """Return the top-level package of a model's class.

    >>> package_of([1])
    'builtins'
    """
    return type(model).__module__.partition(".")[0]


def require_columns(name: str, wanted: Sequence[str], given: Iterable[str]) -> Sequence[str]:
    """Return the wanted columns; raise where some are missing."""
    found = list(given)
    if missing := [column for column in wanted if column not in found]:
        raise ModelError(
            f"{name} needs the columns {some(missing)}, but is given {some(found)}",
            remedy="add the missing ones to the space",
        )
    return wanted


def some(names: list[Any], most: int = 8) -> str:
    """Join names for a message, the first few of many.

    >>> some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
