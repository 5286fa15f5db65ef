"""Which words a net knows: given by the user or by its encoder, and verified by encoding each word alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import ModelError
from evenhand.models.text.encoding import Encoder, Ints

Words: TypeAlias = tuple[list[str], Ints]
"""Words and their numbers."""
ATTRIBUTES = ("words", "vocab", "vocabulary", "word_index", "get_vocab", "get_vocabulary")
"""Attributes and methods of encoders that may hold their words."""
TOGETHER = 4096
"""Words that are encoded at once."""
NO_WORD = "qzxjvwkq"
"""A word that no vocabulary has: its id is that of all unknown words."""


def words_of(encode: Any) -> Words | None:
    """Return the words of an encoder, from an attribute of its own or of its object, and their numbers; or None.

    >>> def encode(texts): ...
    >>> words_of(encode)
    >>> encode.words = [None, "good", "bad"]
    >>> words_of(encode)
    (['good', 'bad'], array([1, 2]))
    """
    for owner in (encode, getattr(encode, "__self__", None)):
        for name in ATTRIBUTES:
            try:
                got = getattr(owner, name, None)
                found = numbered(got() if callable(got) else got)
            except Exception:  # Whatever a user's object raises: it is no vocabulary.
                continue
            if found is not None and found[0]:
                return found
    return None


def check_words(words: Any) -> Words:
    """Return the words that a user gives, and their numbers."""
    found = numbered(words)
    if found is None or not found[0]:
        raise ModelError(
            "must be the words of the rows of the embedding, or a mapping from words to rows",
            parameter="words",
            value=words,
            remedy="give them in order, None where a row is no word",
        )
    return found


def numbered(given: Any) -> Words | None:
    """Read words in order, or a mapping from words to numbers; None for anything else.

    >>> numbered({"good": 2, "bad": 3})
    (['good', 'bad'], array([2, 3]))
    """
    if isinstance(given, Mapping):
        pairs: Iterable[tuple[Any, Any]] = given.items()
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes):
        pairs = ((word, n) for n, word in enumerate(given))
    else:
        return None
    kept = [(str(word), n) for word, n in pairs if isinstance(word, str)]
    return [word for word, _ in kept], np.array([n for _, n in kept], dtype=np.int64).reshape(len(kept))


def known(words: list[str], numbers: Ints, ids: Ints) -> dict[str, int]:
    """Return the words whose id alone is their number, all numbers shifted alike: other ids may come before words.

    >>> known(["good", "bad", "rare"], np.array([1, 2, 3]), np.array([4, 5, -1]))
    {'good': 4, 'bad': 5}
    """
    single = ids >= 0
    shifts, counts = np.unique((ids - numbers)[single], return_counts=True)
    if not len(shifts):
        return {}
    # Of shifts that are equally common, the smallest is the likeliest.
    shift = shifts[np.lexsort((abs(shifts), -counts))[0]]
    return {words[i]: int(ids[i]) for i in np.flatnonzero(single & (ids - numbers == shift)).tolist()}


def single_ids(encoder: Encoder, words: list[str]) -> Ints:
    """Return the id of each word that is encoded as one id of its own, -1 for others.

    >>> table = {"good": 2, "bad": 3}
    >>> encoder = Encoder(lambda texts: [[table.get(word, 1) for word in text.split()] or [0] for text in texts])
    >>> single_ids(encoder, ["good", "bad", "so so", "ugly"]).tolist()
    [2, 3, -1, -1]
    """
    if not words:
        return np.empty(0, dtype=np.int64)
    padding = encoder.padding([words[0], " ".join(4 * words[:1])])
    fillers = [*encoder.ids_alone(""), *([] if padding is None else padding.values[:1])]
    found = [_single_ids(encoder, words[i : i + TOGETHER], fillers) for i in range(0, len(words), TOGETHER)]
    ids = np.concatenate(found)
    (unknown,) = _single_id([encoder.ids_alone(NO_WORD)], fillers)
    ids[ids == unknown] = -1
    return ids


def _single_ids(encoder: Encoder, words: list[str], fillers: list[int]) -> Ints:
    """Encode words at once, or one by one where that fails or gives other ids."""
    try:
        together = _single_id(encoder.fields(words)[0], fillers)
        if together[0] == _single_id([encoder.ids_alone(words[0])], fillers)[0]:
            return together
    except Exception:  # Whatever it is, it is raised again for the word alone if a word causes it.
        pass
    return np.array([_single_id([encoder.ids_alone(word)], fillers)[0] for word in words], dtype=np.int64)


def _single_id(ids: Any, fillers: list[int]) -> Ints:
    """Return for each row the one id that is no filler; -1 where there are several or none."""
    ids = np.asarray(ids, dtype=np.int64)
    real = ~np.isin(ids, fillers)
    return np.where(real.sum(axis=1) == 1, (ids * real).sum(axis=1), -1)
