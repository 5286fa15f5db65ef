"""Bounds of what a net on words can answer for every member of a box, by interval arithmetic. Needs torch.

Word vectors are mapped by the first linear map before the members of a box are bounded together, as *Jia and others,
"Certified robustness to adversarial word substitutions", EMNLP 2019* do. So the first dense layer after pooling has
exact bounds; those behind it, and those of an LSTM or a GRU, contain every answer and are wider than need be.

For a proof, bounds must contain what the net computes, not what it would compute with endless digits. So every step is
widened by the most that rounding can put it off: a sum of n products by n units of the last place of the sum of their
sizes (Higham, "Accuracy and stability of numerical algorithms", chapter 3). In training that is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenhand.text.substitutions import Boxes

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
