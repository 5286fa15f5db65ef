"""What is decided of the same texts with one term and with another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.criterion import Outputs
from evenhand.findings import Decisions
from evenhand.text.ground import TextGround

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Term:
    """How often texts get each decision with one term in place."""

    attribute: str
    term: str
    texts: int
    """Texts with the term, as they are or with it in the place of another; one with two terms is counted for each."""
    shares: tuple[tuple[Any, float], ...]
    """Each decision, and how many of them get it."""


class TermCounts:
    """Counts decisions by the term that stands in a text.

    A family that was not compared with all of its counterparts is left out: the terms that its sample has are not those
    of the others.
    """

    def __init__(self, ground: TextGround) -> None:
        lexicons = ground.space.lexicons
        self.names = [(lexicon.name, identity) for lexicon in lexicons for identity in lexicon.identities]
        self.decisions = Decisions()
        self._ground = ground
        self._counts = np.zeros((len(self.names), 0), dtype=np.int64)

    def add(self, families: Any, outputs: Outputs) -> None:
        """Count a block; numbers are no decisions, and not counted."""
        assert outputs.labels is not None
        if outputs.labels.dtype.kind == "f":
            return
        row, place, identity = families.identities
        whole = self._ground.counterparts[families.individuals.seeds] < self._ground.space.limit
        row, place, identity = row[whole[row]], place[whole[row]], identity[whole[row]]
        codes: npt.NDArray[Any] = self.decisions.encode(outputs.labels[row, place])
        new = len(self.decisions.values) - self._counts.shape[1]
        self._counts = np.pad(self._counts, ((0, 0), (0, new)))
        np.add.at(self._counts, (identity, codes.astype(np.int64)), 1)

    def shares(self) -> tuple[Term, ...]:
        """Give the terms that were met, in the order of the lexicons."""
        out, decisions = [], self.decisions.values
        order = sorted(range(len(decisions)), key=lambda code: str(decisions[code]))
        for (attribute, name), counts in zip(self.names, self._counts.tolist(), strict=True):
            if texts := sum(counts):
                told = tuple((decisions[code], counts[code] / texts) for code in order)
                out.append(Term(attribute, name, texts, told))
        return tuple(out)


def frame_of(terms: tuple[Term, ...]) -> pd.DataFrame:
    """Put terms into a frame, with a column for the share of each decision.

    >>> frame_of((Term("religion", "Sikh", 4, (("fine", 0.75), ("toxic", 0.25))),)).to_dict("records")
    [{'attribute': 'religion', 'term': 'Sikh', 'texts': 4, 'decided fine': 0.75, 'decided toxic': 0.25}]
    """
    import pandas as pd

    decided = [f"decided {value}" for value, _ in terms[0].shares] if terms else []
    rows = [[term.attribute, term.term, term.texts, *(share for _, share in term.shares)] for term in terms]
    return pd.DataFrame(rows, columns=["attribute", "term", "texts", *decided])
