"""The file evenhand.toml, read and checked, with the flags of the command line put over it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from evenhand._files import parse_toml, read_toml
from evenhand._format import visible, visible_toml
from evenhand.config.schema import (
    PER_CALL,
    SETTINGS,
    TABLES,
    UNSAID,
    AuditTable,
    BudgetTable,
    BundleTable,
    CallTable,
    CompareTable,
    DataTable,
    DemoTable,
    EstimateTable,
    ExportTable,
    InitTable,
    ModelTable,
    RepairTable,
    ReplayTable,
    ReportTable,
    Setting,
    SpaceTable,
    TextTable,
    Where,
)
from evenhand.errors import UNSET, ConfigError, EvenhandError, StrategyError, Use
from evenhand.plugins import is_spec

NONE = ("none", "null", "")


def spell(setting: Setting | str, value: Any = UNSAID, where: Where = "flag", here: str = "") -> str:
    """Write a setting, with a value or only its name; ``here`` is the table in which a key is named.

    >>> [spell("audit.criterion", 0.1, where) for where in ("python", "flag", "file")]
    ['criterion=eh.Gap(0.1)', '--gamma 0.1', 'criterion = 0.1 in [audit]']
    >>> [spell("data.path", where=where) for where in ("python", "flag", "file")]
    ['data=...', '--data', 'path in [data]']
    >>> spell("space.protected", ["sex", "race"]), spell("estimate.exact", False), spell("space.max_family_size", 10)
    ('--protected sex --protected race', '--sample', 'max_family_size = 10 in [space]')
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


MODEL_FILES = (".onnx", ".skops", ".joblib", ".pkl", ".pickle")
OF_TEXTS = "text-random"
"""The search of texts, where none is named."""
Tables = dict[str, dict[str, Any]]


class InFile(ConfigError):
    """A wrong value in a file: the message names its key, and a flag would not help."""


@dataclass
class Config:
    """All settings of one call, from a file and from flags.

    >>> Config().audit.strategy
    'kosei'
    """

    model: ModelTable = field(default_factory=ModelTable)
    data: DataTable = field(default_factory=DataTable)
    space: SpaceTable = field(default_factory=SpaceTable)
    text: TextTable | None = None
    audit: AuditTable = field(default_factory=AuditTable)
    budget: BudgetTable = field(default_factory=BudgetTable)
    estimate: EstimateTable = field(default_factory=EstimateTable)
    repair: RepairTable = field(default_factory=RepairTable)
    compare: CompareTable = field(default_factory=CompareTable)
    export: ExportTable = field(default_factory=ExportTable)
    bundle: BundleTable = field(default_factory=BundleTable)
    report: ReportTable = field(default_factory=ReportTable)
    replay: ReplayTable = field(default_factory=ReplayTable)
    init: InitTable = field(default_factory=InitTable)
    demo: DemoTable = field(default_factory=DemoTable)
    call: CallTable = field(default_factory=CallTable)
    head: str = field(default="", repr=False)
    """How a message about the file begins: with its name."""
    in_file: Tables = field(default_factory=dict, repr=False)
    """What the file says."""
    by_flag: Tables = field(default_factory=dict, repr=False)
    """What the flags say."""

    @contextmanager
    def blamed(self, table: str) -> Iterator[None]:
        """Name file and table in errors about values of a table, unless it may be a flag that is wrong."""
        try:
            yield
        except EvenhandError as error:
            flags = self.by_flag.get(table, {})
            kept = [key for key in self.in_file.get(table, {}) if key not in flags]
            setting = setting_of(error.parameter, table=table)
            if not kept or (flags and (setting is None or setting.key not in kept)):
                raise
            where = None if setting is None else setting.key
            raise InFile(f"{self.head}[{table}]: {error_text(error, 'file', where)}") from None

    @contextmanager
    def named(self, place: str, parameter: str = "") -> Iterator[None]:
        """Name file and key, or the flag, in errors about a value; if one is given, only in those about a parameter."""
        setting = SETTINGS[place]
        try:
            yield
        except EvenhandError as error:
            flag = setting.key in self.by_flag.get(setting.table, {})
            kept = setting.key in self.in_file.get(setting.table, {})
            if not (flag or kept) or (parameter and error.parameter != parameter):
                raise
            where = spell(setting) if flag else f"{self.head}{place}"
            form: Where = "flag" if flag else "file"
            own = error.parameter is not None and setting_of(error.parameter, table=setting.table) is setting
            text = error_text(error, form, where) if own or parameter else f"{where}: {error_text(error, form)}"
            told = (InFile if parameter and not flag else ConfigError)(text)
            for note in getattr(error, "__notes__", ()):
                told.add_note(note)
            raise told from None

    def refuse_texts(self, command: str) -> None:
        """Raise where a command that is for rows is given texts."""
        if self.text is not None:
            raise ConfigError(
                f"{self.head}'evenhand {command}' is for rows of a table, and [text] names texts; "
                "for texts there is 'evenhand audit'"
            )


