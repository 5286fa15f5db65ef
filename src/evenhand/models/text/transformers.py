"""Hugging Face classifiers of texts: a pipeline, a model with its tokenizer, or the folder that they were saved to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import check_limit, parse_json, read_bytes, size_of
from evenhand._sandbox import attempt
from evenhand.errors import LimitExceeded, MissingExtra, ModelError
from evenhand.models.base import derives
from evenhand.models.text.encoding import Alignment, Encoder, Ints, Padding, Row, Words, by_spans
from evenhand.models.text.module import TextModule
from evenhand.plugins import reason
from evenhand.spaces.text.tokens import Texts, split

TOKENIZER = ("tokenizer*", "vocab*", "*.model")
"""Names of the files of tokenizers."""
SPACE = "\u0120\u2581"
"""The characters of tokenizers for a space before a word."""
_LIBRARY = "transformers."
UNLIMITED = 10**6
"""A tokenizer without a limit has a much larger number than this."""


def is_tokenizer(thing: Any) -> bool:
    """Whether an object is a Hugging Face tokenizer."""
    return derives(thing, _LIBRARY, "PreTrainedTokenizerBase")


def parts_of(thing: Any) -> tuple[Any, Any] | None:
    """Return the model and the tokenizer of a pipeline or a pair; None for anything else."""
    if derives(thing, _LIBRARY, "Pipeline"):
        if thing.task != "text-classification":
            problem = f"cannot be a pipeline for {thing.task!r}"
            raise ModelError(problem, parameter="model", remedy='use one for "text-classification"')
        return thing.model, thing.tokenizer
    things = thing if isinstance(thing, (tuple, list)) else (thing,)
    kinds = [
        "model" if derives(one, _LIBRARY, "PreTrainedModel") else "tokenizer" if is_tokenizer(one) else ""
        for one in things
    ]
    if kinds == ["model", "tokenizer"]:
        return things[0], things[1]
    if "model" in kinds or "tokenizer" in kinds:
        got = ", ".join(kind or type(one).__name__ for kind, one in zip(kinds, things, strict=True))
        raise ModelError(
            f"must be both parts of a Hugging Face classifier, not {got}",
            parameter="model",
            remedy="give the model first: eh.wrap((model, tokenizer))",
        )
    return None


def is_folder(path: Path) -> bool:
    """Whether a path is the folder of a saved model."""
    try:
        return (path / "config.json").is_file()
    except (OSError, ValueError):  # the name is too long, or no name
        return False


def load_folder(path: Path) -> TransformersModel:
    """Read a model and its tokenizer from a folder, never from the network."""
    try:
        prepare()
    except ImportError as error:
        raise MissingExtra("transformers", "transformers", f"reading the folder {path.name}") from error
    # Without these files, a tokenizer that knows no words would be created.
    if not any(found for pattern in TOKENIZER for found in path.glob(pattern)):
        remedy = "add the model's: tokenizer.save_pretrained(path)"
        raise ModelError(f"{path}: there is no tokenizer in it", remedy=remedy)
    try:
        # Memory is allocated for the configured sizes before they are compared with the stored weights.
        attempt("evenhand.models.text.transformers:read_folder", path, _check_folder(path))
        model, tokenizer = read_folder(path)
    except (LimitExceeded, ModelError):
        raise
    except Exception as error:
        raise ModelError(
            f"{path}: it cannot be read as a Hugging Face classifier of texts ({reason(error)})",
            remedy="save both parts to it: model.save_pretrained(path), tokenizer.save_pretrained(path)",
        ) from error
    return TransformersModel(model, tokenizer)


def prepare() -> None:
    """Import the reader, before the limits of a trial count."""
    import transformers.modeling_utils
    import transformers.tokenization_utils_base

    # transformers imports its parts on access.
    transformers.AutoModelForSequenceClassification, transformers.AutoTokenizer  # noqa: B018


def read_folder(path: Path) -> tuple[Any, Any]:
    """Read both parts of a classifier, with weights in safetensors only, and no code from the folder."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = AutoModelForSequenceClassification.from_pretrained(path, use_safetensors=True, **options)
    return model, AutoTokenizer.from_pretrained(path, **options)


