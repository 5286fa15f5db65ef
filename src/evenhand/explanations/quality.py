"""The quality of a run's texts: how far what was found is from the text that it was made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError
from evenhand.spaces.text.findings import Record, TextFindings
from evenhand.spaces.text.quality import compared, within
from evenhand.spaces.text.tokens import Texts

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.runs.run import Run


@dataclass(frozen=True, eq=False)
class Quality:
    """How far each finding's text is from its seed, by the free edit alone. Not made by hand."""

    frame: pd.DataFrame = field(repr=False)
    """One row for each finding that was measured, in their order; raw findings are as good as can be."""

    @property
    def edited(self) -> npt.NDArray[np.bool_]:
        """Which findings have words replaced; the others are raw, texts of the data as they are."""
        return np.asarray(self.frame["changed"].to_numpy() > 0)

    @property
    def raw(self) -> int:
        """How many findings are raw."""
        return int((~self.edited).sum())

    @property
    def mean(self) -> pd.Series[Any]:
        """The mean of each measure over the edited findings; NaN where there are none."""
        return self.frame[self.edited].mean()

    def within(self, **limits: float) -> npt.NDArray[np.bool_]:
        """Tell which findings keep all limits: at most ``changed`` and ``distance``, at least any other measure."""
        return within(self.frame, **limits)

    def __repr__(self) -> str:
        edited = len(self.frame) - self.raw
        means = ", ".join(f"{name} {value:.3g}" for name, value in self.mean.items()) if edited else ""
        return f"Quality: {edited:,} edited findings{means and ': ' + means}; {self.raw:,} raw ones"


def quality(
    run: Run, *, vectors: Any = None, encoder: Any = None, bleu: bool | None = None, at: Any = slice(None)
) -> Quality:
    """Measure how far the texts that a run found are from the texts that it started from.

    The two differ by the free edit; the swap of the protected term is what is tested, and is no loss of quality.

    Parameters
    ----------
    run
        A run on texts, also one that was loaded.
    vectors
        Words with their vectors, as for ``TextSpace``, or a function on words that returns them; None: what the run
        itself has used for similar words, where that is available.
    encoder
        Gives texts vectors of their meaning: a model of sentence-transformers, the folder that one was saved to, or a
        function on a list of strings; None: no ``similarity``.
    bleu
        Whether to measure BLEU; None: where sacrebleu is installed.
    at
        Which findings, by their positions, a mask or a slice; by default all.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.TextSpace("religion", (["house", "home"], [[1, 0], [1, 0.1]]))
    >>> data = ["A Sikh has my house."]
    >>> run = eh.audit(lambda texts: ["Sikh" in text for text in texts], space, eh.TextRandom(), data=data)
    >>> eh.quality(run, bleu=False)
    Quality: 1 edited findings: changed 1, distance 0.1, jaccard 0.667; 1 raw ones
    """
    pairs = getattr(run, "pairs", None)
    if pairs is None:
        raise DataError(f"quality is of a run, as eh.audit returns it, got {type(run).__name__}")
    if not isinstance(pairs, TextFindings):
        raise DataError("quality is of texts, and this run is on rows of attributes; give a run on an eh.TextSpace")
    records = _records(pairs, at)
    new = Texts.of([record[0] for record in records])
    old, torn = _undone(records, new)
    vectors = _vectors(run) if vectors is None else vectors
    table = compared(old, new, vectors=vectors, encoder=encoder, bleu=bleu)
    table.loc[torn, [name for name in table if name != "changed"]] = np.nan
    table["changed"] = [len(record[3]) for record in records]
    return Quality(table)


def _records(pairs: TextFindings, at: Any) -> list[Record]:
    """Return findings, in the order in which they are asked for."""
    try:
        wanted = np.arange(pairs.count)[at]
    except (IndexError, TypeError, ValueError):
        wanted = None
    if wanted is None or wanted.ndim != 1:
        raise DataError(f"at must be a slice, a mask or numbers below {pairs.count:,}, the findings; got {at!r:.60}")
    unique, places = np.unique(wanted, return_inverse=True)
    records = pairs.records(unique)
    return [records[place] for place in places.tolist()]


def _undone(records: list[Record], texts: Texts) -> tuple[Texts, npt.NDArray[np.bool_]]:
    """Put back the words that were replaced; say which texts are torn.

    A new word can make another one with what stands beside it ("www" before ".org"): such texts cannot be undone, and
    are left as they are.
    """
    torn = np.zeros(len(records), dtype=bool)
    edits = [edit for record in records for edit in record[3]]
    if not edits:
        return texts, torn
    rows = np.repeat(np.arange(len(records)), [len(record[3]) for record in records])
    places = np.array([place for place, _, _ in edits], dtype=np.int64)
    old, new = (texts.vocabulary.ids(words) for words in ([old for _, old, _ in edits], [new for _, _, new in edits]))
    inside = places < texts.lengths[rows]
    flat = np.where(inside, texts.starts[rows] + places, 0)
    torn[rows[~inside | (texts.words[flat] != new)]] = True
    kept = ~torn[rows]
    return texts.put(flat[kept], old[kept]), torn


def _vectors(run: Run) -> Any:
    """Return the vectors behind the similar words of a run, or None."""
    similar = run.space.similar
    if similar is not None:
        return similar.words, similar.vectors
    model = None if run.origin is None else run.origin.probe.model
    embed: Callable[[list[str]], Any] | None = getattr(model, "word_vectors", None)
    return embed if getattr(model, "has_words", False) else None
