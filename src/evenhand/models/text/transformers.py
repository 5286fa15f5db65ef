"""Hugging Face classifiers of texts: a pipeline, a model with its tokenizer, or the folder that they were saved to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit, parse_json, read_bytes, size_of
from evenhand._sandbox import attempt
from evenhand.errors import LimitExceeded, MissingExtra, ModelError
from evenhand.models.text.alignment import Alignment, by_spans
from evenhand.models.text.encoding import Encoder, Padding, Row
from evenhand.models.text.module import TextModule
from evenhand.spaces.text.tokens import Texts, split

TOKENIZER = ("tokenizer*", "vocab*", "*.model")
"""How the files of tokenizers are called."""
SPACE = "\u0120\u2581"
"""What tokenizers write for a space before a word."""
UNLIMITED = 10**6
"""A tokenizer that has not been told how much its model reads gives a number far beyond this one."""


def is_tokenizer(thing: Any) -> bool:
    """Tell Hugging Face tokenizers from everything else, without importing their package.

    >>> is_tokenizer(str.split)
    False
    """
    return _is(thing, "PreTrainedTokenizerBase")


def parts_of(thing: Any) -> tuple[Any, Any] | None:
    """Return the model and the tokenizer of a pipeline or a pair; None for what is no part of these.

    >>> parts_of(print)
    """
    if _is(thing, "Pipeline"):
        if thing.task != "text-classification":
            raise ModelError(f'Got a pipeline for {thing.task!r}; one for "text-classification" is needed.')
        return thing.model, thing.tokenizer
    things = thing if isinstance(thing, (tuple, list)) else (thing,)
    kinds = [_kind(one) for one in things]
    if kinds == ["model", "tokenizer"]:
        return things[0], things[1]
    if "model" in kinds or "tokenizer" in kinds:
        got = ", ".join(kind or type(one).__name__ for kind, one in zip(kinds, things, strict=True))
        raise ModelError(
            f"Got of a Hugging Face classifier: {got}. Both parts are needed, the model first:\n"
            "eh.wrap((model, tokenizer))."
        )
    return None


def _kind(thing: Any) -> str:
    return "model" if _is(thing, "PreTrainedModel") else "tokenizer" if is_tokenizer(thing) else ""


def is_folder(path: Path) -> bool:
    """Tell the folder of a saved model.

    >>> is_folder(Path("nowhere"))
    False
    """
    try:
        return (path / "config.json").is_file()
    except (OSError, ValueError):  # a name that is too long for one, or none
        return False


def load_folder(path: Path) -> TransformersModel:
    """Read a model and its tokenizer from a folder, never from the network."""
    try:
        prepare()
    except ImportError as error:
        raise MissingExtra("transformers", "transformers", f"reading the folder {path.name}") from error
    # Without its files a tokenizer is made all the same: one that knows no word.
    if not any(found for pattern in TOKENIZER for found in path.glob(pattern)):
        raise ModelError(f"{path}: there is no tokenizer in it. Add the model's: tokenizer.save_pretrained(path).")
    try:
        # The sizes that a configuration asks for are made before they are compared with what is stored.
        attempt("evenhand.models.text.transformers:read_folder", path, _check_folder(path))
        model, tokenizer = read_folder(path)
    except (LimitExceeded, ModelError):
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")[:200]
        raise ModelError(
            f"{path}: it cannot be read as a Hugging Face classifier of texts ({type(error).__name__}: {reason}).\n"
            "Save both parts to it: model.save_pretrained(path), tokenizer.save_pretrained(path)."
        ) from error
    return TransformersModel(model, tokenizer)


def prepare() -> None:
    """Import what reads folders, before a trial's limits count."""
    import transformers.modeling_utils
    import transformers.tokenization_utils_base

    # transformers imports its parts when they are named, most of them with what all models share.
    transformers.AutoModelForSequenceClassification, transformers.AutoTokenizer  # noqa: B018


def read_folder(path: Path) -> tuple[Any, Any]:
    """Read the two parts of a classifier: weights of safetensors alone, and no code of the folder's own."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = AutoModelForSequenceClassification.from_pretrained(path, use_safetensors=True, **options)
    return model, AutoTokenizer.from_pretrained(path, **options)


def _check_folder(path: Path) -> int:
    """Return how large a folder's files are; raise where one is no file, is too large, or runs code."""
    files = [file for file in path.iterdir() if not file.is_dir()]
    size = sum(size_of(file, ModelError) for file in files)
    check_limit("model_bytes", size, path, "load the model yourself and wrap it")
    for file in files:
        if file.suffix == ".json":
            try:
                found = parse_json(read_bytes(file, "json_bytes", ModelError), file)
            except ValueError as error:
                raise ModelError(f"{file}: it is not JSON ({str(error)[:100]}). Save the model again.") from None
            if isinstance(found, dict) and "auto_map" in found:
                raise ModelError(
                    f"{path}: {file.name} asks to run code of its own (auto_map), which is never run from a file.\n"
                    "If you trust it, load the model and the tokenizer yourself: eh.wrap((model, tokenizer))."
                )
    if not any(file.suffix == ".safetensors" for file in files):
        raise ModelError(
            f"{path}: there are no weights in .safetensors; other weights are pickles, which run code.\n"
            "Save it again: model.save_pretrained(path)."
        )
    return size


