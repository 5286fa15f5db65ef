"""A or an: which of the two a word wants, and putting it right where a word was replaced."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.text.texts import Ids, Texts
from evenhand.text.tokens import Case

ARTICLES = ("a", "an")
WRITTEN = {Case.LOWER: ("a", "an"), Case.TITLE: ("A", "An"), Case.UPPER: ("A", "AN")}

# Written with a vowel and spoken without (Europe, unit, user, Ukraine, one, UK), and the other way round (hour, FBI).
_AS_YOU = re.compile(r"eu|ew|u[iy]|uni(?![dmn])|u[bcfgkqrst][aeiou]|ukr|one\b|once\b|u[ks]?\b|u\.|uae\b")
_SILENT = re.compile(r"hour|honest|hono|heir")
_SPELLED = re.compile(r"(F(?![AEIOULRY])|[HLMNX](?![AEIOUYGH])|R(?![AEIOUHWY])|S(?=[BDFGJSXZ]|$))[A-Z]*")
_EIGHT = re.compile(r"8|1[18](?!\d)")
_OPENING = "\"'\u201c\u2018(*"


def vowel(word: str) -> bool:
    """Tell whether a word sounds as if it began with a vowel. A rule for English spelling, with its known exceptions.

    >>> [word for word in ("atheist", "European", "unit", "uncle", "hour", "Hindu", "FBI", "UK", "8") if vowel(word)]
    ['atheist', 'uncle', 'hour', 'FBI', '8']
    """
    lower = word.lower()
    if _SPELLED.fullmatch(word) or _EIGHT.match(word) or _SILENT.match(lower):
        return True
    return lower[:1] in tuple("aeiouàáâäåæèéêëìíîïòóôöøùúûü") and not _AS_YOU.match(lower)


def plain(gap: str) -> bool:
    """Tell whether a gap lets the words beside it belong together: space, and at most an opening quote or bracket.

    >>> plain(" "), plain(' "'), plain(". "), plain("-")
    (True, True, False, False)
    """
    return not gap.lstrip().strip(_OPENING) and gap.count("\n") < 2


def is_article(word: str) -> bool:
    """Tell articles of either kind.

    >>> is_article("An")
    True
    """
    return word.lower() in ARTICLES


def articles(texts: Texts, flat: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
    """Tell which places of ``texts.words`` have an article in front of them that goes by the word there.

    >>> articles(Texts.of(["A man, an imam, vitamin A."]), np.arange(6)).tolist()
    [False, True, False, True, False, False]
    """
    vocabulary, before = texts.vocabulary, np.maximum(flat, 1) - 1
    near = vocabulary.column(plain, bool)[texts.gaps[before]] & ~np.isin(flat, texts.starts)
    out: npt.NDArray[np.bool_] = near & vocabulary.column(is_article, bool)[texts.words[before]]
    return out


def agree(
    texts: Texts, flat: npt.NDArray[np.integer[Any]], words: Ids, shouted: npt.NDArray[np.bool_] | bool = False
) -> Texts:
    """Return the texts with the articles in front of some places as ``words``, which are put there later, want them.

    Only where the sound changes: an article that was wrong before is not corrected. "A" alone does not tell whether all
    letters are capitals, and neither does a word that is always written in them; ``shouted`` says so.

    >>> texts = Texts.of(["A Christian, A JEW, an ATHEIST"])
    >>> words = texts.vocabulary.ids(["atheist", "ATHEIST", "JEW"])
    >>> agree(texts, np.array([1, 3, 5]), words, np.array([False, True, True])).strings()
    ['An Christian, AN JEW, a ATHEIST']
    """
    vocabulary = texts.vocabulary
    sounds, cases = vocabulary.column(vowel, bool), vocabulary.cases
    changed = articles(texts, flat) & (sounds[words] != sounds[texts.words[flat]])
    where, words = flat[changed] - 1, words[changed]
    case = cases[texts.words[where]]
    case = np.where((case == Case.TITLE) & np.broadcast_to(shouted, len(flat))[changed], Case.UPPER, case)
    written = np.array([vocabulary.ids(WRITTEN.get(kind, ARTICLES)) for kind in Case])
    return texts.put(where, written[case, sounds[words].astype(np.intp)])
