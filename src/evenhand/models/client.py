"""Queries a model about any number of rows: in calls of a suitable size, here or on workers; checks each answer.

`ModelClient` divides rows into calls; a `Call` is one of them. A model must return one comparable label or one row of
finite scores for each row. Any failure of the model becomes one clear error.
"""

from __future__ import annotations

import contextvars
import ctypes
import math
import numbers
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand import _interrupts as interrupts
from evenhand import errors
from evenhand._format import number
from evenhand.errors import (
    COMPARE,
    FLIP,
    KOSEI,
    REGRESSION,
    TEXT_RANDOM,
    WITHOUT_GRADIENTS,
    EvenhandError,
    ModelError,
    ModelTimeout,
    Words,
)
from evenhand.models.base import Array, Codes, Floats, Model, Rows, is_torch, some
from evenhand.spaces.frames import native, pd

if TYPE_CHECKING:
    from evenhand.spaces.text.tokens import Texts

# Integers, booleans and texts of a fixed width have no missing values, and need no further check.
PLAIN = frozenset("iubUS")
NUMERIC = (numbers.Real, np.bool)
WHOLE = (numbers.Integral, np.bool)
LABELS_ONLY = ("use ", FLIP, " and ", KOSEI, ", or for texts ", TEXT_RANDOM)
FIRST, LARGEST = 16, 2**20
"""Rows in a model's first call, and the most in any."""
SHORT = 0.5
"""Seconds that one call should take at most."""
WORTH = 0.002
"""Seconds that a share of the rows should take at least, where several workers share them."""


