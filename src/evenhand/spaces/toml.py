"""Spaces as TOML files, for editing and version control.

The format::

    protected = ["sex"]
    constraints = ["hours <= 60 or age >= 3"]
    max_family_size = 1000                            # optional: the most counterparts of one individual

    [[attribute]]                           # one table for each column, in the model's order
    name = "age"
    kind = "integer"                        # integer, real, ordinal, nominal, boolean
    low = 17                                # integer and real; step is optional
    high = 90
    missing = true                          # optional: a missing value is valid; "drop": such rows are left out
    dtype = "Int64"                         # optional: the pandas dtype that the model gets

    [[attribute]]
    name = "relationship"
    kind = "nominal"
    values = ["Husband", "Wife", "Other"]   # ordinal (lowest first) and nominal

    [links.sex.relationship.Female]         # when sex becomes Female, Husband becomes Wife
    Husband = "Wife"

TOML has no missing value and only text for keys. In links, ``"<missing>"`` is the missing value, and keys
are the values as text (``30``, ``"0.5"``, ``True``); if two values of an attribute have the same text, the later one is
marked with a leading equals sign, ``"=1"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand._files import SHARED, check_limit, parse_toml, read_toml, replacing
from evenhand._format import visible, visible_toml
from evenhand._validate import check_path
from evenhand.errors import ConfigError, SpaceError
from evenhand.spaces.attributes import KINDS, Attribute, Boolean, Integer, Nominal, Ordinal, Real, suggest
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

MISSING = "<missing>"
_TOP = ("protected", "constraints", "max_family_size", "attribute", "links")
_FIELDS = {
    "integer": ("low", "high", "step"),
    "real": ("low", "high", "step"),
    "ordinal": ("values",),
    "nominal": ("values",),
    "boolean": (),
}
_COMMON = ("name", "kind", "missing", "dtype")
_WIDEST = 8
"""Maximum bytes of one value of a column; a dtype of fixed texts may claim any number."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def save(space: Space, path: str | Path) -> None:
    """Write a space to a file."""
    text = dumps(space)
    try:
        with replacing(Path(path), SHARED) as file:
            file.write(text.encode())
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{path}: the space cannot be written here ({reason})", remedy="choose another path"
        ) from None


def load(path: str | Path) -> Space:
    """Read a space from a file; ``save`` shows an example."""
    return loads(read_toml(check_path("path", path, ConfigError), ConfigError), str(path))


def dumps(space: Space) -> str:
    """Write a space as text; equal spaces give equal texts, except for comments about inference.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> print(dumps(Space([Integer("age", 1, 9), Boolean("sex")], protected="sex", constraints=["age > 1"])))
    protected = ["sex"]
    constraints = [
        "age > 1",
    ]
    max_family_size = 1000
    <BLANKLINE>
    [[attribute]]
    name = "age"
    kind = "integer"
    low = 1
    high = 9
    <BLANKLINE>
    [[attribute]]
    name = "sex"
    kind = "boolean"
    <BLANKLINE>
    """
    lines = [f"protected = {_array(space.protected)}"]
    if space.constraints:
        texts = [f"    {_literal(constraint.text)}," for constraint in space.constraints]
        lines += ["constraints = [", *texts, "]"]
    lines.append(f"max_family_size = {space.max_family_size}")
    reasons = {note.name: note.reason for note in space.notes}
    for attribute in space.attributes:
        lines += ["", "[[attribute]]"]
        if attribute.name in reasons:
            lines.append("# " + visible(reasons[attribute.name]))
        for key, value in _fields(attribute).items():
            written = _array(value, attribute.name) if key == "values" else _literal(value, attribute.name)
            lines.append(f"{key} = {written}")
    lines += _link_lines(space)
    return "\n".join(lines) + "\n"


def loads(text: str, source: str = "<text>") -> Space:
    """Read a space from text; ``source`` names it in errors."""
    from evenhand.spaces.tabular import Space

    content = parse_toml(text, source, ConfigError)
    reader = _Reader(source)
    if "limit" in content:  # The key's name in older files.
        content.setdefault("max_family_size", content.pop("limit"))
    reader.check_keys(content, _TOP, "the file")
    try:
        attributes = reader.attributes(content)
        space = Space(
            attributes,
            protected=reader.texts(content, "protected", required=True),
            constraints=reader.texts(content, "constraints"),
            links=reader.links(content, {a.name: a for a in attributes}),
            **{key: reader.field(content, key, "the file") for key in ("max_family_size",) if key in content},
        )
    except SpaceError as error:
        raise SpaceError(f"{source}: {error.reason}", remedy=error.remedy) from None
    check_limit(
        "space_counterparts", min(space.max_family_size, space.combinations), source, "write a lower max_family_size"
    )
    return space


