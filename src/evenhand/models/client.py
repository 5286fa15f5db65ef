"""Asks a model, and turns whatever goes wrong on its side into one clear error."""

from __future__ import annotations

import contextvars
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand.errors import (
    ARRAY,
    CHUNK,
    COMPARE,
    FLIP,
    FOR_TEXTS,
    FRAME,
    GAP,
    THRESHOLD,
    TIMEOUT,
    WITHOUT_GRADIENTS,
    EvenhandError,
    ModelError,
    ModelTimeout,
    Words,
)
from evenhand.models.base import Array, Floats, Model, Rows, some
from evenhand.models.outputs import as_gradients, as_labels, as_scores, to_array
from evenhand.models.torch import is_torch

if TYPE_CHECKING:
    from evenhand.spaces.text.tokens import Texts

Classes: TypeAlias = npt.NDArray[np.int64]

FIRST, LARGEST = 16, 2**20
"""Rows of a model's first call, and the most of any."""
SHORT = 0.5
"""Seconds that one call should take at most."""


class Calls:
    """Cuts rows into model calls: 16, 64, 256 ... rows, as long as a call takes less than about half a second.

    They grow four times as long as a call takes a small part of that, then they double. So a clock can end a run soon
    also where the model is slow, and a fast model is soon asked whole blocks.

    >>> [(part.start, part.stop) for part in Calls().parts(100)]
    [(0, 16), (16, 80), (80, 100)]
    >>> [(part.start, part.stop) for part in Calls(40).parts(100)]
    [(0, 40), (40, 80), (80, 100)]
    """

    def __init__(self, fixed: int | None = None, size: int | None = None) -> None:
        self.fixed, self.size = fixed, size or FIRST
        self.rows = 0
        """Rows handed over so far, in all calls."""
        self.pace: float | None = None
        """Seconds that a row takes, in the call where it took the fewest; None: nothing was asked yet."""
        self.between: Callable[[], object] | None = None
        """Called between two calls; may raise to give up the rest."""
        self.cancel: interrupts.Token | None = None
        """Looked at before each call: where it is set, no call is made any more."""

    def parts(self, n: int) -> Iterator[slice]:
        """Yield one slice for each call; the time until the next is asked for is the call's."""
        at = 0
        while at < n:
            interrupts.check(self.cancel)
            if at and self.between is not None:
                self.between()
            size, start = self.fixed or self.size, time.monotonic()
            part = slice(at, min(n, at + size))
            rows = part.stop - at
            self.rows += rows
            yield part
            taken = time.monotonic() - start
            self.pace = taken / rows if self.pace is None else min(self.pace, taken / rows)
            if self.fixed is None:
                self._climb(rows, taken)
            at += size

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Ask rows in one call, so that whoever compares batches knows what they are; a fixed size is kept to."""
        before, self.fixed = self.fixed, self.fixed or LARGEST
        try:
            yield
        finally:
            self.fixed = before

    def _climb(self, rows: int, seconds: float) -> None:
        if seconds < SHORT / 2:
            self.size = max(self.size, min((4 if seconds < SHORT / 4 else 2) * rows, LARGEST))
        elif seconds > 2 * SHORT:
            # Never for good: the first call of a model may have loaded something.
            self.size = max(self.size // 2, FIRST)


class ModelClient:
    """The one place where a model is called: answers come back checked, faults as `ModelError`.

    Parameters
    ----------
    model : Model
        What `wrap` returned.
    timeout : float, optional
        Seconds that one call may take; the model's own setting where not given. The call then runs in a
        thread. A thread cannot be stopped from outside: a model that hangs is left behind, and does not keep
        Python from exiting.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.models.wrap import wrap
    >>> asking = ModelClient(wrap(lambda X: X[:, 0] > 1, input="array"))
    >>> asking.labels(np.array([[1.0], [2.0]]), 2)
    array([False,  True])
    """

    def __init__(self, model: Model, timeout: float | None = None) -> None:
        self.model = model
        self.timeout = model.timeout if timeout is None else timeout
        # Whoever asks a model a second time knows how fast it is.
        self.calls = Calls(model.batch_size, model.call_size)
        self.instead: Words = COMPARE
        """What to do about a model that gives scores where decisions are asked."""

    def labels(self, X: Rows, n: int, instead: Words | None = None) -> Array:
        """Ask for the decisions of n rows; ``instead`` is what to do about a model that gives scores."""
        self._refuse_numbers()
        instead = instead or self.instead

        def ask(part: Rows, n: int) -> Array:
            return as_labels(self._ask(self.model.labels, part, n), n, self.model.name, instead)

        return self._in_calls(ask, X, n)

    def scores(self, X: Rows, n: int) -> Floats:
        """Ask for the score rows of n rows."""
        if not self.model.has_scores:
            raise ModelError(f"{self.model.name} gives labels only, no scores", remedy=("use ", FLIP))

        def ask(part: Rows, n: int) -> Floats:
            return as_scores(self._ask(self.model.scores, part, n), n, self.model.name)

        return self._in_calls(ask, X, n)

    def both(self, X: Rows, n: int) -> tuple[Floats, Array]:
        """Ask for scores and decisions; with one call where the decisions follow from the scores.

        A number without a threshold is its own decision.
        """
        scores = self.scores(X, n)
        one_call = self.model.decides or self.model.regression
        return scores, self.model.decide(scores) if one_call else self.labels(X, n)

    def decided(self, labels: Array) -> Array:
        """Return what was made of scores as labels; numbers without a threshold are none."""
        self._refuse_numbers()
        return labels if labels.dtype.kind != "f" else as_labels(labels, len(labels), self.model.name)

    def _refuse_numbers(self) -> None:
        if self.model.regression:
            raise ModelError(
                f"{self.model.name} returns numbers, not labels",
                remedy=("compare them with ", GAP, ", or make them decisions with ", THRESHOLD),
            )

    def gradients(self, X: Rows, classes: Classes) -> Floats:
        """Ask for the gradients of the loss of each row's class, by the row's columns."""
        parts = [
            as_gradients(answer, np.shape(part), self.model.name)
            for part, answer in self._slopes(self.model.gradients, X, classes, WITHOUT_GRADIENTS)
        ]
        return np.concatenate(parts) if parts else np.zeros(np.shape(X))

    def word_gradients(self, texts: Texts, classes: Classes) -> Floats:
        """Ask for the gradients of the loss of each text's class, by the vectors of the text's words."""
        parts = []
        for part, answer in self._slopes(self.model.word_gradients, texts, classes, FOR_TEXTS):
            array = to_array(answer, self.model.name)
            shape = len(part.words), array.shape[1] if array.ndim == 2 else 1
            parts.append(as_gradients(array, shape, self.model.name, FOR_TEXTS))
        return np.concatenate(parts) if parts else np.zeros((0, 1))

    def _in_calls(self, ask: Callable[[Any, int], Array], X: Rows, n: int) -> Array:
        """Ask about rows in calls of a size that suits the model."""
        answers = [ask(_rows(X, part, n), part.stop - part.start) for part in self.calls.parts(n)]
        self.model.call_size = self.calls.size
        if len(answers) == 1:
            return answers[0]
        if not answers:
            return ask(X, n)
        kinds = {answer.dtype.kind for answer in answers}
        if len(kinds) > 1 and not kinds <= set("iufb"):
            # NumPy would make numbers beside texts texts.
            answers = [answer.astype(object) for answer in answers]
        return np.concatenate(answers)

    def _slopes(
        self, ask: Callable[[Any, Classes], Any], X: Any, classes: Classes, instead: Words
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of each call and the model's answer."""
        for part in self.calls.parts(len(classes)):
            rows = _rows(X, part, len(classes))
            yield rows, self._slope(partial(_with_classes, ask, classes[part]), rows, instead)

    def _slope(self, question: Callable[[Any], Any], X: Any, instead: Words) -> Any:
        try:
            return question(X) if self.timeout is None else self._ask_in_time(question, X, len(X))
        except (EvenhandError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ModelError(
                f"{self.model.name} could not be differentiated: {type(error).__name__}: {_gist(error)}", remedy=instead
            ) from error

    def _ask(self, question: Callable[[Rows], Any], X: Rows, n: int) -> Any:
        if isinstance(X, list) != (self.model.input == "text"):
            raise wrong_kind(self.model)
        try:
            return question(X) if self.timeout is None else self._ask_in_time(question, X, n)
        except (EvenhandError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit and GeneratorExit, which would end more than the call
            raise self._explained(error, X, n) from error

    def _ask_in_time(self, question: Callable[[Rows], Any], X: Rows, n: int) -> Any:
        answers: list[Any] = []
        faults: list[BaseException] = []
        # The caller's context carries np.errstate and the like into the thread.
        context = contextvars.copy_context()

        def call() -> None:
            try:
                answers.append(context.run(question, X))
            except BaseException as fault:  # raised again below, in the thread that asked
                faults.append(fault)

        thread = threading.Thread(target=call, name=f"evenhand asks {self.model.name}", daemon=True)
        thread.start()
        thread.join(self.timeout)
        if faults:
            raise faults[0]
        if not answers:
            raise ModelTimeout(
                f"{self.model.name} did not answer {n} rows within {self.timeout:g} seconds",
                remedy=("allow more with ", TIMEOUT, ", or ask fewer rows at a time: ", CHUNK),
            )
        return answers[0]

    def _explained(self, error: BaseException, X: Rows, n: int) -> ModelError:
        message = f"{self.model.name} raised {type(error).__name__}: {_gist(error)}\nIt was given "
        if isinstance(X, list):
            return ModelError(message + f"a list of {n} texts.")
        columns = list(X.columns) if hasattr(X, "columns") else None
        fed = f"an array of {X.shape[1]} columns" if columns is None else f"a frame with columns {some(columns)}"
        message += f"{n} rows: {fed}"
        other = "frame" if columns is None else "array"
        if self.model.columns is None and not is_torch(self.model.source) and wants(other, error):
            kind = "a frame" if other == "frame" else "an array"
            return ModelError(message, remedy=(f"it seems to take {kind}: ", ARRAY if other == "array" else FRAME))
        return ModelError(f"{message}.")


def _with_classes(ask: Callable[[Any, Classes], Any], classes: Classes, X: Any) -> Any:
    return ask(X, classes)


def _rows(X: Any, part: slice, n: int) -> Any:
    """Take the rows of one call; a frame's are numbered from 0, as a model of a whole block would see them."""
    if part.start == 0 and part.stop == n:
        return X
    return X.iloc[part].reset_index(drop=True) if hasattr(X, "iloc") else X[part]


def wrong_kind(model: Model) -> ModelError:
    """Say that a model for texts was put to people of a table, or the other way round.

    >>> from evenhand.models.wrap import wrap
    >>> print(wrong_kind(wrap(len, input="text")))
    len takes texts, but the space has columns. Audit it with a text space.
    """
    if model.input == "text":
        return ModelError(f"{model.name} takes texts, but the space has columns. Audit it with a text space.")
    return ModelError(
        f"{model.name} takes rows of a table, but the space is one of texts. A function on a list of strings is\n"
        'eh.wrap(f, input="text"); a torch module takes texts by eh.wrap(module, encode=encode).'
    )


_WANTS = {
    "frame": (
        r"only integers, slices",
        r"(array|string|list|tuple) indices must be",
        r"'numpy\.ndarray' object has no attribute",
        r"only supported for dataframes",
        r"no field of name|only slices, integers",
        r"must be a .*DataFrame|expected .*DataFrame|requires? .*DataFrame",
    ),
    "array": (
        r"unhashable type: 'slice'",
        r"(must be|expected|takes?) .*(Tensor|ndarray|array)\b.*DataFrame",
        r"shape of object type 'DataFrame'",
    ),
}


def wants(kind: str, error: BaseException) -> bool:
    """Tell by its error whether a model that got the other kind of input wants a "frame", or an "array".

    >>> wants("frame", IndexError("only integers, slices (`:`), ellipsis are valid indices"))
    True
    >>> wants("frame", ValueError("X has 3 features, but LogisticRegression is expecting 2 features as input."))
    False
    """
    text = str(error)
    lacking = re.search(r"'DataFrame' object has no attribute '(\w+)'", text)
    if kind == "array" and lacking is not None:
        return hasattr(np.ndarray, lacking[1])
    if kind == "array" and (type(error).__name__ == "InvalidIndexError" or _is_place(error)):
        return True
    return any(re.search(pattern, text) for pattern in _WANTS[kind])


def _is_place(error: BaseException) -> bool:
    """Whether a frame was asked for a place, such as ``X[0]`` or ``X[:, 0]``, as if it were a column's name."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    return isinstance(key, int | np.integer | tuple | slice) and not isinstance(key, bool)


def _gist(error: BaseException) -> str:
    text = str(error).strip()
    if "feature names" in text.lower() or "columns" in text.lower():
        # scikit-learn lists the columns that it misses on lines of their own.
        return " ".join(text.split())[:400]
    return text.splitlines()[0][:400] if text else "(no message)"
