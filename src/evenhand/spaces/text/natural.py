"""Which terms of a text are identities, and which counterparts contradict the rest of the text.

A spelling of a lexicon is often something else: a name (Tyson Gay), a fixed expression (mother tongue), goods (persian
rugs), a language, half of a censored word. Rules find these by the words around; their words are in ``natural.toml``,
to which a file of the user adds. Each refusal has a reason, which a run counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from evenhand._files import parse_toml, read_toml
from evenhand.errors import ConfigError, SpaceError
from evenhand.spaces.attributes import suggest
from evenhand.spaces.text.lexicon import Form
from evenhand.spaces.text.tokens import split

REASONS = {
    "phrase": "in an excepted phrase of its lexicon",
    "idiom": "in a fixed expression",
    "name": "in the name of a person or a character",
    "place": "in the name of a place",
    "organisation": "in the name of an organisation or a work",
    "language": "a language",
    "thing": "of goods, animals, places or works",
    "compound": "part of a hyphenated compound",
    "censored": "part of a censored word",
    "insult": "no identity, as in 'this is so gay'",
    "context": "an ambiguous word that the context does not support",
    "handle": "in the name of a user or a site",
    "exclamation": "an exclamation",
    "form": "in a form that is switched off, such as the name of a country",
}
"""Why a spelling of a lexicon is not counted as a term."""
PHRASES = ("idiom", "name", "place", "organisation", "thing")
NATURAL, PLAIN = "natural", "plain"
_KEYS = ("sources", "forms_off", "phrases", "words")
_WORDS = (
    "things", "directions", "of_language", "before_language", "prefixes", "suffixes", "insulted", "becoming",
    "people", "languages", "calling", "calls", "determiners", "possessives", "titles", "royal", "also_names",
    "capitals", "male", "female", "surnames",
)  # fmt: skip
_CENSORS = frozenset("*@$%_^")
_QUOTES = frozenset("\"\u201c\u2018'")
_HYPHENS = ("-", "\u2010", "\u2011")


@dataclass(frozen=True)
class Rules:
    """What is not an identity, as read from files.

    >>> rules = natural()
    >>> rules.phrases["idiom"][0], "rugs" in rules.words["things"]
    ('mother tongue', True)
    """

    phrases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)
    forms_off: frozenset[str] = frozenset()
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """First names as they are written, by the identity that they speak of: male, female."""

    def __or__(self, other: Rules) -> Rules:
        phrases = {reason: (*self.phrases.get(reason, ()), *other.phrases.get(reason, ())) for reason in PHRASES}
        words = {name: self.words.get(name, frozenset()) | other.words.get(name, frozenset()) for name in _WORDS}
        names = {of: self.names.get(of, frozenset()) | other.names.get(of, frozenset()) for of in ("male", "female")}
        return Rules(phrases, words, self.forms_off | other.forms_off, names)


def rules_of(given: Any) -> Rules | None:
    """Return rules from an argument: "natural", "plain" for none, a file or a mapping that adds to the natural ones.

    >>> rules_of("plain")
    >>> "house style" in rules_of({"phrases": {"idiom": ["house style"]}}).phrases["idiom"]
    True
    """
    if isinstance(given, str) and given in (NATURAL, PLAIN):
        return natural() if given == NATURAL else None
    if isinstance(given, Mapping):
        return natural() | _read(given, "rules")
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".toml")):
        return natural() | _read(parse_toml(read_toml(Path(given), ConfigError), str(given), ConfigError), str(given))
    remedy = f"{suggest(str(given), (NATURAL, PLAIN))} (or give a .toml file whose phrases and words are added)"
    raise SpaceError("must be 'natural', 'plain' or a file", parameter="rules", value=given, remedy=remedy)


@lru_cache(maxsize=1)
def natural() -> Rules:
    """Return the rules that come with the package."""
    text = files("evenhand.spaces.text").joinpath("natural.toml").read_text("utf-8")
    return _read(parse_toml(text, "natural.toml", ConfigError), "natural.toml")


def _read(content: Mapping[str, Any], source: str) -> Rules:
    def error(problem: str, remedy: str = "") -> SpaceError:
        return SpaceError(f"{source}: {problem}", remedy=remedy)

    def table(key: str, allowed: Sequence[str]) -> Mapping[str, Any]:
        value = content.get(key, {})
        if not isinstance(value, Mapping):
            raise error(f"{key!r} must be a table, got {value!r:.60}")
        for name in value:
            if name not in allowed:
                raise error(f"unknown key {name!r:.60} of [{key}]", suggest(str(name), allowed))
        return value

    def texts(name: str, value: Any) -> list[str]:
        value = value.split() if isinstance(value, str) else value
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) and len(split(v)) > 1 for v in value):
            raise error(f"{name!r} must be a list of texts with words, got {value!r:.60}")
        return list(value)

    for key in content:
        if key not in _KEYS:
            raise error(f"unknown key {key!r:.60}", suggest(str(key), _KEYS))
    texts("sources", content.get("sources", []))
    words = {name: texts(name, value) for name, value in table("words", _WORDS).items()}
    return Rules(
        {reason: tuple(texts(reason, value)) for reason, value in table("phrases", PHRASES).items()},
        {name: frozenset(word.lower() for word in value) for name, value in words.items()},
        frozenset(texts("forms_off", content.get("forms_off", []))),
        {of: frozenset(words.get(of, ())) for of in ("male", "female")},
    )


def described_rules(rules: Rules) -> Any:
    """Return what ``rules_of`` reads back: the name of the built-in rules, or what was added to them."""
    if rules == natural():
        return NATURAL
    own = natural()
    more: dict[str, Any] = {"phrases": {}, "words": {}, "forms_off": sorted(rules.forms_off - own.forms_off)}
    for name, found in rules.phrases.items():
        if added := [phrase for phrase in found if phrase not in own.phrases.get(name, ())]:
            more["phrases"][name] = added
    for name, words in rules.words.items():
        if extra := sorted(words - own.words.get(name, frozenset())):
            more["words"][name] = extra
    for name, names in rules.names.items():
        if extra := sorted(names - own.names.get(name, frozenset())):
            more["words"][name] = extra
    return more


class Neighbours(Protocol):
    """The words around a match, as they are written; empty where there is none or a gap keeps them apart."""

    @property
    def before(self) -> Sequence[str]:
        """The words before, in lower case, nearest first."""

    @property
    def after(self) -> Sequence[str]:
        """The words behind, in lower case, nearest first."""

    def raw(self, n: int) -> str:
        """Return the n-th word behind, or before if negative, as it is written; n is not 0."""

    def gap(self, n: int) -> str:
        """Return the gap behind the match (1) or before it (-1)."""

    def begins(self, n: int = 0) -> bool:
        """Whether a sentence begins with the match or, with -1, with the word before it."""


@dataclass(frozen=True)
class Refusal:
    """Finds the reason why a match is no identity; ``is_term`` knows the first words of terms."""

    rules: Rules
    function: frozenset[str]
    people: frozenset[str]
    is_term: Callable[[str], bool]

    def __call__(self, near: Neighbours, found: str, spelling: str, form: Form) -> str:
        """Return the reason, or "" if the match is an identity."""
        words = self.rules.words
        if self._censored(near):
            return "censored"
        if self._compound(near, spelling):
            return "compound"
        if self._name(near, found, spelling, form):
            return "organisation" if form.speech == "adjective" and spelling[:1].isupper() else "name"
        # Words are read only where they decide: what was read cannot be replaced by a search.
        if spelling in ("gay", "queer") and near.before[0] in words["calling"]:
            return "insult" if not words["insulted"].isdisjoint((near.before[1], near.before[2])) else ""
        if found.lower() in words["calls"] and not any(before in words["determiners"] for before in near.before):
            return "exclamation"
        # "My French is poor", but "my Germans" are people.
        if found.lower() in words["languages"] and near.before[0] in words["possessives"]:
            return "" if self._noun(near.after[0]) else "language"
        if form.speech != "adjective":
            return ""
        if spelling[:1].isupper():
            if near.before[0] in words["directions"]:
                return "place"
            quoted = bool(_QUOTES.intersection(near.gap(1)))
            spoken = near.before[0] in words["before_language"] and (quoted or not self._noun(near.after[0]))
            if spoken or near.after[0] in words["of_language"]:
                return "language"
        return "thing" if near.after[0] in words["things"] else ""

    def _noun(self, word: str) -> bool:
        return bool(word) and word not in self.function and word not in self.rules.words["capitals"]

    def _censored(self, near: Neighbours) -> bool:
        """Whether other letters of the word are hidden: "f**king"."""
        before, after = near.gap(-1)[-1:], near.gap(1)[:1]
        # On both sides it is emphasis: "*black* people".
        return before != after and not _CENSORS.isdisjoint((before, after))

    def _compound(self, near: Neighbours, spelling: str) -> bool:
        words, proper = self.rules.words, spelling[:1].isupper()
        if near.gap(1) in _HYPHENS and near.raw(1):
            other = near.raw(1).lower()
            if other not in words["suffixes"] and other not in self.people and not (proper and self.is_term(other)):
                return True
        if near.gap(-1) in _HYPHENS and near.raw(-1):
            other = near.raw(-1).lower()
            if other not in words["prefixes"] and not self.is_term(other):
                return True
        return False

    def _name(self, near: Neighbours, found: str, spelling: str, form: Form) -> bool:
        """Whether the match is part of a name: capitals beside it, a first name, a title."""
        if form.speech in ("name", "pronoun", "object", "determiner") or not found[:1].isupper() or found.isupper():
            return False
        words, lower = self.rules.words, found.lower()
        after = near.raw(1) if near.gap(1) == " " and form.number != "plural" else ""
        if lower in words["titles"]:
            return self._part(after) or (lower in words["royal"] and not near.begins())
        if spelling != spelling.lower():
            named = lower in words["also_names"] and (self._first(near) or after.lower() in words["surnames"])
            return named or self._part(after)
        inside = not near.begins() and near.gap(-1) == " "
        if inside and (self._first(near) or (not near.begins(-1) and self._part(near.raw(-1)))):
            return True
        return self._part(after)

    def _first(self, near: Neighbours) -> bool:
        """Whether a first name stands before."""
        before = near.raw(-1) if near.gap(-1) == " " else ""
        return before in self.rules.names["male"] or before in self.rules.names["female"]

    def _part(self, word: str) -> bool:
        """Whether a word can be part of a name."""
        lower = word.lower()
        known = self.function | self.people | self.rules.words["capitals"]
        return (
            bool(word)
            and word[:1].isupper()
            and word != word.upper()
            and lower not in known
            and not self.is_term(lower)
        )
