"""Certified training, which bounds all swaps of a protected term at once and needs no findings. Needs torch.

Bounds of what a net can answer for every member of a box come from interval arithmetic. Word vectors are mapped by the
first linear map before the members of a box are bounded together, as *Jia and others, "Certified robustness to
adversarial word substitutions", EMNLP 2019* do. So the first dense layer after pooling has exact bounds; those behind
it, and those of an LSTM or a GRU, contain every answer and are wider than need be.

For a proof, bounds must contain what the net computes, not what it would compute with endless digits. So every step is
widened by the most that rounding can put it off: a sum of n products by n units of the last place of the sum of their
sizes (Higham, "Accuracy and stability of numerical algorithms", chapter 3). In training that is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._validate import check_int, check_number
from evenhand.errors import DataError, ModelError
from evenhand.models.wrap import wrap
from evenhand.repairs.context import Candidate, RepairContext, seed_of
from evenhand.repairs.data import bind_texts
from evenhand.spaces.text.lexicon import load_all
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.tokens import Positions, Texts, ranges

Ids = npt.NDArray[np.int64]
Encode = Callable[[Sequence[str]], Any]
_BLOCK = 1_000_000
"""Approximate number of words of counterparts that are encoded at once."""
_FEW = 8
"""Operations, or units of the last place, for anything but a sum of products: a bias, a quotient, a squashing
function."""
_ACTIVATIONS = frozenset({"ReLU", "Sigmoid", "Tanh"})
_RECURRENT = frozenset({"GRU", "LSTM"})
_PASSING = frozenset({"Dropout", "Identity"})
_TAILS = frozenset({"LogSoftmax", "Sigmoid", "Softmax"})
_KNOWN = _ACTIVATIONS | _RECURRENT | _PASSING | _TAILS | {"Embedding", "EmbeddingBag", "Linear"}
_ALLOWED = "Embedding or EmbeddingBag, mean pooling or LSTM or GRU, then Linear, ReLU, Tanh, Sigmoid, Dropout"
TIES = 64
"""Units of the last place by which a bound must stay below the decision: a sigmoid may round two logits to one."""
_CHECKED = 64
_SORTED = 20
"""Batches among which texts are sorted by length."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Sets of encoded texts, each given by one text and the words in which the others differ from it.

    A box has the counterparts of one text by one term with the same encoded length, including the text itself if it has
    that length. So a term of one word that can become a term of two words makes two boxes.
    """

    ids: Ids
    """One member of each box, in full; the text itself if it is a member."""
    text: Positions
    """Which text each box belongs to."""
    members: Positions
    """The start of the members of each box, and the end."""
    edits: Positions
    """The start of the words in which each member differs, and the end."""
    position: Positions
    word: Ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Boxes:
        """Return some of the boxes, by mask, numbers or slice."""
        rows = np.arange(len(self))[which]
        counts = np.diff(self.members)[rows]
        chosen = ranges(self.members[rows], counts)
        words = np.diff(self.edits)[chosen]
        flat = ranges(self.edits[chosen], words)
        return Boxes(
            self.ids[rows], self.text[rows], _starts(counts), _starts(words), self.position[flat], self.word[flat]
        )

    @property
    def box(self) -> Positions:
        """Which box each member is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.members))

    @property
    def member(self) -> Positions:
        """Which member each edit is of."""
        return np.repeat(np.arange(len(self.edits) - 1), np.diff(self.edits))

    def enumerated(self) -> Ids:
        """Write every member of every box out in full."""
        out = self.ids[self.box]
        out[self.member, self.position] = self.word
        return out