class Calls:
    """Divides rows into model calls: 16, 64, 256 ... rows, as long as a call takes less than about half a second.

    Calls grow fourfold while they are very fast, then twofold. So a time limit can end a run soon even if the model is
    slow, and a fast model soon gets whole blocks.

    Calls that may be made simultaneously are yielded together; their sizes differ by one row at most.

    >>> [[(part.start, part.stop) for part in parts] for parts in Calls().parts(100)]
    [[(0, 16)], [(16, 80)], [(80, 100)]]
    >>> [[(part.start, part.stop) for part in parts] for parts in Calls(40).parts(80, workers=2)]
    [[(0, 40), (40, 80)]]
    """

    def __init__(
        self, fixed: int | None = None, size: int | None = None, pace: float | None = None, least: int = FIRST
    ) -> None:
        self.fixed, self.size, self.least = fixed, size or least, least
        self.rows = 0
        """Rows in all calls so far."""
        self.seconds = 0.0
        """Time that all calls so far have taken."""
        self.pace = pace
        """Seconds per row, in the fastest call; None before the first."""
        self._quickest = math.inf
        """Seconds of the fastest call, however few its rows."""
        self._most, self._more = 0, 0.0
        """Rows of the largest call, and the seconds that each took beyond those of the fastest call."""
        self._together = False
        self.between: Callable[[], object] | None = None
        """Called between two calls; may raise to give up the rest."""
        self.cancel: interrupts.Token | None = None
        """Checked before each call; once it is set, no more calls are made."""

    def parts(self, n: int, workers: int = 1) -> Iterator[list[slice]]:
        """Yield slices for simultaneous calls; the time until the next are requested counts as theirs."""
        at = 0
        while at < n:
            interrupts.check(self.cancel)
            if at and self.between is not None:
                self.between()
            size, start = self.fixed or self.size, time.monotonic()
            shares = 1 if workers == 1 or self._together else self._shares(n - at, size, workers)
            end = min(n, at + shares * size)
            edges = [at + (end - at) * share // shares for share in range(shares + 1)]
            self.rows += end - at
            yield [slice(*edge) for edge in pairwise(edges)]
            taken, rows = time.monotonic() - start, math.ceil((end - at) / shares)
            self.seconds += taken
            self._quickest = min(self._quickest, taken)
            if rows >= self._most:
                self._most, self._more = rows, (taken - self._quickest) / rows
            self.pace = taken / rows if self.pace is None else min(self.pace, taken / rows)
            if self.fixed is None and taken < SHORT / 2:
                grown = min((4 if taken < SHORT / 4 else 2) * rows, LARGEST)
                # For a model behind HTTP, multiples of all requests that may be in flight.
                self.size = max(self.size, grown - grown % self.least)
            elif self.fixed is None and taken > 2 * SHORT:
                # A model's first call may have loaded something, so calls can grow again.
                self.size = max(self.size // 2, self.least)
            at = end

    def _shares(self, rows: int, size: int, workers: int) -> int:
        """Number of workers that share rows: fewer if the overhead of a call would dominate.

        A forest of 500 trees takes 20 milliseconds for a single row, and hardly more for a hundred. Some models do not
        accept a single row.
        """
        worth = int(rows * self._more / max(WORTH, self._quickest)) if self._most else workers
        return max(1, min(workers, max(worth, math.ceil(rows / size)), rows // 2))

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send rows in one call, so that batches can be compared; a fixed batch size is respected."""
        before = self.fixed, self._together
        self.fixed, self._together = self.fixed or LARGEST, True
        try:
            yield
        finally:
            self.fixed, self._together = before


class ModelClient:
    """The only place where a model is called: answers are checked, and failures become `ModelError`.

    Parameters
    ----------
    model : Model
        A wrapped model. If it has workers, these are called instead.
    timeout : float, optional
        Maximum seconds for one call; by default the model's own setting.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.models.wrap import wrap
    >>> client = ModelClient(wrap(lambda X: X[:, 0] > 1, input="array"))
    >>> client.labels(np.array([[1.0], [2.0]]), 2)
    array([False,  True])
    """

    def __init__(self, model: Model, timeout: float | None = None) -> None:
        keep_freed_memory()
        self.model = model
        self.timeout = model.timeout if timeout is None else timeout
        # Calls start at the size that earlier calls reached.
        self.calls = Calls(model.batch_size, model.call_size, model.pace, model.least_call)
        self.instead: Words = COMPARE
        """The remedy for a model that returns scores where decisions are needed."""

    def labels(self, X: Rows, n: int, instead: Words | None = None) -> Array:
        """Return the decisions of n rows; ``instead`` is the remedy for a model that returns scores."""
        self._refuse_numbers()
        return self._in_calls(partial(Call, "labels", remedy=instead or self.instead, timeout=self.timeout), X, n)

    def scores(self, X: Rows, n: int) -> Floats:
        """Return the score rows of n rows."""
        if not self.model.has_scores:
            raise ModelError(f"{self.model.name} returns labels only, no scores", remedy=("use ", FLIP))
        return self._in_calls(partial(Call, "scores", timeout=self.timeout), X, n)

    def both(self, X: Rows, n: int) -> tuple[Floats, Array]:
        """Return scores and decisions, with one call if the decisions follow from the scores.

        A number without a threshold is its own decision.
        """
        scores = self.scores(X, n)
        one_call = self.model.decides or self.model.regression
        return scores, self.model.decide(scores) if one_call else self.labels(X, n)

    def decided(self, labels: Array) -> Array:
        """Return labels made from scores; raise if they are numbers without a threshold."""
        self._refuse_numbers()
        return labels if labels.dtype.kind != "f" else as_labels(labels, len(labels), self.model.name)

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Return the gradients of the loss of each row's class, by the row's columns."""
        call = partial(Call, "gradients", remedy=WITHOUT_GRADIENTS, timeout=self.timeout)
        parts = self._answers(call, X, len(classes), classes)
        return np.concatenate(parts) if parts else np.zeros(np.shape(X))

    def word_gradients(self, texts: Texts, classes: Codes) -> Floats:
        """Return the gradients of the loss of each text's class, by the vectors of the text's words."""
        call = partial(Call, "word_gradients", remedy=errors.FOR_TEXTS, timeout=self.timeout)
        parts = self._answers(call, texts, len(classes), classes)
        return np.concatenate(parts) if parts else np.zeros((0, 1))

    def _refuse_numbers(self) -> None:
        if self.model.regression:
            raise ModelError(
                f"{self.model.name} returns numbers, not labels",
                remedy=("compare them with ", errors.GAP, ", or turn them into decisions with ", errors.THRESHOLD),
            )

    def _in_calls(self, call: Callable[..., Call], X: Rows, n: int) -> Array:
        """Query rows in calls of a suitable size."""
        answers = self._answers(call, X, n)
        self.model.call_size, self.model.pace = self.calls.size, self.calls.pace
        if len(answers) == 1:
            return answers[0]
        if not answers:
            return call(X).of(self.model)
        kinds = {answer.dtype.kind for answer in answers}
        if len(kinds) > 1 and not kinds <= set("iufb"):
            # NumPy would convert numbers to texts if there are both.
            answers = [answer.astype(object) for answer in answers]
        return np.concatenate(answers)

    def _answers(self, call: Callable[..., Call], X: Any, n: int, classes: Codes | None = None) -> list[Array]:
        """Make calls, several simultaneously if there are workers; return the answers in the order of the rows."""
        model, workers = self.model, self.model.workers
        answers = []
        for parts in self.calls.parts(n, 1 if workers is None else workers.count):
            calls = [call(part_of(X, part), None if classes is None else classes[part]) for part in parts]
            if workers is None:
                answers += [one.of(model) for one in calls]
            else:
                answers += workers.ask(model, calls, self.calls.cancel)
        return answers


def part_of(X: Any, part: slice) -> Any:
    """Return some of a model's inputs; a frame's index starts at 0, as in a whole block.

    >>> part_of(["a", "b", "c"], slice(1, 3))
    ['b', 'c']
    """
    if part.start == 0 and part.stop == len(X):
        return X
    return X.iloc[part].reset_index(drop=True) if hasattr(X, "iloc") else X[part]


# One call.


@dataclass(frozen=True)
class Call:
    """One call of a model, made here or, because it can be pickled, by another process.

    >>> from evenhand.models.wrap import wrap
    >>> Call("labels", np.array([[1.0], [2.0]])).of(wrap(lambda X: X[:, 0] > 1, input="array"))
    array([False,  True])
    """

    question: Literal["labels", "scores", "gradients", "word_gradients"]
    X: Any
    """A frame, an array, a list of texts, or ``Texts`` for the gradients of words."""
    classes: Codes | None = None
    """The classes for gradients."""
    remedy: Words = COMPARE
    """The remedy if a model returns scores instead of labels, or has no gradients."""
    timeout: float | None = None
    """Maximum seconds for the call, which then runs in a thread. A thread cannot be stopped from outside, so a hanging
    call is abandoned; it does not prevent Python from exiting."""

    def of(self, model: Model) -> Array:
        """Call a model, and check its answer; any failure of the model becomes one clear error."""
        ask, name = getattr(model, self.question), model.name
        if self.classes is not None:
            answer = self._made(model, lambda X: ask(X, self.classes))
            if self.question == "gradients":
                return as_gradients(answer, np.shape(self.X), name)
            array = to_array(answer, name)
            shape = len(self.X.words), array.shape[1] if array.ndim == 2 else 1
            return as_gradients(array, shape, name, errors.FOR_TEXTS)
        if isinstance(self.X, list) != (model.input == "text"):
            raise wrong_kind(model)
        answer = self._made(model, ask)
        if self.question == "scores":
            return as_scores(answer, len(self.X), name)
        return as_labels(answer, len(self.X), name, self.remedy)

    def _made(self, model: Model, ask: Any) -> Any:
        try:
            return ask(self.X) if self.timeout is None else self._in_time(model, ask, self.timeout)
        except (EvenhandError, KeyboardInterrupt):
            raise
        except BaseException as error:  # Also SystemExit and GeneratorExit, which would end more than the call.
            raise self._explained(model, error) from error

    def _in_time(self, model: Model, ask: Any, seconds: float) -> Any:
        answers: list[Any] = []
        faults: list[BaseException] = []
        # The caller's context carries np.errstate and the like into the thread.
        context = contextvars.copy_context()

        def call() -> None:
            try:
                answers.append(context.run(ask, self.X))
            except BaseException as fault:  # raised again below, in the caller's thread
                faults.append(fault)

        thread = threading.Thread(target=call, name=f"evenhand calls {model.name}", daemon=True)
        thread.start()
        thread.join(seconds)
        if faults:
            raise faults[0]
        if not answers:
            raise ModelTimeout(
                f"{model.name} did not answer {len(self.X)} rows within {seconds:g} seconds",
                remedy=("allow more with ", errors.TIMEOUT, ", or ask fewer rows at a time: ", errors.CHUNK),
            )
        return answers[0]

    def _explained(self, model: Model, error: BaseException) -> ModelError:
        if self.classes is not None:
            problem = f"{model.name} could not be differentiated: {type(error).__name__}: {_gist(error)}"
            return ModelError(problem, remedy=self.remedy)
        X = self.X
        problem = f"{model.name} raised {type(error).__name__}: {_gist(error)}\nIt was given "
        if isinstance(X, list):
            return ModelError(f"{problem}a list of {len(X)} texts", remedy=_CORRECT)
        if hasattr(X, "columns"):
            fed, other, advice = f"a frame with columns {some(list(X.columns))}", "array", ("an array: ", errors.ARRAY)
        else:
            fed, other, advice = f"an array of {X.shape[1]} columns", "frame", ("a frame: ", errors.FRAME)
        problem += f"{len(X)} rows: {fed}"
        if model.columns is None and not is_torch(model.source) and _wants(other, error):
            return ModelError(problem, remedy=("it seems to take ", *advice))
        return ModelError(problem, remedy=_CORRECT)


def wrong_kind(model: Model) -> ModelError:
    """Return the error for a model of texts with a space of attributes, or the reverse."""
    if model.input == "text":
        return ModelError(f"{model.name} takes texts, but the space has attributes", remedy=("use ", errors.TEXT_SPACE))
    return ModelError(
        f"{model.name} takes rows of a table, but the space has texts",
        remedy='wrap a function on a list of strings: eh.wrap(f, input="text"); a torch module: '
        "eh.wrap(module, encode=encode)",
    )


_CORRECT = "wrap a function that accepts this and calls the model"
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
    """Whether an error shows that a model needs the other kind of input, a "frame" or an "array"."""
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


# What models return.


def to_array(answer: Any, name: str) -> Array:
    """Convert a model's answer (list, array, Series, tensor) to a NumPy array of one or more dimensions."""
    if isinstance(answer, np.ma.MaskedArray) and np.ma.is_masked(answer):
        raise ModelError(f"{name} returned masked entries", remedy="return one answer for every row")
    array = np.asarray(answer) if isinstance(answer, np.ndarray) else _convert(answer, name)
    if array.ndim == 0:
        got = "None" if answer is None else f"one {type(answer).__name__}"
        raise ModelError(
            f"{name} returned {got} for the whole batch",
            remedy="return one answer per row, as an array, a list or a Series",
        )
    return array


def _convert(answer: Any, name: str) -> Array:
    if isinstance(answer, (list, tuple)):
        types = set(map(type, answer))
        # np.asarray would convert 1 and None to text if there is text, and so hide that they differ or are missing.
        if len(types) > 1 and not all(issubclass(kind, NUMERIC) for kind in types):
            return np.fromiter(answer, dtype=object, count=len(answer))
    if hasattr(answer, "detach") and hasattr(answer, "cpu"):
        answer = answer.detach().cpu()
    try:
        return np.asarray(answer)
    except (ValueError, TypeError) as error:
        why = next(iter(str(error).splitlines()), "")
        raise ModelError(
            f"{name} returned a {type(answer).__name__} that cannot become an array ({why})",
            remedy="return one answer per row, all of the same shape",
        ) from error


def as_labels(answer: Any, n: int, name: str, instead: Words = COMPARE) -> Array:
    """Return the answer as n labels, or raise ModelError; ``instead`` is the remedy for scores."""
    array = to_array(answer, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ModelError(
            f"{name} returned labels of shape {array.shape}; one label per row is needed",
            remedy="with several outputs, wrap one: eh.wrap(lambda X: model.predict(X)[:, 0])",
        )
    _check_length(array, n, name)
    kind = array.dtype.kind
    if kind in PLAIN:
        return array
    if kind in "OTMm":
        array = _check_objects(array, name)
        kind = array.dtype.kind
    if kind == "f":
        if not np.isfinite(array).all():
            problem = f"{name} returned NaN or infinity as a label{_where(array)}"
            raise ModelError(problem, remedy="return a label for every row")
        fractions = array[array != np.rint(array)]
        if len(fractions):
            shown = ", ".join(map(number, fractions[:3].tolist()))
            raise ModelError(f"{name} returned fractions ({shown}), which look like scores, not labels", remedy=instead)
        # 2 and 2.0 are the same decision, even if a model returns integers in one call and floats in the next.
        array = array.astype(np.int64) if np.abs(array).max(initial=0) < 2**53 else array
    elif kind in "cV":
        raise ModelError(f"{name} returned labels of type {array.dtype}", remedy="return integers, booleans or text")
    return array


def _check_objects(array: Array, name: str) -> Array:
    values = array.tolist()
    types = set(map(type, values))
    if types == {str}:
        return array
    absent = pd.isna(array)
    if absent.any():
        row = int(absent.argmax())
        raise ModelError(
            f"{name} returned no label for {int(absent.sum())} of {len(array)} rows (first: row {row}, {array[row]!r})",
            remedy="return a label for every row",
        )
    unhashable = sorted(kind.__name__ for kind in types if kind.__hash__ is None)
    if unhashable:
        problem = f"{name} returned labels of type {some(unhashable)}, which cannot be compared"
        raise ModelError(problem, remedy="return numbers or text")
    # Numbers in an object array (from a list, a nullable column) are checked as the numbers they are.
    return np.asarray(values) if types and all(issubclass(kind, NUMERIC) for kind in types) else array


def as_scores(answer: Any, n: int, name: str) -> Floats:
    """Return the answer as n rows of finite float64 scores, or raise ModelError."""
    array = to_array(answer, name)
    if array.dtype.kind == "O" and all(issubclass(kind, NUMERIC) for kind in set(map(type, array.ravel().tolist()))):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        example = native(array.flat[0]) if array.size else None
        raise ModelError(
            f"{name} was asked for scores but returned {array.dtype} values such as {example!r}",
            remedy=("return numbers, or ", *LABELS_ONLY),
        )
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ModelError(f"{name} returned scores of shape {array.shape}", remedy="return (rows,) or (rows, classes)")
    _check_length(array, n, name)
    scores = np.asarray(array, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ModelError(f"{name} returned NaN or infinity as a score{_where(scores)}", remedy="return finite numbers")
    return scores


def refuse_labels(answer: Array, name: str) -> None:
    """Raise if the single answer per row is an integer or a boolean, because such answers are labels, not scores."""
    if answer.ndim > 1 and answer.shape[1:] != (1,):
        return
    kind = answer.dtype.kind
    if kind == "O":
        # Numbers from a list or a nullable column; a single fraction makes all of them amounts.
        types = set(map(type, answer.ravel().tolist()))
        kind = "i" if types and all(issubclass(one, WHOLE) for one in types) else "O"
    if kind in "biu" and answer.size:
        what = "True and False" if kind == "b" else f"whole numbers such as {answer.flat[0]}"
        raise ModelError(
            f"{name} was asked for scores but returned labels, {what}",
            remedy=(*LABELS_ONLY, "; if they are amounts: ", REGRESSION),
        )


def as_gradients(answer: Any, shape: tuple[int, ...], name: str, instead: Words = WITHOUT_GRADIENTS) -> Floats:
    """Return the answer as finite gradients of the given shape, or raise ModelError."""
    array = to_array(answer, name)
    if array.dtype.kind not in "biuf":
        raise ModelError(f"{name} returned gradients of type {array.dtype}, not real numbers", remedy=instead)
    gradients = np.asarray(array, dtype=np.float64)
    if gradients.shape != shape:
        raise ModelError(
            f"{name} returned gradients of shape {gradients.shape}", remedy=f"return {shape}, the shape of the rows"
        )
    if not np.isfinite(gradients).all():
        raise ModelError(f"{name} returned NaN or infinity as a gradient{_where(gradients)}", remedy=instead)
    return gradients


def _check_length(array: Array, n: int, name: str) -> None:
    if len(array) != n:
        raise ModelError(f"{name}: got {len(array)} answers for {n} rows", remedy="return one per row, in their order")


def _where(array: Array) -> str:
    rows = np.atleast_1d(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    return f" for {int(rows.sum())} of {len(rows)} rows (first: row {int(rows.argmax())})"


TRIM, MAP = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of glibc's ``mallopt``."""
KEPT = 256 * 2**20
"""Number of free bytes at the end of the heap before they are returned."""
MAPPED = 32 * 2**20
"""The maximum that glibc allows: blocks up to this size come from the heap."""
OF_DASK = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""What Dask sets for its workers by default: a forest then takes half as long again."""


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep freed memory, once for the process; return whether it does.

    A block of rows is some megabytes. By default glibc returns them to the system after each call of the model and
    requests them again before the next, page by page: on virtual machines that took half of the time of an estimate of
    a small network. Environment variables that set its limits, such as ``MALLOC_TRIM_THRESHOLD_``, are respected,
    except the default of Dask's workers.

    >>> keep_freed_memory() in (True, False)
    True
    """
    given = {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}
    if not sys.platform.startswith("linux") or given not in ({}, OF_DASK):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(TRIM, KEPT) and mallopt(MAP, MAPPED))
