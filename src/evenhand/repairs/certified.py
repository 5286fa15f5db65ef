"""Certified training: no findings are needed, all swaps of a protected term are bounded at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._validate import is_int, is_number
from evenhand.errors import DataError, ModelError
from evenhand.models.wrap import wrap
from evenhand.repairs.bounds import Boxes, Chain, Encode, Ids, alone, check, encoded, evaluating, read, substitutions
from evenhand.repairs.context import Candidate, RepairContext, seed_of
from evenhand.repairs.data import ground_of
from evenhand.spaces.text.tokens import Positions

TIES = 64
"""Units of the last place by which a bound must stay below the decision: nearer, a sigmoid may make two logits one."""
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
        for name, most in (("weight", 1), ("ramp", 1), ("rate", np.inf)):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= most:
                wanted = "a number from 0 to 1" if most == 1 else "a finite number of at least 0"
                raise ModelError(f"{name} must be {wanted}, got {value!r}")
        for name in ("batch", "epochs"):
            _check_count(name, getattr(self, name))

    def at(self, step: int, steps: int) -> float:
        """Say how far the schedule is.

        >>> [Certifying(ramp=0.5).at(step, 8) for step in (0, 2, 4, 7)]
        [0.0, 0.5, 1.0, 1.0]
        """
        return min(1.0, step / (self.ramp * steps)) if self.ramp else 1.0


def certify(
    module: Any, texts: Sequence[str], protected: Any, encode: Encode, *, together: bool = False,
    ambiguous: str = "context", threshold: float | None = None, batch: int = 256,
) -> Certificate:  # fmt: skip
    """Prove of as many texts as possible that no swap of a protected term changes the net's decision.

    What is proven holds of the net as it computes, with the rounding of its precision; bounds are computed in double
    precision. What is not proven may still hold: bounds of deep or recurrent nets are wider than what can happen.

    Parameters
    ----------
    module
        A torch module of layers that ``layers.read`` knows.
    texts
        The texts.
    protected
        Lexicons, as for an audit.
    encode
        Turns a list of texts into rows of word numbers, filled up at the end or not at all.
    together
        Whether all occurrences of an identity are swapped at once, and not one at a time.
    ambiguous
        Where a term that may be none is one: ``"context"``, ``"always"``, ``"never"``.
    threshold
        Decide for class 1 of two where its probability is at least this; None: for the likelier class.
    batch
        Boxes that are bounded at once.

    Examples
    --------
    >>> import torch
    >>> from evenhand.demo.text import Encoder, TextNet
    >>> net = TextNet(5, 3)
    >>> _ = torch.nn.init.zeros_(net.recurrent.weight_ih_l0)
    >>> certify(net, ["A Sikh spoke.", "Hm."], "religion", Encoder(["a", "sikh", "jain"])).share
    1.0
    """
    import torch

    _check_count("batch", batch)
    chain = read(module)
    boxes = substitutions(texts, protected, encode, together=together, ambiguous=ambiguous, pad=chain.pad)
    _check_ids(chain, boxes.ids, boxes.word)
    check(chain, module, boxes.ids[:_CHECKED])
    eps = torch.finfo(chain.head.weight.dtype).eps
    exact = replace(read(copy.deepcopy(module).double()), shift=_shift(chain, threshold))
    widened, slack = replace(exact, rounding=2 * eps), TIES * eps * np.cosh(exact.shift / 2) ** 2
    proven = np.ones(len(texts), dtype=bool)
    with torch.no_grad(), evaluating(module):
        for first in range(0, len(boxes), batch):
            some = _trimmed(boxes[first : first + batch], chain.pad)
            own = _decisions(exact, encoded(encode, [texts[row] for row in some.text.tolist()], chain.pad))
            most = widened.margins(some, own)
            most.scatter_(1, own[:, None], -torch.inf)
            np.logical_and.at(proven, some.text, (most.amax(1) < -slack).cpu().numpy())
    named = np.unique(boxes.text)
    return Certificate(named, proven[named], len(texts) - len(named))


def train_certified(
    module: Any, texts: Sequence[str], labels: npt.ArrayLike, protected: Any, encode: Encode, *,
    how: Certifying | None = None, together: bool = False, ambiguous: str = "context",
    threshold: float | None = None, seed: int = 0,
) -> Any:  # fmt: skip
    """Train a copy of a net on so that swaps of protected terms provably change few decisions; return the copy.

    Parameters
    ----------
    module
        A torch module of layers that ``layers.read`` knows, trained or not, that returns logits.
    texts, labels
        What to train on; labels are the numbers of the classes, from 0.
    protected, encode, together, ambiguous, threshold
        As for ``certify``.
    how
        Rate, batches, epochs, and how the worst case is mixed in.
    seed
        What the order of the texts depends on.
    """
    import torch

    how = Certifying() if how is None else how
    y = np.asarray(labels)
    if y.shape != (len(texts),) or not len(texts):
        raise DataError(f"each text needs a label: got {len(texts)} texts and {y.size} labels")
    module = copy.deepcopy(module)
    chain = read(module)
    if chain.tail:
        raise ModelError(f"{type(module).__name__} must return logits to be trained; leave out its last layer")
    y = _numbers(y, max(2, chain.head.out_features))
    chain = replace(chain, shift=_shift(chain, threshold))
    boxes = substitutions(texts, protected, encode, together=together, ambiguous=ambiguous, pad=chain.pad)
    if not len(boxes):
        raise DataError(
            f"no swap is possible in {len(texts):,} texts, so there is nothing to certify; give other texts or lexicons"
        )
    ids = encoded(encode, texts, chain.pad)
    _check_ids(chain, ids, boxes.ids, boxes.word)
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


def _decisions(chain: Chain, ids: Ids) -> Any:
    """Say what is decided; a net that rounds to another decision is not proven, as each text is in a box."""
    import torch

    first = torch.zeros(len(ids), dtype=torch.int64, device=chain.head.weight.device)
    return chain.margins(alone(ids), first).argmax(1)


def _shift(chain: Chain, threshold: float | None) -> float:
    """Say how much more the logit of class 0 counts under a threshold on the probability of class 1."""
    if threshold is None:
        return 0.0
    if not is_number(threshold) or not 0 < threshold < 1:
        raise ModelError(f"threshold must be a number above 0 and below 1, got {threshold!r}")
    classes, sigmoid = chain.head.out_features, any(type(layer).__name__ == "Sigmoid" for layer in chain.tail)
    if classes > 2 or (classes == 2 and sigmoid):
        kind = "two sigmoids" if classes == 2 else f"{classes} classes"
        raise ModelError(f"a threshold is for one output or two classes, and the net has {kind}; leave threshold out")
    return float(np.log(threshold) - np.log1p(-threshold))


def _numbers(labels: npt.NDArray[Any], classes: int) -> Ids:
    """Check that labels are the numbers of classes."""
    if labels.dtype.kind not in "iub" or labels.min() < 0 or labels.max() >= classes:
        wrong = [one for one in labels.tolist() if not isinstance(one, int) or not 0 <= one < classes]
        raise DataError(
            "certified training takes the numbers of classes as labels, from 0; number y so: "
            f"the net has {classes} classes, got {wrong[0]!r:.60}"
        )
    return labels.astype(np.int64)


def _check_ids(chain: Chain, *parts: Ids) -> None:
    ids = np.concatenate([part.ravel() for part in parts])
    outside = ids[(ids < 0) | (ids >= chain.embedding.num_embeddings)]
    if len(outside):
        raise DataError(
            f"encode gave the id {outside[0]}, but the net has vectors for 0 to {chain.embedding.num_embeddings - 1}; "
            "use the vocabulary that it was made for"
        )


def _check_count(name: str, value: Any) -> None:
    if not is_int(value) or value < 1:
        raise ModelError(f"{name} must be a whole number of at least 1, got {value!r}")


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


@dataclass(frozen=True)
class Certified(Certifying):
    """Train a net of texts on so that no swap of a protected term changes its decision, by bounds. Needs torch.

    Jia, Raghunathan, Göksel and Liang, "Certified robustness to adversarial word substitutions", EMNLP 2019, with
    protected terms in the place of synonyms: what the TSE paper on texts compares retraining with. The training
    function returns ``eh.wrap(module, encode=...)``, whose layers must be known to ``evenhand.repairs.bounds``.

    >>> Certified().epochs
    20
    """

    def apply(self, context: RepairContext) -> Candidate:
        """Train a copy of the original net on."""
        from evenhand.models.text.module import TextModule

        model, rows = context.trainer.wrap(context.original), context.rows
        if not isinstance(model, TextModule):
            raise ModelError(
                f"certified training needs the layers of a net, and {model.name} shows none; have the training "
                "function return eh.wrap(module, encode=encode)"
            )
        space: Any = rows.space
        texts: Any = rows.X
        if not len(ground_of(space, texts).seeds):
            return Candidate(None, reason="nothing to repair: no training text has a term that can be swapped")
        context.tell("certified training")
        encode: Any = model.encode
        how = Certifying(*(getattr(self, one.name) for one in fields(Certifying)))
        net = train_certified(
            model.source, texts, rows.truth, space.lexicons, encode, how=how,
            together=space.occurrences == "together", ambiguous=space.ambiguous, threshold=model.threshold,
            seed=seed_of(context.seed, "certify") % 2**31,
        )  # fmt: skip
        return Candidate(wrap(net, encode=encode, words=model.given_words, threshold=model.threshold))