def substitutions(
    texts: Sequence[str], protected: Any, encode: Encode, *, together: bool = False, ambiguous: str = "context",
    pad: int = 0,
) -> Boxes:  # fmt: skip
    """Find the terms of texts, and make boxes of all replacements; a text without a term has no box.

    Parameters
    ----------
    texts
        The texts.
    protected
        Lexicons, as for an audit: a name, several, or a dict of your own.
    encode
        Turns a list of texts into rows of numbers, filled up with ``pad`` at the end.
    together
        Whether all occurrences of an identity are swapped together, instead of one at a time.
    ambiguous
        When ambiguous words count as terms: ``"context"``, ``"always"``, ``"never"``.

    Examples
    --------
    >>> numbers = {"a": 1, "red": 2, "blue": 3, "dark": 4}
    >>> def encode(texts):
    ...     rows = [[numbers[word] for word in text.split()] for text in texts]
    ...     width = max(map(len, rows))
    ...     return [row + [0] * (width - len(row)) for row in rows]
    >>> boxes = substitutions(["a red", "a"], {"colour": ["red", "blue", "dark blue"]}, encode)
    >>> boxes.text.tolist(), boxes.enumerated().tolist()
    ([0, 0], [[1, 2, 0], [1, 3, 0], [1, 4, 3]])
    """
    every = Texts.of(texts)
    swaps = Swaps(load_all(protected), every.vocabulary, ambiguous)
    found = swaps.find(every)
    blocks = []
    ends = np.cumsum(every.lengths[found.text] * len(swaps.identities)) // _BLOCK
    # Occurrences that are swapped together stay together.
    block = ends[np.searchsorted(found.text, found.text)] if together else ends
    for number in np.unique(block):
        made = swaps.counterparts(every, found[block == number], together=together)
        units, first = np.unique(np.stack([made.source, made.unit], axis=1), axis=0, return_index=True)
        source = np.concatenate([units[:, 0], made.source])
        unit = np.concatenate([units[:, 1], made.unit])
        if len(source):
            strings = [texts[row] for row in made.source[first].tolist()] + made.texts.strings()
            blocks.append(_boxed(encoded(encode, strings, pad), source, unit, pad))
    return _joined(blocks, pad)


def encoded(encode: Encode, strings: Sequence[str], pad: int = 0) -> Ids:
    """Encode texts, and check that each has one row of whole numbers, with padding only at the end.

    Rows of different lengths are padded.

    >>> encoded(lambda texts: [list(map(len, text.split())) for text in texts], ["to be", "or"]).tolist()
    [[2, 2], [2, 0]]
    """
    made = encode(strings)
    try:
        ids = np.asarray(made.cpu() if hasattr(made, "cpu") else made)
    except (TypeError, ValueError):  # rows of different lengths, or no rows at all
        ids = _filled_up(made, pad)
    if ids.ndim != 2 or len(ids) != len(strings) or ids.dtype.kind not in "iu":
        raise DataError(
            f"must return a row of integers for each of {len(strings)} texts, got {ids.dtype} {ids.shape}",
            parameter="encode",
        )
    real = ids != pad
    if (real[:, 1:] & ~real[:, :-1]).any():
        raise DataError(f"must pad rows with {pad} at the end only, got it before other numbers", parameter="encode")
    return ids.astype(np.int64)


def _filled_up(rows: Any, pad: int) -> npt.NDArray[Any]:
    try:
        parts = [np.asarray(row.cpu() if hasattr(row, "cpu") else row) for row in rows]
    except (TypeError, ValueError):
        return np.empty(0)
    if any(part.ndim != 1 or (part.size and part.dtype.kind not in "iu") for part in parts):
        return np.empty(0)
    ids = np.full((len(parts), max(map(len, parts), default=0)), pad, dtype=np.int64)
    for row, part in enumerate(parts):
        ids[row, : len(part)] = part
    return ids


def _boxed(ids: Ids, source: Positions, unit: Positions, pad: int) -> Boxes:
    """Group members by text, term and length; the first of each group represents it."""
    keys = np.stack([source, unit, (ids != pad).sum(axis=1)], axis=1)
    _, first, box, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(box.ravel(), kind="stable")
    member, position = np.nonzero(ids[order] != ids[first[box.ravel()[order]]])
    words = np.bincount(member, minlength=len(order))
    return Boxes(ids[first], source[first], _starts(counts), _starts(words), position, ids[order][member, position])


