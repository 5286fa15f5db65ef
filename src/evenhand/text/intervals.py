"""Bounds of what a net on words can answer for every member of a box, by interval arithmetic. Needs torch.

Word vectors are mapped by the first linear map before the members of a box are bounded together, as *Jia and others,
"Certified robustness to adversarial word substitutions", EMNLP 2019* do. So the first dense layer after pooling has
exact bounds; those behind it, and those of an LSTM or a GRU, contain every answer and are wider than need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenhand.text.substitutions import Boxes


class Interval(NamedTuple):
    """Lower and upper bounds, two tensors of one shape."""

    low: Any
    high: Any

    def linear(self, weight: Any, bias: Any | None) -> Interval:
        """Map by a matrix: the middle as it is, the radius by absolute values."""
        middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        middle, radius = middle @ weight.T, radius @ weight.abs().T
        return Interval(middle - radius, middle + radius).shift(bias)

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

    def logits(self, boxes: Boxes, size: float = 1.0) -> Interval:
        """Bound the outputs of the last linear layer for each box; ``size`` draws boxes in towards the text."""
        values, hull = self._before_head(boxes, size)
        if hull is None:
            return _reduced(self.head(values), self._tensors(boxes)[1], len(boxes))
        return hull.linear(self.head.weight, self.head.bias)

    def margins(self, boxes: Boxes, labels: Any, size: float = 1.0) -> Any:
        """Bound from above, for each box, how much the logit of each class exceeds that of the label.

        The difference of two logits is bounded, not each logit alone. One output counts as the classes 0 and 1.
        """
        import torch

        weight, bias = self._classes()
        values, hull = self._before_head(boxes, size)
        if hull is None:
            outputs, box = values @ weight.T + bias, self._tensors(boxes)[1]
            own = outputs.gather(1, labels[box][:, None])
            return _reduced(outputs - own, box, len(boxes)).high
        apart = weight[None] - weight[labels][:, None]
        middle, radius = (hull.low + hull.high) / 2, (hull.high - hull.low) / 2
        most = torch.einsum("bch,bh->bc", apart, middle) + torch.einsum("bch,bh->bc", apart.abs(), radius)
        return most + bias[None] - bias[labels][:, None]

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
        if len(weight) > 1:
            return weight, bias
        return torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias])

    def _before_head(self, boxes: Boxes, size: float) -> tuple[Any, Interval | None]:
        """Return what the head gets: exact values of all members as long as all is linear, else bounds of boxes."""
        ids, box, member, position, word = self._tensors(boxes)
        values = self._pooled(ids, box, member, position, word, size) if self.pooling else None
        hull = None if self.pooling else self._read(ids, box[member], position, word, size)
        for layer in self.hidden:
            linear = hasattr(layer, "weight")
            if hull is None and linear:
                values = layer(values)
                continue
            hull = _reduced(values, box, len(boxes)) if hull is None else hull
            hull = hull.linear(layer.weight, layer.bias) if linear else hull.apply(layer)
        return values, hull

    def _tensors(self, boxes: Boxes) -> list[Any]:
        import torch

        arrays = (boxes.ids, boxes.box, boxes.member, boxes.position, boxes.word)
        return [torch.from_numpy(array).to(self.head.weight.device) for array in arrays]

    def _pooled(self, ids: Any, box: Any, member: Any, position: Any, word: Any, size: float) -> Any:
        """Pool the vectors of every member: those of its box's text, with the differing words exchanged."""
        table = self.embedding.weight
        real = (ids != self.pad)[:, :, None]
        sums = (table[ids] * real).sum(1)[box]
        change = table[word] - table[ids[box[member], position]]
        sums = sums.index_add(0, member, size * change)
        return sums / real.sum(1).clamp(min=1)[box] if self.pooling == "mean" else sums

    def _read(self, ids: Any, box: Any, position: Any, word: Any, size: float) -> Interval:
        """Run through the recurrent layers; return bounds of the last state."""
        table, real = self.embedding.weight, ids != self.pad
        hull: Interval | None = None
        for layer in self.recurrent:
            for number in range(layer.num_layers):
                get = _weights(layer, number)
                if hull is None:
                    base = table[ids] @ get("weight_ih").T
                    other = table[word] @ get("weight_ih").T
                    inputs = _around(base, other, box * ids.shape[1] + position, size).shift(get("bias_ih"))
                else:
                    inputs = hull.linear(get("weight_ih"), get("bias_ih"))
                hull, last = _stepped(layer, inputs, real, get("weight_hh"), get("bias_hh"))
        return last


def _weights(layer: Any, number: int) -> Any:
    return lambda name: getattr(layer, f"{name}_l{number}", None)


def _reduced(values: Any, box: Any, boxes: int) -> Interval:
    """Bound the members of each box together."""
    where = box[:, None].expand_as(values)
    empty = values.new_zeros(boxes, values.shape[1])
    return Interval(*(empty.scatter_reduce(0, where, values, how, include_self=False) for how in ("amin", "amax")))


def _around(base: Any, other: Any, where: Any, size: float) -> Interval:
    """Widen values (box, position, ...) by others that may stand at some places."""
    flat = base.reshape(-1, base.shape[-1])
    index = where[:, None].expand_as(other)
    ends = (flat.scatter_reduce(0, index, other, how) for how in ("amin", "amax"))
    return Interval(*((flat + size * (end - flat)).reshape(base.shape) for end in ends))


def _stepped(layer: Any, inputs: Interval, real: Any, weight: Any, bias: Any | None) -> tuple[Interval, Interval]:
    """Step through the words; return bounds of all states and of the last. Padding leaves a state as it is."""
    import torch

    start = inputs.low.new_zeros(len(real), weight.shape[1])
    state = cell = Interval(start, start)
    step = _lstm if type(layer).__name__ == "LSTM" else _gru
    states = []
    for t in range(real.shape[1]):
        now = Interval(inputs.low[:, t], inputs.high[:, t])
        new_state, new_cell = step(now, state.linear(weight, bias), state, cell)
        there = real[:, t, None]
        state, cell = new_state.where(there, state), new_cell.where(there, cell)
        states.append(state)
    return Interval(*(torch.stack(side, 1) for side in zip(*states, strict=True))), state


def _lstm(inputs: Interval, mapped: Interval, _: Interval, cell: Interval) -> tuple[Interval, Interval]:
    import torch

    take, keep, new, show = inputs.plus(mapped).chunks(4)
    cell = cell.scaled(keep.apply(torch.sigmoid)).plus(new.apply(torch.tanh).scaled(take.apply(torch.sigmoid)))
    return cell.apply(torch.tanh).scaled(show.apply(torch.sigmoid)), cell


def _gru(inputs: Interval, mapped: Interval, state: Interval, _: Interval) -> tuple[Interval, Interval]:
    import torch

    (in_reset, in_keep, in_new), (reset, keep, new) = inputs.chunks(3), mapped.chunks(3)
    new = in_new.plus(new.scaled(in_reset.plus(reset).apply(torch.sigmoid))).apply(torch.tanh)
    keep = in_keep.plus(keep).apply(torch.sigmoid)

    def mixed(a: Any, b: Any) -> tuple[Any, Any]:
        # Between the old state and the new one: the ends lie at an end of the share that is kept.
        return a + keep.low * (b - a), a + keep.high * (b - a)

    state = Interval(torch.minimum(*mixed(new.low, state.low)), torch.maximum(*mixed(new.high, state.high)))
    return state, state
