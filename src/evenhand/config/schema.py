"""Every setting and every command, defined once.

A table of settings is a dataclass, a setting one of its fields, annotated with a `Setting`. The flags and the help of
the commands, the keys of ``evenhand.toml``, the file that ``evenhand init`` writes, the reference page and the errors
about values derive from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from inspect import get_annotations
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

Where = Literal["python", "flag", "file"]
Outcome = str | int | float | bool


@dataclass(frozen=True)
class Setting:
    """The properties of a setting, besides its type and default.

    >>> SETTINGS["audit.seed"].flags, SETTINGS["audit.seed"].default
    ('--seed', 0)
    """

    help: str
    """Its description; ``{table.key}`` names another setting, as a flag or as a key."""
    metavar: str = ""
    """The placeholder for the value in the help."""
    example: Any = None
    """The value in the template; by default the setting's default."""
    text_example: Any = None
    """The value in the template for texts, if it differs."""
    more: str = ""
    """Text that is added on the reference page."""
    flag: str | None = ""
    """The flag, by default made from the key; None if only files and Python have the setting."""
    on: str | None = None
    """The commands that have the flag, by default the one with the table's name."""
    argument: str = ""
    """The commands that take it as an argument, without a flag."""
    required: str = ""
    """The commands that require it."""
    panel: str = ""
    """The heading in the help; by default the table's."""
    names: Literal["", "file", "model"] = ""
    """Whether it names a file or a model; paths in a configuration file are relative to that file."""
    python: str = ""
    """How it is written in Python; by default ``key={}``."""
    texts: bool = True
    """Whether it also applies to texts."""
    wants: str = ""
    """The allowed values; by default described by the type and the limits."""
    ge: float | None = None
    gt: float | None = None
    lt: float | None = None
    table: str = ""
    """This and the fields below are filled in when the table is defined."""
    key: str = ""
    type: Any = None
    default: Any = None

    @property
    def place(self) -> str:
        """Its table and key, by which other settings and commands refer to it."""
        return f"{self.table}.{self.key}"

    @property
    def flags(self) -> str:
        """The flag, or several with commas; empty if there is none.

        >>> SETTINGS["model.path"].flags, SETTINGS["call.quiet"].flags, SETTINGS["space.max_family_size"].flags
        ('--model', '--quiet,-q', '')
        """
        return "" if self.flag is None else self.flag or "--" + self.key.replace("_", "-")

    @property
    def parameters(self) -> set[str]:
        """The parameters in Python that an error about it may name.

        >>> sorted(SETTINGS["data.target"].parameters), sorted(SETTINGS["audit.criterion"].parameters)
        (['target', 'y'], ['criterion', 'gamma'])
        """
        found = re.search(r"(\w+)=[^=]*\{\}", self.python)
        name = found[1] if found else self.key
        return {name, self.flags.removeprefix("--").replace("-", "_")} - {"path", ""}

    @property
    def many(self) -> bool:
        """Whether the flag can be repeated."""
        return any(get_origin(kind) in (list, dict) for kind in _kinds(self.type))

    @property
    def switch(self) -> bool:
        """Whether the flag takes no value."""
        return bool in _kinds(self.type) and not self.many

    @property
    def commands(self) -> list[str]:
        """The commands that have it."""
        return [] if self.flag is None else (self.table if self.on is None else self.on).split()


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


class Table:
    """A table of settings; each dataclass derived from it declares one, and is registered under its name."""

    comment: ClassVar[str] = ""

    def __init_subclass__(
        cls, *, name: str, comment: str = "", panel: str = "", on: str | None = None, rows: bool = False
    ) -> None:
        cls.comment = comment
        TABLES[name] = cls
        for key, annotation in _annotations(cls).items():
            if get_origin(annotation) is ClassVar:
                continue
            kind, setting = get_args(annotation)
            default: Any = getattr(cls, key, None)
            SETTINGS[f"{name}.{key}"] = replace(
                setting,
                table=name,
                key=key,
                type=kind,
                # The decorator has not run yet.
                default=default.default_factory() if hasattr(default, "default_factory") else default,
                panel=setting.panel or panel,
                on=on if setting.on is None else setting.on,
                texts=setting.texts and not rows,
            )

    def given(self, *keys: str) -> dict[str, Any]:
        """Return the settings that have a value, by default of all keys.

        >>> BudgetTable(tests=5).given()
        {'tests': 5}
        """
        names = keys or [one.name for one in fields(self)]  # type: ignore[arg-type]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _annotations(cls: type) -> dict[str, Any]:
    return {key: kind for base in reversed(cls.__mro__) for key, kind in get_annotations(base, eval_str=True).items()}


TABLES: dict[str, type[Table]] = {}
"""Every table by its name."""
SETTINGS: dict[str, Setting] = {}
"""Every setting by its place, ``table.key``."""
PER_CALL = {"call", "init", "demo", "bench", "serve"}
"""Tables for a single call, which a file cannot have."""

CONFIDENCE = Setting("Confidence level; 0.95 by default", "C", 0.95, panel="Estimate", gt=0.5, lt=1)
FAVOURABLE = Setting(
    "Favourable decision; for numbers, higher or lower", "DECISION", "granted", panel="Model", texts=False
)
ORDER = Setting(
    "Every decision from worst to best, instead of {estimate.favourable}",
    "DECISION",
    [],
    panel="Model",
    python="favourable=eh.Order({})",
    texts=False,
)
SAMPLES = Setting(
    "Individuals per estimate; 100000 by default, or all if there are fewer", "N", 100000, panel="Estimate", ge=1
)
REPORT = Setting(
    "Write the result as one HTML file",
    "FILE",
    names="file",
    panel="Output",
    more="See [reports](../how-to/report.md).",
)
"""Settings shared by several tables."""