def _joined(blocks: Sequence[Boxes], pad: int) -> Boxes:
    width = max((block.ids.shape[1] for block in blocks), default=1)
    none = np.empty(0, dtype=np.int64)

    def joined(parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate([none, *parts])

    wide = [np.pad(b.ids, ((0, 0), (0, width - b.ids.shape[1])), constant_values=pad) for b in blocks]
    return Boxes(
        np.concatenate([np.empty((0, width), dtype=np.int64), *wide]),
        joined(block.text for block in blocks),
        _starts(joined(np.diff(block.members) for block in blocks)),
        _starts(joined(np.diff(block.edits) for block in blocks)),
        joined(block.position for block in blocks),
        joined(block.word for block in blocks),
    )


def _starts(counts: npt.NDArray[Any]) -> Positions:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class Interval(NamedTuple):
    """Lower and upper bounds, two tensors of one shape."""

    low: Any
    high: Any

    @property
    def size(self) -> Any:
        """The largest absolute value."""
        import torch

        return torch.maximum(self.low.abs(), self.high.abs())

    def linear(self, weight: Any, bias: Any | None, off: float = 0.0) -> Interval:
        """Multiply by a matrix: the radius by its absolute values; ``off`` is the possible rounding error."""
        middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        middle, radius = middle @ weight.T, radius @ weight.abs().T
        out = Interval(middle - radius, middle + radius).shift(bias)
        return out.widened(off * _sizes(self.size, weight, bias)) if off else out

    def widened(self, by: Any) -> Interval:
        """Move the ends apart."""
        if isinstance(by, float) and not by:
            return self
        return Interval(self.low - by, self.high + by)

    def shift(self, bias: Any | None) -> Interval:
        """Add a constant."""
        return self if bias is None else Interval(self.low + bias, self.high + bias)

    def plus(self, other: Interval) -> Interval:
        """Add."""
        return Interval(self.low + other.low, self.high + other.high)

    def apply(self, rising: Any) -> Interval:
        """Apply a non-decreasing function."""
        return Interval(rising(self.low), rising(self.high))

    def scaled(self, by: Interval) -> Interval:
        """Multiply by non-negative factors."""
        import torch

        low = torch.minimum(by.low * self.low, by.high * self.low)
        return Interval(low, torch.maximum(by.low * self.high, by.high * self.high))

    def where(self, condition: Any, other: Interval) -> Interval:
        """Use the other bounds where the condition does not hold."""
        import torch

        return Interval(*(torch.where(condition, a, b) for a, b in zip(self, other, strict=True)))

    def chunks(self, count: int) -> list[Interval]:
        """Cut the last axis into equal parts."""
        lows, highs = self.low.chunk(count, -1), self.high.chunk(count, -1)
        return [Interval(low, high) for low, high in zip(lows, highs, strict=True)]


@dataclass(frozen=True, eq=False)
class Chain:
    """The layers of a network: word vectors, pooling or recurrent layers, and dense layers, the last of them linear."""

    embedding: Any
    pooling: str
    """``"mean"`` or ``"sum"``; empty if there are recurrent layers."""
    recurrent: Sequence[Any]
    hidden: Sequence[Any]
    head: Any
    tail: Sequence[Any] = ()
    """A layer after the head that changes no decision: a sigmoid or a softmax."""
    pad: int = 0
    shift: float = 0.0
    """A shift of the logit of class 0, for two classes with a threshold other than one half."""
    rounding: float = 0.0
    """The relative error of one operation of the network."""

    def logits(self, boxes: Boxes, size: float = 1.0) -> Interval:
        """Bound the outputs of the last linear layer for each box; ``size`` draws boxes in towards the text."""
        members, hull = self._before_head(boxes, size)
        if hull is None:
            return _reduced(self._dense(members, self.head), self._tensors(boxes)[1], len(boxes))
        return hull.linear(self.head.weight, self.head.bias, self._off(self.head.weight))

    def margins(self, boxes: Boxes, labels: Any, size: float = 1.0) -> Any:
        """Bound from above, for each box, how much the logit of each class exceeds that of the label.

        The difference of two logits is bounded, not each logit alone. One output counts as the classes 0 and 1.
        """
        import torch

        weight, bias = self._classes()
        members, hull = self._before_head(boxes, size)
        off = self._off(weight)
        if hull is None:
            box = self._tensors(boxes)[1]
            outputs, wrong = members.values @ weight.T + bias, 0.0
            if off:
                wrong = members.off @ weight.abs().T + off * _sizes(members.values.abs() + members.off, weight, bias)
                wrong = wrong + wrong.gather(1, labels[box][:, None])
            own = outputs.gather(1, labels[box][:, None])
            return _reduced(Members(outputs - own, wrong), box, len(boxes)).high
        apart = weight[None] - weight[labels][:, None]
        middle, radius = (hull.low + hull.high) / 2, (hull.high - hull.low) / 2
        most = torch.einsum("bch,bh->bc", apart, middle) + torch.einsum("bch,bh->bc", apart.abs(), radius)
        most = most + bias[None] - bias[labels][:, None]
        if not off:
            return most
        wrong = off * _sizes(hull.size, weight, bias)
        return most + wrong + wrong.gather(1, labels[:, None])

    def both(self, outputs: Any) -> Any:
        """Give a logit for each class; one output alone is that of class 1 against 0."""
        import torch

        if self.head.out_features > 1:
            return outputs
        ones = outputs.reshape(-1, 1)
        return torch.cat([torch.zeros_like(ones), ones], 1)

    def _classes(self) -> tuple[Any, Any]:
        """Return the last layer's weights with a row for each class."""
        import torch

        weight = self.head.weight
        bias = weight.new_zeros(len(weight)) if self.head.bias is None else self.head.bias
        if len(weight) == 1:
            weight, bias = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias])
        return weight, bias + self.shift * (torch.arange(len(bias), device=bias.device) == 0) if self.shift else bias

    def _before_head(self, boxes: Boxes, size: float) -> tuple[Any, Interval | None]:
        """Return what the head gets: exact values of all members as long as all is linear, else bounds of boxes."""
        ids, box, member, position, word = self._tensors(boxes)
        members: Any = self._pooled(ids, box, member, position, word, size) if self.pooling else None
        hull = None if self.pooling else self._read(ids, box[member], position, word, size)
        for layer in self.hidden:
            linear = hasattr(layer, "weight")
            if hull is None and linear:
                members = self._dense(members, layer)
                continue
            hull = _reduced(members, box, len(boxes)) if hull is None else hull
            if linear:
                hull = hull.linear(layer.weight, layer.bias, self._off(layer.weight))
            else:
                # Squashing functions are good to a few units of the last place, and at most 1.
                hull = hull.apply(layer).widened(_FEW * self.rounding)
        return members, hull

    def _dense(self, members: Members, layer: Any) -> Members:
        """Map every member by a dense layer."""
        values, off = layer(members.values), self._off(layer.weight)
        if not off:
            return Members(values, 0.0)
        wrong = off * _sizes(members.values.abs() + members.off, layer.weight, layer.bias)
        return Members(values, members.off @ layer.weight.abs().T + wrong)

    def _off(self, *weights: Any) -> float:
        """Say which share a sum of as many products as the matrices have columns may be wrong by."""
        return self.rounding * (_FEW + sum(int(weight.shape[1]) for weight in weights))

    def _tensors(self, boxes: Boxes) -> list[Any]:
        import torch

        arrays = (boxes.ids, boxes.box, boxes.member, boxes.position, boxes.word)
        return [torch.from_numpy(array).to(self.head.weight.device) for array in arrays]

    def _pooled(self, ids: Any, box: Any, member: Any, position: Any, word: Any, size: float) -> Members:
        """Pool the vectors of every member: those of its box's text, with the differing words exchanged."""
        table, real = self.embedding.weight, (ids != self.pad)[:, :, None]
        old = ids[box[member], position]
        count = real.sum(1).clamp(min=1)[box] if self.pooling == "mean" else 1
        sums = (table[ids] * real).sum(1)[box].index_add(0, member, size * (table[word] - table[old]))
        if not self.rounding:
            return Members(sums / count, 0.0)
        sizes = (table[ids] * real).abs().sum(1)[box].index_add(0, member, table[word].abs() + table[old].abs())
        return Members(sums / count, self.rounding * (_FEW + ids.shape[1]) * sizes / count)

    def _read(self, ids: Any, box: Any, position: Any, word: Any, size: float) -> Interval:
        """Run through the recurrent layers; return bounds of the last state."""
        table, real = self.embedding.weight, ids != self.pad
        hull: Interval | None = None
        for layer in self.recurrent:
            for number in range(layer.num_layers):
                get = _weights(layer, number)
                weight, bias = get("weight_ih"), get("bias_ih")
                off = self._off(weight, get("weight_hh"))
                if hull is None:
                    where = box * ids.shape[1] + position
                    inputs = _around(table[ids] @ weight.T, table[word] @ weight.T, where, size).shift(bias)
                    if off:
                        base, other = (_sizes(table[rows].abs(), weight, bias) for rows in (ids, word))
                        inputs = inputs.widened(off * _around(base, other, where, 1.0).high)
                else:
                    inputs = hull.linear(weight, bias, off)
                hull, last = _stepped(layer, inputs, real, get("weight_hh"), get("bias_hh"), off, self.rounding)
        return last


