"""The file evenhand.toml, read and checked, with the flags of the command line put over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand._files import parse_toml, read_toml
from evenhand.config.schema import (
    SETTINGS,
    TABLES,
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
    SpaceTable,
    TextTable,
    Where,
)
from evenhand.config.values import check_names, checked, error_text, of_strategy, setting_of, spell
from evenhand.errors import ConfigError, EvenhandError
from evenhand.plugins import is_spec

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