# fmt: off
@dataclass
class ModelTable(Table, name="model", panel="Model"):
    """The model. Only a flag can trust a pickle, so that a file from another person cannot run code."""

    path: Annotated[str | None, Setting(
        "Model: file or folder, URL, or module:attribute", "SPEC", "model.skops", flag="--model",
        on="audit estimate prove check-proof repair report replay init bench", names="model",
        python="model={}")] = None
    threshold: Annotated[float | None, Setting(
        "Decision threshold used in production", "T", 0.5, on="audit estimate prove report replay bench",
        python="eh.wrap(model, threshold={})")] = None
    timeout: Annotated[float | None, Setting(
        "Fail if one model call takes longer than this many seconds", "S", 60.0,
        on="audit estimate compare replay bench",
        python="eh.wrap(model, timeout={})", gt=0)] = None


@dataclass
class DataTable(Table, name="data", comment="real rows", panel="Data", rows=True):
    """Real rows."""

    path: Annotated[str | None, Setting(
        "Data rows: .csv, .tsv, .parquet, .json or .jsonl", "FILE", "people.csv", flag="--data",
        on="audit estimate prove repair report replay init probe bench", argument="init", required="init", names="file",
        python="data={}")] = None
    target: Annotated[str | None, Setting(
        "Column that the model predicts", "NAME", "income", on="audit estimate prove repair report init probe bench",
        python="y={}")] = None


@dataclass
class SpaceTable(
    Table, name="space", comment="valid individuals; with a path, the other keys override that file",
    panel="Data", on="audit estimate prove repair bench", rows=True):
    """The valid individuals: a file, or how to infer them from the data."""

    path: Annotated[str | None, Setting(
        "Space as TOML, or module:attribute; inferred from the data by default", "SPEC", "evenhand.space.toml",
        flag="--space", names="file")] = None
    protected: Annotated[list[str], Setting(
        "Protected attribute; for texts a lexicon, such as religion, or its .toml file", "NAME", ["sex"],
        on="audit estimate prove repair init probe bench", required="init")] = field(default_factory=list)
    exclude: Annotated[list[str], Setting(
        "Column that the model does not receive", "NAME", [],
        on="audit estimate prove repair init probe bench")] = field(default_factory=list)
    missing: Annotated[Literal["group", "drop"] | None, Setting(
        "Rows without a protected value: 'drop' them, or treat them as a 'group'", "HOW", "drop",
        on="audit estimate prove repair init bench", more="By default such rows are an error.")] = None
    constraints: Annotated[list[str], Setting(
        "Constraints in addition to those of the file", example=["age >= 18"], flag=None)] = field(default_factory=list)
    max_family_size: Annotated[int | None, Setting(
        "Maximum counterparts per individual", example=1000, flag=None, ge=2)] = None


@dataclass
class TextTable(
    Table, name="text", comment="texts, instead of [data] and [space]", panel="Data", on="audit estimate bench"):
    """Texts instead of rows, with their lexicons: the settings of ``eh.TextSpace``."""

    path: Annotated[str | None, Setting(
        "Texts instead of rows: .csv, .tsv, .jsonl, .json, .parquet or .txt", "FILE", "comments.csv", flag="--texts",
        on="audit estimate report probe bench", names="file")] = None
    column: Annotated[str | None, Setting(
        "Column with the texts; text by default", "NAME", "text", on="audit estimate report init probe bench",
        more="If there is only one column, that one.")] = None
    encoding: Annotated[str | None, Setting(
        "Encoding of the texts, such as latin-1; detected by default", "NAME", "utf-8",
        on="audit estimate report init probe bench")] = None
    protected: Annotated[list[str | dict[str, Any]], Setting(
        'Lexicons: names, .toml files, or terms, as in { team = ["reds", "blues"] }', "NAME", ["religion"], on="",
        wants='a list of lexicons (names, .toml files, tables such as {team = ["reds", "blues"]})',
    )] = field(default_factory=list)
    similar: Annotated[str | None, Setting(
        "Word vectors for replacing words by similar ones; the model's own by default", "FILE", "vectors.npz",
        on="audit", names="file")] = None
    k: Annotated[int | None, Setting("Similar words per word; 10 by default", "N", 10, on="audit", ge=1)] = None
    occurrences: Annotated[Literal["each", "together"] | None, Setting(
        "Replace all occurrences of an identity 'together' (default) or 'each' separately", "HOW", "together")] = None
    rules: Annotated[str | None, Setting(
        "Which terms are identities: 'natural' (default), 'plain' (by grammar only) or a .toml file that adds rules",
        "RULES", "natural")] = None
    spellings: Annotated[Literal["all", "first"] | None, Setting(
        "Write each identity in 'all' its common spellings (default) or in its 'first'", "WHICH", "all")] = None
    templates: Annotated[str | None, Setting(
        "Texts from templates instead of a file: 'built-in', or a .toml file of your own", "WHICH", "built-in")] = None
    ambiguous: Annotated[Literal["context", "always", "never"] | None, Setting(
        "When ambiguous words such as black are terms: 'context' (default), 'always' or 'never'", "WHEN",
        "context")] = None
    avoid_protected: Annotated[bool | None, Setting(
        "Never use terms of a lexicon as similar words", flag=None, on="")] = None
    agree: Annotated[bool | None, Setting(
        "Similar words must have the same ending, such as -ing", example=False, flag=None, on="")] = None
    max_family_size: Annotated[int | None, Setting(
        "Maximum counterparts per text", example=1000, flag=None, on="", ge=2)] = None


