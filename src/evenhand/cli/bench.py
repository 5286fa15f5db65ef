"""The command ``evenhand bench``."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evenhand._format import count, percent
from evenhand.budget import Budget
from evenhand.cli.output import console, emit, show_table
from evenhand.cli.plan import AuditPlan, make_plan
from evenhand.config.file import Config
from evenhand.engine.determinism import take
from evenhand.engine.judge import CHUNK, ModelProbe
from evenhand.models.executors import alone
from evenhand.runs.audit import audit
from evenhand.runs.run import Run
from evenhand.strategies import make

SEARCHES = ("themis", "kosei")


def bench(config: Config) -> None:
    """Measure the speed of a model and of audits, and show them."""
    plan, seconds = make_plan(config), config.bench.seconds
    here, own = alone(plan.model), own_speed(plan, seconds)
    names = SEARCHES if plan.space.supports("attributes") else (plan.space.default_strategy,)
    rows: list[dict[str, Any]] = []
    for name in names:
        rows.append({"search": name, "where": "this process", **speed(plan, name, here, seconds)})
        if plan.model.workers is not None:
            where = "cluster" if config.run.dask else f"{count(plan.model.workers.count)} processes"
            rows.append({"search": name, "where": where, **speed(plan, name, plan.model, seconds)})
            rows[-1]["speedup"] = rows[-1]["rows_per_second"] / rows[-2]["rows_per_second"]
    for row in rows:
        row["share"] = row["rows_per_second"] / own
    if config.call.json:
        emit({"model": plan.model.name, "rows_per_second": own, "audits": rows})
        return
    head = ["per second", "rows", "tests", "of the model alone"]
    lines = [[f"{plan.model.name}, alone", count(round(own)), "", ""]]
    for row in rows:
        speeds = [count(round(row[f"{what}_per_second"])) for what in ("rows", "tests")]
        lines.append([f"{row['search']}, {row['where']}", *speeds, percent(row["share"])])
    if plan.model.workers is not None:
        head.append("of one process")
        lines = [[*line, ""] for line in lines[:1]] + [
            [*line, f"{row['speedup']:.2f} times" if "speedup" in row else ""]
            for line, row in zip(lines[1:], rows, strict=True)
        ]
    show_table(head, lines, console(), right=range(1, len(head)))


def own_speed(plan: AuditPlan, seconds: float) -> float:
    """Return how many rows per second the model answers in this process, without an audit, in blocks like those of one.

    Individuals stand beside their counterparts, as in an audit: a forest answers similar rows faster.
    """
    batch = plan.model.chunk or CHUNK
    start = plan.space.bind(plan.data, alone(plan.model))
    probe = ModelProbe(alone(plan.model), start.bound, plan.criterion)
    people = start.bound.probes(start.people, max(1, batch // start.bound.width))
    some = start.bound.families(people, plan.seed).asked
    rows = take(some, np.resize(np.arange(len(some)), batch))
    size, began, asked, spent = 16, time.monotonic(), 0, 0.0
    while time.monotonic() - began < seconds:
        inputs, before = probe.inputs(rows[:size]), time.monotonic()
        probe.model.labels(inputs)
        taken = time.monotonic() - before
        # Calls that are still growing are not counted.
        asked, spent = (asked + size, spent + taken) if size == batch or taken > seconds / 8 else (size, taken)
        size = batch if size == batch or 4 * size > batch else 4 * size if taken < seconds / 16 else size
    return asked / spent


def speed(plan: AuditPlan, search: str, model: Any, seconds: float) -> dict[str, float]:
    """Return how many rows and tests per second an audit asks, including all its checks."""

    def run(budget: Budget) -> Run:
        return audit(model, plan.space, make(search), budget, plan.seed, plan.criterion, plan.data, confirm=1000)

    # Workers start and receive the model before the time is measured.
    run(Budget(tests=100))
    began = time.monotonic()
    done = run(Budget(seconds=seconds))
    taken = time.monotonic() - began
    return {
        "rows_per_second": (done.rows + done.rows_checked) / taken,
        "tests_per_second": done.tests / taken,
        "seconds": taken,
    }
