"""Calls a model, checks its answers, and turns whatever goes wrong on its side into one clear error."""

from __future__ import annotations

import contextvars
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import _interrupts as interrupts
from evenhand import errors
from evenhand.errors import EvenhandError, ModelError, ModelTimeout, Words
from evenhand.models.base import Array, Codes, Floats, Model, Rows, some
from evenhand.models.outputs import as_gradients, as_labels, as_scores, to_array
from evenhand.models.torch import is_torch

if TYPE_CHECKING:
    from evenhand.spaces.text.tokens import Texts

FIRST, LARGEST = 16, 2**20
"""Rows in a model's first call, and the most in any."""
SHORT = 0.5
"""Seconds that one call should take at most."""


class Calls:
    """Cuts rows into model calls: 16, 64, 256 ... rows, as long as a call takes less than about half a second.

    Calls grow fourfold while they are very fast, then twofold. So a time limit can end a run soon even where the model
    is slow, and a fast model soon gets whole blocks.

    >>> [(part.start, part.stop) for part in Calls().parts(100)]
    [(0, 16), (16, 80), (80, 100)]
    >>> [(part.start, part.stop) for part in Calls(40).parts(100)]
    [(0, 40), (40, 80), (80, 100)]
    """

    def __init__(self, fixed: int | None = None, size: int | None = None, pace: float | None = None) -> None:
        self.fixed, self.size = fixed, size or FIRST
        self.rows = 0
        """Rows in all calls so far."""
        self.pace = pace
        """Seconds per row, in the fastest call; None before the first."""
        self.between: Callable[[], object] | None = None
        """Called between two calls; may raise to give up the rest."""
        self.cancel: interrupts.Token | None = None
        """Checked before each call: once it is set, no call is made."""

    def parts(self, n: int) -> Iterator[slice]:
        """Yield one slice for each call; the time until the next slice is requested counts as the call's."""
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
            if self.fixed is None and taken < SHORT / 2:
                self.size = max(self.size, min((4 if taken < SHORT / 4 else 2) * rows, LARGEST))
            elif self.fixed is None and taken > 2 * SHORT:
                # The first call of a model may have loaded something: calls can grow again.
                self.size = max(self.size // 2, FIRST)
            at += size

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send rows in one call, so that batches can be compared; a fixed size is kept."""
        before, self.fixed = self.fixed, self.fixed or LARGEST
        try:
            yield
        finally:
            self.fixed = before


class ModelClient:
    """The one place where a model is called: answers are checked, faults become `ModelError`.

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
    >>> client = ModelClient(wrap(lambda X: X[:, 0] > 1, input="array"))
    >>> client.labels(np.array([[1.0], [2.0]]), 2)
    array([False,  True])
    """

    def __init__(self, model: Model, timeout: float | None = None) -> None:
        self.model = model
        self.timeout = model.timeout if timeout is None else timeout
        # Calls start at the size that earlier calls have reached.
        self.calls = Calls(model.batch_size, model.call_size, model.pace)
        self.instead: Words = errors.COMPARE
        """The remedy for a model that returns scores where decisions are needed."""

    def labels(self, X: Rows, n: int, instead: Words | None = None) -> Array:
        """Return the decisions of n rows; ``instead`` is the remedy for a model that returns scores."""
        self._refuse_numbers()
        remedy = instead or self.instead
        return self._in_calls(
            lambda part: as_labels(self._ask(self.model.labels, part), len(part), self.model.name, remedy), X, n
        )

    def scores(self, X: Rows, n: int) -> Floats:
        """Return the score rows of n rows."""
        if not self.model.has_scores:
            raise ModelError(f"{self.model.name} gives labels only, no scores", remedy=("use ", errors.FLIP))
        return self._in_calls(
            lambda part: as_scores(self._ask(self.model.scores, part), len(part), self.model.name), X, n
        )

    def both(self, X: Rows, n: int) -> tuple[Floats, Array]:
        """Return scores and decisions, with one call where the decisions follow from the scores.

        A number without a threshold is its own decision.
        """
        scores = self.scores(X, n)
        one_call = self.model.decides or self.model.regression
        return scores, self.model.decide(scores) if one_call else self.labels(X, n)

    def decided(self, labels: Array) -> Array:
        """Return labels that were made from scores; raise where they are numbers without a threshold."""
        self._refuse_numbers()
        return labels if labels.dtype.kind != "f" else as_labels(labels, len(labels), self.model.name)

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Return the gradients of the loss of each row's class, by the row's columns."""
        parts = [
            as_gradients(answer, np.shape(part), self.model.name)
            for part, answer in self._differentiate(self.model.gradients, X, classes, errors.WITHOUT_GRADIENTS)
        ]
        return np.concatenate(parts) if parts else np.zeros(np.shape(X))

    def word_gradients(self, texts: Texts, classes: Codes) -> Floats:
        """Return the gradients of the loss of each text's class, by the vectors of the text's words."""
        parts = []
        for part, answer in self._differentiate(self.model.word_gradients, texts, classes, errors.FOR_TEXTS):
            array = to_array(answer, self.model.name)
            shape = len(part.words), array.shape[1] if array.ndim == 2 else 1
            parts.append(as_gradients(array, shape, self.model.name, errors.FOR_TEXTS))
        return np.concatenate(parts) if parts else np.zeros((0, 1))

    def _refuse_numbers(self) -> None:
        if self.model.regression:
            raise ModelError(
                f"{self.model.name} returns numbers, not labels",
                remedy=("compare them with ", errors.GAP, ", or turn them into decisions with ", errors.THRESHOLD),
            )

    def _in_calls(self, ask: Callable[[Any], Array], X: Rows, n: int) -> Array:
        """Ask about rows in calls of a suitable size."""
        answers = [ask(_rows(X, part, n)) for part in self.calls.parts(n)]
        self.model.call_size, self.model.pace = self.calls.size, self.calls.pace
        if len(answers) == 1:
            return answers[0]
        if not answers:
            return ask(X)
        kinds = {answer.dtype.kind for answer in answers}
        if len(kinds) > 1 and not kinds <= set("iufb"):
            # NumPy would turn numbers beside texts into texts.
            answers = [answer.astype(object) for answer in answers]
        return np.concatenate(answers)

    def _differentiate(
        self, ask: Callable[[Any, Codes], Any], X: Any, classes: Codes, instead: Words
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of each call and the model's answer."""

        def failed(error: BaseException, _: Any) -> ModelError:
            problem = f"{self.model.name} could not be differentiated: {type(error).__name__}: {_gist(error)}"
            return ModelError(problem, remedy=instead)

        for part in self.calls.parts(len(classes)):
            rows = _rows(X, part, len(classes))
            yield rows, self._call(lambda X, own=classes[part]: ask(X, own), rows, failed)  # type: ignore[misc]

    def _ask(self, question: Callable[[Rows], Any], X: Rows) -> Any:
        if isinstance(X, list) != (self.model.input == "text"):
            raise wrong_kind(self.model)
        return self._call(question, X, self._failed)

    def _call(self, question: Callable[[Any], Any], X: Any, failed: Callable[[BaseException, Any], ModelError]) -> Any:
        try:
            return question(X) if self.timeout is None else self._call_in_time(question, X)
        except (EvenhandError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit and GeneratorExit, which would end more than the call
            raise failed(error, X) from error

    def _call_in_time(self, question: Callable[[Any], Any], X: Any) -> Any:
        answers: list[Any] = []
        faults: list[BaseException] = []
        # The caller's context carries np.errstate and the like into the thread.
        context = contextvars.copy_context()

        def call() -> None:
            try:
                answers.append(context.run(question, X))
            except BaseException as fault:  # raised again below, in the caller's thread
                faults.append(fault)

        thread = threading.Thread(target=call, name=f"evenhand calls {self.model.name}", daemon=True)
        thread.start()
        thread.join(self.timeout)
        if faults:
            raise faults[0]
        if not answers:
            raise ModelTimeout(
                f"{self.model.name} did not answer {len(X)} rows within {self.timeout:g} seconds",
                remedy=("allow more with ", errors.TIMEOUT, ", or ask fewer rows at a time: ", errors.CHUNK),
            )
        return answers[0]

    def _failed(self, error: BaseException, X: Any) -> ModelError:
        problem = f"{self.model.name} raised {type(error).__name__}: {_gist(error)}\nIt was given "
        if isinstance(X, list):
            return ModelError(f"{problem}a list of {len(X)} texts")
        if hasattr(X, "columns"):
            fed, other, advice = f"a frame with columns {some(list(X.columns))}", "array", ("an array: ", errors.ARRAY)
        else:
            fed, other, advice = f"an array of {X.shape[1]} columns", "frame", ("a frame: ", errors.FRAME)
        problem += f"{len(X)} rows: {fed}"
        if self.model.columns is None and not is_torch(self.model.source) and _wants(other, error):
            return ModelError(problem, remedy=("it seems to take ", *advice))
        return ModelError(problem)


def _rows(X: Any, part: slice, n: int) -> Any:
    """Return the rows of one call; a frame's index starts at 0, as in a whole block."""
    if part.start == 0 and part.stop == n:
        return X
    return X.iloc[part].reset_index(drop=True) if hasattr(X, "iloc") else X[part]


def wrong_kind(model: Model) -> ModelError:
    """Make the error for a model of texts on a space of attributes, or the other way round."""
    if model.input == "text":
        return ModelError(
            f"{model.name} takes texts, and the space is one of attributes", remedy=("use ", errors.TEXT_SPACE)
        )
    return ModelError(
        f"{model.name} takes rows of a table, and the space is one of texts",
        remedy='wrap a function on a list of strings: eh.wrap(f, input="text"); a torch module: '
        "eh.wrap(module, encode=encode)",
    )


_WANTS = {
    "frame": re.compile(
        r"only integers, slices|(array|string|list|tuple) indices must be|'numpy\.ndarray' object has no attribute"
        r"|only supported for dataframes|no field of name|only slices, integers"
        r"|must be a .*DataFrame|expected .*DataFrame|requires? .*DataFrame"
    ),
    "array": re.compile(
        r"unhashable type: 'slice'|(must be|expected|takes?) .*(Tensor|ndarray|array)\b.*DataFrame"
        r"|shape of object type 'DataFrame'"
    ),
}


def _wants(kind: str, error: BaseException) -> bool:
    """Whether an error shows that a model needs the other kind of input, a "frame" or an "array".

    >>> _wants("frame", IndexError("only integers, slices (`:`), ellipsis are valid indices"))
    True
    >>> _wants("frame", ValueError("X has 3 features, but LogisticRegression is expecting 2 features as input."))
    False
    """
    text = str(error)
    if kind == "array":
        if lacking := re.search(r"'DataFrame' object has no attribute '(\w+)'", text):
            return hasattr(np.ndarray, lacking[1])
        # A frame was indexed by position, as in X[0] or X[:, 0].
        key = error.args[0] if isinstance(error, KeyError) and error.args else None
        by_position = isinstance(key, int | np.integer | tuple | slice) and not isinstance(key, bool)
        if by_position or type(error).__name__ == "InvalidIndexError":
            return True
    return _WANTS[kind].search(text) is not None


def _gist(error: BaseException) -> str:
    text = str(error).strip()
    if "feature names" in text.lower() or "columns" in text.lower():
        # scikit-learn lists the missing columns on lines of their own.
        return " ".join(text.split())[:400]
    return text.splitlines()[0][:400] if text else "(no message)"