@dataclass
class EndpointTable(Table, name="endpoint", comment="how to ask a model behind a URL", panel="Model"):
    """How to ask a model behind HTTP; the settings of ``eh.Endpoint``."""

    protocol: Annotated[Literal["oip", "mlflow", "instances", "json"] | None, Setting(
        "Protocol of a URL: oip, mlflow, instances or json; by default guessed from the URL", "NAME", "oip",
        on="audit estimate report replay probe", python="eh.Endpoint(url, protocol={})")] = None
    mapping: Annotated[dict[str, Any], Setting(
        "Places of the rows in requests and of the labels in answers",
        example={"rows": "instances", "labels": "predictions"}, flag=None)] = field(default_factory=dict)
    headers: Annotated[dict[str, str], Setting(
        "Headers; secrets from the environment", example={"Authorization": "Bearer ${TOKEN}"},
        flag=None)] = field(default_factory=dict)
    batch_size: Annotated[int | None, Setting("Maximum rows per request", "N", 100, flag=None, ge=1)] = None
    in_flight: Annotated[int | None, Setting("Maximum requests at once", "N", 4, flag=None, ge=1)] = None
    rate: Annotated[float | None, Setting("Maximum requests per second", "R", 50.0, flag=None, gt=0)] = None
    retries: Annotated[int | None, Setting("Maximum retries of a request", "N", 5, flag=None, ge=0)] = None
    request_timeout: Annotated[float | None, Setting(
        "Send a request again after this many seconds", "S", 30.0, flag=None, gt=0)] = None


@dataclass
class RunTable(Table, name="run", comment="where the model is called", panel="Model", on="audit estimate repair bench"):
    """Workers. The results do not depend on their number."""

    workers: Annotated[int | None, Setting(
        "Call the model on this many processes", "N", 4, python="executor={}", ge=1)] = None
    dask: Annotated[str | None, Setting(
        "Call the model on the Dask cluster with this scheduler", "ADDRESS", "tcp://127.0.0.1:8786",
        python="executor=Client({})")] = None


@dataclass
class AuditTable(Table, name="audit", comment="how to search", panel="Search"):
    """How to search, and where to keep the run."""

    strategy: Annotated[str, Setting(
        "Search, or module:Class; auto by default; see 'evenhand strategies'", "NAME",
        python="strategy={}")] = "auto"
    settings: Annotated[dict[str, Any], Setting(
        "Setting of the search, such as share=0.3", "NAME=VALUE", {"share": 0.3},
        flag="--set")] = field(default_factory=dict)
    seed: Annotated[int, Setting(
        "Random seed; 0 by default", "N", on="audit estimate repair compare report demo", ge=0)] = 0
    criterion: Annotated[Literal["flip"] | float, Setting(
        'Count score differences above this, instead of changed decisions ("flip")', "G", flag="--gamma",
        on="audit estimate repair", panel="Model", python="criterion=eh.Gap({})",
        wants='"flip" or a number (a difference of scores)')] = "flip"
    chunk: Annotated[int | None, Setting(
        "Maximum rows per model call", "N", 32768, on="audit estimate", panel="Model", ge=2)] = None
    confirm: Annotated[int | None, Setting(
        "Maximum findings to confirm by querying the model again; all by default", "N", 1000, ge=0)] = None
    directory: Annotated[str | None, Setting(
        "Keep the run here, to resume, replay, report, export or compare it", "DIR", "run", names="file",
        panel="Output", more="The same command again continues it.")] = None
    findings: Annotated[str | None, Setting(
        "Write all findings: .csv, .json, .parquet, .xml, .sarif or .md", "FILE", "findings.csv", names="file",
        panel="Output", more="See [exports](exports.md).")] = None
    report: Annotated[str | None, Setting(
        "Write the report, one HTML file", "FILE", "report.html", names="file", panel="Output",
        more="The [report](../how-to/report.md) follows `[report]` and `[estimate]` of the file.")] = None
    fail_above: Annotated[str | None, Setting(
        "Exit with 1 if the estimated rate is above this, with 3 if there are too few tests to tell", "N%", "1%",
        panel="Output", wants="a percentage, such as 1% (to fail on any finding: {audit.fail_on_finding})")] = None
    fail_on_finding: Annotated[bool, Setting(
        "Exit with 1 if there is any confirmed finding", panel="Output")] = False
    coverage: Annotated[bool, Setting(
        "Report how many leaves of a surrogate decision tree the tests reached", texts=False, panel="Output",
        more="This takes 20,000 more model rows.")] = False


@dataclass
class AboutTable(Table, name="about", comment="who audits what, and why; reports show it", panel="Output", on="audit"):
    """What the author of an audit says of it."""

    auditor: Annotated[str | None, Setting(
        "Who runs the audit; reports show it", "TEXT", "Model risk", python="run.annotate(auditor={})")] = None
    purpose: Annotated[str | None, Setting(
        "What the audit is for; reports show it", "TEXT", "Yearly review", python="run.annotate(purpose={})")] = None
    data_description: Annotated[str | None, Setting(
        "What the data are; reports show it", "TEXT", "Applications of 2025, all branches",
        python="run.annotate(data_description={})")] = None