def _weights(layer: Any, number: int) -> Any:
    return lambda name: getattr(layer, f"{name}_l{number}", None)


class Members(NamedTuple):
    """What the members of boxes have, exactly, and by how much rounding may have put a net off it."""

    values: Any
    off: Any


def _sizes(size: Any, weight: Any, bias: Any | None) -> Any:
    """Sum the absolute values of what a matrix makes of values of some size."""
    sums = size @ weight.abs().T
    return sums if bias is None else sums + bias.abs()


def _reduced(members: Members, box: Any, boxes: int) -> Interval:
    """Bound the members of each box together."""
    where = box[:, None].expand_as(members.values)
    empty = members.values.new_zeros(boxes, members.values.shape[1])
    ends = ((members.values - members.off, "amin"), (members.values + members.off, "amax"))
    return Interval(*(empty.scatter_reduce(0, where, end, how, include_self=False) for end, how in ends))


def _around(base: Any, other: Any, where: Any, size: float) -> Interval:
    """Widen values (box, position, ...) by others that may stand at some places."""
    flat = base.reshape(-1, base.shape[-1])
    index = where[:, None].expand_as(other)
    ends = (flat.scatter_reduce(0, index, other, how) for how in ("amin", "amax"))
    return Interval(*((flat + size * (end - flat)).reshape(base.shape) for end in ends))


