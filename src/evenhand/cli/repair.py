"""The command ``evenhand repair``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from evenhand._files import SHARED, reason, replacing
from evenhand.budget import Budget
from evenhand.cli.output import check_place, check_report, console, echo_error, emit, fill, message, steps, write_result
from evenhand.cli.plan import check_column, get_criterion, get_executor, get_rows, get_space, warn_pickle
from evenhand.config.file import Config, favourable_of
from evenhand.config.schema import RepairTable
from evenhand.criteria import Criterion
from evenhand.errors import ConfigError, EvenhandError, MissingExtra, ModelError, RunError
from evenhand.estimates.plots import check_matplotlib
from evenhand.models.base import some
from evenhand.models.files import load_object
from evenhand.repairs.repair import METHODS, RepairOptions
from evenhand.repairs.repair import repair as repair_by
from evenhand.repairs.result import Comparison, Repair, sentences
from evenhand.spaces.attributes import suggest
from evenhand.spaces.base import require
from evenhand.spaces.base import table as table_of
from evenhand.spaces.frames import pd
from evenhand.spaces.tabular import Space
from evenhand.strategies import make

SAVED = (".skops", ".joblib", ".pkl", ".pickle")
DRAWN = (".svg", ".png", ".pdf")
OPTIONS = ("held_out", "confidence", "samples", "check", "watch")
"""Keys of [repair] that are fields of `RepairOptions`."""


def repair(config: Config) -> None:
    """Apply each repair method, and report what it changes and costs."""
    call, table = config.call, config.repair
    check_report(table.report)
    bench = set_up(config)
    with steps(not (call.quiet or call.json)) as tell:
        best = bench.repair(tell)
    compared = best.comparison
    assert compared is not None
    failed = {name: _told(error, config) for name, error in compared.failed.items()}
    # Everything is printed before files are written, so that nothing is lost if that fails.
    unchecked = unwatched(compared.done, bench.space)
    if not (call.json or call.quiet):
        show(compared, failed, unchecked)
    write_result(compared, table.report)
    written, faults = _write(best.model, compared.done, table)
    if call.json:
        values = {
            "methods": {key: found.to_dict() for key, found in compared.done.items()},
            "failed": failed,
            "chosen": compared.chosen,
            "why": compared.why,
            "tolerate": table.tolerate,
            "not_looked_at": unchecked,
            "saved": None,
            "plot": None,
        }
        emit(values | written)
        for key, fault in () if call.quiet else failed.items():
            echo_error(f"evenhand: {key} failed: {fault}")
    elif "saved" in written and not call.quiet:
        trust = f"; loading it needs --trust for {', '.join(written['trust'])}" if written["trust"] else ""
        _print([("saved", f"{written['saved']}{trust}")])
    if faults:
        raise faults[0]


def _told(error: EvenhandError, config: Config) -> str:
    return " ".join(message(config.located(error)).removeprefix("evenhand: ").split())


@dataclass(frozen=True)
class Workbench:
    """An estimator or a training function, rows with labels, and the settings of a repair."""

    estimator: Any
    X: pd.DataFrame
    y: Any
    space: Space
    methods: list[str]
    criterion: Criterion
    seed: int
    settings: dict[str, Any]

    def repair(self, tell: Callable[[str], None] | None) -> Repair:
        """Apply each method; the estimates that methods use have as many samples as those of the evidence."""
        samples = self.settings["options"].samples
        methods = [
            METHODS[name](**({"samples": samples} if "samples" in METHODS[name].__dataclass_fields__ else {}))
            for name in self.methods
        ]
        return repair_by(
            self.estimator,
            self.X,
            self.y,
            self.space,
            methods or None,
            seed=self.seed,
            criterion=self.criterion,
            progress=tell,
            **self.settings,
        )


def set_up(config: Config) -> Workbench:
    """Check and load everything that a repair needs, the quickest checks first."""
    table, data_table = config.repair, config.data
    if config.text is not None:
        raise ConfigError(f"{config.head}'evenhand repair' is for rows, and [text] names texts", remedy="use [data]")
    _check(table, config)
    if config.model.path is None:
        raise ConfigError("no model to repair", remedy="name one: --model FILE or MODULE:ATTRIBUTE, or path in [model]")
    data = get_rows(config)
    if data is None or data_table.target is None:
        raise ConfigError("a repair trains on labelled rows", remedy="give --data FILE --target NAME")
    if config.model.threshold is not None:
        raise ConfigError(
            "a repair uses the estimator's own decisions, not a threshold",
            remedy="leave threshold out, or put it into the estimator (scikit-learn's FixedThresholdClassifier)",
        )
    with config.named("data.target"):
        check_column(data_table.target, list(data.columns))
    with config.named("model.path"):
        warn_pickle(config.model.path, config.call)
        estimator = load_object(config.model.path, trust_pickle=config.call.trust_pickle, trust=config.call.trust)
    names = getattr(estimator, "feature_names_in_", None)
    found = get_space(config, data, None if names is None else tuple(map(str, names)))
    require(found, "attributes", "evenhand repair")
    space = table_of(found)
    if lacking := [name for name in space.names if name not in data.columns]:
        raise ConfigError(f"the data lacks columns of the space: {some(lacking)}", remedy="add or --exclude them")
    if unlabelled := int(data[data_table.target].isna().sum()):
        raise ConfigError(
            f"{unlabelled:,} of {len(data):,} rows have no {data_table.target!r}", remedy="leave these rows out"
        )
    options = table.given(*OPTIONS)
    if (wanted := favourable_of(table)) is not None:
        options["favourable"] = wanted
    options["tolerate"] = table.tolerate
    settings = table.given("strategy") | {"options": RepairOptions(**options)}
    settings["executor"] = get_executor(config)
    if limits := config.budget.given():
        settings["budget"] = Budget(**limits)
    X, y = data[list(space.names)], data[data_table.target].to_numpy()
    methods = list(dict.fromkeys(table.methods))
    return Workbench(estimator, X, y, space, methods, get_criterion(config), config.audit.seed, settings)


def _check(table: RepairTable, config: Config) -> None:
    with config.named("repair.methods"):
        for name in table.methods:
            if name not in METHODS:
                raise ConfigError(f"no method {name!r}", remedy=suggest(name, list(METHODS)))
    for place, strategy in (("repair.strategy", table.strategy), ("repair.check", table.check)):
        with config.named(place):
            if strategy is not None:
                make(strategy)
    if table.save is not None:
        with config.named("repair.save"):
            check_place(Path(table.save), SAVED)
            if table.save.lower().endswith(".skops"):
                _check_skops()
    if table.plot is not None:
        with config.named("repair.plot"):
            check_place(Path(table.plot), DRAWN)
        check_matplotlib()


def unwatched(done: Mapping[str, Repair], space: Space) -> list[str]:
    """List the attributes that were not checked for discrimination that a repair may cause."""
    seen = {shift.attribute for one in done.values() for shift in one.shifts}
    # With a single protected attribute, all rates refer to it.
    seen |= set(space.protected) if len(space.protected) == 1 else set()
    return [a.name for a in space.attributes if a.size > 1 and a.name not in seen]


def show(compared: Comparison, failed: Mapping[str, str], unchecked: list[str]) -> None:
    """Print the table, the verdict on each method, the attributes not checked, and the choice."""
    console().print(compared.table, highlight=False, markup=False, soft_wrap=True)
    verdicts = [(key, found.verdict) for key, found in compared.done.items()]
    verdicts += [(key, f"failed: {fault}") for key, fault in failed.items()]
    if unchecked:
        verdicts.append(("not checked", f"whether discrimination moved to {some(unchecked)}; --watch NAME checks it"))
    _print(verdicts)
    for sentence in sentences(replace(compared, failed={})):
        fill(sentence, console(), rest="  ")


def _print(lines: list[tuple[str, str]]) -> None:
    """Print sentences, each after its heading."""
    out = console()
    for key, text in lines:
        fill(f"{key}: {text}.", out, rest="  ")


def _write(model: Any, done: Mapping[str, Repair], table: RepairTable) -> tuple[dict[str, Any], list[EvenhandError]]:
    """Write the requested files; return the names of the written ones, and the errors."""
    written: dict[str, Any] = {}
    faults: list[EvenhandError] = []
    for key, name in (("saved", table.save), ("plot", table.plot)):
        try:
            if name is not None and key == "saved":
                written["trust"] = save(model, Path(name))
            elif name is not None:
                draw(done, Path(name))
        except EvenhandError as error:
            faults.append(error)
        else:
            written |= {} if name is None else {key: name}
    return written, faults


def save(model: Any, path: Path) -> list[str]:
    """Write a model; return the types to trust when loading it from a skops file.

    An existing file is replaced only after the new one has been loaded back.
    """
    try:
        with replacing(path, SHARED) as draft:
            return _skops(model, draft) if path.suffix.lower() == ".skops" else _joblib(model, draft)
    except MissingExtra:
        raise
    except Exception as error:
        gist = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise RunError(
            f"cannot save the {type(model).__name__} to {path} ({gist})", remedy=_advice(path, error)
        ) from error


def _check_skops() -> None:
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", "writing a .skops file")


def _joblib(model: Any, draft: IO[bytes]) -> list[str]:
    import joblib

    joblib.dump(model, draft)
    draft.seek(0)
    joblib.load(draft)
    return []


def _skops(model: Any, draft: IO[bytes]) -> list[str]:
    _check_skops()
    import skops.io

    from evenhand.models.files import HARMLESS, OWN, TREES, check_trees

    stored = skops.io.dumps(model)
    draft.write(stored)
    named = skops.io.get_untrusted_types(data=stored)
    known = {*OWN, *HARMLESS, *TREES}
    try:
        check_trees(skops.io.loads(stored, trusted=named))
    except ModelError:
        known -= set(TREES)
    return sorted(set(named) - known)


def _advice(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return "name a file that can be written: --save"
    own = "repair in Python and save the model as its library does"
    if path.suffix.lower() == ".skops":
        return f"name a .joblib file, or {own}"
    return f"use a function at the top of a module instead of one made in training, or {own}"


def draw(done: Mapping[str, Repair], path: Path) -> None:
    """Write the plot of accuracy against rates."""
    from evenhand.repairs.result import tradeoff

    try:
        with replacing(path) as file:
            tradeoff(done).savefig(file, format=path.suffix.removeprefix(".").lower())
    except OSError as error:
        raise RunError(
            f"cannot write the plot to {path}: {reason(error)}", remedy="name another file: --plot"
        ) from error
