"""Lexicons: the protected terms of an attribute, by identity and form.

A lexicon is a table. Its rows are identities (Christian, Muslim), its columns are forms (adjective, person, people,
faith), and a cell has the ways to spell the term, the one that is written first. A swap stays in its column, so it
stays grammatical. ``toml`` has the format of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand.errors import SpaceError
from evenhand.space.names import suggest

NAMES = ("age", "country", "ethnic", "gender", "names", "orientation", "race", "religion")

Spellings = tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """A column of a lexicon: terms that can stand for each other in a sentence."""

    name: str
    speech: str = "noun"
    number: str = ""


@dataclass(frozen=True)
class Lexicon:
    """The terms of one protected attribute.

    >>> religion = load("religion")
    >>> religion.form("person").number, religion.terms("faith")[:3]
    ('singular', ['Christianity', 'Catholicism', 'Protestantism'])
    """

    name: str
    forms: tuple[Form, ...]
    identities: tuple[str, ...]
    cells: tuple[tuple[Spellings, ...], ...]
    """The spellings of each identity (row) in each form (column); none where it has no such form."""
    ambiguous: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    capital: bool = False
    sources: tuple[str, ...] = ()

    def form(self, name: str) -> Form:
        """Return a form by its name."""
        return self.forms[self._column(name)]

    def terms(self, form: str) -> list[str]:
        """Return the terms of a form as they are written."""
        column = self._column(form)
        return [row[column][0] for row in self.cells if row[column]]

    def _column(self, name: str) -> int:
        """Find a form; of two with one name the first."""
        names = [form.name for form in self.forms]
        if name not in names:
            raise SpaceError(f"the lexicon {self.name!r} has no form {name!r}; {suggest(name, names)}")
        return names.index(name)

    def spellings(self) -> Iterator[tuple[int, int, str]]:
        """Go through (identity, form, spelling) of everything that is recognised.

        "black person" and "black people" are only written: where they are read, "black" is the term.
        """
        for i, row in enumerate(self.cells):
            known = {spelling for spellings in row for spelling in spellings}
            for j, spellings in enumerate(row):
                for spelling in spellings:
                    start, _, end = spelling.rpartition(" ")
                    if end not in ("person", "people") or start not in known:
                        yield i, j, spelling


def load(given: str | Path | Mapping[str, Any] | Lexicon) -> Lexicon:
    """Get a lexicon: one of ours by its name, a TOML file by its path, or a dict of one name with its terms.

    >>> load("race").identities[:3]
    ('Native American', 'Asian', 'black')
    >>> load({"team": ["reds", "blues"]}).terms("term")
    ['reds', 'blues']
    """
    from evenhand.text import toml

    if isinstance(given, Lexicon):
        return given
    if isinstance(given, Mapping):
        if len(given) != 1:
            raise SpaceError(
                f"a lexicon is a dict of its name and its terms, {{'team': ['reds', 'blues']}}; got {given!r:.60}"
            )
        (name, content), *_ = given.items()
        return toml.lexicon(content if isinstance(content, Mapping) else {"terms": content}, str(name))
    if given in NAMES:
        return _ours(str(given))
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".toml")):
        return toml.load(given)
    raise SpaceError(f"no lexicon {given!r}; {suggest(str(given), NAMES)}, or give a .toml file or {{name: [terms]}}")


def load_all(given: Any) -> tuple[Lexicon, ...]:
    """Get lexicons from one thing that ``load`` takes, or from several.

    >>> [lexicon.name for lexicon in load_all(["race", {"team": ["reds", "blues"]}])]
    ['race', 'team']
    """
    if isinstance(given, Mapping):
        found = [load({name: terms}) for name, terms in given.items()]
    elif isinstance(given, str | Path | Lexicon):
        found = [load(given)]
    elif isinstance(given, Sequence):
        found = [lexicon for part in given for lexicon in load_all(part)]
    else:
        raise SpaceError(f"protected must name lexicons, got {given!r:.60}; {suggest('', NAMES)}")
    names = [lexicon.name for lexicon in found]
    if not names or len(set(names)) < len(names):
        raise SpaceError(f"name at least one lexicon, and each once; got {names}")
    return tuple(found)


@lru_cache(maxsize=8)
def protected_words(more: tuple[Lexicon, ...] = ()) -> frozenset[str]:
    """Return every term of every lexicon of ours, and of more, in lower case; phrases also with hyphens.

    >>> {"muslims", "african-american", "she"} <= protected_words()
    True
    """
    spellings = {s.lower() for lexicon in (*map(load, NAMES), *more) for _, _, s in lexicon.spellings()}
    return frozenset(spellings | {spelling.replace(" ", "-") for spelling in spellings})


@lru_cache(maxsize=len(NAMES))
def _ours(name: str) -> Lexicon:
    from evenhand.text import toml

    return toml.loads(files("evenhand.text").joinpath("lexicons", f"{name}.toml").read_text("utf-8"), name)
