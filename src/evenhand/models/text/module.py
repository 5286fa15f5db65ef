"""Torch modules that classify texts: token ids, an embedding layer, and logits or probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from evenhand.errors import FOR_TEXTS, TEXT_IMPORTANCE, TEXT_RANDOM, ModelError
from evenhand.models.base import Array, Codes, Floats, Input, Model, some
from evenhand.models.closed_form import Kind
from evenhand.models.text.encoding import (
    Alignment,
    Batch,
    Encoder,
    Ints,
    Padding,
    Pieces,
    Row,
    Words,
    batches,
    check_words,
    known,
    single_ids,
    sizes,
    words_of,
)
from evenhand.models.torch import LOOKED_AT, Evaluation, TorchModel, as_answer, as_floats, in_numpy, loss_slopes
from evenhand.spaces.text.tokens import Texts, ranges

CELLS = 2**21
"""Numbers that the embedding layer makes for one batch."""
LOUD = 10.0
"""Noise in the place of padding, in standard deviations of the words' vectors."""
FITTING = 0.1
"""The share of an encoder's words that must be the words of their rows."""
ROUNDING = 256
"""Units of the last place by which a batch may change an answer."""


class TextModule(TorchModel):
    """A torch module that takes token ids, which ``encode`` makes from texts.

    A text gets the answer that the module gives to it alone. Texts of different lengths are put into one batch only if
    a test showed that the module ignores padding, because a prediction must not depend on the other texts in the batch.
    Other modules get batches of equal length.

    The kind of output is recognised as for `TorchModel`; if the output has ``logits``, these are used.

    Parameters
    ----------
    module
        Takes ids of shape (texts, length), and anything else that ``encode`` returns.
    encode
        Turns a list of strings into ids of shape (texts, length): a tensor, an array or lists; a tuple of
        these and lengths or a mask; or a mapping of the module's arguments, with the ids as ``input_ids`` or first.
    embedding
        The name of the embedding layer; by default the only ``nn.Embedding``, or the one that receives the ids of
        ``encode``.
    words
        The words of the rows of the embedding, in order, None for rows without a word; or a mapping from words to rows.
        By default those of ``encode``. Words that ``encode`` gives a different id are left out.
    """

    input: Input = "text"
    _on_labels = TEXT_RANDOM

    def __init__(
        self, module: Any, encode: Callable[[list[str]], Any] | Encoder, embedding: str | None = None, words: Any = None
    ) -> None:
        super().__init__(module)
        self._chain = None
        self._encoder = encode if isinstance(encode, Encoder) else Encoder(encode)
        self._pieces = Pieces(self._encoder)
        self._embeddings = find_embeddings(module, embedding, self.name)
        self._embedding = self._embeddings[0] if self._embeddings else None
        self.has_words = self._embedding is not None
        self.gradient_source = "autograd" if self.has_words else None
        self._padding: Padding | None = None
        self._probed = False
        self.given_words = words
        self._given = None if words is None else check_words(words)

    @property
    def encode(self) -> Callable[[list[str]], Any]:
        """The function that makes ids of texts, as it was given."""
        return self._encoder.encode

    @cached_property
    def words(self) -> list[str] | None:  # type: ignore[override]
        """The words that the module knows and ``encode`` gives a single id; None if they are unknown."""
        return list(self._known) or None

    @cached_property
    def _known(self) -> dict[str, int]:
        """The row of each word; verified on first use, because that encodes all words."""
        listed = self._given or self._listed()
        if self._embedding is None or listed is None:
            return {}
        self._settle(listed[0])
        found = known(*listed, self._single_ids(listed[0]))
        found = {word: row for word, row in found.items() if row < self._embedding.num_embeddings}
        if self._given and len(found) < 2:
            raise ModelError(
                f"must be the words of the rows of the embedding: encode gives {len(found)} of {len(listed[0]):,} "
                "words the id of its row",
                parameter="words",
                remedy="give them in order, None for rows without a word",
            )
        # An attribute with one of these names may not be a vocabulary; then few of its words fit.
        return found if self._given or len(found) > FITTING * len(listed[0]) else {}

    def _listed(self) -> Words | None:
        return words_of(self.encode)

    def _single_ids(self, words: list[str]) -> Ints:
        return single_ids(self._encoder, words)

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """Return the rows of the embedding matrix; the mean for a word with several ids, zeros for one with none."""
        if self._embedding is None:
            return super().word_vectors(words)
        self._settle(words)
        if words is self.__dict__.get("words"):
            return as_floats(self._embedding.weight[list(self._known.values())])
        ids, lengths = self._ids_of(words)
        outside = self._outside(ids)
        if outside is not None:
            raise outside
        sums = np.zeros((len(words), self._embedding.embedding_dim))
        np.add.at(sums, np.repeat(np.arange(len(words)), lengths), as_floats(self._embedding.weight[ids]))
        return sums / np.maximum(lengths, 1)[:, np.newaxis]

    def word_gradients(self, texts: Texts, classes: Codes) -> Floats:
        """Differentiate by the output of the embedding layer for each word; for several ids of a word, their sum."""
        if self._embedding is None:
            return super().word_gradients(texts, classes)
        strings = texts.strings()
        kind = self._scored(strings)
        padding = self._look(strings)
        rows = self._encoder.rows(strings, padding)
        alignment = self._align(texts, rows)
        lengths, out = sizes(rows), np.zeros((len(texts.words), self._embedding.embedding_dim))
        begins, places = np.cumsum(lengths) - lengths, np.full(alignment.pieces, -1)
        with Evaluation(self._parts()):
            for batch in batches(rows, padding, self._most):
                slope = self._differentiate(batch, classes[batch.which], kind)
                owner = alignment.ids[ranges(begins[batch.which], lengths[batch.which])]
                real = owner >= 0
                at, column = batch.cells
                pieces, sums = _run_sums(owner[real], slope[at[real], column[real]])
                words = ranges(texts.starts[batch.which], texts.lengths[batch.which])
                places[pieces] = np.arange(len(pieces))
                place = places[alignment.words[words]]
                out[words[place >= 0]] = sums[place[place >= 0]]
        return out

    def gradients(self, X: Any, classes: Codes) -> Floats:
        """Raise, because a text has gradients by words, not by columns."""
        return Model.gradients(self, X, classes)

    def check(self) -> None:
        """Refuse rows of a table, and a threshold that cannot be a probability."""
        Model.check(self)
        if self.input != "text":
            raise self._wrong_input('must be "text": {} has encode')
        self._check_probability()

    @property
    def _most(self) -> int:
        return CELLS // (1 if self._embedding is None else self._embedding.embedding_dim)

    def _answer(self, X: Any) -> Array:
        import torch

        parts: list[Array] = []
        which: list[Ints] = []
        with Evaluation(self._parts()), torch.inference_mode():
            padding = self._look(X)
            for batch in batches(self._encoder.rows(X, padding), padding, self._most):
                parts.append(as_answer(self._output(batch)))
                which.append(batch.which)
        if not parts:
            return np.empty(0)
        answers = np.concatenate(parts)
        answers[np.concatenate(which)] = answers.copy()
        return answers

    def _recognise(self, X: Any) -> Kind:
        return super()._recognise(X) if X else "logits"

    def _rows(self, X: Any) -> Batch:
        return next(batches(self._encoder.rows(X), self._look(X), self._most))

    def _tracked(self, rows: Batch) -> Any:
        return self._with(Leaves(), rows)

    def _differentiate(self, batch: Batch, classes: Codes, kind: Kind) -> Array:
        """Return the slope of each text's loss by the vectors of its ids."""
        import torch

        ids = batch.fields[0]
        if len(ids) > 1 and ids.shape == ids.T.shape and (ids == ids.T).all():
            # It would be undetectable whether the module transposes such ids.
            parts = [(batch.part(half), classes[half]) for half in (slice(1), slice(1, None))]
            return np.concatenate([self._differentiate(half, own, kind) for half, own in parts])
        leaves = Leaves()
        # cuDNN's recurrent layers cannot be differentiated in evaluation mode; the plain ones can.
        with torch.inference_mode(False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            output = self._with(leaves, batch)
            if not leaves.outputs or not output.requires_grad:
                raise self._not_differentiable("embedding layer", FOR_TEXTS)
            seed = loss_slopes(output, classes, kind)
            found = torch.autograd.grad(output, leaves.outputs, seed, allow_unused=True)
        if all(slope is None for slope in found):
            raise self._not_differentiable("embedding layer", FOR_TEXTS)
        total = leaves.gathered(list(found), torch.from_numpy(ids).to(output.device), self.name)
        return in_numpy(total)

    def _with(self, change: Callable[[Any, Any], Any], batch: Batch) -> Any:
        """Call the module, with its embedding layer's output changed."""
        if self._embedding is None:
            return self._output(batch, plain=True)
        with replaced(self._embedding, change):
            return self._output(batch, plain=True)

    def _look(self, texts: Sequence[str]) -> Padding | None:
        """Find out on first use whether and how texts of different lengths may be batched."""
        if self._probed or not texts:
            return self._padding
        self._settle(texts)
        longest = max(texts[:LOOKED_AT], key=len)
        words = longest.split()
        if words:
            few = [words[0], " ".join(words[:3]), longest if len(words) > 3 else " ".join(4 * words)]
            padding = None if self._embedding is None else self._encoder.padding(few)
            self._padding = padding if padding is not None and self._ignores(padding, few) else None
            self._probed = True
        return self._padding

    def _settle(self, texts: Sequence[str]) -> None:
        """Find out which of several embedding layers is that of the words: the one that receives their ids."""
        import torch

        word = next((word for text in texts[:LOOKED_AT] for word in text.split()), None)
        if len(self._embeddings) < 2 or word is None:
            return
        # A repeated word has the same id twice, unlike the token types or positions of a text.
        rows = self._encoder.rows([f"{word} {word}", max(texts[:LOOKED_AT], key=len)])
        left = list(self._embeddings)
        with Evaluation(self._parts()), torch.inference_mode():
            for batch in (one for row in rows for one in batches([row], None, 1)):
                seen: dict[Any, list[Any]] = {layer: [] for layer in left}
                try:
                    with ExitStack() as stack:
                        for layer in left:
                            stack.enter_context(replaced(layer, partial(_note, seen[layer])))
                        output = self._output(batch, plain=True)
                except Exception:  # Any exception is raised again when the module is called.
                    return
                ids = torch.from_numpy(batch.fields[0]).to(output.device)
                left = [layer for layer in left if any(_layout(own, ids) for own in seen[layer])]
        if left:
            self._embeddings, self._embedding = left[:1], left[0]

    def _outside(self, ids: Ints) -> ModelError | None:
        """Return the error for an id that has no vector."""
        rows = None if self._embedding is None else self._embedding.num_embeddings
        wrong = ids[:0] if rows is None else ids[(ids < 0) | (ids >= rows)]
        if not wrong.size:
            return None
        problem = f"encode gave the id {wrong[0]}, but the embedding layer of {self.name} has only {rows} rows"
        return ModelError(problem, remedy="use the vocabulary that the module was trained with")

    def _ignores(self, padding: Padding, texts: list[str]) -> bool:
        """Whether texts get the same answers alone, with padding, and with noise instead of the padding."""
        import torch

        rows = self._encoder.rows(texts)
        (batch,) = batches(rows, padding, int(sizes(rows).max()) * len(rows))
        real = torch.zeros(batch.fields[0].shape, dtype=torch.bool)
        real[batch.cells] = True
        try:
            with Evaluation(self._parts()), torch.inference_mode():
                alone = torch.cat([self._output(one) for row in rows for one in batches([row], None, 1)])[batch.which]
                if not alone.is_floating_point():
                    return False
                padded = self._output(batch), self._with(noise(real.to(alone.device), LOUD), batch)
        except Exception:  # Any exception of the module itself is raised again.
            return False
        eps = torch.finfo(alone.dtype).eps
        return all(torch.allclose(alone, other, rtol=ROUNDING * eps, atol=ROUNDING * eps) for other in padded)

    def _align(self, texts: Texts, rows: Sequence[Row]) -> Alignment:
        return self._pieces.align(texts, rows)

    def _ids_of(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the ids of words, one word after the other, and how many each has."""
        return self._pieces.of(words)

    def _call(self, module: Any, rows: Batch) -> Any:
        import torch

        device = "cpu" if self._weight is None else self._weight.device
        # Lengths stay on the CPU, where packing needs them.
        tensors = [torch.from_numpy(f).to(device) if f.ndim == 2 else torch.from_numpy(f) for f in rows.fields]
        keys = self._encoder.keys
        try:
            output = module(*tensors) if keys is None else module(**dict(zip(keys, tensors, strict=True)))
        except IndexError as error:
            outside = self._outside(rows.fields[0])
            if outside is not None:
                raise outside from error
            raise
        return getattr(output, "logits", output)


def find_embeddings(module: Any, wanted: str | None, name: str) -> list[Any]:
    """Return the wanted embedding layer, or that of a Hugging Face model; otherwise all, largest first."""
    from torch import nn

    found = {path: part for path, part in module.named_modules() if isinstance(part, nn.Embedding)}
    if wanted is not None:
        if wanted not in found:
            problem = f"must be the name of an nn.Embedding layer of {name}"
            remedy = f"choose from {some(list(found))}" if found else "leave it out: it has none"
            raise ModelError(problem, parameter="embedding", value=wanted, remedy=remedy)
        return [found[wanted]]
    try:
        own = module.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        own = None
    return [own] if isinstance(own, nn.Embedding) else sorted(found.values(), key=lambda layer: -layer.num_embeddings)


@contextmanager
def replaced(embedding: Any, change: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Within this context, replace the layer's output by ``change(ids, output)``, unless that is None."""

    def hook(_: Any, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        return change(args[0] if args else named["input"], output)

    handle = embedding.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _note(seen: list[Any], ids: Any, _: Any) -> None:
    seen.append(ids)


def noise(real: Any, loudness: float) -> Callable[[Any, Any], Any]:
    """Replace the layer's output for padding by noise; ``real`` marks the ids of a batch that are not padding."""
    import torch

    def change(ids: Any, output: Any) -> Any:
        mask = real if ids.shape == real.shape else real.T
        values = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
        scale = loudness * output.detach().float().std().clamp_min(0.1)
        return torch.where(mask.unsqueeze(-1), output, (scale * values.to(output.device)).to(output.dtype))

    return change


class Leaves:
    """Makes the layer's output the leaf for gradients.

    The layer may be called several times, with the ids transposed or cut off; their gradients come back in the shape of
    the batch.
    """

    def __init__(self) -> None:
        self.ids: list[Any] = []
        self.outputs: list[Any] = []

    def __call__(self, ids: Any, output: Any) -> Any:
        """Detach the layer's output, so that gradients can be computed for it."""
        leaf = output.detach().requires_grad_()
        self.ids.append(ids)
        self.outputs.append(leaf)
        # A copy, because a module may change it in place, which autograd forbids for a leaf.
        return leaf.clone()

    def gathered(self, slopes: list[Any], ids: Any, name: str) -> Any:
        """Sum the slopes by the ids of the batch, of shape (texts, length): one vector for each."""
        from torch.nn.functional import pad

        total = 0
        for seen, slope in zip(self.ids, slopes, strict=True):
            if slope is None:
                continue
            layout = _layout(seen, ids)
            if layout is None:
                raise ModelError(
                    f"{name} gives its embedding layer other ids than encode made, of shape {tuple(seen.shape)}, so "
                    "gradients cannot be assigned to words",
                    remedy=("use ", TEXT_IMPORTANCE),
                )
            if layout == "transposed":
                slope = slope.transpose(0, 1)
            elif layout == "cut":
                slope = pad(slope, (0, 0, 0, ids.shape[1] - slope.shape[1]))
            total = total + slope
        return total


def _layout(seen: Any, ids: Any) -> str | None:
    """Return how a layer received the ids of a batch, of shape (texts, length); None if it did not."""
    if seen.ndim != 2:
        return None
    for layout, own in (("same", ids), ("transposed", ids.T), ("cut", ids[:, : seen.shape[1]])):
        if seen.shape == own.shape and bool((seen == own).all()):
            return layout
    return None


def _run_sums(owner: Ints, values: Array) -> tuple[Ints, Array]:
    """Sum the consecutive values of each owner."""
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    return owner[first], values if len(first) == len(owner) else np.add.reduceat(values, first)
