"""From a checked configuration to everything that a repair is called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.budget import Budget
from evenhand.cli.plan import get_object, get_space
from evenhand.cli.saving import check_writable
from evenhand.cli.writing import check_place
from evenhand.config.file import Config, wish
from evenhand.criteria import Criterion, Flip, Gap
from evenhand.engine.judge import CHUNK
from evenhand.errors import ConfigError
from evenhand.estimates.plan import Plan
from evenhand.repairs.mending import METHODS, repair
from evenhand.runs.run import check_arguments
from evenhand.spaces.attributes import suggest
from evenhand.spaces.base import require
from evenhand.spaces.base import table as table_of
from evenhand.spaces.frames import read_frame
from evenhand.spaces.tabular import Space
from evenhand.strategies import make

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.repairs.result import Repair

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
