"""Bounds of what a net on words can answer for every member of a box, by interval arithmetic. Needs torch.

Word vectors are mapped by the first linear map before the members of a box are bounded together, as *Jia and others,
"Certified robustness to adversarial word substitutions", EMNLP 2019* do. So the first dense layer after pooling has
exact bounds; those behind it, and those of an LSTM or a GRU, contain every answer and are wider than need be.

For a proof, bounds must contain what the net computes, not what it would compute with endless digits. So every step is
widened by the most that rounding can put it off: a sum of n products by n units of the last place of the sum of their
sizes (Higham, "Accuracy and stability of numerical algorithms", chapter 3). In training that is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError, ModelError
from evenhand.spaces.text.lexicon import load_all
from evenhand.spaces.text.swaps import Swaps
from evenhand.spaces.text.tokens import Positions, Texts, ranges

Ids = npt.NDArray[np.int64]
Encode = Callable[[Sequence[str]], Any]
_BLOCK = 1_000_000
"""About how many words of counterparts are encoded at once."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Sets of encoded texts, each as one text and the words in which the others differ from it.

    A box has the counterparts of one text by one term that are encoded in the same length, with the text itself where
    it has that length too. So a term of one word that can become one of two words makes two boxes.
    """

    ids: Ids
    """One member of each box, in full; it is the text itself where that is a member."""
    text: Positions
    """Which text each box belongs to."""
    members: Positions
    """Where the members of each box begin, and the end."""
    edits: Positions
    """Where the words begin in which each member differs, and the end."""
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
    """Find the terms of texts and box all that may stand in their place; a text without a term has no box.

    Parameters
    ----------
    texts
        The texts.
    protected
        Lexicons, as for an audit: a name, several, or a dict of your own.
    encode
        Turns a list of texts into rows of numbers, filled up with ``pad`` at the end.
    together
        Whether all occurrences of an identity are swapped at once, and not one at a time.
    ambiguous
        Where a term that may be none is one: ``"context"``, ``"always"``, ``"never"``.

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
    """Encode texts, and check that there is one row of whole numbers for each, with nothing but padding at its end.

    Rows of different lengths are filled up.

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
            f"encode must return a row of whole numbers for each of {len(strings)} texts, got {ids.dtype} {ids.shape}"
        )
    real = ids != pad
    if (real[:, 1:] & ~real[:, :-1]).any():
        raise DataError(f"encode must fill rows up with {pad} at the end only; got it before other numbers")
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
    """Group members by text, term and length; the first of each group stands for it."""
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


_FEW = 8
"""Operations, or units of the last place, for what is no sum of products: a bias, a quotient, a squashing function."""


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
        """Map by a matrix: the middle as it is, the radius by absolute values; ``off`` is what rounding may do."""
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
        """Apply a function that never falls."""
        return Interval(rising(self.low), rising(self.high))

    def scaled(self, by: Interval) -> Interval:
        """Multiply by factors that are not negative."""
        import torch

        low = torch.minimum(by.low * self.low, by.high * self.low)
        return Interval(low, torch.maximum(by.low * self.high, by.high * self.high))

    def where(self, condition: Any, other: Interval) -> Interval:
        """Take the other bounds where the condition does not hold."""
        import torch

        return Interval(*(torch.where(condition, a, b) for a, b in zip(self, other, strict=True)))

    def chunks(self, count: int) -> list[Interval]:
        """Cut the last axis into equal parts."""
        lows, highs = self.low.chunk(count, -1), self.high.chunk(count, -1)
        return [Interval(low, high) for low, high in zip(lows, highs, strict=True)]


@dataclass(frozen=True, eq=False)
class Chain:
    """A net as its layers: word vectors, pooling or recurrent layers, dense layers, the last one of them linear."""

    embedding: Any
    pooling: str
    """``"mean"`` or ``"sum"``; empty where there are recurrent layers."""
    recurrent: Sequence[Any]
    hidden: Sequence[Any]
    head: Any
    tail: Sequence[Any] = ()
    """What follows the head and changes no decision: a sigmoid or a softmax."""
    pad: int = 0
    shift: float = 0.0
    """What the logit of class 0 counts more: for two classes with a threshold other than one half."""
    rounding: float = 0.0
    """The share by which one operation of the net may be wrong."""

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


_ACTIVATIONS = frozenset({"ReLU", "Sigmoid", "Tanh"})
_RECURRENT = frozenset({"GRU", "LSTM"})
_PASSING = frozenset({"Dropout", "Identity"})
_TAILS = frozenset({"LogSoftmax", "Sigmoid", "Softmax"})
_KNOWN = _ACTIVATIONS | _RECURRENT | _PASSING | _TAILS | {"Embedding", "EmbeddingBag", "Linear"}
_ALLOWED = "Embedding or EmbeddingBag, mean pooling or LSTM or GRU, then Linear, ReLU, Tanh, Sigmoid, Dropout"


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
        raise ModelError(f"{name} must begin with its word vectors, got {kinds[0] if kinds else 'no layer'};\n{_say()}")
    if "Linear" not in kinds:
        raise ModelError(f"{name} has no dense layer that gives its answer, got {', '.join(kinds)};\n{_say()}")
    head = len(kinds) - 1 - kinds[::-1].index("Linear")
    first = next((i for i, kind in enumerate(kinds) if i and kind not in _RECURRENT), head)
    between, tail = kinds[first:head], kinds[head + 1 :]
    misplaced = [k for k in between if k != "Linear" and k not in _ACTIVATIONS] + [k for k in tail if k not in _TAILS]
    if misplaced or (first > 1 and kinds[0] == "EmbeddingBag"):
        raise ModelError(f"{name} has its layers in an order that is not known: {', '.join(kinds)};\n{_say()}")
    pooling = "" if first > 1 else _pooling(layers[0])
    _check(layers[0], layers[1:first], name)
    pad = getattr(layers[0], "padding_idx", None)
    return Chain(layers[0], pooling, layers[1:first], layers[first:head], layers[head], layers[head + 1 :], pad or 0)


def check(chain: Chain, module: Any, ids: Ids) -> None:
    """Raise unless the layers in their order say what the module says."""
    import torch

    device = chain.head.weight.device
    with torch.no_grad(), evaluating(module):
        wanted = module(torch.from_numpy(ids).to(device))
        got = chain.logits(alone(ids)).low
        for layer in chain.tail:
            got = layer(got)
    if not isinstance(wanted, torch.Tensor) or wanted.numel() != got.numel():
        shape = tuple(wanted.shape) if isinstance(wanted, torch.Tensor) else type(wanted).__name__
        raise ModelError(f"{type(module).__name__} must return a row of logits for each text, got {shape}")
    apart = float((wanted.reshape(got.shape) - got).abs().max()) if len(ids) else 0.0
    if not apart <= _allowed(got):
        if _reads_padding(module, ids, chain.pad, device):
            raise ModelError(
                f"{type(module).__name__} reads the padding: its answers depend on how far a text is filled up.\n"
                "Let it take the state of the last word, not states[:, -1], or the mean of the words alone;\n"
                "padding must come last and must not matter."
            )
        raise ModelError(
            f"{type(module).__name__} does more than its layers in their order say (answers differ by {apart:.2g}).\n"
            f"{_say()};\npadding must come last and must not matter"
        )


def _allowed(answers: Any) -> float:
    """Say how far apart two answers may be that are the same but for rounding."""
    return 1e-3 * max(1.0, float(answers.abs().max()) if answers.numel() else 1.0)


def _reads_padding(module: Any, ids: Ids, pad: int, device: Any) -> bool:
    """Tell whether a few texts are answered otherwise without what fills them up."""
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
    """Box encoded texts, each with nothing beside it.

    >>> alone(np.array([[3, 1], [2, 0]])).enumerated().tolist()
    [[3, 1], [2, 0]]
    """
    row, none = np.arange(len(ids) + 1), np.empty(0, dtype=np.int64)
    return Boxes(ids, row[:-1], row, np.zeros_like(row), none, none)


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put every part of a module into evaluation mode for a while."""
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
        raise ModelError(f"{name} has a layer {type(module).__name__}, whose bounds are not known;\n{_say()}")
    for child in children:
        yield from _leaves(child, name)


def _kind(layer: Any) -> str:
    """Name a layer of torch's own; a class that derives from one may do anything."""
    return type(layer).__name__ if type(layer).__module__.startswith("torch.nn") else ""


def _pooling(layer: Any) -> str:
    mode = str(getattr(layer, "mode", "mean"))
    if mode not in ("mean", "sum"):
        raise ModelError(f'EmbeddingBag pools by {mode!r}, whose bounds are not known; allowed: "mean", "sum"')
    return mode


def _check(embedding: Any, recurrent: list[Any], name: str) -> None:
    if embedding.max_norm is not None:
        raise ModelError(f"{name} shortens its word vectors (max_norm), whose bounds are not known; leave max_norm out")
    for layer in recurrent:
        if layer.bidirectional or getattr(layer, "proj_size", 0):
            raise ModelError(
                f"{name} has a {_kind(layer)} with bidirectional={layer.bidirectional}, proj_size={layer.proj_size}; "
                "known are those that read forwards, without a projection"
            )


def _say() -> str:
    return f"known, in this order: {_ALLOWED}"
