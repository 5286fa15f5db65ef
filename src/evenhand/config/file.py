"""The settings of one call: those of evenhand.toml, overridden by flags.

The schema checks values. Errors name the flag, or the file and key, of the wrong value.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from evenhand._files import parse_toml, read_toml
from evenhand._format import visible, visible_toml
from evenhand._validate import range_text
from evenhand.config.schema import (
    PER_CALL,
    SETTINGS,
    TABLES,
    AuditTable,
    EstimateTable,
    RepairTable,
    Setting,
    Settings,
    Where,
)  # fmt: skip
from evenhand.errors import UNSET, ConfigError, EvenhandError, StrategyError, Use
from evenhand.models.files import PICKLES, SAFE, is_url
from evenhand.plugins import is_spec

NONE = ("none", "null", "")
STRATEGY = AuditTable.strategy
"""The default searches, of rows and of texts."""
Tables = dict[str, dict[str, Any]]


@dataclass
class Config(Settings):
    """All settings of one call, and where they come from.

    >>> Config().audit.strategy
    'auto'
    """

    command: str = field(default="", repr=False)
    head: str = field(default="", repr=False)
    """How a message about the file begins: with its name."""
    in_file: Tables = field(default_factory=dict, repr=False)
    by_flag: Tables = field(default_factory=dict, repr=False)

    def located(self, error: EvenhandError, *places: str) -> ConfigError:
        """Return an error that names the flag, or the file and key, that it is about.

        That is the setting of the error's parameter; without one, the first of ``places`` that has a value.

        >>> error = ConfigError("must be at least 1", parameter="tests", value=0)
        >>> str(Config(command="audit").located(error))
        '--budget-tests must be at least 1, got 0'
        """
        settings = [SETTINGS[place] for place in places] or [
            one
            for one in SETTINGS.values()
            if self.command in one.commands or (not one.commands and self.has(one, self.in_file))
        ]
        about = [one for one in settings if error.parameter in one.parameters]
        given = [one for one in about or (settings if places else []) if self.given(one)]
        setting = next(iter(given or about), None)
        if setting is None:
            text = error_text(error)
        else:
            where: Where = "flag" if self.has(setting, self.by_flag) or not given else "file"
            name = spell(setting) if where == "flag" else self.head + setting.place
            text = error_text(error, where, name) if about else f"{name}: {error_text(error, where)}"
        located = ConfigError(text)
        for note in getattr(error, "__notes__", ()):
            located.add_note(note)
        return located

    @contextmanager
    def named(self, *places: str) -> Iterator[None]:
        """Locate errors about some settings; by default those of the command."""
        try:
            yield
        except EvenhandError as error:
            raise self.located(error, *places) from None

    def given(self, setting: Setting) -> bool:
        """Whether the file or a flag has a value for a setting."""
        return self.has(setting, self.by_flag) or self.has(setting, self.in_file)

    @staticmethod
    def has(setting: Setting, tables: Tables) -> bool:
        """Whether some tables have a value for a setting."""
        return setting.key in tables.get(setting.table, {})


def read(path: Path | None, flags: Tables, command: str = "") -> Config:
    """Read a file, if there is one, and apply the flags of a command.

    >>> config = read(None, {"audit": {"seed": "3", "settings": ["share=0.5"]}, "call": {"quiet": True}})
    >>> config.audit.seed, config.audit.settings, config.call.quiet
    (3, {'share': 0.5}, True)
    """
    head = "" if path is None else f"{path}: "
    in_file = {} if path is None else _parse(path)
    _check_names(in_file, head)
    tables = {
        name: {key: checked(SETTINGS[f"{name}.{key}"], value, "file", head) for key, value in table.items()}
        for name, table in in_file.items()
    }
    if path is not None:
        _resolve_paths(tables, path.parent)
    by_flag = {
        name: {
            # Their types depend on the search, which is not known yet.
            key: value if key == "settings" else checked(SETTINGS[f"{name}.{key}"], value)
            for key, value in table.items()
        }
        for name, table in flags.items()
        if table
    }
    # "evenhand init" has flags for both kinds of data, and --text to choose.
    texts = command != "init" and ("text" in tables or "text" in by_flag)
    if texts and "protected" in by_flag.get("space", {}):
        by_flag.setdefault("text", {})["protected"] = by_flag["space"].pop("protected")
    merged = _merge(tables, by_flag)
    beside = [f"{name}.{key}" for name in ("data", "space") for key in merged.get(name, {})]
    if texts and beside:
        raise ConfigError(
            f"{head}texts and rows cannot be combined, and {', '.join(beside)} is for rows",
            remedy="leave it out, or [text] and --texts",
        )
    made = {name: kind(**merged.get(name, {})) for name, kind in TABLES.items() if name != "text" or name in merged}
    return Config(**made, command=command, head=head, in_file=in_file, by_flag=by_flag)  # type: ignore[arg-type]


def _parse(path: Path) -> Tables:
    if not path.exists():
        raise ConfigError(f"{path}: no such file", remedy="'evenhand init' writes one")
    return parse_toml(read_toml(path, ConfigError, "give data with --data"), str(path), ConfigError)


def _check_names(tables: Any, head: str) -> None:
    """Raise if a file has an unknown table or key."""
    from evenhand.spaces.attributes import suggest

    known = [name for name in TABLES if name not in PER_CALL]
    for name, table in tables.items():
        if name not in known:
            what = f"table [{name}]" if isinstance(table, dict) else f"key {name!r}"
            raise ConfigError(f"{head}unknown {what}", remedy=suggest(name, known))
        if not isinstance(table, dict):
            raise ConfigError("must be a table", parameter=f"{head}[{name}]", value=table)
        for key in table:
            if f"{name}.{key}" not in SETTINGS:
                raise ConfigError(f"{head}unknown key '{name}.{key:.100}'", remedy=unknown_key(name, key))


def unknown_key(table: str, key: str) -> str:
    """Suggest what to write instead of a key that a table does not have.

    >>> unknown_key("report", "favourable"), unknown_key("replay", "model"), unknown_key("audit", "sede")
    ('favourable is in [estimate]', 'model is path in [model]', "did you mean 'seed'?")
    """
    from evenhand.spaces.attributes import close, suggest

    own = [one.key for one in SETTINGS.values() if one.table == table]
    others = [one for one in SETTINGS.values() if one.table not in PER_CALL]
    for one in others:
        # The command of this name reads the key from another table.
        if table in one.commands and key in (one.key, one.flags.removeprefix("--")):
            return f"{key} is {'' if one.key == key else one.key + ' '}in [{one.table}]"
    having = [f"[{one.table}]" for one in others if one.key == key]
    return f"{key} is in {' and '.join(having)}" if having and not close(key, own) else suggest(key, own)


def _resolve_paths(tables: Tables, folder: Path) -> None:
    """Convert paths relative to the file into paths relative to the current directory."""
    for name, table in tables.items():
        for key, value in table.items():
            names = SETTINGS[f"{name}.{key}"].names
            own = names == "file" and not (f"{name}.{key}" == "space.path" and is_spec(value))
            if value is not None and (own or (names == "model" and is_file(value) and not is_url(value))):
                table[key] = str(folder / value)
    text = tables.get("text", {})
    if "protected" in text:
        text["protected"] = [str(folder / one) if str(one).endswith(".toml") else one for one in text["protected"]]


def is_file(spec: str) -> bool:
    """Return whether a model is a file and not a module:attribute.

    >>> is_file("model.onnx"), is_file("loans:decide")
    (True, False)
    """
    return spec.lower().endswith((*SAFE, *PICKLES)) or "/" in spec


def _merge(tables: Tables, flags: Tables) -> Tables:
    """Override the settings of a file by flags."""
    out = {name: dict(table) for name, table in tables.items()}
    audit, wanted = out.setdefault("audit", {}), flags.get("audit", {})
    if "strategy" in wanted and wanted["strategy"] != audit.get("strategy", STRATEGY):
        # The file's settings belong to another search.
        audit.pop("settings", None)
    for name, table in flags.items():
        here = out.setdefault(name, {})
        if "order" in table or "favourable" in table:
            # Two forms of one setting; the flag overrides both.
            here.pop("order", None), here.pop("favourable", None)
        here |= {key: value for key, value in table.items() if (name, key) != ("audit", "settings")}
    if "settings" in wanted:
        added = wanted["settings"]
        added = added if isinstance(added, dict) else of_strategy(audit.get("strategy", STRATEGY), added)
        audit["settings"] = audit.get("settings", {}) | added
    return out


def favourable_of(table: EstimateTable | RepairTable) -> Any:
    """Return the favourable decisions as Python takes them.

    >>> favourable_of(EstimateTable(favourable="granted"))
    'granted'
    """
    from evenhand.estimates.pair_counts import Order

    if not table.order:
        return table.favourable
    if table.favourable is not None:
        raise ConfigError("favourable and order cannot be combined", remedy="give one of them")
    return Order(table.order)


def checked(setting: Setting, value: Any, where: Where = "flag", head: str = "") -> Any:
    """Return a value in the setting's type; texts from flags are converted.

    >>> checked(SETTINGS["audit.seed"], "3"), checked(SETTINGS["audit.criterion"], "0.1")
    (3, 0.1)
    >>> checked(SETTINGS["audit.seed"], "x")
    Traceback (most recent call last):
    evenhand.errors.ConfigError: --seed must be an integer of at least 0, got 'x'
    """
    from pydantic import Field, TypeAdapter, ValidationError

    limits = {name: limit for name in ("ge", "gt", "lt") if (limit := getattr(setting, name)) is not None}
    kind: Any = Annotated[setting.type, Field(**limits)] if limits else setting.type
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        if where == "flag" and isinstance(value, str):
            return adapter.validate_strings(value)
        return adapter.validate_python(value, strict=True)
    except ValidationError:
        name = spell(setting) if where == "flag" else head + setting.place
        wants = worded(setting.wants, where, setting.table) or (
            kind_of(setting.type) + range_text(setting.ge, None, setting.gt, setting.lt)
        )
        raise ConfigError(f"must be {wants}", parameter=name, value=value) from None


def of_strategy(strategy: str, texts: Sequence[str]) -> dict[str, Any]:
    """Read ``name=value`` texts as the types that the strategy's fields have.

    >>> of_strategy("kosei", ["samples=500", "per_seed=none"])
    {'samples': 500, 'per_seed': None}
    """
    from pydantic import TypeAdapter, ValidationError

    from evenhand.strategies import kind_of as class_of

    kind = class_of(strategy)
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    out = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise StrategyError("must be name=value", parameter="--set", value=text)
        if name not in known:
            raise StrategyError(
                f"--set: {strategy} has no setting {name!r}", remedy=f"{strategy} has {', '.join(known)}"
            )
        adapter: TypeAdapter[Any] = TypeAdapter(hints[name])
        optional = type(None) in get_args(hints[name])
        try:
            out[name] = None if optional and value.lower() in NONE else adapter.validate_strings(value)
        except ValidationError:
            wants = f"{kind_of(hints[name])}{' or none' if optional else ''}"
            raise StrategyError(f"must be {wants}", parameter=f"--set {name}", value=value) from None
    return out


def kind_of(hint: Any) -> str:
    """Describe a type.

    >>> kind_of(int), kind_of(float | None), kind_of(Literal["a", "b"]), kind_of(list[str])
    ('an integer', 'a number', "'a' or 'b'", 'a list of strings')
    """
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string", dict: "a table"}
    origin, arguments = get_origin(hint), [one for one in get_args(hint) if one is not type(None)]
    if origin is Literal:
        *others, last = map(repr, arguments)
        return f"{', '.join(others)} or {last}" if others else last
    if origin is list:
        many = {int: "integers", float: "numbers", str: "strings"}
        return f"a list of {many.get(arguments[0], 'values')}"
    if origin is dict:
        return words[dict]
    if not arguments:
        return words.get(hint, "none")
    if {str, float} <= set(arguments):
        # Any value that a model may predict; integers and booleans count as numbers here.
        arguments = [one for one in arguments if one in (str, float) or get_origin(one) is list]
    return " or ".join(map(kind_of, arguments))


def spell(setting: Setting | str, value: Any = UNSET, where: Where = "flag", here: str = "") -> str:
    """Write a setting, with a value or only its name; ``here`` is the table in which a key is named.

    >>> [spell("audit.criterion", 0.1, where) for where in ("python", "flag", "file")]
    ['criterion=eh.Gap(0.1)', '--gamma 0.1', 'criterion = 0.1 in [audit]']
    >>> [spell("data.path", where=where) for where in ("python", "flag", "file")]
    ['data=...', '--data', 'path in [data]']
    >>> spell("space.protected", ["sex", "race"]), spell("estimate.exact", False), spell("space.max_family_size", 10)
    ('--protected sex --protected race', '--sample', 'max_family_size = 10 in [space]')
    """
    setting = SETTINGS[setting] if isinstance(setting, str) else setting
    only_name = value is UNSET
    if where == "python":
        return (setting.python or setting.key + "={}").format("..." if only_name else repr(value))
    if where == "file" or not setting.flags:
        text = setting.key if only_name else f"{setting.key} = {toml(value)}"
        return text if here == setting.table else f"{text} in [{setting.table}]"
    flag, _, other = setting.flags.partition(",")[0].partition("/")
    if only_name or (setting.switch and value):
        return flag
    if setting.switch:
        return other or f"no {flag}"
    if isinstance(value, dict):
        value = [f"{name}={one}" for name, one in value.items()]
    return " ".join(f"{flag} {one}" for one in (value if isinstance(value, list | tuple) else [value]))


def error_text(error: EvenhandError, where: Where = "flag", name: str | None = None) -> str:
    """Write an error with flags or keys; ``name`` is what its parameter is called there.

    >>> from evenhand.errors import ModelError, Use
    >>> error = ModelError("no scores", remedy=("use ", Use("criterion=eh.Gap(0.1)", "audit.criterion", 0.1)))
    >>> error_text(error), error_text(error, "file")
    ('no scores; use --gamma 0.1', 'no scores; use criterion = 0.1 in [audit]')
    """

    def written(use: Use) -> str:
        setting = SETTINGS.get(use.setting)
        if setting is None:
            # This is possible in Python only.
            return f"{spell('model.path', where=where)} module:attribute, where the attribute is {use.python}"
        # No file has the settings of a single call.
        form: Where = "flag" if setting.table in PER_CALL else where
        text = spell(setting, use.value, form)
        return text if use.value is not UNSET or form == "file" or setting.switch else f"{text} {setting.metavar}"

    return visible(error.render(written, name), keep="\n")


def worded(text: str, where: Where, here: str = "") -> str:
    """Replace the places of settings in a text by their flags or keys.

    >>> worded("needs {data.path}", "flag"), worded("needs {data.path}", "file")
    ('needs --data', 'needs path in [data]')
    """
    return re.sub(r"\{(\w+\.\w+)\}", lambda found: spell(found[1], where=where, here=here), text)


def toml(value: Any) -> str:
    """Write a value as TOML.

    >>> toml(["a", 1, True]), toml({"a": 0.5})
    ('["a", 1, true]', '{ a = 0.5 }')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return visible_toml(value) if isinstance(value, str) else str(value)


def in_python(name: str) -> str:
    """Write a flag as in Python; empty if there is no such flag, or if it is written the same in Python.

    >>> in_python("budget_tests"), in_python("gamma"), in_python("sede")
    ('in Python: budget=eh.Budget(tests=...)', 'in Python: criterion=eh.Gap(...)', '')
    """
    for one in SETTINGS.values():
        if one.python and one.flags == f"--{name.replace('_', '-')}":
            return f"in Python: {spell(one, where='python')}"
    return ""
