"""The tables of the file evenhand.toml, and what each key may be."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Outcome = str | int | float | bool


class Table(BaseModel):
    """Knows its keys and their types; anything else is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelTable(Table):
    """What is audited.

    Whether it may be unpickled is said on the command line only: a file that somebody sent must not be able to.
    """

    path: str | None = None
    threshold: float | None = None
    timeout: float | None = None


class DataTable(Table):
    """Real rows."""

    path: str | None = None
    target: str | None = None


class SpaceTable(Table):
    """The legal individuals: a file, or how to infer them from the data."""

    path: str | None = None
    protected: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    missing: Literal["group", "drop"] | None = None
    constraints: list[str] = Field(default_factory=list)
    limit: int | None = None


class TextTable(Table):
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


class AuditTable(Table):
    """How to search, and where to keep the run."""

    strategy: str = "kosei"
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    criterion: Literal["flip"] | float = "flip"
    directory: str | None = None
    chunk: int | None = None
    confirm: int | None = Field(default=None, ge=0)
    fail_above: int | None = Field(default=None, ge=0)
    coverage: bool = False
    findings: str | None = None
    page: str | None = None


class Wishing(Table):
    """What people want: a decision, or several; or all decisions from worst to best."""

    favourable: Outcome | list[Outcome] | None = None
    order: list[Outcome] | None = None

    @property
    def wish(self) -> Any:
        """What they want, as Python takes it."""
        from evenhand.errors import ConfigError
        from evenhand.measuring import Order

        if not self.order:
            return self.favourable
        if self.favourable is not None:
            raise ConfigError("give favourable or order, not both: an order says what people want")
        return Order(self.order)


class EstimateTable(Wishing):
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
    tolerance: float | None = None
    repeats: int | None = None
    groups: bool = False
    plots: str | None = None
    fail_above: str | None = None


class RepairTable(Wishing):
    """Which ways to make the model fairer, what to judge them by, and where to put what comes out."""

    methods: list[str] = Field(default_factory=list)
    strategy: str | None = None
    check: str | None = None
    watch: list[str] | None = None
    held_out: float | None = Field(default=None, gt=0, lt=1)
    samples: int | None = None
    confidence: float | None = None
    tolerate: float = Field(default=1.0, ge=0)
    save: str | None = None
    plot: str | None = None


class BudgetTable(Table):
    """When to stop."""

    tests: int | None = None
    rows: int | None = None
    findings: int | None = None
    seconds: float | None = None


class CompareTable(Table):
    """The models of two runs, and how closely to compare them."""

    model_a: str | None = None
    model_b: str | None = None
    threshold_a: float | None = None
    threshold_b: float | None = None
    samples: int | None = None
    confidence: float | None = None
    fail_on_new: bool = False


class ExportTable(Table):
    """How to write a run for other programs."""

    format: str | None = None
    most: int | None = Field(default=None, ge=1)
    raw: bool = False
    artifact: str | None = None


class BundleTable(Table):
    """What to put into an archive, and where."""

    output: str | None = None
    model: str | None = None
    data: str | None = None
    no_rows: bool = False


class ReportTable(Table):
    """What a report of a kept run shows, and where to write it."""

    title: str | None = None
    cases: int | None = Field(default=None, ge=1)
    samples: int | None = Field(default=None, ge=100)
    no_rows: bool = False
    output: str | None = None


class ReplayTable(Table):
    """What to compare a bundle with, and where to list what became of each finding."""

    digest: str | None = None
    list: str | None = None


TABLES: dict[str, type[Table]] = {
    "model": ModelTable,
    "data": DataTable,
    "space": SpaceTable,
    "text": TextTable,
    "audit": AuditTable,
    "budget": BudgetTable,
    "estimate": EstimateTable,
    "repair": RepairTable,
    "compare": CompareTable,
    "export": ExportTable,
    "bundle": BundleTable,
    "report": ReportTable,
    "replay": ReplayTable,
}
"""Every table by its name."""

PATHS = (
    "data.path", "space.path", "text.path", "text.similar", "audit.directory", "audit.findings", "audit.page",
    "estimate.plots", "repair.save", "repair.plot", "bundle.output", "bundle.model", "bundle.data", "report.output",
    "replay.list",
)  # fmt: skip
"""Keys that name files, which are seen from the file that names them."""
MODELS = ("model.path", "compare.model_a", "compare.model_b")
"""Keys that name a model: a file, or module:attribute."""
