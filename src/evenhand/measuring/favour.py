"""What people want of the model: one decision, or a higher or lower number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.measuring.judging import Mask
from evenhand.model import Model

HIGHER, LOWER = "higher", "lower"
SHOWN = 8


class Favour:
    """The favourable outcome: finds it among the decisions and the scores.

    A decision is matched by its value or, as the command line writes it, by its text.

    >>> from evenhand.model import wrap
    >>> Favour(wrap(lambda X: X), "1").of(np.array([[0, 1]]))
    array([[False,  True]])
    """

    def __init__(self, model: Model, favourable: Any) -> None:
        self.model, self.favourable = model, favourable
        self._value: Any = None
        self._seen: list[Any] = []
        if favourable is not None and not _single(favourable):
            raise ModelError(f"favourable must be one decision, got {favourable!r}")
        if favourable is not None and model.regression and favourable not in (HIGHER, LOWER):
            raise ModelError(
                f'{model.name} returns numbers: favourable must be "higher" or "lower", got {favourable!r}; '
                "or make them decisions with eh.wrap(model, threshold=...)"
            )
        if favourable is not None and not model.regression and model.classes is not None:
            self._value = self._match(model.classes.tolist())
            if self._value is None:
                raise ModelError(self._unknown(model.classes.tolist()))

    def of(self, labels: npt.NDArray[Any]) -> Mask | None:
        """Tell who gets the favourable decision; None where it is not known what people want, or by numbers only."""
        if self.favourable is None or self.model.regression or labels.dtype.kind == "f":
            return None
        if self._value is None:
            import pandas as pd

            new = [value for value in pd.unique(labels.ravel()).tolist() if value not in self._seen]
            self._seen += new
            self._value = self._match(new)
        if self._value is None:
            return np.zeros(labels.shape, dtype=bool)
        return np.asarray(labels == self._value[0], dtype=bool)

    def level(self, scores: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
        """Return the score of the favourable decision, or of the second of two; None where there are several."""
        if scores is None:
            return None
        width = scores.shape[2]
        if self.favourable is None:
            return scores[:, :, -1] if width <= 2 else None
        if width == 1:
            return scores[:, :, 0] if self._rises() else -scores[:, :, 0]
        classes = list(range(width)) if self.model.classes is None else self.model.classes.tolist()
        at = [place for place, value in enumerate(classes[:width]) if self._is(value)]
        return scores[:, :, at[0]] if at else None

    def check(self) -> None:
        """Raise where the model decided this and that but never what people are said to want."""
        if self.favourable is not None and self._value is None and len(self._seen) > 1:
            raise ModelError(self._unknown(self._seen))

    def _rises(self) -> bool:
        """Whether a single score speaks for what people want."""
        if self.favourable in (HIGHER, LOWER):
            return bool(self.favourable == HIGHER)
        classes = [0, 1] if self.model.classes is None else self.model.classes.tolist()
        return self._is(classes[-1])

    def _match(self, values: list[Any]) -> tuple[Any] | None:
        return next(((value,) for value in values if self._is(value)), None)

    def _is(self, value: Any) -> bool:
        return alike(value, self.favourable)

    def _unknown(self, values: list[Any]) -> str:
        shown = ", ".join(repr(value) for value in values[:SHOWN])
        return f"favourable={self.favourable!r} is no decision of {self.model.name}; it decides {shown}"


def alike(one: Any, other: Any) -> bool:
    """Whether two decisions are the same: by value or, as files and the command line write them, by text.

    >>> alike(1, True), alike(1, "1"), alike(1.0, 1), alike("yes", "no")
    (True, True, True, False)
    """
    return bool(one == other) or str(one) == str(other)


def _single(value: Any) -> bool:
    import pandas as pd

    return np.ndim(value) == 0 and not pd.isna(value)