@dataclass
class BudgetTable(
    Table, name="budget", comment="the first limit reached ends the run", panel="Budget", on="audit"):
    """When to stop."""

    tests: Annotated[int | None, Setting(
        "Stop after this many tests; 100000 if there is no budget", "N", 100000, flag="--budget-tests",
        on="audit repair", python="budget=eh.Budget(tests={})", ge=1)] = None
    rows: Annotated[int | None, Setting(
        "Stop after this many model rows", "N", 1000000, flag="--budget-rows",
        python="budget=eh.Budget(rows={})", ge=1)] = None
    findings: Annotated[int | None, Setting(
        "Stop after this many findings", "N", 1000, flag="--budget-findings",
        python="budget=eh.Budget(findings={})", ge=1)] = None
    seconds: Annotated[float | None, Setting(
        "Stop after this many seconds", "S", 60.0, flag="--budget-seconds", on="audit repair",
        python="budget=eh.Budget(seconds={})", gt=0)] = None
    requests: Annotated[int | None, Setting(
        "Stop after this many requests to an endpoint", "N", 10000, flag="--budget-requests",
        python="budget=eh.Budget(requests={})", ge=1)] = None


@dataclass
class EstimateTable(
    Table, name="estimate", comment="evenhand estimate {file}: how common discrimination is, and who is favoured",
    panel="Estimate"):
    """Which individuals to sample, when to stop, and the confidence."""

    population: Annotated[Literal["uniform", "data", "near"] | None, Setting(
        "Population: uniform (default), data (the rows) or near (rows changed by a few steps)", "NAME",
        "uniform", text_example="data", python="population={}")] = None
    about: Annotated[Literal["population", "rows"] | None, Setting(
        "With data: the 'population' that the rows come from (default), or the 'rows' themselves", "WHAT",
        "population", python="population=eh.populations.Data(data, about={})")] = None
    samples: Annotated[int | None, replace(SAMPLES, panel="Budget")] = None
    half_width: Annotated[float | None, Setting(
        "Stop when the interval is this narrow on both sides of the estimate", "W", 0.01, panel="Budget", gt=0,
        lt=0.5, python="stop=eh.StopRule(half_width={})")] = None
    seconds: Annotated[float | None, Setting(
        "Stop after this many seconds", "S", 60.0, panel="Budget", gt=0, python="stop=eh.StopRule(seconds={})")] = None
    exact: Annotated[bool | None, Setting(
        "Judge the whole space, or a sample; small spaces are exact by default", flag="--exact/--sample",
        texts=False, panel="Budget", python="population=eh.populations.Uniform(exact={})")] = None
    confidence: Annotated[float | None, replace(CONFIDENCE, on="estimate report")] = None
    interval: Annotated[Literal["clopper-pearson", "anytime", "lln"] | None, Setting(
        "Interval method: clopper-pearson, anytime or lln", "NAME", "anytime")] = None
    experiments: Annotated[int | None, Setting(
        "Experiments of lln; 400 by default", "K", 400, texts=False, ge=2,
        python='interval=eh.Interval("lln", experiments={})')] = None
    steps: Annotated[int | None, Setting(
        "With near: maximum steps by which rows are changed; 3 by default", "N", 3, texts=False, ge=1,
        python="population=eh.populations.Near(data, steps={})")] = None
    weights: Annotated[str | None, Setting(
        "Column with the weight of each row; it is not an attribute", "NAME", "weight", texts=False, panel="Data",
        python="population=eh.populations.Data(data, weights={})")] = None
    favourable: Annotated[Outcome | list[Outcome] | None, replace(FAVOURABLE, on="audit estimate report")] = None
    order: Annotated[list[Outcome] | None, replace(ORDER, on="audit estimate report")] = None
    tolerance: Annotated[float | None, Setting(
        "Report insufficient evidence until a higher rate can be ruled out; 0.01 by default", "RATE", 0.01, ge=0, lt=1,
        python="interval=eh.Interval(tolerance={})")] = None
    repeats: Annotated[int | None, Setting(
        "Repeat each query N times for non-deterministic models; by default chosen from their noise", "N", 20,
        panel="Model", more="With 1, a non-deterministic model is an error.", ge=1)] = None
    groups: Annotated[bool, Setting(
        "Add selection rates and impact ratios of groups; needs {data.path} and {estimate.favourable}", texts=False,
        panel="Output", more="Means for a regression. Needs the extra `fairness`.")] = False
    plots: Annotated[str | None, Setting(
        "Draw convergence, intervals and score differences as SVG files", "DIR", "plots", names="file", panel="Output",
        more="Needs the extra `plots`.")] = None
    report: Annotated[str | None, replace(REPORT, example="estimate.html")] = None
    fail_above: Annotated[str | None, Setting(
        "Exit with 1 if the rate is above this, with 3 if there are too few samples to tell", "N%", "5%",
        panel="Output", wants="a percentage, such as 5%")] = None


