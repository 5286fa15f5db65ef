"""The demo of texts: a net that has learnt a planted bias, audited and repaired. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand import datasets
from evenhand.budget import Budget
from evenhand.datasets.comments import Comments
from evenhand.errors import MissingExtra
from evenhand.models.wrap import wrap
from evenhand.runs.run import Run, audit
from evenhand.spaces.text.diff import swaps
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import STRATEGIES
from evenhand.text_words import TextPair, telling_texts, text_pairs_at

TESTS = 3_000
TITLE = "Comments: which ones are toxic?"
NOTE = (
    "A small LSTM trained on generated comments, audited by religion. In the comments that it learnt from, most that "
    "mention {planted} are toxic, whatever they say of them: that was planted. A fair net decides by the tone alone. "
    "It says 1 for toxic and 0 for not."
)


@dataclass(frozen=True)
class Blamed:
    """An identity, and how many findings have the toxic side, or the other one, with it."""

    identity: str
    planted: bool
    toxic: int
    other: int


@dataclass(frozen=True)
class Net:
    """A net, and what is known of it."""

    module: Any
    run: Run
    pairs: Sequence[TextPair]
    accuracy: float
    """On comments that it was not trained on."""
    proven: float
    """The share of those with a term of which it is proven that no swap changes the decision."""


@dataclass(frozen=True)
class TextAudited:
    """The demo, done."""

    data: Comments
    before: Net
    after: Net
    """Trained on so that swaps provably change few decisions."""
    blamed: Sequence[Blamed]
    """The identities in the findings, those first that come with a toxic decision most often."""
    planted: float
    """The share of findings in which exactly one of the two identities is a planted one."""


def search_of_texts() -> str:
    """Name the search that the demo uses.

    >>> search_of_texts() in STRATEGIES
    True
    """
    return "text-adf" if "text-adf" in STRATEGIES else "text-random"


def text_demo(
    seed: int = 0,
    tests: int = TESTS,
    texts: int | None = None,
    epochs: int = 5,
    progress: Callable[[Any], None] | None = None,
) -> TextAudited:
    """Train a net on comments with a planted bias, find it, and train it away.

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
    try:
        from evenhand.demo.text_nets import decide, small
        from evenhand.repairs.certified import Certifying, certify, train_certified
    except MissingExtra:
        raise MissingExtra("torch", "text", "the demo of texts") from None

    data = datasets.load("comments")
    train, test = data.train, data.test[:texts]
    net, encode = small(train, seed)
    vectors = net.embedding.weight[2:].detach().numpy()
    space = TextSpace(data.lexicon, similar=(encode.words, vectors))

    def known(module: Any) -> Net:
        model = wrap(module, encode=encode, embedding="embedding")
        budget, read = Budget(tests=tests), list(test.texts)
        run = audit(model, space, search_of_texts(), budget, seed, data=read, progress=progress)
        accuracy = float((decide(module, encode(test.texts)) == test.labels).mean())
        return Net(module, run, shown(run), accuracy, certify(module, read, data.lexicon, encode).share)

    before = known(net)
    how = Certifying(epochs=epochs)
    after = known(train_certified(net, train.texts, train.labels, data.lexicon, encode, how=how, seed=seed))
    return TextAudited(data, before, after, *blame(before.run, space, data.planted))


def shown(run: Run) -> list[TextPair]:
    """Choose three pairs; the last is one that the search had to change words for, where there is one."""
    changed = np.array([len(record[3]) for record in run.pairs.records()]) if run.found else np.zeros(0)  # type: ignore[attr-defined]
    edited = np.flatnonzero(changed)
    if not len(edited):
        return telling_texts(run)
    least = edited[np.argmin(changed[edited])]
    return [*telling_texts(run, 2), *text_pairs_at(run, np.array([least]))]


def blame(run: Run, space: TextSpace, planted: Sequence[str]) -> tuple[list[Blamed], float]:
    """Count which identities the findings hang on, and in how many exactly one of the two is a planted one.

    >>> run = audit(lambda texts: ["Sikh" in text for text in texts], TextSpace("religion"), "text-random",
    ...             data=["A Sikh."])
    >>> blame(run, TextSpace("religion"), ["Sikh"])[0][0]
    Blamed(identity='Sikh', planted=True, toxic=1, other=0)
    """
    found = run.findings
    pairs = swaps(found["text"].tolist(), found["counterpart_text"].tolist(), space.lexicons)
    counts: dict[str, list[int]] = {}
    for pair, decision in zip(pairs, found["decision"].tolist(), strict=True):
        for side, name in enumerate(pair):
            counts.setdefault(name, [0, 0])[bool(decision) == bool(side)] += 1
    told = [Blamed(name, name in planted, *numbers) for name, numbers in counts.items()]
    told.sort(key=lambda blamed: (blamed.other - blamed.toxic, blamed.identity))
    hit = sum((a in planted) != (b in planted) for a, b in pairs)
    return told, hit / len(pairs) if pairs else 0.0
