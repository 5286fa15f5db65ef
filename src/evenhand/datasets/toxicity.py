"""Comments labelled by people, read from files in the formats in which they are published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.datasets.base import Corpus, Labels
from evenhand.errors import DataError
from evenhand.spaces.text.readers import column_of, read_table, texts_of

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
"""Jigsaw's six labels."""
_TOKENS = {"NEWLINE_TOKEN": "\n", "TAB_TOKEN": "\t"}


def read_comments(path: str | Path, text: str = "text", label: str = "toxic", encoding: str = "utf-8") -> Corpus:
    r"""Read a table with a column of texts and one of labels, 0 or 1.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "comments.csv"
    >>> _ = file.write_text("text,toxic\nThank you.,0\nYou fool.,1\n")
    >>> read_comments(file)
    Corpus(2 texts, 1 toxic)
    """
    path = Path(path)
    table = read_table(path, encoding)
    return Corpus(tuple(texts_of(table, text, path)), _labels(table, label, path, (0, 1)))


def read_jigsaw(path: str | Path, labels: str | Path | None = None, encoding: str = "utf-8") -> Corpus:
    r"""Read comments of Jigsaw's challenge on toxic comments; one with any of the six labels is toxic.

    Parameters
    ----------
    path
        Its ``train.csv``, or its ``test.csv``.
    labels
        Its ``test_labels.csv``, which goes with ``test.csv``; comments that it marks with -1 are left out.
    encoding
        How the characters are written.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = file.write_text(f"id,comment_text,{','.join(KINDS)}\na,Thank you.,0,0,0,0,0,0\nb,Boo.,0,0,0,0,1,0\n")
    >>> read_jigsaw(file)
    Corpus(2 texts, 1 toxic)
    """
    path, source = Path(path), Path(path if labels is None else labels)
    table = read_table(path, encoding)
    named = table if labels is None else read_table(source, encoding)
    if labels is not None:
        named = _lined_up(named, source, column_of(table, "id", path).tolist(), path)
    every = np.stack([_labels(named, kind, source, (-1, 0, 1)) for kind in KINDS], axis=1)
    every = every.reshape(-1, len(KINDS))
    corpus = Corpus(tuple(texts_of(table, "comment_text", path)), every.max(axis=1, initial=0))
    return corpus[np.flatnonzero((every >= 0).all(axis=1))]


def read_wikipedia(
    comments: str | Path, annotations: str | Path, label: str = "toxicity", encoding: str = "utf-8"
) -> Corpus:
    r"""Read comments of Wikipedia's talk pages; one is toxic if more than half of its annotators say so.

    Parameters
    ----------
    comments
        ``toxicity_annotated_comments.tsv``, or that of ``attack`` or ``aggression``.
    annotations
        ``toxicity_annotations.tsv``, which goes with it: several rows for each comment.
    label
        Its column: ``toxicity``, ``attack`` or ``aggression``.
    encoding
        How the characters are written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "comments.tsv").write_text("rev_id\tcomment\n7\tThank you.NEWLINE_TOKENBye\n9\tYou fool.\n")
    >>> _ = (folder / "said.tsv").write_text("rev_id\ttoxicity\n7\t0\n9\t1\n9\t1\n9\t0\n")
    >>> corpus = read_wikipedia(folder / "comments.tsv", folder / "said.tsv")
    >>> corpus.texts, corpus.labels.tolist()
    (('Thank you.\nBye', 'You fool.'), [0, 1])
    """
    path, source = Path(comments), Path(annotations)
    table, said = read_table(path, encoding), read_table(source, encoding)
    texts = texts_of(table, "comment", path)
    for token, meant in _TOKENS.items():
        texts = [text.replace(token, meant) for text in texts]
    votes = _labels(said, label, source, (0, 1))
    names, which = np.unique(_numbers(said, "rev_id", source), return_inverse=True)
    wanted = _numbers(table, "rev_id", path)
    at = np.searchsorted(names, wanted).clip(max=max(len(names) - 1, 0))
    missing = np.flatnonzero(names[at] != wanted) if len(names) else np.arange(len(wanted))
    if len(missing):
        raise DataError(
            f"{source}: {len(missing)} comments of {path} have no annotation, such as rev_id {wanted[missing[0]]:g}",
            remedy="give the annotations that belong to these comments",
        )
    means = np.bincount(which, votes) / np.bincount(which)
    return Corpus(tuple(texts), (means[at] > 0.5).astype(np.int64))


def _labels(table: pd.DataFrame, column: str, path: Path, allowed: tuple[int, ...]) -> Labels:
    numbers = _numbers(table, column, path)
    wrong = np.flatnonzero(~np.isin(numbers, allowed))
    if len(wrong):
        got = table[column].iloc[int(wrong[0])]
        choice = ", ".join(map(str, allowed))
        problem = f"{path}: {column!r} must be one of {choice}, got {got!r:.60} in row {wrong[0]}"
        raise DataError(problem, remedy="correct the row or leave it out")
    labels: Labels = numbers.astype(np.int64)
    return labels


def _numbers(table: pd.DataFrame, column: str, path: Path) -> Any:
    import pandas as pd

    return pd.to_numeric(column_of(table, column, path), errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _lined_up(named: pd.DataFrame, source: Path, ids: list[str], path: Path) -> pd.DataFrame:
    """Return rows in the order of these ids."""
    rows = {name: row for row, name in enumerate(column_of(named, "id", source).tolist())}
    missing = [name for name in ids if name not in rows]
    if missing:
        raise DataError(
            f"{source}: {len(missing)} comments of {path} have no labels, such as id {missing[0]!r:.60}",
            remedy="give the labels that belong to these comments",
        )
    return named.iloc[[rows[name] for name in ids]]