def _stepped(
    layer: Any, inputs: Interval, real: Any, weight: Any, bias: Any | None, off: float, rounding: float
) -> tuple[Interval, Interval]:
    """Step through the words; return bounds of all states and of the last. Padding leaves a state as it is."""
    import torch

    start = inputs.low.new_zeros(len(real), weight.shape[1])
    state = cell = Interval(start, start)
    step = _lstm if type(layer).__name__ == "LSTM" else _gru
    states = []
    for t in range(real.shape[1]):
        now = Interval(inputs.low[:, t], inputs.high[:, t])
        new_state, new_cell = step(now, state.linear(weight, bias, off), state, cell, _FEW * rounding)
        there = real[:, t, None]
        state, cell = new_state.where(there, state), new_cell.where(there, cell)
        states.append(state)
    return Interval(*(torch.stack(side, 1) for side in zip(*states, strict=True))), state


def _lstm(inputs: Interval, mapped: Interval, _: Interval, cell: Interval, off: float) -> tuple[Interval, Interval]:
    import torch

    take, keep, new, show = inputs.plus(mapped).chunks(4)
    wrong = off * (1 + cell.size) if off else 0.0
    cell = cell.scaled(keep.apply(torch.sigmoid)).plus(new.apply(torch.tanh).scaled(take.apply(torch.sigmoid)))
    cell = cell.widened(wrong)
    return cell.apply(torch.tanh).scaled(show.apply(torch.sigmoid)).widened(off), cell


def _gru(inputs: Interval, mapped: Interval, state: Interval, _: Interval, off: float) -> tuple[Interval, Interval]:
    import torch

    (in_reset, in_keep, in_new), (reset, keep, new) = inputs.chunks(3), mapped.chunks(3)
    wrong = off * (in_new.size + new.size) if off else 0.0
    new = in_new.plus(new.scaled(in_reset.plus(reset).apply(torch.sigmoid))).widened(wrong).apply(torch.tanh)
    keep = in_keep.plus(keep).apply(torch.sigmoid)

    def mixed(a: Any, b: Any) -> tuple[Any, Any]:
        # Between the old state and the new one: the ends lie at an end of the share that is kept.
        return a + keep.low * (b - a), a + keep.high * (b - a)

    state = Interval(torch.minimum(*mixed(new.low, state.low)), torch.maximum(*mixed(new.high, state.high)))
    return state.widened(2 * off), state.widened(2 * off)


