"""The command ``evenhand replay``."""

from __future__ import annotations

import typer

from evenhand.cli import options
from evenhand.cli.faults import FOUND


def replay(
    directory: options.RunDirectory,
    model: options.ReplayModel,
    threshold: options.Threshold = None,
    timeout: options.Timeout = None,
    trust_pickle: options.TrustPickle = False,
    trust: options.Trust = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask the model again about every finding of a kept run.

    Exit status: 0 all findings hold, 1 some do not, 2 wrong usage or input.
    """
    from evenhand.cli import summary
    from evenhand.cli.plan import Trust, get_model
    from evenhand.replaying import replay as again
    from evenhand.words import pairs_at

    done = again(directory, get_model(model, Trust(trust_pickle, trust or ()), quiet=quiet), threshold, timeout=timeout)
    examples = pairs_at(done.run, done.positions[:3])
    if as_json:
        summary.emit(
            {
                "directory": str(directory),
                "findings": done.run.found,
                "confirmed": done.confirmed,
                "refuted": done.refuted,
                "refuted_pairs": [pair.to_dict() for pair in examples],
            }
        )
    elif not quiet:
        typer.echo(f"{done.confirmed:,} of {done.run.found:,} findings confirmed, {done.refuted:,} not")
        if examples:
            typer.echo("The model no longer says this:")
            summary.show_pairs(examples, summary.console())
    if not done.holds:
        raise typer.Exit(FOUND)
