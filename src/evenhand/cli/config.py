"""The file evenhand.toml, read and checked, with the flags of the command line put over it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError

from evenhand.bounded import parse_toml, read_toml
from evenhand.cli.hints import for_options
from evenhand.cli.places import PLACES, option
from evenhand.cli.tables import (
    MODELS,
    PATHS,
    TABLES,
    AuditTable,
    BudgetTable,
    BundleTable,
    CompareTable,
    DataTable,
    EstimateTable,
    ExportTable,
    ModelTable,
    RepairTable,
    ReplayTable,
    ReportTable,
    SpaceTable,
    Table,
    TextTable,
)
from evenhand.errors import ConfigError, EvenhandError
from evenhand.plugins import is_spec
from evenhand.space.names import close

MODEL_FILES = (".onnx", ".skops", ".joblib", ".pkl", ".pickle")
OF_TEXTS = "text-random"
"""The search of texts, where none is named."""
Tables = dict[str, dict[str, Any]]


class InFile(ConfigError):
    """What is wrong stands in a file, whose keys the message names; options would be of no help."""


class Config(Table):
    """A whole file.

    >>> Config().audit.strategy
    'kosei'
    """

    model: ModelTable = Field(default_factory=ModelTable)
    data: DataTable = Field(default_factory=DataTable)
    space: SpaceTable = Field(default_factory=SpaceTable)
    text: TextTable | None = None
    audit: AuditTable = Field(default_factory=AuditTable)
    budget: BudgetTable = Field(default_factory=BudgetTable)
    estimate: EstimateTable = Field(default_factory=EstimateTable)
    repair: RepairTable = Field(default_factory=RepairTable)
    compare: CompareTable = Field(default_factory=CompareTable)
    export: ExportTable = Field(default_factory=ExportTable)
    bundle: BundleTable = Field(default_factory=BundleTable)
    report: ReportTable = Field(default_factory=ReportTable)
    replay: ReplayTable = Field(default_factory=ReplayTable)
    _head: str = PrivateAttr(default="")
    _file: Tables = PrivateAttr(default_factory=dict)
    _flags: Tables = PrivateAttr(default_factory=dict)

    @property
    def head(self) -> str:
        """How a message begins: with the file, where there is one."""
        return self._head

    @contextmanager
    def blamed(self, table: str) -> Iterator[None]:
        """Name file and table in errors about values of a table, unless it may be flags that are wrong."""
        try:
            yield
        except EvenhandError as error:
            flags, words = self._flags.get(table, {}), re.findall(r"\w+", str(error))
            kept = [key for key in self._file.get(table, {}) if key not in flags]
            if not kept or (flags and not set(kept) & set(words)):
                raise
            raise InFile(f"{self.head}[{table}]: {error}") from None

    @contextmanager
    def named(self, place: str, word: str = "") -> Iterator[None]:
        """Name file and key, or the option, in errors about a value; only in those with a word in them if one is given.

        Remedies stay options, unless the error speaks of the key itself.
        """
        table, key = place.split(".")
        try:
            yield
        except EvenhandError as error:
            flag, kept = key in self._flags.get(table, {}), key in self._file.get(table, {})
            if not (flag or kept) or word not in str(error) or (flag and option(place) in for_options(str(error))):
                raise
            where = option(place) if flag else f"{self.head}{place}"
            told = (InFile if word and not flag else ConfigError)(f"{where}: {error}")
            for note in getattr(error, "__notes__", ()):
                told.add_note(note)
            raise told from None

    def refuse_texts(self, command: str) -> None:
        """Raise where a command that is for rows is given texts."""
        if self.text is not None:
            raise ConfigError(
                f"{self.head}'evenhand {command}' is for rows of a table, and [text] names texts; "
                "of texts there is 'evenhand audit'"
            )


def read(path: Path | None, flags: Tables) -> Config:
    """Read a file, or none, and put flags over it.

    >>> read(None, {"audit": {"seed": 3}}).audit.seed
    3
    """
    tables = {} if path is None else _parse(path)
    head = "" if path is None else f"{path}: "
    checked = _checked(tables, head)
    given = checked.model_dump(exclude_unset=True)
    if path is not None:
        _settle(given, path.parent)
    flags = {name: dict(table) for name, table in flags.items() if table}
    if "text" in given or "text" in flags:
        # One option for both: what must not matter.
        protected = flags.get("space", {}).pop("protected", None)
        if protected is not None:
            flags.setdefault("text", {})["protected"] = protected
    settled = _over(given, flags)
    if "text" in settled:
        _check_alone(settled, head)
        settled.setdefault("audit", {}).setdefault("strategy", OF_TEXTS)
    # What is wrong now is what the flags say: the file was checked.
    config = _checked(settled)
    config._head, config._file, config._flags = head, tables, flags
    return config


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
    audit, wanted = out.get("audit", {}), flags.get("audit", {})
    default = OF_TEXTS if "text" in out else "kosei"
    if "strategy" in wanted and wanted["strategy"] != audit.get("strategy", default):
        # The file's settings are those of another strategy.
        audit.pop("settings", None)
    for name, table in flags.items():
        here = out.setdefault(name, {})
        if "order" in table or "favourable" in table:
            # Two ways to say the same: what the file says in the other one is overridden too.
            here.pop("order", None), here.pop("favourable", None)
        for key, value in table.items():
            here[key] = here.get(key, {}) | value if isinstance(value, dict) else value
    return out


def _settle(tables: Tables, folder: Path) -> None:
    """Paths in a file are seen from the file."""
    for place in (*PATHS, *MODELS):
        name, key = place.split(".")
        value = tables.get(name, {}).get(key)
        if value is not None and (place in PATHS or is_file(value)) and not (place == "space.path" and is_spec(value)):
            tables[name][key] = str(folder / value)
    text = tables.get("text", {})
    if "protected" in text:
        text["protected"] = [str(folder / one) if str(one).endswith(".toml") else one for one in text["protected"]]


def is_file(spec: str) -> bool:
    """Tell a model's file from a module:attribute.

    >>> is_file("model.onnx"), is_file("loans:decide")
    (True, False)
    """
    return spec.lower().endswith(MODEL_FILES) or "/" in spec


def _parse(path: Path) -> Tables:
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file; 'evenhand init' writes one")
    text = read_toml(path, ConfigError, "give data with --data")
    return parse_toml(text, str(path), ConfigError)


def _checked(tables: Any, head: str = "") -> Config:
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        if not head:
            raise ConfigError(_words(wrong, flag=True)) from None
        raise InFile(head + _words(wrong)) from None


def _words(error: Any, flag: bool = False) -> str:
    """Say what pydantic found wrong, with the key, or the option, and what is allowed."""
    # A union names its branch behind the key; the reader knows only keys.
    where = [str(part) for part in error["loc"]][:2]
    key = shown = ".".join(where)
    if flag:
        shown = option(key)
    got = repr(error["input"])
    got = got if len(got) <= 60 else got[:57] + "..."
    if error["type"] == "extra_forbidden":
        if len(where) > 1:
            return f"unknown key {key!r}; {_elsewhere(*where)}"
        what = f"table [{key}]" if isinstance(error["input"], dict) else f"key {key!r}"
        return f"unknown {what}; {_allowed(key, TABLES)}"
    if key == "text.protected":
        allowed = 'names, .toml files, tables such as {team = ["reds", "blues"]}'
        return f"{shown} must be a list of lexicons ({allowed}), got {got}"
    if key == "audit.fail_above":
        share = "how common they are says 'evenhand estimate', by fail_above in [estimate]"
        return f"{shown} must be a number of findings, 0 or more, got {got}; {share}"
    if key == "audit.criterion":
        return f'{shown} must be "flip" or a number (a gap of scores), got {got}'
    if error["type"].startswith(("model_type", "model_attributes", "dict_type")):
        return f"[{key}] must be a table, got {got}"
    return f"{shown} {error['msg'].replace('Input should', 'must', 1)}, got {got}"


def _elsewhere(table: str, key: str) -> str:
    """Say where the key is that someone has put into this table.

    >>> _elsewhere("report", "favourable"), _elsewhere("replay", "model"), _elsewhere("audit", "sede")
    ('favourable is in [estimate]', 'model is path in [model]', "did you mean 'seed'?")
    """
    known = TABLES[table].model_fields
    if place := PLACES.get(table, {}).get(key):
        other, name = place.split(".")
        return f"{key} is {'' if name == key else name + ' '}in [{other}]"
    having = [f"[{name}]" for name, other in TABLES.items() if key in other.model_fields]
    if having and not close(key, known):
        return f"{key} is in {' and '.join(having)}"
    return _allowed(key, known)


def _allowed(name: str, names: Iterable[str]) -> str:
    """Say which names someone may have meant; all there are, where none is near."""
    near = close(name, names)
    return f"did you mean {', '.join(map(repr, near))}?" if near else f"allowed: {', '.join(names)}"
