"""Reading a torch module on words as a chain of layers whose bounds are known. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.text.intervals import Chain
from evenhand.text.substitutions import Boxes, Ids

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
