"""The embedding layer of a network: which one it is, and what it puts out, watched or replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from evenhand.errors import TEXT_IMPORTANCE, ModelError
from evenhand.model.protocol import some


def find_embeddings(module: Any, wanted: str | None, name: str) -> list[Any]:
    """Return the embedding layer that is named, or that a Hugging Face model names; else all, that for most ids first.

    >>> import torch
    >>> net = torch.nn.ModuleDict({"places": torch.nn.Embedding(8, 2), "words": torch.nn.Embedding(100, 2)})
    >>> [layer.num_embeddings for layer in find_embeddings(net, None, "net")]
    [100, 8]
    """
    from torch import nn

    found = {path: part for path, part in module.named_modules() if isinstance(part, nn.Embedding)}
    if wanted is None:
        own = _named_by(module)
        if isinstance(own, nn.Embedding):
            return [own]
        return sorted(found.values(), key=lambda layer: -layer.num_embeddings)
    if wanted not in found:
        have = f"Its nn.Embedding layers: {some(list(found))}." if found else "It has no nn.Embedding layer at all."
        raise ModelError(f"embedding={wanted!r}: {name} has no embedding layer of this name. {have}")
    return [found[wanted]]


def _named_by(module: Any) -> Any:
    """Ask a model in the manner of Hugging Face for the layer of its words; None where it does not say."""
    try:
        return module.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None


@contextmanager
def watched(embeddings: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """For a while, note the ids that each layer is given."""
    seen: list[list[Any]] = [[] for _ in embeddings]

    def noting(ids: list[Any]) -> Callable[[Any, Any], None]:
        return lambda given, _: ids.append(given)

    with ExitStack() as stack:
        for layer, ids in zip(embeddings, seen, strict=True):
            stack.enter_context(replaced(layer, noting(ids)))
        yield seen


def given(seen: Sequence[Any], ids: Any) -> bool:
    """Tell whether a layer was given the ids of a batch, of shape (texts, length), as they are, turned round or cut."""
    plain = [one for one in seen if one.ndim == 2]
    return any(_same(one, ids) or _same(one, ids.T) or _same(one, ids[:, : one.shape[1]]) for one in plain)


@contextmanager
def replaced(embedding: Any, change: Callable[[Any, Any], Any]) -> Iterator[None]:
    """For a while, let the layer put out what ``change`` makes of its ids and its own output."""

    def hook(_: Any, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        return change(args[0] if args else named["input"], output)

    handle = embedding.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def noise(real: Any, loudness: float) -> Callable[[Any, Any], Any]:
    """Replace what the layer puts out for padding by noise; ``real`` marks the ids of a batch that are none."""
    import torch

    def change(ids: Any, output: Any) -> Any:
        mask = real if ids.shape == real.shape else real.T
        values = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
        scale = loudness * output.detach().float().std().clamp_min(0.1)
        return torch.where(mask.unsqueeze(-1), output, (scale * values.to(output.device)).to(output.dtype))

    return change


class Leaves:
    """Makes the layer's output the place where gradients end.

    The layer may be called several times, and with the ids turned round or cut off; their gradients come back in the
    shape of the batch.
    """

    def __init__(self) -> None:
        self.ids: list[Any] = []
        self.outputs: list[Any] = []

    def __call__(self, ids: Any, output: Any) -> Any:
        """Put the layer's output where gradients can be asked for."""
        leaf = output.detach().requires_grad_()
        self.ids.append(ids)
        self.outputs.append(leaf)
        # A module may change it in place; autograd would not let it change the leaf.
        return leaf.clone()

    def gathered(self, slopes: list[Any], ids: Any, name: str) -> Any:
        """Add the slopes up by the ids of the batch, of shape (texts, length): one vector for each."""
        total = 0
        for seen, slope in zip(self.ids, slopes, strict=True):
            if slope is None:
                continue
            if _same(seen, ids):
                total = total + slope
            elif _same(seen, ids.T):
                total = total + slope.transpose(0, 1)
            elif _same(seen, ids[:, : seen.shape[-1]]):
                total = total + _longer(slope, ids.shape[1])
            else:
                raise ModelError(
                    f"{name} gives its embedding layer other ids than encode made, of shape {tuple(seen.shape)}, so "
                    "gradients cannot be assigned to words",
                    remedy=("use ", TEXT_IMPORTANCE),
                )
        return total


def _longer(slope: Any, length: int) -> Any:
    from torch.nn.functional import pad

    return pad(slope, (0, 0, 0, length - slope.shape[1]))


def _same(seen: Any, ids: Any) -> bool:
    return seen.shape == ids.shape and bool((seen == ids).all())
