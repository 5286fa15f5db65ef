"""What the words around a term say about it: small rules for English, no tagger.

Some spellings are several forms: "Christian" is an adjective and a person, "her" is "him" and "his". ``read`` tells
them apart. Others may be no term at all: "black" is a colour, "Turkey" a bird at the start of a sentence. ``plausible``
asks whether the context speaks of a person or a place. Both look at three words to each side and know the classes of
words in ``english.toml``, and both are wrong sometimes. They look at no word that they need not: what was looked at is
held while other words are replaced, so that a term is read alike in all texts that are made of one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.text.lexicon import Form

_CLASSES = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(files("evenhand.text").joinpath("english.toml").read_text("utf-8")).items()
}
SINGULAR, PLURAL, DEFINITE, BE, DEGREE = (_CLASSES[name] for name in ("singular", "plural", "definite", "be", "degree"))
FUNCTION = SINGULAR | PLURAL | DEFINITE | BE | DEGREE | _CLASSES["others"]


@dataclass(frozen=True)
class Context:
    """Three words to each side in lower case, nearest first; empty where a gap keeps them apart."""

    before: Sequence[str]
    after: Sequence[str]

    @property
    def modifies(self) -> bool:
        """Whether the term goes with the word behind it, as an adjective does: "a Christian school"."""
        follower = self.after[0]
        if not follower or follower in FUNCTION or follower.endswith(("ly", "ed")):
            return False
        # No plural follows "a Christian", so "believes" must be a verb.
        return not (self.before[0] in SINGULAR and follower.endswith("s") and not follower.endswith(("ss", "us", "is")))

    @property
    def possesses(self) -> bool:
        """Whether the term goes with a noun phrase behind it, as "his" and "her" do: "her two sons", "her only son"."""
        if self.after[0] in _CLASSES["inner"]:
            return self._goes_on(1) and not _adverb(self.after[1])
        return bool(self.after[0]) and self.after[0] not in FUNCTION and self.before[0] not in _CLASSES["letting"]

    @property
    def receives(self) -> bool:
        """Whether "her" is "him" in spite of the word behind it: "saw her naked", "told her everything"."""
        follower = self.after[0]
        if follower in _CLASSES["nouns"] or not self.before[0]:
            return False
        if follower in _CLASSES["states"] or _adverb(follower):
            return not self._goes_on(1)
        if follower in _CLASSES["passing"]:
            return self.after[1] in _CLASSES["times"] and self.before[0] not in _CLASSES["during"]
        return follower in _CLASSES["loose"] or (
            follower.endswith(("ing", "ed")) and self.before[0] in _CLASSES["seeing"]
        )

    def _goes_on(self, n: int) -> bool:
        """Whether a noun phrase goes on with the n-th word behind."""
        word = self.after[n]
        return bool(word) and word not in FUNCTION | _CLASSES["loose"] | _CLASSES["passing"]

    @property
    def predicate(self) -> bool:
        """Whether the term is what somebody is: "they are Christian", "deeply Christian"."""
        return self.before[0] in BE or self.before[0] in DEGREE or self.before[0].endswith("ly")

    @property
    def of_person(self) -> bool:
        """Whether an adjective speaks of a person: "black and white men", "he is black"."""
        for follower in self.after:
            if follower in _CLASSES["people"]:
                return True
            if not follower or (follower in FUNCTION and follower not in ("and", "or")):
                break
        subjects = _CLASSES["subjects"] | _CLASSES["people"]
        return self.predicate and (self.before[1] in subjects or self.before[2] in subjects)

    @property
    def of_place(self) -> bool:
        """Whether a name speaks of a place: "from Turkey", "in the US", "Turkey's army"."""
        if self.before[self.before[0] == "the"] in _CLASSES["placing"]:
            return True
        return self.after[0] == "'s" and self.after[1] in _CLASSES["national"]


def _adverb(word: str) -> bool:
    return word.endswith("ly") and word not in _CLASSES["nouns"]


def read(forms: Sequence[Form], context: Context) -> Form | None:
    """Choose the form that a term has here; None if it has none, as "German" in "speaks German".

    >>> from evenhand.text.lexicon import Form
    >>> forms = [Form("adjective", "adjective"), Form("person", "noun", "singular")]
    >>> read(forms, Context(("a", "", ""), ("school", "", ""))).name
    'adjective'
    >>> read(forms, Context(("a", "is", "she"), ("", "", ""))).name
    'person'
    """
    kinds = {form.number if form.speech == "noun" else form.speech: form for form in forms}
    if "adjective" in kinds and context.before[0] in _CLASSES["language"] and not context.modifies:
        return None
    if len(forms) == 1:
        return forms[0]
    if "determiner" in kinds:
        possesses = context.possesses and not ("object" in kinds and context.receives)
        return kinds["determiner"] if possesses else next(form for form in forms if form.speech != "determiner")
    order = ["plural", "adjective", "singular"]
    if context.modifies:
        order = ["adjective"]
    elif "mass" in kinds:
        order = ["mass"]
    elif (before := context.before[0]) in SINGULAR:
        order = ["singular"]
    elif context.predicate:
        order = ["adjective"]
    elif before and (before in DEFINITE or before not in FUNCTION):
        order = ["plural", "singular"]
    return next((kinds[kind] for kind in order if kind in kinds), forms[0])


def plausible(form: Form, context: Context, proper: bool) -> bool:
    """Tell whether an ambiguous term is one here; ``proper`` if it is spelled with a capital, as names are.

    >>> from evenhand.text.lexicon import Form
    >>> plausible(Form("adjective", "adjective"), Context(("", "", ""), ("box", "", "")), proper=False)
    False
    """
    if form.name == "place":
        return context.of_place
    if proper:
        # "Polish the car!"
        return form.speech != "adjective" or context.modifies or bool(context.before[0])
    if form.speech == "adjective":
        return context.of_person
    return context.before[0] in SINGULAR | PLURAL | DEFINITE
