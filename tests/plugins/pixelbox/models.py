"""Models of this package, and what makes them models of evenhand."""

from __future__ import annotations

from typing import Any

import numpy as np

import evenhand as eh


class Brightness:
    """Tells bright images from dark ones; some pixels count more than others."""

    def __init__(self, weights: Any = 1.0, threshold: float = 1.5) -> None:
        self.weights, self.threshold = np.asarray(weights, dtype=float), threshold

    def how_bright(self, images: Any) -> Any:
        """Give one number for each image, from 0 to 1."""
        flat = np.asarray(images, dtype=float).reshape(len(images), -1)
        # Row by row, so that a sum does not depend on the batch.
        level = (flat * self.weights).mean(axis=1)
        return 1 / (1 + np.exp(self.threshold - level))


class Adapted(eh.Model):
    """A ``Brightness`` as evenhand asks it."""

    name, input, has_scores, decides = "brightness", "array", True, True
    batch_size, calls_at_once, row_cost = 512, 4, 0.001

    def __init__(self, source: Brightness) -> None:
        self.source, self.classes = source, np.array(["dark", "bright"])

    def scores(self, X: Any) -> Any:
        bright = self.source.how_bright(X)
        return np.column_stack([1 - bright, bright])

    def labels(self, X: Any) -> Any:
        return self.decide(self.scores(X))


def adapt(model: Any) -> eh.Model | None:
    """Adapt what is ours; evenhand asks for every object of this package."""
    return Adapted(model) if isinstance(model, Brightness) else None
