"""The quality of edited texts: how far the texts of findings are from the texts they were made from.

Measures words changed, vectors, word sets, BLEU and meaning. The swap of the protected term is what is tested, and is
not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice, check_number
from evenhand.errors import DataError, MissingExtra
from evenhand.spaces.findings import Record, TextFindings
from evenhand.spaces.frames import pd
from evenhand.spaces.text.similar import load
from evenhand.spaces.text.tokens import Texts, Vocabulary

if TYPE_CHECKING:
    from evenhand.runs.run import Run

Values = npt.NDArray[np.float64]
MOST = ("changed", "distance")
"""Measures that are better where they are smaller."""
LEAST = ("jaccard", "bleu", "similarity")
"""Measures from 0 to 1 that are better where they are larger."""


@dataclass(frozen=True, eq=False)
class Quality:
    """How far each finding's text is from its seed, by the free edit alone. Returned by ``eh.quality``."""

    frame: pd.DataFrame = field(repr=False)
    """One row for each measured finding, in order; raw findings have the best values."""

    @property
    def edited(self) -> npt.NDArray[np.bool_]:
        """Mask of findings with replaced words; the others are raw, which are unchanged texts of the data."""
        return np.asarray(self.frame["changed"].to_numpy() > 0)

    @property
    def raw(self) -> int:
        """Number of raw findings."""
        return int((~self.edited).sum())

    @property
    def mean(self) -> pd.Series[Any]:
        """The mean of each measure over the edited findings; NaN if there are none."""
        return self.frame[self.edited].mean()

    def within(self, **limits: float) -> npt.NDArray[np.bool_]:
        """Return which findings meet all limits: at most ``changed`` and ``distance``, at least every other measure."""
        return within(self.frame, **limits)

    def __repr__(self) -> str:
        edited = len(self.frame) - self.raw
        means = ", ".join(f"{name} {value:.3g}" for name, value in self.mean.items()) if edited else ""
        return f"Quality: {edited:,} edited findings{means and ': ' + means}; {self.raw:,} raw ones"


def quality(
    run: Run, *, vectors: Any = None, encoder: Any = None, bleu: bool | None = None, at: Any = slice(None)
) -> Quality:
    """Measure how far the texts of a run's findings are from the texts that the search started from.

    They differ by the free edit. The swap of the protected term is what is tested, and is not measured.

    Parameters
    ----------
    run
        A run on texts, from memory or from a directory.
    vectors
        Words with their vectors, as for ``TextSpace``, or a function on words that returns vectors. By default those
        that the run used for similar words, if they are available.
    encoder
        Returns vectors of the meaning of texts: a sentence-transformers model, the folder of a saved one, or a function
        on a list of strings. Without it, ``similarity`` is not measured.
    bleu
        Whether to measure BLEU; by default if sacrebleu is installed.
    at
        Which findings to measure: positions, a mask or a slice; by default all.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.TextSpace.paper("religion", (["house", "home"], [[1, 0], [1, 0.1]]))
    >>> data = ["A Sikh has my house."]
    >>> run = eh.audit(lambda texts: ["Sikh" in text for text in texts], space, eh.TextRandom(), data=data)
    >>> eh.quality(run, bleu=False)
    Quality: 1 edited findings: changed 1, distance 0.1, jaccard 0.667; 1 raw ones
    """
    pairs = getattr(run, "pairs", None)
    if pairs is None:
        raise DataError(f"must be a run as eh.audit returns it, got {type(run).__name__}", parameter="run")
    if not isinstance(pairs, TextFindings):
        raise DataError(
            "quality is measured on texts, but this run is on rows",
            remedy="give a run on an eh.TextSpace",
        )
    records = _records(pairs, at)
    new = Texts.of([record[0] for record in records])
    old, torn = _undone(records, new)
    vectors = _vectors(run) if vectors is None else vectors
    table = compared(old, new, vectors=vectors, encoder=encoder, bleu=bleu)
    table.loc[torn, [name for name in table if name != "changed"]] = np.nan
    table["changed"] = [len(record[3]) for record in records]
    return Quality(table)


def _records(pairs: TextFindings, at: Any) -> list[Record]:
    """Return findings, in the requested order."""
    try:
        wanted = np.arange(pairs.count)[at]
    except (IndexError, TypeError, ValueError):
        wanted = None
    if wanted is None or wanted.ndim != 1:
        raise DataError(
            f"must be a slice, a mask or numbers below {pairs.count:,}, the number of findings",
            parameter="at",
            value=at,
        )
    unique, places = np.unique(wanted, return_inverse=True)
    records = pairs.records(unique)
    return [records[place] for place in places.tolist()]


