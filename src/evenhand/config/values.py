"""Values of settings: checked, and written as Python, as flags or as keys of a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from evenhand._format import visible, visible_toml
from evenhand.config.schema import PER_CALL, SETTINGS, TABLES, UNSAID, Setting, Where
from evenhand.errors import UNSET, ConfigError, EvenhandError, StrategyError, Use

NONE = ("none", "null", "")


def spell(setting: Setting | str, value: Any = UNSAID, where: Where = "flag", here: str = "") -> str:
    """Write a setting, with a value or only its name; ``here`` is the table in which a key is named.

    >>> [spell("audit.criterion", 0.1, where) for where in ("python", "flag", "file")]
    ['criterion=eh.Gap(0.1)', '--gamma 0.1', 'criterion = 0.1 in [audit]']
    >>> [spell("data.path", where=where) for where in ("python", "flag", "file")]
    ['data=...', '--data', 'path in [data]']
    >>> spell("space.protected", ["sex", "race"]), spell("estimate.exact", False), spell("space.limit", 10)
    ('--protected sex --protected race', '--sample', 'limit = 10 in [space]')
    """
    if isinstance(setting, str):
        setting = SETTINGS[setting]
    said = value is not UNSAID
    if where == "python":
        form = setting.python or setting.key + "={}"
        return form.format(repr(value) if said else "...")
    if where == "file" or not setting.flags:
        text = f"{setting.key} = {toml(value)}" if said else setting.key
        return text if here == setting.table else f"{text} in [{setting.table}]"
    flag, _, other = setting.flags.partition(",")[0].partition("/")
    if not said or (setting.switch and value):
        return flag
    if setting.switch:
        return other or f"no {flag}"
    if isinstance(value, dict):
        value = [f"{name}={one}" for name, one in value.items()]
    return " ".join(f"{flag} {one}" for one in (value if isinstance(value, list | tuple) else [value]))


def error_text(error: EvenhandError, where: Where = "flag", name: str | None = None) -> str:
    """Write an error as flags or keys say it; ``name`` is what its parameter is called there.

    >>> from evenhand.errors import ModelError, Use
    >>> error = ModelError("no scores", remedy=("use ", Use("criterion=eh.Gap(0.1)", "audit.criterion", 0.1)))
    >>> error_text(error), error_text(error, "file")
    ('no scores; use --gamma 0.1', 'no scores; use criterion = 0.1 in [audit]')
    """

    def written(use: Use) -> str:
        if use.setting in SETTINGS:
            setting, told = SETTINGS[use.setting], use.value is not UNSET
            # What a single call says, no file can say.
            form: Where = "flag" if setting.table in PER_CALL else where
            text = spell(setting, use.value if told else UNSAID, form)
            return text if told or form != "flag" or setting.switch else f"{text} {setting.metavar}"
        # Only a program can say it.
        return f"{spell('model.path', where=where)} module:attribute, where the attribute is {use.python}"

    return visible(error.render(written, name), keep="\n")


def setting_of(parameter: str | None, command: str = "", table: str = "") -> Setting | None:
    """Find the setting that Python calls by this name, of a command or in a table.

    >>> setting_of("criterion", "audit").place, setting_of("tests", table="budget").place, setting_of("sede", "audit")
    ('audit.criterion', 'budget.tests', None)
    """
    for one in SETTINGS.values():
        names = (one.key, one.python.partition("=")[0] if one.python else one.key)
        if parameter in names and (command in one.commands or one.table == table):
            return one
    return None


def worded(text: str, where: Where, here: str = "") -> str:
    """Put the names of settings into a text that refers to them.

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


def checked(setting: Setting, value: Any, where: Where = "flag") -> Any:
    """Return a value as the setting's type; of a flag, a text is read as the type.

    >>> checked(SETTINGS["audit.seed"], "3"), checked(SETTINGS["audit.criterion"], "0.1")
    (3, 0.1)
    >>> checked(SETTINGS["audit.seed"], "x")
    Traceback (most recent call last):
    evenhand.errors.ConfigError: --seed must be a whole number, got 'x'
    """
    from pydantic import Field, TypeAdapter, ValidationError

    limits = {name: limit for name in ("ge", "gt", "lt") if (limit := getattr(setting, name)) is not None}
    kind: Any = Annotated[setting.type, Field(**limits)] if limits else setting.type
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        if where == "flag" and isinstance(value, str):
            return adapter.validate_strings(value)
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = setting.place if where == "file" else spell(setting)
        limit = wrong["type"] in ("greater_than", "greater_than_equal", "less_than")
        wants = wrong["msg"].removeprefix("Input should be ") if limit else kind_of(setting.type)
        wants = worded(setting.wants, where, setting.table) or wants
        got = value if limit and isinstance(value, str) else repr(value)
        got = got if len(got) <= 60 else got[:57] + "..."
        raise ConfigError(f"{name} must be {wants}, got {got}") from None