@dataclass
class ProveTable(
    Table, name="prove", comment="evenhand prove {file}: certain shares, with a certificate", panel="Budget",
    rows=True):
    """When to stop a proof, and where to keep it."""

    seconds: Annotated[float | None, Setting(
        "Stop after this many seconds with the bounds reached; 60 by default for forests and boosters", "S", 60.0,
        gt=0)] = None
    boxes: Annotated[int | None, Setting(
        "Stop at this many boxes, which limits the memory; 2000000 by default", "N", 2000000, ge=1)] = None
    save: Annotated[str | None, Setting(
        "Write the certificate, which 'evenhand check-proof' verifies", "FILE", "proof.json.gz", names="file",
        panel="Output", python="proof.save({})")] = None


@dataclass
class RepairTable(
    Table, name="repair", comment="evenhand repair {file}: compare ways to make the model fairer", panel="Search",
    rows=True):
    """Repair methods, the evidence to compare them, and where to save the result."""

    methods: Annotated[list[str], Setting(
        "retrain, augment, counterfactual, consistency or marginal; by default the quick ones", "NAME",
        ["marginal"],
        flag="--method", panel="Search")] = field(default_factory=list)
    strategy: Annotated[str | None, Setting(
        "Search that finds training rows; that of the method's paper by default", "NAME", "aequitas",
        panel="Search")] = None
    check: Annotated[str | None, Setting(
        "Search that tests the repaired model; kosei by default", "NAME", "kosei", panel="Search")] = None
    watch: Annotated[list[str] | None, Setting(
        "Attribute to check for discrimination that the repair may cause", "NAME", ["race"], panel="Estimate")] = None
    held_out: Annotated[float | None, Setting(
        "Share of rows kept for evidence; 0.3 by default", "SHARE", 0.3, panel="Data", gt=0, lt=1)] = None
    samples: Annotated[int | None, SAMPLES] = None
    confidence: Annotated[float | None, CONFIDENCE] = None
    favourable: Annotated[Outcome | list[Outcome] | None, FAVOURABLE] = None
    order: Annotated[list[Outcome] | None, ORDER] = None
    tolerate: Annotated[float, Setting(
        "Percentage points of accuracy that a repair may lose; 1 by default", "POINTS", panel="Search", ge=0)] = 1.0
    report: Annotated[str | None, replace(REPORT, example="repair.html")] = None
    save: Annotated[str | None, Setting(
        "Save the chosen model: .skops, .joblib or .pkl", "FILE", "fair.skops", names="file", panel="Output",
        more="The original if none is chosen.")] = None
    plot: Annotated[str | None, Setting(
        "Plot accuracy against discrimination: .svg, .png or .pdf", "FILE", "tradeoff.svg", names="file",
        panel="Output", more="Needs the extra `plots`.")] = None


@dataclass
class CompareTable(
    Table, name="compare",
    comment="evenhand compare RUN_A RUN_B --config {file}: what a newer model fixed, and what is new",
    panel="Model", rows=True):
    """The models of two runs, and how to compare them."""

    model_a: Annotated[str | None, Setting(
        "Older model; by default the one recorded in its run", "SPEC", "old.skops", names="model")] = None
    model_b: Annotated[str | None, Setting(
        "Newer model; by default the one recorded in its run", "SPEC", "new.skops", names="model")] = None
    threshold_a: Annotated[float | None, Setting("Decision threshold of the older model", "T", 0.5)] = None
    threshold_b: Annotated[float | None, Setting("Decision threshold of the newer model", "T", 0.5)] = None
    samples: Annotated[int | None, SAMPLES] = None
    confidence: Annotated[float | None, CONFIDENCE] = None
    report: Annotated[str | None, replace(REPORT, example="compare.html")] = None
    fail_on_new: Annotated[bool, Setting("Exit with 1 if there are new findings", panel="Output")] = False


@dataclass
class ExportTable(
    Table, name="export", comment="evenhand export RUN OUT... --config {file}: files for other programs",
    panel="Output"):
    """How to write a run for other programs."""

    format: Annotated[Literal["json", "csv", "parquet", "junit", "sarif", "markdown"] | None, Setting(
        "json, csv, parquet, junit, sarif or markdown; by default chosen by the file's ending", "NAME", "json")] = None
    max_findings: Annotated[int | None, Setting(
        "Maximum findings in JUnit and SARIF files; 1000 by default", "N", 1000, ge=1)] = None
    raw: Annotated[bool, Setting("Leave CSV cells that look like formulas unchanged")] = False
    artifact: Annotated[str | None, Setting(
        "File of your repository that SARIF results refer to", "FILE", "model.py")] = None


@dataclass
class BundleTable(
    Table, name="bundle", comment="evenhand bundle RUN --config {file}: evidence in one archive", panel="Output"):
    """What to put into an archive, and where."""

    output: Annotated[str | None, Setting(
        "Archive to write; RUN.zip in the current directory by default", "FILE", "run.zip", names="file")] = None
    model: Annotated[str | None, Setting(
        "Model file; by default the run's", "FILE", "model.skops", names="file", panel="Model")] = None
    data: Annotated[str | None, Setting(
        "Data rows; by default the run's", "FILE", "people.csv", names="file", panel="Data")] = None
    no_data: Annotated[bool, Setting("Leave out the data rows, and keep only their hash")] = False