def read(module: Any) -> Chain:
    """Read a module's layers in the order in which it has them; its word vectors must come first, a dense layer last.

    A module of your own is read so too; ``check`` compares what the layers say with what the module says.

    >>> from torch import nn
    >>> chain = read(nn.Sequential(nn.EmbeddingBag(9, 4, padding_idx=0), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> chain.pooling, len(chain.hidden), chain.head.out_features
    ('mean', 2, 2)
    """
    name = type(module).__name__
    layers = [layer for layer in _leaves(module, name) if _kind(layer) not in _PASSING]
    kinds = [_kind(layer) for layer in layers]
    if not kinds or kinds[0] not in ("Embedding", "EmbeddingBag"):
        raise ModelError(
            f"{name} must begin with its word vectors, got {kinds[0] if kinds else 'no layer'}", remedy=_say()
        )
    if "Linear" not in kinds:
        raise ModelError(f"{name} must end with a dense layer, got {', '.join(kinds)}", remedy=_say())
    head = len(kinds) - 1 - kinds[::-1].index("Linear")
    first = next((i for i, kind in enumerate(kinds) if i and kind not in _RECURRENT), head)
    between, tail = kinds[first:head], kinds[head + 1 :]
    misplaced = [k for k in between if k != "Linear" and k not in _ACTIVATIONS] + [k for k in tail if k not in _TAILS]
    if misplaced or (first > 1 and kinds[0] == "EmbeddingBag"):
        raise ModelError(f"{name} has its layers in an unknown order: {', '.join(kinds)}", remedy=_say())
    pooling = "" if first > 1 else _pooling(layers[0])
    _check(layers[0], layers[1:first], name)
    pad = getattr(layers[0], "padding_idx", None)
    return Chain(layers[0], pooling, layers[1:first], layers[first:head], layers[head], layers[head + 1 :], pad or 0)


def check(chain: Chain, module: Any, ids: Ids) -> None:
    """Raise unless the layers, in their order, compute what the module computes."""
    import torch

    device = chain.head.weight.device
    with torch.no_grad(), evaluating(module):
        wanted = module(torch.from_numpy(ids).to(device))
        got = chain.logits(alone(ids)).low
        for layer in chain.tail:
            got = layer(got)
    if not isinstance(wanted, torch.Tensor) or wanted.numel() != got.numel():
        shape = tuple(wanted.shape) if isinstance(wanted, torch.Tensor) else type(wanted).__name__
        raise ModelError(f"{type(module).__name__} returned {shape}", remedy="return a row of logits for each text")
    apart = float((wanted.reshape(got.shape) - got).abs().max()) if len(ids) else 0.0
    if not apart <= _allowed(got):
        if _reads_padding(module, ids, chain.pad, device):
            raise ModelError(
                f"the answers of {type(module).__name__} depend on the length of the padding",
                remedy="use the state of the last word, not states[:, -1], or the mean of the words; "
                "padding must come last",
            )
        raise ModelError(
            f"{type(module).__name__} computes more than its layers in their order (answers differ by {apart:.2g})",
            remedy=f"{_say()};\npadding must come last and must not change answers",
        )


def _allowed(answers: Any) -> float:
    """Return the maximum difference between two answers that rounding alone can cause."""
    return 1e-3 * max(1.0, float(answers.abs().max()) if answers.numel() else 1.0)


def _reads_padding(module: Any, ids: Ids, pad: int, device: Any) -> bool:
    """Return whether a few texts get different answers without padding."""
    import torch

    lengths = (ids != pad).sum(axis=1)
    with torch.no_grad(), evaluating(module):
        for row in np.flatnonzero((lengths > 0) & (lengths < ids.shape[1]))[:8].tolist():
            full = torch.from_numpy(ids[row : row + 1]).to(device)
            answers = [module(part) for part in (full, full[:, : int(lengths[row])])]
            if float((answers[0] - answers[1]).abs().max()) > _allowed(answers[1]):
                return True
    return False


def alone(ids: Ids) -> Boxes:
    """Make boxes of encoded texts without other members.

    >>> alone(np.array([[3, 1], [2, 0]])).enumerated().tolist()
    [[3, 1], [2, 0]]
    """
    row, none = np.arange(len(ids) + 1), np.empty(0, dtype=np.int64)
    return Boxes(ids, row[:-1], row, np.zeros_like(row), none, none)


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put every part of a module into evaluation mode within this context."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _leaves(module: Any, name: str) -> Iterator[Any]:
    kind = _kind(module)
    if kind in _KNOWN:
        yield module
        return
    children = list(module.children())
    if (not children and kind != "Sequential") or any(True for _ in module.parameters(recurse=False)):
        raise ModelError(f"{name} has a layer {type(module).__name__}, whose bounds are not known", remedy=_say())
    for child in children:
        yield from _leaves(child, name)


def _kind(layer: Any) -> str:
    """Return the name of a layer class of torch; a derived class may do anything."""
    return type(layer).__name__ if type(layer).__module__.startswith("torch.nn") else ""