def read(path: Path | None, flags: Tables, mixed: bool = False) -> Config:
    """Read a file, or none, and put flags over it; ``mixed``: settings of rows and of texts may stand side by side.

    >>> config = read(None, {"audit": {"seed": "3", "settings": ["samples=5"]}, "call": {"quiet": True}})
    >>> config.audit.seed, config.audit.settings, config.call.quiet
    (3, {'samples': 5}, True)
    """
    tables: Tables = {} if path is None else _parse(path)
    head = "" if path is None else f"{path}: "
    try:
        check_names(tables)
        given = {
            name: {key: checked(SETTINGS[f"{name}.{key}"], value, "file") for key, value in table.items()}
            for name, table in tables.items()
        }
    except ConfigError as error:
        raise InFile(f"{head}{error}") from None
    if path is not None:
        _settle(given, path.parent)
    said = {
        name: {
            # What a search takes is known once the search is.
            key: value if key == "settings" else checked(SETTINGS[f"{name}.{key}"], value)
            for key, value in table.items()
        }
        for name, table in flags.items()
        if table
    }
    if ("text" in given or "text" in said) and not mixed:
        # One flag for both: what must not matter.
        protected = said.get("space", {}).pop("protected", None)
        if protected is not None:
            said.setdefault("text", {})["protected"] = protected
    settled = _over(given, said)
    if "text" in settled and not mixed:
        _check_alone(settled, head)
    made = {name: kind(**settled.get(name, {})) for name, kind in TABLES.items() if name != "text" or name in settled}
    return Config(**made, head=head, in_file=tables, by_flag=said)  # type: ignore[arg-type]


def _check_alone(tables: Tables, head: str) -> None:
    """Raise where texts stand beside what only rows have."""
    beside = [f"{name}.{key}" for name in ("data", "space") for key in tables.get(name, {})]
    if beside:
        raise ConfigError(
            f"{head}texts and rows cannot be mixed, and {', '.join(beside)} is for rows; "
            "leave that out, or [text] and --texts"
        )


def _over(tables: Tables, flags: Tables) -> Tables:
    out = {name: dict(table) for name, table in tables.items()}
    audit, wanted = out.setdefault("audit", {}), flags.get("audit", {})
    texts = "text" in out or "text" in flags
    default = OF_TEXTS if "text" in out else "kosei"
    if "strategy" in wanted and wanted["strategy"] != audit.get("strategy", default):
        # The file's settings are those of another strategy.
        audit.pop("settings", None)
    for name, table in flags.items():
        here = out.setdefault(name, {})
        if "order" in table or "favourable" in table:
            # Two ways to say the same: what the file says in the other one is overridden too.
            here.pop("order", None), here.pop("favourable", None)
        here |= {key: value for key, value in table.items() if (name, key) != ("audit", "settings")}
    if texts:
        audit.setdefault("strategy", OF_TEXTS)
    if "settings" in wanted:
        added = wanted["settings"]
        added = added if isinstance(added, dict) else of_strategy(audit.get("strategy", "kosei"), added)
        audit["settings"] = audit.get("settings", {}) | added
    return out


def _settle(tables: Tables, folder: Path) -> None:
    """Paths in a file are relative to the file."""
    for name, table in tables.items():
        for key, value in table.items():
            names = SETTINGS[f"{name}.{key}"].names
            own = names == "file" and not (f"{name}.{key}" == "space.path" and is_spec(value))
            if value is not None and (own or (names == "model" and is_file(value))):
                table[key] = str(folder / value)
    text = tables.get("text", {})
    if "protected" in text:
        text["protected"] = [str(folder / one) if str(one).endswith(".toml") else one for one in text["protected"]]


def is_file(spec: str) -> bool:
    """Tell a model's file from a module:attribute.

    >>> is_file("model.onnx"), is_file("loans:decide")
    (True, False)
    """
    return spec.lower().endswith(MODEL_FILES) or "/" in spec


def wish(table: EstimateTable | RepairTable) -> Any:
    """Return the decisions that people want, as Python takes them.

    >>> wish(EstimateTable(favourable="granted"))
    'granted'
    """
    from evenhand.estimates.favour import Order

    if not table.order:
        return table.favourable
    if table.favourable is not None:
        raise ConfigError("give favourable or order, not both: an order says what people want")
    return Order(table.order)


def _parse(path: Path) -> Tables:
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file; 'evenhand init' writes one")
    text = read_toml(path, ConfigError, "give data with --data")
    return parse_toml(text, str(path), ConfigError)
