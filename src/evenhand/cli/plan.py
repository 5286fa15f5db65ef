"""From a configuration to the arguments of an audit or an estimate: model, space, data, search and budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import plugins
from evenhand._validate import check_seed
from evenhand.budget import Budget
from evenhand.cli.output import echo_error
from evenhand.config.file import Config
from evenhand.config.schema import CallTable, EndpointTable, SpaceTable, TextTable
from evenhand.criteria import Criterion, Flip, Gap
from evenhand.engine.store import IDENTITY
from evenhand.errors import ConfigError, RunError, SpaceError, StrategyError
from evenhand.models.base import Model
from evenhand.models.endpoint import Endpoint
from evenhand.models.executors import connect
from evenhand.models.files import PICKLES, is_url, load_model
from evenhand.models.wrap import wrap
from evenhand.runs.audit import DEFAULT_TESTS, check_kind
from evenhand.search import Strategy
from evenhand.spaces.attributes import suggest
from evenhand.spaces.base import AnySpace
from evenhand.spaces.frames import pd, read_frame
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.lexicon import NAMES
from evenhand.spaces.text.readers import read_texts
from evenhand.spaces.text.space import TextSpace
from evenhand.spaces.text.templates import TextTemplates
from evenhand.strategies import kind_of, make


@dataclass(frozen=True)
class AuditPlan:
    """The arguments of ``eh.audit``, by their names."""

    model: Model
    space: AnySpace
    strategy: Strategy
    budget: Budget
    seed: int
    criterion: Criterion
    data: pd.DataFrame | list[str | None] | None
    directory: Path | None
    confirm: int | None


def make_plan(config: Config) -> AuditPlan:
    """Check and load everything that an audit needs, the quickest checks first."""
    audit = config.audit
    with config.named("audit.strategy"):
        kind_of(audit.strategy)
    with config.named("audit.settings"):
        strategy = make(audit.strategy, **audit.settings)
    criterion = get_criterion(config)
    check_seed(audit.seed, StrategyError)
    directory = None if audit.directory is None else Path(audit.directory)
    if config.call.resume:
        if directory is None:
            raise ConfigError("--resume needs a directory", remedy="give --directory DIR, or directory in [audit]")
        if not (directory / IDENTITY).exists():
            raise RunError(f"{directory} has no run to resume", remedy="leave out --resume to start one there")
    if config.model.path is None:
        raise ConfigError("no model", remedy="name one: --model FILE or MODULE:ATTRIBUTE, or path in [model]")
    space: AnySpace
    data: pd.DataFrame | list[str | None] | None
    if config.text is not None:
        space, data = get_texts(config, config.text)
        check_kind(space, strategy)
        model = _model(config, config.model.path)
    else:
        data = get_rows(config)
        model = _model(config, config.model.path)
        space = get_space(config, data, model.columns)
    budget = Budget(**config.budget.given() or {"tests": DEFAULT_TESTS})
    return AuditPlan(model, space, strategy, budget, audit.seed, criterion, data, directory, audit.confirm)


def get_criterion(config: Config) -> Criterion:
    """Make the criterion."""
    with config.named("audit.criterion"):
        return Flip() if config.audit.criterion == "flip" else Gap(float(config.audit.criterion))


def get_model(spec: str, call: CallTable, endpoint: EndpointTable | None = None) -> Model:
    """Load a model, with a warning if that runs code, or make one that asks an endpoint."""
    if is_url(spec):
        return get_endpoint(spec, endpoint or EndpointTable())
    warn_pickle(spec, call)
    return wrap(load_model(spec, trust_pickle=call.trust_pickle, trust=call.trust))


def get_endpoint(url: str, table: EndpointTable) -> Endpoint:
    """Make the model behind a URL."""
    given = table.given()
    protocol, mapping = given.pop("protocol", None), given.pop("mapping")
    return Endpoint(url, {"type": protocol or "json", **mapping} if mapping else protocol, **given)


def _model(config: Config, spec: str) -> Model:
    threshold = config.model.threshold
    with config.named("model.path"):
        loaded = get_model(spec, config.call, config.endpoint)
    with config.named("model.path" if threshold is None else "model.threshold"):
        wrapped = wrap(loaded, threshold=threshold, timeout=config.model.timeout, chunk=config.audit.chunk)
    return wrapped.on(get_executor(config))


def get_executor(config: Config) -> Executor | int | None:
    """Return the executor that calls the model: processes, a Dask cluster, or None for this process."""
    workers, address = config.run.workers, config.run.dask
    if address is None:
        return workers
    if workers is not None:
        raise ConfigError(f"{config.head}processes and a Dask cluster cannot be combined", remedy="name one of the two")
    with config.named("run.dask"):
        return connect(address)


def warn_pickle(spec: str, call: CallTable) -> None:
    """Warn if loading a model runs code."""
    if call.trust_pickle and spec.lower().endswith(PICKLES) and not call.quiet:
        echo_error(f"evenhand: warning: unpickling {spec} runs the code in it, because of --trust-pickle")


def get_rows(config: Config) -> pd.DataFrame | None:
    """Read the data rows, if there are any."""
    with config.named("data.path"):
        return None if config.data.path is None else read_frame(config.data.path)


def get_space(config: Config, data: Any, columns: Sequence[str] | None) -> AnySpace:
    """Load the space, or infer it from the data; ``columns`` are those that the model receives, if known."""
    table, target = config.space, config.data.target
    if table.path is not None:
        with config.named("space.path"):
            space = _load_space(table.path)
        if isinstance(space, Space):
            return _adapt(space, config)
        given = config.in_file.get("space", {}) | config.by_flag.get("space", {})
        if others := [name for name in given if name != "path"]:
            raise ConfigError(
                f"space.{others[0]} is for spaces with attributes, unlike {table.path}", remedy="leave it out"
            )
        return space
    if data is None:
        raise ConfigError(
            "no space to search",
            remedy="give --space FILE, or --data FILE and --protected NAME to infer one, or --texts FILE",
        )
    if not table.protected:
        raise ConfigError(
            f"no protected attribute; the data has {', '.join(map(str, data.columns[:12]))}",
            remedy="name one: --protected NAME",
        )
    _check_columns(config, data.columns, targets=[] if target is None else [target])
    exclude = [*table.exclude]
    if columns is not None:
        # Columns that the model does not receive must not be attributes: each pair would be found many times.
        known = {*columns, *table.protected, *table.exclude, target}
        exclude += [name for name in data.columns if name not in known]
    settings = {"exclude": exclude, "missing": table.missing, "constraints": table.constraints}
    return Space.infer(data, table.protected, target, **settings, **table.given("max_family_size"))  # type: ignore[arg-type]


def _load_space(path: str) -> AnySpace:
    """Load a file, or a space of any kind by ``module:attribute``."""
    if not plugins.is_spec(path) or Path(path).exists():
        return Space.load(path)
    found: Any = plugins.named(path, SpaceError)
    if not isinstance(found, AnySpace):
        raise SpaceError(
            f"{path} is a {type(found).__name__}, not a space", remedy="name an object such as an eh.Space"
        )
    return found


def _adapt(space: Space, config: Config) -> Space:
    """Apply the configuration to a space from a file; links of attributes that are no longer protected are dropped."""
    table, target = config.space, config.data.target
    if target in space.names and target not in table.exclude:
        echo_error(
            f"evenhand: warning: the space has {target!r}, which is what the model predicts; remove it from "
            f"{table.path}, or give --exclude {target}"
        )
    _check_columns(config, space.names)
    if not (table.protected or table.constraints or table.exclude or table.max_family_size or table.missing):
        return space
    protected = table.protected or list(space.protected)
    for name in table.exclude:
        space.column(name)
    kept = [a for a in space.attributes if a.name not in table.exclude]
    if table.missing is not None:
        missing = "drop" if table.missing == "drop" else True
        kept = [a.changed(missing=missing) if a.name in protected and not a.has_missing else a for a in kept]
    links = {
        name: {free: by for free, by in dependents.items() if free not in (*protected, *table.exclude)}
        for name, dependents in space.links.items()
        if name in protected
    }
    constraints = [*(c.text for c in space.constraints), *table.constraints]
    return Space(kept, protected, constraints, links, table.max_family_size or space.max_family_size)


def _check_columns(config: Config, known: Iterable[str], targets: Sequence[str] = ()) -> None:
    """Raise if a setting names an unknown column."""
    table: SpaceTable = config.space
    places = {"space.protected": table.protected, "space.exclude": table.exclude, "data.target": targets}
    for place, names in places.items():
        for name in names:
            with config.named(place):
                check_column(name, known)


def check_column(name: str, known: Iterable[str]) -> None:
    """Raise unless there is a column of that name.

    >>> check_column("agee", ["age", "work"])
    Traceback (most recent call last):
    evenhand.errors.ConfigError: no column 'agee'; did you mean 'age'?
    """
    if name not in known:
        raise ConfigError(f"no column {name!r}", remedy=suggest(name, known))


BUILT_IN = "built-in"


def get_texts(config: Config, table: TextTable) -> tuple[TextSpace, list[str | None]]:
    """Make the space of texts, and read the texts."""
    if table.path is None and table.templates is None:
        remedy = "name a file: --texts FILE, or path in [text]; --templates built-in needs none"
        raise ConfigError(f"{config.head}no texts", remedy=remedy)
    if not table.protected:
        raise ConfigError(
            f"{config.head}no lexicon",
            remedy="name one: --protected religion, or protected in [text]; "
            f"there are {', '.join(NAMES)}, and .toml files of your own",
        )
    if config.audit.coverage:
        raise ConfigError(f"{config.head}audit.coverage is for rows, and [text] names texts", remedy="leave it out")
    settings = {k: v for k, v in table.given().items() if k not in ("path", "column", "encoding", "templates")}
    if table.templates is not None:
        with config.named("text.templates"):
            own = None if table.templates == BUILT_IN else table.templates
            made = TextTemplates(templates=own, **settings)
        if table.path is None:
            return made, list(made.texts)
    with config.named("text.protected"):
        space = TextSpace(**settings)
    with config.named("text.similar"):
        _ = space.similar
    assert table.path is not None
    with config.named("text.path"):
        return space, read_texts(table.path, table.column, table.encoding)