@dataclass
class ReportTable(
    Table, name="report", comment="evenhand report RUN --config {file}: the report, also of evenhand audit",
    panel="Output"):
    """What a report shows, and where to write it."""

    title: Annotated[str | None, Setting("Heading; the model's name by default", "TEXT", "Loans, by sex")] = None
    examples: Annotated[int | None, Setting("Maximum examples to show; 4 by default", "N", 4, ge=1)] = None
    samples: Annotated[int | None, Setting(
        "Individuals per estimate; 20000 by default, fewer for slow models", "N", 20000, panel="Estimate",
        ge=100)] = None
    show_examples: Annotated[Literal["synthetic", "real", "none"], Setting(
        "Examples: 'synthetic' people (default), also 'real' ones of the data, or 'none'", "HOW",
        on="audit report export compare replay", python="show_examples={}")] = "synthetic"
    output: Annotated[str | None, Setting(
        "File to write; report.html by default", "FILE", "report.html", names="file")] = None


@dataclass
class ReplayTable(
    Table, name="replay", comment="evenhand replay RUN --config {file}: query the model about every finding again",
    panel="Output"):
    """What to compare a bundle with, and where to list the result for each finding."""

    digest: Annotated[str | None, Setting(
        "Expected digest of the bundle; fail if it differs", "SHA256", "...", panel="Data")] = None
    list: Annotated[str | None, Setting(
        "Write all findings as CSV, with yes or no for each", "FILE", "replayed.csv", names="file")] = None


@dataclass
class ReadTable(Table, name="read", comment="evenhand read RUN: a page to label findings of texts", panel="Output"):
    """For ``evenhand read RUN``: a page on which a person says which findings are sound."""

    count: Annotated[int, Setting("Findings on the page, drawn at random; 50 by default", "N", flag="--count,-n",
        ge=1)] = 50
    output: Annotated[str | None, Setting(
        "File to write; reading.html by default", "FILE", "reading.html", names="file")] = None
    labels: Annotated[str | None, Setting(
        "Answers that the page saved: keep them with the run, and state the precision", "FILE", "labels.json",
        names="file")] = None


@dataclass
class BenchTable(Table, name="bench", comment="how fast audits are on this machine", panel="Budget"):
    """For ``evenhand bench FILE``: how fast audits are on this machine."""

    seconds: Annotated[float, Setting("Seconds for each measurement; 5 by default", "S", gt=0)] = 5.0


@dataclass
class CallTable(Table, name="call", panel="Output"):
    """Settings of one call, which a file cannot have."""

    config: Annotated[str | None, Setting(
        "File written by 'evenhand init'; flags override it", "FILE",
        on="audit estimate prove repair compare report export bundle replay probe bench",
        argument="audit estimate prove repair bench")] = None
    url: Annotated[str, Setting(
        "URL of the endpoint, or of its server", on="probe", argument="probe", required="probe")] = ""
    run: Annotated[str, Setting(
        "Directory of a run", on="report export bundle replay read",
        argument="report export bundle replay read", required="report export bundle replay read")] = ""
    run_a: Annotated[str, Setting(
        "Directory of the older run", on="compare", argument="compare", required="compare")] = ""
    run_b: Annotated[str, Setting(
        "Directory of the newer run", on="compare", argument="compare", required="compare")] = ""
    out: Annotated[list[str], Setting(
        "Files to write: .json, .csv, .parquet, .xml, .sarif, .md", on="export", argument="export",
        required="export")] = field(default_factory=list)
    proof: Annotated[str, Setting(
        "Certificate that 'evenhand prove --save' wrote", on="check-proof", argument="check-proof",
        required="check-proof")] = ""
    trust_pickle: Annotated[bool, Setting(
        "Unpickle the model, which runs the code in it",
        on="audit estimate prove check-proof repair compare report replay bench",
        panel="Model")] = False
    trust: Annotated[list[str], Setting(
        "Type that a .skops file may create", "TYPE",
        on="audit estimate prove check-proof repair compare report replay bench",
        panel="Model")] = field(default_factory=list)
    resume: Annotated[bool, Setting(
        "Continue the run in {audit.directory}; an error if there is none", on="audit")] = False
    json: Annotated[bool, Setting(
        "Print the result as JSON",
        on="audit estimate prove check-proof repair compare bundle replay read bench report export init probe demo "
        "strategies datasets")] = False
    quiet: Annotated[bool, Setting(
        "Print only errors", flag="--quiet,-q",
        on="audit estimate prove check-proof repair compare report export bundle replay")] = False


@dataclass
class InitTable(Table, name="init", panel="Output"):
    """What ``evenhand init`` takes besides the settings that it writes."""

    text: Annotated[bool, Setting("The data are texts; a .txt file has one per line", panel="Data")] = False
    output: Annotated[str, Setting("File to write; evenhand.toml by default", "FILE")] = "evenhand.toml"
    force: Annotated[bool, Setting("Overwrite existing files")] = False


@dataclass
class DemoTable(Table, name="demo", panel="Output"):
    """How the demo runs."""

    text: Annotated[bool, Setting(
        "Show a neural net that reads comments instead; needs the extra text", panel="Model",
        more="It takes about a minute.")] = False
    directory: Annotated[str, Setting("Directory for the reports; evenhand-demo by default", "DIR")] = "evenhand-demo"
    no_report: Annotated[bool, Setting("Do not write reports")] = False


