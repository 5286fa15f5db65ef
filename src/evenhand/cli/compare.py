"""The command ``evenhand compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.faults import FOUND
from evenhand.config.file import spell

if TYPE_CHECKING:
    from evenhand.config.file import Config
    from evenhand.estimates.compare import Compared

SHOWN = 3


def compare(config: Config) -> None:
    """Compare two runs, and report what was fixed and what is new."""
    from evenhand.cli import summary
    from evenhand.cli.plan import get_model
    from evenhand.estimates.compare import compare as judge
    from evenhand.estimates.plan import Plan
    from evenhand.runs.provenance import model_of
    from evenhand.runs.run import Run

    call, wanted = config.call, config.compare
    settings = wanted.given("samples", "confidence")
    with config.blamed("compare"):
        Plan(**settings)
    runs = [Run.load(Path(call.run_a)), Run.load(Path(call.run_b))]
    sides = (("model_a", wanted.model_a, wanted.threshold_a), ("model_b", wanted.model_b, wanted.threshold_b))
    models = []
    for run, (key, spec, threshold) in zip(runs, sides, strict=True):
        with config.named(f"compare.{key}"):
            model = None if spec is None else get_model(spec, call)
        models.append(model_of(run, model, threshold, trust=call.trust, name=spell(f"compare.{key}")))
    found = judge(*runs, *models, **settings, seed=config.audit.seed, timeout=config.model.timeout)
    if call.json:
        summary.emit({**_told(found), "fail_on_new": wanted.fail_on_new})
    elif not call.quiet:
        _show(found)
    if wanted.fail_on_new and len(found.new):
        raise typer.Exit(FOUND)


def _told(found: Compared) -> dict[str, Any]:
    from evenhand.words import pairs_at

    sides = {"fixed": found.run_a, "still": found.run_a, "new": found.run_b}
    pairs = {name: pairs_at(run, getattr(found, name)[:SHOWN]) for name, run in sides.items()}
    return found.to_dict() | {f"{name}_pairs": [pair.to_dict() for pair in some] for name, some in pairs.items()}


def _show(found: Compared) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from evenhand._format import interval, percent
    from evenhand.cli import summary
    from evenhand.words import pairs_at

    out, rates = summary.console(), found.rates
    summary.fill(out, found.sentence)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("", "first model", "second model"):
        table.add_column(Text(name), justify="left" if not name else "right")
    old, new = len(found.fixed) + len(found.still), len(found.new) + len(found.known)
    rows = [
        ("findings of its run", f"{old:,}", f"{new:,}"),
        ("of these, only by this model", f"{len(found.fixed):,} (fixed)", f"{len(found.new):,} (new)"),
        ("by both", f"{len(found.still):,}", f"{len(found.known):,}"),
        ("treated differently", percent(rates.rate_a), percent(rates.rate_b)),
    ]
    if not rates.exact:
        first, second = interval(rates.low_a, rates.high_a), interval(rates.low_b, rates.high_b)
        rows.append(("interval", first, second))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
    if len(found.new):
        out.print("New:")
        summary.show_pairs(pairs_at(found.run_b, found.new[:SHOWN]), out)
