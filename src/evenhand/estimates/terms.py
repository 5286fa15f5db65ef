"""What is decided of the same texts with one term and with another, and how they are scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Outputs
from evenhand.estimates.differences import Differences
from evenhand.estimates.intervals import Ends
from evenhand.spaces.findings import Decisions
from evenhand.spaces.text.space import BoundTextSpace

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = npt.NDArray[np.float64]
Level: TypeAlias = Callable[[Floats | None], Floats | None]
"""Takes the one number of (families, places) out of scores; None where no one number says it."""
SCORED = ("mean", "difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class Term:
    """How often texts get each decision with one term in place."""

    attribute: str
    term: str
    texts: int
    """Texts with the term, as they are or with it in the place of another; one with two terms is counted for each."""
    shares: tuple[tuple[Any, float], ...]
    """Each decision, and how many of them get it; none where the model's numbers are no decisions."""
    mean: float | None = None
    """Of a criterion that looks at scores: the average score of these texts."""
    difference: float | None = None
    """How much higher the same text is scored with this term than with the other terms in its place, on average."""
    difference_low: float | None = None
    difference_high: float | None = None
    """Its interval holds for all terms at once; None where too few texts differ to say."""


class TermCounts:
    """Counts decisions by the term that stands in a text.

    A family that was not compared with all of its counterparts is left out: the terms that its sample has are not those
    of the others.
    """

    def __init__(self, ground: BoundTextSpace, level: Level | None = None) -> None:
        lexicons = ground.space.lexicons
        self.names = [(lexicon.name, identity) for lexicon in lexicons for identity in lexicon.identities]
        self.decisions = Decisions()
        self._ground, self._level = ground, level
        self._counts = np.zeros((len(self.names), 0), dtype=np.int64)
        self._differences = Differences(len(self.names))
        self._texts, self._sums = np.zeros(len(self.names), dtype=np.int64), np.zeros(len(self.names))
        self.width: int | None = None
        """How many scores there are, where terms are compared by them."""

    def add(self, families: Any, outputs: Outputs) -> None:
        """Count a block; numbers are no decisions, and not counted as such."""
        assert outputs.labels is not None
        row, place, identity = families.identities
        whole = self._ground.counterparts[families.individuals.seeds] < self._ground.space.max_family_size
        row, place, identity = row[whole[row]], place[whole[row]], identity[whole[row]]
        self._texts += np.bincount(identity, minlength=len(self.names))
        if self._level is not None and outputs.scores is not None:
            level = self._level(outputs.scores)
            if level is not None:
                self.width = outputs.scores.shape[2]
                self._add_scores(level, row, place, identity)
        if outputs.labels.dtype.kind == "f":
            return
        codes: npt.NDArray[Any] = self.decisions.encode(outputs.labels[row, place])
        new = len(self.decisions.values) - self._counts.shape[1]
        self._counts = np.pad(self._counts, ((0, 0), (0, new)))
        np.add.at(self._counts, (identity, codes.astype(np.int64)), 1)

    def _add_scores(self, level: Floats, row: Any, place: Any, identity: Any) -> None:
        """Compare each text with one term to itself with the other terms of that attribute."""
        scores, shape = level[row, place], (len(level), len(self.names))
        self._sums += np.bincount(identity, weights=scores, minlength=len(self.names))
        at = np.ravel_multi_index((row, identity), shape)
        size = shape[0] * shape[1]
        count = np.bincount(at, minlength=size).reshape(shape)
        mean = np.bincount(at, weights=scores, minlength=size).reshape(shape) / np.maximum(count, 1)
        attributes = np.unique([name for name, _ in self.names], return_inverse=True)[1]
        others = (attributes[:, None] == attributes) & ~np.eye(len(attributes), dtype=bool)
        many = (count > 0) @ others.astype(np.int64)
        rest = mean @ others.astype(np.float64) / np.maximum(many, 1)
        self._differences.add(mean, rest, (count > 0) & (many > 0), None)

    def shares(self, ends: Callable[[Differences, int], Ends]) -> tuple[Term, ...]:
        """Give the terms that were met, in the order of the lexicons; ``ends`` makes the intervals, of so many."""
        out, decisions = [], self.decisions.values
        order = sorted(range(len(decisions)), key=lambda code: str(decisions[code]))
        found = self._differences
        low, high = ends(found, int((found.compared > 0).sum()))
        for at, (attribute, name) in enumerate(self.names):
            texts = int(self._texts[at])
            if not texts or (self.width is None and not order):
                continue
            told = tuple((decisions[code], int(self._counts[at, code]) / texts) for code in order)
            scored: dict[str, float | None] = {}
            if self.width is not None:
                scored["mean"] = float(self._sums[at] / texts)
            if found.compared[at]:
                figures = zip(SCORED[1:], (found.mean, low, high), strict=True)
                scored |= {n: float(v[at]) + 0.0 if np.isfinite(v[at]) else None for n, v in figures}
            out.append(Term(attribute, name, texts, told, **scored))
        return tuple(out)


def frame_of(terms: tuple[Term, ...]) -> pd.DataFrame:
    """Put terms into a frame, with a column for the share of each decision, and what is known of their scores.

    >>> frame_of((Term("religion", "Sikh", 4, (("fine", 0.75), ("toxic", 0.25))),)).to_dict("records")
    [{'attribute': 'religion', 'term': 'Sikh', 'texts': 4, 'decided fine': 0.75, 'decided toxic': 0.25}]
    """
    import pandas as pd

    decided = [f"decided {value}" for value, _ in terms[0].shares] if terms else []
    scored = SCORED if any(term.mean is not None for term in terms) else ()
    rows = [
        [
            term.attribute,
            term.term,
            term.texts,
            *(share for _, share in term.shares),
            *(getattr(term, n) for n in scored),
        ]
        for term in terms
    ]
    return pd.DataFrame(rows, columns=["attribute", "term", "texts", *decided, *scored])