@dataclass
class ServeTable(Table, name="serve", panel="Output"):
    """How the service runs, and the account to add."""

    directory: Annotated[str, Setting(
        "Directory for uploads, runs and the database; evenhand-service by default", "DIR")] = "evenhand-service"
    host: Annotated[str, Setting(
        "Address to listen at; other machines reach only addresses other than 127.0.0.1", "ADDRESS")] = "127.0.0.1"
    port: Annotated[int, Setting("Port to listen at; 8000 by default, 0 for any free one", "N", ge=0, lt=65536)] = 8000
    database: Annotated[str | None, Setting(
        "PostgreSQL instead of a SQLite file in the directory", "URL",
        more="Better: the environment variable EVENHAND_DATABASE, which other users of the machine cannot see.")] = None
    workers: Annotated[int, Setting("Jobs that run at once; 2 by default", "N", ge=0)] = 2
    dask: Annotated[str | None, Setting(
        "Call models on the Dask cluster with this scheduler", "ADDRESS")] = None
    max_upload: Annotated[int, Setting("Maximum megabytes of an uploaded file; 200 by default", "MB", ge=1)] = 200
    max_memory: Annotated[int, Setting("Maximum megabytes of memory of a job; 4096 by default", "MB", ge=200)] = 4096
    max_seconds: Annotated[int, Setting("Maximum seconds of a job; six hours by default", "S", ge=1)] = 21600
    add_account: Annotated[str | None, Setting(
        "Add an account instead of serving; its password is asked for, or read from standard input", "NAME")] = None
    role: Annotated[Literal["viewer", "auditor", "admin"], Setting(
        "Role of the account: viewer, auditor or admin; admin by default", "ROLE")] = "admin"
    team: Annotated[str, Setting("Team of the account; it sees the projects of its team", "NAME")] = "default"


@dataclass
class Settings:
    """The values of all tables."""

    model: ModelTable = field(default_factory=ModelTable)
    data: DataTable = field(default_factory=DataTable)
    space: SpaceTable = field(default_factory=SpaceTable)
    text: TextTable | None = None
    endpoint: EndpointTable = field(default_factory=EndpointTable)
    run: RunTable = field(default_factory=RunTable)
    audit: AuditTable = field(default_factory=AuditTable)
    budget: BudgetTable = field(default_factory=BudgetTable)
    about: AboutTable = field(default_factory=AboutTable)
    estimate: EstimateTable = field(default_factory=EstimateTable)
    prove: ProveTable = field(default_factory=ProveTable)
    repair: RepairTable = field(default_factory=RepairTable)
    compare: CompareTable = field(default_factory=CompareTable)
    export: ExportTable = field(default_factory=ExportTable)
    bundle: BundleTable = field(default_factory=BundleTable)
    report: ReportTable = field(default_factory=ReportTable)
    replay: ReplayTable = field(default_factory=ReplayTable)
    read: ReadTable = field(default_factory=ReadTable)
    bench: BenchTable = field(default_factory=BenchTable)
    init: InitTable = field(default_factory=InitTable)
    demo: DemoTable = field(default_factory=DemoTable)
    serve: ServeTable = field(default_factory=ServeTable)
    call: CallTable = field(default_factory=CallTable)


MOST_USED = "Most used"
PANELS = (MOST_USED, "Model", "Data", "Search", "Budget", "Estimate", "Output")
"""Headings of the help, in their order."""
BOTH = "Use a configuration file, flags, or both: flags override the file."
STATUS = "Exit status: 0 done; "
NOTED = "Model; by default the one recorded in the run, if loading it runs no code"


@dataclass(frozen=True)
class Command:
    """A command of ``evenhand``; its settings are those that name it."""

    name: str
    panel: str
    summary: str
    details: tuple[str, ...] = ()
    first: str = ""
    """The ten most used settings, in this order; empty for commands with few settings."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The description of a setting, where it differs for this command."""

    @property
    def settings(self) -> list[Setting]:
        """All its settings: arguments, the most used ones, then the others by heading.

        >>> [setting.place for setting in COMMANDS["bundle"].settings][:3]
        ['call.run', 'bundle.model', 'bundle.data']
        """
        having = {place: setting for place, setting in SETTINGS.items() if self.name in setting.commands}
        arguments = [place for place, setting in having.items() if self.takes(setting)]
        order = {place: number for number, place in enumerate((*arguments, *self.first.split()))}
        own = sorted(having, key=lambda place: (order.get(place, len(order)), PANELS.index(having[place].panel)))
        return [having[place] for place in own]

    def takes(self, setting: Setting) -> bool:
        """Whether a setting is an argument without a flag."""
        return self.name in setting.argument.split()

    def metavar(self, setting: Setting) -> str:
        """Return the placeholder for an argument in the help.

        >>> COMMANDS["export"].metavar(SETTINGS["call.out"]), COMMANDS["init"].metavar(SETTINGS["data.path"])
        ('OUT...', 'DATA')
        """
        return (setting.key if setting.table == "call" else setting.table).upper() + "..." * setting.many

    def panels(self) -> dict[str, list[Setting]]:
        """Return its flags by heading.

        >>> list(COMMANDS["bundle"].panels())
        ['Model', 'Data', 'Output']
        """
        first = self.first.split()
        found: dict[str, list[Setting]] = {}
        for setting in self.settings:
            if not self.takes(setting):
                found.setdefault(MOST_USED if setting.place in first else setting.panel, []).append(setting)
        return found

    def help(self, setting: Setting) -> str:
        """Return the help of a flag for this command.

        >>> COMMANDS["init"].help(SETTINGS["space.exclude"])
        'Column that the model does not receive; repeatable'
        """
        return self.words.get(setting.place, setting.help) + ("; repeatable" if setting.many else "")

    @property
    def reads(self) -> list[Setting]:
        """Settings of other tables that the command reads from a file."""
        return [one for one in self.settings if one.table not in (self.name, "call")]


