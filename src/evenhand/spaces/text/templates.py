"""Texts from templates: sentences with slots, so that a model of texts can be audited without any data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand._files import check_limit, parse_toml, read_toml
from evenhand._validate import check_int
from evenhand.errors import ConfigError, SpaceError
from evenhand.spaces.attributes import suggest
from evenhand.spaces.text.lexicon import Lexicon
from evenhand.spaces.text.space import BoundTextSpace, Embed, TextSpace
from evenhand.spaces.text.tokens import vowel

FORMS = ("adjective", "person", "people", "name")
"""Slots of identities: which form of a lexicon stands there. Lists of templates have the same names."""
MOST = 2_000
"""Default maximum of texts."""
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa])n? \{(\w+)\}")


class TextTemplates(TextSpace):
    """A space of texts that brings its own: templates with slots for identities, names, occupations and so on.

    Each text names the first identity of a lexicon; the others are its counterparts.

    Parameters
    ----------
    protected
        Lexicons, as in ``TextSpace``; ``"race*gender"`` combines two, such as "black woman". Each needs a form that
        fits a slot: an adjective, a person, people or a name.
    templates
        A ``.toml`` file (lists ``adjective``, ``person``, ``people`` and ``name`` of sentences, and a table ``slots``)
        or such a mapping; by default the built-in ones.
    most
        Maximum number of texts; if there are more, they are chosen evenly.
    settings
        Further settings of ``TextSpace``.

    Examples
    --------
    >>> import evenhand as eh
    >>> def model(texts):
    ...     return ["rude" if "Muslim" in text and "lazy" in text else "fine" for text in texts]
    >>> run = eh.audit(model, eh.TextTemplates("religion"))
    >>> run.found > 0, run.findings["text"].min()
    (True, 'I have never met a Christian who was so lazy.')
    """

    def __init__(
        self,
        protected: Any,
        templates: str | Path | Mapping[str, Any] | None = None,
        *,
        most: int = MOST,
        similar: Any = None,
        **settings: Any,
    ) -> None:
        # What stands in a slot is an identity: no context is needed to see it.
        super().__init__(protected, similar, **{"ambiguous": "always"} | settings)
        content, source = _content(templates)
        most = check_int("most", most, SpaceError, 1)
        self.texts = [text for lexicon in self.lexicons for text in _filled(content, lexicon, most, source)]
        """The texts."""
        if not self.texts:
            known = ", ".join(name for name in FORMS if name in content)
            problem = f"no template fits {', '.join(self.protected)}"
            raise SpaceError(
                problem, parameter="templates", value=source, remedy=f"add one; there are some for {known}"
            )

    def begin(self, data: Any, embed: Embed | None = None, words: Sequence[str] | None = None) -> BoundTextSpace:
        """Parse the texts of the data; without data those of the templates."""
        return super().begin(self.texts if data is None else data, embed, words)

    @property
    def own_data(self) -> list[str]:
        """The texts that are used where no data are given."""
        return self.texts


def _content(given: str | Path | Mapping[str, Any] | None) -> tuple[Mapping[str, Any], str]:
    """Return checked templates, and where they are from."""
    if given is None:
        return _ours(), "templates.toml"
    if isinstance(given, Mapping):
        return _checked(given, "templates"), "templates"
    path = Path(given)
    return _checked(parse_toml(read_toml(path, ConfigError), str(path), ConfigError), str(path)), str(path)


@lru_cache(maxsize=1)
def _ours() -> Mapping[str, Any]:
    text = files("evenhand.spaces.text").joinpath("templates.toml").read_text("utf-8")
    return _checked(parse_toml(text, "templates.toml", ConfigError), "templates.toml")


def _checked(content: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    def texts(value: Any, key: str) -> list[str]:
        if not isinstance(value, list | tuple) or not value or not all(isinstance(one, str) and one for one in value):
            raise SpaceError(f"{source}: must be a list of texts that is not empty", parameter=key, value=value)
        return list(value)

    tables = []
    for key in ("slots", "skip"):
        given = content.get(key, {})
        if not isinstance(given, Mapping):
            raise SpaceError(f"{source}: must be a table of lists", parameter=key, value=given)
        tables.append({str(name): texts(words, str(name)) for name, words in given.items()})
    for key in content:
        if key not in (*FORMS, "slots", "skip", "sources"):
            raise SpaceError(f"{source}: unknown key {key!r:.60}", remedy=suggest(str(key), (*FORMS, "slots", "skip")))
    slots, skip = tables
    out: dict[str, Any] = {"slots": slots, "skip": skip}
    for form in FORMS:
        out[form] = texts(content[form], form) if form in content else []
        for text in out[form]:
            named = _SLOT.findall(text)
            unknown = [name for name in named if name not in slots and name != form]
            if unknown:
                known = (form, *slots)
                remedy = suggest(unknown[0], known)
                raise SpaceError(f"{source}: {text!r:.80} has an unknown slot {unknown[0]!r:.40}", remedy=remedy)
            if form not in named:
                raise SpaceError(f"{source}: {text!r:.80} lacks the slot {form!r}", remedy="add it, or move the text")
    return out


def _filled(content: Mapping[str, Any], lexicon: Lexicon, most: int, source: str) -> list[str]:
    """Fill the templates whose form a lexicon has, evenly chosen if there are more than ``most`` texts."""
    made: list[str] = []
    for form in FORMS:
        at = _column(lexicon, form)
        if at is None or form in content["skip"].get(lexicon.name, ()):
            continue
        term = next(lexicon.written(i, at)[0] for i, row in enumerate(lexicon.cells) if row[at])
        for text in content[form]:
            slots = [name for name in dict.fromkeys(_SLOT.findall(text)) if name != form]
            total = 1
            for name in slots:
                total *= len(content["slots"][name])
            check_limit("lexicon_cells", total, source)
            rows = itertools.product(*(content["slots"][name] for name in slots))
            made += [_write(text, dict(zip(slots, words, strict=True)) | {form: term}) for words in rows]
    if len(made) <= most:
        return made
    return [made[n * len(made) // most] for n in range(most)]


def _column(lexicon: Lexicon, form: str) -> int | None:
    """Return the column of a lexicon that fits a slot, the one with the most identities."""
    wanted = {
        "adjective": ("adjective", ""),
        "person": ("noun", "singular"),
        "people": ("noun", "plural"),
        "name": ("name", "singular"),
    }[form]
    fitting = [j for j, one in enumerate(lexicon.forms) if (one.speech, one.number) == wanted]
    if form == "name" and not lexicon.capital:
        return None  # Titles: "Mr" is no name.
    sizes = [sum(bool(row[j]) for row in lexicon.cells) for j in fitting]
    return fitting[sizes.index(max(sizes))] if sizes and max(sizes) > 1 else None


def _write(template: str, words: Mapping[str, str]) -> str:
    """Fill a template; articles fit, and a sentence begins with a capital."""
    text = _ARTICLE.sub(lambda m: f"{m[1]}{'n' * vowel(words[m[2]])} {{{m[2]}}}", template)
    text = _SLOT.sub(lambda slot: words[slot[1]], text)
    return text[:1].upper() + text[1:]
