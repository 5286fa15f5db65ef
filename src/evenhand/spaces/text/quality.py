"""How much a free edit changes a text: words changed, vectors, word sets, BLEU, meaning.

The swap of a protected term is not measured: it is what is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_choice, check_number
from evenhand.errors import DataError, MissingExtra
from evenhand.spaces.text.similar import load
from evenhand.spaces.text.tokens import Texts, Vocabulary

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[np.float64]

MOST = ("changed", "distance")
"""Measures that are better where they are smaller."""
LEAST = ("jaccard", "bleu", "similarity")
"""Measures from 0 to 1 that are better where they are larger."""


def quality(
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
    >>> table = quality(["a good day", "so it is"], ["a fine day", "so it is"], bleu=False)
    >>> table["changed"].tolist(), table["jaccard"].tolist()
    ([1, 0], [0.5, 1.0])
    """
    both = (before, after)
    if any(isinstance(texts, str) or not isinstance(texts, Sized) for texts in both) or len(before) != len(after):
        got = [len(t) if isinstance(t, Sized) else type(t).__name__ for t in both]
        raise DataError(f"before and after must be lists of as many texts, got {got[0]} and {got[1]}", value=got)
    vocabulary = Vocabulary()
    old, new = Texts.of(before, vocabulary), Texts.of(after, vocabulary)
    return compared(old, new, vectors=vectors, encoder=encoder, bleu=bleu)


def compared(
    old: Texts, new: Texts, *, vectors: Any = None, encoder: Any = None, bleu: bool | None = None
) -> pd.DataFrame:
    """Measure texts that are split into words already, as ``quality`` does."""
    import pandas as pd

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

    >>> table = quality(["a good day", "so it is"], ["a fine day", "so it is"], bleu=False)
    >>> within(table, changed=1, jaccard=0.8)
    array([False,  True])
    """
    kept = np.ones(len(table), dtype=bool)
    for name, limit in limits.items():
        check_choice("limits", name, (*MOST, *LEAST), DataError)
        if name not in table:
            raise DataError(f"{name} was not measured", remedy="pass quality() vectors, encoder or bleu=True")
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
    """Share of all different words of two texts that both have; 1 where there are none."""
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