def _pooling(layer: Any) -> str:
    mode = str(getattr(layer, "mode", "mean"))
    if mode not in ("mean", "sum"):
        raise ModelError(f"EmbeddingBag pools by {mode!r}, whose bounds are not known", remedy='use "mean" or "sum"')
    return mode


def _check(embedding: Any, recurrent: list[Any], name: str) -> None:
    if embedding.max_norm is not None:
        raise ModelError(
            f"{name} shortens its word vectors (max_norm), whose bounds are not known", remedy="leave max_norm out"
        )
    for layer in recurrent:
        if layer.bidirectional or getattr(layer, "proj_size", 0):
            raise ModelError(
                f"{name} has a {_kind(layer)} with bidirectional={layer.bidirectional}, "
                f"proj_size={layer.proj_size}, whose bounds are not known",
                remedy="use one that reads forwards, without a projection",
            )


def _say() -> str:
    return f"known, in this order: {_ALLOWED}"


@dataclass(frozen=True, eq=False)
class Certificate:
    """The texts for which it is proven that no swap changes the decision."""

    texts: Positions
    """Positions of the texts that have a protected term."""
    proven: npt.NDArray[np.bool_]
    """Whether the decision about each of them is proven to stay the same."""
    without: int
    """Number of texts without a term or without a counterpart."""

    @property
    def share(self) -> float:
        """The share of the texts with a term that are proven; NaN if no text has one."""
        return float(self.proven.mean()) if len(self.proven) else float("nan")


@dataclass(frozen=True)
class Certifying:
    """How a network is trained: Adam on the loss of texts and, with growing weight, of the worst case in their boxes.

    ``weight`` is the final weight of the worst case; ``ramp`` is the share of the steps during which the boxes grow to
    full size and the worst case to its weight.
    """

    rate: float = 0.003
    batch: int = 64
    epochs: int = 20
    weight: float = 0.8
    ramp: float = 0.6

    def __post_init__(self) -> None:
        for name, most in (("weight", 1), ("ramp", 1), ("rate", None)):
            check_number(name, getattr(self, name), ModelError, 0, most)
        for name in ("batch", "epochs"):
            check_int(name, getattr(self, name), ModelError, 1)

    def at(self, step: int, steps: int) -> float:
        """Return the progress of the schedule.

        >>> [Certifying(ramp=0.5).at(step, 8) for step in (0, 2, 4, 7)]
        [0.0, 0.5, 1.0, 1.0]
        """
        return min(1.0, step / (self.ramp * steps)) if self.ramp else 1.0


