"""Which words a net knows: told by the user or by what encodes its texts, and verified by encoding each word alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.models.text.encoding import Encoder

Numbers = npt.NDArray[np.int64]

TELLING = ("words", "vocab", "vocabulary", "word_index", "get_vocab", "get_vocabulary")
"""Attributes and methods by which encoders tell their words."""
TOGETHER = 4096
"""Words that are encoded at once."""
NO_WORD = "qzxjvwkq"
"""What no vocabulary has: its id is the one of all unknown words."""


def told(encode: Any) -> tuple[list[str], Numbers] | None:
    """Return the words that an encoder tells by an attribute, its own or its object's, and their numbers; or None.

    >>> def encode(texts): ...
    >>> told(encode)
    >>> encode.words = [None, "good", "bad"]
    >>> told(encode)
    (['good', 'bad'], array([1, 2]))
    """
    for owner in (encode, getattr(encode, "__self__", None)):
        for name in TELLING:
            try:
                got = getattr(owner, name, None)
                found = numbered(got() if callable(got) else got)
            except Exception:  # Whatever a user's object does when it is asked; it does not tell then.
                continue
            if found is not None and found[0]:
                return found
    return None


def numbered(given: Any) -> tuple[list[str], Numbers] | None:
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


def known(words: list[str], numbers: Numbers, ids: Numbers) -> dict[str, int]:
    """Return the words whose id alone is their number, all numbers shifted alike: ids of no word may come first.

    >>> known(["good", "bad", "rare"], np.array([1, 2, 3]), np.array([4, 5, -1]))
    {'good': 4, 'bad': 5}
    """
    single = ids >= 0
    shifts, counts = np.unique((ids - numbers)[single], return_counts=True)
    if not len(shifts):
        return {}
    # Of shifts that are equally common, none at all is the likeliest.
    shift = shifts[np.lexsort((abs(shifts), -counts))[0]]
    return {words[i]: int(ids[i]) for i in np.flatnonzero(single & (ids - numbers == shift)).tolist()}


def single_ids(encoder: Encoder, words: list[str]) -> Numbers:
    """Return the id of each word that is encoded as one id of its own, -1 for others.

    >>> table = {"good": 2, "bad": 3}
    >>> encoder = Encoder(lambda texts: [[table.get(word, 1) for word in text.split()] or [0] for text in texts])
    >>> single_ids(encoder, ["good", "bad", "so so", "ugly"]).tolist()
    [2, 3, -1, -1]
    """
    if not words:
        return np.empty(0, dtype=np.int64)
    padding = encoder.padding([words[0], " ".join(4 * words[:1])])
    fillers = [*_alone(encoder, ""), *([] if padding is None else padding.values[:1])]
    found = [_singles(encoder, words[i : i + TOGETHER], fillers) for i in range(0, len(words), TOGETHER)]
    ids = np.concatenate(found)
    (unknown,) = _picked([_alone(encoder, NO_WORD)], fillers)
    ids[ids == unknown] = -1
    return ids


def _singles(encoder: Encoder, words: list[str], fillers: list[int]) -> Numbers:
    """Encode words at once, or one by one where that fails or gives other ids."""
    try:
        together = _picked(encoder.fields(words)[0], fillers)
        if together[0] == _picked([_alone(encoder, words[0])], fillers)[0]:
            return together
    except Exception:  # Whatever it is, it comes again alone if it has to do with a word.
        pass
    return np.array([_picked([_alone(encoder, word)], fillers)[0] for word in words], dtype=np.int64)


def _picked(ids: Any, fillers: list[int]) -> Numbers:
    """Return for each row the one id that is no filler; -1 where there are several or none."""
    ids = np.asarray(ids, dtype=np.int64)
    real = ~np.isin(ids, fillers)
    return np.where(real.sum(axis=1) == 1, (ids * real).sum(axis=1), -1)


def _alone(encoder: Encoder, word: str) -> Numbers:
    try:
        ids: Numbers = encoder.fields([word])[0][0]
        return ids
    except Exception:  # each in its own way
        return np.empty(0, dtype=np.int64)


def check(words: Any, name: str) -> tuple[list[str], Numbers]:
    """Read the words that a user gives."""
    found = numbered(words)
    if found is None or not found[0]:
        raise ModelError(
            f"words must be the words of the rows of {name}'s embedding, in order, None where a row is no word;\n"
            f"got {'no word' if found is not None else type(words).__name__}."
        )
    return found