class TransformersModel(TextModule):
    """A sequence classifier with its tokenizer. Its decisions are the names of its labels.

    Longer texts than the model reads are cut off, as its tokenizer does. Gradients are told to belong to words by the
    characters that tokens stand for.
    """

    def __init__(self, model: Any, tokenizer: Any, embedding: str | None = None, words: Any = None) -> None:
        config = model.config
        if config.problem_type in ("regression", "multi_label_classification"):
            what = "a number" if config.problem_type == "regression" else f"{config.num_labels} things at once"
            raise ModelError(
                f"{type(model).__name__} decides {what}, no single label. Wrap a function that does:\n"
                'eh.wrap(lambda texts: ..., input="text").'
            )
        self._tokenizer = tokenizer
        super().__init__(model, _Tokens(tokenizer, _longest(tokenizer, config)), embedding, words)
        self._kind = "logits"
        if config.num_labels > 1:
            self.classes = np.array([config.id2label[number] for number in range(config.num_labels)])

    def _align(self, texts: Texts, rows: Sequence[Row]) -> Alignment:
        spans = any(row.spans is not None for row in rows)
        return by_spans(texts, rows) if spans else super()._align(texts, rows)

    def _told(self) -> tuple[list[str], npt.NDArray[np.int64]] | None:
        """Take the tokens that are words; most tokenizers mark those that a space comes before."""
        pairs = [(token.lstrip(SPACE), n) for token, n in self._tokenizer.get_vocab().items()]
        kept = [(word, n) for word, n in pairs if split(word)[0::2] == ["", ""]]
        return [word for word, _ in kept], np.array([n for _, n in kept], dtype=np.int64)

    def _single_ids(self, words: list[str]) -> npt.NDArray[np.int64]:
        ids, lengths = self._ids_of(words)
        return np.where(lengths == 1, ids[np.minimum(np.cumsum(lengths) - lengths, len(ids) - 1)], -1)

    def _ids_of(self, words: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        # Many tokenizers mark the space before a word, and most words of a text have one.
        rows = self._encoder.rows([f"a {word}" for word in words])
        if any(row.spans is None for row in rows):
            return super()._ids_of(words)
        ids = [row.fields[0][np.asarray(row.spans)[:, 1] > 2] for row in rows]
        return np.concatenate([np.empty(0, dtype=np.int64), *ids]), np.array(
            [len(part) for part in ids], dtype=np.int64
        )


class _Tokens(Encoder):
    """Asks a tokenizer about many texts at once, without padding: for it that is as good as one by one."""

    def __init__(self, tokenizer: Any, longest: int | None) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        super().__init__(lambda texts: self._tokens(texts, padding=True, return_tensors="np"))

    def _tokens(self, texts: list[str], **options: Any) -> dict[str, Any]:
        return dict(self.tokenizer(texts, truncation=self.longest is not None, max_length=self.longest, **options))

    def _together(self, texts: list[str], padding: Padding) -> list[Row]:
        del padding
        return self._alone(texts)

    def _alone(self, texts: list[str]) -> list[Row]:
        if not texts:
            return []
        got = self._tokens(texts, return_offsets_mapping=bool(self.tokenizer.is_fast))
        spans = got.pop("offset_mapping", [None] * len(texts))
        names = sorted(got, key=lambda name: name != "input_ids")
        self.keys = tuple(names)
        columns = zip(*([np.array(part, dtype=np.int64) for part in got[name]] for name in names), strict=True)
        return [
            Row(fields, None if span is None else np.array(span, dtype=np.int64).reshape(-1, 2))
            for fields, span in zip(columns, spans, strict=True)
        ]


def _longest(tokenizer: Any, config: Any) -> int | None:
    """Return how many tokens the model reads; None for any number."""
    if tokenizer.model_max_length < UNLIMITED:
        return int(tokenizer.model_max_length)
    places = getattr(config, "max_position_embeddings", None)
    # These count their places from the number of the padding on.
    return places if places is None or "roberta" not in config.model_type else places - 2


def _is(thing: Any, kind: str) -> bool:
    return any(base.__name__ == kind and base.__module__.startswith("transformers.") for base in type(thing).__mro__)
