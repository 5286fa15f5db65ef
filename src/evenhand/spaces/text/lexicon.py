"""Lexicons: the protected terms of an attribute, by identity and form.

A lexicon is a table. Its rows are identities (Christian, Muslim), its columns are forms (adjective, person, people,
faith), and a cell has the spellings of the term, of which the first is used for writing. A swap stays in its column, so
the text stays grammatical.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand._files import check_limit, parse_toml, read_toml
from evenhand.errors import ConfigError, SpaceError
from evenhand.spaces.attributes import suggest
from evenhand.spaces.text.tokens import split

NAMES = (
    "age",
    "caste",
    "country",
    "disability",
    "ethnic",
    "first_names",
    "gender",
    "indigenous",
    "migration",
    "names",
    "orientation",
    "race",
    "religion",
)

Spellings = tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """A column of a lexicon: terms that can replace each other in a sentence."""

    name: str
    speech: str = "noun"
    number: str = ""


@dataclass(frozen=True)
class Lexicon:
    """The terms of one protected attribute.

    >>> load("religion").terms("faith")[:3]
    ['Christianity', 'Catholicism', 'Protestantism']
    """

    name: str
    forms: tuple[Form, ...]
    identities: tuple[str, ...]
    cells: tuple[tuple[Spellings, ...], ...]
    """The spellings of each identity (row) in each form (column); none if it has no such form."""
    ambiguous: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    capital: bool = False
    sources: tuple[str, ...] = ()
    rare: frozenset[str] = frozenset()
    """Spellings that are recognised but never written, in lower case."""
    unread: frozenset[str] = frozenset()
    """Spellings that are written but never recognised, in lower case: "they" is mostly a plural."""
    ties: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By identity, words that tie a text to it, so that no other identity fits: a mosque speaks of Muslims."""
    against: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By identity, words of a text in which it does not fit: "he" for lesbian."""

    def written(self, identity: int, form: int) -> list[str]:
        """Return the common spellings of an identity in a form: those that are written."""
        cell = self.cells[identity][form]
        return [spelling for n, spelling in enumerate(cell) if not n or spelling.lower() not in self.rare]

    def terms(self, form: str) -> list[str]:
        """Return the terms of a form as they are written; of two forms with one name the first."""
        names = [form.name for form in self.forms]
        if form not in names:
            raise SpaceError(f"the lexicon {self.name!r} has no form {form!r}", value=form, remedy=suggest(form, names))
        return [row[names.index(form)][0] for row in self.cells if row[names.index(form)]]

    def spellings(self) -> Iterator[tuple[int, int, str]]:
        """Yield (identity, form, spelling) of all terms that are recognised.

        "black person" and "black people" are only written: in a text, "black" is the term.
        """
        for i, row in enumerate(self.cells):
            known = {spelling for spellings in row for spelling in spellings}
            for j, spellings in enumerate(row):
                for spelling in spellings:
                    start, _, end = spelling.rpartition(" ")
                    written_only = end in ("person", "people") and start in known
                    if not written_only and spelling.lower() not in self.unread:
                        yield i, j, spelling

    def by_spelling(self) -> Lexicon:
        """Return the same terms with each spelling as an identity of its own, so that spellings swap too.

        >>> lexicon = Lexicon("orientation", (Form("adjective"),), ("gay",), ((("gay", "homosexual"),),))
        >>> lexicon.by_spelling().cells
        ((('gay',),), (('homosexual',),))
        """
        ranks = [(name, row, rank) for name, row in zip(self.identities, self.cells, strict=True)
                 for rank in range(max(map(len, row)))]  # fmt: skip
        names = tuple(f"{name} {rank + 1}" if rank else name for name, _, rank in ranks)
        return replace(
            self,
            ties=(),
            against=(),
            identities=names,
            cells=tuple(tuple(c[r : r + 1] for c in row) for _, row, r in ranks),
        )


def load(given: str | Path | Mapping[str, Any] | Lexicon) -> Lexicon:
    """Return a lexicon: a built-in one by its name, a TOML file by its path, or a dict of one name with its terms."""
    if isinstance(given, Lexicon):
        return given
    if isinstance(given, Mapping):
        if len(given) != 1:
            form = "{'team': ['reds', 'blues']}"
            raise SpaceError(f"must have one name and its terms, such as {form}", parameter="protected", value=given)
        (name, content), *_ = given.items()
        return build_lexicon(content if isinstance(content, Mapping) else {"terms": content}, str(name))
    if given in NAMES:
        return _ours(str(given))
    if isinstance(given, str) and "*" in given:
        return crossed(*(load(name.strip()) for name in given.split("*", 1)))
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".toml")):
        return read_lexicon(given)
    remedy = f"{suggest(str(given), NAMES)} (or give a .toml file, {{name: [terms]}}, or two names as in race*gender)"
    raise SpaceError("must name a lexicon", parameter="protected", value=given, remedy=remedy)


def crossed(first: Lexicon, second: Lexicon) -> Lexicon:
    """Combine two lexicons: the adjectives of the first with the nouns of the second.

    A text with a pronoun or another word that is tied to one part is not swapped, because that word would stay.

    >>> lexicon = crossed(load("race"), load("gender"))
    >>> lexicon.identities[8], lexicon.terms("man/woman/nonbinary person/transgender person")[8]
    ('black male', 'black man')
    """
    speeches = [form.speech for form in first.forms]
    columns = [j for j, form in enumerate(second.forms) if form.speech == "noun" and form.number in NUMBERS[1:3]]
    if "adjective" not in speeches or not columns:
        problem = f"{first.name!r} and {second.name!r} cannot be combined"
        raise SpaceError(problem, parameter="protected", remedy="the first needs adjectives, the second nouns")
    at, own = speeches.index("adjective"), dict(second.ties)
    pronouns = [j for j, form in enumerate(second.forms) if form.speech in ("pronoun", "object", "determiner")]
    names, cells, ties = [], [], []
    for i, one in enumerate(first.identities):
        for k, other in enumerate(second.identities):
            adjectives = first.written(i, at) if first.cells[i][at] else []
            nouns = [second.written(k, j) if second.cells[k][j] else [] for j in columns]
            cells.append(tuple(tuple(f"{a} {noun}" for a in adjectives for noun in cell) for cell in nouns))
            names.append(f"{one} {other}")
            said = (word for j in pronouns for s in second.cells[k][j] if s.lower() not in second.unread
                    for word in split(s)[1:2])  # fmt: skip
            ties.append((names[-1], tuple(dict.fromkeys((*dict(first.ties).get(one, ()), *own.get(other, ()), *said)))))
    kept = [n for n, row in enumerate(cells) if any(row)]
    return Lexicon(
        f"{first.name}*{second.name}",
        tuple(second.forms[j] for j in columns),
        tuple(names[n] for n in kept),
        tuple(cells[n] for n in kept),
        sources=first.sources + second.sources,
        ties=tuple(ties[n] for n in kept),
    )


def load_all(given: Any) -> tuple[Lexicon, ...]:
    """Return lexicons from one argument of ``load``, or from a list of them."""
    if isinstance(given, Mapping):
        found = [load({name: terms}) for name, terms in given.items()]
    elif isinstance(given, str | Path | Lexicon):
        found = [load(given)]
    elif isinstance(given, Sequence):
        found = [lexicon for part in given for lexicon in load_all(part)]
    else:
        raise SpaceError("must name lexicons", parameter="protected", value=given, remedy=suggest("", NAMES))
    names = [lexicon.name for lexicon in found]
    if not names or len(set(names)) < len(names):
        raise SpaceError("must name at least one lexicon, and each once", parameter="protected", value=names)
    return tuple(found)


@lru_cache(maxsize=8)
def protected_words(more: tuple[Lexicon, ...] = ()) -> frozenset[str]:
    """Return every term of the built-in lexicons, and of more, in lower case; phrases also with hyphens."""
    spellings = {s.lower() for lexicon in (*map(load, NAMES), *more) for _, _, s in lexicon.spellings()}
    return frozenset(spellings | {spelling.replace(" ", "-") for spelling in spellings})


@lru_cache(maxsize=len(NAMES))
def _ours(name: str) -> Lexicon:
    return parse_lexicon(files("evenhand.spaces.text").joinpath("lexicons", f"{name}.toml").read_text("utf-8"), name)


SPEECHES = ("noun", "adjective", "pronoun", "object", "determiner", "name")
NUMBERS = ("", "singular", "plural", "mass")
_KEYS = (
    "sources",
    "identities",
    "forms",
    "terms",
    "ambiguous",
    "except",
    "capital",
    "rare",
    "unread",
    "ties",
    "against",
)


def read_lexicon(path: str | Path) -> Lexicon:
    """Read a lexicon from a file; it is named like the file."""
    path = Path(path)
    return parse_lexicon(read_toml(path, ConfigError), path.stem, str(path))


def parse_lexicon(text: str, name: str, source: str = "") -> Lexicon:
    """Read a lexicon from text."""
    content = parse_toml(text, source or name, ConfigError)
    return build_lexicon(content, name, source)


def build_lexicon(content: Mapping[str, Any], name: str, source: str = "") -> Lexicon:
    """Make a lexicon from parsed TOML."""
    return _Reader(name, source or f"the lexicon {name!r}").lexicon(content)


class _Reader:
    """Turns parsed TOML into a lexicon; every error names where it comes from."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def error(self, problem: str, remedy: str = "") -> SpaceError:
        return SpaceError(f"{self.source}: {problem}", remedy=remedy)

    def lexicon(self, content: Mapping[str, Any]) -> Lexicon:
        for key in content:
            if key not in _KEYS:
                raise self.error(f"unknown key {key!r:.100}", suggest(str(key), _KEYS))
        forms, cells = self.by_form(content) if "identities" in content else self.by_identity(content)
        identities = content.get("identities") or [next(filter(None, row))[0] for row in cells]
        capital = content.get("capital", False)
        if not isinstance(capital, bool):
            raise self.error(f"'capital' must be true or false, got {capital!r:.60}")
        made = Lexicon(
            self.name,
            tuple(forms),
            tuple(identities),
            tuple(map(tuple, cells)),
            frozenset(text.lower() for text in self.texts(content, "ambiguous")),
            tuple(self.phrases(content)),
            capital,
            tuple(self.texts(content, "sources")),
            frozenset(text.lower() for text in self.texts(content, "rare")),
            frozenset(text.lower() for text in self.texts(content, "unread")),
            self.words(content, "ties", identities),
            self.words(content, "against", identities),
        )
        self.check(made)
        return made

    def by_identity(self, content: Mapping[str, Any]) -> tuple[list[Form], list[list[Spellings]]]:
        """Read one line for each identity."""
        given = self.rows(content, "terms")
        rows = [[row] if isinstance(row, str) else row for row in given]
        tables = self.rows(content, "forms") if "forms" in content else [{"name": "term"}]
        forms = [self.form(table, f"form {number}") for number, table in enumerate(tables, 1)]
        if len({form.name for form in forms}) < len(forms):
            raise self.error(f"names of forms must differ, got {[form.name for form in forms]!r:.60}")
        check_limit("lexicon_cells", len(rows) * len(forms), self.source)
        return forms, [self.row(row, len(forms), "forms") for row in rows]

    def by_form(self, content: Mapping[str, Any]) -> tuple[list[Form], list[list[Spellings]]]:
        """Read one line for each form; its name is its terms."""
        identities = self.texts(content, "identities")
        if len(set(identities)) < len(identities):
            raise self.error(f"names of identities must differ, got {identities!r:.60}")
        if "terms" in content:
            raise self.error("with 'identities', terms belong below [[forms]]", "write one line for each form")
        forms, columns = [], []
        tables = [table if isinstance(table, Mapping) else {} for table in self.rows(content, "forms")]
        lines = [self.rows(table, "terms") for table in tables]
        check_limit("lexicon_cells", sum(map(len, lines)) * len(identities), self.source)
        for number, (table, rows) in enumerate(zip(tables, lines, strict=True), 1):
            where = f"forms {number}"
            for given in rows:
                columns.append(self.row(given, len(identities), "identities"))
                name = "/".join(cell[0] for cell in columns[-1] if cell)
                forms.append(self.form({k: v for k, v in table.items() if k != "terms"} | {"name": name}, where))
        return forms, [list(row) for row in zip(*columns, strict=True)]

    def form(self, table: Any, where: str) -> Form:
        if not isinstance(table, Mapping) or not table.keys() <= {"name", "speech", "number"}:
            raise self.error(f"{where} must be a table of name, speech and number, got {table!r:.60}")
        for key, allowed in (("speech", SPEECHES), ("number", NUMBERS)):
            if table.get(key, allowed[0]) not in allowed:
                words = ", ".join(filter(None, allowed))
                raise self.error(f"{key!r} of {where} must be one of {words}, got {table[key]!r:.60}")
        if not isinstance(table.get("name"), str) or not table["name"]:
            raise self.error(f"the key 'name' is missing in {where}", "every form has a name")
        return Form(**table)

    def row(self, row: Any, width: int, of: str) -> list[Spellings]:
        """Read a line: a term is a text, several spellings, or an empty text if there is none."""
        if not isinstance(row, Sequence) or isinstance(row, str) or not 0 < len(row) <= width:
            raise self.error(f"a line of terms must be a list of at most {width} ({of}), got {row!r:.60}")
        cells = [tuple(cell) if isinstance(cell, list | tuple) else (cell,) if cell != "" else () for cell in row]
        for spelling in (spelling for cell in cells for spelling in cell):
            if not isinstance(spelling, str) or len(tokens := split(spelling)) < 3 or tokens[0] or tokens[-1]:
                raise self.error(f"a term must be a text that begins and ends with a word, got {spelling!r:.60}")
        if not any(cells):
            raise self.error(f"the line {row!r:.60} has no term", "remove it")
        return cells + [()] * (width - len(cells))

    def rows(self, content: Mapping[str, Any], key: str) -> Sequence[Any]:
        value = content.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise self.error(f"{key!r} must be a list that is not empty, got {value!r:.60}")
        return value

    def texts(self, content: Mapping[str, Any], key: str) -> list[str]:
        value = content.get(key, [])
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
            raise self.error(f"{key!r} must be a list of texts, got {value!r:.60}")
        return list(value)

    def words(
        self, content: Mapping[str, Any], key: str, identities: Sequence[str]
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Read a table of words by identity: lists, or texts with spaces between the words."""
        given = content.get(key, {})
        if not isinstance(given, Mapping):
            raise self.error(f"{key!r} must be a table of words by identity, got {given!r:.60}")
        out = []
        for name, value in given.items():
            if name not in identities:
                raise self.error(
                    f"{key!r} names {name!r:.60}, which is not an identity", suggest(str(name), identities)
                )
            out.append((name, tuple(value.split() if isinstance(value, str) else self.texts(given, name))))
        return tuple(out)

    def phrases(self, content: Mapping[str, Any]) -> list[str]:
        found = self.texts(content, "except")
        for phrase in found:
            if len(split(phrase)) < 3:
                raise self.error(f"a phrase of 'except' must have a word, got {phrase!r:.60}")
        return found

    def check(self, made: Lexicon) -> None:
        """Raise unless each term has one identity and can be swapped."""
        if not any(sum(map(bool, column)) > 1 for column in zip(*made.cells, strict=True)):
            raise self.error("no form has two terms, so nothing can be swapped", "add terms")
        owners: dict[tuple[int, str], int] = {}
        for i, j, spelling in made.spellings():
            # Normalised for lookup: in lower case, with hyphens as spaces.
            words = " ".join(split(spelling.lower())[1::2])
            if owners.setdefault((j, words), i) != i:
                both = f"{made.identities[owners[j, words]]!r} and {made.identities[i]!r}"
                raise self.error(f"{spelling!r} is a term of both {both}", "give a form of a term one identity")
        for key in ("ambiguous", "rare"):
            unknown = getattr(made, key) - {spelling.lower() for _, _, spelling in made.spellings()}
            if unknown:
                raise self.error(f"{key!r} names {sorted(unknown)[0]!r}, which is not a term", "list it in 'terms' too")
