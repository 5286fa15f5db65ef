"""What the rest of evenhand asks of a model: labels for a batch and, where there are any, scores and gradients."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import FLIP, FOR_TEXTS, KOSEI, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from evenhand.spaces.text.tokens import Texts

Input: TypeAlias = Literal["frame", "array", "text"]
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = "pd.DataFrame | Floats | list[str]"


class Model(ABC):
    """A decision maker that answers batches. Write a subclass when `wrap` does not know your kind of model.

    Attributes
    ----------
    name : str
        For people to read.
    input : {"frame", "array", "text"}
        What `labels` and `scores` receive: a pandas frame with the user's own values, a C-ordered float64
        array in the space's column order, or a list of texts.
    columns : tuple of str or None
        The names that the model was fitted on, where known. Other columns are dropped before it is called.
    has_scores : bool
        Whether `scores` may be asked. What a callable returns is not known before it is called: it says yes.
    regression : bool
        The answers are numbers, not decisions.
    decides : bool
        ``decide(scores(X))`` is what ``labels(X)`` would say (ties within a rounding error aside): one call
        serves both questions.
    classes : array or None
        The labels that the score columns stand for, where known.
    threshold : float or None
        Decide for the second class where its score is at least this.
    timeout : float or None
        Seconds that one call may take.
    batch_size : int or None
        The most rows of one call, where the user says nothing else; None: calls grow as long as they are short.
    calls_at_once : int
        How many calls the model takes at the same time, from several threads. Stated only; calls are made one by one.
    row_cost : float
        What asking one row costs, in a unit of your own, such as a price; 0 where it costs time alone. Stated only.
    call_size : int or None
        How many rows a call had when the model was last asked; the next question begins with as many.
    gradient_source : str or None
        How `gradients` come about ("autograd", "closed form"), for people to read; None where there are none.
    has_words : bool
        Whether `word_vectors` and `word_gradients` may be asked.
    words : list of str or None
        The words that the model knows, where it tells: similar words are found among these.
    source : object
        What was wrapped: the estimator, the booster, the function.
    sha256 : str or None
        The hash of the file that the model was read from, where it was read from one.

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

    def gradients(self, X: Rows, classes: npt.NDArray[np.int64]) -> Floats:
        """Differentiate each row's loss by each of its columns: an array of the shape of ``X``.

        The loss is the cross-entropy of the class that ``classes`` names for the row, as a column of the scores
        (where a row has a single score: 1 for what it speaks for, 0 for the other).
        """
        del X, classes
        raise ModelError(f"{self.name} gives no gradients", remedy=("use ", KOSEI, ", which needs labels only"))

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """Return the vector by which the model knows each word, one row per word."""
        del words
        raise self._no_words()

    def word_gradients(self, texts: Texts, classes: npt.NDArray[np.int64]) -> Floats:
        """Differentiate each text's loss by the vector of each of its words: one row for each of ``texts.words``.

        The loss is the cross-entropy of the class that ``classes`` names for the text. A word that the model does not
        see, as one behind the end of what it reads, has zeros.
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

    def choose(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Name the score column that each row decides for; of a single score, 1 for what it speaks for and 0 else."""
        width = scores.shape[1]
        if self.threshold is not None:
            if width > 2:
                raise ModelError(f"{self.name} gives {width} scores a row; a threshold needs one or two. Leave it out.")
            return (scores[:, -1] >= self.threshold).astype(np.int64)
        if width == 1 and (self.classes is None or len(self.classes) > 1):
            return (scores[:, 0] > 0).astype(np.int64)
        if width == 2:
            # The same as argmax, which is slow at short rows.
            return (scores[:, 1] > scores[:, 0]).astype(np.int64)
        highest: npt.NDArray[np.int64] = scores.argmax(axis=1)
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
        """Return this model with the options that are not None put in; the model itself stays as it is."""
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
        """Raise ModelError where an option makes no sense for this model; adapters add what they know."""
        if self.input not in ("frame", "array", "text"):
            raise ModelError(f'input={self.input!r}: a model takes "frame", "array" or "text".')
        if self.input != "frame" and self.columns is not None:
            raise ModelError(f'{self.name} was fitted on named columns. Leave out input="{self.input}".')
        if self.timeout is not None and not (_is_number(self.timeout) and self.timeout > 0):
            raise ModelError(f"timeout={self.timeout!r}: give a positive number of seconds, or None for no limit.")
        rows = self.batch_size
        if rows is not None and (not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < 1):
            raise ModelError(f"batch_size={rows!r}: give a whole number of at least 1, or None.")
        calls = self.calls_at_once
        if not isinstance(calls, (int, np.integer)) or isinstance(calls, bool) or calls < 1:
            raise ModelError(f"calls_at_once={calls!r}: give a whole number of at least 1.")
        if not _is_number(self.row_cost) or self.row_cost < 0:
            raise ModelError(f"row_cost={self.row_cost!r}: give a number of at least 0.")
        if self.threshold is None:
            return
        if not _is_number(self.threshold):
            raise ModelError(f"threshold={self.threshold!r}: give a finite number, such as 0.5.")
        if not self.has_scores:
            raise ModelError(f"{self.name} gives labels only, no scores to put a threshold on. Leave threshold out.")
        if self.classes is not None and len(self.classes) != 2:
            raise ModelError(
                f"{self.name} knows {len(self.classes)} classes; a threshold needs two. Leave threshold out."
            )

    def unread(self, names: Sequence[str]) -> tuple[str, ...]:
        """Name the columns of the space that never reach the decision, as far as the model tells.

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
        """Return the rows with the columns that the model knows, in the order that it knows them."""
        if self.columns is None or isinstance(X, (np.ndarray, list)) or tuple(X.columns) == self.columns:
            return X
        missing = [column for column in self.columns if column not in X.columns]
        if missing:
            raise ModelError(
                f"{self.name} was fitted on columns that it is not given: {some(missing)}.\n"
                f"It is given {some(list(X.columns))}. Add the missing ones to the space."
            )
        return X[list(self.columns)]


def some(names: list[Any], most: int = 8) -> str:
    """Join names for a message, the first few of many.

    >>> some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and math.isfinite(value)