# fmt: off
COMMANDS: dict[str, Command] = {one.name: one for one in (
    Command("demo", "Start", "Audit models of two public data sets, end to end",
        ("Trains the models, searches, prints pairs of people that are treated differently, and writes reports.",)),
    Command("init", "Start", "Write an editable configuration for your data",
        ("The first file has the settings of audits, the second the valid individuals, as inferred from the data. "
         "With --text, one file has both.",),
        words={"data.path": "File with the data rows or, with --text, the texts"}),
    Command("probe", "Start", "Find out how to query a URL, and print a configuration",
        ("Sends a few rows or texts in the formats of common servers, and prints a configuration with the first format "
         "that works: evenhand probe URL --data people.csv > evenhand.toml. Headers with secrets come from --config.",),
        words={"data.path": "File with rows to send", "text.path": "File with texts to send"}),
    Command("audit", "Audit", "Search for people or texts that a model treats differently",
        (BOTH, STATUS + "1 a rate above --fail-above, a finding with --fail-on-finding, or a failed "
         "part of the report; 2 wrong usage or input; 3 too few tests to tell; 130 interrupted."),
        "model.path data.path data.target space.protected audit.strategy budget.tests audit.seed audit.directory "
        "audit.report audit.fail_above"),
    Command("estimate", "Audit", "Measure how common discrimination is, and who is favoured",
        (BOTH, STATUS + "1 a rate above --fail-above; 2 wrong usage or input; 3 too few samples to tell; "
         "130 interrupted."),
        "model.path data.path data.target space.protected estimate.population estimate.samples estimate.favourable "
        "estimate.groups estimate.fail_above audit.seed"),
    Command("prove", "Audit", "Prove who is treated differently, by reading the model",
        ("For linear models, decision trees, forests and gradient boosting, alone or behind transformers that compute "
         "each column from one attribute.",
         BOTH, STATUS + "1 someone is treated differently; 2 wrong usage or input; 3 undecided."),
        "model.path data.path data.target space.protected space.path space.exclude model.threshold prove.seconds "
        "prove.boxes prove.save"),
    Command("check-proof", "Audit", "Check the certificate of a proof against a model",
        ("The checker shares no code with the prover.", STATUS + "2 the certificate is refused, or wrong usage."),
        words={"model.path": "The model that the certificate is about"}),
    Command("repair", "Audit", "Make a model fairer in several ways, and compare the results",
        ("The model is an estimator, which is retrained on a part of the data, or a function train(X, y).",
         BOTH, STATUS + "2 wrong usage or input, or every method failed; 130 interrupted."),
        "model.path data.path data.target space.protected repair.methods repair.save repair.plot repair.tolerate "
        "budget.tests audit.seed",
        {"model.path": "Estimator: .skops, .joblib or .pkl file, or module:attribute",
         "budget.tests": "Stop each search after this many tests; 20000 by default"}),
    Command("bench", "Audit", "Measure how fast audits of your model are on this machine",
        ("Measures how many rows per second the model answers alone and in short audits. With --workers or --dask, "
         "also measures how much faster audits are with them.", BOTH),
        "model.path data.path data.target space.protected space.path run.workers run.dask "
        "model.threshold model.timeout bench.seconds",
        {"call.config": "File written by 'evenhand init'; flags override it"}),
    Command("compare", "Runs", "Show what a newer model fixed, and what is new",
        ("Queries each model about the findings of the other's run, and both about the same new individuals.",
         STATUS + "1 new findings with --fail-on-new; 2 wrong usage or input.")),
    Command("report", "Runs", "Write the report of a run, one HTML file",
        ("The parts that need the model or the data are left out without it, and the report lists them.",
         STATUS + "1 written, but parts of it failed; 2 wrong usage or input."),
        "report.output model.path data.path data.target estimate.favourable report.title report.examples "
        "report.samples report.show_examples audit.seed",
        {"model.path": NOTED, "data.path": "Data rows; by default those recorded in the run",
         "text.path": "Texts, for a run on texts; by default those recorded in the run"}),
    Command("export", "Runs", "Write a run as JSON, CSV, Parquet, JUnit XML, SARIF or Markdown",
        ("The ending of each file name selects the format.",)),
    Command("bundle", "Runs", "Pack a run into one archive that can be checked and replayed",
        ("Prints the digest of the archive. Keep it elsewhere: it shows later whether the archive was changed.",)),
    Command("replay", "Runs", "Query the model again about every finding of a run or bundle",
        ("Without --model, loads the run's own model if its file still exists and loading it runs no code, "
         "or the model in the bundle. A bundle is first checked against its manifest.",
         STATUS + "1 a finding is not confirmed or a part does not match; 2 wrong usage or input."),
        words={"model.path": NOTED, "data.path": "Data rows, to compare with a bundle that left them out",
               "call.run": "Directory of a run, or a bundle"}),
    Command("read", "Runs", "Write a page to label findings of texts as sound or not",
        ("The page shows random findings without the decisions. Save the answers on it, and give them with --labels: "
         "they are kept with the run, and its report states the precision with an interval.",)),
    Command("serve", "Start", "Run audits for a team, in the browser and by REST",
        ("Needs the extra service. Without accounts, the service can only be reached from this machine; with "
         "--add-account NAME, it adds one instead of starting.",)),
    Command("strategies", "Lists", "List the searches with their papers and settings"),
    Command("datasets", "Lists", "List the data sets of the package"),
)}
"""Every command by its name."""