def unknown(table: str, key: str) -> str:
    """Say of a key that a table does not have where it is, or what it may have meant.

    >>> unknown("report", "favourable"), unknown("replay", "model"), unknown("audit", "sede")
    ('favourable is in [estimate]', 'model is path in [model]', "did you mean 'seed'?")
    """
    from evenhand.spaces.attributes import close

    own = [one.key for one in SETTINGS.values() if one.table == table]
    having = [one for one in SETTINGS.values() if one.table not in PER_CALL]
    for one in having:
        # What the command of this name reads from another table.
        if table in one.commands and key in (one.key, one.flags.removeprefix("--")):
            return f"{key} is {'' if one.key == key else one.key + ' '}in [{one.table}]"
    others = [f"[{one.table}]" for one in having if one.key == key]
    if others and not close(key, own):
        return f"{key} is in {' and '.join(others)}"
    return allowed(key, own)


def in_python(name: str) -> str:
    """Say how Python writes what a flag or a key calls otherwise; empty where there is no such flag or key.

    >>> in_python("budget_tests"), in_python("gamma"), in_python("sede")
    ('in Python: budget=eh.Budget(tests=...)', 'in Python: criterion=eh.Gap(...)', '')
    """
    for one in SETTINGS.values():
        if one.python and one.flags == f"--{name.replace('_', '-')}":
            return f"in Python: {spell(one, where='python')}"
    return ""


def allowed(name: str, names: Iterable[str]) -> str:
    """Say which names someone may have meant, or all there are.

    >>> allowed("sede", ["seed", "chunk"]), allowed("x", ["seed", "chunk"])
    ("did you mean 'seed'?", 'allowed: seed, chunk')
    """
    from evenhand.spaces.attributes import close

    names = list(names)
    near = close(name, names)
    return f"did you mean {', '.join(map(repr, near))}?" if near else f"allowed: {', '.join(names)}"


def check_names(tables: Any) -> None:
    """Raise where a file has a table or a key that does not exist."""
    known = [name for name in TABLES if name not in PER_CALL]
    for name, table in tables.items():
        if name not in known:
            what = f"table [{name}]" if isinstance(table, dict) else f"key {name!r}"
            raise ConfigError(f"unknown {what}; {allowed(name, known)}")
        if not isinstance(table, dict):
            raise ConfigError(f"[{name}] must be a table, got {table!r}")
        for key in table:
            if f"{name}.{key}" not in SETTINGS:
                raise ConfigError(f"unknown key '{name}.{key:.100}'; {unknown(name, key)}")


def of_strategy(strategy: str, texts: Sequence[str]) -> dict[str, Any]:
    """Read ``name=value`` texts as the types that the strategy's fields have.

    >>> of_strategy("kosei", ["samples=500", "per_seed=none"])
    {'samples': 500, 'per_seed': None}
    """
    from evenhand.strategies import kind_of

    kind = kind_of(strategy)
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    out = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name not in known:
            wrong = f"{strategy} has no setting {name!r}" if equals else f"--set takes name=value, got {text!r}"
            raise StrategyError(f"{wrong}; {strategy} has {', '.join(known)}")
        out[name] = _field(strategy, name, value.strip(), hints[name])
    return out


def _field(strategy: str, name: str, text: str, hint: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    if text.lower() in NONE:
        try:
            return adapter.validate_python(None)
        except ValidationError:
            pass
    try:
        return adapter.validate_strings(text)
    except ValidationError:
        none = " or none" if type(None) in get_args(hint) else ""
        raise StrategyError(f"--set {name}={text}: {strategy} wants {kind_of(hint)}{none} for {name}") from None


def kind_of(hint: Any) -> str:
    """Describe a type.

    >>> kind_of(int), kind_of(float | None), kind_of(Literal["a", "b"]), kind_of(list[str])
    ('a whole number', 'a number', "'a' or 'b'", 'a list of texts')
    """
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: "a table"}
    many = {int: "whole numbers", float: "numbers", str: "texts"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is list:
        return f"a list of {many.get(arguments[0], 'values')}"
    if origin is dict:
        return words[dict]
    if not arguments:
        return words.get(hint, "none")
    if {str, float} <= set(arguments):
        return " or ".join(["a text", "a number", *map(kind_of, [one for one in arguments if get_origin(one) is list])])
    return " or ".join(kind_of(one) for one in arguments if one is not type(None))
