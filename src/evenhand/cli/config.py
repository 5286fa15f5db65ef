"""The file evenhand.toml: its tables, checked, with the flags of the command line put over them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from evenhand.errors import ConfigError
from evenhand.space.names import suggest

MODEL_FILES = (".onnx", ".skops", ".joblib", ".pkl", ".pickle")
LARGEST = 2**24
OF_TEXTS = "text-random"
"""The search of texts, where none is named."""
Tables = dict[str, dict[str, Any]]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModelTable(_Table):
    """What is audited.

    Whether it may be unpickled is said on the command line only: a file that somebody sent must not be able to.
    """

    path: str | None = None
    threshold: float | None = None
    timeout: float | None = None


class DataTable(_Table):
    """Real rows."""

    path: str | None = None
    target: str | None = None


class SpaceTable(_Table):
    """The legal individuals: a file, or how to infer them from the data."""

    path: str | None = None
    protected: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    constraints: list[str] = Field(default_factory=list)
    limit: int | None = None


class TextTable(_Table):
    """Texts in the place of rows, and what must not matter in them: the settings of ``TextSpace``."""

    path: str | None = None
    column: str | None = None
    encoding: str = "utf-8"
    protected: list[str | dict[str, Any]] = Field(default_factory=list)
    similar: str | None = None
    k: int | None = Field(default=None, ge=1)
    occurrences: Literal["each", "together"] | None = None
    ambiguous: Literal["context", "always", "never"] | None = None
    avoid_protected: bool | None = None
    agree: bool | None = None
    limit: int | None = Field(default=None, ge=2)


class AuditTable(_Table):
    """How to search, and where to keep the run."""

    strategy: str = "kosei"
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    criterion: Literal["flip"] | float = "flip"
    directory: str | None = None
    chunk: int | None = None
    fail_above: int | None = Field(default=None, ge=0)
    coverage: bool = False


class EstimateTable(_Table):
    """Whom to ask to know how common discrimination is, when to stop, and how sure to be."""

    population: str | None = None
    samples: int | None = None
    half_width: float | None = None
    seconds: float | None = None
    confidence: float | None = None
    interval: str | None = None
    experiments: int | None = None
    exact: bool | None = None
    about: str | None = None
    steps: int | None = None
    weights: str | None = None
    favourable: str | int | float | bool | None = None
    tolerance: float | None = None
    repeats: int | None = None


class RepairTable(_Table):
    """Which ways to make the model fairer, what to judge them by, and where to put what comes out."""

    methods: list[str] = Field(default_factory=list)
    strategy: str | None = None
    check: str | None = None
    watch: list[str] | None = None
    held_out: float | None = Field(default=None, gt=0, lt=1)
    samples: int | None = None
    confidence: float | None = None
    favourable: str | int | float | bool | None = None
    tolerate: float = Field(default=1.0, ge=0)
    save: str | None = None
    plot: str | None = None


class BudgetTable(_Table):
    """When to stop."""

    tests: int | None = None
    rows: int | None = None
    findings: int | None = None
    seconds: float | None = None


class Config(_Table):
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
    _source: str = PrivateAttr(default="the flags")

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""
        return self._source

    def refuse_texts(self, command: str) -> None:
        """Raise where a command that is for rows is given texts."""
        if self.text is not None:
            raise ConfigError(
                f"{self.source}: 'evenhand {command}' is for rows of a table, and [text] names texts; "
                "of texts there is 'evenhand audit'"
            )


TABLES: dict[str, type[_Table]] = {
    "model": ModelTable,
    "data": DataTable,
    "space": SpaceTable,
    "text": TextTable,
    "audit": AuditTable,
    "budget": BudgetTable,
    "estimate": EstimateTable,
    "repair": RepairTable,
}


def read(path: Path | None, flags: Tables) -> Config:
    """Read a file, or none, and put flags over it.

    >>> read(None, {"audit": {"seed": 3}}).audit.seed
    3
    """
    tables = {} if path is None else _parse(path)
    source = "the flags" if path is None else str(path)
    checked = _checked(tables, source)
    given = checked.model_dump(exclude_unset=True)
    if path is not None:
        _settle(given, path.parent)
    settled = _over(given, flags)
    if "text" in settled:
        _check_alone(settled, source)
        settled.setdefault("audit", {}).setdefault("strategy", OF_TEXTS)
    return _checked(settled, source)


def _check_alone(tables: Tables, source: str) -> None:
    """Raise where texts stand beside what only rows have."""
    beside = [f"{name}.{key}" for name in ("data", "space") for key in tables.get(name, {})]
    if beside:
        raise ConfigError(
            f"{source}: texts and rows cannot be mixed, and {', '.join(beside)} is for rows; "
            "leave that out, or [text] and --texts"
        )


def _over(tables: Tables, flags: Tables) -> Tables:
    out = {name: dict(table) for name, table in tables.items()}
    flags = {name: dict(table) for name, table in flags.items() if table}
    if "text" in out or "text" in flags:
        # One option for both: what must not matter.
        protected = flags.get("space", {}).pop("protected", None)
        if protected is not None:
            flags.setdefault("text", {})["protected"] = protected
    audit, wanted = out.get("audit", {}), flags.get("audit", {})
    default = OF_TEXTS if "text" in out else "kosei"
    if "strategy" in wanted and wanted["strategy"] != audit.get("strategy", default):
        # The file's settings are those of another strategy.
        audit.pop("settings", None)
    for name, table in flags.items():
        here = out.setdefault(name, {})
        for key, value in table.items():
            here[key] = here.get(key, {}) | value if isinstance(value, dict) else value
    return out


def _settle(tables: Tables, folder: Path) -> None:
    """Paths in a file are seen from the file."""
    paths = [("data", "path"), ("space", "path"), ("audit", "directory"), ("model", "path"), ("repair", "save")]
    for table, key in [*paths, ("repair", "plot"), ("text", "path"), ("text", "similar")]:
        value = tables.get(table, {}).get(key)
        if value is not None and (table != "model" or is_file(value)):
            tables[table][key] = str(folder / value)
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
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path}: {LARGEST // 2**20} MiB is the most for a configuration; is it the data?")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; 'evenhand init' writes one") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is no UTF-8 text; give a TOML file, and data with --data") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: it is no TOML ({' '.join(str(error).split())[:200]}); mend that line") from None


def _checked(tables: Any, source: str) -> Config:
    try:
        config = Config.model_validate(tables)
        config._source = source
        return config
    except ValidationError as error:
        raise ConfigError(f"{source}: {_words(error.errors(include_url=False)[0])}") from None


def _words(error: Any) -> str:
    """Say what pydantic found wrong, with the key and what is allowed."""
    # A union names its branch behind the key; the reader knows only keys.
    where = [str(part) for part in error["loc"]][:2]
    key = ".".join(where)
    got = repr(error["input"])
    got = got if len(got) <= 60 else got[:57] + "..."
    if error["type"] == "extra_forbidden":
        known = list((TABLES[where[0]] if len(where) > 1 else Config).model_fields)
        return f"unknown key {key!r}; {suggest(where[-1], known)}"
    if key == "text.protected":
        allowed = 'names, .toml files, tables such as {team = ["reds", "blues"]}'
        return f"{key} must be a list of lexicons ({allowed}), got {got}"
    if key == "audit.criterion":
        return f'{key} must be "flip" or a number (a gap of scores), got {got}'
    if error["type"].startswith(("model_type", "model_attributes", "dict_type")):
        return f"[{key}] must be a table, got {got}"
    return f"{key} {error['msg'].replace('Input should', 'must', 1)}, got {got}"
