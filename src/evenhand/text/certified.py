"""Certified training: nets whose decision provably stays when a protected term is swapped. Needs torch.

*Jia and others, "Certified robustness to adversarial word substitutions", EMNLP 2019*, with protected terms in the
place of synonyms. A text's decision is proven where no other class can exceed it for any member of its boxes, by their
bounds. Training mixes the loss at that bound with the usual one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError, ModelError
from evenhand.text.intervals import Chain
from evenhand.text.layers import check, evaluating, read
from evenhand.text.substitutions import Boxes, Encode, Ids, encoded, substitutions
from evenhand.text.texts import Positions

SLACK = 1e-5
"""By how much a bound must stay below the decision: more than arithmetic of single precision can be wrong."""
_CHECKED = 64
_SORTED = 20
"""Batches among which texts are sorted by length."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """For which texts it is proven that no swap changes the decision."""

    texts: Positions
    """The texts that have a protected term, by number."""
    proven: npt.NDArray[np.bool_]
    """Whether the decision on each of them is proven to stay."""
    without: int
    """How many texts have no term, and no counterpart."""

    @property
    def share(self) -> float:
        """The share of the texts with a term that are proven; NaN if no text has one."""
        return float(self.proven.mean()) if len(self.proven) else float("nan")


@dataclass(frozen=True)
class Certifying:
    """How a net is trained: Adam on the loss of texts and, rising with time, of the worst that their boxes allow.

    ``weight`` is what the worst case counts in the end, ``ramp`` the share of the steps in which boxes grow to their
    full size and the worst case to its weight.
    """

    rate: float = 0.003
    batch: int = 64
    epochs: int = 20
    weight: float = 0.8
    ramp: float = 0.6

    def __post_init__(self) -> None:
        for name, low, high in (("weight", 0, 1), ("ramp", 0, 1), ("rate", 0, float("inf"))):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value <= high:
                raise ModelError(f"{name} must be from {low} to {high:g}, got {value!r}")
        if self.batch < 1 or self.epochs < 1:
            raise ModelError(f"batch and epochs must be 1 or more, got {self.batch} and {self.epochs}")

    def at(self, step: int, steps: int) -> float:
        """Say how far the schedule is.

        >>> [Certifying(ramp=0.5).at(step, 8) for step in (0, 2, 4, 7)]
        [0.0, 0.5, 1.0, 1.0]
        """
        return min(1.0, step / (self.ramp * steps)) if self.ramp else 1.0


def certify(
    module: Any, texts: Sequence[str], protected: Any, encode: Encode, *, together: bool = False, batch: int = 256
) -> Certificate:
    """Prove of as many texts as possible that no swap of a protected term changes the net's decision.

    What is not proven may still hold: bounds of deep or recurrent nets are wider than what can happen.

    Parameters
    ----------
    module
        A torch module of layers that ``layers.read`` knows.
    texts
        The texts.
    protected
        Lexicons, as for an audit.
    encode
        Turns a list of texts into rows of word numbers, filled up at the end.
    together
        Whether all occurrences of an identity are swapped at once, and not one at a time.
    batch
        Boxes that are bounded at once.

    Examples
    --------
    >>> import torch
    >>> from evenhand.demo.text_nets import Encoder, TextNet
    >>> net = TextNet(5, 3)
    >>> _ = torch.nn.init.zeros_(net.recurrent.weight_ih_l0)
    >>> certify(net, ["A Sikh spoke.", "Hm."], "religion", Encoder(["a", "sikh", "jain"])).share
    1.0
    """
    import torch

    chain = read(module)
    boxes = substitutions(texts, protected, encode, together=together, pad=chain.pad)
    check(chain, module, boxes.ids[:_CHECKED])
    proven = np.ones(len(texts), dtype=bool)
    with torch.no_grad(), evaluating(module):
        for first in range(0, len(boxes), batch):
            some = _trimmed(boxes[first : first + batch], chain.pad)
            own = _decisions(chain, module, encoded(encode, [texts[row] for row in some.text.tolist()], chain.pad))
            most = chain.margins(some, own)
            most.scatter_(1, own[:, None], -torch.inf)
            np.logical_and.at(proven, some.text, (most.amax(1) < -SLACK).cpu().numpy())
    named = np.unique(boxes.text)
    return Certificate(named, proven[named], len(texts) - len(named))


def train_certified(
    module: Any, texts: Sequence[str], labels: npt.ArrayLike, protected: Any, encode: Encode, *,
    how: Certifying | None = None, together: bool = False, seed: int = 0,
) -> Any:  # fmt: skip
    """Train a copy of a net on so that swaps of protected terms provably change few decisions; return the copy.

    Parameters
    ----------
    module
        A torch module of layers that ``layers.read`` knows, trained or not, that returns logits.
    texts, labels
        What to train on; labels are the numbers of the classes.
    protected, encode, together
        As for ``certify``.
    how
        Rate, batches, epochs, and how the worst case is mixed in.
    seed
        What the order of the texts depends on.
    """
    import torch

    how = Certifying() if how is None else how
    y = np.asarray(labels, dtype=np.int64)
    if len(y) != len(texts) or not len(texts):
        raise DataError(f"each text needs a label: got {len(texts)} texts and {len(y)} labels")
    module = copy.deepcopy(module)
    chain = read(module)
    if chain.tail:
        raise ModelError(f"{type(module).__name__} must return logits to be trained; leave out its last layer")
    boxes = substitutions(texts, protected, encode, together=together, pad=chain.pad)
    ids = encoded(encode, texts, chain.pad)
    check(chain, module, ids[:_CHECKED])
    optimiser = torch.optim.Adam([weight for weight in module.parameters() if weight.requires_grad], how.rate)
    rng, step = np.random.default_rng(seed), 0
    order = _Order((ids != chain.pad).sum(axis=1), np.unique(boxes.text), how.batch)
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(how.epochs):
            batches = order.epoch(rng)
            for rows in batches:
                optimiser.zero_grad()
                some = boxes[_one_each(boxes, rows, rng)]
                progress = how.at(step, how.epochs * len(batches))
                loss(chain, module, ids[rows], y[rows], some, y[some.text], progress, how.weight).backward()
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimiser.step()
                step += 1
    return module.eval()


def loss(
    chain: Chain, module: Any, ids: Ids, labels: Ids, boxes: Boxes, box_labels: Ids, progress: float, weight: float
) -> Any:
    """Mix the cross-entropy of texts with that of the worst logits within boxes."""
    import torch
    from torch.nn.functional import cross_entropy

    device = chain.head.weight.device
    ids = ids[:, : max(1, int((ids != chain.pad).sum(axis=1).max()))]
    outputs = chain.both(module(torch.from_numpy(ids).to(device)))
    usual = cross_entropy(outputs, torch.from_numpy(labels).to(device))
    if not len(boxes) or not weight * progress:
        return usual
    wanted = torch.from_numpy(box_labels).to(device)
    worst = cross_entropy(chain.margins(_trimmed(boxes, chain.pad), wanted, progress), wanted)
    return (1 - weight * progress) * usual + weight * progress * worst


def _decisions(chain: Chain, module: Any, ids: Ids) -> Any:
    import torch

    outputs = module(torch.from_numpy(ids).to(chain.head.weight.device))
    if chain.head.out_features > 1:
        return outputs.argmax(1)
    return (outputs.reshape(-1) > (0.5 if chain.tail else 0.0)).long()


@dataclass(frozen=True, eq=False)
class _Order:
    """Shares texts out into batches: of similar lengths, and apart those with boxes, which take much longer."""

    lengths: Positions
    named: Positions
    batch: int

    def epoch(self, rng: np.random.Generator) -> list[Positions]:
        made: list[Positions] = []
        for rows in (self.named, np.setdiff1d(np.arange(len(self.lengths)), self.named)):
            for some in _cut(rng.permutation(rows), self.batch * _SORTED):
                made += _cut(some[np.argsort(self.lengths[some], kind="stable")], self.batch)
        return [made[which] for which in rng.permutation(len(made))]


def _cut(rows: Positions, size: int) -> list[Positions]:
    return np.split(rows, range(size, len(rows), size)) if len(rows) else []


def _one_each(boxes: Boxes, rows: Positions, rng: np.random.Generator) -> Positions:
    """Draw one box of each text that has any: over the epochs all have their turn, at the cost of one."""
    first = np.searchsorted(boxes.text, rows)
    counts = np.searchsorted(boxes.text, rows, side="right") - first
    drawn: Positions = first + rng.integers(0, np.maximum(counts, 1))
    return drawn[counts > 0]


def _trimmed(boxes: Boxes, pad: int) -> Boxes:
    """Cut off what is padding in every box."""
    width = max(1, int((boxes.ids != pad).sum(axis=1).max(initial=0)))
    return Boxes(boxes.ids[:, :width], boxes.text, boxes.members, boxes.edits, boxes.position, boxes.word)