def _undone(records: list[Record], texts: Texts) -> tuple[Texts, npt.NDArray[np.bool_]]:
    """Put back the replaced words; return the texts, and which of them cannot be restored.

    A new word can combine with its neighbour to another word ("www" before ".org"); such texts stay unchanged.
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


def text_quality(
    before: Sequence[str], after: Sequence[str], *, vectors: Any = None, encoder: Any = None, bleu: bool | None = None
) -> pd.DataFrame:
    """Measure how much edits changed texts, one row for each text; ``.mean()`` summarises them.

    Parameters
    ----------
    before, after
        The texts without and with the free edit.
    vectors
        Words with their vectors, as for similar words, or a function on words that returns them, such as a model's
        ``word_vectors``; None: no ``distance``.
    encoder
        Gives texts vectors of their meaning: a model of sentence-transformers, the folder that one was saved to, or a
        function on a list of strings; None: no ``similarity``.
    bleu
        Whether to measure BLEU; None: where sacrebleu is installed.

    Returns
    -------
    pandas.DataFrame
        ``changed``: words changed (L0); ``distance``: Euclidean distance of the words' vectors (L2), NaN where the
        number of words differs; ``jaccard``: words in common; ``bleu``, from 0 to 1; ``similarity``: the cosine.

    Examples
    --------
    >>> table = text_quality(["a good day", "so it is"], ["a fine day", "so it is"], bleu=False)
    >>> table["changed"].tolist(), table["jaccard"].tolist()
    ([1, 0], [0.5, 1.0])
    """
    both = (before, after)
    if any(isinstance(texts, str) or not isinstance(texts, Sized) for texts in both) or len(before) != len(after):
        got = [len(t) if isinstance(t, Sized) else type(t).__name__ for t in both]
        raise DataError(
            f"must be lists of equal length, got {got[0]} and {got[1]}",
            parameter="before and after",
            remedy="give the original and the edited form of each text",
        )
    vocabulary = Vocabulary()
    old, new = Texts.of(before, vocabulary), Texts.of(after, vocabulary)
    return compared(old, new, vectors=vectors, encoder=encoder, bleu=bleu)


def compared(
    old: Texts, new: Texts, *, vectors: Any = None, encoder: Any = None, bleu: bool | None = None
) -> pd.DataFrame:
    """Measure texts that are split into words already, as ``text_quality`` does."""
    columns: dict[str, Any] = {"changed": changed(old, new)}
    if vectors is not None:
        columns["distance"] = distance(old, new, vectors)
    columns["jaccard"] = jaccard(old, new)
    if bleu or (bleu is None and _sacrebleu() is not None):
        columns["bleu"] = bleu_scores(old.strings(), new.strings())
    if encoder is not None:
        columns["similarity"] = similarity(old.strings(), new.strings(), encoder)
    return pd.DataFrame(columns)


def within(table: pd.DataFrame, **limits: float) -> npt.NDArray[np.bool_]:
    """Return which rows keep all limits: ``changed`` and ``distance`` at most, all others at least.

    >>> table = text_quality(["a good day", "so it is"], ["a fine day", "so it is"], bleu=False)
    >>> within(table, changed=1, jaccard=0.8)
    array([False,  True])
    """
    kept = np.ones(len(table), dtype=bool)
    for name, limit in limits.items():
        check_choice("limits", name, (*MOST, *LEAST), DataError)
        if name not in table:
            raise DataError(f"{name} was not measured", remedy="pass text_quality() vectors, encoder or bleu=True")
        check_number(name, limit, DataError)
        values = table[name].to_numpy()
        # A value that could not be measured breaks every limit.
        kept &= values <= limit if name in MOST else values >= limit
    return kept


def changed(old: Texts, new: Texts) -> npt.NDArray[np.int64]:
    """Count the words at which two texts differ; where they have different numbers of words, by the fewest edits."""
    same = old.lengths == new.lengths
    differ = old[same].words != new[same].words
    count = np.zeros(len(old), dtype=np.int64)
    count[same] = np.bincount(old[same].rows, weights=differ, minlength=int(same.sum()))
    for i in np.flatnonzero(~same).tolist():
        count[i] = _edits(*(t.words[t.starts[i] : t.starts[i + 1]].tolist() for t in (old, new)))
    return count


def distance(old: Texts, new: Texts, vectors: Any) -> Values:
    """Measure the distance of two texts as rows of their words' vectors, which only changed words add to.

    A word without a vector has the mean of all, as in the paper.
    """
    same = old.lengths == new.lengths
    a, b = old[same], new[same]
    differ = a.words != b.words
    steps = np.zeros((int(differ.sum()), 1))
    if differ.any():
        words, places = np.unique(np.concatenate([a.words[differ], b.words[differ]]), return_inverse=True)
        known = _lookup(vectors)(old.vocabulary.words[words].tolist())[places]
        steps = known[: len(known) // 2] - known[len(known) // 2 :]
    squares = np.bincount(a.rows[differ], weights=np.einsum("ij,ij->i", steps, steps), minlength=len(a))
    out = np.full(len(old), np.nan)
    out[same] = np.sqrt(squares)
    return out


def jaccard(old: Texts, new: Texts) -> Values:
    """Share of all different words of two texts that both have; 1 if there are none."""
    width = len(old.vocabulary) + 1
    first, second = (np.unique(texts.rows * width + texts.words) for texts in (old, new))
    common = np.bincount(np.intersect1d(first, second, assume_unique=True) // width, minlength=len(old))
    union = np.bincount(np.union1d(first, second) // width, minlength=len(old))
    return np.where(union > 0, common / np.maximum(union, 1), 1.0)


def bleu_scores(before: Sequence[str], after: Sequence[str]) -> Values:
    """Sentence BLEU of edited texts, by sacrebleu, from 0 to 1; of short texts with as many words as they have."""
    sacrebleu = _sacrebleu()
    if sacrebleu is None:
        raise MissingExtra("sacrebleu", "text", "BLEU")
    metric = sacrebleu.BLEU(effective_order=True)
    scores = (
        100.0 if old == new else metric.sentence_score(new, [old]).score for old, new in zip(before, after, strict=True)
    )
    return np.fromiter(scores, dtype=np.float64, count=len(before)) / 100


def similarity(before: Sequence[str], after: Sequence[str], encoder: Any) -> Values:
    """Cosine of the vectors that a sentence encoder gives to two texts."""
    texts = list(dict.fromkeys([*before, *after]))
    if not texts:
        return np.zeros(0)
    vectors = _matrix(_encode(encoder)(texts), len(texts), "encoder", "texts")
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)
    numbers = {text: number for number, text in enumerate(texts)}
    a, b = (units[[numbers[text] for text in part]] for part in (before, after))
    cosines: Values = np.einsum("ij,ij->i", a, b)
    return cosines


def _encode(encoder: Any) -> Callable[[list[str]], Any]:
    if isinstance(encoder, str | Path):
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtra("sentence-transformers", "sentences", "similarity of meaning") from error
        if not Path(encoder).is_dir():
            remedy = "save a sentence encoder to it, or pass the encoder"
            raise DataError(f"{encoder}: there is no such folder", remedy=remedy)
        encoder = SentenceTransformer(str(encoder), local_files_only=True)
    encode = getattr(encoder, "encode", encoder)
    if not callable(encode):
        raise DataError("must be a sentence encoder or a function on texts", parameter="encoder", value=encoder)
    out: Callable[[list[str]], Any] = encode
    return out


def _lookup(vectors: Any) -> Callable[[list[str]], Values]:
    """Return a function from words to their vectors."""
    if callable(vectors) and not hasattr(vectors, "vectors"):
        return lambda words: _matrix(vectors(words), len(words), "vectors", "words")
    known, matrix = load(vectors)
    numbers = {word: number for number, word in enumerate(known)}
    rows = np.vstack([matrix, matrix.mean(axis=0)]).astype(np.float64)
    return lambda words: rows[[numbers.get(word, numbers.get(word.lower(), len(known))) for word in words]]


def _matrix(made: Any, rows: int, name: str, what: str) -> Values:
    """Check that there is one vector of finite numbers for each text or word."""
    made = made.detach().cpu() if hasattr(made, "detach") else made
    try:
        matrix = np.asarray(made, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if not matrix.ndim or len(matrix) != rows:
        got = f"an array of shape {np.shape(made)}" if hasattr(made, "shape") else type(made).__name__
        raise DataError(f"must return one vector for each of {rows:,} {what}", parameter=name, value=got)
    matrix = matrix.reshape(rows, -1)
    wrong = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(wrong):
        raise DataError(
            f"must return finite numbers; {len(wrong):,} of {rows:,} {what} have NaN or infinity", parameter=name
        )
    return matrix


def _edits(old: list[int], new: list[int]) -> int:
    """Count the fewest words to insert, delete or replace."""
    row = list(range(len(new) + 1))
    for i, word in enumerate(old, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(new, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        return None
    return sacrebleu
