"""Training: whatever the user has becomes one function of rows and labels, and what it returns is looked at."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError, ModelError
from evenhand.models.base import Model
from evenhand.models.wrap import for_space, wrap
from evenhand.repairs.rows import Labelled
from evenhand.repairs.text_rows import LabelledTexts

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
