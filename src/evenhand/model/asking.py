"""Asks a model, and turns whatever goes wrong on its side into one clear error."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, ModelError, ModelTimeout
from evenhand.model.answers import FOR_TEXTS, INSTEAD, SCORES, as_gradients, as_labels, as_scores, to_array
from evenhand.model.protocol import Array, Floats, Model, Rows, some
from evenhand.model.torch_modules import is_torch

if TYPE_CHECKING:
    from evenhand.text.texts import Texts

Classes: TypeAlias = npt.NDArray[np.int64]


class Asking:
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
    >>> from evenhand.model import wrap
    >>> asking = Asking(wrap(lambda X: X[:, 0] > 1, input="array"))
    >>> asking.labels(np.array([[1.0], [2.0]]), 2)
    array([False,  True])
    """

    def __init__(self, model: Model, timeout: float | None = None) -> None:
        self.model = model
        self.timeout = model.timeout if timeout is None else timeout

    def labels(self, X: Rows, n: int, instead: str = SCORES) -> Array:
        """Ask for the decisions of n rows; ``instead`` is what to do about a model that gives scores."""
        self._refuse_numbers()
        return as_labels(self._ask(self.model.labels, X, n), n, self.model.name, instead)

    def scores(self, X: Rows, n: int) -> Floats:
        """Ask for the score rows of n rows."""
        if not self.model.has_scores:
            raise ModelError(f"{self.model.name} gives labels only, no scores. Use criterion=eh.Flip().")
        return as_scores(self._ask(self.model.scores, X, n), n, self.model.name)

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
                f"{self.model.name} returns numbers, not labels. Compare them with criterion=eh.Gap(gamma),\n"
                "or make them decisions with eh.wrap(model, threshold=...)."
            )

    def gradients(self, X: Rows, classes: Classes) -> Floats:
        """Ask for the gradients of the loss of each row's class, by the row's columns."""
        return as_gradients(self._slopes(self.model.gradients, X, classes, INSTEAD), np.shape(X), self.model.name)

    def word_gradients(self, texts: Texts, classes: Classes) -> Floats:
        """Ask for the gradients of the loss of each text's class, by the vectors of the text's words."""
        answer = to_array(self._slopes(self.model.word_gradients, texts, classes, FOR_TEXTS), self.model.name)
        shape = len(texts.words), answer.shape[1] if answer.ndim == 2 else 1
        return as_gradients(answer, shape, self.model.name, FOR_TEXTS)

    def _slopes(self, ask: Callable[[Any, Classes], Any], X: Any, classes: Classes, instead: str) -> Any:
        def question(rows: Any) -> Any:
            return ask(rows, classes)

        try:
            return question(X) if self.timeout is None else self._ask_in_time(question, X, len(X))
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"{self.model.name} could not be differentiated: {type(error).__name__}: {_gist(error)}\n{instead}."
            ) from error

    def _ask(self, question: Callable[[Rows], Any], X: Rows, n: int) -> Any:
        if isinstance(X, list) != (self.model.input == "text"):
            raise wrong_kind(self.model)
        try:
            return question(X) if self.timeout is None else self._ask_in_time(question, X, n)
        except EvenhandError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelError(self._explain(error, X, n)) from error

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
                f"{self.model.name} did not answer {n} rows within {self.timeout:g} seconds. Allow more with "
                "eh.wrap(model, timeout=...), or ask fewer rows at a time."
            )
        return answers[0]

    def _explain(self, error: BaseException, X: Rows, n: int) -> str:
        message = f"{self.model.name} raised {type(error).__name__}: {_gist(error)}\nIt was given "
        if isinstance(X, list):
            return message + f"a list of {n} texts."
        columns = list(X.columns) if hasattr(X, "columns") else None
        if isinstance(X, list):
            return f"{self.model.name} raised {type(error).__name__}: {_gist(error)}\nIt was given a list of {n} texts."
        fed = f"an array of {X.shape[1]} columns" if columns is None else f"a frame with columns {some(columns)}"
        message += f"{n} rows: {fed}."
        if self.model.columns is None and not is_torch(self.model.source):
            other = "frame" if columns is None else "array"
            message += f' If it needs another kind of input: eh.wrap(model, input="{other}").'
        return message


def wrong_kind(model: Model) -> ModelError:
    """Say that a model for texts was put to people of a table, or the other way round.

    >>> from evenhand.model import wrap
    >>> print(wrong_kind(wrap(len, input="text")))
    len takes texts, but the space has columns. Audit it with a text space.
    """
    if model.input == "text":
        return ModelError(f"{model.name} takes texts, but the space has columns. Audit it with a text space.")
    return ModelError(
        f"{model.name} takes rows of a table, but the space is one of texts. A function on a list of strings is\n"
        'eh.wrap(f, input="text"); a torch module takes texts by eh.wrap(module, encode=encode).'
    )


def _gist(error: BaseException) -> str:
    text = str(error).strip()
    if "feature names" in text.lower() or "columns" in text.lower():
        # scikit-learn lists the columns that it misses on lines of their own.
        return " ".join(text.split())[:400]
    return text.splitlines()[0][:400] if text else "(no message)"