def certify(
    module: Any, texts: Sequence[str], protected: Any, encode: Encode, *, together: bool = False,
    ambiguous: str = "context", threshold: float | None = None, batch: int = 256,
) -> Certificate:  # fmt: skip
    """Prove for as many texts as possible that no swap of a protected term changes the network's decision.

    A proof holds for the network as it computes, with the rounding of its precision; bounds are computed in double
    precision. What is not proven may still be true, because bounds of deep or recurrent networks are wider than
    necessary.

    Parameters
    ----------
    module
        A torch module of supported layers.
    texts
        The texts.
    protected
        Lexicons, as for an audit.
    encode
        Turns a list of texts into rows of word numbers, filled up at the end or not at all.
    together
        Whether all occurrences of an identity are swapped together, instead of one at a time.
    ambiguous
        When ambiguous words count as terms: ``"context"``, ``"always"``, ``"never"``.
    threshold
        Decide for class 1 of two where its probability is at least this; None: for the more probable class.
    batch
        Number of boxes that are bounded at once.

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

    check_int("batch", batch, ModelError, 1)
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
    """Return a copy of a network, trained further so that swaps of protected terms provably change few decisions.

    Parameters
    ----------
    module
        A torch module of supported layers that returns logits, trained or not.
    texts, labels
        The training data; labels are the numbers of the classes, from 0.
    protected, encode, together, ambiguous, threshold
        As for ``certify``.
    how
        Learning rate, batches, epochs, and the weight of the worst case.
    seed
        Determines the order of the texts.
    """
    import torch

    how = Certifying() if how is None else how
    y = np.asarray(labels)
    if y.shape != (len(texts),) or not len(texts):
        raise DataError(f"must be one label for each of {len(texts)} texts, got {y.size}", parameter="y")
    module = copy.deepcopy(module)
    chain = read(module)
    if chain.tail:
        raise ModelError(f"{type(module).__name__} must return logits for training", remedy="leave out its last layer")
    y = _numbers(y, max(2, chain.head.out_features))
    chain = replace(chain, shift=_shift(chain, threshold))
    boxes = substitutions(texts, protected, encode, together=together, ambiguous=ambiguous, pad=chain.pad)
    if not len(boxes):
        raise DataError(
            f"no swap is possible in {len(texts):,} texts, so there is nothing to certify",
            remedy="give other texts or lexicons",
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
    """Return the decisions; if rounding changes a decision, nothing is proven, because each text is in a box."""
    import torch

    first = torch.zeros(len(ids), dtype=torch.int64, device=chain.head.weight.device)
    return chain.margins(alone(ids), first).argmax(1)


def _shift(chain: Chain, threshold: float | None) -> float:
    """Return the shift of the logit of class 0 that is equivalent to a threshold on the probability of class 1."""
    if threshold is None:
        return 0.0
    check_number("threshold", threshold, ModelError, above=0, below=1)
    classes, sigmoid = chain.head.out_features, any(type(layer).__name__ == "Sigmoid" for layer in chain.tail)
    if classes > 2 or (classes == 2 and sigmoid):
        kind = "two sigmoids" if classes == 2 else f"{classes} classes"
        raise ModelError(
            f"is only for one output or two classes, and the network has {kind}",
            parameter="threshold",
            remedy="leave threshold out",
        )
    return float(np.log(threshold) - np.log1p(-threshold))


def _numbers(labels: npt.NDArray[Any], classes: int) -> Ids:
    """Check that labels are the numbers of classes."""
    if labels.dtype.kind not in "iub" or labels.min() < 0 or labels.max() >= classes:
        wrong = [one for one in labels.tolist() if not isinstance(one, int) or not 0 <= one < classes]
        raise DataError(
            f"certified training needs class numbers as labels, and {wrong[0]!r:.60} is not one of the network's "
            f"{classes}",
            remedy="number the classes in y from 0",
        )
    return labels.astype(np.int64)


def _check_ids(chain: Chain, *parts: Ids) -> None:
    ids = np.concatenate([part.ravel() for part in parts])
    outside = ids[(ids < 0) | (ids >= chain.embedding.num_embeddings)]
    if len(outside):
        raise DataError(
            f"encode returned the id {outside[0]}, but the network has vectors for 0 to "
            f"{chain.embedding.num_embeddings - 1}",
            remedy="use the network's own vocabulary",
        )


@dataclass(frozen=True, eq=False)
class _Order:
    """Divides texts into batches of similar lengths, separating those with boxes, which take much longer."""

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
    """Draw one box of each text that has any: over the epochs all are used, at the cost of one."""
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
    """Train a text network further so that swaps of protected terms provably change few decisions. Needs torch.

    Jia, Raghunathan, Göksel and Liang, "Certified robustness to adversarial word substitutions", EMNLP 2019, with
    protected terms in the place of synonyms: what the TSE paper on texts compares retraining with. The training
    function returns ``eh.wrap(module, encode=...)``, whose layers must be known to ``evenhand.repairs.certified``.

    >>> Certified().epochs
    20
    """

    does: ClassVar[str] = "which trains until swaps of terms provably change few decisions"

    def apply(self, context: RepairContext) -> Candidate:
        """Train a copy of the original network further."""
        from evenhand.models.text.module import TextModule

        model, rows = context.trainer.wrap(context.original), context.rows
        if not isinstance(model, TextModule):
            raise ModelError(
                f"certified training needs the layers of a network, and {model.name} does not show them",
                remedy="have the training function return eh.wrap(module, encode=encode)",
            )
        space: Any = rows.space
        texts: Any = rows.X
        if not len(bind_texts(space, texts).seeds):
            return Candidate(None, reason="nothing to repair: no training text has a term that can be replaced")
        context.tell("certified training")
        encode: Any = model.encode
        how = Certifying(*(getattr(self, one.name) for one in fields(Certifying)))
        net = train_certified(
            model.source, texts, rows.truth, space.lexicons, encode, how=how,
            together=space.occurrences == "together", ambiguous=space.ambiguous, threshold=model.threshold,
            seed=seed_of(context.seed, "certify") % 2**31,
        )  # fmt: skip
        return Candidate(wrap(net, encode=encode, words=model.given_words, threshold=model.threshold))
