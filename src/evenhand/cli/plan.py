"""From a checked configuration to everything that an audit is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import plugins
from evenhand.budget import Budget
from evenhand.cli.app import tell
from evenhand.cli.output import check_place
from evenhand.cli.repair import check_writable
from evenhand.config.file import Config, wish
from evenhand.config.schema import CallTable, SpaceTable, TextTable
from evenhand.criteria import Criterion, Flip, Gap
from evenhand.engine.judge import CHUNK
from evenhand.engine.store import IDENTITY
from evenhand.errors import ConfigError, RunError, SpaceError
from evenhand.estimates.plan import Plan
from evenhand.models.base import Model
from evenhand.models.files import load_model, load_object
from evenhand.models.wrap import wrap
from evenhand.repairs.mending import METHODS, repair
from evenhand.runs.run import DEFAULT_TESTS, check_arguments, check_kind
from evenhand.search import Strategy
from evenhand.spaces.attributes import suggest
from evenhand.spaces.base import AnySpace, require
from evenhand.spaces.base import table as table_of
from evenhand.spaces.frames import read_frame
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.lexicon import NAMES
from evenhand.spaces.text.readers import read_texts
from evenhand.spaces.text.space import TextSpace
from evenhand.strategies import make

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.repairs.result import Repair


PICKLES = (".joblib", ".pkl", ".pickle")


@dataclass(frozen=True)
class AuditPlan:
    """The arguments of an audit."""

    model: Model
    space: AnySpace
    strategy: Strategy
    budget: Budget
    seed: int
    criterion: Criterion
    data: pd.DataFrame | list[str | None] | None
    directory: Path | None
    chunk: int
    timeout: float | None
    confirm: int | None


def make_plan(config: Config) -> AuditPlan:
    """Check and load everything that an audit needs, what is quick to check first."""
    audit = config.audit
    chunk = CHUNK if audit.chunk is None else audit.chunk
    limits = config.budget.given()
    with config.blamed("audit"):
        strategy = make(audit.strategy, **audit.settings)
        criterion = Flip() if audit.criterion == "flip" else Gap(float(audit.criterion))
        check_arguments(audit.seed, chunk, None, criterion, None, None)
    with config.blamed("budget"):
        budget = Budget(**limits) if limits else Budget(tests=DEFAULT_TESTS)
    with config.blamed("model"):
        check_arguments(audit.seed, chunk, None, None, config.model.timeout, None)
    directory = None if audit.directory is None else Path(audit.directory)
    if config.call.resume:
        check_resumable(directory)
    if config.model.path is None:
        raise ConfigError("no model; name one: --model FILE or MODULE:ATTRIBUTE, or path in [model]")
    space: AnySpace
    data: pd.DataFrame | list[str | None] | None
    if config.text is not None:
        space, data = get_texts(config)
        check_kind(space, strategy)
        model = _model(config, config.model.path)
    else:
        with config.named("data.path"):
            data = None if config.data.path is None else read_frame(config.data.path)
        model = _model(config, config.model.path)
        space = get_space(config, data, model.columns)
    return AuditPlan(
        model,
        space,
        strategy,
        budget,
        audit.seed,
        criterion,
        data,
        directory,
        chunk,
        config.model.timeout,
        audit.confirm,
    )


def check_resumable(directory: Path | None) -> None:
    """Raise unless there is a run to go on with."""
    if directory is None:
        raise ConfigError("--resume needs the directory of the run: --directory DIR, or directory in [audit]")
    if not (directory / IDENTITY).exists():
        raise RunError(f"{directory} holds no run to resume; leave --resume out to start one there")


def get_model(spec: str, call: CallTable) -> Model:
    """Load a model, with a warning where that runs code."""
    warn(spec, call)
    return wrap(load_model(spec, trust_pickle=call.trust_pickle, trust=call.trust))


def _model(config: Config, spec: str) -> Model:
    """Load the model that the configuration names, by its threshold."""
    threshold = config.model.threshold
    with config.named("model.path"):
        warn(spec, config.call)
        loaded = load_model(spec, trust_pickle=config.call.trust_pickle, trust=config.call.trust)
    with config.named("model.path" if threshold is None else "model.threshold"):
        return wrap(loaded, threshold=threshold)


def get_object(spec: str, call: CallTable) -> Any:
    """Load what can be trained, as it is, with a warning where that runs code."""
    warn(spec, call)
    return load_object(spec, trust_pickle=call.trust_pickle, trust=call.trust)


def warn(spec: str, call: CallTable) -> None:
    """Warn where loading a model runs code."""
    if call.trust_pickle and spec.lower().endswith(PICKLES) and not call.quiet:
        tell(f"evenhand: warning: unpickling {spec} runs whatever code is in it, because of --trust-pickle")


def get_space(config: Config, data: Any, columns: Sequence[str] | None) -> AnySpace:
    """Load the space, or infer it from the data; ``columns`` are those that the model knows, where it says."""
    table = config.space
    if table.path is not None:
        with config.named("space.path"):
            loaded = _load_space(table.path)
        if not isinstance(loaded, Space):
            said = config.in_file.get("space", {}) | config.by_flag.get("space", {})
            given = [name for name in said if name != "path"]
            if given:
                raise ConfigError(
                    f"space.{given[0]} is for spaces of attributes, and {table.path} is another kind; leave it out"
                )
            return loaded
        if config.data.target in loaded.names and config.data.target not in table.exclude:
            tell(
                f"evenhand: warning: the space has {config.data.target!r}, which is what the model predicts; leave it "
                f"out of {table.path}, or say --exclude {config.data.target}"
            )
        _check_columns(config, loaded.names, {"space.protected": table.protected, "space.exclude": table.exclude})
        return _changed(loaded, table)
    if data is None:
        raise ConfigError(
            "no space to search; give --space FILE, or --data FILE and --protected NAME to infer one, or --texts FILE"
        )
    if not table.protected:
        raise ConfigError(
            f"no protected attribute; name one: --protected NAME; the data has {', '.join(map(str, data.columns[:12]))}"
        )
    target = [] if config.data.target is None else [config.data.target]
    asked = {"space.protected": table.protected, "space.exclude": table.exclude, "data.target": target}
    _check_columns(config, data.columns, asked)
    exclude = [*table.exclude, *_unseen(data, columns, config)]
    limit: dict[str, Any] = {} if table.limit is None else {"limit": table.limit}
    return Space.infer(
        data,
        table.protected,
        config.data.target,
        exclude=exclude,
        missing=table.missing,
        constraints=table.constraints,
        **limit,
    )


def _load_space(path: str) -> AnySpace:
    """Load a file, or the space of any kind that ``module:attribute`` names."""
    if not plugins.is_spec(path) or Path(path).exists():
        return Space.load(path)
    found: Any = plugins.named(path, SpaceError)
    if not isinstance(found, AnySpace):
        raise SpaceError(f"{path} is a {type(found).__name__} and not a space; name an object such as an eh.Space")
    return found


def _check_columns(config: Config, known: Iterable[str], asked: Mapping[str, Sequence[str]]) -> None:
    """Raise where a key names a column that there is not."""
    for place, names in asked.items():
        for name in names:
            with config.named(place):
                if name not in known:
                    raise ConfigError(f"no column {name!r}; {suggest(name, known)}")


def get_texts(config: Config) -> tuple[TextSpace, list[str | None]]:
    """Make the space of texts, and read the texts."""
    table = config.text
    assert table is not None
    if table.path is None:
        raise ConfigError(f"{config.head}no texts; name a file: --texts FILE, or path in [text]")
    if not table.protected:
        known = ", ".join(NAMES)
        raise ConfigError(
            f"{config.head}nothing is protected; name a lexicon: --protected religion, or protected in [text]; "
            f"there are {known}, and .toml files of your own"
        )
    if config.audit.coverage:
        raise ConfigError(f"{config.head}audit.coverage is for rows of a table, and [text] names texts; leave it out")
    space = text_space(table, config)
    with config.named("text.path"):
        return space, read_texts(table.path, table.column, table.encoding)


def text_space(table: TextTable, config: Config) -> TextSpace:
    """Make the space that a table describes; an error names the key."""
    settings = {key: value for key, value in table.given().items() if key not in ("path", "column", "encoding")}
    with config.named("text.protected"):
        space = TextSpace(**settings)
    with config.named("text.similar"):
        _ = space.similar
    return space


def _unseen(data: Any, columns: Sequence[str] | None, config: Config) -> list[str]:
    """Columns that the model never sees are no attributes: to vary them would find the same pair again and again."""
    if columns is None:
        return []
    known = {*columns, *config.space.protected, *config.space.exclude, config.data.target}
    return [name for name in data.columns if name not in known]


def _changed(space: Space, table: SpaceTable) -> Space:
    """Put what the configuration says over a space from a file; links of what is no longer protected go."""
    if not (table.protected or table.constraints or table.exclude or table.limit or table.missing):
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
    return Space(kept, protected, constraints, links, table.limit or space.limit)


SAVED = (".skops", ".joblib", ".pkl", ".pickle")
PASSED_ON = {"held_out", "confidence", "samples", "strategy", "check", "watch"}
"""Keys of [repair] that are arguments of `eh.repair` as they are."""
DRAWN = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Workbench:
    """An estimator or a training function, rows with labels, and what all methods share."""

    estimator: Any
    X: pd.DataFrame
    y: Any
    space: Space
    methods: list[str]
    criterion: Criterion
    seed: int
    settings: dict[str, Any]

    def repair(self, name: str, say: Callable[[str], object] | None) -> Repair:
        """Repair by one method; where it decides by estimates, these have as many samples as those of the evidence."""
        fields = METHODS[name].__dataclass_fields__
        given = {"samples": self.settings["samples"]} if {"samples"} <= fields.keys() & self.settings.keys() else {}
        method = METHODS[name](**given)

        def tell(words: str) -> None:
            if say is not None:
                say(f"{name}: {words}")

        return repair(
            self.estimator,
            self.X,
            self.y,
            self.space,
            method,
            seed=self.seed,
            criterion=self.criterion,
            progress=tell,
            **self.settings,
        )


def set_up(config: Config) -> Workbench:
    """Check and load everything that a repair needs, what is quick to check first."""
    table, audit = config.repair, config.audit
    methods = list(dict.fromkeys(table.methods)) or list(METHODS)
    with config.blamed("repair"):
        for name in methods:
            if name not in METHODS:
                raise ConfigError(f"no method {name!r}; {suggest(name, list(METHODS))}")
        for strategy in filter(None, (table.strategy, table.check)):
            make(strategy)
        Plan(**table.given("samples", "confidence"))
    with config.named("repair.save"):
        _check_place(table.save, SAVED)
    with config.named("repair.plot"):
        _check_place(table.plot, DRAWN)
    if table.save is not None:
        check_writable(Path(table.save))
    if config.model.path is None:
        raise ConfigError("no model to repair; name one: --model FILE or MODULE:ATTRIBUTE, or path in [model]")
    if config.data.path is None or config.data.target is None:
        raise ConfigError("a repair trains anew, so it needs rows and what is right: --data FILE --target NAME")
    if config.model.threshold is not None:
        raise ConfigError(
            "a repair goes by the estimator's own decisions, not by a threshold from outside; leave threshold out,\n"
            "or put it into the estimator (scikit-learn's FixedThresholdClassifier)"
        )
    with config.named("data.path"):
        data = read_frame(config.data.path)
    with config.named("data.target"):
        if config.data.target not in data.columns:
            raise ConfigError(f"no column {config.data.target!r}; {suggest(config.data.target, list(data.columns))}")
    with config.named("model.path"):
        estimator = get_object(config.model.path, config.call)
    names = getattr(estimator, "feature_names_in_", None)
    found = get_space(config, data, None if names is None else tuple(map(str, names)))
    require(found, "attributes", "evenhand repair")
    space = table_of(found)
    lacking = [name for name in space.names if name not in data.columns]
    if lacking:
        raise ConfigError(f"the data lacks {', '.join(map(repr, lacking[:8]))}, which the space has")
    unlabelled = data[config.data.target].isna().to_numpy()
    if unlabelled.any():
        raise ConfigError(
            f"{int(unlabelled.sum()):,} of {len(data):,} rows have no {config.data.target!r}; leave them out"
        )
    settings = table.given(*PASSED_ON)
    if (wanted := wish(table)) is not None:
        settings["favourable"] = wanted
    with config.blamed("budget"):
        if limits := config.budget.given():
            settings["budget"] = Budget(**limits)
    with config.blamed("audit"):
        criterion = Flip() if audit.criterion == "flip" else Gap(float(audit.criterion))
        check_arguments(audit.seed, CHUNK, None, None, None, None)
    y = data[config.data.target].to_numpy()
    return Workbench(estimator, data[list(space.names)], y, space, methods, criterion, audit.seed, settings)


def _check_place(name: str | None, endings: tuple[str, ...]) -> None:
    """Find out before the work, not after it, that a file has no place."""
    if name is None:
        return
    path = Path(name)
    if path.suffix.lower() not in endings:
        raise ConfigError(f"{name}: the name must end with one of {', '.join(endings)}")
    check_place(path)
