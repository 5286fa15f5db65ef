"""Tokens: a text cut into words and gaps whose concatenation is the exact text; the case of a word.

A word is a run of letters, digits and the marks that belong to them, with apostrophes inside (``don't``); the endings
``'s 'll 'd 're 've 'm`` are words of their own, so that "he" is found in "he'll". Web addresses and abbreviations with
points (``U.S.``) are one word each. Everything else, hyphens too, is part of a gap.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from functools import lru_cache

_MARKS = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
_JOINERS = "\u200c\u200d"


@lru_cache(maxsize=2)
def _pattern(ascii: bool) -> re.Pattern[str]:
    """Compile the words; in plain English texts there are no marks, and fewer letters to look through."""
    if ascii:
        letter, sign, space, run, before = "[A-Za-z]", "[A-Za-z0-9]", r"\s\x1c-\x1f", "[A-Za-z0-9]+", r"\w"
    else:
        letter, sign, space = r"[^\W\d_]", r"[^\W_]", r"\s"
        # Python's regular expressions have no class of marks, so it is listed.
        marks = "".join(c for span in _MARKS for c in map(chr, span) if unicodedata.category(c)[0] == "M")
        # Most characters lie before the first mark, and looking through all marks for each would take most of the time.
        run = rf"{sign}+(?:(?![\0-\u02ff])[{_JOINERS}{marks}]+{sign}*)*"
        before = rf"\w{marks}"
    ending = rf"(?i:s|ll|d|re|ve|m)(?!{sign})"
    words = (
        rf"(?=[hHwW])(?i:https?://|www\.)[^{space}<>\"]+",
        rf"(?:{letter}\.){{2,}}(?:{letter}(?!{sign}))?",
        rf"{run}(?:['\u2019](?!{ending}){run})*",
    )
    return re.compile(rf"((?={sign})(?:{'|'.join(words)})|(?=['\u2019])(?<=[{before}]).{ending})", re.ASCII * ascii)


def split(text: str) -> list[str]:
    """Cut a text into gap, word, gap, ..., word, gap; gaps may be empty, and ``"".join`` gives the text back.

    >>> split("She's a well-known (U.S.) jurist!")
    ['', 'She', '', "'s", ' ', 'a', ' ', 'well', '-', 'known', ' (', 'U.S.', ') ', 'jurist', '!']
    >>> split("")
    ['']
    """
    return _pattern(text.isascii()).split(text)


class Case(enum.IntEnum):
    """How a word is written.

    >>> Case.of("Muslim"), Case.of("MUSLIM"), Case.of("A"), Case.of("42")
    (<Case.TITLE: 1>, <Case.UPPER: 2>, <Case.TITLE: 1>, <Case.LOWER: 0>)
    """

    LOWER = 0
    TITLE = 1
    UPPER = 2
    MIXED = 3

    @classmethod
    def of(cls, word: str) -> Case:
        """Tell a word's case; one capital alone is a title. What has no case is lower, and "I", for it says nothing."""
        if word == "I":
            return cls.LOWER
        if word.isupper():
            return cls.UPPER if sum(map(str.isupper, word)) > 1 else cls.TITLE
        if word == word.lower():
            return cls.LOWER
        return cls.TITLE if word[1:] == word[1:].lower() else cls.MIXED

    def write(self, word: str) -> str:
        """Write another word in this case; lower and mixed leave it as it is, for "Paris" keeps its capital.

        >>> Case.TITLE.write("imam"), Case.UPPER.write("imam"), Case.LOWER.write("Paris")
        ('Imam', 'IMAM', 'Paris')
        """
        if self is Case.UPPER:
            return word.upper()
        return word[:1].upper() + word[1:] if self is Case.TITLE else word