class _Reader:
    """Converts a parsed file to the parts of a space; every error names the file and the key."""

    def __init__(self, source: str) -> None:
        self.source = source

    def error(self, problem: str, remedy: str = "") -> ConfigError:
        return ConfigError(f"{self.source}: {problem}", remedy=remedy)

    def check_keys(self, table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
        for key in table:
            if key not in allowed:
                raise self.error(f"unknown key {key!r:.100} in {where}", suggest(key, allowed))

    def field(self, table: Mapping[str, Any], key: str, where: str) -> Any:
        """Return a value after a check of its type."""
        value, (kind, types) = table[key], _TYPES[key]
        good = isinstance(value, types) and isinstance(value, bool) == (types is bool)
        if key == "missing":
            good = isinstance(value, bool) or value == "drop"
        if not good or (isinstance(value, float) and not math.isfinite(value)):
            raise self.error(f"{key!r} in {where} must be {kind}, got {_short(value)}")
        return value

    def texts(self, content: Mapping[str, Any], key: str, required: bool = False) -> list[str]:
        if key not in content and required:
            raise self.error(f"the key {key!r} is missing", f'add for example: {key} = ["sex"]')
        value = content.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise self.error(f"{key!r} must be a list of texts, got {_short(value)}")
        return values

    def attributes(self, content: Mapping[str, Any]) -> list[Attribute]:
        tables = content.get("attribute", [])
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise self.error("a space needs attributes", "write one [[attribute]] table for each column")
        check_limit("space_attributes", len(tables), self.source)
        return [self.attribute(table, f"attribute {number}") for number, table in enumerate(tables, 1)]

    def attribute(self, table: Mapping[str, Any], where: str) -> Attribute:
        for key in ("name", "kind"):
            if key not in table:
                raise self.error(f"the key {key!r} is missing in {where}", "every attribute has a name and a kind")
        name = self.field(table, "name", where)
        where = f"attribute {name!r}"
        kind = self.field(table, "kind", where)
        if kind not in KINDS:
            raise self.error(f"'kind' in {where} must be one of {', '.join(KINDS)}, got {kind!r}")
        self.check_keys(table, (*_COMMON, *_FIELDS[kind]), f"{where} of kind {kind}")
        for key in _FIELDS[kind]:
            if key not in table and key != "step":
                raise self.error(f"the key {key!r} is missing in {where} of kind {kind}")
        options = {key: self.field(table, key, where) for key in table if key not in ("name", "kind")}
        for value in options.get("values", []):
            if not isinstance(value, str | int | float) or value != value:
                raise self.error(f"'values' in {where} must be texts, numbers, true or false, got {_short(value)}")
        made = KINDS[kind](name, **options)
        self._check_dtype(made, where)
        return made

    def _check_dtype(self, attribute: Attribute, where: str) -> None:
        """Raise unless pandas can store values in the attribute's dtype in little memory: some are tried."""
        dtype = attribute.dtype
        if dtype is None:
            return
        import numpy as np

        try:
            found = pd.api.types.pandas_dtype(dtype)
        except (TypeError, ValueError, ImportError):
            raise self.error(f"'dtype' in {where} must be a dtype of pandas, got {dtype!r:.60}") from None
        if isinstance(found, np.dtype) and (found.kind in "SUV" or found.itemsize > _WIDEST):
            raise self.error(
                f"'dtype' in {where} must be one of numbers, booleans or objects, with at most {_WIDEST} bytes for "
                f"each value, got {dtype!r:.60}",
                'for texts use dtype = "object"',
            )
        codes = np.array(sorted({0, min(1, attribute.size - 1), attribute.present - 1, attribute.size - 1}))
        values = attribute.decode(codes)
        if isinstance(found, np.dtype) and found.kind in "iuf" and values.dtype.kind in "iuf":
            with np.errstate(invalid="ignore", over="ignore"):
                if (values.astype(found) == values).all():
                    return  # pandas takes a hundred times longer.
        try:
            attribute.column(codes)
        # pandas raises different exceptions for different dtypes.
        except Exception as error:
            reason = " ".join(str(error).split())[:150]
            problem = f"'dtype' in {where} cannot hold its values ({reason}), got {dtype!r:.60}"
            raise self.error(problem, "leave it out or name another") from None

    def links(self, content: Mapping[str, Any], attributes: Mapping[str, Attribute]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for protected, dependents in self._table(content.get("links", {}), "links").items():
            out[protected] = {}
            for dependent, by_value in self._table(dependents, f"links.{protected}").items():
                source, target = self._end(attributes, protected), self._end(attributes, dependent)
                where = f"links.{protected}.{dependent}"
                out[protected][dependent] = {
                    self._value(source, key, where): {
                        self._value(target, old, f"{where}.{key}"): self._new(target, new, f"{where}.{key}")
                        for old, new in self._table(mapping, f"{where}.{key}").items()
                    }
                    for key, mapping in self._table(by_value, where).items()
                }
        return out

    def _end(self, attributes: Mapping[str, Attribute], name: str) -> Attribute:
        if name not in attributes:
            raise self.error(f"[links] names {name!r}, which is not an attribute", suggest(name, attributes))
        return attributes[name]

    def _table(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(f"[{where}] must be a table, got {_short(value)}")
        return value

    def _value(self, attribute: Attribute, key: str, where: str) -> Any:
        """Return the value of a key."""
        if isinstance(attribute, Integer | Real):
            if key == MISSING:
                return None
            for number in (int, float):
                try:
                    return number(key)
                except ValueError:
                    continue
        else:
            keys = _keys(attribute)
            if key in keys:
                return keys[key]
        raise self.error(
            f"{key!r} in [{where}] is not a value of {attribute.name!r}", f"allowed: {attribute.allowed()}"
        )

    def _new(self, attribute: Attribute, value: Any, where: str) -> Any:
        if not isinstance(value, str | int | float):
            raise self.error(f"the values in [{where}] must be those of {attribute.name!r}, got {_short(value)}")
        return None if value == _missing_key(attribute) else value


_TYPES: dict[str, tuple[str, Any]] = {
    "name": ("a text", str),
    "kind": ("a text", str),
    "dtype": ("a text", str),
    "low": ("a number", int | float),
    "high": ("a number", int | float),
    "step": ("a number", int | float),
    "values": ("a list", list),
    "missing": ('true, false or "drop"', bool),
    "max_family_size": ("a whole number", int),
}


def _fields(attribute: Attribute) -> dict[str, Any]:
    """Return the fields of an attribute that differ from their defaults."""
    out: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    if isinstance(attribute, Integer | Real):
        out |= {"low": attribute.low, "high": attribute.high, "step": attribute.step}
        if isinstance(attribute, Integer) and attribute.step == 1:
            del out["step"]
    elif isinstance(attribute, Ordinal | Nominal):
        out["values"] = attribute.values
    if missing := getattr(attribute, "missing", False):
        out["missing"] = missing
    if attribute.dtype is not None:
        out["dtype"] = attribute.dtype
    return out


def _link_lines(space: Space) -> Iterator[str]:
    attributes = {a.name: a for a in space.attributes}
    for protected, dependents in space.links.items():
        if not dependents:
            yield from ("", _header(protected))
        for dependent, by_value in dependents.items():
            if not by_value:
                yield from ("", _header(protected, dependent))
            for value, mapping in by_value.items():
                yield from ("", _header(protected, dependent, _key_of(attributes[protected], value)))
                target = attributes[dependent]
                for old, new in mapping.items():
                    written = _missing_key(target) if _is_missing(new) else new
                    yield f"{_key(_key_of(target, old))} = {_literal(written, dependent)}"


def _keys(attribute: Attribute) -> dict[str, Any]:
    """Return the values of a listed attribute by the texts of their keys, the missing value last."""
    assert isinstance(attribute, Boolean | Nominal | Ordinal)
    keys: dict[str, Any] = {}
    for value in [*attribute.values, *[None] * attribute.has_missing]:
        key = MISSING if value is None else str(value)
        while key in keys:
            key = "=" + key
        keys[key] = value
    return keys


def _key_of(attribute: Attribute, value: Any) -> str:
    if isinstance(attribute, Integer | Real):
        return MISSING if _is_missing(value) else str(value)
    keys = list(_keys(attribute))
    return keys[attribute.code(value)]


def _missing_key(attribute: Attribute) -> str | None:
    """Return the text for the missing value of an attribute, if it has one."""
    return _key_of(attribute, None) if attribute.has_missing else None


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _header(*keys: str) -> str:
    return "[" + ".".join(["links", *map(_key, keys)]) + "]"


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _literal(text)


def _literal(value: Any, name: str = "") -> str:
    """Write a value as TOML."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and not math.isnan(value):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    problem = f"{name!r} has the value {_short(value)} ({type(value).__name__}), which TOML cannot hold"
    raise ConfigError(problem, remedy="use texts, numbers or booleans, and missing=True for no value")


def _array(values: Iterable[Any], name: str = "") -> str:
    return "[" + ", ".join(_literal(value, name) for value in values) + "]"


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        problem = f"the text {value!r} is not valid Unicode, so it cannot be written"
        raise ConfigError(problem, remedy="rename it") from None
    return visible_toml(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
