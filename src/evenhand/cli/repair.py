"""The command ``evenhand repair``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenhand._format import estimated, number
from evenhand._write import SHARED, reason, replacing
from evenhand.budget import Budget
from evenhand.cli.output import cell, check_place, console, echo_error, emit, fill, message, steps
from evenhand.cli.plan import check_column, get_criterion, get_rows, get_space, warn_pickle
from evenhand.config.file import Config, wish
from evenhand.config.schema import RepairTable
from evenhand.criteria import Criterion
from evenhand.errors import ConfigError, EvenhandError, MissingExtra, ModelError, RunError
from evenhand.estimates.plots import check_matplotlib
from evenhand.models.base import some
from evenhand.models.files import load_object
from evenhand.repairs.repair import METHODS, RepairOptions
from evenhand.repairs.repair import repair as repair_by
from evenhand.repairs.result import Repair
from evenhand.spaces.attributes import suggest
from evenhand.spaces.base import require
from evenhand.spaces.base import table as table_of
from evenhand.spaces.tabular import Space
from evenhand.strategies import make

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.repairs.evidence import Evidence

SAVED = (".skops", ".joblib", ".pkl", ".pickle")
DRAWN = (".svg", ".png", ".pdf")
OPTIONS = ("held_out", "confidence", "samples", "check", "watch")
"""Keys of [repair] that are fields of `RepairOptions`."""
ORIGINAL = "original"
HEAD = ("", "uniform", "data", "accuracy", "AUC", "rows added", "seconds", "moved to")


def repair(config: Config) -> None:
    """Repair by each method, and report what each changes and costs."""
    call, table = config.call, config.repair
    bench = set_up(config)
    done, failed = _compare(bench, config)
    # Everything is printed before files are written, so that nothing is lost if that fails.
    name, why = choose(done, table.tolerate, only=len(bench.methods) == 1)
    unchecked = unwatched(done, bench.space)
    if not (call.json or call.quiet):
        show(done, failed, unchecked, name, why)
    model = next(iter(done.values())).original if name == ORIGINAL else done[name].model
    written, faults = _write(model, done, table)
    if call.json:
        values = {
            "methods": {key: found.to_dict() for key, found in done.items()},
            "failed": failed,
            "chosen": name,
            "why": why,
            "tolerate": table.tolerate,
            "not_looked_at": unchecked,
            "saved": None,
            "plot": None,
        }
        emit(values | written)
        for key, fault in () if call.quiet else failed.items():
            echo_error(f"evenhand: {key} failed: {' '.join(fault.split())}")
    elif "saved" in written and not call.quiet:
        trust = f"; loading it needs --trust for {', '.join(written['trust'])}" if written["trust"] else ""
        _print([("saved", f"{written['saved']}{trust}")])
    if faults:
        raise faults[0]


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

    def repair(self, name: str, show: Callable[[str], None] | None) -> Repair:
        """Repair by one method; if it decides by estimates, these have as many samples as those of the evidence."""
        fields = METHODS[name].__dataclass_fields__
        given = {"samples": self.settings["options"].samples} if "samples" in fields else {}
        return repair_by(
            self.estimator,
            self.X,
            self.y,
            self.space,
            METHODS[name](**given),
            seed=self.seed,
            criterion=self.criterion,
            progress=None if show is None else lambda words: show(f"{name}: {words}"),
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
    if (wanted := wish(table)) is not None:
        options["favourable"] = wanted
    settings = table.given("strategy") | {"options": RepairOptions(**options)}
    if limits := config.budget.given():
        settings["budget"] = Budget(**limits)
    X, y = data[list(space.names)], data[data_table.target].to_numpy()
    methods = list(dict.fromkeys(table.methods)) or list(METHODS)
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


def _compare(bench: Workbench, config: Config) -> tuple[dict[str, Repair], dict[str, str]]:
    """Try each method; keep the errors of those that fail. If none works, the first error is raised."""
    done: dict[str, Repair] = {}
    failed: dict[str, EvenhandError] = {}
    with steps(not (config.call.quiet or config.call.json)) as show:
        for name in bench.methods:
            try:
                done[name] = bench.repair(name, show)
            except EvenhandError as error:
                failed[name] = error
    if not done:
        raise next(iter(failed.values()))
    # An unchanged model has the same figures, whichever method returns it.
    before = next(iter(done.values())).before
    done = {name: one if one.changed else replace(one, before=before, after=before) for name, one in done.items()}
    return done, {name: message(config.located(error)).removeprefix("evenhand: ") for name, error in failed.items()}


def choose(done: Mapping[str, Repair], tolerate: float, only: bool = False) -> tuple[str, str]:
    """Choose the repair with the largest significant reduction among those that lose no more accuracy than tolerated.

    Ties go to the one that loses less, then to the one that moves discrimination to fewer attributes. If no repair
    qualifies, the original is kept.
    """
    if only:
        return next(iter(done)), "it is the only method"
    within = f"at most {tolerate:g} point{'s' * (tolerate != 1)} of accuracy"
    good = []
    for name, one in done.items():
        change = one.differences["uniform"] or one.differences["data"]
        gain = one.differences["accuracy"]
        loss = 0.0 if gain is None else round(-100 * gain.value, 9)
        if change is not None and change.high < 0 and loss <= tolerate:
            good.append((change.value, loss, len(one.moved), name))
    if not good:
        return ORIGINAL, f"no method reduces the rate significantly and loses {within}"
    return min(good)[-1], f"largest significant reduction among the methods that lose {within}"


def unwatched(done: Mapping[str, Repair], space: Space) -> list[str]:
    """List the attributes that were not checked for discrimination that a repair may cause."""
    seen = {shift.attribute for one in done.values() for shift in one.shifts}
    # With a single protected attribute, all rates are about it.
    seen |= set(space.protected) if len(space.protected) == 1 else set()
    return [a.name for a in space.attributes if a.size > 1 and a.name not in seen]


def show(done: Mapping[str, Repair], failed: Mapping[str, str], unchecked: list[str], name: str, why: str) -> None:
    """Print the table, the verdict on each method, the attributes not checked, and the chosen method."""
    from rich import box
    from rich.table import Table

    out = console()
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in HEAD:
        table.add_column(title, no_wrap=not title, overflow="fold")
    for line in rows(done, failed):
        table.add_row(*map(cell, line))
    out.print("Rates of individuals treated differently: uniform random, and like the held-out rows; accuracy there.")
    out.print(table)
    verdicts = [(key, found.verdict) for key, found in done.items()]
    verdicts += [(key, f"failed: {' '.join(fault.split())}") for key, fault in failed.items()]
    if unchecked:
        verdicts.append(("not checked", f"whether discrimination moved to {some(unchecked)}; --watch NAME checks it"))
    _print([*verdicts, ("chosen", f"{name}: {why}")])


def rows(done: Mapping[str, Repair], failed: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Make the rows of the table: the original first, then one for each method."""
    original = next(iter(done.values()))
    out = [(ORIGINAL, *_figures(original.before), "", "", "")]
    for name, found in done.items():
        moved = ", ".join(found.moved) or ("-" if found.shifts else "not checked")
        shown = name if found.changed else f"{name} (unchanged)"
        out.append((shown, *_figures(found.after), f"{found.rows_added:,}", f"{found.seconds:.1f}", moved))
    return out + [(f"{name} (failed)", *("-",) * (len(HEAD) - 1)) for name in failed]


def _figures(evidence: Evidence) -> tuple[str, str, str, str]:
    def rate(found: Any) -> str:
        if found is None:
            return "-"
        return f"{estimated(found.rate, found.low, found.high)}{' exactly' if found.exact else ''}"

    right = evidence.accuracy
    accuracy = estimated(right.value, right.low, right.high)
    return rate(evidence.uniform), rate(evidence.data), accuracy, number(evidence.auc.value) if evidence.auc else "-"


def _print(lines: list[tuple[str, str]]) -> None:
    """Print sentences, each after its subject."""
    out = console()
    for key, text in lines:
        fill(f"{key}: {text}.", out, rest="  ")


def _write(model: Any, done: dict[str, Repair], table: RepairTable) -> tuple[dict[str, Any], list[EvenhandError]]:
    """Write the files that were asked for; return what was written, and the errors."""
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
    """Write a model; return the types that loading it from skops has to trust.

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
