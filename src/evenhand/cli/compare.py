"""The command ``evenhand compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli import options
from evenhand.cli.faults import FOUND

if TYPE_CHECKING:
    from evenhand.comparing import Compared

SHOWN = 3


def compare(
    run_a: options.EarlierRun,
    run_b: options.LaterRun,
    model_a: options.ModelA = None,
    model_b: options.ModelB = None,
    threshold_a: options.ThresholdA = None,
    threshold_b: options.ThresholdB = None,
    samples: options.Samples = None,
    confidence: options.Confidence = None,
    seed: options.Seed = None,
    timeout: options.Timeout = None,
    trust_pickle: options.TrustPickle = False,
    trust: options.Trust = None,
    fail_on_new: options.FailOnNew = False,
    config: options.ConfigOption = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a later model has fixed and what is new, by a kept run of each.

    Each run's findings are judged by the other model, and both judge the same fresh individuals.

    Exit status: 0 done, 1 new findings with --fail-on-new, 2 wrong usage or input.
    """
    given = locals()
    from evenhand.cli import summary
    from evenhand.cli.config import read
    from evenhand.cli.places import said
    from evenhand.cli.plan import Trust, get_model
    from evenhand.comparing import compare as judge
    from evenhand.measuring.plan import Plan
    from evenhand.run import Run
    from evenhand.sources import model_of

    chosen = read(config, said("compare", given))
    wanted = chosen.compare
    settings = wanted.model_dump(exclude_none=True, include={"samples", "confidence"})
    with chosen.blamed("compare"):
        Plan(**settings)
    runs = [Run.load(run_a), Run.load(run_b)]
    sides = ((wanted.model_a, wanted.threshold_a, "--model-a"), (wanted.model_b, wanted.threshold_b, "--model-b"))
    models = []
    for run, (spec, threshold, name) in zip(runs, sides, strict=True):
        with chosen.named(f"compare.{name[2:].replace('-', '_')}"):
            model = None if spec is None else get_model(spec, Trust(trust_pickle, trust or ()), quiet=quiet)
        models.append(model_of(run, model, threshold, trust=trust or (), name=name))
    found = judge(*runs, *models, **settings, seed=chosen.audit.seed, timeout=chosen.model.timeout)
    if as_json:
        summary.emit({**_told(found), "fail_on_new": wanted.fail_on_new})
    elif not quiet:
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
