"""The demo of texts, a small recurrent net with a planted bias that is audited and repaired; and such nets.

Needs torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand import datasets
from evenhand.budget import Budget
from evenhand.datasets.comments import Comments
from evenhand.errors import DataError, MissingExtra
from evenhand.models.wrap import wrap
from evenhand.runs.audit import audit
from evenhand.runs.pair_sentences import REAL, Pair, pairs_at, select_pairs, swaps
from evenhand.runs.run import Run
from evenhand.spaces.text.space import TextSpace
from evenhand.spaces.text.tokens import split

try:
    import torch
    from torch import nn

    from evenhand.repairs.certified import Certifying, certify, train_certified
except ImportError:
    raise MissingExtra("torch", "text", "the demo of texts") from None

if TYPE_CHECKING:
    from evenhand.datasets import Corpus

SEARCH = "text-adf"
TESTS = 3_000
TITLE = "Comments: which ones are toxic?"
NOTE = (
    "A small LSTM trained on generated comments, audited by religion. In the training comments, most that mention "
    "{planted} are toxic, whatever they say about them: that was planted. A fair net decides by the tone alone. "
    "1 means toxic and 0 not."
)


@dataclass(frozen=True)
class Identity:
    """An identity, and how many findings have the toxic side, or the other one, with it."""

    name: str
    planted: bool
    toxic: int
    other: int


@dataclass(frozen=True)
class Net:
    """A net, its audit and its quality."""

    module: Any
    run: Run
    pairs: Sequence[Pair]
    accuracy: float
    """On comments that it was not trained on."""
    proven: float
    """The share of those with a term for which it is proven that no swap changes the decision."""


@dataclass(frozen=True)
class TextAudited:
    """The demo, done."""

    data: Comments
    before: Net
    after: Net
    """Trained on so that swaps provably change few decisions."""
    identities: Sequence[Identity]
    """The identities in the findings, those with a toxic decision most often first."""
    planted: float
    """The share of findings in which exactly one of the two identities is a planted one."""


def text_demo(
    seed: int = 0,
    tests: int = TESTS,
    texts: int | None = None,
    epochs: int = 5,
    progress: Callable[[Any], None] | None = None,
) -> TextAudited:
    """Train a net on comments with a planted bias, find the bias, and repair the net.

    Parameters
    ----------
    seed
        Same seed, same findings.
    tests
        How many tests each of the two audits may make.
    texts
        How many of the comments that are not trained on are used; by default all.
    epochs
        How long the repair trains.
    progress
        Called with a ``Status`` after every model call.
    """
    data = datasets.load("comments")
    train, test = data.train, data.test[:texts]
    net, encode = small(train, seed)
    vectors = net.embedding.weight[2:].detach().numpy()
    space, read = TextSpace(data.lexicon, similar=(encode.words, vectors)), list(test.texts)

    def audited(module: Any) -> Net:
        model = wrap(module, encode=encode, embedding="embedding")
        run = audit(model, space, SEARCH, Budget(tests=tests), seed, data=read, progress=progress)
        accuracy = float((decide(module, encode(test.texts)) == test.labels).mean())
        return Net(module, run, _shown(run), accuracy, certify(module, read, data.lexicon, encode).share)

    before = audited(net)
    how = Certifying(epochs=epochs)
    after = audited(train_certified(net, train.texts, train.labels, data.lexicon, encode, how=how, seed=seed))
    return TextAudited(data, before, after, *count_identities(before.run, space, data.planted))


def _shown(run: Run) -> list[Pair]:
    """Choose three pairs; the last is one that the search had to change words for, if there is one.

    The comments are generated, so nothing of them is left out.
    """
    changed = np.array([len(record[3]) for record in run.pairs.records()]) if run.found else np.zeros(0)  # type: ignore[attr-defined]
    edited = np.flatnonzero(changed)
    if not len(edited):
        return select_pairs(run, show=REAL)
    least = edited[np.argmin(changed[edited])]
    return [*select_pairs(run, 2, show=REAL), *pairs_at(run.pairs, [least])]


def count_identities(run: Run, space: TextSpace, planted: Sequence[str]) -> tuple[list[Identity], float]:
    """Count which identities the findings have, and in what share exactly one of the two is a planted one.

    >>> run = audit(lambda texts: ["Sikh" in text for text in texts], TextSpace("religion"), "text-random",
    ...             data=["A Sikh."])
    >>> count_identities(run, TextSpace("religion"), ["Sikh"])[0][0]
    Identity(name='Sikh', planted=True, toxic=1, other=0)
    """
    found = run.findings
    pairs = swaps(found["text"].tolist(), found["counterpart_text"].tolist(), space.lexicons)
    counts: dict[str, list[int]] = {}
    for pair, decision in zip(pairs, found["decision"].tolist(), strict=True):
        for side, name in enumerate(pair):
            counts.setdefault(name, [0, 0])[bool(decision) == bool(side)] += 1
    identities = [Identity(name, name in planted, *numbers) for name, numbers in counts.items()]
    identities.sort(key=lambda one: (one.other - one.toxic, one.name))
    hit = sum((a in planted) != (b in planted) for a, b in pairs)
    return identities, hit / len(pairs) if pairs else 0.0


PAD, UNKNOWN = 0, 1
"""The numbers of padding, and of unknown words."""
_SORTED = 50
"""Batches among which texts are sorted by length: enough that little is padding, few enough that batches stay mixed."""

Ids = npt.NDArray[np.int64]


class _Numbers(dict[str, int]):
    """The numbers of words by their lower case; remembers each spelling."""

    def __missing__(self, word: str) -> int:
        self[word] = number = self.get(word.lower(), UNKNOWN)
        return number


class Encoder:
    """Turns texts into rows of word numbers, padded with zeros.

    Words are looked up in lower case. A text without a word has one unknown word, because a net needs some input.

    Parameters
    ----------
    words
        The known words, which get the numbers from 2.
    longest
        Words of a text that are read; the rest is cut off. None reads all.

    Examples
    --------
    >>> encode = Encoder(["you", "fool"])
    >>> encode(["You fool!", "Hello", ""]).tolist()
    [[2, 3], [1, 0], [1, 0]]
    """

    def __init__(self, words: Sequence[str], longest: int | None = None) -> None:
        self.words, self.longest = tuple(words), longest
        self._numbers = _Numbers(
            (word, number) for number, word in enumerate(self.words, UNKNOWN + 1) if word == word.lower()
        )

    def __len__(self) -> int:
        return len(self.words) + UNKNOWN + 1

    def __call__(self, texts: Sequence[str]) -> Ids:
        """Encode texts; the longest of them says how wide the matrix is."""
        number = self._numbers.__getitem__
        rows = [list(map(number, split(text)[1::2][: self.longest])) or [UNKNOWN] for text in texts]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        ids = np.full((len(rows), int(lengths.max(initial=1))), PAD)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
        return ids

    @classmethod
    def of(cls, texts: Sequence[str], least: int = 2, longest: int | None = None) -> Encoder:
        """Know the words that occur in some texts at least so often, the most frequent ones first.

        >>> Encoder.of(["You fool", "you"]).words
        ('you',)
        """
        counts = Counter(word.lower() for text in texts for word in split(text)[1::2])
        return cls([word for word, count in counts.most_common() if count >= least], longest)


class TextNet(nn.Module):  # type: ignore[misc]
    """Word vectors, an LSTM or a GRU, and a dense layer on its last state.

    The state is taken at the last word, so padding changes no answer.

    >>> net = TextNet(10, 4, "gru")
    >>> ids = torch.tensor([[2, 3, 0]])
    >>> bool(torch.isclose(net(ids), net(ids[:, :2])).all())
    True
    """

    def __init__(
        self, words: int, width: int, kind: Literal["lstm", "gru"] = "lstm", layers: int = 1, states: int = 16
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=PAD)
        self.recurrent = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, states, layers, batch_first=True)
        self.dense = nn.Linear(states, 2)

    def forward(self, ids: Any) -> Any:
        """Return two logits for each row of word numbers: not toxic, toxic."""
        states, _ = self.recurrent(self.embedding(ids))
        last = (ids != PAD).sum(1).clamp(min=1) - 1
        return self.dense(states[torch.arange(len(ids), device=ids.device), last])


def given(vectors: npt.NDArray[Any], kind: Literal["lstm", "gru"], layers: int, states: int) -> TextNet:
    """Make a net on vectors of words that are not trained; an unknown word has their mean.

    >>> given(np.ones((5, 3)), "lstm", 1, 2).embedding.weight.shape
    torch.Size([7, 3])
    """
    net = TextNet(len(vectors) + UNKNOWN + 1, vectors.shape[1], kind, layers, states)
    words = np.asarray(vectors, dtype=np.float32)
    table = np.concatenate([np.zeros((1, words.shape[1]), np.float32), words.mean(axis=0, keepdims=True), words])
    net.embedding.weight = nn.Parameter(torch.from_numpy(table), requires_grad=False)
    return net


@dataclass(frozen=True)
class Training:
    """How a net is trained: Adam, whose rate falls linearly to zero, on the cross-entropy of shuffled minibatches."""

    rate: float = 0.01
    batch: int = 64
    epochs: int = 8


def train(net: TextNet, ids: Ids, labels: Ids, how: Training, seed: int = 0, device: str = "cpu") -> TextNet:
    """Train a net on encoded texts, in place; the same seed gives the same weights on the same machine."""
    X, y = torch.from_numpy(ids).to(device), torch.from_numpy(labels).to(device)
    lengths = torch.from_numpy((ids != PAD).sum(axis=1))
    net.to(device)
    net.train()
    with repeatable(seed):
        optimiser = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], how.rate)
        for epoch in range(how.epochs):
            optimiser.param_groups[0]["lr"] = how.rate * (1 - epoch / how.epochs)
            for rows in batches(lengths, how.batch):
                optimiser.zero_grad()
                width = int(lengths[rows].max())
                there = rows.to(device)
                nn.functional.cross_entropy(net(X[there, :width]), y[there]).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
    net.eval()
    return net


def batches(lengths: Any, size: int) -> Iterator[Any]:
    """Divide rows at random into batches of about equal lengths."""
    made = []
    for block in torch.randperm(len(lengths)).split(size * _SORTED):
        made += list(block[lengths[block].argsort(stable=True)].split(size))
    for which in torch.randperm(len(made)).tolist():
        yield made[which]


def decide(net: TextNet, ids: Ids, batch: int = 512) -> Ids:
    """Return the labels that a net gives to encoded texts."""
    device = net.dense.weight.device
    lengths = (ids != PAD).sum(axis=1)
    out = np.empty(len(ids), dtype=np.int64)
    with torch.no_grad():
        order = np.argsort(lengths, kind="stable")
        for rows in np.array_split(order, max(1, len(order) // batch)):
            X = torch.from_numpy(ids[rows, : lengths[rows].max(initial=1)]).to(device)
            out[rows] = net(X).argmax(1).cpu().numpy()
    return out


def small(corpus: Corpus, seed: int = 0, how: Training | None = None) -> tuple[TextNet, Encoder]:
    """Train a small LSTM with word vectors of its own, in seconds; also returned is what encodes texts for it.

    >>> from evenhand import datasets
    >>> net, encode = small(datasets.load("comments").train[:200], how=Training(epochs=1))
    >>> net(torch.from_numpy(encode(["Thank you."]))).shape
    torch.Size([1, 2])
    """
    if not len(corpus):
        raise DataError("there are no texts to train a net on", remedy="give at least one")
    encode = Encoder.of(corpus.texts)
    with repeatable(seed):
        net = TextNet(len(encode), 16)
    return train(net, encode(corpus.texts), corpus.labels, how or Training(), seed), encode


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Make what torch does inside depend on the seed alone, and leave torch as it was."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