def _check_folder(path: Path) -> int:
    """Return the size of a folder's files; raise if one is not a regular file, is too large, or runs code."""
    files = [file for file in path.iterdir() if not file.is_dir()]
    size = sum(size_of(file, ModelError) for file in files)
    check_limit("model_bytes", size, path, "load the model yourself and wrap it")
    for file in files:
        if file.suffix == ".json":
            try:
                found = parse_json(read_bytes(file, "json_bytes", ModelError), file)
            except ValueError as error:
                raise ModelError(
                    f"{file}: it is not JSON ({str(error)[:100]})", remedy="save the model again"
                ) from None
            if isinstance(found, dict) and "auto_map" in found:
                raise ModelError(
                    f"{path}: {file.name} would run its own code (auto_map), which evenhand never does",
                    remedy="if you trust it, load the model and the tokenizer yourself: eh.wrap((model, tokenizer))",
                )
    if not any(file.suffix == ".safetensors" for file in files):
        raise ModelError(
            f"{path}: there are no weights in .safetensors; other weights are pickles, which run code",
            remedy="save it again: model.save_pretrained(path)",
        )
    return size


class TransformersModel(TextModule):
    """A sequence classifier with its tokenizer. Its decisions are the names of its labels.

    The tokenizer truncates texts that are too long. Gradients are assigned to words by the characters of the tokens.
    """

    def __init__(self, model: Any, tokenizer: Any, embedding: str | None = None, words: Any = None) -> None:
        config = model.config
        if config.problem_type in ("regression", "multi_label_classification"):
            what = "a number" if config.problem_type == "regression" else f"{config.num_labels} labels at once"
            raise ModelError(
                f"{type(model).__name__} predicts {what}, not one label",
                remedy='wrap a function that returns one: eh.wrap(lambda texts: ..., input="text")',
            )
        self._tokenizer = tokenizer
        super().__init__(model, _Tokens(tokenizer, _longest(tokenizer, config)), embedding, words)
        self._kind = "logits"
        if config.num_labels > 1:
            self.classes = np.array([config.id2label[number] for number in range(config.num_labels)])

    def _align(self, texts: Texts, rows: Sequence[Row]) -> Alignment:
        spans = any(row.spans is not None for row in rows)
        return by_spans(texts, rows) if spans else super()._align(texts, rows)

    def _listed(self) -> Words | None:
        """Return the tokens that are words; most tokenizers mark those after a space."""
        pairs = [(token.lstrip(SPACE), n) for token, n in self._tokenizer.get_vocab().items()]
        kept = [(word, n) for word, n in pairs if split(word)[0::2] == ["", ""]]
        return [word for word, _ in kept], np.array([n for _, n in kept], dtype=np.int64)

    def _single_ids(self, words: list[str]) -> Ints:
        ids, lengths = self._ids_of(words)
        return np.where(lengths == 1, ids[np.minimum(np.cumsum(lengths) - lengths, len(ids) - 1)], -1)

    def _ids_of(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        # Many tokenizers mark the space before a word, and most words of a text have one.
        rows = self._encoder.rows([f"a {word}" for word in words])
        if any(row.spans is None for row in rows):
            return super()._ids_of(words)
        ids = [row.fields[0][np.asarray(row.spans)[:, 1] > 2] for row in rows]
        lengths = np.array([len(part) for part in ids], dtype=np.int64)
        return np.concatenate([np.empty(0, dtype=np.int64), *ids]), lengths


class _Tokens(Encoder):
    """Calls a tokenizer with many texts at once, without padding, which gives the same ids as one by one."""

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
    """Return the maximum number of tokens of the model; None for any number."""
    if tokenizer.model_max_length < UNLIMITED:
        return int(tokenizer.model_max_length)
    places = getattr(config, "max_position_embeddings", None)
    # RoBERTa counts positions from the id of the padding on.
    return places if places is None or "roberta" not in config.model_type else places - 2
