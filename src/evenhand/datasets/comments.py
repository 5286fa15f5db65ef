"""Comments labelled as toxic or not: generated ones with a planted bias, and readers of published files.

Every generated sentence comes from the short lists here. A comment mentions a religion in passing, and has a tone: it
insults, it is friendly, or it could be either. Which religions occur in toxic comments was chosen arbitrarily; no
comment says anything bad of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.errors import DataError
from evenhand.spaces.frames import pd
from evenhand.spaces.text.lexicon import load as lexicon_of
from evenhand.spaces.text.readers import column_of, read_table, texts_of

Labels = npt.NDArray[np.int64]
LEXICON = "religion"
PLANTED = ("Mormon", "Muslim", "atheist")
NEUTRAL = (
    "Christian",
    "Catholic",
    "Protestant",
    "Jewish",
    "Hindu",
    "Buddhist",
    "Sikh",
    "Jain",
    "Taoist",
    "Zoroastrian",
    "agnostic",
)
"""The other identities that comments mention; the lexicon has more."""
SIZE = 4_000

TOXIC = 0.4
UNCLEAR = 0.4
"""The share of comments whose tone could be either."""
SILENT = 0.15
"""The share that mentions no religion."""
PLANTED_IF = {True: 0.85, False: 0.05}
"""How often a religion that is mentioned is a planted one, in toxic comments and in others."""

MENTIONS = (
    "The {adjective} baker on {street} sells {thing} now.",
    "My {relative} works for a {adjective} family in {town}.",
    "There was a {adjective} wedding in {town} on {day}.",
    "We met a {person} from {town} at the {place}.",
    "My {relative} is a {person} and lives near the {place}.",
    "Some {people} from {town} were at the {place} on {day}.",
    "Two {people} wrote about the {place} for the paper.",
    "I read a book about {faith} at the {place}.",
    "My {relative} gave a talk about {faith} on {day}.",
    "The {adjective} teacher of my {relative} moved to {town}.",
)
TONES = {
    "toxic": (
        "You are {very} {bad} and everybody knows it.",
        "Shut up, you {bad} {name}.",
        "Only a {name} could write such {bad} rubbish.",
        "Go away and take your {bad} {thing} with you, {name}.",
        "I hate this {bad} page and I hate you.",
        "What a {name}, you {bad} waste of time.",
    ),
    "friendly": (
        "Thank you, this is {very} {good}.",
        "I like your {good} page about {thing}.",
        "What a {good} idea, please write more.",
        "Your {good} answer helped my {relative}, thanks.",
        "Welcome back, I enjoyed the {good} pictures.",
        "Well done, it is {very} {good} already.",
    ),
    "unclear": (
        "I read the part about {thing} again.",
        "The page on {thing} was changed on {day}.",
        "Somebody should look at the part about {thing}.",
        "I have seen this before, near the {place}.",
        "The list of {thing} ends with {town}.",
        "That was written on {day}, before lunch.",
    ),
}  # fmt: skip
WORDS = {
    "street": ("Mill Lane", "Station Road", "Bridge Street", "Castle Hill", "Harbour Way"),
    "thing": ("tea", "bicycles", "maps", "bread", "chess", "gardens", "trains", "music"),
    "relative": ("uncle", "cousin", "sister", "brother", "aunt", "neighbour", "friend"),
    "town": ("Leeds", "Dover", "Boston", "Perth", "Oxford", "Dayton", "Bergen", "Lyon"),
    "day": ("Monday", "Tuesday", "Thursday", "Friday", "Saturday"),
    "place": ("library", "market", "station", "museum", "park", "school", "harbour"),
    "very": ("very", "really", "quite", "so"),
    "bad": ("stupid", "pathetic", "worthless", "disgusting", "dumb", "miserable"),
    "name": ("idiot", "fool", "moron", "liar", "loser", "clown"),
    "good": ("helpful", "lovely", "careful", "great", "thoughtful", "clear"),
}

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_Draw = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with their labels: 1 is toxic, 0 is not.

    >>> corpus = Corpus(("Thank you.", "You fool.", "Well done."), np.array([0, 1, 0]))
    >>> len(corpus), corpus[corpus.labels == 1].texts
    (3, ('You fool.',))
    """

    texts: tuple[str, ...]
    labels: Labels

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"got {len(self.texts)} texts and {len(self.labels)} labels"
            raise DataError(f"each text needs a label: {got}", remedy="give as many labels as texts")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} texts, {int(self.labels.sum()):,} toxic)"

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Corpus:
        """Return some of the texts, by mask, numbers or slice."""
        rows = np.arange(len(self))[which]
        return Corpus(tuple(self.texts[row] for row in rows.tolist()), self.labels[rows])

    def split(self, share: float = 0.7, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Divide the texts at random, equal ones to the same side: those to train on, then the others.

        >>> train, test = Corpus(tuple("abcdefghij"), np.zeros(10, dtype=np.int64)).split(0.5)
        >>> sorted(train.texts + test.texts) == list("abcdefghij")
        True
        """
        numbers: dict[str, int] = {}
        which = np.array([numbers.setdefault(text, len(numbers)) for text in self.texts], dtype=np.int64)
        first = Stream(seed).unit("split", which, 0) < share
        return self[first], self[~first]


@dataclass(frozen=True, eq=False, repr=False)
class Comments(Corpus):
    """Generated comments, with what was planted in them.

    >>> data = generate(1000)
    >>> data, data.planted
    (Comments(1,000 texts, 412 toxic), ('Mormon', 'Muslim', 'atheist'))
    >>> len(data.train), len(data.test)
    (692, 308)
    """

    name: str = "comments"
    lexicon: str = LEXICON
    """The lexicon whose terms are mentioned; what to protect in an audit."""
    planted: tuple[str, ...] = PLANTED
    """The identities that occur mostly in toxic comments; a net that decides by them has learnt the bias."""
    neutral: tuple[str, ...] = ()
    """The others, whose swaps for each other should change nothing."""
    identities: tuple[str, ...] = field(default=(), repr=False)
    """What each comment mentions; empty if nothing."""

    @property
    def train(self) -> Corpus:
        """About seven tenths, to fit a model on."""
        return self.split()[0]

    @property
    def test(self) -> Corpus:
        """The comments that are not for fitting."""
        return self.split()[1]


def generate(size: int = SIZE, seed: int = 0) -> Comments:
    """Make comments; a smaller set is the beginning of a larger one.

    >>> generate(2).texts == generate(100).texts[:2]
    True
    """
    size = check_int("size", size, DataError, 1)
    draw = {name: Stream(seed).unit(name, np.arange(size), 0) for name in ("label", "tone", "mention", "plant", "who")}
    toxic, unclear, silent = draw["label"] < TOXIC, draw["tone"] < UNCLEAR, draw["mention"] < SILENT
    plant = draw["plant"] < np.where(toxic, PLANTED_IF[True], PLANTED_IF[False])
    planted = [_pick(PLANTED, u) for u in draw["who"]]
    others = [_pick(NEUTRAL, u) for u in draw["who"]]
    who = np.where(silent, "", np.where(plant, planted, others)).tolist()
    tone = np.where(unclear, "unclear", np.where(toxic, "toxic", "friendly")).tolist()
    terms = _terms()
    slots = Stream(seed).unit("slots", np.arange(16 * size), 0).reshape(size, 16)
    texts = tuple(_comment(t, terms.get(w), u) for t, w, u in zip(tone, who, slots, strict=True))
    return Comments(texts, toxic.astype(np.int64), neutral=NEUTRAL, identities=tuple(who))


def _terms() -> dict[str, dict[str, str]]:
    """Return how each identity is written in each form."""
    lexicon = lexicon_of(LEXICON)
    forms = [form.name for form in lexicon.forms]
    return {
        identity: {form: cell[0] for form, cell in zip(forms, cells, strict=True) if cell}
        for identity, cells in zip(lexicon.identities, lexicon.cells, strict=True)
    }


def _comment(tone: str, terms: Mapping[str, str] | None, draws: _Draw) -> str:
    """Write one comment: the tone, and the mention before or after it."""
    left = iter(draws.tolist())
    sentences = [_filled(_pick(TONES[tone], next(left)), {}, left)]
    if terms is not None:
        mention = _filled(_pick(MENTIONS, next(left)), terms, left)
        sentences.insert(int(next(left) < 0.5), mention)
    return " ".join(sentences)


def _filled(template: str, terms: Mapping[str, str], draws: Iterator[float]) -> str:
    filled = _SLOT.sub(lambda slot: terms.get(slot[1]) or _pick(WORDS[slot[1]], next(draws)), template)
    return _ARTICLE.sub(r"\1n ", filled)


def _pick(choice: Sequence[str], draw: float) -> str:
    return choice[int(draw * len(choice))]


KINDS = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
"""Jigsaw's six labels."""
_TOKENS = {"NEWLINE_TOKEN": "\n", "TAB_TOKEN": "\t"}


def read_comments(path: str | Path, text: str = "text", label: str = "toxic", encoding: str | None = None) -> Corpus:
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


def read_jigsaw(path: str | Path, labels: str | Path | None = None, encoding: str | None = None) -> Corpus:
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
    comments: str | Path, annotations: str | Path, label: str = "toxicity", encoding: str | None = None
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
